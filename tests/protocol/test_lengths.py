"""Readers that trust no length: what a partner announces or sends costs no more than the session's own sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pytest

from colonnade.foundation.errors import MessageError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.fit import FitServer
from colonnade.protocol.messages import Assembly, Envelope, Piece, Step, body_of, encode_body
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.transport.in_process import InProcess
from tests.helpers.conversations import NAMES, PLANS, predict_conversation
from tests.protocol.test_session_audit import CHEAT, LATTICE, fit_task

MEGABYTE = 1 << 20


@pytest.mark.parametrize("behind", [1, 64 * MEGABYTE], ids=["a byte", "64 MB"])
def test_a_submission_carries_nothing_behind_its_words(behind: int) -> None:
    """The lattice's payload is empty: 8 GiB could be gathered before."""
    taken = 0

    def wire(envelope: Envelope, up: bool) -> Iterator[Envelope]:
        nonlocal taken
        if not (up and envelope.step is Step.SUBMIT and envelope.sender == CHEAT):
            yield envelope
            return
        piece, rest = body_of(envelope, Piece), range(0, behind, 16 * MEGABYTE)
        yield msgspec.structs.replace(envelope, body=encode_body(Piece(0, len(rest) + 1, piece.data)))
        for number in range(len(rest)):
            taken += not server.over
            more = bytes(min(16 * MEGABYTE, behind))
            yield msgspec.structs.replace(envelope, body=encode_body(Piece(number + 1, len(rest) + 1, more)))

    task = FitServer(LATTICE, "none", PLANS)
    server = ServerRole(task, Randomness())
    roles = {name: PartyRole(fit_task(name, False), Randomness()) for name in NAMES}
    with pytest.raises(MessageError, match="pieces must come in order and within"):
        InProcess(server, roles, wire).carry()
    # The first piece too many ends it, whatever was to follow.
    assert task.session is not None and task.release is None and taken == 1
    # 8 for their number, and 8 bytes a word.
    assert task.largest_submission == 8 + 8 * task.session.length


def test_a_part_of_scores_carries_nothing_behind_its_words() -> None:
    talk = predict_conversation()

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if up and envelope.step is Step.SUBMIT:
            piece = body_of(envelope, Piece)
            return (msgspec.structs.replace(envelope, body=encode_body(Piece(0, 1, piece.data + b"x"))),)
        return (envelope,)

    with pytest.raises(MessageError, match="pieces must come in order and within"):
        InProcess(talk.server, talk.parties, wire).carry()
    assert not talk.scores


def test_empty_pieces_are_not_gathered_for_ever() -> None:
    with pytest.raises(MessageError, match="pieces must come in order"):
        Assembly(10).add(Piece(0, 1 << 40, b""))
    assert Assembly(10).add(Piece(0, 1, b"")) == b""

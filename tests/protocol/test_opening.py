"""Openings that everyone can check: what each hands in is signed before, shown after, and adds up to the release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from colonnade.foundation.errors import ColonnadeError, MessageError, ReleaseError, SignatureError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import ReleaseRecord, write_release
from colonnade.planning.session_plan import plan_session
from colonnade.protocol import messages
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.codes import Code
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.messages import (
    DIGESTS,
    SUBMIT,
    Envelope,
    Go,
    Handed,
    Piece,
    Signature,
    Step,
    body_of,
    encode_body,
    in_pieces,
)
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.submissions import Masked, Submissions, submission
from colonnade.transport.evidence import TRAFFIC, EvidenceFolder
from colonnade.transport.in_process import InProcess, Wire, pass_on
from tests.helpers.accounts import Remembered, SharedSigner
from tests.helpers.conversations import AGREEMENT, NAMES, PLANS, Book, Conversation, Notes
from tests.protocol.test_session_audit import CHEAT, KEY, LATTICE, fit_task

PEER = "bank"
MILLION = 1_000_000
Plant = Callable[[PartyRole], None]


def conversation(
    lie: Callable[[ReleaseRecord, str], ReleaseRecord] | None = None,
    evidence: Mapping[str, Any] | None = None,
    signed: bool = True,
    seed: bytes = b"opening",
) -> Conversation:
    """An accountable session of the lattice product; the server may lie about the release to each party."""
    kept = evidence or {name: Remembered() for name in NAMES}
    task, source, books = FitServer(LATTICE, "none", PLANS), Randomness(seed), {name: Book() for name in NAMES}
    if lie is not None:
        task.bodies = lambda party: in_pieces(write_release(lie(task.release, party)))  # type: ignore[method-assign, arg-type]
    roles = {}
    for name in NAMES:
        own = replace(fit_task(name, False), guard=books[name])
        signer = SharedSigner(name) if signed else None
        roles[name] = PartyRole(own, source, signer, account=SessionAccount(kept[name]))
    return Conversation(ServerRole(task, source, Notes(), accountable=True), roles, books, Notes())


def carry(talk: Conversation, wire: Wire = pass_on) -> None:
    InProcess(talk.server, talk.parties, wire).carry()


def kept_by(talk: Conversation) -> list[str]:
    """Parties that hold a release."""
    return [n for n, role in talk.parties.items() if isinstance(role.task, FitParty) and role.task.kept is not None]


def moved(release: ReleaseRecord, by: int) -> ReleaseRecord:
    return replace(release, blocks=tuple(replace(b, values=b.values + np.int64(by)) for b in release.blocks))


def about(envelope: Envelope, what: str, sender: str = "") -> bool:
    signs = envelope.step is Step.SIGNATURE and sender in ("", envelope.sender)
    return signs and body_of(envelope, Signature).about == what


def another(envelope: Envelope) -> Envelope:
    """A submission whose first word is larger by a million."""
    piece = body_of(envelope, Piece)
    words = np.frombuffer(piece.data, "<u8", offset=8).copy()
    words[0] = (words[0] + np.uint64(MILLION)) % np.uint64(1 << 37)
    other = Piece(piece.index, piece.count, piece.data[:8] + words.tobytes())
    return msgspec.structs.replace(envelope, body=encode_body(other))


@pytest.mark.parametrize("pieces", [False, True], ids=["in one piece", "in many"])
def test_an_honest_session_adds_up_at_every_party(pieces: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if pieces:
        monkeypatch.setattr(messages, "PIECE", 24)
    talk, shown, seen = conversation(), list[tuple[str, str]](), list[str]()

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if envelope.step is Step.HANDED:
            shown.append((envelope.recipient, body_of(envelope, Handed).party))
        if envelope.step is Step.GO and envelope.recipient == NAMES[0]:
            seen.append(body_of(envelope, Go).round)
        return (envelope,)

    carry(talk, wire)
    assert kept_by(talk) == list(NAMES) and not any(role.doubt for role in talk.parties.values())
    assert set(shown) == {(a, b) for a in NAMES for b in NAMES} and (len(shown) > 9) == pieces
    assert seen[-2:] == [DIGESTS, SUBMIT]


def test_another_submission_than_the_signed_one_is_named_and_nothing_is_opened() -> None:
    """One word off by 1,000,000 units: before, every party kept the release, and every audit passed."""
    talk = conversation()

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        cheats = up and envelope.step is Step.SUBMIT and envelope.sender == CHEAT
        return (another(envelope) if cheats else envelope,)

    with pytest.raises(SignatureError, match=f"{CHEAT} hands in another submission than it has signed"):
        carry(talk, wire)
    end = talk.server.end
    assert end is not None and (end.code, end.party, end.opened) == (Code.SIGNATURE, CHEAT, False)
    assert not kept_by(talk) and talk.server.task.release is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("by", [1, MILLION], ids=["by a unit", "by much"])
def test_one_false_release_for_all_is_kept_by_nobody(by: int) -> None:
    evidence = {name: Remembered() for name in NAMES}
    talk = conversation(lambda release, party: moved(release, by), evidence)
    with pytest.raises(ReleaseError):
        carry(talk)
    assert not kept_by(talk)
    assert all(role.doubt for role in talk.parties.values()) and all(mine.of("doubt") for mine in evidence.values())
    assert {book.state for book in talk.books.values()} == {"released"}, "what was handed in counts"


def test_a_false_sum_of_two_owners_is_found_too() -> None:
    """Each knows its own sums by heart; those of two owners nobody knows alone."""

    def lie(release: ReleaseRecord, party: str) -> ReleaseRecord:
        crosses = [i for i, block in enumerate(release.blocks) if len(set(block.owners)) > 1]
        blocks = list(release.blocks)
        blocks[crosses[0]] = replace(blocks[crosses[0]], values=blocks[crosses[0]].values + 1)
        return replace(release, blocks=tuple(blocks))

    talk = conversation(lie)
    with pytest.raises(ReleaseError, match="not the sum of what all parties handed in"):
        carry(talk)
    assert not kept_by(talk)
    # Without signatures nothing is shown, and that much a server can do.
    silent = conversation(lie, signed=False)
    carry(silent)
    assert kept_by(silent) == list(NAMES)


def test_without_signatures_a_party_still_knows_its_own_sums() -> None:
    talk = conversation(lambda release, party: moved(release, 1), signed=False)
    with pytest.raises(ReleaseError, match="other values than this party handed in"):
        carry(talk)
    assert not kept_by(talk)


@pytest.mark.parametrize("what", ["altered", "left out", "twice", "another order", "cut short"])
def test_submissions_that_are_not_the_signed_ones_are_refused(what: str) -> None:
    talk = conversation()

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if envelope.step is not Step.HANDED or body_of(envelope, Handed).party != PEER:
            return (envelope,)
        handed = body_of(envelope, Handed)
        piece = msgspec.msgpack.decode(handed.piece, type=Piece)
        match what:
            case "left out":
                return ()
            case "twice":
                return (envelope, envelope)
            case "another order":
                other = Handed(CHEAT, handed.piece)
            case "cut short":
                other = Handed(PEER, encode_body(Piece(0, 1, piece.data[:-8])))
            case _:
                other = Handed(PEER, encode_body(Piece(0, 1, piece.data[:-8] + bytes(8))))
        return (msgspec.structs.replace(envelope, body=encode_body(other)),)

    with pytest.raises(ColonnadeError):
        carry(talk, wire)
    assert not kept_by(talk)


def test_who_signs_nothing_of_its_submission_ends_the_session_before_anything_is_spent() -> None:
    """Before, it was not missed: with half its noise it handed in, and passed its audit."""
    talk = conversation()
    with pytest.raises(ColonnadeError):
        carry(talk, lambda envelope, up: () if about(envelope, "submission", CHEAT) else (envelope,))
    end = talk.server.end
    assert end is None or (end.code, end.party) == (Code.SIGNATURE, CHEAT)
    assert {book.state for book in talk.books.values()} == {"open"}
    assert not any(role.handed_in for role in talk.parties.values())


@pytest.mark.parametrize("first", [True, False], ids=["it is done first", "it is done last"])
def test_the_server_names_who_says_done_and_has_not_signed(first: bool) -> None:
    talk = conversation()
    sent: list[Envelope] = []

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        asked = not up and envelope.step is Step.GO and envelope.recipient == CHEAT
        if asked and body_of(envelope, Go).round == DIGESTS:
            done = encode_body(messages.Done(DIGESTS))
            sent.append(Envelope(envelope.session, envelope.plan, CHEAT, "", Step.DONE, done))
            if first:
                carrier._up(sent)
            return ()
        return (envelope,)

    carrier = InProcess(talk.server, talk.parties, wire)
    with pytest.raises(ColonnadeError):
        carrier.carry()
    if not first:
        carrier._up(sent)
    assert talk.server.end is not None and talk.server.end.party == CHEAT
    assert talk.server.end.code is Code.SIGNATURE
    assert {book.state for book in talk.books.values()} == {"open"}


def test_who_signs_two_digests_is_named_by_the_server() -> None:
    talk = conversation()

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if up and about(envelope, "submission", CHEAT) and envelope.recipient == PEER:
            signature = body_of(envelope, Signature)
            other = Signature(signature.about, bytes(32), signature.proof)
            return (msgspec.structs.replace(envelope, body=encode_body(other)),)
        return (envelope,)

    with pytest.raises(SignatureError):
        carry(talk, wire)
    assert {book.state for book in talk.books.values()} == {"open"}


def test_two_releases_with_all_signatures_kept_back_are_told() -> None:
    """The values add up for both: what differs is what else the server wrote. Nobody heard of it before."""

    def lie(release: ReleaseRecord, party: str) -> ReleaseRecord:
        other = {**release.provenance, "transcript_digest": "0" * 64}
        return replace(release, provenance=other) if party == PEER else release

    talk = conversation(lie)
    carry(talk, lambda envelope, up: () if about(envelope, "opened") else (envelope,))
    for name, role in talk.parties.items():
        peers = ", ".join(sorted(set(NAMES) - {name}))
        assert role.doubt == f"{peers} has not said what it was handed"


def test_submissions_are_compared_and_not_kept(tmp_path: Path) -> None:
    """Also with keep_traffic: K stores of masked submissions would be K places to steal from."""
    folders = {
        name: EvidenceFolder(tmp_path / name, KEY, {"party": name, "terms": ""}, keep_traffic=True) for name in NAMES
    }
    handed: dict[str, bytes] = {}

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if envelope.step is Step.SUBMIT:
            handed[envelope.sender] = body_of(envelope, Piece).data[8:]
        return (envelope,)

    carry(conversation(evidence=folders), wire)
    for folder in folders.values():
        assert folder.place is not None
        folder.close()
        everything = b"".join(path.read_bytes() for path in folder.place.iterdir())
        assert (folder.place / TRAFFIC).stat().st_size > 0
        assert all(words not in everything for words in handed.values())
        assert everything.count(b'"what": "handed"') == len(NAMES)


def test_the_memory_is_that_of_one_sum() -> None:
    """Pieces of several parties, in order and out of it, against numpy."""
    rng = np.random.default_rng(46)
    words = {name: rng.integers(0, 1 << 37, 1000, dtype=np.uint64) for name in NAMES}
    blobs = {name: submission(Masked(w, b"")) for name, w in words.items()}
    digests = {name: _digest(bodies) for name, bodies in blobs.items()}
    adds = Submissions(digests, 1000, 37)
    with pytest.raises(ReleaseError, match="has not shown what works, bank, town handed in"):
        adds.total()
    for name in NAMES:
        assert [adds.add(Handed(name, body)) for body in blobs[name]] == [name]
    expected = sum(int(w[7]) for w in words.values()) % (1 << 37)
    assert int(adds.total()[7]) == expected


def test_a_signed_submission_has_all_words() -> None:
    """Who signs fewer words than the session has is refused, though signature and pieces agree."""
    for size in (0, 999, 1001):
        bodies = submission(Masked(np.ones(size, np.uint64), b""))
        adds = Submissions({"works": _digest(bodies)}, 1000, 37)
        with pytest.raises(MessageError, match="must have 1000 words, got others"):
            [adds.add(Handed("works", body)) for body in bodies]


def _digest(bodies: list[bytes]) -> bytes:
    """By hand: a label, then each part behind its length."""
    import hashlib

    made = hashlib.sha256(b"colonnade/2 submission\0")
    for body in bodies:
        made.update(len(body).to_bytes(8, "big") + body)
    return made.digest()


@pytest.mark.parametrize("release", ["full", "label", "margins", "trace"])
def test_every_word_belongs_to_one_released_integer(release: str) -> None:
    """Nothing is shown in submissions that the release does not have; with bgn nothing is shown at all."""
    for product in ("plain", "lattice", "bgn"):
        try:
            session = plan_session(AGREEMENT.with_terms(product=product, release=release), 5000, bytes(32))
        except ColonnadeError:
            continue  # Not every product opens every release.
        places = np.sort(np.concatenate([place.ravel() for place in session.positions.values()]))
        assert places.tolist() == list(range(session.length))
        assert session.adds_up == (product != "bgn")

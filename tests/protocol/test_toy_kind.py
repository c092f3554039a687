"""A further kind of session is two tasks: this one counts records, in one process and over the relay.

No class of transport or flare knows of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from colonnade.crypto.product import Words
from colonnade.data.table import Table
from colonnade.foundation.canonical import canonical_digest as digest
from colonnade.foundation.errors import BrokenError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column
from colonnade.protocol.messages import End, Piece, Proposal, encode_body
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.submissions import Masked, masked_from, submission, total_of
from colonnade.protocol.tasks import SPENDING, Mask, PartyTask, Rows, ServerTask, SessionContext, SessionKind
from colonnade.runs import carry_in_process
from colonnade.transport.client import Client
from colonnade.transport.relay import Relay
from tests.helpers.conversations import COLUMNS, NAMES, ROWS, fit_conversation, table

COUNT = SessionKind(
    name="a count",
    agreed="question",
    declared="question",
    done="told the count",
    unspent="nothing was counted",
    terms="its question is another than the server's",
    stranger="it was not asked",
    spends=False,
)


@dataclass
class CountParty(PartyTask):
    """Hands in how many records it holds, under a mask."""

    kind: ClassVar[SessionKind] = COUNT
    name: str
    source: Callable[[], Table]
    alignment: str = "none"
    total: int = field(default=-1, init=False)
    rows: int = field(default=0, init=False)
    parties = NAMES
    terms = "how many"
    largest_list = None

    @property
    def label(self) -> str:
        return f"count {self.name}"

    @property
    def columns(self) -> Mapping[str, Column]:
        return COLUMNS[self.name]

    def require_private(self) -> None: ...
    def judge(self) -> None: ...
    def read(self) -> Table:
        return self.source()

    def note_matching(self, session: str) -> None: ...
    def take(self, rows: Rows | None) -> int:
        self.rows = self.source().rows if rows is None else len(rows)
        return self.rows

    def compare(self, proposal: Proposal) -> None:
        assert proposal.agreement == {"question": "how many"}

    def agree(self, proposal: Proposal, context: SessionContext) -> str:
        return digest({"question": "how many", "rows": proposal.rows})

    def consent(self) -> None: ...
    def submit(self, mask: Mask) -> list[bytes]:
        return submission(Masked(mask(1, 64) + np.uint64(self.rows), b""))

    def open(self, session: str, whole: bytes, total: Words | None = None) -> None:
        self.total = int.from_bytes(whole, "little")

    def forget(self) -> None: ...
    def ending(self, end: End) -> str:
        return "it ended"

    def alone(self, handed_in: bool) -> str:
        return "it is alone"


def test_a_kind_that_spends_cannot_forget_to_book() -> None:
    with pytest.raises(BrokenError, match="a session for a count spends, and Forgetful does not say pending"):

        class Forgetful(CountParty):
            kind = replace(COUNT, spends=True)

    says = dict.fromkeys(SPENDING, lambda *_: None)
    type("Careful", (CountParty,), {"kind": replace(COUNT, spends=True), **says})
    for name in SPENDING:
        with pytest.raises(BrokenError, match=f"does not say {name}"):
            rest = {known: told for known, told in says.items() if known != name}
            type("Forgetful", (CountParty,), {"kind": replace(COUNT, spends=True), **rest})


@dataclass
class CountServer(ServerTask):
    """Adds up."""

    kind: ClassVar[SessionKind] = COUNT
    alignment: str = "none"
    parts: list[Masked] = field(default_factory=list)
    declared = COLUMNS
    terms = "how many"
    label = "count"
    largest_submission = 64

    def require_private(self) -> None: ...
    def propose(self, identity: bytes, rows: int) -> tuple[dict[str, Any], str]:
        return {"question": "how many"}, digest({"question": "how many", "rows": rows})

    def collect(self, party: str, whole: bytes) -> None:
        self.parts.append(masked_from(whole, 1))

    def open(self, transcript: str, seeded: bool) -> None:
        self.total = int(total_of(self.parts, 64)[0])

    def bodies(self, party: str) -> list[bytes]:
        return [encode_body(Piece(0, 1, self.total.to_bytes(8, "little")))]

    def ending(self, end: End) -> str:
        return "it ended"

    def forget(self) -> None:
        self.parts.clear()


def parties(alignment: str) -> dict[str, CountParty]:
    return {name: CountParty(name, lambda n=name: table(n, alignment != "none"), alignment) for name in NAMES}


def test_a_toy_kind_in_one_process() -> None:
    for alignment in ("none", "psi"):
        tasks = parties(alignment)
        carry_in_process(CountServer(alignment), tasks, Randomness())
        assert {task.total for task in tasks.values()} == {len(NAMES) * ROWS}


def test_a_toy_kind_over_the_relay() -> None:
    tasks = parties("none")
    relay = Relay(ServerRole(CountServer(), Randomness()))
    clients = [
        Client(PartyRole(task, Randomness()), lambda data, n=name: relay.handle(n, data))
        for name, task in tasks.items()
    ]
    threads = [threading.Thread(target=work) for work in (relay.run, *(client.run for client in clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert {task.total for task in tasks.values()} == {len(NAMES) * ROWS}


def test_what_is_not_private_leaves_no_process() -> None:
    """Product "plain" shows columns to others: neither side of a network takes it."""
    talk = fit_conversation()
    with pytest.raises(StudyError, match='product = "plain" shows columns to others'):
        Relay(talk.server)
    with pytest.raises(StudyError, match="stays in one process"):
        Client(talk.parties[NAMES[0]], lambda data: data)

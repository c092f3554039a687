"""A whole study in this process: align the parties' tables, run the session, hand back the release."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from colonnade.consent.guard import ConsentGuard, refusing
from colonnade.crypto.alignment import align_in_process
from colonnade.data.table import Table
from colonnade.foundation.errors import StudyError
from colonnade.foundation.matching import HYBRID
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.workers import HERE, Workers
from colonnade.mechanism.release import Release
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.codes import code_of, sentence_of
from colonnade.protocol.party import Consent, Party
from colonnade.protocol.server import Server
from colonnade.protocol.session_plan import SessionPlan, plan_once
from colonnade.transport.in_process import InProcess, Traffic

Watch = Callable[[str, float], None]
"""Called with a step's name and the share of it that is done."""
Void = Callable[[str], None]
"""Called with the reason when a session ended before all parties had submitted: nothing was opened."""


@dataclass(frozen=True)
class Outcome:
    """What an embedded run leaves behind."""

    release: Release
    session: SessionPlan
    traffic: Traffic
    seconds: Mapping[str, float]


def align(
    tables: Mapping[str, Table],
    alignment: str,
    randomness: Randomness,
    watch: Watch | None = None,
    largest_lists: Mapping[str, int | None] | None = None,
) -> dict[str, Table]:
    """The tables' common records in one common order, by private set intersection or as they stand."""
    rows_of = match(tables, alignment, randomness, watch, largest_lists)
    return dict(tables) if rows_of is None else {name: table.take(rows_of[name]) for name, table in tables.items()}


def match(
    tables: Mapping[str, Table],
    alignment: str,
    randomness: Randomness,
    watch: Watch | None = None,
    largest_lists: Mapping[str, int | None] | None = None,
) -> dict[str, NDArray[np.int64]] | None:
    """Each party's row numbers of the common records; None where rows match as they stand.

    `largest_lists` says, by party, how many ids another may be able to test.
    """
    if alignment == "none" or len(tables) == 1:
        rows = {name: table.rows for name, table in tables.items()}
        if len(set(rows.values())) > 1:
            told = ", ".join(f"{name} {n}" for name, n in rows.items())
            raise StudyError(f"without alignment all parties must hold the same number of records, got {told}")
        return None
    ids = {}
    for name, table in tables.items():
        if table.ids is None:
            raise StudyError(f"party {name} has no ids to align by")
        ids[name] = table.ids
    progress = None if watch is None else lambda done, total: watch("align", done / max(1, total))
    source = randomness.child("alignment")
    return align_in_process(ids, source, progress, post_quantum=alignment == HYBRID, largest_lists=largest_lists)


def run_embedded(
    agreement: Agreement,
    tables: Mapping[str, Table],
    alignment: str = "psi",
    randomness: Randomness | None = None,
    watch: Watch | None = None,
    consent: Mapping[str, Consent] | None = None,
    book: Mapping[str, Consent] | None = None,
    void: Mapping[str, Void] | None = None,
    workers: Workers = HERE,
    guards: Mapping[str, ConsentGuard] | None = None,
) -> Outcome:
    """All parties and the server in this process; by party, `consent` sees the plan before anything is spent.

    `book` is called before a submission leaves, and `void` if the session ends without any chance of a release.
    A party's guard does all three where nothing else is given for it, refuses before ids are matched what no n could
    make right, and notes the matching.
    Who the `workers` are is not to be seen in the release.
    """
    source = Randomness() if randomness is None else randomness
    seconds: dict[str, float] = {}
    start = time.perf_counter()
    server = Server(agreement, source.child("server"))
    matched = alignment != "none" and len(agreement.schema.names) > 1
    kept = dict(guards or {})
    consents = {name: guard.consent for name, guard in kept.items()} | dict(consent or {})
    books = {name: guard.book for name, guard in kept.items()} | dict(book or {})
    voids = {name: guard.void for name, guard in kept.items()} | dict(void or {})
    for name, guard in kept.items():
        with refusing(name):
            guard.ledger.try_to_write()
            guard.foresee(agreement, tables[name].rows, matched)
    for name, guard in kept.items() if matched else ():
        with refusing(name):
            guard.align(server.identity.hex(), agreement.name, agreement.schema.names)
    largest = {name: guard.policy.largest_list for name, guard in kept.items()}
    aligned = align({name: tables[name] for name in agreement.schema.names}, alignment, source, watch, largest)
    seconds["align"] = time.perf_counter() - start
    parties = {
        name: Party(
            name,
            agreement.schema.parties[name],
            table.rows,
            partial(table.encode, workers=workers),
            source.child(f"party {name}"),
            workers=workers,
            **({"consent": consents[name]} if name in consents else {}),
            **({"book": books[name]} if name in books else {}),
        )
        for name, table in aligned.items()
    }
    meter = _Meter(server, seconds, watch)
    transport = InProcess(server, parties, meter)
    try:
        with plan_once():
            release = transport.run()
    except BaseException as error:
        # Where all have submitted the server could open: what was booked then stays booked.
        if not all(party.handed_in for party in parties.values()):
            for name, settle in voids.items():
                # A party's book has its own sentence, or the code that it was told.
                settle(parties[name].reason or sentence_of(code_of(error)))
        raise
    meter.close()
    assert server.session is not None
    return Outcome(release, server.session, transport.traffic, seconds)


class _Meter:
    """Seconds of each step, and how much of a round's bytes has passed."""

    def __init__(self, server: Server, seconds: dict[str, float], watch: Watch | None) -> None:
        self._server, self._seconds, self._watch = server, seconds, watch
        self._last = time.perf_counter()
        self._heard = 0

    def __call__(self, step: str, sender: str, size: int) -> None:
        now = time.perf_counter()
        name = {"join": "plan", "accept": "plan", "parcel": "products", "done": "products"}.get(step, step)
        self._seconds[name] = self._seconds.get(name, 0.0) + now - self._last
        self._last = now
        if self._watch is not None:
            self._heard += size
            expected = _expected_bytes(self._server)
            self._watch(name, min(1.0, self._heard / expected) if expected else 0.0)

    def close(self) -> None:
        self._seconds["open"] = self._seconds.get("open", 0.0) + time.perf_counter() - self._last
        if self._watch is not None:
            self._watch("open", 1.0)


def _expected_bytes(server: Server) -> float:
    """The size of all parcels and submissions."""
    session = server.session
    if session is None:
        return 0.0
    return float(sum(session.sent.values()))

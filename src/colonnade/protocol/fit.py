"""Sessions that make a release: what a party draws, multiplies and hands in, and how the server opens the sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, ClassVar, Protocol

import numpy as np

from colonnade.crypto.backends import proven_party, require_private
from colonnade.crypto.product import (
    Integers,
    Parcel,
    PartyProduct,
    ServerProduct,
    Words,
    centred,
)
from colonnade.foundation.canonical import canonical_digest
from colonnade.foundation.errors import LedgerError, PolicyError, ProtocolError, StudyError
from colonnade.foundation.grid import Grid
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.schema import Column
from colonnade.foundation.shown import shown
from colonnade.foundation.workers import HERE, Workers
from colonnade.mechanism.blocks import NoisyBlock, exact_block, own_square, perturb
from colonnade.mechanism.moments import Layout
from colonnade.mechanism.release import ReleasedBlock, ReleaseRecord, read_release, write_release
from colonnade.planning.agreement import Agreement
from colonnade.planning.crosses import columns_digest, party_product, server_product
from colonnade.planning.proofs import require_expected
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.protocol.codes import BOOKED_COUNTS, sentence_of
from colonnade.protocol.coins import hashed
from colonnade.protocol.messages import End, Proposal, in_pieces, room_for
from colonnade.protocol.own_release import largest_release, require_blocks, require_own, require_sum
from colonnade.protocol.session_products import SessionProducts
from colonnade.protocol.submissions import Masked, masked_from, submission, submission_bytes, total_of
from colonnade.protocol.tasks import (
    Guard,
    Mask,
    PartyTask,
    Records,
    Rows,
    ServerTask,
    SessionContext,
    SessionKind,
)

FIT = SessionKind(
    name="a release",
    agreed="plan",
    declared="study",
    done="opened the release",
    unspent="nothing is spent",
    terms="its study file states other terms than the server's",
    stranger="the study has no party of this name",
    spends=True,
)


class FitRecords(Records, Protocol):
    """A party's data."""

    def encode(self, layout: Layout, grid: Grid, coins: bytes, workers: Workers = ...) -> IntegerColumns:
        """The session's coordinates on its grid, rounded by coins, as integer columns in layout order."""
        ...


Planner = Callable[[Agreement, int, bytes], SessionPlan]
"""Computes a plan from public terms, n and the session's id, as `session_plan.plan_session` does."""
ProductFactory = Callable[[SessionPlan, Workers], type[PartyProduct]]
"""Chooses the party's side of a session's product."""
Show = Callable[[SessionPlan], None]
"""Is shown a plan before the party agrees; may raise PolicyError to refuse it."""
Keep = Callable[[ReleaseRecord], None]
"""Puts a release where it stays."""


def study_digest(agreement: Agreement, alignment: str) -> str:
    """Digest of a study's public terms, by which server and parties see at once whether they hold the same."""
    return canonical_digest({"agreement": agreement.to(), "alignment": alignment})


def best_product(session: SessionPlan, workers: Workers) -> type[PartyProduct]:
    """The fastest side for these workers; the words are the same with any."""
    # Another machine may lack the compiled loops.
    spec = None if workers.remote else session.spec
    found = party_product(session.agreement.product, workers.device, spec)
    return proven_party(found) if session.proved else found


@dataclass
class FitParty(PartyTask):
    """One organisation's data and consent in one session."""

    kind: ClassVar[SessionKind] = FIT
    name: str
    agreement: Agreement
    alignment: str
    source: Callable[[], FitRecords]
    guard: Guard
    keep: Keep | None = None
    show: Show | None = None
    workers: Workers = HERE
    planner: Planner = plan_session
    product: ProductFactory = best_product
    data: Callable[[], bytes] | None = None
    session: SessionPlan | None = field(default=None, init=False)
    kept: ReleaseRecord | None = field(default=None, init=False)
    unsettled: str = field(default="", init=False)
    """Why the ledger could not note the release: there the session stays booked."""
    _table: Any = field(default=None, init=False, repr=False)
    _own: dict[int, NoisyBlock] = field(default_factory=dict, init=False, repr=False)
    _squares: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64), init=False, repr=False)
    """Added to the product's share, where sums of two owners' terms are opened."""
    _products: SessionProducts | None = field(default=None, init=False, repr=False)
    _asked: list[str] = field(default_factory=list, init=False)
    _seeded: bool = field(default=False, init=False)
    _own_rows: int = field(default=0, init=False)
    _resumed: bool = field(default=False, init=False)
    _bindings: tuple[bytes, bytes] = field(default=(b"", b""), init=False, repr=False)
    opens_alike = True

    @property
    def collusion(self) -> int:  # type: ignore[override]
        return self.agreement.collusion

    def bindings(self) -> tuple[bytes, bytes]:
        return self._bindings

    @property
    def parties(self) -> tuple[str, ...]:
        return self.agreement.schema.names

    @property
    def terms(self) -> str:
        return study_digest(self.agreement, self.alignment)

    @property
    def label(self) -> str:
        return f"party {self.name}"

    @property
    def columns(self) -> Mapping[str, Column]:
        return self.agreement.schema.parties[self.name]

    def require_private(self) -> None:
        require_private(self.agreement.product)

    def judge(self) -> None:
        self.guard.judge(self.agreement, self.aligned)

    def pending(self) -> list[str]:
        self._asked = self.guard.pending(self.agreement.name)
        return self._asked

    def settle(self, outcomes: Mapping[str, str]) -> None:
        self.guard.settle({session: told for session, told in outcomes.items() if session in self._asked})

    def foresee(self, rows: int) -> None:
        self._own_rows = rows
        self.guard.foresee(self.agreement, rows, self.aligned)

    def note_matching(self, session: str) -> None:
        self.guard.align(session, self.agreement.name, self.parties)

    def take(self, rows: Rows | None) -> int:
        if rows is not None:
            self._table = self._table.take(rows)
        return int(self._table.rows)

    def compare(self, proposal: Proposal) -> None:
        mine, theirs = self.agreement.to(), proposal.agreement
        for key in ("schema", "norms"):
            if theirs.get(key) != mine[key]:
                raise PolicyError("the plan states other columns than this party declared")
        for key in (*mine, *theirs):
            if mine.get(key) != theirs.get(key):
                raise StudyError(f"the plan's {key} is not what this party agreed to: it is {shown(theirs.get(key))}")
        # Parties stand in mask order, and columns in the order of a release.
        if [(party, *columns) for party, columns in theirs["schema"].items()] != [
            (party, *columns) for party, columns in mine["schema"].items()
        ]:
            raise PolicyError("the plan states other columns than this party declared")

    def agree(self, proposal: Proposal, context: SessionContext) -> str:
        session = self.planner(self.agreement, proposal.rows, context.identity)
        if session.digest != context.announced:
            raise StudyError(
                f"the server announces plan {context.announced[:16]} and sends the terms of plan {session.digest[:16]}"
            )
        require_expected(self.agreement, self._own_rows, session)
        self.session = session
        return session.digest

    def _planned(self) -> SessionPlan:
        assert self.session is not None
        return self.session

    def consent(self) -> None:
        if self.show is not None:
            self.show(self._planned())
        self.guard.consent(self._planned())

    def prepare(self, context: SessionContext) -> None:
        """All noise of the session is drawn here, once. Alg. 1, lines 4-9 and 12."""
        session, table = self._planned(), self._table
        self._seeded = context.randomness.seeded
        coins = context.randomness.child("rounding").bytes(32)
        encoded = table.encode(session.plan.layout, session.grid, coins, workers=self.workers)
        self._table = None
        drawn = [columns_digest(encoded)] if context.accountable else []
        columns = session.made_columns(self.name, encoded, coins)
        noise_source = context.randomness.child("noise")
        single, shared = session.own(self.name), session.shared_sums(self.name)
        if single or shared:
            # Squares of encoded columns are corrected for their rounding; of made columns sums alone are released.
            sums = columns.sums
            offset = session.columns_of(self.name).start
            self._squares = np.zeros(session.length - session.cross_start, dtype=np.int64)
            for i in shared:
                place = session.positions[i] - session.cross_start
                self._squares[place] += own_square(session.plan.blocks[i].block, sums, offset, session.spec.gain)
            for i in single:  # Alg. 1, line 5
                exact = exact_block(session.own_block(i), sums, offset)
                own = session.noise(i).draw(1, noise_source)
                drawn += [own.tobytes()] if context.accountable else []
                self._own[i] = perturb(exact, own)
                exact.values.fill(0)
        vector = np.zeros(session.length - session.cross_start, dtype=np.int64)  # Alg. 1, line 10
        share = session.cross_noise(session.plan.share(self.name))
        vector[:] = share.draw(session.plan.shares, noise_source)  # Alg. 1, line 12
        if context.accountable:
            self._bindings = drawn[0], hashed("noise", *drawn[1:], vector.tobytes())
        product = self.product(session, self.workers) if session.spec.crosses else PartyProduct
        self._products = SessionProducts(
            session, product, context.index, columns, vector, context.randomness, self.workers
        )

    @property
    def expected_bytes(self) -> float:
        session = self._planned()
        spec, word = session.spec, max(1, session.spec.modulus_bits // 8)
        me = session.parties.index(self.name)
        return float(sum(c.shape[0] for c in spec.crosses if me in (c.left, c.right)) * session.rows * word)

    def _running(self) -> SessionProducts:
        if self._products is None:
            raise ProtocolError(f"party {self.name} runs no product")
        return self._products

    def send(self, round: str) -> Iterator[Parcel]:
        return self._running().send(round)

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        self._running().receive(round, sender, payload)

    def submit(self, mask: Mask) -> list[bytes]:
        """Own noisy blocks and shares under the mask, in one vector. Alg. 1, lines 8, 13 and 14."""
        session = self._planned()
        contribution = self._running().contribute()
        bits = session.spec.modulus_bits
        if session.shared_sums(self.name):
            contribution.vector[:] += self._squares.view(np.uint64)
        words = mask(session.length, bits)
        masked = Masked.of(self._own, session.positions, contribution, words, bits)
        words.fill(0)
        contribution.vector.fill(0)
        bodies = submission(masked)
        self._wipe()
        return bodies

    def book(self) -> None:
        (self.guard.resume if self._resumed else self.guard.book)(self._planned())

    def resumes(self, session: str) -> bool:
        return self.guard.resumable(session)

    def resume(self, identity: bytes, rows: int, seeded: bool) -> str:
        self.session, self._seeded, self._resumed = self.planner(self.agreement, rows, identity), seeded, True
        return self.session.digest

    def added_up(self) -> tuple[int, int] | None:
        session = self._planned()
        return (session.length, session.spec.modulus_bits) if session.adds_up else None

    @property
    def largest_proposal(self) -> int:
        return room_for(self.agreement.to(), len(self.parties))

    @property
    def largest_opened(self) -> int:
        return largest_release(self._planned())

    def open(self, session: str, whole: bytes, total: Words | None = None) -> None:
        release, planned = read_release(whole), self._planned()
        require_own(release, planned, self._seeded)
        require_blocks(release, planned, self._own)
        if total is not None:
            require_sum(release, planned, total)
        self.kept = release
        if self.keep is not None:
            self.keep(self.kept)

    def release(self) -> None:
        try:
            self.guard.release()
        except LedgerError as error:
            # What is booked counts: a book that cannot be written to now must not cost the release too.
            self.unsettled = str(error)

    def void(self, reason: str) -> None:
        self.guard.void(reason)

    def forget(self) -> None:
        for block in self._own.values():
            block.values[:] = 0
        self._own = {}
        self._wipe()

    def _wipe(self) -> None:
        """All but the sums of its own, which will be released as they are."""
        self._squares.fill(0)
        if self._products is not None:
            self._products.wipe()
        self._products = None
        self._table = None

    def ending(self, end: End) -> str:
        return ending(end)

    def alone(self, handed_in: bool) -> str:
        if handed_in:
            return BOOKED_COUNTS
        return "nothing had been submitted, so that nothing is spent"


@dataclass
class FitServer(ServerTask):
    """The server's part: it adds up masked submissions, in which the masks cancel."""

    kind: ClassVar[SessionKind] = FIT
    agreement: Agreement
    alignment: str
    planner: Planner = plan_session
    keep: Keep | None = None
    session: SessionPlan | None = field(default=None, init=False)
    release: ReleaseRecord | None = field(default=None, init=False)
    _product: ServerProduct | None = field(default=None, init=False, repr=False)
    _submissions: dict[str, Masked] = field(default_factory=dict, init=False, repr=False)

    @property
    def declared(self) -> Mapping[str, Mapping[str, Column]]:
        return self.agreement.schema.parties

    @property
    def terms(self) -> str:
        return study_digest(self.agreement, self.alignment)

    @property
    def label(self) -> str:
        return "server"

    def require_private(self) -> None:
        require_private(self.agreement.product)

    def propose(self, identity: bytes, rows: int) -> tuple[dict[str, Any], str]:
        self.session = self.planner(self.agreement, rows, identity)
        return self.agreement.to(), self.session.digest

    def _planned(self) -> SessionPlan:
        assert self.session is not None
        return self.session

    @property
    def rounds(self) -> tuple[str, ...]:
        return self._planned().product_rounds

    def begin_product(self) -> None:
        session = self._planned()
        if session.spec.crosses:
            self._product = server_product(self.agreement.product)(session.spec)

    @property
    def expected_bytes(self) -> float:
        """Sealed words and submissions."""
        return float(sum(self._planned().sent.values()))

    def send(self, round: str) -> Iterator[Parcel]:
        # Products of more than two owners, without any of two, need nothing of the server.
        return iter(()) if self._product is None else self._product.send(round)

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        assert self._product is not None
        self._product.receive(round, sender, payload)

    @property
    def largest_submission(self) -> int:
        return submission_bytes(self._planned().length, self._payload_bytes)

    @property
    def _payload_bytes(self) -> int:
        return 0 if self._product is None else self._product.payload_bytes

    def collect(self, party: str, whole: bytes) -> None:
        self._submissions[party] = masked_from(whole, self._planned().length, self._payload_bytes)

    def open(self, transcript: str, seeded: bool) -> None:
        """The sum of all submissions is all noisy blocks at once. Alg. 1, line 16."""
        session = self._planned()
        ordered = [self._submissions[name] for name in session.parties]
        bits = session.spec.modulus_bits
        total = total_of(ordered, bits)
        start = session.cross_start
        values = centred(total, bits)
        if self._product is not None:
            stop = session.chain_start
            values[start:stop] = self._product.open(total[start:stop], [m.payload for m in ordered])
        provenance = {
            "session": session.identity.hex(),
            "plan_digest": session.digest,
            "transcript_digest": transcript,
            "agreement": self.agreement.to(),
            "seeded": seeded,
            "simulation": session.in_the_clear,
            "colonnade": version("colonnade"),
        }
        self.release = released(session, values, provenance)
        if self.keep is not None:
            self.keep(self.release)

    def handed(self) -> Iterator[tuple[str, bytes]]:
        session = self._planned()
        for name in session.parties if session.adds_up else ():
            for body in submission(self._submissions[name]):
                yield name, body

    def bodies(self, party: str) -> list[bytes]:
        assert self.release is not None
        return in_pieces(write_release(self.release))

    def ending(self, end: End) -> str:
        return ending(end)

    def forget(self) -> None:
        self._submissions.clear()


def released(session: SessionPlan, values: Integers, provenance: Mapping[str, Any]) -> ReleaseRecord:
    """A release of opened integers, which stand in the order of the submitted vector."""
    blocks = tuple(
        ReleasedBlock(
            item.block.owners,
            item.block.role,
            item.block.summed,
            session.unit(item.block),
            item.block.factors,
            values[session.positions[i]],
            session.released_std(i),
        )
        for i, item in enumerate(session.plan.blocks)
    )
    plan = session.plan
    return ReleaseRecord(session.rows, plan.layout, plan.law, blocks, session.describe(), dict(provenance))


def ending(end: End) -> str:
    """Who, at which step, and what was spent."""
    if end.code is None:
        return "the release was opened"
    spent = (
        "all parties had submitted, so that the session counts as spent"
        if end.opened
        else "not all parties had submitted, so that nothing was opened and nothing is spent"
    )
    return f"{sentence_of(end.code, end.party)}; it was at step {end.phase}; {spent}"

"""A party's side of a session that makes a release: its consent, and its ledger at the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from colonnade.consent.entries import EntryKind
from colonnade.consent.guard import ConsentGuard, foresee, refusing
from colonnade.consent.ledger import Ledger
from colonnade.consent.policy import Policy
from colonnade.data.table import Table
from colonnade.foundation.errors import ColonnadeError, LedgerError, PolicyError, ProtocolError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import Release
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.messages import Envelope, Step
from colonnade.protocol.party import Consent, Party
from colonnade.protocol.session_plan import SessionPlan
from colonnade.transport.seat import Call, Seat, Watch
from colonnade.transport.study_digest import study_digest
from colonnade.transport.vouching import Voucher
from colonnade.transport.wire import Over, Patience, Welcome, ending

CLOSING = "; nothing is spent"


class Member(Seat):
    """One organisation's process in one session of a study."""

    steps = {  # noqa: RUF012 - never changed
        Step.PLAN: "plan",
        Step.GO: "products",
        Step.PARCEL: "products",
        Step.OPENED: "open",
    }
    closing = CLOSING

    def __init__(
        self,
        name: str,
        agreement: Agreement,
        alignment: str,
        read: Callable[[], Table],
        call: Call,
        randomness: Randomness,
        guard: ConsentGuard | None = None,
        patience: Patience | None = None,
        watch: Watch | None = None,
        consent: Consent | None = None,
        voucher: Voucher | None = None,
        policy: Policy | None = None,
    ) -> None:
        """A party without a guard, in a simulation, may still have a policy."""
        terms, names = study_digest(agreement, alignment), agreement.schema.names
        super().__init__(name, names, terms, alignment, read, call, randomness, patience, watch, voucher)
        self._agreement, self._guard, self._further = agreement, guard, consent
        self._policy = policy if guard is None else guard.policy
        self._moved, self._expected = 0, 0.0
        self._announced = ""
        self._asked: list[str] = []
        self.party: Party | None = None

    def run(self) -> Release:
        """The session's release; raises one sentence that says who ended it, at which step, and what was spent."""
        self._attend()
        assert self.party is not None and self.party.release is not None
        if self._guard is not None:
            # What is booked counts: a book that cannot be written to now must not cost the release too.
            with suppress(LedgerError):
                self._guard.release()
        self._show("open", 1.0)
        return self.party.release

    def _judge(self) -> None:
        with refusing(self._name, CLOSING):
            if self._policy is not None:
                self._policy.check_terms(self._agreement, self._name)
            if self._guard is not None:
                self._guard.ledger.try_to_write()
                if self._aligns:
                    self._guard.check_alignments()

    def _foresee(self, table: Table) -> None:
        # The server has said by now what became of earlier sessions.
        with refusing(self._name, CLOSING):
            if self._guard is not None:
                self._guard.foresee(self._agreement, table.rows, self._aligns)
            elif self._policy is not None:
                foresee(self._policy, self._name, self._agreement, table.rows, self._aligns)

    def _largest_list(self) -> int | None:
        return None if self._policy is None else self._policy.largest_list

    def _matching(self) -> None:
        with refusing(self._name, CLOSING):
            if self._guard is not None:
                self._guard.align(self._alignment_id.hex(), self._agreement.name, self._parties)

    def _pending(self) -> list[str]:
        if self._guard is not None:
            self._asked = unsettled(self._guard.ledger, self._name, self._agreement.name)
        return self._asked

    def _welcomed(self, welcome: Welcome) -> None:
        if self._guard is not None:
            settle(self._guard.ledger, self._name, {k: v for k, v in welcome.settled.items() if k in self._asked})

    def _begin(self, table: Table, rows: NDArray[np.int64] | None) -> Party:
        aligned = table if rows is None else table.take(rows)
        self.party = Party(
            self._name,
            self._agreement.schema.parties[self._name],
            aligned.rows,
            aligned.encode,
            self._randomness.child(f"party {self._name}"),
            consent=self._consent,
            book=self._book,
        )
        return self.party

    def _arrived(self, envelope: Envelope) -> None:
        if envelope.step is Step.PLAN:
            self._announced = envelope.plan

    def _consent(self, session: SessionPlan) -> None:
        """The plan must be of the study that this party holds, and the one that was announced; then the guard."""
        mine, theirs = self._agreement.to(), session.agreement.to()
        for key, value in mine.items():
            if theirs[key] != value:
                raise StudyError(f"the plan's {key} is not what this party agreed to: it is {theirs[key]!r}")
        if session.digest != self._announced:
            raise StudyError(
                f"the server announces plan {self._announced[:16]} and sends the terms of plan {session.digest[:16]}"
            )
        if self._guard is not None:
            self._guard.consent(session)
        elif self._policy is not None:
            self._policy.check(session, self._name)
        if self._further is not None:
            self._further(session)
        spec, word = session.spec, max(1, session.spec.modulus_bits // 8)
        me = session.parties.index(self._name)
        self._moved = 0
        self._expected = sum(c.shape[0] for c in spec.crosses if me in (c.left, c.right)) * session.rows * word

    def _book(self, session: SessionPlan) -> None:
        if self._guard is not None:
            self._guard.book(session)

    # How it ends.

    def _ended(self, over: Over) -> ColonnadeError:
        """The server's word decides what is spent."""
        own = "" if self.party is None else self.party.reason
        if not over.opened and self._guard is not None:
            self._guard.void(own or ending(over))
        if own and over.party == self._name:
            return PolicyError(f"{self._name} refuses: {own}; nothing is spent")
        return ProtocolError(ending(over))

    def _alone(self) -> ColonnadeError:
        handed_in = self.party is not None and self.party.handed_in
        if not handed_in and self._guard is not None:
            self._guard.void("the server was lost before a submission left")
        spent = (
            "the spend stays booked until the server says whether the session was opened"
            if handed_in
            else "nothing had been submitted, so that nothing is spent"
        )
        return ProtocolError(f"the server was not heard for {self._patience.silence:g} s at step {self._step}; {spent}")

    def _left(self, error: BaseException) -> None:
        if self._guard is not None and not (self.party is not None and self.party.handed_in):
            self._guard.void(str(error) if isinstance(error, ColonnadeError) else type(error).__name__)

    # How far it is.

    def _count(self, size: int) -> None:
        self._moved += size
        if self._step == "products":
            self._show("products", self._progress())

    def _progress(self) -> float:
        return min(1.0, self._moved / self._expected) if self._expected else 0.0


def unsettled(ledger: Ledger, party: str, study: str) -> list[str]:
    """Sessions of a party in a study that were booked and neither released nor void; other studies are not told of."""
    own = [e for e in ledger.entries() if (e.booking.party, e.booking.study) == (party, study)]
    last = {e.booking.session: e.kind for e in own}
    return [session for session, kind in last.items() if kind is EntryKind.BOOKED]


def settle(ledger: Ledger, party: str, outcomes: dict[str, str]) -> None:
    """Write into the ledger what the server knows of sessions that this party's process did not see end."""
    for session, outcome in outcomes.items():
        if outcome == "void":
            ledger.settle(session, party, EntryKind.VOID, "the server says that not all parties had submitted")
        elif outcome == "opened":
            ledger.settle(session, party, EntryKind.RELEASED, "the server says that all parties had submitted")

"""What guards a party's data around one session: its policy, its ledger, and a person who approves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.consent.entries import Alignment, Booking, DataSet, EntryKind
from colonnade.consent.ledger import Ledger, open_ledger
from colonnade.consent.policy import Approvals, Policy, bits_told, read_policy
from colonnade.foundation.errors import ColonnadeError, LedgerError, PolicyError
from colonnade.mechanism.composition import Charge, Spent, charge_of, record_epsilon
from colonnade.planning.agreement import Agreement
from colonnade.planning.leakage import people_told
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.protocol.tasks import Unbooked

if TYPE_CHECKING:
    from colonnade.planning.prediction import Prediction

SLACK = 0.01
"""A share of the charge that an n between those that were tried might take off; the search found less than 0.001."""
RUNG = 10
"""Numbers of records that are tried lie so far apart."""
NOBODY = bytes(32)
"""The id of a session that is only thought of."""


@dataclass
class PolicyGuard(Unbooked):
    """The consent of a simulation: a policy's rules hold, and there is no ledger, for no noise is worth booking."""

    party: str
    policy: Policy

    @property
    def largest_list(self) -> int | str | None:
        return self.policy.largest_list

    def judge(self, agreement: Agreement, aligned: bool) -> None:
        """Refuse what the public terms alone decide."""
        self.policy.check_terms(agreement, self.party)

    def foresee(self, agreement: Agreement, rows: int, aligned: bool) -> None:
        """Refuse what no number of common records could make right."""
        foresee(self.policy, self.party, agreement, rows, aligned)

    def consent(self, session: SessionPlan) -> None:
        """Raise PolicyError unless the policy agrees."""
        self.policy.check(session, self.party)

    def foresee_scores(self, prediction: Prediction, aligned: bool) -> None:
        """Raise PolicyError for a prediction that the policy does not allow."""
        foresee_scores(self.policy, self.party, prediction)

    def consent_scores(self, prediction: Prediction, rows: int) -> None:
        """The same, now that n is known."""
        foresee_scores(self.policy, self.party, prediction)

    def resumable(self, session: str) -> bool:
        """A simulation is begun anew."""
        return False


@dataclass
class ConsentGuard:
    """One party's side of consent: agrees to a plan, books the spend before it leaves, and settles it afterwards."""

    party: str
    policy: Policy
    ledger: Ledger
    data: DataSet
    approved: Collection[str] = ()
    """Digests of plans that a person approved beforehand."""
    ask: Callable[[str], bool] | None = None
    """Asks a person about a plan, where there is one to ask."""
    left: Approvals | None = None
    """Approvals for one session each, where a site's people leave some."""
    notes: Sequence[str] = ()
    """What the person who approves should know of the party's own records."""
    _booked: str | None = field(default=None, init=False)
    _attempt: Alignment | None = field(default=None, init=False)
    """The session, from its public terms on."""
    _read: bool = field(default=False, init=False)

    @property
    def largest_list(self) -> int | str | None:
        return self.policy.largest_list

    def judge(self, agreement: Agreement, aligned: bool) -> None:
        """Refuse, before others hear of this party, what the public terms and the ledger alone decide."""
        partners = tuple(party for party in agreement.schema.names if party != self.party)
        self._attempt = Alignment("", self.party, agreement.name, partners, self.data)
        self._booked, self._read = None, False
        self.policy.check_terms(agreement, self.party)
        self.ledger.try_to_write()
        self.ledger.check_attempts(self.data, self.policy.largest_attempts)
        if aligned:
            self.check_alignments()

    def pending(self, study: str) -> list[str]:
        """Sessions of a study that were booked and neither released nor void; other studies are not told of."""
        own = [e for e in self.ledger.entries() if (e.booking.party, e.booking.study) == (self.party, study)]
        last = {e.booking.session: e.kind for e in own}
        return [session for session, kind in last.items() if kind is EntryKind.BOOKED]

    def settle(self, outcomes: Mapping[str, str]) -> None:
        """Note what the server knows of sessions that this party's process did not see end; data is read next."""
        self._read = True
        for session, outcome in outcomes.items():
            if outcome == "void":
                told = "the server says that not all parties had submitted"
                self.ledger.settle(session, self.party, EntryKind.VOID, told)
            elif outcome == "opened":
                told = "the server says that all parties had submitted"
                self.ledger.settle(session, self.party, EntryKind.RELEASED, told)

    def inform(self, notes: Sequence[str]) -> None:
        """Take what a person should know of the records before anything is agreed to; for this party alone."""
        self.notes = notes

    def foresee(self, agreement: Agreement, rows: int, aligned: bool, apart: Collection[str] = ()) -> None:
        """Refuse, before ids are matched, what no number of common records could make right.

        `rows` are the party's own records; `apart` are sessions of which it is not known yet whether they count.
        """

        def room(session: SessionPlan, charge: Charge) -> None:
            self.ledger.check(self.data, charge, self.policy.cap, apart)
            told = bits_told(session, self.party)
            self.ledger.check_told(self.data, told, self.policy.largest_bits_told, apart)

        foresee(self.policy, self.party, agreement, rows, aligned, room)
        if aligned:
            self.check_alignments()

    def check_alignments(self) -> None:
        """Raise PolicyError if ids were matched as often as the policy allows."""
        self.ledger.check_alignments(self.data, self.policy.largest_alignments)

    def align(self, session: str, study: str, parties: Collection[str]) -> None:
        """Note in the ledger, durably, that ids are matched; before anything of the matching leaves."""
        partners = tuple(party for party in parties if party != self.party)
        alignment = self._attempt = Alignment(session, self.party, study, partners, self.data)
        self.ledger.align(alignment, self.policy.cap, self.policy.largest_alignments)

    def consent(self, session: SessionPlan) -> None:
        """Raise PolicyError or LedgerError unless policy, cap and person agree; spends nothing."""
        self.policy.check(session, self.party)
        charge = charge_of(session.plan, self.party)
        self.ledger.check(self.data, charge, self.policy.cap)
        told = bits_told(session, self.party)
        self.ledger.check_told(self.data, told, self.policy.largest_bits_told)
        spent, cap = self.spent(), self.policy.cap
        # The session's own id is new in every run: what a person approves are its terms.
        summary = (
            f"{self.party}: study {session.agreement.name} with n={session.rows} would spend "
            f"epsilon={charge.epsilon:.6g} of data set {self.data.name}, {spent.epsilon:.6g} of {cap.epsilon:.6g} is "
            f"spent; a partner that breaks the protocol could read {people_told(min(told, session.rows))}"
            f"{self._noted}"
        )
        self.policy.approve(session.terms, summary, self.approved, self.ask, self.left)

    @property
    def _noted(self) -> str:
        return "".join(f"; {note}" for note in self.notes)

    def foresee_scores(self, prediction: Prediction, aligned: bool) -> None:
        """Raise PolicyError, before ids are matched, for a prediction that the policy does not allow."""
        foresee_scores(self.policy, self.party, prediction)
        if aligned:
            self.ledger.try_to_write()
            self.check_alignments()

    def consent_scores(self, prediction: Prediction, rows: int) -> None:
        """Raise PolicyError unless policy and person let these scores be opened; a ledger has no entry for them."""
        foresee_scores(self.policy, self.party, prediction)
        each = "" if prediction.scores == 1 else f", {prediction.scores} of each,"
        summary = (
            f"{self.party}: exact scores of n={rows} records{each} by {len(prediction.columns[self.party])} of its "
            f"columns would be opened by {prediction.receiver}{self._noted}"
        )
        self.policy.approve(prediction.terms(rows), summary, self.approved, self.ask, self.left)

    def book(self, session: SessionPlan) -> None:
        """Write the spend into the ledger, durably, before the submission leaves."""
        # A server that uses an id twice would get noise drawn twice for one entry.
        self._book(session, once=True)

    def resumable(self, session: str) -> bool:
        """Whether a session that broke may go on: it is booked, or was not reached, and nobody has settled it."""
        own = [e for e in self.ledger.entries() if (e.booking.session, e.booking.party) == (session, self.party)]
        return not own or own[-1].kind is EntryKind.BOOKED

    def resume(self, session: SessionPlan) -> None:
        """Book the spend of a session that goes on with the same bytes, unless it is booked."""
        if session.identity.hex() not in self.pending(session.agreement.name):
            self.consent(session)
        self._book(session, once=False)

    def _book(self, session: SessionPlan, once: bool) -> None:
        name = session.identity.hex()
        charge, record = charge_of(session.plan, self.party), record_epsilon(session.plan)
        told = bits_told(session, self.party)
        booking = Booking(name, self.party, session.agreement.name, session.digest, self.data, charge, record, told)
        self.ledger.book(booking, self.policy.cap, once=once, largest_told=self.policy.largest_bits_told)
        self._booked = name

    def release(self) -> None:
        """Note that the session was opened."""
        self._read = False
        if self._booked is not None:
            self.ledger.settle(self._booked, self.party, EntryKind.RELEASED)

    def void(self, reason: str) -> None:
        """Note that the session ended before all parties had submitted, so that nothing was ever opened.

        If data had been read that is an attempt, which a policy may limit.
        """
        # What is booked counts: a book that cannot be written to errs on the safe side.
        with suppress(LedgerError):
            if self._booked is not None:
                self.ledger.settle(self._booked, self.party, EntryKind.VOID, reason)
            elif self._read and self._attempt is not None:
                self._read = False
                self.ledger.note_failure(self._attempt, self.policy.cap, reason)

    def spent(self) -> Spent:
        """What the data set has spent so far, by the cap's rule."""
        return self.ledger.spent(self.data, self.policy.cap)


def open_guard(
    party: str,
    policy: Path | Policy,
    ledger: Path,
    data: DataSet,
    approved: Collection[str] = (),
    *,
    ask: Callable[[str], bool] | None = None,
    left: Approvals | None = None,
) -> ConsentGuard:
    """Return who agrees and books for a party, by its own policy and ledger."""
    rules = read_policy(policy) if isinstance(policy, Path) else policy
    if rules.party != party:
        where = f" in {policy.name}" if isinstance(policy, Path) else ""
        raise PolicyError(f"the policy{where} is for party {rules.party!r}, and was named for {party}")
    return ConsentGuard(party, rules, open_ledger(ledger), data, approved, ask, left)


def foresee(
    policy: Policy,
    party: str,
    agreement: Agreement,
    rows: int,
    aligned: bool,
    room: Callable[[SessionPlan, Charge], None] = lambda session, charge: None,
) -> None:
    """Raise the policy's or the ledger's refusal if every number of common records up to `rows` would meet one.

    The charge depends on n, by a few per cent or a third, and n is known after ids are matched: numbers from `rows`
    down to the smallest that the policy takes are tried, and one that passes is enough.
    """
    policy.check_terms(agreement, party)
    policy.check_rows(rows, f"{party} itself has")
    refusal: ColonnadeError | None = None
    while True:
        try:
            session = plan_session(agreement, rows, NOBODY)
        except ColonnadeError:
            # Not every n has a plan; the server says so once n is known.
            session = None
        if session is not None:
            slack = SLACK if aligned else 0.0
            charge = charge_of(session.plan, party)
            try:
                policy.check_plan(session, party, slack)
                room(session, _lowered(charge, slack))
                return
            except PolicyError as error:
                refusal = refusal or error
            except LedgerError as error:
                refusal = refusal or _refusal(partial(room, session, charge)) or error
        least = max(2, policy.smallest_rows)
        if not aligned or rows <= least:
            break
        rows = max(least, rows // RUNG)
    if refusal is not None:
        raise refusal


def _refusal(room: Callable[[], None]) -> LedgerError | None:
    """The same with the charge as it stands, for a reader."""
    try:
        room()
    except LedgerError as error:
        return error
    return None


def foresee_scores(policy: Policy, party: str, prediction: Prediction) -> None:
    """Raise PolicyError for a prediction that the policy does not allow, whatever n is."""
    policy.check_scores(prediction.receiver, prediction.parties, prediction.columns[party], party)


def _lowered(charge: Charge, slack: float) -> Charge:
    rho, zcdp = (None if r is None else r * (1 - slack) ** 2 for r in (charge.rho, charge.zcdp))
    return replace(charge, epsilon=charge.epsilon * (1 - slack), rho=rho, zcdp=zcdp)

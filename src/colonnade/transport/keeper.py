"""What guards a party's data around one session: its policy, its ledger, and a person who approves."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from colonnade.foundation.errors import LedgerError
from colonnade.ledger import Booking, DataSet, Kind, Ledger
from colonnade.mechanism.composition import Spent, charge_of, record_epsilon
from colonnade.policy import Policy
from colonnade.protocol.prediction import Prediction
from colonnade.protocol.session import Session


@dataclass
class Keeper:
    """One party's side of consent: agrees to a plan, books the spend before it leaves, and settles it afterwards."""

    party: str
    policy: Policy
    ledger: Ledger
    data: DataSet
    approved: Collection[str] = ()
    """Digests of plans that a person approved beforehand."""
    ask: Callable[[str], bool] | None = None
    """Asks a person about a plan, where there is one to ask."""
    _booked: str | None = field(default=None, init=False)

    def consent(self, session: Session) -> None:
        """Raise PolicyError or LedgerError unless policy, cap and person agree; spends nothing."""
        self.policy.check(session, self.party)
        charge = charge_of(session.plan, self.party)
        self.ledger.check(self.data, charge, self.policy.cap)
        spent, cap = self.spent(), self.policy.cap
        # The session's own id is new in every run: what a person approves are its terms.
        summary = (
            f"{self.party}: study {session.agreement.name} with n={session.rows} would spend "
            f"epsilon={charge.epsilon:.6g} of data set {self.data.name}, {spent.epsilon:.6g} of {cap.epsilon:.6g} is "
            "spent"
        )
        self.policy.approve(session.terms, summary, self.approved, self.ask)

    def consent_scores(self, prediction: Prediction, rows: int) -> None:
        """Raise PolicyError unless policy and person let these scores be opened; a ledger has no entry for them."""
        self.policy.check_scores(prediction.receiver, prediction.parties, prediction.columns[self.party], self.party)
        summary = (
            f"{self.party}: exact scores of n={rows} records by {len(prediction.columns[self.party])} of its columns "
            f"would be opened by {prediction.receiver}"
        )
        self.policy.approve(prediction.terms(rows), summary, self.approved, self.ask)

    def book(self, session: Session) -> None:
        """Write the spend into the ledger, durably, before the submission leaves."""
        name = session.identity.hex()
        charge, record = charge_of(session.plan, self.party), record_epsilon(session.plan)
        booking = Booking(name, self.party, session.agreement.name, session.digest, self.data, charge, record)
        # A server that uses an id twice would get noise drawn twice for one entry.
        self.ledger.book(booking, self.policy.cap, once=True)
        self._booked = name

    def release(self) -> None:
        """Note that the session was opened."""
        if self._booked is not None:
            self.ledger.settle(self._booked, self.party, Kind.RELEASED)

    def void(self, reason: str) -> None:
        """Note that the session ended before all parties had submitted, so that nothing was ever opened."""
        if self._booked is None:
            return
        try:
            self.ledger.settle(self._booked, self.party, Kind.VOID, reason)
        except LedgerError:
            # What is booked counts: a book that cannot be written to errs on the safe side.
            return

    def spent(self) -> Spent:
        """What the data set has spent so far, by the cap's rule."""
        return self.ledger.spent(self.data, self.policy.cap)

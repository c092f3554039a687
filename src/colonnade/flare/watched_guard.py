"""A guard that books for a party that stands, and shows its people the session and the spend."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields

from colonnade.consent.guard import ConsentGuard, PolicyGuard
from colonnade.flare.process import ParentWatch
from colonnade.flare.status import Spend, StatusFile
from colonnade.foundation.errors import LedgerError
from colonnade.mechanism.composition import charge_of
from colonnade.planning.session_plan import SessionPlan


@dataclass(kw_only=True)
class WatchedGuard(ConsentGuard):
    """Books for a party whose site still runs."""

    parent: ParentWatch
    status: StatusFile

    def consent(self, session: SessionPlan) -> None:
        self.status.session = session.identity.hex()
        super().consent(session)

    def book(self, session: SessionPlan) -> None:
        self.parent.require()
        super().book(session)
        self.parent.booked = True
        charge = charge_of(session.plan, self.party)
        self.status.note(Spend("booked", charge.epsilon, charge.delta, self.spent().epsilon, self.policy.cap.epsilon))

    def release(self) -> None:
        super().release()
        self._show()

    def void(self, reason: str) -> None:
        super().void(reason)
        self._show()

    def _show(self) -> None:
        """What the book itself says: it may be that it could not be written to."""
        with suppress(LedgerError):
            mine = (self.status.session, self.party)
            kinds = [e.kind for e in self.ledger.entries() if (e.booking.session, e.booking.party) == mine]
            if kinds:
                self.status.settle(kinds[-1].value)


def watched(guard: ConsentGuard | PolicyGuard, parent: ParentWatch, status: StatusFile) -> ConsentGuard | PolicyGuard:
    """The same guard, watched; a simulation books nothing that could be shown."""
    if not isinstance(guard, ConsentGuard):
        return guard
    known = {f.name: getattr(guard, f.name) for f in fields(guard) if f.init}
    return WatchedGuard(**known, parent=parent, status=status)

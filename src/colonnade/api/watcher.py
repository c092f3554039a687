"""What a run tells whoever started it from Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from colonnade.api.display import warn_of, warn_user
from colonnade.data.table import Table
from colonnade.foundation.errors import PolicyError
from colonnade.mechanism.release import ReleaseRecord
from colonnade.planning.session_plan import SessionPlan
from colonnade.runs import Ask, Observer


class Watcher(Observer):
    """Warns of a plan once, for the first party that is asked: nothing is spent yet."""

    def __init__(
        self,
        steps: Callable[[str, float], None] | None,
        ask: Ask | None = None,
        strict: bool = False,
        keep: Callable[[ReleaseRecord], None] | None = None,
        warnings: Callable[[SessionPlan], Sequence[str]] = SessionPlan.warnings,
    ) -> None:
        """Let `keep` have the release before it is written: it is paid for, whatever becomes of the file."""
        self._steps, self.ask, self._strict, self._keep, self._warnings = steps, ask, strict, keep, warnings
        self._told = False

    def step(self, name: str, share: float) -> None:
        if self._steps is not None:
            self._steps(name, share)

    def plan(self, party: str, session: SessionPlan) -> None:
        if self._told:
            return
        self._told, notes = True, self._warnings(session)
        if self._strict and notes:
            raise PolicyError(f"strict refuses this plan: {notes[0]}")
        for note in notes:
            warn_user(note)

    def table(self, table: Table) -> None:
        warn_of(table)

    def opened(self, release: ReleaseRecord) -> None:
        if self._keep is not None:
            self._keep(release)
        super().opened(release)

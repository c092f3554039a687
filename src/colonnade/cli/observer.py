"""What a run in this process shows to the person at the terminal, and asks, between the bars of its progress."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import typer

from colonnade.cli.screen import own_eyes, stderr, stdout
from colonnade.data.table import Table
from colonnade.foundation.errors import PolicyError
from colonnade.mechanism.release import ReleaseRecord
from colonnade.planning.session_plan import SessionPlan
from colonnade.report.progress import Steps
from colonnade.report.render.terminal import caution, shown, verdict
from colonnade.report.results import Answer
from colonnade.runs import FittedStudy, Observer


class Terminal(Observer):
    """Warns of a plan once, for the first party that is asked: nothing is spent yet."""

    def __init__(
        self,
        steps: Steps,
        plan_of: Callable[[SessionPlan], Answer] | None = None,
        *,
        strict: bool = False,
        full: bool = False,
        may_ask: bool = True,
        what: str = "plan",
    ) -> None:
        """Show with `full` the whole plan that `plan_of` makes of a session, and its warnings in any case."""
        self._plan_of, self._strict, self._full, self._what = plan_of, strict, full, what
        self._plan: Answer | None = None
        self.steps = steps
        self.written: list[Path | None] = []
        self.ask = self._ask if may_ask and sys.stdin.isatty() else None

    def step(self, name: str, share: float) -> None:
        self.steps(name, share)

    def plan(self, party: str, session: SessionPlan) -> None:
        if self._plan_of is None:
            return
        if self._plan is None:
            self._plan = self._plan_of(session)
            if self._full:
                self.steps.print_between(stdout(), shown(self._plan))
            self.steps.print_between(stderr(), *map(caution, self._plan.warnings))
        if self._strict and self._plan.warnings:
            raise PolicyError(f"--strict refuses this {self._what}: {self._plan.warnings[0]}")

    def table(self, table: Table) -> None:
        self.steps.print_between(stderr(), *own_eyes(table))

    def opened(self, release: ReleaseRecord) -> None:
        super().opened(release)
        if self.file is not None:
            self.written.append(self.file.path)

    def _ask(self, question: str) -> bool:
        with self.steps.pause():
            if self._plan is not None and self._plan.brief is not None and not self._full:
                stderr().print(verdict(self._plan.brief))
            return typer.confirm(f"{question}\nIs it approved?", err=True)


def tell_unsettled(fitted: FittedStudy) -> None:
    """Print of which parties the session stays booked though it is over."""
    for name, reason in fitted.unsettled.items():
        stderr().print(caution(f"the session of {name} stays booked: {reason}"))

"""A study run in a thread of the studio, with the progress of its steps."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from colonnade.check import check_study
from colonnade.data.table import Table
from colonnade.foundation.errors import ColonnadeError, DataError, StoppedError, StudyError
from colonnade.foundation.files import Place, places
from colonnade.report.progress import NAMES
from colonnade.runs import Observer, Outcome, RunOptions, fit
from colonnade.study import StudySpec

SPENT = ("submit", "open")
"""Steps in which the spend is booked."""


@dataclass
class RunStep:
    """One step of a run, and how much of it is done."""

    name: str
    share: float = 0.0
    started: float = field(default_factory=time.monotonic)
    took: float | None = None

    @property
    def left(self) -> float | None:
        """Seconds left at the present pace."""
        gone = time.monotonic() - self.started
        return None if self.took is not None or self.share < 0.02 else gone * (1 - self.share) / self.share


def without_ledger(study: StudySpec) -> list[str]:
    """Parties whose spend no ledger would book."""
    return [name for name, source in study.sources.items() if source.policy is None or source.ledger is None]


def require_booked(study: StudySpec, unbooked: bool) -> None:
    """Refuse a spend that nobody books, unless a person asks for it."""
    if not unbooked and (missing := without_ledger(study)):
        raise StudyError(
            f"a spend is booked in a ledger, got no policy and ledger for {', '.join(missing)}: name them, or say "
            "that this run may spend without (unbooked)"
        )


@dataclass
class Run(Observer):
    """A run that was started from the page; its release is written before it counts as done."""

    study: StudySpec
    place: Path
    approved: tuple[str, ...] = ()
    unbooked: bool = False
    """A person said that parties without a policy and a ledger spend what nobody books."""
    steps: dict[str, RunStep] = field(default_factory=dict)
    done: bool = False
    error: str = ""
    outcome: Outcome | None = None
    notes: list[str] = field(default_factory=list)
    cancelled: bool = False
    """A person asked for the end: it comes with the next step, or not at all once parties submit."""

    def cancel(self) -> None:
        """Ask for the end of the run; what is submitted is booked, and goes on."""
        self.cancelled = True

    def start(self) -> None:
        require_booked(self.study, self.unbooked)
        Thread(target=self.work, name="colonnade run", daemon=True).start()

    def shown(self) -> list[RunStep]:
        """The steps so far; the page reads them while the run adds more."""
        return list(self.steps.values())

    def work(self) -> None:
        """All of it; a refusal becomes one sentence on the page."""
        try:
            require_booked(self.study, self.unbooked)
            with places(Place(self.place, new=True)) as (file,):
                self.file = file
                fitted = fit(self.study, RunOptions(approved=self.approved), self)
                self.outcome, self.place = fitted.outcome, file.path or self.place
                self.notes += [f"the session of {n} stays booked: {why}" for n, why in fitted.unsettled.items()]
                if self.cancelled:
                    self.notes.append("it was too late to cancel: the submissions had left")
                if fitted.unkept:
                    self.notes.append(f"no ledger was kept for {', '.join(fitted.unkept)}")
        except ColonnadeError as error:
            self.error = str(error)
            if isinstance(error, DataError):
                self.notes += check_study(self.study).lines
        except Exception as error:
            self.error = f"this is a bug in colonnade: {type(error).__name__}: {error}"
        finally:
            self._finish()
            self.done = True

    def table(self, table: Table) -> None:
        """What a party's person should know of how its records were read."""
        self.notes += [f"{table.party} (for its own eyes): {note}" for note in table.notes()]

    def step(self, name: str, share: float) -> None:
        """Called by the run with a step and the share of it that is done."""
        if self.cancelled and name not in SPENT:
            raise StoppedError("the run was cancelled before anything was booked: nothing was spent")
        if name not in self.steps:
            self._finish()
            self.steps[name] = RunStep(NAMES.get(name, name))
        self.steps[name].share = max(self.steps[name].share, min(1.0, share))

    def _finish(self) -> None:
        for step in self.steps.values():
            if step.took is None:
                step.took = time.monotonic() - step.started
                step.share = step.share if self.error else 1.0

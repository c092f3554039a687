"""A study run in a thread of the studio, with the progress of its steps."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.ledger import DataSet, Ledger
from colonnade.mechanism.release import write_release
from colonnade.policy import read_policy
from colonnade.report.output import Place, places
from colonnade.report.progress import NAMES
from colonnade.study import Study
from colonnade.table import Table, read_table
from colonnade.transport.embedded import Outcome, run_embedded
from colonnade.transport.keeper import Keeper


@dataclass
class Step:
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


@dataclass
class Run:
    """A run that was started from the page; its release is written before it counts as done."""

    study: Study
    place: Path
    approved: tuple[str, ...] = ()
    steps: dict[str, Step] = field(default_factory=dict)
    done: bool = False
    error: str = ""
    outcome: Outcome | None = None
    notes: list[str] = field(default_factory=list)

    def start(self) -> None:
        Thread(target=self.work, name="colonnade run", daemon=True).start()

    def shown(self) -> list[Step]:
        """The steps so far; the page reads them while the run adds more."""
        return list(self.steps.values())

    def work(self) -> None:
        """All of it; a refusal becomes one sentence on the page."""
        try:
            with places(Place(self.place, new=True)) as (file,):
                self.outcome = self._embedded()
                # The budget is spent: whatever happens next, the release is kept.
                file.write(write_release(self.outcome.release))
                self.place = file.path or self.place
        except ColonnadeError as error:
            self.error = str(error)
        except Exception as error:
            self.error = f"this is a bug in colonnade: {type(error).__name__}: {error}"
        finally:
            self._finish()
            self.done = True

    def _embedded(self) -> Outcome:
        tables = self._tables()
        keepers = self._keepers()
        outcome = run_embedded(
            self.study.agreement,
            tables,
            self.study.alignment,
            watch=self.watch,
            keepers=keepers,
        )
        for name, keeper in keepers.items():
            try:
                keeper.release()
            except ColonnadeError as error:
                self.notes.append(f"the session of {name} stays booked: {error}")
        if unkept := [name for name in tables if name not in keepers]:
            self.notes.append(f"no ledger was kept for {', '.join(unkept)}")
        return outcome

    def _tables(self) -> dict[str, Table]:
        out = {}
        for k, (name, source) in enumerate(self.study.sources.items()):
            self.watch("read", k / len(self.study.sources))
            if source.data is None:
                raise StudyError(f"[party.{name}] needs data, the path of its file, for a run in one process")
            out[name] = read_table(name, source.data, self.study.agreement.schema.parties[name], source.id)
        return out

    def _keepers(self) -> dict[str, Keeper]:
        out = {}
        for name, source in self.study.sources.items():
            if source.policy is not None and source.ledger is not None and source.data is not None:
                data = DataSet.of_file(source.data)
                out[name] = Keeper(name, read_policy(source.policy), Ledger(source.ledger), data, self.approved)
        return out

    def watch(self, step: str, share: float) -> None:
        """Called by the run with a step and the share of it that is done."""
        if step not in self.steps:
            self._finish()
            self.steps[step] = Step(NAMES.get(step, step))
        self.steps[step].share = max(self.steps[step].share, min(1.0, share))

    def _finish(self) -> None:
        for step in self.steps.values():
            if step.took is None:
                step.took = time.monotonic() - step.started
                step.share = step.share if self.error else 1.0

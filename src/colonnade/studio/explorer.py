"""What the studio shows of a release, all of it computed from it: models, intervals, what-if, tables, drawn rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from colonnade.analysis.released import Released
from colonnade.analysis.request import ModelRequest
from colonnade.api.release import Release
from colonnade.api.views import SyntheticRows
from colonnade.data.table import table_from
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.foundation.schema import Column
from colonnade.mechanism.release import ReleaseRecord
from colonnade.model import PublicModel, partial_scores, predict, publish
from colonnade.report.answers.coefficients import fitted

MOST_ROWS = 100_000  # a browser downloads them in seconds
SHOWN_ROWS = 20  # a screen; the download has them all
NO_INTERVALS = "a model of several classes, or of rows and tables, has none"


@dataclass
class Explorer:
    """One release, with what is slow to compute kept."""

    release: ReleaseRecord
    _models: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)

    @cached_property
    def asked(self) -> Release:
        """The same as Python has it."""
        return Release(self.release)

    @cached_property
    def released(self) -> Released | None:
        """What can be asked for tables; nothing of a release that holds none."""
        try:
            return Released(self.release)
        except ReleaseError:
            return None

    def model(self, label: str) -> dict[str, Any]:
        """The model of the study's label, or of another column, with its intervals where it has some."""
        if label not in self._models:
            asked = ModelRequest(self.release, self.task_of(label), label or None)
            public = publish(self.release, asked.model(None), asked.notes)
            sure = asked.intervals()
            self._models[label] = {"public": public, "model": fitted(public, sure, NO_INTERVALS)}
        return self._models[label]

    def task_of(self, label: str) -> str | None:
        """Which regression fits a column: the study's own label has the study's."""
        if not label or self.released is None:
            return None
        i = self.released.find(label)
        if i in self.released.numbers:
            return "linear"
        return "logistic" if len(self.released.levels(i)) == 2 else "multinomial"

    def labels(self) -> list[str]:
        """Columns that a model can be of."""
        released = self.released
        if released is None:
            return []
        return [released.short(i) for i in range(len(released.layout.attributes))]

    def guess(self, label: str, fields: Mapping[str, str]) -> dict[str, Any]:
        """What the model says of a person with these columns, and the columns as fields with their values."""
        public: PublicModel = self.model(label)["public"]
        needed = public.needs()
        shown = [
            _Control(party, name, column, fields.get(f"x.{name}", "").strip() or _middle(column))
            for party, columns in needed.items()
            for name, column in columns.items()
            if not column.sources
        ]
        total: Any = 0.0
        for party, columns in needed.items():
            row = {c.name: [c.value] for c in shown if c.party == party}
            table = table_from(party, pl.DataFrame(row), columns).require_fit(strict=True)
            total = total + partial_scores(table, public.model, public.factors)
        found = predict(public, np.asarray(total))[0]
        return {"controls": shown, "answer": _answer(public, found)}

    def table(self, first: str, second: str) -> dict[str, Any]:
        """One column, or two with their heat map and how far they depend on each other."""
        # Raises the reason where there are no tables.
        released = self.released or Released(self.release)
        names = [released.short(i) for i in released.tabular]
        first = first if first in names else (names[0] if names else "")
        second = second if second in names and second != first else ""
        if not first:
            return {"names": names, "first": "", "second": ""}
        answer = self.asked.tables(first, second or None).answer
        return {"names": names, "first": first, "second": second, "answer": answer}

    def drawn(self, count: int) -> SyntheticRows:
        """So many rows that have the release's tables."""
        if not 1 <= count <= MOST_ROWS:
            raise StudyError(f"the studio draws between 1 and {MOST_ROWS} rows, got {count}")
        return self.asked.synthesize(count)


@dataclass(frozen=True)
class _Control:
    """One column that a person may set."""

    party: str
    name: str
    column: Column
    value: str

    @property
    def options(self) -> Sequence[str]:
        return () if self.column.bounds is not None else self.column.examples()

    @property
    def hint(self) -> str:
        return self.column.facts(3)


def _middle(column: Column) -> str:
    """Where a person starts: the middle of the range, or the first level."""
    if column.bounds is None:
        return str(column.examples()[0])
    low, high = column.bounds
    middle = (low + high) / 2
    return column.write(float(round(middle)) if high - low > 10 else middle)


def _answer(public: PublicModel, found: Any) -> list[dict[str, Any]]:
    """What the model says: a chance for each class, or a number in the label's own units."""
    model = public.model
    name, column, level = public.label
    if model.classes:
        pairs = zip(model.classes, found, strict=True)
        return [{"what": f"chance that {name} is {c}", "value": float(p), "share": True} for c, p in pairs]
    if model.is_log_odds:
        return [{"what": f"chance that {name} is {level}", "value": float(found), "share": True}]
    return [{"what": f"expected {name}", "value": float(found), "share": False, "told": column.write(float(found))}]

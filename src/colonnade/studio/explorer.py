"""What the studio shows of a release, all of it computed from it: models, intervals, what-if, tables, drawn rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from colonnade.analysis.released import Released
from colonnade.api.display import telling
from colonnade.api.model import Model
from colonnade.api.release import Release
from colonnade.api.views import SyntheticRows
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.schema import Column
from colonnade.mechanism.release import ReleaseRecord

MOST_ROWS = 100_000  # a browser downloads them in seconds
SHOWN_ROWS = 20  # a screen; the download has them all


@dataclass
class Explorer:
    """One release, with what is slow to compute kept."""

    release: ReleaseRecord
    _models: dict[str, Model] = field(default_factory=dict, init=False)

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

    def _model(self, label: str) -> Model:
        if label not in self._models:
            with telling():
                self._models[label] = self.asked.solve(label or None, task=self.task_of(label))
        return self._models[label]

    def model(self, label: str) -> dict[str, Any]:
        """The model of the study's label, or of another column, with its intervals where it has some."""
        found = self._model(label)
        return {"public": found.public, "model": found.summary().answer}

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
        model = self._model(label)
        needed, title = model.public.needs(), model.public.schema.title
        shown = [
            _Control(ref, name, column, fields.get(f"x.{name}", "").strip() or _middle(column))
            for party, columns in needed.items()
            for ref, column in ((ColumnRef(party, own), column) for own, column in columns.items())
            for name in [title(ref)]
            if not column.sources
        ]
        person = {p: pl.DataFrame({c.of.column: [c.value] for c in shown if c.of.party == p}) for p in needed}
        return {"controls": shown, "answer": _answer(model, person)}

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

    of: ColumnRef
    name: str
    """As it is called in the form: with its party where another has one of this name."""
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


def _answer(model: Model, person: Mapping[str, pl.DataFrame]) -> list[dict[str, Any]]:
    """What the model says: a chance for each class, or a number in the label's own units."""
    name, column, _ = model.public.label
    if not model.classes:
        found = float(model.predict(person, strict=True)[0])
        return [{"what": f"expected {name}", "value": found, "share": False, "told": column.write(found)}]
    pairs = zip(model.classes, model.predict_proba(person, strict=True)[0], strict=True)
    told = [{"what": f"chance that {name} is {c}", "value": float(p), "share": True} for c, p in pairs]
    # Of two the other follows.
    return told[1:] if len(told) == 2 else told

"""A model of a release: coefficients with intervals, predictions, a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.analysis.models import ClassModel
from colonnade.analysis.units import Units, label_units
from colonnade.api.shown import Shown, warn_of
from colonnade.data.sources import Source
from colonnade.foundation.errors import DataError, StudyError
from colonnade.foundation.files import places, read_whole
from colonnade.foundation.parts import local_path
from colonnade.foundation.shown import figure
from colonnade.model import PublicModel, Scores, read_model, score_tables, scored_classes, write_model

if TYPE_CHECKING:
    from rich.console import RenderableType

    from colonnade.analysis.accepted import Acceptance
    from colonnade.analysis.intervals import Intervals
    from colonnade.analysis.request import ModelRequest

PathLike = str | os.PathLike[str]


class FrontModel(Shown):
    """A model that was computed from a release, at no cost in privacy.

    `release.solve()` makes one; `Model.read` reads one from its file.

    Attributes
    ----------
    task : str
        "linear", "logistic", "multinomial" or "poisson".
    label : str
        The column that the model predicts, or one level of it.
    features : tuple of str
        The columns and levels that have a coefficient.
    classes : tuple of str
        The levels that the model gives chances to, the positive one last of two; empty where it predicts a number.
    public : colonnade.model.PublicModel
        The model with the public facts that scoring raw data needs.
    notes : list of str
        What to know of it: that it may be no better than the label's mean or shares alone, or of columns that were not
        used, which a file does not tell.
    outcome : colonnade.analysis.accepted.Acceptance
        Which estimator made it, whether it fell back, and by how much it is expected to be better than the base rate.
    """

    def __init__(self, public: PublicModel, request: ModelRequest | None = None) -> None:
        self.public = public
        self._request = request

    @classmethod
    def read(cls, path: PathLike) -> FrontModel:
        """Read a model file; one that was altered is refused.

        Parameters
        ----------
        path : str or path
            A file that `save`, `colonnade fit --model` or `colonnade solve --out` wrote.
        """
        return cls(read_model(read_whole(local_path(os.fspath(path)), "model")))

    @classmethod
    def load(cls, path: PathLike) -> FrontModel:
        """The same as `read`."""
        return cls.read(path)

    def save(self, path: PathLike) -> None:
        """Write the model to a file; one that is there is replaced, unless it is a release."""
        with places(local_path(os.fspath(path))) as (file,):
            file.write(write_model(self.public))

    @property
    def task(self) -> str:
        return self.public.model.task

    @property
    def label(self) -> str:
        return self.public.model.label

    @property
    def features(self) -> tuple[str, ...]:
        return self.public.model.features

    @property
    def notes(self) -> list[str]:
        return self.public.warnings

    @property
    def outcome(self) -> Acceptance | None:
        return self.public.model.outcome

    @property
    def classes(self) -> tuple[str, ...]:
        return scored_classes(self.public)

    @cached_property
    def _units(self) -> Units:
        from colonnade.report.summary import products_of

        public = self.public
        if products_of(public) or public.is_declared:
            return Units(1.0, 0.0, {})
        name, column, level = public.label
        declared = public.schema.find(public.declared)[1] == name
        own = None if column.bounds is not None and level is None else level
        half, middle = label_units(public.model, column, own, declared)
        return Units.of(public.schema, [c for columns in public.needs().values() for c in columns], half, middle)

    @property
    def coef(self) -> Any:
        """Coefficients in the units of the data, by feature; of several classes a dict for each of them.

        A number's is for one unit of it; a level's is against its column's base. They are those of the label in its
        own units (linear), of the log-odds (logistic, multinomial) or of the mean's logarithm (poisson).
        """
        return self._in_units(0)

    @property
    def coef_encoded(self) -> Any:
        """Coefficients as the model has them: a number counts from -1 to 1 over its declared range."""
        return self._by_class(lambda row, b: dict(zip(self.features, row, strict=True)))

    @property
    def intercept(self) -> Any:
        """The constant in the units of the data; of several classes one for each."""
        return self._in_units(1)

    def _in_units(self, part: int) -> Any:
        from colonnade.report.summary import products_of

        if products_of(self.public):
            raise StudyError("a model with products of columns has coefficients as coded alone: coef_encoded")
        return self._by_class(lambda row, b: self._units.convert(self.features, row, b)[part])

    @property
    def intercept_encoded(self) -> Any:
        """The constant as the model has it."""
        return self._by_class(lambda row, b: b)

    def _by_class(self, of: Any) -> Any:
        model = self.public.model
        self.public.require_distinct()
        if not isinstance(model, ClassModel):
            return of(model.coefficients, model.intercept)
        rows = zip(model.classes, model.by_class, model.intercepts, strict=True)
        return {name: of(row, b) for name, row, b in rows}

    @property
    def odds_ratios(self) -> dict[str, float]:
        """By what the odds are multiplied for one unit more of a number, or for a level against its base."""
        from colonnade.report.summary import exponential

        if self.task != "logistic":
            raise StudyError(f"odds ratios belong to logistic models, and this one is {self.task}")
        return {feature: exponential(value) for feature, value in self.coef.items()}

    @cached_property
    def intervals(self) -> Intervals | None:
        """95% intervals as encoded, of the full model or of a reduced one; None for models that have none.

        They are computed when first asked for. `summary()` shows them in the units of the data.
        """
        return None if self._request is None else self._request.intervals()

    @property
    def _why_none(self) -> str:
        from colonnade.report.summary import NO_FILE

        return NO_FILE if self._request is None else self._request.certainty().reason

    def summary(self) -> ModelSummary:
        """Every coefficient in the data's units and as encoded, with odds ratios and 95% intervals."""
        return ModelSummary(self)

    def predict(self, data: Any, *, id: Any = None, strict: bool = False) -> NDArray[Any]:
        """Predict the label of records, in its own units or as a level.

        Parameters
        ----------
        data : data frame, path, or {party: data frame or path}
            One wide frame or file with all columns, or one for each party.
        id : str, or {party: str}, optional
            The column by which several frames are matched; row by row if not given. Predictions then come in the order
            of the first party's records that all have: `scores` tells their ids.
        strict : bool
            Refuse any value that is not as declared. By default a column of which more than one value in twenty is not
            is refused, and fewer are warned of.

        Returns
        -------
        numpy.ndarray
            One prediction for each record.
        """
        return self._labels(self._score(data, id, strict).values)

    def predict_proba(self, data: Any, *, id: Any = None, strict: bool = False) -> NDArray[np.float64]:
        """The chance of each class, one column for each of `classes`; takes what `predict` takes."""
        return self._chances(self._score(data, id, strict).values)

    def scores(self, data: Any, *, id: Any = None, strict: bool = False) -> pl.DataFrame:
        """Ids, chances and predictions as a data frame; takes what `predict` takes."""
        scored = self._score(data, id, strict)
        columns: dict[str, Any] = {}
        if scored.ids is not None and scored.id_column is not None:
            columns[scored.id_column] = list(scored.ids)
        if self.classes:
            chances = self._chances(scored.values)
            columns |= {f"probability {name}": chances[:, k] for k, name in enumerate(self.classes)}
        predicted = self._labels(scored.values)
        return pl.DataFrame({**columns, "predicted": predicted.tolist()})

    def _chances(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if not self.classes:
            raise StudyError(f"chances belong to models of levels, and this one of {self.label} is {self.task}")
        return values if values.ndim == 2 else np.column_stack([1.0 - values, values])

    def _labels(self, values: NDArray[np.float64]) -> NDArray[Any]:
        if not self.classes:
            return values
        chosen = values.argmax(axis=1) if values.ndim == 2 else (values >= 0.5).astype(np.intp)
        levels: NDArray[Any] = np.array(self.classes, dtype=object)[chosen]
        return levels

    def _score(self, data: Any, ids: Any, strict: bool) -> Scores:
        needs = self.public.needs()
        several = isinstance(data, Mapping)
        if several and (lacking := [party for party in needs if party not in data]):
            raise DataError(f"data must hold what the model needs of every party, got none for {lacking[0]}")
        own = ids if isinstance(ids, Mapping) else dict.fromkeys(needs, ids)
        tables = {}
        for party, columns in needs.items():
            source = Source(None, own.get(party)).given(party, data[party] if several else data, columns)
            tables[party] = source.read(party, columns).require_fit(strict, warn_of)
        named = [own.get(party) for party in needs]
        if any(name is None for name in named) and any(name is not None for name in named):
            missing = next(party for party, name in zip(needs, named, strict=True) if name is None)
            raise DataError(f"every party's data needs an id column, got none for {missing}")
        return score_tables(self.public, tables, several and named[0] is not None, named[0] if named else None)

    def __rich__(self) -> RenderableType:
        from colonnade.report.text import model_report

        return model_report(self.public)

    def _html(self) -> str:
        from colonnade.report.notebook import coefficient_picture, fragment, heading, html_table, paragraph
        from colonnade.report.summary import lines, summary_cells, summary_heads
        from colonnade.report.text import what_of

        every = lines(self.public, self._units)
        heads = summary_heads(self.public)
        rows = [summary_cells(self.public, line) for line in every]
        table = html_table(heads, rows, range(2, len(heads) - 1))
        told = [paragraph(f"Warning: {note}", "soft") for note in self.public.warnings]
        return fragment(heading(what_of(self.public)), *told, coefficient_picture(every) if every else "", table)


class ModelSummary(Shown):
    """What `Model.summary()` shows.

    Attributes
    ----------
    frame : polars.DataFrame
        One line for each coefficient: feature, party, in the data's units, as encoded, odds ratio.
    intervals : polars.DataFrame or None
        One line for each interval, in the data's units; empty numbers where noise drowns the coefficient.
    """

    def __init__(self, model: FrontModel) -> None:
        self._model = model

    @property
    def frame(self) -> pl.DataFrame:
        from colonnade.report.summary import lines

        found = lines(self._model.public, self._model._units)
        columns: dict[str, Any] = {
            "feature": [line.feature for line in found],
            "party": [line.party for line in found],
            "coefficient": [line.coefficient for line in found],
            "encoded": [line.encoded for line in found],
        }
        if self._model.task == "logistic":
            columns["odds_ratio"] = [line.odds_ratio for line in found]
        return pl.DataFrame({**columns, "against": [line.against for line in found]})

    @property
    def intervals(self) -> pl.DataFrame | None:
        from colonnade.report.summary import certainties

        found = self._model.intervals
        if found is None:
            return None
        logistic = self._model.task == "logistic"
        every = list(certainties(found, self._model._units, logistic))
        names = ("feature", "against", "estimate", "low", "high")
        kinds = [pl.String, pl.String, *[pl.Float64] * 3]
        columns = {n: pl.Series(n, [getattr(c, n) for c in every], k) for n, k in zip(names, kinds, strict=True)}
        if logistic:
            for k, name in enumerate(("odds_ratio", "odds_ratio_low", "odds_ratio_high")):
                values = [None if c.odds_ratio is None else c.odds_ratio[k] for c in every]
                columns[name] = pl.Series(name, values, pl.Float64)
        return pl.DataFrame(columns)

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from colonnade.report.summary import class_table, summary_text

        model, public = self._model, self._model.public
        if isinstance(public.model, ClassModel):
            rows = [list(model.coef[name].values()) for name in public.model.classes]
            note = Text("Coefficients of each level's log-odds, in the data's units; they sum to 0 over the levels.")
            return Group(Text(f"Model: chances of the levels of {model.label}", style="bold"),
                         class_table(public, public.model.classes, rows), note)  # fmt: skip
        return summary_text(public, model._units, model.intervals, model._why_none)

    def _html(self) -> str:
        from colonnade.report.certainty import heading_of
        from colonnade.report.notebook import fragment, heading, html_table, interval_html, paragraph
        from colonnade.report.summary import interval_notes, units_note

        model, public = self._model, self._model.public
        if isinstance(public.model, ClassModel):
            by_class = model.coef
            rows = [[f, *(figure(by_class[c][f], 3, "+") for c in model.classes)] for f in model.features]
            heads = ["feature", *model.classes]
            return fragment(heading(f"Chances of the levels of {model.label}"), html_table(heads, rows, range(1, 99)))
        parts = [model._html(), paragraph(units_note(public), "soft")]
        found = model.intervals
        if found is not None and found.coefficients:
            parts += [heading(heading_of(found)), *interval_html(found, model._units, model.task == "logistic")]
        parts += [paragraph(note, "soft") for note in interval_notes(found, model._why_none)]
        return fragment(*parts)

"""A model of a release: coefficients with intervals, predictions, a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from colonnade.api.display import PathLike, Shown, warn_of, warn_user
from colonnade.data.sources import Source
from colonnade.foundation.errors import DataError, StudyError
from colonnade.foundation.files import places, read_whole
from colonnade.foundation.parts import local_path
from colonnade.model import (
    PublicModel,
    Scores,
    beside_ids,
    read_model,
    require_apart,
    score_tables,
    scored_classes,
    write_model,
)

if TYPE_CHECKING:
    import polars as pl

    from colonnade.analysis.intervals import Intervals
    from colonnade.analysis.model import FitOutcome
    from colonnade.analysis.request import ModelRequest
    from colonnade.analysis.units import Units
    from colonnade.report.results import Answer


class Model(Shown):
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
    outcome : colonnade.analysis.model.FitOutcome
        Which estimator made it, whether it fell back, and by how much it is expected to be better than the base rate.
    """

    def __init__(self, public: PublicModel, request: ModelRequest | None = None) -> None:
        self.public = public
        self._request = request

    @classmethod
    def read(cls, path: PathLike) -> Model:
        """Read a model file; one that was altered is refused.

        Parameters
        ----------
        path : str or path
            A file that `save`, `colonnade fit --model` or `colonnade solve --out` wrote.
        """
        return cls(read_model(read_whole(local_path(path), "model")))

    @classmethod
    def load(cls, path: PathLike) -> Model:
        """The old spelling of `read`."""
        warn_user("load is called read, here as elsewhere", FutureWarning)
        return cls.read(path)

    def save(self, path: PathLike) -> None:
        """Write the model to a file; one that is there is replaced, unless it is a release."""
        with places(local_path(path)) as (file,):
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
    def outcome(self) -> FitOutcome | None:
        return self.public.model.outcome

    @property
    def classes(self) -> tuple[str, ...]:
        return scored_classes(self.public)

    @property
    def params(self) -> pl.DataFrame:
        """Coefficients in the units of the data: feature, party, base and estimate, largest first as encoded.

        A number's is for one unit of it; a level's is against its column's base. They are those of the label in its
        own units (linear), of the log-odds (logistic, with a column for each of several classes) or of the mean's
        logarithm (poisson). A model with products of columns has none: `encoded.params` has them as coded.
        """
        from colonnade.report.answers.coefficients import params

        return params(self.public).frame

    def conf_int(self, level: float = 0.95) -> pl.DataFrame:
        """Intervals in the units of the data: feature, base, estimate, low, high and whether they are reliable.

        What is not estimable has no numbers. They are of the full model or a reduced one, and empty where a model has
        none: `summary()` says why.

        Parameters
        ----------
        level : float
            The confidence level.
        """
        return self._conf_int(level, None)

    @property
    def encoded(self) -> EncodedModel:
        """The same as coded: a number counts from -1 to 1 over its declared range."""
        return EncodedModel(self)

    def _conf_int(self, level: float, units: Units | None) -> pl.DataFrame:
        from colonnade.analysis.intervals import Intervals
        from colonnade.report.answers.coefficients import conf_int

        found = None if self._request is None else self._request.intervals(level)
        return conf_int(self.public, found or Intervals(level, "", (), (), False, ""), units).frame

    @property
    def coef(self) -> Any:
        """The estimates of `params` by feature; of several classes a dict for each of them."""
        return self._column()

    @property
    def coef_encoded(self) -> Any:
        """Coefficients as the model has them: a number counts from -1 to 1 over its declared range."""
        return self._column(coded=True)

    @property
    def intercept(self) -> Any:
        """The constant in the units of the data; of several classes one for each."""
        return self._column(constant=True)

    @property
    def intercept_encoded(self) -> Any:
        """The constant as the model has it."""
        return self._column(constant=True, coded=True)

    def _column(self, constant: bool = False, coded: bool = False) -> Any:
        """A column of the table of coefficients by feature, or its constant; for each class that of its own."""
        from colonnade.report.answers.coefficients import CODE, class_keys, params

        model = self.public.model
        if self.public.interactions and not coded:
            raise StudyError("a model with products of columns has coefficients as coded alone: coef_encoded")
        table = params(self.public, CODE if coded or self.public.is_declared else None)
        rows, last = (
            {record["feature"]: record for record in table.records},
            table.last or {"estimate": model.intercept},
        )
        keys = class_keys(model.classes) or ["estimate"]
        found = [last[key] if constant else {name: rows[name][key] for name in self.features} for key in keys]
        return dict(zip(model.classes, found, strict=True)) if model.classes else found[0]

    @property
    def odds_ratios(self) -> dict[str, float]:
        """By what the odds are multiplied for one unit more of a number, or for a level against its base."""
        from colonnade.report.answers.coefficients import exponential

        if not self.public.model.is_log_odds:
            raise StudyError(f"odds ratios belong to logistic models, and this one is {self.task}")
        return {feature: exponential(value) for feature, value in self.coef.items()}

    @cached_property
    def intervals(self) -> Intervals | None:
        """95% intervals as encoded, of the full model or of a reduced one; None for models that have none.

        They are computed when first asked for; what is not estimable has nan for numbers. `conf_int` has the
        same in the units of the data.
        """
        found = None if self._request is None else self._request.intervals()
        return None if found is None else found.reliable_only

    @property
    def answer(self) -> Answer:
        from colonnade.report.answers.coefficients import fitted

        return fitted(self.public, None, "")

    @property
    def fitted(self) -> Answer:
        """What `colonnade solve` prints: with intervals, where the model has some."""
        from colonnade.report.answers.coefficients import fitted

        return fitted(self.public, None if self._request is None else self._request.intervals(), "")

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
        if self.classes:
            chances = self._chances(scored.values)
            columns |= {f"probability {name}": chances[:, k] for k, name in enumerate(self.classes)}
        columns["predicted"] = self._labels(scored.values).tolist()
        import polars as pl

        return pl.DataFrame(beside_ids(scored.id_column, scored.ids, columns))

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
        if not several:
            require_apart(self.public, dict.fromkeys(needs))
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


class EncodedModel:
    """A model's coefficients as coded: what `Model.encoded` gives."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def params(self) -> pl.DataFrame:
        """Feature, party, base and estimate, as `Model.params` has them in the units of the data."""
        from colonnade.report.answers.coefficients import CODE, params

        return params(self._model.public, CODE).frame

    def conf_int(self, level: float = 0.95) -> pl.DataFrame:
        """Intervals, as `Model.conf_int` has them in the units of the data."""
        from colonnade.report.answers.coefficients import CODE

        return self._model._conf_int(level, CODE)


class ModelPath(Shown, list[Model]):
    """Models of several strengths of the penalty, weakest first: what `Release.path` gives."""

    def __init__(self, models: Iterable[Model], penalty: str, known: Mapping[str, Any]) -> None:
        super().__init__(models)
        self._penalty, self._known = penalty, known

    @property
    def answer(self) -> Answer:
        from colonnade.report.answers.coefficients import path_of

        return path_of([model.public for model in self], self._penalty, self._known)


class ModelSummary(Shown):
    """What `Model.summary()` shows.

    Attributes
    ----------
    frame : polars.DataFrame
        One line for each coefficient: feature, party, in the data's units, as encoded, odds ratio.
    intervals : polars.DataFrame or None
        One line for each interval, in the data's units; empty numbers where the coefficient is not estimable.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @cached_property
    def answer(self) -> Answer:
        from colonnade.report.answers.coefficients import NO_FILE, SHOWN_SUMMARY, fitted

        request = self._model._request
        found = None if request is None else request.certainty()
        return fitted(self._model.public, found, NO_FILE, SHOWN_SUMMARY)

    @property
    def frame(self) -> pl.DataFrame:
        from colonnade.report.answers.coefficients import summary_frame

        return summary_frame(self._model.public)

    @property
    def intervals(self) -> pl.DataFrame | None:
        from colonnade.report.answers.coefficients import interval_frame

        found = self._model.intervals
        return None if found is None else interval_frame(self._model.public, found)

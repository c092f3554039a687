"""scikit-learn front door: a vertical regression on one data frame whose columns belong to several parties.

All parties run in this process, through the same protocol as anywhere else. Every `fit` is a session of its own and
spends its whole epsilon: `cross_val_score` with k folds spends k times, `GridSearchCV` once for each candidate and fold.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from colonnade.foundation.errors import DataError, SchemaError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema, column_from
from colonnade.mechanism.objective import Calibration, Task
from colonnade.mechanism.plan import Offer
from colonnade.mechanism.solve import Model, solve
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.session import Session
from colonnade.table import table_from
from colonnade.transport.embedded import run_embedded

Floats = NDArray[np.float64]
Declared = Column | Mapping[str, Any]

ASSUMED = Numeric(-1.0, 1.0)
"""Stands for a number that nobody declared; bounds are never computed from data."""
ONLY_PARTY = "data"
LABEL = "label"


class _Vertical(BaseEstimator):  # type: ignore[misc]
    """What both regressions share: declarations, the session, the way back to the data's units."""

    _task: Task

    def __init__(
        self,
        epsilon: float | Mapping[str, float] = 1.0,
        *,
        delta: float = 0.0,
        parties: Mapping[str, Sequence[str | int]] | None = None,
        schema: Schema | Mapping[str, Declared] | Numeric | None = None,
        label: str | Declared | None = None,
        label_party: str | None = None,
        collusion: int | None = None,
        product: str = "lattice",
        calibration: str = "exact",
        method: str = "default",
        fit_intercept: bool = True,
        ridge: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.parties = parties
        self.schema = schema
        self.label = label
        self.label_party = label_party
        self.collusion = collusion
        self.product = product
        self.calibration = calibration
        self.method = method
        self.fit_intercept = fit_intercept
        self.ridge = ridge
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Run one session on these records and spend its epsilon."""
        X, y = self._validated(X, y=y)
        label, target = self._target(y)
        schema, owner = self._declare(label)
        agreement = self._agreement(schema, f"{owner}.{self._label_name}")
        frame = self._frame(X, schema).with_columns(pl.Series(self._label_name, target))
        tables = {party: table_from(party, frame, columns) for party, columns in schema.parties.items()}
        warned = _WarnOnce()
        outcome = run_embedded(agreement, tables, "none", self._randomness(), consent=warned)
        self.schema_ = schema
        self.plan_ = outcome.session.describe()
        self.release_ = outcome.release
        self.model_: Model = solve(
            outcome.release.moments(), self._task, method=self.method, ridge=self.ridge, intercept=self.fit_intercept
        )
        self._describe()
        return self

    def _validated(self, X: Any, **y: Any) -> Any:
        """scikit-learn's checks; columns that are not plain numbers are checked against the schema afterwards."""
        plain = not any(
            isinstance(c, (Categorical, Binary)) or c.fill is not None for c in self._declarations().values()
        )
        kept = {"dtype": np.float64} if plain else {"dtype": None, "ensure_all_finite": False}
        if not y:
            return validate_data(self, X, reset=False, **kept)
        return validate_data(
            self, X, **y, ensure_min_samples=2, y_numeric=self._task is Task.LINEAR, multi_output=False, **kept
        )

    def _target(self, y: Any) -> tuple[Column, Any]:
        """The label's public declaration, and the label as the table reads it."""
        raise NotImplementedError

    def _declarations(self) -> dict[str, Column]:
        """Every column that the schema names; empty where it names none."""
        if isinstance(self.schema, Schema):
            return {name: column for columns in self.schema.parties.values() for name, column in columns.items()}
        if isinstance(self.schema, Mapping):
            return {str(name): _column(str(name), column) for name, column in self.schema.items()}
        return {}

    def _declared_label(self) -> Column | None:
        if isinstance(self.label, str):
            declared = self._declarations()
            if self.label not in declared:
                raise SchemaError(f"the label must be a column that the schema declares, got label={self.label!r}")
            return declared[self.label]
        return None if self.label is None else _column(LABEL, self.label)

    def _declare(self, label: Column) -> tuple[Schema, str]:
        """Every party's columns, label included, and the label's owner."""
        names = self._names
        declared = self._declarations()
        if self.schema is None:
            _warn(
                f"no schema: every feature is taken to lie in [{ASSUMED.low:g}, {ASSUMED.high:g}] and is clipped to it"
            )
        if self.schema is None or isinstance(self.schema, Numeric):
            declared = dict.fromkeys(names, self.schema or ASSUMED)
        for name in names:
            if name not in declared:
                raise SchemaError(f"the schema must declare every column of X, got none for {name!r}")
        self._label_name = self.label if isinstance(self.label, str) else LABEL
        while self._label_name in names:
            self._label_name += "_"
        held = self._held(names)
        owner = self.label_party if self.label_party is not None else next(iter(held))
        if self.label_party is None and isinstance(self.schema, Schema) and isinstance(self.label, str):
            owner = self.schema.find(self.label)[0]
        if owner not in held:
            raise StudyError(f"the label's party must be one of {', '.join(held)}, got label_party={owner!r}")
        columns = {party: {name: declared[name] for name in own} for party, own in held.items()}
        columns[owner][self._label_name] = label
        return Schema(columns), owner

    def _held(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Which party holds which column of X; a column may be named by its position."""
        parties: Mapping[str, Sequence[str | int]] = {ONLY_PARTY: names} if self.parties is None else self.parties
        if self.parties is None and isinstance(self.schema, Schema):
            parties = {p: [c for c in columns if c in names] for p, columns in self.schema.parties.items()}
        held: dict[str, list[str]] = {}
        for party, columns in parties.items():
            held[party] = []
            for column in columns:
                if isinstance(column, (int, np.integer)) and 0 <= column < len(names):
                    held[party].append(names[column])
                elif column in names:
                    held[party].append(str(column))
                else:
                    raise StudyError(f"party {party} must hold columns of X, got {column!r}")
        left = set(names) - {name for own in held.values() for name in own}
        if left:
            raise StudyError(f"every column of X must belong to a party, got none for {min(left)!r}")
        return held

    def _agreement(self, schema: Schema, label: str) -> Agreement:
        bottom_up = isinstance(self.epsilon, Mapping)
        return Agreement(
            name=type(self).__name__,
            schema=schema,
            label=label,
            task=self._task,
            epsilon=None if bottom_up else self.epsilon,  # type: ignore[arg-type]
            offers={p: Offer(e) for p, e in self.epsilon.items()} if isinstance(self.epsilon, Mapping) else {},
            delta=self.delta,
            collusion=min(1, len(schema.parties) - 1) if self.collusion is None else self.collusion,
            calibration=_calibration(self.calibration),
            product=self.product,
        )

    def _randomness(self) -> Randomness:
        if self.random_state is None:
            return Randomness()
        return Randomness(seed=check_random_state(self.random_state).bytes(32))

    @property
    def _names(self) -> list[str]:
        named = getattr(self, "feature_names_in_", None)
        return [f"x{i}" for i in range(self.n_features_in_)] if named is None else [str(name) for name in named]

    def _frame(self, X: NDArray[Any], schema: Schema) -> pl.DataFrame:
        """X as the table reads it: numbers as numbers, levels as text."""
        columns = {name: column for own in schema.parties.values() for name, column in own.items()}
        return pl.DataFrame([_series(name, columns[name], X[:, i]) for i, name in enumerate(self._names)])

    def _encoded(self, X: Any) -> Floats:
        """The model's features of raw records."""
        check_is_fitted(self)
        frame = self._frame(self._validated(X), self.schema_)
        found: dict[str, Floats] = {}
        for party, columns in self.schema_.parties.items():
            own = {name: column for name, column in columns.items() if name != self._label_name}
            found |= table_from(party, frame, own).coordinates()
        return np.column_stack([found[name] for name in self.model_.features])

    def _describe(self) -> None:
        """Coefficients in the data's units, in the order of X's columns."""
        weights = dict(zip(self.model_.features, self.model_.coefficients, strict=True))
        columns = {name: column for own in self.schema_.parties.values() for name, column in own.items()}
        coordinates = [(name, columns[name], c) for name in self._names for c in _coordinates(name, columns[name])]
        if len({c for *_, c in coordinates}) < len(coordinates):
            raise SchemaError(f"encoded names must be distinct, got {[c for *_, c in coordinates]}")
        half, middle = self._units()
        intercept = middle + half * self.model_.intercept
        coefficients: dict[str, float] = {}
        for _, column, coordinate in coordinates:
            if coordinate not in weights:
                continue
            weight = half * weights[coordinate]
            if isinstance(column, Numeric) and not column.bins:
                weight *= 2 / (column.high - column.low)
                intercept -= weight * (column.high + column.low) / 2
            coefficients[coordinate] = weight
        self.encoded_feature_names_ = np.array(list(coefficients), dtype=object)
        self._store(np.array(list(coefficients.values())), float(intercept))

    def _units(self) -> tuple[float, float]:
        """What a model's unit is worth in the label's, and the label at 0."""
        return 1.0, 0.0

    def _store(self, coefficients: Floats, intercept: float) -> None:
        raise NotImplementedError


class VerticalLinearRegression(RegressorMixin, _Vertical):  # type: ignore[misc]
    """Differentially private least squares over columns that several parties hold.

    Every `fit` spends `epsilon` anew, so `cross_val_score` with k folds spends k times.

    Parameters
    ----------
    epsilon : the record's epsilon (top-down), or {party: epsilon} (bottom-up).
    delta : 0 for discrete Laplace noise, above 0 for discrete Gaussian.
    parties : {party: columns of X, by name or position}; None: one party holds everything.
    schema : {column: Numeric | Categorical | Binary or its declared form}, a `Schema`, or one `Numeric` for every
        column. None: every feature is taken to lie in [-1, 1], with a warning; bounds are never computed from data.
    label : the label's public bounds, `Numeric(low, high)` or its declared form, or its name in the schema.
        None: [-1, 1], with a warning.
    label_party : who holds the label; None: the first party.
    collusion : how many parties may pool what they see with the server; None: 1, or 0 for a single party.
    product : "lattice", "bgn", or "plain" (simulation).
    calibration : "exact" or "paper".
    method : "default", "zhang" or "raw": how the noisy moments are solved.
    fit_intercept : without one the model passes through the middle of all declared ranges.
    ridge : penalty per record in encoded units; None: chosen from the noise.
    random_state : None: the operating system's randomness. Anything else seeds the noise: a simulation without
        privacy, and the release says so.

    Attributes
    ----------
    coef_, intercept_ : in the units of X and y, for the columns `encoded_feature_names_`: a numeric column is one of
        them, a categorical one has an indicator for each level but a dropped one.
    plan_ : what was promised, as `colonnade plan --json` prints it.
    release_ : the noisy moments; everything else was computed from them.
    model_ : the model in encoded units.
    schema_ : every party's public columns, label included.
    """

    _task = Task.LINEAR

    def _target(self, y: Any) -> tuple[Column, Any]:
        label = self._declared_label()
        if label is None:
            _warn(f"no label bounds: y is taken to lie in [{ASSUMED.low:g}, {ASSUMED.high:g}] and is clipped to it")
        return label or ASSUMED, np.asarray(y, dtype=np.float64)

    def _units(self) -> tuple[float, float]:
        column = self.schema_.parties[self.schema_.find(self._label_name)[0]][self._label_name]
        assert isinstance(column, Numeric)
        return (column.high - column.low) / 2, (column.high + column.low) / 2

    def _store(self, coefficients: Floats, intercept: float) -> None:
        self.coef_, self.intercept_ = coefficients, intercept

    def predict(self, X: Any) -> Floats:
        """The label in its own units, clipped to its declared range."""
        encoded = self._encoded(X)
        half, middle = self._units()
        result: Floats = middle + half * self.model_.predict(encoded)
        return result


class VerticalLogisticRegression(ClassifierMixin, _Vertical):  # type: ignore[misc]
    """Differentially private logistic regression (two classes) over columns that several parties hold.

    Every `fit` spends `epsilon` anew, so `cross_val_score` with k folds spends k times. Parameters and attributes are
    those of `VerticalLinearRegression`, but for these:

    label : the two classes, `Binary(levels)` or its declared form, or the label's name in the schema. None: the classes
        are those that occur in y, and which they are counts as public.
    classes_ : the two classes, sorted; `coef_` and `decision_function` speak of the second.
    coef_, intercept_ : of the log-odds, with shapes (1, features) and (1,).
    """

    _task = Task.LOGISTIC

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _target(self, y: Any) -> tuple[Column, Any]:
        check_classification_targets(y)
        label = self._declared_label()
        if label is not None and not isinstance(label, Binary):
            raise SchemaError(f"the label of a logistic regression must be binary, got {label}")
        self.classes_ = np.unique(y) if label is None else _classes(label, y)
        # scikit-learn's contract asks for ValueError here.
        if label is None and type_of_target(y) != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {type_of_target(y)}.")
        if len(self.classes_) != 2:
            raise ValueError(
                f"a logistic regression needs 2 classes in y or declared, got 1 class, {self.classes_[0]!r}"
            )
        low, high = (str(value) for value in self.classes_)
        codes = np.searchsorted(self.classes_, y).clip(max=1)
        if np.any(self.classes_[codes] != y):
            raise DataError(f"y must hold the declared classes {low!r} and {high!r} only")
        return Binary((low, high)), np.array([low, high], dtype=object)[codes]

    def _store(self, coefficients: Floats, intercept: float) -> None:
        self.coef_, self.intercept_ = coefficients[None, :], np.array([intercept])

    def decision_function(self, X: Any) -> Floats:
        """The log-odds of the second class."""
        encoded = self._encoded(X)
        return self.model_.decision(encoded)

    def predict(self, X: Any) -> NDArray[Any]:
        """The likelier class."""
        likelier: NDArray[Any] = self.classes_[(self.decision_function(X) > 0).astype(np.intp)]
        return likelier

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, in the order of `classes_`."""
        encoded = self._encoded(X)
        positive = self.model_.predict(encoded)
        return np.column_stack([1.0 - positive, positive])

    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithms of `predict_proba`."""
        decision = self.decision_function(X)
        return -np.logaddexp(0.0, np.column_stack([decision, -decision]))


class _WarnOnce:
    """Consent of every party that tells a person once what the plan warns of, before anything is spent."""

    def __init__(self) -> None:
        self._told = False

    def __call__(self, session: Session) -> None:
        if not self._told:
            self._told = True
            for sentence in session.warnings():
                _warn(sentence)


def _warn(sentence: str) -> None:
    warnings.warn(sentence, UserWarning, stacklevel=3)


def _column(name: str, declared: Declared) -> Column:
    if isinstance(declared, (Numeric, Categorical, Binary)):
        return declared
    if not isinstance(declared, Mapping):
        raise SchemaError(f"column {name} must be declared by a column or a mapping, got {declared!r}")
    return column_from(name, declared)


def _coordinates(name: str, column: Column) -> tuple[str, ...]:
    if isinstance(column, Numeric):
        return column.levels_of(name) if column.bins else (name,)
    return tuple(f"{name}={level}" for level in column.all_levels)


def _calibration(name: str) -> Calibration:
    try:
        return Calibration(name)
    except ValueError:
        known = ", ".join(c.value for c in Calibration)
        raise StudyError(f"calibration must be one of {known}, got calibration={name!r}") from None


def _classes(label: Binary, y: NDArray[Any]) -> NDArray[Any]:
    """The declared classes as values of y's type, sorted."""
    if y.dtype.kind == "b":
        return np.array([False, True])
    if y.dtype.kind not in "iuf":
        return np.sort(np.array(label.levels, dtype=object))
    try:
        return np.sort(np.array(label.levels, dtype=np.float64).astype(y.dtype))
    except ValueError:
        raise DataError(f"y must hold the declared classes {list(label.levels)}, got numbers") from None


def _series(name: str, column: Column, values: NDArray[Any]) -> pl.Series:
    if isinstance(column, Numeric):
        try:
            numbers = values.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(f"column {name} must hold numbers, got something else") from None
        if np.isinf(numbers).any():
            raise DataError(
                f"column {name} must hold finite numbers, got infinity in row {int(np.isinf(numbers).argmax()) + 1}"
            )
        return pl.Series(name, numbers)
    return pl.Series(name, [_level(value, column.all_levels) for value in values], dtype=pl.String)


def _level(value: Any, levels: Sequence[str]) -> str | None:
    """A level as text; a number that an array turned into a float is the declared integer again."""
    if value is None or type(value).__name__ == "NAType" or value != value:
        return None
    text = str(value)
    if text not in levels and isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return text

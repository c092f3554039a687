"""What every estimator does: one session on one data frame of several parties' columns.

All parties run in this process, through the same protocol as anywhere else. Every `fit` is a session of its own and
spends its whole epsilon: `cross_val_score` with k folds spends k times, `GridSearchCV` once per candidate and fold.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from colonnade.analysis.cautions import constant_columns, faint_means
from colonnade.analysis.fit import fit
from colonnade.analysis.intervals import Intervals, intervals
from colonnade.analysis.model import FittedModel
from colonnade.analysis.question import Held, Question
from colonnade.analysis.released import Known
from colonnade.analysis.request import ModelRequest
from colonnade.analysis.slopes import bin_numeric_columns
from colonnade.analysis.units import Units
from colonnade.data.table import Table, table_from
from colonnade.estimators.frames import (
    holds_numbers,
    is_frame,
    names_by_position,
    object_array,
    refuse_dates,
    series_of,
    undeclared,
)
from colonnade.estimators.guards import Consent, open_guards
from colonnade.foundation.errors import SchemaError, StudyError
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, Numeric, Schema, Storage, column_from
from colonnade.mechanism.objective import Calibration, Task
from colonnade.mechanism.plan import Offer
from colonnade.model import as_taken, factors_of, partial_scores
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.runs import RunOptions, run_guarded
from colonnade.study import find_homonym, offer_of

Floats = NDArray[np.float64]
Declared = Column | Mapping[str, Any]

ASSUMED = Numeric(-1.0, 1.0)
"""Stands for a number that nobody declared; bounds are never computed from data."""
ONLY_PARTY = "data"
LABEL = "label"


class Vertical(BaseEstimator):  # type: ignore[misc]
    """What both regressions share: declarations, the session, the way back to the data's units."""

    _task: Task

    def __init__(
        self,
        epsilon: float | Mapping[str, float] = 1.0,
        *,
        delta: float = 0.0,
        split: Mapping[str, Mapping[str, float]] | None = None,
        parties: Mapping[str, Sequence[str | int]] | None = None,
        schema: Schema | Mapping[str | int, Declared] | Column | None = None,
        norms: Mapping[str, float] | None = None,
        label: str | Declared | None = None,
        label_party: str | None = None,
        collusion: int | None = None,
        product: str = "lattice",
        calibration: str = "exact",
        release: str = "auto",
        label_square: bool = False,
        method: str = "default",
        fit_intercept: bool = True,
        ridge: float | None = None,
        random_state: Any = None,
        consent: Consent | None = None,
        strict: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.split = split
        self.parties = parties
        self.schema = schema
        self.norms = norms
        self.label = label
        self.label_party = label_party
        self.collusion = collusion
        self.product = product
        self.calibration = calibration
        self.release = release
        self.label_square = label_square
        self.method = method
        self.fit_intercept = fit_intercept
        self.ridge = ridge
        self.random_state = random_state
        self.consent = consent
        self.strict = strict

    def fit(self, X: Any, y: Any, **refused: Any) -> Self:
        """Run one session on these records and spend its epsilon."""
        _refuse(refused)
        self._check_solver()
        X, y = self._validate(X, y=y)
        label, target = self._target(y)
        schema, owner = self._declare(label)
        agreement = self._agreement(schema, str(ColumnRef(owner, self._label_name)))
        if (homonym := find_homonym(agreement)) is not None:
            raise homonym[1]
        # Whatever the plan refuses or warns of is said before anything is spent.
        session = plan_session(agreement, len(X), bytes(32))
        source = self._randomness()
        for sentence in [*self._assumed(), *session.warnings(), *self._repeated(session, source.seeded)]:
            warnings.warn(sentence, UserWarning, stacklevel=2)
        frame = self._frame(X, schema).with_columns(pl.Series(self._label_name, target))
        tables = {party: self._table(party, frame, columns) for party, columns in schema.parties.items()}
        self.unfit_ = {party: table.unfit_counts for party, table in tables.items()}
        self.clipped_ = {party: dict(table.clipped or {}) for party, table in tables.items()}
        for sentence in (note for table in tables.values() for note in table.heavy_clipping()):
            warnings.warn(sentence, UserWarning, stacklevel=2)
        guards = open_guards(self.consent, schema, frame, source.seeded)
        outcome = run_guarded(agreement, tables, guards, "none", RunOptions(source))
        self.spent_ = self._spent_with(outcome.session.plan.epsilon, outcome.session.plan.delta)
        self.schema_ = schema
        self.plan_ = outcome.session.describe()
        self.release_ = outcome.release
        self.model_: FittedModel = self._solve()
        told = [] if self.model_.outcome is None or not self.model_.outcome.why else [self.model_.outcome.why]
        for sentence in (*told, *faint_means(self.release_), *constant_columns(self.release_)):
            warnings.warn(sentence, UserWarning, stacklevel=2)
        self._describe()
        return self

    def _solve(self) -> FittedModel:
        """The model of the release."""
        numbers = bin_numeric_columns(self.release_.layout, self.schema_)
        return fit(Held(Known.of(self.release_), self.release_, numbers), self._question())

    def _question(self) -> Question:
        """Which model of the release is wanted."""
        asked = self._session_task().value
        return Question(task=asked, strength=self.ridge, method=self.method, intercept=self.fit_intercept)

    def _session_task(self) -> Task:
        """What the session is planned for."""
        return self._task

    def _spent_with(self, epsilon: float, delta: float) -> dict[str, float]:
        """What all fits of this object have spent so far, one session more counted; epsilons add up."""
        before = getattr(self, "spent_", {"fits": 0, "epsilon": 0.0, "delta": 0.0})
        total = {"epsilon": before["epsilon"] + float(epsilon), "delta": before["delta"] + float(delta)}
        return {"fits": before["fits"] + 1, **total}

    def _repeated(self, session: SessionPlan, seeded: bool) -> list[str]:
        """At the second fit of an object, once, that sessions add up; a ledger that is named counts them itself."""
        if getattr(self, "spent_", {"fits": 0})["fits"] != 1 or self.consent or seeded:
            return []
        total = self._spent_with(session.plan.epsilon, session.plan.delta)
        return [
            f"this is the second fit of this object, and every fit spends anew: on the same records epsilon "
            f"{total['epsilon']:g} in all (spent_); name a ledger in consent to have it counted and capped"
        ]

    def _check_solver(self) -> None:
        """Refuse what the solver would refuse, before the spend rather than after it."""
        Question(strength=self.ridge, method=self.method)

    def _assumed(self) -> list[str]:
        """What is taken for granted where nothing was declared."""
        bounds = f"[{ASSUMED.low:g}, {ASSUMED.high:g}] and is clipped to it"
        out = [] if self.schema is not None else [f"no schema: every feature is taken to lie in {bounds}"]
        if self.label is None and self._task.of_number:
            out.append(f"no label bounds: y is taken to lie in {bounds}")
        if self._positions is not None:
            out.append(
                f"X has no column names: its columns are taken to be {', '.join(self._positions)}, in this order"
            )
        return out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Where columns are declared, something stands for a missing value.
        tags.input_tags.allow_nan = self.schema is not None
        return tags

    def _table(self, party: str, frame: pl.DataFrame, columns: Mapping[str, Column]) -> Table:
        """A party's table; what is not as declared is refused or warned of, as `strict` says."""
        table = table_from(party, frame, columns).require_fit(self.strict)
        for sentence in table.surprises():
            warnings.warn(f"party {party}: {sentence}", UserWarning, stacklevel=3)
        return table

    def _validate(self, X: Any, **y: Any) -> Any:
        """scikit-learn's checks; columns that are not plain numbers are checked against the schema afterwards."""
        fitting = bool(y)
        if fitting:
            features = [column for name, column in self._declarations().items() if name != self.label]
            self._plain = all(c.storage is Storage.NUMBERS and not c.dated for c in features)
        plain = self._plain and (self.schema is None or holds_numbers(X))
        kept: dict[str, Any] = {"dtype": np.float64 if plain else None, "ensure_all_finite": self.schema is None}
        if fitting:
            kept |= {"ensure_min_samples": 2, "y_numeric": self._task.of_number, "multi_output": False}
        if plain:
            refuse_dates(X)
        elif is_frame(X):
            # Names are checked by the frame; values go on as they are, column by column.
            validate_data(self, X, reset=fitting, skip_check_array=True)
            check = check_X_y if fitting else check_array
            return check(object_array(X), **y, estimator=self, **kept)
        return validate_data(self, X, **y, reset=fitting, **kept)

    @abstractmethod
    def _target(self, y: Any) -> tuple[Column, Any]:
        """The label's public declaration, and the label as the table reads it."""

    def _declarations(self) -> dict[str, Column]:
        """Every column that the schema names, in its order; a position stands for that column of X."""
        if isinstance(self.schema, Schema):
            return {ref.column: column for ref, column in self.schema.columns.items()}
        if not isinstance(self.schema, Mapping):
            return {}
        known = [str(name) for name in getattr(self, "feature_names_in_", ())]
        out: dict[str, Column] = {}
        for key, declared in self.schema.items():
            name = str(key)
            if isinstance(key, (int, np.integer)):
                name = known[key] if 0 <= key < len(known) else f"x{key}"
            if name in out:
                raise SchemaError(f"column {name} is declared twice, by its name and by its position")
            out[name] = _column(name, declared)
        return out

    def _declared_label(self) -> Column | None:
        if isinstance(self.label, str):
            declared = self._declarations()
            if self.label not in declared:
                raise SchemaError(f"the label must be a column that the schema declares, got label={self.label!r}")
            return declared[self.label]
        return None if self.label is None else _column(LABEL, self.label)

    def _declare(self, label: Column) -> tuple[Schema, str]:
        """Every party's columns, label included, and the label's owner."""
        declared = self._features()
        names = self._names
        self._label_name = self.label if isinstance(self.label, str) else LABEL
        while self._label_name in names:
            self._label_name += "_"
        held = self._held(names)
        owner = self._owner(held)
        columns = {party: {name: declared[name] for name in own} for party, own in held.items()}
        columns[owner][self._label_name] = label
        norms = dict(self.schema.norms) if isinstance(self.schema, Schema) else {}
        if norms and self.norms is not None and norms != dict(self.norms):
            raise StudyError(f"the schema declares norms={norms}, and norms={dict(self.norms)} says otherwise")
        return Schema(columns, norms or dict(self.norms or {})), owner

    def _features(self) -> dict[str, Column]:
        """The declaration of each column of X; nothing that is declared may be left over."""
        declared = self._declarations()
        if isinstance(self.label, str) and self.label in getattr(self, "feature_names_in_", ()):
            raise StudyError(f"X must not hold the label, got column {self.label!r}")
        declared.pop(self.label if isinstance(self.label, str) else "", None)
        named = hasattr(self, "feature_names_in_")
        self._positions = None if named else names_by_position(declared, self.n_features_in_)
        names = self._names
        if self.schema is None or isinstance(self.schema, Column):
            return dict.fromkeys(names, self.schema or ASSUMED)
        for name in names:
            if name not in declared:
                raise SchemaError(undeclared(name, declared))
        for name in declared:
            if name not in names:
                raise SchemaError(
                    f"the schema declares column {name!r}, which X does not have; leave it out, or name it as the label"
                )
        return declared

    def _owner(self, held: Mapping[str, Sequence[str]]) -> str:
        """The party that holds the label."""
        owner = self.label_party
        if isinstance(self.schema, Schema) and isinstance(self.label, str):
            holder = self.schema.find(self.label)[0]
            if owner not in (None, holder):
                raise StudyError(f"the schema gives the label to {holder}, got label_party={owner!r}")
            owner = holder
        if owner is None:
            owner = next(iter(held))
        if owner not in held:
            raise StudyError(f"the label's party must be one of {', '.join(held)}, got label_party={owner!r}")
        return owner

    def _held(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Which party holds which column of X; a column may be named by its position."""
        parties: Mapping[str, Sequence[str | int]] = {ONLY_PARTY: names} if self.parties is None else self.parties
        ours = self.schema.parties if isinstance(self.schema, Schema) else {}
        if self.parties is None and ours:
            parties = {p: [c for c in columns if c in names] for p, columns in ours.items()}
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
                if ours and held[party][-1] not in ours.get(party, {}):
                    raise StudyError(f"the schema gives column {held[party][-1]!r} to another party than {party}")
        left = set(names) - {name for own in held.values() for name in own}
        for name, holders in Counter(name for own in held.values() for name in own).items():
            if holders > 1:
                raise SchemaError(f"a column of X belongs to one party, got {name!r} of {holders}")
        if left:
            raise StudyError(f"every column of X must belong to a party, got none for {min(left)!r}")
        return held

    def _agreement(self, schema: Schema, label: str) -> Agreement:
        return Agreement.from_terms(
            name=type(self).__name__,
            schema=schema,
            label=label,
            task=self._session_task(),
            epsilon=None if isinstance(self.epsilon, Mapping) else self.epsilon,
            offers=self._offers(),
            delta=self.delta,
            collusion=min(1, len(schema.parties) - 1) if self.collusion is None else self.collusion,
            calibration=_calibration(self.calibration),
            product=self.product,
            release=self.release,
            label_square=self.label_square,
        )

    def _offers(self) -> dict[str, Offer]:
        """What every party allows, and how it spreads it."""
        split = dict(self.split or {})
        if not isinstance(self.epsilon, Mapping):
            if split:
                raise StudyError("split spreads what each party allows, and needs epsilon={party: epsilon}")
            return {}
        for party in split:
            if party not in self.epsilon:
                raise StudyError(f"split must name parties that epsilon names, got {party!r}")
        return {p: offer_of(e, split.get(p, {}), f"party {p}:") for p, e in self.epsilon.items()}

    def _randomness(self) -> Randomness:
        if self.random_state is None:
            return Randomness()
        return Randomness(seed=check_random_state(self.random_state).bytes(32))

    @property
    def _names(self) -> list[str]:
        named = getattr(self, "feature_names_in_", self._positions)
        return [f"x{i}" for i in range(self.n_features_in_)] if named is None else [str(name) for name in named]

    def _frame(self, X: NDArray[Any], schema: Schema) -> pl.DataFrame:
        """X as the table reads it: numbers as numbers, levels as text."""
        columns = {name: column for own in schema.parties.values() for name, column in own.items()}
        return pl.DataFrame([series_of(name, columns[name], X[:, i]) for i, name in enumerate(self._names)])

    def _score(self, X: Any) -> Floats:
        """The model's value for raw records, a column for each of several classes: the sum of the parties' parts."""
        check_is_fitted(self)
        frame, model = self._frame(self._validate(X), self.schema_), self.model_
        constant = model.constants if model.classes else model.intercept
        score: Floats = np.zeros((frame.height, *np.shape(constant))) + np.array(constant)
        taken = self._taken
        factors = factors_of(taken, model.features)
        for party, columns in taken.parties.items():
            own = {name: column for name, column in columns.items() if name != self._label_name}
            if own:
                score += partial_scores(self._table(party, frame, own), model, factors)
        return score

    @property
    def _taken(self) -> Schema:
        """The columns as the model takes them."""
        return as_taken(self.schema_, self.model_.features)

    @property
    def _data_units(self) -> Units:
        half, middle = self._units()
        return Units.of(self._taken, [self._taken.find(name) for name in self._names], half, middle)

    def _describe(self) -> None:
        """Coefficients in the data's units, in the order of X's columns."""
        model, units, taken = self.model_, self._data_units, self._taken
        order = [c for name in self._names for c in taken.texts(taken.find(name)) if c in model.features]
        self.encoded_feature_names_ = np.array(order, dtype=object)
        rows = zip(model.weights, model.constants, strict=True)
        found = [units.convert(model.features, row, constant) for row, constant in rows]
        self._store(np.array([[own[c] for c in order] for own, _ in found]), np.array([b for _, b in found]))

    @property
    def intervals_(self) -> Intervals:
        """95% intervals in the units of X and y, for the coefficients that can have one; computed when asked for."""
        check_is_fitted(self)
        return self._data_units.intervals(self._certainty()).reliable_only

    def _certainty(self) -> Intervals:
        """The intervals as encoded."""
        if self.fit_intercept:
            return ModelRequest(self.release_, Question(task=self._question().task)).certainty()
        return intervals(Known.of(self.release_).moments, self._task, intercept=False)

    def _units(self) -> tuple[float, float]:
        """What a model's unit is worth in the label's, and the label at 0."""
        return 1.0, 0.0

    @abstractmethod
    def _store(self, coefficients: Floats, intercepts: Floats) -> None:
        """Keep the coefficients, a row for each output, in the shape that scikit-learn expects of the task."""


def _refuse(arguments: Mapping[str, Any]) -> None:
    """Say why a record cannot count more than once."""
    for name in arguments:
        if name == "sample_weight":
            # As scikit-learn's contract wants it for an argument that fit does not take.
            raise TypeError(
                "sample_weight is refused: a record that counts twice would move the release twice as far, and epsilon "
                "is promised to records that count once"
            )
        raise TypeError(f"fit takes X and y, got {name!r}")


def _column(name: str, declared: Declared) -> Column:
    if isinstance(declared, Column):
        return declared
    if not isinstance(declared, Mapping):
        raise SchemaError(f"column {name} must be declared by a column or a mapping, got {declared!r}")
    return column_from(name, declared)


def _calibration(name: str) -> Calibration:
    try:
        return Calibration(name)
    except ValueError:
        known = ", ".join(c.value for c in Calibration)
        raise StudyError(f"calibration must be one of {known}, got calibration={name!r}") from None

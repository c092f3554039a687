"""One replicate of a data set, and our own fit on it through the real protocol: parties, server, messages, noise.

Nothing is computed beside the protocol: a fit is `run_unguarded` on the parties' tables, `solve` on the release, and a
score on the test rows as `Table.coordinates` encodes them. The product "plain" has the same roles, messages, noise
shares and masks as "lattice" and is what the mass of the runs uses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from colonnade.analysis.model import FittedModel
from colonnade.analysis.solve import solve
from colonnade.data.table import Table, table_from
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, Schema, column_from
from colonnade.mechanism.cuts import choose_bins
from colonnade.mechanism.objective import Calibration, Purpose, Task
from colonnade.planning.agreement import Agreement
from colonnade.runs import Outcome
from colonnade.simulation import run_unguarded
from experiments.baselines.scores import with_intercept
from experiments.data import Dataset, attribute_of, encode, partition, split
from experiments.paper.central import encoded

Array = NDArray[np.float64]
METRIC = {"logistic": "accuracy", "linear": "MSE"}


@dataclass(frozen=True)
class Terms:
    """What changes from one of our fits to the next."""

    epsilon: float
    delta: float
    parties: int
    collusion: int
    product: str = "plain"
    calibration: Calibration = Calibration.EXACT
    method: str = "default"
    purpose: Purpose = Purpose.LABEL
    numeric: str = "declared"
    """Or "auto": the plan cuts numbers at bins where that pays, as in a study that says how many rows it expects."""


class Encoded:
    """A data set's encoded columns for the baselines, computed once for all replicates."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        X, self.y, self.names = encode(dataset)
        self.X = with_intercept(X)
        self.attributes = attribute_of(dataset)

    def columns(self, parties: int) -> list[list[int]]:
        """The columns of X that each party holds; the intercept goes with the label to the first."""
        deal = partition(self.dataset.features, parties)
        owned = [[i for i, name in enumerate(self.attributes) if name in part] for part in deal]
        owned[0].append(self.X.shape[1] - 1)
        return owned


class Replicate:
    """One 80/20 split: tables of the training rows, matrices of both sides."""

    def __init__(self, encoded: Encoded, number: int) -> None:
        self.encoded, self.number = encoded, number
        self.dataset = encoded.dataset
        self._train, self._test = split(self.dataset.frame.height, number)
        self._columns: dict[str, Column] = {n: column_from(n, spec) for n, spec in self.dataset.columns.items()}

    @property
    def n(self) -> int:
        """Training records."""
        return len(self._train)

    @cached_property
    def X(self) -> Array:
        return self.encoded.X[self._train]

    @cached_property
    def y(self) -> Array:
        return self.encoded.y[self._train]

    @cached_property
    def X_test(self) -> Array:
        return self.encoded.X[self._test]

    @cached_property
    def y_test(self) -> Array:
        return self.encoded.y[self._test]

    @cached_property
    def _table(self) -> Table:
        return table_from("all", self.dataset.frame[self._train], self._columns)

    @cached_property
    def _unseen(self) -> dict[str, Array]:
        features = {name: self._columns[name] for name in self.dataset.features}
        return encoded(table_from("all", self.dataset.frame[self._test], features))

    def cut(self, terms: Terms) -> Replicate:
        """The same split with numbers cut as a plan of these terms does."""
        if terms.numeric != "auto":
            return self
        plain = self.agreement(replace(terms, numeric="declared"))
        schema, cuts = choose_bins(plain.schema, plain.label, plain.task, self.n, terms.epsilon, terms.delta)
        if not any(c.chosen for c in cuts):
            return self
        other = Replicate(self.encoded, self.number)
        other._columns = {name: column for columns in schema.parties.values() for name, column in columns.items()}
        return other

    def tables(self, parties: int) -> dict[str, Table]:
        """The parties' tables: runs of attributes of nearly equal length, the label with the first party."""
        deal = partition(self.dataset.features, parties)
        deal[0] = [*deal[0], self.dataset.label]
        return {
            f"P{k}": Table(
                f"P{k}",
                {name: self._columns[name] for name in part},
                {name: self._table.values[name] for name in part},
                self.n,
            )
            for k, part in enumerate(deal, start=1)
        }

    def _norms(self, tables: dict[str, Table]) -> dict[str, float]:
        """Where the data set's length is publicly known, each party's share of it."""
        if self.dataset.norm is None:
            return {}
        width = {name: sum(column != self.dataset.label for column in table.columns) for name, table in tables.items()}
        return {name: self.dataset.norm * sqrt(count) for name, count in width.items() if count}

    def agreement(self, terms: Terms, release: str = "auto", pairs: tuple[tuple[str, str], ...] = ()) -> Agreement:
        """What the parties of a session agree on."""
        tables = self.tables(terms.parties)
        return Agreement.from_terms(
            name=self.dataset.name,
            schema=Schema({name: table.columns for name, table in tables.items()}, self._norms(tables)),
            label=f"P1.{self.dataset.label}",
            task=Task(self.dataset.task),
            epsilon=terms.epsilon,
            delta=terms.delta,
            collusion=terms.collusion,
            calibration=terms.calibration,
            product=terms.product,
            purpose=terms.purpose,
            release=release,
            pairs=pairs,
        )

    def run(self, terms: Terms, seed: bytes) -> Outcome:
        """One session of the protocol."""
        return run_unguarded(self.agreement(terms), self.tables(terms.parties), "none", Randomness(seed=seed))

    def fit(self, terms: Terms, seed: bytes) -> FittedModel:
        """The model of one release."""
        release = self.run(terms, seed).release
        return solve(release.moments(), Task(self.dataset.task), method=terms.method)

    def score(self, model: FittedModel) -> float:
        """Accuracy, or mean squared error without clipping the prediction, as for every other method."""
        unseen = np.column_stack([self._unseen[name] for name in model.features])
        decision = model.decision(unseen)
        if self.dataset.task == "logistic":
            return float(np.mean((decision > 0) == (self.y_test > 0.5)))
        return float(np.mean((decision - self.y_test) ** 2))

"""Releases by the central mechanism: exact sums of known records plus noise of a plan's own laws, drawn by numpy.

A plan's noise does not depend on the records, so that hundreds of releases cost no more than their solving. Discrete
noise is drawn from its continuous law: the grid is far finer than any scale here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.data.table import Table, table_from
from colonnade.foundation.schema import Column, Schema, column_from
from colonnade.mechanism.moments import Distribution, Encoding, Layout, Moments, Role
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import ReleaseRecord
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.protocol.fit import released
from experiments.data import Dataset, partition

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Central:
    """A plan's layout and noise, ready to be put on exact sums."""

    n: int
    layout: Layout
    law: Distribution
    task: Task
    std: Array
    shares: Array
    """Shares of noise in each entry over those that make the whole noise of its scale."""

    def release(self, exact: Array, rng: np.random.Generator) -> Moments:
        """One release of records with the given sums of products."""
        known = np.isfinite(self.std)
        if self.law is Distribution.GAUSSIAN:
            noise = rng.standard_normal(self.std.shape)
        else:
            # A discrete Laplace share is a difference of negative binomials; its limit is a difference of gammas.
            noise = rng.gamma(self.shares) - rng.gamma(self.shares)
            noise /= np.sqrt(2.0 * self.shares)
        noise = np.triu(noise) + np.triu(noise, 1).T
        value = np.where(known, exact + np.where(known, self.std, 0.0) * noise, 0.0)
        return Moments(self.n, self.layout, value, self.std, self.law)


def central(dataset: Dataset, n: int, epsilon: float, delta: float, parties: int, collusion: int) -> Central:
    """The mechanism of a data set's study with its columns dealt to some parties."""
    deal = partition(dataset.features, parties)
    deal[0] = [*deal[0], dataset.label]
    columns = columns_of(dataset)
    agreement = Agreement.from_terms(
        name=dataset.name,
        schema=Schema({f"P{k}": {name: columns[name] for name in part} for k, part in enumerate(deal, start=1)}),
        label=f"P1.{dataset.label}",
        task=Task(dataset.task),
        epsilon=epsilon,
        delta=delta,
        collusion=collusion,
        product="plain",
        # Without its square a number's variance is unknown, and with it what sampling does.
        label_square=dataset.task == "linear",
    )
    session = plan_session(agreement, n, bytes(32))
    empty = _empty(session).moments()
    shares = np.ones_like(empty.std)
    for item in session.plan.blocks:
        if not item.block.single and not item.block.summed:
            a, b = item.block.factors[:, -2], item.block.factors[:, -1]
            shares[a, b] = shares[b, a] = len(session.parties) / session.plan.shares
    return Central(n, session.plan.layout, session.plan.law, Task(dataset.task), empty.std, shares)


def _empty(session: SessionPlan) -> ReleaseRecord:
    """A release of the plan with zeros in it: what stands where, with how much noise."""
    return released(session, np.zeros(session.length, dtype=np.int64), {})


def columns_of(dataset: Dataset) -> dict[str, Column]:
    return {name: column_from(name, spec) for name, spec in dataset.columns.items()}


def encoded(table: Table) -> dict[str, Array]:
    """A table's coordinates by their texts."""
    schema, found = Schema({table.party: table.columns}), table.coordinates()
    return {text: found[place] for ref in schema.columns for text, place in schema.texts(ref).items()}


def exact_sums(dataset: Dataset, layout: Layout) -> Array:
    """The sums over a data set's records of the products of all coordinates."""
    coordinates = encoded(table_from("all", dataset.frame, columns_of(dataset)))
    records = np.ones((dataset.frame.height, layout.width))
    for i, attribute in enumerate(layout.attributes):
        span = layout.span(i)
        if attribute.role is Role.LABEL and attribute.kind is Encoding.SIMPLEX and dataset.task == "linear":
            label = coordinates[dataset.label]
            records[:, span] = np.stack([0.5 * (1.0 - label), 0.5 * (1.0 + label)], axis=1)
        else:
            records[:, span] = np.stack([coordinates[name] for name in attribute.coordinates], axis=1)
    sums: Array = records.T @ records
    return sums

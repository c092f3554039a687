"""The label given all other columns, by the model that `solve` makes of the release.

A maximum-entropy model has every table of the release to follow, and so their noise; the label's own model shrinks what
that noise could have done to it. Both are logistic in the other columns. Rows whose label is drawn by the latter teach
whoever learns from them what `solve` knows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from colonnade.analysis.draws import uniform
from colonnade.analysis.families import BERNOULLI
from colonnade.analysis.gibbs import Levels
from colonnade.analysis.logistic import intercept_of
from colonnade.analysis.maxent import PairModel, TargetTables
from colonnade.analysis.released import Released
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.moments import Floats


@dataclass(frozen=True)
class LabelDistribution:
    """Log-odds of a label of two levels, linear in the levels of all other columns."""

    column: int
    """The label's place among the model's columns."""
    starts: tuple[int, ...]
    """Where each column's levels begin."""
    weights: Floats
    intercept: float

    def odds(self, levels: Levels) -> Floats:
        """The log-odds of the label's second level for each record, whatever label it has."""
        others = [k for k in range(len(self.starts)) if k != self.column]
        found = [self.weights[self.starts[k] + levels[:, k]] for k in others]
        result: Floats = np.sum(found, axis=0) + self.intercept
        return result

    def draw(self, levels: Levels, randomness: Randomness) -> Levels:
        """The same records with a label drawn anew."""
        out = levels.copy()
        out[:, self.column] = uniform(randomness, len(levels)) < expit(self.odds(levels))
        return out


def label_distribution(released: Released, target: TargetTables, model: PairModel) -> LabelDistribution | None:
    """The law by the release's own model; None where it has none of the label from levels alone."""
    from colonnade.analysis.fit import fit
    from colonnade.analysis.question import (  # models of a part of the records are made of rows, and these of models
        Held,
        Question,
    )

    label, columns = released.layout.label, released.tabular
    features = [i for i in range(len(released.layout.attributes)) if i != label]
    if released.numbers or released.release.plan["task"] != BERNOULLI.task:
        return None
    own = target.spans[columns.index(label)]
    known = own.stop - own.start == 2 and all(released.has_table(label, i) for i in features)
    if not known or target.impossible[own].any():
        return None
    found = fit(Held(released.known), Question(task=BERNOULLI.task))
    place = {name: k for k, name in enumerate(released.layout.names[1:])}
    weights = np.zeros(len(target.pairs))
    weights[[place[name] for name in found.features]] = found.coefficients
    law = LabelDistribution(columns.index(label), tuple(s.start for s in target.spans), weights, found.intercept)
    # The label has its share among the model's chains.
    share = float(target.margin[own][1])
    return replace(law, intercept=found.intercept + intercept_of(law.odds(model.chains), model.weights, share))


def with_label(model: PairModel, law: LabelDistribution) -> PairModel:
    """The model whose tables with the label are the law's."""
    own, tables = model.spans[law.column], model.tables.copy()
    chance = model.weights * expit(law.odds(model.chains))
    for k, span in enumerate(model.spans):
        if k != law.column:
            size = span.stop - span.start
            ones = np.bincount(model.chains[:, k], chance, size)
            every = np.bincount(model.chains[:, k], model.weights, size)
            tables[span, own] = np.stack([every - ones, ones], axis=1)
            tables[own, span] = tables[span, own].T
    return replace(model, tables=tables)

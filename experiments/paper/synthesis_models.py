"""Models of other columns from a release, against scikit-learn on the rows without privacy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import mean_poisson_deviance

from colonnade.analysis.bins import bin_means
from colonnade.analysis.components import components
from colonnade.analysis.fit import fit as solved
from colonnade.analysis.question import Held, Question
from colonnade.analysis.released import Released
from colonnade.foundation.schema import Numeric
from experiments.paper.synthesis import Truth, one_hot, release_of, replicate

CLASSES = {"Adult-77": "marital_status", "Dutch": "household_position", "ACS": "MSP"}
COUNTS = {"Adult-77": "hours_per_week", "Dutch": "edu_level", "ACS": "AGEP"}


def models_study(data: str) -> Iterator[dict[str, object]]:
    """One line for each kind of model: ours from a release at (1, 1/n), scikit-learn's, and the trivial answer."""
    rows = replicate(data)
    released = Released(release_of(rows, data, 1.0, True, b"synthesis"))
    truth = Truth.of(rows, released)
    train, test = one_hot(truth.train, truth.spans), one_hot(truth.test, truth.spans)
    names = released.layout.names[1:]

    def line(kind: str, label: str, metric: str, ours: float, theirs: float, trivial: float) -> dict[str, object]:
        told = {"ours": ours, "scikit-learn": theirs, "trivial": trivial}
        return {"data": data, "model": kind, "label": label, "metric": metric, **told}

    column = CLASSES[data]
    k = released.find(column)
    model = solved(Held(released.known, released.release), Question(column, "multinomial"))
    at = [names.index(f) for f in model.features]
    known = LogisticRegression(max_iter=100).fit(train[:, at], truth.train[:, k])
    scores = test[:, at] @ np.array(model.weights).T + np.array(model.constants)
    actual = truth.test[:, k]
    common = np.bincount(truth.train[:, k]).argmax()
    yield line("multinomial", column, "accuracy", float((scores.argmax(1) == actual).mean()),
               float(known.score(test[:, at], actual)), float((actual == common).mean()))  # fmt: skip

    column = COUNTS[data]
    k = released.find(column)
    declared = released.columns[k]
    assert isinstance(declared, Numeric)
    shares = np.bincount(truth.train[:, k], minlength=len(declared.bins) + 1) / len(truth.train)
    counts = bin_means(declared, shares)
    y, actual = counts[truth.train[:, k]], np.maximum(counts[truth.test[:, k]], 0)
    model = solved(Held(released.known, released.release), Question(column, "poisson"))
    at = [names.index(f) for f in model.features]
    mean = np.exp(test[:, at] @ np.array(model.coefficients) + model.intercept)
    poisson = PoissonRegressor(alpha=1e-4, max_iter=200).fit(train[:, at], y)
    yield line("Poisson", column, "mean deviance", float(mean_poisson_deviance(actual, mean)),
               float(mean_poisson_deviance(actual, poisson.predict(test[:, at]))),
               float(mean_poisson_deviance(actual, np.full(len(actual), y.mean()))))  # fmt: skip

    k, column = released.layout.label, released.short(released.layout.label)
    actual = truth.test[:, k]
    model = solved(Held(released.known, released.release), Question(column, "logistic", "lasso"))
    at = [names.index(f) for f in model.features]
    ours = (test[:, at] @ np.array(model.coefficients) + model.intercept > 0) == actual
    sparse = LogisticRegression(penalty="l1", solver="liblinear", C=0.02).fit(train[:, at], truth.train[:, k])
    share = float(max(actual.mean(), 1 - actual.mean()))
    kept = f"lasso ({int(model.freedom)} and {int((np.abs(sparse.coef_) > 0).sum())} of {len(at)} weights)"
    yield line(kept, column, "accuracy", float(ours.mean()), float(sparse.score(test[:, at], actual)), share)

    found = components(released)
    at = [names.index(f) for f in found.names]
    exact = PCA(n_components=5).fit(train[:, at])
    centred = test[:, at] - train[:, at].mean(axis=0)
    total = float((centred**2).sum())
    kept_ours = float(((centred @ found.loadings[:5].T) ** 2).sum()) / total
    kept_theirs = float(((centred @ exact.components_.T) ** 2).sum()) / total
    yield line("PCA, first 5", "", "share of test variance", kept_ours, kept_theirs, 5 / len(at))

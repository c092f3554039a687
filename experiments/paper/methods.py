"""Every method of the tables as one function of a replicate and a seed; the privacy column says what it promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from colonnade.foundation.errors import StudyError
from colonnade.mechanism.objective import Calibration
from experiments.baselines import (
    adassp,
    block_frank_wolfe,
    diffprivlib_models,
    frank_wolfe,
    functional,
    nonprivate,
    private_sgd,
    scores,
)
from experiments.paper.protocol import Array, Replicate, Terms

PURE, APPROXIMATE, NONE = "pure", "(epsilon, 1/n)", "none"
OURS, OURS_LATTICE = "ours", "ours, lattice"
FM_PROTOCOL, FM_REPAIRED_PROTOCOL = "FM printed, protocol", "FM repaired, protocol"
Result = dict[str, float]


@dataclass(frozen=True)
class Cell:
    """One entry of a table: a method with all that it depends on but the split."""

    data: str
    method: str
    privacy: str = NONE
    epsilon: float | None = None
    parties: int = 1
    collusion: int = 0

    def to(self) -> dict[str, object]:
        return asdict(self)


def run(cell: Cell, replicate: Replicate, seed: bytes) -> Result:
    """The score of one fit, and for the printed FM whether its objective had a minimum."""
    if cell.method not in _METHODS:
        raise StudyError(f"method must be one of {', '.join(_METHODS)}, got {cell.method!r}")
    return _METHODS[cell.method](cell, replicate, seed)


def unavailable(method: str) -> str | None:
    """Why a method cannot run in this environment, or None when it can."""
    return diffprivlib_models.missing() if method == "diffprivlib" else None


def _rng(seed: bytes) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(seed))


def _epsilon(cell: Cell) -> float:
    assert cell.epsilon is not None
    return cell.epsilon


def _test(replicate: Replicate, w: Array, intercept: bool = True) -> Result:
    X = replicate.X_test if intercept else replicate.X_test[:, :-1]
    score = scores.accuracy if replicate.dataset.task == "logistic" else scores.mse
    return {"score": score(X, replicate.y_test, w)}


def _norm(replicate: Replicate) -> float:
    """A bound on a record: one for every attribute, or the declared length, and one for the intercept."""
    features, declared = len(replicate.dataset.features), replicate.dataset.norm
    return math.sqrt(features * (1.0 if declared is None else declared**2) + 1)


def _majority(cell: Cell, r: Replicate, seed: bytes) -> Result:
    return {"score": scores.majority_accuracy(r.y, r.y_test)}


def _zero(cell: Cell, r: Replicate, seed: bytes) -> Result:
    return {"score": scores.trivial_mse(r.y_test)}


def _mean(cell: Cell, r: Replicate, seed: bytes) -> Result:
    return {"score": scores.mean_mse(r.y, r.y_test)}


def _non_private(cell: Cell, r: Replicate, seed: bytes) -> Result:
    intercept = cell.method == "non-private"
    X = r.X if intercept else r.X[:, :-1]
    if r.dataset.task == "logistic":
        return _test(r, nonprivate.fit_logistic(X, r.y), intercept)
    if X.shape[1] > 200:
        # The same weights from the normal equations, which are well conditioned for independent columns.
        return _test(r, np.asarray(np.linalg.solve(X.T @ X, X.T @ r.y), dtype=np.float64), intercept)
    return _test(r, nonprivate.fit_linear(X, r.y), intercept)


def _functional(cell: Cell, r: Replicate, seed: bytes) -> Result:
    # The paper's formulas count d features and have no intercept.
    X, task = r.X[:, :-1], r.dataset.task
    if cell.method == "FM repaired":
        return _test(r, functional.fit_repaired(X, r.y, task, _epsilon(cell), _rng(seed)), intercept=False)
    fit = functional.fit_printed(X, r.y, task, _epsilon(cell), _rng(seed))
    return _test(r, fit.w, intercept=False) | {"bounded": float(fit.bounded)}


def _frank_wolfe(cell: Cell, r: Replicate, seed: bytes) -> Result:
    if cell.method == "DPFW-C":
        return _test(r, frank_wolfe.fit(r.X, r.y, _epsilon(cell), 1 / r.n, _rng(seed)))
    columns = r.encoded.columns(cell.parties)
    return _test(r, block_frank_wolfe.fit(r.X, r.y, columns, _epsilon(cell), 1 / r.n, _rng(seed)))


def _dpsgd(cell: Cell, r: Replicate, seed: bytes) -> Result:
    return _test(r, private_sgd.fit(r.X, r.y, _epsilon(cell), _rng(seed), R=_norm(r)))


def _adassp(cell: Cell, r: Replicate, seed: bytes) -> Result:
    # Longer records than declared are shortened, as the parties of our protocol do.
    bound = _norm(r)
    shrink = np.minimum(1.0, bound / np.linalg.norm(r.X, axis=1))
    X = r.X if shrink.min() == 1 else r.X * shrink[:, None]
    return _test(r, adassp.fit(X, r.y, _epsilon(cell), 1 / r.n, _rng(seed), bound))


def _diffprivlib(cell: Cell, r: Replicate, seed: bytes) -> Result:
    number = int.from_bytes(seed[:4])
    if r.dataset.task == "logistic":
        return _test(r, diffprivlib_models.fit_logistic(r.X, r.y, _epsilon(cell), _norm(r), number))
    return _test(r, diffprivlib_models.fit_linear(r.X, r.y, _epsilon(cell), number))


def _ours(cell: Cell, r: Replicate, seed: bytes) -> Result:
    paper = cell.method in (FM_PROTOCOL, FM_REPAIRED_PROTOCOL)
    terms = Terms(
        epsilon=_epsilon(cell),
        delta=1 / r.n if cell.privacy == APPROXIMATE else 0.0,
        parties=cell.parties,
        collusion=cell.collusion,
        product="lattice" if cell.method == OURS_LATTICE else "plain",
        calibration=Calibration.PAPER if paper else Calibration.EXACT,
        method={FM_PROTOCOL: "raw", FM_REPAIRED_PROTOCOL: "zhang"}.get(cell.method, "default"),
        numeric="auto" if r.dataset.task == "logistic" and not paper else "declared",
    )
    own = r.cut(terms)
    return {"score": own.score(own.fit(terms, seed))}


_METHODS: Mapping[str, Callable[[Cell, Replicate, bytes], Result]] = {
    "majority": _majority,
    "w = 0": _zero,
    "mean": _mean,
    "non-private": _non_private,
    "non-private, no intercept": _non_private,
    "FM printed": _functional,
    "FM repaired": _functional,
    FM_PROTOCOL: _ours,
    FM_REPAIRED_PROTOCOL: _ours,
    "DPFW-C": _frank_wolfe,
    "DPFW-2": _frank_wolfe,
    "DPFW-4": _frank_wolfe,
    "DPFW-8": _frank_wolfe,
    "DPSGD": _dpsgd,
    "AdaSSP": _adassp,
    "diffprivlib": _diffprivlib,
    OURS: _ours,
    OURS_LATTICE: _ours,
}
METHODS = tuple(_METHODS)

"""Weights of a linear fit when both sides of the normal equations are noisy, by empirical Bayes.

C is the covariance of the features and c their covariance with the target, per record, both seen with noise of known
variance. With w ~ N(0, t^2 P) the right-hand side is

    c = C w + e,   Var e = s^2 C / n (sampling) + diag(a) (noise on c) + N(ww') (noise on C, times w)

and w is its posterior mean, averaged over t and P by the likelihood that each gives to c (every order of magnitude of
t counts the same beforehand). Nothing is tuned: the noise is known, and when it drowns the signal the small t, which
leave the trivial model, weigh as much as the large ones. No t counts under which the features would explain more than
the target's whole variance: then the noise that the fit lets in adds at most a quarter of it (proofs/trivial_bound.md).

P is one of two: equal weights (ridge in the units of the encoding), or the inverse root of each attribute's own
covariance, half way to equal explained variance (Zellner's g-prior), under which rare levels may weigh more, but not
without limit. Half of the variance of an ordered attribute's weights (bins of a number) is shared by its neighbours.

Where C has noise, attribute g has s_g^2 P_g in the place of P_g: its scale s_g, at most 1, is found by evidence given
the others' and t, and their distribution is shared by all. A column that tells little then adds little noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from colonnade.analysis.marginal_fit import Separate, separate_weights
from colonnade.foundation.proven import proven
from colonnade.mechanism.moments import Distribution, Floats
from colonnade.numerics.fitting import bisect
from colonnade.numerics.spectra import (
    eigenvalues,
    joint_eigen,
    positive_part,
    solve_usable,
    symmetric_root,
    usable_power,
)

SPREADS = np.geomspace(1e-5, 1e3, 321)
"""Grid of t, and t = 0 besides."""
POWERS = (0.0, 0.5)
"""P is an attribute's own covariance to minus these."""
ROUNDS = 6
"""Rounds of w -> noise of C w -> w."""
SCALES = np.array([0.06, 0.12, 0.25, 0.5, 1.0])
"""Of an attribute's weights, relative to the widest. From 0 on, a column that tells a little is left out: diamonds' AUC
fell by .0027 for .0010."""
EVEN = 1.0
"""So many attributes more, spread evenly over the scales, keep the distribution of few from collapsing."""
LONGER = 0.02
"""The part by which c is made longer to see how t follows it."""
NEGLIGIBLE = 1e-9
FLOOR = 1e-15
LEAST_LEFT, GUESSED_LEFT = 0.01, 0.25
"""Of the target's variance the features leave at least the first; the second, where its variance was not released."""


@dataclass(frozen=True)
class Fit:
    """Weights, with the spread of their prior and how many of them the data decides."""

    weights: Floats
    spread: float
    freedom: float
    scales: Floats | None = None
    """By attribute the root mean square of its scale, where attributes have scales of their own."""


@dataclass(frozen=True)
class NoisyEquations:
    """C w = c per record, with the variances of the noise on each entry of both."""

    gram: Floats
    right: Floats
    gram_noise: Floats
    right_noise: Floats
    sampling: float
    """Variance of the target over the number of records: the sampling noise of c is at most this times C."""
    groups: tuple[int, ...]
    """The attribute of each column."""
    ordered: frozenset[int] = frozenset()
    """Attributes whose levels have an order."""
    explainable: float = float("inf")
    """The largest variance of the target that the release leaves possible."""
    law: Distribution | None = None
    """That of the noise on c, where it is known."""
    unsure: Floats | None = None
    """Standard deviations of the noise on levels' counts, per record."""
    plausible: float = 0.0
    """What `sampling` may well be beside `explained`, where the target's variance was not released; 0 where it was."""
    explained: float = 0.0
    """What of `sampling` the features explain."""

    @property
    def guessed(self) -> bool:
        """Whether the target's variance was not released."""
        return self.plausible > 0

    @property
    def judged(self) -> NoisyEquations:
        """The same by which a fit is judged."""
        return replace(self, sampling=self.plausible + self.explained, plausible=0.0) if self.guessed else self

    def after(self, fit: Fit, n: float) -> NoisyEquations:
        """The same, of which a fit to n records explains what it does."""
        return replace(self, explained=float(fit.weights @ self.gram @ fit.weights) / n)

    @property
    def residual(self) -> float:
        """What of `sampling` the features leave: only that is an error of c - C w."""
        if self.guessed:
            return GUESSED_LEFT * self.sampling
        return max(self.sampling - self.explained, LEAST_LEFT * self.sampling)

    @property
    def possible_gram(self) -> Floats:
        """C with variances that could well be: a level whose count noise hides is not known to be rare.

        The levels of a column still sum to one: nothing is added along their sum.
        """
        if self.unsure is None:
            return self.gram
        gram, member = self.gram.copy(), np.asarray(self.groups)
        for group in np.unique(member[self.unsure > 0]):
            own = np.flatnonzero(member == group)
            centre = np.eye(own.size) - 1.0 / own.size
            gram[np.ix_(own, own)] += (centre * self.unsure[own]) @ centre
        return gram

    @cached_property
    def sampled(self) -> Floats:
        """C without what a guess of unreleased products makes negative: a covariance of noise."""
        return positive_part(self.gram)

    @cached_property
    def member(self) -> NDArray[np.intp]:
        """The attribute of each column, counted from 0."""
        return np.unique(np.asarray(self.groups, dtype=np.intp), return_inverse=True)[1]

    @property
    def members(self) -> list[NDArray[np.intp]]:
        """The columns of each attribute."""
        return [np.flatnonzero(self.member == g) for g in range(self.member.max() + 1)]

    def carried(self, products: Floats) -> Floats:
        """Covariance of the noise on C times w, of the products ww': entries jk and kj of C are one, with one noise."""
        shared = self.gram_noise * products
        np.fill_diagonal(shared, self.gram_noise @ np.diag(products))
        return shared

    def scaled(self, prior: Floats, scales: Floats | None) -> Floats:
        """A prior shape with each attribute's weights at its scale."""
        return prior if scales is None else prior * np.outer(scales[self.member], scales[self.member])

    @property
    def separate(self) -> bool:
        """Whether nothing ties the weights together: C is diagonal and known."""
        return not self.gram_noise.any() and bool(np.count_nonzero(self.gram) <= np.count_nonzero(np.diag(self.gram)))


@proven("trivial_bound")
def posterior(equations: NoisyEquations, powers: Sequence[float] = POWERS) -> Fit:
    """The posterior mean of w; `powers` are the shapes in question.

    Domain: C and c per record, with the variances of their noise.
    Unit: weights of encoded features.
    Guarantee: of utility, not of privacy: noise adds at most a quarter of the target's variance, where C is known.
        Proof: trivial_bound.
    """
    gram, right = equations.gram, equations.right
    if equations.separate and equations.law is not None and len(right) > 1:
        known = np.diag(gram), right, equations.right_noise, equations.residual, equations.explainable, equations.law
        return Fit(*separate_weights(Separate(*known)))
    priors = prior_shapes(equations.possible_gram, equations.groups, equations.ordered, powers)
    alike = _Scales(np.ones(equations.member.max() + 1), np.full(SCALES.size, 1.0 / SCALES.size))
    products, scales = np.zeros_like(gram), [alike for _ in priors]
    if not equations.gram_noise.any():
        return _average([_posteriors(equations, prior, np.diag(equations.right_noise)) for prior in priors])
    fit = Fit(np.zeros_like(right), 0.0, 0.0)
    for _ in range(ROUNDS):
        noise = np.diag(equations.right_noise) + equations.carried(products)
        if alike.roots.size > 1:
            scales = [_scales(equations, prior, noise, own) for prior, own in zip(priors, scales, strict=True)]
        shapes = [equations.scaled(prior, own.roots) for prior, own in zip(priors, scales, strict=True)]
        fit = _average([_posteriors(equations, shape, noise) for shape in shapes], [own.roots for own in scales])
        # Half a step: a whole one may swing between too large and too small weights.
        products = 0.5 * (products + np.outer(fit.weights, fit.weights))
    return fit


@dataclass(frozen=True)
class _Scales:
    """Of each attribute the root mean square of its scale, and how likely each scale is for all."""

    roots: Floats
    law: Floats


def _scales(equations: NoisyEquations, prior: Floats, noise: Floats, found: _Scales) -> _Scales:
    """t by the scales, then each scale by t and the others, in turn, and the distribution that they have in common."""
    case = _posteriors(equations, equations.scaled(prior, found.roots), noise)
    chance = np.exp(case.evidence - case.evidence.max())
    t, squares = float(np.sqrt(chance @ case.spreads**2 / chance.sum())), found.roots**2
    parts = [t * equations.gram[:, own] @ symmetric_root(prior[np.ix_(own, own)]) for own in equations.members]
    whole = _with_floor(equations.residual * equations.sampled + noise)
    whole = whole + sum(square * part @ part.T for square, part in zip(squares, parts, strict=True))
    common = np.full(SCALES.size, EVEN / SCALES.size)
    for g, part in enumerate(parts):
        others = whole - squares[g] * part @ part.T
        seen = np.linalg.solve(others, np.column_stack([part, equations.right]))
        values, vectors = np.linalg.eigh(part.T @ seen[:, :-1])
        told = vectors.T @ (part.T @ seen[:, -1])
        total = 1.0 + SCALES[:, None] ** 2 * np.maximum(values, 0.0)
        evidence = 0.5 * (SCALES[:, None] ** 2 * told**2 / total - np.log(total)).sum(axis=1)
        likely = found.law * np.exp(evidence - evidence.max())
        likely /= likely.sum()
        common += likely
        squares[g] = float(likely @ SCALES**2)
        whole = others + squares[g] * part @ part.T
    return _Scales(np.sqrt(squares), common / common.sum())


def followed_noise(equations: NoisyEquations, fit: Fit) -> float:
    """Of w'c, what is expected to be the noise and sampling that the fit has followed: tr Cov(w, c) (Stein 1981).

    The fit is taken as one of a single t: that under which w'c is what it is.
    """
    shapes = prior_shapes(equations.possible_gram, equations.groups, equations.ordered, (POWERS[-1],))
    found = float(fit.weights @ equations.right)
    if not shapes or found <= 0:
        return 0.0
    base = _noise_of(equations, fit.weights)
    mapped = equations.scaled(shapes[0], fit.scales) @ equations.gram
    values, vectors = joint_eigen(equations.gram @ mapped, base)
    back = mapped @ vectors
    shrunk = SPREADS[:, None] ** 2 / (1.0 + SPREADS[:, None] ** 2 * np.maximum(values, 0.0))
    reached = shrunk @ ((equations.right @ back) * (vectors.T @ equations.right))
    nearest = int(np.argmin(np.abs(reached - found)))
    return float(shrunk[nearest] @ ((base @ vectors) * back).sum(axis=0)) + chosen_spread(equations, fit, POWERS)


def chosen_spread(equations: NoisyEquations, fit: Fit, powers: Sequence[float]) -> float:
    """Of w'c, what is expected to be there as c has chosen t, too: a c that noise made longer is shrunk less.

    Along c itself, in units of its noise: how much faster than c the weights grow.
    """
    grown = posterior(replace(equations, right=(1.0 + LONGER) * equations.right), powers).weights
    faster = (grown - (1.0 + LONGER) * fit.weights) / LONGER
    length = float(equations.right @ np.linalg.solve(_noise_of(equations, fit.weights), equations.right))
    return max(float(faster @ equations.right), 0.0) / max(length, 1e-300)


def sound_part(equations: NoisyEquations, fit: Fit) -> float:
    """The part of <w, Cw> that stays where outliers of Laplace noise have the variance that they show.

    Such noise is a mixture of normal ones, whose variance is exponential: given a deviation of r, the harmonic mean of
    that is r / sqrt(2) of its mean. A few large deviations, which a fit by variances takes for signals, count less.
    """
    reached = float(fit.weights @ equations.gram @ fit.weights)
    if equations.law is None or equations.law.stable or not reached > 0.0:
        return 1.0
    error = equations.right_noise + equations.residual * np.diag(equations.gram)
    far = np.abs(equations.right - equations.gram @ fit.weights) / np.sqrt(np.maximum(error, FLOOR) * 2.0)
    again = posterior(replace(equations, right_noise=equations.right_noise * np.maximum(far, 1.0)))
    return float(np.clip(fit.weights @ equations.gram @ again.weights / reached, 0.0, 1.0))


def _noise_of(equations: NoisyEquations, weights: Floats) -> Floats:
    """Covariance of sampling and noise on c - C w."""
    noise = np.diag(equations.right_noise) + equations.carried(np.outer(weights, weights))
    return _with_floor(equations.residual * equations.sampled + noise)


def _with_floor(base: Floats) -> Floats:
    """The covariance with a floor: numbers are per record and of order 1, and what is below it is rounding."""
    result: Floats = base + max(NEGLIGIBLE * float(np.trace(base)) / len(base), FLOOR) * np.eye(len(base))
    return result


def prior_shapes(
    gram: Floats, groups: Sequence[int], ordered: frozenset[int] = frozenset(), powers: Sequence[float] = POWERS
) -> list[Floats]:
    """Each P in question; those that are alike up to scale once, as for numbers of equal variance."""
    kept: list[Floats] = []
    for power in powers:
        shape = _shape(gram, groups, ordered, power)
        scaled = shape / max(float(np.trace(shape)), FLOOR)
        if not any(np.allclose(scaled, k / max(float(np.trace(k)), FLOOR), rtol=0.0, atol=1e-8) for k in kept):
            kept.append(shape)
    return kept


def _shape(gram: Floats, groups: Sequence[int], ordered: frozenset[int], power: float) -> Floats:
    """A negative power of each attribute's own block of C, zero where the block is."""
    shape = np.zeros_like(gram)
    member = np.asarray(groups)
    scale = float(np.max(np.diag(gram), initial=0.0))
    for group in np.unique(member):
        at = np.ix_(member == group, member == group)
        values, vectors = np.linalg.eigh(gram[at])
        shape[at] = (vectors * usable_power(values, -power, values > NEGLIGIBLE * scale)) @ vectors.T
        if int(group) in ordered:
            level = np.arange(len(values))
            near = np.exp(-np.abs(level[:, None] - level) * 2.0 / len(values))
            own = np.sqrt(np.diag(shape[at]))
            shape[at] = 0.5 * np.outer(own, own) * (near + np.eye(len(values)))
    return shape


@dataclass(frozen=True)
class _Posteriors:
    """For one P and every t on the grid: log-likelihood and effective number of weights; the mean of w given t."""

    evidence: Floats
    spreads: Floats
    freedom: Floats
    shrunk: Floats
    """One row for each t, in coordinates that `back` turns into weights."""
    back: Floats


def _posteriors(equations: NoisyEquations, prior: Floats, noise: Floats) -> _Posteriors:
    """t^2 P C (t^2 C P C + sampling + noise)^-1 c for every t under which no more is explained than there is."""
    gram = equations.gram
    base = _with_floor(equations.residual * equations.sampled + noise)
    mapped = prior @ gram
    values, vectors = joint_eigen(gram @ mapped, base)
    rotated = vectors.T @ equations.right
    widest = np.sqrt(equations.explainable / max(float((prior * gram).sum()), FLOOR))
    spreads = np.concatenate([[0.0], SPREADS[widest >= SPREADS]])
    total = 1.0 + spreads[:, None] ** 2 * np.maximum(values, 0.0)
    # A shape with more t below its limit is not likelier for that.
    evidence = -0.5 * (np.log(total) + rotated**2 / total).sum(axis=1) - np.log(len(spreads))
    shrunk = spreads[:, None] ** 2 / total * rotated
    return _Posteriors(evidence, spreads, (1.0 - 1.0 / total).sum(axis=1), shrunk, mapped @ vectors)


def _average(cases: Sequence[_Posteriors], scales: Sequence[Floats] = ()) -> Fit:
    """The mean over every P and t by their likelihood; of `scales`, one for each P, the likeliest."""
    top = max(float(case.evidence.max()) for case in cases)
    chances = [np.exp(case.evidence - top) for case in cases]
    whole = sum(float(chance.sum()) for chance in chances)
    weights = np.zeros(len(cases[0].back))
    spread = freedom = 0.0
    for case, chance in zip(cases, chances, strict=True):
        weights += case.back @ (chance @ case.shrunk) / whole
        spread += float(chance @ case.spreads) / whole
        freedom += float(chance @ case.freedom) / whole
    likeliest = int(np.argmax([chance.max() for chance in chances]))
    return Fit(weights, spread, freedom, scales[likeliest] if scales else None)


def widened(equations: NoisyEquations, fit: Fit, raw: Floats, raw_noise: Floats) -> NoisyEquations:
    """C stretched along Cw where the raw, unbiased C says that w'Cw is larger than the shrunk one does.

    Shrinkage forgets that features which follow the target follow each other; a single number, w'Cw, can still be read
    from the raw C. Its excess is believed by positive-part James-Stein.
    """
    w = fit.weights
    direction = equations.gram @ w
    modelled = float(w @ direction)
    variance = 2.0 * float(w**2 @ raw_noise @ w**2)
    excess = float(w @ raw @ w) - modelled
    if modelled <= 0 or excess <= 0 or excess**2 <= variance:
        return equations
    believed = excess - variance / excess
    return replace(equations, gram=equations.gram + (believed / modelled**2) * np.outer(direction, direction))


def ridge_weights(gram: Floats, right: Floats, ridge: float) -> Floats:
    """Ordinary ridge regression with a given penalty per record; directions without information get no weight."""
    return solve_usable(gram, right, lambda shifted: shifted > 1e-10 * max(float(shifted[-1]), 1e-300), ridge)


def equivalent_ridge(gram: Floats, freedom: float) -> float:
    """The ridge penalty whose effective number of parameters, tr C (C + ridge)^-1, is the given one."""
    values = np.maximum(eigenvalues(gram), 0.0)
    top = float(values[-1])
    if top <= 0 or freedom <= 0:
        return float("inf")
    # In powers of ten: all that there is between nothing and no weight.
    ends = bisect(lambda power: (values / (values + top * 10.0**power)).sum() > freedom, -12.0, 12.0, 60)
    return float(top * 10.0 ** (0.5 * sum(ends)))

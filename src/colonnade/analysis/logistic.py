"""A logistic fit from second moments: the likelihood equations with the features' law replaced by a plausible one.

The maximum of the logistic likelihood solves F(b) = c, where F(b) is the covariance of x with s(b'x) and c that of x
with y. c is released; F needs the law of x, of which the release gives margins and pair tables: take a sample that has
them (`plausible_records`), moved so that its covariance is the released one. With Gaussian classes this is the linear
discriminant; with indicators it is much nearer to the logistic fit.

Both sides are noisy, so b is the most likely one under a normal prior: the least of

    (c - F(b))' S^-1 (c - F(b)) + b' (t^2 P)^-1 b,    S = sampling + noise on c + noise on C, times b

with P and t of the linear fit (`posterior`), brought to log-odds. Every step must lower this sum (Gauss-Newton with a
line search), so that columns which nearly determine each other cannot make the steps run away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from colonnade.analysis.accepted import Prospect, along, quadratic
from colonnade.analysis.families import BERNOULLI
from colonnade.analysis.glm import FeatureLaw
from colonnade.analysis.posterior import FLOOR, NEGLIGIBLE, Fit, NoisyEquations, chosen_spread, prior_shapes
from colonnade.mechanism.moments import Floats
from colonnade.numerics.fitting import bisect
from colonnade.numerics.spectra import positive_part, symmetric_root

SHAPES = (0.5,)
"""Powers of the prior of log-odds (`posterior`). Equal weights cost Adult up to 0.01 of accuracy at epsilon 0.1, on
splits that no table uses, and gave Dutch 0.005: rare levels decide there, and the likelihood did not see it."""
ROUNDS = 3
"""Rounds of b -> noise of C b -> b."""
STEPS = 25
SHORTEST = 1e-4
"""Smallest share of a step that the line search tries."""
SETTLED = 0.005
"""A step that moves the log-odds by less than this share of their spread is the last."""
LARGEST_SHARE = 0.5
"""R^2 is kept below this when the scale of the log-odds is computed from it."""
CERTAIN = 0.99
"""The same for the linear discriminant itself."""
WIDEST = 10.0
"""Largest standard deviation of the log-odds: beyond it every record is certain."""
UNSEEN = 0.75
"""So much larger than guessed the variance of log-odds may be where products of features were not released: a slope
that is best for it is within a fifth of the best gain if the guess is right, and if the variance is twice as large."""
FAINTEST = 0.05
"""Log-odds that noise leaves nothing of keep this share, and with it their order."""


@dataclass(frozen=True)
class LogOdds:
    """Log-odds = intercept + coefficients'(x - means)."""

    intercept: float
    fit: Fit
    evidence: Prospect | None = None
    """What the release says of them; None where it does not tell enough."""


class _Law:
    """The sample that stands for the features' law, and what a logistic model with weights b does on it."""

    def __init__(self, records: Floats, weights: Floats, share: float, gram: Floats) -> None:
        self.records, self.sample = _moved(records, weights, gram)
        self.weights, self.share = weights, share
        self.gap = gram - self.sample
        """What the sample lacks of the released covariance: its effect is taken as linear, with slope `linear`."""
        self.linear = share * (1.0 - share)
        self._constant = float(logit(share))

    def spread(self, b: Floats) -> float:
        """Standard deviation of the log-odds."""
        return float(np.sqrt(max(float(b @ self.sample @ b), 0.0)))

    def intercept(self, b: Floats) -> float:
        """The constant at which the mean probability is the share."""
        self._constant = intercept_of(self.records @ b, self.weights, self.share, self._constant)
        return self._constant

    def chance(self, b: Floats) -> Floats:
        result: Floats = expit(self.intercept(b) + self.records @ b)
        return result

    def covariance(self, b: Floats, chance: Floats) -> Floats:
        """F(b)."""
        result: Floats = self.records.T @ (self.weights * chance) + self.linear * (self.gap @ b)
        return result

    def curvature(self, chance: Floats) -> Floats:
        """The derivative of F, the intercept following along."""
        slope = self.weights * chance * (1.0 - chance)
        pull = self.records * slope[:, None]
        across = pull.sum(axis=0)
        result: Floats = pull.T @ self.records - np.outer(across, across) / slope.sum() + self.linear * self.gap
        return result

    def evidence(self, b: Floats, reached: float, noise: float) -> Prospect:
        """What the release says of log-odds with weights b."""
        law = FeatureLaw(self.records, self.weights, positive_part(self.gap))
        return Prospect(law, BERNOULLI, np.array([self.share]), b[:, None], reached, noise)

    def linearise(self, b: Floats) -> float:
        """Set `linear` to the slope of the line that fits s(b'x) best; the variance that this line leaves."""
        score, chance = self.records @ b, self.chance(b)
        energy = float(self.weights @ score**2)
        if energy > 1e-12:
            self.linear = float(self.weights @ (chance * score)) / energy
        return float(self.weights @ (chance - self.share - self.linear * score) ** 2)


def log_odds(equations: NoisyEquations, start: Fit, share: float, records: Floats, weights: Floats, n: int) -> LogOdds:
    """The logistic fit of a target of given share from its linear fit `start`, which has the shapes `SHAPES`."""
    law = _Law(records, weights, share, equations.gram)
    if not start.weights.any():
        return LogOdds(float(logit(share)), start, law.evidence(start.weights, 0.0, 0.0))
    scale = _steepness(share, float(start.weights @ equations.gram @ start.weights), LARGEST_SHARE)
    (prior,) = prior_shapes(equations.possible_gram, equations.groups, equations.ordered, SHAPES)
    root = symmetric_root(equations.scaled(prior, start.scales)) * (start.spread * scale)
    u: Floats = np.linalg.lstsq(root, start.weights * scale, rcond=NEGLIGIBLE)[0].astype(np.float64)
    for _ in range(ROUNDS):
        rest = law.linearise(root @ u)
        noise = _noise(equations, law, root @ u, rest, n)
        before, u = u, _most_likely(equations.right, law, noise, root, u)
        if law.spread(root @ (u - before)) <= SETTLED * law.spread(root @ u):
            break
    part, followed = _believed(equations.right, law, noise, root, u)
    followed += scale * chosen_spread(equations, start, SHAPES)
    # Classes that a line separates have no finite maximum.
    part *= min(1.0, WIDEST / max(law.spread(part * root @ u), 1e-300))
    b = part * root @ u
    known = law.evidence(b, float(b @ equations.right) - part * followed, float(np.sqrt(b @ noise @ b)))
    return LogOdds(law.intercept(b), replace(start, weights=b), known)


def _noise(equations: NoisyEquations, law: _Law, b: Floats, rest: float, n: int) -> Floats:
    """Covariance of c - F(b) at the true b: sampling, noise on c, noise on C, and the sample's own sampling error."""
    noise = equations.right_noise + law.linear**2 * (equations.gram_noise @ b**2)
    noise = noise + rest * np.diag(law.sample) * float(law.weights @ law.weights)
    base = np.diag(noise) + positive_part(law.curvature(law.chance(b))) / n
    floor = max(NEGLIGIBLE * float(np.trace(base)) / len(base), FLOOR)
    result: Floats = base + floor * np.eye(len(base))
    return result


def _most_likely(right: Floats, law: _Law, noise: Floats, root: Floats, start: Floats) -> Floats:
    """The least of |c - F(Ru)|^2, whitened, plus |u|^2."""
    whitening = np.linalg.inv(np.linalg.cholesky(noise))

    def misfit(u: Floats) -> tuple[float, Floats, Floats]:
        chance = law.chance(root @ u)
        left: Floats = whitening @ (right - law.covariance(root @ u, chance))
        return 0.5 * float(left @ left + u @ u), left, chance

    u = start
    value, left, chance = misfit(u)
    for _ in range(STEPS):
        jacobian = whitening @ law.curvature(chance) @ root
        downhill = jacobian.T @ left - u
        step = np.linalg.solve(jacobian.T @ jacobian + np.eye(len(u)), downhill)
        if law.spread(root @ step) <= SETTLED * law.spread(root @ u):
            break
        part, promised = 1.0, float(downhill @ step)
        while True:
            tried = misfit(u + part * step)
            if tried[0] <= value - SHORTEST * part * promised:
                break
            part *= 0.5
            if part < SHORTEST:
                return u
        u = u + part * step
        value, left, chance = tried
    return u


def _believed(right: Floats, law: _Law, noise: Floats, root: Floats, u: Floats) -> tuple[float, float]:
    """The share of the log-odds that is kept, and what of b'c is noise.

    The share is 1, unless noise makes up more than half of what the fit found.

    A fit follows the noise on c. Of b'c, what it has found, tr(V F') is expected to be that noise, V being the
    covariance that the posterior leaves to b (Stein 1981). Where this is more than half, b is scaled so that b'F(b) is
    what remains, and then for chances averaged over V (MacKay 1992): otherwise they would be worse than the share.
    """
    b = root @ u
    curvature = law.curvature(law.chance(b))
    jacobian = np.linalg.inv(np.linalg.cholesky(noise)) @ curvature @ root
    left = root @ np.linalg.inv(jacobian.T @ jacobian + np.eye(len(u))) @ root.T
    found, followed = float(b @ right), float((left * curvature).sum())
    if followed <= 0.5 * found:
        return 1.0, followed

    def is_short(part: float) -> bool:
        return float(b @ law.covariance(part * b, law.chance(part * b))) < found - followed

    low, _ = bisect(is_short, 0.0, 1.0, 30)
    return max(low / float(np.sqrt(1.0 + np.pi / 8.0 * (left * law.sample).sum())), FAINTEST), followed


def _steepness(share: float, explained: float, most: float) -> float:
    """From weights of a linear fit to log-odds: w_discriminant = w_least_squares / (spread (1 - R^2))."""
    spread = share * (1.0 - share)
    return 1.0 / (spread * (1.0 - float(np.clip(explained / spread, 0.0, most))))


def _moved(records: Floats, weights: Floats, gram: Floats) -> tuple[Floats, Floats]:
    """Records, centred and moved to have the covariance `gram` as far as they can, and the one that they have then."""
    centred = records - weights @ records
    moved = centred @ _transport((centred * weights[:, None]).T @ centred, gram)
    return moved, (moved * weights[:, None]).T @ moved


def feature_law(records: Floats, weights: Floats, gram: Floats) -> FeatureLaw:
    """The law of features of covariance `gram`, by records that are plausible with it."""
    moved, sample = _moved(records, weights, gram)
    return FeatureLaw(moved, weights, positive_part(gram - sample))


def _transport(sample: Floats, gram: Floats) -> Floats:
    """The symmetric map nearest to the identity that gives records with one covariance the other.

    It is the optimal transport between normal laws (Olkin & Pukelsheim 1982); the sample's null space stays.
    """
    values, vectors = np.linalg.eigh(sample)
    usable = values > 1e-6 * max(float(values[-1]), 1e-300)
    own, roots = vectors[:, usable], np.sqrt(values[usable])
    root, inverse = (own * roots) @ own.T, (own / roots) @ own.T
    result: Floats = inverse @ symmetric_root(root @ gram @ root) @ inverse
    return result


def discriminant(equations: NoisyEquations, fit: Fit, share: float, followed: float, shrunk: bool) -> LogOdds:
    """Log-odds with the direction of a linear fit, for Gaussian classes with a common covariance (Fisher 1936).

    `followed` is what of w'c is expected to be noise. Where the log-odds are `shrunk`, they keep that part of
    themselves which is expected to be best: w'c alone would make them as steep as if all of it were signal.
    """
    scale = _steepness(share, float(fit.weights @ equations.right), CERTAIN)
    odds, middle = scale * fit.weights, (0.5 - share) / (share * (1.0 - share)) * equations.right
    noise = np.sqrt(odds**2 @ equations.right_noise + equations.sampling * (odds @ equations.sampled @ odds))
    reached = float(odds @ equations.right) - scale * followed
    law = along(odds, equations.gram)
    if not equations.gram_noise.any():
        # Products of two features were not released: they may depend on each other more than is guessed.
        law = replace(law, gap=UNSEEN * equations.sampled)
    known = Prospect(law, BERNOULLI, np.array([share]), odds[:, None], reached, float(noise))
    part = known.believed() if shrunk else 1.0
    if part == 1.0:
        return LogOdds(float(logit(share)) - float(odds @ middle), replace(fit, weights=odds), known)
    return LogOdds(float(known.cost(part)[2][0]), replace(fit, weights=part * odds), known.scaled(part))


def cautious(equations: NoisyEquations, fit: Fit, share: float, followed: float, scale: float) -> LogOdds:
    """Log-odds along a linear fit where of C the trace alone is known, and the features' means are not.

    In that direction the features may vary by the whole trace. The slope that is best if they do is right to second
    order or too small, whatever C is, so that the model is not worse than the share alone, but for the noise on c that
    it has `followed`. The label is `scale` times the coordinate that was fitted, and means are taken as 0.
    """
    trace, w = float(np.trace(equations.gram)), fit.weights
    gain = float(w @ equations.gram @ w)
    slope = gain / (share * (1.0 - share) * max(float(w @ w) * trace, 1e-300))
    reached = slope * scale**2 * (float(w @ equations.right) - followed)
    noise = w**2 @ equations.right_noise + equations.sampling * (w @ equations.sampled @ w)
    law, weights = quadratic(trace * np.eye(len(w))), slope * scale * w
    told = Prospect(law, BERNOULLI, np.array([share]), weights[:, None], reached, slope * scale**2 * float(noise**0.5))
    return LogOdds(float(logit(share)), replace(fit, weights=weights), told)


def intercept_of(score: Floats, weights: Floats, share: float, start: float = 0.0) -> float:
    """The constant at which the mean probability is the share, by safeguarded Newton steps."""
    constant = start
    for _ in range(60):
        chance = expit(constant + score)
        gap = float(weights @ chance) - share
        slope = float(weights @ (chance * (1.0 - chance)))
        constant -= float(np.clip(gap / max(slope, 1e-6), -2.0, 2.0))
        if abs(gap) < 1e-10:
            break
    return constant

"""The best statistic of each view: the log-likelihood ratio of two data sets, less the noise that the view knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import inf

import numpy as np
from numpy.typing import NDArray
from scipy.special import kve

from colonnade.audit.transcript import Sample, opened
from colonnade.crypto.product import Integers
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.accounting import epsilon_of_gaussian
from colonnade.mechanism.blocks import IntegerNoise
from colonnade.mechanism.moments import Distribution
from colonnade.planning.session_plan import SessionPlan

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """The law of what hides each opened integer from a view that knows some parties' shares."""

    law: Distribution
    spread: Floats
    """b of Laplace, sigma^2 of Gaussian, of the whole planned noise."""
    shape: Floats
    """Remaining shares over shares that make the whole noise; 0 where the view knows the value anyway."""

    def log_density(self, x: Floats) -> Floats:
        """Up to a constant in x. Shares of Laplace noise add up to a variance-gamma law: a power times a Bessel K."""
        if self.law.stable:
            return np.asarray(-0.5 * x * x / (self.spread * self.shape))
        distance = np.abs(x) / self.spread
        out = -distance
        for shape in np.unique(self.shape[(self.shape != 1.0) & (self.shape > 0.0)]):
            at = self.shape == shape
            out[:, at] += np.interp(distance[:, at], *_bend(float(shape)))
        return out


@cache
def _bend(shape: float) -> tuple[Floats, Floats]:
    """What the log-density of several shares has beyond -|x|/b, tabulated: any statistic is a valid one."""
    distance = np.geomspace(1e-9, 1e4, 4096)
    order = shape - 0.5
    return distance, np.asarray(order * np.log(distance) + np.log(kve(order, distance)))


def noise_of(session: SessionPlan, known: tuple[str, ...]) -> Noise:
    """What is left of the noise when the shares of these parties are subtracted."""
    spread, shape = np.ones(session.length), np.zeros(session.length)
    parts = [session.plan.share(name) for name in session.parties if name not in known]
    for i, item in enumerate(session.plan.blocks):
        places, single = session.positions[i], item.block.single
        for value, where in session.noise(i, Fraction(1) if single or not parts else max(parts)).spreads:
            spread[places[where]] = float(value)
        if single:
            shape[places] = 0.0 if item.block.owners[0] in known else 1.0
        else:
            # As many of the widest share as have the variance of all: exact where shares are alike.
            shape[places] = float(sum((p / max(parts)) ** 2 for p in parts)) / session.plan.shares
    return Noise(session.plan.law, spread, shape)


class Ratio:
    """ln P(v | D) - ln P(v | D') of opened integers, for a view that knows the noise of some parties."""

    def __init__(self, session: SessionPlan, before: Integers, after: Integers, known: tuple[str, ...] = ()) -> None:
        whole = noise_of(session, known)
        self.places = np.flatnonzero((before != after) & (whole.shape > 0))
        self.noise = Noise(whole.law, whole.spread[self.places], whole.shape[self.places])
        self.before, self.after = (v[self.places].astype(np.float64) for v in (before, after))
        self.known = [session.parties.index(name) for name in known]
        self.session = session
        owners = np.full(session.length, -1)
        for i in session.single:
            owners[session.positions[i]] = session.parties.index(session.plan.blocks[i].block.owners[0])
        self.owners = owners[self.places]

    def _terms(self, values: Floats) -> Floats:
        one, two = (self.noise.log_density(values[:, self.places] - v) for v in (self.before, self.after))
        return one - two

    def _of(self, values: Floats) -> Floats:
        return np.asarray(self._terms(values).sum(axis=1))

    def of_release(self, sample: Sample) -> Floats:
        """From the release, less the shares that are known."""
        return self._of((sample.released - sample.shares[:, self.known].sum(axis=1)).astype(np.float64))

    def of_transcript(self, sample: Sample) -> Floats:
        """From the sum of all submissions, as the server can form it, less the shares that are known."""
        total = opened(sample.submitted.sum(axis=1, dtype=np.uint64), self.session)
        return self._of((total - sample.shares[:, self.known].sum(axis=1)).astype(np.float64))

    def of_retries(self, sample: Sample) -> Floats:
        """From all the sums that a server got by asking again, as if each had noise of its own."""
        total = np.zeros(len(sample))
        for ask in range(sample.again.shape[1]):
            total += self._of(opened(sample.again[:, ask], self.session).astype(np.float64))
        return total

    def of_cut(self, sample: Sample) -> Floats:
        """From what lies at the server before the last submission comes, read as if it had no mask.

        Each submission is read where its sender's own blocks stand; where there are none, wherever anything moved.
        """
        total = np.zeros(len(sample))
        for k in range(sample.submitted.shape[1] - 1):
            values = opened(sample.submitted[:, k], self.session).astype(np.float64)
            own = self.owners == k
            parts = self._terms(values)
            total += (parts[:, own] if own.any() else parts).sum(axis=1)
        return total

    def of_draws(self, noise: Floats, centre: Integers) -> Floats:
        """From noise that was drawn without a session around it."""
        return self._of(noise + centre)

    def loss(self) -> float:
        """The epsilon of this very pair, by formula: what no plan may print less than."""
        moved = np.abs(self.before - self.after)
        if self.noise.law.stable:
            rho = float((moved**2 / (2 * self.noise.spread * self.noise.shape)).sum())
            return epsilon_of_gaussian(Fraction(rho), self.session.plan.delta) if rho > 0 else 0.0
        # Less than one whole Laplace variable has a peak without bounds.
        return inf if (self.noise.shape < 1).any() else float((moved / self.noise.spread).sum())


Known = tuple[str, ...]


def bare_noise(session: SessionPlan, views: Sequence[Known], count: int, randomness: Randomness) -> dict[Known, Floats]:
    """Noise by the samplers that parties call, `count` times over, without the shares of those whom a view knows."""
    out = {known: np.zeros((count, session.length)) for known in views}
    for i, item in enumerate(session.plan.blocks):
        single = item.block.single
        for k, party in enumerate(item.block.owners if single else session.parties):
            law = session.noise(i) if single else session.noise(i, session.plan.share(party))
            for group, (spread, where) in enumerate(law.spreads):
                places = session.positions[i][where]
                size = count * places.size
                alike = IntegerNoise(session.plan.law, ((spread, np.arange(size)),), size)
                parts = 1 if single else session.plan.shares
                drawn = alike.draw(parts, randomness.child(f"{i} {group} {k}")).reshape(count, places.size)
                for known, total in out.items():
                    if single or party not in known:
                        total[:, places] += drawn
    return out

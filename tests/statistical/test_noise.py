"""Noise accepted at its own scale and refused at a scale that is 5% off."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from colonnade.foundation.randomness import Randomness
from colonnade.mechanism import sampling
from colonnade.mechanism.noise import discrete_gaussian, gaussian_share, laplace_share
from colonnade.mechanism.sampling import discrete_laplace

COUNT = 60_000
CELLS = 24
ACCEPTED, REFUSED = 1e-3, 1e-9

pytestmark = pytest.mark.statistical


def generalised_laplace(scale: float, shape: float) -> NDArray[np.float64]:
    """Probabilities of the difference of two negative binomials of this shape, at 0, 1, ..., size - 1 modulo size."""
    size = 1 << max(10, math.ceil(math.log2(120 * scale)))
    ratio = math.exp(-1 / scale)
    frequency = 2 * np.pi * np.arange(size) / size
    transform = ((1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(frequency) + ratio**2)) ** shape
    return np.maximum(np.fft.ifft(transform).real, 0)


def gaussian(sigma2: float) -> NDArray[np.float64]:
    size = 1 << max(10, math.ceil(math.log2(40 * math.sqrt(sigma2))))
    x = np.minimum(np.arange(size), size - np.arange(size))
    pmf = np.exp(-(x.astype(float) ** 2) / (2 * sigma2))
    return pmf / pmf.sum()


def p_value(drawn: NDArray[np.int64], pmf: NDArray[np.float64]) -> float:
    """Pearson's chi-square over cells of consecutive integers that each expect enough samples."""
    centred = np.fft.fftshift(pmf)
    offset = len(pmf) // 2
    assert np.abs(drawn).max() < offset
    below = np.cumsum(centred)
    ends = np.unique(np.searchsorted(below, np.arange(1, CELLS) / CELLS))
    observed = np.bincount(np.searchsorted(ends, drawn + offset, side="left"), minlength=len(ends) + 1)
    expected = np.diff(np.concatenate([[0], below[ends], [1]])) * len(drawn)
    kept = expected > 5
    observed = np.append(observed[kept], observed[~kept].sum())
    expected = np.append(expected[kept], expected[~kept].sum() + 1e-9)
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), df=kept.sum() - 1))


def judge(drawn: NDArray[np.int64], law: list[NDArray[np.float64]]) -> None:
    """The first law is the true one; the others have a scale that is 5% off and must be refused."""
    right, *wrong = law
    assert p_value(drawn, right) > ACCEPTED
    for pmf in wrong:
        assert p_value(drawn, pmf) < REFUSED


@pytest.mark.parametrize("scale", [Fraction(7, 10), Fraction(5, 2), Fraction(1000, 7), Fraction(1 << 11)])
def test_discrete_laplace(scale: Fraction) -> None:
    drawn = discrete_laplace(scale, COUNT, Randomness(b"statistical laplace"))
    judge(drawn, [generalised_laplace(float(scale) * off, 1) for off in (1, 0.95, 1.05)])


def test_discrete_laplace_beyond_its_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    # Four in ten samples then pass the digits, where one in ten million does otherwise.
    monkeypatch.setattr(sampling, "DIGIT_SCALES", 1)
    drawn = discrete_laplace(Fraction(100), COUNT, Randomness(b"statistical beyond"))
    judge(drawn, [generalised_laplace(100 * off, 1) for off in (1, 0.95, 1.05)])


@pytest.mark.parametrize("sigma2", [Fraction(1, 2), Fraction(30), Fraction(12345, 2), Fraction(1 << 28)])
def test_discrete_gaussian(sigma2: Fraction) -> None:
    drawn = discrete_gaussian(sigma2, COUNT, Randomness(b"statistical gaussian"))
    judge(drawn, [gaussian(float(sigma2) * off**2) for off in (1, 0.95, 1.05)])


@pytest.mark.parametrize("scale", [Fraction(7, 10), Fraction(5, 2), Fraction(300)])
@pytest.mark.parametrize("collusion", [0, 1])
@pytest.mark.parametrize("parties", [2, 3, 8])
def test_laplace_shares_add_up(parties: int, collusion: int, scale: Fraction) -> None:
    parts = parties - collusion
    source = Randomness(b"statistical shares")
    shares = [laplace_share(scale, parts, COUNT, source.child(f"{scale} {parties} {k}")) for k in range(parties)]
    judge(sum(shares), [generalised_laplace(float(scale) * off, parties / parts) for off in (1, 0.95, 1.05)])
    # Without the colluders' shares, the rest is the full noise of the plan.
    judge(sum(shares[:parts]), [generalised_laplace(float(scale) * off, 1) for off in (1, 0.95, 1.05)])


@pytest.mark.parametrize("collusion", [0, 1])
@pytest.mark.parametrize("parties", [2, 3, 8])
def test_gaussian_shares_add_up(parties: int, collusion: int) -> None:
    parts, sigma2 = parties - collusion, Fraction(10_000)
    source = Randomness(b"statistical gaussian shares")
    shares = [gaussian_share(sigma2, parts, COUNT, source.child(f"{parties} {k}")) for k in range(parties)]
    judge(sum(shares), [gaussian(float(sigma2) * parties / parts * off**2) for off in (1, 0.95, 1.05)])
    judge(sum(shares[:parts]), [gaussian(float(sigma2) * off**2) for off in (1, 0.95, 1.05)])


def test_the_law_of_one_share_itself() -> None:
    for parts in (2, 7, 64):
        drawn = laplace_share(Fraction(40), parts, 4 * COUNT, Randomness(b"one share"))
        # At 64 parts most shares are 0, so that only the total mass of jumps tells the scales apart.
        laws = [generalised_laplace(40 * off, 1 / parts) for off in (1, 0.8, 1.25)]
        judge(drawn, laws)


def test_without_collusion_the_total_does_not_depend_on_the_number_of_parties() -> None:
    scale, source = Fraction(20), Randomness(b"statistical independence of K")

    def total(parties: int, scale: Fraction) -> NDArray[np.int64]:
        shares = [laplace_share(scale, parties, COUNT, source.child(f"{parties} {scale} {k}")) for k in range(parties)]
        return np.abs(sum(shares))

    one = total(1, scale)
    for parties in (2, 4, 8):
        assert stats.ks_2samp(one, total(parties, scale)).pvalue > ACCEPTED
    assert stats.ks_2samp(one, total(4, scale * Fraction(105, 100))).pvalue < ACCEPTED / 100


def test_neighbouring_samples_and_children_are_uncorrelated() -> None:
    drawn = laplace_share(Fraction(50), 3, COUNT, Randomness(b"statistical correlation")).astype(float)
    other = laplace_share(Fraction(50), 3, COUNT, Randomness(b"statistical correlation 2")).astype(float)
    limit = 5 / math.sqrt(COUNT)
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < limit
    assert abs(np.corrcoef(drawn, other)[0, 1]) < limit
    assert abs(np.corrcoef(np.abs(drawn[1:]), np.abs(drawn[:-1]))[0, 1]) < limit

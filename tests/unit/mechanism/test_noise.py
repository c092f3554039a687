"""The samplers bit by bit: enclosures, doubtful decisions, shares, reach, refusals."""

from __future__ import annotations

import json
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from colonnade.foundation.errors import PrivacyError
from colonnade.foundation.proven import PROVEN
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism import accounting, sampling
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.noise import (
    _above,
    _below,
    discrete_gaussian,
    gaussian_share,
    gaussian_sum_slack,
    laplace_share,
    quantile_reach,
)
from colonnade.mechanism.sampling import Coin, Poisson, decide, discrete_laplace, exp_bounds, fair_run, uniform_below

MODULES = tuple(f"colonnade.mechanism.{name}." for name in ("accounting", "noise", "sampling"))
VECTORS = Path(__file__).parents[2] / "vectors" / "noise.json"


class Scripted(Randomness):
    """A source that deals out given words."""

    def __init__(self, *words: int) -> None:
        super().__init__(b"scripted")
        self._script = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        dealt, self._script = self._script[:count], self._script[count:]
        return np.array(dealt, dtype=np.uint64)


def third(bits: int) -> tuple[int, int]:
    return (1 << bits) // 3, -(-(1 << bits) // 3)


@pytest.mark.parametrize(
    "x", ["0", "1/1000000007", "1/3", "1/2", "7/10", "1", "25/3", "40", "63", "1/1180591620717411303424"]
)
@pytest.mark.parametrize("bits", [32, 64, 192])
def test_exp_bounds_enclose_the_exponential(x: str, bits: int) -> None:
    value = Fraction(x)
    low, high = exp_bounds(value, bits)
    with localcontext() as context:
        context.prec = 120
        truth = (-Decimal(value.numerator) / Decimal(value.denominator)).exp() * Decimal(2) ** bits
        assert low <= truth <= high
    assert high - low <= 2


def test_exp_bounds_of_a_vanishing_probability() -> None:
    assert exp_bounds(Fraction(10**9), 64) == (0, 1)


def test_a_word_in_doubt_is_decided_by_the_next() -> None:
    edge = (1 << 64) // 3  # 1/3 is 0.0101..., so each word of its expansion is this one
    assert decide(edge, 64, third, Scripted(edge, edge, edge - 1))
    assert not decide(edge, 64, third, Scripted(edge, edge, edge + 1))
    heads = Coin(third).toss(4, Scripted(edge - 1, edge, edge + 1, edge, edge - 1, edge + 1))
    assert heads.tolist() == [True, True, False, False]


def test_a_poisson_word_in_doubt_is_decided_by_the_next() -> None:
    with localcontext() as context:
        context.prec = 80
        bits = int(Decimal(-1).exp() * Decimal(2) ** 128)  # P(N = 0) at mean 1
    first, second = divmod(bits, 1 << 64)
    poisson = Poisson(Fraction(1))
    assert poisson.draw(1, Scripted(first, second - 1)).tolist() == [0]
    assert poisson.draw(1, Scripted(first, second + 1)).tolist() == [1]
    # The last words lie beyond the table and are looked up in a longer one.
    assert poisson.draw(1, Scripted((1 << 64) - 1, 0, 0))[0] > 15


def test_poisson_table_agrees_with_the_lookup_it_stands_for() -> None:
    poisson, randomness = Poisson(Fraction(37, 3)), Randomness(b"poisson")
    words = randomness.words(300)
    drawn = poisson.draw(300, Scripted(*map(int, words)))
    assert [poisson._refine(int(word), randomness) for word in words] == drawn.tolist()


@pytest.mark.parametrize("draw", [
    lambda randomness: discrete_gaussian(Fraction(7, 2), 1000, randomness),
    lambda randomness: discrete_gaussian(Fraction(1 << 70), 1000, randomness),
    lambda randomness: laplace_share(Fraction(1, 3), 2, 1000, randomness),
    lambda randomness: laplace_share(Fraction(1 << 30), 8, 300, randomness),
])  # fmt: skip
def test_floats_decide_as_the_exact_enclosures_do(draw, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    by_floats = draw(Randomness(b"doubt"))
    decided = []

    def counting(*arguments):  # type: ignore[no-untyped-def]
        decided.append(1)
        return decide(*arguments)

    monkeypatch.setattr(sampling, "decide", counting)
    monkeypatch.setattr(sampling, "DOUBT", 2.0)
    assert (draw(Randomness(b"doubt")) == by_floats).all()
    assert len(decided) >= 300


def test_digits_of_a_geometric_variable_are_independent() -> None:
    # P(G = g) against the product of its digits' probabilities, for all g of five digits.
    ratio = math.exp(-1 / 2.5)
    for g in range(32):
        product = 1.0
        for digit in range(5):
            low, _ = sampling._bit_of_geometric(Fraction(2 << digit, 5))(64)
            p = low / 2**64
            product *= p if g >> digit & 1 else 1 - p
        assert product == pytest.approx((1 - ratio) * ratio**g / (1 - ratio**32), rel=1e-12)


def test_fair_run_counts_the_zeros_at_the_end() -> None:
    assert fair_run(4, Scripted(1, 8, 1 << 63, 0, 4)).tolist() == [0, 3, 63, 66]


def test_uniform_below_stays_below() -> None:
    for bound in (1, 3, 32, 46):
        drawn = uniform_below(bound, 20_000, Randomness(b"bound"))
        counts = np.bincount(drawn, minlength=bound)
        assert len(counts) == bound
        assert np.abs(counts - 20_000 / bound).max() < 6 * math.sqrt(20_000 / bound)


@pytest.mark.parametrize("scale", [Fraction(1 << 20), Fraction(1 << 45), Fraction(10**9, 7)])
def test_moments_at_large_scales(scale: Fraction) -> None:
    count = 40_000
    for drawn, variance in [
        (discrete_laplace(scale, count, Randomness(b"laplace")), 2 * float(scale) ** 2),
        (discrete_gaussian(scale, count, Randomness(b"gauss")), float(scale)),
        (laplace_share(scale, 3, count, Randomness(b"share")), 2 * float(scale) ** 2 / 3),
    ]:
        unit = drawn / math.sqrt(variance)
        assert drawn.dtype == np.int64
        assert abs(unit.mean()) < 5 / math.sqrt(count)
        # Fourth moments are 3, 6 and 3 + 3 * 3 times the squared variance.
        assert abs((unit**2).mean() - 1) < 5 * math.sqrt(11 / count)


def test_small_scales_are_nearly_always_zero() -> None:
    assert not discrete_laplace(Fraction(1, 100), 10_000, Randomness(b"tiny")).any()
    assert not discrete_gaussian(Fraction(1, 10_000), 10_000, Randomness(b"tiny")).any()
    assert not laplace_share(Fraction(1, 100), 2, 10_000, Randomness(b"tiny")).any()


def test_one_part_is_the_whole() -> None:
    whole = discrete_laplace(Fraction(9, 2), 500, Randomness(b"whole"))
    assert (laplace_share(Fraction(9, 2), 1, 500, Randomness(b"whole")) == whole).all()
    whole = discrete_gaussian(Fraction(9, 2), 500, Randomness(b"whole"))
    assert (gaussian_share(Fraction(9, 2), 1, 500, Randomness(b"whole")) == whole).all()
    assert gaussian_sum_slack(Fraction(9, 2), 1) == 0


def test_counts_of_zero_and_across_chunks() -> None:
    for count in (0, 1, sampling.CHUNK + 1):
        assert discrete_laplace(Fraction(3), count, Randomness(b"n")).shape == (count,)
        assert discrete_gaussian(Fraction(3), count, Randomness(b"n")).shape == (count,)
        assert laplace_share(Fraction(3), 4, count, Randomness(b"n")).shape == (count,)


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(1, 2), Fraction(1)])
@pytest.mark.parametrize("parts", [2, 3, 8])
def test_gaussian_sum_slack_bounds_the_true_distance(variance: Fraction, parts: int) -> None:
    x = np.arange(-60, 61)
    share = np.exp(-(x**2) / (2 * float(variance)))
    total = share = share / share.sum()
    for _ in range(parts - 1):
        total = np.convolve(total, share)
    z = np.arange(len(total)) - len(total) // 2
    ideal = np.exp(-(z**2) / (2 * float(variance) * parts))
    ideal /= ideal.sum()
    middle = ideal > 1e-9
    distance = np.abs(np.log(total[middle] / ideal[middle])).max()
    slack = float(gaussian_sum_slack(variance * parts, parts))
    assert distance <= slack
    if parts == 2:
        assert distance > slack / 6


def test_gaussian_sum_slack_counts_every_value() -> None:
    assert gaussian_sum_slack(Fraction(6), 3, 1000) == 1000 * gaussian_sum_slack(Fraction(6), 3)


def test_two_shares_have_a_quarter_of_variance_each() -> None:
    """sigma2 / 2 >= 1/4: at 1/2 there is a bound, and the last hundredth below it is refused."""
    assert gaussian_sum_slack(Fraction(1, 2), 2) > 0
    with pytest.raises(PrivacyError, match="sigma2/parts must be at least 1/4"):
        gaussian_sum_slack(Fraction(49, 100), 2)


def test_sums_of_shares_beyond_the_slack_are_refused() -> None:
    """5 exp(-19.739 6 / 4) = 6.92e-13 of one sum is below 2^-40 = 9.09e-13; that of two is above, and below 2^-39."""
    assert gaussian_share(Fraction(6), 2, 1, Randomness(b"one")).shape == (1,)
    with pytest.raises(PrivacyError, match="must be within 2\\^-40"):
        gaussian_share(Fraction(6), 2, 2, Randomness(b"two"))


def test_a_reach_is_above_the_true_logarithm() -> None:
    """Floats round half of the logarithms down; by 2^-40 more the rational is above all of them, and not far."""
    with localcontext() as context:
        context.prec = 50
        for count in range(1, 60):
            true = Fraction(Decimal(2 * count).ln() + 48 * Decimal(2).ln())
            odds = _above(math.log(2 * count) + 48 * math.log(2))
            assert true < odds < true * (1 + Fraction(1, 1 << 39))
            assert _below(-float(odds)) < -true


@pytest.mark.parametrize(("parties", "parts"), [(1, 1), (2, 2), (3, 2), (8, 7), (4, 1), (1, 8)])
@pytest.mark.parametrize("law", list(Distribution))
def test_quantile_reach_covers_the_tail_without_waste(law: Distribution, parties: int, parts: int) -> None:
    scale, shape = Fraction(12), parties / parts
    size = 1 << 12
    frequency = 2 * np.pi * np.arange(size) / size
    if law is Distribution.LAPLACE:
        ratio = math.exp(-1 / float(scale))
        transform = ((1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(frequency) + ratio**2)) ** shape
        pmf = np.abs(np.fft.ifft(transform))
    else:
        z = np.minimum(np.arange(size), size - np.arange(size))
        pmf = np.exp(-(z**2) / (2 * float(scale) * shape))
        pmf /= pmf.sum()
    # Tails of both sides: P(|X| > r) for r = 0, 1, ...
    tails = 2 * np.cumsum(pmf[: size // 2][::-1])[::-1][1:]
    allowed = 2.0**-20 / 50
    needed = int(np.argmax(tails <= allowed))
    reach = quantile_reach(law, scale, 50, 20, parties=parties, parts=parts)
    assert needed <= reach <= 1.4 * needed + 2


def test_every_claim_names_its_proof() -> None:
    assert accounting.zcdp_rho.__name__ == "zcdp_rho"
    proofs = Path(__file__).parents[3] / "proofs"
    ours = {name: proof for name, proof in PROVEN.items() if name.startswith(MODULES)}
    assert len(ours) == 10
    for name, proof in ours.items():
        assert name.rsplit(".", 1)[1] in (proofs / f"{proof}.md").read_text()


@pytest.mark.parametrize(
    "bad", [Fraction(0), Fraction(-1), Fraction((1 << 45) + 1), float("nan"), float("inf"), 1.5, "2"]
)
def test_a_bad_scale_is_refused(bad: Fraction) -> None:
    randomness = Randomness(b"bad")
    with pytest.raises(PrivacyError, match="scale"):
        discrete_laplace(bad, 1, randomness)
    with pytest.raises(PrivacyError, match="scale"):
        laplace_share(bad, 2, 1, randomness)
    with pytest.raises(PrivacyError, match="scale"):
        quantile_reach(Distribution.LAPLACE, bad, 1)
    if not isinstance(bad, Fraction) or bad <= 0:
        with pytest.raises(PrivacyError, match="sigma2"):
            discrete_gaussian(bad, 1, randomness)
        with pytest.raises(PrivacyError, match="sigma2"):
            gaussian_share(bad, 2, 1, randomness)


def test_bad_counts_are_refused() -> None:
    randomness = Randomness(b"bad")
    with pytest.raises(PrivacyError, match="parts must be a whole number of at least 1, got parts=0"):
        laplace_share(Fraction(1), 0, 1, randomness)
    with pytest.raises(PrivacyError, match="parts"):
        gaussian_share(Fraction(1), 0, 1, randomness)
    with pytest.raises(PrivacyError, match="count"):
        discrete_laplace(Fraction(1), -1, randomness)
    with pytest.raises(PrivacyError, match="count"):
        discrete_gaussian(Fraction(1), 2.5, randomness)  # type: ignore[arg-type]


def test_gaussian_shares_that_do_not_add_up_closely_are_refused() -> None:
    with pytest.raises(PrivacyError, match="2\\^-40"):
        gaussian_share(Fraction(4), 2, 10, Randomness(b"close"))
    with pytest.raises(PrivacyError, match="at least 1/4"):
        gaussian_share(Fraction(1, 3), 2, 10, Randomness(b"close"))
    assert gaussian_share(Fraction(8), 2, 10, Randomness(b"close")).shape == (10,)


@pytest.mark.parametrize("vector", json.loads(VECTORS.read_text()), ids=lambda vector: vector["function"])
def test_vectors(vector) -> None:  # type: ignore[no-untyped-def]
    function = {"discrete_laplace": discrete_laplace, "discrete_gaussian": discrete_gaussian,
                "laplace_share": laplace_share, "gaussian_share": gaussian_share}[vector["function"]]  # fmt: skip
    parts = [vector["parts"]] if "parts" in vector else []
    randomness = Randomness(bytes.fromhex(vector["seed"]))
    drawn = function(Fraction(vector["scale"]), *parts, len(vector["values"]), randomness)
    assert drawn.tolist() == vector["values"]

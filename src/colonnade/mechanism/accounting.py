"""Calibration of the discrete Gaussian to (epsilon, delta); tests compare it with dp-accounting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import exp, expm1, inf, isfinite, log, log1p, nextafter, sqrt

from scipy.special import log_ndtr, ndtr

from colonnade.foundation.errors import PrivacyError
from colonnade.foundation.proven import proven

LEAST_EPSILON, LARGEST_EPSILON = 1e-12, 1e12
"""Far beyond any promise; the accountant's floats reach no farther."""

# Nearer to 1 the conversion is not stable in floats.
SMALLEST_ORDER = 1.02
GRID = 256  # orders tried; any order gives a right bound, more give a hardly lower one
ROUNDING = Fraction(1, 1 << 30)  # lowers rho by more than its formula errs in floats

# A continuous Gaussian, rounded at random with this variance, is a discrete Gaussian within 2^-111 per value.
ROUNDING_VARIANCE = 4
# What is left for that rounding (of up to 2^48 values) and for gaussian_sum_slack of all blocks.
SLACK = Fraction(1, 1 << 30)


@dataclass(frozen=True)
class Guarantee:
    """What a plan guarantees against one view: (epsilon, delta), and under Gaussian noise the rho that it computed."""

    epsilon: float
    delta: float
    rho: Fraction | None = None
    """Half the squared L2 sensitivity over the noise; None under Laplace noise."""
    dominated: bool = True
    """Whether the Gaussian pair of rho dominates the view; otherwise rho holds as zCDP alone."""


def _check(epsilon: float, delta: float) -> None:
    if not (isfinite(epsilon) and epsilon > 0):
        raise PrivacyError(f"epsilon must be positive and finite, got epsilon={epsilon}")
    if not 0 < delta < 1:
        raise PrivacyError(f"delta must be between 0 and 1, got delta={delta}")


def _check_rho(rho: Fraction) -> None:
    if not isinstance(rho, (int, Fraction)) or rho <= 0:
        raise PrivacyError(f"rho must be a positive rational, got rho={rho!r}")


def _target(epsilon: float, delta: float, slack: Fraction) -> tuple[float, float]:
    """What the accounted law must reach so that noise within `slack` of it, in log probability, is (epsilon, delta)."""
    _check(epsilon, delta)
    if not 2 * slack < epsilon:
        raise PrivacyError(
            f"epsilon must exceed twice the slack of the noise, got epsilon={epsilon}, slack={float(slack)}"
        )
    return epsilon - 2 * float(slack), delta * exp(-float(slack))


def _forty_bits(value: Fraction) -> Fraction:
    """The value rounded down to forty significant bits, short enough to write down and exact."""
    unit = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() - 40)
    return value // unit * unit


def _best_order(objective: Callable[[float], float], largest: float) -> float:
    """The Rényi order that makes the objective largest: a geometric grid, and a finer one about its best point."""
    low = SMALLEST_ORDER - 1
    ratio: float = (largest / low) ** (1 / GRID)
    for _ in range(3):
        best = max((1 + low * ratio**i for i in range(GRID + 1)), key=objective)
        low, ratio = max((best - 1) / ratio, SMALLEST_ORDER - 1), ratio ** (2 / GRID)
    return best


def _epsilon(rho: Fraction, delta: float, order: float) -> float:
    """What rho gives at one order: Canonne, Kamath, Steinke 2020, proposition 12 (v4); 0 where delta is the larger."""
    divergence = nextafter(float(rho), inf) * order
    if delta**2 + expm1(-divergence) > 0:
        return 0.0
    return max(divergence + log1p(-1 / order) - log(delta * order) / (order - 1), 0.0)


@proven("discrete_gaussian")
def zcdp_rho(epsilon: float, delta: float, slack: Fraction = Fraction(0)) -> Fraction:
    """The largest rho, rounded down, whose zCDP gives (epsilon, delta) to noise within `slack` of the accounted law.

    Domain: epsilon above twice the slack; 0 < delta < 1.
    Unit: half the squared L2 sensitivity over the variance that is accounted for.
    Guarantee: rho-zCDP is (epsilon, delta)-private. Proof: discrete_gaussian.
    """
    target, delta = _target(epsilon, delta, slack)

    # `_epsilon`, solved for rho at one order.
    def rho_at(order: float) -> float:
        return (target - log1p(-1 / order) + log(delta * order) / (order - 1)) / order

    order = _best_order(rho_at, 8 * (1 - log(delta)) * (1 + 1 / target))
    rho = _forty_bits(Fraction(rho_at(order)) * (1 - ROUNDING))
    found = _epsilon(rho, delta, order)
    if not found <= target:
        raise PrivacyError(f"rho must give epsilon={target}, got epsilon={found} for rho={float(rho)}")
    return rho


@proven("discrete_gaussian")
def epsilon_of_rho(rho: Fraction, delta: float, slack: Fraction = Fraction(0)) -> float:
    """An epsilon, rounded up, at which rho-zCDP gives (epsilon, delta) to noise within `slack` of the accounted law.

    Domain: rho: a positive rational; 0 < delta < 1.
    Unit: nats of privacy loss.
    Guarantee: rho-zCDP is (epsilon, delta)-private. Proof: discrete_gaussian.
    """
    _check_rho(rho)
    _, delta = _target(1.0, delta, slack)
    value = float(rho)

    def minus_epsilon(order: float) -> float:
        return -(value * order + log1p(-1 / order) - log(delta * order) / (order - 1))

    order = _best_order(minus_epsilon, 8 * (1 - log(delta)) * (1 + 1 / value))
    found = _epsilon(Fraction(rho), delta, order)
    return (found + 2 * float(slack)) * (1 + 2.0**-40)


def _delta(deviation: float, epsilon: float) -> float:
    """An upper bound of the delta of N(0, deviation^2) on sensitivity 1: Balle and Wang 2018, theorem 8."""
    near = 0.5 / deviation - epsilon * deviation
    far = -0.5 / deviation - epsilon * deviation
    upper = float(ndtr(near))
    rounding = upper * (near * near + far * far + epsilon + 8) * 2.0**-50
    return upper - exp(epsilon + float(log_ndtr(far))) + rounding


@proven("discrete_gaussian")
def gaussian_rho(epsilon: float, delta: float, slack: Fraction = SLACK) -> Fraction:
    """The largest rho = 1 / (2 variance), rounded down, of a continuous Gaussian private at L2 sensitivity 1.

    It buys more than zcdp_rho where each integer's variance is then raised by ROUNDING_VARIANCE.

    Domain: epsilon above twice the slack; 0 < delta < 1.
    Unit: half the squared L2 sensitivity over the variance that is accounted for.
    Guarantee: the Gaussian mechanism of this rho is (epsilon, delta)-private. Proof: discrete_gaussian, claim 2.
    """
    target, delta = _target(epsilon, delta, slack)
    low = high = 1.0
    while _delta(high, target) > delta:
        high *= 2
    while _delta(low, target) <= delta:
        low /= 2
    while high > low * (1 + 2.0**-40):
        middle = sqrt(low * high)
        low, high = (low, middle) if _delta(middle, target) <= delta else (middle, high)
    high *= 1 + float(ROUNDING)
    return _forty_bits(1 / (2 * Fraction(high) ** 2))


@proven("discrete_gaussian")
def epsilon_of_gaussian(rho: Fraction, delta: float, slack: Fraction = SLACK) -> float:
    """The least epsilon, rounded up, of the continuous Gaussian of variance 1 / (2 rho) at L2 sensitivity 1.

    Domain: rho: a positive rational; 0 < delta < 1.
    Unit: nats of privacy loss.
    Guarantee: noise within `slack` of N(0, 1 / (2 rho)) at L2 sensitivity 1 is (epsilon, delta)-private. Proof:
        discrete_gaussian.
    """
    _check_rho(rho)
    _, delta = _target(1.0, delta, slack)
    deviation = 1 / sqrt(2 * float(rho) * (1 + float(ROUNDING)))
    low, high = 0.0, 1.0
    while _delta(deviation, high) > delta:
        low, high = high, high * 2
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (low, middle) if _delta(deviation, middle) <= delta else (middle, high)
    return (high + 2 * float(slack)) * (1 + 2.0**-40)


def check_epsilon(epsilon: float, name: str = "epsilon") -> float:
    number = isinstance(epsilon, (int, float)) and not isinstance(epsilon, bool)
    if not number or not 0 < epsilon < inf:
        raise PrivacyError(f"{name} must be a positive number, got {name}={short_number(epsilon)}")
    if epsilon > LARGEST_EPSILON:
        raise PrivacyError(f"{name} must be at most {LARGEST_EPSILON:g}, got {name}={short_number(epsilon)}")
    if epsilon < LEAST_EPSILON:
        raise PrivacyError(f"{name} must be at least {LEAST_EPSILON:g}, got {name}={short_number(epsilon)}")
    return float(epsilon)


def short_number(value: float) -> str:
    """A number in an error's text: an integer from a file may have thousands of digits."""
    return "an integer beyond 2^64" if isinstance(value, int) and abs(value) >> 64 else str(value)

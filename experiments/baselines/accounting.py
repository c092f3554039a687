"""Accounting shared by the (epsilon, delta) baselines: Gaussian and zero-concentrated differential privacy.

`gaussian_mu` inverts the exact privacy profile of the Gaussian mechanism (Balle and Wang 2018, Theorem 8);
`zcdp_rho` inverts epsilon = rho + 2 sqrt(rho log(1/delta)) (Bun and Steinke 2016, Proposition 1.3).
An exponential mechanism whose score moves by at most Delta, drawn with temperature 2 Delta / e, is e-bounded-range and
so satisfies e^2/8 zCDP (Cesar and Rogers 2021); a Gaussian of deviation sigma and L2 sensitivity S
satisfies S^2 / (2 sigma^2).
"""

import math

from scipy.optimize import brentq
from scipy.stats import norm

from colonnade.foundation.errors import PrivacyError


def check(epsilon: float, delta: float) -> None:
    """Refuse parameters that promise nothing."""
    if not epsilon > 0:
        raise PrivacyError(f"epsilon must be positive, got epsilon={epsilon}")
    if not 0 < delta < 1:
        raise PrivacyError(f"delta must lie strictly between 0 and 1, got delta={delta}")


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The delta of a Gaussian mechanism with sensitivity mu standard deviations."""
    # In logarithms, because exp(epsilon) overflows before the product does.
    second = math.exp(epsilon + float(norm.logcdf(-mu / 2 - epsilon / mu)))
    return float(norm.cdf(mu / 2 - epsilon / mu)) - second


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest sensitivity, in standard deviations, that keeps (epsilon, delta)."""
    check(epsilon, delta)
    high = 1.0
    while gaussian_delta(high, epsilon) < delta:
        high *= 2
    return float(brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 1e-9, high, xtol=1e-12))


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho whose conversion keeps (epsilon, delta)."""
    check(epsilon, delta)
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def selection_epsilon(rho: float, steps: int) -> float:
    """The e of each of `steps` exponential mechanisms that together cost rho."""
    return math.sqrt(8 * rho / steps)

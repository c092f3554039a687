"""Calibration of the Gaussian against dp-accounting and against the discrete law itself."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from colonnade.foundation.errors import PrivacyError
from colonnade.mechanism.accounting import (
    ROUNDING_VARIANCE,
    epsilon_of_gaussian,
    epsilon_of_rho,
    gaussian_rho,
    zcdp_rho,
)

PAIRS = [(0.1, 1e-9), (1.0, 1e-6), (3.0, 1e-5), (10.0, 1e-5), (1.0, 0.1), (1e-3, 1e-6), (1e6, 1e-6)]


def discrete_pmf(sigma2: float, reach: int) -> NDArray[np.float64]:
    x = np.arange(-reach, reach + 1)
    pmf = np.exp(-(x**2) / (2 * sigma2))
    return pmf / pmf.sum()


def delta_of_shift(sigma2: float, shift: tuple[int, int], epsilon: float) -> float:
    """The delta of two-dimensional discrete Gaussian noise between two points this far apart, by summation."""
    reach = int(8 * math.sqrt(sigma2)) + 20
    pmf = discrete_pmf(sigma2, reach)
    here = np.outer(pmf, pmf)
    there = np.zeros_like(here)
    a, b = shift
    there[a:, b:] = here[: len(pmf) - a, : len(pmf) - b]
    return float(np.maximum(here - math.exp(epsilon) * there, 0).sum())


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_rho_gives_epsilon_by_dp_accounting_and_no_larger_rho_does(epsilon: float, delta: float) -> None:
    from dp_accounting import NeighboringRelation, ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    rho = zcdp_rho(epsilon, delta)
    orders = 1.02 + np.geomspace(1e-6, 1e6, 20_000)

    def by_library(value: float) -> float:
        accountant = RdpAccountant(orders, NeighboringRelation.REPLACE_ONE)
        accountant.compose(ZCDpEvent(value))
        return float(accountant.get_epsilon(delta))

    assert by_library(float(rho)) <= epsilon * (1 + 1e-6)
    assert by_library(float(rho) * 1.001) > epsilon
    assert epsilon * 0.999999 <= epsilon_of_rho(rho, delta) <= epsilon


def test_dp_accounting_agrees_over_a_grid() -> None:
    """What it says of every calibration, at whole and odd epsilons from 1e-4 to 57.3 and deltas from 1e-15 to 0.3."""
    from dp_accounting import NeighboringRelation, ZCDpEvent
    from dp_accounting.pld.privacy_loss_mechanism import GaussianPrivacyLoss
    from dp_accounting.rdp import RdpAccountant

    orders = 1.02 + np.geomspace(1e-3, 1e8, 300)
    for epsilon in (1e-4, 0.013, 0.1, 0.77, 1.0, 2.0, 4.5, 10.0, 57.3):
        for delta in (1e-15, 1e-12, 1e-9, 3e-7, 1e-6, 1e-5, 1e-3, 0.04, 0.3):
            deviation = 1 / math.sqrt(2 * gaussian_rho(epsilon, delta, Fraction(0)))
            assert float(GaussianPrivacyLoss(deviation).get_delta_for_epsilon(epsilon)) <= delta
            rho = zcdp_rho(epsilon, delta)
            near = orders
            for _ in range(2):
                accountant = RdpAccountant(near, NeighboringRelation.REPLACE_ONE)
                accountant.compose(ZCDpEvent(float(rho)))
                found, best = accountant.get_epsilon_and_optimal_order(delta)
                near = 1 + (best - 1) * np.geomspace(0.9, 1.1, 600)
            assert found <= epsilon * (1 + 1e-4)
            assert found * (1 - 1e-4) <= epsilon_of_rho(rho, delta) <= found * (1 + 1e-4)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS[:5])
def test_gaussian_rho_is_what_the_loss_distribution_allows(epsilon: float, delta: float) -> None:
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    rho = gaussian_rho(epsilon, delta)
    deviation = 1 / math.sqrt(2 * rho)
    assert epsilon * 0.999999 <= epsilon_of_gaussian(rho, delta) <= epsilon * 1.000001
    assert rho > zcdp_rho(epsilon, delta)

    def delta_by_library(value: float) -> float:
        accountant = PLDAccountant()
        accountant.compose(GaussianDpEvent(value))
        return float(accountant.get_delta(epsilon))

    # The library discretises, pessimistically, so that it may ask for a little more.
    assert delta_by_library(deviation * 1.0001) <= delta
    assert delta_by_library(deviation * 0.999) > delta


@pytest.mark.parametrize("shift", [(10, 0), (6, 8)])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (1.0, 1e-4), (3.0, 1e-4)])
def test_a_rounded_gaussian_holds_for_the_discrete_law_and_wastes_little(
    shift: tuple[int, int], epsilon: float, delta: float
) -> None:
    sigma2 = float(100 / (2 * gaussian_rho(epsilon, delta)) + ROUNDING_VARIANCE)
    assert delta_of_shift(sigma2, shift, epsilon) <= delta
    assert delta_of_shift((sigma2 - ROUNDING_VARIANCE) * 0.95, shift, epsilon) > delta


def test_the_continuous_curve_beats_concentrated_privacy_where_the_grid_is_fine() -> None:
    rounded = Fraction(10**6) / (2 * gaussian_rho(1.0, 1e-6)) + ROUNDING_VARIANCE
    assert rounded < Fraction(10**6) / (2 * zcdp_rho(1.0, 1e-6)) * Fraction(9, 10)


@pytest.mark.parametrize("rounding", [0.3, 0.5, 1.0])
def test_a_rounded_continuous_gaussian_is_nearly_the_discrete_one(rounding: float) -> None:
    continuous = 3.0
    y = np.linspace(-16, 16, 12_801)
    density = np.exp(-(y**2) / (2 * continuous))
    x = np.arange(-40, 41)
    kernel = np.exp(-((x[:, None] - y) ** 2) / (2 * rounding))
    rounded = (kernel / kernel.sum(axis=0)) @ density
    rounded /= rounded.sum()
    middle = np.abs(x) <= 8
    bound = 5 * math.exp(-2 * math.pi**2 * rounding)

    def distance(variance: float) -> float:
        return float(np.abs(np.log(rounded[middle] / discrete_pmf(variance, 40)[middle])).max())

    assert distance(continuous + rounding) <= bound
    assert distance(continuous + rounding * 0.9) > bound


def test_slack_costs_privacy() -> None:
    rho = zcdp_rho(1.0, 1e-6)
    assert zcdp_rho(1.0, 1e-6, Fraction(1, 100)) < zcdp_rho(0.98, 1e-6) < rho
    assert epsilon_of_rho(rho, 1e-6, Fraction(1, 100)) > 1.02
    assert gaussian_rho(1.0, 1e-6, Fraction(1, 100)) < gaussian_rho(1.0, 1e-6)
    assert epsilon_of_gaussian(gaussian_rho(1.0, 1e-6), 1e-6, Fraction(1, 100)) > 1.02
    with pytest.raises(PrivacyError, match="twice the slack"):
        zcdp_rho(0.01, 1e-6, Fraction(1, 100))


def test_more_privacy_takes_more_noise() -> None:
    assert zcdp_rho(1.0, 1e-6) < zcdp_rho(2.0, 1e-6) < zcdp_rho(2.0, 1e-5)
    assert gaussian_rho(1.0, 1e-6) < gaussian_rho(2.0, 1e-6)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_a_bad_epsilon_is_refused(epsilon: float) -> None:
    for function in (zcdp_rho, gaussian_rho):
        with pytest.raises(PrivacyError, match="epsilon must be positive and finite, got epsilon="):
            function(epsilon, 1e-6)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, math.nan])
def test_a_bad_delta_is_refused(delta: float) -> None:
    with pytest.raises(PrivacyError, match="delta must be between 0 and 1, got delta="):
        zcdp_rho(1.0, delta)
    with pytest.raises(PrivacyError, match="delta"):
        epsilon_of_rho(Fraction(1), delta)
    with pytest.raises(PrivacyError, match="delta"):
        gaussian_rho(1.0, delta)


def test_bad_rationals_are_refused() -> None:
    with pytest.raises(PrivacyError, match="rho must be a positive rational"):
        epsilon_of_rho(Fraction(0), 1e-6)
    with pytest.raises(PrivacyError, match="rho must be a positive rational"):
        epsilon_of_gaussian(math.nan, 1e-6)  # type: ignore[arg-type]

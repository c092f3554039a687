"""Denoising: what is known stays true, noise shrinks, and nothing breaks where little was released."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from colonnade.analysis.denoise import complete, denoise
from colonnade.analysis.shrinkage import Deviations, bounded_mean, shrink
from colonnade.foundation.names import ColumnRef
from colonnade.mechanism.moments import Attribute, Distribution, Encoding, Layout, Moments, Role, Trace
from tests.helpers.releases import make_records, release, release_of

RECORDS = make_records(4000, 1, logistic=True)


@pytest.mark.parametrize("law", list(Distribution))
@pytest.mark.parametrize("noise", [1.0, 100.0, 3000.0])
def test_estimate_is_consistent(noise: float, law: Distribution) -> None:
    estimate = denoise(release_of(RECORDS, noise, noise / 3, 2, indicators=True, law=law))
    layout, value = estimate.layout, estimate.value
    assert np.allclose(value, value.T)
    assert np.linalg.eigvalsh(estimate.covariance[1:-2, 1:-2])[0] > -1e-6 * estimate.n
    for i, attribute in enumerate(layout.attributes):
        margin = estimate.margin[layout.span(i)]
        if attribute.kind is Encoding.SIMPLEX:
            assert margin.min() >= 0
            assert margin.sum() == pytest.approx(estimate.n)
        else:
            assert np.all(np.abs(margin) <= estimate.n)


def test_no_noise_gives_the_exact_moments_back() -> None:
    exact = RECORDS.encoded.T @ RECORDS.encoded
    estimate = denoise(release_of(RECORDS, 1e-6, 1e-6, 2, indicators=True))
    assert np.allclose(estimate.value, exact, atol=1e-2)


@pytest.mark.parametrize("noise", [30.0, 300.0, 3000.0])
def test_denoising_comes_nearer_to_the_truth(noise: float) -> None:
    exact = RECORDS.encoded.T @ RECORDS.encoded
    clean, raw = [], []
    for seed in range(5):
        moments = release_of(RECORDS, noise, noise / 3, seed, indicators=True)
        clean.append(np.linalg.norm(denoise(moments).value - exact))
        raw.append(np.linalg.norm(complete(moments).value - exact))
    assert np.mean(clean) < 0.9 * np.mean(raw)


def test_margins_are_combined_from_all_copies() -> None:
    exact = RECORDS.encoded.sum(axis=0)
    span = RECORDS.layout.span(0)
    pooled, single = [], []
    for seed in range(30):
        moments = release_of(RECORDS, 20.0, 20.0, seed, indicators=True)
        pooled.append(denoise(moments).margin[span] - exact[span])
        single.append(moments.value[span, RECORDS.layout.span(RECORDS.layout.label)].sum(axis=1) - exact[span])
    assert np.std(pooled) < 0.8 * np.std(single)


def test_paper_layout_without_sums() -> None:
    layout = Layout(
        (
            *(Attribute(ColumnRef("a", f"x{i}"), Encoding.SIGNED, (f"x{i}",)) for i in range(3)),
            Attribute(ColumnRef("a", "y"), Encoding.SIGNED, ("y",), Role.LABEL),
        )
    )
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (500, 3))
    z = np.column_stack([np.ones(500), x, np.clip(x @ [0.5, -0.3, 0.0], -1, 1)])
    std = np.full((5, 5), 5.0)
    std[0, :] = std[:, 0] = np.inf
    std[0, 0] = 0.0
    estimate = denoise(release(z.T @ z, 500, layout, std, Distribution.LAPLACE, 1))
    assert np.all(np.isinf(estimate.std[0, 1:]))
    assert np.linalg.norm(estimate.value[1:4, 1:4] - x.T @ x) < 60


def test_traces_stand_for_products() -> None:
    layout = Layout(
        (
            *(Attribute(ColumnRef("a", f"x{i}"), Encoding.SIGNED, (f"x{i}",)) for i in range(6)),
            Attribute(ColumnRef("a", "y"), Encoding.SIMPLEX, ("y-", "y+"), Role.LABEL, drop=0),
        )
    )
    std = np.full((9, 9), np.inf)
    std[0, 0] = 0.0
    std[1:7, 7:] = std[7:, 1:7] = 2.0
    std[0, 8] = std[8, 0] = 2.0
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (900, 6)), rng.uniform(-1, 1, 900)
    z = np.column_stack([np.ones(900), x, (1 - y) / 2, (1 + y) / 2])
    trace = Trace((1, 2, 3, 4, 5, 6), float((x**2).sum()), 5.0)
    estimate = denoise(release(z.T @ z, 900, layout, std, Distribution.GAUSSIAN, 1, (trace,)))
    assert np.diag(estimate.value)[1:7] == pytest.approx(np.full(6, (x**2).sum() / 6), rel=0.02)
    off = estimate.covariance[1:7, 1:7] - np.diag(np.diag(estimate.covariance)[1:7])
    assert np.abs(off).max() < 60


def test_shrinkage_follows_the_noise() -> None:
    rng = np.random.default_rng(0)
    signal = [0.3 * rng.standard_normal(20) for _ in range(30)]
    for noise in (0.01, 0.3, 3.0):
        seen = [s + noise * rng.standard_normal(20) for s in signal]
        blocks = [Deviations(v, np.ones(20), np.full(20, noise**2)) for v in seen]
        error = np.mean([np.mean((b.value - s) ** 2) for b, s in zip(shrink(blocks), signal, strict=True)])
        best = 0.09 * noise**2 / (0.09 + noise**2)
        assert error < 1.3 * best
    assert shrink([]) == []


def test_shrinkage_needs_the_right_noise() -> None:
    """Planted error: a noise variance that is stated ten times too small must do worse."""
    rng = np.random.default_rng(0)
    signal = [0.1 * rng.standard_normal(20) for _ in range(30)]
    seen = [s + 0.5 * rng.standard_normal(20) for s in signal]

    def error(noise: float) -> float:
        blocks = [Deviations(v, np.ones(20), np.full(20, noise**2)) for v in seen]
        return float(np.mean([np.mean((b.value - s) ** 2) for b, s in zip(shrink(blocks), signal, strict=True)]))

    assert error(0.5) < 0.5 * error(0.5 / np.sqrt(10))


def test_bounded_means() -> None:
    assert bounded_mean(5.0, 1e-12, 0.0, 1.0) == 1.0
    assert 0.0 < bounded_mean(-3.0, 1.0, 0.0, 10.0) < 1.0
    assert bounded_mean(2.0, 1.0, 3.0, 3.0) == 3.0


def nearly_equal_columns(noise: float) -> tuple[Moments, NDArray[np.float64]]:
    """Three numbers that follow one another closely, with noise as large as what tells them apart."""
    rng = np.random.default_rng(5)
    shared = 0.4 * rng.standard_normal((4000, 1))
    numbers = np.clip(shared + 0.02 * rng.standard_normal((4000, 3)), -1, 1)
    y = (rng.random(4000) < 0.5).astype(float)
    z = np.column_stack([np.ones(4000), numbers, 1 - y, y])
    features = tuple(Attribute(ColumnRef("a", f"x{i}"), Encoding.SIGNED, (f"x{i}",)) for i in range(3))
    layout = Layout((*features, Attribute(ColumnRef("a", "y"), Encoding.SIMPLEX, ("y-", "y+"), Role.LABEL, drop=0)))
    exact: NDArray[np.float64] = z.T @ z
    std = np.full(exact.shape, noise)
    std[4:] = std[:, 4:] = std[0] = std[:, 0] = 1e-3
    return release(exact, 4000, layout, std, Distribution.GAUSSIAN, 7), exact


def test_a_direction_that_noise_hides_keeps_some_variance() -> None:
    moments, exact = nearly_equal_columns(40.0)
    assert np.linalg.eigvalsh(complete(moments).covariance[1:4, 1:4])[0] < 0
    found = np.linalg.eigvalsh(denoise(moments).covariance[1:4, 1:4])
    assert found[0] > 1.0
    true = np.linalg.eigvalsh(exact[1:4, 1:4] - np.outer(exact[0, 1:4], exact[0, 1:4]) / 4000)
    assert found[-1] == pytest.approx(true[-1], rel=0.1)


def test_levels_keep_summing_to_one() -> None:
    estimate = denoise(release_of(RECORDS, 300.0, 100.0, 3, indicators=True))
    for i, attribute in enumerate(estimate.layout.attributes):
        if attribute.kind is Encoding.SIMPLEX and attribute.role is Role.FEATURE:
            ones = np.zeros(estimate.layout.width)
            ones[estimate.layout.span(i)] = 1.0
            assert abs(ones @ estimate.covariance @ ones) < 1e-6 * estimate.n

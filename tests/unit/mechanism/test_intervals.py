"""Intervals are given where they can be, for coefficients whose meaning is told, with the true reason elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colonnade.analysis.contrasts import Contrast, noisy_covariance
from colonnade.analysis.denoise import complete
from colonnade.analysis.intervals import DISCRIMINANT, LEAST_SQUARES, intervals
from colonnade.analysis.reduction import columns_of, groups_of, loudness, whole_columns
from colonnade.foundation.errors import StudyError
from colonnade.foundation.names import ColumnRef
from colonnade.mechanism.moments import Attribute, Distribution, Encoding, Layout, Moments, Role, Trace
from colonnade.mechanism.objective import Task
from tests.helpers.releases import make_records, release, release_of, stds

QUIET, LOUD = 2.0, 60.0


def reduced_release(seed: int = 1, law: Distribution = Distribution.LAPLACE) -> Moments:
    return release_of(make_records(3000, 1, logistic=True), LOUD, 20.0, seed, indicators=True, law=law)


def test_the_full_model_where_the_noise_is_small() -> None:
    records = make_records(3000, 1, logistic=False)
    found = intervals(release_of(records, QUIET, QUIET, 1, indicators=False, square=True), Task.LINEAR)
    assert found.full and found.quantity == LEAST_SQUARES and not found.reason and not found.left_out
    assert [i.feature for i in found.given] == [records.layout.names[k] for k in records.layout.features]
    x = np.column_stack([np.ones(3000), records.features])
    truth = np.linalg.lstsq(x, 2 * records.target - 1, rcond=None)[0][1:]
    for one, value in zip(found.coefficients, truth, strict=True):
        assert one.low < one.estimate < one.high
        assert one.low - one.std < value < one.high + one.std
    assert found.coefficients[0].against == "red" and found.coefficients[0].base == ("colour=red",)


def test_a_reduced_model_where_the_noise_is_large() -> None:
    moments = reduced_release()
    found = intervals(moments, Task.LOGISTIC)
    assert not found.full and found.quantity == DISCRIMINANT
    assert 0 < len(found.given) <= len(found.coefficients) < 7
    assert "of the features' covariance" in found.reason or "as large as the features' covariance" in found.reason
    assert "too few" not in found.reason
    used = {i.column for i in found.coefficients}
    assert set(found.left_out) == {"colour", "height", "size", "income"} - used
    for one in found.coefficients:
        attribute = next(a for a in moments.layout.attributes if a.bare == one.column)
        if attribute.kind is Encoding.SIMPLEX:
            beside = [i for i in found.coefficients if i.column == one.column]
            assert sorted([*one.base, *(level for i in beside for level in i.levels)]) == sorted(attribute.coordinates)
    assert found == intervals(moments, Task.LOGISTIC), "the same release gives the same intervals"


def test_the_choice_does_not_look_at_the_label() -> None:
    """Other products with the label give other numbers for the same columns."""
    moments = reduced_release()
    label = moments.layout.span(moments.layout.label)
    value = moments.value.copy()
    # Margins stay: what enters one class leaves the other, and a level's loss is another level's gain.
    shift = np.zeros(label.start)
    shift[1:5], shift[6:9] = (90.0, -30.0, -90.0, 30.0), (40.0, -80.0, 40.0)
    value[: label.start, label.start] += shift
    value[: label.start, label.start + 1] -= shift
    value[label, : label.start] = value[: label.start, label].T
    one, two = intervals(moments, Task.LOGISTIC), intervals(replace(moments, value=value), Task.LOGISTIC)
    assert [i.feature for i in one.coefficients] == [i.feature for i in two.coefficients]
    assert [i.estimate for i in one.coefficients] != [i.estimate for i in two.coefficients]


def test_noise_drowns_everything() -> None:
    moments = release_of(make_records(3000, 1, logistic=True), 900.0, 900.0, 1, indicators=True)
    found = intervals(moments, Task.LOGISTIC)
    assert not found.given and "directions" in found.reason


def test_a_drowned_coefficient_is_marked() -> None:
    """Noise on the label's products alone: the covariance is known, and every interval would be too wide."""
    records = make_records(3000, 1, logistic=False)
    found = intervals(release_of(records, 0.5, 900.0, 1, indicators=False, square=True), Task.LINEAR)
    assert found.full and found.coefficients and not found.given
    assert all(i.factor > 11.5 for i in found.coefficients)
    assert "times as wide as sampling alone" in found.reason


def test_reasons_are_true() -> None:
    records = make_records(2000, 1, logistic=True)
    moments = release_of(records, QUIET, QUIET, 1, indicators=True)
    traced = replace(moments, traces=(Trace((1, 2), 5.0, 1.0),))
    assert "traces in place of the products" in intervals(traced, Task.LOGISTIC).reason
    assert "without an intercept" in intervals(moments, Task.LOGISTIC, intercept=False).reason
    std = moments.std.copy()
    std[5, 9] = std[9, 5] = np.inf
    assert (
        "lacks products, such as those of height and income"
        in intervals(replace(moments, std=std), Task.LOGISTIC).reason
    )
    std = moments.std.copy()
    std[5, 5] = np.inf
    assert "lacks the square of height" in intervals(replace(moments, std=std), Task.LOGISTIC).reason
    numbers = Layout(
        (
            Attribute(ColumnRef("a", "x"), Encoding.SIGNED, ("x",)),
            Attribute(ColumnRef("a", "y"), Encoding.SIGNED, ("y",), Role.LABEL),
        )
    )
    known = np.full((3, 3), 1.0)
    known[0, :] = known[:, 0] = np.inf
    plain = Moments(100, numbers, np.eye(3) * 30.0, known, Distribution.LAPLACE)
    assert "does not hold the means" in intervals(plain, Task.LINEAR).reason


def test_a_missing_square_of_the_label_is_told() -> None:
    records = make_records(2000, 1, logistic=False)
    with_square = intervals(release_of(records, QUIET, QUIET, 1, indicators=False, square=True), Task.LINEAR)
    without = intervals(release_of(records, QUIET, QUIET, 1, indicators=False), Task.LINEAR)
    assert not with_square.caution and "label's square was not released" in without.caution
    assert without.coefficients[0].std > with_square.coefficients[0].std


def test_intervals_widen_with_the_noise_and_the_level() -> None:
    records = make_records(3000, 1, logistic=True)
    quiet = intervals(release_of(records, 1.0, 1.0, 1, indicators=True), Task.LOGISTIC)
    loud = intervals(release_of(records, 3.0, 30.0, 1, indicators=True), Task.LOGISTIC)
    wide = intervals(release_of(records, 1.0, 1.0, 1, indicators=True), Task.LOGISTIC, level=0.99)
    for a, b, c in zip(quiet.coefficients, loud.coefficients, wide.coefficients, strict=True):
        assert b.std > a.std and c.high - c.low > a.high - a.low
    with pytest.raises(StudyError, match="confidence level"):
        intervals(release_of(records, 1.0, 1.0, 1, indicators=True), Task.LOGISTIC, level=1.0)


@pytest.mark.parametrize("law", list(Distribution))
def test_the_stated_covariance_of_the_noise_is_that_of_the_noise(law: Distribution) -> None:
    """Over many releases of the same records the noise in M v has the covariance that `noise` says."""
    records = make_records(2000, 1, logistic=True)
    exact, n = records.encoded.T @ records.encoded, 2000
    std = stds(records.layout, 20.0, 10.0, indicators=True)
    columns = [Contrast(0, (2,)), Contrast(0, (1, 3)), Contrast(1, (0,)), Contrast(2, (0,)), Contrast(3, (0,))]
    columns.append(Contrast(4, (1,)))
    marks = np.zeros((records.layout.width, len(columns)))
    for j, c in enumerate(columns):
        marks[[records.layout.starts[c.attribute] + k for k in c.levels], j] = 1.0
    means = exact[0] @ marks / n
    truth = marks.T @ exact @ marks / n - np.outer(means, means)
    v = np.array([0.4, -0.3, 0.5, 0.2, -0.6, -1.0])
    errors, stated = [], np.zeros((6, 6))
    for seed in range(800):
        moments = release(exact, n, records.layout, std, law, seed)
        covariance = noisy_covariance(moments, complete(moments), columns)
        errors.append((covariance.matrix - truth) @ v)
        stated += covariance.noise(v) / 800
    found = np.cov(np.array(errors).T)
    whitened = np.linalg.solve(np.linalg.cholesky(stated), np.array(errors).T)
    assert np.allclose(np.diag(found) / np.diag(stated), 1.0, atol=0.2)
    assert np.mean(whitened**2) == pytest.approx(1.0, abs=0.08)
    g = np.arange(6.0)
    assert g @ covariance.noise(v) @ g == pytest.approx(v @ covariance.noise(g) @ v)
    assert np.allclose(covariance.noise_times(g, v), covariance.noise(g) @ v)


def test_levels_are_grouped_around_the_declared_base() -> None:
    bins = tuple(f"age={b}" for b in ("0 to 20", "20 to 40", "40 to 60", "60 to 80"))
    layout = Layout(
        (
            Attribute(ColumnRef("a", "age"), Encoding.SIMPLEX, bins, drop=0, ordered=True),
            Attribute(ColumnRef("a", "colour"), Encoding.SIMPLEX, ("c=r", "c=g", "c=b"), drop=0),
            Attribute(ColumnRef("a", "x"), Encoding.SIGNED, ("x",)),
        )
    )
    assert groups_of(layout, 0, [Contrast(0, (0, 1))]) == [(0, 1), (2, 3)]
    assert groups_of(layout, 1, [Contrast(1, (0,))]) == [(0,), (1, 2)], "the base is the declared one"
    assert groups_of(layout, 1, [Contrast(1, (1,))]) == [(0, 2), (1,)]
    assert columns_of(layout, [Contrast(2, (0,))]) == (Contrast(2, (0,)),)
    whole = [(c.attribute, c.levels) for c in whole_columns(layout, (0, 1, 2))]
    assert whole == [(0, (1,)), (0, (2,)), (0, (3,)), (1, (1,)), (1, (2,)), (2, (0,))]


def test_loudness_grows_with_the_noise() -> None:
    found = []
    for noise in (1.0, 10.0, 100.0):
        moments = release_of(make_records(3000, 1, logistic=True), noise, noise, 1, indicators=True)
        found.append(loudness(noisy_covariance(moments, complete(moments), whole_columns(moments.layout, range(4)))))
    assert found[0] < found[1] < found[2]
    assert found[0] < 0.1

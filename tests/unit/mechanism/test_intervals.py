"""Intervals cover the truth as often as they say, and say so when they cannot."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.mechanism.intervals import intervals
from colonnade.mechanism.moments import Law
from colonnade.mechanism.objective import Task
from tests.unit.mechanism.releases import make_records, release_of


def truth() -> np.ndarray:
    people = make_records(400_000, 99, logistic=False)
    x = np.column_stack([np.ones(len(people.encoded)), people.features])
    return np.linalg.lstsq(x, 2 * people.target - 1, rcond=None)[0][1:]


def covered(runs: int, n: int, noise: float, law: Law, draws: int, stated: float = 1.0) -> float:
    """Share of the offered 95% intervals that hold the truth; `stated` scales the noise the release owns up to."""
    beta, hits = truth(), []
    for run in range(runs):
        records = make_records(n, run, logistic=False)
        moments = release_of(records, noise, noise / 2, 1000 + run, indicators=False, law=law, square=True)
        try:
            found = intervals(replace(moments, std=moments.std * stated), Task.LINEAR, draws=draws)
        except ReleaseError:
            continue
        hits.append([i.low <= b <= i.high for i, b in zip(found, beta, strict=True)])
    assert len(hits) > runs / 2, "most releases of a coverage test must get intervals"
    return float(np.mean(hits))


def test_small_coverage() -> None:
    assert 0.9 <= covered(25, 2000, 15.0, Law.LAPLACE, 40) <= 0.995


def test_coverage_falls_when_the_noise_is_understated() -> None:
    """Planted error: a release that states a fifth of its noise gets intervals that miss."""
    assert covered(15, 2000, 30.0, Law.LAPLACE, 40, stated=0.2) < 0.85


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("COLONNADE_LONG"), reason="five minutes; COLONNADE_LONG=1 runs it")
@pytest.mark.parametrize(
    ("n", "noise", "law"), [(2000, 5.0, Law.LAPLACE), (2000, 15.0, Law.LAPLACE), (5000, 25.0, Law.GAUSSIAN)]
)
def test_coverage(n: int, noise: float, law: Law) -> None:
    """Seven coefficients in each of 200 releases; the share has a standard error of about one per cent."""
    share = covered(200, n, noise, law, 200)
    print(f"n={n} noise={noise} {law.value}: {share:.4f}")
    assert 0.92 <= share <= 0.98


def test_logistic_intervals_widen_with_the_noise() -> None:
    records = make_records(3000, 1, logistic=True)
    quiet = intervals(release_of(records, 1.0, 1.0, 1, indicators=True), Task.LOGISTIC, draws=40)
    loud = intervals(release_of(records, 10.0, 20.0, 1, indicators=True), Task.LOGISTIC, draws=40)
    assert np.mean([i.std for i in loud]) > np.mean([i.std for i in quiet]) > 0
    assert [i.feature for i in quiet] == [records.layout.names[k] for k in records.layout.features]


@pytest.mark.parametrize("law", [Law.LAPLACE, Law.GAUSSIAN])
def test_refused_where_the_noise_reaches_the_covariance(law: Law) -> None:
    """Noise on the features' products alone decides: the label's may be loud, and its intervals are only wide."""
    records = make_records(2000, 1, logistic=False)
    wide = intervals(release_of(records, 2.0, 200.0, 1, indicators=False, law=law, square=True), Task.LINEAR, draws=40)
    assert np.median([i.std for i in wide]) > 0.2
    with pytest.raises(ReleaseError, match="smaller than their covariance in every direction, got noise of"):
        intervals(release_of(records, 300.0, 2.0, 1, indicators=False, law=law, square=True), Task.LINEAR, draws=40)


def test_refusals() -> None:
    moments = release_of(make_records(100, 1, logistic=False), 1.0, 1.0, 1, indicators=False)
    with pytest.raises(StudyError, match="confidence level"):
        intervals(moments, Task.LINEAR, level=1.0)
    with pytest.raises(StudyError, match="at least 20 draws"):
        intervals(moments, Task.LINEAR, draws=5)

"""Solving: the exact release gives the exact fit, noise is never ruinous, one release answers many questions."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from colonnade.analysis.denoise import denoise
from colonnade.analysis.equations import chosen_attributes, coordinates_of, equations, target_of
from colonnade.analysis.families import GAUSSIAN
from colonnade.analysis.model import FittedModel
from colonnade.analysis.plausible import plausible_records
from colonnade.analysis.question import METHODS
from colonnade.analysis.solve import solve
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.foundation.names import ColumnRef
from colonnade.mechanism.moments import Attribute, Distribution, Encoding, Layout, Role
from colonnade.mechanism.objective import Task
from tests.helpers.releases import Records, make_records, release, release_of

LINEAR = make_records(6000, 3, logistic=False)
LOGISTIC = make_records(6000, 4, logistic=True)


def least_squares(records: Records) -> np.ndarray:
    x = np.column_stack([np.ones(len(records.encoded)), records.features])
    return np.linalg.lstsq(x, 2 * records.target - 1, rcond=None)[0]


def mse_over_mean(model: FittedModel, records: Records) -> float:
    y = 2 * records.target - 1
    return float(np.mean((model.decision(records.features).clip(-1, 1) - y) ** 2) / np.var(y))


@pytest.mark.parametrize("method", METHODS)
def test_exact_release_gives_least_squares(method: str) -> None:
    model = solve(release_of(LINEAR, 1e-4, 1e-4, 1, indicators=False), Task.LINEAR, method=method)
    expected = least_squares(LINEAR)
    assert np.array(model.coefficients) == pytest.approx(expected[1:], abs=5e-3)
    assert model.intercept == pytest.approx(expected[0], abs=5e-3)
    assert model.features == tuple(LINEAR.layout.names[k] for k in LINEAR.layout.features)


def test_exact_release_comes_near_the_logistic_fit() -> None:
    model = solve(release_of(LOGISTIC, 1e-4, 1e-4, 1, indicators=True), Task.LOGISTIC)
    fitted = LogisticRegression(C=1e6, max_iter=500).fit(LOGISTIC.features, LOGISTIC.target > 0.5)
    chance = expit(model.decision(LOGISTIC.features))
    assert np.abs(chance - fitted.predict_proba(LOGISTIC.features)[:, 1]).mean() < 0.01
    assert chance.mean() == pytest.approx(LOGISTIC.target.mean(), abs=0.01)


def test_logistic_probabilities_are_calibrated_and_beat_the_discriminant() -> None:
    moments = release_of(LOGISTIC, 1e-4, 1e-4, 1, indicators=True)
    fresh = make_records(20000, 5, logistic=True)

    def loss(model: FittedModel) -> float:
        score = model.decision(fresh.features)
        return float(np.mean(np.logaddexp(0, score) - fresh.target * score))

    assert loss(solve(moments, Task.LOGISTIC)) <= loss(solve(moments, Task.LOGISTIC, method="raw")) + 1e-4
    model = solve(moments, Task.LOGISTIC)
    chance = expit(model.decision(fresh.features))
    for low, high in ((0.1, 0.3), (0.4, 0.6), (0.7, 0.9)):
        inside = (chance > low) & (chance < high)
        assert fresh.target[inside].mean() == pytest.approx(chance[inside].mean(), abs=0.04)


@pytest.mark.parametrize("noise", [100.0, 500.0, 2000.0, 20000.0])
def test_noise_is_never_ruinous(noise: float) -> None:
    """Against the trivial model, which knows the label's mean only as well as the release does."""
    ours, trivial = [], []
    for seed in range(6):
        moments = release_of(LINEAR, noise, noise / 3, seed, indicators=False)
        ours.append(mse_over_mean(solve(moments, Task.LINEAR), LINEAR))
        trivial.append(mse_over_mean(solve(moments, Task.LINEAR, ridge=1e9), LINEAR))
    assert np.mean(ours) < 1.05 * np.mean(trivial)


def test_the_rule_beats_a_fixed_small_ridge() -> None:
    default, fixed = [], []
    for seed in range(8):
        moments = release_of(LINEAR, 400.0, 150.0, seed, indicators=False)
        default.append(mse_over_mean(solve(moments, Task.LINEAR), LINEAR))
        fixed.append(mse_over_mean(solve(moments, Task.LINEAR, ridge=1e-4), LINEAR))
    assert np.mean(default) < np.mean(fixed)


def test_stated_noise_matters() -> None:
    """Planted error: a release that states a tenth of its noise is shrunk too little."""
    told, misled = [], []
    for seed in range(8):
        moments = release_of(LINEAR, 900.0, 400.0, seed, indicators=False)
        told.append(mse_over_mean(solve(moments, Task.LINEAR), LINEAR))
        misled.append(mse_over_mean(solve(replace(moments, std=moments.std / 10), Task.LINEAR), LINEAR))
    assert np.mean(told) < np.mean(misled)


def test_a_known_label_square_makes_no_product_more_certain() -> None:
    """The target's variance bounds what a fit may explain; it says nothing about the noise on the products."""
    found = []
    for square in (False, True):
        moments = release_of(LINEAR, 900.0, 300.0, 1, indicators=False, square=square)
        target = target_of(moments.layout, GAUSSIAN, None)
        columns = coordinates_of(moments.layout, chosen_attributes(moments.layout, target, None))
        found.append(equations(moments, denoise(moments), columns, target, True))
    assert found[1].right_noise == pytest.approx(found[0].right_noise)
    assert found[1].explainable < found[0].explainable


def test_one_release_many_questions() -> None:
    moments = release_of(LINEAR, 1e-4, 1e-4, 1, indicators=False, square=True)
    some = solve(moments, Task.LINEAR, features=["height", "b.size"])
    assert set(some.features) == {"height", "size=middle", "size=large"}
    other = solve(moments, Task.LINEAR, label="b.income")
    x = np.column_stack([np.ones(6000), LINEAR.encoded[:, [2, 3, 4, 5, 7, 8]]])
    expected = np.linalg.lstsq(x, LINEAR.encoded[:, 9], rcond=None)[0]
    assert np.array(other.coefficients) == pytest.approx(expected[1:], abs=5e-3)
    level = solve(moments, Task.LOGISTIC, label="size=large")
    truth = LogisticRegression(C=1e6, max_iter=500).fit(LINEAR.encoded[:, [2, 3, 4, 5, 9]], LINEAR.encoded[:, 8] > 0.5)
    assert level.features == ("colour=green", "colour=blue", "colour=grey", "height", "income")
    assert np.sign(level.coefficients[-1]) == np.sign(truth.coef_[0][-1])
    models = [solve(moments, Task.LINEAR, ridge=ridge) for ridge in (0.0, 0.1, 10.0)]
    norms = [float(np.linalg.norm(m.coefficients)) for m in models]
    assert norms[0] > norms[1] > norms[2]
    assert models[0].freedom > models[2].freedom
    y = 2 * LINEAR.target - 1
    fit = least_squares(LINEAR)
    expected_r2 = 1 - np.mean((y - fit[0] - LINEAR.features @ fit[1:]) ** 2) / np.var(y)
    assert models[0].r_squared == pytest.approx(expected_r2, abs=0.01)
    assert models[0].r_squared_interval[0] < expected_r2 < models[0].r_squared_interval[1]


def test_no_r_squared_without_the_labels_square_nor_for_probabilities_nor_in_noise() -> None:
    quiet = release_of(LINEAR, 1.0, 1.0, 1, indicators=False, square=True)
    assert solve(quiet, Task.LINEAR).r_squared_interval is not None
    silent = [
        solve(release_of(LINEAR, 1.0, 1.0, 1, indicators=False), Task.LINEAR),
        solve(release_of(LOGISTIC, 1.0, 1.0, 1, indicators=True), Task.LOGISTIC),
        solve(release_of(LINEAR, 900.0, 600.0, 1, indicators=False, square=True), Task.LINEAR),
    ]
    assert all(np.isnan(model.r_squared) and model.r_squared_interval is None for model in silent)


def test_without_intercept() -> None:
    model = solve(release_of(LINEAR, 1e-4, 1e-4, 1, indicators=False), Task.LINEAR, intercept=False)
    expected = np.linalg.lstsq(LINEAR.features, 2 * LINEAR.target - 1, rcond=None)[0]
    assert model.intercept == 0
    assert np.array(model.coefficients) == pytest.approx(expected, abs=1e-2)


def paper_release(noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, Layout, object]:
    layout = Layout(
        (
            *(Attribute(ColumnRef("a", f"x{i}"), Encoding.SIGNED, (f"x{i}",)) for i in range(4)),
            Attribute(ColumnRef("a", "y"), Encoding.SIGNED, ("y",), Role.LABEL),
        )
    )
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, (3000, 4))
    positive = rng.random(3000) < expit(x @ [2.0, -1.0, 0.5, 0.0])
    z = np.column_stack([np.ones(3000), x, 1 - 2.0 * positive])
    std = np.full((6, 6), noise)
    std[0, :] = std[:, 0] = np.inf
    std[0, 0] = 0.0
    return x, positive, layout, release(z.T @ z, 3000, layout, std, Distribution.LAPLACE, seed)


@pytest.mark.parametrize("method", METHODS)
def test_paper_layout(method: str) -> None:
    """The paper's logistic label stands as 1 - 2y, without sums of columns: the expansion at 0."""
    x, positive, _, moments = paper_release(1e-3, 1)
    model = solve(moments, Task.LOGISTIC, method=method)  # type: ignore[arg-type]
    taylor = 4 * np.linalg.solve(x.T @ x, x.T @ (positive - 0.5))
    assert np.array(model.coefficients) == pytest.approx(taylor, abs=0.02)
    assert model.intercept == 0


def test_zhang_repairs_what_raw_does_not() -> None:
    raw, repaired, ours = [], [], []
    for seed in range(12):
        moments = paper_release(600.0, seed)[-1]
        for method, norms in (("raw", raw), ("zhang", repaired), ("default", ours)):
            model = solve(moments, Task.LOGISTIC, method=method)  # type: ignore[arg-type]
            norms.append(float(np.linalg.norm(model.coefficients)))
    assert np.mean(repaired) < np.mean(raw)
    assert np.mean(ours) < np.mean(raw)


def test_plausible_records_have_the_released_moments() -> None:
    estimate = denoise(release_of(LOGISTIC, 1e-4, 1e-4, 1, indicators=True))
    records, weights = plausible_records(estimate, [0, 1, 2, 3], 4096)
    second = (records * weights[:, None]).T @ records * estimate.n
    columns = [0, *range(1, 10)]
    assert np.abs(second - estimate.value)[np.ix_(columns, columns)].max() < 0.02 * estimate.n
    assert weights.sum() == pytest.approx(1.0)
    assert np.all(np.abs(records[:, [5, 9]]) <= 1)


def test_model_is_plain_data() -> None:
    model = solve(release_of(LINEAR, 10.0, 5.0, 1, indicators=False), Task.LINEAR)
    read = FittedModel(**json.loads(json.dumps(asdict(model))))
    assert read.coefficients == list(model.coefficients)


def test_refusals() -> None:
    moments = release_of(LINEAR, 10.0, 5.0, 1, indicators=False)
    with pytest.raises(StudyError, match="method must be one of"):
        solve(moments, Task.LINEAR, method="magic")
    with pytest.raises(StudyError, match="ridge must be a number from 0 up"):
        solve(moments, Task.LINEAR, ridge=-1.0)
    with pytest.raises(StudyError, match="a feature must be a released column"):
        solve(moments, Task.LINEAR, features=["weight"])
    with pytest.raises(StudyError, match="the label must be"):
        solve(moments, Task.LINEAR, label="weight")
    with pytest.raises(StudyError, match="must be a level"):
        solve(moments, Task.LOGISTIC, label="income")
    hidden = replace(moments, std=np.where(np.arange(12) == 5, np.inf, moments.std))
    with pytest.raises(ReleaseError, match="needs its products"):
        solve(hidden, Task.LINEAR)

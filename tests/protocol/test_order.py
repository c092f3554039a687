"""A logistic study of order 4: sums of products of up to four features, minimised where the quartic stands for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from colonnade.analysis.quartic import INTERVAL, loss_coefficients, quartic_fit
from colonnade.analysis.solve import solve
from colonnade.foundation.errors import StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.objective import Task, monomial
from colonnade.mechanism.release import read_release, write_release
from colonnade.report.choices import choices_text
from colonnade.report.purposes import forecast_purposes
from colonnade.runs import fit
from colonnade.study import Study, read_study

ROWS = 4000


def study_of(folder: Path, epsilon: float = 1e6) -> Study:
    draw = np.random.default_rng(1)
    x, u = draw.uniform(-1, 1, (2, ROWS))
    y = draw.uniform(size=ROWS) < 1 / (1 + np.exp(-(2 * x - 1.5 * u + 0.5)))
    pl.DataFrame({"x": x, "y": np.where(y, "yes", "no")}).write_csv(folder / "a.csv")
    pl.DataFrame({"u": u}).write_csv(folder / "b.csv")
    number = '{ kind = "numeric", low = -1, high = 1 }'
    (folder / "s.toml").write_text(
        f'[study]\nname = "o"\ntask = "logistic"\nlabel = "a.y"\nepsilon = {epsilon}\nalignment = "none"\norder = 4\n'
        f'product = "plain"\n[party.a]\ndata = "a.csv"\n[party.a.columns]\nx = {number}\n'
        f'y = {{ kind = "binary", levels = ["no", "yes"] }}\n'
        f'[party.b]\ndata = "b.csv"\n[party.b.columns]\nu = {number}\n'
    )
    return read_study(folder / "s.toml")


def test_sums_of_all_degrees_are_released_and_the_quartic_is_minimised(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    release = fit(study, randomness=Randomness(b"order")).release
    assert write_release(read_release(write_release(release))) == write_release(release)
    moments = release.moments()
    values = {
        "x": pl.read_csv(tmp_path / "a.csv")["x"].to_numpy(),
        "u": pl.read_csv(tmp_path / "b.csv")["u"].to_numpy(),
    }
    assert len(moments.sums) == 4 + 5
    for item in moments.sums:
        wanted = float(np.prod([values[moments.layout.names[c]] for c in item.factors], axis=0).sum())
        assert item.value == pytest.approx(wanted, abs=3.0)
    model = solve(moments, Task.LOGISTIC)
    assert model.features == ("x", "u") and model.method.startswith("quartic")
    assert model.coefficients == pytest.approx((2, -1.5), abs=0.25) and model.intercept == pytest.approx(0.5, abs=0.2)
    found = quartic_fit(moments)
    score = found.weights[0] + found.weights[1] * values["x"] + found.weights[2] * values["u"]
    assert np.mean(np.abs(score) > INTERVAL) <= found.outside <= 0.2
    degrees = {len(monomial(release.layout, t)) for b in release.blocks for t in b.factors}
    assert degrees == {1, 2, 3, 4}


def test_the_quartic_fits_the_loss_and_has_no_minimum() -> None:
    c2, c4 = loss_coefficients()
    z = np.linspace(-INTERVAL, INTERVAL, 101)
    exact = np.logaddexp(z / 2, -z / 2)
    fitted = c2 * z**2 + c4 * z**4
    assert c4 < 0 < c2 and np.ptp(exact - fitted) < 0.05


def test_what_order_four_is_not_for_is_refused(tmp_path: Path) -> None:
    agreement = study_of(tmp_path).agreement
    assert agreement.to()["order"] == 4 and "order" not in replace(agreement, order=2).to()
    for change in ({"order": 3}, {"interactions": (("a.x", "b.u"),)}, {"task": Task.LINEAR}, {"release": "trace"}):
        with pytest.raises(StudyError, match="order"):
            replace(agreement, **change)  # type: ignore[arg-type]


def test_the_plan_says_what_a_higher_order_costs(tmp_path: Path) -> None:
    session = study_of(tmp_path, epsilon=0.5).session(ROWS)
    told = session.warnings()
    assert "all products" in choices_text(session).plain and not forecast_purposes(session)
    assert any("order 4 releases" in w and "order 2 is expected to do better" in w for w in told)

"""A logistic study of order 4: sums of products of up to four features, minimised where the quartic stands for it."""

from __future__ import annotations

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
from colonnade.report.choices import Options, forecast_purposes
from colonnade.runs import RunOptions, fit
from colonnade.study import StudySpec, read_study, study_from

ROWS = 4000


def study_of(folder: Path, epsilon: float = 1e6) -> StudySpec:
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
    release = fit(study, RunOptions(randomness=Randomness(b"order"))).release
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
    assert agreement.to()["order"] == 4 and "order" not in agreement.with_terms(order=2).to()
    for change in ({"order": 3}, {"task": Task.LINEAR}, {"release": "trace"}, {"order": 2, "interval": 3.0}):
        with pytest.raises(StudyError, match="order"):
            agreement.with_terms(**change)  # type: ignore[arg-type]
    for change in ({"interval": 0.0}, {"ball": -1.0}, {"ball": True}):
        with pytest.raises(StudyError, match="must be above 0"):
            agreement.with_terms(**change)  # type: ignore[arg-type]


LEVELS = {"kind": "categorical", "levels": ["low", "middle", "high"]}
NUMBER = {"kind": "numeric", "low": -1, "high": 1}


def mixed_study(folder: Path, parties: int = 2, **terms: object) -> StudySpec:
    """A number and a category, an interaction of both owners as the signal."""
    draw = np.random.default_rng(3)
    x, u = draw.uniform(-1, 1, (2, ROWS))
    s = draw.choice(["low", "middle", "high"], ROWS)
    score = 2 * x * u + 1.0 * (s == "high") - 0.5
    y = draw.uniform(size=ROWS) < 1 / (1 + np.exp(-score))
    pl.DataFrame({"x": x, "y": np.where(y, "yes", "no")}).write_csv(folder / "a.csv")
    pl.DataFrame({"u": u, "s": s}).write_csv(folder / "b.csv")
    head = {"name": "o", "task": "logistic", "label": "a.y", "epsilon": 1e5, "alignment": "none", "order": 4}
    head |= {"product": "plain", "interactions": [["a.x", "b.u"]]} | terms
    party = {
        "a": {"data": "a.csv", "columns": {"x": NUMBER, "y": {"kind": "binary", "levels": ["no", "yes"]}}},
        "b": {"data": "b.csv", "columns": {"u": NUMBER, "s": LEVELS}},
    }
    return study_from({"study": head, "party": party}, folder)


def test_order_four_takes_interactions_and_levels(tmp_path: Path) -> None:
    release = fit(mixed_study(tmp_path), RunOptions(randomness=Randomness(b"mixed"))).release
    moments = release.moments()
    values = {"x": pl.read_csv(tmp_path / "a.csv")["x"].to_numpy()}
    other = pl.read_csv(tmp_path / "b.csv")
    values |= {"u": other["u"].to_numpy()}
    values |= {f"s={v}": (other["s"] == v).to_numpy().astype(float) for v in LEVELS["levels"]}
    for item in moments.sums:
        wanted = float(np.prod([values[moments.layout.names[c]] for c in item.factors], axis=0).sum())
        assert item.value == pytest.approx(wanted, abs=3.0)
        # No level twice, and no two levels of one column: the one is known, the other is 0.
        assert sum(moments.layout.names[c].startswith("s=") for c in item.factors) <= 1
    names = ["", *(moments.layout.names[c] for c in moments.layout.features)]
    found = dict(zip(names, quartic_fit(moments).weights, strict=True))
    assert found["x:u"] == pytest.approx(2.0, abs=0.35) and found["s=high"] == pytest.approx(1.0, abs=0.3)
    assert abs(found["s=middle"]) < 0.3 and abs(found["x"]) < 0.2


def test_the_interval_and_the_ball_are_the_study_s(tmp_path: Path) -> None:
    wide = fit(mixed_study(tmp_path, interval=6.0, ball=0.5), RunOptions(randomness=Randomness(b"radii"))).release
    found = quartic_fit(read_release(write_release(wide)).moments())
    assert found.interval == 6.0 and found.on_edge
    assert "±6" in solve(wide.moments(), Task.LOGISTIC).method and "edge" in solve(wide.moments(), Task.LOGISTIC).method
    plain, changed = mixed_study(tmp_path).agreement, mixed_study(tmp_path, interval=6.0, ball=0.5).agreement
    assert changed.to()["interval"] == 6.0 and "ball" not in plain.to()


def test_too_many_levels_are_refused_with_their_number(tmp_path: Path) -> None:
    many = {"kind": "categorical", "levels": [f"l{i}" for i in range(300)]}
    party = {
        "a": {"columns": {"x": NUMBER, "y": {"kind": "binary", "levels": ["no", "yes"]}}},
        "b": {"columns": {"u": NUMBER, "s": many}},
    }
    head = {"name": "o", "task": "logistic", "label": "a.y", "epsilon": 1.0, "alignment": "none", "order": 4}
    # Of x and u 14 products of up to 4, and 299 levels with each of the 10 of up to 3, the empty one among them.
    with pytest.raises(StudyError, match="of 301 features has 3004 coefficients, more than 1000"):
        study_from({"study": head, "party": party}, tmp_path)


def test_the_plan_says_what_a_higher_order_costs(tmp_path: Path) -> None:
    session = study_of(tmp_path, epsilon=0.5).session(ROWS)
    told = session.warnings()
    assert "all products" in Options(session).text and not forecast_purposes(session)
    assert any("order 4 releases" in w and "order 2 is expected to do better" in w for w in told)

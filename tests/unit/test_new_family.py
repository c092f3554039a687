"""A further law of a label is one class: a toy is fitted, told, kept in a file, and scores records.

Besides the class it is a name in `FAMILIES` and, for the command line, one in its list of tasks: two files.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

import colonnade as cn
from colonnade.analysis.families import FAMILIES, Family, LabelPlace, Outputs
from colonnade.cli.releases import Regression
from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Column
from colonnade.mechanism.moments import Floats
from colonnade.simulation import in_the_clear

ROWS = 6000


class Parts(Family):
    """A part of a whole, from 0 to 1, whose log-odds are linear (Papke & Wooldridge 1996)."""

    task, told, bounded = "part", "log-odds of the mean", True

    def partition(self, scores: Floats) -> tuple[Floats, Floats]:
        return np.logaddexp(0.0, scores).sum(axis=1), expit(scores)

    def constant(self, means: Floats) -> Floats:
        return np.asarray(logit(means))

    def variance(self, means: Floats) -> Floats:
        return means * (1.0 - means)

    def outputs(self, place: LabelPlace) -> Outputs:
        if place.require_number(self.task) != (0.0, 1.0):
            raise StudyError(f"a part needs a number from 0 to 1 as label, got {place.text}")
        return Outputs(*place.number())

    def predicted(self, scores: Floats, column: Column) -> Floats:
        return np.asarray(expit(scores))


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> dict[str, pl.DataFrame]:
    monkeypatch.setitem(FAMILIES, "part", Parts())
    draw = np.random.default_rng(3)
    x, kind = draw.uniform(-1, 1, ROWS), draw.choice(["a", "b"], ROWS)
    mean = expit(1.2 * x + 0.8 * (kind == "b") - 0.6)
    share = draw.beta(4 * mean, 4 * (1 - mean))
    return {"farm": pl.DataFrame({"x": x, "share": share}), "shop": pl.DataFrame({"kind": kind})}


def test_a_toy_family_goes_the_whole_way(records: dict[str, pl.DataFrame], tmp_path: Path) -> None:
    columns = {"x": cn.Numeric(-1, 1), "share": cn.Numeric(0, 1)}, {"kind": cn.Binary(["a", "b"])}
    parties = {name: cn.Party(records[name], own) for name, own in zip(records, columns, strict=True)}
    release = in_the_clear(cn.Study("share", parties, task="linear", epsilon=1e5, label_square=True)).fit(seed=1)
    model = release.solve(task="part")
    assert model.task == "part" and model.outcome is not None and model.outcome.estimator == "penalised"
    frame = pl.concat(list(records.values()), how="horizontal")
    design = np.column_stack([frame["x"], frame["kind"] == "b"])
    share, twice = frame["share"].to_numpy(), np.vstack([design, design])
    # A record that is y parts of one is one with weight y and another without weight 1 - y.
    both = np.repeat([1, 0], ROWS), np.concatenate([share, 1 - share])
    wanted = LogisticRegression(C=1e6).fit(twice, both[0], sample_weight=both[1])
    assert np.allclose(list(model.coef.values()), wanted.coef_[0], atol=0.03)
    assert model.intercept == pytest.approx(wanted.intercept_[0], abs=0.03)
    model.save(tmp_path / "model")
    read = cn.Model.read(tmp_path / "model")
    found = read.predict(records)
    assert np.allclose(found, wanted.predict_proba(design)[:, 1], atol=0.01)
    assert "log-odds of the mean" in str(model.summary())
    with pytest.raises(StudyError, match="a part needs a number from 0 to 1 as label, got x"):
        release.solve("x", task="part")


def test_every_family_can_be_asked_for_at_the_command_line() -> None:
    assert {task.value for task in Regression} == set(FAMILIES)

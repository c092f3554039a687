"""`colonnade evaluate` from files to measures: planned, run, told again, and refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from tests.helpers.cli_study import Run, runner, write_study


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


@pytest.fixture
def study(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_study(tmp_path, 1500)
    monkeypatch.chdir(tmp_path)
    assert run("fit", "study.toml", "--out", "r.json", "--model", "m.json", "--json").code == 0
    return tmp_path


def test_a_model_is_planned_evaluated_and_told_again(study: Path, run: Run) -> None:
    planned = run("evaluate", "study.toml", "m.json", "--release", "r.json", "--plan", "--rows", "1500", "--json")
    assert planned.code == 0 and "nobody sees a score" in planned.json["opened"]
    assert not (study / "evaluation.json").exists()
    done = run("evaluate", "study.toml", "m.json", "--release", "r.json", "--epsilon", "5", "--json")
    assert done.code == 0 and "looks better" in done.err
    found = done.json["measures"]
    assert set(found) == {"accuracy", "auc", "log_loss", "brier"}
    assert found["accuracy"]["value"] > found["accuracy"]["trivial"] and found["auc"]["low"] > 0.7
    assert done.json["epsilon"] == pytest.approx(5.0, rel=1e-3) and done.json["unkept"] == ["works", "bank"]
    again = run("evaluate", "study.toml", "m.json", "--release", "r.json", "--opened", "evaluation.json", "--json")
    assert again.json["measures"] == found and again.json["calibration"] == done.json["calibration"]
    shown = run("evaluate", "study.toml", "m.json", "--release", "r.json", "--opened", "evaluation.json")
    assert f"{found['auc']['value']:.4f}" in shown.out and "Calibration" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 120


def test_what_cost_privacy_is_not_written_over(study: Path, run: Run) -> None:
    (study / "evaluation.json").write_text("kept")
    refused = run("evaluate", "study.toml", "m.json")
    assert refused.code == 1 and "evaluation.json" in refused.err and (study / "evaluation.json").read_text() == "kept"


def test_bad_input_has_its_sentence(study: Path, run: Run) -> None:
    for arguments, says in (
        (("--data", "mint=x.csv"), "--data names PARTY=FILE for one of works, bank, got 'mint=x.csv'"),
        (("--epsilon", "-1"), "epsilon must be a positive number"),
        (("--opened", "r.json"), "this release evaluates no model"),
        (("--data", "bank=missing.csv"), "missing.csv"),
    ):
        refused = run("evaluate", "study.toml", "m.json", "--release", "r.json", *arguments)
        assert refused.code == 1 and says in refused.err and "Traceback" not in refused.err
    assert not (study / "evaluation.json").exists()
    assert run("evaluate", "study.toml", "m.json", "--release", "r.json", "--epsilon", "5").code == 0
    for command in ("report", "tables", "solve"):
        refused = run(command, "evaluation.json")
        assert refused.code == 1 and "evaluates a model" in refused.err


@pytest.mark.parametrize("parties", [2, 3])
def test_intervals_hold_where_scores_are_far_from_normal(
    parties: int, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each party has one yes-or-no column, rare and strong; the truth is of the model's own predictions."""
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(parties), 2000
    x = rng.random((n, parties)) < 0.03
    y = (rng.random(n) < 1 / (1 + np.exp(3.0 - 4.0 * x.sum(axis=1)))).astype(int)
    yes = '{ kind = "binary", levels = ["0", "1"] }'
    text = '[study]\nname = "rare"\ntask = "logistic"\nlabel = "p0.y"\nepsilon = 100\n'
    text += 'product = "plain"\nalignment = "none"\nrelease = "full"\n'
    for k in range(parties):
        own = {f"c{k}": x[:, k].astype(int), **({"y": y} if k == 0 else {})}
        pl.DataFrame(own).write_csv(f"p{k}.csv")
        text += f'[party.p{k}]\ndata = "p{k}.csv"\n[party.p{k}.columns]\n' + "".join(f"{c} = {yes}\n" for c in own)
    Path("study.toml").write_text(text)
    assert run("fit", "study.toml", "--out", "r.json", "--model", "m.json", "--json").code == 0
    done = run("evaluate", "study.toml", "m.json", "--release", "r.json", "--rows", str(n), "--json")
    assert done.code == 0, done.err
    files = [word for k in range(parties) for word in ("--data", f"p{k}=p{k}.csv")]
    assert run("predict", "m.json", *files, "--out", "s.csv").code == 0
    chance = pl.read_csv("s.csv")["probability"].to_numpy()
    truth = {
        "accuracy": float(np.mean((chance >= 0.5) == y)),
        "auc": roc_auc_score(y, chance),
        "log_loss": log_loss(y, chance),
        "brier": brier_score_loss(y, chance),
    }
    found = done.json["measures"]
    assert set(found) == set(truth) and found["accuracy"] is not None and found["log_loss"] is not None
    for name, value in truth.items():
        if found[name] is not None:
            assert found[name]["low"] - 1e-4 <= value <= found[name]["high"] + 1e-4, (name, found[name], value)
    assert ("wherever in its bin" if parties == 2 else "whatever law scores have") in done.json["note"]
    if parties == 3:
        assert "tell nothing of the area" in done.err and done.json["warnings"]
        refused = run("evaluate", "study.toml", "m.json", "--release", "r.json", "--out", "e.json", "--strict")
        assert refused.code == 1 and "--strict refuses" in refused.err and not Path("e.json").exists()

"""A declared objective that uses no column of a party: its part spends nothing, and that can be planned and booked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import colonnade as cn
from colonnade.consent.ledger import Ledger
from tests.helpers.cli_study import Run, runner

N = 50
STUDY = """[study]
name = "unused"
task = "polynomial"
label = "clinic.y"
objective = "{objective}"
parameters = ["w0", "w1"]
ball = 2.0
delta = {delta}
{record}alignment = "none"
[party.clinic]
data = "clinic.csv"
{own}[party.clinic.columns]
x = {{ kind = "numeric", low = -1, high = 1 }}
y = {{ kind = "numeric", low = -1, high = 1 }}
[party.insurer]
data = "insurer.csv"
policy = "policy.toml"
ledger = "ledger.sqlite"
{own}[party.insurer.columns]
u = {{ kind = "numeric", low = -1, high = 1 }}
"""
POLICY = """[policy]
party = "insurer"
partners = ["*"]
[session]
epsilon = 1.0
record_epsilon = 1.0
delta = 0.001
[total]
epsilon = 1.0
delta = 0.001
"""
OF_CLINIC = "(y - w0 - w1 * x)^2"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


def write(folder: Path, delta: float, bottom_up: bool, objective: str = OF_CLINIC) -> Path:
    draw = np.random.default_rng(0)
    for party, columns in {"clinic": ("x", "y"), "insurer": ("u",)}.items():
        pl.DataFrame({c: draw.uniform(-1, 1, N) for c in columns}).write_csv(folder / f"{party}.csv")
    asked = "epsilon = 1.0\n"
    terms = {"record": "", "own": asked} if bottom_up else {"record": asked, "own": ""}
    (folder / "study.toml").write_text(STUDY.format(objective=objective, delta=delta, **terms))
    (folder / "policy.toml").write_text(POLICY)
    return folder / "study.toml"


@pytest.mark.parametrize("bottom_up", [False, True])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_party_books_nothing(run: Run, tmp_path: Path, delta: float, bottom_up: bool) -> None:
    study = write(tmp_path, delta, bottom_up)
    plan = run("plan", study, "--rows", N, "--json")
    assert plan.code == 0, plan.err
    epsilons = {party: told["epsilon"]["outsider"] for party, told in plan.json["parties"].items()}
    assert epsilons == {"clinic": pytest.approx(1.0, rel=1e-6), "insurer": 0.0}
    for _ in range(3):
        # The total has room for one session that used its column.
        done = run("fit", study, "--out", tmp_path / "r.json", "--force", "--json")
        assert done.code == 0, done.err
    entries = Ledger(tmp_path / "ledger.sqlite").entries()
    assert [entry.booking.charge.epsilon for entry in entries] == [0.0] * 6
    told = run("ledger", "show", tmp_path / "ledger.sqlite")
    assert told.code == 0 and "Traceback" not in told.err, told.err
    assert run("ledger", "verify", tmp_path / "ledger.sqlite").code == 0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_from_python_and_the_other_party(tmp_path: Path, delta: float) -> None:
    """The label's own party may be the one whose columns no term has."""
    study = cn.Study.read(write(tmp_path, delta, False, "(u - w0 - w1)^2"))
    plan = study.plan(N).to_dict()
    assert plan["parties"]["clinic"]["epsilon"]["outsider"] == 0
    assert plan["parties"]["insurer"]["epsilon"]["outsider"] == pytest.approx(1.0, rel=1e-6)
    release = study.fit(tmp_path / "r.json", progress=False)
    assert release.n == N
    assert {tuple(b["owners"]) for b in json.loads((tmp_path / "r.json").read_text())["blocks"]} == {("insurer",)}


@pytest.mark.parametrize(
    ("terms", "says"),
    [({"norm": 1e-300}, "norm must lie between"), ({"norm": 1e300}, "norm must lie between")],
)
def test_extreme_norms_are_refused_in_a_sentence(terms: dict[str, float], says: str) -> None:
    frame = pl.DataFrame({"x": [0.0, 0.5], "y": [0.0, 1.0]})
    with pytest.raises(cn.ColonnadeError, match=says):
        cn.Study(
            "a.y", {"a": cn.Party(frame, {c: cn.Numeric(-1, 1) for c in frame.columns}, **terms)}, epsilon=1.0
        ).plan(2)


def test_an_extreme_epsilon_is_refused_in_a_sentence() -> None:
    frame = pl.DataFrame({"x": [0.0, 0.5], "y": [0.0, 1.0]})
    with pytest.raises(cn.ColonnadeError, match="epsilon must be at least 1e-12, got epsilon=5e-324"):
        cn.Study("a.y", {"a": cn.Party(frame, {c: cn.Numeric(-1, 1) for c in frame.columns})}, epsilon=5e-324).plan(2)

"""A name is a column: whatever its letters, answers are those of plain names; texts of two meanings are refused."""

from __future__ import annotations

import csv
import datetime
import io
import itertools
import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import colonnade as cn
from colonnade.analysis.question import Question
from colonnade.analysis.request import ModelRequest
from colonnade.cli import app
from colonnade.estimators import VerticalLinearRegression
from colonnade.foundation.columns import Numeric
from colonnade.foundation.errors import SchemaError
from colonnade.mechanism.release import read_release, write_release
from colonnade.model import publish, read_model, write_model

N = 400
RNG = np.random.default_rng(4)
FEE = RNG.uniform(0, 900, N)
SEX = RNG.choice(["f", "m"], N)
AGE = RNG.uniform(20, 80, N)
JOB = RNG.choice(["a", "b", "c"], N)
Y = np.clip(10 + 0.02 * FEE + 0.1 * AGE + 3 * (JOB == "b") + RNG.standard_normal(N), 0, 50)
PLAIN = ("fee", "sex", "y", "age", "job")
HARD = (
    ("my.fee", "the.sex", "the.y", "town.age", "my.job"),
    ("fee=1", "sex=", "y=0", "age<=1", "job=a"),
    ("fee:2", "sex:fee", "y:", "age:job", ":job"),
    ("fee+", "-sex", "+y", "age-", "job--"),
    ("my fee", "sex ,", '"y"', "âge", "Beruf 'ü'"),
    ("bank.fee", "bank", "town.y", "town.town", "1"),
    ("a.b.c", "..", "y.", ".age", "job..b"),
    ("#fee", "{sex}", "<y>", "age\\", "job/x"),
)
"""Five names each: 40 in all, for the same five columns."""


def parties(names: tuple[str, ...] = PLAIN) -> dict[str, cn.Party]:
    fee, sex, y, age, job = names
    own = pl.DataFrame({fee: FEE, sex: SEX, y: Y})
    other = pl.DataFrame({age: AGE, job: JOB})
    declared = {fee: cn.Numeric(0, 900), sex: cn.Binary(("f", "m")), y: cn.Numeric(0, 50)}
    return {
        "bank": cn.Party(own, declared),
        "town": cn.Party(
            other, {age: cn.Numeric(20, 80, bins=(40, 60)), job: cn.Categorical(("a", "b", "c"), drop="c")}
        ),
    }


def answers(names: tuple[str, ...], folder: Path) -> dict[str, object]:
    """What every interface says, in numbers alone."""
    fee, sex, y, age, job = names
    study = cn.Study(y, parties(names), epsilon=50.0, product="plain", release="full", label_square=True)
    release = study.fit(seed=1)
    frame = pl.DataFrame({fee: FEE, sex: SEX, age: AGE, job: JOB})
    out: dict[str, object] = {"n": release.n}
    full = release.solve()
    out["coefficients"] = list(full.coef.values())
    out["intervals"] = full.summary().intervals.select("estimate", "low", "high").rows()
    out["predicted"] = full.predict(frame).tolist()
    out["some"] = list(release.solve(features=[age, f"bank.{fee}"]).coef.values())
    out["lasso"] = list(release.solve(features=[job, fee], penalty="lasso").coef.values())
    out["other"] = list(release.solve(fee, task="linear").coef.values())
    out["whole"] = list(release.solve(f"bank.{fee}", task="linear").coef.values())
    sexes = release.solve(f"{sex}=m", task="logistic")
    out["level"] = sexes.predict_proba(frame.with_columns(pl.Series(y, Y)))[:, 1].tolist()
    out["classes"] = [list(row.values()) for row in release.solve(f"town.{job}").coef.values()]
    out["given"] = list(release.solve(given=f"{job}=b", features=[fee]).coef.values())
    out["binned"] = list(release.solve(given=f"{age}=45", features=[fee]).coef.values())
    out["numbers"] = list(release.solve(numbers=[age]).coef.values())
    out["margin"] = release.tables(f"town.{job}").to_dict()["margins"][0]["count"]
    rows = release.synthesize(50, given=f"{sex}=f", anyway=True)
    out["rows"] = [list(rows.frame[name]) for name in (fee, age, job)]
    release.report(folder / "page.html")
    release.save(folder / "release.json", force=True)
    full.save(folder / "model.json")
    out["read"] = cn.Model.read(folder / "model.json").predict(frame).tolist()
    frame.write_csv(folder / "data.csv")
    listed = io.StringIO()
    csv.writer(listed).writerow([age, sex])
    wanted = ["--features", listed.getvalue().strip(), "--given", f"{job}=a", "--json"]
    told = CliRunner().invoke(app, ["solve", str(folder / "release.json"), *wanted])
    assert told.exit_code == 0, told.output
    out["command line"] = list(json.loads(told.stdout)["coefficients"].values())
    wanted = [str(folder / "model.json"), "--data", str(folder / "data.csv"), "--out", str(folder / "scores.csv")]
    told = CliRunner().invoke(app, ["predict", *wanted])
    assert told.exit_code == 0, told.output
    out["scores"] = pl.read_csv(folder / "scores.csv")["predicted"].to_list()
    return out


@pytest.fixture(scope="module")
def plain_answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return answers(PLAIN, tmp_path_factory.mktemp("plain"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("names", HARD, ids=lambda names: names[0])
def test_answers_are_those_of_plain_names(
    names: tuple[str, ...], plain_answers: dict[str, object], tmp_path: Path
) -> None:
    assert answers(names, tmp_path) == plain_answers


def test_the_plain_answers_are_right(plain_answers: dict[str, object]) -> None:
    """By numpy: least squares of the same columns in the clear, which noise of epsilon 50 hides little."""
    x = np.column_stack([FEE, SEX == "m", AGE >= 60, (AGE >= 40) & (AGE < 60), JOB == "a", JOB == "b", np.ones(N)])
    clear = np.linalg.lstsq(x.astype(float), Y, rcond=None)[0]
    assert plain_answers["coefficients"][0] == pytest.approx(clear[0], rel=0.05)  # type: ignore[index]
    low, high = next((low, high) for e, low, high in plain_answers["intervals"] if abs(e - clear[0]) < 1e-3)  # type: ignore[attr-defined]
    assert low < clear[0] < high < 3 * clear[0]


COLLIDING = {
    "a level": (
        {"cat": {"kind": "binary", "levels": ["u", "v"]}, "y": {"kind": "numeric", "low": 0, "high": 1}},
        {"cat=v": {"kind": "numeric", "low": 0, "high": 1}},
        {},
        "cat=v of column cat of a and column cat=v of b would both be called cat=v",
    ),
    "a half": (
        {"x": {"kind": "numeric", "low": 0, "high": 1}, "y": {"kind": "numeric", "low": 0, "high": 1}},
        {"y+": {"kind": "numeric", "low": 0, "high": 1}},
        {},
        "would both be called y+",
    ),
    "a party's column": (
        {"b.z": {"kind": "numeric", "low": 0, "high": 1}, "y": {"kind": "numeric", "low": 0, "high": 1}},
        {"z": {"kind": "numeric", "low": 0, "high": 1}},
        {},
        "column b.z of a and column z of b would both be called b.z",
    ),
    "a product": (
        {"u": {"kind": "numeric", "low": 0, "high": 1}, "y": {"kind": "numeric", "low": 0, "high": 1}},
        {"v": {"kind": "numeric", "low": 0, "high": 1}, "u:v": {"kind": "numeric", "low": 0, "high": 1}},
        {"interactions": [["a.u", "b.v"]]},
        "column u:v of b and the product u:v would both be called u:v",
    ),
    "a bin": (
        {"x": {"kind": "numeric", "low": 0, "high": 9, "bins": [5]}, "y": {"kind": "numeric", "low": 0, "high": 1}},
        {"x<5": {"kind": "numeric", "low": 0, "high": 1}},
        {},
        "would both be called x<5",
    ),
    "a level's place, which the paper's features have": (
        {"job": {"kind": "categorical", "levels": ["p", "q", "r"]}, "y": {"kind": "numeric", "low": 0, "high": 1}},
        {"z": {"kind": "numeric", "low": 0, "high": 1}},
        {"calibration": "paper", "more": {"job=1": {"kind": "numeric", "low": 0, "high": 1}}},
        "would both be called a.job=1",
    ),
}


@pytest.mark.parametrize("case", COLLIDING)
def test_texts_of_two_meanings_are_refused_at_declaration(case: str, tmp_path: Path) -> None:
    first, second, terms, told = COLLIDING[case]
    terms = dict(terms)
    first = {**first, **terms.pop("more", {})}
    with pytest.raises(SchemaError, match=r"one of them needs another name") as refused:
        cn.Study("a.y", {"a": cn.Party(None, first), "b": cn.Party(None, second)}, epsilon=1.0, **terms)
    assert told in str(refused.value)
    lines = ["[study]", 'name = "s"', 'task = "linear"', 'label = "a.y"', "epsilon = 1.0", 'alignment = "none"']
    lines += [f"{key} = {json.dumps(value)}" for key, value in terms.items()]
    for party, columns in (("a", first), ("b", second)):
        lines += [f"[party.{party}]", f"[party.{party}.columns]"]
        for name, column in columns.items():
            facts = ", ".join(f"{key} = {json.dumps(value)}" for key, value in column.items())
            lines.append(f"{json.dumps(name)} = {{ {facts} }}")
    (tmp_path / "study.toml").write_text("\n".join(lines))
    shown = CliRunner().invoke(app, ["plan", str(tmp_path / "study.toml")])
    assert isinstance(shown.exception, SchemaError)
    assert str(shown.exception).startswith("study.toml:") and told in str(shown.exception)


@pytest.mark.filterwarnings("ignore")
def test_estimators_refuse_them_too() -> None:
    x = pd.DataFrame({"cat": ["u", "v"] * 20, "cat=v": np.linspace(0, 1, 40)})
    schema = {"cat": cn.Binary(("u", "v")), "cat=v": cn.Numeric(0, 1)}
    model = VerticalLinearRegression(epsilon=1.0, schema=schema, label=cn.Numeric(0, 1))
    with pytest.raises(SchemaError, match="would both be called cat=v"):
        model.fit(x, np.linspace(0, 1, 40))


@pytest.mark.filterwarnings("ignore")
def test_stored_files_with_such_names_are_read_and_ambiguous_answers_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a version before this rule would have written them."""
    monkeypatch.setattr("colonnade.study.find_homonym", lambda agreement: None)
    cat, x, y = RNG.choice(["u", "v"], N), RNG.uniform(0, 1, N), RNG.uniform(0, 1, N)
    first = cn.Party(
        pl.DataFrame({"cat": cat, "y": y, "b.z": x}),
        {"cat": cn.Binary(("u", "v")), "y": cn.Numeric(0, 1), "b.z": cn.Numeric(0, 1)},
    )
    second = cn.Party(pl.DataFrame({"cat=v": x, "z": x}), {"cat=v": cn.Numeric(0, 1), "z": cn.Numeric(0, 1)})
    opened = cn.Study("y", {"a": first, "b": second}, epsilon=50.0, product="plain", release="full").fit(seed=1)
    monkeypatch.undo()
    release = type(opened)(read_release(write_release(opened.released)))
    with pytest.raises(cn.ColonnadeError, match="'cat=v' may mean"):
        release.solve()
    with pytest.raises(cn.ColonnadeError, match=r"'b\.z' may mean column b\.z of a or column z of b"):
        release.solve(features=["b.z"])
    with pytest.raises(cn.ColonnadeError, match="'cat=v' may mean"):
        release.solve("cat=v", task="linear", features=["z"])
    assert list(release.solve(features=["z"]).coef) == ["z"]
    assert list(release.solve(features=["a.b.z"]).coef_encoded) == ["b.z"]
    # A model that an earlier version wrote of all features.
    stored = publish(release.released, ModelRequest(release.released, Question(features=("z", "a.b.z"))).model())
    twice = replace(stored.model, features=("cat=v", "z"))
    model = cn.Model(read_model(write_model(replace(stored, model=twice))))
    with pytest.raises(cn.ColonnadeError, match="feature cat=v of the model may be of"):
        model.predict(pl.DataFrame({"cat": cat, "cat=v": x, "z": x}))
    with pytest.raises(cn.ColonnadeError, match="feature cat=v of the model may be of"):
        model.coef_encoded  # noqa: B018


def test_bins_have_the_digits_that_tell_them_apart() -> None:
    for shift in (0, 1_000_000, 20_240_000, 10**15):
        names = Numeric(shift, shift + 7, bins=tuple(shift + k for k in range(1, 7))).coordinates("x")
        assert len(set(names)) == 7
    far = Numeric(1_000_000, 1_000_007, bins=(1_000_001, 1_000_002)).coordinates("x")
    assert far == ("x<1000001", "1000001<=x<1000002", "x>=1000002")
    close = np.nextafter(0.3, 1)
    assert len(set(Numeric(0, 1, bins=(0.3, float(close))).coordinates("x"))) == 3
    # Texts that are distinct stay as releases have them: six digits.
    assert Numeric(0, 9, bins=(1 / 3, 2 / 3)).coordinates("x")[1] == "0.333333<=x<0.666667"
    assert Numeric(0, 1e7, bins=(1e6, 2e6)).coordinates("x")[0] == "x<1e+06"


@pytest.mark.filterwarnings("ignore")
def test_predictions_by_bins_of_long_numbers() -> None:
    """The mean of each bin, by numpy, is what a model of the bins says at huge epsilon."""
    x, shift = RNG.uniform(0, 7, 3000), 20_240_000
    y = np.clip(10 * np.sin(np.floor(x)) + RNG.standard_normal(3000), -20, 20)
    own = pl.DataFrame({"x": x + shift, "y": y})
    column = cn.Numeric(shift, shift + 7, bins=[shift + k for k in range(1, 7)])
    release = cn.Study("y", {"a": cn.Party(own, {"x": column, "y": cn.Numeric(-20, 20)})}, epsilon=1e5).fit(seed=1)
    means = np.array([y[np.floor(x) == k].mean() for k in range(7)])
    assert release.solve().predict(own) == pytest.approx(means[np.floor(x).astype(int)], abs=0.05)


@pytest.mark.filterwarnings("ignore")
def test_numpy_texts_and_numbers_become_plain_at_the_border() -> None:
    names = np.array(["age", "wage", "job"])
    frame = pd.DataFrame({"age": AGE, "wage": Y, "job": JOB})
    columns = {
        names[0]: {"kind": np.str_("numeric"), "low": np.int64(20), "high": np.float32(80)},
        names[1]: cn.Numeric(np.int64(0), np.float64(50)),
        names[2]: cn.Categorical(np.array(["a", "b", "c"]), drop=np.str_("b")),
    }
    study = cn.Study(
        names[1], {np.str_("a"): cn.Party(frame, columns)}, epsilon=np.float64(1), rows=np.int64(N), name=np.str_("s")
    )
    release = study.fit(seed=1)
    assert study.opened is not None and release.n == N
    model = release.solve(np.str_("wage"), features=names[[0, 2]])
    assert all(type(text) is str for text in (model.label, *model.features))

    def types(value: object) -> set[type]:
        if isinstance(value, dict):
            return set().union(*(types(k) | types(v) for k, v in value.items()))
        return set().union(*map(types, value)) if isinstance(value, (list, tuple)) else {type(value)}

    assert types(release.released.to()) <= {str, int, float, bool, type(None)}


def test_dates_may_be_pythons_own() -> None:
    first, last = datetime.date(2020, 1, 1), datetime.datetime(2024, 12, 31)
    days = cn.Date(first, last, bins=[datetime.date(2022, 1, 1)], fill=np.datetime64("2021-05-05"))
    assert days == cn.Date("2020-01-01", "2024-12-31", ("2022-01-01",), "2021-05-05")
    with pytest.raises(SchemaError, match="earliest must be a date such as 2024-05-31"):
        cn.Date(datetime.datetime(2020, 1, 1, 12), last)


def test_forty_names_are_walked() -> None:
    assert len(set(itertools.chain(*HARD))) == 40

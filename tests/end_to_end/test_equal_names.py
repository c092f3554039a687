"""Two parties with a column of one name: everything works, and a name that may be either's is refused with both."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.studio.explorer import Explorer

N = 3000
DRAW = np.random.default_rng(7)
BANK_AGE, TOWN_AGE = DRAW.uniform(20, 80, N), DRAW.uniform(0, 40, N)
JOB, TOWN_JOB = DRAW.choice(["a", "b"], N), DRAW.choice(["a", "b", "c"], N)
Y = np.clip(10 + 0.2 * BANK_AGE - 0.1 * TOWN_AGE + 3 * (TOWN_JOB == "c") + DRAW.standard_normal(N), 0, 40)
RICH = np.where(Y > 20, "yes", "no")


def parties(age: str = "age", job: str = "job") -> dict[str, cn.Party]:
    """Town's columns have these names; the bank's are `age` and `job`."""
    bank = pl.DataFrame({"age": BANK_AGE, "job": JOB, "y": Y, "rich": RICH})
    town = pl.DataFrame({age: TOWN_AGE, job: TOWN_JOB})
    own = {"age": cn.Numeric(20, 80, bins=(40, 60)), "job": cn.Binary(("a", "b"))}
    declared = {age: cn.Numeric(0, 40), job: cn.Categorical(("a", "b", "c"))}
    return {
        "bank": cn.Party(bank, {**own, "y": cn.Numeric(0, 40), "rich": cn.Binary(("no", "yes"))}),
        "town": cn.Party(town, declared),
    }


def opened(**names: str) -> cn.Release:
    study = cn.Study("y", parties(**names), epsilon=5000.0, product="plain", release="full", label_square=True)
    return study.fit(seed=3)


@pytest.fixture(scope="module")
def release() -> cn.Release:
    return opened()


@pytest.fixture(scope="module")
def plain() -> cn.Release:
    """The same records where no name is another's."""
    return opened(age="years", job="work")


def renamed(text: str) -> str:
    """What the plain study calls what the other calls by its party."""
    return text.replace("town.age", "years").replace("town.job", "work").replace("bank.", "")


def same(found: dict[str, float], plain: dict[str, float]) -> bool:
    return {renamed(name): value for name, value in found.items()} == plain


@pytest.mark.filterwarnings("ignore")
def test_answers_are_those_of_plain_names(release: cn.Release, plain: cn.Release, tmp_path: Path) -> None:
    model, other = release.solve(), plain.solve()
    assert {"town.age", "town.job=c", "bank.job=b"} < set(model.coef) and same(model.coef, other.coef)
    # By numpy, of the records in the clear: noise of this epsilon hides little.
    x = [BANK_AGE >= 60, (BANK_AGE >= 40) & (BANK_AGE < 60), JOB == "b", RICH == "yes"]
    x += [TOWN_AGE, TOWN_JOB == "b", TOWN_JOB == "c", np.ones(N)]
    clear = np.linalg.lstsq(np.column_stack(x).astype(float), Y, rcond=None)[0]
    assert [model.coef[name] for name in ("town.age", "town.job=c")] == pytest.approx(clear[[4, 6]], rel=0.05)
    some = release.solve(features=["town.age", "bank.age"])
    assert same(some.coef, plain.solve(features=["years", "age"]).coef)
    level = release.solve("town.job=c", task="logistic")
    assert same(level.coef, plain.solve("work=c", task="logistic").coef)
    numbers = release.solve(numbers=["bank.age"])
    assert same(numbers.coef, plain.solve(numbers=["age"]).coef) and "bank.age" in numbers.coef
    given = release.solve(given="town.job=b", features=["bank.age"])
    assert same(given.coef, plain.solve(given="work=b", features=["age"]).coef)
    intervals = model.summary().intervals
    assert intervals is not None and "town.age" in intervals["feature"].to_list()
    names = [margin["column"] for margin in release.tables().to_dict()["margins"]]
    assert names == ["bank.age", "bank.job", "rich", "town.job"]
    crossed = release.tables("bank.job", "town.job").to_dict()
    assert crossed["tables"][0]["count"] == plain.tables("job", "work").to_dict()["tables"][0]["count"]
    shown = str(release.tables("town.job"))
    assert "town.job" in shown and "town.town" not in shown
    rows = release.synthesize(20, given="bank.job=a", anyway=True).frame
    assert rows.columns == ["bank.age", "bank.job", "y", "rich", "town.age", "town.job"]
    assert set(rows["bank.job"]) == {"a"} and rows["town.age"].max() <= 40
    release.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "town.age" in page and "bank.age" in page and "bank.bank" not in page


@pytest.mark.filterwarnings("ignore")
def test_files_and_the_command_line(release: cn.Release, plain: cn.Release, tmp_path: Path) -> None:
    release.save(tmp_path / "release.json", force=True)
    release.solve().save(tmp_path / "model.json")
    again = cn.Release.read(tmp_path / "release.json")
    assert again.solve().coef == release.solve().coef
    model, held = cn.Model.read(tmp_path / "model.json"), parties()
    frames = {"bank": held["bank"].data, "town": held["town"].data}
    wanted = plain.solve().predict({party: own.data for party, own in parties("years", "work").items()})
    assert model.predict(frames) == pytest.approx(wanted)
    with pytest.raises(cn.ColonnadeError, match="age of bank and of town cannot be one: give data of each party"):
        model.predict(frames["bank"].with_columns(frames["town"]["age"]))
    for party, frame in frames.items():
        frame.write_csv(tmp_path / f"{party}.csv")
    data = [text for party in frames for text in ("--data", f"{party}={tmp_path / party}.csv")]
    told = CliRunner().invoke(app, ["predict", str(tmp_path / "model.json"), *data, "--out", str(tmp_path / "s.csv")])
    assert told.exit_code == 0, told.output
    with open(tmp_path / "s.csv", encoding="utf-8") as file:
        assert [float(row["predicted"]) for row in csv.DictReader(file)] == pytest.approx(wanted)
    told = CliRunner().invoke(app, ["solve", str(tmp_path / "release.json"), "--features", "town.age", "--json"])
    assert told.exit_code == 0, told.output
    assert list(json.loads(told.stdout)["coefficients"]) == ["town.age"]


@pytest.mark.filterwarnings("ignore")
def test_what_may_be_either_is_refused_with_both(release: cn.Release) -> None:
    for ask in (
        lambda: release.solve(features=["age"]),
        lambda: release.solve("age", task="linear"),
        lambda: release.tables("age"),
        lambda: release.solve(numbers=["age"]),
        lambda: release.solve(given="age=30", features=["bank.job"]),
    ):
        with pytest.raises(cn.ColonnadeError, match=r"'age' may mean column age of bank or column age of town"):
            ask()
    with pytest.raises(cn.ColonnadeError, match=r"'job=b' may mean job=b of column job of bank or job=b of column job"):
        release.synthesize(5, given="job=b", anyway=True)
    with pytest.raises(cn.ColonnadeError, match=r"column age may be bank\.age or town\.age"):
        cn.Study("age", parties(), epsilon=1.0)
    declared = parties()
    declared["bank"] = cn.Party(None, {**declared["bank"].columns, "town.age": cn.Numeric(0, 1)})
    with pytest.raises(cn.ColonnadeError, match=r"would both be called town\.age"):
        cn.Study("y", declared, epsilon=1.0)


@pytest.mark.filterwarnings("ignore")
def test_a_model_is_evaluated() -> None:
    study = cn.Study("rich", parties(), epsilon=500.0, product="plain", release="full")
    model = study.fit(seed=3).solve(features=["town.age", "bank.age", "town.job"])
    held = {party: own.data for party, own in parties().items()}
    right = float((model.predict(held) == RICH).mean())
    found = {row["measure"]: row["value"] for row in study.evaluate(model, epsilon=500.0).frame.to_dicts()}
    # By the predictions in one place; bins of scores cost little.
    assert found["accuracy"] == pytest.approx(right, abs=0.03) and right > 0.7


def test_a_page_asks_for_each_column_of_one_name(release: cn.Release) -> None:
    explorer, model = Explorer(release.released), release.solve("y", task="linear")
    asked = {"x.bank.age": "70", "x.town.age": "5", "x.bank.job": "b", "x.town.job": "c"}
    found = explorer.guess("y", asked)
    assert {c.name: c.value for c in found["controls"] if c.name in ("bank.age", "town.age")} == {
        "bank.age": "70",
        "town.age": "5",
    }
    person = {"bank": pl.DataFrame({"age": [70.0], "job": ["b"], "rich": ["no"]})}
    person["town"] = pl.DataFrame({"age": [5.0], "job": ["c"]})
    rich = {"x.rich": "no"}
    expected = float(model.predict({p: f for p, f in person.items() if p in model.public.needs()})[0])
    assert explorer.guess("y", asked | rich)["answer"][0]["value"] == pytest.approx(expected)

"""Files in other forms than the house's own: the same people give the same release, and a wrong form is told."""

from __future__ import annotations

import codecs
import datetime as dt
import gzip
import os
import sqlite3
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import colonnade as cn
from colonnade.data.proposals import propose_written
from colonnade.data.sources import FileSource, Source
from colonnade.data.table import Table
from colonnade.data.written import written_from
from colonnade.foundation.errors import ColonnadeError, DataError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Boolean, Categorical, Column, Date, Numeric
from colonnade.foundation.sections import Section
from colonnade.foundation.toml import toml_value
from colonnade.mechanism.release import write_release
from colonnade.runs import RunOptions, fit
from colonnade.study import read_study
from tests.helpers.cli_study import Run, runner

COLUMNS: dict[str, Column] = {
    "Größe": Numeric(0, 1e6, fill=7),
    "geboren": Date("1900-01-01", "2030-01-01", fill="2000-01-01"),
    "raucht": Boolean(fill="false"),
    "Stadt": Categorical(("Łódź", "Köln"), fill="Köln"),
}
MONTHS = ["sty", "lut", "mar", "kwi", "maj", "cze", "lip", "sie", "wrz", "paź", "lis", "gru"]
ROWS = 400
Person = tuple[str, Decimal | None, dt.date | None, bool | None, str | None]


def people(seed: int) -> list[Person]:
    """Numbers of two decimals, days, truth values and towns; one in ten is missing."""
    draw = np.random.default_rng(seed)
    out: list[Any] = []
    for k in range(ROWS):
        day = dt.date(1920, 1, 1) + dt.timedelta(days=int(draw.integers(0, 36_000)))
        values = [
            Decimal(int(draw.integers(0, 10**8))) / 100,
            day,
            bool(draw.random() < 0.4),
            "Łódź" if k % 3 else "Köln",
        ]
        out.append((f"p{k}", *(None if draw.random() < 0.1 else value for value in values)))
    return out


def number(value: Decimal, decimal: str, thousands: str) -> str:
    """By Python's own formatting, whose marks are exchanged."""
    text = f"{value:,.2f}" if thousands else f"{value:.2f}"
    return text.translate(str.maketrans({",": thousands, ".": decimal}))


def write(path: Path, rows: list[Person], form: dict[str, Any], gone: str) -> None:
    true, false = form.get("true", ["true"])[0], form.get("false", ["false"])[0]
    separator = form.get("separator", ",")
    lines = ["Bericht"] * form.get("skip", 0) + [separator.join(["nr", *COLUMNS])]
    for nr, size, day, truth, town in rows:
        text = None if size is None else number(size, form.get("decimal", "."), form.get("thousands", ""))
        date = None
        if day is not None:
            date = day.strftime(form.get("dates", "%Y-%m-%d"))
            if "months" in form:
                date = f"{day.day}-{form['months'][day.month - 1].capitalize()}-{day.year}"
        cells = [nr, text, date, None if truth is None else true if truth else false, town]
        lines.append(separator.join(gone if cell is None else cell for cell in cells))
    data = ("\r\n".join(lines) + "\r\n").encode(form.get("encoding", "utf-8"))
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


FORMS: list[tuple[dict[str, Any], str]] = [
    ({"separator": ";", "decimal": ",", "thousands": ".", "encoding": "cp1250", "dates": "%d.%m.%Y",
      "missing": ["", "k.A."], "true": ["ja"], "false": ["nein"]}, "k.A."),
    ({"separator": "\t", "decimal": ",", "thousands": " ", "encoding": "utf-16", "dates": "%d-%b-%Y", "months": MONTHS,
      "missing": ["b.d."], "true": ["TAK"], "false": ["NIE"], "skip": 2}, "b.d."),
    ({"separator": "|", "thousands": ",", "encoding": "utf-8-sig", "dates": "%Y/%m/%d", "true": ["oui"],
      "false": ["non"]}, ""),
    ({"separator": ";", "decimal": ",", "thousands": "'", "encoding": "iso-8859-2", "dates": "%m/%d/%Y",
      "missing": ["-"]}, "-"),
]  # fmt: skip


def values(table: Table) -> dict[str, list[Any]]:
    return {name: np.asarray(table.values[name]).tolist() for name in COLUMNS}


def expected(rows: list[Person]) -> dict[str, list[Any]]:
    """What a table holds of them, by Python alone."""
    sizes = [7.0 if p[1] is None else float(p[1]) for p in rows]
    days = [float(((p[2] or dt.date(2000, 1, 1)) - dt.date(1970, 1, 1)).days) for p in rows]
    return {"Größe": sizes, "geboren": days, "raucht": [int(bool(p[3])) for p in rows],
            "Stadt": [0 if p[4] == "Łódź" else 1 for p in rows]}  # fmt: skip


def written(**keys: Any) -> Any:
    return written_from(Section(keys, "[party.p.read]", StudyError))


@pytest.mark.parametrize(("form", "gone"), FORMS)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_every_form_gives_the_same_values(form: dict[str, Any], gone: str, name: str, tmp_path: Path) -> None:
    rows = people(len(gone))
    write(tmp_path / name, rows, form, gone)
    table = Source(FileSource(tmp_path / name), "nr", written=written(**form)).read("p", COLUMNS)
    assert values(table) == expected(rows) and list(table.ids or ()) == [p[0] for p in rows]
    missing = {c: sum(p[k] is None for p in rows) for k, c in enumerate(COLUMNS, 1)}
    assert {c: (own.missing, own.wrong) for c, own in table.unfit.items()} == {c: (m, 0) for c, m in missing.items()}
    # Without ids the file is opened, and from Python a frame of the same texts is read alike.
    assert values(Source(FileSource(tmp_path / name), written=written(**form)).open("p", COLUMNS)) == expected(rows)
    # The owner is told this form, but for words that no yes and no is known by.
    found, stated = propose_written(FileSource(tmp_path / name)).stated, written(**form).stated
    same = ("separator", "decimal", "thousands", "dates", "months", "skip", "true", "false")
    assert {k: found.get(k) for k in same if k in stated} == {k: stated[k] for k in same if k in stated}
    assert codecs.lookup(found.get("encoding", "utf-8")).name in ("utf-8", "utf-16", "cp1250", "iso8859-2")


STUDY = """[study]
name = "forms"
task = "logistic"
label = "p.raucht"
epsilon = 5.0
product = "plain"
[party.p]
data = "{data}"
{more}
[party.p.columns]
"Größe" = {{ kind = "numeric", low = 0, high = 1000000.0, fill = 7 }}
geboren = {{ kind = "date", earliest = 1900-01-01, latest = 2030-01-01, fill = 2000-01-01 }}
raucht = {{ kind = "boolean", fill = false }}
Stadt = {{ kind = "categorical", levels = ["Łódź", "Köln"], fill = "Köln" }}
"""


def toml_of(form: dict[str, Any]) -> str:
    return "\n".join(["[party.p.read]", *(f"{key} = {toml_value(value)}" for key, value in form.items())])


def release(folder: Path, data: str, more: str) -> bytes:
    (folder / "study.toml").write_text(STUDY.format(data=data, more=more), encoding="utf-8")
    return write_release(fit(read_study(folder / "study.toml"), RunOptions(randomness=Randomness(b"forms"))).release)


def test_the_release_is_that_of_a_plain_file(tmp_path: Path) -> None:
    rows = people(3)
    write(tmp_path / "plain.csv", rows, {}, "")
    wanted = release(tmp_path, "plain.csv", "")
    for form, gone in FORMS:
        write(tmp_path / "t.csv", rows, form, gone)
        assert release(tmp_path, "t.csv", toml_of(form)) == wanted, form
        # A frame of texts from Python.
        section = {k: v for k, v in form.items() if k not in ("separator", "encoding", "skip")}
        text = (tmp_path / "t.csv").read_bytes().decode(form["encoding"]).removeprefix("\ufeff").splitlines()
        cells = [line.split(form["separator"]) for line in text[form.get("skip", 0) :]]
        frame = pl.DataFrame(cells[1:], schema=cells[0], orient="row")
        party = cn.Party(frame, COLUMNS, read=section)
        study = cn.Study("p.raucht", {"p": party}, epsilon=5.0, name="forms", product="plain", alignment="psi")
        found = fit(study.study, RunOptions(randomness=Randomness(b"forms"))).release
        assert write_release(found) == wanted, form
    # A database has texts that mean nothing, and words for yes and no.
    with sqlite3.connect(tmp_path / "t.db") as base:
        base.execute("create table t (a text, b text, c text, d text)")
        texts = [[None if v is None else str(v) for v in p[1:]] for p in rows]
        said = {"True": "ja", "False": "nein", None: "k.A."}
        base.executemany("insert into t values (?, ?, ?, ?)", [(a, b, said[c], d) for a, b, c, d in texts])
    base.close()
    query = 'query = """select a as \\"Größe\\", b as geboren, c as raucht, d as \\"Stadt\\" from t"""\ndataset = "t"\n'
    assert (
        release(tmp_path, "sqlite:///t.db", query + toml_of({"missing": ["k.A."], "true": ["ja"], "false": ["nein"]}))
        == wanted
    )


@pytest.mark.parametrize(
    ("cell", "form", "says"),
    [
        ("1.5", {"decimal": ","}, "its form is '9.9'"),
        ("1.5", {"decimal": ",", "thousands": "."}, "'9.9'"),
        ("12,34.5", {"thousands": ","}, "'99,99.9'"),
        ("1'00", {"thousands": "'"}, '"9\'99"'),
        ("1,5", {}, 'decimal = ","'),
        ("1 234,50", {}, 'decimal = ",", thousands = " "'),
        ("1,234.50", {}, 'thousands = ","'),
        ("k.A.", {}, r"missing = \[.k.A..\]"),
    ],
)
def test_a_number_in_another_form_is_no_number(cell: str, form: dict[str, Any], says: str, tmp_path: Path) -> None:
    """It is never read as another number without a word."""
    (tmp_path / "t.csv").write_text(f'x\n"{cell}"\n')
    table = Source(FileSource(tmp_path / "t.csv"), written=written(**form)).read("p", {"x": Numeric(0, 10)})
    assert table.unfit["x"].wrong == 1 and np.asarray(table.values["x"]).tolist() == [5.0]
    with pytest.raises(
        DataError, match=f"party p: column x must hold numbers such as 1234.5, row 1 does not: .*{says}"
    ):
        table.require_fit()


@pytest.mark.parametrize("cell", ["4.11.49", "31.02.2020", "2020-01-02", "1.1.20200", "4.11.1949 x"])
def test_a_date_in_another_form_is_no_date(cell: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"x\n{cell}\n")
    column = {"x": Date("1900-01-01", "2030-01-01")}
    table = Source(FileSource(tmp_path / "t.csv"), written=written(dates="%d.%m.%Y")).read("p", column)
    assert table.unfit["x"].wrong == 1
    with pytest.raises(DataError, match="must hold dates such as 2024-05-31, row 1 does not: "):
        table.require_fit()


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"separater": ";"}, "has no key 'separater'; did you mean 'separator'"),
        ({"separator": "x"}, r"\[party.p.read\] separator must be one of ',', ';', '\\t', '\|', got 'x'"),
        ({"decimal": ",", "thousands": ","}, "thousands and decimal must differ, got ','"),
        ({"encoding": "martian"}, "encoding must be one that Python knows, .* got 'martian'"),
        ({"encoding": "rot13"}, "encoding must be one that Python knows"),
        ({"dates": "%d.%m.%y"}, "dates must have a year of four digits"),
        ({"dates": "day"}, "dates must have %Y, %m or %b, and %d"),
        ({"months": MONTHS}, "months go with dates that have %b"),
        ({"dates": "%d %b %Y", "months": MONTHS[:11]}, "months must be 12 different names, got 11"),
        ({"true": ["x"], "false": ["X"]}, "true, false and missing must have different texts, and two have 'x'"),
        ({"true": ["x"], "missing": ["x"]}, "must have different texts"),
        ({"skip": -1}, "skip must be a whole number"),
        ({"missing": "x"}, "missing must be a list of texts"),
    ],
)
def test_wrong_keys_are_one_sentence(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ColonnadeError, match=says):
        written(**keys)


def test_a_query_takes_three_keys_and_a_level_is_not_missing(tmp_path: Path) -> None:
    with pytest.raises(
        StudyError, match=r"study.toml:\d+: \[party.p.read\] has no key 'decimal'; it takes missing, true"
    ):
        release(tmp_path, "sqlite:///t.db", 'query = "select 1"\ndataset = "d"\n[party.p.read]\ndecimal = ","')
    (tmp_path / "t.csv").write_text("x\n-\n")
    with pytest.raises(
        DataError, match=r"'-' is a level of column x, and stands in missing of .party.p.read.: it can mean"
    ):
        Source(FileSource(tmp_path / "t.csv"), written=written(missing=["-"])).read("p", {"x": Categorical(("-", "b"))})


def test_the_forms_are_no_part_of_what_is_agreed(tmp_path: Path) -> None:
    write(tmp_path / "t.csv", people(1), {}, "")
    (tmp_path / "study.toml").write_text(STUDY.format(data="t.csv", more=""), encoding="utf-8")
    plain = read_study(tmp_path / "study.toml").agreement.to()
    (tmp_path / "study.toml").write_text(STUDY.format(data="t.csv", more=toml_of(FORMS[0][0])), encoding="utf-8")
    assert read_study(tmp_path / "study.toml").agreement.to() == plain


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


def test_a_draft_proposes_and_asks(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form, gone = FORMS[0]
    write(tmp_path / "t.csv", people(5), form, gone)
    told = run("schema", tmp_path / "t.csv").out
    assert '# [party.t.read]\n# separator = ";"\n# decimal = ","\n' in told and '# missing = ["k.A."]' in told
    assert '"Größe" = { kind = "numeric"' in told and 'geboren = { kind = "date"' in told
    assert 'raucht = { kind = "boolean" }' in told
    # Public data needs nobody's word: the forms stand, and the facts are those of the file in its own form.
    public = run("schema", tmp_path / "t.csv", "--public-data").out
    assert '\n[party.t.read]\nseparator = ";"' in public
    sizes = [float(p[1]) for p in people(5) if p[1] is not None]
    # What spans orders of magnitude begins at 0; what is missing is declared, as its owner's draft proposes.
    assert f'low = 0, high = {toml_value(max(sizes))}, missing = "indicator", fill = ' in public
    assert 'some are missing: missing = "indicator", fill = ...' in told and "995820" not in told


def test_an_address_is_drafted_scored_and_evaluated_as_files_are(run: Run, tmp_path: Path) -> None:
    rows = [(f"p{k}", k % 50, "yes" if k % 3 else "no") for k in range(300)]
    with sqlite3.connect(tmp_path / "a.db") as base:
        base.execute("create table t (person text, age integer, ill text)")
        base.executemany("insert into t values (?, ?, ?)", rows)
    base.close()
    pl.DataFrame({"person": [r[0] for r in rows], "sport": np.linspace(0, 1, 300)}).write_csv(tmp_path / "club.csv")
    address, query = f"sqlite:///{tmp_path}/a.db", "select person, age, ill from t"
    assert run("schema", address).err.startswith('error: --query: needs query = "select ..." for \'sqlite:///')
    assert 'dataset = "a"' in run("schema", address, "--query", query, "--public-data").out
    made = run("new", tmp_path / "s", f"clinic={address}", f"club={tmp_path}/club.csv", "--query", f"clinic={query}",
               "--label", "clinic.ill", "--public-data", "--epsilon", "50", "--no-ask")  # fmt: skip
    assert made.code == 0 and "Nothing is open" in made.out
    study = tmp_path / "s" / "study.toml"
    assert f'query = "{query}"' in study.read_text()
    study.write_text(study.read_text().replace("delta = 0", 'delta = 0\nproduct = "plain"'))
    out = ("--out", tmp_path / "r.json", "--model", tmp_path / "m.json")
    assert run("fit", study, *out, "--json").code == 0
    named = ("--data", f"clinic={address}", "--query", f"clinic={query}")
    by_study = run("predict", tmp_path / "m.json", "--study", study, "--to", "clinic", "--json").json
    assert len(by_study["scores"]) == 300
    again = run("predict", tmp_path / "m.json", "--study", study, "--to", "clinic", *named, "--json").json
    assert again["scores"] == by_study["scores"]
    files = run(
        "predict", tmp_path / "m.json", *named, "--data", f"club={tmp_path}/club.csv", "--id", "person", "--json"
    )
    assert np.allclose(files.json["scores"], by_study["scores"], atol=1e-6)
    judged = run("evaluate", study, tmp_path / "m.json", *named, "--out", tmp_path / "e.json", "--json")
    assert judged.code == 0 and judged.json["n"] == 300
    lonely = run("evaluate", study, tmp_path / "m.json", "--query", f"clinic={query}")
    assert lonely.code == 1 and "--query goes with --data clinic=ADDRESS, which is not given" in lonely.err


def test_a_command_that_reads_duckdb_says_nothing_else(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    duckdb.connect(str(tmp_path / "a.duckdb")).close()
    pl.DataFrame({"age": [1, 2], "ward": ["a", "b"]}).write_parquet(tmp_path / "t.parquet")
    query = f"select age from read_parquet('{tmp_path}/t.parquet')"
    schema = ["schema", f"duckdb:///{tmp_path}/a.duckdb", "--query", query]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "-m", "colonnade.cli", *schema]
    done = subprocess.run(program, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "") and "age = {" in done.stdout

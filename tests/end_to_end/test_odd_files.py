"""Files unlike the demo's, from the command line: what can be read is, and what cannot is refused in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from colonnade.data.sources import of_parties
from colonnade.foundation.errors import StudyError
from tests.helpers.cli_study import Run, runner

run = pytest.fixture(runner)
HEAD = '[study]\nname = "odd"\ntask = "{task}"\nlabel = "{label}"\nepsilon = 20\n[party.p]\ndata = "{data}"\n'
YES_NO = 'a = { kind = "numeric", low = 0, high = 10 }\ny = { kind = "binary", levels = ["no", "yes"] }\n'


def study(folder: Path, data: str, columns: str, label: str = "p.y", task: str = "logistic", more: str = "") -> Path:
    path = folder / "study.toml"
    head = HEAD.format(data=data, label=label, task=task)
    path.write_text(f"{head}{more}[party.p.columns]\n{columns}", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "data.csv cannot be read: it is empty"),
        (b"a,y\n", "data.csv holds no records"),
        (b"a,y\n1\x00,yes\n2,no\n", "column a must hold numbers such as 1234.5"),
        (b"a,y\n1,yes\n", "a regression needs at least 2"),
        (b"a,y\n1," + b"x" * 200_000 + b"\n2,no\n", "column y: level 'xxx"),
    ],
)
def test_what_cannot_be_read_is_refused_alike_by_check_and_fit(
    content: bytes, told: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "data.csv").write_bytes(content)
    path = study(tmp_path, "data.csv", YES_NO)
    checked = run("check", path, "--json")
    assert checked.code == 1 and checked.json["refused"], checked.json
    fitted = run("fit", path, "--out", tmp_path / "r.json")
    assert fitted.code == 1 and told in fitted.err and "bug" not in fitted.err, fitted.err


def test_marks_line_ends_and_names_of_any_kind(run: Run, tmp_path: Path) -> None:
    """A byte-order mark, line ends of Windows, headers with dots, umlauts and quotes, a column that is constant."""
    header = '"Nr.","Größe ""in cm""","a.b=c","fest","y"'
    rows = [f"{k},{150 + k % 50},{'uv'[k % 2]},1,{'yes' if k % 3 else 'no'}" for k in range(120)]
    (tmp_path / "data.csv").write_bytes("\r\n".join([header, *rows, ""]).encode("utf-8-sig"))
    drafted = run("schema", tmp_path / "data.csv")
    assert r'"Größe \"in cm\"" = ' in drafted.out and '"a.b=c" = ' in drafted.out
    columns = (
        '"Größe \\"in cm\\"" = { kind = "numeric", low = 100, high = 250 }\n'
        '"a.b=c" = { kind = "categorical", levels = ["u", "v"] }\n'
        'fest = { kind = "numeric", low = 0, high = 2 }\n'
        'y = { kind = "binary", levels = ["no", "yes"] }\n'
    )
    path = study(tmp_path, "data.csv", columns)
    told = [found["told"] for found in run("check", path, "--json").json["findings"]]
    assert "fest is always the same" in told
    fitted = run("fit", path, "--out", tmp_path / "r.json", "--json")
    assert fitted.code == 0 and fitted.json["n"] == 120
    assert {'Größe "in cm"', "a.b=c=v", "fest"} <= set(fitted.json["coefficients"])


def test_four_hundred_levels(run: Run, tmp_path: Path) -> None:
    levels = [f"code {k}" for k in range(400)]
    pl.DataFrame({"c": levels * 5, "y": ["yes", "no", "no", "yes", "no"] * 400}).write_csv(tmp_path / "data.csv")
    columns = (
        f'c = {{ kind = "categorical", levels = {levels!r} }}\ny = {{ kind = "binary", levels = ["no", "yes"] }}\n'
    )
    path = study(tmp_path, "data.csv", columns)
    told = [found["told"] for found in run("check", path, "--json").json["findings"]]
    assert "c: 400 of 400 levels have fewer than 30 records" in told
    assert run("fit", path, "--out", tmp_path / "r.json").code == 0


def test_decimals_days_and_large_numbers_of_parquet(run: Run, tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "id": pl.Series([2**64 - 1 - k for k in range(60)], dtype=pl.UInt64),
            "paid": pl.Series([Decimal(k).scaleb(-2) for k in range(60)], dtype=pl.Decimal(12, 2)),
            "day": [date(2024, 1, 1 + k % 28) for k in range(60)],
            "size": pl.Series([2**63 + k for k in range(60)], dtype=pl.UInt64),
        }
    )
    frame.write_parquet(tmp_path / "data.parquet")
    columns = (
        'paid = { kind = "numeric", low = 0, high = 1 }\n'
        "day = { kind = 'date', earliest = 2024-01-01, latest = 2024-02-01 }\n"
        'size = { kind = "numeric", low = 0, high = 2e19 }\n'
    )
    path = study(tmp_path, "data.parquet", columns, "p.paid", "linear", 'id = "id"\n')
    checked = run("check", path, "--json")
    assert checked.code == 0 and checked.json["common"] == 60, checked.json
    fitted = run("fit", path, "--out", tmp_path / "r.json", "--json")
    assert fitted.code == 0 and fitted.json["n"] == 60, fitted.err


def test_a_duckdb_source_leaves_no_noise_on_the_terminal(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "data.duckdb")) as base:
        base.execute(
            "create table t as select i % 7 as a, case when i % 3 = 0 then 'yes' else 'no' end as y from range(90) r(i)"
        )
    path = study(tmp_path, "duckdb:///data.duckdb", YES_NO, more='query = "select * from t"\ndataset = "t"\n')
    command = [sys.executable, "-m", "colonnade.cli", "fit", str(path), "--out", str(tmp_path / "r.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "NO_COLOR": "1"})
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert not [line for line in lines if "nanobind" in line or "leak" in line], lines
    assert (tmp_path / "r.json").exists()


def test_several_rows_of_people_whose_ids_are_written_in_two_ways(run: Run, tmp_path: Path) -> None:
    """Rows of one person under "7" and "7 " are one person's, and the form that says so is proposed."""
    (tmp_path / "a.csv").write_text("id,y\n" + "".join(f"{k:04d},{'yes' if k % 3 else 'no'}\n" for k in range(1, 81)))
    rows = "".join(f"{k}{' ' * (k % 2)},{k % 5}\n{k},{k % 4}\n" for k in range(1, 81))
    (tmp_path / "b.csv").write_text(f"id,x\n{rows}")
    text = (
        '[study]\nname = "two"\ntask = "logistic"\nlabel = "a.y"\nepsilon = 20\n[party.a]\ndata = "a.csv"\nid = "id"\n'
        '[party.a.columns]\ny = { kind = "binary", levels = ["no", "yes"] }\n[party.b]\ndata = "b.csv"\nid = "id"\n'
        '[party.b.people]\nx = { how = "sum" }\n[party.b.columns]\nx = { kind = "numeric", low = 0, high = 20 }\n'
    )
    path = tmp_path / "study.toml"
    path.write_text(text)
    found = run("check", path, "--json").json["findings"]
    assert [f["write"] for f in found if f["fault"]] == ['id_form = ["strip", "zeros"]'], found
    assert run("fit", path, "--out", tmp_path / "r.json").code == 1
    path.write_text(text.replace("[study]", '[study]\nid_form = ["strip", "zeros"]'))
    fitted = run("fit", path, "--out", tmp_path / "r.json", "--json")
    assert fitted.code == 0 and fitted.json["n"] == 80


def test_texts_that_come_again_among_numbers_are_proposed_as_missing(run: Run, tmp_path: Path) -> None:
    lines = [f"{k};{'s/ info' if k % 20 == 0 else f'{k % 9},5'};{'sim' if k % 3 else 'não'}" for k in range(100)]
    lines[7] = "7;6,5;desconhecido"
    lines[8] = "8;7,5;desconhecido"
    (tmp_path / "data.csv").write_text("\n".join(["nº;peso;fuma", *lines, ""]), encoding="utf-8")
    drafted = run("schema", tmp_path / "data.csv").out
    assert '# missing = ["s/ info", "desconhecido"]' in drafted and 'fuma = { kind = "boolean" }' in drafted
    assert 'id = "nº"' in drafted


def test_a_label_with_gaps_is_drafted_so_that_the_study_is_taken(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,y\n" + "".join(f"{k},{['yes', 'no', ''][k % 3]}\n" for k in range(300)))
    (tmp_path / "b.csv").write_text("id,x\n" + "".join(f"{k},{k % 97 / 7:.2f}\n" for k in range(300)))
    new = ("--public-data", "--rows", "200", "--label", "a.y", "--epsilon", "20", "--no-ask")
    done = run("new", tmp_path / "two", tmp_path / "a.csv", tmp_path / "b.csv", *new)
    assert done.code == 0 and "Nothing is open" in done.out, done.out
    fitted = run("fit", tmp_path / "two" / "study.toml", "--out", tmp_path / "r.json", "--json")
    assert fitted.code == 0 and fitted.json["n"] == 200


def test_data_of_a_party_is_named_once() -> None:
    with pytest.raises(StudyError, match="--data names one FILE for each party, got two for p"):
        of_parties(["p=a.csv", "p=b.csv"], ["p", "q"])

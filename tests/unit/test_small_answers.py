"""Small things that ended otherwise: drafts without an id, "?" as a level, notes beside rows, dates and money."""

from __future__ import annotations

import datetime
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import colonnade as cn
from colonnade.cli import app
from colonnade.foundation.columns import column_from
from colonnade.foundation.errors import ReleaseError, SchemaError
from colonnade.foundation.shown import figure
from colonnade.mechanism.release import write_sealed
from colonnade.model import read_model


@pytest.mark.parametrize("header", ["mrn", "nhs_number", "Patienten-Nr", "番号"])
def test_drafts_need_no_english_id(header: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text(f"{header},x_{name}\n1,3.5\n2,4.5\n", encoding="utf-8")
    told = CliRunner().invoke(app, ["schema", str(tmp_path / "a.csv")])
    known = header in ("nhs_number", "Patienten-Nr")
    drafted = f'id = "{header if known else "?"}"'
    assert told.exit_code == 0 and drafted in told.stdout and header in told.stdout
    files = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    told = CliRunner().invoke(app, ["new", "--no-ask", str(tmp_path / "study"), *files])
    assert told.exit_code == 0, told.exception
    assert (tmp_path / "study" / "study.toml").read_text(encoding="utf-8").count(drafted) == 2


def test_a_question_mark_may_be_a_level() -> None:
    declared = {"kind": "categorical", "levels": ["?", "a", "b"], "drop": "?", "fill": "?"}
    found = column_from("job", declared)
    assert found.dropped == 0 and found.fill == "?"
    assert column_from("job", {**declared, "levels": ["a", "?"]}).dropped == 1
    for opened in ({"levels": ["a", "b"], "drop": "?"}, {"levels": ["?"], "drop": "?"}, {"levels": "?", "fill": "?"}):
        with pytest.raises(SchemaError, match=r'the "\?" of a draft'):
            column_from("job", {"kind": "categorical", **opened})


def _release() -> cn.Release:
    rng, n = np.random.default_rng(2), 3000
    days = pl.Series([datetime.date(2021, 1, 1) + datetime.timedelta(int(k)) for k in rng.integers(0, 1000, n)])
    frame = pl.DataFrame({"day": days, "pay": rng.uniform(0, 90_000, n), "sex": rng.choice(["f", "m"], n)})
    frame = frame.with_columns(y=pl.Series(rng.choice(["0", "1"], n)))
    columns = {
        "day": cn.Date(datetime.date(2020, 1, 1), datetime.date(2024, 12, 31)),
        "pay": cn.Numeric(0, 100_000),
        "sex": cn.Binary(("f", "m")),
        "y": cn.Binary(("0", "1")),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cn.Study("y", {"a": cn.Party(frame, columns)}, epsilon=1000.0, release="full").fit(seed=1)


def test_dates_and_money_are_written_as_people_write_them(tmp_path: Path) -> None:
    release = _release()
    release.save(tmp_path / "r.json")
    told = CliRunner().invoke(app, ["tables", str(tmp_path / "r.json")])
    assert told.exit_code == 0 and "e+0" not in told.stdout
    line = next(line for line in told.stdout.splitlines() if line.strip().startswith("day"))
    assert "2022-05" in line and "days" in line
    pay = next(line for line in told.stdout.splitlines() if line.strip().startswith("pay"))
    assert "45," in pay or "44," in pay
    assert "e+0" not in release.tables()._repr_html_()
    assert [figure(v) for v in (19720.4, -1234567.0, 0.000123456, 12.3456, 0.0)] == [
        "19,720", "-1,235,000", "0.0001235", "12.35", "0"
    ]  # fmt: skip
    assert figure(19720.4, 3, "+") == "+19,700"


def test_notes_stand_beside_rows_that_every_program_reads(tmp_path: Path) -> None:
    release = _release()
    release.save(tmp_path / "r.json")
    out = tmp_path / "rows.csv"
    told = CliRunner().invoke(
        app, ["synthesize", str(tmp_path / "r.json"), "--rows", "20", "--out", str(out), "--anyway", "--json"]
    )
    assert told.exit_code == 0, told.exception
    assert list(pd.read_csv(out).columns) == pl.read_csv(out).columns == ["day", "pay", "sex", "y"]
    assert len(pd.read_csv(out)) == pl.read_csv(out).height == 20
    notes = (tmp_path / "rows.notes.txt").read_text().splitlines()
    assert notes == [" ".join(note.split()) for note in json.loads(told.stdout)["notes"]]
    drawn = release.synthesize(20, anyway=True)
    drawn.save(tmp_path / "own.csv")
    assert pl.read_csv(tmp_path / "own.csv").height == 20
    assert (tmp_path / "own.notes.txt").read_text().startswith("Do not compute standard errors")


def test_a_model_whose_features_are_no_texts_is_refused(tmp_path: Path) -> None:
    _release().solve().save(tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    content.pop("digest", None)
    content["model"]["features"][0] = ["day"]
    with pytest.raises(ReleaseError, match="it is not a complete model"):
        read_model(write_sealed(content))

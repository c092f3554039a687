"""Commands that ask a release for more than its model."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars as pl
import pytest

from tests.helpers.cli_study import STUDY, Run, runner, write_study


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of a study whose savings are cut at bins, so that three columns have tables."""
    folder = tmp_path_factory.mktemp("release")
    write_study(folder, 400)
    cut = STUDY.replace("low = 0, high = 1000 }", "low = 0, high = 1000, bins = [300, 600] }")
    (folder / "study.toml").write_text(cut.replace('"lattice"', '"plain"'))
    with pytest.MonkeyPatch.context() as patch:
        import sys

        from colonnade.cli import main

        patch.setattr(sys, "argv", ["colonnade", "fit", str(folder / "study.toml"), "--seed", "aa", "--json",
                                    "--out", str(folder / "release.json")])  # fmt: skip
        with pytest.raises(SystemExit):
            main()
    return folder / "release.json"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


def test_tables_in_all_forms(release: Path, run: Run, tmp_path: Path) -> None:
    content = run("tables", release, "--json").json
    assert {m["column"] for m in content["margins"]} == {"job", "rich", "savings"}
    assert [x["column"] for x in content["numbers"]] == ["hours"]
    assert len(content["tables"]) == 3 and len(content["tree"]) == 2
    assert run("tables", release, "--json").json == content
    two = run("tables", release, "savings", "works.rich")
    assert two.code == 0 and "Mutual information" in two.out and "test of independence" in two.out
    lines = list(csv.DictReader(io.StringIO(run("tables", release, "savings", "rich", "--csv").out)))
    assert len(lines) == 6 and all(float(x["low"]) <= float(x["high"]) for x in lines)
    page = tmp_path / "tables.html"
    assert run("tables", release, "--html", page, "--csv").out.startswith("column_a,")
    text = page.read_text()
    assert run("tables", release, "--html", page).code == 0 and page.read_text() == text
    assert "Dependence tree" in text and "Heat map of" in text and "<script" not in text


def test_rows_say_what_they_are(release: Path, run: Run, tmp_path: Path) -> None:
    content = run("synthesize", release, "--rows", 300, "--out", tmp_path / "rows.csv", "--json").json
    assert (tmp_path / "rows.notes.txt").read_text().startswith("Do not compute standard errors")
    rows = pl.read_csv(tmp_path / "rows.csv")
    assert rows.shape == (300, 4) and content["rows"] == 300 and content["unbinned"] == ["hours"]
    given = tmp_path / "rich.parquet"
    done = run("synthesize", release, "--rows", 50, "--out", given, "--given", "rich=yes", "--seed", 4)
    assert done.code == 0 and "50 rows written" in done.out and "standard errors" in done.err
    assert pl.read_parquet(given)["rich"].unique().to_list() == ["yes"]
    assert "standard errors" in pl.read_parquet_metadata(given)["colonnade"]


def test_rows_no_better_than_independent_columns_are_refused(run: Run, tmp_path: Path) -> None:
    write_study(tmp_path, 60)
    cut = STUDY.replace("low = 0, high = 1000 }", "low = 0, high = 1000, bins = [300, 600] }").replace("40.0", "0.05")
    study = tmp_path / "study.toml"
    study.write_text(cut.replace('"lattice"', '"plain"').replace("[party.works]", 'purpose = "all"\n[party.works]', 1))
    planned = run("plan", study, "--rows", 55, "--json").json
    lines = {line["purpose"]: line for line in planned["purposes"]}
    assert lines["all"]["chosen"] and lines["all"]["rows_worse_than_independent"]
    assert any("no better than independent columns" in note for note in planned["warnings"])
    assert "tables, synthetic records and models" in " ".join(run("plan", study, "--rows", 55, "--full").out.split())
    release, rows = tmp_path / "release.json", tmp_path / "rows.csv"
    assert run("fit", study, "--seed", "aa", "--json", "--out", release).code == 0
    done = run("synthesize", release, "--rows", 30, "--out", rows)
    assert done.code == 1 and "no better than independent columns" in done.err and not rows.exists()
    assert run("synthesize", release, "--rows", 30, "--out", rows, "--anyway").code == 0


def test_margins_alone_are_planned_run_and_shown(run: Run, tmp_path: Path) -> None:
    write_study(tmp_path, 200)
    cut = STUDY.replace("high = 1000 }", "high = 1000, bins = [300, 600] }").replace(
        "high = 80 }", "high = 80, bins = [40] }"
    )
    study, release, rows = (tmp_path / name for name in ("study.toml", "release.json", "rows.csv"))
    study.write_text(cut.replace("40.0", "0.3").replace("[party.works]", 'purpose = "all"\n[party.works]', 1))
    planned = run("plan", study, "--rows", 190, "--json").json
    assert planned["release_choice"]["chosen"] == "margins" and planned["forecast"]["explained"] is None
    assert any("margins alone are released" in note for note in planned["warnings"])
    told = run("plan", study, "--rows", 190)
    assert told.code == 0 and "how many records have each level" in told.out
    assert run("plan", study, "--rows", 190, "--compare", "epsilon=0.3,40").code == 0
    found = run("fit", study, "--seed", "aa", "--json", "--out", release).json
    assert set(found["coefficients"].values()) == {0.0} and found["effective_parameters"] == 0
    shown = run("tables", release, "--json").json
    assert len(shown["margins"]) == 4
    assert run("tables", release, "--html", tmp_path / "t.html").code == 0
    assert run("report", release, "--html", tmp_path / "r.html").code == 0
    for command in (("synthesize", release, "--rows", 5, "--out", rows), ("components", release)):
        refused = run(*command)
        assert refused.code == 1 and "this release holds margins alone" in refused.err and not rows.exists()


def test_a_model_of_several_classes_scores_records(release: Path, run: Run, tmp_path: Path) -> None:
    model = tmp_path / "job.json"
    content = run("solve", release, "--label", "job", "--out", model, "--json").json
    assert content["task"] == "multinomial" and set(content["classes"]) == {"clerk", "smith", "baker"}
    folder = release.parent
    scored = run("predict", model, "--data", folder / "works.csv", "--data", folder / "bank.csv", "--id", "person")
    lines = list(csv.DictReader(io.StringIO(scored.out)))
    assert len(lines) == 390
    for line in lines[:5]:
        chances = [float(line[f"probability {level}"]) for level in ("clerk", "smith", "baker")]
        assert sum(chances) == pytest.approx(1.0)
    across = run("predict", model, "--study", folder / "study.toml", "--to", "bank")
    assert "bank opened 2 exact scores of each of 390 records" in across.err
    assert "2 numbers about their columns" in " ".join(across.err.split())
    by_person = {line["person"]: line for line in csv.DictReader(io.StringIO(across.out))}
    assert len(by_person) == 390
    for line in lines:
        other = by_person[line["person"]]
        assert other["predicted"] == line["predicted"]
        for level in ("clerk", "smith", "baker"):
            name = f"probability {level}"
            assert float(other[name]) == pytest.approx(float(line[name]), abs=1e-9)
    shown = run("solve", release, "--label", "job")
    assert "chances of the levels of job" in shown.out


def test_counts_and_sparse_models(release: Path, run: Run, tmp_path: Path) -> None:
    model = tmp_path / "hours.json"
    count = run("solve", release, "--label", "hours", "--task", "poisson", "--out", model, "--json").json
    assert count["task"] == "poisson" and 3 < count["intercept"] < 4.5
    folder = release.parent
    scored = run("predict", model, "--data", folder / "works.csv", "--data", folder / "bank.csv", "--id", "person")
    values = [float(line["predicted"]) for line in csv.DictReader(io.StringIO(scored.out))]
    assert 25 < sum(values) / len(values) < 55
    path = run("solve", release, "--penalty", "lasso", "--path", "--json").json["path"]
    kept = [model["effective_parameters"] for model in path]
    assert kept[0] >= kept[-1]
    shares = run("components", release, "--json").json["share"]
    assert shares == sorted(shares, reverse=True) and "largest loadings" in run("components", release).out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tables", "nothing"), "there is no released column 'nothing'"),
        (("tables", "hours"), "column hours was released as a number"),
        (("tables", "rich", "rich"), "a contingency table needs two columns"),
        (("synthesize", "--rows", 5, "--out", "x.txt"), "rows are written as .csv or .parquet"),
        (("synthesize", "--rows", 5, "--out", "x.csv", "--given", "rich=maybe"), "column rich has no level 'maybe'"),
        (("synthesize", "--rows", 5, "--out", "x.csv", "--impossible", "rich=yes"), "names two levels"),
        (("solve", "--label", "nothing"), "the label must be"),
        (("solve", "--label", "nothing", "--task", "poisson"), "there is no released column 'nothing'"),
        (("solve", "--label", "job", "--method", "raw"), "method raw goes with linear and logistic"),
    ],
)
def test_one_sentence_for_what_cannot_be(
    release: Path,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[object, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = run(arguments[0], release, *arguments[1:])
    assert refused.code == 1 and sentence in refused.err and "Traceback" not in refused.err
    assert not list(tmp_path.iterdir())

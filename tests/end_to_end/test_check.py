"""`colonnade check`: one list of all that would refuse a run, true in both directions, and nothing is spent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import colonnade as cn
from colonnade.check import check_site
from colonnade.foundation.errors import ColonnadeError
from colonnade.sites.site import read_site
from colonnade.studio.started import Run as StudioRun
from colonnade.study import read_study
from tests.helpers.cli_study import Run, runner, write_study

PEOPLE = 400
STUDY = """[study]
name = "messy"
task = "logistic"
label = "b.ill"
epsilon = 5.0
product = "plain"
{form}
[party.a]
data = "a.csv"
id = "nr"
{read}
[party.a.columns]
size = {{ kind = "numeric", low = 0, high = 100{size} }}
born = {{ kind = "date", earliest = 1900-01-01, latest = 2030-01-01 }}
smokes = {{ kind = "boolean" }}
town = {{ kind = "categorical", levels = ["x", "y"]{town} }}
[party.b]
data = "b.csv"
id = "id"
[party.b.columns]
ill = {{ kind = "binary", levels = ["no", "yes"] }}
"""


def write(folder: Path, *, form: str = "", read: str = "", size: str = "", town: str = "") -> Path:
    """A file in Latin-1 and semicolons whose sizes, days and truth values are written otherwise than declared."""
    draw = np.random.default_rng(52)
    lines = ["nr;size;born;smokes;town"]
    for k in range(PEOPLE):
        cell = "k.A." if k % 10 == 3 else f"{draw.uniform(1, 99):.1f}".replace(".", ",")
        lines.append(f"{k:05d};{cell};{1 + k % 28:02d}.07.{1950 + k % 50};{'ja' if k % 3 else 'nein'};{'xyü'[k % 3]}")
    (folder / "a.csv").write_text("\n".join([*lines, lines[7]]) + "\n", encoding="latin-1")
    ids = [f"{k}" + (" " if k % 8 == 0 else "") for k in range(PEOPLE)]
    pl.DataFrame({"id": ids, "ill": ["yes" if k % 2 else "no" for k in range(PEOPLE)]}).write_csv(folder / "b.csv")
    path = folder / "study.toml"
    path.write_text(STUDY.format(form=form, read=read, size=size, town=town), encoding="utf-8")
    return path


READ = """[party.a.read]
separator = ";"
decimal = ","
encoding = "latin-1"
dates = "%d.%m.%Y"
missing = ["k.A."]
true = ["ja"]
false = ["nein"]"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


def test_one_list_says_all_and_what_it_says_is_enough(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path)
    found = run("check", path, "--json")
    listed = {(f["party"], f["told"].partition(":")[0], f["write"]) for f in found.json["findings"] if f["fault"]}
    assert found.code == 1 and found.json["refused"] and not list(tmp_path.glob("*.json"))
    assert listed == {
        ("a", "the file is not as it is declared", f"read: {', '.join(READ.splitlines()[1:])}"),
        ("a", "size", 'missing = "indicator", fill = ...'),
        ("a", "town", "levels, or other = true"),
        ("all", "ids are written differently at a, b", 'id_form = ["strip", "zeros"]'),
    }
    told = " ".join(f["told"] for f in found.json["findings"])
    # Counts by hand: 40 of 401 lines have k.A., every third town is undeclared, one line is there twice.
    assert "size '61,3', born '01.07.1950', smokes 'nein'" in told and "40 of 401 are missing" in told
    assert "133 of 401 values are no declared levels ('ü' in 133 rows)" in told
    assert "1 of 401 rows repeat an id" in told
    assert f"0 match as they are, 350 with zeros, {PEOPLE} with strip and zeros" in told
    # All of it at once, and nothing is left: the run is as the list said.
    write(tmp_path, form='id_form = ["strip", "zeros"]', read=READ, size=", fill = 50", town=", other = true")
    clean = run("check", path, "--json")
    assert clean.code == 0 and not clean.json["refused"] and clean.json["common"] == PEOPLE
    assert run("fit", path, "--out", tmp_path / "r.json", "--json").json["n"] == PEOPLE
    text = run("check", path).out
    assert text.startswith("messy: a run would not be refused for its data. 0 faults, ") and "nothing was spent" in text


def test_a_refused_fit_shows_the_same_list(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path, read=READ)
    refused = run("fit", path, "--out", tmp_path / "r.json")
    assert refused.code == 1 and not (tmp_path / "r.json").exists()
    for line in ("fault: size: 40 of 401 are missing", "fault: town: 133 of 401", "fault: ids are written differently"):
        assert line in refused.err
    assert refused.err.rstrip().splitlines()[-1].startswith("error: party a: ")
    # From Python the list is a value.
    found = cn.Study.read(path).check()
    assert found.refused and {f.party for f in found.findings if f.fault} == {"a", "all"}


def test_the_studio_shows_it_too(tmp_path: Path) -> None:
    page = StudioRun(read_study(write(tmp_path, read=READ)), tmp_path / "r.json", unbooked=True)
    page.work()
    assert page.error.startswith("party a: column ") and not (tmp_path / "r.json").exists()
    assert any("fault: size: 40 of 401" in note for note in page.notes)
    assert any("fault: ids are written differently" in note for note in page.notes)


@pytest.mark.parametrize("seed", range(12))
def test_faults_are_refusals_and_nothing_else_is(seed: int, tmp_path: Path) -> None:
    """Random combinations of what may be declared: `fit` refuses where `check` says so, and there alone."""
    draw = np.random.default_rng([1, seed])
    some = [bool(draw.random() < 0.7) for _ in range(10)]
    lines = READ.splitlines()
    kept = [line for line, stays in zip([lines[2], *lines[4:]], some[:5], strict=True) if stays]
    read = "\n".join([*lines[:2], lines[3], *kept])
    forms = ['id_form = ["strip", "zeros"]', "", 'id_form = ["zeros"]', "id_form = []"]
    form = forms[int(draw.integers(0, 4))]
    path = write(tmp_path, form=form, read=read, size=", fill = 50" * some[5], town=", other = true" * some[6])
    study = cn.Study.read(path)
    found = study.check()
    try:
        study.fit(seed=seed)
        refused = False
    except ColonnadeError:
        refused = True
    assert found.refused == refused, [f.text for f in found.findings]


def test_columns_that_say_little_are_remarks(run: Run, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    n = 1000
    frame = pl.DataFrame({
        "y": draw.random(n), "corner": draw.random(n) * 50, "same": np.full(n, 3), "one": draw.random(n) * 9,
        "kind": [f"k{k % 4}" if k > 3 else "rare" for k in range(n)],
    }).with_columns(two=pl.col("one"))  # fmt: skip
    columns = {"y": cn.Numeric(0, 1), "corner": cn.Numeric(0, 2000), "same": cn.Numeric(0, 9), "one": cn.Numeric(0, 9),
               "two": cn.Numeric(0, 9), "kind": cn.Categorical(("k0", "k1", "k2", "k3", "rare"))}  # fmt: skip
    study = cn.Study("p.y", {"p": cn.Party(frame, columns)}, epsilon=5.0, product="plain")
    told = [finding.told for finding in study.check().findings if finding.party == "p"]
    assert told == [
        "corner: nine of ten values fill 2% of the bounds",
        "same is always the same",
        "two holds the same as one",
        "kind: 1 of 5 levels have fewer than 30 records",
    ] and not study.check().refused  # fmt: skip


def test_a_site_looks_at_its_own_part(run: Run, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "site.toml").write_text('[site]\nrole = "party"\nparty = "a"\ndata = "a.csv"\n')
    found = check_site(read_site(tmp_path))
    assert {f.party for f in found.findings} == {"a"} and found.refused and found.common is None
    assert run("check", tmp_path).code == 1
    read = READ.replace("[party.a.read]", "[site.read]")
    (tmp_path / "site.toml").write_text(f'[site]\nrole = "party"\nparty = "a"\ndata = "a.csv"\n{read}\n')
    faults = [f.told.partition(":")[0] for f in check_site(read_site(tmp_path)).findings if f.fault]
    assert faults == ["size", "town"]


def test_what_cannot_be_read_is_said(run: Run, tmp_path: Path) -> None:
    assert run("check", tmp_path / "none.toml").err == f"error: there is no study file {tmp_path}/none.toml\n"
    write_study(tmp_path)
    assert run("check", tmp_path / "study.toml").code == 0
    works = (tmp_path / "works.csv").read_text().replace("person,hours", "Person,Hours")
    (tmp_path / "works.csv").write_text(works)
    (tmp_path / "bank.csv").unlink()
    told = run("check", tmp_path / "study.toml").out
    assert "works  fault: there is no column 'hours' ['Hours'?]" in told and "there is no id column 'person'" in told
    assert f"bank   fault: there is no data file {tmp_path}/bank.csv" in told


def test_what_to_write_names_the_party_s_own_section(run: Run, tmp_path: Path) -> None:
    study = write(tmp_path)
    (tmp_path / "a.csv").write_text("other;columns\n1;2\n")
    out = run("check", study).out
    assert "separate its fields by commas" in out and "[party.a.read]" in out and "NAME" not in out

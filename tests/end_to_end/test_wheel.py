"""The wheel and the source archive, built here: what they hold, and the demo from nothing but the wheel."""

from __future__ import annotations

import csv
import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from colonnade.cli.demo import copy_demo
from colonnade.foundation.errors import StudyError

ROOT = Path(__file__).resolve().parents[2]
BUILD = "import sys, setuptools.build_meta as b; getattr(b, sys.argv[1])(sys.argv[2])"


def build(place: Path, out: Path, *what: str) -> None:
    """Archives from a copy, so that nothing of an earlier build is in them; dated by one number, as .ci/wheel does."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    shutil.copytree(ROOT / "src", place / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for path in (place / "src").rglob("*"):
        os.utime(path)
    for each in what:
        command = [sys.executable, "-c", BUILD, each, str(out)]
        given = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        done = subprocess.run(command, cwd=place, env=given, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both archives."""
    out = tmp_path_factory.mktemp("dist")
    build(tmp_path_factory.mktemp("source"), out, "build_wheel", "build_sdist")
    return out


def test_two_builds_of_the_wheel_are_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    """Whoever builds the commit can compare what was handed out; .ci/wheel takes the time from the commit."""
    for name in ("source", "dist"):
        (tmp_path / name).mkdir()
    build(tmp_path / "source", tmp_path / "dist", "build_wheel")
    assert wheel_of(dist).read_bytes() == wheel_of(tmp_path / "dist").read_bytes()
    assert 'SOURCE_DATE_EPOCH="$(git' in (ROOT / ".ci" / "wheel").read_text()


def wheel_of(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


def test_both_archives_hold_all_that_a_user_needs(dist: Path) -> None:
    package = ROOT / "src" / "colonnade"
    needed = {
        f"colonnade/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = set(zipfile.ZipFile(wheel_of(dist)).namelist())
    assert needed <= held
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        files = {name.partition("/")[2] for name in opened.getnames()}
    assert {f"src/{name}" for name in needed} | {"LICENSE", "README.md", "pyproject.toml"} <= files


def test_metadata_says_who_what_and_where(dist: Path) -> None:
    with zipfile.ZipFile(wheel_of(dist)) as wheel:
        (name,) = (n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
        told = email.message_from_bytes(wheel.read(name))
        entry = wheel.read(name.replace("METADATA", "entry_points.txt")).decode()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert told["Version"] == project["version"] and told["License-Expression"] == "Apache-2.0"
    assert told["Author"] and told.get_all("Project-URL") and told["Requires-Python"] == ">=3.11"
    assert {"all", "flare", "page", "sql", "docs"} <= set(told.get_all("Provides-Extra") or [])
    assert "Typing :: Typed" in (told.get_all("Classifier") or [])
    assert "colonnade = colonnade.cli:main" in entry


def test_the_extra_all_names_every_extra_of_a_user() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (named,) = extras["all"]
    assert set(named.partition("[")[2].rstrip("]").split(",")) == set(extras) - {
        "all",
        "dev",
        "docs",
        "experiments",
        "notebooks",
    }


def test_the_demo_runs_from_the_wheel_alone(dist: Path, tmp_path: Path) -> None:
    """In an environment of its own; only third-party packages are borrowed from this one."""
    home = tmp_path / "fresh"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    site = next((home / "lib").glob("python*/site-packages"))
    zipfile.ZipFile(wheel_of(dist)).extractall(site)
    borrowed = [path for path in sys.path if path.endswith("site-packages")]
    (site / "borrowed.pth").write_text("\n".join(borrowed) + "\n", encoding="utf-8")
    alone = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    where = subprocess.run(
        [python, "-c", "import colonnade; print(colonnade.__file__)"], cwd=tmp_path, env=alone, capture_output=True
    )
    assert where.stdout.decode().startswith(str(site))
    done = subprocess.run(
        [python, "-m", "colonnade.cli", "demo"], cwd=tmp_path, env=alone, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "colonnade-demo"
    assert json.loads((folder / "release.json").read_bytes())["n"] == 14146
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    told = " ".join(done.stdout.split())
    assert len(done.stdout.splitlines()) <= 15, told
    assert "not private (scikit-learn) 82.5%, 0.882; the larger class 75.3%, 0.5." in told
    private = float(re.findall(r"right for (\d\d\.\d)%", told)[0])
    assert 81.5 < private < 83.5
    signs = re.findall(r"sign of (\w+) of (\d+) coefficients(?: of a reduced model)? is reliable", told)[0]
    assert int(signs[0]) >= 3


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(StudyError, match="must be a new or an empty folder"):
        copy_demo(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_packaged_demo_is_the_demo_without_the_columns_that_its_study_leaves_out() -> None:
    packaged = ROOT / "src" / "colonnade" / "demo"
    text = (packaged / "study.toml").read_text(encoding="utf-8")
    assert text == (ROOT / "demo" / "study.toml").read_text(encoding="utf-8")
    for name, party in tomllib.loads(text)["party"].items():
        with (ROOT / "demo" / party["data"]).open(newline="") as whole, (packaged / party["data"]).open() as part:
            held = list(csv.DictReader(part))
            columns = ["person", *party["columns"]]
            assert list(held[0]) == columns
            assert held == [{c: row[c] for c in columns} for row in csv.DictReader(whole)], name

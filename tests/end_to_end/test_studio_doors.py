"""What comes into the studio and what leaves it: links, nested files, its token, and spending that nobody books."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import polars as pl
import pytest

from colonnade.check import check_study
from colonnade.data.sources import FileSource
from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import MOST_PARTIES
from colonnade.studio.form import from_fields, to_toml
from colonnade.studio.pages import Studio
from colonnade.studio.started import Run, without_ledger
from colonnade.studio.workspace import Workspace
from tests.helpers.browser import browser, new_page
from tests.helpers.cli_study import STUDY, write_study

ROOT = Path(__file__).resolve().parents[2]
OWN = "the studio reads files of its own folder only"


def space(folder: Path, data: str = "bank.csv") -> Workspace:
    return Workspace(folder, tomllib.loads(STUDY.replace('"bank.csv"', f'"{data}"')))


@pytest.mark.parametrize(
    "data",
    [
        "parts",
        "parts/*.csv",
        "p*/*.csv",
        "**/linked.csv",
        "door",
        "door/*.csv",
        "d*/../secret/*.csv",
        "parts/linked.csv",
    ],
)
def test_a_link_out_is_refused_through_folders_and_patterns(tmp_path: Path, data: str) -> None:
    inside, outside = tmp_path / "studio", tmp_path / "elsewhere" / "secret"
    write_study_in(inside)
    outside.mkdir(parents=True)
    (outside / "people.csv").write_text("person,savings\np1,5\n")
    (inside / "parts").mkdir()
    (inside / "parts" / "linked.csv").symlink_to(outside / "people.csv")
    # With "..", a link leads to what lies beside its target.
    (inside / "door").symlink_to(outside)
    with pytest.raises(StudyError, match=OWN):
        space(inside, data).guarded_study()


@pytest.mark.parametrize("data", ["parts", "parts/*.csv", "bank.csv", "alias.csv"])
def test_folders_patterns_and_links_within_the_folder_are_read(tmp_path: Path, data: str) -> None:
    write_study_in(tmp_path)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "one.csv").write_bytes((tmp_path / "bank.csv").read_bytes())
    (tmp_path / "alias.csv").symlink_to(tmp_path / "bank.csv")
    assert space(tmp_path, data).guarded_study().sources["bank"].data == FileSource(tmp_path / data)


def write_study_in(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    write_study(folder, 40)


@pytest.mark.parametrize(
    "text",
    [
        "[study]\nx = " + "[" * 3000 + "]" * 3000,
        "[study]\n" + ".".join("a" * 3000) + " = 1",
        "[study]\nx = " + "[" * 40 + "]" * 40,
        "[study]\nx = " + "9" * 5000,
        "[study]\nx = ",
    ],
    ids=["lists", "keys", "deep", "number", "broken"],
)
def test_nested_toml_is_told_in_one_sentence(tmp_path: Path, text: str) -> None:
    workspace = Workspace(tmp_path)
    with pytest.raises(StudyError) as refused:
        workspace.load(text)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 200
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(StudyError):
        workspace.open("study.toml")


@pytest.mark.parametrize("nested", ["[" * 60 + "]" * 60, "[" * 100_000 + "]" * 100_000], ids=["deep", "deeper"])
def test_nested_fields_are_told_in_one_sentence(nested: str) -> None:
    try:
        content = from_fields({"study.rest": '{"x": ' + nested + "}"})
    except StudyError as refused:
        assert "nested" in str(refused)
    else:
        assert tomllib.loads(to_toml(content)), "what no reader follows is left out"


def test_many_parties_of_one_name_are_told_in_one_sentence() -> None:
    same = from_fields({f"p{i}.name": "a" for i in range(MOST_PARTIES)})
    assert len(same["party"]) == MOST_PARTIES and list(same["party"])[:3] == ["a", "a2", "a3"]
    with pytest.raises(StudyError, match="parties"):
        from_fields({f"p{i}.name": "a" for i in range(MOST_PARTIES + 1)})


def test_a_spend_that_nobody_books_is_asked_for(tmp_path: Path) -> None:
    write_study_in(tmp_path)
    study = space(tmp_path).guarded_study()
    assert without_ledger(study) == ["works", "bank"]
    run = Run(study, tmp_path / "release.json")
    with pytest.raises(StudyError, match="no policy and ledger for works, bank"):
        run.start()
    run.work()
    assert "no policy and ledger" in run.error and not (tmp_path / "release.json").exists()
    asked = Run(study, tmp_path / "release.json", unbooked=True)
    asked.work()
    assert not asked.error and (tmp_path / "release.json").exists()


def opened(folder: Path, text: str) -> Workspace:
    """A study file of the folder, as the studio opens it."""
    (folder / "study.toml").write_text(text)
    found = Workspace(folder)
    found.open("study.toml")
    return found


def test_a_study_file_of_the_folder_runs_with_what_it_names(tmp_path: Path) -> None:
    """Files beside the folder and databases, as `colonnade new` drafts them; the same, typed or pasted, is refused."""
    inside = tmp_path / "studio"
    write_study_in(inside)
    (inside / "bank.csv").rename(tmp_path / "bank.csv")
    frame = pl.read_csv(inside / "works.csv")
    with sqlite3.connect(tmp_path / "works.db") as database:
        database.execute(f"create table people ({', '.join(frame.columns)})")
        database.executemany(f"insert into people values ({', '.join('?' * frame.width)})", frame.rows())
    query = 'data = "sqlite:///../works.db"\nquery = "select * from people"\ndataset = "people"'
    text = STUDY.replace('"bank.csv"', '"../bank.csv"').replace('data = "works.csv"', query)
    found = opened(inside, text)
    assert not check_study(found.guarded_study()).refused
    run = Run(found.guarded_study(), inside / "release.json", unbooked=True)
    run.work()
    assert not run.error and (inside / "release.json").exists()
    for other in ('"../other.csv"', '"sqlite:///../other.db"\nquery = "select 1"\ndataset = "o"'):
        changed = tomllib.loads(text.replace('"../bank.csv"', other))
        with pytest.raises(StudyError, match=OWN):
            Workspace(inside, changed, "study.toml", found.found).guarded_study()
    pasted = Workspace(inside)
    pasted.load(text)
    with pytest.raises(StudyError, match=OWN):
        pasted.guarded_study()


def test_a_refusal_comes_before_the_button_that_spends(tmp_path: Path) -> None:
    write_study_in(tmp_path)
    studio = Studio(opened(tmp_path, STUDY), "token")

    def page(answer: Any, **fields: str) -> str:
        return bytes(answer(None, fields).body).decode()

    assert "Run and spend epsilon" in page(studio._ask, release="r.json") and "No fault" in page(studio._check)
    (tmp_path / "bank.csv").write_text((tmp_path / "bank.csv").read_text().replace("person", "human", 1))
    text = page(studio._ask, release="r.json")
    assert "A run would be refused." in text and "there is no id column" in text and "Run and spend" not in text
    assert "there is no id column" in page(studio._check)
    (tmp_path / "r.json").write_text("{}")
    with pytest.raises(StudyError, match="is not overwritten"):
        studio._ask(None, {"release": "r.json"})  # type: ignore[arg-type]


def test_what_check_finds_is_told_after_a_refusal(tmp_path: Path) -> None:
    write_study_in(tmp_path)
    (tmp_path / "bank.csv").write_text((tmp_path / "bank.csv").read_text().replace("person", "human", 1))
    run = Run(space(tmp_path).guarded_study(), tmp_path / "release.json", unbooked=True)
    run.work()
    page = Studio(space(tmp_path), "token")._templates.get_template("state.html").render(base="", run=run)
    assert "Refused or failed." in page and "there is no id column &#39;person&#39;" in page


def test_the_token_is_in_no_command_line(tmp_path: Path) -> None:
    """The browser is opened by a page that its owner alone can read, and the page leads to the studio."""
    write_study_in(tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "xdg-open").write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/opened.part\nmv {tmp_path}/opened.part {tmp_path}/opened\n'
    )
    (tools / "xdg-open").chmod(0o755)
    places = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "colonnade.cli", "studio", str(tmp_path / "study.toml")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **places})
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/([0-9a-f]{32})/", process.stdout.readline())
        assert found
        deadline = time.monotonic() + 60
        while not (tmp_path / "opened").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        opened = (tmp_path / "opened").read_text().strip()
        assert found[1] not in opened
        assert found[1] not in Path(f"/proc/{process.pid}/cmdline").read_text()
        page = Path(unquote(urlsplit(opened).path))
        assert page.suffix == ".html"
        assert stat.S_IMODE(page.stat().st_mode) == 0o600 and stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        assert found[0] in page.read_text()
        with browser() as chromium:
            shown = new_page(chromium, [])
            shown.goto(page.as_uri())
            shown.wait_for_selector('input[name="study.name"]')
            assert shown.url == found[0]
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(30)
    assert not page.exists(), "the page goes with the studio"

"""A further question of a release is a module that answers it, one line of the command line and one of Python.

The toy asks which of a release's columns has most levels. It names no medium: text, page, notebook, JSON and data frame
come from the renderers.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

import colonnade as cn
from colonnade import simulation
from colonnade.api.display import Framed
from colonnade.cli.options import Html, Json, ReleaseFile
from colonnade.cli.releases import open_release
from colonnade.cli.screen import answer_of
from colonnade.mechanism.release import ReleaseRecord
from colonnade.report.results import Answer, Figure, Heading, Listing, Passage
from colonnade.studio.pages import environment

HOSTILE = "<script>alert('a')</script>"


def widest(release: ReleaseRecord) -> Answer:
    """The whole module of the question: what it computes, and its value."""
    from markupsafe import Markup

    records = [
        {"column": name, "party": party, "levels": len(column.all_levels), "share": len(column.all_levels) / 7}
        for party, columns in release.schema.parties.items()
        for name, column in columns.items()
    ]
    records.sort(key=lambda record: (-record["levels"], record["column"]))
    heads = [Heading("column", "column"), Heading("party", "party"), Heading("levels", "levels", "{:,}".format, True)]
    heads.append(Heading("sevenths", "share", "{:.2f}".format, True))
    fields = {"column": str, "party": str, "levels": int, "share": float}
    figure = Figure(lambda: Markup("<svg><title>{}</title></svg>").format(records[0]["column"]), "The widest.")
    table = Listing(heads, records, "Levels of columns", fields=fields, picture=figure)
    facts = {"widest": records[0]["column"], "columns": records}
    return Answer("How wide the columns are", [table, Passage("A toy.", "soft")], lambda: facts, ["it is a toy"])


def wide(release: ReleaseFile, html: Html = None, json: Json = False) -> None:
    """The command: its options, and one line."""
    answer_of(lambda: widest(open_release(release)), json, html, "Widths")


@pytest.fixture
def release(tmp_path: Path) -> cn.Release:
    draw = np.random.default_rng(1)
    frame = pl.DataFrame({"job": draw.choice(["a", HOSTILE, "c"], 60), "rich": draw.choice(["no", "yes"], 60)})
    columns = {"job": cn.Categorical(["a", HOSTILE, "c"]), "rich": cn.Binary(["no", "yes"])}
    made = simulation.fit(cn.Study("rich", {HOSTILE: cn.Party(frame, columns)}, epsilon=2.0), 1, tmp_path / "r.json")
    return made


@pytest.mark.filterwarnings("ignore")
def test_a_toy_question_in_every_medium(release: cn.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One line of Python.
    monkeypatch.setattr(cn.Release, "widest", lambda self: Framed(widest(self.released)), raising=False)
    # One line of the command line.
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command()(wide)
    asked = ["wide", str(tmp_path / "r.json")]
    text, told = CliRunner().invoke(app, asked), CliRunner().invoke(app, [*asked, "--json"])
    paged = CliRunner().invoke(app, [*asked, "--html", str(tmp_path / "page.html")])
    assert text.exit_code == told.exit_code == paged.exit_code == 0, (text, told, paged)
    expected = [("job", 3, 3 / 7), ("rich", 2, 2 / 7)]
    known = json.loads(told.stdout)
    assert known["widest"] == "job"
    assert [(one["column"], one["levels"], one["share"]) for one in known["columns"]] == expected
    found = release.widest()  # type: ignore[attr-defined]
    assert found.frame.select("column", "levels", "share").rows() == expected
    page = (tmp_path / "page.html").read_text()
    studio = environment().from_string("{% for p in found.parts %}{{ part(p) }}{% endfor %}").render(found=found.answer)
    for name, levels, share in expected:
        for medium in (text.stdout, repr(found)):
            assert any(name in line and f"{levels}" in line and f"{share:.2f}" in line for line in medium.splitlines())
        for medium in (page, found._repr_html_(), studio):
            assert f'data-levels="{name}" data-value="{levels}">{levels}</td>' in medium
            assert f'data-share="{name}" data-value="{share}">{share:.2f}</td>' in medium
            assert "<script" not in medium and "&lt;script" in medium and "<svg><title>job</title></svg>" in medium
    assert "warning: it is a toy" in text.stdout and "Warning: it is a toy" in found._repr_html_()
    assert "it is a toy" in page

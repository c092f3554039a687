"""Text, HTML, JSON, Python and studio say the same numbers, for six releases unlike the demo."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("starlette")

import colonnade as cn
from colonnade.foundation.shown import figure
from colonnade.studio.pages import Studio
from colonnade.studio.workspace import Workspace
from tests.helpers.cli_study import Run, runner
from tests.helpers.six_releases import SEED, STUDIES, write_six

TOKEN = "t" * 32
Numbers = set[tuple[str, str, float]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


def numbers_of(page: str, *kinds: str) -> Numbers:
    """The exact numbers behind a page's cells, by their kind and what they are of."""
    found = re.findall(r'data-([\w -]+)="([^"]*)" data-value="([^"]*)"', page)
    return {(kind, unescape(name), float(value)) for kind, name, value in found if kind in kinds}


def studio_page(folder: Path, path: str, study: str = "") -> str:
    """A page of the studio, asked for without a network."""
    workspace = Workspace(folder)
    if study:
        workspace.open(study)
    app, parts = Studio(workspace, TOKEN).app, []
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [], "root_path": "", "scheme": "http", "server": ("x", 1), "client": ("y", 2)}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        parts.append(message.get("body", b""))

    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    return b"".join(parts).decode()


def flat(told: list[dict[str, Any]], *kinds: str) -> Numbers:
    return {(kind, one["feature"], one[kind]) for one in told for kind in kinds if one.get(kind) is not None}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STUDIES)
def test_every_medium_says_the_same_numbers(
    name: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No cell is broken.
    monkeypatch.setenv("COLUMNS", "200")
    study, place, page = write_six(tmp_path, name, 400), tmp_path / "r.json", tmp_path / "p.html"
    fitted = run("fit", study, "--seed", SEED, "--out", place, "--json")
    assert fitted.code == 0, fitted.err
    told = run("report", place, "--html", page, "--json").json
    assert fitted.json["params"] == told["params"] and fitted.json["conf_int"] == told["conf_int"]
    # Before the spend the study has a page, also where nothing foretells a model.
    assert 'id="epsilon"' in studio_page(tmp_path, "/", study.name)
    release = cn.Release.read(place)
    model = release.solve()

    # Python's frames are the lines of --json, and what is reliable alone has numbers.
    assert model.params.to_dicts() == told["params"] and model.conf_int().to_dicts() == told["conf_int"]
    for line in told["conf_int"]:
        assert [line[end] is not None for end in ("estimate", "low", "high")] == [line["reliable"]] * 3
    drowned = {one["feature"] for one in told["intervals"]["coefficients"] if one["drowned"]}
    assert drowned == {one["feature"] for one in told["conf_int"] if not one["reliable"]}
    kinds = model.classes if "classes" in told else ("estimate",)
    params = {one["feature"]: one for one in told["params"]}
    by_kind = {kind: {f: one[kind] for f, one in params.items()} for kind in kinds}
    assert (model.coef if "classes" in told else {"estimate": model.coef}) == by_kind

    # One unit: by the bounds of the study, a coefficient is that of the code times what a number's range says.
    declared = {c: facts for party in STUDIES[name]["party"].values() for c, facts in party["columns"].items()}
    label = declared[STUDIES[name]["study"]["label"].partition(".")[2]]
    half = (label["high"] - label["low"]) / 2 if "low" in label else 1.0
    for feature, coded in told["coefficients"].items() if "classes" not in told else ():
        facts = declared.get(feature, {})
        width = (facts["high"] - facts["low"]) / 2 if "low" in facts else 1.0
        if facts.get("kind") != "date":
            assert params[feature]["estimate"] == pytest.approx(coded * half / width, rel=1e-12)
    encoded = {one["feature"]: one["estimate"] for one in model.encoded.params.to_dicts() if "estimate" in one}
    assert not encoded or encoded == told["coefficients"] == model.coef_encoded

    # The page and the studio's page hold the exact numbers of --json, and no others.
    constants = model.intercept if "classes" in told else {"estimate": model.intercept}
    expected = flat(told["params"], *kinds) | {(kind, "intercept", constants[kind]) for kind in kinds}
    expected |= flat(told["conf_int"], "estimate")
    assert numbers_of(page.read_text(encoding="utf-8"), *kinds) == expected
    assert numbers_of(studio_page(tmp_path, "/releases/r.json"), *kinds) == expected

    # The terminal and the objects' texts round them.
    text, shown = run("report", place).out, repr(model.summary())
    for said in (text, shown):
        for one in told["params"][:16]:
            assert all(figure(one[kind], sign="+") in said for kind in kinds), one
        for one in told["conf_int"]:
            ends = [figure(one[end], 3, "+") for end in ("low", "high") if one["reliable"]]
            assert (" to ".join(ends) if ends else "noise drowns it") in said

    # Tables: the counts of --json are those of the frame, of the page and of the text.
    tables = run("tables", place, "--json")
    if tables.code:
        assert name in ("trace", "numbers") and "error:" in tables.err
        return
    counts = [c for margin in tables.json["margins"] for c in margin["count"]]
    cells = [c for table in tables.json["tables"] for row in table["count"] for c in row]
    assert release.tables().frame["count"].to_list() == counts + cells
    assert run("tables", place, "--html", tmp_path / "t.html").code == 0
    levels = {
        ("count", level, c) for m in tables.json["margins"] for level, c in zip(m["levels"], m["count"], strict=True)
    }
    assert numbers_of((tmp_path / "t.html").read_text(encoding="utf-8"), "count") == levels
    said = run("tables", place).out
    assert all(f"{count:,.0f}" in said for count in counts)

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
from colonnade.report.text import epsilon_text
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


CELL = re.compile(r'data-([\w-]+)="([^"]*)" data-value="([^"]*)">([^<]*)</td>')
WRITTEN = {
    **dict.fromkeys(("outsider", "server", "party", "coalition"), epsilon_text),
    **dict.fromkeys(("sensitivity", "scale", "noise_std"), "{:.4g}".format),
    **dict.fromkeys(("terms", "count"), "{:,.0f}".format),
}
"""How a cell shows its number, where it is none of a coefficient."""


def misread(page: str, *kinds: str) -> list[tuple[str, ...]]:
    """Cells of these kinds whose text is not their number's."""
    out = []
    for kind, name, value, text in CELL.findall(page):
        number = float(value)
        written = {WRITTEN[kind](number)} if kind in WRITTEN else {figure(number, sign="+"), figure(number, 3, "+")}
        if kind in kinds and unescape(text) not in written:
            out.append((kind, unescape(name), value, text))
    return out


def planned(plan: dict[str, Any]) -> Numbers:
    """Every epsilon, and every block's numbers, of a plan as --json has it."""
    several = len(plan["parties"]) > 1
    views = ("outsider", "server", "party", "coalition") if several else ("outsider", "server")
    rows = {name: party["epsilon"] for name, party in plan["parties"].items()} | {"a whole record": plan["record"]}
    found = {(view, name, own[view]) for name, own in rows.items() for view in views if own[view] is not None}
    parts = ("terms", "sensitivity", "scale", "noise_std")
    return found | {(key, block["name"], block[key]) for block in plan["blocks"] for key in parts}


PLANNED = ("outsider", "server", "party", "coalition", "terms", "sensitivity", "scale", "noise_std")


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
    # Before the spend: every epsilon and every block's noise, in every medium.
    front = tmp_path / "plan.html"
    plan = run("plan", study, "--rows", told["n"], "--html", front, "--json").json
    assert planned(told) == planned(fitted.json)
    assert cn.Study.read(study, rows=told["n"]).plan().to_dict() == plan
    for shown, facts in ((front, plan), (page, told)):
        written = shown.read_text(encoding="utf-8")
        assert numbers_of(written, *PLANNED) == planned(facts) and not misread(written, *PLANNED)
    # The studio's study states no rows.
    studio, assumed = studio_page(tmp_path, "/plan.html", study.name), cn.Study.read(study).plan().to_dict()
    assert numbers_of(studio, *PLANNED) == planned(assumed) and not misread(studio, *PLANNED)
    text = run("plan", study, "--rows", told["n"], "--full").out
    for kind, of, number in planned(plan):
        assert any(of in line and WRITTEN[kind](number) in line for line in text.splitlines()), (kind, of)
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
    explored = studio_page(tmp_path, "/releases/r.json")
    assert numbers_of(explored, *kinds) == expected
    assert not misread(explored, *kinds) and not misread(model._repr_html_() or "", *kinds)
    ranges = {f"{figure(r['low'], 3, '+')} to {figure(r['high'], 3, '+')}" for r in told["conf_int"] if r["reliable"]}
    assert all(between in shown for shown in (explored, page.read_text(encoding="utf-8")) for between in ranges)

    # The terminal and the objects' texts round them.
    text, brief = run("report", place).out, repr(model.summary())
    for said in (text, brief):
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
    assert not misread((tmp_path / "t.html").read_text(encoding="utf-8"), "count")
    said = run("tables", place).out
    assert all(f"{count:,.0f}" in said for count in counts)


def test_a_number_that_differs_in_one_medium_is_noticed() -> None:
    """The comparisons above can fail: an exact number, or the text beside it, that is another one."""
    cell = '<td class="n" data-scale="a x b" data-value="{}">{}</td>'
    right, other, text = (cell.format(*one) for one in ((0.12345678, "0.1235"), (0.2, "0.2"), (0.12345678, "0.1234")))
    assert numbers_of(right, "scale") == numbers_of(text, "scale") != numbers_of(other, "scale")
    assert not misread(right, "scale") and not misread(other, "scale") and misread(text, "scale")
    assert misread(cell.replace("scale", "estimate").format(1.5, "-1.5"), "estimate")

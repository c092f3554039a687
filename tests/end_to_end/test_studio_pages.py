"""The studio's pages in Chromium: whole at every width, by keyboard alone, with the numbers of the command line."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from colonnade.report.curve import accuracy_of
from colonnade.report.text import epsilon_text
from colonnade.studio.form import field_of
from colonnade.studio.panel import KEPT as KEPT_PLAN
from colonnade.studio.panel import PRESENT, choices, compared, panel_context
from colonnade.studio.started import Run as StudioRun
from colonnade.studio.workspace import Workspace
from tests.helpers.browser import browser, keep, new_page, violations
from tests.helpers.cli_study import Run, runner, write_study
from tests.helpers.studio import KEPT, POLICY, Server, studio_server

WIDTHS = (390, 768, 1280, 1680)
RELEASE = "releases/first.json"
PAGES = {
    "study": "",
    "curve": "curve",
    "check": "check",
    "compare": "compare",
    "run": "run",
    "releases": "releases",
    "model": RELEASE,
    "tables": f"{RELEASE}/tables?a=job&b=rich",
    "rows": f"{RELEASE}/rows?count=40",
    "sheet": f"{RELEASE}/page",
    "plan": "plan.html",
    "ledgers": "ledgers",
}
CLIPPED = """() => [...document.querySelectorAll("input, select, textarea")]
  .filter((e) => e.offsetParent !== null && e.scrollWidth > e.clientWidth)
  .map((e) => `${e.name}: ${e.scrollWidth} > ${e.clientWidth}`)"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with studio_server(tmp_path_factory.mktemp("studio")) as opened:
        yield opened


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for all tests of this module."""
    with browser() as opened:
        yield opened


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


def released(server: Server, run: Run) -> Path:
    """A release in the studio's folder, booked by the bank."""
    place = server.folder / "first.json"
    if not place.exists():
        assert run("fit", server.folder / "study.toml", "--out", place).code == 0
    return place


def test_every_page_is_whole_at_every_width(server: Server, run: Run, chromium: Any) -> None:
    released(server, run)
    complaints: list[str] = []
    page = new_page(chromium, complaints)
    for k, (name, path) in enumerate(PAGES.items()):
        page.goto(server.address + path)
        assert page.locator("nav a", has_text="Ledgers").count() == 1, f"{name}: a way to every other page"
        for details in page.locator("details").all():
            details.evaluate("e => { e.open = true }")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 1000})
            wide = page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{name} at {width} px is {wide} px too wide"
            assert page.evaluate(CLIPPED) == [], f"{name} at {width} px"
        both = ("light", "dark") if name in ("study", "model") else ("light", "dark")[k % 2 :][:1]
        for scheme in both:
            page.set_viewport_size({"width": 390 if scheme == "light" else 1280, "height": 1000})
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], f"{name} in {scheme}"
            keep(page, f"studio-{name}-{scheme}")
    page.close()
    assert complaints == []


def tab_to(page: Any, selector: str) -> None:
    """The Tab key alone, until what is looked for has the focus; it must show that it has."""
    for _ in range(150):
        page.keyboard.press("Tab")
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"{selector} has the focus and does not show it"
            return
    raise AssertionError(f"the keyboard does not reach {selector}")


def go(page: Any, name: str, heading: str) -> None:
    """To another page, by its name in the navigation."""
    tab_to(page, f'header nav a[href$="{name}"]')
    page.keyboard.press("Enter")
    page.wait_for_selector(f'h1:has-text("{heading}")')


def test_each_flow_by_keyboard_alone(server: Server, run: Run, chromium: Any) -> None:
    released(server, run)
    complaints: list[str] = []
    page = new_page(chromium, complaints, viewport={"width": 1280, "height": 1000})
    keys = page.keyboard
    page.goto(server.address)
    # Change epsilon, keep the plan, change it again, and compare the two.
    tab_to(page, 'input[name="study.epsilon"]')
    keys.press("Control+A")
    keys.type("30")
    page.wait_for_selector('#epsilon[data-value^="29.9"]')
    tab_to(page, 'button[value="keep"]')
    keys.press("Enter")
    page.wait_for_selector("text=Kept.")
    tab_to(page, 'input[name="study.epsilon"]')
    keys.press("Control+A")
    keys.type("20")
    page.wait_for_selector('#epsilon[data-value^="19.9"]')
    # Negotiate: the arrow chooses "each party states its own", and fields are filled from the present split.
    tab_to(page, 'input[name="budget"]:checked')
    keys.press("ArrowDown")
    page.wait_for_selector("#negotiation")
    assert float(page.input_value('input[name="p1.epsilon"]')) > 0
    tab_to(page, 'input[name="budget"]:checked')
    keys.press("ArrowUp")
    page.wait_for_selector('#epsilon[data-value^="19.9"]')
    go(page, "/compare", "Two plans side by side")
    assert "epsilon of a record differs" in page.inner_text("#compared")
    # Run: the question, the spend, the end.
    go(page, "/run", "Run")
    tab_to(page, "#run-release")
    keys.press("Control+A")
    keys.type("second.json")
    tab_to(page, "button.next")
    keys.press("Enter")
    page.wait_for_selector('h1:has-text("Spend epsilon")')
    tab_to(page, 'input[name="unbooked"]')
    keys.press("Space")
    tab_to(page, "button.spend")
    keys.press("Enter")
    page.wait_for_selector("#finished")
    # Explore: what-if, a table, rows, the page to sign, the ledger.
    tab_to(page, 'a[href$="second.json"]')
    keys.press("Enter")
    page.wait_for_selector("#whatif")
    tab_to(page, '[name="x.savings"]')
    keys.press("Control+A")
    keys.type("990")
    keys.press("Enter")
    page.wait_for_url("**x.savings=990**")
    tab_to(page, '.tabs a[href$="/tables"]')
    keys.press("Enter")
    page.wait_for_selector("#b")
    tab_to(page, "#b")
    keys.type("rich")
    tab_to(page, "form.row button")
    keys.press("Enter")
    page.wait_for_selector('h3:has-text("job by rich")')
    tab_to(page, '.tabs a[href$="/rows"]')
    keys.press("Enter")
    page.wait_for_selector("#count")
    tab_to(page, "#count")
    keys.press("Enter")
    page.wait_for_selector("#drawn")
    go(page, "/ledgers", "Ledgers")
    assert "ids matched with works" in page.inner_text("main")
    page.close()
    assert complaints == []


def test_what_is_typed_while_a_plan_is_made_is_kept(server: Server, chromium: Any) -> None:
    """Also on the way to another page, and in a field that is emptied to type into."""
    from playwright.sync_api import expect

    server.ask(server.at("/open"), {"name": "study.toml"})
    page = new_page(chromium, [])
    page.goto(server.address)
    reason = page.locator('[name="study.reason"]')
    reason.fill("typed last")
    page.locator("nav a", has_text="Ledgers").click()
    page.wait_for_url("**/ledgers")
    page.goto(server.address)
    assert reason.input_value() == "typed last"
    page.check('[name="budget"][value="parties"]')
    offer = page.locator('[name="p0.epsilon"]')
    expect(offer).not_to_have_value("")
    with page.expect_response("**/plan"):
        offer.fill("")
    expect(page.locator("#panel")).not_to_have_attribute("aria-busy", "true")
    assert offer.input_value() == ""
    with page.expect_response("**/plan"):
        page.keyboard.type("0.3")
    assert offer.input_value() == "0.3" and reason.input_value() == "typed last"
    page.close()
    server.ask(server.at("/open"), {"name": "study.toml"})


def test_mistakes_stand_at_their_fields(server: Server, chromium: Any) -> None:
    page = new_page(chromium, [], viewport={"width": 1280, "height": 1000})
    page.goto(server.address)
    for name, wrong in (("study.epsilon", "-1"), ("p0.c0.high", "-5"), ("p1.id", "")):
        page.fill(f'[name="{name}"]', wrong)
    page.wait_for_selector('[name="p1.id"][aria-invalid]')
    assert "positive" in page.inner_text('[id="e-study.epsilon"]')
    assert "low must be below high" in page.inner_text('[id="e-p0.c0.low"]')
    assert page.locator("[aria-invalid]").count() == 3 == page.locator(".mistakes li").count()
    assert page.evaluate(CLIPPED) == []
    page.fill('[name="p1.id"]', "person")
    page.wait_for_function("() => document.querySelectorAll('[aria-invalid]').length === 2")
    # Without a script the page itself has them.
    page.goto(server.address)
    assert page.locator("[aria-invalid]").count() == 2
    page.fill('[name="study.epsilon"]', "40")
    page.fill('[name="p0.c0.high"]', "80")
    page.wait_for_selector("#epsilon")
    page.close()


def values(page: Any, kind: str) -> dict[str, float]:
    found: list[list[str]] = page.evaluate(
        "k => [...document.querySelectorAll(`[data-${k}]`)].map((e) => [e.getAttribute(`data-${k}`), e.dataset.value])",
        kind,
    )
    return {name: float(value) for name, value in found}


def test_numbers_are_those_of_the_command_line(server: Server, run: Run, chromium: Any, tmp_path: Path) -> None:
    place = released(server, run)
    page = new_page(chromium, [])
    told = run("report", place, "--json").json
    page.goto(f"{server.address}{RELEASE}?x.savings=900&x.hours=55&x.job=smith")
    assert values(page, "encoded") == {**told["coefficients"], "intercept": told["intercept"]}
    assert any(one["reliable"] for one in told["conf_int"])
    # What-if is what predict says of such a record.
    (tmp_path / "one.csv").write_text("savings,hours,job\n900,55,smith\n")
    assert run("solve", place, "--out", tmp_path / "model.json").code == 0
    scored = run("predict", tmp_path / "model.json", "--data", tmp_path / "one.csv")
    probability = float(next(csv.DictReader(scored.out.splitlines()))["probability"])
    assert list(values(page, "answer").values()) == [pytest.approx(probability, rel=1e-12)]
    # Tables and rows.
    page.goto(f"{server.address}{RELEASE}/tables?a=job")
    margin = run("tables", place, "job", "--json").json["margins"][0]
    assert values(page, "count") == dict(zip(margin["levels"], margin["count"], strict=True))
    assert run("synthesize", place, "--rows", 40, "--out", tmp_path / "rows.csv").code == 0
    status, text, headers = server.ask(server.at(f"/{RELEASE}/rows.csv?count=40"))
    assert (
        status == 200 and text == (tmp_path / "rows.csv").read_text() and "attachment" in headers["content-disposition"]
    )
    # Ledgers and budgets, and the curve at another epsilon.
    page.goto(server.address + "ledgers")
    booked = run("ledger", "show", server.folder / "bank.ledger", "--json").json["accounts"][0]["spent"]["epsilon"]
    assert values(page, "spent") == {"bank.ledger": booked}
    server.ask(server.at("/open"), {"name": "study.toml"})
    page.goto(server.address + "curve")
    shares = values(page, "share")
    (tmp_path / "study.toml").write_text(KEPT.replace("epsilon = 40.0", "epsilon = 20.0"))
    other = run("plan", tmp_path / "study.toml", "--json").json
    (near,) = [share for epsilon, share in shares.items() if abs(float(epsilon) - other["epsilon"]) < 1e-6]
    assert near == other["forecast"]["explained"]
    page.close()


def test_negotiation_starts_from_the_present_split(server: Server, run: Run, chromium: Any) -> None:
    server.ask(server.at("/open"), {"name": "study.toml"})
    told = run("plan", server.folder / "study.toml", "--json").json
    present = {name: epsilon_text(p["epsilon"]["outsider"]) for name, p in told["parties"].items()}
    for script in (True, False):
        page = new_page(chromium, [], java_script_enabled=script)
        page.goto(server.address)
        page.check('input[name="budget"][value="parties"]')
        if not script:
            page.click("text=Compute the plan")
        page.wait_for_selector("#negotiation")
        offered = {name: page.input_value(f'input[name="p{i}.epsilon"]') for i, name in enumerate(("works", "bank"))}
        assert offered == present
        page.close()
        server.ask(server.at("/open"), {"name": "study.toml"})


def test_the_question_spends_nothing_and_names_the_ledgers(server: Server, run: Run) -> None:
    server.ask(server.at("/open"), {"name": "study.toml"})
    before = run("ledger", "show", server.folder / "bank.ledger", "--json").json if released(server, run) else {}
    policy = server.folder / "bank.policy"
    status, text, _ = server.ask(server.at("/run/ask"), {"release": "asked.json"})
    assert status == 200 and "may spend at most epsilon=60" in text and "Run and spend" not in text
    policy.write_text(POLICY.replace("epsilon = 60.0", "epsilon = 600.0"))
    status, text, _ = server.ask(server.at("/run/ask"), {"release": "asked.json"})
    policy.write_text(POLICY)
    assert (
        status == 200
        and "Run and spend" in text
        and "Spend epsilon" in text
        and "Spend without a policy and a ledger of works" in text
    )
    assert not (server.folder / "asked.json").exists()
    assert run("ledger", "show", server.folder / "bank.ledger", "--json").json == before
    told = run("plan", server.folder / "study.toml", "--json").json["spending"]["bank"]
    assert epsilon_text(told["after"]) in text and epsilon_text(told["before"]) in text


def test_a_refusal_is_a_page_with_a_way_on(server: Server, run: Run) -> None:
    released(server, run)
    for path in ("rows?count=0", "rows?count=x", "tables?a=job&b=job", "?label=nothing", "?x.hours=many"):
        status, text, _ = server.ask(server.at(f"/{RELEASE}/{path}" if path[0] != "?" else f"/{RELEASE}{path}"))
        assert status == 422 or "b=job" in path, path
        assert "Ledgers</a>" in text and "Traceback" not in text


def workspace_of(folder: Path) -> Workspace:
    write_study(folder, 60)
    (folder / "bank.policy").write_text(POLICY)
    (folder / "study.toml").write_text(KEPT)
    space = Workspace(folder)
    space.open("study.toml")
    return space


def test_a_run_can_be_cancelled_and_spends_nothing(tmp_path: Path, run: Run) -> None:
    space = workspace_of(tmp_path)
    job = StudioRun(space.guarded_study(), tmp_path / "release.json", unbooked=True)
    job.cancel()
    job.work()
    assert job.done and "cancelled before anything was booked" in job.error
    assert not (tmp_path / "release.json").exists()
    assert run("ledger", "show", tmp_path / "bank.ledger", "--json").json["accounts"] == []
    late = StudioRun(space.guarded_study(), tmp_path / "late.json", unbooked=True)
    watched = late.step

    def cancel_at_submit(step: str, share: float) -> None:
        if step == "submit":
            late.cancel()
        watched(step, share)

    late.step = cancel_at_submit  # type: ignore[method-assign]
    late.work()
    assert not late.error and (tmp_path / "late.json").exists()
    assert any("too late to cancel" in note for note in late.notes), "what is booked is released"


def test_two_plans_side_by_side(tmp_path: Path) -> None:
    space = workspace_of(tmp_path)
    assert choices(space) == [PRESENT, "study.toml"]
    space.kept = json.loads(json.dumps(space.content))
    space.content["study"]["epsilon"] = 20.0
    found = compared(space, KEPT_PLAN, PRESENT)
    rows = {row["name"]: row for row in found["rows"]}
    plans = [panel_context(space, content)["plan"] for content in (space.kept, space.content)]
    assert rows["epsilon of a record"]["values"] == [epsilon_text(plan["epsilon"]) for plan in plans]
    assert rows["[study] epsilon"] == {"name": "[study] epsilon", "values": ["40.0", "20.0"], "differs": True}
    assert not rows["records"]["differs"] and "[study] name" not in rows
    del space.content["study"]["label"]
    assert compared(space, KEPT_PLAN, PRESENT)["sides"][1]["refused"]


@pytest.mark.parametrize(
    ("party", "field"),
    [
        ({"columns": {"x": {"kind": "numeric", "high": 1}}}, "p0.c0.low"),
        ({"columns": {"x": {"kind": "numeric", "low": 2, "high": 1}}}, "p0.c0.low"),
        ({"columns": {"low": {"kind": "numeric", "low": 0, "high": 1, "fill": 7}}}, "p0.c0.fill"),
        ({"columns": {"x": {"kind": "numeric", "low": 0, "high": 1, "bins": [9]}}}, "p0.c0.bins"),
        ({"columns": {"levels": {"kind": "categorical", "levels": ["one"]}}}, "p0.c0.levels"),
        ({"columns": {"x": {"kind": "date", "earliest": "1", "latest": "2020-01-01"}}}, "p0.c0.earliest"),
        ({"columns": {"x": {"kind": "kind"}}}, "p0.c0.kind"),
        ({"columns": {"x": {"kind": "boolean", "fil": 1}}}, "p0.c0.name"),
        ({"columns": {}}, "p0.name"),
        ({"columns": {"x": {"kind": "boolean"}}, "id": "?"}, "p0.id"),
        ({"columns": {"x": {"kind": "boolean"}}, "norm": "long"}, "p0.norm"),
    ],
)
def test_a_mistake_stands_at_its_field(tmp_path: Path, party: dict[str, Any], field: str) -> None:
    """By the key that the error is about: columns here are called as keys are."""
    right = {"id": "i", "columns": {"y": {"kind": "boolean"}}}
    study = {"name": "s", "task": "logistic", "label": "b.y", "epsilon": 1.0}
    content = {"study": study, "party": {"a": {"id": "i", **party}, "b": right}}
    faults = panel_context(Workspace(tmp_path, content), content)["faults"]
    assert list(faults) == [field], faults
    del content["party"]["b"]["id"]
    assert "p1.id" in panel_context(Workspace(tmp_path, content), content)["faults"]
    assert field_of(content, ("party", "c")) == field_of(content, ()) == ""
    assert field_of(content, ("study", "epsilon")) == "study.epsilon"


@pytest.mark.parametrize(("explained", "accuracy"), [(0.0, 0.5), (0.5, 0.8413), (0.2, 0.6915)])
def test_accuracy_of_a_share(explained: float, accuracy: float) -> None:
    """With r explained, the classes lie 2 sqrt(r / (1 - r)) apart; at 0.5 that is one deviation to either side."""
    assert accuracy_of(explained) == pytest.approx(accuracy, abs=1e-4)

"""Names that are markup: every page shows them as texts, and has the elements that it has with plain names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from colonnade.analysis.released import Released
from colonnade.analysis.tables import Tables
from colonnade.check import Checked, CheckItem
from colonnade.consent.ledger import Ledger
from colonnade.data.table import table_from
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Schema
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import ReleaseRecord, write_release
from colonnade.planning.agreement import Agreement, Organisation
from colonnade.planning.session_plan import plan_session
from colonnade.report.answers.crosstables import crosstables
from colonnade.report.cost import expected_cost
from colonnade.report.html import answer_page, plan_page, release_page
from colonnade.simulation import run_unguarded
from colonnade.studio.pages import Studio
from colonnade.studio.panel import panel_context
from colonnade.studio.workspace import Workspace
from tests.helpers.browser import browser, new_page

EVIL = """"'><script>alert(1)</script><img src=x onerror=alert(2)></title></style></textarea><!--{{7*191}}&lt;"""
PLAIN = "plain"
N = 200


@dataclass(frozen=True)
class Names:
    """Every name that a study gives, from one text."""

    text: str

    def of(self, what: str) -> str:
        return f"{what}{self.text}"


def agreement_of(names: Names) -> Agreement:
    levels = [names.of("one"), names.of("two"), names.of("three")]
    schema = Schema.of(
        {
            names.of("bank"): {
                names.of("x"): {"kind": "numeric", "low": 0, "high": 1},
                names.of("job"): {"kind": "categorical", "levels": levels},
            },
            names.of("works"): {
                names.of("z"): {"kind": "numeric", "low": 0, "high": 1, "bins": [0.5]},
                names.of("y"): {"kind": "binary", "levels": [names.of("no"), names.of("yes")]},
            },
        }
    )
    return Agreement.from_terms(names.of("study"), schema, names.of("y"), Task.LOGISTIC, epsilon=200.0, product="plain")


@cache
def release_of(text: str) -> ReleaseRecord:
    names = Names(text)
    agreement, rng = agreement_of(names), np.random.default_rng(1)
    y = rng.random(N) < 0.5
    frames = {
        names.of("bank"): pl.DataFrame(
            {
                names.of("x"): np.clip(0.3 + 0.3 * y + 0.1 * rng.random(N), 0, 1),
                names.of("job"): rng.choice([names.of("one"), names.of("two"), names.of("three")], N),
            }
        ),
        names.of("works"): pl.DataFrame(
            {names.of("z"): rng.random(N), names.of("y"): np.where(y, names.of("yes"), names.of("no"))}
        ),
    }
    tables = {name: table_from(name, frame, agreement.schema.parties[name]) for name, frame in frames.items()}
    return run_unguarded(agreement, tables, "none", Randomness(b"names")).release


class Elements(HTMLParser):
    """Counts a page's elements and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.update([tag, *(f"{tag}.{name}" for name, _ in attrs)])
        if tag == "script":
            self.scripts += [value or "" for name, value in attrs if name == "src"]
        assert not any(name.startswith("on") for name, _ in attrs), (tag, attrs)
        for name, value in attrs:
            if name in ("href", "src", "action", "formaction"):
                assert not (value or "").lower().startswith("javascript:"), value


def elements(page: str) -> Elements:
    parser = Elements()
    parser.feed(page)
    parser.close()
    return parser


def plan(text: str) -> str:
    session = plan_session(agreement_of(Names(text)), N, bytes(32))
    return plan_page(session, expected_cost(session, "none"))


def tables(text: str) -> str:
    found = Tables.of(Released(release_of(text)))
    every, two = crosstables(found, [], 0), crosstables(found, list(found.released.tabular[:2]), 0)
    return answer_page(every, "Tables", "") + answer_page(two, "Tables", "")


PAGES: dict[str, Callable[[str], str]] = {
    "plan": plan,
    "release": lambda text: release_page(release_of(text)),
    "tables": tables,
}


def require_texts_only(evil: str, plain: str) -> None:
    seen, known = elements(evil), elements(plain)
    # A long name may be cut in a picture, and no more.
    assert seen.found == known.found, (seen.found - known.found, known.found - seen.found)
    assert "<script>alert" not in evil and "<img src=x" not in evil and "1337" not in evil
    assert "&lt;script&gt;alert(1)" in evil, "the name is shown"


@pytest.mark.parametrize("page", PAGES)
def test_markup_in_names_stays_text(page: str) -> None:
    require_texts_only(PAGES[page](EVIL), PAGES[page](PLAIN))


def studio_pages(folder: Path, text: str) -> dict[str, str]:
    names = Names(text)
    workspace = Workspace(folder)
    agreement = agreement_of(names)
    workspace.content = {
        "study": {"name": agreement.name, "task": "logistic", "label": agreement.label, "epsilon": 1.0, "note": text},
        "party": {
            party: {"data": names.of("file"), "id": names.of("id"), "columns": columns, names.of("key"): text}
            for party, columns in agreement.schema.to().items()
        },
    }
    (folder / f"{text.replace('/', '')}.json").write_bytes(write_release(release_of(text)))
    Ledger(folder / f"{text.replace('/', '')}.ledger").try_to_write()
    studio = Studio(workspace, "token")
    studio._notice = f"Refused: {text}."
    pages = {}
    for name in ("_study", "_running", "_releases", "_ledgers"):
        pages[name] = bytes(getattr(studio, name)(None, {}).body).decode()
    del workspace.content["study"]["note"]
    for party in workspace.content["party"].values():
        del party[names.of("key")]
    pages["planned"] = bytes(studio._study(None, {}).body).decode()  # type: ignore[arg-type]
    pages["run"] = bytes(studio._running(None, {}).body).decode()  # type: ignore[arg-type]
    file = next(folder.glob("*.json")).name
    crossed = {"a": names.of("job"), "b": names.of("z")}
    for name, query in (
        ("_model", {}),
        ("_tables", crossed),
        ("_rows", {"count": "5"}),
        ("_report", {}),
        ("_compare", {}),
    ):
        asked = SimpleNamespace(path_params={"name": file}, query_params=query)
        pages[name] = bytes(getattr(studio, name)(asked, {}).body).decode()
    # There are no records: what would be found of them, and asked, is shown as if there were.
    asked, context = {"release": text, "approved": text}, panel_context(workspace)
    for name, fault in (("ask", False), ("refused", True)):
        checked = Checked(text, [CheckItem(names.of("bank"), fault, text, text)])
        page = studio._page("ask.html", asked=asked, unkept=[text], checked=checked, **context)
        pages[name] = bytes(page.body).decode()
    pages["sentence"] = bytes(studio._refused(text).body).decode()
    return pages


def test_markup_in_names_stays_text_in_the_studio(tmp_path: Path) -> None:
    folders = tmp_path / "a", tmp_path / "b"
    for folder in folders:
        folder.mkdir()
    evil, plain = studio_pages(folders[0], EVIL), studio_pages(folders[1], PLAIN)
    assert "There is no plan" in evil["_study"] and "There is no plan" not in evil["planned"]
    for name in evil:
        seen, known = elements(evil[name]), elements(plain[name])
        assert seen.found == known.found, name
        assert seen.scripts == ([] if name == "_report" else ["/token/studio.js"]), name
        assert "<script>alert" not in evil[name] and "1337" not in evil[name]


LONG = "W" * 150
"""A word that no line holds."""


def wide_release(text: str, levels: int) -> ReleaseRecord:
    """A release whose bank has a column of many levels."""
    rng, names = np.random.default_rng(2), Names(text)
    found = [f"{names.of('level')}{k}" for k in range(levels)]
    schema = Schema.of(
        {
            names.of("agency"): {names.of("y"): {"kind": "binary", "levels": ["no", names.of("yes")]}},
            names.of("bank"): {names.of("town"): {"kind": "categorical", "levels": found}},
        }
    )
    terms = Agreement.from_terms(
        names.of("study"),
        schema,
        names.of("y"),
        Task.LOGISTIC,
        epsilon=200.0,
        product="plain",
        reason=f"{text} {text}",
        organisations={names.of("bank"): Organisation(names.of("Bank"), names.of("officer"))},
    )
    y = rng.random(N) < 0.5
    frames = {
        names.of("bank"): pl.DataFrame({names.of("town"): rng.choice(found, N)}),
        names.of("agency"): pl.DataFrame({names.of("y"): np.where(y, names.of("yes"), "no")}),
    }
    rows = {name: table_from(name, frame, schema.parties[name]) for name, frame in frames.items()}
    return run_unguarded(terms, rows, "none", Randomness(b"wide")).release


def test_long_words_and_many_levels_leave_the_page_whole(tmp_path: Path) -> None:
    """On a phone, on a desk and on paper nothing sticks out, and no list of levels makes the page endless."""
    complaints: list[str] = []
    for name, text in (("long", LONG), ("evil", EVIL)):
        (tmp_path / f"{name}.html").write_text(release_page(wide_release(text, 16)), encoding="utf-8")
    (tmp_path / "many.html").write_text(release_page(wide_release("", 400)), encoding="utf-8")
    with browser() as opened:
        page = new_page(opened, complaints)
        for name in ("long", "evil", "many"):
            page.goto((tmp_path / f"{name}.html").as_uri())
            for width, tall in ((390, 12_000), (1280, 9_000)):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), (name, width)
                height = page.evaluate("() => document.documentElement.scrollHeight")
                assert name != "many" or height < tall, (name, width)
            # The room between the margins of A4, and details open as they are on paper.
            page.set_viewport_size({"width": 680, "height": 900})
            page.emulate_media(media="print")
            assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), (name, "paper")
            page.emulate_media(media="screen")
        found = page.locator(".levels li", has_text="level399").first
        assert not found.is_visible(), "folded on a screen"
        page.emulate_media(media="print")
        assert found.is_visible(), "whole on paper"
    assert complaints == []

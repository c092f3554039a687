"""Pieces of pages: pictures whose texts are escaped and whose lengths are in proportion, and words for numbers."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

pytest.importorskip("jinja2")

from colonnade.foundation.schema import Binary, Categorical, Numeric
from colonnade.report.charts import Bar, IntervalBar, bars, curve, signed_bars, whiskers
from colonnade.report.html import LONGEST_LEVELS, environment, odds_text, views_of
from colonnade.report.results import finite

HOSTILE = "<script>\"&'"
SVG = "{http://www.w3.org/2000/svg}"


def widths(picture: str) -> list[float]:
    return [float(node.attrib["width"]) for node in ElementTree.fromstring(picture).iter(f"{SVG}rect")]


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [
        (None, "no limit"),
        (0.0, "×1"),
        (0.5, "×1.65"),
        (1.0, "×2.72"),
        (50.0, "no useful limit"),
        (1e9, "no useful limit"),
    ],
)
def test_odds_are_rounded_up(epsilon: float | None, text: str) -> None:
    assert odds_text(epsilon) == text


@pytest.mark.parametrize(
    ("column", "kind", "facts"),
    [
        (Numeric(0.0, 80.0), "numeric", "0 to 80"),
        (Numeric(0.0, 80.0, bins=(20.0, 40.0)), "numeric, binned", "0 to 80, cut at 20, 40"),
        (Binary(("no", "yes")), "binary", "no, yes"),
        (Categorical(("a", "b", "c")), "categorical", "a, b, c"),
    ],
)
def test_columns_in_words(column: Numeric | Binary | Categorical, kind: str, facts: str) -> None:
    assert (column.noun, column.describe(LONGEST_LEVELS)) == (kind, facts)


def test_many_levels_are_cut() -> None:
    text = Categorical(tuple(f"level{k}" for k in range(100))).describe(LONGEST_LEVELS)
    more = re.search(r" and (\d+) more$", text)
    assert more is not None and text.count("level") + int(more[1]) == 100


def test_one_party_has_no_other_to_look() -> None:
    plan = {"parties": {"a": {}, "b": {}}, "collusion": 1, "product": "lattice"}
    assert [view["view"] for view in views_of(plan)] == ["outsider", "server", "party", "coalition"]
    assert [view["view"] for view in views_of({**plan, "parties": {"a": {}}})] == ["outsider", "server"]
    assert "in the clear" in views_of({**plan, "product": "plain"})[1]["sees"]
    assert "encrypted or masked" in views_of(plan)[1]["sees"]


def test_bars_are_in_proportion_and_a_missing_number_is_no_bar() -> None:
    items = [Bar("a", 1.0, "one", "a is one"), Bar("b", 2.0, "two", "b is two"), Bar("c", None, "no number", "none")]
    found = widths(bars([("group", items)], "title", "told"))
    assert found[1] == pytest.approx(2 * found[0]) and found[2] == pytest.approx(found[1], rel=0.01)
    assert 'class="none"' in bars([("", items[2:])], "title", "told")


def test_signed_bars_leave_zero_to_both_sides() -> None:
    items = [Bar("up", 2.0, "+2", "up"), Bar("down", -1.0, "-1", "down")]
    root = ElementTree.fromstring(signed_bars(items, "title", "told"))
    up, down = (node.attrib for node in root.iter(f"{SVG}rect"))
    zero = float(next(root.iter(f"{SVG}line")).attrib["x1"])
    assert float(up["x"]) == pytest.approx(zero)
    assert float(down["x"]) + float(down["width"]) == pytest.approx(zero, abs=0.1)


def test_whiskers_hold_zero_and_round_ticks() -> None:
    picture = whiskers(
        [IntervalBar("a", 0.31, 0.92, 0.6, None, "a"), IntervalBar("b", 0.5, 1.8, 1.0, 1.2, "b")], "t", "d"
    )
    assert re.findall(r'class="tick"[^>]*>([^<]*)<', picture) == ["0", "0.5", "1", "1.5", "2"]
    assert picture.count('class="other"') == 1


def test_whiskers_hold_their_second_marks_and_nothing_at_all() -> None:
    picture = whiskers([IntervalBar("a", 0.5, 0.6, 0.55, 3.0, "a")], "t", "d")
    assert re.findall(r'class="tick"[^>]*>([^<]*)<', picture)[-1] == "3"
    assert "whisker" in whiskers([IntervalBar("a", 0.0, 0.0, 0.0, None, "a")], "t", "d")


def test_a_curve_marks_the_present_epsilon_only_where_it_is_shown() -> None:
    points = [(0.1, 0.2), (1.0, 0.6), (10.0, 0.9)]
    assert 'class="here"' in curve(points, 1.0, "t", "d")
    assert 'class="here"' not in curve(points, 100.0, "t", "d")


def test_names_from_files_are_escaped_everywhere() -> None:
    bar = Bar(HOSTILE, 1.0, HOSTILE, HOSTILE)
    whisker = IntervalBar(HOSTILE, -1.0, 1.0, 0.0, None, HOSTILE)
    for picture in (
        bars([(HOSTILE, [bar])], HOSTILE, HOSTILE),
        signed_bars([bar], HOSTILE, HOSTILE),
        whiskers([whisker], HOSTILE, HOSTILE),
    ):
        assert "<script" not in picture
        ElementTree.fromstring(picture)
    assert environment().from_string("{{ name }}").render(name=HOSTILE) == "&lt;script&gt;&#34;&amp;&#39;"


def test_json_has_no_infinity() -> None:
    assert finite({"a": [1.0, float("inf"), {"b": float("nan")}], "c": "x"}) == {
        "a": [1.0, None, {"b": None}],
        "c": "x",
    }

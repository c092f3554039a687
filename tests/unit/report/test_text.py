"""Numbers and sentences of reports: rounded in the safe direction, and said in words that a reader knows."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console, RenderableType

from colonnade.foundation.schema import Binary, Categorical, Numeric
from colonnade.planning.prediction import Prediction
from colonnade.report.answers.fit import traffic
from colonnade.report.answers.plan import columns_of, epsilons_of
from colonnade.report.render.terminal import shown as rendered
from colonnade.report.render.terminal import table_text
from colonnade.report.results import Answer
from colonnade.report.text import (
    epsilon_text,
    flaws,
    forecast_text,
    opened_scores_text,
    share_text,
    size_text,
    time_text,
)

EPSILONS = {"outsider": 1.0, "server": 1.5, "party": None, "coalition": 2.0}


def shown(part: RenderableType) -> str:
    console = Console(width=110, color_system=None, force_terminal=False)
    with console.capture() as taken:
        console.print(part)
    return taken.get()


def plan_of(*parties: str) -> dict[str, Any]:
    return {"parties": {p: {"columns": ["x", "y"], "epsilon": EPSILONS} for p in parties}, "record": EPSILONS}


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "none"), (1.0, "1"), (0.1, "0.1"), (1.00001, "1.001"), (0.123401, "0.1235"), (2e-7, "0.0000002")],
)
def test_an_epsilon_is_never_rounded_down(value: float | None, text: str) -> None:
    assert epsilon_text(value) == text
    assert value is None or float(text) >= value


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (999_499, "999 kB"), (999_600, "1 MB"), (5e12, "5e+03 GB")],
)
def test_sizes(count: float, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "0.012 s"), (9.4, "9.4 s"), (42.4, "42 s"), (90, "2 min"), (7200, "2 h"), (3 * 86400, "3 days")],
)
def test_times(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


@pytest.mark.parametrize(("share", "text"), [(1.0, "over 99%"), (0.42, "about 42%"), (0.0, "under 1%")])
def test_a_forecast_is_never_all_or_nothing(share: float, text: str) -> None:
    assert share_text(share) == text


def test_a_missing_guarantee_is_named_and_a_view_that_nobody_has_is_not() -> None:
    both, one = plan_of("works", "bank"), plan_of("works")
    several, alone = (shown(table_text(epsilons_of(plan))) for plan in (both, one))
    assert several.count("none") == 3 and "none" not in alone
    assert "a whole record" in several and "another party" in several and "another party" not in alone


def test_the_label_is_marked_and_a_long_list_is_cut() -> None:
    plan = plan_of("works")
    assert "y (label)" in shown(table_text(columns_of(plan, "works.y")))
    plan["parties"]["works"]["columns"] = [f"c{k}" for k in range(40)]
    text = shown(table_text(columns_of(plan, "works.c0")))
    assert "and 20 more" in " ".join(text.split()) and "c20" not in text


def test_a_forecast_says_what_it_takes_for_granted() -> None:
    """1 / (1 + 1.1 / 1.1 * 7 / 3) = .3 and 1 / (1 + 1.1 / 1.1 * 3 / 7) = .7."""
    plan = {"task": "logistic", "forecast": {"if_a_tenth": {"noise_to_signal": 1.1}}}
    text = forecast_text(plan)
    assert (
        text.startswith("the model explains 30% to 70% of what it would without noise") and "one class is rare" in text
    )
    # A class of a tenth has .36 of the variance of two halves: noise counts 1 / .36 ** .75 = 2.152 times as much.
    rare = forecast_text(plan | {"class_share": [0.1, 0.1]})
    assert rare.startswith("the model explains 17% to 52% of") and "with a class share of 0.1" in rare
    loud, soft = (plan | {"forecast": {"if_a_tenth": {"noise_to_signal": r}}} for r in (90.0, 0.01))
    assert "explains at most 3% of" in forecast_text(loud) and "explains at least 98% of" in forecast_text(soft)
    assert forecast_text({"task": "linear", "forecast": {"if_a_tenth": {"noise_to_signal": None}}}) == ""


def test_what_takes_a_guarantee_away_is_said() -> None:
    assert flaws({"seeded": False, "simulation": False}) == []
    both = flaws({"seeded": True, "simulation": True, "agreement": {"product": "plain"}})
    assert ["seed" in both[0], '"plain"' in both[1]] == [True, True]


def test_traffic_says_whether_matching_is_counted() -> None:
    parts = ({"bank": 1500}, {"bank": 20}, {"products": 1.0, "open": 0.25})
    text = shown(rendered(Answer("", traffic(*parts, matched=False))))
    assert "1.5 kB" in text and "1.2 seconds: products 1.00 s, open 0.25 s." in text
    assert "matching ids are in the table" in shown(rendered(Answer("", traffic(*parts, matched=True))))


@pytest.mark.parametrize(
    ("others", "whose"), [(("bank",), "the part of bank"), (("bank", "town"), "the sum of the parts of bank, town")]
)
def test_whoever_opens_scores_is_said_to_learn_the_others_parts(others: tuple[str, ...], whose: str) -> None:
    columns = {
        "works": {"hours": Numeric(0.0, 80.0)},
        "bank": {"kind": Categorical(("a", "b", "c"))},
        "town": {"owner": Binary(("no", "yes"))},
    }
    prediction = Prediction("0" * 64, "works", {name: columns[name] for name in ("works", *others)})
    text = opened_scores_text(prediction, 1234)
    assert text.startswith("works opened the exact score of each of 1,234 records")
    assert f"learn {whose}. Nobody else" in text

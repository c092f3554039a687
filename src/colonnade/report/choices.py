"""What else a study could release, and what other terms would buy: forecasts from public facts, nothing is spent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from colonnade.foundation.errors import ColonnadeError
from colonnade.mechanism.forecast import Share, best_columns, forecast
from colonnade.mechanism.moments import Encoding, Role
from colonnade.mechanism.objective import Calibration, Purpose, Task
from colonnade.mechanism.plan import PrivacyPlan
from colonnade.mechanism.table_error import TableForecast
from colonnade.planning.agreement import Agreement
from colonnade.planning.query import ASKED, Auto, Label, Margins, Traced
from colonnade.planning.session_plan import SessionPlan, draft_plan, plan_session
from colonnade.report.results import Heading, Listing, Part, Passage, Words
from colonnade.report.text import range_text

TINY_DELTA = 1e-12
"""So small a delta that nobody would call it a risk: one chance in a million million."""


@dataclass(frozen=True)
class Choice:
    """One release that the study could make."""

    release: str
    label_noise: float
    """Standard deviation of the noise on a released product with the label; the largest, where they differ."""
    explained: float | None = None
    """The middle of what noise leaves to the planned release; of others, pairs would have to be weighed, too."""


@dataclass(frozen=True)
class Alternative:
    """The same study under one changed term."""

    term: str
    release: str
    label_noise: float
    ratio: float
    """Of its label noise to the plan's."""
    left: Share | None
    """What that noise leaves, where the same products are released."""
    caution: str = ""

    def describe(self) -> dict[str, Any]:
        """The same as one JSON object."""
        told = {key: value for key, value in vars(self).items() if key != "left"}
        left = self.left
        return told | {"explained": left and left.middle, "explained_range": left and [left.low, left.high]}


@dataclass(frozen=True)
class Options:
    """What a study could release besides, and under other terms: each is planned once."""

    session: SessionPlan

    @cached_property
    def choices(self) -> list[Choice]:
        """The planned release first, then the others."""
        session, agreement, rows = self.session, self.session.agreement, self.session.rows
        out = [Choice(session.released, _label_noise(session.plan), session.forecast.explained)]
        if not _chosen(agreement):
            return out
        features = [a for a in session.plan.layout.attributes if a.role is Role.FEATURE]
        numeric = all(a.kind is Encoding.SIGNED for a in features)
        for release in ("full", "label", *(["trace"] if numeric else [])):
            if release != session.released:
                plan = draft_plan(agreement.with_terms(release=release, pairs=()), rows)[1]
                out.append(Choice(release, _label_noise(plan)))
        return out

    @cached_property
    def alternatives(self) -> list[Alternative]:
        """What a tiny delta, and no collusion, would buy; and fewer columns, where the noise exceeds many of them."""
        session = self.session
        agreement, noise = session.agreement, _label_noise(session.plan)
        changed: list[tuple[str, Agreement, str]] = []
        if agreement.delta == 0 and agreement.calibration is Calibration.EXACT:
            changed.append((f"delta = {TINY_DELTA:g}", replace(agreement, delta=TINY_DELTA), ""))
        if session.plan.collusion > 0 and any(not i.block.single for i in session.plan.blocks):
            caution = (
                "a party, which knows its share of the noise, then sees more than this epsilon"
                if session.plan.law.stable
                else "there is then no guarantee against a party, which knows its share of the noise"
            )
            changed.append(("collusion = 0", replace(agreement, collusion=0), caution))
        out = []
        for term, other, caution in changed:
            query, plan = draft_plan(other, session.rows)
            found, alike = _label_noise(plan), query.word == session.released
            left = forecast(plan, session.rows, classes=agreement.classes).left if alike else None
            out.append(Alternative(term, query.word, found, found / noise, left, caution))
        return [*out, *_fewer_columns(session)]

    @cached_property
    def why(self) -> str:
        """Why this release, in one sentence."""
        session = self.session
        if session.agreement.query.declared is not None:
            return "the objective needs these products and no others"
        if session.agreement.calibration is Calibration.PAPER:
            return "the paper's calibration releases all products"
        if not isinstance(session.agreement.query, Auto):
            return "the study asks for it"
        if isinstance(session.query, Margins):
            return "tables of two columns would be no nearer to the rows' own than those of independent columns"
        if not _chosen(session.agreement):
            return "the task or the purpose of the study needs it"
        if isinstance(session.query, Label):
            return "pairs of features would be mostly noise, and without them the label's products have less of it"
        if isinstance(session.query, Traced):
            return "the noise on X'X would exceed it, and without X'X there is less on X'y"
        return "products of features are predicted to help more than their noise costs"

    @property
    def facts(self) -> dict[str, Any]:
        """For a JSON object."""
        chosen = {"chosen": self.session.released, "why": self.why, "choices": [vars(c) for c in self.choices]}
        return {"release_choice": chosen, "other_terms": [a.describe() for a in self.alternatives]}

    @property
    def text(self) -> str:
        """The same in sentences."""
        session, (first, *others) = self.session, self.choices
        out = f"Release {first.release} ({session.query.meaning}): {self.why}. It has {_told(first)}"
        for other in others:
            out += f" Release {other.release} ({ASKED[other.release].meaning}) would have {_told(other)}"
        for change in self.alternatives:
            release = f" and release {change.release}" if change.release != session.released else ""
            kept = "" if change.left is None else f", which leaves {range_text((change.left.low, change.left.high))}"
            out += f" With {change.term}{release} that noise would be {change.ratio:.2f} times as large{kept}"
            out += f"; {change.caution}." if change.caution else "."
        return out


def _chosen(agreement: Agreement) -> bool:
    """Whether a plan could choose: the paper, products of several columns, classes or tables leave no choice."""
    for_label = agreement.query.purpose is not Purpose.ALL and agreement.query.evaluated is None
    of_pairs = not agreement.query.higher and agreement.query.declared is None
    alike = agreement.calibration is Calibration.EXACT and agreement.task is not Task.MULTINOMIAL
    return for_label and of_pairs and alike


def _fewer_columns(session: SessionPlan) -> list[Alternative]:
    """Laplace noise on X'y grows with the number of columns: half of them, chosen well, may tell more than all."""
    ratio, columns = session.forecast.noise_to_signal, len(session.plan.layout.features)
    if not isinstance(session.query, Traced) or session.plan.law.norm > 1 or ratio is None:
        return []
    chosen = best_columns(columns, ratio)
    if chosen >= columns:
        return []
    part = chosen / columns
    term = f"{chosen} of the {columns} columns, those that are thought to tell most,"
    return [Alternative(term, session.released, part * _label_noise(session.plan), part, None)]


def _label_noise(plan: PrivacyPlan) -> float:
    """Of a declared objective, which need not have such products, on any of its terms."""
    declared = plan.task is Task.POLYNOMIAL
    labels = [i for i in plan.blocks if declared or (i.block.role is Role.LABEL and not i.block.summed)]
    return max(plan.noise_std(i) for i in labels)


def _told(choice: Choice) -> str:
    where = "a count of the label" if choice.release == "margins" else "a product with the label"
    return f"noise of {choice.label_noise:.4g} on {where}."


ALLOCATED = {
    Purpose.LABEL: "the label's model",
    Purpose.ALL: "tables, synthetic records and models of all columns",
}


@dataclass(frozen=True)
class PurposeForecast:
    """What a plan for one purpose comes to, by public facts."""

    purpose: Purpose
    released: str
    left: Share | None
    expected: float
    independent: float
    chosen: bool

    @property
    def worse(self) -> bool:
        return TableForecast(self.expected, self.independent).worse

    def describe(self) -> dict[str, Any]:
        """The same as one JSON object."""
        return {
            "purpose": self.purpose.value,
            "released": self.released,
            "explained": self.left and self.left.middle,
            "explained_range": self.left and [self.left.low, self.left.high],
            "expected_tv": self.expected,
            "independent_tv": self.independent,
            "rows_worse_than_independent": self.worse,
            "chosen": self.chosen,
        }


def forecast_purposes(session: SessionPlan) -> list[PurposeForecast]:
    """Both purposes, as far as they can be planned; none where fewer than two columns have levels."""
    out = []
    for purpose in Purpose:
        try:
            other = session
            if purpose is not session.agreement.query.purpose:
                other = plan_session(session.agreement.with_terms(purpose=purpose), session.rows, session.identity)
        except ColonnadeError:
            continue
        tables = other.table_forecast
        if tables is not None and other.query.tables:
            left, chosen = other.forecast.left, other is session
            out.append(PurposeForecast(purpose, other.released, left, tables.expected, tables.independent, chosen))
    return out


def purposes_of(found: list[PurposeForecast]) -> list[Part]:
    """The same as a table; nothing where there is none."""
    if not found:
        return []
    columns = (
        Heading("purpose", ("purpose", "chosen"), lambda name, chosen: f"{name} (this plan)" if chosen else name),
        Heading("noise is allocated to", "purpose", lambda name: ALLOCATED[Purpose(name)]),
        Heading("release", "released"),
        Heading("explained", "explained_range", range_text, missing=Words("-")),
        Heading("distance of tables", "expected_tv", "{:.3f}".format, True),
    )
    note = (
        "Explained: of what a model of the label without noise could. Distance: expected total variation of a two-way "
        f"table from the records' own; {found[0].independent:.3f} if columns were taken as independent. Synthetic "
        "records of a release that is no nearer are refused. Levels are taken to be as unequal as 1, 1/2, 1/3, and "
        "columns to depend on each other as in census tables."
    )
    return [Listing(columns, [line.describe() for line in found], "What it is good for"), Passage(note, "soft")]

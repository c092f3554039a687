"""The same study planned under other terms: epsilon, delta, collusion, release, rows, bounds or bins, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.foundation.schema import Schema, column_from, column_to
from colonnade.foundation.shown import shown
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.session_plan import SessionPlan, plan_session
from colonnade.report.text import epsilon_text, share_text, tidy_table, titled

TERMS = ("epsilon", "delta", "collusion", "release", "product", "label_square")
COLUMN_TERMS = ("bounds", "bins")
MOST_PLANS = 200


@dataclass(frozen=True)
class PlanVariant:
    """One plan among several, or why there is none under its terms."""

    changed: Mapping[str, str]
    """What it has instead of the study's own terms, as texts."""
    session: SessionPlan | None
    refused: str = ""

    @property
    def explained(self) -> float | None:
        """The share of what could be explained that is expected to survive the noise."""
        return None if self.session is None else self.session.forecast.explained

    def describe(self) -> dict[str, Any]:
        """For programs."""
        out: dict[str, Any] = {"changed": dict(self.changed), "refused": self.refused or None}
        if self.session is not None:
            forecast = self.session.describe()["forecast"]
            out |= {"n": self.session.rows, "epsilon": self.session.plan.epsilon, "delta": self.session.plan.delta}
            out |= {"collusion": self.session.plan.collusion, "released": self.session.released}
            out |= {key: forecast[key] for key in ("noise_to_signal", "explained", "rows_needed")}
            out |= {"terms_digest": self.session.terms, "warnings": list(self.session.warnings())}
        return out


def compare_plans(agreement: Agreement, rows: int, changes: Mapping[str, Any]) -> list[PlanVariant]:
    """A plan for each combination of the values that are named. No data is touched and nothing is spent.

    `changes` maps one of TERMS, or "rows", to a list of values, and "bounds" or "bins" to {column: list of values}:
    (low, high), or cut points.
    """
    lists: list[list[tuple[str, str | None, Any]]] = []
    for key, values in changes.items():
        if key in COLUMN_TERMS:
            if not isinstance(values, Mapping):
                raise StudyError(f"{key} are compared by column, as {{column: [...]}}, got {shown(values)}")
            lists += [[(key, column, value) for value in _listed(f"{key} of {column}", own)]
                      for column, own in values.items()]  # fmt: skip
        elif key in (*TERMS, "rows"):
            lists.append([(key, None, value) for value in _listed(key, values)])
        else:
            known = ", ".join((*TERMS, "rows", *COLUMN_TERMS))
            raise StudyError(f"plans can be compared by {known}, got {key!r}")
    count = 1
    for choices in lists:
        count *= len(choices)
    if not lists or count > MOST_PLANS:
        raise StudyError(f"a comparison has 1 to {MOST_PLANS} plans, got {count if lists else 0}")
    return [_variant(agreement, rows, chosen) for chosen in product(*lists)]


def _listed(what: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise StudyError(f"{what} must be a list of values to compare, got {shown(values)}")
    return list(values)


def _variant(agreement: Agreement, rows: int, chosen: Sequence[tuple[str, str | None, Any]]) -> PlanVariant:
    told = {key if column is None else f"{key} of {column}": _told(value) for key, column, value in chosen}
    try:
        for key, column, value in chosen:
            if key == "rows":
                rows = value
            elif column is None:
                agreement = _with_term(agreement, key, value)
            else:
                agreement = replace(agreement, schema=_with_column(agreement.schema, column, key, value))
        return PlanVariant(told, plan_session(agreement, rows, bytes(32)))
    except ColonnadeError as error:
        return PlanVariant(told, None, str(error))


def _told(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_told(v) for v in value) or "none"
    return f"{value:g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def _with_term(agreement: Agreement, key: str, value: Any) -> Agreement:
    if key == "epsilon" and agreement.epsilon is None:
        raise StudyError("every party of this study states its own epsilon, so that there is none to compare")
    changed: dict[str, Any] = {key: value}
    return replace(agreement, **changed)


def _with_column(schema: Schema, reference: str, key: str, value: Any) -> Schema:
    party, name = schema.find(reference)
    declared = column_to(schema.parties[party][name])
    if declared["kind"] != "numeric":
        raise StudyError(f"{key} are those of numeric columns, got column {name}, which is {declared['kind']}")
    if key == "bins":
        declared["bins"] = list(value)
    elif isinstance(value, (list, tuple)) and len(value) == 2:
        declared["low"], declared["high"] = value
    else:
        raise StudyError(f"bounds of {name} are pairs (low, high), got {shown(value)}")
    columns = {**schema.parties[party], name: column_from(name, declared)}
    return replace(schema, parties={**schema.parties, party: columns})


def comparison_heads(found: Sequence[PlanVariant]) -> list[str]:
    """The heads of a comparison's columns."""
    return [*found[0].changed, "record epsilon", "noise/signal", "survives", "rows needed", "note"]


def comparison_cells(one: PlanVariant) -> list[str]:
    """A plan's cells, in the order of the heads."""
    if one.session is None:
        return [*one.changed.values(), "", "", "", "", one.refused]
    forecast = one.session.describe()["forecast"]
    noise, share, needed = (forecast[key] for key in ("noise_to_signal", "explained", "rows_needed"))
    notes = one.session.warnings()
    more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
    return [
        *one.changed.values(),
        epsilon_text(one.session.plan.epsilon),
        "" if noise is None else f"{noise:.3g}",
        "" if share is None else share_text(share),
        "" if needed is None else f"{needed:,}",
        f"{notes[0]}{more}" if notes else "",
    ]


def comparison_text(found: Sequence[PlanVariant]) -> RenderableType:
    """A line for each plan."""
    heads, changed = comparison_heads(found), len(found[0].changed)
    table = tidy_table(*heads, right=range(changed, changed + 4))
    for one in found:
        table.add_row(*map(Text, comparison_cells(one)))
    note = "Forecasts from public facts alone: if numbers fill their bounds evenly and all levels are equally common."
    return titled("Plans side by side", table, Text(note, style="dim"))

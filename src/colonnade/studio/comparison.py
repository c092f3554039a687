"""Two plans side by side: the study as it stands, one that was kept, or a study file of the folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from colonnade.report.html import odds_text
from colonnade.report.text import epsilon_text, left_of, range_text, size_text, time_text
from colonnade.studio.form import USUAL, Content, table
from colonnade.studio.panel import panel_context
from colonnade.studio.workspace import Workspace

STATED = {"[study] delta": "0", **{f"[study] {key}": text for key, text in USUAL.items()}}
"""What holds where a study says nothing; the form writes it out."""
PRESENT, KEPT = "the study as it stands", "the plan that was kept"


def choices(workspace: Workspace) -> list[str]:
    """What can be compared."""
    return [PRESENT, *([KEPT] if workspace.kept is not None else []), *workspace.files(".toml")]


def content_of(workspace: Workspace, name: str) -> Content:
    """The study that a choice means."""
    if name == KEPT and workspace.kept is not None:
        return workspace.kept
    return workspace.content if name == PRESENT else workspace.read(name)


def compared(workspace: Workspace, first: str, second: str) -> dict[str, Any]:
    """The terms and numbers of both, row by row; a row that differs is marked."""
    sides = [panel_context(workspace, content_of(workspace, name)) for name in (first, second)]
    if any(side["refused"] for side in sides):
        return {"sides": sides, "rows": []}
    rows = []
    for name, read in _numbers(sides).items():
        values = [read(side) for side in sides]
        rows.append({"name": name, "values": values, "differs": values[0] != values[1]})
    rows += _terms(*(content_of(workspace, name) for name in (first, second)))
    return {"sides": sides, "rows": rows}


def _numbers(sides: list[dict[str, Any]]) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    parties = dict.fromkeys(name for side in sides for name in side["plan"]["parties"])

    def part(name: str) -> Callable[[Mapping[str, Any]], str]:
        def read(side: Mapping[str, Any]) -> str:
            party = side["plan"]["parties"].get(name)
            return "–" if party is None else epsilon_text(party["epsilon"]["outsider"])

        return read

    return {
        "epsilon of a record": lambda side: epsilon_text(side["plan"]["epsilon"]),
        "odds change by at most": lambda side: odds_text(side["plan"]["epsilon"]),
        **{f"epsilon of {name}'s part": part(name) for name in parties},
        "noise against signal": lambda side: _figure("{:.4g}".format, side["plan"]["forecast"]["noise_to_signal"]),
        "left by the noise": lambda side: _figure(range_text, left_of(side["plan"])),
        "records": lambda side: f"{side['plan']['n']:,}",
        "sent by all": lambda side: size_text(side["cost"].total),
        "CPU time of all": lambda side: time_text(sum(side["cost"].seconds.values())),
        "warnings": lambda side: str(len(side["warnings"])),
    }


def _figure(write: Callable[[Any], str], figure: object) -> str:
    """Margins alone predict no model."""
    return "–" if figure is None else write(figure)


def _terms(first: Content, second: Content) -> list[dict[str, Any]]:
    """Terms and declared facts that differ, as the study files write them."""
    flat = [_flat(first), _flat(second)]
    out = []
    for name in dict.fromkeys([*flat[0], *flat[1]]):
        values = [found.get(name, STATED.get(name, "–")) for found in flat]
        if values[0] != values[1]:
            out.append({"name": name, "values": values, "differs": True})
    return out


def _flat(content: Content) -> dict[str, str]:
    out = {f"[study] {key}": str(value) for key, value in table(content.get("study")).items()}
    for party, declared in table(content.get("party")).items():
        for key, value in table(declared).items():
            if key == "columns":
                out |= {f"{party}.{name}": _told(facts) for name, facts in table(value).items()}
            else:
                out[f"[party.{party}] {key}"] = str(value)
    return out


def _told(facts: object) -> str:
    return ", ".join(f"{key} {value}" for key, value in table(facts).items())

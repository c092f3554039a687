"""Draws the conversation into docs/protocol.md, its tables into csv files beside: `python docs/write_protocol.py`.

A test compares them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.protocol.conversation import PARTY_ROWS, SERVER_ROWS, Event, Transition

PAGE = Path(__file__).with_name("protocol.md")
ENDS = (Event.ERROR, Event.STOP, Event.LOST, Event.END, Event.END_OPENED, Event.REFUSE)
"""In the tables alone: they lead to the end from nearly everywhere."""
ROLES = {"party": PARTY_ROWS, "server": SERVER_ROWS}


def drawn(page: str) -> str:
    """The page with its drawings made anew."""
    for name, rows in ROLES.items():
        start, end = f"<!-- {name} picture -->\n", f"<!-- end of {name} picture -->"
        before, _, rest = page.partition(start)
        _, _, after = rest.partition(end)
        page = f"{before}{start}{picture(rows)}{end}{after}"
    return page


def tables() -> dict[Path, str]:
    """The files of transitions, one for each role."""
    return {PAGE.with_name(f"protocol-{name}.csv"): table(rows) for name, rows in ROLES.items()}


def table(rows: Sequence[Transition[Any]]) -> str:
    """One line for each way to go on; states that go the same way stand together."""
    ways: dict[tuple[Event, str, str, str], list[str]] = {}
    for row in rows:
        after = "the same" if row.state is row.next else row.next.value
        ways.setdefault((row.event, row.asks, row.sends, after), []).append(row.state.value)
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(["state", "event", "asks or notes", "sends", "next"])
    lines.writerows([", ".join(states), event.value, *way] for (event, *way), states in ways.items())
    return out.getvalue()


def picture(rows: Sequence[Transition[Any]]) -> str:
    """The way through, for whoever reads pictures."""
    lines = ["```mermaid", "stateDiagram-v2"]
    for row in rows:
        if row.event not in ENDS and row.state is not row.next:
            lines.append(f"  {row.state.value} --> {row.next.value}: {row.event.value}")
    return "\n".join([*lines, "```"]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for place, text in tables().items():
        place.write_text(text, encoding="utf-8")

"""Draws the conversation's tables into docs/protocol.md: `python docs/write_protocol.py`. A test compares them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from colonnade.protocol.conversation import PARTY_ROWS, SERVER_ROWS, Event, Transition

PAGE = Path(__file__).with_name("protocol.md")
ENDS = (Event.ERROR, Event.STOP, Event.LOST, Event.END, Event.END_OPENED, Event.REFUSE)
"""Drawn in the table alone: they lead to the end from nearly everywhere."""


def drawn(page: str) -> str:
    """The page with its drawings made anew."""
    for name, rows in (("party", PARTY_ROWS), ("server", SERVER_ROWS)):
        for what, text in (("table", table(rows)), ("picture", picture(rows))):
            start, end = f"<!-- {name} {what} -->\n", f"<!-- end of {name} {what} -->"
            before, _, rest = page.partition(start)
            _, _, after = rest.partition(end)
            page = f"{before}{start}{text}{end}{after}"
    return page


def table(rows: Sequence[Transition[Any]]) -> str:
    """One line for each way to go on; states that go the same way stand together."""
    ways: dict[tuple[Event, str, str, str], list[str]] = {}
    for row in rows:
        after = "the same" if row.state is row.next else row.next.value
        ways.setdefault((row.event, row.asks, row.sends, after), []).append(row.state.value)
    lines = ["| state | event | asks or notes | sends | next |", "|---|---|---|---|---|"]
    for (event, asks, sends, after), states in ways.items():
        lines.append(f"| {', '.join(states)} | {event.value} | {asks} | {sends} | {after} |")
    return "\n".join(lines) + "\n"


def picture(rows: Sequence[Transition[Any]]) -> str:
    """The way through, for whoever reads pictures."""
    lines = ["```mermaid", "stateDiagram-v2"]
    for row in rows:
        if row.event not in ENDS and row.state is not row.next:
            lines.append(f"  {row.state.value} --> {row.next.value}: {row.event.value}")
    return "\n".join([*lines, "```"]) + "\n"


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    sys.exit(0 if PAGE.write_text(drawn(page), encoding="utf-8") else 1)

"""A table of results as a file: csv with a header, and markdown that is a function of the csv alone."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from colonnade.foundation.errors import DataError
from docs.sections import publish
from experiments.paper import printed
from experiments.paper.methods import OURS, OURS_LATTICE
from experiments.paper.printed import Printed
from experiments.paper.runner import Finished

RUN, PRINTED = "run", "printed"


@dataclass(frozen=True)
class Row:
    """One cell with the numbers behind it; `source` says whether a run or the paper gave them."""

    source: str
    data: str
    method: str
    privacy: str
    epsilon: float | None
    parties: int
    collusion: int
    metric: str
    mean: float | None
    std: float | None
    runs: int
    note: str = ""
    scores: tuple[float, ...] = ()

    @classmethod
    def of(cls, finished: Finished, metric: str) -> Row:
        cell = finished.cell
        place = (cell.data, cell.method, cell.privacy, cell.epsilon, cell.parties, cell.collusion, metric)
        if not finished.results:
            return cls(RUN, *place, None, None, 0, finished.reason)
        bounded = [result["bounded"] for result in finished.results if "bounded" in result]
        note = f"the noisy objective had a minimum in {sum(bounded):.0f} of {len(bounded)} runs" if bounded else ""
        scores = tuple(float(f"{score:.8g}") for score in finished.scores)
        return cls(RUN, *place, finished.mean, finished.std, len(scores), note, scores)

    @classmethod
    def of_printed(cls, cell: Printed, metric: str) -> Row:
        note = (
            "no ten non-negative numbers have this mean and deviation"
            if metric == "MSE" and printed.impossible(cell)
            else ""
        )
        return cls(PRINTED, cell.data, cell.method, "", cell.epsilon, 1, 0, metric, cell.mean, cell.std, 10, note)


FIELDS = tuple(f.name for f in fields(Row))


@dataclass(frozen=True)
class Document:
    """A header of names and values, and rows."""

    header: Mapping[str, str]
    rows: tuple[Row, ...] = field(default=())

    def csv(self) -> str:
        out = io.StringIO()
        for key, value in self.header.items():
            out.write(f"# {key}: {value}\n")
        writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: _text(v) for k, v in asdict(row).items()} for row in self.rows)
        return out.getvalue()

    @classmethod
    def of_csv(cls, text: str) -> Document:
        lines = text.splitlines()
        start = next((i for i, line in enumerate(lines) if not line.startswith("# ")), len(lines))
        header = dict(line[2:].split(": ", 1) for line in lines[:start])
        reader = csv.DictReader(lines[start:])
        if tuple(reader.fieldnames or ()) != FIELDS:
            raise DataError(f"a results file must have the columns {', '.join(FIELDS)}, got {reader.fieldnames}")
        return cls(header, tuple(_row(entry) for entry in reader))

    def write(self, path: Path) -> None:
        """Write the csv, and its section of the page of results."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.csv(), encoding="utf-8")
        # Read back, so that the page says what the csv says and nothing else.
        text = markdown(Document.of_csv(self.csv()), path.name)
        publish(path.stem, text, beside=path.name, folder=path.parent)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return " ".join(f"{v:.8g}" for v in value)
    return f"{value:.8g}" if isinstance(value, float) else str(value)


def _row(entry: Mapping[str, str]) -> Row:
    def number(key: str) -> float | None:
        return float(entry[key]) if entry[key] else None

    return Row(
        entry["source"],
        entry["data"],
        entry["method"],
        entry["privacy"],
        number("epsilon"),
        int(entry["parties"]),
        int(entry["collusion"]),
        entry["metric"],
        number("mean"),
        number("std"),
        int(entry["runs"]),
        entry["note"],
        tuple(float(score) for score in entry["scores"].split()),
    )


TOLD = ("command", "replicates", "data", "updated", "draws", "numbers")
SHOWN = (2, 1)
"""Parties and collusion of our rows that a page shows; the csv has all."""


def markdown(document: Document, csv_name: str) -> str:
    """Return a section for each data set: rows of methods, columns of epsilon, the paper's cells at the right."""
    out = [f"# {document.header['title']}", ""]
    out += [f"- {key}: {value}" for key, value in document.header.items() if key in TOLD]
    rest = f"other K and c, all scores, seed, versions and digests of code: [{csv_name}]({csv_name})"
    out += [f"- ours: K = {SHOWN[0]}, c = {SHOWN[1]}; {rest}"]
    ran = [row for row in document.rows if row.source == RUN]
    # Without printed cells the means stand on the page elsewhere.
    for data in dict.fromkeys(row.data for row in ran if any(row.source == PRINTED for row in document.rows)):
        printed_cells = [row for row in document.rows if row.source == PRINTED and row.data == data]
        own = [row for row in ran if row.data == data]
        short = [row for row in own if row.method not in (OURS, OURS_LATTICE) or (row.parties, row.collusion) == SHOWN]
        out += ["", f"## {data}, {own[0].metric}", "", *_section(short, printed_cells)]
    return "\n".join(out) + "\n"


def _section(rows: Sequence[Row], beside: Sequence[Row]) -> list[str]:
    epsilons = sorted({row.epsilon for row in rows if row.epsilon is not None})
    sources = list(dict.fromkeys(row.data for row in beside))
    if sources == [rows[0].data]:
        titles = {sources[0]: "printed"}
    else:
        titles = {source: f"printed {source}" for source in sources}
    head = ["method", "privacy", "K", "c", *(f"ε = {e:g}" for e in epsilons)]
    head += [f"{titles[s]}, {e:g}" for s in sources for e in epsilons]
    out = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    notes: dict[str, None] = {}
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.method, row.privacy, row.parties, row.collusion), []).append(row)
    for (method, privacy, parties, collusion), group in groups.items():
        cells = {row.epsilon: row for row in group}
        line = [method, privacy, str(parties), str(collusion)]
        line += [cell_text(cells.get(e, cells.get(None))) for e in epsilons]
        for source in sources:
            own = {row.epsilon: row for row in beside if row.data == source and row.method == _printed_name(method)}
            line += [cell_text(own.get(e, own.get(None))) for e in epsilons]
            notes |= {
                f"printed {source} {r.method}, ε = {_text(r.epsilon)}: {r.note}": None for r in own.values() if r.note
            }
        out.append("| " + " | ".join(line) + " |")
        notes |= {
            f"{method}{f', ε = {r.epsilon:g}' if r.runs and r.epsilon else ''}: {r.note}": None for r in group if r.note
        }
    return [*out, *(["", *(f"- {note}" for note in notes)] if notes else [])]


def _printed_name(method: str) -> str:
    for name in ("FM", "non-private"):
        if method.startswith(name):
            return name
    return method


def cell_text(row: Row | None) -> str:
    """A cell as people read it."""
    if row is None:
        return ""
    if row.mean is None or row.std is None:
        return "not run"
    return f"{_short(row.mean)} ± {_short(row.std)}"


def _short(value: float) -> str:
    return f"{value:.4f}" if value == 0 or not math.isfinite(value) or abs(value) < 10 else f"{value:.4g}"

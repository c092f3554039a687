"""Small studies, one for each way in which a release is answered, with their records; and random agreements.

Only the first release's interfaces are used here, so that `python tests/pins/write_corpus.py` runs on that version too.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from colonnade.studio.form import to_toml

CORPUS = Path(__file__).parent / "corpus"
Content = dict[str, Any]
ROWS = 260
TEN = {"kind": "numeric", "low": 0, "high": 10}
KINDS: Mapping[str, Content] = {
    "number": TEN,
    "cut": {**TEN, "bins": [3, 6]},
    "line": {**TEN, "bins": [3, 6], "model": "number"},
    "whole": {**TEN, "integer": True},
    "three": {"kind": "categorical", "levels": ["r", "g", "b"], "drop": "g"},
    "other": {"kind": "categorical", "levels": ["r", "g"], "other": True, "fill": "r"},
    "yes": {"kind": "binary", "levels": ["no", "yes"]},
    "truth": {"kind": "boolean", "fill": True},
    "day": {"kind": "date", "earliest": "2020-01-01", "latest": "2024-12-31"},
    "days": {"kind": "date", "earliest": "2020-01-01", "latest": "2024-12-31", "bins": ["2021-06-01"]},
}
MIXED = {"a": {"x": "number", "c": "three", "y": "yes"}, "b": {"u": "number", "k": "yes"}, "d": {"v": "cut"}}
NUMBERS = {"a": {"x": "number", "y": "number"}, "b": {"u": "number", "c": "three"}}
LEVELS = {"a": {"c": "three", "y": "yes"}, "b": {"u": "cut", "k": "yes"}}
SQUARES = "(y - w0 - w1*x - w2*u)^2"
STUDIES: Mapping[str, tuple[Content, Mapping[str, Mapping[str, str]]]] = {
    "logistic": ({"task": "logistic", "epsilon": 30.0}, MIXED),
    "line": ({"task": "logistic", "epsilon": 30.0}, {"a": {"x": "line", "y": "yes"}, "b": {"u": "line", "c": "three"}}),
    "linear": ({"task": "linear", "epsilon": 20.0, "label_square": True}, NUMBERS),
    "gaussian": ({"task": "linear", "epsilon": 8.0, "delta": 1e-6}, NUMBERS),
    "trace": ({"task": "linear", "epsilon": 20.0, "release": "trace"}, NUMBERS),
    "label": ({"task": "logistic", "epsilon": 20.0, "release": "label"}, MIXED),
    "margins": ({"task": "logistic", "epsilon": 10.0, "release": "margins", "purpose": "all"}, LEVELS),
    "pairs": (
        {"task": "logistic", "epsilon": 30.0, "release": "pairs", "pairs": [["x", "u"], ["c", "k"]]},
        {"a": {"x": "number", "c": "three", "y": "yes"}, "b": {"u": "number", "k": "yes"}},
    ),
    "tables": ({"task": "logistic", "epsilon": 30.0, "purpose": "all", "impossible": [["c=r", "k=yes"]]}, LEVELS),
    "quartic": (
        {"task": "logistic", "epsilon": 200.0, "order": 4},
        {"a": {"x": "number", "y": "yes"}, "b": {"u": "number"}},
    ),
    "objective": (
        {"task": "polynomial", "epsilon": 100.0, "ball": 3.0, "objective": SQUARES, "parameters": ["w0", "w1", "w2"]},
        {"a": {"x": "number", "y": "number"}, "b": {"u": "number"}},
    ),
    "classes": (
        {"task": "multinomial", "label": "c", "epsilon": 40.0},
        {"a": {"x": "number", "y": "yes"}, "b": {"u": "number", "c": "three"}},
    ),
    "counts": (
        {"task": "linear", "epsilon": 40.0, "label_square": True},
        {"a": {"x": "number", "y": "whole"}, "b": {"u": "number", "c": "three"}},
    ),
    "paper": ({"task": "logistic", "epsilon": 40.0, "calibration": "paper"}, MIXED),
    "products": (
        {"task": "logistic", "epsilon": 60.0, "interactions": [["a.x", "b.u"], ["a.x", "a.c"]]},
        {"a": {"x": "number", "c": "three", "y": "yes"}, "b": {"u": "number"}},
    ),
}
"""Terms and columns, by the way that answers: the logistic one has the ways that are asked for by name, too."""


def content_of(name: str) -> Content:
    """A study as its file has it."""
    terms, kinds = STUDIES[name]
    given: Content = {"name": name, "label": "y", "collusion": 1, "product": "plain", "alignment": "none"}
    return {"study": given | terms, "party": {party: _party(party, columns) for party, columns in kinds.items()}}


def _party(party: str, columns: Mapping[str, str]) -> Content:
    return {"data": f"{party}.csv", "columns": {name: dict(KINDS[kind]) for name, kind in columns.items()}}


def records_of(name: str) -> dict[str, str]:
    """Every party's file: columns that hang together, and a label that follows them."""
    kinds = STUDIES[name][1]
    draw, out = random.Random(name), {party: [",".join(columns)] for party, columns in kinds.items()}
    for _ in range(ROWS):
        common = draw.random()
        for party, columns in kinds.items():
            cells = [
                _cell(draw, kind, common if column == "y" else (common + draw.random()) / 2)
                for column, kind in columns.items()
            ]
            out[party].append(",".join(cells))
    return {party: "\n".join(lines) + "\n" for party, lines in out.items()}


def write_study(folder: Path, name: str, **more: Mapping[str, str]) -> Path:
    """A study's file beside its parties' files; `more` goes to a party."""
    content = content_of(name)
    for party, text in records_of(name).items():
        (folder / f"{party}.csv").write_text(text)
        content["party"][party] |= more.get(party, {})
    (folder / "study.toml").write_text(to_toml(content))
    return folder / "study.toml"


def write_lines(name: str, lines: Iterable[str]) -> None:
    """One file of lines, compressed; the same lines give the same bytes."""
    text = "".join(f"{line}\n" for line in lines)
    (CORPUS / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


def read_lines(name: str) -> list[str]:
    return gzip.decompress((CORPUS / f"{name}.jsonl.gz").read_bytes()).decode().splitlines()


def _cell(draw: random.Random, kind: str, share: float) -> str:
    if KINDS[kind]["kind"] == "numeric":
        return f"{round(10 * share) if kind == 'whole' else 10 * share:.4g}"
    if kind == "yes":
        return "yes" if draw.random() < share else "no"
    return draw.choice("rg" if share < 0.5 else "gb")


NAMES = ("age", "income", "a.b", "x y", "Größe", "it's", 'say "so"', "p,q", "a-b", "a+b", "u:v", "n=1", "p.x", "7", "_")


def draw_agreements(seed: int) -> Iterator[Content]:
    """Contents as `Agreement.to` writes them; some are refused, by one version or by each."""
    draw = random.Random(seed)
    while True:
        yield _draw_agreement(draw)


def _draw_agreement(draw: random.Random) -> Content:
    names = iter(draw.sample(NAMES, len(NAMES)))
    parties = draw.sample(("a", "b", "hospital", "p", "Bank 7"), draw.choice((1, 2, 2, 2, 3, 4)))
    schema: dict[str, dict[str, Content]] = {}
    for party in parties:
        count = draw.choice((1, 2, 3))
        schema[party] = {next(names): {**KINDS[draw.choice(list(KINDS))]} for _ in range(count)}
    holder = draw.choice(parties)
    task = draw.choice(("linear", "logistic", "logistic", "multinomial", "polynomial"))
    kinds = {"linear": ("number", "whole"), "logistic": ("yes", "truth", "other"), "multinomial": ("three", "cut")}
    schema[holder]["y"] = {**KINDS[draw.choice(kinds.get(task, ("number",)))]}
    columns = [(party, name) for party in parties for name in schema[party]]
    written = [f"{party}.{name}" for party, name in columns if name != "y"]
    offers = {p: {"total": draw.choice((0.5, 1, 2.0)), "own": None, "pairs": {}} for p in parties}
    for offer in offers.values():
        if draw.random() < 0.3:
            offer["own"] = 0.25
        if draw.random() < 0.3 and len(parties) > 1:
            offer["pairs"] = {p: 0.125 for p in parties if offers[p] is not offer}
    down = draw.random() < 0.7
    content: Content = {
        "name": draw.choice(("study", "pay & age", "Umfrage über Größe")),
        "schema": schema,
        "norms": {p: 1.5 for p in sorted(parties) if draw.random() < 0.1},
        "label": draw.choice(("y", f"{holder}.y")),
        "task": task,
        "epsilon": draw.choice((0.1, 1, 1.0, 40.0)) if down else None,
        "offers": {} if down else dict(sorted(offers.items())),
        "delta": draw.choice((0.0, 0, 1e-6)),
        "collusion": draw.randrange(max(1, len(parties))),
        "calibration": draw.choice(("exact", "exact", "exact", "paper")),
        "product": draw.choice(("lattice", "lattice", "plain", "bgn")),
        "release": draw.choice(("auto", "auto", "full", "label", "trace", "margins", "pairs")),
        "label_square": draw.random() < 0.2,
    }
    options: Content = {
        "impossible": [["y=yes", f"{columns[0][1]}=r"]],
        "pairs": [draw.sample(written, 2)] if len(written) > 1 else [],
        "interactions": [draw.choices(written, k=draw.choice((2, 2, 3)))],
        "order": 4,
        "interval": 3.0,
        "ball": draw.choice((1, 1.5)),
        "objective": "(y - w0)^2",
        "parameters": ["w0"],
        "purpose": "all",
        "evaluates": {
            "model": "0f" * 32,
            "label": "a.y",
            "task": "logistic",
            "columns": {p: list(schema[p]) for p in parties},
        },
        "reason": draw.choice(("a test", "Wer verdient mehr?")),
        "organisations": {
            p: {"name": f"{p} e.V.", "contact": draw.choice(("", "x@example.org"))} for p in sorted(parties)
        },
    }
    with_pairs, polynomial = content["release"] == "pairs", task == "polynomial"
    forced = {"pairs": with_pairs, "objective": polynomial, "parameters": polynomial, "ball": polynomial}
    forced["purpose"] = content["release"] == "margins" or draw.random() < 0.1
    for key, value in options.items():
        if forced.get(key, draw.random() < 0.12):
            content[key] = value
    return content

"""Random spoiled studies: what `check` says a run would refuse is refused, and nothing else is."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as cn
from colonnade.foundation.errors import ColonnadeError

PEOPLE = 60
POLICY = """[policy]
epsilon = {epsilon}
smallest_rows = 2
"""


def spoiled(draw: np.random.Generator, folder: Path) -> tuple[Path, list[str]]:
    """A study whose files are spoiled in a few of many ways, and in which."""
    ways: list[str] = []

    def happens(way: str, chance: float = 0.15) -> bool:
        if draw.random() < chance:
            ways.append(way)
            return True
        return False

    def some(most: float = 0.2) -> set[int]:
        """Rows: fewer than one in twenty, or more."""
        return set(draw.choice(PEOPLE, max(1, int(PEOPLE * draw.choice([0.02, most]))), replace=False).tolist())

    one: list[dict[str, Any]] = [
        {
            "nr": f"{k}",
            "x": f"{draw.uniform(0, 9):.2f}",
            "c": "uv"[k % 2],
            "t": "yn"[k % 2],
            "d": f"2024-0{1 + k % 9}-11",
        }
        for k in range(PEOPLE)
    ]
    two: list[dict[str, Any]] = [{"nr": f"{k}", "y": ("no", "yes")[k % 3 == 0], "z": f"{k % 7}"} for k in range(PEOPLE)]
    read, people, more, form, head = "", "", {"x": "", "c": "", "t": "", "d": ""}, "", ""
    for name, odd in (("x", "n.v."), ("x", "4,5"), ("c", "w"), ("t", "ja"), ("d", "11.05.2024"), ("c", ""), ("x", "")):
        if happens(f"{name} {odd}"):
            for k in some():
                one[k][name] = odd
    if happens("refuse"):
        more["x"] += ', undeclared = "refuse"'
    if happens("missing", 0.3):
        way = str(draw.choice(["indicator", "fill", "drop"]))
        more["x"] += f', missing = "{way}"' + (", fill = 3" if way != "drop" else "")
    if happens("level"):
        more["c"] += ', missing = "level"'
    if happens("other"):
        more["c"] += ", other = true"
    if happens("read", 0.3):
        read = '[party.a.read]\nmissing = ["n.v."]\n' + 'decimal = ","\n' * bool(draw.random() < 0.3)
    if happens("zeros"):
        two = [{**row, "nr": row["nr"].zfill(4)} for row in two]
    if happens("case"):
        one, two = [{**row, "nr": f"A{row['nr']}"} for row in one], [{**row, "nr": f"a{row['nr']}"} for row in two]
    if happens("nobody", 0.05):
        two = [{**row, "nr": f"q{row['nr']}"} for row in two]
    if happens("form"):
        listed = [name for name in ("strip", "case", "digits", "zeros") if draw.random() < 0.4]
        form = f"id_form = {listed}\n".replace("'", '"')
    if happens("no id", 0.1):
        for k in some():
            one[k]["nr"] = ""
    if happens("alike", 0.1):
        one[7]["nr"] = f" {one[3]['nr']}"
    if happens("again"):
        one += [dict(one[k]) for k in some()]
    if happens("people", 0.2):
        people = '[party.a.people]\nx = { how = "sum" }\nc = { how = "last", by = "d" }\nt = { how = "any" }\n'
        people += 'd = { how = "min" }\n'
    if happens("order", 0.1) and not form and not people and "drop" not in more["x"]:
        head = 'alignment = "none"\n'
        two = two[: int(draw.integers(PEOPLE - 1, PEOPLE + 1))]
    if happens("few", 0.05):
        two = two[: int(draw.integers(1, 4))]
    gone = {name for name in ("d", "nr") if happens(f"no {name}", 0.04)}
    for name, rows, left in (("a", one, gone), ("b", two, set[str]())):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as out:
            lines = csv.DictWriter(out, [key for key in rows[0] if key not in left], extrasaction="ignore")
            lines.writeheader()
            lines.writerows(rows)
    guard = ""
    if happens("policy", 0.1):
        (folder / "policy.toml").write_text(POLICY.format(epsilon=draw.choice([1.0, 99.0])))
        guard = 'policy = "policy.toml"\nledger = "own.ledger"\n'
    text = f"""[study]
name = "spoiled"
task = "logistic"
label = "b.y"
epsilon = 5.0
product = "plain"
{form}{head}
[party.a]
data = "a.csv"
id = "nr"
{guard}
{read}{people}
[party.a.columns]
x = {{ kind = "numeric", low = 0, high = 10{more["x"]} }}
c = {{ kind = "categorical", levels = ["u", "v"]{more["c"]} }}
t = {{ kind = "boolean" }}
d = {{ kind = "date", earliest = 2024-01-01, latest = 2025-01-01 }}
[party.b]
data = "b.csv"
id = "nr"
[party.b.columns]
y = {{ kind = "binary", levels = ["no", "yes"] }}
z = {{ kind = "numeric", low = 0, high = 6 }}
"""
    (folder / "study.toml").write_text(text, encoding="utf-8")
    return folder / "study.toml", ways


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [*range(20), 62])
def test_faults_are_what_a_run_refuses(seed: int, tmp_path: Path) -> None:
    draw = np.random.default_rng([52, seed])
    place, ways = spoiled(draw, tmp_path)
    study, strict = cn.Study.read(place), bool(draw.random() < 0.1)
    found = study.check(strict=strict)
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    why = ""
    try:
        n = study.fit(seed=seed, strict=strict).n
    except ColonnadeError as error:
        why = str(error)
        # A refusal spends nothing, and leaves nothing.
        kept.pop("own.ledger", None)
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir() if p.name in kept} == kept
    told = [finding.text for finding in found.findings]
    assert found.refused == bool(why), (ways, strict, why, told)
    assert why or n == found.common, (ways, told)

"""Every line of the paper's Algorithm 1 is tagged where it happens."""

from __future__ import annotations

import re
from pathlib import Path

import colonnade

SOURCE = Path(colonnade.__file__).parent
TAG = re.compile(r"Alg\. 1, lines? (\d+(?:-\d+)?(?:(?:, | and )\d+(?:-\d+)?)*)")
LINES = range(1, 18)


def tagged(text: str) -> set[int]:
    """The lines that a text's tags name: "line 3", "lines 4-9 and 12"."""
    out: set[int] = set()
    for match in TAG.finditer(text):
        for part in re.findall(r"(\d+)(?:-(\d+))?", match[1]):
            out |= set(range(int(part[0]), int(part[1] or part[0]) + 1))
    return out


def test_tags_are_read() -> None:
    assert tagged("# Alg. 1, line 3") == {3}
    assert tagged("Alg. 1, lines 4-6 and 12") == {4, 5, 6, 12}
    assert tagged("line 3") == set()


def test_every_line_of_algorithm_1_is_tagged() -> None:
    places = {line: [] for line in LINES}  # type: dict[int, list[str]]
    for path in sorted(SOURCE.rglob("*.py")):
        for line in tagged(path.read_text()):
            assert line in LINES, (path.name, line)
            places[line].append(path.name)
    assert [line for line in LINES if not places[line]] == []
    # Each step stands in the room that the architecture gives it.
    assert "objective.py" in places[1] and "dissection.py" in places[2] and "plan.py" in places[3]
    assert "blocks.py" in places[6] and "blocks.py" in places[7] and "party.py" in places[12]
    assert "party.py" in places[13] and "server.py" in places[16] and "solve.py" in places[17]

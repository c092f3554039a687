"""A small form of `python -m experiments load`: many parties, many columns, many studies, and nothing left behind."""

from __future__ import annotations

import pytest

from benchmarks.load import LARGE, SMALL, apart

MOST_MEMORY = 400
"""Megabytes; the interpreter with its libraries takes some 90."""
LEAK = 200.0
"""Kilobytes that a study may leave: an allocator's noise over a dozen of them."""


@pytest.mark.parametrize("name", SMALL)
def test_load(name: str) -> None:
    case = SMALL[name]
    found = apart(case)
    assert found["peak_mb"] < MOST_MEMORY
    assert found["numbers"] > 0 and found["bytes_sent"] > 0
    if case.studies > 1:
        assert found["handles_last"] == found["handles_first"]
        assert found["kb_per_study"] < LEAK


def test_the_large_form_has_what_was_promised() -> None:
    sizes = [(case.parties, case.columns, case.studies) for case in LARGE.values()]
    assert (64, 4, 1) in sizes and (2, 2_000, 1) in sizes and any(studies == 100 for *_, studies in sizes)

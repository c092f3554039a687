"""Within a command garbage is looked for seldom; afterwards as before."""

from __future__ import annotations

import gc

import pytest

from colonnade.cli.entry import ALLOCATIONS, collecting_seldom


def test_thresholds_come_back() -> None:
    before = gc.get_threshold()
    with pytest.raises(RuntimeError), collecting_seldom():
        assert gc.get_threshold()[0] == ALLOCATIONS
        raise RuntimeError
    assert gc.get_threshold() == before

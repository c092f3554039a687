"""Random studies tried from raw rows: no view sees more than its plan claims, and most see nearly all of it."""

from __future__ import annotations

import pytest

from audit.search import search

pytestmark = pytest.mark.statistical
TIGHT = 1 / 1.5


def test_no_view_sees_more_than_is_claimed() -> None:
    found = search(12, 5)
    assert not found["refused"]
    for name, (ratio, number) in (found["views"] | found["kinds"]).items():
        assert TIGHT <= ratio <= 1 + 1e-9, (name, number)

"""Every planted bug is flagged by its detector, which is silent about the package as it is."""

from __future__ import annotations

import pytest

from audit.planted import BUGS, Bug, Effort, try_bug
from colonnade.foundation.randomness import Randomness

pytestmark = pytest.mark.statistical


def test_all_are_there() -> None:
    assert len(BUGS) == len({bug.name for bug in BUGS}) == 14


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.partition(",")[0].replace(" ", "-"))
def test_planted_bug_is_flagged(bug: Bug) -> None:
    found = try_bug(bug, Effort(50, 150_000, Randomness(b"planted").child(bug.name)))
    assert not found.clean.flagged, found.clean.figure
    assert found.planted.flagged, found.planted.figure

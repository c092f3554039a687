"""What holds for every test: in CI, hypothesis tries the same examples each time, so that a red run can be repeated.

Tests get a marker by the folder that they stand in: `make quick` runs those marked quick.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")

TESTS = Path(__file__).parent
QUICK = ("unit/foundation", "unit/mechanism", "unit/crypto", "unit/report", "property", "goldens")
"""Folders whose tests a contributor runs before every commit, but for those that are marked slow."""
QUICK_FILES = (
    *("test_proofs", "test_vectors", "test_table", "test_policy", "test_guard", "test_kinds", "test_gate"),
    *("test_ledger", "test_session", "test_cheating", "test_reading_people"),
    *("test_consent_edges", "test_session_edges", "test_planted"),
)
TOO_LONG = (
    *("test_compiled", "test_chains", "test_plan_promises", "test_choices", "test_locks", "test_bgn"),
    "test_people_promise",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        place = item.path.relative_to(TESTS)
        near = place.as_posix().startswith(QUICK) or place.stem in QUICK_FILES
        if near and place.stem not in TOO_LONG and item.get_closest_marker("slow") is None:
            item.add_marker("quick")

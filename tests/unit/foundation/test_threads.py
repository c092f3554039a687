"""Small work takes one BLAS thread by every door and gives the others back; what the user set stays."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from colonnade.foundation.threads import NAMES, small_on_one_thread

ROOT = Path(__file__).resolve().parents[3]
RELEASE = ROOT / "tests" / "goldens" / "release.json"
DOORS = """
import contextlib, io, json, sys
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

threadpool_limits(2, "blas")
seen = []

def look():
    return sorted({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})

for name, inner in (("fit", "accepted"), ("intervals", "complete"), ("components", "eigen")):
    module = __import__("colonnade.analysis." + name, fromlist=[name])
    def looked(*a, real=getattr(module, inner), **k):
        seen.append(look())
        return real(*a, **k)
    setattr(module, inner, looked)

import colonnade as cn
from colonnade.cli import main

release = cn.Release.read(sys.argv[1])
told = {}
for door, call in (
    ("python", lambda: release.solve()),
    ("python, components", release.components),
    ("command", main),
):
    seen.clear()
    sys.argv = ["colonnade", "solve", sys.argv[-1]]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        call()
    told[door] = list(seen)
print(json.dumps({"inside": told, "after": look()}))
"""


def by_every_door(environment: dict[str, str]) -> dict[str, object]:
    bare = {name: value for name, value in os.environ.items() if name not in NAMES}
    bare |= {"PYTHONPATH": str(ROOT / "src"), **environment}
    called = [sys.executable, "-c", DOORS, str(RELEASE)]
    run = subprocess.run(called, env=bare, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(run.stdout.splitlines()[-1])
    return found


def test_every_door_solves_on_one_thread_and_gives_the_rest_back() -> None:
    found = by_every_door({})
    inside = found["inside"]
    assert isinstance(inside, dict) and all(inside.values()), inside
    assert {str(seen) for door in inside.values() for seen in door} == {"[1]"}, inside
    assert found["after"] == [2]


def test_what_the_user_set_is_not_touched() -> None:
    found = by_every_door({"OMP_NUM_THREADS": "2"})
    inside = found["inside"]
    assert isinstance(inside, dict)
    assert {str(seen) for door in inside.values() for seen in door} == {"[2]"}, inside


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    import scipy.linalg  # noqa: F401

    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    with threadpool_limits(2, "blas"):
        yield


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize(("width", "taken"), [(42, {1}), (801, {2})])
def test_wide_work_keeps_the_library_s_threads(width: int, taken: set[int]) -> None:
    class Source:
        class layout:  # noqa: N801
            pass

    Source.layout.width = width  # type: ignore[attr-defined]
    assert small_on_one_thread(lambda source: threads())(Source()) == taken

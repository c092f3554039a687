"""What a process loads of the package: a party's job no role of a server, no solver and no product besides its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "demo" / "study.toml"
BUDGET = 22_000
"""Lines of the package that a party's job has before its session begins; each is one more that a site runs."""
JOB = "from colonnade.flare.job_classes import {}PartyJob; {}PartyJob().recipe"
SERVERS = ("flare.server_job", "protocol.server", "protocol.heard", "transport.relay", "transport.journal")
MADE_OF_RELEASES = ("analysis.", "expectation.", "report.", "rehearsal", "runs", "studio", "audit", "api.", "cli.")
TYPES = ("analysis.model",)
"""Of a model that is applied."""
OTHER_PRODUCTS = ("crypto.bgn.", "crypto.plain", "crypto.chains.party")
TELL = """
import sys
print("\\n".join(f"{name} {m.__file__}" for name, m in sys.modules.items() if name.startswith("colonnade.")))
"""
FIT = """
import colonnade
colonnade.Study.read({!r}).fit(seed="01").save({!r})
"""


def loaded(code: str, *, folder: Path | None = None) -> dict[str, int]:
    """The package's modules that a process has loaded after this code, with their lines."""
    done = subprocess.run([sys.executable, "-c", code + "\n" + TELL], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = (line.split(" ", 1) for line in done.stdout.splitlines() if line.startswith("colonnade."))
    return {
        name.removeprefix("colonnade."): Path(place).read_text(encoding="utf-8").count("\n") for name, place in found
    }


def among(found: dict[str, int], *rooms: str) -> list[str]:
    return [name for name in found if name.startswith(rooms) and name not in TYPES]


def over(found: dict[str, int]) -> str:
    """By how much a job is over its budget, and its largest rooms; empty within it."""
    rooms: dict[str, int] = {}
    for name, lines in found.items():
        room = name.partition(".")[0]
        rooms[room] = rooms.get(room, 0) + lines
    largest = ", ".join(f"{room} {rooms[room]:,}" for room in sorted(rooms, key=lambda r: -rooms[r])[:5])
    total = sum(found.values())
    return f"a party's job loads {total:,} lines, {largest}" if total > BUDGET else ""


@pytest.fixture(scope="module")
def job() -> dict[str, int]:
    return loaded(JOB.format("Fit", "Fit"))


def test_a_partys_job_is_within_its_budget(job: dict[str, int]) -> None:
    assert not over(job)


def test_a_partys_job_loads_no_servers_role_no_solver_and_no_other_kind(job: dict[str, int]) -> None:
    strangers = (*SERVERS, *MADE_OF_RELEASES, *OTHER_PRODUCTS, "evaluation", "model", "protocol.predict")
    assert not among(job, *strangers)


@pytest.mark.parametrize("kind", ["Evaluate", "Predict"])
def test_jobs_of_other_kinds_load_no_servers_role_and_no_product(kind: str) -> None:
    found = loaded(JOB.format(kind, kind))
    assert not among(found, *SERVERS, *OTHER_PRODUCTS, "analysis.solve", "analysis.models", "analysis.glm", "report.")


def test_a_servers_class_is_found_by_the_path_that_deployed_folders_name() -> None:
    found = loaded(
        "from colonnade.flare import job_classes as j; [j.FitServerJob, j.EvaluateServerJob, j.PredictServerJob]"
    )
    assert "flare.server_job" in found
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        from colonnade.flare import job_classes

        job_classes.Other  # noqa: B018


def test_who_loads_more_is_named(job: dict[str, int]) -> None:
    assert among({**job, "analysis.solve": 400}, *MADE_OF_RELEASES) == ["analysis.solve"]
    assert over({**job, "analysis.solve": BUDGET}).startswith("a party's job loads ")
    assert "analysis 22,000" in over({**job, "analysis.solve": BUDGET})


def test_a_fit_from_python_loads_no_solver_before_the_release_is_written(tmp_path: Path) -> None:
    found = loaded(FIT.format(str(DEMO), str(tmp_path / "release.json")))
    assert (tmp_path / "release.json").is_file()
    assert not among(found, "analysis.", *OTHER_PRODUCTS)

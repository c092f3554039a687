"""What a process loads: a party's job no role of a server, no solver and no product besides its own; a command only
the packages that it works with."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
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

STARTED = {"numpy", "scipy", "typer", "rich", "cryptography", "gmpy2", "msgspec", "threadpoolctl"}
COMMANDS: dict[str, tuple[Sequence[str], set[str], int]] = {
    "plan": (["plan", "{demo}"], set(), 142),
    "fit": (["fit", "{demo}", "--out", "{folder}/again", "--model", "{folder}/model"], {"polars"}, 232),
    "solve": (["solve", "{folder}/release"], set(), 130),
    "report": (["report", "{folder}/release", "--html", "{folder}/page"], {"jinja2", "markupsafe"}, 195),
}
"""Each with the packages that it may load beside those, and how many modules of Colonnade. What costs most to load:
polars .15 s, scipy.stats .5, scikit-learn 1, matplotlib 1."""
NEVER = ("scipy.stats", "scipy.optimize", "scipy.sparse", "numpy.f2py.", "numpy.testing.", "unittest", "asyncio")
LINE = re.compile(r"^import time: +\d+ \| +\d+ \|( +)(\S+)$", re.MULTILINE)


def chains(told: str) -> dict[str, str]:
    """From what `python -X importtime` tells: each module, with who loaded it, outermost first."""
    # Whoever loads another comes behind it, less far to the right.
    above: list[tuple[int, str]] = []
    out = {}
    for spaces, name in reversed(LINE.findall(told)):
        while above and above[-1][0] >= len(spaces):
            above.pop()
        above.append((len(spaces), name))
        out[name] = " > ".join(each for _, each in above)
    return out


def strangers(found: dict[str, str], packages: set[str], most: int) -> list[str]:
    """Who loads what a command should not; the number of own modules, where these are too many."""
    known = sys.stdlib_module_names | packages | STARTED | {"colonnade"}
    told = []
    for name, chain in found.items():
        by = chain.split(" > ")[-2:-1]
        # What others load beside themselves is theirs, but for what is named above.
        ours = not by or by[0].startswith("colonnade")
        if name.startswith(NEVER) or (ours and "." not in name and name not in known):
            told.append(chain)
    own = [name for name in found if name.startswith("colonnade")]
    return [*told, *([f"{len(own)} modules of colonnade, at most {most}"] if len(own) > most else [])]


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
    assert not among(found, *SERVERS, *OTHER_PRODUCTS, "analysis.fit", "analysis.penalised", "analysis.glm", "report.")


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


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    subprocess.run([sys.executable, "-c", FIT.format(str(DEMO), str(folder / "release"))], check=True)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_loads_only_what_it_works_with(command: str, released: Path) -> None:
    words, packages, most = COMMANDS[command]
    call = [word.format(demo=DEMO, folder=released) for word in words]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "from colonnade.cli import main; main()", *call],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert not strangers(chains(done.stderr), packages, most)


def test_who_loads_what_a_command_does_not_need_is_named() -> None:
    told = "".join(
        f"import time: 1 | 1 | {'  ' * depth}{name}\n"
        for depth, name in [(2, "pandas.core"), (1, "pandas"), (1, "json"), (0, "colonnade.cli"), (0, "colonnade.data")]
    )
    assert chains(told)["pandas.core"] == "colonnade.cli > pandas > pandas.core"
    assert strangers(chains(told), set(), 2) == ["colonnade.cli > pandas"]
    assert strangers(chains(told), {"pandas"}, 1) == ["2 modules of colonnade, at most 1"]

"""The house's own rules: floors that can fall, one door to randomness, small rooms, a silent library, clean files."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "colonnade"
MODULES = sorted(PACKAGE.rglob("*.py"))
DOOR = PACKAGE / "foundation" / "randomness.py"
SILENT = [path for path in MODULES if not {PACKAGE / "cli", PACKAGE / "report"} & set(path.parents)]
LARGEST_ROOM = 500
LARGER_FOR_A_REASON: dict[str, str] = {
    "src/colonnade/mechanism/plan.py": "scales, views and guarantees of one plan, which three proofs read together",
    "src/colonnade/foundation/columns.py": "what every kind of column declares, and what stands for what it does not",
    "src/colonnade/api/study.py": "one class, most of it docstrings",
    "src/colonnade/model.py": "what a model's file holds, and what it scores",
    "src/colonnade/protocol/fit.py": "both sides of a release, which the paper's lines run through",
    "src/colonnade/protocol/party.py": "one role's answer to every message",
    "src/colonnade/protocol/server.py": "one role's answer to every message",
    "src/colonnade/audit/session.py": "a replay, and all by which a party is judged",
    "src/colonnade/study.py": "every key of a study file, and what it becomes",
}
BUILT = {
    ".git",
    ".cache",
    ".venv",
    "site",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    ".import_linter_cache",
    "build",
}

# Split, so that this file does not hold what it forbids.
FORBIDDEN_TEXT = {
    "a path of one machine": r"(?<![\w.$}])/(?:work|root|home|opt)" + r"/\w",
    "a registry's host": r"(?:pypi" + r"\.org|python" + r"hosted\.org|files\.python)",
    "a folder outside the repository": r"\.\./" + "shared",
    "work left over": r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file that a clone would have, but for data."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in BUILT and not f.endswith(".egg-info"))
        for name in sorted(files):
            if name not in BUILT and Path(name).suffix in {".py", ".md", ".toml", ".lock", ".json", ""}:
                path = Path(folder, name)
                yield path, path.read_text(encoding="utf-8")


def dotted(node: ast.AST) -> str:
    """a.b.c of an attribute chain, else an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def randomness_in(source: str) -> list[str]:
    """Uses of a generator other than the door's."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in ("secrets", "random")]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{a.name}" for a in node.names]
            found += [n for n in names if re.match(r"(secrets|random|numpy\.random|os\.urandom|os\.getrandom)\b", n)]
        elif isinstance(node, ast.Attribute):
            found += [dotted(node)] if re.match(r"(np|numpy)\.random\b|os\.(urandom|getrandom)$", dotted(node)) else []
    return found


def test_one_door_to_randomness() -> None:
    found = {name_of(path): uses for path in MODULES if (uses := randomness_in(path.read_text(encoding="utf-8")))}
    assert found == {name_of(DOOR): ["secrets"]}


@pytest.mark.parametrize(
    "source",
    [
        "import secrets",
        "from os import urandom",
        "import os\nos.urandom(8)",
        "import numpy as np\nnp.random.default_rng()",
    ],
)
def test_other_doors_are_noticed(source: str) -> None:
    assert randomness_in(source)


def test_modules_are_small_rooms_that_say_what_they_are() -> None:
    found = []
    for path in MODULES:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        if tree.body and not ast.get_docstring(tree):
            found.append(f"{name_of(path)} says nowhere what it is")
        if source.count("\n") > LARGEST_ROOM and name_of(path) not in LARGER_FOR_A_REASON:
            found.append(f"{name_of(path)} has more than {LARGEST_ROOM} lines")
    assert not found, "\n".join(found)


def test_library_is_silent() -> None:
    """Only the command line and its reports speak, and they do so through their consoles."""
    loud = {"print", "sys.stdout.write", "sys.stderr.write", "input"}
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in SILENT
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and dotted(node.func) in loud
    ]
    assert not found, "\n".join(found)


def test_files_are_clean() -> None:
    found = [
        f"{name_of(path)} holds {what}: {match[0]!r}"
        for path, text in texts()
        for what, pattern in FORBIDDEN_TEXT.items()
        for match in re.finditer(pattern, text)
    ]
    assert not found, "\n".join(found)


def locked(name: str = "requirements.lock") -> dict[str, list[str]]:
    """Package -> its pin and hashes, from a lock."""
    out: dict[str, list[str]] = {}
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)==\S+", line):
            out[match[1].lower()] = last = [match[0]]
        elif match := re.match(r"\s+--hash=sha256:([0-9a-f]{64})", line):
            last.append(match[1])
        else:
            assert line.startswith("#"), f"{name} holds {line!r}"
    return out


def test_lock_covers_what_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        declared += extra
    pinned = locked()
    assert all(len(lines) > 1 for lines in pinned.values()), "every pinned package needs a hash"
    names = {re.match(r"[A-Za-z0-9._-]+", text)[0].lower() for text in declared}  # type: ignore[index]
    # The extra "all" names the others.
    names.discard(project["project"]["name"])
    assert names <= set(pinned), f"run make lock: {sorted(names - set(pinned))}"


def test_the_small_lock_is_the_part_that_the_demo_needs() -> None:
    """By what the installed packages say that they need, on the Python that the locks are made with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    page = project["project"]["optional-dependencies"]["page"]
    declared = [*project["project"]["dependencies"], *page, *project["build-system"]["requires"]]
    left = [Requirement(text) for text in declared]
    at = {"python_version": "3.11", "python_full_version": "3.11.0"}
    needed: set[tuple[str, frozenset[str]]] = set()
    while left:
        wanted = left.pop()
        known = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if known not in needed:
            needed.add(known)
            for one in map(Requirement, distribution(wanted.name).requires or ()):
                if one.marker is None or any(one.marker.evaluate(at | {"extra": e}) for e in ("", *wanted.extras)):
                    left.append(one)
    small, whole = locked("requirements-core.lock"), locked()
    assert set(small) == {name for name, _ in needed}
    assert {name: whole.get(name) for name in small} == small


def lint_with(tmp_path: Path, planted: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """import-linter's verdict on a copy of the package with planted lines."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(PACKAGE, tmp_path / "src" / "colonnade", ignore=shutil.ignore_patterns("__pycache__"))
    for name, line in planted.items():
        with (tmp_path / "src" / "colonnade" / name).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    linter = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command as run; run()"
    return subprocess.run(
        [sys.executable, "-c", linter, "--no-cache"],
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )


BREACHES = {
    "Imports point down only": {
        "mechanism/plan.py": "colonnade.protocol.messages",
        "analysis/tables.py": "colonnade.protocol.messages",
        "crypto/masks.py": "colonnade.mechanism.moments",
    },
    "What is made of a release sees noisy moments alone": {"analysis/synthesis.py": "colonnade.mechanism.noise"},
    "Making models is post-processing: it draws nothing": {"analysis/posterior.py": "colonnade.mechanism.blocks"},
    "Backends do not know each other": {
        "crypto/plain.py": "colonnade.crypto.bgn",
        "crypto/lattice/party.py": "colonnade.crypto.bgn.pairing",
    },
    "A product's party and its server do not know each other": {
        "crypto/lattice/server.py": "colonnade.crypto.lattice.party",
        "crypto/bgn/party.py": "colonnade.crypto.bgn.server",
        "crypto/alignment/server.py": "colonnade.crypto.alignment.party",
    },
    "No input, output, clock or data frames in the protocol, the paper and the vault": {"protocol/party.py": "sqlite3"},
    "One door to randomness": {"data/table.py": "secrets"},
}
"""For each contract modules that break it by one more import."""


def test_floors_hold_and_can_fall(tmp_path: Path) -> None:
    """All breaches at once, each of which must be told, with its contract."""
    for name, planted in (("as it is", {}), ("planted", BREACHES)):
        folder = tmp_path / name
        folder.mkdir()
        lines = {path: f"import {module}" for own in planted.values() for path, module in own.items()}
        verdict = lint_with(folder, lines | ({"utils.py": '"""A drawer."""'} if planted else {}))
        if not planted:
            assert verdict.returncode == 0, verdict.stdout
            assert set(BREACHES) == set(re.findall(r"^(.*) KEPT", verdict.stdout, re.MULTILINE))
            continue
        assert verdict.returncode != 0 and "utils" in verdict.stdout
        for contract, own in planted.items():
            assert f"{contract} BROKEN" in verdict.stdout
            for path, module in own.items():
                importer = "colonnade." + path.removesuffix(".py").replace("/", ".")
                assert f"{importer} -> {module}" in verdict.stdout, (contract, path)


def test_the_decision_draws_the_floors_as_they_are_checked() -> None:
    """docs/decisions/0008 has one line of floors; the page on architecture has a picture of them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["name"] == "Imports point down only")
    drawn = " › ".join(re.sub(r"[()]", "", layer) for layer in layers)
    page = (ROOT / "docs" / "decisions" / "0008-walls.md").read_text(encoding="utf-8")
    # Where lines end does not matter.
    assert f"The floors are {drawn}," in " ".join(page.split())
    house = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1]
    shown = [line.split("  ")[0] for line in house.splitlines()[1:] if line and not line.startswith(" ")]
    assert [re.sub(r"/|\.py", "", names) for names in shown] == [re.sub(r"[()]", "", layer) for layer in layers]


CARRYING = sorted(
    path
    for room in ("transport", "flare")
    for path in (PACKAGE / room).glob("*.py")
    # Allow-lists refuse by class path: there is one class for each side of each kind, and nothing else in it.
    if path.name != "job_classes.py"
)
KINDS_AND_STEPS = re.compile(r"^(Step|FIT|PREDICT|(Fit|Predict)(Party|Server|Recipe)|Prediction|Agreement)$")


def kinds_and_steps_in(source: str) -> set[str]:
    """Names of steps and of kinds of session that code mentions."""
    tree = ast.parse(source)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    return {name for name in names if KINDS_AND_STEPS.match(name)}


def test_carriers_name_no_step_and_no_kind_of_session() -> None:
    found = {name_of(path): kinds_and_steps_in(path.read_text(encoding="utf-8")) for path in CARRYING}
    assert not {name: named for name, named in found.items() if named}


def test_a_carrier_that_names_one_is_noticed() -> None:
    assert kinds_and_steps_in("from colonnade.protocol.messages import Step\nStep.JOIN") == {"Step"}
    assert kinds_and_steps_in("from colonnade.protocol.fit import FitParty") == {"FitParty"}


def test_a_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name_of(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


LARGEST_BODY, MOST_PARAMETERS = 60, 8


def test_functions_are_short_and_constructors_ask_for_little() -> None:
    """Compiled loops apart; constructors of roles, carriers and guards alone."""
    found = []
    for path in MODULES:
        room = path.relative_to(PACKAGE).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            # A docstring that lists parameters is no body.
            first = node.body[min(len(node.body) - 1, ast.get_docstring(node) is not None)]
            if path.name != "loops.py" and (node.end_lineno or 0) - first.lineno > LARGEST_BODY:
                found.append(f"{name_of(path)}: {node.name} has more than {LARGEST_BODY} lines")
            few = room in ("transport", "flare", "consent", "protocol", "sites") and node.name == "__init__"
            if few and len(node.args.args) + len(node.args.kwonlyargs) - 1 > MOST_PARAMETERS:
                found.append(f"{name_of(path)}: a constructor asks for more than {MOST_PARAMETERS} things")
    assert not found, "\n".join(found)


def test_asserts_tell_the_type_checker_alone() -> None:
    """`python -O` leaves them out: what a promise rests on raises."""

    def told(test: ast.expr) -> bool:
        if isinstance(test, ast.BoolOp):
            return all(map(told, test.values))
        if isinstance(test, ast.Call):
            return dotted(test.func) == "isinstance"
        return isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot)

    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Assert):
                assert told(node.test), f"{name_of(path)}, line {node.lineno}: {ast.unparse(node.test)}"

"""Small changes of the code that promises rest on, one at a time: some quick test must fail for each.

    python -m drills.mutants map                         which test runs which line, and how long it takes (15 minutes)
    python -m drills.mutants run --count 500 --seed 1    drawn changes, each against the tests that run its line
    python -m drills.mutants run --only lattice_error    every change of the functions of that name

Changes are made by rule over every operator and constant of the modules in MODULES: a term dropped, a factor of 2,
`<` for `<=`, max for min, c + 1 for c, floor for ceil, a condition turned round. A change runs in a fork of this
process, in which one module is compiled from the changed source; the files stay as they are, so that no proof's pin
can notice it. A survivor is killed by a new test, or argued in `mutants.toml` to change no promise.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "colonnade"
KEPT = ROOT / ".cache" / "mutants"
EQUIVALENT = Path(__file__).with_suffix(".toml")
MODULES = (
    "mechanism/*.py",
    "crypto/lattice/parameters.py",
    "crypto/lattice/security.py",
    "crypto/lattice/work.py",
    "crypto/lattice/party.py",
    "crypto/lattice/words.py",
    "crypto/masks.py",
    "crypto/alignment/code.py",
    "protocol/session_plan.py",
    "protocol/precision.py",
    "foundation/grid.py",
    "foundation/integers.py",
    "data/gate.py",
    "consent/*.py",
)
CHOICES = ("weights.py", "forecast.py", "table_error.py", "cuts.py")
"""Of mechanism, what chooses weights, cuts and a forecast: any choice keeps the promise, so that a change here is one
of utility, which the tables of docs/results watch."""
FOLDERS = ("tests/unit", "tests/property", "tests/protocol", "tests/goldens", "tests/statistical")
NOT_OF_THE_PROGRAM = ("test_house", "test_docs", "test_proofs", "test_public_names", "test_packaging", "test_notebooks")
SLOWEST = 20.0
"""Tests that take longer run in `make test` and are not asked here."""
PATIENCE = 45.0
"""Seconds of tests that a change is tried with; those nearest to the module come first."""

COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SWAPPED = {"min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True, order=True)
class Mutant:
    """One change: of a file, from one byte to another."""

    path: str
    line: int
    start: int
    stop: int
    rule: str
    new: str
    scope: str = ""

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.stop :]

    def show(self, source: bytes) -> str:
        old = source[self.start : self.stop].decode()
        return f"{self.path}:{self.line} in {self.scope or 'the module'}, {self.rule}: {old} -> {self.new}"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every change that the rules make in a module, without texts, annotations and what errors say."""
    source = path.read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr) and node.end_lineno is not None and node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def text(node: ast.AST) -> str:
        start, stop = span(node)
        return source[start:stop].decode()

    def change(node: ast.expr, rule: str, new: str) -> Iterator[Mutant]:
        start, stop = span(node)
        yield Mutant(path.relative_to(SOURCE).as_posix(), node.lineno, start, stop, rule, new, scope)

    def changes(node: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, ast.BinOp):
            left, right = text(node.left), text(node.right)
            if isinstance(node.op, ast.Add | ast.Sub) and not isinstance(node.left, ast.JoinedStr):
                yield from change(node, "a term dropped", left)
                if isinstance(node.op, ast.Add):
                    yield from change(node, "a term dropped", right)
            if isinstance(node.op, ast.Mult | ast.Div):
                yield from change(
                    node, "a factor of 2", f"({left} * 2 {'*' if isinstance(node.op, ast.Mult) else '/'} {right})"
                )
            if isinstance(node.op, ast.FloorDiv):
                yield from change(node, "ceil for floor", f"-(-({left}) // ({right}))")
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            sign = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}.get(
                type(node.ops[0])
            )
            if sign:
                yield from change(
                    node, "another comparison", f"{text(node.left)} {COMPARED[sign]} {text(node.comparators[0])}"
                )
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name in SWAPPED:
                yield from change(
                    node.func, f"{SWAPPED[name]} for {name}", text(node.func).removesuffix(name) + SWAPPED[name]
                )
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield from change(node, "c + 1 for c", f"({text(node)} + 1)")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield from change(node, "a condition turned round", f"bool({text(node.operand)})")
        elif isinstance(node, ast.BoolOp):
            sign = " or " if isinstance(node.op, ast.And) else " and "
            yield from change(node, "or for and", "(" + sign.join(f"({text(value)})" for value in node.values) + ")")

    def walk(node: ast.AST) -> Iterator[Mutant]:
        nonlocal scope
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert):
            return
        inside = isinstance(node, ast.FunctionDef | ast.ClassDef)
        before = scope
        if inside:
            scope = f"{scope}.{node.name}".lstrip(".")
        yield from changes(node)
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child)
        scope = before

    scope = ""
    yield from walk(ast.parse(source))


def modules() -> list[Path]:
    found = {path for pattern in MODULES for path in SOURCE.glob(pattern)}
    return sorted(path for path in found if path.name not in CHOICES)


# Which tests run a line


class Seconds:
    """A plugin of pytest that adds up how long each test function takes, with all of its cases."""

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: object) -> None:
        name = str(report.nodeid).partition("[")[0]  # type: ignore[attr-defined]
        self.taken[name] = self.taken.get(name, 0.0) + float(report.duration)  # type: ignore[attr-defined]


def make_map() -> None:
    """Run the quick tests once under coverage, with the test's name beside each line."""
    KEPT.mkdir(parents=True, exist_ok=True)
    settings = KEPT / "coveragerc"
    settings.write_text("[run]\nbranch = false\ndynamic_context = test_function\nsource = src/colonnade\n")
    program = (
        "import json, sys, pytest; from drills.mutants import Seconds; s = Seconds(); "
        "code = pytest.main(sys.argv[1:], plugins=[s]); "
        f"open({str(KEPT / 'seconds.json')!r}, 'w').write(json.dumps(s.taken)); sys.exit(code)"
    )
    (KEPT / "traced").write_text(program)
    ignored = [f"--ignore-glob=*{name}*" for name in NOT_OF_THE_PROGRAM]
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", f"--data-file={KEPT / 'lines'}"]
    command += [str(KEPT / "traced"), "-q", "-p", "no:cacheprovider", *ignored, *FOLDERS]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": f"src{os.pathsep}."}, check=False)


@cache
def seconds() -> dict[str, float]:
    return dict(json.loads((KEPT / "seconds.json").read_text()))


@cache
def lines_of(path: str) -> dict[int, list[str]]:
    """For each line of a module the tests that run it."""
    from coverage import CoverageData

    data = CoverageData(str(KEPT / "lines"))
    data.read()
    places = {re.sub(r"[/.]", ".", name.removesuffix(".py").replace(".py::", ".")): name for name in seconds()}
    return {
        line: [places[context] for context in contexts if context in places]
        for line, contexts in data.contexts_by_lineno(str(SOURCE / path)).items()
    }


def tests_for(mutant: Mutant) -> list[str]:
    """The tests that run a line, those of its own module first, then the quickest."""
    lines = lines_of(mutant.path)
    names = set(lines.get(mutant.line, ()))
    if not names:
        # What runs at import belongs to everything that runs in the module.
        names = {name for tests in lines.values() for name in tests}
    stem = Path(mutant.path).stem
    known = sorted((stem not in name, seconds().get(name, 0.0), name) for name in names)
    out, total = [], 0.0
    for _, taken, name in known:
        if taken <= SLOWEST and total + taken <= PATIENCE:
            out.append(name)
            total += taken
    return out


# One change


class Changed(MetaPathFinder):
    """Gives one module of the package from another source."""

    def __init__(self, path: Path, source: bytes) -> None:
        self.name = ".".join(("colonnade", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        self.path, self.source = path, source

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        source, file = self.source, str(self.path)

        class Loader(SourceFileLoader):
            def get_code(self, fullname: str) -> object:  # type: ignore[override]
                return compile(source, file, "exec", dont_inherit=True)

        return spec_from_file_location(name, file, loader=Loader(name, file))


def in_fork(work: Callable[[], int], limit: float) -> int | None:
    """What the work ends with in a child of this process; nothing if it takes too long."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        code = 70
        try:
            code = work()
        finally:
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def verdict(mutant: Mutant) -> str:
    """killed, timeout, survived, or untested."""
    tests = tests_for(mutant)
    if not tests:
        return "untested"
    path = SOURCE / mutant.path
    source = mutant.apply(path.read_bytes())
    try:
        compile(source, str(path), "exec")
    except SyntaxError:
        return "no program"

    def work() -> int:
        import pytest

        os.chdir(ROOT)
        sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
        sys.meta_path.insert(0, Changed(path, source))
        return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))

    expected = sum(seconds().get(name, 0.0) for name in tests)
    code = in_fork(work, 30 + 6 * expected)
    return "timeout" if code is None else "survived" if code == 0 else "killed"


def equivalent() -> dict[str, str]:
    """Survivors that were argued to leave every promise as it is: the change as shown, without its line's number."""
    content = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {entry["change"]: entry["why"] for entry in content.get("equivalent", [])}


def without_line(shown: str) -> str:
    return re.sub(r":\d+ in ", " in ", shown, count=1)


def run(count: int, seed: int, only: str, jobs: int, skip: int = 0) -> dict[str, object]:
    """Draw changes, try each, and tell what became of them."""
    every = [mutant for path in modules() for mutant in mutants_of(path)]
    drawn = [m for m in every if re.search(only, m.scope)] if only else random.Random(seed).sample(sorted(every), count)
    drawn = drawn[skip:]
    # What every child needs is loaded once; the package itself is not.
    import hypothesis
    import numpy as np
    import pytest
    import scipy.optimize
    import scipy.stats

    del hypothesis, np, pytest, scipy
    known, told, found = equivalent(), [], {"killed": 0, "timeout": 0, "survived": 0, "untested": 0, "equivalent": 0}

    def one(mutant: Mutant) -> tuple[Mutant, str, str]:
        shown = mutant.show((SOURCE / mutant.path).read_bytes())
        return mutant, shown, verdict(mutant)

    by_module: dict[str, dict[str, int]] = {}
    with ThreadPoolExecutor(jobs) as pool:
        for mutant, shown, end in pool.map(one, drawn):
            if end == "no program":
                continue
            if end in ("survived", "untested"):
                end = "equivalent" if without_line(shown) in known else end
                told.append({**asdict(mutant), "shown": shown, "end": end, "tests": len(tests_for(mutant))})
                print(f"{end}: {shown}", file=sys.stderr, flush=True)
            found[end] += 1
            row = by_module.setdefault(mutant.path, dict.fromkeys(found, 0))
            row[end] += 1
    return {
        "seed": seed,
        "changes": len(every),
        "tried": sum(found.values()),
        **found,
        "modules": by_module,
        "left": told,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("map", "run", "count"))
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="all changes of functions whose name this pattern finds")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first of those drawn")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.what == "map":
        make_map()
        return 0
    if given.what == "count":
        for path in modules():
            print(sum(1 for _ in mutants_of(path)), path.relative_to(SOURCE).as_posix())
        return 0
    out = run(given.count, given.seed, given.only, given.jobs, given.skip)
    if given.json:
        print(json.dumps(out, indent=1))
    else:
        print(
            f"{out['tried']} of {out['changes']} changes (seed {out['seed']}): {out['killed']} killed, "
            f"{out['timeout']} never ended, {out['equivalent']} argued to change no promise, "
            f"{out['survived']} survived, "
            f"{out['untested']} on lines that no quick test runs"
        )
    return 1 if out["survived"] or out["untested"] else 0


if __name__ == "__main__":
    sys.exit(main())

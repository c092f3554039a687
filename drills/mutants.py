"""Small changes of the code that promises rest on, one at a time: some quick test must fail for each.

    python -m drills.mutants map                         which quick test runs which line, and how long it takes
    python -m drills.mutants run --count 500 --seed 1    drawn changes, each against the tests that run its line
    python -m drills.mutants run --only lattice_error    every change of the functions of that name
    python -m drills.mutants planted                     the changes of `planted.toml`, chosen by hand

Changes are made by rule over every operator and constant of the modules in MODULES: a term dropped, a factor of 2,
`<` for `<=`, max for min, c + 1 for c, floor for ceil, a condition turned round. Tests are collected once; a change
runs in a fork of this process, in which the changed functions get other code, or, where it is no function, the package
is loaded again with the changed module. The files stay as they are, so that no proof's pin can notice it. A survivor is
killed by a new test, or argued in `mutants.toml` to change no promise.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "colonnade"
KEPT = ROOT / ".cache" / "mutants"
EQUIVALENT = Path(__file__).with_suffix(".toml")
PLANTED = Path(__file__).with_name("planted.toml")
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
        # A test that fails as it is says nothing of a change.
        lasts = float("inf") if report.failed else float(report.duration)  # type: ignore[attr-defined]
        self.taken[name] = self.taken.get(name, 0.0) + lasts


def make_map() -> None:
    """Run the quick tests once under coverage, with the test's name beside each line."""
    KEPT.mkdir(parents=True, exist_ok=True)
    settings = KEPT / "coveragerc"
    # Only modules that are changed are traced: the rest would triple the time.
    traced = "".join(f"\n  {path}" for path in modules())
    settings.write_text(f"[run]\nbranch = false\ndynamic_context = test_function\ninclude ={traced}\n")
    program = (
        "import json, sys, pytest; from drills.mutants import Seconds; s = Seconds(); "
        "code = pytest.main(sys.argv[1:], plugins=[s]); "
        f"open({str(KEPT / 'seconds.json')!r}, 'w').write(json.dumps(s.taken)); sys.exit(code)"
    )
    (KEPT / "traced").write_text(program)
    ignored = [f"--ignore-glob=*{name}*" for name in NOT_OF_THE_PROGRAM]
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", f"--data-file={KEPT / 'lines'}"]
    command += [str(KEPT / "traced"), "-q", "-p", "no:cacheprovider", "-m", "quick", *ignored, *FOLDERS]
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
    # Of a statement of several lines the first may be the only one that is counted.
    back = range(mutant.line, mutant.line - 8 if mutant.scope else mutant.line - 1, -1)
    names = set(next((lines[line] for line in back if lines.get(line)), ()))
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


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """All pieces of code in one."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from codes_in(inner)


def put_in_place(path: Path, old: bytes, new: bytes) -> bool:
    """Give the functions that differ between two sources the new code, wherever they are held; False if others do.

    What runs at import, a constant or a default say, is copied by whoever imports it, and cannot be changed so.
    """
    before, after = (compile(source, str(path), "exec", dont_inherit=True) for source in (old, new))
    pairs = list(zip(codes_in(before), codes_in(after), strict=False))
    if len(pairs) != len(list(codes_in(before))) or [a.co_qualname for a, _ in pairs] != [
        b.co_qualname for _, b in pairs
    ]:
        return False
    differ = [(a, b) for a, b in pairs if spelled(a) != spelled(b)]
    if not differ or spelled(before, deep=False) != spelled(after, deep=False):
        return False
    found = 0
    functions = [f for f in gc.get_objects() if isinstance(f, FunctionType) and f.__code__.co_filename == str(path)]
    for a, b in differ:
        for function in functions:
            if (function.__code__.co_qualname, function.__code__.co_firstlineno) == (a.co_qualname, a.co_firstlineno):
                function.__code__ = b
                found += 1
    # A class's body, or a function that was left unused, is no function here.
    return found > 0 and all("<locals>" in a.co_qualname or a.co_flags & CO_NEWLOCALS for a, _ in differ)


def spelled(code: CodeType, deep: bool = True) -> tuple[object, ...]:
    """What a piece of code does, without its places."""
    inner = [spelled(c) if deep else c.co_qualname for c in code.co_consts if isinstance(c, CodeType)]
    plain = [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, code.co_names, tuple(plain), tuple(inner)


class Tries:
    """A plugin of pytest that collects tests once, and instead of running them tries changes on forks of itself."""

    def __init__(self, drawn: Sequence[Mutant], jobs: int, tell: Callable[[Mutant, str, str], None]) -> None:
        self.drawn, self.jobs, self.tell = drawn, jobs, tell
        self.items: dict[str, list[Any]] = {}

    def pytest_runtestloop(self, session: Any) -> bool:
        for item in session.items:
            self.items.setdefault(item.nodeid.partition("[")[0], []).append(item)
        waiting, running = list(reversed(self.drawn)), dict[int, tuple[Mutant, float, int]]()
        gc.collect()
        gc.freeze()
        while waiting or running:
            while waiting and len(running) < self.jobs:
                self.start(waiting.pop(), running)
            for child, (mutant, end, pipe) in list(running.items()):
                done, status = os.waitpid(child, os.WNOHANG)
                if not done and time.monotonic() > end:
                    os.killpg(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                if done or time.monotonic() > end:
                    said = os.read(pipe, 4096).decode()
                    os.close(pipe)
                    del running[child]
                    code = os.waitstatus_to_exitcode(status) if done else None
                    self.tell(mutant, end_of(code, said), said)
            time.sleep(0.01)
        return True

    def start(self, mutant: Mutant, running: dict[int, tuple[Mutant, float, int]]) -> None:
        tests = tests_for(mutant)
        path = SOURCE / mutant.path
        old = path.read_bytes()
        source = mutant.apply(old)
        try:
            compile(source, str(path), "exec")
        except SyntaxError:
            return self.tell(mutant, "no program", "")
        if not tests:
            return self.tell(mutant, "untested", "")
        read, write = os.pipe()
        child = os.fork()
        if child:
            os.close(write)
            limit = 20 + 5 * sum(seconds().get(name, 0.0) for name in tests)
            running[child] = mutant, time.monotonic() + limit, read
            return None
        os.setpgid(0, 0)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        code = 70
        try:
            if put_in_place(path, old, source):
                code = self.try_items(tests, write)
            else:
                code = try_afresh(path, source, tests, write)
        except BaseException:
            os.write(write, f"! {traceback.format_exc()[-300:]}".encode())
        finally:
            os._exit(code)

    def try_items(self, tests: Sequence[str], write: int) -> int:
        from _pytest.runner import runtestprotocol

        items = [item for name in tests for item in self.items.get(name, ())]
        for item, following in zip(items, [*items[1:], None], strict=True):
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                os.write(write, item.nodeid.encode())
                return 1
        return 0


def end_of(code: int | None, said: str) -> str:
    """What became of a change. Only a test that failed kills: a child that ended for another reason proves nothing."""
    if code is None:
        return "timeout"
    return "survived" if code == 0 else "killed" if said and not said.startswith("!") else "broken"


class First:
    """A plugin of pytest that tells the first test that fails."""

    def __init__(self, write: int) -> None:
        self.write = write

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            os.write(self.write, str(report.nodeid).encode())


def try_afresh(path: Path, source: bytes, tests: Sequence[str], write: int) -> int:
    """The same in a new interpreter's stead: the package is forgotten, and loaded with the change."""
    import pytest

    for name in [
        name for name in sys.modules if name.partition(".")[0] in ("colonnade", "tests", "audit", "benchmarks")
    ]:
        del sys.modules[name]
    sys.meta_path.insert(0, Changed(path, source))
    # A test file that cannot even be loaded has noticed the change.
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests], plugins=[First(write)]))


def equivalent() -> dict[str, str]:
    """Survivors that were argued to leave every promise as it is: the change as shown, without its line's number."""
    content = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {entry["change"]: entry["why"] for entry in content.get("equivalent", [])}


def without_line(shown: str) -> str:
    return re.sub(r":\d+ in ", " in ", shown, count=1)


def draw(count: int, seed: int, only: str, skip: int) -> tuple[int, list[Mutant]]:
    """How many changes there are, and those drawn of them."""
    every = sorted(mutant for path in modules() for mutant in mutants_of(path))
    drawn = [m for m in every if re.search(only, m.scope)] if only else random.Random(seed).sample(every, count)
    return len(every), drawn[skip:]


def planted() -> list[Mutant]:
    """The changes of `planted.toml`, each a text that stands once in its file and what is put in its place."""
    out = []
    for entry in tomllib.loads(PLANTED.read_text(encoding="utf-8"))["planted"]:
        source = (SOURCE / entry["path"]).read_bytes()
        old = entry["old"].encode()
        if source.count(old) != 1:
            raise SystemExit(f"{entry['path']} must have the planted text once: {entry['old']}")
        start = source.index(old)
        line = source[:start].count(b"\n") + 1
        out.append(Mutant(entry["path"], line, start, start + len(old), entry["what"], entry["new"]))
    return out


def run(drawn: Sequence[Mutant], jobs: int, fields: Mapping[str, object]) -> dict[str, object]:
    """Try each change, and tell what became of them."""
    import pytest

    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    known, told = equivalent(), list[dict[str, object]]()
    found = dict.fromkeys(("killed", "timeout", "survived", "broken", "untested", "equivalent"), 0)
    by_module: dict[str, dict[str, int]] = {}
    began = os.times()

    def tell(mutant: Mutant, end: str, said: str) -> None:
        if end == "no program":
            return
        shown = mutant.show((SOURCE / mutant.path).read_bytes())
        if end in ("survived", "untested") and without_line(shown) in known:
            end = "equivalent"
        found[end] += 1
        by_module.setdefault(mutant.path, dict.fromkeys(found, 0))[end] += 1
        told.append({**asdict(mutant), "shown": shown, "end": end, "by": said, "tests": len(tests_for(mutant))})
        print(f"{end}: {shown} {said}", file=sys.stderr, flush=True)

    wanted = {name.partition("::")[0] for mutant in drawn for name in tests_for(mutant)}
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:faulthandler", "--no-summary"]
    if wanted:
        pytest.main([*quiet, *sorted(wanted)], plugins=[Tries(drawn, jobs, tell)])
    now = os.times()
    cpu = sum(now[:4]) - sum(began[:4])
    tried = sum(found.values())
    return {**fields, "tried": tried, **found, "cpu_seconds": round(cpu), "modules": by_module, "changes_tried": told}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("map", "run", "planted", "count"))
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
    if given.what == "planted":
        every, drawn, seed = len(planted()), planted(), 0
    else:
        (every, drawn), seed = draw(given.count, given.seed, given.only, given.skip), given.seed
    out = run(drawn, given.jobs, {"seed": seed, "changes": every})
    if given.json:
        print(json.dumps(out, indent=1))
    else:
        print(
            f"{out['tried']} of {out['changes']} changes (seed {out['seed']}): {out['killed']} killed, "
            f"{out['timeout']} never ended, {out['equivalent']} argued to change no promise, "
            f"{out['survived']} survived, {out['broken']} broken, {out['untested']} on lines that no quick test runs; "
            f"{out['cpu_seconds']} CPU seconds"
        )
    return 1 if out["survived"] or out["broken"] or out["untested"] else 0


if __name__ == "__main__":
    sys.exit(main())

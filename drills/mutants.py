"""Small changes of the code that promises rest on, one at a time: some quick test must fail for each.

    python -m drills.mutants map                         which quick test runs which line, and how long it takes
    python -m drills.mutants run --count 500 --seed 1    drawn changes, each against the tests that run its line
    python -m drills.mutants run --only lattice_error    every change of the functions of that name
    python -m drills.mutants planted                     the changes of `planted.toml`, chosen by hand
    python -m drills.mutants write                       what became of them, in docs/results/operations.md

Changes are made by rule over every operator and constant of the modules in MODULES: a term dropped, a factor of 2,
`<` for `<=`, max for min, c + 1 for c, floor for ceil, a condition turned round. Tests are collected once; a change
runs in a fork of this process, in which the changed functions get other code, or in a new interpreter, where the change
is of no function or of what a test made while it was collected. The files stay as they are, so that no proof's pin can
notice it. A test that failed is run without the change too, once: what it cannot pass in such a child kills nothing.
What became of each change is kept at once, so that a run that was cut off goes on (`--anew` forgets it, `--left` tries
again what is not killed). A survivor is killed by a new test, or argued in `mutants.toml` to change no promise.
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from docs.sections import publish

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "colonnade"
KEPT = ROOT / ".cache" / "mutants"
EQUIVALENT = Path(__file__).with_suffix(".toml")
PLANTED = Path(__file__).with_name("planted.toml")
TRIED = KEPT / "tried.jsonl"
DONE = {"killed", "never ended", "equivalent"}
MODULES = (
    "mechanism/*.py",
    "crypto/lattice/parameters.py",
    "crypto/lattice/security.py",
    "crypto/lattice/work.py",
    "crypto/lattice/party.py",
    "crypto/lattice/words.py",
    "crypto/masks.py",
    "crypto/alignment/code.py",
    "planning/session_plan.py",
    "planning/precision.py",
    "foundation/grid.py",
    "foundation/integers.py",
    "data/gate.py",
    "consent/*.py",
)
CHOICES = ("weights.py", "forecast.py", "table_error.py", "cuts.py")
"""Of mechanism, what chooses weights, cuts and a forecast: any choice keeps the promise, so that a change here is one
of utility, which the tables of docs/results watch."""
FOLDERS = ("tests/unit", "tests/property", "tests/protocol", "tests/goldens", "tests/statistical")
NOT_OF_THE_PROGRAM = (
    "test_house",
    "test_docs",
    "test_docs_site",
    "test_proofs",
    "test_public_names",
    "test_packaging",
    "test_notebooks",
)
SLOWEST = 20.0
"""Tests that take longer run in `make test` and are not asked here."""
ASLEEP = 60.0
"""Seconds after which a child that takes no time of the processor is given up."""
MEMORY = 6 << 30
"""Bytes that a child may take: a bound that is wrong by a factor asks for any number."""

COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
SWAPPED = {"min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "minimum": "maximum", "maximum": "minimum"}


@dataclass(frozen=True, order=True)
class Mutant:
    """One change: of a file, from one byte to another."""

    path: str
    line: int
    start: int
    stop: int
    new: str
    key: str
    """What it is called, which stays the same as long as the changed words do."""
    scope: str = ""
    later: bool = True
    """Whether it is of a function's body, which runs after the module was imported."""

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.stop :]


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
        key = " ".join(f"{place} in {scope or 'the module'}, {rule}: {text(node)} -> {new}".split())
        seen[key] += 1
        yield Mutant(place, node.lineno, *span(node), new, key + f" ({seen[key]})" * (seen[key] > 1), scope, later)

    def changes(node: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, ast.BinOp):
            left, right = f"({text(node.left)})", f"({text(node.right)})"
            if isinstance(node.op, ast.Add | ast.Sub) and not isinstance(node.left, ast.JoinedStr):
                yield from change(node, "a term dropped", left)
                if isinstance(node.op, ast.Add):
                    yield from change(node, "a term dropped", right)
            if isinstance(node.op, ast.Mult | ast.Div):
                sign = "*" if isinstance(node.op, ast.Mult) else "/"
                yield from change(node, "a factor of 2", f"(2 * {left} {sign} {right})")
            if isinstance(node.op, ast.FloorDiv):
                yield from change(node, "ceil for floor", f"-(-{left} // {right})")
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            sign = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}.get(
                type(node.ops[0])
            )
            if sign:
                yield from change(
                    node, "another comparison", f"({text(node.left)}) {COMPARED[sign]} ({text(node.comparators[0])})"
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
        nonlocal scope, later
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Assert):
            return
        inside = isinstance(node, ast.FunctionDef | ast.ClassDef)
        before, so_far = scope, later
        if inside:
            scope = f"{scope}.{node.name}".lstrip(".")
        yield from changes(node)
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            children = value if isinstance(value, list) else [value]
            later = so_far or (isinstance(node, ast.FunctionDef | ast.Lambda) and field == "body")
            for child in children:
                # What a branch assigns on its way to a raise is a part of its text.
                branch = isinstance(node, ast.If | ast.ExceptHandler) and isinstance(children[-1], ast.Raise)
                told = branch and isinstance(child, ast.Assign)
                if isinstance(child, ast.AST) and not told:
                    yield from walk(child)
        scope, later = before, so_far

    place, scope, later, seen = path.relative_to(SOURCE).as_posix(), "", False, Counter[str]()
    yield from walk(ast.parse(source))


def modules() -> list[Path]:
    found = {path for pattern in MODULES for path in SOURCE.glob(pattern)}
    return sorted(path for path in found if path.name not in CHOICES)


# Which tests run a line


class Watch:
    """A plugin of pytest that tells coverage which test runs, and adds up what each takes of the processor."""

    def __init__(self) -> None:
        from coverage import Coverage

        self.cover = Coverage.current()
        self.taken: dict[str, float] = {}
        self.began, self.name = 0.0, ""

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.began, self.name = sum(os.times()[:4]), function_of(nodeid)
        self.cover.switch_context(self.name)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        # What a file's tests share is made in the first of them, and belongs to all.
        shared = fixturedef.scope != "function"
        if shared:
            self.cover.switch_context(self.name.partition("::")[0])
        try:
            return (yield)
        finally:
            if shared:
                self.cover.switch_context(self.name)

    def pytest_runtest_logreport(self, report: Any) -> None:
        # A test that fails as it is says nothing of a change.
        if report.failed:
            self.taken[function_of(report.nodeid)] = float("inf")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.cover.switch_context("")
        self.taken[self.name] = self.taken.get(self.name, 0.0) + sum(os.times()[:4]) - self.began


def function_of(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def make_map(places: Sequence[str], jobs: int) -> None:
    """Run the quick tests once under coverage, with the test's name beside each line; `places` are added to the map."""
    KEPT.mkdir(parents=True, exist_ok=True)
    settings = KEPT / "coveragerc"
    # Only modules that are changed are traced: the rest would triple the time.
    traced = "".join(f"\n  {path}" for path in dict.fromkeys([*modules(), *(SOURCE / m.path for m in planted())]))
    settings.write_text(f"[run]\nbranch = false\ninclude ={traced}\n")
    program = (
        "import json, sys, pytest; from drills.mutants import Watch; w = Watch(); "
        "code = pytest.main(sys.argv[2:], plugins=[w]); "
        "open(sys.argv[1], 'w').write(json.dumps(w.taken)); sys.exit(code)"
    )
    (KEPT / "traced").write_text(program)
    files = sorted(
        file.relative_to(ROOT).as_posix()
        for place in places or FOLDERS
        for file in ([ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("test_*.py"))
        if file.stem not in NOT_OF_THE_PROGRAM
    )
    with ThreadPoolExecutor(jobs) as pool:
        parts = [files[part::jobs] for part in range(jobs)]
        list(pool.map(lambda part: trace(settings, *part), enumerate(parts)))
    kept = [KEPT / f"lines.{part}" for part in range(jobs)]
    before = [KEPT / "lines"] if places and (KEPT / "lines").exists() else []
    subprocess.run(
        [
            sys.executable,
            "-m",
            "coverage",
            "combine",
            f"--data-file={KEPT / 'lines'}",
            *["--append"] * bool(before),
            *kept,
        ],
        cwd=ROOT,
        check=True,
    )
    taken = dict(seconds()) if places else {}
    for part in range(jobs):
        taken |= json.loads((KEPT / f"seconds.{part}").read_text())
    (KEPT / "seconds.json").write_text(json.dumps(taken))


def trace(settings: Path, part: int, files: Sequence[str]) -> None:
    """Run one part of the tests under coverage, into files of its own."""
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", f"--data-file={KEPT / f'lines.{part}'}"]
    command += [str(KEPT / "traced"), str(KEPT / f"seconds.{part}"), "-q", "-p", "no:cacheprovider", "-m", "quick"]
    # A file that cannot be loaded here, for want of an extra, costs its own tests alone.
    command += ["--continue-on-collection-errors"]
    subprocess.run([*command, *files], cwd=ROOT, env=os.environ | {"PYTHONPATH": path_of_tests()}, check=False)


def path_of_tests() -> str:
    """Return where a child finds the package and the tests, and what this process was given beside them."""
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(["src", ".", *filter(None, [given])])


@cache
def seconds() -> dict[str, float]:
    kept = KEPT / "seconds.json"
    return dict(json.loads(kept.read_text())) if kept.exists() else {}


@cache
def lines_of(path: str) -> dict[int, set[str]]:
    """For each line of a module the tests that run it; "" where it runs before any test."""
    from coverage import CoverageData

    data = CoverageData(str(KEPT / "lines"))
    data.read()
    of_file: dict[str, list[str]] = {}
    for name in seconds():
        of_file.setdefault(name.partition("::")[0], []).append(name)
    return {
        line: {name for context in contexts for name in of_file.get(context, [context])}
        for line, contexts in data.contexts_by_lineno(str(SOURCE / path)).items()
    }


def names_for(mutant: Mutant) -> set[str]:
    lines = lines_of(mutant.path)
    # Of a statement of several lines the first may be the only one that is counted.
    back = range(mutant.line, mutant.line - 8 if mutant.scope else mutant.line - 1, -1)
    names = next((lines[line] for line in back if lines.get(line)), set())
    # What runs at import belongs to everything that runs in the module, whichever test imports it first.
    return names if mutant.later and names - {""} else {name for tests in lines.values() for name in tests}


def at_import(mutant: Mutant) -> bool:
    """Whether a line runs before any test does, so that what it made then is not what the change would make."""
    return not mutant.later or "" in names_for(mutant)


@cache
def imported(file: str) -> set[str]:
    """The modules that a file of tests names in its imports."""
    nodes = [node for node in ast.walk(ast.parse((ROOT / file).read_bytes())) if isinstance(node, ast.ImportFrom)]
    return {word for node in nodes for word in (*(node.module or "").split("."), *(alias.name for alias in node.names))}


def tests_for(mutant: Mutant, patience: float) -> list[str]:
    """The tests that run a line, the quickest first, those of its own module sooner, for so many seconds."""
    stem, afresh = Path(mutant.path).stem, at_import(mutant)
    kept = names_for(mutant) & seconds().keys()
    far = {name: 1 if stem in imported(name.partition("::")[0]) else 4 if stem in name else 10 for name in kept}
    # A new interpreter loads each file of tests again, so that it takes one file after the other.
    whole = Counter[str]()
    for name in kept if afresh else ():
        whole[name.partition("::")[0]] += min(seconds()[name], SLOWEST)
    known = sorted(
        ((whole[name.partition("::")[0]] + 1) * far[name], seconds()[name] * far[name], name) for name in kept
    )
    out, total, files = [], 0.0, set[str]()
    for *_, name in known:
        taken = seconds()[name]
        loading = float(afresh and name.partition("::")[0] not in files)
        if taken <= SLOWEST and total + taken + loading <= patience:
            out.append(name)
            total += taken + loading
            files.add(name.partition("::")[0])
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


def other_code(
    path: Path, old: bytes, new: bytes, functions: Sequence[FunctionType]
) -> list[tuple[FunctionType, CodeType]]:
    """Which functions get which code by a change, wherever they are held; none if it is of something else too.

    What runs at import, a constant or a default say, is copied by whoever imports it, and cannot be changed so.
    """
    before, after = (compile(source, str(path), "exec", dont_inherit=True) for source in (old, new))
    names = [code.co_qualname for code in codes_in(before)]
    if names != [code.co_qualname for code in codes_in(after)]:
        return []
    out = []
    for a, b in [(before, after), *zip(codes_in(before), codes_in(after), strict=True)]:
        function = bool(a.co_flags & CO_NEWLOCALS)
        if spelled(a, deep=function) == spelled(b, deep=function):
            continue
        if not function:
            return []
        place = a.co_qualname, a.co_firstlineno, spelled(a)
        held = [f for f in functions if (f.__code__.co_qualname, f.__code__.co_firstlineno) == place[:2]]
        held = [f for f in held if spelled(f.__code__) == place[2]]
        # What is made within a function comes with the function's code; a class's body is no function.
        if (held and a.co_freevars != b.co_freevars) or (not held and "<locals>" not in a.co_qualname):
            return []
        out += [(function, b) for function in held]
    return out


def spelled(code: CodeType, deep: bool = True) -> tuple[object, ...]:
    """What a piece of code does, without its places."""
    inner = [spelled(c) if deep else c.co_qualname for c in code.co_consts if isinstance(c, CodeType)]
    plain = [repr(c) for c in code.co_consts if not isinstance(c, CodeType)]
    return code.co_code, code.co_names, tuple(plain), tuple(inner)


@dataclass(frozen=True)
class Try:
    """A child that runs tests with a change, or without, to see whether it was the change that made one fail."""

    mutant: Mutant
    tests: tuple[str, ...]
    codes: Sequence[tuple[FunctionType, CodeType]]
    """The functions that change; none for a new interpreter."""
    end: str = ""
    failed: str = ""
    """What became of the child with the change, and in which case, where this child goes without."""


class Tries:
    """A plugin of pytest that collects tests once, and instead of running them tries changes on forks of itself."""

    def __init__(
        self, drawn: Mapping[Mutant, Sequence[str]], jobs: int, tell: Callable[[Mutant, str, str], None]
    ) -> None:
        self.drawn, self.waiting, self.jobs, self.tell = drawn, deque(drawn), jobs, tell
        self.items: dict[str, list[Any]] = {}
        self.functions: list[FunctionType] = []
        self.caches: list[Any] = []
        self.running: dict[int, tuple[Try, int]] = {}
        self.awake: dict[int, tuple[float, float]] = {}
        self.sound: set[tuple[str, str, bool]] = set()
        self.unsound: set[str] = set()

    def pytest_runtestloop(self, session: Any) -> bool:
        for item in session.items:
            self.items.setdefault(function_of(item.nodeid), []).append(item)
        gc.collect()
        # What is frozen is found no more.
        for held in gc.get_objects():
            if isinstance(held, FunctionType) and held.__code__.co_filename.startswith(str(SOURCE)):
                self.functions.append(held)
            elif isinstance(held, type(seconds)) and str(held.__module__).startswith("colonnade"):
                self.caches.append(held)
        gc.freeze()
        while self.waiting or self.running:
            while self.waiting and len(self.running) < self.jobs:
                self.begin(self.waiting.popleft())
            for child, (tried, told) in list(self.running.items()):
                if (end := self.end_of(child, told)) is not None:
                    del self.running[child]
                    self.judge(tried, *end)
            # Looking costs time of the processor, too, of which a loaded machine leaves little.
            time.sleep(0.05)
        return True

    def begin(self, mutant: Mutant) -> None:
        tests = tuple(name for name in self.drawn[mutant] if name not in self.unsound)
        if not tests:
            return self.tell(mutant, "untested", "")
        path = SOURCE / mutant.path
        old = path.read_bytes()
        codes = [] if at_import(mutant) else other_code(path, old, mutant.apply(old), self.functions)
        return self.start(Try(mutant, tests, codes))

    def judge(self, tried: Try, end: str, said: str) -> None:
        if tried.failed and end == "survived":
            self.sound.add((tried.end, tried.failed, bool(tried.codes)))
            self.tell(tried.mutant, tried.end, tried.failed)
        elif tried.failed:
            print(f"not sound in a child without a change: {said}, {tried.failed}", file=sys.stderr)
            self.unsound |= {function_of(tried.failed), function_of(said)}
            self.begin(tried.mutant)
        elif end in DONE and (end, said, bool(tried.codes)) not in self.sound:
            until = tried.tests.index(function_of(said)) + 1 if function_of(said) in tried.tests else None
            self.start(replace(tried, tests=tried.tests[:until], end=end, failed=said))
        else:
            self.tell(tried.mutant, end, said)

    def start(self, tried: Try) -> None:
        told, name = tempfile.mkstemp()
        os.unlink(name)
        if child := os.fork():
            self.running[child] = tried, told
            return
        code = 70
        try:
            os.setpgid(0, 0)
            allow(tried.tests)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            silence = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silence, stream)
            if not tried.codes:
                os.set_inheritable(told, True)
                source = (SOURCE / tried.mutant.path).read_bytes()
                source = source if tried.failed else tried.mutant.apply(source)
                program = f"from drills.mutants import *; try_afresh({tried.mutant.path!r}, {source!r}, {told})"
                os.execv(sys.executable, [sys.executable, "-c", program, *tried.tests])
            for cached in self.caches:
                cached.cache_clear()
            for function, other in tried.codes if not tried.failed else ():
                function.__code__ = other
            code = self.try_items(tried.tests, told)
        except BaseException:
            os.write(told, f"? {traceback.format_exc()[-300:]!r}\n".encode())
        finally:
            os._exit(code)

    def try_items(self, tests: Sequence[str], told: int) -> int:
        from _pytest.runner import runtestprotocol

        items = [item for name in tests for item in self.items.get(name, ())]
        for item, following in zip(items, [*items[1:], None], strict=True):
            allow([function_of(item.nodeid)])
            os.write(told, f"@ {item.nodeid}\n".encode())
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                os.write(told, f"! {item.nodeid}\n".encode())
                return 1
        return 0

    def end_of(self, child: int, told: int) -> tuple[str, str] | None:
        """What became of a child, and the test that it failed in or was at; None as long as it runs.

        Only a test that failed, or did not end, kills: a child that ended for another reason proves nothing.
        """
        done, status = os.waitpid(child, os.WNOHANG)
        if not done and not self.sleeps(child):
            return None
        if not done:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self.awake.pop(child, None)
        lines = os.pread(told, 1 << 24, 0).decode().splitlines() or ["? nothing told"]
        os.close(told)
        code = os.waitstatus_to_exitcode(status) if done else -signal.SIGXCPU
        failed = [line for line in lines if line.startswith("!")]
        if code == 0:
            return "survived", ""
        if failed:
            return "killed", failed[0][2:]
        if code == -signal.SIGXCPU and lines[-1].startswith("@"):
            return "never ended", lines[-1][2:]
        return "broken", f"{code} {lines[-1]}"

    def sleeps(self, child: int) -> bool:
        """Whether a child has waited for so long that it waits for nothing: a machine under load leaves it ready."""
        state, *numbers = Path(f"/proc/{child}/stat").read_text().rpartition(") ")[2].split()
        taken, now = float(numbers[10]) + float(numbers[11]), time.monotonic()
        before, since = self.awake.get(child, (-1.0, now))
        if state != "S" or taken != before:
            self.awake[child] = taken, now
        return state == "S" and now - since > ASLEEP and taken == before


class Told:
    """A plugin of pytest that writes down which test runs, and the first that fails."""

    def __init__(self, told: int) -> None:
        self.told = told

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        os.write(self.told, f"@ {nodeid}\n".encode())

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            os.write(self.told, f"! {report.nodeid}\n".encode())

    # A test file that cannot even be loaded has noticed the change.
    pytest_collectreport = pytest_runtest_logreport


def allow(tests: Sequence[str]) -> None:
    """End this process when it took far more of the processor than these tests take."""
    limit = round(time.process_time() + 10 + 4 * sum(seconds().get(name, 0.0) for name in tests))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


QUIET = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:faulthandler", "--no-summary")


def settle() -> None:
    """Examples that do not change from run to run, and no clock: a loaded machine is no failure."""
    from hypothesis import settings

    os.environ.pop("CI", None)
    settings.register_profile("mutants", derandomize=True, deadline=None, database=None)
    settings.load_profile("mutants")


def try_afresh(path: str, source: bytes, told: int) -> None:
    """The same in a new interpreter, which loads one module from another source."""
    settle()
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    sys.meta_path.insert(0, Changed(SOURCE / path, source))
    os._exit(int(pytest.main([*QUIET, "-x", *sys.argv[1:]], plugins=[Told(told)])))


# What became of them


def equivalent() -> dict[str, str]:
    """Survivors that were argued to leave every promise as it is."""
    content = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return {entry["change"]: entry["why"] for entry in content.get("equivalent", [])}


def draw(count: int | None, seed: int, only: str = "") -> list[Mutant]:
    """Changes drawn by a seed; what is changed elsewhere in the code leaves the others in the draw."""
    every = [mutant for path in modules() for mutant in mutants_of(path)]
    drawn = sorted(every, key=lambda mutant: sha256(f"{seed} {mutant.key}".encode()).digest())[:count]
    return [mutant for mutant in drawn if re.search(only, f"{mutant.path}:{mutant.scope}")]


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
        out.append(Mutant(entry["path"], line, start, start + len(old), entry["new"], entry["what"]))
    return out


def kept() -> dict[str, list[tuple[str, str]]]:
    """What became of each change that was tried, and by which test: the first time, and each time after."""
    out: dict[str, list[tuple[str, str]]] = {}
    for line in TRIED.read_text(encoding="utf-8").splitlines() if TRIED.exists() else ():
        key, end, by = json.loads(line)
        out.setdefault(key, []).append((end, by))
    return out


def last_end(key: str, before: Mapping[str, list[tuple[str, str]]], known: Mapping[str, str]) -> str:
    end = before[key][-1][0] if key in before else "not tried"
    return "equivalent" if end in ("survived", "untested") and key in known else end


def run(drawn: Mapping[Mutant, Sequence[str]], jobs: int) -> float:
    """Try each change, keep what became of it, and return the seconds that all processes took."""
    os.chdir(ROOT)
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    began = sum(os.times()[:4])

    def tell(mutant: Mutant, end: str, by: str) -> None:
        with TRIED.open("a", encoding="utf-8") as file:
            file.write(json.dumps([mutant.key, end, by]) + "\n")
        print(f"{end}: {mutant.path}:{mutant.line} {mutant.key} {by}", file=sys.stderr, flush=True)

    settle()
    if wanted := sorted({name.partition("::")[0] for tests in drawn.values() for name in tests}):
        pytest.main([*QUIET, *wanted], plugins=[Tries(drawn, jobs, tell)])
    return sum(os.times()[:4]) - began


def write(draws: Sequence[tuple[int, int]]) -> None:
    """The page of results, from what was kept: how each change ended at first, and how it ends now."""
    before, known = kept(), equivalent()

    def short(by: str) -> str:
        return f"`{function_of(by).rpartition('::')[2]}`" if by else ""

    def first(mutant: Mutant) -> str:
        return before[mutant.key][0][0] if mutant.key in before else "not tried"

    def now(mutant: Mutant) -> str:
        return last_end(mutant.key, before, known)

    out = [
        "# Changes of the code that promises rest on",
        "",
        "Written by `python -m drills mutants write`, from what `map`, `planted` and `run` kept. A change is killed",
        "where a quick test fails with it and passes without it in a child of the same kind; a test that does not end",
        "within four times what it takes of the processor, and ten seconds, kills, too. First: when a change was first",
        "tried; now: when it was tried last. An outcome stays until a change is tried again, so that a table may be of",
        'several days, and "first" of code that was changed since.',
        "",
        "## Planted by hand",
        "",
        "| change | first | now | by |",
        "|---|---|---|---|",
    ]
    for mutant in planted():
        by = before[mutant.key][-1][1] if now(mutant) in DONE else ""
        out.append(f"| {mutant.key} | {first(mutant)} | {now(mutant)} | {short(by)} |")
    for seed, count in draws:
        drawn = draw(count, seed)
        tried = [mutant for mutant in drawn if mutant.key in before]
        out += ["", f"## Drawn by seed {seed}", ""]
        out += [
            f"{len(tried)} of {len(drawn)} changes were tried, of {len(draw(None, 0)):,} that the rules make.",
            "",
        ]
        out += ["| module | tried | killed at first | now | equivalent | left |", "|---|---|---|---|---|---|"]
        rows: dict[str, list[int]] = {}
        for mutant in tried:
            ends = first(mutant) in DONE, now(mutant) in DONE - {"equivalent"}, now(mutant) == "equivalent"
            for name in (mutant.path, "all"):
                row = rows.setdefault(name, [0] * 5)
                rows[name] = [a + b for a, b in zip(row, (1, *ends, now(mutant) not in DONE), strict=True)]
        out += [f"| {name} | {' | '.join(map(str, row))} |" for name, row in sorted(rows.items())]
        if left := [mutant for mutant in tried if now(mutant) not in DONE]:
            out += ["", "Left:", "", "| change | end |", "|---|---|"]
            out += [f"| `{mutant.key}` | {now(mutant)} |" for mutant in left]
        if mended := [mutant for mutant in tried if first(mutant) not in DONE and now(mutant) in DONE]:
            out += ["", "Survived at first:", "", "| change | then |", "|---|---|"]
            for mutant in mended:
                why = (
                    known[mutant.key]
                    if now(mutant) == "equivalent"
                    else f"killed by {short(before[mutant.key][-1][1])}"
                )
                out.append(f"| `{mutant.key}` | {why} |")
    publish("mutants", "\n".join(out) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("map", "run", "planted", "count", "write"))
    parser.add_argument("places", nargs="*", help="for `map`: only these files and folders, added to the map")
    parser.add_argument("--count", type=int, help="changes that are drawn: 500, or with --only all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="those of the modules and functions that this pattern finds")
    parser.add_argument("--patience", type=float, default=45.0, help="seconds of tests that a change is tried with")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most", type=int, help="no more changes than this now")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--anew", action="store_true", help="try all, also what was tried before")
    again.add_argument("--left", action="store_true", help="try again what no test killed before")
    given = parser.parse_intermixed_args()
    if given.what == "map":
        make_map(given.places, given.jobs)
        return 0
    if given.what == "count":
        for path in modules():
            print(sum(1 for _ in mutants_of(path)), path.relative_to(SOURCE).as_posix())
        return 0
    if given.what == "write":
        write([(1, 500), (2, 200)])
        return 0
    drawn = (
        planted()
        if given.what == "planted"
        else draw(given.count or (None if given.only else 500), given.seed, given.only)
    )
    before, known = kept(), equivalent()
    left = [
        m
        for m in drawn
        if given.anew or m.key not in before or (given.left and last_end(m.key, before, known) not in DONE)
    ]
    # New interpreters cost most and come last.
    left.sort(key=at_import)
    taken = run({mutant: tests_for(mutant, given.patience) for mutant in left[: given.most]}, given.jobs)
    before = kept()
    ends = Counter(last_end(mutant.key, before, known) for mutant in drawn)
    told = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    print(f"{len(drawn)} changes{f' of seed {given.seed}' if given.what == 'run' else ''}: {told}; {taken:.0f} CPU s")
    return 1 if set(ends) - DONE else 0


if __name__ == "__main__":
    sys.exit(main())

"""Finished fits on disk, one JSON line each, so that a run resumes where it was interrupted.

A fit is filed under its cell, its replicate, the seed and a digest of the code that decides its score; the digest is
taken over the syntax tree without docstrings, so a comment changes nothing and a statement everything.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from functools import lru_cache
from pathlib import Path

from experiments.paper.methods import FM_PROTOCOL, FM_REPAIRED_PROTOCOL, OURS, OURS_LATTICE, Cell, Result

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ROOT / ".cache" / "experiments" / "fits.jsonl"
SEED = 2020
"""Of every table; with the cell and the replicate it fixes all of a run's randomness."""

_DATA = ("experiments/data", "experiments/paper/protocol.py", "experiments/paper/methods.py")
_OURS = (
    "src/colonnade/analysis",
    "src/colonnade/mechanism",
    "src/colonnade/foundation/grid.py",
    "src/colonnade/foundation/randomness.py",
    "src/colonnade/foundation/columns.py",
    "src/colonnade/foundation/schema.py",
    "src/colonnade/data/gate.py",
    "src/colonnade/data/storage.py",
    "src/colonnade/planning/precision.py",
    "src/colonnade/planning/session_plan.py",
    "src/colonnade/planning/crosses.py",
    "src/colonnade/data/table.py",
)


def decided_by(method: str) -> tuple[str, ...]:
    """The files and folders whose statements can change a method's score."""
    if method == OURS_LATTICE:
        return (*_DATA, *_OURS, "src/colonnade/crypto/lattice/party.py", "src/colonnade/crypto/lattice/parameters.py")
    if method in (OURS, FM_PROTOCOL, FM_REPAIRED_PROTOCOL):
        return (*_DATA, *_OURS)
    return (*_DATA, "experiments/baselines")


@lru_cache(maxsize=64)
def code_digest(method: str) -> str:
    """SHA-256 over the syntax trees that decide a method's score."""
    digest = hashlib.sha256()
    for place in decided_by(method):
        path = ROOT / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0")
            digest.update(ast.dump(_bare(ast.parse(file.read_text(encoding="utf-8")))).encode() + b"\0")
    return digest.hexdigest()[:16]


def _bare(tree: ast.Module) -> ast.Module:
    """The tree without docstrings and other statements that are only a constant."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            node.body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return tree


def seed_of(cell: Cell, replicate: int, seed: int = SEED) -> bytes:
    """The seed of one fit; the lattice re-run of a cell has that of the plain one."""
    content = cell.to() | {"replicate": replicate, "seed": seed}
    if cell.method == OURS_LATTICE:
        content["method"] = OURS
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()


def name_of(cell: Cell, replicate: int, seed: int = SEED) -> str:
    """What a fit is filed under."""
    content = cell.to() | {"replicate": replicate, "seed": seed, "code": code_digest(cell.method)}
    return json.dumps(content, sort_keys=True)


class Store:
    """Fits by name; every process may append, since one short write is whole or absent."""

    def __init__(self, path: Path = DEFAULT) -> None:
        self._path = path
        self._fits: dict[str, Result] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                    self._fits[entry["name"]] = entry["result"]
                except (json.JSONDecodeError, KeyError, TypeError):
                    continue  # a line that an interruption cut short

    def get(self, name: str) -> Result | None:
        return self._fits.get(name)

    def put(self, name: str, result: Result) -> None:
        self._fits[name] = result
        self._path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"name": name, "result": result}) + "\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)

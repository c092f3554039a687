"""Ties each proof to the code that it is about: `python proofs/pin.py` shows what changed and renews the pins.

A proof's head lists functions, classes and constants of the package, each with a hash of its source. Comments,
docstrings, formatting, annotations and the texts of errors do not count, nor does the file that the source stands in.
A pin says that a person has read the proof against the code as it is: read them again before renewing it.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "proofs"
PACKAGE = ROOT / "src" / "colonnade"
DIGITS = 16
OPENING, CLOSING = "<!-- pins", "-->"

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
IGNORED = {"type_comment", "kind", "ctx", "returns", "annotation", "type_params"}


@dataclass(frozen=True)
class Pin:
    """What a proof says of one name, such as mechanism.plan.Terms.check."""

    name: str
    digest: str


def pins_of(text: str) -> list[Pin]:
    """The pins in a proof's head, in their order."""
    start = text.find(OPENING)
    if start < 0:
        return []
    lines = text[start + len(OPENING) : text.index(CLOSING, start)].split("\n")
    return [Pin(*[*line.split(), "-"][:2]) for line in lines if line.strip()]


def digest_of(name: str) -> str:
    """The hash of the source that a name of the package stands for."""
    return digest(_find(name))


def digest(node: ast.AST) -> str:
    """The hash of a piece of source, by its meaning."""
    return hashlib.sha256("\n".join(_spell(node)).encode()).hexdigest()[:DIGITS]


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _find(name: str) -> Definition:
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        path = PACKAGE.joinpath(*parts[:cut]).with_suffix(".py")
        if path.exists():
            scope: list[ast.stmt] = _parse(path).body
            for i, part in enumerate(parts[cut:], 1):
                found = [node for node in scope if isinstance(node, Definition) and part in _names(node)]
                if not found:
                    break
                node = found[-1]
                if i == len(parts) - cut:
                    return node
                scope = getattr(node, "body", [])
    raise LookupError(f"the package has no {name}")


def _names(node: Definition) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]


def _spell(node: object) -> Iterator[str]:
    """The tree in words that are the same in every Python version."""
    if isinstance(node, ast.Raise):
        called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        yield "raise"
        yield from _spell(called)
    elif isinstance(node, ast.AST):
        yield type(node).__name__
        for field, value in sorted(ast.iter_fields(node)):
            if field in IGNORED or value is None or value == []:
                continue
            yield f".{field}"
            yield from _spell(_without_texts(value) if field == "body" else value)
    elif isinstance(node, list):
        for child in node:
            yield "-"
            yield from _spell(child)
    else:
        yield repr(node)


def _without_texts(body: object) -> object:
    """A body without its docstrings."""
    if not isinstance(body, list):
        return body
    return [
        statement
        for statement in body
        if not (
            isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        )
    ]


def proven() -> dict[str, list[str]]:
    """For each proof the functions that are decorated with its name."""
    out: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for scope, node in _functions(_parse(path)):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "proven":
                    out.setdefault(ast.literal_eval(mark.args[0]), []).append(".".join((module, *scope, node.name)))
    return out


def _functions(tree: ast.Module) -> Iterator[tuple[tuple[str, ...], ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield (), node
        elif isinstance(node, ast.ClassDef):
            yield from (((node.name,), inner) for inner in node.body if isinstance(inner, ast.FunctionDef))


def renew(path: Path, claimed: Sequence[str]) -> tuple[list[str], list[str]]:
    """Write a proof's pins as the code is now; what changed, and the names that the package no longer has."""
    text = path.read_text(encoding="utf-8")
    pins = pins_of(text)
    pins += [Pin(name, "-") for name in claimed if name not in {pin.name for pin in pins}]
    changed, gone, lines = [], [], []
    for pin in pins:
        try:
            now = digest_of(pin.name)
        except LookupError:
            gone.append(f"{path.name}: {pin.name} is gone: name what took its place, and mend the proof")
            now = pin.digest
        if now != pin.digest:
            changed.append(f"{path.name}: {pin.name} {pin.digest} -> {now}")
        lines.append(f"{pin.name} {now}")
    if changed:
        head = "\n".join([OPENING, *lines, CLOSING])
        start = text.find(OPENING)
        if start < 0:
            title, _, rest = text.partition("\n")
            text = f"{title}\n\n{head}\n{rest}"
        else:
            text = text[:start] + head + text[text.index(CLOSING, start) + len(CLOSING) :]
        path.write_text(text, encoding="utf-8")
    return changed, gone


def main() -> int:
    claimed = proven()
    changed, gone = [], []
    for path in sorted(PROOFS.glob("*.md")):
        new, lost = renew(path, claimed.get(path.stem, []))
        changed += new
        gone += lost
    for line in changed + gone:
        print(line)
    if changed:
        print("Read each of these proofs against its code before you commit the new pins.")
    elif not gone:
        print("Every pin is as the code is.")
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main())

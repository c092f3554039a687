"""Ties each proof to the code that it is about.

    python proofs/pin.py                shows every pin whose code changed, and what pinned code calls and no proof pins
    python proofs/pin.py renew PROOF    writes one proof's pins as the code is now, after it was read against the code
    python proofs/pin.py rename OLD=NEW ...   carries pins over a change of names, where the old names give the old hash

A proof's head lists functions, classes and constants of the package, each with a hash of its source, and the commit at
which somebody last read the proof against them. Comments, docstrings, formatting, annotations and the texts of errors
do not count, nor does the module that the source stands in: a pin holds wherever a definition of that name and content
stands, so that moving a file renews nothing.

What pinned code calls by name, and the constants that it reads, are pinned too, by some proof, or stand in
`beside.toml` with the reason why no promise rests on them.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROOFS = ROOT / "proofs"
BESIDE = PROOFS / "beside.toml"
PACKAGE = ROOT / "src" / "colonnade"
DIGITS = 16
OPENING, CLOSING = "<!-- pins", "-->"

Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
IGNORED = {"type_comment", "kind", "ctx", "returns", "annotation", "type_params"}


@dataclass(frozen=True)
class Pin:
    """What a proof says of one name, such as Terms.check."""

    name: str
    digest: str


@dataclass(frozen=True)
class Place:
    """A definition, and the module and class that it stands in."""

    module: str
    name: str
    node: Definition


def pins_of(text: str) -> list[Pin]:
    """The pins in a proof's head, in their order."""
    start = text.find(OPENING)
    if start < 0:
        return []
    lines = text[start : text.index(CLOSING, start)].split("\n")[1:]
    return [Pin(*[*line.split(), "-"][:2]) for line in lines if line.strip()]


def digests_of(name: str) -> list[str]:
    """The hashes of all definitions of the package that have a name."""
    return [digest(place.node) for place in definitions().get(name, [])]


def digest(node: ast.AST, before: Mapping[str, str] | None = None) -> str:
    """The hash of a piece of source, by its meaning; with `before` as if each name were still the one it maps to."""
    words = list(_spell(node))
    if before:
        words = [repr(before.get(word[1:-1], word[1:-1])) if word[:1] == "'" else word for word in words]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:DIGITS]


@cache
def definitions() -> dict[str, list[Place]]:
    """Every function, class, method and constant of the package by its name without the module's."""
    out: dict[str, list[Place]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = _module(path)
        for place in _defined(module, "", ast.parse(path.read_text(encoding="utf-8")).body):
            out.setdefault(place.name, []).append(place)
    return out


def _module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


def _defined(module: str, before: str, body: Sequence[ast.stmt]) -> Iterator[Place]:
    for node in body:
        # A field without a value is no definition.
        if isinstance(node, Definition) and (not isinstance(node, ast.AnnAssign) or node.value):
            for name in _names(node):
                yield Place(module, before + name, node)
        if isinstance(node, ast.ClassDef):
            yield from _defined(module, f"{before}{node.name}.", node.body)


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
    for places in definitions().values():
        for place in places:
            for mark in getattr(place.node, "decorator_list", ()):
                if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "proven":
                    out.setdefault(ast.literal_eval(mark.args[0]), []).append(place.name)
    return {proof: sorted(names) for proof, names in out.items()}


def pinned() -> set[Pin]:
    """All pins of all proofs."""
    return {pin for path in sorted(PROOFS.glob("*.md")) for pin in pins_of(path.read_text(encoding="utf-8"))}


def beside() -> dict[str, str]:
    """What pinned code uses and no promise rests on, with the reason."""
    content = tomllib.loads(BESIDE.read_text(encoding="utf-8"))
    return {name: group["reason"] for group in content["group"] for name in group["names"]}


def changed(path: Path) -> list[str]:
    """What a proof's pins no longer say of the code, one line each."""
    out = []
    for pin in pins_of(path.read_text(encoding="utf-8")):
        now = digests_of(pin.name)
        if not now:
            out.append(f"{path.name}: {pin.name} is gone: name what took its place, and mend the proof")
        elif pin.digest not in now:
            out.append(f"{path.name}: {pin.name} {pin.digest} -> {' or '.join(now)}")
    return out


def used_by(place: Place) -> list[Place]:
    """Functions that a definition calls by name, by `self` or by a class, and constants that it reads."""
    here, modules = _imports(place.module)
    owner = place.name.rpartition(".")[0]
    out: dict[str, Place] = {}
    for node in _walk(place.node):
        found = None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found = here.get(node.id, f"{place.module}:{node.id}")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = node.value.id
            if name in ("self", "cls") and owner:
                found = f"{place.module}:{owner}.{node.attr}"
            elif name in modules:
                found = f"{modules[name]}:{node.attr}"
            elif not node.attr.isupper():  # else the member of an enum
                found = f"{here.get(name, f'{place.module}:{name}')}.{node.attr}"
        if found is not None:
            module, _, name = found.partition(":")
            for other in definitions().get(name, ()):
                if other.module == module and other != place and not isinstance(other.node, ast.ClassDef):
                    out[found] = other
    return list(out.values())


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """A tree without its annotations and without what an error says."""
    yield node
    if isinstance(node, ast.Raise):
        return
    for field, value in ast.iter_fields(node):
        if field not in IGNORED:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _walk(child)


@cache
def _imports(module: str) -> tuple[dict[str, str], dict[str, str]]:
    """What a module imports of the package: names, and modules."""
    path = PACKAGE.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    names: dict[str, str] = {}
    modules: dict[str, str] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("colonnade"):
            base = (node.module or "").removeprefix("colonnade").removeprefix(".")
            for alias in node.names:
                whole = f"{base}.{alias.name}".removeprefix(".")
                folder = PACKAGE.joinpath(*whole.split("."))
                if folder.is_dir() or folder.with_suffix(".py").exists():
                    modules[alias.asname or alias.name] = whole
                else:
                    names[alias.asname or alias.name] = f"{base}:{alias.name}"
    return names, modules


def loose() -> dict[str, list[str]]:
    """What pinned code uses and neither a proof pins nor `beside.toml` names, with the pinned code that uses it."""
    known, aside = pinned(), beside()
    out: dict[str, list[str]] = {}
    for pin in sorted(known, key=lambda one: one.name):
        for place in definitions().get(pin.name, ()):
            if digest(place.node) == pin.digest:
                for used in used_by(place):
                    if used.name not in aside and not any(
                        Pin(one.name, digest(one.node)) in known for one in _around(used)
                    ):
                        out.setdefault(f"{used.module}.{used.name}", []).append(pin.name)
    return out


def _around(place: Place) -> list[Place]:
    """A definition, and the class that it stands in: its pin covers all that is inside."""
    owner = place.name.rpartition(".")[0]
    return [place, *(one for one in definitions().get(owner, ()) if one.module == place.module)]


def renew(path: Path, claimed: Sequence[str], commit: str) -> list[str]:
    """Write a proof's pins as the code is now, and the commit at which it was read; the names that are gone."""
    text = path.read_text(encoding="utf-8")
    pins = pins_of(text)
    pins += [Pin(name, "-") for name in claimed if name not in {pin.name for pin in pins}]
    gone, lines = [], [f"{OPENING}, read at {commit}"]
    for pin in pins:
        now = digests_of(pin.name)
        if not now:
            gone.append(f"{path.name}: {pin.name} is gone: name what took its place, and mend the proof")
        elif pin.digest not in now and len(now) > 1:
            where = ", ".join(f"{digest(one.node)} in {one.module}" for one in definitions()[pin.name])
            gone.append(f"{path.name}: which {pin.name} was read? Write its hash into the head: {where}")
        lines.append(f"{pin.name} {pin.digest if pin.digest in now or not now else now[0]}")
    if gone:
        return gone
    head = "\n".join([*lines, CLOSING])
    start = text.find(OPENING)
    if start < 0:
        title, _, rest = text.partition("\n")
        text = f"{title}\n\n{head}\n{rest}"
    else:
        text = text[:start] + head + text[text.index(CLOSING, start) + len(CLOSING) :]
    path.write_text(text, encoding="utf-8")
    return []


def rename(path: Path, names: Mapping[str, str]) -> bool:
    """Write a proof's pins for code that differs from what was read in names alone; whether any pin changed.

    The code with the old names in place of the new ones has the old hash, and holds no old name itself: so it is the
    code that was read, and the commit in the head stays.
    """
    before = {new: old for old, new in names.items()}
    text = whole = path.read_text(encoding="utf-8")
    for pin in pins_of(whole):
        name = ".".join(names.get(part, part) for part in pin.name.split("."))
        for place in definitions().get(name, ()):
            kept = not {repr(old) for old in names} & set(_spell(place.node))
            if kept and digest(place.node, before) == pin.digest:
                text = text.replace(f"{pin.name} {pin.digest}\n", f"{name} {digest(place.node)}\n")
    path.write_text(text, encoding="utf-8")
    return text != whole


def _read_at() -> str:
    """The last commit of main under the change that carries the pin: a rebase does not rename it."""
    for asked in (["merge-base", "HEAD", "main"], ["rev-parse", "HEAD"]):
        said = subprocess.run(["git", *asked], cwd=ROOT, capture_output=True, text=True)
        if said.returncode == 0:
            return said.stdout.strip()[:10]
    return "an export without history"


def main(words: Sequence[str]) -> int:
    claimed = proven()
    if words[:1] == ["rename"] and all(word.count("=") == 1 for word in words[1:]):
        names = dict(word.split("=") for word in words[1:])
        told = [f"{path.name}: renamed" for path in sorted(PROOFS.glob("*.md")) if rename(path, names)]
        print("\n".join(told))
        return 0
    if words:
        if len(words) != 2 or words[0] != "renew" or not (path := PROOFS / f"{words[1]}.md").exists():
            print("python proofs/pin.py [renew PROOF]; one proof at a time, after reading it")
            return 2
        told = renew(path, claimed.get(path.stem, []), _read_at())
    else:
        told = [line for path in sorted(PROOFS.glob("*.md")) for line in changed(path)]
        told += [
            f"{name} is pinned by no proof; used by {', '.join(sorted(by))}" for name, by in sorted(loose().items())
        ]
    for line in told:
        print(line)
    if not words and not told:
        print(f"{len(pinned())} pins are as the code is, and so is all that they use.")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

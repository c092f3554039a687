"""A TOML file as checked sections: study and policy files are read by one set of rules."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colonnade.foundation.errors import ColonnadeError, KeyPath, MistakesError
from colonnade.foundation.names import LONGEST_TEXT, require_name
from colonnade.foundation.shown import is_number, shown

DEEPEST = 32
"""Tables and lists within each other."""
# The library takes quadratic time for a dotted key: 60,000 parts of it took 45 s.
_ENDLESS_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){200}""")


def read_toml(path: Path, what: str, largest: int, error: type[ColonnadeError]) -> Section:
    """The content of a file of at most `largest` bytes; `what` says in errors what kind of file it is."""
    text = read_text(path, what, largest, error)
    return Section(parse_toml(text, path.name, largest, error), f"the {what} file", error)


def read_text(path: Path, what: str, largest: int, error: type[ColonnadeError]) -> str:
    """The text of a file of at most `largest` bytes."""
    if not path.is_file():
        raise error(f"there is no {what} file {path}")
    if path.stat().st_size > largest:
        raise error(f"a {what} file must have at most {largest} bytes, got {path.stat().st_size}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"{path.name} is not valid TOML: {problem}") from None


def parse_toml(text: str, what: str, largest: int, error: type[ColonnadeError]) -> dict[str, Any]:
    """The content of a text of at most `largest` characters."""
    if len(text) > largest:
        raise error(f"{what} must have at most {largest} bytes, got {len(text)} characters")
    if _ENDLESS_KEY.search(text):
        raise error(f"{what} is not valid: its values may be nested {DEEPEST} deep, and are nested deeper")
    try:
        content = tomllib.loads(text)
        require_shallow(content, what, error)
    except tomllib.TOMLDecodeError as problem:
        raise error(f"{what} is not valid TOML: {problem}") from None
    except (RecursionError, ValueError):
        raise error(f"{what} is not valid TOML: its values are nested too deeply, or one is too long") from None
    return content


def require_shallow(content: object, what: str, error: type[ColonnadeError]) -> None:
    """Raise where tables and lists nest deeper than anybody who writes them out again could follow."""
    depth, level = 0, [content]
    while level and depth <= DEEPEST:
        depth += 1
        inner: list[object] = []
        for item in level:
            if isinstance(item, Mapping):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        level = inner
    if level:
        raise error(f"{what} is not valid: its values may be nested {DEEPEST} deep, and are nested deeper")


@dataclass
class Mistakes:
    """What is wrong in a file, all of it, each with the key that it is about."""

    found: list[tuple[KeyPath, ColonnadeError]] = field(default_factory=list)

    @contextmanager
    def at(self, *path: str | int) -> Iterator[None]:
        """A refusal in here is noted, and the reading goes on."""
        try:
            yield
        except ColonnadeError as error:
            self.found.append(((*path, *error.path), error))

    def among(self, *path: str | int) -> bool:
        """Whether anything is wrong at this key or below it."""
        return any(found[: len(path)] == path for found, _ in self.found)

    def tell(self, name: str = "", text: str = "") -> None:
        """Raise what was noted, in the order of the lines of the file `name` with this text."""
        if not self.found:
            return
        # Nobody else needs lines: a party's job reads files that were checked.
        from colonnade.foundation.key_lines import key_lines, line_of

        lines = key_lines(text)
        found = ((line_of(lines, path) or 0, path, error) for path, error in self.found)
        placed = sorted(found, key=lambda item: item[0])
        told = [f"{name}:{line}: {error}" if line else str(error) for line, _, error in placed]
        if len(told) == 1:
            _, path, error = placed[0]
            raise type(error)(told[0]).at(*path)
        raise MistakesError(f"{name or 'the study'} has {len(told)} mistakes", told, [path for _, path, _ in placed])


@dataclass(frozen=True)
class Section:
    """A table with its name for errors, and the kind of error that its file raises."""

    content: Mapping[str, Any]
    where: str
    error: type[ColonnadeError]
    prefix: str = ""
    """What stands before a key in an error, such as "session."."""

    def __contains__(self, key: str) -> bool:
        return key in self.content

    def known(self, keys: Collection[str]) -> Section:
        """The section itself, once every key in it is one of these."""
        for key in self.content:
            self.require_known(key, keys)
        return self

    def require_known(self, key: str, keys: Collection[str]) -> None:
        """Raise unless a key is one of these."""
        if key not in keys:
            near = difflib.get_close_matches(key, list(keys), 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(keys)}"
            raise self.error(f"{self.where} has no key {key!r}{hint}")

    def need(self, *keys: str) -> Section:
        """The section itself, once it has all of these."""
        for key in keys:
            if key not in self.content:
                raise self.error(f"{self.where} needs {key!r}")
        return self

    def table(self, key: str, where: str, prefix: str = "") -> Section:
        """The table under a key; an absent one is empty."""
        value = self.content.get(key, {})
        if not isinstance(value, Mapping):
            raise self.error(f"{where} must be a table, got {shown(value)}")
        return Section(value, where, self.error, prefix)

    def text(self, key: str, default: str = "") -> str:
        value = self.content.get(key, default) if default else self.content[key]
        if not isinstance(value, str) or not value:
            raise self.error(f"{self.prefix}{key} must be a non-empty text, got {key}={shown(value)}")
        return require_name(f"{self.prefix}{key}", value, self.error, LONGEST_TEXT)

    def texts(self, key: str, choices: Collection[str] | None = None) -> tuple[str, ...]:
        values = self.content[key]
        if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
            raise self.error(f"{self.prefix}{key} must be a list of texts, got {key}={shown(values)}")
        for value in values:
            require_name(f"{self.prefix}{key}", value, self.error, LONGEST_TEXT)
            if choices is not None and value not in choices:
                raise self.error(f"{self.prefix}{key} may list {', '.join(choices)}, got {shown(value)}")
        return tuple(values)

    def choice(self, key: str, choices: Iterable[str], default: str | None = None) -> str:
        value, allowed = self.content.get(key, default), list(choices)
        if value not in allowed:
            raise self.error(f"{self.prefix}{key} must be one of {', '.join(allowed)}, got {key}={shown(value)}")
        return str(value)

    def flag(self, key: str) -> bool:
        value = self.content.get(key, False)
        if not isinstance(value, bool):
            raise self.error(f"{self.prefix}{key} must be true or false, got {shown(value)}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.content.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(f"{self.prefix}{key} must be a number, got {key}={shown(value)}")
        if not is_number(value):
            raise self.error(f"{self.prefix}{key} must be a finite number, got {key}={shown(value)}")
        return float(value)

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.content.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.error(f"{self.prefix}{key} must be a whole number, got {key}={shown(value)}")
        return value

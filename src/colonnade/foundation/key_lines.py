"""On which line of a TOML text each key stands: the standard library's parser does not tell."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Sequence

from colonnade.foundation.errors import KeyPath

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TEXTS = (
    re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"{3,5}', re.DOTALL),
    re.compile(r"'''(?:[^']|'(?!''))*'{3,5}", re.DOTALL),
    re.compile(r'"(?:[^"\\\n]|\\.)*"'),
    re.compile(r"'[^'\n]*'"),
)
_WORD = re.compile(r"[^\s,\]}#\"'\[{]+(?: \d[^\s,\]}#]*)?")
"""A number, a truth value or a date, which may have a space before its time."""


def key_lines(text: str) -> dict[KeyPath, int]:
    """The line of each key of a text that is valid TOML, counted from 1; nothing of one that is not."""
    scanner = _Scanner(text)
    try:
        scanner.scan()
    except _Lost:
        return {}
    return scanner.lines


def line_of(lines: dict[KeyPath, int], path: KeyPath) -> int | None:
    """The line of a key, or of the nearest table around it that has one."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


class _Lost(Exception):
    """The text is not what the scanner knows."""


class _Scanner:
    """Walks through a text that was parsed before, so that values need not be understood."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._last: dict[KeyPath, int] = {}
        """The place of the last table in each list of tables."""
        self.lines: dict[KeyPath, int] = {}

    def scan(self) -> None:
        table: KeyPath = ()
        self._take(_BLANK)
        while self._at < len(self._text):
            if several := self._next("[["):
                *around, last = self._keys()
                path = (*self._inside(around), last)
                self._last[path] = self._last.get(path, -1) + 1
                self._here(path)
                table = (*path, self._last[path])
            elif self._next("["):
                table = self._inside(self._keys())
            else:
                self._pair(table)
                self._take(_BLANK)
                continue
            self._here(table)
            self._need("]]" if several else "]")
            self._take(_BLANK)

    def _inside(self, keys: Sequence[str]) -> KeyPath:
        """The path of a header, which goes through the last table of each list."""
        path: KeyPath = ()
        for key in keys:
            path = (*path, key)
            if path in self._last:
                path = (*path, self._last[path])
        return path

    def _pair(self, table: KeyPath) -> None:
        start, path = self._at, table
        for key in self._keys():
            path = (*path, key)
            self._here(path, start)
        self._need("=")
        self._take(_SPACE)
        self._value(path)

    def _keys(self) -> list[str]:
        keys: list[str] = []
        while not keys or self._next("."):
            self._take(_SPACE)
            if bare := self._take(_BARE):
                keys.append(bare)
            elif text := self._take(*_TEXTS[2:]):
                keys.append(str(tomllib.loads(f"k = {text}")["k"]))
            else:
                raise _Lost
            self._take(_SPACE)
        return keys

    def _value(self, path: KeyPath) -> None:
        """A list, a table on a line, or one value."""
        if end := "]" if self._next("[") else "}" if self._next("{") else "":
            place = 0
            self._take(_BLANK)
            while not self._next(end):
                if end == "]":
                    self._here((*path, place))
                    self._value((*path, place))
                else:
                    self._pair(path)
                self._take(_BLANK)
                if self._next(","):
                    self._take(_BLANK)
                place += 1
        elif self._take(*_TEXTS, _WORD) is None:
            raise _Lost

    def _take(self, *patterns: re.Pattern[str]) -> str | None:
        """What stands here by the first pattern that fits."""
        for pattern in patterns:
            if found := pattern.match(self._text, self._at):
                self._at = found.end()
                return found[0]
        return None

    def _next(self, mark: str) -> bool:
        found = self._text.startswith(mark, self._at)
        self._at += len(mark) if found else 0
        return found

    def _need(self, mark: str) -> None:
        if not self._next(mark):
            raise _Lost

    def _here(self, path: KeyPath, at: int | None = None) -> None:
        """Note the line of a path, which is where it stands first."""
        self.lines.setdefault(path, bisect_left(self._ends, self._at if at is None else at) + 1)

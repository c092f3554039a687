"""On which line of a TOML text each key stands: the standard library's parser does not tell."""

from __future__ import annotations

import re
import tomllib

KeyPath = tuple[str | int, ...]
"""Keys from the top; a number is a place in a list of tables."""
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
        self._line, self._counted = 1, 0
        self._last: dict[KeyPath, int] = {}
        """The place of the last table in each list of tables."""
        self.lines: dict[KeyPath, int] = {}

    def scan(self) -> None:
        table: KeyPath = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._next("[["):
                table = self._list_table(self._header("]]"))
            elif self._next("["):
                table = self._inside(self._header("]"))
                self.lines.setdefault(table, self._here())
            else:
                self._pair(table)
            self._skip(_BLANK)

    def _header(self, end: str) -> tuple[str, ...]:
        keys = self._keys()
        if not self._next(end):
            raise _Lost
        return keys

    def _list_table(self, keys: tuple[str, ...]) -> KeyPath:
        path = (*self._inside(keys[:-1]), keys[-1])
        self._last[path] = place = self._last.get(path, -1) + 1
        self.lines.setdefault(path, self._here())
        self.lines[*path, place] = self._here()
        return (*path, place)

    def _inside(self, keys: tuple[str, ...]) -> KeyPath:
        """The path of a header, which goes through the last table of each list."""
        path: KeyPath = ()
        for key in keys:
            path = (*path, key)
            if path in self._last:
                path = (*path, self._last[path])
        return path

    def _pair(self, table: KeyPath) -> None:
        here = self._here()
        path = table
        for key in self._keys():
            path = (*path, key)
            self.lines.setdefault(path, here)
        if not self._next("="):
            raise _Lost
        self._skip(_SPACE)
        self._value(path)

    def _keys(self) -> tuple[str, ...]:
        keys = []
        while True:
            self._skip(_SPACE)
            keys.append(self._key())
            self._skip(_SPACE)
            if not self._next("."):
                return tuple(keys)

    def _key(self) -> str:
        if found := _BARE.match(self._text, self._at):
            self._at = found.end()
            return found[0]
        for pattern in _TEXTS[2:]:
            if found := pattern.match(self._text, self._at):
                self._at = found.end()
                return str(tomllib.loads(f"k = {found[0]}")["k"])
        raise _Lost

    def _value(self, path: KeyPath) -> None:
        if self._next("["):
            self._items(path)
        elif self._next("{"):
            self._skip(_BLANK)
            while not self._next("}"):
                self._pair(path)
                self._skip(_BLANK)
                if self._next(","):
                    self._skip(_BLANK)
        else:
            for pattern in (*_TEXTS, _WORD):
                if found := pattern.match(self._text, self._at):
                    self._at = found.end()
                    return
            raise _Lost

    def _items(self, path: KeyPath) -> None:
        place = 0
        self._skip(_BLANK)
        while not self._next("]"):
            self.lines[*path, place] = self._here()
            self._value((*path, place))
            self._skip(_BLANK)
            if self._next(","):
                self._skip(_BLANK)
            place += 1

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _next(self, mark: str) -> bool:
        if not self._text.startswith(mark, self._at):
            return False
        self._at += len(mark)
        return True

    def _here(self) -> int:
        """The line that is reached; text is counted once."""
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

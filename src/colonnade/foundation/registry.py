"""Named choices that a study may make: kinds of columns, secure products. A new one is added, not built in."""

from __future__ import annotations

from typing import TypeVar

from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.shown import shown

T = TypeVar("T")


class Registry(dict[str, T]):
    """Choices by name, in the order in which they were added; an unknown name is refused in one sentence."""

    def __init__(self, what: str, error: type[ColonnadeError]) -> None:
        super().__init__()
        self._what, self._error = what, error

    def add(self, name: str, item: T) -> T:
        """Make a choice known; a name stands for one thing."""
        if name in self:
            raise self._error(f"{self._what} {name!r} is known already")
        self[name] = item
        return item

    def named(self, name: object) -> str:
        """The name itself, once it is that of a choice."""
        self[name]
        return str(name)

    def __getitem__(self, name: object) -> T:
        if not isinstance(name, str) or name not in self:
            raise self._error(f"{self._what} must be one of {', '.join(self)}, got {self._what}={shown(name)}")
        return super().__getitem__(name)

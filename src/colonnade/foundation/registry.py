"""Named choices that a study may make: kinds of columns, secure products. A new one is added, not built in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.shown import shown

T = TypeVar("T")


class Registry(Generic[T]):
    """Choices by name, in the order in which they were added; an unknown name is refused in one sentence."""

    def __init__(self, what: str, error: type[ColonnadeError]) -> None:
        self._what, self._error = what, error
        self._items: dict[str, T] = {}

    def add(self, name: str, item: T) -> T:
        """Make a choice known; a name stands for one thing."""
        if name in self._items:
            raise self._error(f"{self._what} {name!r} is known already")
        self._items[name] = item
        return item

    def remove(self, name: str) -> None:
        """Forget a choice."""
        del self._items[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._items)

    def named(self, name: object) -> str:
        """The name itself, once it is that of a choice."""
        self[name]
        return str(name)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items.values())

    def __getitem__(self, name: object) -> T:
        if not isinstance(name, str) or name not in self._items:
            known = ", ".join(self._items)
            raise self._error(f"{self._what} must be one of {known}, got {self._what}={shown(name)}")
        return self._items[name]

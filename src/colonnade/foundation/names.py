"""Names that people are shown: short, every character of them can be seen, and each means one thing."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from colonnade.foundation.errors import ColonnadeError, SchemaError
from colonnade.foundation.shown import LARGEST_SHOWN

T = TypeVar("T", bound=Hashable)
LONGEST_NAME = 200
"""Characters of a study's, party's or column's name, or of a level."""
LONGEST_TEXT = 1 << 12
"""Characters of any other text that a file states: a path, a digest, an exact number."""
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that nothing is drawn for; Unicode counts them as printable."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""A spreadsheet takes a cell that begins so for a formula; the last four are wide forms of the first."""
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def is_visible(text: str) -> bool:
    """Whether no character is a control, a format or direction mark, a blank beside the space, or unassigned."""
    return text.isprintable() and (text.isascii() or _BLANK.search(text) is None)


def require_name(
    what: str, name: object, error: type[ColonnadeError] = SchemaError, longest: int = LONGEST_NAME
) -> str:
    """The name itself, once it is a text by the rule; `what` says in the refusal which name it is."""
    if isinstance(name, str) and len(name) <= longest and is_visible(name):
        return name
    got = f"{len(name)} characters" if isinstance(name, str) and len(name) > longest else _escaped(name)
    raise error(f"{what} must be a text of at most {longest} characters, all of them visible, got {got}")


def require_texts(what: str, content: object, error: type[ColonnadeError], longest: int = LONGEST_TEXT) -> None:
    """Raise unless every text in lists and tables, however nested, keeps the rule."""
    rest = [content]
    while rest:
        match rest.pop():
            case str() as text:
                require_name(what, text, error, longest)
            case Mapping() as table:
                rest += [*table.keys(), *table.values()]
            case list() | tuple() as items:
                rest += items


def _escaped(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= LARGEST_SHOWN else text[:LARGEST_SHOWN] + "..."


def size_of(names: Iterable[str]) -> int:
    """Bytes of names in UTF-8."""
    return sum(len(name.encode()) for name in names)


def plain_cell(text: str) -> str:
    """A text as a cell of a CSV file: before what a spreadsheet would compute stands an apostrophe, and numbers stay.

    Whoever takes one apostrophe off again where a formula follows has the text back: no two texts become one.
    """
    bare = text.lstrip("'")
    return f"'{text}" if bare.startswith(FORMULA) and not _NUMBER.fullmatch(bare) else text


class Names(Generic[T]):
    """All texts that things may be called by, with what each of them may mean."""

    def __init__(self, spelled: Iterable[tuple[str, T]]) -> None:
        found: dict[str, dict[T, None]] = {}
        for text, thing in spelled:
            found.setdefault(text, {})[thing] = None
        self._readings = {text: tuple(things) for text, things in found.items()}

    def readings(self, text: str) -> tuple[T, ...]:
        """Everything that a text may mean: one thing, or none, or several where names collide."""
        return self._readings.get(text, ())

    def collisions(self) -> dict[str, tuple[T, ...]]:
        """The texts that may mean several things."""
        return {text: things for text, things in self._readings.items() if len(things) > 1}

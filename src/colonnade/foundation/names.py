"""Names that people are shown: short, every character of them can be seen, and each means one thing."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from colonnade.foundation.errors import ColonnadeError, SchemaError, StudyError
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


class ColumnRef(NamedTuple):
    """A column of a party. Files write it as "party.column": no party's name has a dot."""

    party: str
    column: str

    def __str__(self) -> str:
        return f"{self.party}.{self.column}"

    def qualified(self, text: str) -> str:
        """The text of one of its coordinates, where another party has one of the same text."""
        return f"{self.party}.{text}"

    def level(self, text: str) -> str:
        """A coordinate's text without the column, where it is that of a level."""
        return text.removeprefix(f"{self.column}=")


class Coordinate(NamedTuple):
    """One number that a record has of a column: that of a level, bin or half by its place, or the number itself."""

    of: ColumnRef
    place: int | None = None

    def __str__(self) -> str:
        return str(self.of) if self.place is None else f"{self.of}={self.place}"


@dataclass(frozen=True)
class Product:
    """A product of coordinates, in the order in which a record has them."""

    factors: tuple[Coordinate, ...]


Name = ColumnRef | Coordinate | Product


def holders(name: Name) -> tuple[str, ...]:
    """The parties that have a factor of it."""
    match name:
        case ColumnRef():
            return (name.party,)
        case Coordinate():
            return (name.of.party,)
        case Product():
            return tuple(dict.fromkeys(factor.of.party for factor in name.factors))


def column_of(text: str, party: str) -> ColumnRef:
    """The column of this party that a file calls "party.column"."""
    found = ColumnRef(party, text.removeprefix(f"{party}."))
    if str(found) != text:
        raise SchemaError(f"a column of party {party} is called {party}.COLUMN, got {text!r}")
    return found


def level_at(ref: ColumnRef) -> Coordinate | None:
    """The level that a file calls "party.column=place", as it does the paper's features, bins among them."""
    column, _, place = ref.column.rpartition("=")
    return Coordinate(ColumnRef(ref.party, column), int(place)) if column and place.isdecimal() else None


def splits_at(text: str) -> list[tuple[str, str]]:
    """Every way to read a text as two with a "=" between: both may have such marks of their own."""
    return [(text[:at], text[at + 1 :]) for at, letter in enumerate(text) if letter == "="]


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

    def find(self, text: str, tell: Callable[[T], str], among: Callable[[T], bool] | None = None) -> T | None:
        """The one thing that a text means; None where it means nothing, and a refusal with all that it may mean."""
        found = [thing for thing in self.readings(text) if among is None or among(thing)]
        if len(found) > 1:
            told = " or ".join(map(tell, found))
            raise StudyError(f"{text!r} may mean {told}: this release has columns whose names cannot be told apart")
        return found[0] if found else None

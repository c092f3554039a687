"""What is wrong in the form, each at the field that it is about."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from colonnade.foundation.key_lines import KeyPath
from colonnade.studio.form import BY_KIND, Content, table


@dataclass(frozen=True)
class FieldMistake:
    """A sentence, and the form's field that it is about; no field where it is about the whole."""

    field: str
    sentence: str


def at_fields(content: Content, found: Sequence[tuple[KeyPath, str]]) -> list[FieldMistake]:
    """The mistakes of a study at the fields of its form."""
    parties = list(table(content.get("party")).items())
    return [FieldMistake(_field(path, sentence, parties), sentence) for path, sentence in found]


def _field(path: KeyPath, sentence: str, parties: Sequence[tuple[str, object]]) -> str:
    keys = [str(key) for key in path]
    names = [name for name, _ in parties]
    match keys:
        case ["study", key]:
            return f"study.{key}"
        case ["party", name] if name in names:
            key = "id" if "id column" in sentence else "name"
            return f"p{names.index(name)}.{key}"
        case ["party", name, "columns"] if name in names:
            return f"p{names.index(name)}.name"
        case ["party", name, "columns", column] if name in names:
            i = names.index(name)
            columns = table(table(parties[i][1]).get("columns"))
            at = f"p{i}.c{list(columns).index(column)}"
            return f"{at}.{_key_of(table(columns[column]), sentence)}"
        case ["party", name, key] if name in names:
            return f"p{names.index(name)}.{key}"
    return ""


def _key_of(column: Mapping[str, object], sentence: str) -> str:
    """The key that a sentence about a column names first, or its name."""
    keys = ("kind", *BY_KIND.get(str(column.get("kind")), ()))
    places = {key: found.start() for key in keys if (found := re.search(rf"\b{key}\b", sentence.partition(": ")[2]))}
    return min(places, key=lambda key: places[key]) if places else "name"

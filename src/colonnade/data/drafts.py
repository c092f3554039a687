"""A first draft of a party's part of a study file, for a person to fill in.

Bounds and levels are public facts. Taken from the data they would tell about single people (the oldest, the only one
with a rare occupation), so the draft has a "?" there, which no study file passes with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from colonnade.data.reading import reason, scan
from colonnade.foundation.errors import DataError
from colonnade.foundation.schema import KINDS
from colonnade.foundation.shown import OPEN
from colonnade.foundation.toml import toml_key, toml_value

UNKNOWN = f'"{OPEN}"'
MOST_LEVELS = 64
PEEK_ROWS = 1000
_ID = re.compile(r"(^|_)(id|ids|uuid|guid|key)$|^(person|patient|customer|client|user|record|subject)$")


def draft_columns(path: Path, party: str | None = None, public: bool = False) -> str:
    """The draft as TOML; `public` says that the file is public, so that bounds and levels may come from it."""
    kinds = _kinds(path)
    name = toml_key(party or path.name.partition(".")[0])
    ids = [column for column in kinds if _ID.search(column.lower())]
    lines = [
        "# Bounds and levels were taken from the data, which was declared public."
        if public
        else '# Replace every "?" by what is publicly known of the column, never by what the data shows.',
        "# Kinds are guesses from the header and the types. Leave out columns that the study does not need.",
        f"[party.{name}]",
        f"data = {toml_value(path.name)}",
        f"id = {toml_value(ids[0])}  # a guess from the header"
        if ids
        else f"id = {UNKNOWN}  # the column that names a person, or leave this line out",
        "",
        f"[party.{name}.columns]",
    ]
    taken = _observed(path, kinds, ids[:1]) if public else {}
    for column, kind in kinds.items():
        if column not in ids[:1]:
            lines.append(f"{toml_key(column)} = {{ {taken.get(column) or draft_kind(kind)} }}")
    return "\n".join(lines) + "\n"


def draft_kind(kind: str) -> str:
    """The declaration of a column of this kind, with all of its facts open."""
    return ", ".join(f"{key} = {toml_value(value)}" for key, value in {"kind": kind, **KINDS[kind].draft()}.items())


def _kinds(path: Path) -> dict[str, str]:
    """Each column's kind by its type."""
    if not path.is_file():
        raise DataError(f"there is no data file {path}")
    try:
        types = scan([path], typed=PEEK_ROWS).collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path.name} cannot be read: {reason(error)}") from None
    if not types:
        raise DataError(f"{path.name} has no columns")
    return {
        name: "numeric" if kind.is_numeric() else "binary" if kind == pl.Boolean else "categorical"
        for name, kind in types.items()
    }


def _observed(path: Path, kinds: dict[str, str], ids: list[str]) -> dict[str, str]:
    """Columns of a public file as it shows them; a column with very many levels stays open."""
    out: dict[str, str] = {}
    for name, series in _series(path, [n for n in kinds if n not in ids]):
        levels = sorted(v for v in series.unique().to_list() if v)
        if len(levels) == 2:
            out[name] = f'kind = "binary", levels = {toml_value(levels)}'
        elif kinds[name] == "numeric":
            numbers = series.cast(pl.Float64, strict=False).drop_nulls().drop_nans()
            low, high = numbers.min(), numbers.max()
            if isinstance(low, float) and isinstance(high, float) and low < high:
                out[name] = f'kind = "numeric", low = {_number(low)}, high = {_number(high)}'
        elif 2 < len(levels) <= MOST_LEVELS:
            out[name] = f'kind = "categorical", levels = {toml_value(levels)}'
    return out


def _series(path: Path, names: list[str]) -> Iterator[tuple[str, pl.Series]]:
    """Each column as the text that a study's reader compares with its levels."""
    try:
        frame = scan([path]).select(pl.col(n).cast(pl.String).str.strip_chars() for n in names).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{path.name} cannot be read: {reason(error)}") from None
    for name in names:
        yield name, frame.get_column(name)


def _number(value: float) -> str:
    return toml_value(int(value) if value.is_integer() and abs(value) < 2**53 else value)

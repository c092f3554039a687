"""First drafts of a study file, or of a party's part of it, for a person to fill in.

Bounds and levels are public facts. Taken from the data they would tell about single people (the oldest, the only one
with a rare occupation), so a draft has a "?" there, which no study file passes with.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from colonnade.data.addresses import head_frames
from colonnade.data.forms import plain_series, readable
from colonnade.data.people import EXAMPLES
from colonnade.data.proposals import propose_written
from colonnade.data.reading import reason, scan
from colonnade.data.sources import AddressSource, FileSource
from colonnade.data.storage import trimmed
from colonnade.data.written import PLAIN, Written
from colonnade.foundation.columns import DROP, INDICATOR, LEVEL
from colonnade.foundation.errors import DataError
from colonnade.foundation.kinds import SPELLED
from colonnade.foundation.parts import data_files
from colonnade.foundation.schema import KINDS
from colonnade.foundation.shown import OPEN
from colonnade.foundation.toml import toml_key, toml_value

UNKNOWN = f'"{OPEN}"'
MOST_LEVELS = 64  # with more values a text column's levels are left for a person to write
MOST_CODES = 12
"""Whole numbers of so few different values may be codes and not quantities."""
PEEK_ROWS = 1000  # rows from which a draft guesses the types of columns
_ID = re.compile(r"(^|_)(id|ids|uuid|guid|key)$|^(person|patient|customer|client|user|record|subject)$")
_NUMBER = re.compile(r"(?<![^\W\d_])(\w?id|\w?nr|num|number|nummer|numer|n[uú]mero|num[eé]ro)(?![^\W\d_])")
"""In the header of what may number people, if it has many values."""
FEWEST_ROWS = 30  # of a file, for values that all differ to say something; a guess that a person checks
MOST_ROWS_A_PERSON = 10  # on average: a column with fewer values names no person; a guess that a person checks
SPREAD = 20
"""A positive number whose largest value is so many times its smallest is drafted from 0 on."""
OPTIONS = {"bins": "[...]", "fill": "...", "other": "true", "drop": "..."}
"""What a declaration may have besides, as a draft's comment shows it."""


@dataclass
class DraftColumn:
    """A column of a draft: its kind by its type, and what is known of it."""

    kind: str
    code: bool = False
    """Whether it has few whole numbers, or words for yes and no, so that it may be a category."""
    whole: bool = False
    """Whether it has whole numbers."""
    gaps: bool = False
    """Whether some values are missing."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Declared values; what is not among them is open."""
    label: bool = False
    """Whether it is what is predicted, of which no value is made up."""

    def be_label(self, matched: bool) -> None:
        """Declare it as a label: who has no value leaves before ids are matched, where any are."""
        self.label = True
        if self.facts.pop("missing", None):
            self.facts.pop("fill", None)
            self.facts |= {"missing": DROP} if matched else {}

    @property
    def content(self) -> dict[str, Any]:
        whole = {"integer": True} if self.whole and self.kind == "numeric" else {}
        return {"kind": self.kind, **KINDS[self.kind].draft(), **whole, **self.facts}

    @property
    def filled(self) -> bool:
        """Whether a missing value needs a number or a day in its place, and is no level."""
        return self.kind in ("numeric", "date")

    @property
    def line(self) -> str:
        """The declaration, and as a comment what it may have besides."""
        declared = ", ".join(f"{key} = {toml_value(value)}" for key, value in self.content.items())
        more = ", ".join(f"{key} = {OPTIONS[key]}" for key in KINDS[self.kind].keys if key in OPTIONS)
        told = f"may have {more}" if more else ""
        if self.code and self.kind == "numeric":
            levels = toml_value(KINDS["categorical"].draft()["levels"])
            told += f'; few whole numbers: if they are codes, kind = "categorical", levels = {levels}'
        if self.gaps and "missing" not in self.facts:
            told += f"; some are missing: missing = {toml_value(DROP) if self.label else missing_key(self.filled)}"
        return f"{{ {declared} }}" + (f"  # {told}" if told else "")


def missing_key(filled: bool) -> str:
    """What is proposed for missing values of numbers and days, which are `filled`, or of levels."""
    return f'"{INDICATOR}", fill = ...' if filled else f'"{LEVEL}"'


@dataclass
class DraftParty:
    """A party of a draft: its file, the column that may name a person, its other columns."""

    name: str
    data: Mapping[str, str]
    """`data`, and of a database `query` and `dataset`."""
    id: str | None
    columns: dict[str, DraftColumn]
    written: Written = PLAIN
    """How the file seems to be written."""
    confirmed: bool = False
    """Whether its owner said that it is."""

    alone: bool = False
    """Whether no other party takes part, so that nobody has to be matched."""
    rows: int | None = None
    """How many it has, if its data is public."""
    repeated: bool = False
    """Whether some rows have the id of others."""

    @property
    def text(self) -> str:
        name = toml_key(self.name)
        known = f"{'# ' if self.alone else ''}id = {UNKNOWN}  # the column that names a person, or leave this line out"
        if self.id:
            known = f"id = {toml_value(self.id)}  # a guess"
            if self.repeated:
                known += f"; it has several rows: [party.{name}.people] says what becomes of them"
        lines = [
            f"[party.{name}]",
            *(f"{key} = {toml_value(value)}" for key, value in self.data.items()),
            known,
            "",
            *self._form(name),
            f"[party.{name}.columns]",
            *(f"{toml_key(column)} = {found.line}" for column, found in self.columns.items()),
        ]
        return "\n".join(lines) + "\n"

    def _form(self, name: str) -> list[str]:
        """How its values are written: a comment until its owner says so, for it was read off the file."""
        if not self.written.stated:
            return []
        lines, mark = [f"[party.{name}.read]", *self.written.lines], "" if self.confirmed else "# "
        head = [] if self.confirmed else ["# The file seems to be written so; take away the # before what is right."]
        return [*head, *(f"{mark}{line}" for line in lines), ""]


def draft_party(
    source: FileSource | AddressSource, party: str | None = None, public: bool = False, data: str | None = None
) -> DraftParty:
    """A party's part; `public` says that the data is public, so that bounds, levels and forms may come from it."""
    if isinstance(source, AddressSource):
        place = {"data": data or source.address, "query": source.query or "", "dataset": source.dataset}
        place = {key: value for key, value in place.items() if value}
    else:
        if not source.path.is_file():
            raise DataError(f"there is no data file {source.path}")
        place = {"data": data or source.path.name}
    written = propose_written(source)
    peek = {series.name: _typed(series, written) for series in _peek(source, written).get_columns()}
    id_column = _id_among(peek)
    columns = {name: _guess(series) for name, series in peek.items() if name and name != id_column}
    rows = _observe(source, written, columns) if public else None
    name = party or (source.dataset if isinstance(source, AddressSource) else source.path.name.partition(".")[0])
    repeated = id_column is not None and bool(peek[id_column].drop_nulls().is_duplicated().any())
    return DraftParty(name, place, id_column, columns, written, public, rows=rows, repeated=repeated)


def _id_among(peek: Mapping[str, pl.Series]) -> str | None:
    """The column that may name a person, by its header."""
    by_name = [name for name in peek if _ID.search(name.lower())]
    many = [
        name
        for name, series in peek.items()
        if _NUMBER.search(name.lower())
        and not series.dtype.is_float()
        and series.n_unique() * MOST_ROWS_A_PERSON >= len(series)
    ]
    if by_name or many:
        return (by_name + many)[0]
    # Numbers of people mostly come first, and no two rows share one.
    first = next(iter(peek.values()))
    told = not first.dtype.is_float() and not first.dtype.is_temporal() and first.n_unique() == len(first)
    return first.name if told and len(first) >= FEWEST_ROWS else None


def draft_columns(source: FileSource | AddressSource, party: str | None = None, public: bool = False) -> str:
    """A party's part as TOML."""
    return "\n".join([*told(public), draft_party(source, party, public).text])


def told(public: bool) -> list[str]:
    """The comments on top of a draft."""
    return [
        "# Bounds and levels were taken from the data, which was declared public."
        if public
        else '# Replace every "?" by what is publicly known of the column, never by what the data shows.',
        "# Kinds are guesses from the header and the types. Leave out columns that the study does not need.",
    ]


def draft_study(head: Mapping[str, Any], parties: Sequence[DraftParty], public: bool = False) -> str:
    """A whole study file; of `head`, name, task, label, epsilon and delta, what is missing is open."""
    study = {key: head.get(key) if head.get(key) is not None else OPEN for key in ("name", "task", "label")}
    lines = [
        *told(public),
        "[study]",
        f"name = {toml_value(study['name'])}",
        f'task = {toml_value(study["task"])}  # "logistic" for a label of two levels, "linear" for a number',
        f"label = {toml_value(study['label'])}  # the column to be predicted, as party.column",
        f"epsilon = {toml_value(head.get('epsilon', 1.0))}  # budget of a whole record: smaller is more private",
        f"delta = {toml_value(head.get('delta', 0))}  # 0, or far below 1 / n for less noise",
        f"rows = {toml_value(head.get('rows') or OPEN)}  # about how many records all have in common, by which "
        "numbers are cut into bins; or leave the line out",
    ]
    if len(parties) > 1:
        lines.append("# collusion = 1  # how many parties may pool what they see with the server")
    lines.append("# [party.NAME] may have policy and ledger: what it agrees to, and what its data has spent")
    return "\n".join([*lines, "", *(party.text for party in parties)])


def _peek(source: FileSource | AddressSource, written: Written) -> pl.DataFrame:
    """The first rows, with what types they show."""
    if isinstance(source, AddressSource):
        return next(head_frames(source, PEEK_ROWS))
    try:
        with readable(data_files(source.path), written) as files:
            frame = scan(files, typed=PEEK_ROWS, written=written).head(PEEK_ROWS).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{source.path.name} cannot be read: {reason(error)}") from None
    if not frame.columns:
        raise DataError(f"{source.path.name} has no columns")
    return frame


def _typed(series: pl.Series, written: Written) -> pl.Series:
    """Texts as what they say in the file's own forms, where all say the same."""
    if series.dtype != pl.String or not written.stated:
        return series
    said = trimmed(plain_series("", series, None, written)).null_count()
    for kind, example in EXAMPLES.items():
        plain = plain_series("", series, example, written)
        if kind == "boolean":
            cast = plain.replace_strict(["true", "false"], [True, False], default=None, return_dtype=pl.Boolean)
        elif kind == "date":
            cast = plain.str.to_date("%Y-%m-%d", strict=False)
        else:
            whole = plain.str.contains(".", literal=True).any() is not True
            cast = plain.cast(pl.Int64 if whole else pl.Float64, strict=False)
        if cast.null_count() == said < len(series):
            return cast
    return series


def _guess(series: pl.Series) -> DraftColumn:
    kind, known = series.dtype, series.drop_nulls()
    if kind.is_numeric():
        whole = kind.is_integer() or (len(known) < len(series) and bool((known == known.round()).all()))
        few = whole and known.n_unique() <= MOST_CODES
        return DraftColumn("numeric", few, whole, len(known) < len(series))
    words = trimmed(known).drop_nulls()
    gaps = len(words) < len(series)
    if kind == pl.Boolean:
        return DraftColumn("boolean", gaps=gaps)
    if kind == pl.Date or isinstance(kind, pl.Datetime):
        return DraftColumn("date", gaps=gaps)
    if kind == pl.String:
        words = words.str.to_lowercase().unique()
        if 0 < len(words) <= 2 and all(word in SPELLED for word in words):
            return DraftColumn("boolean", code=True, gaps=gaps)
    return DraftColumn("categorical", gaps=gaps)


def _observe(source: FileSource | AddressSource, written: Written, columns: dict[str, DraftColumn]) -> int:
    """Facts of public data as it shows them, and how many rows it has; a column with very many levels stays open."""
    rows = 0
    for name, series in _series(source, written, columns):
        column, known = columns[name], trimmed(series).drop_nulls()
        rows, levels = len(series), sorted(known.unique().to_list())
        if len(levels) == 2 and not (column.kind == "date" or (column.kind == "boolean" and not column.code)):
            columns[name] = column = DraftColumn("binary", facts={"levels": levels})
        elif column.code and 2 < len(levels) <= MOST_CODES and all(_is_whole(level) for level in levels):
            columns[name] = column = DraftColumn("categorical", facts={"levels": sorted(levels, key=float)})
        elif column.kind == "numeric":
            column.facts = _bounds(column, known.cast(pl.Float64, strict=False).drop_nulls().drop_nans())
        elif column.kind == "date":
            days = known.str.slice(0, 10).sort()
            if len(days) and days[0] < days[-1]:
                column.facts = {"earliest": days[0], "latest": days[-1]}
                column.facts |= _gaps(len(known) < rows, days[len(days) // 2])
        elif column.kind == "categorical" and 2 < len(levels) <= MOST_LEVELS:
            column.facts = {"levels": levels}
        if not column.filled and (column.facts or column.kind == "boolean"):
            column.facts |= _gaps(len(known) < rows)
        elif column.kind == "numeric" and column.facts:
            middle = float(np.nanmedian(known.cast(pl.Float64, strict=False).drop_nulls().to_numpy()))
            column.facts |= _gaps(len(known) < rows, _number(float(round(middle)) if column.whole else middle))
    return rows


def _gaps(some: bool, fill: Any = None) -> dict[str, Any]:
    """What is declared of missing values, where there are some."""
    if not some:
        return {}
    return {"missing": LEVEL} if fill is None else {"missing": INDICATOR, "fill": fill}


def _bounds(column: DraftColumn, numbers: pl.Series) -> dict[str, Any]:
    low, high = numbers.min(), numbers.max()
    column.whole = column.whole and bool((numbers == numbers.round()).all())
    if not isinstance(low, float) or not isinstance(high, float) or not low < high:
        return {}
    return {"low": 0 if 0 < low * SPREAD <= high else _number(low), "high": _number(high)}


def _series(
    source: FileSource | AddressSource, written: Written, columns: Mapping[str, DraftColumn]
) -> Iterator[tuple[str, pl.Series]]:
    """Each column as the text that a study's reader compares with its levels."""
    wanted = [pl.col(name).cast(pl.String).str.strip_chars() for name in columns]
    try:
        if isinstance(source, AddressSource):
            frame = pl.concat(head_frames(source), how="vertical_relaxed").select(wanted)
        else:
            with readable(data_files(source.path), written) as files:
                frame = scan(files, written=written).select(wanted).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{source.told} cannot be read: {reason(error)}") from None
    for name, column in columns.items():
        yield name, plain_series("", frame.get_column(name), EXAMPLES.get(column.kind), written)


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,15}", text, re.ASCII) is not None


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value

"""A party's texts in the house's own forms: numbers with a point, dates as 2024-05-31, nothing for no value."""

from __future__ import annotations

import gzip
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, cast

import polars as pl

from colonnade.data.written import Written
from colonnade.foundation.columns import Column, Storage
from colonnade.foundation.errors import DataError
from colonnade.foundation.parts import is_copied, is_feather, is_parquet
from colonnade.foundation.shown import shown

WRONG = "\x1a"
"""Before a text that is not in its party's form, so that nothing takes it for one in another form."""
PIECE = 1 << 20  # characters read at once, so that memory stays flat
FIRST_YEAR = 1000
"""A year of fewer digits is none: a text such as 4.11.49 does not say its century."""
PROC = Path("/proc/self/fd")
"""Where there is one, a copy needs no name that another process could open."""
_SPACES = "[ \u00a0\u202f]"


def plain_series(party: str, series: pl.Series, column: Column | None, written: Written) -> pl.Series:
    """A column's texts in the house's own forms; without a column, texts that mean no value are none."""
    if series.dtype != pl.String:
        return series
    bare = series.str.strip_chars()
    if written.missing:
        if column is not None and (both := set(written.missing) & set(column.all_levels)):
            told = f"{shown(min(both))} is a level of column {series.name}, and stands in missing"
            raise DataError(f"{told} of [party.{party}.read]: it can mean one of them").of(party)
        gone = bare.is_in(list(written.missing))
        series, bare = series.set(gone, None), bare.set(gone, None)
    if column is None:
        return series
    if column.dated:
        return _judged(bare, _dates(bare, written)) if written.dates else series
    if column.storage is Storage.NUMBERS:
        return _judged(bare, _numbers(bare, written)) if (written.decimal, written.thousands) != (".", "") else series
    if column.spelled and (written.true or written.false):
        words = {word.strip().lower(): truth for truth in ("true", "false") for word in getattr(written, truth)}
        return bare.str.to_lowercase().replace(words)
    return series


def _judged(bare: pl.Series, plain: pl.Series) -> pl.Series:
    """The plain text where there is one; nothing where nothing stood, and a mark before what is in another form."""
    wrong = plain.is_null() & bare.is_not_null() & (bare != "")
    marked = pl.Series(bare.name, [WRONG], dtype=pl.String).new_from_index(0, len(bare)) + bare
    return plain.zip_with(~wrong, marked)


def _numbers(bare: pl.Series, written: Written) -> pl.Series:
    decimal = re.escape(written.decimal)
    groups = {" ": _SPACES, "'": "['\u2019]"}.get(written.thousands, re.escape(written.thousands))
    whole = rf"(?:\d{{1,3}}(?:{groups}\d{{3}})+|\d+)" if groups else r"\d+"
    form = rf"^[-+\u2212]?(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][-+]?\d+)?$"
    plain = bare.set(~bare.str.contains(form), None).str.replace("\u2212", "-", literal=True)
    plain = plain.str.replace_all(groups, "") if groups else plain
    return plain.str.replace(written.decimal, ".", literal=True)


def _dates(bare: pl.Series, written: Written) -> pl.Series:
    form = written.dates
    if written.months:
        names = {name.strip().lower(): f"{k:02d}" for k, name in enumerate(written.months, 1)}
        longest = sorted(names, key=len, reverse=True)
        bare = bare.str.to_lowercase().str.replace_many(longest, [names[name] for name in longest], leftmost=True)
        form = re.sub("%[bB]", "%m", form)
    if re.search("%[HMSfT]", form):
        days = bare.str.to_datetime(form, strict=False).dt.date()
    else:
        days = bare.str.to_date(form, strict=False)
    return days.set(days.dt.year() < FIRST_YEAR, None).dt.to_string("%Y-%m-%d")


@contextmanager
def readable(files: Sequence[Path], written: Written, ragged: bool = False) -> Iterator[list[Path]]:
    """The files as text in UTF-8: themselves, or copies on disk that are gone afterwards."""
    copied = is_copied(files[0])
    if not copied and (written.decoded or is_parquet(files[0]) or is_feather(files[0])):
        yield list(files)
        return
    copies: list[IO[bytes]] = []
    try:
        for file in files:
            if file.name.lower().endswith(".zst"):
                raise DataError(f"{file.name} can be read in UTF-8 alone: save it as .csv.gz")
            copies.append(_copy(file, written, ragged))
        yield [Path(f"/proc/self/fd/{copy.fileno()}") if PROC.is_dir() else Path(copy.name) for copy in copies]
    finally:
        for copy in copies:
            copy.close()


def _copy(file: Path, written: Written, ragged: bool) -> IO[bytes]:
    temporary = tempfile.TemporaryFile if PROC.is_dir() else tempfile.NamedTemporaryFile
    copy: IO[bytes] = temporary(prefix="colonnade-")
    if is_copied(file):
        from colonnade.data.programs import write_lines

        lines = TextIOWrapper(copy, "utf-8", newline="")
        write_lines(file, written, lines, ragged)
        lines.detach()
        copy.flush()
        return copy
    with gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb") as source:
        # What cannot be decoded becomes a mark, as in UTF-8: no record ends the reading.
        text = TextIOWrapper(cast(IO[bytes], source), written.encoding, errors="replace", newline="")
        while piece := text.read(PIECE):
            copy.write(piece.encode())
    copy.flush()
    return copy

"""How a file seems to be written, by its first lines: a proposal that its owner confirms."""

from __future__ import annotations

import csv
import gzip
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import polars as pl

from colonnade.data.addresses import head_frames
from colonnade.data.forms import readable
from colonnade.data.reading import scan
from colonnade.data.sources import DataSource, FileSource, FrameSource
from colonnade.data.storage import plain_texts
from colonnade.data.written import (
    COMMON_DATES,
    COMMON_MISSING,
    GROUPS,
    MONTHS,
    MOST_SKIPPED,
    PLAIN,
    SEPARATORS,
    Written,
)
from colonnade.foundation.kinds import SPELLED
from colonnade.foundation.parts import data_files, is_copied, is_feather, is_parquet

HEAD = 1 << 18
"""Bytes of a file that tell its form."""
HEAD_ROWS = 1000
"""Rows of a query or a frame that do."""
MOST = 0.9
"""So many values of a column must have a form that it is taken for the column's."""
ENCODINGS = ("latin-1", "cp1252", "cp1250", "iso-8859-2")
"""Of one byte a letter, in which languages in Latin letters are often written."""
YES = ("ja", "j", "oui", "o", "si", "sí", "sì", "s", "tak", "t", "da", "ano", "igen", "sim", "kyllä")
NO = ("nein", "n", "non", "no", "nie", "ne", "nem", "não", "ei", "f")
MONTH_NAMES = (
    "jan feb mär apr mai jun jul aug sep okt nov dez",
    "sty lut mar kwi maj cze lip sie wrz paź lis gru",
    "janv févr mars avr mai juin juil août sept oct nov déc",
    "ene feb mar abr may jun jul ago sep oct nov dic",
    "gen feb mar apr mag giu lug ago set ott nov dic",
)
ENGLISH = "jan feb mar apr may jun jul aug sep oct nov dec"
_COMMAS = re.compile(r"[-+]?(?:\d{1,3}(?:[.\s']\d{3})+|\d+)(?:,\d+)?")
_POINTS = re.compile(r"[-+]?(?:\d{1,3}(?:[,\s']\d{3})+|\d+)(?:\.\d+)?")
_WORD, _DIGIT = re.compile(r"[^\W\d]+"), re.compile(r"\d")


def propose_written(source: DataSource, sheet: str = "") -> Written:
    """The forms of a file of text, of a table of another program, or of the texts of any other source."""
    if isinstance(source, FrameSource):
        return _of_frame(source.frame.head(HEAD_ROWS))
    if not isinstance(source, FileSource):
        return _of_frame(next(head_frames(source, HEAD_ROWS)))
    file = data_files(source.path)[0]
    if is_parquet(file) or is_feather(file):
        return _of_frame(scan([file]).head(HEAD_ROWS).collect())
    if file.name.lower().endswith(".zst"):
        return PLAIN
    if is_copied(file):
        with readable([file], replace(PLAIN, sheet=sheet), ragged=True) as (copy,), copy.open("rb") as opened:
            return replace(_proposed(opened.read(HEAD), (",",)), sheet=sheet)
    with gzip.open(file) if file.name.lower().endswith(".gz") else file.open("rb") as opened:
        return _proposed(opened.read(HEAD))


def _of_frame(head: pl.DataFrame) -> Written:
    """What may be said of rows that are no text."""
    texts = [
        s.str.strip_chars().drop_nulls().to_list() for s in plain_texts(head).get_columns() if s.dtype == pl.String
    ]
    found = _forms(texts, PLAIN)
    return Written(missing=found.missing, true=found.true, false=found.false)


def _proposed(head: bytes, separators: Sequence[str] = SEPARATORS) -> Written:
    """By a file's first bytes."""
    encoding = _encoding(head)
    lines = head.decode(encoding, errors="replace").removeprefix("\ufeff").splitlines()
    lines = lines[:-1] if len(head) == HEAD else lines
    separator, skip = _separator(lines, separators)
    rows = [row for _, row in _rows(lines[skip:], separator)]
    columns = [[row[k].strip() for row in rows[1:] if len(row) > k] for k in range(len(rows[0]) if rows else 0)]
    return _forms(columns, Written(separator, encoding=encoding, skip=skip))


def _encoding(head: bytes) -> str:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    # A letter may be cut at the end.
    for cut in range(4):
        try:
            head[: len(head) - cut].decode("utf-8")
            return "utf-8"
        except UnicodeDecodeError:
            continue
    # In the wrong code page a letter's byte is often a sign between letters, or a control character.
    worth = {
        code: sum(c.isalpha() or -9 * (c < "\xa0") for c in head.decode(code, errors="replace") if not c.isascii())
        for code in ENCODINGS
    }
    return max(worth, key=lambda code: worth[code])


def _rows(lines: Sequence[str], separator: str) -> list[tuple[int, list[str]]]:
    """Rows of cells, each with the lines before it, up to one that is too long for the standard library."""
    rows, reader, before = list[tuple[int, list[str]]](), csv.reader(lines, delimiter=separator), 0
    with suppress(csv.Error):
        for row in reader:
            rows.append((before, row))
            before = reader.line_num
    return rows


def _separator(lines: Sequence[str], separators: Sequence[str]) -> tuple[str, int]:
    """What separates fields, and how many lines stand above the header."""
    found = []
    for separator in separators:
        rows = _rows(lines, separator)
        widths = [len(row) for _, row in rows]
        width, often = Counter(widths).most_common(1)[0] if widths else (1, 0)
        if width > 1:
            found.append((often / len(widths), width, separator, rows[widths.index(width)][0]))
    best = max(found, default=(0.0, 1, ",", 0))
    return best[2], best[3] if best[3] <= MOST_SKIPPED else 0


def _forms(columns: Sequence[Sequence[str]], written: Written) -> Written:
    known = [[v for v in values if v and v.lower() not in COMMON_MISSING] for values in columns]
    dates = Counter(form for values in known if (form := _dates(values)))
    form = dates.most_common(1)[0][0] if dates else ""
    commas = [values for values in known if _most(values, _COMMAS) and any("," in v for v in values)]
    points = [values for values in known if _most(values, _POINTS) and any(re.search(r"[,\s']", v) for v in values)]
    decimal, grouped = (",", commas) if commas and written.separator != "," else (".", points)
    marks = (GROUPS.search(v) for values in grouped for v in values)
    groups = Counter(found[1] for found in marks if found and found[1] != decimal)
    mark = groups.most_common(1)[0][0] if groups else ""
    pairs = [words for values in known if (words := _truth(values))]
    true, false = (tuple(dict.fromkeys(w for pair in pairs for w in pair[k])) for k in (0, 1))
    months = _months(known, form)
    missing = tuple(dict.fromkeys(v for values, own in zip(columns, known, strict=True) for v in _none(values, own)))
    thousands = " " if mark.isspace() else mark
    return Written(
        written.separator, decimal, thousands, written.encoding, form, months, missing, true, false, written.skip
    )


def _most(values: Sequence[str], form: re.Pattern[str]) -> bool:
    return bool(values) and sum(form.fullmatch(v) is not None for v in values) >= MOST * len(values)


def _iso(values: Sequence[str]) -> bool:
    return _most(values, re.compile(r"\d{4}-\d{2}-\d{2}.*"))


def _dates(values: Sequence[str]) -> str:
    """The first known form that most have; day before month unless some text has its day second."""
    form = next((form for form, looks in COMMON_DATES.items() if _most(values, re.compile(looks))), "")
    second = [found[1] for v in values if (found := re.match(r"\d+/(\d+)/\d+", v))]
    if form.startswith("%d/%m/%Y") and any(int(part) > MONTHS for part in second):
        return form.replace("%d/%m", "%m/%d")
    return form


def _months(known: Sequence[Sequence[str]], form: str) -> tuple[str, ...]:
    if "%b" not in form:
        return ()
    seen = {m[0].lower() for values in known if _dates(values) == form for v in values if (m := _WORD.search(v))}
    for names in (ENGLISH, *MONTH_NAMES):
        if seen <= set(names.split()):
            return () if names == ENGLISH else tuple(names.split())
    return ()


def _none(values: Sequence[str], known: Sequence[str]) -> list[str]:
    """What a column of numbers, dates or truth values has for none: texts often used so, and others that come again."""
    truth = _truth(known)
    if not known or not (
        truth or any(_most(known, form) for form in (_COMMAS, _POINTS)) or _dates(known) or _iso(known)
    ):
        return []
    words = {*SPELLED, *(word.lower() for words in truth or () for word in words)}
    again = {v for v, many in Counter(known).items() if many > 1 and v.lower() not in words and not _DIGIT.search(v)}
    return [v for v in dict.fromkeys(values) if v.lower() in COMMON_MISSING or v in again]


def _truth(values: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """A column's words for yes and for no, where it has hardly any others and the house does not know them."""
    true, false = ([w for w in dict.fromkeys(values) if w.lower() in known] for known in (YES, NO))
    words = {w.lower() for w in (*true, *false)}
    if len(words) != 2 or not true or not false or words <= set(SPELLED):
        return None
    return (true, false) if sum(v.lower() in words for v in values) >= MOST * len(values) else None

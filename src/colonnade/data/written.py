"""How a party's files are written: `[party.NAME.read]` of a study, local like `data`, and no part of an agreement."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, fields
from typing import Any

from colonnade.foundation.errors import StudyError
from colonnade.foundation.sections import Section
from colonnade.foundation.shown import shown
from colonnade.foundation.toml import toml_value

SEPARATORS = (",", ";", "\t", "|")
DECIMALS, THOUSANDS = (".", ","), ("", ".", ",", " ", "'")
UTF8 = ("utf-8", "utf-8-sig", "ascii")
QUERIED = ("missing", "true", "false")
"""What may be said of rows that are no text."""
MOST_TEXTS, MOST_SKIPPED = 100, 1000  # texts for missing values, and rows skipped: far above use
MONTHS = 12  # of a year


@dataclass(frozen=True)
class Written:
    """The forms of a party's values; those that are not stated are the house's own."""

    separator: str = ","
    decimal: str = "."
    thousands: str = ""
    """A space stands for every kind of space."""
    encoding: str = "utf-8"
    dates: str = ""
    """As strftime writes them; empty: 2024-05-31."""
    months: tuple[str, ...] = ()
    """Their names, from January on, where dates have %b."""
    missing: tuple[str, ...] = ()
    """Texts that mean no value, beside an empty one."""
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    skip: int = 0
    """Lines above the header."""
    sheet: str = ""
    """Of a spreadsheet; empty: its first."""

    @property
    def decoded(self) -> bool:
        """Whether files can be read as they are."""
        return self.encoding in UTF8

    @property
    def stated(self) -> dict[str, Any]:
        """The keys that are not the house's own, as a study file has them."""
        values = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        return {k: list(v) if isinstance(v, tuple) else v for k, (v, default) in values.items() if v != default}

    @property
    def lines(self) -> list[str]:
        """The same as lines of TOML."""
        return [f"{key} = {toml_value(value)}" for key, value in self.stated.items()]


PLAIN = Written()


def written_from(section: Section, queried: bool = False) -> Written:
    """The forms that a section states, checked; of rows of a `queried` database few can be stated."""
    known = [field.name for field in fields(Written)]
    section.known(QUERIED if queried else known)
    out: dict[str, Any] = {}
    for key in section.content:
        field = type(getattr(PLAIN, key))
        out[key] = section.texts(key) if field is tuple else section.whole(key) if field is int else _text(section, key)
    found = Written(**out)
    for key, choices in (("separator", SEPARATORS), ("decimal", DECIMALS), ("thousands", THOUSANDS)):
        if getattr(found, key) not in choices:
            _refuse(section, key, f"must be one of {', '.join(map(shown, choices))}", getattr(found, key))
    if found.thousands == found.decimal:
        _refuse(section, "thousands", "and decimal must differ", found.thousands)
    try:
        codecs.lookup(found.encoding)
        "".encode(found.encoding)
    except (LookupError, ValueError):
        _refuse(section, "encoding", 'must be one that Python knows, such as "latin-1" or "utf-16"', found.encoding)
    _check_dates(section, found)
    for key in ("missing", "true", "false"):
        if len(getattr(found, key)) > MOST_TEXTS:
            raise StudyError(f"{section.where} {key} must have at most {MOST_TEXTS} texts")
    words = [[word.strip().lower() for word in getattr(found, key)] for key in ("true", "false", "missing")]
    for twice in (set(words[0]) & set(words[1])) | (set(words[2]) & {*words[0], *words[1]}):
        raise StudyError(
            f"{section.where}: true, false and missing must have different texts, and two have {shown(twice)}"
        )
    if not 0 <= found.skip <= MOST_SKIPPED:
        _refuse(section, "skip", f"must be from 0 to {MOST_SKIPPED}", found.skip)
    return found


def _check_dates(section: Section, found: Written) -> None:
    if not found.dates and found.months:
        raise StudyError(f'{section.where} months go with dates that have %b, such as dates = "%d %b %Y"')
    if not found.dates:
        return
    parts = re.findall(r"%[-_0^#]?(.)", found.dates)
    if "y" in parts:
        raise StudyError(
            f"{section.where} dates must have a year of four digits (%Y): of two, nobody knows the century"
        )
    if "Y" not in parts or "d" not in parts or not {"m", "b", "B"} & set(parts) or set(parts) - set("YmbBdHMSfT%"):
        _refuse(section, "dates", 'must have %Y, %m or %b, and %d, such as "%d.%m.%Y"', found.dates)
    if found.months and (len(found.months) != MONTHS or len({m.strip().lower() for m in found.months}) != MONTHS):
        raise StudyError(f"{section.where} months must be {MONTHS} different names, got {len(found.months)}")
    if found.months and not {"b", "B"} & set(parts):
        raise StudyError(f"{section.where} months go with dates that have %b, got dates = {shown(found.dates)}")


def _text(section: Section, key: str) -> str:
    value = section.content[key]
    return value if isinstance(value, str) else section.text(key)


def _refuse(section: Section, key: str, rule: str, value: object) -> None:
    raise StudyError(f"{section.where} {key} {rule}, got {shown(value)}")


_DATES = {
    "%d.%m.%Y": r"\d{1,2}\.\d{1,2}\.\d{4}",
    "%d/%m/%Y": r"\d{1,2}/\d{1,2}/\d{4}",
    "%m/%d/%Y": r"\d{1,2}/\d{1,2}/\d{4}",
    "%Y/%m/%d": r"\d{4}/\d{1,2}/\d{1,2}",
    "%d-%m-%Y": r"\d{1,2}-\d{1,2}-\d{4}",
    "%d-%b-%Y": r"\d{1,2}-[^\W\d]+\.?-\d{4}",
    "%d %b %Y": r"\d{1,2}\.? [^\W\d]+\.? \d{4}",
    "%Y%m%d": r"(?:19|20)\d{6}",
    "%Y.%m.%d": r"\d{4}\.\d{1,2}\.\d{1,2}",
    "%Y.%m.%d.": r"\d{4}\.\d{1,2}\.\d{1,2}\.",
}
_TIMES = {"": "", " %H:%M": r" \d{1,2}:\d{2}", " %H:%M:%S": r" \d{1,2}:\d{2}:\d{2}"}
COMMON_DATES = {day + time: looks + more for time, more in _TIMES.items() for day, looks in _DATES.items()}
"""How dates are often written, and what such a text looks like."""
COMMON_MISSING = (
    *("na", "n/a", "#n/a", "nan", "null", "none", "nil", "missing", "-", "--", "–", "—", ".", "?"),
    *("k.a.", "unbek.", "unbekannt", "b.d.", "nd", "n.d.", "n. a.", "s/d", "n.r."),
)
"""Texts, in lower case, that often mean no value."""
POINT = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+\.\d+")
COMMA, GROUPS = re.compile(r"[-+]?\d[\d.\s']*,\d+"), re.compile(r"\d([.,\s'])\d{3}(?!\d)")


def hint(text: str, *, dated: bool, spelled: bool) -> str:
    """The key that would make a text readable as a number, a date or a truth value, where one is known."""
    text = text.strip()
    if text.lower() in COMMON_MISSING:
        return f"missing = [{toml_value(text)}]"
    if spelled:
        return f"true = [...] and false = [...], one of them with {toml_value(text)}"
    if dated:
        fits = next((form for form, looks in COMMON_DATES.items() if re.fullmatch(looks, text)), "")
        return f"dates = {toml_value(fits)}" + (" and months = [...]" if "%b" in fits else "") if fits else ""
    if POINT.fullmatch(text):
        return 'thousands = ","'
    if not COMMA.fullmatch(text):
        return ""
    groups = GROUPS.search(text.rpartition(",")[0])
    mark = "" if groups is None else f", thousands = {toml_value(' ' if groups[1].isspace() else groups[1])}"
    return f'decimal = ","{mark}'

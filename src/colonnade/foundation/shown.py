"""Values from outside: made plain, as an error shows them, and as a person writes a number."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from itertools import islice
from typing import Any

LARGEST_SHOWN = 80  # characters of a value in a sentence
OPEN = "?"
"""Stands in a draft for what a person has to write."""


def plain(value: Any) -> Any:
    """The same as Python's own texts, numbers, lists and tables: numpy and pandas have types of their own for them."""
    if callable(listed := getattr(value, "tolist", None)):
        value = listed()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    return type(value)(map(plain, value)) if type(value) in (list, tuple) else value


def shown(value: object) -> str:
    """A value as its file has it, cut where it is long: a hostile file could hold megabytes of it."""
    text = _text(value)
    return text if len(text) <= LARGEST_SHOWN else text[:LARGEST_SHOWN] + "..."


def _text(value: object) -> str:
    if written := getattr(value, "isoformat", None):
        return str(written())
    match value:
        case int() if abs(value) >> 256:
            return f"an integer of {value.bit_length()} bits"
        case str():
            return repr(value[: LARGEST_SHOWN + 1])
        case list():
            return "[" + ", ".join(map(_text, value[: LARGEST_SHOWN + 1])) + "]"
        case Mapping():
            items = islice(value.items(), LARGEST_SHOWN + 1)
            return "{" + ", ".join(f"{_text(key)}: {_text(item)}" for key, item in items) + "}"
        case _:
            return repr(value)


def number_of(text: str) -> int | float | str:
    """The number that a text says, or the text itself, so that whoever checks it can name it."""
    for kind in (int, float):
        try:
            return kind(text.strip())
        except ValueError:
            continue
    return text.strip()


def is_number(value: object) -> bool:
    """Whether it is a finite number that a float can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max


def figure(value: float, digits: int = 4, sign: str = "") -> str:
    """A number to so many digits, without a power of ten where a person would write none: 19,720 and not 1.972e+04."""
    text = f"{value:{sign}z.{digits}g}"
    return f"{float(text):{sign},.0f}" if "e+" in text and abs(value) < 1e15 else text


def rounded(value: float) -> str:
    """A positive number to two digits, as a person writes it."""
    two = float(f"{value:.2g}")
    return f"{two:,.0f}" if 1000 <= two < 1e15 else f"{two:g}"


def ratio_text(value: float) -> str:
    """A ratio to three digits; near 1 with two of what it differs by, for there lies what it says."""
    off = abs(value - 1)
    return f"{value:.{1 - math.floor(math.log10(off))}f}" if 1e-9 < off < 0.1 else f"{value:.3g}"

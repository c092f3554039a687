"""Bytes as a row of decisions, so that one input format serves random mutation and coverage-guided search alike."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from random import Random
from typing import Any

NASTY: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2,
    10**12,
    2**63,
    -(2**63) - 1,
    10**400,
    0.0,
    -0.0,
    0.5,
    1e-320,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "x",
    ".",
    "other",
    "\x00",
    "\ud800",
    "é" * 70,
    "1e999",
    b"",
    b"\xff\x00",
    [],
    [[]],
    [1, "a"],
    ["a", "a"],
    {},
    {"": {}},
    {"kind": "numeric"},
    datetime.date(2020, 2, 29),
)
"""What a field may hold instead of what belongs there."""


class Choices:
    """Draws decisions from bytes; when they run out, every further decision is 0."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def below(self, limit: int) -> int:
        piece = self._data[self._at : self._at + 2]
        self._at += 2
        return int.from_bytes(piece, "little") % limit

    def rest(self) -> bytes:
        return self._data[self._at :]

    @property
    def left(self) -> bool:
        return self._at < len(self._data)


def altered(content: Any, choices: Choices) -> Any:
    """A copy of a tree with a few nodes replaced, removed, repeated, wrapped or renamed."""
    for _ in range(1 + choices.below(3)):
        content = _altered(content, choices, root=True)
    return content


def _altered(node: Any, choices: Choices, root: bool = False) -> Any:
    """A file's root stays what its parser makes it."""
    if isinstance(node, dict) and node and (root or choices.below(8)):
        out = dict(node)
        key = sorted(out, key=str)[choices.below(len(out))]
        what = choices.below(12)
        if what == 0:
            del out[key]
        elif what == 1:
            out[f"{key}_"] = out.pop(key)
        elif what == 2:
            out[sorted(out, key=str)[choices.below(len(out))]] = out[key]
        else:
            out[key] = _altered(out[key], choices)
        return out
    if isinstance(node, list) and node and (root or choices.below(8)):
        out_list = list(node)
        place = choices.below(len(out_list))
        what = choices.below(6)
        if what == 0:
            del out_list[place]
        elif what == 1:
            out_list.append(out_list[place])
        else:
            out_list[place] = _altered(out_list[place], choices)
        return out_list
    if root:
        return node
    if choices.below(16) == 0:
        return [node]
    return NASTY[choices.below(len(NASTY))]


TOKENS = (b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff\xff\xff\xff\xff", b"nan", b"inf", b"1e999", b'"')


def mutated(seed: bytes, random: Random) -> bytes:
    """A seed with some bytes flipped, cut, repeated, replaced or inserted."""
    data = bytearray(seed)
    for _ in range(1 + random.getrandbits(2)):
        at = random.randrange(len(data) + 1)
        steps: tuple[Callable[[], None], ...] = (
            lambda at=at: data.__setitem__(slice(at, at + 1), bytes([random.getrandbits(8)])),  # type: ignore[misc]
            lambda at=at: data.__setitem__(slice(at, at + random.randrange(9)), b""),  # type: ignore[misc]
            lambda at=at: data.__setitem__(slice(at, at), random.choice(TOKENS)),  # type: ignore[misc]
            lambda at=at: data.__setitem__(slice(at, at + 8), random.choice(TOKENS)),  # type: ignore[misc]
            lambda at=at: data.__setitem__(slice(at, at), data[at : at + random.randrange(64)]),  # type: ignore[misc]
            lambda at=at: data.__delitem__(slice(at, None)),  # type: ignore[misc]
        )
        steps[min(random.randrange(8), 5) if random.getrandbits(3) == 0 else random.randrange(5)]()
    return bytes(data)

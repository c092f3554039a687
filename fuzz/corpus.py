"""Inputs that reached branches which no earlier one did: lines of base64, a file for each target."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from functools import cache
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
MOST, LONGEST = 24, 2048
"""Of a target: so many inputs, of so many bytes at most, so that the repository stays small."""


def _file(name: str) -> Path:
    return CORPUS / f"{name.replace(' ', '-').replace(chr(39), '')}.txt"


@cache
def kept(name: str) -> tuple[bytes, ...]:
    """A target's inputs."""
    path = _file(name)
    return tuple(b64decode(line) for line in path.read_text().split()) if path.exists() else ()


def keep(name: str, found: Sequence[bytes]) -> None:
    """Add inputs, the shortest first, until there are enough."""
    fresh = sorted(
        (data for data in set(found) - set(kept(name)) if 0 < len(data) <= LONGEST), key=lambda d: (len(d), d)
    )
    chosen = [*kept(name), *fresh][:MOST]
    CORPUS.mkdir(exist_ok=True)
    _file(name).write_text("".join(f"{b64encode(data).decode()}\n" for data in chosen))

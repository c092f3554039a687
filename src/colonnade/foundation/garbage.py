"""How often a command looks for cyclic garbage: what its imports make lives to the end, and looking takes long."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

ALLOCATIONS = 100_000
"""New objects between two looks; Python's own number is 700 to 2,000."""


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Look for garbage seldom within this context, and not at all when the interpreter ends."""
    before = gc.get_threshold()
    gc.set_threshold(ALLOCATIONS, *before[1:])
    atexit.register(gc.freeze)
    try:
        yield
    finally:
        gc.set_threshold(*before)

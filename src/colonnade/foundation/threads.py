"""How many threads BLAS takes: one for small work, where a second costs more CPU than it saves wall time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

NAMES = tuple(f"{library}_NUM_THREADS" for library in ("OPENBLAS", "GOTO", "OMP", "MKL", "BLIS"))
"""Variables by which a user says how many threads there are; then nothing is changed here."""
WIDE = 300
"""Columns from which a model's matrices are worth as many threads as the library takes."""


@contextmanager
def one_thread(*, always: bool = False) -> Iterator[None]:
    """BLAS takes one thread in here, unless the user has said how many; `always` where a seed's answer rests on it."""
    if not always and any(name in os.environ for name in NAMES):
        yield
        return
    # Loaded before the limit is set: a limit reaches the libraries that are there.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield


def small_on_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """The function, on one thread where its first argument, which has a layout, has few columns."""

    @wraps(function)
    def run(*arguments: P.args, **named: P.kwargs) -> T:
        source: Any = arguments[0]
        with one_thread() if source.layout.width < WIDE else nullcontext():
            return function(*arguments, **named)

    return run

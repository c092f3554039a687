"""Which kernels an alignment runs on: compiled loops where numba is installed and the lists are long."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from colonnade.crypto.alignment.kernels import AlignmentKernels

WORTHWHILE = 1 << 18
"""Ids of a list from which on compiled loops save more than the time that it takes to load them."""
_COMPILED = "colonnade.crypto.alignment.compiled"


def available() -> bool:
    """Whether numba is installed; its first use on a machine compiles for some seconds, and is kept on disk."""
    return find_spec("numba") is not None


def best_kernels(ids: int) -> AlignmentKernels:
    """Those that take the least time for so many ids; what they compute is the same."""
    if available() and (ids >= WORTHWHILE or _COMPILED in sys.modules):
        from colonnade.crypto.alignment.compiled import CompiledAlignmentKernels

        return CompiledAlignmentKernels()
    return AlignmentKernels()

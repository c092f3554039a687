"""The secure products that a study may name, and which of them may leave one process."""

from __future__ import annotations

from colonnade.crypto.bgn.backend import BGN
from colonnade.crypto.lattice.backend import LATTICE
from colonnade.crypto.plain import PLAIN
from colonnade.crypto.product import Backend
from colonnade.foundation.errors import StudyError
from colonnade.foundation.registry import Registry

BACKENDS: Registry[Backend] = Registry("product", StudyError)
for _backend in (LATTICE, BGN, PLAIN):
    BACKENDS.add(_backend.name, _backend)


def require_private(name: str) -> Backend:
    """The product of this name, once it may leave the process: it must show no column to another role."""
    backend = BACKENDS[name]
    if not backend.private:
        raise StudyError(f'product = "{name}" shows columns to others and stays in one process: use "lattice"')
    return backend

"""Which class stands behind each product's name, on which device."""

from __future__ import annotations

import hashlib

import numpy as np

from colonnade.crypto.backends import BACKENDS
from colonnade.crypto.product import PartyProduct, ProductSpec, ServerProduct
from colonnade.foundation.errors import StudyError
from colonnade.foundation.integers import IntegerColumns

DIGEST_ROWS = 1 << 11


def party_product(name: str, device: str = "cpu", spec: ProductSpec | None = None) -> type[PartyProduct]:
    """A party's side; with a `spec` the one that takes least time for such a session."""
    backend = BACKENDS[name]
    if device not in backend.devices:
        serves = ", ".join(f'"{other.name}"' for other in BACKENDS if device in other.devices) or "none"
        raise StudyError(f'device {device} serves product {serves}, got product="{name}"')
    return backend.party(device, spec)


def server_product(name: str) -> type[ServerProduct]:
    return BACKENDS[name].server()


def columns_digest(columns: IntegerColumns) -> bytes:
    """Of encoded columns, in one pass."""
    n, width = columns.shape
    digest = hashlib.sha256(f"{n} {width};".encode())
    for start in range(0, n, DIGEST_ROWS):
        digest.update(np.ascontiguousarray(columns.rows(start, min(n, start + DIGEST_ROWS)), dtype="<i2").data)
    return digest.digest()

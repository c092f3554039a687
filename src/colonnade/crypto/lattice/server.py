"""The server's side of the lattice product; party.py says what is computed."""

from __future__ import annotations

from collections.abc import Sequence

from colonnade.crypto.frames import entries
from colonnade.crypto.lattice.parameters import check_lattice
from colonnade.crypto.product import Integers, ProductSpec, ServerProduct, Words, centred
from colonnade.foundation.errors import ProductError


class LatticeServer(ServerProduct):
    """The server relays parcels between parties and opens the sum of all contributions."""

    def __init__(self, spec: ProductSpec) -> None:
        check_lattice(spec)
        self._spec = spec

    def open(self, total: Words, payloads: Sequence[bytes]) -> Integers:
        if total.shape != (entries(self._spec),):
            raise ProductError(f"the sum of contributions must have {entries(self._spec)} words, got {total.shape}")
        return centred(total, self._spec.modulus_bits)

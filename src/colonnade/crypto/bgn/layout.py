"""What both sides of the product bgn know: its rounds, and how ciphertexts and group elements are cut into parcels."""

from __future__ import annotations

from colonnade.crypto.bgn.pairing import Curve
from colonnade.crypto.bgn.pairing import curve as load_curve
from colonnade.crypto.frames import HEADER, check_spec, entries
from colonnade.crypto.product import ProductSpec
from colonnade.foundation.errors import ProductError

ROUNDS = ("keys", "encrypt", "blind")
BLOCK_BYTES = 1 << 20  # 1 MB of ciphertexts a parcel, so that both sides work while it travels
CHUNK = 4096
"""Opened integers in one parcel of GT elements: at most 7 MB."""


class CipherLayout:
    """Which columns each party encrypts, and how ciphertexts are cut into parcels."""

    def __init__(self, spec: ProductSpec, curve: Curve) -> None:
        check_spec(spec)
        if spec.gain != 1:
            raise ProductError(f"the product bgn opens the integers themselves: gain must be 1, got gain={spec.gain}")
        self.entries = entries(spec)
        self.chunks = -(-self.entries // CHUNK)
        self.left = [self._columns(spec, k, True) for k in range(len(spec.parties))]
        self.right = [self._columns(spec, k, False) for k in range(len(spec.parties))]
        self._rows, self._curve = spec.rows, curve

    @staticmethod
    def _columns(spec: ProductSpec, party: int, left: bool) -> list[int]:
        spans = [
            range(c.left_start, c.left_stop) if left else range(c.right_start, c.right_stop)
            for c in spec.crosses
            if (c.left if left else c.right) == party
        ]
        return sorted({column for span in spans for column in span})

    def row_bytes(self, party: int) -> int:
        return 2 * (len(self.left[party]) * self._curve.g1.size + len(self.right[party]) * self._curve.g2.size)

    def blocks(self, party: int) -> list[tuple[int, int]]:
        """The row ranges of a party's parcels of ciphertexts."""
        if not self.row_bytes(party):
            return []
        step = max(1, BLOCK_BYTES // self.row_bytes(party))
        return [(start, min(self._rows, start + step)) for start in range(0, self._rows, step)]

    def chunk(self, number: int) -> slice:
        return slice(number * CHUNK, min(self.entries, (number + 1) * CHUNK))


def planned_bytes(spec: ProductSpec, me: int, curve: str = "bn254") -> int:
    """The bytes that one party sends in all rounds, with the payload of its contribution."""
    groups = load_curve(curve)
    layout, others = CipherLayout(spec, groups), len(spec.parties) - 1
    if not layout.entries:
        return 0
    keys = others * (HEADER.size + groups.g1.size + groups.g2.size)
    encrypt = len(layout.blocks(me)) * HEADER.size + spec.rows * layout.row_bytes(me)
    blind = (1 + others) * (layout.chunks * HEADER.size + layout.entries * groups.gt.size)
    return keys + encrypt + blind + HEADER.size + layout.entries * groups.gt.size

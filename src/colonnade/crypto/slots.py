"""Parcels of words: where each lies in its sender's sequence, its header, and the check that it is the one expected."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from hmac import compare_digest

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from colonnade.crypto.product import ProductSpec
from colonnade.crypto.words import Planes, width
from colonnade.foundation.errors import MessageError
from colonnade.foundation.randomness import derive

BLOCK = 2048
"""Rows of a block: the degree of the ring."""
COLUMNS_PER_PARCEL = 1024
WORDS_PER_PARCEL = 1 << 18
PIECE = 16
"""Ring elements worked on at once: what a second-level cache holds."""

_MAGIC = b"CLa1"
_HEADER = struct.Struct("<4s16sBBHIIIII4x")
_FIELDS = ("format", "session", "round", "modulus_bits", "sender", "index", "block", "column", "columns", "rows")
_TAG = 16


@dataclass(frozen=True)
class Slot:
    """The place of one parcel in its sender's sequence; rows after the last block's are left out."""

    index: int
    block: int
    blocks: int
    column: int
    columns: int
    rows: int

    @property
    def all_columns(self) -> slice:
        return slice(self.column, self.column + self.columns)


def slots(columns: int, rows: int) -> list[Slot]:
    """The parcels of `rows` rows, then those of one block more, which holds a key; each under 32 MB."""
    if columns == 0:
        return []
    per = max(1, WORDS_PER_PARCEL // (BLOCK * columns))
    total = -(-rows // BLOCK)
    spans = [(block, min(per, total - block)) for block in range(0, total, per)] + [(total, 1)]
    found: list[Slot] = []
    for block, blocks in spans:
        count = BLOCK if block == total else min(rows - block * BLOCK, blocks * BLOCK)
        for column in range(0, columns, COLUMNS_PER_PARCEL):
            found.append(Slot(len(found), block, blocks, column, min(COLUMNS_PER_PARCEL, columns - column), count))
    return found


def pieces(columns: int, blocks: int) -> Iterator[tuple[slice, slice]]:
    """Columns and blocks of about PIECE ring elements at a time."""
    wide = min(columns, PIECE)
    long = PIECE // wide
    for column in range(0, columns, wide):
        for block in range(0, blocks, long):
            yield slice(column, min(column + wide, columns)), slice(block, min(block + long, blocks))


def wrap(spec: ProductSpec, round: int, sender: int, slot: Slot, planes: Planes) -> bytes:
    """Header, tag, words."""
    header = _header(spec, round, sender, slot)
    arrays = [np.ascontiguousarray(plane).data.cast("B") for plane in planes.arrays]
    return b"".join([header, _tag(spec, header, arrays), *arrays])


def unwrap(spec: ProductSpec, round: int, sender: int, slot: Slot, payload: bytes) -> Planes:
    """The words of the parcel that belongs in this slot; anything else raises."""
    name = spec.parties[sender]
    size = _HEADER.size + _TAG + slot.rows * slot.columns * width(spec.modulus_bits)
    expected = _header(spec, round, sender, slot)
    if len(payload) < _HEADER.size + _TAG:
        raise MessageError(
            f"a parcel from {name!r} must have a header of {_HEADER.size + _TAG} bytes, got {len(payload)}"
        )
    header = payload[: _HEADER.size]
    for field, got, wanted in zip(_FIELDS, _HEADER.unpack(header), _HEADER.unpack(expected), strict=True):
        if got != wanted:
            shown = f"{field}={wanted}, got {got}" if isinstance(wanted, int) else f"this {field}"
            raise MessageError(f"parcel {slot.index} from {name!r} must have {shown}")
    if len(payload) != size:
        raise MessageError(f"parcel {slot.index} from {name!r} must have {size} bytes, got {len(payload)}")
    body = memoryview(payload)[_HEADER.size + _TAG :]
    if header != expected or not compare_digest(
        _tag(spec, expected, [body]), payload[_HEADER.size : _HEADER.size + _TAG]
    ):
        raise MessageError(f"parcel {slot.index} from {name!r} was altered: its tag does not match")
    return Planes.read(body, (slot.columns, slot.rows), spec.modulus_bits)


def _header(spec: ProductSpec, round: int, sender: int, slot: Slot) -> bytes:
    session = derive(spec.session, "lattice session", 16)
    place = slot.index, slot.block, slot.column, slot.columns, slot.rows
    return _HEADER.pack(_MAGIC, session, round, spec.modulus_bits, sender, *place)


def _tag(spec: ProductSpec, header: bytes, body: list[memoryview]) -> bytes:
    """GMAC under a key of the session: it finds accidents and mix-ups; who may speak is the protocol's matter."""
    nonce = header[20:32]  # round, modulus_bits, sender, index, block: unique in a session
    mac = Cipher(algorithms.AES256(derive(spec.session, "lattice parcels")), modes.GCM(nonce)).encryptor()
    mac.authenticate_additional_data(header)
    for part in body:
        mac.authenticate_additional_data(part)
    mac.finalize()
    return mac.tag

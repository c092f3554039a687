"""Parcels of words: where each lies in its sender's sequence, its header, and the check that it is the one expected."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from hmac import compare_digest

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from colonnade.crypto.lattice.words import Planes, width
from colonnade.crypto.product import ProductSpec
from colonnade.foundation.errors import MessageError
from colonnade.foundation.randomness import derive

BLOCK = 2048
"""Rows of a block: the degree of the ring."""
COLUMNS_PER_PARCEL = 1024  # so that wide tables are cut, too
WORDS_PER_PARCEL = 1 << 18  # 2 MB a parcel at most, so that both sides work while it travels
BLOCKS_PER_PARCEL = 16  # a parcel for each 32,768 rows at least, so that narrow tables stream too

_MAGIC = b"CLa1"
_HEADER = struct.Struct("<4s16sBBHIIIII4x")
_FIELDS = ("format", "session", "round", "modulus_bits", "sender", "index", "block", "column", "columns", "rows")
_TAG = 16  # bytes that bind a parcel to its place: 128 bits
START = _HEADER.size + _TAG
"""Where a parcel's words begin."""


@dataclass(frozen=True)
class ParcelPlace:
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


def parcel_places(columns: int, rows: int) -> list[ParcelPlace]:
    """The parcels of `rows` rows, then those of one block more, which holds a key; each under 32 MB."""
    if columns == 0:
        return []
    per = min(BLOCKS_PER_PARCEL, max(2, WORDS_PER_PARCEL // (BLOCK * columns)))
    total = -(-rows // BLOCK)
    spans = [(block, min(per, total - block)) for block in range(0, total, per)] + [(total, 1)]
    found: list[ParcelPlace] = []
    for block, blocks in spans:
        count = BLOCK if block == total else min(rows - block * BLOCK, blocks * BLOCK)
        for column in range(0, columns, COLUMNS_PER_PARCEL):
            found.append(
                ParcelPlace(len(found), block, blocks, column, min(COLUMNS_PER_PARCEL, columns - column), count)
            )
    return found


class Frames:
    """Puts words into parcels of one session, and takes them out of the one parcel that is expected."""

    def __init__(self, spec: ProductSpec) -> None:
        self._spec = spec
        self._session = derive(spec.session, "lattice session", 16)
        self._key = algorithms.AES256(derive(spec.session, "lattice parcels"))

    def wrap(self, round: int, sender: int, place: ParcelPlace, planes: Planes) -> bytes:
        """Header, tag, words."""
        header = self._header(round, sender, place)
        arrays = [plane.data.cast("B") for plane in planes.arrays]
        return b"".join([header, self._tag(header, arrays), *arrays])

    def unwrap(self, round: int, sender: int, place: ParcelPlace, payload: bytes) -> Planes:
        """The words of the parcel that belongs in this place; anything else raises."""
        what = f"parcel {place.index} from {self._spec.parties[sender]!r}"
        expected, got = self._header(round, sender, place), payload[: _HEADER.size]
        if len(got) < _HEADER.size:
            raise MessageError(f"{what} must have a header of {_HEADER.size} bytes, got {len(got)}")
        for field, is_, must in zip(_FIELDS, _HEADER.unpack(got), _HEADER.unpack(expected), strict=True):
            if is_ != must:
                shown = f"{field}={must}, got {field}={is_}" if isinstance(must, int) else f"this {field}, got another"
                raise MessageError(f"{what} must have {shown}")
        size = START + place.rows * place.columns * width(self._spec.modulus_bits)
        if len(payload) != size:
            raise MessageError(f"{what} must have {size} bytes, got {len(payload)}")
        body = memoryview(payload)[START:]
        if got != expected or not compare_digest(self._tag(expected, [body]), payload[_HEADER.size : START]):
            raise MessageError(f"{what} must be as it was sent, got altered bytes")
        planes = Planes.read(body, (place.columns, place.rows), self._spec.modulus_bits)
        if not planes.below_modulus:
            raise MessageError(f"{what} must have words below 2^{self._spec.modulus_bits}, got a larger one")
        return planes

    def _header(self, round: int, sender: int, place: ParcelPlace) -> bytes:
        numbers = place.index, place.block, place.column, place.columns, place.rows
        return _HEADER.pack(_MAGIC, self._session, round, self._spec.modulus_bits, sender, *numbers)

    def _tag(self, header: bytes, body: list[memoryview]) -> bytes:
        """GMAC under a key of the session: it finds accidents and mix-ups; who may speak is the protocol's matter."""
        nonce = header[20:32]  # round, modulus_bits, sender, index, block: unique in a session
        mac = Cipher(self._key, modes.GCM(nonce)).encryptor()
        mac.authenticate_additional_data(header)
        for part in body:
            mac.authenticate_additional_data(part)
        mac.finalize()
        return mac.tag

"""What parties hand in: vectors under masks, put into messages and read back, added up, and compared with what was
signed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from colonnade.crypto.product import Contribution, Words
from colonnade.foundation.errors import MessageError, ReleaseError
from colonnade.mechanism.blocks import NoisyBlock
from colonnade.protocol.coins import RunningHash
from colonnade.protocol.messages import Handed, Piece, in_pieces
from colonnade.protocol.signatures import SUBMISSION

WORD_BYTES = 8  # of 64 bits
_decoder = msgspec.msgpack.Decoder(Piece)


class Masked:
    """A party's whole submission under its masks: uniform to anyone who lacks another party's."""

    __slots__ = ("payload", "words")

    def __init__(self, words: Words, payload: bytes) -> None:
        self.words = words
        self.payload = payload

    @classmethod
    def of(
        cls,
        own: Mapping[int, NoisyBlock],
        places: Mapping[int, Any],
        contribution: Contribution,
        mask: Words,
        modulus_bits: int,
    ) -> Masked:
        """Own noisy blocks at their places, the product's shares behind them, and the mask over everything."""
        words = mask.copy()
        for index, block in own.items():
            words[places[index]] += block.values.view(np.uint64)
        words[words.size - contribution.vector.size :] += contribution.vector
        words &= np.uint64((1 << modulus_bits) - 1)
        return cls(words, contribution.payload)

    def __repr__(self) -> str:
        return f"Masked({self.words.size} words)"


def submission(masked: Masked) -> list[bytes]:
    """The encoded pieces of a submission; a retry sends these very bytes again."""
    blob = masked.words.size.to_bytes(8, "little") + masked.words.astype("<u8").tobytes() + masked.payload
    return in_pieces(blob)


def submission_bytes(length: int, payload: int = 0) -> int:
    """Bytes of a submission of so many words, with so many bytes behind them."""
    return 8 + 8 * length + payload


def masked_from(blob: bytes, length: int, payload: int = 0) -> Masked:
    """A submission put together again; what stands behind its words has a known length, mostly none."""
    if len(blob) != submission_bytes(length, payload) or int.from_bytes(blob[:8], "little") != length:
        behind = f" and {payload} bytes behind them" if payload else ""
        raise MessageError(f"a submission must have {length} words{behind}, got {len(blob)} bytes")
    words = np.frombuffer(blob, dtype="<u8", count=length, offset=8).astype(np.uint64)
    return Masked(words, blob[8 + 8 * length :])


def total_of(submissions: Sequence[Masked], modulus_bits: int) -> Words:
    """The sum of all submissions, in which the masks cancel."""
    total = np.zeros_like(submissions[0].words)
    for masked in submissions:
        total += masked.words
    return total & np.uint64((1 << modulus_bits) - 1)


class Submissions:
    """All parties' at one party, one after the other in their order: compared with what each signed, added up as they
    pass, and not kept. The memory is that of one sum and one piece.
    """

    def __init__(self, signed: Mapping[str, bytes], length: int, modulus_bits: int) -> None:
        """`signed` has each party's digest of its submission of so many words."""
        self._signed, self._waiting = signed, list(signed)
        self._modulus = np.uint64((1 << modulus_bits) - 1)
        self._total: Words = np.zeros(length, dtype=np.uint64)
        self._begin()

    def _begin(self) -> None:
        self._hash, self._pieces, self._words = RunningHash(SUBMISSION), 0, -1

    def add(self, handed: Handed) -> str | None:
        """Take one piece; names the party whose submission it completes."""
        if not self._waiting or handed.party != self._waiting[0]:
            raise MessageError(f"submissions must come in turn, each once, got a piece of {handed.party!r}")
        try:
            piece = _decoder.decode(handed.piece)
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError):
            raise MessageError(f"a piece of the submission of {handed.party} cannot be decoded") from None
        if piece.index != self._pieces or not piece.index < piece.count or len(piece.data) % WORD_BYTES:
            raise MessageError(f"the submission of {handed.party} must come in whole words and in order")
        self._hash.add(handed.piece)
        words = np.frombuffer(piece.data, dtype="<u8")
        if self._words < 0 and words.size:
            # The first word is their number.
            words, self._words = words[1:], 0
        if self._words < 0 or self._words + words.size > self._total.size:
            raise MessageError(f"the submission of {handed.party} must have {self._total.size} words, got others")
        self._total[self._words : self._words + words.size] += words
        self._words, self._pieces = self._words + words.size, self._pieces + 1
        if self._pieces < piece.count:
            return None
        if self._hash.value() != self._signed[handed.party]:
            raise ReleaseError(f"the server shows another submission of {handed.party} than {handed.party} signed")
        if self._words < self._total.size:
            raise MessageError(f"the submission of {handed.party} must have {self._total.size} words, got others")
        self._waiting.pop(0)
        self._begin()
        return handed.party

    def digest(self, party: str) -> bytes:
        return self._signed[party]

    def total(self) -> Words:
        """Their sum, in which the masks cancel; raises unless all have come."""
        if self._waiting:
            raise ReleaseError(f"the server has not shown what {', '.join(self._waiting)} handed in")
        return self._total & self._modulus

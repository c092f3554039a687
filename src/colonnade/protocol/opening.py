"""All parties' masked submissions at one party: compared with what each signed, added up as they pass, not kept."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from colonnade.crypto.product import Words
from colonnade.foundation.errors import MessageError, ReleaseError
from colonnade.protocol.coins import RunningHash
from colonnade.protocol.messages import Handed, Piece
from colonnade.protocol.signatures import SUBMISSION

WORD_BYTES = 8  # of 64 bits
_decoder = msgspec.msgpack.Decoder(Piece)


class Submissions:
    """One after the other, in the order of the parties; the memory is that of one sum and one piece."""

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

"""The server's side of an alignment: relays the ring, adds the tables up, learns the count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from colonnade.crypto.alignment.frames import Frame, Pieces, as_count, party_of
from colonnade.crypto.alignment.oblivious import SLOT_BYTES, slots_of
from colonnade.crypto.product import SERVER, Parcel
from colonnade.foundation.errors import AlignmentError, MessageError, ProtocolError

TABLE_PIECE = 1 << 20
GREETING_BYTES = 40
AGREEMENT_BYTES = 40


class AlignmentServer:
    """Sums K uniform tables, shows the sum, and checks that all parties found the same."""

    def __init__(self, session: bytes, parties: Sequence[str]) -> None:
        self._frame = Frame(session, tuple(parties))
        self.rounds = self._frame.rounds
        self._sizes: dict[str, int] = {}
        self._total = np.zeros(0, dtype=np.uint64)
        self._arrived: dict[str, Pieces] = {}
        self._found: dict[str, bytes] = {}

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        """Take a parcel addressed to the server; raises MessageError when it is malformed or out of turn."""
        party_of(self._frame.parties, sender)
        offset, body = self._frame.open(round, sender, SERVER, payload)
        if round == "greet":
            if sender in self._sizes or len(body) != GREETING_BYTES:
                raise MessageError(
                    f"a greeting must come once with {GREETING_BYTES} bytes, got {len(body)} of {sender!r}"
                )
            self._sizes[sender] = as_count("a number of ids", body[-8:])
        elif round == "compare":
            self._add(sender, offset, body)
        elif round == "agree" and sender not in self._found and len(body) == AGREEMENT_BYTES:
            self._found[sender] = body
        else:
            raise MessageError(f"the server expects nothing of {len(body)} bytes in round {round!r} from {sender!r}")

    def _add(self, sender: str, offset: int, body: bytes) -> None:
        if len(self._sizes) < len(self._frame.parties):
            raise MessageError(f"a table must follow all greetings, got one of {sender!r} before")
        size = SLOT_BYTES * slots_of(max(self._sizes.values()))
        if not len(self._total):
            self._total = np.zeros(size // 8, dtype=np.uint64)
        pieces = self._arrived.setdefault(sender, Pieces(f"the table of {sender!r}", size, SLOT_BYTES, keep=False))
        pieces.add(offset, body)
        self._total[offset // 8 : (offset + len(body)) // 8] ^= np.frombuffer(body, dtype="<u8")

    def send(self, round: str) -> Iterator[Parcel]:
        """Parcels to parties once all parties' parcels of the round are in."""
        if round == "compare":
            waiting = [p for p in self._frame.parties if p not in self._arrived or not self._arrived[p].complete]
            if waiting:
                raise ProtocolError(f"the sum of tables must wait for all parties, got none yet from {waiting}")
            return self._sum()
        if round == "agree":
            body = self.count.to_bytes(8, "big")
            return iter([self._frame.seal(round, SERVER, p, body) for p in self._frame.parties])
        return iter(())

    def _sum(self) -> Iterator[Parcel]:
        raw = self._total.astype("<u8").tobytes()
        for party in self._frame.parties:
            for offset in range(0, len(raw), TABLE_PIECE):
                yield self._frame.seal("compare", SERVER, party, raw[offset : offset + TABLE_PIECE], offset)

    @property
    def count(self) -> int:
        """How many ids all parties have in common."""
        if len(self._found) < len(self._frame.parties):
            waiting = [p for p in self._frame.parties if p not in self._found]
            raise ProtocolError(f"the number of common ids must come from all parties, got none yet from {waiting}")
        if len(set(self._found.values())) > 1:
            raise AlignmentError("all parties must find the same common ids, got different ones: start a new session")
        count = as_count("a number of common ids", next(iter(self._found.values()))[:8])
        if not count:
            raise AlignmentError(
                f"parties {', '.join(self._frame.parties)} must have ids in common, got none (compared as text)"
            )
        return count

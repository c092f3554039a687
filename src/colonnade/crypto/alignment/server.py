"""The server's side of an alignment: relays what parties seal for each other, and learns the count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from colonnade.crypto.alignment.frames import ROUNDS, Frame, as_count, party_of
from colonnade.crypto.alignment.sizes import GREETING_BYTES
from colonnade.crypto.product import SERVER, Parcel
from colonnade.foundation.errors import AlignmentError, MessageError, ProtocolError

AGREEMENT_BYTES = 40  # a digest of 32 bytes and a count of 8


class AlignmentServer:
    """Hears every greeting, and checks that all parties found the same."""

    rounds = ROUNDS

    def __init__(self, session: bytes, parties: Sequence[str]) -> None:
        self._frame = Frame(session, tuple(parties))
        self._greeted: set[str] = set()
        self._found: dict[str, bytes] = {}

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        """Take a parcel addressed to the server; raises MessageError when it is malformed or out of turn."""
        party_of(self._frame.parties, sender)
        _, body = self._frame.open(round, sender, SERVER, payload)
        if round == "greet":
            if sender in self._greeted or len(body) != GREETING_BYTES:
                raise MessageError(
                    f"a greeting must come once with {GREETING_BYTES} bytes, got {len(body)} of {sender!r}"
                )
            self._greeted.add(sender)
        elif round == "agree" and sender not in self._found and len(body) == AGREEMENT_BYTES:
            self._found[sender] = body
        else:
            raise MessageError(f"the server expects nothing of {len(body)} bytes in round {round!r} from {sender!r}")

    def send(self, round: str) -> Iterator[Parcel]:
        """Parcels to parties once all parties' parcels of the round are in."""
        if round != "agree":
            return iter(())
        body = self.count.to_bytes(8, "big")
        return iter([self._frame.seal(round, SERVER, p, body) for p in self._frame.parties])

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

"""What passes between parties in rounds, through the server's hands: the shape of matchings and products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from colonnade.crypto.product import Parcel


class Exchange(Protocol):
    """One side of an exchange. A round opens for all at once; parcels of it may come before it opens here."""

    def send(self, round: str) -> Iterator[Parcel]:
        """This round's parcels, made lazily."""
        ...

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        """Take one parcel; raises MessageError when it is malformed, out of turn or of another session."""
        ...

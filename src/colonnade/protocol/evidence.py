"""What a party keeps of a session, so that it can be shown later that it did as it said; `sites.evidence` keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from colonnade.protocol.coins import Opening
from colonnade.protocol.messages import Envelope


class Evidence(Protocol):
    """Each call is durable when it returns, so that no commitment leaves that cannot be opened later."""

    def begin(self, session: bytes, opening: Opening) -> None:
        """The session has an id, and the party its secrets: nothing has left yet."""
        ...

    def note(self, what: str, facts: Mapping[str, Any]) -> None:
        """A public fact: a commitment, a signature, a digest."""
        ...

    def keep_sent(self, envelope: Envelope, digest: bytes) -> None:
        """A message that leaves, and the digest of its body."""
        ...

    def keep_received(self, envelope: Envelope, digest: bytes) -> None:
        """A message that came, before it is worked on, and the digest of its body."""
        ...

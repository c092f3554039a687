"""What the server heard of a session, as one digest, which a release bears."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from colonnade.protocol.messages import Envelope


class RoundLog:
    """A running hash per sender: the digest does not depend on how senders interleave."""

    def __init__(self, parties: Sequence[str]) -> None:
        self._heard = {name: hashlib.sha256() for name in parties}

    def add(self, envelope: Envelope) -> None:
        note = self._heard[envelope.sender]
        note.update(f"{envelope.step.value}>{envelope.recipient}:{len(envelope.body)}:".encode())
        note.update(envelope.body)

    def digest(self) -> str:
        transcript = hashlib.sha256()
        for name in sorted(self._heard):
            transcript.update(name.encode() + b"\0" + self._heard[name].digest())
        return transcript.hexdigest()

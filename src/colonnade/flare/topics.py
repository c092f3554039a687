"""What requests to the server's job are called, a party's and the coordinator's."""

from __future__ import annotations

TOPIC = "colonnade"
"""Of a party's requests."""
FRAME = "frame"
"""The key under which such a request, and its reply, has its bytes."""
COMMAND = "colonnade"
"""Of the coordinator's: how far is it, or stop."""

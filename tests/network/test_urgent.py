"""Urgent messages overtake what waits at the relay, and not each other; nobody speaks for others or out of turn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from colonnade.foundation.errors import ProtocolError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.fit import FitServer
from colonnade.protocol.party import refusal
from colonnade.protocol.server import ServerRole
from colonnade.transport.client import Client
from colonnade.transport.relay import Outbox, Relay
from colonnade.transport.wire import URGENT, Ack, Delivery, Poll, Send, Timeouts, Wait, decode_reply, encode
from tests.helpers.conversations import AGREEMENT, NAMES, PLANS


class AnyCarrier(FitServer):
    def require_private(self) -> None:
        """Nothing leaves this process."""


def test_urgent_messages_are_first_in_first_out() -> None:
    relay = Relay(ServerRole(AnyCarrier(AGREEMENT, "none", PLANS), Randomness()))

    def push(name: str, number: int, item: bytes) -> None:
        request = Send(name.encode().ljust(16, b"."), number, item)
        assert isinstance(decode_reply(relay.handle(name, encode(request))), Ack)

    first, second, third = NAMES
    push(first, 1, b"one")
    push(second, 1, b"two")
    push(third, URGENT, b"stop of the third")
    push(second, URGENT, b"stop of the second")
    push(first, 2, b"three")
    # Who repeats itself is heard once, so that no party can fill the server's memory.
    for _ in range(3):
        push(third, URGENT, b"again")
    push(first, URGENT, b"stop of the first")
    assert list(relay._inbox) == [
        (third, b"stop of the third"),
        (second, b"stop of the second"),
        (first, b"stop of the first"),
        (first, b"one"),
        (second, b"two"),
        (first, b"three"),
    ]
    for left in (2, 1, 0, 0):
        relay._work()
        assert relay._urgent == left or relay.role.over


def test_parties_that_wait_together_do_not_keep_each_other_awake() -> None:
    """Each poll looked whether it had mail, and woke all others, which did the same: half a processor for nothing."""
    relay = Relay(ServerRole(AnyCarrier(AGREEMENT, "none", PLANS), Randomness()), patience=Timeouts(poll=0.5))
    for name in NAMES:
        relay.handle(name, encode(Send(name.encode().ljust(16, b"."), 1, b"here")))
    looked: list[str] = []

    class Counted(Outbox):
        def take(self, taken: int) -> tuple[int, bytes] | None:
            looked.append("")
            return super().take(taken)

    for link in relay._links.values():
        link.outbox = Counted()
    polls = [encode(Poll(name.encode().ljust(16, b"."), 0)) for name in NAMES]
    with ThreadPoolExecutor(len(NAMES)) as pool:
        found = list(pool.map(relay.handle, NAMES, polls))
    assert all(isinstance(decode_reply(reply), Wait) for reply in found)
    # Once as it came, once as its time was over, and once for each that came behind it.
    assert len(looked) <= len(NAMES) * (2 + len(NAMES))


def test_nobody_speaks_in_the_name_of_another() -> None:
    """Whose a message is says the line that it came by: else one party could end a session, and another be named."""
    relay = Relay(ServerRole(AnyCarrier(AGREEMENT, "none", PLANS), Randomness()))
    liar, other = NAMES[:2]
    said = refusal(other, StudyError("I cannot begin")).encode()
    relay.handle(liar, encode(Send(b"i" * 16, URGENT, said)))
    relay._work()
    assert relay.role.end is not None and relay.role.end.party == liar


def test_a_message_that_is_not_the_next_one_is_refused() -> None:
    """A server that leaves one out, or sends one twice, does not go unseen."""
    heard: list[Any] = []
    role: Any = SimpleNamespace(
        task=SimpleNamespace(require_private=lambda: None), receive=lambda envelope: heard.append(envelope) or []
    )
    client, item = Client(role, lambda request: b""), refusal("bank", StudyError("any")).encode()
    with pytest.raises(ProtocolError, match="must send message 1 next, got another"):
        client._take(Delivery(2, item))
    client._take(Delivery(1, item))
    for reply in (Delivery(1, item), Delivery(3, item), Wait()):
        with pytest.raises(ProtocolError, match="must send message 2 next, got another"):
            client._take(reply)
    assert len(heard) == 1

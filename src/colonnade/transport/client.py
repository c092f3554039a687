"""A party's side of a conversation over a network: asks the server, drives its role, says why it ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from colonnade.foundation.errors import ColonnadeError, LedgerError, PolicyError, ProtocolError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.codes import MEANING, Code
from colonnade.protocol.messages import Envelope, versions
from colonnade.protocol.party import ENTRY, PartyRole
from colonnade.transport.wire import (
    INSTANCE_BYTES,
    URGENT,
    Delivery,
    Heartbeat,
    Poll,
    Rejected,
    Rejection,
    Reply,
    Request,
    Send,
    Timeouts,
    Unreachable,
    Wait,
    decode_reply,
    encode,
)

Call = Callable[[bytes], bytes]
"""Carries a request to the server and brings the reply; raises Unreachable when there is none."""


class _Over(Exception):
    """The last word came in answer to something else."""


class _Barred(Exception):
    def __init__(self, why: Rejection) -> None:
        super().__init__(why.value)
        self.why = why


class Client:
    """One organisation's process in one session."""

    def __init__(self, role: PartyRole, call: Call, patience: Timeouts | None = None) -> None:
        role.task.require_private()
        self.role, self._call, self._patience = role, call, patience or Timeouts()
        self.closing = ""
        """What an error that `run` raised leaves unsaid: what it means for the party's budget or scores."""
        # Says which process speaks, not who may: that is the certificate's matter.
        self._instance = Randomness().bytes(INSTANCE_BYTES)
        self._pushed = self._taken = 0
        self._quiet = threading.Event()

    def run(self) -> None:
        """Drive the role until it has what it came for; raises one sentence that says who ended it, and where."""
        role = self.role
        pulse = threading.Thread(target=self._beat, name="colonnade-beat", daemon=True)
        try:
            self._send(role.start(), self._patience.join)
            pulse.start()
            while not role.over:
                self._take(self._ask(Poll(self._instance, self._taken)))
            # The last message has come: the server need not wait any longer.
            self._ask_quietly(Poll(self._instance, self._taken))
        except _Over:
            pass
        except Unreachable:
            role.lost()
        except _Barred as barred:
            role.lost()
            raise self._not_let_in(barred.why) from None
        except BaseException as error:
            for envelope in role.fault(error):
                self._ask_quietly(Send(self._instance, URGENT, envelope.encode()))
            raise self._closed(error) from None
        finally:
            self._quiet.set()
        if not role.released:
            raise self._ended()

    def _send(self, envelopes: Iterable[Envelope], patience: float | None = None) -> None:
        for envelope in envelopes:
            self._pushed += 1
            reply = self._ask(Send(self._instance, self._pushed, envelope.encode()), patience)
            if isinstance(reply, Delivery):
                self._take(reply)
                raise _Over

    def _take(self, reply: Reply) -> None:
        if not isinstance(reply, Delivery) or reply.number not in (URGENT, self._taken + 1):
            raise ProtocolError(f"the server must send message {self._taken + 1} next, got another")
        self._taken += reply.number != URGENT
        self._send(self.role.receive(Envelope.decode(reply.item)))

    # Requests.

    def _ask(self, request: Request, patience: float | None = None) -> Reply:
        """Ask until there is an answer; a server that says Wait is alive."""
        limit = self._patience.silence if patience is None else patience
        deadline = time.monotonic() + limit
        data = encode(request)
        while True:
            try:
                reply = decode_reply(self._call(data))
            except Unreachable:
                if time.monotonic() > deadline:
                    raise Unreachable from None
                time.sleep(min(0.5, self._patience.beat))
                continue
            match reply:
                case Wait():
                    deadline = time.monotonic() + limit
                case Rejected() if self._pushed > 1 or not isinstance(request, Send):
                    raise Unreachable("the server knows nothing of this session")
                case Rejected():
                    raise _Barred(reply.why)
                case _:
                    return reply

    def _ask_quietly(self, request: Request) -> None:
        with suppress(Unreachable):
            self._call(encode(request))

    def _beat(self) -> None:
        while not self._quiet.wait(self._patience.beat):
            self._ask_quietly(Heartbeat(self._instance, self.role.phase, self.role.share))

    # How it ends.

    def _closed(self, error: BaseException) -> BaseException:
        """A refusal says what it means for the budget; of other errors `closing` does."""
        role = self.role
        if role.handed_in and not role.released:
            self.closing = f"; {role.task.alone(True)}"
        if role.handed_in or role.released:
            return error
        closing = f"; {role.task.kind.unspent}"
        if isinstance(error, (PolicyError, LedgerError)):
            return type(error)(f"{error}{closing}")
        self.closing = closing
        return error

    def _not_let_in(self, why: Rejection) -> ColonnadeError:
        kind = self.role.task.kind
        meaning = kind.stranger if why is Rejection.STRANGER else "a party of this name has entered the session already"
        return PolicyError(f"party {self.role.name} is not let in: {meaning}; {kind.unspent}")

    def _ended(self) -> ColonnadeError:
        role = self.role
        end, kind = role.end, role.task.kind
        if end is None:
            alone = role.task.alone(role.handed_in)
            return ProtocolError(
                f"the server was not heard for {self._patience.silence:g} s at step {role.phase}; {alone}"
            )
        if end.party == role.name and end.code in ENTRY:
            meaning = kind.terms if end.code is Code.TERMS else MEANING[end.code]
            if end.code is Code.VERSION:
                meaning = f"{meaning} (it is {versions()}, the server {role.server})"
            sentence = f"party {role.name} is not let in: {meaning}; {kind.unspent}"
            return StudyError(sentence) if end.code is Code.TERMS else PolicyError(sentence)
        if end.code is None:
            alone = role.task.alone(role.handed_in)
            return ProtocolError(f"the server says that all went well, and has handed nothing on; {alone}")
        if role.standing:
            return ProtocolError(f"{role.reason}; {role.standing}")
        return ProtocolError(role.task.ending(end))


def send_refusal(call: Call, refusal: Envelope) -> None:
    """Tell the server that this party cannot even begin."""
    with suppress(Unreachable):
        call(encode(Send(Randomness().bytes(INSTANCE_BYTES), URGENT, refusal.encode())))

"""Which event of the conversation a message is."""

from __future__ import annotations

from colonnade.foundation.errors import ProtocolError
from colonnade.protocol.conversation import Event, PartyState
from colonnade.protocol.messages import DIGESTS, JOINING, SUBMIT, Envelope, Go, Piece, Step, body_of

PARTY_EVENTS = {
    Step.WELCOME: Event.WELCOME,
    Step.RESUME: Event.RESUME,
    Step.PARCEL: Event.PARCEL,
    Step.SIGNATURE: Event.SIGNATURE,
    Step.PROPOSAL: Event.PROPOSAL,
    Step.HANDED: Event.HANDED,
    Step.HALT: Event.HALT,
    Step.END: Event.END,
}
SERVER_EVENTS = {
    Step.HELLO: Event.HELLO,
    Step.READY: Event.READY,
    Step.PARCEL: Event.PARCEL,
    Step.SIGNATURE: Event.SIGNATURE,
    Step.DONE: Event.DONE,
    Step.JOIN: Event.JOIN,
    Step.ACCEPT: Event.ACCEPT,
    Step.SUBMIT: Event.SUBMIT,
    Step.CONFIRM: Event.CONFIRM,
    Step.REFUSE: Event.REFUSE,
    Step.WITHDRAW: Event.WITHDRAW,
}
GO_EVENTS = {JOINING: Event.GO_JOIN, DIGESTS: Event.GO_DIGESTS, SUBMIT: Event.GO_SUBMIT}


def party_event(name: str, state: PartyState, envelope: Envelope) -> Event:
    """What a message is to a party in this state; some say by their bodies what they are."""
    match envelope.step:
        case Step.GO:
            round = body_of(envelope, Go).round
            joined = state in (PartyState.ACCEPTED, PartyState.SUBMITTED)
            return GO_EVENTS.get(round, Event.GO_ROUND if joined else Event.GO_ALIGN)
        case Step.OPENED:
            piece = body_of(envelope, Piece)
            return Event.OPENED if piece.index == piece.count - 1 else Event.PIECE
        case step if step in PARTY_EVENTS:
            return PARTY_EVENTS[step]
        case step:
            raise ProtocolError(f"party {name} is {state.value} and expects no {step.value} message")

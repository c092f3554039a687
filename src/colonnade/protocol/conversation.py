"""Who may say what, and when: one table for every party, one for the server, whatever the session is for.

The roles look their next state up here and nowhere else, carriers know nothing of it, and docs/protocol.md is drawn
from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from colonnade.foundation.errors import BrokenError


class PartyState(StrEnum):
    NEW = "new"
    ENTERED = "entered"
    READY = "ready"
    ALIGNING = "aligning"
    MATCHED = "matched"
    JOINED = "joined"
    ACCEPTED = "accepted"
    FIXED = "fixed"
    KEPT = "kept"
    WITHDRAWN = "withdrawn"
    SUBMITTED = "submitted"
    RELEASED = "released"
    ENDED = "ended"
    CLOSED = "closed"


class ServerState(StrEnum):
    GATHERING = "gathering"
    ALIGNING = "aligning"
    JOINING = "joining"
    ASKING = "asking"
    RUNNING = "running"
    SUBMITTING = "submitting"
    HALTING = "halting"
    OPENED = "opened"
    CLOSED = "closed"
    FAILED = "failed"


class Books(StrEnum):
    """What a party's books say of the session."""

    NONE = "none"
    BOOKED = "booked"
    RELEASED = "released"
    """What was opened has come."""
    COUNTED = "counted"
    """By the server's word it was opened, and has not come."""
    VOID = "void"


SPENT = (Books.BOOKED, Books.RELEASED, Books.COUNTED)
SETTLED = (Books.RELEASED, Books.COUNTED, Books.VOID)
"""Nothing follows any more."""


class Event(StrEnum):
    """A message, with what it says where that decides; or what a role notices, or a carrier tells it."""

    START = "start"
    HELLO = "hello"
    LAST_HELLO = "hello (the last, and all can resume)"
    WELCOME = "welcome"
    RESUME = "resume"
    READY = "ready"
    LAST_READY = "ready (the last)"
    GO_ALIGN = "go (alignment)"
    GO_JOIN = "go join"
    GO_ROUND = "go (product)"
    GO_DIGESTS = "go digests"
    DIGESTS = "all digests are here"
    GO_SUBMIT = "go submit"
    PARCEL = "parcel"
    SIGNATURE = "signature"
    DONE = "done"
    LAST_DONE = "done (the last)"
    LAST_ROUND = "all rounds are over"
    MATCHED = "ids are matched"
    JOIN = "join"
    LAST_JOIN = "join (the last)"
    PROPOSAL = "proposal"
    ACCEPT = "accept"
    LAST_ACCEPT = "accept (the last)"
    SUBMIT = "submit"
    LAST_SUBMIT = "submit (the last)"
    HANDED = "handed (a piece)"
    PIECE = "opened (a piece)"
    OPENED = "opened (the last piece)"
    CONFIRM = "confirm"
    LAST_CONFIRM = "confirm (the last)"
    REFUSE = "refuse"
    HALT = "halt"
    WITHDRAW = "withdraw"
    LAST_WITHDRAW = "withdraw (the last)"
    END = "end (nothing was opened)"
    END_OPENED = "end (it was opened)"
    ERROR = "an error"
    LOST = "lost"
    STOP = "stop"


S = TypeVar("S", PartyState, ServerState)


@dataclass(frozen=True)
class Transition(Generic[S]):
    """One transition; `asks` and `sends` are for people who read the drawing, `books` is of parties alone."""

    state: S
    event: Event
    next: S
    sends: str = ""
    asks: str = ""
    books: Books | None = None
    """What a booking becomes. One whose submission has left is void by the server's word alone."""


def _rows(
    states: Sequence[S],
    events: Sequence[Event],
    next: S | None,
    sends: str = "",
    asks: str = "",
    books: Books | None = None,
) -> tuple[Transition[S], ...]:
    """The same for several states and events; without a next state each stays where it is."""
    return tuple(Transition(s, e, s if next is None else next, sends, asks, books) for s in states for e in events)


P, E, B = PartyState, Event, Books
_LIVE = tuple(P)[: tuple(P).index(P.RELEASED)]
PARTY_ROWS: tuple[Transition[PartyState], ...] = (
    Transition(P.NEW, E.START, P.ENTERED, "HELLO", "judge the public terms; which sessions are unsettled"),
    Transition(P.ENTERED, E.WELCOME, P.READY, "READY", "settle these; read the data; foresee refusals"),
    # Before ids, accountable parties exchange commitments and coins in the same way.
    Transition(P.READY, E.GO_ALIGN, P.ALIGNING, "PARCEL, SIGNATURE, DONE", "note the matching"),
    Transition(P.READY, E.PARCEL, P.ALIGNING, "", "note the matching"),
    *_rows((P.ALIGNING,), (E.GO_ALIGN,), None, "PARCEL, SIGNATURE, DONE"),
    *_rows((P.ALIGNING,), (E.PARCEL, E.SIGNATURE), None),
    Transition(P.ALIGNING, E.MATCHED, P.MATCHED),
    # Where nothing is matched all are matched as they stand; a peer may have been told to join before.
    *_rows((P.READY, P.MATCHED), (E.SIGNATURE,), None),
    *_rows((P.READY, P.MATCHED), (E.GO_JOIN,), P.JOINED, "SIGNATURE, JOIN"),
    *_rows((P.JOINED,), (E.SIGNATURE,), None),
    Transition(P.JOINED, E.PROPOSAL, P.ACCEPTED, "ACCEPT", "compare with the own terms, then plan; consent"),
    *_rows((P.ACCEPTED,), (E.GO_ROUND,), None, "PARCEL, SIGNATURE, DONE"),
    *_rows((P.ACCEPTED,), (E.PARCEL, E.SIGNATURE), None),
    # Accountable parties sign what they will submit before anybody does, and what was opened to them.
    Transition(P.ACCEPTED, E.GO_DIGESTS, P.FIXED, "SIGNATURE"),
    *_rows((P.FIXED,), (E.SIGNATURE,), None),
    Transition(P.FIXED, E.DIGESTS, P.KEPT, "DONE"),
    Transition(P.KEPT, E.GO_SUBMIT, P.SUBMITTED, "SUBMIT", "book", B.BOOKED),
    Transition(P.KEPT, E.HALT, P.WITHDRAWN, "WITHDRAW"),
    Transition(P.ACCEPTED, E.GO_SUBMIT, P.SUBMITTED, "SUBMIT if not accountable", "book", B.BOOKED),
    *_rows((P.SUBMITTED,), (E.GO_SUBMIT,), None, "the same SUBMIT again"),
    *_rows((P.SUBMITTED,), (E.HALT,), None, "WITHDRAW without a signature"),
    *_rows((P.WITHDRAWN, P.ENDED), (E.HALT,), None, "WITHDRAW again"),
    # A server that died at submit asks for the same bytes again; no earlier round is repeated.
    *_rows((P.ENTERED, P.KEPT), (E.RESUME,), P.SUBMITTED, "the kept SUBMIT", "book, unless it is booked", B.BOOKED),
    *_rows((P.SUBMITTED,), (E.RESUME,), None, "the same SUBMIT again"),
    *_rows((P.ENTERED,), (E.HALT,), None, "WITHDRAW without a signature"),
    *_rows((P.SUBMITTED,), (E.HANDED, E.PIECE, E.SIGNATURE), None),
    Transition(
        P.SUBMITTED, E.OPENED, P.RELEASED, "SIGNATURE if accountable, CONFIRM", "keep; note the release", B.RELEASED
    ),
    *_rows((P.RELEASED,), (E.SIGNATURE,), None),
    *_rows(tuple(P)[1:], (E.END,), P.CLOSED, "", "void, unless it takes peers' signatures and they lack", B.VOID),
    *_rows(tuple(P)[1:], (E.END_OPENED,), P.CLOSED, "", "note the release", B.COUNTED),
    *_rows(_LIVE, (E.ERROR, E.STOP), P.ENDED, "REFUSE", "void, unless a submission has left", B.VOID),
    *_rows(_LIVE[1:], (E.LOST,), P.ENDED, "", "void, unless a submission has left", B.VOID),
    *_rows((P.RELEASED, P.ENDED, P.CLOSED), (E.LOST, E.STOP), None),
    *_rows((P.RELEASED,), (E.ERROR,), P.ENDED, "REFUSE"),
)
V = ServerState
_OPEN = tuple(V)[: tuple(V).index(V.HALTING)]
SERVER_ROWS: tuple[Transition[ServerState], ...] = (
    *_rows((V.GATHERING,), (E.HELLO,), None, "WELCOME", "what became of earlier sessions"),
    Transition(V.GATHERING, E.LAST_HELLO, V.SUBMITTING, "RESUME to all", "that nothing of it was opened"),
    *_rows((V.GATHERING,), (E.READY,), None),
    Transition(V.GATHERING, E.LAST_READY, V.ALIGNING, "GO first round to all"),
    *_rows((V.ALIGNING,), (E.PARCEL, E.SIGNATURE), None, "the same to its recipient"),
    *_rows((V.ALIGNING,), (E.DONE,), None),
    *_rows((V.ALIGNING,), (E.LAST_DONE,), None, "own PARCEL; GO next round to all"),
    Transition(V.ALIGNING, E.MATCHED, V.JOINING, "GO join to all", "note that it began"),
    *_rows((V.JOINING,), (E.SIGNATURE,), None, "the same to its recipient"),
    *_rows((V.JOINING,), (E.JOIN,), None),
    Transition(V.JOINING, E.LAST_JOIN, V.ASKING, "PROPOSAL to all"),
    *_rows((V.ASKING,), (E.ACCEPT,), None),
    Transition(V.ASKING, E.LAST_ACCEPT, V.RUNNING, "GO first round to all"),
    *_rows((V.RUNNING,), (E.PARCEL, E.SIGNATURE), None, "the same to its recipient"),
    *_rows((V.RUNNING,), (E.DONE,), None),
    *_rows((V.RUNNING,), (E.LAST_DONE,), None, "own PARCEL; GO next round to all"),
    Transition(V.RUNNING, E.LAST_ROUND, V.SUBMITTING, "GO submit to all"),
    *_rows((V.SUBMITTING,), (E.SUBMIT, E.DONE), None),
    Transition(
        V.SUBMITTING,
        E.LAST_SUBMIT,
        V.OPENED,
        "HANDED if accountable, OPENED to all",
        "note that it counts, add up, note that it is open",
    ),
    # Who has handed in may not take a booking back by the server's word: the others are asked to sign.
    Transition(V.SUBMITTING, E.HALT, V.HALTING, "HALT to all if accountable"),
    *_rows((V.HALTING,), (E.WITHDRAW, E.REFUSE, E.LOST, E.SUBMIT, E.DONE), None),
    Transition(V.HALTING, E.LAST_WITHDRAW, V.FAILED, "END to all"),
    *_rows((V.HALTING,), (E.STOP, E.ERROR), V.FAILED, "END to all"),
    *_rows((V.OPENED,), (E.SIGNATURE,), None, "the same to its recipient"),
    *_rows((V.OPENED,), (E.CONFIRM, E.REFUSE, E.LOST), None),
    Transition(V.OPENED, E.LAST_CONFIRM, V.CLOSED, "END to all"),
    *_rows((V.OPENED,), (E.STOP,), V.CLOSED, "END to all"),
    *_rows(_OPEN, (E.REFUSE, E.ERROR, E.LOST, E.STOP), V.FAILED, "END to all"),
    # The server itself cannot go on.
    Transition(V.OPENED, E.ERROR, V.FAILED, "END to all"),
    *_rows((V.CLOSED, V.FAILED), (E.LOST, E.STOP), None),
)


def _table(rows: Sequence[Transition[S]]) -> Mapping[tuple[S, Event], S]:
    table = {(row.state, row.event): row.next for row in rows}
    if len(table) < len(rows):
        raise BrokenError("a state and an event must have one row in the table of the conversation")
    return table


PARTY: Mapping[tuple[PartyState, Event], PartyState] = _table(PARTY_ROWS)
BOOKS = {(row.state, row.event): row.books for row in PARTY_ROWS if row.books is not None}
SERVER: Mapping[tuple[ServerState, Event], ServerState] = _table(SERVER_ROWS)

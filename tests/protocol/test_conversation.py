"""The conversation's table: every row of it happens, and wherever a session is cut, books, journal and END agree."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest

from colonnade.crypto.product import SERVER as MIDDLE
from colonnade.foundation.errors import MessageError, ProtocolError
from colonnade.protocol import messages
from colonnade.protocol import party as party_module
from colonnade.protocol import server as server_module
from colonnade.protocol.codes import Code
from colonnade.protocol.conversation import PARTY, PARTY_ROWS, SERVER, SERVER_ROWS, Event, PartyState, ServerState
from colonnade.protocol.messages import (
    PARTY_EVENTS,
    SERVER_EVENTS,
    SUBMIT,
    Body,
    End,
    Envelope,
    Go,
    Halt,
    Refuse,
    Resumable,
    Step,
    Welcome,
    body_of,
    encode_body,
)
from colonnade.protocol.party import PartyRole
from colonnade.protocol.tasks import JournalEvent
from colonnade.transport.in_process import InProcess
from tests.helpers.accounts import Remembered, SharedSigner
from tests.helpers.conversations import (
    NAMES,
    ROWS,
    Binning,
    Conversation,
    fit_conversation,
    predict_conversation,
    reached,
)
from tests.helpers.signers import signers_of

CUTS: dict[str, Binning] = {
    "the first is lost": lambda c: c.lose(NAMES[0]),
    "the last is lost": lambda c: c.lose(NAMES[-1]),
    "one hears nothing": lambda c: c.lose_server(NAMES[1]),
    "the server is stopped": lambda c: c.stop_server(),
    "one is stopped": lambda c: c.stop_party(NAMES[1]),
    "the last is stopped": lambda c: c.stop_party(NAMES[-1]),
    "the server dies": lambda c: c.kill_server(),
}


class Noted(dict[Any, Any]):
    """A table that remembers which of its rows were looked up."""

    def __init__(self, table: Any, seen: set[Any]) -> None:
        super().__init__(table)
        self._seen = seen

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        self._seen.add(key)
        return value


def check_books(talk: Conversation) -> None:
    """What every cut must leave behind, whoever died."""
    counts = JournalEvent.SUBMITTED in talk.journal.events
    assert counts == talk.server.counts
    end = talk.server.end
    if end is not None:
        assert end.opened == counts
    for name, book in talk.books.items():
        role = talk.parties[name]
        if counts:
            # Nobody who booked believes that nothing was opened; who saw neither release nor END stays booked.
            assert book.state in ("booked", "released"), (name, book.state)
        else:
            assert book.state != "released", name
            handed_in = name in talk.gone and role.handed_in
            # Whoever is there to hear it knows that nothing was opened; a dead process settles next time.
            if book.state == "booked":
                assert name in talk.gone or MIDDLE in talk.gone or handed_in, name
        if book.state in ("released", "void"):
            assert "book" in book.calls
        if "book" in book.calls:
            assert book.calls.index("consent") < book.calls.index("book")
    if JournalEvent.OPENED in talk.journal.events:
        assert talk.journal.events.index(JournalEvent.SUBMITTED) < talk.journal.events.index(JournalEvent.OPENED)


def test_a_session_that_is_not_cut() -> None:
    talk = fit_conversation()
    assert talk.run() > 30
    assert {role.state for role in talk.parties.values()} == {PartyState.CLOSED}
    assert talk.server.state is ServerState.CLOSED and talk.server.end is not None and talk.server.end.code is None
    assert {book.state for book in talk.books.values()} == {"released"}
    assert talk.journal.events == [JournalEvent.STARTED, JournalEvent.SUBMITTED, JournalEvent.OPENED]
    assert all(book.calls == ["judge", "foresee", "consent", "book"] for book in talk.books.values())


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_a_release_cut_at_every_message(cut: str) -> None:
    total = fit_conversation().run()
    ends = set()
    for after in range(total):
        talk = fit_conversation()
        talk.run(CUTS[cut], after)
        check_books(talk)
        assert talk.server.over or MIDDLE in talk.gone
        for name, role in talk.parties.items():
            assert role.over or name in talk.gone, (after, name, role.state)
        ends.add(None if talk.server.end is None else (talk.server.end.code, talk.server.end.opened))
    # Cut early it failed with nothing opened; cut late it counts.
    if cut != "the server dies":
        assert {opened for _, opened in ends} == {True, False}, ends


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_scores_cut_at_every_message(cut: str) -> None:
    total = predict_conversation().run()
    for after in range(total):
        talk = predict_conversation()
        talk.run(CUTS[cut], after)
        assert not talk.journal.events and {book.state for book in talk.books.values()} == {"open"}
        end = talk.server.end
        if talk.scores:
            assert len(talk.scores[0].scores) == ROWS
            assert talk.server.opened or MIDDLE in talk.gone
        elif end is not None and end.code is None:
            raise AssertionError("the server says that scores were opened, and nobody has them")


def test_a_session_with_ids_cut_here_and_there() -> None:
    total = fit_conversation(aligned=True).run()
    for after, cut in zip(range(0, total, 25), cycle(CUTS.values())):
        talk = fit_conversation(aligned=True)
        talk.run(cut, after)
        check_books(talk)
        # Ids are matched after nobody had anything to refuse, and noted once.
        for book in talk.books.values():
            assert book.calls.count("align") <= 1
            if "align" in book.calls:
                assert all("foresee" in other.calls for other in talk.books.values())


@pytest.mark.parametrize("aligned", [True, False], ids=["ids are matched", "rows as they stand"])
def test_signed_sessions_in_one_process(aligned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Depth first, a peer's signatures come before a party is told to join: they are about the session already."""
    # A release of several pieces, too.
    monkeypatch.setattr(messages, "PIECE", 1 << 10)
    talk = fit_conversation(aligned, signers=signers_of(*NAMES))
    passed: list[Step] = []

    def wire(envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
        passed.append(envelope.step)
        return (envelope,)

    InProcess(talk.server, talk.parties, wire).carry()
    assert {book.state for book in talk.books.values()} == {"released"}
    # A mask key for each peer, and a digest after each round in which anything passed between two parties.
    assert passed.count(Step.SIGNATURE) >= 2 * 2 * len(NAMES) * (len(NAMES) - 1)


def test_a_party_that_is_asked_again_hands_in_the_same_bytes_and_books_once() -> None:
    talk = fit_conversation()
    answers: dict[str, list[bytes]] = {}

    def ask_twice(envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
        if up and envelope.step is Step.SUBMIT:
            answers.setdefault(envelope.sender, []).append(envelope.body)
            return (envelope,) if len(answers[envelope.sender]) == 2 else ()
        asked = not up and envelope.step is Step.GO and body_of(envelope, Go).round == SUBMIT
        return (envelope,) * (2 if asked else 1)

    InProcess(talk.server, talk.parties, ask_twice).carry()
    assert all(len(bodies) == 2 and bodies[0] == bodies[1] for bodies in answers.values()) and len(answers) == 3
    assert all(book.calls.count("book") == 1 for book in talk.books.values())


def test_a_session_is_named_by_whole_ids() -> None:
    """An empty id would make the check that a message is of this session worth little."""
    role = fit_conversation().parties[NAMES[0]]
    list(role.start())
    body = encode_body(Welcome(b"", b"", {}))
    with pytest.raises(MessageError, match="must name the session by ids of 32 bytes"):
        list(role.receive(Envelope(b"", "", MIDDLE, NAMES[0], Step.WELCOME, body)))


def test_every_row_of_the_table_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn is what is done: sessions above, and an end of every kind in every state, pass every row."""
    parties: set[Any] = set()
    servers: set[Any] = set()
    monkeypatch.setattr(party_module, "PARTY", Noted(PARTY, parties))
    monkeypatch.setattr(server_module, "TABLE", Noted(SERVER, servers))
    fit_conversation().run()
    test_signed_sessions_in_one_process(True, monkeypatch)
    test_signed_sessions_in_one_process(False, monkeypatch)
    test_a_party_that_is_asked_again_hands_in_the_same_bytes_and_books_once()
    kept = {name: Remembered() for name in NAMES}
    signers = {name: SharedSigner(name) for name in NAMES}
    InProcess((talk := fit_conversation(signers=signers, evidence=kept)).server, talk.parties).carry()
    start = talk_at_submit()
    for after in range(start, start + 4):
        fit_conversation(evidence={name: Remembered() for name in NAMES}).run(CUTS["one is stopped"], after)
    try_the_rest()
    assert {(row.state, row.event) for row in PARTY_ROWS} - parties == set()
    # Messages that leave a server where it is are looked for, and move nothing.
    stays = {(row.state, row.event) for row in SERVER_ROWS if row.state is row.next}
    moves = {(row.state, row.event) for row in SERVER_ROWS if row.state is not row.next}
    # test_resume lets a server come back.
    moves -= {(ServerState.GATHERING, Event.LAST_HELLO)}
    assert moves - servers == set()
    assert servers <= stays | moves | {(ServerState.GATHERING, Event.LAST_HELLO)}


def talk_at_submit(talk: Conversation | None = None) -> int:
    """How many messages pass before a server waits for submissions."""
    talk = talk or fit_conversation(evidence={name: Remembered() for name in NAMES})
    for role in talk.parties.values():
        talk.send(MIDDLE, role.start())
    while talk.server.state is not ServerState.SUBMITTING:
        talk.passed += 1
        talk.deliver(*talk.queue.popleft())
    return talk.passed


def try_the_rest() -> None:
    """An error, a stop, a loss and an end in every state of either side."""
    planted = ProtocolError("planted")
    for state, event in PARTY:
        if event not in (Event.ERROR, Event.STOP, Event.LOST, Event.END, Event.END_OPENED, Event.RESUME, Event.HALT):
            continue
        role = reached(state).parties[NAMES[0]]

        def tell(step: Step, body: Body, role: PartyRole = role) -> list[Step]:
            asked = Envelope(role.identity, role._digest, MIDDLE, NAMES[0], step, encode_body(body))
            return [envelope.step for envelope in role.receive(asked)]

        if event is Event.ERROR:
            role.fault(planted)
        elif event is Event.STOP:
            role.stop()
        elif event is Event.LOST:
            role.lost()
        elif event is Event.HALT:
            tell(Step.HALT, Halt())
        elif event is not Event.RESUME:
            tell(Step.END, End(None, "", "open", event is Event.END_OPENED))
        elif state is not PartyState.ENTERED:
            assert tell(Step.RESUME, Resumable(bytes(32), "", ROWS, ())) == [Step.SUBMIT]
        else:
            # Nothing was kept, and it is refused; test_resume has what was.
            with pytest.raises(ProtocolError):
                tell(Step.RESUME, Resumable(bytes(32), "", ROWS, ()))
        assert role.state is PARTY[state, event] or event is Event.RESUME
    for server_state, event in SERVER:
        if event not in (Event.ERROR, Event.STOP, Event.LOST, Event.REFUSE):
            continue
        server = reached(server_state).server
        if event is Event.ERROR:
            # When all is open, nobody but the server itself can end it by an error.
            list(server.fault("" if server_state is ServerState.OPENED else NAMES[0], planted))
        elif event is Event.STOP:
            list(server.stop())
        elif event is Event.LOST:
            list(server.lost(NAMES[0]))
        elif event is Event.REFUSE:
            refusal = encode_body(Refuse(Code.POLICY))
            list(server.receive(Envelope(server.identity, "", NAMES[0], MIDDLE, Step.REFUSE, refusal)))


@pytest.mark.parametrize(
    "state", [*PartyState, *ServerState], ids=lambda state: f"{type(state).__name__} {state.value}"
)
def test_no_message_is_taken_out_of_turn(state: PartyState | ServerState) -> None:
    """In every state, a message that the table does not name is refused by one sentence that says the state."""
    talk = reached(state)
    if isinstance(state, PartyState):
        role, taken = talk.parties[NAMES[0]], {event for known, event in PARTY if known is state}
        for step in set(Step) - {Step.GO, Step.OPENED}:
            if PARTY_EVENTS.get(step) not in taken:
                with pytest.raises(ProtocolError, match=f"is {state.value} and expects no {step.value} message"):
                    list(role.receive(Envelope(role.identity, "", MIDDLE, NAMES[0], step, b"")))
        assert role.state is state
    else:
        server = talk.server
        for step in Step:
            if (state, SERVER_EVENTS.get(step)) not in SERVER:
                with pytest.raises(ProtocolError, match=f"the server is {state.value} and expects no {step.value}"):
                    list(server.receive(Envelope(server.identity, "", NAMES[0], MIDDLE, step, b"")))
        assert server.state is state

"""How a session ends for those who did not end it: which code, at whom, at which step."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from colonnade.crypto.product import SERVER
from colonnade.foundation.errors import LedgerError, NoDataError, PolicyError, ProtocolError, SiteError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.codes import Code
from colonnade.protocol.fit import FitServer, ending
from colonnade.protocol.messages import (
    VERSION,
    Body,
    End,
    Envelope,
    Hello,
    Ready,
    Refuse,
    Step,
    Welcome,
    body_of,
    encode_body,
)
from colonnade.protocol.party import PartyRole, refusal
from colonnade.protocol.server import ServerRole
from colonnade.protocol.tasks import Unguarded
from colonnade.study import StudySpec
from colonnade.transport.client import Client, send_refusal
from colonnade.transport.journal import FileJournal
from colonnade.transport.relay import Relay
from colonnade.transport.wire import (
    URGENT,
    Delivery,
    Poll,
    Reply,
    Send,
    Unreachable,
    Wait,
    decode_reply,
    decode_request,
    encode,
)
from tests.helpers.accounts import Remembered, SharedSigner
from tests.helpers.wires import (
    PARTIES,
    QUICK,
    Wire,
    converse,
    guard,
    message_in,
    party_task,
    run,
    sends,
    unmatched,
    write_study,
)


@pytest.fixture
def study(tmp_path: Path) -> StudySpec:
    return write_study(tmp_path)


def test_a_study_that_differs_is_told_as_such(study: StudySpec, tmp_path: Path) -> None:
    """Not as a rule of a policy: nobody's policy was asked."""
    other = replace(study, agreement=study.agreement.with_terms(epsilon=31.0))
    guards = {name: guard(tmp_path, name) for name in PARTIES}
    out = run(study, tmp_path, guards=guards, studies={"town": other})
    assert "its study file states other terms than the server's; nothing is spent" in out.sentence("town")
    for name in ("works", "bank"):
        assert out.sentence(name).startswith("the session ended at town (study-differs)"), out.sentence(name)


def test_nobody_waits_behind_the_end(study: StudySpec, tmp_path: Path) -> None:
    """A party that says that the last message has come is let go at once, not after a turn of waiting."""
    short = unmatched(study, tmp_path)
    server = ServerRole(FitServer(short.agreement, short.alignment), Randomness(), accountable=True)

    def role_of(name: str) -> PartyRole:
        task = party_task(short, name, guard(tmp_path, name))
        return PartyRole(task, Randomness(), SharedSigner(name), account=SessionAccount(Remembered()))

    begun = time.monotonic()
    parties = {name: partial(role_of, name) for name in PARTIES}
    out = converse(server, parties, patience=replace(QUICK, poll=20.0, silence=60.0, farewell=30.0))
    assert not out.errors and server.opened
    assert time.monotonic() - begun < 15.0


def test_nobody_in_common(study: StudySpec, tmp_path: Path) -> None:
    lines = (tmp_path / "town.csv").read_text().replace("\np", "\nq")
    (tmp_path / "town.csv").write_text(lines)
    out = run(study, tmp_path)
    for name in PARTIES:
        told = out.sentence(name)
        assert told.startswith("the session ended (no-match): ids cannot be matched: none are common to all"), told
        assert "it was at step align" in told


def test_the_step_is_that_of_whoever_left(study: StudySpec, tmp_path: Path) -> None:
    (tmp_path / "town.csv").write_text((tmp_path / "town.csv").read_text().replace(",owner", ",owned", 1))
    out = run(study, tmp_path)
    for name in ("works", "bank"):
        assert out.sentence(name).startswith("the session ended at town (data)"), out.sentence(name)
        assert "it was at step read;" in out.sentence(name)


def refuse(name: str, code: Code, phase: str, session: bytes = b"") -> Envelope:
    return Envelope(session, "", name, SERVER, Step.REFUSE, encode_body(Refuse(code, phase)))


def test_a_party_that_only_refuses_has_not_come(study: StudySpec, tmp_path: Path) -> None:
    """The last to be heard says that it cannot begin: the others are asked for nothing any more."""
    sent: list[Step] = []
    ready = {name: threading.Event() for name in ("works", "bank")}

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            if name == "town":
                if sends(data, Step.HELLO):
                    for event in ready.values():
                        assert event.wait(10)
                    relay.handle(name, encode(Send(bytes(16), URGENT, refuse("town", Code.SITE, "wait").encode())))
                raise Unreachable
            answer = relay.handle(name, data)
            message = message_in(data)
            if message is not None:
                sent.append(message.step)
                ready[name].set() if message.step is Step.READY else None
            return answer

        return carry

    out = run(study, tmp_path, wire=wire, patience=replace(QUICK, join=1.0))
    assert out.sentence("works").startswith("the session ended at town (site)"), out.sentence("works")
    assert set(sent) == {Step.HELLO, Step.READY}


def relay_of(study: StudySpec, tmp_path: Path) -> Relay:
    task = FitServer(study.agreement, study.alignment)
    return Relay(ServerRole(task, Randomness(), FileJournal(tmp_path / "sessions.jsonl")), QUICK)


def test_a_step_that_nobody_knows_is_not_passed_on(study: StudySpec, tmp_path: Path) -> None:
    relay = relay_of(study, tmp_path)
    told = refuse("town", Code.DATA, "patients.csv has 17 rows")
    relay.handle("town", encode(Send(bytes(16), URGENT, told.encode())))
    relay.run()
    end = relay.role.end
    assert end is not None and (end.party, end.phase) == ("town", "wait")
    assert "it was at step wait;" in ending(end)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StudyError("site.toml is not valid TOML"), Code.SITE),
        (NoDataError("there is no data file"), Code.SITE),
        (SiteError("the releases cannot be written"), Code.SITE),
        (PolicyError("simulation"), Code.POLICY),
        (LedgerError("damaged"), Code.BUDGET),
        (RuntimeError("x"), Code.INTERNAL),
    ],
)
def test_what_a_party_that_cannot_begin_tells(error: Exception, code: Code) -> None:
    heard: list[bytes] = []

    def call(data: bytes) -> bytes:
        heard.append(data)
        return data

    send_refusal(call, refusal("town", error))
    (data,) = heard
    push, message = decode_request(data), message_in(data)
    assert isinstance(push, Send) and push.number == URGENT
    assert message is not None and (message.sender, message.step) == ("town", Step.REFUSE)
    assert body_of(message, Refuse) == Refuse(code, "wait")


class Puppet:
    """A party's process whose every request the test makes."""

    def __init__(self, relay: Relay, name: str, instance: bytes) -> None:
        self._relay, self._name, self._instance = relay, name, instance
        self._pushed = self._taken = 0
        self.session = b""

    def say(self, step: Step, body: Body, urgent: bool = False) -> Reply:
        self._pushed += not urgent
        message = Envelope(self.session, "", self._name, SERVER, step, encode_body(body))
        return self._ask(Send(self._instance, URGENT if urgent else self._pushed, message.encode()))

    def pull(self) -> Reply:
        reply = self._ask(Poll(self._instance, self._taken))
        self._taken += isinstance(reply, Delivery) and reply.number != URGENT
        return reply

    def _ask(self, request: Send | Poll) -> Reply:
        return decode_reply(self._relay.handle(self._name, encode(request)))

    def enter(self, terms: str) -> None:
        self.say(Step.HELLO, Hello(VERSION, terms, False, []))
        self.session = body_of(mail_in(self.pull()), Welcome).session


def mail_in(reply: Reply) -> Envelope:
    assert isinstance(reply, Delivery), reply
    return Envelope.decode(reply.item)


def puppets(relay: Relay) -> dict[str, Puppet]:
    return {name: Puppet(relay, name, bytes([k]) * 16) for k, name in enumerate(PARTIES)}


def test_nobody_aligns_while_one_still_reads(study: StudySpec, tmp_path: Path) -> None:
    """Entered is not ready: a party that says hello and reads on may still refuse."""
    relay = relay_of(study, tmp_path)
    parties, terms = puppets(relay), relay.role.task.terms
    thread = threading.Thread(target=relay.run)
    thread.start()
    for party in parties.values():
        party.enter(terms)
    for name in PARTIES[:2]:
        parties[name].say(Step.READY, Ready())
        assert isinstance(parties[name].pull(), Wait)
    assert relay.role.phase == "wait" and relay.role.gathering
    parties["town"].say(Step.REFUSE, Refuse(Code.BUDGET, "read"), urgent=True)
    thread.join(20)
    end = body_of(mail_in(parties["works"].pull()), End)
    assert ending(end).startswith("the session ended at town (budget)") and "it was at step read" in ending(end)


def test_who_enters_after_the_end_gets_the_last_word(study: StudySpec, tmp_path: Path) -> None:
    relay = relay_of(study, tmp_path)
    parties = puppets(relay)
    parties["town"].say(Step.REFUSE, Refuse(Code.SITE, "wait"), urgent=True)
    relay.run()
    late = mail_in(parties["bank"].say(Step.HELLO, Hello(VERSION, relay.role.task.terms, False, [])))
    assert body_of(late, End) == End(Code.SITE, "town", "wait", False)


def test_a_server_that_ends_well_and_hands_nothing_on_is_not_believed(study: StudySpec) -> None:
    """A party was told that the release was opened, and had none."""
    last = Envelope(b"", "", SERVER, "bank", Step.END, encode_body(End(None, "", "open", False)))
    role = PartyRole(party_task(study, "bank", Unguarded()), Randomness())
    with pytest.raises(ProtocolError, match="says that all went well, and has handed nothing on; nothing had been sub"):
        Client(role, lambda data: encode(Delivery(URGENT, last.encode())), QUICK).run()

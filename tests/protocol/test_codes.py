"""A refusal tells others a fixed code: whatever text an error has stays with the party where it arose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colonnade.foundation import errors
from colonnade.foundation.errors import (
    ColonnadeError,
    ConsentError,
    DataError,
    LedgerError,
    PolicyError,
    ProductError,
    ProtocolError,
)
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.codes import MEANING, Code, code_of, sentence_of
from colonnade.protocol.messages import Abort, Envelope, Refuse, Step, body_of, encode_body
from colonnade.protocol.party import Party
from colonnade.protocol.party import State as PartyState
from colonnade.protocol.server import Server
from colonnade.protocol.server import State as ServerState
from colonnade.runs import run_unguarded
from colonnade.transport.in_process import InProcess
from tests.helpers.sessions import agreement_of, tables_of

SECRET = "cap 17.25 of patients.csv"
HOOKS = ("consent", "encode", "book")


class Tapped(InProcess):
    """Keeps a copy of every byte that passes."""

    def __init__(self, server: Server, parties: dict[str, Party]) -> None:
        super().__init__(server, parties)
        self.wire: list[Envelope] = []

    def _to_server(self, envelope: Envelope) -> None:
        self.wire.append(envelope)
        super()._to_server(envelope)

    def _to_party(self, envelope: Envelope) -> None:
        self.wire.append(envelope)
        super()._to_party(envelope)


def raising(error: Exception) -> Callable[..., Any]:
    def hook(*_: object) -> Any:
        raise error

    return hook


def tapped(hook: str, error: Exception, parties: int = 3) -> Tapped:
    """A session in which the party p1 meets the error at one of its hooks."""
    agreement = agreement_of(parties)
    source = Randomness(b"codes")
    roles = {}
    for name, table in tables_of(agreement).items():
        hooks: dict[str, Any] = {hook: raising(error)} if name == "p1" and hook != "encode" else {}
        encode = raising(error) if name == "p1" and hook == "encode" else table.encode
        roles[name] = Party(name, table.columns, table.rows, encode, source.child(name), **hooks)
    return Tapped(Server(agreement, source.child("server")), roles)


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (PolicyError, Code.POLICY),
        (ConsentError, Code.CONSENT),
        (LedgerError, Code.BUDGET),
        (DataError, Code.DATA),
        (ProductError, Code.PROTOCOL),
        (RuntimeError, Code.INTERNAL),
        (KeyError, Code.INTERNAL),
    ],
)
def test_an_error_reaches_others_as_its_code_alone(hook: str, kind: type[Exception], code: Code) -> None:
    transport = tapped(hook, kind(SECRET))
    with pytest.raises((ColonnadeError, kind), match=r"17\.25"):
        transport.run()
    refusals = [body_of(e, Refuse) for e in transport.wire if e.step is Step.REFUSE]
    # An unknown error in consent is no refusal of a plan, but ends the session all the same.
    assert refusals == [Refuse(code)]
    assert {e.recipient for e in transport.wire if e.step is Step.ABORT} == {"p0", "p1", "p2"}
    assert {body_of(e, Abort) for e in transport.wire if e.step is Step.ABORT} == {Abort(code, "p1")}
    for envelope in transport.wire:
        assert b"17.25" not in envelope.encode() and b"patients" not in envelope.encode()
    server, parties = transport._server, transport._parties
    assert (server.state, server.code, server.culprit) == (ServerState.FAILED, code, "p1")
    assert server.reason == sentence_of(code, "p1")
    assert "17.25" in parties["p1"].reason
    for name in ("p0", "p2"):
        assert code.value in parties[name].reason and "17.25" not in parties[name].reason
    assert all(p.state is PartyState.ENDED and p.release is None for p in parties.values())


def test_a_code_for_every_error_and_words_for_every_code() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, ColonnadeError)]
    assert len(kinds) > 10
    assert all(code_of(kind("x")) is not Code.INTERNAL for kind in kinds)
    assert code_of(KeyboardInterrupt()) is Code.STOPPED
    assert all(code_of(e) is Code.INTERNAL for e in (ValueError("x"), OSError("x"), MemoryError(), SystemExit(3)))
    assert set(MEANING) == set(Code)


def test_a_code_that_nobody_knows_is_no_message() -> None:
    sent = Envelope(
        bytes(32), "", "p0", "", Step.REFUSE, encode_body(Refuse(Code.POLICY)).replace(b"policy", b"pwlicy")
    )
    with pytest.raises(ProtocolError, match="the body of a refuse message cannot be decoded"):
        body_of(sent, Refuse)


def test_a_book_keeps_its_own_sentence_or_the_code() -> None:
    agreement: Agreement = agreement_of(2)
    void: dict[str, str] = {}
    with pytest.raises(LedgerError, match=r"17\.25"):
        run_unguarded(
            agreement,
            tables_of(agreement),
            "none",
            Randomness(b"void"),
            book={"p1": raising(LedgerError(SECRET))},
            void={name: lambda reason, name=name: void.update({name: reason}) for name in ("p0", "p1")},  # type: ignore[misc]
        )
    assert void == {"p0": sentence_of(Code.BUDGET, "p1"), "p1": SECRET}


def test_a_party_may_leave_before_the_plan_and_not_after_the_end() -> None:
    agreement = agreement_of(2)
    source = Randomness(b"leave")
    server = Server(agreement, source)
    parties = {n: Party(n, t.columns, t.rows, t.encode, source.child(n)) for n, t in tables_of(agreement).items()}
    with pytest.raises(ProtocolError, match="is new and has nothing to refuse"):
        parties["p0"].refuse(DataError(SECRET))
    assert list(server.receive(parties["p0"].join(server.identity))) == []
    out = list(server.receive(parties["p0"].refuse(DataError(SECRET))))
    assert [(e.recipient, body_of(e, Abort)) for e in out] == [("p0", Abort(Code.DATA, "p0"))]
    assert list(parties["p0"].receive(out[0])) == [] and parties["p0"].reason == SECRET
    with pytest.raises(ProtocolError, match="is ended and has nothing to refuse"):
        parties["p0"].refuse(DataError(SECRET))


def test_what_is_opened_is_not_aborted() -> None:
    agreement = agreement_of(2)
    transport = Tapped(
        Server(agreement, Randomness(b"open")),
        {n: Party(n, t.columns, t.rows, t.encode, Randomness(n.encode())) for n, t in tables_of(agreement).items()},
    )
    transport.run()
    assert all(p.handed_in for p in transport._parties.values())
    with pytest.raises(ProtocolError, match="has opened the release"):
        list(transport._server.abort(Code.STOPPED))


def test_every_code_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
    assert all(f"`{code.value}`" in page for code in Code)

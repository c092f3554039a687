"""A refusal tells others a fixed code: whatever text an error has stays with the party where it arose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colonnade.data.table import Table
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
from colonnade.protocol.codes import MEANING, Code, code_of, sentence_of
from colonnade.protocol.conversation import PartyState, ServerState
from colonnade.protocol.messages import SUBMIT, Done, End, Envelope, Refuse, Step, body_of, encode_body
from colonnade.runs import RunOptions, run_guarded
from tests.helpers.sessions import Scripted, TappedSession, agreement_of, tables_of, tapped_session

SECRET = "cap 17.25 of patients.csv"
HOOKS = ("consent", "encode", "book")


def raising(error: Exception) -> Callable[..., Any]:
    def hook(*_: object) -> Any:
        raise error

    return hook


class Unreadable(Table):
    """A table that meets an error when it is put on the grid."""

    error: Exception

    def encode(self, *_: object, **named: object) -> Any:
        raise self.error


def unreadable(table: Table, error: Exception) -> Table:
    out = Unreadable(table.party, table.columns, table.values, table.rows)
    object.__setattr__(out, "error", error)
    return out


def tapped(hook: str, error: Exception, parties: int = 3) -> TappedSession:
    """A session in which the party p1 meets the error at one of its hooks."""
    agreement = agreement_of(parties)
    tables = tables_of(agreement)
    if hook == "encode":
        tables["p1"] = unreadable(tables["p1"], error)
        return tapped_session(agreement, b"codes", tables=tables)
    return tapped_session(agreement, b"codes", guards={"p1": Scripted(**{hook: raising(error)})})


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
    wire = tapped(hook, kind(SECRET))
    with pytest.raises((ColonnadeError, kind), match=r"17\.25"):
        wire.run()
    phase = "submit" if hook == "book" else "plan"
    # An unknown error in consent is no refusal of a plan, but ends the session all the same.
    assert [body_of(e, Refuse) for e in wire.sent(Step.REFUSE)] == [Refuse(code, phase)]
    assert {e.recipient for e in wire.sent(Step.END)} == {"p0", "p1", "p2"}
    assert {body_of(e, End) for e in wire.sent(Step.END)} == {End(code, "p1", phase, False)}
    for envelope in wire.seen:
        assert b"17.25" not in envelope.encode() and b"patients" not in envelope.encode()
    server, parties = wire.server, wire.parties
    assert (server.state, server.end) == (ServerState.FAILED, End(code, "p1", phase, False))
    assert server.sentence == sentence_of(code, "p1")
    assert "17.25" in parties["p1"].reason
    for name in ("p0", "p2"):
        assert code.value in parties[name].reason and "17.25" not in parties[name].reason
    assert all(p.state is PartyState.CLOSED for p in parties.values())
    assert all(wire.kept(name) is None for name in parties)


def test_a_code_for_every_error_and_words_for_every_code() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, ColonnadeError)]
    assert len(kinds) > 10
    internal = {kind for kind in kinds if code_of(kind("x")) is Code.INTERNAL}
    assert internal == {errors.BrokenError, errors.BrokenColumns}
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
    agreement = agreement_of(2)
    void: dict[str, str] = {}
    guards = {name: Scripted(void=lambda reason, name=name: void.update({name: reason})) for name in ("p0", "p1")}
    guards["p1"].book = raising(LedgerError(SECRET))  # type: ignore[method-assign]
    with pytest.raises(LedgerError, match=r"17\.25"):
        run_guarded(agreement, tables_of(agreement), guards, "none", RunOptions(Randomness(b"void")))
    assert void == {"p0": sentence_of(Code.BUDGET, "p1"), "p1": SECRET}


def test_a_party_may_leave_before_the_plan_and_leaves_once() -> None:
    wire = tapped_session(agreement_of(2), drop=lambda e: e.sender == "p1")
    wire.run()
    server, party = wire.server, wire.parties["p0"]
    assert party.state is PartyState.READY and server.state is ServerState.GATHERING
    (refusal,) = party.fault(DataError(SECRET))
    out = list(server.receive(refusal))
    # The other has never entered, and is told when it comes.
    assert [(e.recipient, body_of(e, End)) for e in out] == [("p0", End(Code.DATA, "p0", "wait", False))]
    assert list(party.receive(out[0])) == [] and party.reason == SECRET
    assert body_of(server.farewell("p1"), End) == body_of(out[0], End)
    assert party.fault(DataError(SECRET)) == party.stop() == []


def test_a_party_may_leave_before_it_has_begun() -> None:
    wire = tapped_session(agreement_of(2))
    (refusal,) = wire.parties["p0"].fault(DataError(SECRET))
    assert body_of(refusal, Refuse) == Refuse(Code.DATA, "wait")
    (end,) = wire.server.receive(refusal)
    assert (end.recipient, body_of(end, End).code) == ("p0", Code.DATA)


def test_what_is_opened_is_not_ended() -> None:
    wire = tapped_session(agreement_of(2), b"open", drop=lambda e: e.step is Step.CONFIRM and e.sender == "p1")
    wire.run()
    assert all(p.handed_in for p in wire.parties.values())
    assert wire.server.state is ServerState.OPENED
    ends = {body_of(e, End) for e in wire.server.stop()}
    # A confirmation is lacking, and the release is open all the same.
    assert ends == {End(None, "", "open", True)} and wire.server.state is ServerState.CLOSED
    assert wire.release is not None
    assert list(wire.server.stop()) == list(wire.server.lost("p0")) == []
    assert wire.server.state is ServerState.CLOSED


def test_a_party_that_has_its_release_says_no_more() -> None:
    """In one process the release arrives while the last submission is still on its way."""
    wire = tapped_session(agreement_of(3), b"last")
    wire.run()
    steps = [e.step for e in wire.seen]
    assert Step.SUBMIT not in steps[steps.index(Step.OPENED) :]
    assert [body_of(e, Done).round for e in wire.sent(Step.DONE)].count(SUBMIT) == 0


def test_every_code_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert all(f"`{code.value}`" in page for code in Code)


def test_no_party_is_named_for_what_is_the_servers_own() -> None:
    """A defect of the program at the server was told to all as a malformed message of the party that spoke last."""
    for error, code in ((errors.BrokenError("planted"), Code.INTERNAL), (errors.SiteError("full"), Code.SITE)):
        wire = tapped_session(agreement_of(2))
        wire.server.task.collect = raising(error)  # type: ignore[method-assign]
        with pytest.raises(type(error)):
            wire.run()
        assert wire.server.end == End(code, "", "submit", False)
    wire = tapped_session(agreement_of(2))
    wire.server.task.collect = raising(ProtocolError("planted"))  # type: ignore[method-assign]
    with pytest.raises(ProtocolError, match="planted"):
        wire.run()
    assert wire.server.end is not None and wire.server.end.party == "p0"

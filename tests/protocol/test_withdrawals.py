"""A session that breaks at submit: whoever has not handed in signs that it will not, so that the others' spends end."""

from __future__ import annotations

from collections import deque

import pytest

from colonnade.protocol.conversation import PartyState
from colonnade.protocol.messages import Envelope, Step
from tests.helpers.accounts import Remembered, SharedSigner
from tests.helpers.conversations import NAMES, Conversation, fit_conversation
from tests.protocol.test_conversation import CUTS, check_books, talk_at_submit


def accountable() -> Conversation:
    signers = {name: SharedSigner(name) for name in NAMES}
    return fit_conversation(signers=signers, evidence={name: Remembered() for name in NAMES})


def unheard(talk: Conversation, *names: str) -> None:
    """What waits for these has not come yet."""
    talk.queue = deque(item for item in talk.queue if item[0] not in names)


@pytest.mark.parametrize("ends", ["town", "bank", ""], ids=["one refuses", "another refuses", "the server is stopped"])
def test_one_refusal_frees_whoever_was_quicker(ends: str) -> None:
    """Collusion 1 needs two signatures: before, only the one that refused ever signed, and the spend stood."""
    freed = 0
    for after in last_messages():
        talk, before = accountable(), dict[str, bool]()

        def cut(talk: Conversation, before: dict[str, bool] = before) -> None:
            before.update({name: role.handed_in for name, role in talk.parties.items()})
            unheard(talk, "bank", "town")
            talk.stop_party(ends) if ends else talk.stop_server()

        talk.run(cut, after)
        if before.get("works") and not (before["bank"] or before["town"]) and not talk.server.counts:
            freed += 1
            assert talk.books["works"].state == "void", after
            assert not talk.parties["works"].standing
            assert not (talk.parties["bank"].handed_in or talk.parties["town"].handed_in)
    assert freed


def last_messages() -> range:
    """Of a session, from a little before anybody is asked to submit to the opening."""
    start = talk_at_submit(accountable())
    return range(start - 2, start + 10)


@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_cut_at_every_message_no_withdrawal_is_false(cut: str) -> None:
    """Whoever signed that it will not hand in never does, and a void booking has more than collude behind it."""
    for after in last_messages():
        talk = accountable()
        signed, handed = set[str](), set[str]()
        wires = talk.send

        def send(recipient: str, envelopes, talk=talk, signed=signed, handed=handed, wires=wires):  # type: ignore[no-untyped-def]
            for envelope in envelopes:
                if envelope.step is Step.SUBMIT:
                    handed.add(envelope.sender)
                wires(recipient, [envelope])

        talk.send = send  # type: ignore[method-assign]
        talk.run(CUTS[cut], after)
        for name, proofs in talk.server._withdrawn.items():
            if proofs:
                signed.add(name)
        assert not signed & handed, after
        for name, role in talk.parties.items():
            if talk.books[name].state == "void" and name in handed:
                assert len(signed - {name}) > role.task.collusion, after
        assert talk.server.over or "" in talk.gone
        if not talk.server.counts:
            assert "released" not in {book.state for book in talk.books.values()}


def test_who_has_withdrawn_is_not_asked_to_submit_again() -> None:
    """A server that goes on all the same hears a refusal."""
    for after in last_messages():
        talk, before = accountable(), dict[str, PartyState]()

        def cut(talk: Conversation, before: dict[str, PartyState] = before) -> None:
            before.update({name: role.state for name, role in talk.parties.items()})
            unheard(talk, "bank")
            talk.stop_party("town")

        talk.run(cut, after)
        role = talk.parties["bank"]
        if before.get("bank") is PartyState.KEPT and not role.handed_in and talk.server.failed:
            body = run_go_submit(talk, role.identity)
            with pytest.raises(Exception, match="expects no go message"):
                list(role.receive(body))
            assert not role.handed_in and talk.books["bank"].state == "open"
            return
    raise AssertionError("no cut fell on a party that had not handed in")


def run_go_submit(talk: Conversation, session: bytes) -> Envelope:
    from colonnade.protocol.messages import SUBMIT, Go, encode_body

    return Envelope(session, talk.parties["bank"]._digest, "", "bank", Step.GO, encode_body(Go(SUBMIT)))


def test_books_agree_where_nobody_signs() -> None:
    """Accounts without signatures: the server's word is all there is, as before."""
    start = talk_at_submit()
    for cut in CUTS.values():
        for after in range(start, start + 10, 4):
            talk = fit_conversation(evidence={name: Remembered() for name in NAMES})
            talk.run(cut, after)
            check_books(talk)

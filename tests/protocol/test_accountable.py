"""Accountable sessions: parties commit before anything else, and all that they draw comes from joint coins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from colonnade.crypto.product import SERVER as MIDDLE
from colonnade.foundation.errors import ColonnadeError, MessageError, ProtocolError
from colonnade.mechanism.release import read_release, write_release
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.codes import Code
from colonnade.protocol.coins import BIND, COMMIT, REVEAL
from colonnade.protocol.conversation import PartyState
from colonnade.protocol.messages import (
    DIGESTS,
    Envelope,
    Go,
    ParcelBody,
    Piece,
    Refuse,
    Signature,
    Step,
    Withdraw,
    body_of,
    encode_body,
)
from colonnade.protocol.party import PartyRole
from colonnade.transport.in_process import InProcess, Wire, pass_on
from tests.helpers.accounts import Remembered, SharedSigner
from tests.helpers.conversations import NAMES, Conversation, fit_conversation
from tests.protocol.test_conversation import CUTS


def accountable(aligned: bool, seed: bytes = b"account") -> tuple[Conversation, dict[str, Remembered]]:
    kept = {name: Remembered() for name in NAMES}
    talk = fit_conversation(aligned, seed, {name: SharedSigner(name) for name in NAMES}, kept)
    return talk, kept


def carry(talk: Conversation, wire: Wire = pass_on) -> None:
    InProcess(talk.server, talk.parties, wire).carry()


@pytest.mark.parametrize("aligned", [True, False], ids=["ids are matched", "rows as they stand"])
@pytest.mark.parametrize("at_once", [True, False], ids=["depth first", "in the order sent"])
def test_an_accountable_session_ends_well(aligned: bool, at_once: bool) -> None:
    talk, kept = accountable(aligned)
    rounds: list[str] = []

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if envelope.step is Step.GO and not up and envelope.recipient == NAMES[0]:
            rounds.append(body_of(envelope, Go).round)
        return (envelope,)

    if at_once:
        carry(talk, wire)
        # Before anything else, and before anything of the product.
        assert rounds[:2] == [COMMIT, REVEAL] and rounds[rounds.index("join") + 1] == BIND
    else:
        talk.run()
    assert {role.state for role in talk.parties.values()} == {PartyState.CLOSED}
    assert {book.state for book in talk.books.values()} == {"released"}
    assert not any(role.doubt for role in talk.parties.values())
    for name, mine in kept.items():
        peers = set(NAMES) - {name}
        assert {facts["from"] for facts in mine.of("commitment")} == set(NAMES)
        assert {facts["from"] for facts in mine.of("binding")} == set(NAMES)
        for about in ("mask key", "passed", "submission", "opened"):
            assert {facts["from"] for facts in mine.of("signature") if facts["about"] == about} == peers
        assert mine.of("submission") and mine.of("opened")
    # All hold the same of each other.
    assert kept[NAMES[0]].of("commitment") == kept[NAMES[1]].of("commitment")


def test_without_signatures_too() -> None:
    kept = {name: Remembered() for name in NAMES}
    talk = fit_conversation(evidence=kept)
    talk.run()
    assert {book.state for book in talk.books.values()} == {"released"}


def test_a_party_cannot_choose_what_it_draws() -> None:
    """One coin of another party, and every mask key is another."""

    def mask_keys(changed: str) -> list[bytes]:
        talk, kept = accountable(False)
        for name in NAMES:
            first = fit_conversation(False, b"other" if name == changed else b"account", evidence=kept)
            talk.parties[name]._account._opening = _drawn(first, name)  # type: ignore[union-attr]
        talk.run()
        return [
            body_of(e, Signature).value
            for e in kept[NAMES[0]].sent
            if e.step is Step.SIGNATURE and body_of(e, Signature).about == "mask key"
        ]

    assert mask_keys("") == mask_keys("") != mask_keys(NAMES[1])


def test_a_server_that_gives_one_id_twice_has_two_sessions_of_two_ids() -> None:
    """All coins are in the session's id, and the id in all that is signed once they are known."""
    seen: list[set[str]] = []
    for seed in (b"one", b"two"):
        talk, kept = accountable(False, seed)
        talk.server.identity, talk.server.__dict__["alignment_id"] = bytes(32), bytes(32)
        talk.run()
        assert {book.state for book in talk.books.values()} == {"released"}
        (session,) = {role.identity for role in talk.parties.values()} | {talk.server.identity}
        assert session != bytes(32)
        contexts = kept[NAMES[0]].of("context")
        # Commitments and coins are signed before the id is known; they are in it.
        assert [facts["of"][0] for facts in contexts[:2]] == [bytes(32).hex(), session.hex()]
        seen.append({facts["context"] for facts in contexts[1:]})
    assert not seen[0] & seen[1]


def test_a_party_that_tells_the_server_another_coin_takes_no_part() -> None:
    talk, _ = accountable(False)

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if up and envelope.step is Step.PARCEL and envelope.recipient == MIDDLE and envelope.sender == NAMES[1]:
            other = encode_body(ParcelBody(body_of(envelope, ParcelBody).round, bytes(32)))
            return (Envelope(envelope.session, envelope.plan, envelope.sender, MIDDLE, Step.PARCEL, other),)
        return (envelope,)

    with pytest.raises(MessageError):
        carry(talk, wire)
    assert {book.state for book in talk.books.values()} == {"open"}


def _drawn(talk: Conversation, name: str):  # type: ignore[no-untyped-def]
    from colonnade.protocol.coins import Opening

    return Opening.draw(talk.parties[name]._randomness.child(f"opening {name}"))


def test_a_coin_that_is_not_the_committed_one_is_refused() -> None:
    talk, _ = accountable(False)
    account = talk.parties[NAMES[1]]._account
    assert isinstance(account, SessionAccount)
    real = account.send

    def send(round: str):  # type: ignore[no-untyped-def]
        if round == REVEAL:
            account._exchange()._opening = type(account._opening)(b"s" * 32, b"c" * 32, b"t" * 32)
        return real(round)

    account.send = send  # type: ignore[method-assign]
    with pytest.raises(MessageError, match="the coin of bank is not the one that it committed to"):
        carry(talk, lambda envelope, up: (envelope,))
    assert {book.state for book in talk.books.values()} == {"open"}


@pytest.mark.parametrize("left_out", [COMMIT, REVEAL, BIND, DIGESTS])
def test_a_server_cannot_leave_a_round_out(left_out: str) -> None:
    talk, _ = accountable(False)

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if not up and envelope.step is Step.GO and body_of(envelope, Go).round == left_out:
            return ()
        if not up and envelope.step is Step.PARCEL and body_of(envelope, ParcelBody).round == left_out:
            return ()
        return (envelope,)

    with pytest.raises(ProtocolError):
        carry(talk, wire)
    assert not any(role.handed_in for role in talk.parties.values())
    # The honest server waits; one that goes on is refused.
    role = talk.parties[NAMES[0]]
    told = {COMMIT: "join", REVEAL: "join", BIND: DIGESTS, DIGESTS: "submit"}[left_out]
    body = encode_body(Go(told))
    with pytest.raises(ColonnadeError, match=r"coins|bound|have signed|expects no go"):
        list(role.receive(Envelope(role.identity, role._digest, "", role.name, Step.GO, body)))


def test_all_must_want_it() -> None:
    talk, _ = accountable(False)
    talk.server.accountable = False
    talk.run()
    assert talk.server.end is not None and talk.server.end.code is Code.TERMS


def test_a_release_that_differs_between_parties_is_found_by_both() -> None:
    """The server hands one party another release than the others: nobody can tell by its own, all can together."""
    talk, kept = accountable(False)

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if not up and envelope.step is Step.OPENED and envelope.recipient == NAMES[1]:
            piece = body_of(envelope, Piece)
            release = read_release(piece.data)
            lie = replace(release, provenance={**release.provenance, "transcript_digest": "0" * 64})
            other = encode_body(Piece(piece.index, piece.count, write_release(lie)))
            return (Envelope(envelope.session, envelope.plan, "", envelope.recipient, Step.OPENED, other),)
        return (envelope,)

    carry(talk, wire)
    assert talk.parties[NAMES[0]].doubt == f"the server handed another release to {NAMES[1]}"
    assert talk.parties[NAMES[1]].doubt == "the server handed another release to town, works"
    assert kept[NAMES[0]].of("doubt")


def test_who_stops_at_the_coins_may_try_again() -> None:
    """It has seen the others' coins, and so its noise, and nothing is spent: only a count of attempts bounds it."""
    for attempt in range(3):
        talk, kept = accountable(False)
        cheat = talk.parties[NAMES[0]]

        def stops(envelope: Envelope, up: bool, cheat: PartyRole = cheat) -> Iterable[Envelope]:
            coin = envelope.step is Step.PARCEL and body_of(envelope, ParcelBody).round == REVEAL
            return tuple(cheat.stop()) if up and coin and envelope.sender == cheat.name else (envelope,)

        if attempt < 2:
            with pytest.raises(ProtocolError, match=f"the session ended at {cheat.name}"):
                carry(talk, stops)
            assert not any("book" in book.calls for book in talk.books.values())
            assert not any(kept[name].of("plan") for name in NAMES)
        else:
            carry(talk)
            assert {book.state for book in talk.books.values()} == {"released"}


@pytest.mark.parametrize("after", range(0, 120, 9))
def test_cut_here_and_there_the_books_agree(after: int) -> None:
    for cut in (CUTS["one hears nothing"], CUTS["one is stopped"], CUTS["the server dies"]):
        talk, _ = accountable(False)
        talk.run(cut, after)
        assert talk.server.over or MIDDLE in talk.gone
        for name, role in talk.parties.items():
            # With the release in hand a party waits for the others' signatures, and loses nothing without.
            assert role.over or name in talk.gone or role.released, (name, role.state)
        if talk.server.counts:
            assert {book.state for book in talk.books.values()} <= {"booked", "released"}


def test_evidence_says_how_it_ended_also_where_no_last_word_came() -> None:
    talk, kept = accountable(False)
    whole = talk.run()
    assert [facts["heard"] for facts in kept[NAMES[0]].of("end")] == [True]
    for after in (whole // 2, whole - 12):
        talk, kept = accountable(False)
        talk.run(CUTS["the server dies"], after)
        for name, mine in kept.items():
            (end,) = mine.of("end")
            assert end == {"heard": False, "handed_in": talk.parties[name].handed_in}


def opened_and_denied(talk: Conversation) -> None:
    """The server adds all submissions up, and says that nothing was opened: `void_attack`."""
    server = talk.server
    real = server.task.open

    def steal(*args: object) -> None:
        real(*args)  # type: ignore[arg-type]
        server.counts = False
        raise ProtocolError("planted")

    server.task.open = steal  # type: ignore[method-assign]


def test_a_server_that_opens_and_denies_it_leaves_every_spend_booked() -> None:
    talk, kept = accountable(False)
    opened_and_denied(talk)
    talk.run()
    assert talk.server.end is not None and not talk.server.end.opened
    assert {book.state for book in talk.books.values()} == {"booked"}
    assert all("the spend stands: 0 of 2 needed parties" in role.standing for role in talk.parties.values())
    assert all(mine.of("withdrawn") for mine in kept.values())
    # Without accounts the server is believed: this is what the rule is for.
    naive = fit_conversation(signers={name: SharedSigner(name) for name in NAMES})
    opened_and_denied(naive)
    naive.run()
    assert {book.state for book in naive.books.values()} == {"void"}


def asked_last(talk: Conversation, silent: set[str], forged: bool = False) -> None:
    """All but the silent are asked to submit; one of these refuses then, by its people's wish."""
    held: list[Envelope] = []

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        asked = not up and envelope.step is Step.GO and body_of(envelope, Go).round == "submit"
        if asked and envelope.recipient in silent:
            held.append(envelope)
            return ()
        if up and envelope.step in (Step.REFUSE, Step.WITHDRAW) and forged:
            proofs = tuple((peer, bytes(32)) for peer in NAMES)
            told = Refuse(Code.STOPPED, "submit", proofs) if envelope.step is Step.REFUSE else Withdraw(proofs)
            return (Envelope(envelope.session, envelope.plan, envelope.sender, "", envelope.step, encode_body(told)),)
        return (envelope,)

    carrier = InProcess(talk.server, talk.parties, wire)
    with pytest.raises(ProtocolError):
        carrier.carry()
    assert len(held) == len(silent)
    carrier._up(talk.parties[sorted(silent)[0]].stop())


@pytest.mark.parametrize(
    ("silent", "forged", "state"),
    [({"bank", "town"}, False, "void"), ({"town"}, False, "booked"), ({"bank", "town"}, True, "booked")],
    ids=["more than collude have withdrawn", "no more than collude", "signatures that are none"],
)
def test_a_booking_is_void_on_the_signed_word_of_more_than_collude(silent: set[str], forged: bool, state: str) -> None:
    talk, _ = accountable(False)
    asked_last(talk, silent, forged)
    assert talk.books["works"].state == state
    assert bool(talk.parties["works"].standing) == (state == "booked")


def test_who_keeps_its_coin_is_named_and_not_who_speaks_last() -> None:
    """The server found a coin lacking when the last party was done, and named that one."""

    def wire(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        kept = up and envelope.sender == "works" and envelope.recipient == MIDDLE and envelope.step is Step.PARCEL
        return () if kept and body_of(envelope, ParcelBody).round == "reveal" else (envelope,)

    talk = fit_conversation(evidence={name: Remembered() for name in NAMES})
    with pytest.raises(ProtocolError, match="party works ends round reveal"):
        InProcess(talk.server, talk.parties, wire).carry()
    assert talk.server.end is not None and talk.server.end.party == "works"

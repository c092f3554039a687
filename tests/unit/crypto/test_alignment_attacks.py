"""Sides of an alignment that do not follow it, and parcels that are not what was sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from colonnade.crypto.alignment import oprf, sizes, star
from colonnade.crypto.alignment.code import PROOF_BYTES, byte_sums, challenge_of, prove
from colonnade.crypto.alignment.frames import ROUNDS, Channel, Frame
from colonnade.crypto.alignment.hashed_ids import Ids
from colonnade.crypto.alignment.hashed_ids import opened as opened_bin
from colonnade.crypto.alignment.kernels import AlignmentKernels
from colonnade.crypto.alignment.oprf import Codewords, Evaluator, KeyHolder, evaluate
from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.crypto.product import SERVER, Words
from colonnade.foundation.errors import ColonnadeError, MessageError, PolicyError, ProtocolError
from colonnade.foundation.randomness import Randomness
from tests.helpers.star_runs import HEAD, SESSION, Star, free_transfers, people

KNOWN, FOREIGN = 512, 300


@pytest.fixture(autouse=True)
def free() -> Iterator[None]:
    with free_transfers():
        yield


class Sly:
    """The columns of codewords in which id j's codeword has bit j flipped."""

    def __init__(self, codewords: Codewords) -> None:
        ids, kernels = codewords.ids, codewords.kernels
        values = np.zeros((len(ids), 8), np.uint64)
        kernels.add_bytes(values, byte_sums(), ids.messages.view(np.uint8).reshape(-1, 16))
        for row, j in enumerate(ids.rows.tolist()):
            values[row, j // 64] ^= np.uint64(1 << (j % 64))
        further = len(codewords.messages) - codewords.store.size
        wide = codewords.store.write(values, Randomness(seed=b"sly"), further)
        codewords.columns = kernels.columns_of(wide, 512)
        self.columns = codewords.columns


def attacked(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[str], dict[str, object]]:
    """A hub that knows 512 ids of its partner, and what it and its partner hold."""
    known = [f"known {i}" for i in range(KNOWN)]
    foreign = [f"secret person {i}" for i in range(FOREIGN)]
    seen: dict[str, object] = {}
    begin, hold, matrix = Codewords.__init__, KeyHolder.__init__, Evaluator.matrix

    def codewords(self: Codewords, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        seen["columns"] = Sly(self).columns
        seen["codewords"] = self

    def holder(self: KeyHolder, key: Words, *rest: object) -> None:
        seen["key"] = key.copy()
        hold(self, key, *rest)  # type: ignore[arg-type]

    def kept(self: Evaluator, codewords: Codewords, number: int) -> tuple[bytes, Words]:
        out = matrix(self, codewords, number)
        seen["evaluator"], seen["values"], seen["matrix"] = self, out[1], out[0]
        return out

    monkeypatch.setattr(Codewords, "__init__", codewords)
    monkeypatch.setattr(KeyHolder, "__init__", holder)
    monkeypatch.setattr(Evaluator, "matrix", kept)
    return known, known + foreign, seen


def test_the_key_reading_attack_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/alignment.md, "Who does not follow the protocol": the check sees a matrix that is not of codewords."""
    mine, theirs, _ = attacked(monkeypatch)
    run = Star({"hub": mine, "partner": theirs})
    with pytest.raises(MessageError, match="must consist of codewords"):
        run.run()
    assert not any(round == "compare" for round, *_ in run.parcels)


def test_without_the_check_the_attack_would_read_the_whole_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the test above is known to be about a real attack: one session, and any foreign id can be tried."""
    mine, theirs, seen = attacked(monkeypatch)
    monkeypatch.setattr(oprf, "verify", lambda *_: None)
    run = Star({"hub": mine, "partner": theirs}).run(until="announce")
    hub = run.parties["hub"]._role
    assert isinstance(hub, star.HubRole)
    rows = hub._rows
    guess = np.zeros(512, np.uint8)
    guess[rows] = hub._words[:, 2:4].any(axis=1)  # id j matches exactly if bit j of the key is zero
    key = np.packbits(guess, bitorder="little").view(np.uint64)
    assert np.array_equal(key, seen["key"])
    # With the key and its own streams it evaluates the partner's function anywhere.
    evaluator, columns = seen["evaluator"], seen["columns"]
    assert isinstance(evaluator, Evaluator) and isinstance(columns, np.ndarray)
    height = columns.shape[1]
    from tests.helpers.star_runs import free_seeds

    zeros = oprf._drawn(oprf._streams(free_seeds(run.parties["hub"]._channels["partner"].key("base"))[0]), height)
    zeros ^= columns & (np.uint64(0) - guess.astype(np.uint64))[:, None]
    ids = opened_bin(*Ids("partner", theirs, SESSION, AlignmentKernels()).bins(1)[:2])
    kernels = AlignmentKernels()
    forged = evaluate(key, evaluator._prefix, kernels.rows_of(zeros), ids, len(mine), kernels)
    partner = run.parties["partner"]._role
    assert isinstance(partner, star.PartnerRole)
    own_rows, said = partner._rows, partner._words[:, 2:4]
    assert np.array_equal(forged[own_rows, 2:], said)
    assert len(said) == KNOWN + FOREIGN


def test_one_wrong_column_passes_if_its_bit_is_guessed_and_not_else() -> None:
    """What a hub can gain: one bit of the key for an even chance of being found out."""
    kernels, passed = AlignmentKernels(), []
    ids = opened_bin(*Ids("hub", [str(i) for i in range(50)], SESSION, AlignmentKernels()).bins(1)[:2])
    for j in range(16):
        codewords = Codewords(ids, 50, 1024, kernels, Randomness(seed=b"hub"))
        codewords.columns[j] ^= np.uint64(2**64 - 1)
        zeros, ones = ([bytes([slot, i % 256, i // 256]) + bytes(29) for i in range(512)] for slot in range(2))
        key = Randomness(seed=f"key {j}".encode()).words(8)
        bits = np.unpackbits(key.view(np.uint8), bitorder="little")
        body, _ = Evaluator(zeros, ones, bytes(32), bytes(32)).matrix(codewords, 0)
        holder = KeyHolder(key, [(zeros, ones)[b][i] for i, b in enumerate(bits.tolist())], bytes(32), bytes(32))
        try:
            holder.values(body, 0, ids, 50, 1024, kernels)
            passed.append(bits[j] == 0)
        except MessageError:
            passed.append(bits[j] == 1)
    assert all(passed)


def test_flipped_bits_of_a_cheating_hub_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the matrix, in either part of the proof: the seal is the hub's own, and the check refuses it."""
    send = star.HubRole.send
    for place in ("matrix", "messages", "rows"):

        def flipped(self: star.HubRole, round: str, place: str = place) -> Iterator[tuple[str, bytes]]:
            for recipient, body in send(self, round):
                if round == "matrix":
                    at = {"matrix": 7, "messages": len(body) - PROOF_BYTES + 3, "rows": len(body) - 5}[place]
                    body = body[:at] + bytes([body[at] ^ 4]) + body[at + 1 :]
                yield recipient, body

        monkeypatch.setattr(star.HubRole, "send", flipped)
        passed = 0
        for attempt in range(6):  # a flipped matrix bit counts where the key's bit is one
            try:
                Star(people(2), session=bytes([attempt]) * 32).run()
                passed += 1
            except MessageError as error:
                assert "codewords" in str(error)
        assert passed < 6 if place == "matrix" else passed == 0


@pytest.mark.parametrize("change", ["value", "twice", "more", "group"])
def test_a_hub_that_announces_something_else_is_refused(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    send = star.HubRole.send

    def lied(self: star.HubRole, round: str) -> Iterator[tuple[str, bytes]]:
        for number, (recipient, body) in enumerate(send(self, round)):
            if round == "announce" and recipient == "party 1":
                if number % 2 == 0:
                    if change == "more":
                        body = body[:-4] + (10**6).to_bytes(4, "little")
                    if change == "group":
                        body = bytes([body[0] ^ 1]) + body[1:]
                elif change == "value":
                    body = bytes([body[0] ^ 1]) + body[1:]
                elif change == "twice":
                    body = body[16:32] + body[16:]
            yield recipient, body

    monkeypatch.setattr(star.HubRole, "send", lied)
    rule = {"more": "no more ids than there are", "group": "same common ids"}.get(change, "must announce common ids")
    with pytest.raises(ColonnadeError, match=rule):
        Star(people(3)).run()


@pytest.mark.parametrize("round", ROUNDS)
@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_one_flipped_bit_on_the_way_is_refused(round: str, where: str) -> None:
    done: list[bool] = []

    def flip(r: str, sender: str, recipient: str, payload: bytes) -> bytes:
        at = {"first": HEAD, "middle": (HEAD + len(payload)) // 2, "last": len(payload) - 1}[where]
        if done or r != round or (recipient == SERVER and round == "greet"):
            return payload
        done.append(True)
        return payload[:at] + bytes([payload[at] ^ 1]) + payload[at + 1 :]

    run = Star(people(3), flip)
    with pytest.raises(ColonnadeError):
        run.run()
    later = ROUNDS[min(len(ROUNDS) - 1, ROUNDS.index(round) + 1)]
    assert {r for r, *_ in run.parcels} <= set(ROUNDS[: ROUNDS.index(later) + 1])


def recorded(session: bytes = SESSION) -> list[tuple[str, str, str, bytes]]:
    return Star(people(3), session=session).run().parcels


@pytest.mark.parametrize("round", ["choose", "matrix", "compare", "announce"])
def test_replays_of_another_session_are_refused(round: str) -> None:
    """As they were, and with their heads made to fit: neither key nor place is the same."""
    old = recorded(bytes(32))
    for fitted in (False, True):

        def swap(r: str, sender: str, recipient: str, payload: bytes, fit: bool = fitted) -> bytes:
            if r != round:
                return payload
            other = next(p for p in old if p[:3] == (r, sender, recipient))[3]
            return payload[:HEAD] + other[HEAD:] if fit else other

        with pytest.raises(MessageError, match="sealed by" if fitted else "bound to this session"):
            Star(people(3), swap).run()


def test_replays_of_other_bins_and_directions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "BIN", 10)
    run = Star(people(3)).run(until="agree")
    seen = {(r, s, t, int.from_bytes(p[16:24], "big")): p for r, s, t, p in run.parcels}

    def carrying(take: Callable[[str, str, str, int], tuple[str, str, str, int]], head: bool) -> None:
        def swap(r: str, sender: str, recipient: str, payload: bytes) -> bytes:
            number = int.from_bytes(payload[16:24], "big")
            other = seen.get(take(r, sender, recipient, number)) if SERVER not in (sender, recipient) else None
            return payload if other is None else (payload[:HEAD] + other[HEAD:] if head else other)

        with pytest.raises(MessageError):
            Star(people(3), swap).run()

    for head in (False, True):
        for round in ("matrix", "compare"):
            carrying(lambda r, s, t, n, round=round: (r, s, t, 1 - n) if r == round else ("", "", "", 0), head)
        carrying(lambda r, s, t, n: ("choose", t, s, 0) if r == "matrix" else ("", "", "", 0), head)
        carrying(lambda r, s, t, n: ("matrix", s, "party 2", n) if t == "party 1" else ("", "", "", 0), head)


def test_a_direction_has_its_own_keys() -> None:
    frame = Frame(SESSION, ("a", "b"))
    a, b = (Channel(frame, me, peer, bytes(32), b"greetings") for me, peer in (("a", "b"), ("b", "a")))
    (parcel,) = a.sealed("matrix", b"body")
    (again,) = a.sealed("matrix", b"body")
    assert b.opened("matrix", 0, parcel.payload[HEAD:]) == b"body"
    assert parcel.payload[HEAD:] != again.payload[HEAD:]
    for channel, round, number in ((a, "matrix", 0), (b, "compare", 0), (b, "matrix", 1)):
        with pytest.raises(MessageError, match="sealed by"):
            channel.opened(round, number, parcel.payload[HEAD:])
    other = Channel(frame, "b", "a", bytes(32), b"other greetings")
    with pytest.raises(MessageError, match="sealed by"):
        other.opened("matrix", 0, parcel.payload[HEAD:])


def test_nothing_of_compare_leaves_before_every_bin_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "BIN", 10)
    events, check, write = list[str](), oprf.verify, star.PartnerRole.send

    def checked(*arguments: object) -> None:
        check(*arguments)  # type: ignore[arg-type]
        events.append("checked")

    def sent(self: star.PartnerRole, round: str) -> Iterator[tuple[str, bytes]]:
        for recipient, body in write(self, round):
            events.append(round)
            yield recipient, body

    monkeypatch.setattr(oprf, "verify", checked)
    monkeypatch.setattr(star.PartnerRole, "send", sent)
    run = Star({"a": [str(i) for i in range(50)], "b": [str(i) for i in range(60)]}).run()
    assert run.server.count == 50
    assert events == ["choose"] + 6 * ["checked"] + 6 * ["compare"]


def test_a_partner_whose_last_bin_is_wrong_sends_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not take another matrix in its place either: a hub has one try."""
    monkeypatch.setattr(sizes, "BIN", 10)
    ids = {"a": [str(i) for i in range(50)], "b": [str(i) for i in range(60)]}
    honest = Star(ids).run(until="compare")
    last = [p for p in honest.parcels if p[0] == "matrix"][-1]

    def spoil(r: str, sender: str, recipient: str, payload: bytes) -> bytes:
        return payload[:-1] + bytes([payload[-1] ^ 1]) if payload == last[3] else payload

    run = Star(ids, spoil)
    with pytest.raises(MessageError):
        run.run()
    partner = run.parties["b"]
    with pytest.raises(MessageError, match="in its turn"):
        partner.receive(*last[:2], last[3])
    with pytest.raises(ProtocolError):
        partner.send("compare")


def test_a_server_that_puts_guesses_in_place_of_a_list_gets_nothing() -> None:
    """Two parties without signatures: parcels cannot be replaced by others, for the pair's keys seal them."""
    run = Star({"a": [f"{i:04}" for i in range(0, 300, 3)], "b": [f"{i:04}" for i in range(0, 1000, 7)]})
    run.run(until="matrix")
    names = tuple(run.ids)
    guesses = AlignmentParty(SESSION, names, 0, [f"{i:04}" for i in range(100)], Randomness())
    peer = AlignmentParty(SESSION, names, 1, ["1"] * 1 + [f"x{i}" for i in range(142)], Randomness())
    for sender, receiver in ((guesses, peer), (peer, guesses)):
        for parcel in sender.send("greet"):
            if parcel.recipient != SERVER:
                receiver.receive("greet", sender._name, parcel.payload)
    for parcel in peer.send("choose"):
        guesses.receive("choose", "b", parcel.payload)
    list(guesses.send("choose"))
    forged = next(iter(guesses.send("matrix")))
    with pytest.raises(MessageError, match="sealed by 'a'"):
        run.parties["b"].receive("matrix", "a", forged.payload)


def test_a_proof_of_another_challenge_does_not_fit() -> None:
    """Sums made before the matrix was fixed, or for another bin, are of no use."""
    kernels = AlignmentKernels()
    ids = opened_bin(*Ids("hub", ["1", "2"], SESSION, AlignmentKernels()).bins(1)[:2])
    codewords = Codewords(ids, 2, 512, kernels, Randomness(seed=b"hub"))
    zeros, ones = ([bytes([slot, i % 256, i // 256]) + bytes(29) for i in range(512)] for slot in range(2))
    body, _ = Evaluator(zeros, ones, bytes(32), bytes(32)).matrix(codewords, 0)
    key = Randomness(seed=b"key").words(8)
    bits = np.unpackbits(key.view(np.uint8), bitorder="little")
    seeds = [(zeros, ones)[b][i] for i, b in enumerate(bits.tolist())]
    KeyHolder(key, seeds, bytes(32), bytes(32)).values(body, 0, ids, 2, 512, kernels)
    with pytest.raises(MessageError, match="codewords"):
        KeyHolder(key, seeds, bytes(32), bytes(32)).values(body, 1, ids, 2, 512, kernels)
    matrix = np.frombuffer(body[:-PROOF_BYTES], np.uint64).reshape(512, -1)
    rows = kernels.rows_of(oprf._drawn(oprf._streams(zeros), matrix.shape[1]))
    early = prove(codewords.messages, rows, challenge_of(np.zeros_like(matrix), bytes(32), 0), kernels)
    with pytest.raises(MessageError, match="codewords"):
        KeyHolder(key, seeds, bytes(32), bytes(32)).values(body[:-PROOF_BYTES] + early, 0, ids, 2, 512, kernels)


def test_a_greeting_that_names_2_to_32_ids_costs_its_reader_nothing() -> None:
    """72 bytes; an honest hub of 2,000 ids would work through 32,768 bins, 1.4 GB, for a list that need not exist."""
    named = 1 << 32

    def longer(round: str, sender: str, recipient: str, payload: bytes) -> bytes:
        if (round, sender) != ("greet", "shop") or recipient == SERVER:
            return payload
        _, body = Frame(SESSION, ("hospital", "shop")).open(round, sender, recipient, payload)
        other = body[:32] + named.to_bytes(8, "big") + body[40:]
        return Frame(SESSION, ("hospital", "shop")).seal(round, sender, recipient, other).payload

    run = Star({"hospital": [f"{i:06d}" for i in range(2000)], "shop": [f"{i:06d}" for i in range(2001)]}, longer)
    began = time.process_time()
    with pytest.raises(PolicyError, match=f"shop names {named} ids"):
        run.run()
    assert time.process_time() - began < 1 and {round for round, *_ in run.parcels} == {"greet"}
    assert not run.parties["hospital"]._channels


def test_who_expects_a_long_list_says_so_in_its_policy() -> None:
    """By hand: 2^32 ids make 32,768 bins of 512 rows at a hub of 2,000; 20 million make 153, and nobody minds."""
    assert sizes.Sizes((2000, 1 << 32)).rows(0) == 32_768 * 512
    assert not sizes.Sizes((2000, 1 << 32)).bearable(0)
    assert sizes.Sizes((2000, 20_000_000)).bearable(0) and sizes.Sizes((10**6, 10**9)).bearable(0)
    # A third party's list makes bins for all.
    assert not sizes.Sizes((2000, 3000, 1 << 32)).bearable(1)
    for own in (1, 2, 50, 2000, 10**5, 10**8):
        assert all(sizes.Sizes((own, other)).bearable(0) for other in (own, 10 * own)), own

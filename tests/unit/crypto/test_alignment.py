"""Private id alignment end to end: what parties find, what travels, what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from colonnade.crypto.alignment import frames, sizes, star
from colonnade.crypto.alignment.frames import ROUNDS
from colonnade.crypto.alignment.hashed_ids import Ids
from colonnade.crypto.alignment.kernels import AlignmentKernels
from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.crypto.alignment.server import AlignmentServer
from colonnade.crypto.alignment.sizes import Sizes
from colonnade.crypto.product import SERVER
from colonnade.foundation.errors import AlignmentError, MessageError, PolicyError, ProtocolError, StudyError
from colonnade.foundation.matching import TWICE
from colonnade.foundation.randomness import Randomness
from tests.helpers.matching import align_in_process
from tests.helpers.star_runs import HEAD, SESSION, Star, Tamper, free_transfers, people
from tests.helpers.x25519_ring import ring


@pytest.fixture
def free() -> Iterator[None]:
    with free_transfers():
        yield


def altering(round: str, change: Callable[[bytes], bytes]) -> Tamper:
    return lambda r, sender, recipient, payload: change(payload) if r == round else payload


@pytest.mark.parametrize("parties", [2, 3, pytest.param(5, marks=pytest.mark.slow)])
def test_parties_find_the_common_ids_in_one_order(parties: int) -> None:
    ids = people(parties)
    rows = align_in_process(ids, Randomness(seed=b"any"))
    found = [[ids[name][row] for row in rows[name]] for name in ids]
    assert set(found[0]) == set.intersection(*map(set, ids.values()))
    assert len(found[0]) == 12
    assert all(other == found[0] for other in found)
    assert all(rows[name].dtype == np.int64 for name in ids)


ALPHABET = "abcxyz0189 -_éßøπ陳語😀\u0301\u200d\x00"


def random_case(draw: random.Random) -> dict[str, list[str]]:
    """Up to six lists of 1 to some hundred ids, of any texts, from one pool."""
    pool = list(
        {"".join(draw.choices(ALPHABET, k=draw.randrange(0, 140))) for _ in range(draw.choice([1, 3, 40, 400]))}
    )
    lists = {f"p{k}": draw.sample(pool, draw.randint(1, len(pool))) for k in range(draw.randint(2, 6))}
    if draw.random() < 0.8:  # some are in all lists
        shared = draw.sample(pool, draw.randint(1, len(pool)))
        lists = {name: list(dict.fromkeys([*ids, *shared])) for name, ids in lists.items()}
        for ids in lists.values():
            draw.shuffle(ids)
    return lists


@pytest.mark.parametrize("case", range(24))
@pytest.mark.parametrize("bin_ids", [1 << 17, 50], ids=["one bin", "many bins"])
def test_equal_to_plain_set_intersection(case: int, bin_ids: int, free: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "BIN", bin_ids)
    draw = random.Random(f"alignment {case}")
    lists = random_case(draw)
    common = set.intersection(*map(set, lists.values()))
    source = Randomness(seed=str(case).encode())
    if not common:
        with pytest.raises(AlignmentError, match="must have ids in common, got none"):
            align_in_process(lists, source)
        return
    rows = align_in_process(lists, source)
    found = [[lists[name][row] for row in rows[name]] for name in lists]
    assert set(found[0]) == common and len(found[0]) == len(common)
    assert all(other == found[0] for other in found)


@pytest.mark.parametrize("sizes_of", [(1, 1), (1, 900), (300, 2, 40), (5, 5, 5, 5)])
@pytest.mark.parametrize("share", ["all", "one", "none"])
def test_extreme_cases(sizes_of: tuple[int, ...], share: str, free: None) -> None:
    common = {"all": min(sizes_of), "one": 1, "none": 0}[share]
    lists = {
        f"p{k}": [f"common {i}" for i in range(common)] + [f"{k} {i}" for i in range(n - common)]
        for k, n in enumerate(sizes_of)
    }
    if not common:
        with pytest.raises(AlignmentError, match="must have ids in common, got none"):
            align_in_process(lists, Randomness())
        return
    rows = align_in_process(lists, Randomness())
    assert {len(one) for one in rows.values()} == {common}


def test_the_ring_finds_the_same() -> None:
    ids = people(3)
    rows, others = align_in_process(ids, Randomness()), ring(ids, Randomness(seed=b"ring"))
    for name in ids:
        assert sorted(rows[name].tolist()) == sorted(others[name])


def test_the_order_is_neither_the_files_nor_the_ids(free: None) -> None:
    ids = {"a": [f"{i:03}" for i in range(40)], "b": [f"{i:03}" for i in range(40)]}
    rows = align_in_process(ids, Randomness(seed=b"order"))
    assert rows["a"].tolist() == rows["b"].tolist() != list(range(40))


def test_server_learns_the_count(free: None) -> None:
    run = Star(people(3)).run()
    assert run.server.count == 12
    assert run.server.rounds == ROUNDS and len(ROUNDS) == 6


def test_seeded_runs_repeat_and_others_do_not() -> None:
    first, again = Star(people(2)).run(), Star(people(2)).run()
    assert first.parcels == again.parcels
    ids = people(2, common=30)
    with free_transfers():
        orders = {align_in_process(ids, Randomness())["party 0"].tobytes() for _ in range(2)}
    assert len(orders) == 2


def test_post_quantum_finds_the_same_and_seeded_rows_repeat() -> None:
    ids = people(2)
    first, again = (align_in_process(ids, Randomness(seed=b"pq"), post_quantum=True) for _ in range(2))
    plain = align_in_process(ids, Randomness(seed=b"pq"))
    for name in ids:
        assert np.array_equal(first[name], again[name]) and sorted(first[name]) == sorted(plain[name])


def test_post_quantum_without_the_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colonnade.crypto.alignment.kem_ot._LIBRARY", "cryptography.no_such_module")
    with pytest.raises(StudyError, match="post_quantum needs ML-KEM"):
        align_in_process(people(2), Randomness(), post_quantum=True)


def test_progress_ends_at_its_total(free: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "BIN", 10)
    ids, seen = people(3), list[tuple[int, int]]()
    align_in_process(ids, Randomness(seed=b"e"), lambda done, total: seen.append((done, total)))
    # three bins: the hub works twice on each for each of two partners, a partner twice on each
    assert seen[-1] == (24, 24)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.parametrize("parties", [2, 3])
def test_no_id_and_no_digest_travels(parties: int) -> None:
    ids = people(parties)
    run = Star(ids).run()
    wire = b"".join(payload for *_, payload in run.parcels)

    for mine in ids.values():
        words = Ids("p", mine, SESSION, AlignmentKernels())._chunks[0]
        for one, digest in zip(mine, words, strict=True):
            assert one.encode() not in wire
            assert digest[:2].tobytes() not in wire and digest[2:4].tobytes() not in wire


def test_a_party_sends_what_was_foretold(free: None) -> None:
    run = Star(people(3, common=100, alone=400)).run()
    counts = Sizes(tuple(len(ids) for ids in run.ids.values()))
    for place, name in enumerate(run.ids):
        sent = sum(len(payload) for _, sender, _, payload in run.parcels if sender == name)
        told = counts.sent(place, 100)
        assert told < sent < 1.02 * told


def test_parcels_are_small_and_bodies_go_in_pieces(free: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "PIECE", 1024)
    run = Star(people(3)).run()
    assert run.server.count == 12
    assert max(len(payload) for *_, payload in run.parcels) == HEAD + 1024 + 16


def test_duplicate_ids_are_refused_without_naming_them() -> None:
    with pytest.raises(AlignmentError, match=r"'b' must be distinct, got 2 repeated, first at row 2") as caught:
        align_in_process({"a": ["x"], "b": ["secret-7", "y", "secret-7", "secret-7"]}, Randomness())
    assert "secret-7" not in str(caught.value)


@pytest.mark.parametrize(
    ("ids", "rule"),
    [
        ({"a": ["1", "2"], "b": ["3"]}, "must have ids in common"),
        ({"a": ["1", "2"], "b": []}, "must have ids, got none"),
        ({"a": ["1"], "b": ["\ud800"]}, "valid Unicode"),
        ({"a": ["1"]}, "two or more"),
        ({"a": ["1"], "": ["1"]}, "distinct names"),
    ],
)
def test_what_cannot_be_aligned_is_refused(ids: dict[str, list[str]], rule: str) -> None:
    with pytest.raises(AlignmentError, match=rule):
        align_in_process(ids, Randomness())


def test_a_party_knows_by_itself_that_nothing_is_common(free: None) -> None:
    run = Star({"a": ["1", "2"], "b": ["3"], "c": ["4", "5"]}).run(until="agree")
    for party in run.parties.values():
        with pytest.raises(AlignmentError, match="in common, got none"):
            party.rows()


def test_a_party_outside_is_refused() -> None:
    with pytest.raises(AlignmentError, match="got -1"):
        AlignmentParty(SESSION, ("a", "b"), -1, ["1"], Randomness())


def test_a_short_session_id_is_refused() -> None:
    with pytest.raises(AlignmentError, match="32 bytes, got 3"):
        AlignmentServer(b"abc", ("a", "b"))


def test_a_full_bin_ends_the_session_cleanly(free: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chance is 2^-40: here a bin is told to hold less."""
    monkeypatch.setattr(sizes, "BIN", 10)
    monkeypatch.setattr(sizes, "capacity_of", lambda count, bins: count // bins)
    with pytest.raises(
        AlignmentError, match=r"a bin of ids of 'party \d' has room for 9, got \d+: start a new session"
    ):
        Star(people(3)).run()


def test_a_list_that_could_test_too_much_is_refused(free: None) -> None:
    ids = {"a": ["1", "2"], "b": ["1"], "c": [str(i) for i in range(400)]}
    could = Sizes((2, 1, 400)).testable(2)
    assert could == 3 * (174 + 32) + 64
    with pytest.raises(PolicyError, match=f"a refuses: largest_list is {could - 1}, c could test {could} ids"):
        align_in_process(ids, Randomness(), largest_lists={"a": could - 1, "c": 1000})
    assert align_in_process(ids, Randomness(), largest_lists={"a": could, "b": could, "c": could})["a"].tolist() == [0]


def test_nothing_id_dependent_leaves_before_lists_are_judged(free: None) -> None:
    run = Star({"a": ["1", "2"], "b": ["1"]}, named={"largest_list": 10})
    with pytest.raises(PolicyError, match="largest_list is 10"):
        run.run()
    assert {round for round, *_ in run.parcels} == {"greet"}


@pytest.mark.parametrize("round", ROUNDS)
@pytest.mark.parametrize(
    "change",
    [lambda p: p[:-1], lambda p: p[:20], lambda p: b"", lambda p: bytes([p[0] ^ 1]) + p[1:], lambda p: p + p[-32:]],
    ids=["short", "no body", "empty", "another session", "long"],
)
def test_malformed_parcels_are_refused(round: str, change: Callable[[bytes], bytes], free: None) -> None:
    with pytest.raises(MessageError):
        Star(people(3), altering(round, change)).run()


def only(round: str, sender: str, change: Callable[[bytes], bytes]) -> Tamper:
    return lambda r, s, recipient, payload: change(payload) if (r, s) == (round, sender) else payload


def test_parties_that_find_different_ids_are_told(free: None) -> None:
    with pytest.raises(AlignmentError, match="same common ids"):
        Star(people(3), only("agree", "party 2", lambda p: p[:-1] + bytes([p[-1] ^ 1]))).run()


def test_a_spoilt_table_hides_all_ids(free: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partner that writes zeros costs matches, and opens none."""
    send = star.PartnerRole.send

    def spoilt(self: star.PartnerRole, round: str) -> Iterator[tuple[str, bytes]]:
        for recipient, body in send(self, round):
            yield recipient, bytes(len(body)) if round == "compare" else body

    monkeypatch.setattr(star.PartnerRole, "send", spoilt)
    with pytest.raises(AlignmentError, match="in common, got none"):
        Star(people(3)).run()


def test_replays_and_strangers_are_refused(free: None) -> None:
    run = Star(people(3)).run(until="matrix")
    replay = next(p for p in run.parcels if p[0] == "choose")
    with pytest.raises(MessageError, match="in its turn"):
        run.parties[replay[2]].receive("choose", replay[1], replay[3])
    with pytest.raises(MessageError, match="another's"):
        run.parties[replay[2]].receive("matrix", replay[1], replay[3])
    with pytest.raises(MessageError, match="sender"):
        run.parties[replay[2]].receive("matrix", "mallory", replay[3])
    greeting = next(p for p in run.parcels if p[0] == "greet" and p[2] == SERVER)
    with pytest.raises(MessageError, match="once"):
        run.server.receive("greet", greeting[1], greeting[3])


def test_rounds_are_sent_once_and_in_turn(free: None) -> None:
    run = Star(people(2)).run(until="matrix")
    party = run.parties["party 0"]
    with pytest.raises(ProtocolError, match="after 6 rounds, got 2"):
        party.rows()
    for round in ("choose", "compare", "nonsense"):
        with pytest.raises(ProtocolError, match="once and in turn"):
            party.send(round)
    with pytest.raises(ProtocolError, match="all parties"):
        run.server.send("agree")
    with pytest.raises(ProtocolError, match="all parties"):
        _ = run.server.count


def test_twice_the_own_list_counts_what_is_announced_and_lets_short_lists_be() -> None:
    """Slots are 1.3 times a list and 160 besides: honest lists of a few ids would be refused by twice as many."""
    own, most = [str(i) for i in range(300)], [str(i) for i in range(600)]
    assert (
        len(align_in_process({"a": own, "b": most}, Randomness(), largest_lists={"a": TWICE, "b": TWICE})["a"]) == 300
    )
    with pytest.raises(PolicyError, match='largest_list is "twice", b brings 601 ids beside 300 here, and could test'):
        align_in_process({"a": own, "b": [*most, "x"]}, Randomness(), largest_lists={"a": TWICE})
    short = {"a": ["1"], "b": [str(i) for i in range(500)]}
    assert align_in_process(short, Randomness(), largest_lists={"a": TWICE})["a"].tolist() == [0]
    with pytest.raises(PolicyError, match="b brings 501 ids beside 1 here"):
        align_in_process({**short, "b": [*short["b"], "x"]}, Randomness(), largest_lists={"a": TWICE})

"""Private id alignment end to end: what parties find, what travels, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import pytest

from colonnade.crypto.alignment import AlignmentParty, AlignmentServer, align_in_process
from colonnade.crypto.alignment.curve import LOW_ORDER, PRIME, field_elements, map_to_curve
from colonnade.crypto.alignment.oblivious import read, segment_of
from colonnade.crypto.product import SERVER
from colonnade.foundation.errors import AlignmentError, MessageError, ProtocolError
from colonnade.foundation.randomness import Randomness

SESSION = bytes(range(32))
HEAD = 24
Tamper = Callable[[str, str, str, bytes], bytes]


def people(parties: int, common: int = 12, alone: int = 7, shared: int = 5) -> dict[str, list[str]]:
    """Shuffled ids: some of all parties, some of each neighbouring pair, some of one party only."""
    ids = {}
    for k in range(parties):
        pair = [
            f"pair {min(k, o)}-{max(k, o)}-{i}" for o in {(k + 1) % parties, (k - 1) % parties} for i in range(shared)
        ]
        everyone = [f"Zoë 陳 №{i}" for i in range(common)]
        mine = [*everyone, *[f"only {k} {i} ø" for i in range(alone)], *(pair if parties > 2 else [])]
        order = np.argsort(Randomness(seed=f"people {k}".encode()).words(len(mine)))
        ids[f"party {k}"] = [mine[i] for i in order]
    return ids


@dataclass
class Ring:
    """All sides, with every parcel recorded and, if asked, altered on its way."""

    ids: dict[str, list[str]]
    tamper: Tamper = lambda round, sender, recipient, payload: payload
    parcels: list[tuple[str, str, str, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = tuple(self.ids)
        self.server = AlignmentServer(SESSION, names)
        self.parties = {
            name: AlignmentParty(SESSION, names, k, self.ids[name], Randomness(seed=name.encode()))
            for k, name in enumerate(names)
        }

    def carry(self, round: str, sender: str, recipient: str, payload: bytes) -> None:
        self.parcels.append((round, sender, recipient, payload))
        altered = self.tamper(round, sender, recipient, payload)
        receiver = self.server if recipient == SERVER else self.parties[recipient]
        receiver.receive(round, sender, altered)

    def run(self, until: str | None = None) -> Ring:
        for round in self.server.rounds:
            if round == until:
                break
            for name, party in self.parties.items():
                for parcel in party.send(round):
                    self.carry(round, name, parcel.recipient, parcel.payload)
            for parcel in self.server.send(round):
                self.carry(round, SERVER, parcel.recipient, parcel.payload)
        return self

    def points(self) -> list[bytes]:
        bodies = [payload[HEAD:] for round, _, _, payload in self.parcels if round.startswith("hop")]
        return [body[i : i + 32] for body in bodies for i in range(0, len(body), 32)]


def altering(round: str, change: Callable[[bytes], bytes]) -> Tamper:
    return lambda r, sender, recipient, payload: change(payload) if r == round else payload


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_parties_find_the_common_ids_in_one_order(parties: int) -> None:
    ids = people(parties)
    rows = align_in_process(ids, Randomness(seed=b"any"))
    found = [[ids[name][row] for row in rows[name]] for name in ids]
    assert set(found[0]) == set.intersection(*map(set, ids.values()))
    assert len(found[0]) == 12
    assert all(other == found[0] for other in found)
    assert all(rows[name].dtype == np.int64 for name in ids)


def test_the_order_is_neither_the_files_nor_the_ids() -> None:
    ids = {"a": [f"{i:03}" for i in range(40)], "b": [f"{i:03}" for i in range(40)]}
    rows = align_in_process(ids, Randomness(seed=b"order"))
    assert rows["a"].tolist() == rows["b"].tolist() != list(range(40))


def test_server_learns_the_count() -> None:
    assert Ring(people(3)).run().server.count == 12


def test_seeded_runs_repeat_and_others_do_not() -> None:
    first, again = Ring(people(3)).run(), Ring(people(3)).run()
    assert first.parcels == again.parcels
    ids = people(2, common=30)
    orders = {align_in_process(ids, Randomness())["party 0"].tobytes() for _ in range(2)}
    assert len(orders) == 2


def test_executor_changes_nothing_and_progress_ends_at_its_total() -> None:
    ids, seen = people(3), list[tuple[int, int]]()
    with ThreadPoolExecutor(2) as executor:
        rows = align_in_process(ids, Randomness(seed=b"e"), executor, lambda done, total: seen.append((done, total)))
    alone = align_in_process(ids, Randomness(seed=b"e"))
    assert all(np.array_equal(rows[name], alone[name]) for name in ids)
    # each party raises its own list twice (blind, unblind) and every other's once
    raised = 3 * (sum(map(len, ids.values())) + len(ids["party 0"]))
    assert seen[-1] == (raised, raised)
    assert seen == sorted(seen)


@pytest.mark.parametrize("parties", [2, 3])
def test_no_id_and_no_bare_point_travels(parties: int) -> None:
    ids = people(parties)
    ring = Ring(ids).run()
    tag = b"colonnade/1 alignment " + SESSION
    wire = b"".join(payload for *_, payload in ring.parcels)
    everyone = sorted({one.encode() for mine in ids.values() for one in mine})
    bare = map_to_curve(field_elements(everyone, tag))
    for i, one in enumerate(everyone):
        assert one not in wire
        assert bare[32 * i : 32 * i + 32] not in wire


def test_nothing_on_the_wire_can_be_matched_among_three() -> None:
    points = Ring(people(3)).run().points()
    assert len(set(points)) == len(points) == 3 * 3 * 29


def test_two_parties_final_points_match_at_the_common_ids_only() -> None:
    points = Ring(people(2)).run().points()
    assert len(points) - len(set(points)) == 12


def test_raised_points_stay_on_the_curve() -> None:
    for point in Ring(people(2)).run().points()[:40]:
        u = int.from_bytes(point, "little")
        assert pow(u**3 + 486662 * u**2 + u, (PRIME - 1) // 2, PRIME) == 1


def test_parcels_are_small_and_lists_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colonnade.crypto.alignment.party.BATCH", 4)
    monkeypatch.setattr("colonnade.crypto.alignment.party.TABLE_PIECE", 1024)
    ring = Ring(people(3)).run()
    assert ring.server.count == 12
    assert max(len(p) for r, _, _, p in ring.parcels if r.startswith("hop")) == HEAD + 4 * 32


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


def test_a_party_knows_by_itself_that_nothing_is_common() -> None:
    ring = Ring({"a": ["1", "2"], "b": ["3"]}).run(until="agree")
    with pytest.raises(AlignmentError, match="in common, got none"):
        ring.parties["a"].rows()


def test_a_party_outside_the_ring_is_refused() -> None:
    with pytest.raises(AlignmentError, match="got -1"):
        AlignmentParty(SESSION, ("a", "b"), -1, ["1"], Randomness())


def test_a_short_session_id_is_refused() -> None:
    with pytest.raises(AlignmentError, match="32 bytes, got 3"):
        AlignmentServer(b"abc", ("a", "b"))


@pytest.mark.parametrize("round", ["greet", "hop1", "hop3", "compare", "agree"])
@pytest.mark.parametrize(
    "change",
    [lambda p: p[:-1], lambda p: p[:20], lambda p: b"", lambda p: bytes([p[0] ^ 1]) + p[1:], lambda p: p + p[-32:]],
    ids=["short", "no body", "empty", "another session", "long"],
)
def test_malformed_parcels_are_refused(round: str, change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(MessageError):
        Ring(people(3), altering(round, change)).run()


@pytest.mark.parametrize(
    ("point", "rule"),
    [
        *[(point, "low order") for point in sorted(LOW_ORDER)],
        (PRIME.to_bytes(32, "little"), "below"),
        ((PRIME + 18).to_bytes(32, "little"), "below"),
        (b"\xff" * 32, "below"),
    ],
)
@pytest.mark.parametrize("round", ["hop1", "hop2"])
def test_invalid_points_are_refused(round: str, point: bytes, rule: str) -> None:
    with pytest.raises(MessageError, match=rule):
        Ring(people(2), altering(round, lambda p: p[:HEAD] + point + p[HEAD + 32 :])).run()


def test_repeated_points_are_refused() -> None:
    with pytest.raises(MessageError, match="distinct, got 1 repeated"):
        Ring(people(2), altering("hop1", lambda p: p[:HEAD] + p[HEAD + 32 : HEAD + 64] + p[HEAD + 32 :])).run()


def only(round: str, sender: str, change: Callable[[bytes], bytes]) -> Tamper:
    return lambda r, s, recipient, payload: change(payload) if (r, s) == (round, sender) else payload


def test_the_largest_canonical_point_is_accepted() -> None:
    point = (PRIME - 2).to_bytes(32, "little")
    altered = only("hop2", "party 1", lambda p: p[:HEAD] + point + p[HEAD + 32 :])
    assert Ring(people(2, alone=0), altered).run().server.count == 11


def test_a_spoilt_table_hides_all_ids() -> None:
    with pytest.raises(AlignmentError, match="in common, got none"):
        Ring(people(3), only("compare", "party 1", lambda p: p[:HEAD] + bytes(len(p) - HEAD))).run()


def test_parties_that_find_different_ids_are_told() -> None:
    def spoil(round: str, sender: str, recipient: str, payload: bytes) -> bytes:
        return payload[:-32] + bytes(32) if (round, sender, recipient) == ("compare", SERVER, "party 2") else payload

    with pytest.raises(AlignmentError, match="same common ids"):
        Ring(people(3), spoil).run()


def test_server_and_one_party_cannot_tell_who_else_has_an_id() -> None:
    ring = Ring(people(3)).run(until="compare")
    curious, *others = ring.parties.values()
    keys = dict(curious._keys)
    tables = []
    for party in (curious, *others):
        raw = b"".join(parcel.payload[HEAD:] for parcel in party.send("compare"))
        tables.append(np.frombuffer(raw, dtype="<u8").reshape(-1, 2))
    tags = curious._tags
    assert tags is not None
    segment = segment_of(29)
    for table, key in zip(tables[1:], keys.values(), strict=True):
        hashes = b"".join(blake2b(name, digest_size=16, key=key).digest() for name in tags.names)
        left = read(table, tags, segment) ^ np.frombuffer(hashes, dtype="<u8").reshape(-1, 2)
        assert left.all()  # 17 of the 29 ids are in this table, and none of them shows
    assert int((~read(tables[0] ^ tables[1] ^ tables[2], tags, segment).any(axis=1)).sum()) == 12


def test_replays_and_strangers_are_refused() -> None:
    ring = Ring(people(3)).run(until="hop2")
    replay = next(p for p in ring.parcels if p[0] == "hop1")
    with pytest.raises(MessageError, match="in its turn"):
        ring.parties[replay[2]].receive("hop1", replay[1], replay[3])
    with pytest.raises(MessageError, match="another's"):
        ring.parties[replay[2]].receive("hop2", replay[1], replay[3])
    with pytest.raises(MessageError, match="sender"):
        ring.parties[replay[2]].receive("hop2", "mallory", replay[3])
    greeting = next(p for p in ring.parcels if p[0] == "greet" and p[2] == SERVER)
    with pytest.raises(MessageError, match="once"):
        ring.server.receive("greet", greeting[1], greeting[3])


def test_rounds_are_sent_once_and_in_turn() -> None:
    ring = Ring(people(2)).run(until="hop2")
    party = ring.parties["party 0"]
    with pytest.raises(ProtocolError, match="after 5 rounds, got 2"):
        party.rows()
    for round in ("hop1", "compare", "nonsense"):
        with pytest.raises(ProtocolError, match="once and in turn"):
            party.send(round)
    with pytest.raises(ProtocolError, match="wait for all"):
        ring.server.send("compare")
    with pytest.raises(ProtocolError, match="all parties"):
        _ = ring.server.count

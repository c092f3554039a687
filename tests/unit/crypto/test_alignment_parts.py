"""The parts of an alignment: points, base transfers, the code, tables, bins, and loops in numpy and numba alike."""

from __future__ import annotations

import json
import math
from hashlib import blake2b
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey

from colonnade.crypto.alignment import code, curve25519, kem_ot, kernels
from colonnade.crypto.alignment.base_ot import CHOICE_BYTES, COUNT, BaseReceiver, BaseSender, check_public
from colonnade.crypto.alignment.curve25519 import LOW_ORDER, PRIME, field_elements, map_to_curve
from colonnade.crypto.alignment.encapsulation import encapsulated
from colonnade.crypto.alignment.hashed_ids import Ids
from colonnade.crypto.alignment.hashed_ids import opened as opened_bin
from colonnade.crypto.alignment.kem_ot import KemReceiver, KemSender
from colonnade.crypto.alignment.kernels import AlignmentKernels, best_kernels, take
from colonnade.crypto.alignment.oblivious import Store, segment_of, slots_of
from colonnade.crypto.alignment.oprf import hashed
from colonnade.crypto.alignment.sizes import Sizes, capacity_of
from colonnade.data.store import DiskTexts
from colonnade.foundation.errors import AlignmentError, MessageError
from colonnade.foundation.randomness import Randomness
from tests.helpers.star_runs import Star, free_transfers, people
from tests.helpers.x25519_ring import ORDER, quotient, raise_points

VECTORS = Path(__file__).parents[2] / "vectors"
CURVE = json.loads((VECTORS / "curve25519_ell2_nu.json").read_text())
KNOWN = json.loads((VECTORS / "alignment.json").read_text())
KERNELS = [AlignmentKernels]
if find_spec("numba") is not None:
    from colonnade.crypto.alignment.compiled_kernels import CompiledAlignmentKernels

    KERNELS.append(CompiledAlignmentKernels)


def numbers(count: int, label: str) -> list[int]:
    raw = Randomness(seed=label.encode()).bytes(32 * count)
    return [int.from_bytes(raw[i : i + 32], "little") % (PRIME - 1) + 1 for i in range(0, len(raw), 32)]


def words_of(rows: int, width: int, label: str) -> np.ndarray:
    return Randomness(seed=label.encode()).words(rows * width).reshape(rows, width)


# Points.


@pytest.mark.parametrize("vector", CURVE["vectors"], ids=lambda v: v["message"] or "empty")
def test_hash_to_curve_vectors(vector: dict[str, str]) -> None:
    (element,) = field_elements([vector["message"].encode()], CURVE["tag"].encode())
    assert element == int(vector["element"], 16)
    assert int.from_bytes(map_to_curve([element]), "little") == int(vector["point"], 16)


def elligator(r: int) -> int:
    """Step by step as RFC 9380, section 6.7.1 has it, with powers for inverses and for squares."""
    j = 486662
    x = -j * pow(1 + 2 * r * r, -1, PRIME) % PRIME
    g = x * (x * x + j * x + 1) % PRIME
    return x if pow(g, (PRIME - 1) // 2, PRIME) in (0, 1) else (-x - j) % PRIME


def test_the_map_is_elligator_2() -> None:
    elements = [*numbers(300, "map"), 0, 1, 2, PRIME - 1, PRIME // 2, *(1 << i for i in range(3, 255, 9))]
    points = map_to_curve(elements)
    found = [int.from_bytes(points[i : i + 32], "little") for i in range(0, len(points), 32)]
    assert found == [elligator(r) for r in elements]
    assert map_to_curve([]) == b""


def ladder(scalar: bytes, point: bytes) -> bytes:
    """RFC 7748, section 5, in Python integers."""
    return times((int.from_bytes(scalar, "little") & ((1 << 254) - 8)) | (1 << 254), point)


def times(k: int, point: bytes) -> bytes:
    u = int.from_bytes(point, "little") % (1 << 255) % PRIME
    (x2, z2), (x3, z3) = (1, 0), (u, 1)
    for t in reversed(range(255)):
        if bit := k >> t & 1:
            (x2, z2), (x3, z3) = (x3, z3), (x2, z2)
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % PRIME, b * b % PRIME, d * a % PRIME, c * b % PRIME
        e = aa - bb
        x3, z3, x2, z2 = (da + cb) ** 2 % PRIME, u * (da - cb) ** 2 % PRIME, aa * bb % PRIME, e * (aa + 121665 * e)
        if bit:
            (x2, z2), (x3, z3) = (x3, z3), (x2, z2)
    return (x2 * pow(z2, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little")


def test_points_near_the_prime_are_raised_rightly() -> None:
    """A library with faster arithmetic failed here and nowhere else: docs/decisions/0016."""
    near = [PRIME - d for d in (2, 3, 600, 1392, 1393, 1394)] + [PRIME + d for d in (2, 18)] + [2**255 - 1, 2**254, 9]
    odd = [u.to_bytes(32, "little") for u in near] + [b"\xff" * 32, b"\x80" * 32]
    for scalar in (bytes(32), b"\xff" * 32, Randomness(seed=b"scalar").bytes(32)):
        assert raise_points(scalar, odd) == [ladder(scalar, point) for point in odd]


def test_hashes_lie_in_the_subgroup_and_are_eight_times_the_map() -> None:
    messages = [b"one", b"two", bytes(100)]
    mapped = map_to_curve(field_elements(messages, b"tag"))
    for i, (u, v) in enumerate(curve25519.hash_to_group(messages, b"tag")):
        assert (v * v - ((u + 486662) * u + 1) * u) % PRIME == 0
        raw = int(u).to_bytes(32, "little")
        assert raw == times(8, mapped[32 * i : 32 * i + 32])
        assert times(ORDER, raw) == bytes(32)


def test_sums_of_points() -> None:
    base = curve25519.lift(curve25519.mpz(9), 0)
    (two,) = curve25519._doubled([base])
    (three,) = curve25519.add([base], [two])
    (four,) = curve25519.add([base], [three])
    assert [int(p[0]).to_bytes(32, "little") for p in (two, three, four)] == [
        times(k, (9).to_bytes(32, "little")) for k in (2, 3, 4)
    ]
    assert curve25519.decompress(curve25519.compress([two, three, four])) == [two, three, four]
    (back,) = curve25519.add([three], curve25519.negative([two]))
    assert back == base
    with pytest.raises(MessageError, match="differ"):
        curve25519.add([base], [base])


def twist() -> int:
    return next(u for u in range(2, 99) if pow(u**3 + 486662 * u**2 + u, (PRIME - 1) // 2, PRIME) != 1)


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        *[(point, "low order") for point in sorted(LOW_ORDER)],
        (PRIME.to_bytes(32, "little"), "below"),
        ((PRIME + 18).to_bytes(32, "little"), "below"),
        (twist().to_bytes(32, "little"), "twist"),
    ],
)
def test_keys_that_are_no_points_are_refused(raw: bytes, rule: str) -> None:
    with pytest.raises(MessageError, match=rule):
        check_public(raw)


def test_raising_commutes_and_quotients_unblind() -> None:
    """What the cross-check by a ring rests on."""
    randomness = Randomness(seed=b"quotient")
    points = [(u).to_bytes(32, "little") for u in (9, 16)]
    for _ in range(5):
        secret, other, blind = (randomness.bytes(32) for _ in range(3))
        scalar = quotient(secret, blind)
        assert scalar is not None
        assert raise_points(scalar, raise_points(blind, raise_points(other, points))) == raise_points(
            other, raise_points(secret, points)
        )


# Base transfers.


def bits_of(label: str) -> np.ndarray:
    return np.unpackbits(np.frombuffer(Randomness(seed=label.encode()).bytes(64), np.uint8))


def test_base_transfers_against_the_ladder() -> None:
    """Fixed scalars: the seeds are what Masny and Rindal's equations say, computed another way."""
    bits, context = bits_of("bits"), bytes(32)
    sender = BaseSender(Randomness(seed=b"sender"))
    receiver = BaseReceiver(context, sender.public, bits, Randomness(seed=b"receiver"))
    zeros, ones = sender.seeds(context, receiver.choices)
    assert len(receiver.choices) == CHOICE_BYTES
    for j, bit in enumerate(bits.tolist()):
        assert receiver.seeds[j] == (zeros, ones)[bit][j] != (zeros, ones)[1 - bit][j]
    digest = blake2b(b"".join([receiver.choices, *zeros, *ones]), digest_size=32).hexdigest()
    assert digest == KNOWN["base_transfers"]
    secret = Randomness(seed=b"sender").bytes(32)
    assert sender.public == ladder(secret, (9).to_bytes(32, "little"))
    for j in (0, 1, 511):
        r = [receiver.choices[64 * j : 64 * j + 32], receiver.choices[64 * j + 32 : 64 * j + 64]]
        for slot in range(2):
            message = context + j.to_bytes(2, "big") + bytes([slot]) + r[1 - slot]
            ((u, _),) = curve25519.add(
                curve25519.decompress(r[slot]), curve25519.hash_to_group([message], b"colonnade/1 base transfer")
            )
            key = ladder(secret, int(u).to_bytes(32, "little"))
            whole = context + j.to_bytes(2, "big") + bytes([slot]) + r[0] + r[1] + key
            assert blake2b(whole, digest_size=32).digest() == (zeros, ones)[slot][j]


def test_choices_look_alike_for_any_bits() -> None:
    """Both points of every pair lie in the subgroup, whatever the bit; the order of a pair says nothing of it."""
    sender = BaseSender(Randomness(seed=b"sender"))
    for bits in (np.zeros(COUNT, np.uint8), np.ones(COUNT, np.uint8)):
        receiver = BaseReceiver(bytes(32), sender.public, bits, Randomness(seed=b"receiver"))
        raw = receiver.choices[: 64 * 6]
        for i in range(0, len(raw), 32):
            assert times(ORDER, raw[i : i + 31] + bytes([raw[i + 31] & 127])) == bytes(32)
        lower = np.frombuffer(receiver.choices, np.uint8).reshape(COUNT, 2, 32)
        bits_set = np.unpackbits(lower, axis=2).mean(axis=(0, 2))
        assert (abs(bits_set - 0.5) < 6 * 0.5 / math.sqrt(COUNT * 256)).all()


@pytest.mark.parametrize("bad", [(0).to_bytes(32, "little"), twist().to_bytes(32, "little"), b"\xff" * 32])
def test_choices_that_are_no_points_are_refused(bad: bytes) -> None:
    sender = BaseSender(Randomness(seed=b"sender"))
    receiver = BaseReceiver(bytes(32), sender.public, bits_of("bits"), Randomness(seed=b"receiver"))
    if bad == bytes(32):  # a sum of low order: the point that is the hash's negative, up to torsion
        other = receiver.choices[32:64]
        message = bytes(32) + bytes(2) + bytes([0]) + other
        minus = curve25519.negative(curve25519.hash_to_group([message], b"colonnade/1 base transfer"))
        bad = curve25519.compress(minus)
    with pytest.raises(MessageError):
        sender.seeds(bytes(32), bad + receiver.choices[32:])


def test_kem_transfers() -> None:
    bits, context = bits_of("bits"), bytes(32)
    receiver = KemReceiver(context, bits, Randomness(seed=b"receiver"))
    assert blake2b(receiver.choices, digest_size=32).hexdigest() == KNOWN["kem_choices"]
    sender = KemSender(context, receiver.choices, Randomness(seed=b"sender"))
    keys = receiver.keys(sender.reply)
    assert receiver.secret(sender.reply) == sender.secret
    assert (len(receiver.choices), len(sender.reply)) == (kem_ot.KEM_CHOICE_BYTES, kem_ot.KEM_REPLY_BYTES)
    for j, bit in enumerate(bits.tolist()):
        assert keys[j] == sender.keys[bit][j] != sender.keys[1 - bit][j]
    for bad in (b"\xff" * 3 + receiver.choices[3:], receiver.choices[:-1184] + b"\xff" * 1184):
        with pytest.raises(MessageError, match="ML-KEM must be below 3329"):
            KemSender(context, bad, Randomness())


def test_encapsulations_are_those_of_the_standard() -> None:
    """The library unwraps each: it makes the ciphertext again from what it finds, and any other gives other secrets."""
    holders = [MLKEM768PrivateKey.generate() for _ in range(40)]
    messages = [Randomness().bytes(32) for _ in holders]
    secrets, ciphers = encapsulated([holder.public_key().public_bytes_raw() for holder in holders], messages)
    assert [holder.decapsulate(cipher) for holder, cipher in zip(holders, ciphers, strict=True)] == secrets
    assert len(set(secrets)) == len(holders) and {len(cipher) for cipher in ciphers} == {1088}
    for place in (0, 959, 960, 1087):
        moved = bytearray(ciphers[0])
        moved[place] ^= 1
        assert holders[0].decapsulate(bytes(moved)) != secrets[0]


# The code.


def test_generator_polynomial() -> None:
    generator = code.generator_polynomial()
    assert f"{generator:x}" == KNOWN["generator"]
    assert generator.bit_length() - 1 == 511 - 85 == 426
    powers = [1]
    for _ in range(510):
        shifted = powers[-1] << 1
        powers.append(shifted ^ 0b1000010001 if shifted >> 9 else shifted)
    terms = [k for k in range(427) if generator >> k & 1]
    for root in range(1, 127):
        total = 0
        for k in terms:
            total ^= powers[root * k % 511]
        assert total == 0, root
    assert code._times(generator, 0b11) == generator ^ generator << 1


def test_code_table() -> None:
    sums = code.byte_sums()
    assert sums.shape == (11, 256, 8)
    assert blake2b(sums.tobytes(), digest_size=32).hexdigest() == KNOWN["code_table"]
    rows = [int.from_bytes(row.tobytes(), "little") for row in code.generator_rows()]
    assert all(row.bit_count() % 2 == 0 for row in rows)
    draws = Randomness(seed=b"words")
    weights = []
    for _ in range(3000):
        chosen = int.from_bytes(draws.bytes(11), "little") & ((1 << 85) - 1)
        word = 0
        for k in range(85):
            word ^= rows[k] * (chosen >> k & 1)
        weights.append(word.bit_count())
        raw = chosen.to_bytes(11, "little")
        by_table = np.bitwise_xor.reduce([sums[i, raw[i]] for i in range(11)])
        assert int.from_bytes(by_table.tobytes(), "little") == word
    assert min(weights) >= code.DISTANCE and min(row.bit_count() for row in rows) >= code.DISTANCE
    assert np.array_equal(sums[10, 0b11100011], sums[10, 0b00011]), "bits beyond the dimension stand for nothing"


@pytest.mark.parametrize("make", KERNELS)
def test_columns_of_codewords(make: type[AlignmentKernels]) -> None:
    kernels = make()
    messages = words_of(512 * 5, 2, "messages")
    messages[:, 1] &= code.HIGH
    rows = np.zeros((len(messages), 8), np.uint64)
    kernels.add_bytes(rows, code.byte_sums(), messages.view(np.uint8).reshape(-1, 16))
    columns = code.encode_columns(kernels.columns_of(messages, 88))
    assert np.array_equal(kernels.rows_of(columns), rows)
    assert np.array_equal(code.unpack(code.pack(messages)), messages)


def test_transposition() -> None:
    columns = words_of(512, 70, "columns")
    bits = np.unpackbits(columns.view(np.uint8), axis=1, bitorder="little")
    rows = kernels.rows_of(columns)
    assert np.array_equal(np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little"), bits.T)
    assert np.array_equal(kernels.columns_of(np.ascontiguousarray(rows[:, :2]), 88), columns[:88])


# Ids and bins.


@pytest.mark.parametrize("vector", KNOWN["ids"], ids=lambda v: v["id"][:6] or "empty")
def test_id_layout(vector: dict[str, str]) -> None:
    text, session = vector["id"], bytes(range(32))
    ids = opened_bin(*Ids("p", [text], session, AlignmentKernels()).bins(1)[:2])
    digest = blake2b(session + text.encode()).digest()
    assert digest.hex() == vector["digest"]
    assert ids.tags.tobytes() == digest[:16]
    message = int.from_bytes(digest[16:32], "little") & ((1 << 85) - 1)
    assert int.from_bytes(ids.messages.tobytes(), "little") == message
    assert ids.slots.tobytes() == digest[32:56] and ids.coins.tobytes() == digest[56:]


def test_bins_hold_every_id_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colonnade.crypto.alignment.hashed_ids._CHUNK", 1 << 16)
    texts = [str(i) for i in range(70_000)]  # two chunks
    rows, words, ends = Ids("p", texts, bytes(32), AlignmentKernels()).bins(7)
    assert np.array_equal(np.sort(rows), np.arange(70_000))
    for number, (first, last) in enumerate(pairwise(ends.tolist())):
        one = opened_bin(rows[first:last], words[first:last])
        assert (one.tags[:, 0] % np.uint64(7) == number).all()
        assert one.tags[0].tobytes() == blake2b(bytes(32) + texts[one.rows[0]].encode()).digest()[:16]


def above(room: int, count: int, chance: float) -> float:
    """The chance that more than `room` of `count` ids fall into a bin, term by term."""
    logs = (
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        + k * math.log(chance) + (count - k) * math.log1p(-chance)
        for k in range(room + 1, min(count, room + 5000) + 1)
    )  # fmt: skip
    return sum(map(math.exp, logs))


@pytest.mark.parametrize(("count", "bins"), [(10, 76), (200, 8), (1000, 3), (10**6, 8), (10**7, 76), (10**5, 76)])
def test_capacity_bounds_the_binomial_tail(count: int, bins: int) -> None:
    """The exact tail is below 2^-40 at the capacity; a tenth less room would not do, unless lists are tiny."""
    room = capacity_of(count, bins)
    assert bins * above(room, count, 1 / bins) <= 2**-40
    assert room <= count
    if count >= 1000:
        mean = count / bins
        assert bins * above(int(mean + 0.85 * (room - mean)), count, 1 / bins) > 2**-40
    if count / bins > 1 << 16:
        assert room < 1.03 * count / bins


def test_sizes() -> None:
    sizes = Sizes((10**6, 50, 50))
    assert (sizes.hub, sizes.bins) == (1, 8)
    assert sizes.matrix_rows % 512 == 0
    assert sizes.matrix_rows >= sizes.slots(1) + 128 * 2 + 40
    assert sizes.testable(0) == 8 * slots_of(capacity_of(10**6, 8)) < 1.34 * 10**6
    assert Sizes((7, 7)).testable(0) == slots_of(7)


# Tables.


def store_of(
    count: int, entries: int | None = None, segment: int = 0, label: str = "tags", make=AlignmentKernels
) -> Store:
    words = words_of(count, 4, label)
    return Store(words[:, :3], np.ascontiguousarray(words[:, 3]), entries or count, make(), segment)


@pytest.mark.parametrize("count", [1, 2, 25, 700])
@pytest.mark.parametrize("width", [2, 8])
def test_table_reads_what_was_written(count: int, width: int) -> None:
    store, values = store_of(count), words_of(count, width, "values")
    table = store.write(values, Randomness(seed=b"table"), 5)
    assert table.shape == (slots_of(count) + 5, width)
    assert np.array_equal(store.read(table), values)
    assert store_of(500, count, label="strangers").read(table).all()


@pytest.mark.parametrize("count", [9, 40])
def test_dense_slots_solve_what_cannot_be_peeled(count: int) -> None:
    # two slots a segment: hardly an entry can be peeled
    store, values = store_of(count, segment=2), words_of(count, 2, "values")
    assert np.array_equal(store.read(store.write(values, Randomness(seed=b"core"))), values)


def test_more_than_the_dense_slots_can_solve_is_refused() -> None:
    with pytest.raises(AlignmentError, match="start again"):
        store_of(100, segment=2).write(words_of(100, 2, "values"), Randomness(seed=b"core"))


def test_a_table_looks_uniform() -> None:
    table = store_of(4000).write(words_of(4000, 2, "values"), Randomness(seed=b"uniform"))
    counts = np.bincount(table.view(np.uint8).ravel(), minlength=256)
    expected = counts.sum() / 256
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 6 * np.sqrt(2 * 255)
    assert segment_of(4000) * 3 + 64 == len(table)


# Loops.


def slow_sums(rows: np.ndarray, challenge: np.ndarray) -> np.ndarray:
    bits = np.unpackbits(challenge.view(np.uint8), axis=1, bitorder="little")
    return np.array([np.bitwise_xor.reduce(rows[bits[:, k] == 1], axis=0, initial=0) for k in range(128)], np.uint64)


@pytest.mark.parametrize("make", KERNELS)
@pytest.mark.parametrize("rows", [64, 512, 33_000])
def test_random_sums_of_rows(make: type[AlignmentKernels], rows: int) -> None:
    values, challenge = words_of(rows, 8, "rows"), words_of(rows, 2, "challenge")
    assert np.array_equal(make().combine(values, challenge), slow_sums(values, challenge))


@pytest.mark.skipif(len(KERNELS) == 1, reason="numba is not installed")
@pytest.mark.parametrize("count", [1, 3, 300, 20_000])
def test_loops_give_the_same_in_numpy_and_numba(count: int) -> None:
    values, tables = words_of(count, 2, "values"), []
    for make in KERNELS:
        for segment in (0, 2) if count < 64 else (0,):
            store = store_of(count, segment=segment, make=make)
            tables.append((segment, store.write(values, Randomness(seed=b"table")), store._peeling.rest.tolist()))
    for segment, table, rest in tables:
        first = next(t for t in tables if t[0] == segment)
        assert np.array_equal(table, first[1]) and rest == first[2]


def parcels_digest(run: Star) -> dict[str, str]:
    out = {}
    for round in run.server.rounds:
        whole = blake2b(digest_size=16)
        for r, sender, recipient, payload in run.parcels:
            if r == round:
                whole.update(f"{sender}>{recipient}".encode() + payload)
        out[round] = whole.hexdigest()
    return out


@pytest.mark.parametrize("make", KERNELS)
@pytest.mark.parametrize("vector", KNOWN["sessions"], ids=lambda v: f"{v['parties']}x{v['ids']}")
def test_a_seeded_session_is_known_byte_for_byte(vector: dict, make: type[AlignmentKernels]) -> None:
    run = session_of(vector, make())
    assert parcels_digest(run) == vector["parcels"]
    assert run.server.count == vector["common"]


def session_of(vector: dict, kernels: AlignmentKernels) -> Star:
    ids, common = vector["ids"], vector["common"]
    lists = {
        f"p{k}": [f"id {i}" for i in range(common)] + [f"id {k} {i}" for i in range(ids - common)]
        for k in range(vector["parties"])
    }
    return Star(lists, named={"kernels": kernels}).run()


def test_numba_is_loaded_for_long_lists_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(__import__("sys").modules, "colonnade.crypto.alignment.compiled_kernels", raising=False)
    assert type(best_kernels(1000)) is AlignmentKernels
    if len(KERNELS) > 1:
        assert type(best_kernels(10**6)) is not AlignmentKernels


@pytest.mark.parametrize("make", KERNELS)
@pytest.mark.parametrize("head", [0, 32])
@pytest.mark.parametrize("longest", [0, 96, 129, 400])
def test_digests_are_those_of_the_standard_library(make: type[AlignmentKernels], head: int, longest: int) -> None:
    """Texts of all lengths, none among them, as many as fill lanes and not; blocks that are full, and several."""
    generator, prefix = np.random.default_rng(longest), bytes(range(100, 100 + head))
    for count, words in ((0, 4), (1, 8), (16, 4), (37, 8)):
        texts = [generator.bytes(size) for size in (longest, *generator.integers(0, longest + 1, 40))][:count]
        data, ends = np.frombuffer(b"".join(texts), np.uint8), np.cumsum([len(text) for text in texts], dtype=np.int64)
        found = make().digests(prefix, data, ends, words)
        assert found.shape == (count, words)
        assert [row.tobytes() for row in found] == [blake2b(prefix + t, digest_size=8 * words).digest() for t in texts]


@pytest.mark.parametrize("make", KERNELS)
def test_ids_on_disk_have_the_digests_of_the_same_texts(make: type[AlignmentKernels]) -> None:
    texts = ["", "ä", "id-1", "x" * 95, "y" * 97, *map(str, range(70_000))]
    disk = DiskTexts()
    for part in (texts[:3], texts[3:]):
        data = "".join(part).encode()
        disk.append(np.frombuffer(data, np.uint8), np.array([len(text.encode()) for text in part], np.int64))
    session = bytes(range(32))
    of_texts, of_bytes = (Ids("p", ids, session, make()).bins(1)[1] for ids in (texts, disk))
    assert np.array_equal(of_texts, of_bytes)
    assert of_texts[:5].tobytes() == b"".join(blake2b(session + text.encode()).digest() for text in texts[:5])
    assert list(disk) == texts and disk[1] == "ä" and disk[2:5] == texts[2:5]


def test_rows_are_taken_from_a_slice_as_from_a_whole() -> None:
    words, chosen = words_of(50, 8, "taken"), np.array([7, 7, 0, 49])
    assert np.array_equal(take(words, chosen), words[chosen])
    assert np.array_equal(take(words[:, 2:4], chosen), words[chosen, 2:4])


@pytest.mark.parametrize("make", KERNELS)
def test_outputs_are_one_block_of_blake2b(make: type[AlignmentKernels]) -> None:
    tags, rows, prefix = words_of(3, 2, "tags"), words_of(3, 8, "rows"), bytes(range(32))
    out = hashed(prefix, tags, rows, make())
    for i in range(3):
        whole = prefix + tags[i].tobytes() + rows[i].tobytes()
        assert len(whole) == 112 and out[i].tobytes() == blake2b(whole, digest_size=32).digest()


def test_free_transfers_are_for_tests_alone() -> None:
    """The cheap stand-in gives the same result as the real ones, and is gone afterwards."""
    with free_transfers():
        cheap = Star(people(2)).run().found()
    assert sorted(cheap[0]) == sorted(Star(people(2)).run().found()[0])

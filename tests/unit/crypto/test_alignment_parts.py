"""The parts of an alignment: points, and the table that reads zero where all agree."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from colonnade.crypto.alignment.curve import (
    LOW_ORDER,
    ORDER,
    PRIME,
    field_elements,
    hash_and_raise,
    map_to_curve,
    quotient,
    raise_points,
)
from colonnade.crypto.alignment.oblivious import Tags, read, segment_of, slots_of, write
from colonnade.foundation.errors import AlignmentError, MessageError
from colonnade.foundation.randomness import Randomness

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "curve25519_ell2_nu.json").read_text())


def numbers(count: int, label: str) -> list[int]:
    raw = Randomness(seed=label.encode()).bytes(32 * count)
    return [int.from_bytes(raw[i : i + 32], "little") % (PRIME - 1) + 1 for i in range(0, len(raw), 32)]


def tags_of(count: int, label: str = "tags") -> Tags:
    return Tags([f"{label} {i}".encode() for i in range(count)], bytes(32))


def values_of(count: int, label: str) -> np.ndarray:
    return Randomness(seed=label.encode()).words(2 * count).reshape(count, 2)


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda v: v["message"] or "empty")
def test_hash_to_curve_vectors(vector: dict[str, str]) -> None:
    (element,) = field_elements([vector["message"].encode()], VECTORS["tag"].encode())
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


def test_points_lie_on_the_curve_not_on_the_twist() -> None:
    points = map_to_curve(numbers(100, "points"))
    for i in range(0, len(points), 32):
        u = int.from_bytes(points[i : i + 32], "little")
        assert pow(u**3 + 486662 * u**2 + u, (PRIME - 1) // 2, PRIME) == 1


def test_points_of_low_order_vanish() -> None:
    assert len(LOW_ORDER) == 5
    for point in LOW_ORDER:
        with pytest.raises(MessageError, match="low order"):
            raise_points(b"\x55" * 32, point)


def ladder(scalar: bytes, point: bytes) -> bytes:
    """RFC 7748, section 5, in Python integers."""
    k = (int.from_bytes(scalar, "little") & ((1 << 254) - 8)) | (1 << 254)
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
        assert raise_points(scalar, b"".join(odd)) == b"".join(ladder(scalar, point) for point in odd)


def test_raising_commutes_and_quotients_unblind() -> None:
    randomness = Randomness(seed=b"quotient")
    points = map_to_curve(field_elements([b"one", b"two"], b"tag"))
    assert hash_and_raise(bytes(32), [b"one", b"two"], b"tag") == raise_points(bytes(32), points)
    for _ in range(20):
        secret, other, blind = (randomness.bytes(32) for _ in range(3))
        wanted = raise_points(other, raise_points(secret, points))
        blinded = raise_points(blind, raise_points(other, points))
        scalar = quotient(secret, blind)
        assert scalar is not None
        assert blinded != wanted
        assert raise_points(scalar, blinded) == wanted


def test_quotient_says_when_no_clamped_scalar_does() -> None:
    # 8 blind = secret modulo the order: the quotient is 8 * 1 or 8 * (ORDER - 1), below and above the clamped range
    clamped = range(1 << 254, 1 << 255, 8)
    pairs = ((8 * b % ORDER + m * ORDER, b) for b in clamped[:50] for m in range(8))
    secret, blind = next((s, b) for s, b in pairs if s in clamped)
    assert quotient(secret.to_bytes(32, "little"), blind.to_bytes(32, "little")) is None


@pytest.mark.parametrize("count", [1, 2, 25, 700])
def test_table_reads_what_was_written(count: int) -> None:
    tags, values, segment = tags_of(count), values_of(count, "values"), segment_of(count)
    table = write(tags, values, segment, Randomness(seed=b"table"))
    assert table.shape == (slots_of(count), 2)
    assert np.array_equal(read(table, tags, segment), values)
    assert read(table, tags_of(500, "strangers"), segment).all()


@pytest.mark.parametrize("count", [9, 40])
def test_dense_slots_solve_what_cannot_be_peeled(count: int) -> None:
    # two slots a segment: hardly an entry can be peeled
    tags, values = tags_of(count), values_of(count, "values")
    assert np.array_equal(read(write(tags, values, 2, Randomness(seed=b"core")), tags, 2), values)


def test_more_than_the_dense_slots_can_solve_is_refused() -> None:
    with pytest.raises(AlignmentError, match="start again"):
        write(tags_of(100), values_of(100, "values"), 2, Randomness(seed=b"core"))


def test_tables_add_up() -> None:
    tags, segment = tags_of(50), segment_of(80)
    values = [values_of(50, f"values {k}") for k in range(3)]
    tables = [write(tags, v, segment, Randomness(seed=bytes([k]))) for k, v in enumerate(values)]
    total = tables[0] ^ tables[1] ^ tables[2]
    assert np.array_equal(read(total, tags, segment), values[0] ^ values[1] ^ values[2])


def test_a_table_looks_uniform() -> None:
    table = write(tags_of(4000), values_of(4000, "values"), segment_of(4000), Randomness(seed=b"uniform"))
    counts = np.bincount(table.view(np.uint8).ravel(), minlength=256)
    expected = counts.sum() / 256
    assert ((counts - expected) ** 2 / expected).sum() < 255 + 6 * np.sqrt(2 * 255)


def test_ranks_sort_by_name() -> None:
    tags = tags_of(2000)
    rows = np.arange(0, 2000, 3)
    assert [tags.names[i] for i in rows[tags.ranks(rows)]] == sorted(tags.names[i] for i in rows)
    assert not len(tags.ranks(rows[:0]))

"""The product in the clear: what the contract suite does not ask of all backends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.columns import resident
from colonnade.crypto import plain
from colonnade.crypto.backends import require_private
from colonnade.crypto.frames import HEADER, pack
from colonnade.crypto.plain import PlainParty, PlainServer
from colonnade.crypto.product import Cross, ProductSpec
from colonnade.foundation.errors import MessageError, ProductError, StudyError
from colonnade.foundation.randomness import Randomness
from tests.helpers.product_sessions import Relay, Sent, Session, run


def test_it_does_not_leave_the_process() -> None:
    said = 'product = "plain" shows columns to others and stays in one process: use "lattice"'
    with pytest.raises(StudyError, match=said):
        require_private("plain")
    assert [require_private(name).name for name in ("lattice", "bgn")] == ["lattice", "bgn"]


@pytest.mark.parametrize(("bits", "gain"), [(64, 1), (64, 1000), (44, 1), (50, 37)])
def test_gain_multiplies_the_product_and_not_the_noise(bits: int, gain: int) -> None:
    session = Session.make(parties=3, rows=300, widths=(2, 3, 1), bound=7, modulus_bits=bits, gain=gain)
    opened = run(session, PlainParty, PlainServer)
    assert np.array_equal(opened, session.expected())


def test_blocks_of_rows_and_of_shares_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "BLOCK_BYTES", 64)
    monkeypatch.setattr(plain, "SHARE_WORDS", 2)
    session = Session.make(parties=3, rows=101, widths=(2, 3, 2))
    assert np.array_equal(run(session, PlainParty, PlainServer), session.expected())


def test_largest_entries_are_exact() -> None:
    rows, bound = 70_000, 32_767
    cross = Cross(0, 1, 0, 1, 0, 1)
    spec = ProductSpec(bytes(32), ("a", "b"), rows, bound, (cross,), 64, 1, 1 << 60)
    data = [np.full((rows, 1), bound, dtype=np.int16), np.full((rows, 1), -bound, dtype=np.int16)]
    data[1][3, 0] = bound - 1
    zero = {cross: np.zeros((1, 1), dtype=np.int64)}
    session = Session(spec, data, [zero, zero])
    assert run(session, PlainParty, PlainServer).tolist() == [-bound * bound * (rows - 1) + bound * (bound - 1)]


def test_parts_of_columns_in_several_crosses() -> None:
    generator = np.random.default_rng(3)
    crosses = (Cross(0, 1, 1, 3, 0, 2), Cross(0, 1, 0, 1, 1, 3), Cross(1, 0, 2, 3, 2, 3), Cross(2, 0, 0, 1, 0, 3))
    spec = ProductSpec(bytes(32), ("a", "b", "c"), 90, 50, crosses, 64, 1, 1 << 40)
    data = [generator.integers(-50, 51, (90, 3)).astype(np.int16) for _ in range(3)]
    noise = [{c: generator.integers(-9, 10, c.shape) for c in crosses} for _ in range(3)]
    session = Session(spec, data, noise)
    assert np.array_equal(run(session, PlainParty, PlainServer), session.expected())


def test_the_sealed_bytes_are_the_columns_and_the_shares_are_fresh() -> None:
    session = Session.make(parties=2, rows=20, widths=(1, 1))
    vectors = []
    for seed in (b"one", b"two"):
        left, right = (
            PlainParty(session.spec, k, resident(session.data[k]), session.noise[k], Randomness(seed)) for k in range(2)
        )
        (sealed,) = left.send("seal")
        assert session.data[0].tobytes() in sealed.payload
        right.receive("seal", "party 0", sealed.payload)
        (share,) = right.send("multiply")
        left.receive("multiply", "party 1", share.payload)
        assert not list(left.send("multiply"))
        vectors.append(left.contribute().vector)
    assert vectors[0][0] != vectors[1][0]


def test_server_refuses_a_sum_of_another_length() -> None:
    session = Session.make(parties=2)
    with pytest.raises(ProductError, match="must have"):
        PlainServer(session.spec).open(np.zeros(1, dtype=np.uint64), [])


def test_a_wrong_length_with_a_right_digest_is_refused() -> None:
    session = Session.make(parties=2, rows=20, widths=(1, 1))
    for round, sender, recipient in (("seal", "party 0", "party 1"), ("multiply", "party 1", "party 0")):

        def cut(parcel: Sent, target: tuple[str, str, str] = (round, sender, recipient)) -> Iterator[Sent]:
            if (parcel.round, parcel.sender, parcel.recipient) == target:
                payload = pack(session.spec, *target, 0, parcel.payload[HEADER.size : -2])
                parcel = replace(parcel, payload=payload)
            yield parcel

        with pytest.raises(MessageError, match="must have"):
            Relay(session, PlainParty, PlainServer, tamper=cut).rounds()


def test_a_received_entry_beyond_the_bound_is_refused() -> None:
    session = Session.make(parties=2, rows=20, widths=(1, 1), bound=15)

    def raise_entry(parcel: Sent) -> Iterator[Sent]:
        body = np.full(20, 16, dtype="<i2").tobytes()
        yield replace(parcel, payload=pack(session.spec, "seal", "party 0", "party 1", 0, body))

    with pytest.raises(MessageError, match="must be within 15 of zero, got 16"):
        Relay(session, PlainParty, PlainServer, tamper=raise_entry).rounds()

"""The paper's product: encodings that are no group elements, partial decryptions, logarithms, the cost it predicts."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest

from benchmarks.bgn_operations import calibrate
from colonnade.crypto.bgn import layout
from colonnade.crypto.bgn.logarithm import MEASURED, SmallLogarithm, predicted_seconds
from colonnade.crypto.bgn.pairing import CURVES, Curve, curve
from colonnade.crypto.bgn.party import BgnParty
from colonnade.crypto.bgn.server import BgnServer
from colonnade.crypto.frames import HEADER, pack
from colonnade.crypto.product import SERVER
from colonnade.foundation.errors import MessageError, ProductError
from colonnade.foundation.randomness import Randomness
from tests.helpers.product_sessions import Relay, Sent, Session, arrays, run

needs_pymcl = pytest.mark.skipif(
    sys.version_info >= (3, 13) and find_spec("pymcl") is None, reason="pymcl has no wheel for Python 3.13"
)


@pytest.fixture(params=["bn254", pytest.param("bls12-381", marks=needs_pymcl)])
def groups(request: pytest.FixtureRequest) -> Curve:
    return curve(request.param)


def test_pairing_is_bilinear(groups: Curve) -> None:
    scalars = [groups.scalars(Randomness(seed), 5) for seed in (b"a", b"b")]
    left, right = groups.g1.scale(groups.p, scalars[0]), groups.g2.scale(groups.q, scalars[1])
    total = groups.gt.scale(groups.g, groups.integers(np.array([0])))
    for i in range(5):
        power = groups.gt.scale(groups.g, scalars[0][i : i + 1])
        total = groups.gt.add(total, groups.gt.scale(power, scalars[1][i : i + 1]))
    assert np.array_equal(groups.multi_pairing(left, right), total)


def test_elements_survive_the_wire(groups: Curve) -> None:
    scalars = groups.scalars(Randomness(b"wire"), 4)
    for group, base in ((groups.g1, groups.p), (groups.g2, groups.q), (groups.gt, groups.g)):
        elements = group.scale(base, scalars)
        data = group.write(elements)
        assert len(data) == 4 * group.size
        assert group.write(group.read(data, 4)) == data
        with pytest.raises(MessageError):
            group.read(data[:-1], 4)
        with pytest.raises(MessageError):
            group.read(b"\xff" * len(data), 4)


def test_points_off_the_group_are_refused(groups: Curve) -> None:
    noise = np.random.default_rng(5)
    for group in (groups.g1, groups.g2):
        accepted = 0
        for _ in range(60):
            # Small coordinates are canonical; half of them lie on the curve of G2, almost none in its subgroup.
            data = bytearray(group.size)
            data[2:10] = noise.bytes(8)
            try:
                group.read(bytes(data), 1)
                accepted += 1
            except MessageError:
                pass
        if group is groups.g2 or groups.name == "bls12-381":
            assert accepted == 0


def test_elements_of_the_field_that_are_not_in_gt_are_refused(groups: Curve) -> None:
    one = bytearray(groups.gt.write(groups.gt.scale(groups.g, groups.integers(np.array([0])))))
    groups.gt.read(bytes(one), 1)
    minus_one = bytearray(one)
    prime = {
        "bn254": 0x2523648240000001BA344D80000000086121000000000013A700000000000013,
        "bls12-381": int(
            "1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab", 16
        ),
    }[groups.name]
    width = groups.gt.size // 12
    minus_one[:width] = (prime - 1).to_bytes(width, "little")
    with pytest.raises(MessageError, match="prime order"):
        groups.gt.read(bytes(minus_one), 1)
    with pytest.raises(MessageError, match="prime order"):
        groups.gt.read(bytes(one[:-1]) + b"\x01", 1)
    with pytest.raises(MessageError, match="canonical"):
        groups.gt.read(prime.to_bytes(width, "little") + bytes(one[width:]), 1)


@pytest.mark.parametrize("reach", [1, 2, 50, 10_000])
@pytest.mark.parametrize("count", [1, 7])
def test_logarithms_are_found_to_the_edge_and_not_beyond(reach: int, count: int) -> None:
    groups = curve("bn254")
    table = SmallLogarithm(groups, reach, count)
    values = np.array(sorted({-reach, -reach + 1, -1, 0, 1, reach - 1, reach, reach // 3}))
    powers = groups.gt.scale(groups.g, groups.integers(values))
    assert np.array_equal(table.solve(powers), values)
    for beyond in (reach + 1, -reach - 1, 10 * reach + 7, 1 << 50):
        with pytest.raises(ProductError, match="must be within"):
            table.solve(groups.gt.scale(groups.g, groups.integers(np.array([beyond]))))


def test_a_wide_logarithm_takes_many_batches() -> None:
    groups = curve("bn254")
    values = np.array([123_456_789, -999_999_999])
    table = SmallLogarithm(groups, 1_000_000_000, 1)
    assert np.array_equal(table.solve(groups.gt.scale(groups.g, groups.integers(values))), values)


@needs_pymcl
def test_the_stronger_curve_gives_the_same() -> None:
    session = Session.make(parties=3, rows=10)
    made = [partial(kind, curve="bls12-381") for kind in (BgnParty, BgnServer)]
    assert np.array_equal(run(session, *made), session.expected())


def test_small_parcels_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "BLOCK_BYTES", 1500)
    monkeypatch.setattr(layout, "CHUNK", 2)
    session = Session.make(parties=3, rows=9)
    assert np.array_equal(run(session, BgnParty, BgnServer), session.expected())


def test_the_size_of_the_issue() -> None:
    session = Session.make(parties=3, rows=500, widths=(2, 2, 2), bound=127, noise=100_000)
    assert np.array_equal(run(session, BgnParty, BgnServer), session.expected())


def test_all_but_one_partial_decryptions_open_nothing() -> None:
    session = Session.make(parties=3, rows=10)
    relay = Relay(session, BgnParty, BgnServer)
    given = relay.contributions()
    with pytest.raises(ProductError, match="needs all 3"):
        relay.open(given[:2])
    neutral = curve("bn254").gt.scale(curve("bn254").g, curve("bn254").integers(np.array([0])))
    count = len(session.expected())
    body = curve("bn254").gt.write(np.repeat(neutral, count, axis=0))
    blank = replace(given[2], payload=pack(session.spec, "open", "party 2", SERVER, 0, body))
    with pytest.raises(ProductError, match="must be within"):
        relay.open([*given[:2], blank])
    with pytest.raises(MessageError):
        relay.open([given[0], given[0], given[2]])
    assert np.array_equal(relay.open(given), session.expected())


def test_without_the_noise_of_one_party_nothing_opens() -> None:
    """A server that leaves one party's blinding out of the sum is left with a power of that party's key share."""
    session = Session.make(parties=2, rows=8)
    gt = curve("bn254").gt
    neutral = gt.write(np.repeat(gt.scale(curve("bn254").g, curve("bn254").integers(np.array([0]))), 2, axis=0))

    def leave_out(parcel: Sent) -> Iterator[Sent]:
        if parcel.round == "blind" and parcel.sender == "party 1" and parcel.recipient == SERVER:
            parcel = replace(parcel, payload=pack(session.spec, "blind", "party 1", SERVER, 0, neutral))
        yield parcel

    relay = Relay(session, BgnParty, BgnServer, tamper=leave_out)
    assert len(session.expected()) == 2
    with pytest.raises(ProductError, match="must be within"):
        relay.open(relay.contributions())


def test_no_side_ever_holds_the_exact_product_as_a_power() -> None:
    session = Session.make(parties=3, rows=8, noise=5000)
    groups = curve("bn254")
    exact, noisy = (
        {row.tobytes() for row in groups.gt.scale(groups.g, groups.integers(values))}
        for values in (session.exact(), session.expected())
    )
    found: set[bytes] = set()

    def look(parcel: Sent) -> Iterator[Sent]:
        yield parcel
        for side in (*relay.parties, relay.server):
            for array in arrays(side):
                if array.ndim == 2 and array.shape[1] == groups.gt.words:
                    found.update(row.tobytes() for row in array)

    relay = Relay(session, BgnParty, BgnServer, tamper=look)
    relay.open(relay.contributions())
    assert len(found) > 20
    assert not found & exact
    assert not found & noisy


def test_noise_shares_leave_under_fresh_randomness() -> None:
    """Against neutral c3 and c4, which leave nothing of the key share, the answer is the encrypted noise alone."""
    session = Session.make(parties=2, rows=6, widths=(2, 3), noise=0)
    groups = curve("bn254")
    gt, count = groups.gt, 6
    neutral = gt.write(gt.scale(groups.g, groups.integers(np.array([0]))))

    def bare(parcel: Sent) -> Iterator[Sent]:
        if parcel.sender == SERVER:
            payload = pack(session.spec, parcel.round, SERVER, parcel.recipient, 0, 3 * count * neutral)
            parcel = replace(parcel, payload=payload)
        yield parcel

    relay = Relay(session, BgnParty, BgnServer, tamper=bare)
    relay.rounds()
    answers = [s.payload[HEADER.size :] for s in relay.sent if s.round == "blind" and s.sender == "party 0"]
    assert [len(answer) for answer in answers] == [count * gt.size] * 2
    rows = [answer[i : i + gt.size] for answer in answers for i in range(0, len(answer), gt.size)]
    assert len({neutral, *rows}) == 2 * count + 1


def test_forged_elements_with_right_digests_are_refused() -> None:
    session = Session.make(parties=2, rows=6)
    for round, sender, recipient in (
        ("keys", "party 0", "party 1"),
        ("encrypt", "party 0", SERVER),
        ("encrypt", SERVER, "party 0"),
        ("blind", "party 0", SERVER),
        ("blind", "party 1", "party 0"),
    ):

        def forge(parcel: Sent, target: tuple[str, str, str] = (round, sender, recipient)) -> Iterator[Sent]:
            if (parcel.round, parcel.sender, parcel.recipient) == target:
                body = bytearray(parcel.payload[HEADER.size :])
                body[:8] = b"\x01" * 8
                body[-32:] = b"\xee" * 32
                payload = pack(session.spec, parcel.round, parcel.sender, parcel.recipient, 0, bytes(body))
                parcel = replace(parcel, payload=payload)
            yield parcel

        with pytest.raises(MessageError, match=r"must be a canonical encoding|prime order"):
            Relay(session, BgnParty, BgnServer, tamper=forge).rounds()


def test_neutral_key_shares_are_refused() -> None:
    session = Session.make(parties=2, rows=6)
    groups = curve("bn254")
    body = bytes(groups.g1.size + groups.g2.size)

    def forge(parcel: Sent) -> Iterator[Sent]:
        yield replace(parcel, payload=pack(session.spec, parcel.round, parcel.sender, parcel.recipient, 0, body))

    with pytest.raises(MessageError, match="neutral"):
        Relay(session, BgnParty, BgnServer, tamper=forge).rounds()


def test_equal_entries_have_unequal_ciphertexts() -> None:
    session = Session.make(parties=2, rows=30)
    session.data[0].fill(3)
    relay = Relay(session, BgnParty, BgnServer)
    relay.rounds()
    (sealed,) = (s for s in relay.sent if s.round == "encrypt" and s.sender == "party 0")
    body, size = sealed.payload[HEADER.size :], curve("bn254").g1.size
    points = {body[i : i + size] for i in range(0, len(body), size)}
    assert len(points) == 60


def test_secrets_are_wiped() -> None:
    relay = Relay(Session.make(parties=2, rows=6), BgnParty, BgnServer)
    relay.contributions()
    for party in relay.parties:
        assert isinstance(party, BgnParty)
        assert not party._z1.any()
        assert not party._z2.any()
        assert not party._noise.any()


def test_gain_and_masks_must_fit() -> None:
    session = Session.make(parties=2, rows=6, gain=2)
    with pytest.raises(ProductError, match="gain must be 1"):
        BgnServer(session.spec)
    relay = Relay(Session.make(parties=2, rows=6), BgnParty, BgnServer)
    given = relay.contributions()
    with pytest.raises(ProductError, match="mask is missing"):
        relay.server.open(given[0].vector + np.uint64(1), [c.payload for c in given])
    with pytest.raises(ProductError, match="the curve must be one of"):
        BgnServer(relay.session.spec, curve="p256")


def test_without_crosses_nothing_is_sent() -> None:
    session = Session.make(parties=1, rows=6)
    relay = Relay(Session(session.spec, session.data, session.noise), BgnParty, BgnServer)
    (given,) = relay.contributions()
    assert relay.sent == []
    assert len(given.payload) == layout.planned_bytes(session.spec, 0) == 0
    assert relay.open([given]).size == 0
    assert predicted_seconds(session.spec) == 0


def test_predicted_cost_is_near_the_measured_one() -> None:
    session = Session.make(parties=2, rows=150, widths=(2, 2))
    costs = calibrate(time.process_time)
    start = time.process_time()
    run(session, BgnParty, BgnServer)
    spent = time.process_time() - start
    assert 1 / 3 < predicted_seconds(session.spec, costs=costs) / spent < 3
    large = replace(session.spec, rows=45_000)
    assert predicted_seconds(large, "bls12-381") > predicted_seconds(large) > 100 * predicted_seconds(session.spec)
    assert set(MEASURED) == set(CURVES)

"""The lattice product: right sums, uniform words, exact transforms, and nothing that is not re-randomised."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from itertools import combinations, product
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from benchmarks.columns import resident
from colonnade.crypto.lattice import kernels, work
from colonnade.crypto.lattice import parameters as lattice_plan
from colonnade.crypto.lattice import party as lattice
from colonnade.crypto.lattice.frames import START, parcel_places
from colonnade.crypto.lattice.parameters import (
    ERROR_VARIANCE,
    MODULUS_BITS,
    TAU,
    N,
    Parameters,
    choose_parameters,
    error_factor,
    fft_error,
)
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.server import LatticeServer
from colonnade.crypto.lattice.words import PAIR_BITS, Planes, Scratch, rows_per_chunk, width
from colonnade.crypto.product import Cross
from colonnade.foundation.errors import MessageError, ProductError, ProtocolError
from colonnade.foundation.randomness import Randomness, Stream, derive
from tests.helpers.product_sessions import Relay, Sent, Session, run


def error_std(rows: int, bound: int) -> float:
    """Of e'y + ep'rho - s'e1 + e2, by the variances of the laws: 10.5 of e and ep, 1 of s, 42.5 of rho and e1."""
    return sqrt(10.5 * rows * bound**2 + 2048 * (10.5 + 1) * 42.5 + 4 * (4096**2 - 1) / 12)


VECTORS = Path(__file__).parents[2] / "vectors" / "lattice.json"


def relay(session: Session, seed: bytes = b"relay", **settings: object) -> Relay:
    return Relay(session, LatticeParty, LatticeServer, seed=seed, **settings)  # type: ignore[arg-type]


def session(parties: int = 2, rows: int = 3000, **settings: object) -> Session:
    chosen = {"bound": 7, "modulus_bits": 40, "gain": 600, "noise": 0} | settings
    return Session.make(parties=parties, rows=rows, **chosen)  # type: ignore[arg-type]


def sealed_words(made: Relay) -> NDArray[np.uint64]:
    """All words that travel in round seal, without the key's."""
    made.rounds()
    spec, found = made.session.spec, []
    for parcel in made.sent:
        if parcel.round == "seal":
            rows = (len(parcel.payload) - START) // width(spec.modulus_bits)
            found.append(Planes.read(memoryview(parcel.payload)[START:], (1, rows), spec.modulus_bits).words())
    return np.concatenate([words.ravel() for words in found])


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize(("bound", "bits", "most"), [(7, 40, 505_170), (127, 44, 4_285_170)])
def test_the_sum_of_shares_is_the_product_within_the_stated_error(
    parties: int, bound: int, bits: int, most: int
) -> None:
    """At most 4500 bound 7 + 2048 (7 + 2) 15 + 2 4095 (proofs/no_wrap.md)."""
    given = session(parties, rows=4500, bound=bound, modulus_bits=bits, widths=tuple(range(2, parties + 2)), noise=9)
    error = run(given, LatticeParty, LatticeServer) - given.expected()
    std = error_std(4500, bound)
    assert np.abs(error).max() <= min(most, 5 * std)
    # The statement is not idle: half of it would be passed.
    assert np.sqrt(np.mean(np.square(error))) > 0.25 * std


@pytest.mark.parametrize("bits", MODULUS_BITS)
def test_every_modulus_opens_right(bits: int) -> None:
    bound = 2 if bits < 36 else 2**10
    given = session(rows=2100, bound=bound, modulus_bits=bits, gain=100 if bits < 36 else 1, widths=(3, 2))
    error = run(given, LatticeParty, LatticeServer) - given.expected()
    assert np.abs(error).max() <= 5 * error_std(2100, bound)


@pytest.mark.parametrize("rows", [1, 2047, 2048, 2049, 4096])
def test_any_number_of_rows(rows: int) -> None:
    given = session(3, rows=rows)
    error = run(given, LatticeParty, LatticeServer) - given.expected()
    assert np.abs(error).max() <= 5 * error_std(rows, 7)


def test_crosses_of_some_columns_in_any_direction() -> None:
    given = session(3, rows=2500, widths=(6, 5, 4))
    crosses = (Cross(0, 1, 1, 3, 2, 5), Cross(0, 1, 4, 6, 0, 1), Cross(2, 0, 0, 4, 5, 6), Cross(1, 2, 3, 4, 1, 3))
    noise = [{cross: np.full(cross.shape, 1000) for cross in crosses} for _ in range(3)]
    given = Session(replace(given.spec, crosses=crosses), given.data, list(noise))
    error = run(given, LatticeParty, LatticeServer) - given.expected()
    assert np.abs(error).max() <= 5 * error_std(2500, 7)


def test_sealed_words_and_shares_are_uniform() -> None:
    given = session(rows=20_000, widths=(60, 60), bound=1, gain=1)
    made = relay(given)
    words = sealed_words(made)
    assert len(words) > 1_200_000
    shares = [relay(given, seed=b"%d" % i).contributions() for i in range(3)]
    for found in (words, *(np.concatenate([parts[k].vector for parts in shares]) for k in range(2))):
        for shift in (0, 8, 16, 24, 32):
            byte = (found >> np.uint64(shift)) & np.uint64(255)
            assert stats.chisquare(np.bincount(byte.astype(np.int64), minlength=256)).pvalue > 1e-6


def test_sealed_words_without_secrets_would_not_be_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice, "draw_secrets", lambda randomness, columns: np.zeros((columns, N), np.int8))
    words = sealed_words(relay(session(rows=5000, bound=1, gain=1)))
    top = (words >> np.uint64(32)) & np.uint64(255)
    assert stats.chisquare(np.bincount(top.astype(np.int64), minlength=256)).pvalue < 1e-100


def test_the_same_columns_sealed_twice_differ_everywhere() -> None:
    given = session(rows=5000, widths=(4, 1))
    one, two = sealed_words(relay(given, seed=b"one")), sealed_words(relay(given, seed=b"two"))
    assert np.mean(one == two) < 1e-3


def multiply_parcels(given: Session, seed: bytes) -> list[bytes]:
    made = relay(given, seed=seed)
    made.rounds()
    return [parcel.payload for parcel in made.sent if parcel.round == "multiply"]


def test_u_is_fresh_though_its_columns_and_elements_are_the_same() -> None:
    given = session(rows=3000, widths=(1, 3))
    assert multiply_parcels(given, b"one") != multiply_parcels(given, b"two")


def test_u_without_re_randomisation_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice, "draw_wide", lambda randomness, count: np.zeros(count, np.int8))
    # Without rho and e1, u is a function of y and public elements: the test above must fail on it.
    given = session(rows=3000, widths=(1, 3))
    assert multiply_parcels(given, b"one") == multiply_parcels(given, b"two")


def test_u_is_exact() -> None:
    given = session(rows=5000, widths=(1, 2), bound=127, modulus_bits=44)
    party = relay(given).parties[1]
    assert isinstance(party, LatticeParty)
    rho, e1 = party._rho.copy(), lattice.draw_wide(party._randomness["multiply"], 2 * N).reshape(2, N)
    party._randomness["multiply"] = Randomness(b"relay1").child(f"lattice multiply {given.spec.session.hex()}")
    lattice.draw_wide(party._randomness["multiply"], 2 * N)
    (parcel,) = list(party.send("multiply"))
    words = Planes.read(memoryview(parcel.payload)[START:], (2, N), 44).words()
    a = Stream(derive(given.spec.session, "lattice elements")).words(4 * N).reshape(4, N)
    padded = np.zeros((4 * N, 2), np.int64)
    padded[:5000], padded[3 * N :] = given.data[1], rho.T
    order = np.arange(N).reshape(2, N // 2).T.ravel()
    place = np.argsort(order)
    for column in range(2):
        total = np.zeros(N, np.uint64)
        for block in range(4):
            natural, y = a[block][place], padded[block * N : (block + 1) * N, column][place].view(np.uint64)
            for i in np.flatnonzero(y):
                turned = np.concatenate([natural[i:], np.uint64(0) - natural[:i]])
                total += turned * y[i]
        expected = total[order] + e1[column].astype(np.int64).view(np.uint64)
        assert np.array_equal(words[column], expected & np.uint64(2**44 - 1))


def test_observed_distances_to_integers_stay_under_the_bound() -> None:
    randomness = Randomness(b"distances")
    s = lattice.draw_secrets(randomness, 40).astype(np.float64)
    pairs = s[::2] + 2.0**PAIR_BITS * s[1::2]
    for bits, keys in ((lattice_plan.LOW_BITS, s), (lattice_plan.PAIR_LIMB, pairs)):
        limb = kernels.limbs(randomness.words(8 * N).reshape(8, N), (bits,))[0]
        floats = kernels.backward(kernels.forward(limb)[:, None] * kernels.forward(keys.copy()).conj())
        distance = np.abs(floats - np.rint(floats)).max()
        largest = sqrt(1.25 * N) * (1 if keys is s else 1 + 2.0**PAIR_BITS)
        bound = fft_error(lattice_plan.uniform_norm(bits, N), largest)
        assert np.sqrt(np.square(keys).sum(axis=1)).max() < largest
        assert 0 < distance < bound / 4
        assert bound < 0.5


def test_twists_are_within_the_bound_that_exactness_needs() -> None:
    angle = np.arccos(np.longdouble(-1)) * np.arange(N // 2) / np.longdouble(N)
    for twist, turn in ((kernels._TWIST, 1), (kernels._UNTWIST * (N / 2), -1)):
        error = np.hypot(twist.real - np.cos(angle), twist.imag - turn * np.sin(angle))
        assert 0 < error.max() < 3 * 2.0**-53  # fft_error assumes 4


def test_a_priori_bounds_grow_with_what_they_bound() -> None:
    assert fft_error(1e12, 50) == pytest.approx(1e12 * 50 * 163 * 2.0**-53, rel=0.02)
    assert fft_error(1e12, 50, terms=100) > fft_error(1e12, 50)
    one_bit_more = fft_error(lattice_plan.uniform_norm(lattice_plan.LOW_BITS + 1, N), sqrt(1.25 * N))
    assert one_bit_more > 0.5
    for bits in MODULUS_BITS:
        assert sum(lattice_plan.seal_limbs(bits)) == bits
        for bound in (1, 7, 127, 2047):
            limbs, blocks = lattice_plan.multiply_limbs(bits, bound)
            assert sum(limbs) == bits
            assert fft_error(lattice_plan.uniform_norm(max(limbs), blocks * N), bound * sqrt(blocks * N), blocks) < 0.5


def test_distributions_are_as_stated() -> None:
    randomness, count = Randomness(b"draws"), 1 << 20
    cases = [
        (work.draw_errors(randomness, count), TAU, ERROR_VARIANCE),
        (lattice.draw_wide(randomness, count), lattice_plan.WIDE_BOUND, lattice_plan.WIDE_VARIANCE),
        (lattice.draw_secrets(randomness, count // N).ravel(), lattice_plan.SECRET_BOUND, 1.0),
        (lattice.draw_hints(randomness, count), lattice_plan.HINT_BOUND, lattice_plan.HINT_VARIANCE),
    ]
    for drawn, most, variance in cases:
        values = drawn.astype(np.float64)
        assert np.abs(values).max() <= most
        assert abs(values.mean()) < 5 * sqrt(variance / count)
        assert values.var() == pytest.approx(variance, rel=0.01)
        # A planted 2% error of the variance would be seen.
        assert values.var() != pytest.approx(1.02 * variance, rel=0.01)
    assert ERROR_VARIANCE >= lattice_plan.ERROR_STD**2
    assert {*np.unique(cases[0][0]).tolist()} == {*range(-7, 8)}


@pytest.mark.parametrize(("bits", "bound"), [(32, 7), (40, 7), (40, 127), (44, 2047), (51, 2047), (51, 1)])
def test_exact_products_at_the_worst_case(bits: int, bound: int) -> None:
    rows = 6000
    words = np.full((3, rows), 1 << (bits - 1), np.uint64)
    words[1], words[2] = (1 << (bits - 1)) - 1, (1 << bits) - 1
    planes = Planes.empty((3, rows), bits, Scratch())
    planes.write(slice(None), 0, words)
    assert np.array_equal(planes.words(), words)
    small = np.full((rows, 2), bound)
    small[:, 1] = -bound
    product = planes.times(small.astype(np.float64), bound, Scratch())
    expected = [[sum(int(w) for w in row) * int(y) % 2**bits for y in small[0]] for row in words]
    assert (product & np.uint64(2**bits - 1)).tolist() == expected
    assert rows_per_chunk(bits, bound) * bound << (bits - 1) <= 2**53


def test_parameters_hold_what_they_promise() -> None:
    for rows, bound, noise, columns in ((80_000, 7, 1.6e5, 800), (45_000, 127, 2e6, 41), (370_000, 127, 9e5, 14)):
        chosen = choose_parameters(rows, bound, noise, int(10 * noise), columns)
        assert chosen.error_std <= 0.01 * chosen.gain * noise
        assert error_factor(chosen, bound, 1) <= 1 + Fraction(2, 256)
        assert error_factor(chosen, bound, 1) == 1 + Fraction(2 * chosen.tau, chosen.gain * bound)
        assert chosen.gain * (rows * bound**2 + int(10 * noise)) < chosen.reach < 1 << (chosen.modulus_bits - 1)
        assert chosen.security >= 128
        # A smaller modulus would not do.
        smaller = (1 << (chosen.modulus_bits - 2)) // (rows * bound**2 + int(10 * noise))
        assert chosen.modulus_bits == 32 or smaller < max(7 * 256 / bound, 100 * chosen.error_std / noise)
    many = choose_parameters(10_000, 127, 1e6, 10**7, 50, levels=40)
    assert error_factor(many, 127, 40) <= 1 + Fraction(2, 256)


def sensitivity(owners: list[NDArray[np.float64]], error: float) -> float:
    """The largest L1 change of all products of two parties, over records from the rows given and errors at corners."""
    places = np.cumsum([0] + [rows.shape[1] for rows in owners])
    records = np.array([np.concatenate(choice) for choice in product(*owners)])
    largest = 0.0
    for signs in product((-error, error), repeat=places[-1]) if error else [(0.0,) * places[-1]]:
        total = np.zeros((len(records), len(records)))
        for k, m in combinations(range(len(owners)), 2):
            for i, j in product(range(places[k], places[k + 1]), range(places[m], places[m + 1])):
                entry = (records[:, i] + signs[i]) * records[:, j]
                total += np.abs(entry[:, None] - entry)
        largest = max(largest, total.max())
    return largest


@pytest.mark.parametrize(
    ("levels", "growth"),
    [((1, 1), 1.0), ((3, 1), 1.0), ((1, 3), 1.0), ((3, 3), 1.0), ((1, 1, 1), 1.5), ((1,) * 4, 1.25)],
)
def test_error_factor_bounds_moved_data(levels: tuple[int, ...], growth: float) -> None:
    # Entries are linear in each coordinate, so corners suffice: a number at -1 or 1, or one level of several.
    owners = [np.array([[-1.0], [1.0]]) if count == 1 else np.eye(count) for count in levels]
    chosen = Parameters(40, 1000, TAU, 1, 1.0, 173)
    error = chosen.tau / chosen.gain
    ratio = sensitivity(owners, error) / sensitivity(owners, 0.0)
    sealed = max(levels[:-1])
    assert ratio <= error_factor(chosen, 1, sealed)
    assert ratio == pytest.approx(1 + growth * sealed * error)


def test_what_cannot_be_secure_is_refused() -> None:
    with pytest.raises(ProductError, match="128 bits"):
        choose_parameters(10**7, 2047, 10.0, 100, 10)
    with pytest.raises(ProductError, match="columns"):
        choose_parameters(1000, 7, 1e6, 10**7, 20_000)
    for bits in (31, 52, 60):
        given = session(rows=10)
        with pytest.raises(ProductError, match="modulus_bits"):
            LatticeServer(replace(given.spec, modulus_bits=bits, reach=1000))


def test_hints_of_a_large_error_are_counted() -> None:
    """A quarter of the noise on 70 columns leaves 123 bits at 2^51 by the estimator: refused, or a finer product."""
    rows, bound, noise = 400_000_000, 511, 2.2e7

    def chosen(hints: int, noise: float = noise) -> Parameters:
        return choose_parameters(rows, bound, noise, int(10 * noise), 70, share=Fraction(1, 4), hints=hints)

    few = chosen(2)
    assert few.modulus_bits == 51 and 0.1 < few.error_std / (few.gain * noise) < 0.25 and few.security >= 128
    with pytest.raises(ProductError, match=r"on 70 columns, tells .* a modulus of 2\^51 has 12[2-6] bits of security"):
        chosen(70)
    assert chosen(70, 8 * noise).security >= 128


def test_the_security_page_has_the_estimates_that_the_code_reads() -> None:
    """The hints shrink secret and error; the code's estimate is at most the page's, and at most three bits below."""
    page = (Path(__file__).parents[3] / "docs" / "secure-product.md").read_text(encoding="utf-8")
    table = page[page.index("| widths of secret and error |") :].split("\n\n")[0].split("\n")
    head, _, *rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table]
    moduli = [int(cell.removeprefix("2^")) for cell in head[1:]]
    for row, share, hints in zip(rows[1:], (0.01, 0.25, 0.25), (800, 20, 70), strict=True):
        secret, error = lattice_plan.hinted_stds(1.0, sqrt(ERROR_VARIANCE), hints, share)
        told = [float(width) for width in row[0].split(":")[0].split(",")]
        # The last of them is rounded to one digit.
        assert secret == pytest.approx(told[0], rel=0.05) and error == pytest.approx(told[1], rel=0.02)
        known = {bits: int(cell) for bits, cell in zip(moduli, row[1:], strict=True) if cell}
        assert known
        for bits, estimated in known.items():
            assert estimated - 3.5 < lattice_plan.security(bits, hints, share) <= estimated


def test_a_party_answers_once_and_keeps_no_secrets() -> None:
    made = relay(session(rows=100, noise=50))
    party = made.parties[0]
    assert isinstance(party, LatticeParty)
    made.rounds()
    with pytest.raises(ProtocolError, match="once"):
        party.send("seal")
    assert party._secrets.any()
    shown = repr(party)
    party.contribute()
    held = (party._secrets, party._rho, *party._kept.values(), *party._returned.values(), *party._noise.values())
    assert not any(array.any() for array in held)
    assert not party._randomness
    assert "array" not in shown
    with pytest.raises(ProductError):
        party.contribute()


def test_header_fields_are_named_when_they_are_wrong() -> None:
    given = session(rows=5000, widths=(2, 2))
    made = relay(given)
    made.rounds()
    seal = next(parcel for parcel in made.sent if parcel.round == "seal")
    multiply = next(parcel for parcel in made.sent if parcel.round == "multiply")
    other = relay(session(rows=5000, widths=(2, 2), modulus_bits=44))
    other.session.spec = replace(other.session.spec, session=given.spec.session)
    other = relay(other.session)
    other.rounds()
    fresh = relay(given).parties[1]
    for payload, match in (
        (next(parcel.payload for parcel in other.sent if parcel.round == "seal"), "modulus_bits=40"),
        (multiply.payload, "round=0"),
        (seal.payload[:-1], "bytes"),
        (seal.payload[:20], "header"),
        (b"CLa0" + seal.payload[4:], "format"),
    ):
        with pytest.raises(MessageError, match=match):
            fresh.receive("seal", seal.sender, payload)
    fresh.receive("seal", seal.sender, seal.payload)


def test_every_flipped_bit_raises() -> None:
    given = session(rows=30, widths=(1, 1))

    def flip(parcel: Sent) -> Iterator[Sent]:
        if parcel.round == "seal" and len(parcel.payload) < 400:
            for place in range(8 * len(parcel.payload)):
                changed = bytearray(parcel.payload)
                changed[place // 8] ^= 1 << place % 8
                yield replace(parcel, payload=bytes(changed), bad=True)
        yield parcel

    made = relay(given, tamper=flip)
    error = made.open(made.contributions()) - given.expected()
    assert np.abs(error).max() <= 5 * error_std(30, 7)


def test_parcels_stay_small_and_take_the_planned_bytes() -> None:
    for columns, rows in ((1, 10**6), (7, 370_000), (400, 80_000), (3000, 10_000)):
        found = parcel_places(columns, rows)
        assert sum(slot.rows * slot.columns for slot in found) == (rows + N) * columns
        assert max(slot.rows * slot.columns * 7 + START for slot in found) <= 32_000_000
    given = session(3, rows=5000, widths=(2, 3, 4))
    made = relay(given)
    made.rounds()
    for me, name in enumerate(given.spec.parties):
        sent = sum(len(parcel.payload) for parcel in made.sent if parcel.sender == name)
        assert sent == lattice.planned_bytes(given.spec, me)


def test_vectors() -> None:
    """What a seeded session sends and opens has not changed: `tests/vectors/lattice.json`."""
    for case in json.loads(VECTORS.read_text())["cases"]:
        given = session(**case["session"])
        made = relay(given, seed=case["seed"].encode())
        contributions = made.contributions()
        assert [sha256(parcel.payload).hexdigest() for parcel in made.sent] == case["parcels"]
        assert [sha256(part.vector.astype("<u8").tobytes()).hexdigest() for part in contributions] == case["shares"]
        assert made.open(contributions).tolist() == case["opened"]


def test_columns_that_do_not_fit_are_refused() -> None:
    given = session(rows=50)
    with pytest.raises(ProductError, match="rows"):
        LatticeParty(given.spec, 0, resident(given.data[0][1:]), given.noise[0], Randomness(b"x"))
    large = replace(given.spec, gain=1 << 29, modulus_bits=51, reach=1 << 49)
    with pytest.raises(ProductError, match="gain"):
        LatticeParty(large, 0, resident(given.data[0]), given.noise[0], Randomness(b"x"))

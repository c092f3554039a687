"""Every stage against values from outside the package; `tests/vectors/README.md` has their derivations."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from itertools import product
from math import log, log2, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from colonnade.crypto.alignment import code
from colonnade.crypto.alignment.sizes import blinding_rows
from colonnade.crypto.lattice import parameters as lattice_parameters
from colonnade.crypto.lattice import party as lattice_party
from colonnade.crypto.lattice import words, work
from colonnade.crypto.lattice.frames import START, parcel_places
from colonnade.crypto.lattice.kernels import NumpyKernels
from colonnade.crypto.lattice.parameters import (
    Parameters,
    chain_gain,
    chain_move,
    choose_parameters,
    error_factor,
    fft_error,
    hint_error_std,
    lattice_error,
    multiply_limbs,
    seal_limbs,
    uniform_norm,
)
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.security import entropy, key_bits, readable_coefficients
from colonnade.crypto.lattice.server import LatticeServer
from colonnade.crypto.lattice.words import Planes, Scratch
from colonnade.crypto.masks import MaskKeys
from colonnade.crypto.plain import PlainServer
from colonnade.crypto.product import Cross, ProductSpec
from colonnade.data.gate import Coding, code_block
from colonnade.foundation.errors import BrokenError, LedgerError, ProductError
from colonnade.foundation.grid import Grid
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric
from colonnade.foundation.sums import SumsOfBlocks
from colonnade.mechanism.accounting import epsilon_of_gaussian, epsilon_of_rho, gaussian_rho, zcdp_rho
from colonnade.mechanism.blocks import IntegerNoise, exact_block
from colonnade.mechanism.composition import Cap, Charge, Rule, require_room, rho_of_pure, total
from colonnade.mechanism.defects import epsilon_in_spite
from colonnade.mechanism.dissection import Block, dissect, traces
from colonnade.mechanism.moments import Distribution, Encoding, Role
from colonnade.mechanism.monomials import product_slack
from colonnade.mechanism.noise import gaussian_sum_slack, laplace_share, quantile_reach
from colonnade.mechanism.objective import Calibration, Objective, Task, paper_objective
from colonnade.mechanism.plan import Terms, _square_slack
from colonnade.mechanism.release import ReleasedBlock, ReleaseRecord
from colonnade.mechanism.sensitivity import sensitivity
from colonnade.mechanism.shares import narrow_shares
from colonnade.planning.precision import farthest
from colonnade.planning.precision import require_room as require_room_in_words
from colonnade.planning.session_plan import plan_session
from tests.helpers.adversary import layout_from, signed_layout
from tests.helpers.product_sessions import Session, run
from tests.helpers.sessions import agreement_of
from tests.vectors import derive

VECTORS = Path(__file__).parents[1] / "vectors"
KNOWN: dict[str, Any] = json.loads((VECTORS / "stages.json").read_text())
Words = NDArray[np.uint64]


def test_vectors_are_derived_without_the_package() -> None:
    tree = ast.parse((VECTORS / "derive.py").read_text())
    imported = {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    imported |= {alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names}
    assert not {name for name in imported if name.partition(".")[0] in ("colonnade", "tests", "numpy", "scipy")}
    assert json.loads(json.dumps(derive.stages())) == KNOWN


def test_rounding() -> None:
    told = KNOWN["rounding"]
    layout = signed_layout([1], label=None)
    coding = Coding(
        "A", {"a0": Numeric(told["low"], told["high"])}, layout.attributes, Grid(7), bytes.fromhex(told["coins"])
    )
    values = np.array(told["values"])
    tossed = [word | 1 for word in derive.words(derive.stream(coding.coins, 4 * len(values)), 4)]
    for first in (0, 5):
        assert coding.toss(first, len(values)).ravel().tolist() == tossed[first:]
    block = code_block(coding, {"a0": values}, 0, len(values))
    assert block.rows.ravel().tolist() == told["rows"]
    assert block.products[0, 1] == 7 * told["sum"] and block.products[1, 1] == told["squares"]
    assert block.excess[0] == pytest.approx(told["excess"], abs=1e-12)
    sums = SumsOfBlocks(1, None)
    sums.add(block.products, block.excess)
    square = Block(("A",), Role.FEATURE, np.array([[1, 1]]), np.ones(1))
    assert exact_block(square, sums.total, 1).values.tolist() == [told["released_square"]]


def test_slack_of_rounded_squares() -> None:
    """In L1 every square is 5/4 of a step, a trace of 12 a quarter for each and one: 4. A step is 1/B^2."""
    terms = Terms(Task.LINEAR, Calibration.EXACT, bound=7)
    layout = signed_layout([13], label=0)
    (trace,) = traces(layout, label_square=False)
    assert len(trace.weights) == 12
    square = Block(("A",), Role.FEATURE, np.array([[1, 1]]), np.ones(1))
    known = KNOWN["rounding"]["square_slack"]
    for block, (above, below) in ((square, known["one"]), (trace, known["of_12"])):
        assert _square_slack(layout, [(block, 1.0)], terms) == pytest.approx(above / below / 49, rel=1e-9)
        assert _square_slack(layout, [(block, 3.0)], terms) == pytest.approx(3 * above / below / 49, rel=1e-9)


def pairs_of(counts: list[int], *, square: bool, ordered: bool = False) -> tuple[Any, list[tuple[Block, float]]]:
    layout = signed_layout(counts, label=0)
    upper, lower = np.triu_indices(sum(counts))
    last = counts[0] - 1
    keep = square | ~((upper == last) & (lower == last))
    factors = np.stack([upper, lower], axis=1)[keep] + 1
    weights = np.where((upper == lower)[keep], 1.0, 2.0 if ordered else 1.0)
    return layout, [(b, 1.0) for b in dissect(Objective(layout, factors, weights))]


def test_sensitivity() -> None:
    known = {item["what"]: item["value"][0] / item["value"][1] for item in KNOWN["sensitivity"]}
    label = signed_layout([3])
    asked: dict[str, tuple[Any, list[tuple[Block, float]], str | None]] = {
        "distinct pairs of 3": (*pairs_of([3], square=True), None),
        "distinct pairs of 3 features and a label, its square left out": (*pairs_of([4], square=False), None),
        "ordered pairs of 5": (*pairs_of([5], square=True, ordered=True), None),
        "ordered pairs of 4, one of them replaced": (*pairs_of([1, 3], square=True, ordered=True), "A"),
        "logistic of 2 features": (label, [(b, 1.0) for b in dissect(paper_objective(label, Task.LOGISTIC))], None),
    }
    assert set(asked) == set(known)
    for what, (layout, blocks, owner) in asked.items():
        assert known[what] <= sensitivity(layout, blocks, Distribution.LAPLACE, owner) <= known[what] * (1 + 1e-7), what


def test_slack_of_rounded_products() -> None:
    """A party's own product of numbers is rounded once, two steps of 2/7 in all; the product's error is 1/8.

    At rate 3: a a c at weight 1/2 moves 3/2 (2/7 + 1/8) more, a c at weight -2 moves 6/8; of one party's own
    terms a square is summed as it is, and a cube moves 3 times 2/7.
    """
    layout = replace(signed_layout([2, 1]), any_terms=True)
    crossed = Block(("A", "B"), Role.FEATURE, np.array([[1, 1, 3], [0, 1, 3]]), np.array([0.5, -2.0]))
    single = Block(("A",), Role.FEATURE, np.array([[0, 1, 1], [1, 1, 1]]), np.ones(2))
    moved = [1.5 * (2 / 7 + 1 / 8), 6 / 8]
    for block, known in ((crossed, moved), (single, [3 * 2 / 7])):
        ask = [layout, [(block, 3.0)], Task.LINEAR]
        assert product_slack(*ask, Distribution.LAPLACE, 7, {2: 0.125}) == pytest.approx(sum(known), rel=1e-9)
        assert product_slack(*ask, Distribution.GAUSSIAN, 7, {2: 0.125}) == pytest.approx(
            sqrt(np.square(known).sum()), rel=1e-9
        )
    assert product_slack(signed_layout([2, 1]), [(crossed, 3.0)], Task.LINEAR, Distribution.LAPLACE, 7, {2: 0.125}) == 0


SIGNED, SIMPLEX = ("A", Encoding.SIGNED, 1, Role.FEATURE), ("B", Encoding.SIMPLEX, 3, Role.FEATURE)
LABEL = ("A", Encoding.SIGNED, 1, Role.LABEL)


@pytest.mark.parametrize(
    ("parts", "tight"),
    [
        ([SIGNED, SIMPLEX, LABEL], True),
        ([SIGNED, ("B", Encoding.SIGNED, 1, Role.FEATURE), ("B", Encoding.SIMPLEX, 2, Role.LABEL)], True),
        ([SIGNED, SIGNED, ("B", Encoding.SIMPLEX, 2, Role.FEATURE), ("B", *LABEL[1:])], True),
        ([("A", *SIMPLEX[1:]), ("B", Encoding.SIMPLEX, 2, Role.FEATURE), LABEL], False),
    ],
)
@pytest.mark.parametrize("rate", [1.0, 2.0])
def test_sensitivity_by_all_pairs_of_records(parts: Any, tight: bool, rate: float) -> None:
    """Numbers in {-1, 0, 1} and all levels, products of two parties at a rate of their own.

    No bound is below two such records, and none here is above 5/3 of them; where A, whose numbers are its own, changes
    its part, they reach it, but for a Gaussian beside a simplex of three levels.
    """
    layout = layout_from(parts)
    choices = [[(-1.0,), (0.0,), (1.0,)] if p[1] is Encoding.SIGNED else np.eye(p[2]).tolist() for p in parts]
    records = np.array([[1.0, *(v for part in record for v in part)] for record in product(*choices)])
    mine = np.repeat(["", *(p[0] for p in parts)], [1, *(p[2] for p in parts)])
    for task, law, owner in product((Task.LOGISTIC, Task.LINEAR), Distribution, (None, "A", "B")):
        blocks = [(b, 1.0 if b.single else rate) for b in dissect(paper_objective(layout, task))]
        sums = []
        for block, own_rate in blocks:
            if owner is None or owner in block.owners:
                sums.append(own_rate * block.weights * records[:, block.factors].prod(axis=2))
        moments = np.concatenate(sums, axis=1)
        fixed = records[:, (mine != owner) & (owner is not None)]
        alike = (fixed[:, None] == fixed[None]).all(axis=2)[..., None]
        moved = np.where(alike, np.abs(moments[:, None] - moments[None]), 0.0)
        most = moved.sum(axis=2).max() if law is Distribution.LAPLACE else sqrt(np.square(moved).sum(axis=2).max())
        found = sensitivity(layout, blocks, law, owner)
        assert most * (1 - 1e-12) <= found <= most * 5 / 3 * (1 + 1e-7)
        if tight and owner == "A" and (law is Distribution.LAPLACE or parts[1] is not SIMPLEX):
            assert found <= most * (1 + 1e-7)


def test_share_of_noise() -> None:
    told = KNOWN["share of noise"]
    count = 200_000
    drawn = laplace_share(Fraction(told["scale"]), told["parts"], count, Randomness(b"vectors"))
    for x, p in enumerate(told["law"]):
        for side in {x, -x}:
            assert abs(float((drawn == side).mean()) - p) < 5 * sqrt(p * (1 - p) / count)
    # The kurtosis of the law is below 20: this is far more than five standard deviations of a sample's variance.
    assert float(drawn.var()) == pytest.approx(told["variance"], rel=0.06)
    reach = told["reach"]
    ask: Callable[..., int] = quantile_reach
    assert ask(Distribution.LAPLACE, Fraction(10), 1, 48) == reach["laplace 10, 1 value"]
    shared = {"parties": 3, "parts": 2}
    assert ask(Distribution.LAPLACE, Fraction(1000), 5, 48, **shared) == reach["laplace 1000, 5 values, 3 of 2 shares"]
    assert ask(Distribution.GAUSSIAN, Fraction(900), 5, 48, **shared) == reach["gaussian 900, 5 values, 3 of 2 shares"]
    slack = told["slack of 3 shares of variance 12"]
    assert float(gaussian_sum_slack(Fraction(12), 3)) == pytest.approx(slack, rel=1e-12)
    assert float(gaussian_sum_slack(Fraction(12), 3, 7)) == pytest.approx(7 * slack, rel=1e-12)


def test_noise_in_integers() -> None:
    told = KNOWN["share of noise"]["integer noise"]
    block = Block(("A",), Role.FEATURE, np.array([[1, 2]]), np.array([-0.5]))
    for law, key in ((Distribution.LAPLACE, "laplace"), (Distribution.GAUSSIAN, "gaussian")):
        ((spread, where),) = IntegerNoise.of(block, Fraction(5, 3), law, 49).spreads
        assert (spread, where.tolist()) == (Fraction(*told[key]), [0])


def test_shares_of_two_parties() -> None:
    """A party's part moves a or b, the record 1, all in proportion to the rates.

    Laplace, a = .49: .49/f <= 1 needs f = 32/64; a = .1: a quarter is the least. Gaussian, b = .79: two shares f and 1
    hide the record like one of sqrt(f^2 + 1), and 1/sqrt(f^2 + 1) <= .79 from f = .7761 on: 50/64. Were b less than
    1/sqrt(2), two whole shares would hide the record as that.
    """
    layout = signed_layout([1, 1])
    blocks = dissect(paper_objective(layout, Task.LOGISTIC))

    def narrowed(law: Distribution, a: float, b: float, collusion: int = 1) -> Any:
        moved = {None: 1.0, "A": a, "B": b}
        return narrow_shares(layout, blocks, law, collusion, lambda party, factor: moved[party] * factor)

    assert narrowed(Distribution.LAPLACE, 0.49, 0.8) == (1, {"A": Fraction(32, 64), "B": 1})
    assert narrowed(Distribution.LAPLACE, 0.8, 0.1) == (1, {"A": 1, "B": Fraction(16, 64)})
    assert narrowed(Distribution.GAUSSIAN, 0.5, 0.79) == (0.79, {"A": Fraction(50, 64), "B": 1})
    needed, shares = narrowed(Distribution.GAUSSIAN, 0.3, 0.4)
    assert needed == pytest.approx(sqrt(0.5), rel=1e-15) and set(shares.values()) == {1}
    assert narrowed(Distribution.LAPLACE, 0.49, 0.8, collusion=0) == (1, {})


def test_two_narrow_shares_hide_the_record_together() -> None:
    """B is moved by its own squares, whatever its share: .9. A's share goes down to f with 1/sqrt(f^2 + 1) <= .9,
    31/64; beside it B's must be whole, for 1/sqrt(f^2 + (31/64)^2) <= .9 asks .99998.
    """
    layout = signed_layout([1, 1])
    blocks = dissect(paper_objective(layout, Task.LOGISTIC))

    def moved(party: str | None, factor: float) -> float:
        return {None: factor, "A": 0.3 * factor, "B": 0.9}[party]

    found = narrow_shares(layout, blocks, Distribution.GAUSSIAN, 1, moved)
    assert found == (0.9, {"A": Fraction(31, 64), "B": 1})


def test_each_of_two_shares_is_as_narrow_as_its_own_part_allows() -> None:
    """A record is moved by .9 whatever its shares: A's part .3 / f <= .9 from f = 21.3/64, B's .5 / f from 35.6/64."""
    layout = signed_layout([1, 1])
    blocks = dissect(paper_objective(layout, Task.LOGISTIC))

    def moved(party: str | None, factor: float) -> float:
        return {None: 0.9, "A": 0.3 * factor, "B": 0.5 * factor}[party]

    found = narrow_shares(layout, blocks, Distribution.GAUSSIAN, 1, moved)
    assert found == (0.9, {"A": Fraction(22, 64), "B": Fraction(36, 64)})


def test_words_of_a_session() -> None:
    """Three parties' shares where two hide: n products of bound^2, the noise and the product's error fit, just."""
    session = plan_session(agreement_of(3, product="lattice"), 1000, bytes(32))
    spec, plan = session.spec, session.plan
    limit, unit = 1 << (spec.modulus_bits - 1), spec.gain * spec.bound**2
    reach = 0.0
    for item in plan.blocks:
        (weight,) = set(np.abs(item.block.weights).tolist())
        if item.block.single:
            noise = float(item.scale) * spec.bound**2 / weight * (log(2 * item.block.size) + 48 * log(2))
            expected = 1000 * spec.bound**2 + noise
            assert farthest(plan, item, 1000, spec.bound**2) == pytest.approx(expected, rel=1e-6)
        else:
            noise = derive.laplace_reach(float(item.scale) * unit / weight, item.block.size, parties=3, parts=2)
            reach = max(reach, 1000 * unit + noise)
    error, near = round(limit - reach), round(1e-6 * reach)
    require_room_in_words(plan, spec, error - near, {})
    with pytest.raises(ProductError):
        require_room_in_words(plan, spec, error + near, {})


LATTICE = KNOWN["lattice"]
SPEC = ProductSpec(
    bytes.fromhex(LATTICE["session"]),
    ("A", "B"),
    LATTICE["rows"],
    LATTICE["bound"],
    (Cross(0, 1, 0, 1, 0, 1),),
    LATTICE["modulus_bits"],
    LATTICE["gain"],
    1 << 38,
)
SECRET = np.array([derive.secret()], np.int8)


def entries(factor: int) -> NDArray[np.int16]:
    return np.array(derive.entries(SPEC.rows, factor, SPEC.bound), np.int16)[:, None]


def same_words(found: Words, told: dict[str, Any]) -> None:
    words = found.ravel() & np.uint64((1 << SPEC.modulus_bits) - 1)
    assert [*words[:3].tolist(), int(words[-1])] == [*told["first"], told["last"]]
    assert sha256(words.astype("<u8").tobytes()).hexdigest() == told["sha256"]


def sealed() -> Planes:
    states = work.WorkerStates(NumpyKernels, SPEC)
    keys = states.own.kernels.keys(SECRET, seal_limbs(SPEC.modulus_bits))
    place, _ = parcel_places(1, SPEC.rows)
    payload = work.seal_piece(states, False, 0, place, keys, entries(5), bytes.fromhex(LATTICE["source"]))
    return Planes.read(memoryview(payload)[START:], (1, SPEC.rows), SPEC.modulus_bits)


def test_seal() -> None:
    same_words(sealed().words(), LATTICE["seal"])


def test_multiply() -> None:
    states = work.WorkerStates(NumpyKernels, SPEC)
    bits, _ = multiply_limbs(SPEC.modulus_bits, SPEC.bound)
    u = work.multiply_piece(states, False, SPEC, 1, bits, 0, entries(3))
    same_words(u, LATTICE["multiply"])
    mask = (1 << SPEC.modulus_bits) - 1
    kept = work.times_piece(states, False, sealed(), entries(3), SPEC.bound)
    assert int(kept[0, 0]) & mask == LATTICE["kept"]
    planes = Planes.empty((1, 2048), SPEC.modulus_bits, Scratch())
    planes.write(slice(None), 0, u)
    returned = int(states.own.kernels.times(planes, SECRET.T, 2)[0, 0]) & mask
    assert returned == LATTICE["returned"] and (LATTICE["kept"] - returned) & mask == LATTICE["opened"]


@pytest.mark.parametrize("columns", [1, words.FEW_COLUMNS + 1])
def test_sums_of_floats_are_handed_over_while_they_are_exact(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """40,000 times 7 (2^39 - 1) is above 2^56, where floats hold every sixteenth integer; parts are held one by one."""
    rows = 40_000
    monkeypatch.setattr(words, "CACHED_WORDS", 999)
    monkeypatch.setattr(words, "LEAST_ROWS", 1)
    planes = Planes.empty((1, rows), 40, Scratch())
    planes.write(slice(None), 0, np.full((1, rows), (1 << 39) - 1, np.uint64))
    found = planes.times(np.full((rows, columns), 7, np.int16), 7, Scratch())
    assert {int(word) % (1 << 40) for word in found.ravel()} == {rows * 7 * ((1 << 39) - 1) % (1 << 40)}


@pytest.mark.parametrize("told", KNOWN["lattice error"], ids=lambda told: f"{told['rows']} x {told['bound']}")
def test_lattice_error(told: dict[str, int]) -> None:
    std, largest = lattice_error(told["rows"], told["bound"])
    assert largest == told["largest"]
    assert 2 * std * std == pytest.approx(told["twice_the_variance"], rel=1e-12)


def test_sizes_of_the_lattice_product() -> None:
    """By hand: README.md, "sizes"."""
    assert error_factor(Parameters(40, 1000, 7, 0, 0.0, 128), 7, 3) == 1 + Fraction(2 * 3 * 7, 1000 * 7)
    assert chain_move(3, 7, 1024) == pytest.approx(28 / 1024 / 49, rel=1e-12)
    # 100 7^3 + 700 = 35000 < 2^16; 2^28 2^16 = 2^44 is half of the words, and 2^28 35000 leaves room for the error.
    assert chain_gain(3, 100, 7, 1000.0, 700, 45) == 2**28
    # 65535 2^28 + 2 289570 is below 2^44, and 65536 2^28 is not.
    assert chain_gain(3, 100, 7, 1000.0, 65_535 - 34_300, 45) == 2**28
    assert chain_gain(3, 100, 7, 1000.0, 65_536 - 34_300, 45) == 2**27
    # 2^18 (2^26 - 1) is 2^18 below 2^44, too little for the error of 2 289570; half the gain fits.
    assert chain_gain(3, 100, 7, 1000.0, (1 << 26) - 1 - 34_300, 45) == 2**17
    # 2^19 (2^25 - 1) is 2^19 below 2^44: room for one error of 289570, and two products have one each.
    assert chain_gain(3, 100, 7, 1000.0, (1 << 25) - 1 - 34_300, 45) == 2**18
    # The gain is halved until gain 2^20 is at most 2^43.
    assert chain_gain(3, 100, 7, 2.0**20, 700, 45) == 2**23
    # Errors move a term by 28 / (gain 49) at most, which must not pass 1/256: 146 < gain.
    assert chain_gain(3, 100, 7, 1e9, 2**36, 45) is None and chain_gain(3, 100, 7, 1e9, 2**35, 45) == 2**8
    # 31 levels of additions, 22 multiplications by sqrt(5) and 84 by roots, each of 2^-53, to first order.
    assert fft_error(3.0, 5.0) == pytest.approx(15 * (31 + 22 * sqrt(5) + 84) * 2.0**-53, rel=1e-12, abs=0)
    # sqrt(1.25 * 300 * (4^8 + 2) / 12)
    assert uniform_norm(8, 300) == pytest.approx(1431.10534, rel=1e-8)
    # 1 / sqrt(2 (1/42.5 + 11.5 (sqrt 2048 + 10)^2 / (4 (4096^2 - 1)/12)))
    assert hint_error_std(100) == pytest.approx(4.09563196, rel=1e-8)


def test_bits_of_a_key() -> None:
    """Weights 1, 4, 6, 4, 1 of 16: 2 (1/16) 4 + 2 (4/16) 2 + (6/16) log2(16/6). Of 64 coefficients nothing is left."""
    assert entropy([1, 4, 6, 4, 1]) == pytest.approx(1.5 + 0.375 * log2(16 / 6), rel=1e-12)
    assert entropy([1] * 8) == pytest.approx(3.0, rel=1e-12)
    # 2.03 bits each: 100 of them name at most 50, and no information more than all 2048.
    assert readable_coefficients(100.0, [1, 4, 6, 4, 1]) == 50 and readable_coefficients(1e6, [1, 4, 6, 4, 1]) == 2048
    assert key_bits(64, 40, 1.0, 3.2) == 0.0 < key_bits(65, 20, 1.0, 3.2)


@pytest.mark.parametrize(
    ("name", "value", "bits"),
    [
        ("LOW_BITS", 51, 51),  # limbs of 51 and 0 bits: rounding errors of the first pass a half
        ("PAIR_LIMB", 13, 36),  # two secrets in one transform leave no room for such a limb
        ("SECRET_VARIANCE", 1e4, 36),
    ],
)
def test_transforms_that_are_not_exact_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: float, bits: int
) -> None:
    assert sum(seal_limbs(bits)) == bits
    monkeypatch.setattr(lattice_parameters, name, value)
    with pytest.raises(BrokenError, match="exact"):
        seal_limbs(bits)


def test_a_product_of_three_owners_has_a_unit_of_three_entries_and_its_gain() -> None:
    agreement = agreement_of(3, product="lattice", interactions=(("p0.x0", "p1.x1", "p2.x2"),))
    session = plan_session(agreement, 200, bytes(32))
    bound, gain = session.grid.bound, session.spec.gain
    known = {1: bound**2, 2: bound**2 * gain, 3: bound**3 * session.chain_gains[3]}
    owners = {len(item.block.owners) for item in session.plan.blocks}
    assert owners == set(known)
    assert all(session.unit(item.block) == known[len(item.block.owners)] for item in session.plan.blocks)


@pytest.mark.parametrize("bits", [40, 44])
def test_parameters_leave_room(bits: int) -> None:
    """The largest gain whose sums, noise and error stay below half of the words; one more record does not fit."""
    rows, bound, noise = 5000, 7, 20_000
    span, error = rows * 49 + 10 * noise, rows * 49 + 2048 * 9 * 15 + 8190
    chosen = choose_parameters(rows, bound, float(noise), 10 * noise, 30, least_bits=bits)
    assert chosen.modulus_bits == bits
    assert chosen.gain * span + error < 1 << (bits - 1) <= (chosen.gain + 1) * span + error
    assert chosen.reach == chosen.gain * span + error and chosen.tau == 7
    room = (1 << (bits - 1)) - 1 - error
    longer = choose_parameters(rows, bound, float(noise), 10 * noise, 30, least_bits=bits, own_reach=room + 1)
    assert longer.modulus_bits == bits + 1
    assert choose_parameters(rows, bound, float(noise), 10 * noise, 30, least_bits=bits, own_reach=room) == chosen
    # What is sealed fits 32 bits: gain * bound is at most 2^30.
    assert choose_parameters(rows, bound, float(noise), 10 * noise, 30, least_bits=48).gain == 2**30 // 7


@pytest.mark.parametrize("sign", [1, -1])
def test_the_worst_draws_reach_the_largest_error_and_no_farther(sign: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors 7, rho and e1 15, s -2, hints 8190 and y at the bound, or all but rho, e1 and y turned round."""
    told = next(item for item in KNOWN["lattice error"] if (item["rows"], item["bound"]) == (50, 15))
    size = {"wide": 15, "secret": -2, "error": 7 * sign, "hint": 8190 * sign}
    monkeypatch.setattr(lattice_party, "draw_wide", lambda _, count: np.full(count, size["wide"], np.int8))
    monkeypatch.setattr(
        lattice_party, "draw_secrets", lambda _, columns: np.full((columns, 2048), sign * size["secret"], np.int8)
    )
    monkeypatch.setattr(lattice_party, "draw_hints", lambda _, count: np.full(count, size["hint"], np.int64))
    monkeypatch.setattr(work, "draw_errors", lambda _, count: np.full(count, size["error"], np.int8))
    session = Session.make(parties=2, rows=50, widths=(1, 1), bound=15, modulus_bits=45, gain=1 << 16, noise=0)
    session.data[1][:] = 15
    error = run(session, LatticeParty, LatticeServer) - session.expected()
    assert error.tolist() == [sign * told["largest"]]


def test_mask() -> None:
    told = KNOWN["mask"]
    publics = [bytes.fromhex(public) for public in told["publics"]]

    class Given(Randomness):
        def bytes(self, count: int) -> bytes:
            return bytes.fromhex(told["privates"][self.place])[:count]

    for k, mask in enumerate(told["masks"]):
        source = Given(b"unused")
        source.place = k  # type: ignore[attr-defined]
        keys = MaskKeys(source)
        assert keys.public == publics[k]
        found = keys.mask(bytes.fromhex(told["session"]), k, publics, len(mask), told["modulus_bits"])
        assert found.tolist() == mask


def test_opening() -> None:
    told = KNOWN["opening"]
    values = np.array(told["values"], np.int64)
    spec = ProductSpec(bytes(32), ("A", "B"), 2, 1, (Cross(0, 1, 0, 1, 0, len(values)),), told["modulus_bits"], 1, 1)
    summed = np.array(told["shares"], np.uint64).sum(axis=1, dtype=np.uint64) & np.uint64((1 << 40) - 1)
    for server in (LatticeServer, PlainServer):
        assert server(spec).open(summed, [b"", b""]).tolist() == told["values"]


def test_composition() -> None:
    told, delta = KNOWN["composition"], KNOWN["composition"]["delta"]
    for epsilon, rho in told["rho_of_pure"].items():
        assert rho <= rho_of_pure(float(epsilon)) <= rho * (1 + 1e-8)
    for epsilon, rho in told["gaussian_rho"].items():
        assert rho * (1 - 1e-7) <= float(gaussian_rho(float(epsilon), delta)) <= rho
    for rho, epsilon in told["epsilon_of_gaussian"].items():
        assert epsilon <= epsilon_of_gaussian(Fraction(rho), delta) <= epsilon * (1 + 1e-6)
    for rho, epsilon in told["epsilon_of_rho"].items():
        # The grid of orders behind the known value and the search here both end a little above the least.
        assert epsilon_of_rho(Fraction(rho), delta) == pytest.approx(epsilon, rel=1e-5)
    slack, known = Fraction(1, 8), told["slack 1/8"]
    assert known["gaussian_rho of 1"] * (1 - 1e-7) <= gaussian_rho(1.0, delta, slack) <= known["gaussian_rho of 1"]
    assert float(zcdp_rho(1.0, delta, slack)) == pytest.approx(known["zcdp_rho of 1"], rel=1e-5)
    assert epsilon_of_gaussian(Fraction(1, 2), delta, slack) == pytest.approx(
        known["epsilon_of_gaussian of 1/2"], rel=1e-6
    )
    assert epsilon_of_rho(Fraction(1, 2), delta, slack) == pytest.approx(known["epsilon_of_rho of 1/2"], rel=1e-5)
    session = Charge(0.1, 0.0, rho_of_pure(0.1))
    for rule, count in product(Rule, (2, 100)):
        known = told[f"{count} pure sessions of 0.1"][rule.value]
        found = total(Cap(1.0, delta, rule), rule, [session] * count)
        assert found.epsilon == pytest.approx(known, rel=1e-5)
    for name, epsilon, fit in told["sessions that fit"]:
        rule = Rule(name)
        require_room(Cap(epsilon, delta, rule), rule, [session] * (fit - 1), session, "people")
        with pytest.raises(LedgerError):
            require_room(Cap(epsilon, delta, rule), rule, [session] * fit, session, "people")
    cap = Cap(1.0)
    require_room(cap, Rule.SUM, [session] * 9, session, "people")
    with pytest.raises(LedgerError):
        require_room(cap, Rule.SUM, [session] * 10, session, "people")


def test_a_trace_that_was_rounded_too_often() -> None:
    """8 columns, 8 steps of 1/unit where 3 were counted: 5 more beside a noise of variance 10^2 - 4, of which mu is
    5 / sqrt(96); by the triangle inequality mu of both is the sum."""
    factors = np.stack([np.arange(1, 9)] * 2, axis=1)
    trace = ReleasedBlock(("A",), Role.FEATURE, True, 50, factors, np.array([7]), np.array([0.2]))
    for collusion in (0, 1):
        plan = {"delta": 1e-6, "collusion": collusion, "parties": ["A", "B"]}
        release = ReleaseRecord(100, signed_layout([9]), Distribution.GAUSSIAN, (trace,), plan, {})
        if collusion:
            mu = derive.solved(lambda m: derive.gaussian_delta(m, 1.0) > 1e-6, 1e-9, 9.0) + 5 / sqrt(96)
            known = derive.solved(lambda e, mu=mu: derive.gaussian_delta(mu, e) <= 1e-6, 0.0, 99.0)
        else:
            known = derive.zcdp((sqrt(2 * derive.most_rho(1.0, 1e-6)) + 5 / sqrt(96)) ** 2 / 2, 1e-6)
        assert epsilon_in_spite(release, [trace], 1.0) == pytest.approx(known, rel=2e-5)


def test_alignment_code() -> None:
    told = KNOWN["alignment code"]
    assert f"{code.generator_polynomial():x}" == told["generator"]
    sums = code.byte_sums()
    for message, word in zip(told["messages"], told["codewords"], strict=True):
        raw = int(message, 16).to_bytes(11, "little")
        found = np.bitwise_xor.reduce([sums[i, raw[i]] for i in range(11)])
        assert f"{int.from_bytes(found.tobytes(), 'little'):0128x}" == word
        unpacked = code.unpack(raw)
        assert code.pack(unpacked) == raw
        columns = np.array([[(int(message, 16) >> k) & 1] for k in range(88)], np.uint64)
        coded = code.encode_columns(columns).ravel().tolist()
        assert sum(int(bit) << k for k, bit in enumerate(coded)) == int(word, 16)
    # Bits beyond the dimension are not looked at.
    assert code.unpack(b"\xff" * 11).tolist() == [[2**64 - 1, 2**21 - 1]]
    for parties, rows in told["blinding_rows"].items():
        assert blinding_rows(int(parties)) == rows

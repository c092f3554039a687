"""Grids, words and pieces of work of a session at their edges, each by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import log2, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from colonnade import evaluation
from colonnade.crypto.product import ProductNeeds, ProductSizes
from colonnade.data import gate
from colonnade.data.gate import Coding, code_block, project_codes
from colonnade.foundation import integers
from colonnade.foundation.errors import BrokenColumns, ProductError, StudyError
from colonnade.foundation.grid import Grid, rounded_norm
from colonnade.foundation.integers import _MadeRows, _signs, verify_block
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.schema import Categorical, Numeric, Schema
from colonnade.mechanism.blocks import IntegerNoise
from colonnade.mechanism.dissection import Block, traces
from colonnade.mechanism.moments import Encoding, Floats, Role
from colonnade.mechanism.objective import (
    Calibration,
    Task,
    layout_of,
    plain_layout,
    with_interactions,
)
from colonnade.mechanism.plan import BlockPlan, Terms, plan_top_down
from colonnade.planning import session_plan
from colonnade.planning.leakage import value_bits
from colonnade.planning.precision import (
    BOUNDS,
    MADE_BOUND,
    _interaction_bound,
    check_squares,
    fit_sizes,
    grid_bound,
    require_room,
    rounding_share,
)
from colonnade.planning.session_plan import plan_session
from tests.helpers.adversary import layout_from, signed_layout
from tests.helpers.sessions import agreement_of

PRODUCT = Block(("A", "B"), Role.FEATURE, np.array([[1, 2]]), np.ones(1))
SIGNED, LABEL = (Encoding.SIGNED, 1, Role.FEATURE), (Encoding.SIGNED, 1, Role.LABEL)


def test_what_is_told_where_no_key_is_spelt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened integers within a reach of 3 are one of 7."""
    session = plan_session(agreement_of(2, product="bgn"), 50, bytes(32))
    assert session.backend.key_left is None and session.backend.private
    words: list[float] = []

    def noted(law: IntegerNoise, word: float, alone: bool) -> Floats:
        words.append(word)
        return value_bits(law, word, alone)

    monkeypatch.setattr(session_plan, "value_bits", noted)
    assert replace(session, spec=replace(session.spec, reach=3)).tellings
    assert words == [log2(7)]


def test_grids_of_products_that_parties_round_are_fine() -> None:
    agreement = agreement_of(2, product="lattice", interactions=(("p0.x0", "p0.c0", "p1.x1"),))
    plan = plan_session(agreement, 200, bytes(32)).plan
    assert _interaction_bound(plan, 3.0) >= MADE_BOUND == 127


def test_a_record_that_rounding_made_too_long_is_cut() -> None:
    """400 numbers of 1.0001 steps, all rounded up to 2: a length of 40 where 20.002 was declared.

    The plan counts with 20.002 + (6 20.002 + 100 + 30) / (2 20.002) = 26.25: each is cut to 2 26.25/40, towards 0: 1.
    """
    layout, bound = signed_layout([400], label=None), 63
    columns = {f"a{j}": Numeric(-1.0, 1.0) for j in range(400)}
    coding = Coding("A", columns, layout.attributes, Grid(bound), bytes(32), 1.0001 * 20 / bound)
    assert rounded_norm(coding.norm or 0.0, 400, bound) * bound == pytest.approx(26.25, abs=0.01)
    out = np.zeros((400, 1))
    coins = np.full((1, 400), 2**32 - 1, np.uint32)
    coding.write({name: np.full(1, 1.0001 / bound) for name in columns}, out, coins)
    assert set(out.ravel().tolist()) == {1.0}


def test_grids_that_are_tried_leave_more_and_more_to_the_products_error() -> None:
    """Rounding under 1/50 of the noise and the product's error under 1/100, then 1/10 and 1/10, then 1/2 and 1/4."""
    plan = plan_session(agreement_of(2, product="lattice"), 200, bytes(32)).plan
    tried: list[tuple[int, Fraction]] = []

    def refuse(needs: ProductNeeds) -> ProductSizes:
        tried.append((needs.bound, needs.share))
        assert needs.columns == plan.layout.width - 1
        raise ProductError("no")

    with pytest.raises(ProductError):
        fit_sizes(plan, 10_000_000, refuse)
    known = []
    for part, error in ((Fraction(1, 50), "1/100"), (Fraction(1, 10), "1/10"), (Fraction(1, 2), "1/4")):
        bound = grid_bound(plan, 10_000_000, part)
        if not known or rounding_share(plan, 10_000_000, bound) <= part:
            known.append((bound, Fraction(error)))
    assert tried == known and len(known) == 3 and len({bound for bound, _ in known}) > 1


def test_signs_of_columns_are_signs() -> None:
    signs = _signs(9001)
    assert set(signs.tolist()) == {-1.0, 1.0} and abs(signs.mean()) < 0.05


def test_a_trace_adds_up_2_to_the_38_squares_and_no_more() -> None:
    (trace,) = traces(signed_layout([5], label=0), label_square=False)
    assert len(trace.factors) == 4
    check_squares(2**36, (trace,))
    with pytest.raises(StudyError):
        check_squares(2**36 + 1, (trace,))


def test_integers_of_one_party_fill_their_words_to_the_last() -> None:
    """Records of 1 and noise of scale 1000: floor(1000 (ln 2 + 48 ln 2)) = 33964 stay below 2^31."""
    session = plan_session(agreement_of(1), 50, bytes(32))
    block = Block(("p0",), Role.FEATURE, np.array([[1, 1]]), np.ones(1))
    plan = replace(session.plan, blocks=(BlockPlan(block, Fraction(1), Fraction(1000)),))
    spec = replace(session.spec, bound=1, modulus_bits=32, rows=2**31 - 33964 - 1)
    require_room(plan, spec, 10**9, {})
    with pytest.raises(ProductError):
        require_room(plan, replace(spec, rows=spec.rows + 1), 0, {})


def test_words_without_crosses_hold_every_records_unit() -> None:
    session = plan_session(agreement_of(1), 50, bytes(32))
    assert session.spec.reach == 50 * session.grid.bound**2
    # One number stands for an unknown number of records, and it is that of the documentation.
    assert session_plan.TYPICAL_ROWS == evaluation.TYPICAL_ROWS == 10_000


def test_each_factor_of_an_interaction_is_rounded_and_each_product_of_a_party() -> None:
    """x y of two parties by itself: two factors, a column of each party: 4 roundings of a quarter for each record."""
    columns = {"A": {"x": Numeric(-1, 1)}, "B": {"z": Numeric(-1, 1), "y": Numeric(-1, 1)}}
    schema = Schema(columns)
    layout = with_interactions(plain_layout(schema, "y"), schema, [("x", "z")])
    block = Block(("A", "B"), Role.FEATURE, np.array([[0, layout.width - 1]]), np.ones(1))
    plan = plan_top_down(layout, (block,), 1.0, Terms(Task.LOGISTIC))
    known = sqrt(1000 * 4 / 4) / plan.noise_std(plan.blocks[0])
    assert rounding_share(plan, 1000, 31) == pytest.approx(known / 31, rel=1e-12)
    # The grid is the coarsest whose rounding stays under a fiftieth of the noise, whatever shares of noise need.
    for rows in (1000, 10_000_000):
        needed = 50 * sqrt(rows * 4 / 4) / plan.noise_std(plan.blocks[0])
        assert grid_bound(plan, rows) == next(b for b in BOUNDS if b >= needed or b == BOUNDS[-1])
    assert _interaction_bound(plan, 1e9) == BOUNDS[-1] == 2**11 - 1


def test_a_block_is_made_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a cache of 10 floats, for 2 columns and the constant, pieces of 3 records, and the same rows as in one."""
    columns = {"x": Numeric(-1, 1), "y": Numeric(-1, 1)}
    layout = layout_of(Schema({"p": columns}), "y", Task.LINEAR, Calibration.EXACT, split=False)
    coding = Coding("p", columns, layout.attributes, Grid(7), bytes(32))
    values = {name: np.linspace(-1.2, 0.9, 10) * sign for name, sign in (("x", 1), ("y", -1))}
    whole, pieces = code_block(coding, values, 3, 10), list[int]()
    write = Coding.write

    def noted(self: Coding, here: Mapping[str, Any], out: Floats, coins: Any) -> Floats:
        pieces.append(out.shape[1])
        return write(self, here, out, coins)

    monkeypatch.setattr(Coding, "write", noted)
    monkeypatch.setattr(gate, "_CACHED", 10)
    monkeypatch.setattr(gate, "_SHORTEST", 1)
    found = code_block(coding, values, 3, 10)
    assert pieces == [3, 3, 3, 1]
    assert found.rows.tolist() == whole.rows.tolist() and found.products.tolist() == whole.products.tolist()


def test_made_columns_are_kept_where_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 records of one column and one made of it are 20 bytes."""
    made: list[int] = []

    class Ones:
        shape, bound = (5, 1), 7

        def rows(self, start: int, stop: int) -> NDArray[np.int16]:
            return np.ones((stop - start, 1), np.int16)

    def make(start: int, rows: NDArray[np.int16]) -> NDArray[np.int16]:
        made.append(len(rows))
        return rows * np.int16(2)

    monkeypatch.setattr(integers, "MADE_AT_ONCE", 2)
    for kept, calls in ((20, [2, 2, 1]), (19, [2, 3])):
        monkeypatch.setattr(integers, "LARGEST_KEPT", kept)
        made.clear()
        store = _MadeRows(Ones(), make, 1)  # type: ignore[arg-type]
        assert store.rows(0, 2).tolist() == [[1, 2]] * 2 and store.rows(2, 5).tolist() == [[1, 2]] * 3
        assert made == calls


def test_pieces_hold_as_many_floats_as_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """2^17 floats are 65,536 records of one column and the constant."""
    columns = {"x": Numeric(-1, 1)}
    coding = Coding("p", columns, layout_from([("p", *SIGNED)]).attributes, Grid(7), bytes(32))
    coding = replace(coding, attributes=(replace(coding.attributes[0], of=ColumnRef("p", "x")),))
    pieces, write = list[int](), Coding.write

    def noted(self: Coding, here: Mapping[str, Any], out: Floats, coins: Any) -> Floats:
        pieces.append(out.shape[1])
        return write(self, here, out, coins)

    monkeypatch.setattr(Coding, "write", noted)
    block = code_block(coding, {"x": np.zeros(65_537)}, 0, 65_537)
    assert pieces == [65_536, 1]
    # An excess may reach a quarter for each record, and a billionth beside.
    for excess, fits in ((65_537 / 4 + 65_538e-9, True), (65_537 / 4 + 65_539e-9, False)):
        bent = replace(block, excess=np.array([excess]))
        if fits:
            verify_block(coding.shape, bent)
        else:
            with pytest.raises(BrokenColumns):
                verify_block(coding.shape, bent)


def test_codes_of_levels_are_left_and_others_become_the_fallback() -> None:
    column = Categorical(("a", "b", "c"), fill="b")
    codes = np.array([0, 2, 1], np.int32)
    assert project_codes(codes, 3, column) is codes
    assert project_codes(np.array([-1, 0, 3, 2], np.int32), 3, column).tolist() == [1, 0, 1, 2]


def test_numbers_within_their_range_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    coding = Coding("p", {"x": Numeric(-1, 1)}, layout_from([("p", *SIGNED)]).attributes, Grid(7), bytes(32))
    coding = replace(coding, attributes=(replace(coding.attributes[0], of=ColumnRef("p", "x")),))

    def clip(*given: Any, **more: Any) -> None:
        raise AssertionError("nothing lies outside")

    monkeypatch.setattr(gate.np, "clip", clip)
    out = np.array([[-7.0, 0.5, 7.0]])
    coding._project(out)
    assert out.tolist() == [[-7.0, 0.5, 7.0]]


def test_made_columns_of_more_than_256_megabytes_are_made_anew() -> None:
    class Many:
        shape, bound = (2**26 + 1, 1), 7

        def rows(self, start: int, stop: int) -> NDArray[np.int16]:
            assert stop - start == 2
            return np.ones((2, 1), np.int16)

    store = _MadeRows(Many(), lambda start, rows: rows, 1)  # type: ignore[arg-type]
    assert store.rows(3, 5).tolist() == [[1, 1]] * 2


def test_noise_that_is_not_there_is_said_to_be_large() -> None:
    """Where no sum is of two parties, 2^40 stands for its noise, and a record counts once."""
    layout = signed_layout([2, 1], label=0)
    block = Block(("A",), Role.FEATURE, np.array([[1, 1]]), np.ones(1))
    plan = plan_top_down(layout, (block,), 1.0, Terms(Task.LINEAR))
    asked: list[ProductNeeds] = []
    fit_sizes(plan, 100, lambda needs: asked.append(needs) or ProductSizes())  # type: ignore[func-returns-value]
    assert [(needs.rows, needs.noise_std, needs.noise_reach) for needs in asked] == [(100, 2.0**40, 0)]


def test_noise_below_a_unit_reaches_one() -> None:
    """And a tenth more of it in the final plan: 2 whole ones."""
    plan = plan_top_down(signed_layout([1, 1], label=0), (PRODUCT,), 1.0, Terms(Task.LINEAR))
    plan = replace(plan, blocks=(replace(plan.blocks[0], scale=Fraction(1, 10**10)),))
    asked: list[ProductNeeds] = []
    fit_sizes(plan, 100, lambda needs: asked.append(needs) or ProductSizes())  # type: ignore[func-returns-value]
    assert [needs.noise_reach for needs in asked] == [2]

"""Plans for very many records: coarser grids where no word could hold finer ones, said and bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from colonnade.foundation.errors import ProductError, StudyError
from colonnade.planning.precision import MOST_ROWS, SHARES, rounding_share
from colonnade.planning.session_plan import SessionPlan
from colonnade.study import study_from


def session(rows: int, columns: int, parties: int, release: str = "full") -> SessionPlan:
    names = [f"x{k}" for k in range(columns)]
    each = columns // parties
    party = {
        f"p{k}": {"columns": {n: {"kind": "numeric", "low": -1, "high": 1} for n in names[k * each : (k + 1) * each]}}
        for k in range(parties)
    }
    terms = {"name": "s", "task": "linear", "label": names[-1], "epsilon": 1.0, "delta": 1e-9, "release": release}
    return study_from({"study": {**terms, "alignment": "none"}, "party": party}, Path()).session(rows)


@pytest.mark.parametrize(("rows", "fine"), [(10**5, True), (10**7, True), (10**8, False), (10**9, False)])
def test_a_plan_for_many_records_says_what_it_rounds(rows: int, fine: bool) -> None:
    planned = session(rows, 200, 5)
    rounding = rounding_share(planned.plan, rows, planned.grid.bound)
    assert rounding < float((SHARES[0] if fine else SHARES[-1])[0])
    assert any("rounded" in note for note in planned.warnings()) is not fine
    # What is opened fits the word, and the lattice error still costs under a hundredth of epsilon.
    assert planned.spec.reach < 1 << (planned.spec.modulus_bits - 1)
    assert 1 < planned.plan.error_factor < 1.01


def test_more_records_than_a_sum_holds_exactly_are_refused() -> None:
    with pytest.raises(StudyError, match=f"at most 2\\^31={MOST_ROWS} records, got n={MOST_ROWS + 1}"):
        session(MOST_ROWS + 1, 200, 5)


def test_a_trace_of_more_squares_than_its_excess_is_exact_for_is_refused() -> None:
    # 2^29 records of 499 features have 499 2^29 < 2^38 squares, 2^30 have more than 2^38 = 274,877,906,944.
    session(1 << 29, 500, 1, "trace")
    with pytest.raises(StudyError, match=f"at most 2\\^38=274877906944 squares, got {499 << 30} with n={1 << 30}"):
        session(1 << 30, 500, 1, "trace")


def test_what_no_word_holds_is_refused() -> None:
    with pytest.raises(ProductError, match="would need a modulus above"):
        session(10**9, 20, 2)

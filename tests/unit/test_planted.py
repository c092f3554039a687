"""What some changes made by mistake would break, by numbers worked out by hand: drills/planted.toml has the changes."""

from __future__ import annotations

import tomllib
from math import fsum, log, sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import eigh

from colonnade import check
from colonnade.analysis.contrasts import _cell_noise
from colonnade.analysis.explained import _raw
from colonnade.analysis.intervals import _quantile
from colonnade.analysis.measures import Axis, ScoreTable
from colonnade.audit.bounds import proved
from colonnade.consent.entries import DataSet
from colonnade.consent.guard import ConsentGuard
from colonnade.consent.ledger import Ledger
from colonnade.consent.policy import Policy
from colonnade.data.ids import common_in_forms
from colonnade.foundation.errors import ProtocolError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.sums import SumsOfBlocks
from colonnade.mechanism.composition import Cap
from colonnade.mechanism.moments import Distribution, Encoding
from colonnade.numerics.spectra import joint_eigen
from colonnade.planning.session_plan import plan_session
from colonnade.protocol.coins import REVEAL, Opening, PartyCoins
from colonnade.studio.workspace import Workspace
from tests.helpers.cli_study import STUDY, write_study
from tests.helpers.sessions import agreement_of

NUMBERS = SimpleNamespace(kind=Encoding.SIGNED)


def test_no_coin_is_shown_before_the_last_commitment() -> None:
    """Who commits last could choose everybody's randomness."""
    names = ("a", "b", "c")
    drawn = {name: Opening.draw(Randomness(name.encode())) for name in names}
    made = {name: drawn[name].commit(b"server", name, b"", b"", "x" * 64) for name in names}
    own = PartyCoins(b"server", "a", names, drawn["a"], made["a"])
    for name in names[1:]:
        with pytest.raises(ProtocolError, match="once all parties have committed"):
            own.send(REVEAL)
        own.commitments[name] = made[name]
    assert [parcel.payload for parcel in own.send(REVEAL)] == [drawn["a"].coin] * 3


@pytest.mark.parametrize("end", ["void", "release"])
def test_a_settled_session_is_not_gone_on_with(tmp_path: Path, end: str) -> None:
    own = ConsentGuard("p0", Policy("p0", ("p1",), 1.0, Cap(3.0)), Ledger(tmp_path / "l"), DataSet("d", "d" * 64))
    session = plan_session(agreement_of(2, product="lattice"), 60, bytes(range(32)))
    name = session.identity.hex()
    assert own.resumable(name), "it was not reached"
    own.book(session)
    assert own.resumable(name)
    own.release() if end == "release" else own.void("over")
    assert not own.resumable(name)


def test_small_sums_are_not_lost_beside_large_ones() -> None:
    """A float near 2^40 has steps of 2^-12: each tenth alone would be rounded by about as much."""
    added, sums = [2.0**40, *[0.1] * 2000], SumsOfBlocks(1, None)
    for one in added:
        sums.add(np.zeros((2, 2)), np.array([one]))
    assert abs(float(sums.excess[0]) - fsum(added)) <= 2.0**-12


def test_a_form_that_makes_two_ids_one_is_not_proposed() -> None:
    """Of x and X one would be left, while y is common in that form alone."""
    found = common_in_forms({"a": ["x", "X", "y"], "b": ["Y", "q"]})
    assert found[()] == (0, 0) and not any("case" in form for form in found)
    assert common_in_forms({"a": ["x", "y"], "b": ["Y", "q"]})["case",] == (1, 0)


def test_both_limits_share_one_error() -> None:
    """Clopper and Pearson's two-sided 95% limits of 10 in 10 and of 0 in 10 are .6915 and .3085."""
    found = proved(np.array([10]), np.array([0]), 10, 10, 0.0, 0.95)
    assert found[0] == pytest.approx(log(0.6915 / 0.3085), abs=1e-3)


def test_joint_eigenvectors_of_diagonal_matrices_are_those_of_any() -> None:
    matrix, base = np.diag([1.0, 6.0, 8.0]), np.diag([4.0, 2.0, 0.5])
    values, vectors = joint_eigen(matrix, base)
    assert vectors.T @ base @ vectors == pytest.approx(np.eye(3)) and values.tolist() == [0.25, 3.0, 16.0]
    usual, known = eigh(matrix, base)
    assert usual == pytest.approx(values) and np.abs(known) == pytest.approx(np.abs(vectors))


def test_variance_of_a_cells_share() -> None:
    """Of two attributes the noisiest cell has deviation 30 among 100 records: .3 squared."""
    std = np.diag([0.0, 99.0, 99.0, 99.0])
    std[1, 3] = std[3, 1] = 20.0
    std[2, 3] = std[3, 2] = 30.0
    moments: Any = SimpleNamespace(layout=SimpleNamespace(starts=np.array([0, 1, 3])), std=std, n=100)
    assert _cell_noise(moments, [1, 2]) == pytest.approx(np.array([[0.0, 0.09], [0.09, 0.0]]))


def test_noise_of_a_released_covariance() -> None:
    """S/n - m m' of sums with deviations 5, 3 and 4, means .5 and -.2, n = 100: (25 + .25 * 16 + .04 * 9) / 100^2."""
    std = np.array([[0.0, 3.0, 4.0], [3.0, 7.0, 5.0], [4.0, 5.0, 7.0]])
    value = np.array([[100.0, 50.0, -20.0], [50.0, 60.0, 10.0], [-20.0, 10.0, 40.0]])
    layout = SimpleNamespace(attribute_of=np.array([0, 1, 2]), attributes=[NUMBERS] * 3)
    moments: Any = SimpleNamespace(layout=layout, n=100, std=std, value=value)
    estimate: Any = SimpleNamespace(std=std, value=value, margin=value[0])
    found = _raw(moments, estimate, [1, 2])
    assert found is not None
    assert found[0][0, 1] == pytest.approx(0.1 + 0.5 * 0.2)
    assert found[1][0, 1] == found[1][1, 0] == pytest.approx((25 + 4 + 0.36) / 1e4)
    assert found[1][0, 0] == pytest.approx((49 + 2 * 0.25 * 9) / 1e4)


def test_quantiles_of_one_laplace_number() -> None:
    """Of 20 numbers of scale b one lies beyond b log 20, which is log(20) / sqrt(2) deviations."""
    assert _quantile(0.95, Distribution.LAPLACE) == pytest.approx(2.1183, abs=1e-4)
    assert _quantile(0.95, Distribution.GAUSSIAN) == pytest.approx(1.95996, abs=1e-5)
    assert _quantile(0.5, Distribution.LAPLACE) == pytest.approx(0.67449, abs=1e-5)


def test_noise_of_an_observed_share() -> None:
    """y / (x + y) of x = 300 and y = 700 moves by (.3 dy - .7 dx) / 1000."""
    bin_ = Axis(np.array([-0.2]), np.array([0.2]))
    table = ScoreTable(1000, np.array([[300.0], [700.0]]), 10.0, (bin_,))
    (observed,) = [point.observed for point in table.curve() if point.observed is not None]
    assert observed.value == pytest.approx(0.7)
    assert observed.std == pytest.approx(10 * sqrt(0.3**2 + 0.7**2) / 1000)


def test_the_worst_key_is_told_before_a_session() -> None:
    def exposed(bits: int) -> Any:
        return SimpleNamespace(key=SimpleNamespace(bits=bits), tell=lambda: f"leaves {bits}")

    session = SimpleNamespace(
        exposures=[exposed(120), exposed(40), exposed(90)],
        warnings=list,
        leave_bits=lambda exposure, bits: f"not {exposure.key.bits}",
    )
    study: Any = SimpleNamespace(session=lambda common: session)
    (found,) = check._terms(study, 100, strict=False)
    assert "leaves 40; not 40" in str(found)


@pytest.mark.parametrize("key", ["policy", "ledger"])
def test_policies_and_ledgers_of_the_studio_lie_in_its_folder(tmp_path: Path, key: str) -> None:
    """A page must not make the studio write into a file elsewhere."""
    write_study(tmp_path, 20)
    named = {"policy": "p.toml", "ledger": "l.sqlite"} | {key: "../elsewhere"}
    lines = "".join(f'{name} = "{path}"\n' for name, path in named.items())
    content = tomllib.loads(STUDY.replace('data = "bank.csv"\n', f'data = "bank.csv"\n{lines}'))
    with pytest.raises(StudyError, match=r"of its own folder only, .* got 'elsewhere'"):
        Workspace(tmp_path, content).guarded_study()

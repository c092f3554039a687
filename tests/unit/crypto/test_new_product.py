"""A further secure product is one record: a toy runs a whole session, and one that is not private stays at home."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from colonnade.consent.policy import read_policy
from colonnade.crypto.backends import BACKENDS, PLAIN, require_private
from colonnade.crypto.plain import PlainParty
from colonnade.crypto.product import ProductNeeds, ProductSizes
from colonnade.data.table import Table, table_from
from colonnade.flare.deploy import check_study
from colonnade.foundation.errors import StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import read_release, write_release
from colonnade.planning.agreement import Agreement
from colonnade.planning.crosses import party_product
from colonnade.planning.session_plan import plan_session
from colonnade.report.cost import expected_cost
from colonnade.report.html import views_of
from colonnade.report.text import flaws
from colonnade.simulation import run_unguarded
from colonnade.study import read_study
from tests.helpers.cli_study import write_study

ROWS = 60
COLUMNS: dict[str, dict[str, Column]] = {
    "p0": {"x0": Numeric(0, 10), "c0": Categorical(("a", "b", "c")), "y": Numeric(-5, 5)},
    "p1": {"x1": Numeric(-1, 1), "b1": Binary(("no", "yes"))},
    "p2": {"x2": Numeric(-1, 1)},
}
POLICY = """[policy]
party = "bank"
partners = ["club"]
labels = ["y"]
columns = ["x"]
tasks = ["linear"]
products = ["toy"]
[session]
epsilon = 1.0
[total]
epsilon = 1.0
"""


def agreement_of(product: str, **terms: Any) -> Agreement:
    return Agreement.from_terms(
        "toy", Schema(COLUMNS), "p0.y", Task.LINEAR, product=product, **({"epsilon": 1.0} | terms)
    )


def tables() -> dict[str, Table]:
    draw = np.random.default_rng(0)
    frame = pl.DataFrame(
        {name: draw.uniform(-1, 1, ROWS) for name in ("x0", "x1", "x2", "y")}
        | {"c0": draw.choice(["a", "b", "c"], ROWS), "b1": draw.choice(["no", "yes"], ROWS)}
    )
    return {party: table_from(party, frame, own) for party, own in COLUMNS.items()}


class ToyParty(PlainParty):
    """Counts on doubled products, as a product that has an error of its own would."""


def toy_sizes(needs: ProductNeeds) -> ProductSizes:
    reach = 2 * (needs.rows * needs.bound**2 + needs.noise_reach)
    return ProductSizes(gain=2, modulus_bits=60, reach=reach, error=1, error_factor=Fraction(101, 100))


TOY = replace(PLAIN, name="toy", private=True, party=lambda device, spec: ToyParty, sizes=toy_sizes)
OPEN_TOY = replace(PLAIN, name="open toy", sent=lambda spec, me: 1000, seconds=lambda spec: 7.0)


@pytest.fixture(autouse=True)
def _toys() -> Iterator[None]:
    for toy in (TOY, OPEN_TOY):
        BACKENDS.add(toy.name, toy)
    yield
    for toy in (TOY, OPEN_TOY):
        del BACKENDS[toy.name]


@pytest.mark.parametrize("product", ["toy", "open toy"])
def test_a_session_with_a_toy_product(product: str) -> None:
    held = tables()
    agreement = agreement_of(product, epsilon=1e6)
    outcome = run_unguarded(agreement, held, "none", Randomness(b"toy"))
    release = read_release(write_release(outcome.release))
    records = np.column_stack([np.ones(ROWS), *(v for t in held.values() for v in t.coordinates().values())])
    names = [None, *(n for t in held.values() for n in t.coordinates())]
    wanted, found = records.T @ records, release.moments().value
    at = {text: i for i, text in enumerate(release.layout.names)}
    for a, b in (("x0", "x1"), ("x1", "b1=yes"), ("c0=b", "x2")):
        exact = wanted[names.index(release.layout.values[at[a]]), names.index(release.layout.values[at[b]])]
        assert found[at[a], at[b]] == pytest.approx(exact, abs=1.0)
    sizes = outcome.session.spec.gain, outcome.session.plan.error_factor
    assert sizes == ((2, Fraction(101, 100)) if product == "toy" else (1, 1))
    assert party_product(product) is (ToyParty if product == "toy" else PlainParty)


def test_a_product_that_is_not_private_is_refused_and_told(tmp_path: Path) -> None:
    assert require_private("toy") is TOY
    with pytest.raises(StudyError, match='product = "open toy" shows columns to others and stays in one process'):
        require_private("open toy")
    write_study(tmp_path)
    text = (tmp_path / "study.toml").read_text()
    for product in ("toy", "open toy"):
        (tmp_path / "study.toml").write_text(text.replace('"lattice"', f'"{product}"'))
        study = read_study(tmp_path / "study.toml")
        if product == "toy":
            check_study(study)
            continue
        with pytest.raises(StudyError, match="stays in one process"):
            check_study(study)
    session = plan_session(agreement_of("open toy"), 100, bytes(32))
    assert any('"open toy" shows columns in the clear' in line for line in session.warnings())
    assert {epsilon is None for view, epsilon in session.views().items() if view.value != "outsider"} == {True}
    assert any("columns among them in the clear" in view["sees"] for view in views_of(session.describe()))
    said = flaws({"seeded": False, "simulation": True, "agreement": session.agreement.to()})
    assert said == ['product "open toy" showed columns in the clear: no epsilon holds against the server or a party']


def test_a_plan_and_a_policy_know_a_toy_product(tmp_path: Path) -> None:
    session = plan_session(agreement_of("open toy"), 100, bytes(32))
    cost = expected_cost(session, "none")
    assert cost.seconds == {"products": 7.0}
    assert set(session.sent.values()) == {1000 + 8 * session.length}
    # What the product says that it sends, the submission, and the conversation's own small messages.
    assert all(0 < sent - (1000 + 8 * session.length) < 3000 for sent in cost.sent.values())
    (tmp_path / "policy.toml").write_text(POLICY)
    assert read_policy(tmp_path / "policy.toml").products == ("toy",)


def test_an_unknown_product_and_a_device_that_it_has_not() -> None:
    with pytest.raises(StudyError, match="product must be one of lattice, bgn, plain, toy, open toy, got product='x'"):
        agreement_of("x")
    with pytest.raises(StudyError, match='device cuda serves product "lattice", got product="toy"'):
        party_product("toy", "cuda")

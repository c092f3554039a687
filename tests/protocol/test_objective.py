"""A declared objective, from its text to its minimum: any degree, any owners, on every product, in one file format."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

from colonnade.analysis.polynomials import Minimum, Polynomial, minimise, noisy_objective, objective_of
from colonnade.analysis.question import Question
from colonnade.analysis.request import ModelRequest
from colonnade.consent.policy import policy_from
from colonnade.foundation.errors import ColonnadeError, PolicyError, ReleaseError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.objective import Calibration, Task, monomial
from colonnade.mechanism.plan import Offer, View
from colonnade.mechanism.release import ReleaseRecord, read_release, write_release
from colonnade.model import publish, read_model, write_model
from colonnade.planning.agreement import Agreement
from colonnade.runs import RunOptions, fit
from colonnade.study import StudySpec, study_from
from tests.helpers.wires import run

ROWS = 200
NUMBER = {"kind": "numeric", "low": -1, "high": 1}
FIT = "(y - w0 - w1 * x0^3 - w2 * x0 * x1^2)^2"


def study_of(folder: Path, objective: str, parameters: str, parties: int = 2, **terms: Any) -> StudySpec:
    """Party k holds x<k>, the first y too and the second a column with levels."""
    draw = np.random.default_rng(parties)
    x = draw.uniform(-1, 1, (ROWS, parties))
    frames: dict[str, dict[str, Any]] = {f"p{k}": {f"x{k}": x[:, k]} for k in range(parties)}
    frames["p0"]["y"] = np.clip(0.5 * x[:, 0] ** 3 - 0.3 * x[:, 0] * x[:, 1] ** 2 + 0.2, -1, 1)
    frames["p1"]["s"] = draw.choice(["no", "yes"], ROWS)
    party: dict[str, Any] = {}
    for name, columns in frames.items():
        pl.DataFrame(columns).write_csv(folder / f"{name}.csv")
        kinds = {c: {"kind": "binary", "levels": ["no", "yes"]} if c == "s" else NUMBER for c in columns}
        party[name] = {"data": f"{name}.csv", "columns": kinds}
    head = {"name": "x", "task": "polynomial", "label": "p0.y", "alignment": "none", "product": "plain"}
    head |= {"epsilon": 1e8, "objective": objective, "parameters": parameters.split(), "ball": 2.0}
    return study_from({"study": head | terms, "party": party}, folder)


def values_of(folder: Path) -> dict[str, np.ndarray]:
    """Every coordinate by its name, from the files."""
    out: dict[str, np.ndarray] = {}
    for path in folder.glob("p*.csv"):
        for column in pl.read_csv(path).iter_columns():
            numbers = column.to_numpy()
            known = {f"s={v}": (numbers == v).astype(float) for v in ("no", "yes")}
            out |= known if column.name == "s" else {column.name: numbers}
    return out


def exactly(text: str, names: list[str], values: dict[str, np.ndarray], w: np.ndarray) -> float:
    """The objective over n as Python reads its text."""
    scope = values | dict(zip(names, w, strict=True)) | {"s_yes": values["s=yes"]}
    return float(np.mean(eval(text.replace("^", "**").replace("'s=yes'", "s_yes"), {}, scope)))


def minimum_of(release: ReleaseRecord) -> Minimum:
    declared = objective_of(release)
    return minimise(noisy_objective(release.moments(), declared), declared.ball, np.eye(len(declared.parameters)))


CASES = [
    ("one owner", 2, "(y - w0 - w1 * x0^3)^2", "w0 w1", ("plain", "lattice")),
    ("two owners", 2, FIT, "w0 w1 w2", ("plain", "lattice", "bgn")),
    ("levels", 2, "w0^2 * 's=yes' * x0^2 - w0 * 's=yes' * x0 * y + w0^4", "w0", ("plain", "lattice")),
    ("sums of both", 2, "w0^2 + w1^2 - w0 * x0 - w1 * x1 - w0 * w1 * x0 * x1", "w0 w1", ("plain", "lattice")),
    ("three owners", 3, "(y - w0 - w1 * x0 * x1 * x2)^2 + 0.5 * (w0 * w1)^2", "w0 w1", ("plain", "lattice")),
    ("chains alone", 3, "w0^4 - w0 * x0^2 * x1^2 * x2^2", "w0", ("plain", "lattice")),
]


@pytest.mark.parametrize(("parties", "text", "names", "products"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_minimum_is_that_of_the_exact_objective(
    tmp_path: Path, parties: int, text: str, names: str, products: tuple[str, ...]
) -> None:
    for product in products:
        study = study_of(tmp_path, text, names, parties, product=product, epsilon=1e8 if product == "plain" else 500.0)
        release = fit(study, RunOptions(randomness=Randomness(b"objective"))).release
        assert write_release(read_release(write_release(release))) == write_release(release)
        values = values_of(tmp_path)
        bound = study.session(ROWS).grid.bound
        for block in release.blocks:
            for term, value, std in zip(block.factors, block.values, block.std, strict=True):
                factors = monomial(release.layout, term)
                wanted = np.prod([values[release.layout.names[c]] for c in factors], axis=0).sum()
                error = abs(value / block.unit - wanted)
                assert error < 6 * np.sqrt(2 * ROWS * len(factors)) / bound + 12 * std, (product, factors)
        exact = partial(exactly, text, names.split(), values)
        found = minimum_of(release)
        start = found.weights
        best = minimize(exact, start, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12, "maxiter": 4000})
        assert exact(found.weights) <= best.fun + 2e-3
        assert np.abs(found.weights - best.x).max() < 0.05 and not found.on_edge


def test_across_machines_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    study = study_of(tmp_path, "(y - w1 * x0 * x1 * x2)^2", "w1", 3, product="lattice", epsilon=10.0)
    here = fit(study, RunOptions(randomness=Randomness(b"seed"))).release
    again = fit(study, RunOptions(randomness=Randomness(b"seed"))).release
    across = run(study, tmp_path, b"seed")
    assert across.release is not None, across.errors
    values = [np.concatenate([b.values for b in r.blocks]) for r in (here, again, across.release)]
    assert np.array_equal(values[0], values[1]) and np.array_equal(values[0], values[2])
    assert ModelRequest(here).model().coefficients == ModelRequest(across.release).model().coefficients


def test_an_objective_without_a_minimum_ends_on_the_edge_and_says_so(tmp_path: Path) -> None:
    release = fit(study_of(tmp_path, "w0^3 * x0^2 - w1 * x1^2", "w0 w1"), RunOptions(Randomness(b"edge"))).release
    found = minimum_of(release)
    assert found.on_edge and np.linalg.norm(found.weights) == pytest.approx(2.0, rel=1e-6)
    model = ModelRequest(release).model()
    assert "on its edge: the objective may have no minimum" in model.method and model.features == ("w0", "w1")
    public = read_model(write_model(publish(release, model)))
    with pytest.raises(StudyError, match="parameters and no scores"):
        public.needs()
    with pytest.raises(StudyError, match="no other model"):
        ModelRequest(release, Question(task="linear"))
    with pytest.raises(ReleaseError, match="no declared objective"):
        objective_of(replace(release, provenance={"agreement": {}}))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_least_of_several_minima_is_found(size: int) -> None:
    # Each coordinate has minima at about -1 and 1, the deeper one at -1.
    terms: dict[tuple[int, ...], float] = {}
    for i in range(size):
        terms |= {(i,) * 4: 1.0, (i,) * 2: -2.0, (i,): 0.1}
    found = minimise(Polynomial.of(terms, size), 4.0, np.eye(size))
    assert np.allclose(found.weights, -1.0124, atol=1e-3) and not found.on_edge
    assert np.array_equal(found.weights, minimise(Polynomial.of(terms, size), 4.0, np.eye(size)).weights)


@pytest.mark.parametrize(
    ("text", "names", "terms", "told"),
    [
        ("w * log1p(x0)", "w", {}, "sums, products and powers alone, got log1p"),
        ("x0^2", "w", {}, "a term with a parameter"),
        ("w^2", "w", {}, "a product of a parameter and a column"),
        ("w * z", "w", {}, "'z', which is neither"),
        ("w * s", "w", {}, "in quotes, such as 's=yes'"),
        ("w * 's=no' * 's=yes'", "w", {}, "a product of a parameter and a column"),
        ("x0 * x1", "x0", {}, "another name than the columns"),
        ("w *", "w", {}, "needs a column or a number"),
        ("w * x0", "w w", {}, "each once"),
        ("w * x0", "w", {"ball": 0}, "ball must be"),
        ("w * x0", "w", {"interactions": [["p0.x0", "p1.x1"]]}, "interactions need all products"),
        ("w * x0", "w", {"release": "trace"}, "got trace besides"),
        ("w * x0", "w", {"order": 4}, "order = 4 is for a logistic study"),
        ("w * x0", "w", {"interval": 3}, "interval is for order = 4"),
        ("w * x0", "w", {"task": "linear"}, 'belong to task = "polynomial"'),
        ("w * x0", "w", {"purpose": "all"}, "purpose"),
        ("((((9^9)^9)^9)^9)^9 * w * x0", "w", {}, "shorter"),
        ("(w + x0 + x1 + y)^9 * (w + x0)^9 * (w + x0)^9 * (w + x0)^9", "w", {}, "at most 32 factors"),
        ("(w + x0 + x1 + y + 1)^9 * (w + x0 + x1 + y + 2)^9 * (x0 + x1 + 1)^9", "w", {}, "at most 5000 terms"),
        ("w * (x0 + x1 + y + 's=yes' + 1)^9 * (x0 + x1 + y + 1)^4", "w", {}, "at most 1000 products"),
    ],
)
def test_what_is_no_objective_is_refused_in_one_sentence(
    tmp_path: Path, text: str, names: str, terms: dict[str, Any], told: str
) -> None:
    with pytest.raises(ColonnadeError, match=told) as caught:
        study_of(tmp_path, text, names, **terms)
    assert "\n" not in str(caught.value)


def test_the_ball_is_needed_and_all_of_it_is_agreed_on(tmp_path: Path) -> None:
    agreement = study_of(tmp_path, FIT, "w0 w1 w2").agreement
    assert Agreement.of(agreement.to()) == agreement
    digests = {
        replace(study_of(tmp_path, FIT, "w0 w1 w2"), agreement=other).session(ROWS).digest
        for other in (
            agreement,
            agreement.with_terms(ball=3.0),
            agreement.with_terms(objective=FIT + " + w0^4"),
            agreement.with_terms(parameters=("w0", "w1", "w2", "w3")),
        )
    }
    assert len(digests) == 4
    with pytest.raises(StudyError, match="needs a ball"):
        agreement.with_terms(ball=None)


def test_the_plan_tells_numbers_owners_and_noise(tmp_path: Path) -> None:
    session = study_of(tmp_path, "(y - w * x0 * x1 * x2)^2", "w", 3, epsilon=1.0, product="lattice").session(10_000)
    told = next(w for w in session.warnings() if "the objective has" in w)
    assert "2 sums of products of up to 6 columns and 3 owners" in told
    described = session.describe()
    assert described["objective"] == "(y - w * x0 * x1 * x2)^2" and described["degree"] == 6
    assert 0 < session.forecast.noise_to_signal < 1  # type: ignore[operator]
    assert session.plan.epsilon <= 1 and all(max(p.values()) <= 1 for p in session.plan.parties.values())  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"largest_degree": 3}, "largest_degree is 3, the plan has products of degree 6"),
        ({"largest_owners": 2}, "largest_owners is 2, the plan has products of 3 parties"),
        ({"interactions": ["x0"]}, "interactions allows x0, the session has y"),
        ({"tasks": ["linear"]}, "tasks allows linear, the session has polynomial"),
    ],
)
def test_a_policy_refuses_an_objective(tmp_path: Path, rules: dict[str, Any], told: str) -> None:
    session = study_of(tmp_path, "(y - w * x0 * x1 * x2)^2", "w", 3, epsilon=1.0, product="lattice").session(10_000)
    terms = {"party": "p0", "partners": ["p1", "p2"], **rules}
    policy = policy_from({"policy": terms, "session": {"epsilon": 5}, "total": {"epsilon": 5}})
    with pytest.raises(PolicyError, match=told):
        policy.check(session)


def test_both_calibrations_both_laws_and_offers_have_a_plan(tmp_path: Path) -> None:
    base = study_of(tmp_path, FIT, "w0 w1 w2", epsilon=1.0, product="lattice")
    for change in ({"calibration": Calibration.PAPER}, {"delta": 1e-6}):
        session = replace(base, agreement=base.agreement.with_terms(**change)).session(10_000)  # type: ignore[arg-type]
        assert session.plan.epsilon <= 1 + 1e-9 and session.plan.task is Task.POLYNOMIAL
    offers = {"p0": Offer(1.0), "p1": Offer(0.5)}
    stated = replace(base, agreement=base.agreement.with_terms(epsilon=None, offers=offers)).session(10_000).plan
    for name, offer in offers.items():
        assert offer.total / 2 < (stated.parties[name][View.COALITION] or 9.0) <= offer.total * (1 + 1e-9)
    paper = replace(base, agreement=replace(base.agreement, calibration=Calibration.PAPER)).session(10_000).plan
    total = sum(float(np.abs(i.block.weights).sum()) for i in paper.blocks)
    assert all(float(i.scale) == pytest.approx(2 * total, rel=0.01) for i in paper.blocks)


def test_sums_that_no_parameter_multiplies_are_not_released(tmp_path: Path) -> None:
    session = study_of(tmp_path, "(y - w * x0)^2 + x1^3", "w").session(ROWS)
    named = {
        tuple(session.plan.layout.names[c] for c in monomial(session.plan.layout, term))
        for item in session.plan.blocks
        for term in item.block.factors
    }
    assert named == {("x0", "y"), ("x0", "x0")}


def test_coefficients_are_the_sums_over_n(tmp_path: Path) -> None:
    release = fit(study_of(tmp_path, "w0^2 - 3 * w0 * x0 * x1 + w0 * 7", "w0"), RunOptions(Randomness(b"c"))).release
    found = noisy_objective(release.moments(), objective_of(release))
    values = values_of(tmp_path)
    wanted = 7 - 3 * float(np.mean(values["x0"] * values["x1"]))
    assert found.slope(np.zeros(1))[0] == pytest.approx(wanted, abs=1e-3)

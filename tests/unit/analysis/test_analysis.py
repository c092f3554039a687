"""Tables, tests, rows and models from releases of made-up records, and the sentences for what cannot be answered."""

from __future__ import annotations

from functools import cache

import numpy as np
import polars as pl
import pytest

from colonnade.analysis import maxent
from colonnade.analysis.bins import within_bins
from colonnade.analysis.bounded import count_intervals
from colonnade.analysis.components import components
from colonnade.analysis.draws import counts, noise, seeded
from colonnade.analysis.fit import fit
from colonnade.analysis.independence import dependence, dependence_tree, every_dependence
from colonnade.analysis.model import FittedModel
from colonnade.analysis.question import Held, Question
from colonnade.analysis.released import Released
from colonnade.analysis.solve import solve
from colonnade.analysis.synthesis import FittedRelease, draw_levels, fit_release, require_dependence, synthesize
from colonnade.analysis.tables import Tables
from colonnade.data.table import table_from
from colonnade.foundation.errors import ColonnadeError, ReleaseError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Numeric, Schema
from colonnade.mechanism.objective import Calibration, Purpose, Task
from colonnade.planning.agreement import Agreement
from colonnade.simulation import run_unguarded

N = 6000
SCHEMA = {
    "a": {
        "colour": Categorical(("red", "green", "blue")),
        "age": Numeric(0, 60, (20, 40)),
        "alone": Categorical(("x", "y", "z")),
    },
    "b": {"sex": Binary(("F", "M")), "role": Categorical(("wife", "husband", "other")), "height": Numeric(-1, 1)},
    "c": {"rich": Binary(("no", "yes"))},
}


@cache
def frame() -> pl.DataFrame:
    """Role nearly follows sex, and no husband is F; `alone` depends on nothing."""
    rng = np.random.default_rng(5)
    sex = rng.integers(0, 2, N)
    role = np.where(rng.random(N) < 0.7, sex, 2)
    colour = np.where(rng.random(N) < 0.5, role, rng.integers(0, 3, N))
    age = rng.integers(0, 61, N)
    height = np.clip(0.4 * sex + 0.3 * rng.standard_normal(N) - 0.2, -1, 1)
    rich = rng.random(N) < 1 / (1 + np.exp(-(1.5 * (role == 1) - 1.0 * (colour == 0) + 0.02 * (age - 30))))
    return pl.DataFrame(
        {
            "colour": np.array(["red", "green", "blue"])[colour],
            "age": age,
            "alone": np.array(["x", "y", "z"])[rng.integers(0, 3, N)],
            "sex": np.array(["F", "M"])[sex],
            "role": np.array(["wife", "husband", "other"])[role],
            "height": height,
            "rich": np.array(["no", "yes"])[rich.astype(int)],
        }
    )


def answer(released: Released, question: Question, fitted: FittedRelease | None = None) -> FittedModel:
    rows = None if fitted is None else lambda: fitted
    return fit(Held(released.known, released.release, rows=rows), question)


@cache
def released(epsilon: float = 5.0, seed: int = 0, label: str = "c.rich", task: Task = Task.LOGISTIC) -> Released:
    agreement = Agreement.from_terms(
        "made up",
        Schema(SCHEMA),
        label,
        task,
        epsilon,
        collusion=1,
        product="plain",
        impossible=(("role=husband", "sex=F"),),
    )
    tables = {p: table_from(p, frame().select(list(columns)), columns) for p, columns in SCHEMA.items()}
    return Released(run_unguarded(agreement, tables, "none", Randomness(seed=b"%d" % seed)).release)


@cache
def fitted() -> FittedRelease:
    found = released()
    return fit_release(Tables.of(found), 0, found.impossible())


def exact(first: str, second: str) -> np.ndarray:
    found = released()
    i, j = found.find(first), found.find(second)
    codes = []
    for k in (i, j):
        values = frame()[found.short(k)]
        column = found.columns[k]
        if isinstance(column, Numeric):
            codes.append(column.codes(values.to_numpy().astype(float)))
        else:
            codes.append(np.array([column.all_levels.index(v) for v in values]))
    out = np.zeros((len(found.levels(i)), len(found.levels(j))))
    np.add.at(out, (codes[0], codes[1]), 1)
    return out


def test_intervals_cover_every_count_alike() -> None:
    for shape in (1.0, 2.0, np.inf):
        for truth in (0.0, 1.0, 5.0):
            seen = truth + noise(seeded(1, f"{shape} {truth}"), shape, 4000)
            low, high = count_intervals(seen, np.ones(4000), shape)
            assert 0.935 < np.mean((low <= truth + 1e-9) & (truth <= high)) < 0.968, (shape, truth)
            assert np.all(low <= high) and np.all(low >= 0)


def test_noise_and_counts_have_their_moments() -> None:
    drawn = noise(seeded(0, "noise"), 1.0, 200_000)
    assert abs(drawn.var() - 1) < 0.03 and 2.3 < (drawn**4).mean() - 3 < 3.6
    means = np.array([0.3, 20.0, 500.0])
    many = counts(seeded(0, "counts"), means, 20_000)
    assert np.allclose(many.mean(0), means, rtol=0.03) and np.allclose(many.var(0), means, rtol=0.06)


def test_intervals_hold_the_rows_own_counts() -> None:
    inside = []
    for seed in range(6):
        tables = Tables.of(released(2.0, seed))
        found = tables.released
        for i in found.tabular:
            for j in found.tabular:
                if i < j:
                    cross, true = tables.cross(i, j), exact(found.short(i), found.short(j))
                    inside.append(((cross.low <= true + 0.01) & (true <= cross.high + 0.01)).ravel())
                    assert cross.count.sum() == pytest.approx(N) and cross.count.min() >= 0
    assert 0.92 < np.concatenate(inside).mean() < 0.98


def test_tests_of_independence_find_what_is_there() -> None:
    tables = Tables.of(released())
    found = {d.names: d for d in every_dependence(tables)}
    strong = dependence(tables, released().find("sex"), released().find("role"))
    assert strong.p_value < 0.01 and strong.low > 0.2 and strong.low <= strong.information <= strong.high
    null = [d for names, d in found.items() if "alone" in names]
    assert sum(d.p_value <= 0.05 for d in null) <= 2
    tree = dependence_tree(list(found.values()))
    assert len(tree) == len(released().tabular) - 1 and set(tree[0].names) == {"sex", "role"}
    assert every_dependence(tables) == every_dependence(Tables.of(released()))


def test_rows_have_the_tables_and_no_impossible_pair() -> None:
    model = fitted()
    assert model.certificate.converged
    rows = synthesize(model, 8000, seed=3)
    again = synthesize(model, 8000, seed=3)
    assert all(np.array_equal(np.asarray(a), np.asarray(again.values[c])) for c, a in rows.values.items())
    drawn = pl.DataFrame({c: list(v) for c, v in rows.values.items()})
    assert drawn.filter((pl.col("role") == "husband") & (pl.col("sex") == "F")).height == 0
    shares = drawn.group_by("sex", "role").len()
    for sex, role, count in shares.iter_rows():
        assert abs(count / 8000 - frame().filter((pl.col("sex") == sex) & (pl.col("role") == role)).height / N) < 0.03
    assert drawn["age"].min() >= 0 and drawn["age"].max() <= 60 and drawn["height"].is_between(-1, 1).all()
    assert abs(drawn["height"].mean() - frame()["height"].mean()) < 0.05
    assert any("standard errors" in note for note in rows.notes()) and "height" in rows.unbinned


def test_rows_have_the_label_of_the_releases_own_model() -> None:
    schema = {"a": {"age": SCHEMA["a"]["age"], "colour": SCHEMA["a"]["colour"]}, "c": SCHEMA["c"]}
    agreement = Agreement.from_terms(
        "noisy", Schema(schema), "c.rich", Task.LOGISTIC, 0.05, collusion=1, product="plain"
    )
    tables = {p: table_from(p, frame().select(list(columns)), columns) for p, columns in schema.items()}
    found = Released(run_unguarded(agreement, tables, "none", Randomness(seed=b"noisy")).release)
    own, label = solve(found.moments, Task.LOGISTIC), found.layout.label
    names, starts = found.layout.names[1:], [s - 1 for s in found.layout.starts]
    full = np.zeros(len(names))
    full[[names.index(name) for name in own.features]] = own.coefficients
    fit = fit_release(Tables.of(found))
    rows = draw_levels(fit, 40_000, seeded(3, "rows"))
    again = fit_release(Tables.of(Released(found.release)))
    assert np.array_equal(rows, draw_levels(again, 40_000, seeded(3, "rows")))
    others = [k for k in range(3) if k != label]
    odds = own.intercept + sum(full[starts[k] + rows[:, k]] for k in others)
    chance = 1 / (1 + np.exp(-odds))
    for k in others:
        for level in range(len(found.levels(k))):
            at = rows[:, k] == level
            told, drawn = chance[at].mean(), (rows[at, label] == 1).mean()
            assert abs(told - drawn) < 0.02, (k, level)
    share = fit.target.margin[fit.target.spans[label]][1]
    assert abs((rows[:, label] == 1).mean() - share) < 0.002
    given = draw_levels(fit, 40_000, seeded(4, "rows"), {label: 1})
    chosen = rows[rows[:, label] == 1]
    for k in others:
        first, second = (np.bincount(drawn[:, k], minlength=3) / len(drawn) for drawn in (given, chosen))
        assert np.abs(first - second).max() < 0.02


def test_conditions_are_kept_and_impossible_ones_refused() -> None:
    found = released()
    levels = draw_levels(fitted(), 3000, seeded(0, "x"), found.conditions(["sex=M"]))
    assert (levels[:, fitted().columns.index(found.find("sex"))] == 1).all()
    husbands = (levels[:, fitted().columns.index(found.find("role"))] == 1).mean()
    assert abs(husbands - 0.7) < 0.05
    with pytest.raises(ReleaseError, match="probability 0"):
        draw_levels(fitted(), 10, seeded(0, "x"), found.conditions(["sex=F", "role=husband"]))


def test_maxent_meets_exact_tables_of_dependent_columns() -> None:
    """Two columns are copies of each other: one alone could never move."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 20_000)
    codes = np.stack([first, first, np.where(rng.random(20_000) < 0.6, first, rng.integers(0, 3, 20_000))], 1)
    spans = tuple(slice(3 * k, 3 * k + 3) for k in range(3))
    hot = np.hstack([np.eye(3)[codes[:, k]] for k in range(3)])
    pairs = hot.T @ hot / len(hot)
    wanted = np.ones((9, 9), dtype=bool)
    for span in spans:
        wanted[span, span] = False
    target = maxent.TargetTables(spans, pairs, wanted, np.zeros_like(wanted))
    assert (0, 1) in maxent.units_of(target)
    model = maxent.fit_maxent(target, seeded(0, "test"), chains=2048)
    assert np.abs(model.tables - pairs)[wanted].max() < 0.015


def test_numbers_stay_in_their_bins() -> None:
    column = Numeric(0, 60, (20, 40))
    codes = np.repeat([0, 1, 2], 1000)
    numbers = within_bins(column, np.array([0.6, 0.3, 0.1]), codes, np.tile((np.arange(1000) + 0.5) / 1000, 3))
    assert np.array_equal(column.codes(numbers), codes) and np.array_equal(numbers, np.rint(numbers))
    assert numbers.max() == 60 and numbers[1000:2000].mean() < 29.5


def test_models_of_any_column() -> None:
    found, model = released(), fitted()
    several = answer(found, Question("role", "multinomial"), fitted=model)
    assert several.classes == ("wife", "husband", "other")
    by = dict(zip(several.features, np.array(several.weights).T, strict=True))
    assert by["sex=M"][1] > by["sex=M"][0] + 1
    sparse = answer(found, Question("rich", "logistic", "lasso"), fitted=model)
    weights = dict(zip(sparse.features, sparse.coefficients, strict=True))
    assert weights["role=husband"] > 0.3 and sparse.freedom < len(sparse.features)
    count = answer(found, Question("age", "poisson", features=("rich",)), fitted=model)
    assert count.features == ("rich=yes",) and 2.9 < count.intercept < 3.6
    given = answer(found, Question("rich", "logistic", given=("sex=M",), features=("role",)), fitted=model)
    assert set(given.features) == {"role=husband", "role=other"}


def test_components_are_those_of_the_rows() -> None:
    found = components(released())
    assert found.share.sum() == pytest.approx(1.0) and np.all(np.diff(found.share) <= 1e-12)
    assert np.allclose(found.loadings @ found.loadings.T, np.eye(len(found.names)), atol=1e-6)
    i, j = found.names.index("sex=M"), found.names.index("height")
    true = np.corrcoef(frame()["sex"] == "M", frame()["height"])[0, 1]
    assert abs(found.correlations[i, j] - true) < 0.1


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda r: r.find("nothing"), "there is no released column 'nothing'; the release has"),
        (lambda r: r.find_table("height"), "column height was released as a number"),
        (lambda r: r.condition("sex=X"), "column sex has no level 'X'; it has F, M"),
        (lambda r: r.condition("sex"), 'a condition is written as "column=level", got'),
        (lambda r: r.condition("age=old"), "column age takes a number in a condition, got 'old'"),
        (lambda r: r.conditions(["sex=F", "sex=M"]), "two conditions on column sex exclude each other"),
        (lambda r: r.impossible([["sex=F", "sex=M"]]), "an impossible pair names levels of two columns"),
        (lambda r: Tables.of(r).cross(0, 0), "a contingency table needs two columns"),
        (lambda r: answer(r, Question("height", "multinomial")), "needs a column with levels or bins as label"),
        (lambda r: answer(r, Question("role", "poisson")), "a poisson model needs a numeric column as label"),
        (lambda r: answer(r, Question("height", "poisson")), "counts from 0 up, got column height"),
        (lambda r: answer(r, Question("role", "logistic")), "must be binary or a level, got column role"),
        (lambda r: answer(r, Question("nothing", "poisson")), "there is no released column 'nothing'"),
        (lambda r: answer(r, Question("rich", "guess")), "task must be one of linear"),
        (lambda r: answer(r, Question("rich", "logistic", "hope")), "penalty must be one of ridge"),
        (
            lambda r: answer(r, Question("role", "multinomial", features=("role",))),
            "other column than the label",
        ),
        (lambda r: answer(r, Question("role", "multinomial", given=("role=wife",))), "leaves nothing to learn"),
    ],
)
def test_what_cannot_be_answered_is_said(ask: object, sentence: str) -> None:
    with pytest.raises(ColonnadeError, match=sentence):
        ask(released())  # type: ignore[operator]


def test_releases_without_tables_are_refused() -> None:
    schema = {"a": {f"x{k}": Numeric(-1, 1) for k in range(3)}, "b": {"y": Numeric(-1, 1)}}
    rng = np.random.default_rng(0)
    data = {p: table_from(p, pl.DataFrame({c: rng.uniform(-1, 1, 200) for c in cs}), cs) for p, cs in schema.items()}
    trace = Agreement.from_terms("t", Schema(schema), "b.y", Task.LINEAR, 1.0, product="plain", release="trace")
    with pytest.raises(ReleaseError, match="trace release"):
        Released(run_unguarded(trace, data, "none", Randomness(seed=b"t")).release)
    full = Agreement.from_terms("t", Schema(schema), "b.y", Task.LINEAR, 1.0, product="plain", release="full")
    with pytest.raises(ReleaseError, match="rows need two columns with levels or bins"):
        fit_release(Tables.of(Released(run_unguarded(full, data, "none", Randomness(seed=b"t")).release)))
    paper = Agreement.from_terms(
        "t", Schema(schema), "b.y", Task.LINEAR, 1.0, product="plain", calibration=Calibration.PAPER, release="full"
    )
    with pytest.raises(ReleaseError, match="has no margins"):
        Released(run_unguarded(paper, data, "none", Randomness(seed=b"t")).release)


def test_margins_alone_give_counts_and_the_trivial_model() -> None:
    schema = {p: {c: v for c, v in columns.items() if c != "height"} for p, columns in SCHEMA.items()}
    data = {p: table_from(p, frame().select(list(columns)), columns) for p, columns in schema.items()}
    agreement = Agreement.from_terms(
        "m",
        Schema(schema),
        "c.rich",
        Task.LOGISTIC,
        1.0,
        collusion=1,
        product="plain",
        purpose=Purpose.ALL,
        release="margins",
    )
    found = Released(run_unguarded(agreement, data, "none", Randomness(seed=b"m")).release)
    tables = Tables.of(found)
    margin = tables.margin(found.find("colour"))
    true = np.array([(frame()["colour"] == level).sum() for level in margin.levels])
    assert np.all(margin.low <= true) and np.all(true <= margin.high) and (margin.high - margin.low).max() < 100
    model, share = solve(found.moments, Task.LOGISTIC), float((frame()["rich"] == "yes").mean())
    assert not any(model.coefficients) and model.freedom == 0
    assert abs(1 / (1 + np.exp(-model.intercept)) - share) < 0.02
    assert every_dependence(tables) == []
    with pytest.raises(ReleaseError, match="no table of colour and age"):
        tables.cross(found.find("colour"), found.find("age"))
    for ask in (fit_release, require_dependence, lambda t: components(t.released)):
        with pytest.raises(ReleaseError, match="holds margins alone"):
            ask(tables)  # type: ignore[operator]


def test_numbers_alone_have_sparse_and_count_models() -> None:
    schema = {"a": {f"x{k}": Numeric(-1, 1) for k in range(4)}, "b": {"y": Numeric(0, 20)}}
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (4000, 4))
    y = np.minimum(rng.poisson(np.exp(1.0 + 0.8 * x[:, 0])), 20)
    frames = {"a": pl.DataFrame({f"x{k}": x[:, k] for k in range(4)}), "b": pl.DataFrame({"y": y})}
    data = {p: table_from(p, frames[p], columns) for p, columns in schema.items()}
    agreement = Agreement.from_terms("t", Schema(schema), "b.y", Task.LINEAR, 50.0, product="plain", release="full")
    found = Released(run_unguarded(agreement, data, "none", Randomness(seed=b"t")).release)
    count = answer(found, Question("y", "poisson"))
    assert abs(count.coefficients[0] - 0.8) < 0.12 and abs(count.intercept - 1.0) < 0.1
    sparse = answer(found, Question("y", "linear", "lasso"))
    assert abs(sparse.coefficients[0]) > 0.1 and max(abs(c) for c in sparse.coefficients[1:]) < 0.02
    with pytest.raises(ReleaseError, match="rows need two columns"):
        answer(found, Question("x1", "linear", "lasso", given=()), fitted=fit_release(Tables.of(found)))


@pytest.mark.parametrize("pair", [("role=husband", "sex=X"), ("age=3", "sex=F"), ("role=husband",)])
def test_impossible_pairs_are_checked(pair: tuple[str, ...]) -> None:
    with pytest.raises(StudyError, match="impossible pair"):
        Agreement.from_terms("x", Schema(SCHEMA), "c.rich", Task.LOGISTIC, 1.0, impossible=(pair,))  # type: ignore[arg-type]


def test_an_agreement_without_impossible_pairs_reads_as_before() -> None:
    plain = Agreement.from_terms("x", Schema(SCHEMA), "c.rich", Task.LOGISTIC, 1.0)
    assert "impossible" not in plain.to() and Agreement.of(plain.to()) == plain
    told = Agreement.from_terms(
        "x", Schema(SCHEMA), "c.rich", Task.LOGISTIC, 1.0, impossible=(("role=husband", "sex=F"),)
    )
    assert Agreement.of(told.to()) == told

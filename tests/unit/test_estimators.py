"""The scikit-learn contract of the estimators, and what they add to it: parties, public bounds, spending."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from colonnade.consent.guard import ConsentGuard
from colonnade.consent.ledger import Ledger
from colonnade.estimators import VerticalLinearRegression, VerticalLogisticRegression, vertical
from colonnade.estimators.guards import open_guards
from colonnade.foundation.errors import (
    ColonnadeError,
    DataError,
    LedgerError,
    PolicyError,
    PrivacyError,
    SchemaError,
    StudyError,
)
from colonnade.foundation.schema import Binary, Categorical, Numeric, Schema
from colonnade.mechanism.release import read_release, write_release

# Simulations on few rows: the plan has much to warn of. Tests of warnings catch their own.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

# A large epsilon: these checks are about the contract, and sklearn's data has some 200 rows.
CHECKED = [VerticalLinearRegression(epsilon=100.0), VerticalLogisticRegression(epsilon=100.0)]
EXPECTED_FAILURES: dict[str, str] = {}

LINEAR: dict[str, Any] = {"epsilon": 1e6, "product": "plain", "ridge": 0.0, "random_state": 1}
BOUNDS = {"age": Numeric(0, 100), "income": Numeric(0, 5000)}
JOBS = ("clerk", "smith", "baker")


@parametrize_with_checks(CHECKED, expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_scikit_learn_contract(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_fewer_than_five_checks_may_fail() -> None:
    assert len(EXPECTED_FAILURES) < 5
    assert all(EXPECTED_FAILURES.values())


def _people(n: int = 400) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    draw = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "age": draw.uniform(20, 70, n),
            "job": draw.choice(JOBS, n),
            "income": draw.uniform(500, 4500, n),
            "owner": draw.integers(0, 2, n),
        }
    )
    rent = 200 + 3.0 * frame["age"] + 0.1 * frame["income"] + 90.0 * (frame["job"] == "smith") - 50.0 * frame["owner"]
    return frame, rent.to_numpy()


SCHEMA: dict[str, Any] = {
    "income": {"kind": "numeric", "low": 0, "high": 5000},
    "age": Numeric(0, 100),
    "job": Categorical(JOBS),
    "owner": {"kind": "binary", "levels": [0, 1]},
    "rent": {"kind": "numeric", "low": 0, "high": 2000},
}
FEATURES = {name: column for name, column in SCHEMA.items() if name != "rent"}
PARTIES = {"bank": ["income", "owner"], "town": ["job", "age"]}
OF_PARTIES = Schema.of(
    {
        "bank": {"income": SCHEMA["income"], "rent": SCHEMA["rent"], "owner": SCHEMA["owner"]},
        "town": {"job": SCHEMA["job"], "age": SCHEMA["age"]},
    },
    {"town": 0.5},
)


def _rent(**changed: Any) -> VerticalLinearRegression:
    return VerticalLinearRegression(**{**LINEAR, "parties": PARTIES, "schema": SCHEMA, "label": "rent", **changed})


def test_coefficients_are_in_the_units_of_the_data_and_the_order_of_its_columns() -> None:
    frame, rent = _people()
    model = _rent(collusion=0).fit(frame, rent)
    assert list(model.encoded_feature_names_) == ["age", "job=smith", "job=baker", "income", "owner=1"]
    # The grid has 11 bits, so coefficients come back to some 1e-3 of the label's range.
    assert model.coef_ == pytest.approx([3.0, 90.0, 0.0, 0.1, -50.0], abs=0.5)
    assert model.intercept_ == pytest.approx(200, abs=2)
    assert model.predict(frame) == pytest.approx(rent, abs=2)
    by_hand = model.intercept_ + frame["age"] * model.coef_[0] + (frame["job"] == "smith") * model.coef_[1]
    by_hand += (frame["job"] == "baker") * model.coef_[2] + frame["income"] * model.coef_[3]
    by_hand += frame["owner"] * model.coef_[4]
    assert model.predict(frame) == pytest.approx(by_hand.to_numpy(), abs=1e-8)


def test_intervals_are_in_the_units_of_the_data() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (3000, 2))
    y = X @ [1.0, -2.0] + rng.standard_normal(3000)
    model = VerticalLinearRegression(
        epsilon=1e4, schema=Numeric(0, 10), label=Numeric(-25, 15), product="plain", random_state=1, ridge=0.0
    ).fit(X, y)
    found = model.intervals_
    assert found.full and [i.feature for i in found.coefficients] == ["x0", "x1"]
    assert [i.estimate for i in found.coefficients] == pytest.approx(list(model.coef_), rel=1e-3)
    assert all(i.low < b < i.high for i, b in zip(found.coefficients, (1.0, -2.0), strict=True))


def test_pandas_polars_and_numpy_give_the_same_model() -> None:
    frame, rent = _people()
    expected = _rent().fit(frame, rent)
    polars = pl.DataFrame({name: frame[name].tolist() for name in frame})
    from_polars = _rent().fit(polars, pl.Series(rent))
    assert np.array_equal(from_polars.coef_, expected.coef_)
    assert list(from_polars.feature_names_in_) == list(frame)
    assert np.array_equal(from_polars.predict(polars), expected.predict(frame))
    by_position = {f"x{i}": SCHEMA[name] for i, name in enumerate(frame)}
    array = frame.to_numpy(dtype=object)
    plain = _rent(schema=by_position, parties={"bank": [2, 3], "town": [1, 0]}, label=SCHEMA["rent"]).fit(array, rent)
    assert plain.coef_ == pytest.approx(expected.coef_, abs=1e-9)
    assert not hasattr(plain, "feature_names_in_")
    coded = frame.assign(job=frame["job"].map({job: i for i, job in enumerate(JOBS)})).to_numpy(dtype=np.float64)
    floats = _rent(
        schema=by_position | {"x1": Categorical(("0", "1", "2"))},
        parties={"bank": [2, 3], "town": [1, 0]},
        label=Numeric(0, 2000),
    ).fit(coded, rent)
    assert floats.coef_ == pytest.approx(expected.coef_, abs=1e-9)


def test_a_schema_object_brings_its_parties_and_the_owner_of_the_label() -> None:
    frame, rent = _people()
    schema = Schema.of(
        {
            "bank": {"income": SCHEMA["income"], "rent": SCHEMA["rent"], "owner": SCHEMA["owner"]},
            "town": {"age": SCHEMA["age"], "job": SCHEMA["job"]},
        }
    )
    model = _rent(schema=schema, parties=None).fit(frame, rent)
    assert model.plan_["parties"]["bank"]["columns"] == ["income", "owner", "rent"]
    assert model.schema_.find("rent") == ("bank", "rent")
    moved = _rent(label_party="town").fit(frame, rent)
    assert moved.schema_.find("rent") == ("town", "rent")


def test_a_party_may_hold_nothing_but_the_label() -> None:
    frame, rent = _people()
    model = _rent(parties={"landlord": [], "town": list(frame)}).fit(frame, rent)
    assert model.schema_.find("rent")[0] == "landlord"
    assert model.score(frame, rent) > 0.99


def test_lattice_product_gives_the_model_of_the_plain_one() -> None:
    frame, rent = _people()
    plain = _rent(epsilon=100.0).fit(frame, rent)
    lattice = _rent(epsilon=100.0, product="lattice").fit(frame, rent)
    assert lattice.release_.plan["product"] == "lattice"
    assert lattice.coef_ == pytest.approx(plain.coef_, rel=0.2, abs=20)


@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1), (-1.0, 1.0), (False, True)])
def test_classes_keep_their_type_and_the_second_is_the_positive_one(classes: tuple[Any, Any]) -> None:
    frame, rent = _people()
    doubt = np.random.default_rng(8).normal(0, 50, len(rent))
    y = np.array(classes)[(rent + doubt > np.median(rent)).astype(int)]
    schema = {name: column for name, column in SCHEMA.items() if name != "rent"}
    model = VerticalLogisticRegression(epsilon=1e5, schema=schema, random_state=0).fit(frame, y)
    assert model.classes_.tolist() == list(classes)
    assert model.score(frame, y) > 0.8
    assert set(model.predict(frame)) == set(classes)
    chances = model.predict_proba(frame)
    assert np.array_equal(chances[:, 1] > 0.5, model.predict(frame) == classes[1])
    assert np.exp(model.predict_log_proba(frame)) == pytest.approx(chances)
    declared = VerticalLogisticRegression(
        epsilon=1e5, schema=schema, random_state=0, label=Binary((str(classes[1]), str(classes[0])))
    ).fit(frame, y)
    assert declared.classes_.tolist() == list(classes)
    assert np.array_equal(declared.coef_, model.coef_)


def test_classes_that_a_line_separates_can_be_fitted() -> None:
    frame, rent = _people()
    schema = {name: column for name, column in SCHEMA.items() if name != "rent"}
    model = VerticalLogisticRegression(epsilon=1e5, schema=schema, random_state=0).fit(frame, rent > np.median(rent))
    assert model.score(frame, rent > np.median(rent)) > 0.9
    assert np.isfinite(model.coef_).all()


def test_declared_classes_need_not_occur() -> None:
    frame, _ = _people(20)
    schema = {name: column for name, column in SCHEMA.items() if name != "rent"}
    label = {"kind": "binary", "levels": ["no", "yes"]}
    model = VerticalLogisticRegression(epsilon=100.0, schema=schema, label=label).fit(frame, ["no"] * 20)
    assert model.classes_.tolist() == ["no", "yes"]
    with pytest.raises(DataError, match="declared classes"):
        model.fit(frame, ["maybe"] * 20)


def test_bounds_come_from_nowhere_but_the_declaration() -> None:
    draw = np.random.default_rng(1)
    X = draw.uniform(-1, 1, (300, 2))
    y = X @ [0.3, -0.2]
    with pytest.warns(UserWarning, match=r"\[-1, 1\]"):
        near = VerticalLinearRegression(**LINEAR).fit(X, y)
    with pytest.warns(UserWarning, match=r"\[-1, 1\]"):
        far = VerticalLinearRegression(**LINEAR).fit(1e6 * X, y)
    assert near.plan_ == far.plan_
    assert near.schema_ == far.schema_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # At this epsilon the grid is coarser than the noise, and the plan says so.
        warnings.filterwarnings("ignore", message="with n=300 numbers are rounded")
        warnings.filterwarnings("ignore", message=r"epsilon=1e\+06 hides nobody")
        VerticalLinearRegression(**LINEAR, schema=Numeric(-1, 1), label=Numeric(-1, 1)).fit(X, y)


def test_a_hopeless_plan_warns_before_the_spend() -> None:
    X = np.random.default_rng(2).uniform(-1, 1, (50, 3))
    model = VerticalLinearRegression(epsilon=0.01, schema=Numeric(-1, 1), label=Numeric(-1, 1))
    with pytest.warns(UserWarning, match="trivial"):
        model.fit(X, X[:, 0])
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="trivial"):
        warnings.simplefilter("error")
        fresh = clone(model)
        fresh.fit(X, X[:, 0])
    assert not hasattr(fresh, "release_")


def test_only_a_seeded_release_repeats_and_it_says_so() -> None:
    X = np.random.default_rng(3).uniform(-1, 1, (100, 2))
    fits = [VerticalLinearRegression(random_state=state).fit(X, X[:, 0]) for state in (5, 5, 6, None, None)]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert len({fit.release_.blocks[0].values.tobytes() for fit in fits}) == 4
    assert [fit.release_.provenance["seeded"] for fit in fits] == [True, True, True, False, False]


def test_every_fold_and_candidate_is_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(4).uniform(-1, 1, (200, 2))
    y = X @ [0.5, 0.4]
    sessions: list[str] = []
    run = vertical.run_guarded

    def counted(*args: Any, **kwargs: Any) -> Any:
        outcome = run(*args, **kwargs)
        sessions.append(outcome.session.digest)
        return outcome

    monkeypatch.setattr(vertical, "run_guarded", counted)
    model = VerticalLinearRegression(epsilon=1000.0, ridge=0.0)
    assert cross_val_score(model, X, y, cv=4).min() > 0.9
    assert len(set(sessions)) == 4
    search = GridSearchCV(model, {"ridge": [0.0, 10.0]}, cv=3, refit=False).fit(X, y)
    assert search.best_params_ == {"ridge": 0.0}
    assert len(set(sessions)) == 4 + 6


def test_pipeline_and_clone() -> None:
    frame, rent = _people()
    numbers = frame[["age", "income"]]
    model = VerticalLinearRegression(
        **LINEAR, schema=Numeric(-3, 3), label=Numeric(0, 2000), parties={"a": [0], "b": [1]}
    )
    assert clone(model).get_params() == model.get_params()
    piped = make_pipeline(StandardScaler(), model).fit(numbers, rent)
    assert piped.score(numbers, rent) == pytest.approx(
        LinearRegression().fit(numbers, rent).score(numbers, rent), abs=1e-3
    )
    piped.set_params(verticallinearregression__parties=None).fit(numbers, rent)
    assert list(piped[-1].plan_["parties"]) == ["data"]


def test_without_intercept_the_model_passes_through_the_middle_of_the_ranges() -> None:
    frame, rent = _people()
    numbers = frame[["age", "income"]]
    model = VerticalLinearRegression(**LINEAR, schema=BOUNDS, label=Numeric(0, 2000), fit_intercept=False)
    model.fit(numbers, rent)
    assert model.model_.intercept == 0
    assert model.predict(pd.DataFrame({"age": [50.0], "income": [2500.0]})) == pytest.approx([1000.0])


def test_parties_may_state_what_they_allow() -> None:
    frame, rent = _people()
    model = _rent(epsilon={"bank": 50.0, "town": 80.0}, product="plain").fit(frame, rent)
    for party, offered in (("bank", 50.0), ("town", 80.0)):
        assert model.plan_["parties"][party]["epsilon"]["outsider"] <= offered


def test_the_release_can_be_written_and_read() -> None:
    frame, rent = _people()
    model = _rent().fit(frame, rent)
    assert read_release(write_release(model.release_)).plan["epsilon"] == model.plan_["epsilon"]


def _wide(declared: dict[str, float] | None = None, **changed: Any) -> VerticalLinearRegression:
    draw = np.random.default_rng(0)
    X = draw.uniform(-0.1, 0.1, (200, 120))
    columns = [f"x{i}" for i in range(120)]
    schema = Schema.of(
        {"a": dict.fromkeys(columns[:60], Numeric(-1, 1)), "b": dict.fromkeys(columns[60:], Numeric(-1, 1))}
    )
    schema = Schema(schema.parties, declared or {})
    told = {"epsilon": 1.0, "delta": 1e-6, "label": Numeric(-1, 1), "product": "plain", "random_state": 0, **changed}
    return VerticalLinearRegression(schema=schema, **told).fit(X, X[:, 0])


def test_declared_norms_lower_the_noise() -> None:
    """Each way to declare them, against none."""
    norms = {"a": 0.6, "b": 0.6}
    without, by_schema, by_setting = _wide(), _wide(norms), _wide(norms=norms)
    assert dict(by_schema.schema_.norms) == dict(by_setting.schema_.norms) == norms
    assert by_schema.plan_["released"] == "trace"
    noise = [
        {block["name"]: block["noise_std"] for block in model.plan_["blocks"]}
        for model in (without, by_schema, by_setting)
    ]
    assert noise[1] == noise[2]
    assert noise[1]["a x b (label)"] < 0.3 * noise[0]["a x b (label)"]


def test_release_label_square_and_split_reach_the_plan() -> None:
    frame, rent = _people()
    assert _rent().fit(frame, rent).plan_["released"] == "full"
    traced = _rent(release="trace").fit(frame, rent)
    assert traced.plan_["released"] == "trace"

    def numbers(**changed: Any) -> int:
        return sum(block["terms"] for block in _rent(**changed).fit(frame, rent).plan_["blocks"])

    assert numbers(label_square=True) == numbers() + 1
    offered = {"epsilon": {"bank": 50.0, "town": 80.0}}
    even = _rent(**offered).fit(frame, rent).release_.provenance["agreement"]["offers"]
    parts = _rent(**offered, split={"bank": {"own": 5.0, "town": 20.0}}).fit(frame, rent)
    assert even["bank"]["pairs"] == {}
    assert parts.release_.provenance["agreement"]["offers"]["bank"] == {
        "total": 50.0,
        "own": 5.0,
        "pairs": {"town": 20.0},
    }


@pytest.mark.parametrize("levels", [[False, True], ["false", "true"], [0, 1]])
@pytest.mark.parametrize("kind", ["pandas", "polars", "objects", "floats"])
def test_truth_values_beside_numbers_are_the_declared_levels(levels: list[Any], kind: str) -> None:
    frame, rent = _people()
    frame = frame[["age", "owner"]].assign(owner=frame["owner"] == 1)
    given: Any = {
        "pandas": lambda: frame,
        "polars": lambda: pl.DataFrame({name: frame[name].tolist() for name in frame}),
        "objects": lambda: frame.to_numpy(dtype=object),
        "floats": lambda: frame.to_numpy(dtype=np.float64),
    }[kind]()
    schema = {"age": Numeric(0, 100), "owner": {"kind": "binary", "levels": levels}}
    model = VerticalLinearRegression(**LINEAR, schema=schema, label=Numeric(0, 2000)).fit(given, rent)
    assert list(model.encoded_feature_names_) == ["age", f"owner={levels[1]}"]
    alone = LinearRegression().fit(frame.astype(np.float64), rent)
    assert model.coef_ == pytest.approx(alone.coef_, abs=1.0)
    assert model.predict(given) == pytest.approx(alone.predict(frame.astype(np.float64)), abs=5)


def test_an_array_from_a_pipeline_takes_the_schemas_columns_in_order() -> None:
    frame, rent = _people()
    steps = ColumnTransformer(
        [("scaled", StandardScaler(), ["age", "income"]), ("kept", "passthrough", ["job", "owner"])],
        verbose_feature_names_out=False,
    )
    schema = {
        "age": Numeric(-3, 3),
        "income": Numeric(-3, 3),
        "job": Categorical(JOBS),
        "owner": SCHEMA["owner"],
        "rent": SCHEMA["rent"],
    }
    with pytest.warns(
        UserWarning, match="no column names: its columns are taken to be age, income, job, owner, in this"
    ):
        piped = make_pipeline(steps, _rent(schema=schema)).fit(frame, rent)
    assert list(piped[-1].plan_["parties"]["bank"]["columns"]) == ["income", "owner", "rent"]
    assert piped.score(frame, rent) > 0.99
    named = make_pipeline(clone(steps).set_output(transform="pandas"), _rent(schema=schema))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="X has no column names")
        named.fit(frame, rent)
    assert named[-1].coef_ == pytest.approx(piped[-1].coef_)
    by_parties = Schema.of(
        {
            "a": {"age": Numeric(-3, 3), "income": Numeric(-3, 3)},
            "b": {"job": Categorical(JOBS), "owner": SCHEMA["owner"]},
        }
    )
    assert (
        make_pipeline(steps, _rent(schema=by_parties, parties=None, label=Numeric(0, 2000)))
        .fit(frame, rent)
        .score(frame, rent)
        > 0.99
    )
    by_position = {0: Numeric(-3, 3), 1: Numeric(-3, 3), 2: Categorical(JOBS), 3: SCHEMA["owner"]}
    placed = _rent(schema=by_position, parties={"bank": [1, 3], "town": [0, 2]}, label=Numeric(0, 2000))
    assert make_pipeline(steps, placed).fit(frame, rent)[-1].coef_ == pytest.approx(piped[-1].coef_, abs=0.05)


def test_arrays_and_frames_that_do_not_fit_the_schema_are_refused() -> None:
    frame, rent = _people(30)
    with pytest.raises(SchemaError, match="X has 3 columns without names, and the schema declares 4"):
        _rent().fit(frame.to_numpy(dtype=object)[:, :3], rent)
    steps = ColumnTransformer([("kept", "passthrough", list(frame))]).set_output(transform="pandas")
    with pytest.raises(SchemaError, match="none for 'kept__age'; a ColumnTransformer keeps names with"):
        make_pipeline(steps, _rent()).fit(frame, rent)
    dated = frame.assign(age=pd.date_range("2020-01-01", periods=30))
    for wrong in (dated, dated[["age", "income"]]):
        schema = {name: FEATURES[name] for name in wrong}
        model = VerticalLinearRegression(**LINEAR, schema=schema, label=Numeric(0, 2000))
        with pytest.raises(DataError, match="column age must hold numbers, got dates"):
            model.fit(wrong, rent)
    yes = VerticalLogisticRegression(schema=FEATURES, label=Binary(("no", "yes")))
    with pytest.raises(DataError, match=r"declared classes \['no', 'yes'\], got truth values"):
        yes.fit(frame, rent > np.median(rent))


def test_types_of_pandas_are_read_as_what_they_hold() -> None:
    frame, rent = _people()
    typed = frame.assign(
        job=frame["job"].astype("category"), owner=frame["owner"].astype("Int64"), age=frame["age"].astype("Float64")
    )
    assert _rent().fit(typed, rent).coef_ == pytest.approx(_rent().fit(frame, rent).coef_)
    typed.loc[3, "age"] = pd.NA
    typed.loc[4, "owner"] = pd.NA
    with pytest.raises(DataError, match="misses 1 value"):
        _rent(strict=True).fit(typed, rent)
    with pytest.warns(UserWarning, match="1 of 400 values of age is missing, the first in row 4: taken as"):
        assert _rent().fit(typed, rent).unfit_ == {"bank": {"owner": 1}, "town": {"age": 1}}
    filled = {**SCHEMA, "age": Numeric(0, 100, fill=40.0), "owner": Binary(("0", "1"), fill="0")}
    assert np.isfinite(_rent(schema=filled).fit(typed, rent).predict(typed)).all()


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"epsilon": -1.0}, PrivacyError, "epsilon must be"),
        ({"delta": 1.0}, PrivacyError, "delta must"),
        ({"collusion": 2}, PrivacyError, "collusion must"),
        ({"product": "paillier"}, StudyError, "product must"),
        ({"calibration": "loose"}, StudyError, "calibration must"),
        ({"method": "magic"}, StudyError, "method must"),
        ({"ridge": -1.0}, StudyError, "ridge must"),
        ({"parties": {"bank": ["income"], "town": ["job", "age"]}}, StudyError, "'owner'"),
        (
            {"parties": {"bank": ["income", "owner", "age"], "town": ["job", "age"]}},
            SchemaError,
            "belongs to one party, got",
        ),
        ({"parties": {**PARTIES, "ghost": []}}, SchemaError, "declares no column"),
        ({"parties": {**PARTIES, "ghost": ["soul"]}}, StudyError, "'soul'"),
        ({"label": "wage"}, SchemaError, "'wage'"),
        ({"label": "age"}, StudyError, "must not hold the label"),
        ({"label": Categorical(JOBS), "schema": FEATURES}, StudyError, "must be numeric"),
        ({"label_party": "ghost"}, StudyError, "'ghost'"),
        ({"schema": {"job": Categorical(JOBS), "rent": Numeric(0, 2000)}}, SchemaError, "must declare every column"),
        ({"schema": {**SCHEMA, "job": Categorical(JOBS[:2])}}, DataError, "baker"),
        ({"schema": {**SCHEMA, "job": Numeric(0, 1)}}, DataError, "numbers"),
        ({"schema": {**SCHEMA, "job": 3}}, SchemaError, "declared by"),
        ({"schema": {**SCHEMA, "wage": Numeric(0, 1)}}, SchemaError, "declares column 'wage', which X does not have"),
        ({"schema": SCHEMA | {0: Numeric(0, 100)}}, SchemaError, "column age is declared twice"),
        ({"release": "half"}, StudyError, "release must be one of"),
        ({"label_square": "yes"}, StudyError, "label_square"),
        ({"norms": {"ghost": 1.0}}, SchemaError, "'ghost'"),
        ({"norms": {"bank": -1.0}}, SchemaError, "norm must be a positive number"),
        ({"split": {"bank": {"own": 0.1}}}, StudyError, "split spreads what each party allows"),
        ({"epsilon": {"bank": 1.0, "town": 1.0}, "split": {"ghost": {}}}, StudyError, "'ghost'"),
        (
            {"epsilon": {"bank": 1.0, "town": 1.0}, "split": {"bank": {"own": 2.0}}},
            PrivacyError,
            "nothing is left of epsilon=1.0",
        ),
        ({"epsilon": {"bank": 1.0, "town": 1.0}, "split": {"bank": {"own": -2.0}}}, PrivacyError, "split.own must be"),
        ({"schema": OF_PARTIES, "norms": {"town": 0.7}}, StudyError, "declares norms={'town': 0.5}"),
        ({"schema": OF_PARTIES, "label_party": "town"}, StudyError, "gives the label to bank"),
        (
            {"schema": OF_PARTIES, "parties": {"bank": ["income"], "town": ["job", "age", "owner"]}},
            StudyError,
            "the schema gives column 'owner' to another party than town",
        ),
    ],
)
def test_wrong_settings_are_named_and_nothing_is_spent(
    changed: dict[str, Any], error: type[ColonnadeError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spend(*_: Any, **__: Any) -> None:
        raise AssertionError("a session was opened")

    monkeypatch.setattr(vertical, "run_guarded", spend)
    frame, rent = _people(30)
    model = _rent(**changed)
    with pytest.raises(error, match=words):
        model.fit(frame, rent)
    assert not hasattr(model, "model_")


@pytest.mark.parametrize("value", [None, np.nan, np.inf, "much"])
def test_a_value_that_is_no_number_is_counted_or_refused(value: Any) -> None:
    frame, rent = _people(30)
    broken = frame.astype({"age": object})
    broken.loc[3, "age"] = value
    model = _rent().fit(broken, rent)
    assert np.isfinite(model.predict(broken)).all()
    if value is np.inf:
        # As in a file: beyond its bounds.
        assert model.clipped_["town"]["age"] == 1
        return
    assert model.unfit_["town"] == {"age": 1}
    with pytest.raises(DataError, match="column age"):
        _rent(strict=True).fit(broken, rent)
    broken.loc[5, "age"] = value
    with pytest.raises(DataError, match=r"column age .*more than 1 in 20 does not fit"):
        _rent().fit(broken, rent)


def test_a_regression_needs_two_classes() -> None:
    X = np.zeros((6, 1))
    with pytest.raises(ValueError, match="1 class"):
        VerticalLogisticRegression().fit(X, np.ones(6))
    with pytest.raises(ValueError, match=r"Unknown label type|one class for each record"):
        VerticalLogisticRegression().fit(X, [0.5, 1.25, 2.0, 0.0, 1.0, 2.0])


POLICY = """
[policy]
party = "works"
partners = ["*"]
[session]
epsilon = {session}
[total]
epsilon = 5.0
"""


def test_what_is_booked_counts_against_the_partys_own_columns(tmp_path: Path) -> None:
    (tmp_path / "works.toml").write_text(POLICY.format(session=2.0))
    consent = {"works": {"policy": tmp_path / "works.toml", "ledger": tmp_path / "works.ledger"}}
    schema = Schema({"works": {"a": Numeric(-1, 1)}, "town": {"b": Numeric(-1, 1)}})

    def data(**columns: list[float]) -> object:
        guard = open_guards(consent, schema, pl.DataFrame(columns), seeded=False)["works"]
        assert isinstance(guard, ConsentGuard)
        return guard.data

    own = data(a=[0.5, 0.1], b=[0.0, 1.0])
    assert own == data(a=[0.5, 0.1], b=[0.3, 0.3]) == data(b=[0.0, 0.0], a=[0.5, 0.1]) != data(a=[0.5, 0.2], b=[0, 1])


def test_a_policy_and_a_ledger_that_are_named_are_honoured(tmp_path: Path) -> None:
    X = pd.DataFrame(np.random.default_rng(5).uniform(-1, 1, (300, 2)), columns=["a", "b"])
    y = X["a"].to_numpy() / 2
    consent = {"works": {"policy": str(tmp_path / "works.toml"), "ledger": tmp_path / "works.ledger"}}
    model = VerticalLinearRegression(
        epsilon=2.0,
        parties={"works": ["a"], "town": ["b"]},
        schema=Numeric(-1, 1),
        label=Numeric(-1, 1),
        consent=consent,
    )
    (tmp_path / "works.toml").write_text(POLICY.format(session=0.5))
    with pytest.raises(PolicyError, match=r"works refuses: .*epsilon"):
        model.fit(X, y)
    ledger = Ledger(tmp_path / "works.ledger")
    assert not ledger.entries()
    (tmp_path / "works.toml").write_text(POLICY.format(session=2.0))
    model.fit(X, y)
    assert [entry.kind.value for entry in ledger.entries()] == ["booked", "released"]
    model.fit(X, y)
    with pytest.raises(LedgerError, match="works refuses"):
        model.fit(X, y)
    assert len(ledger.entries()) == 4
    with pytest.raises(StudyError, match="random_state is for simulations"):
        model.set_params(random_state=1).fit(X, y)
    with pytest.raises(StudyError, match="must name a policy and a ledger"):
        model.set_params(random_state=None, consent={"works": {"ledger": "x"}}).fit(X, y)

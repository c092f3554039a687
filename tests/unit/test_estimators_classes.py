"""Several classes behind the scikit-learn front door, values of all kinds, and what an object has spent."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from colonnade import VerticalLinearRegression, VerticalLogisticRegression, VerticalPoissonRegressor
from colonnade.foundation.errors import DataError, SchemaError, StudyError
from colonnade.foundation.schema import Binary, Boolean, Categorical, Date, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.mechanism.plan import View
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session

quiet = pytest.mark.filterwarnings("ignore::UserWarning")
WAYS = np.array(["bus", "car", "walk"])
SCHEMA: dict[str, Any] = {
    "job": Categorical(("clerk", "smith", "baker")),
    "age": Numeric(20, 70),
    "owner": Boolean(),
    "born": Date("1950-01-01", "2005-01-01"),
}
SIMULATED: dict[str, Any] = {
    "epsilon": 1000.0,
    "schema": SCHEMA,
    "parties": {"works": ["job", "age"], "town": ["owner", "born"]},
    "product": "plain",
    "random_state": 1,
}


def _people(n: int = 4000) -> tuple[pd.DataFrame, NDArray[Any]]:
    draw = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "job": draw.choice(["clerk", "smith", "baker"], n),
            "age": draw.uniform(20, 70, n),
            "owner": draw.random(n) < 0.4,
            "born": pd.to_datetime("1950-01-01") + pd.to_timedelta(draw.integers(0, 20000, n), "D"),
        }
    )
    scores = np.zeros((n, 3))
    scores[:, 0] = 1.5 * (frame["job"] == "clerk") + 0.02 * frame["age"]
    scores[:, 1] = 2.0 * frame["owner"]
    scores[:, 2] = 0.05 * (frame["born"].dt.year - 1970)
    return frame, WAYS[(scores + draw.gumbel(size=(n, 3))).argmax(axis=1)]


def _numbers(frame: pd.DataFrame) -> pd.DataFrame:
    days = (frame["born"] - pd.Timestamp("1950-01-01")).dt.days / 1000
    wide = pd.get_dummies(frame.assign(born=days, job=pd.Categorical(frame["job"], SCHEMA["job"].levels)))
    return wide.drop(columns="job_clerk").astype(float)


@quiet
def test_three_classes_from_one_release_are_those_of_scikit_learn() -> None:
    frame, y = _people()
    model = VerticalLogisticRegression(**SIMULATED).fit(frame, y)
    known = LogisticRegression(max_iter=2000, C=1e6).fit(_numbers(frame), y)
    assert model.classes_.tolist() == WAYS.tolist() == known.classes_.tolist()
    assert model.coef_.shape == (3, 5) and model.intercept_.shape == (3,)
    assert model.coef_.sum(axis=0) == pytest.approx(np.zeros(5), abs=1e-9)
    order = {"age": "age", "owner": "owner=true", "born": "born", "job_smith": "job=smith", "job_baker": "job=baker"}
    names = list(model.encoded_feature_names_)
    assert names == ["job=smith", "job=baker", "age", "owner=true", "born"]
    for k, name in enumerate(known.feature_names_in_):
        scale = 1000.0 if name == "born" else 1.0
        assert model.coef_[:, names.index(order[name])] * scale == pytest.approx(known.coef_[:, k], abs=0.12)
    chances = model.predict_proba(frame)
    assert chances.shape == (len(y), 3) and chances.sum(axis=1) == pytest.approx(np.ones(len(y)))
    assert np.array_equal(model.predict(frame), WAYS[model.decision_function(frame).argmax(axis=1)])
    majority = max((y == way).mean() for way in WAYS)
    assert model.score(frame, y) > known.score(_numbers(frame), y) - 0.01 > majority + 0.1
    assert model.plan_["task"] == "multinomial" and model.plan_["released"] == "full"
    assert model.intervals_.coefficients == () and "a model of several classes has none" in model.intervals_.reason


@quiet
def test_the_order_and_the_type_of_several_classes() -> None:
    frame, y = _people(300)
    codes = np.searchsorted(WAYS, y)
    text = VerticalLogisticRegression(**SIMULATED).fit(frame, y)
    numbers = VerticalLogisticRegression(**SIMULATED).fit(frame, codes * 10)
    assert numbers.classes_.tolist() == [0, 10, 20]
    assert np.allclose(numbers.coef_, text.coef_)
    label = Categorical(("walk", "car", "bus"))
    declared = VerticalLogisticRegression(**SIMULATED, label=label).fit(frame, y)
    assert declared.classes_.tolist() == WAYS.tolist() and np.allclose(declared.coef_, text.coef_)
    with pytest.raises(DataError, match="'bus', 'car' and 'walk' only"):
        declared.fit(frame, np.where(y == "bus", "train", y))
    two = VerticalLogisticRegression(**SIMULATED, label=Categorical(("a", "b"))).fit(frame, np.where(codes, "a", "b"))
    assert two.coef_.shape == (1, 5) and two.plan_["task"] == "logistic"


@quiet
@pytest.mark.parametrize(
    "wrong", [{"method": "raw"}, {"fit_intercept": False}, {"calibration": "paper"}, {"release": "trace"}]
)
def test_what_several_classes_do_not_have_is_refused_before_the_spend(wrong: dict[str, Any]) -> None:
    frame, y = _people(50)
    model = VerticalLogisticRegression(**SIMULATED, **wrong)
    with pytest.raises(StudyError, match=r"several classes|multinomial"):
        model.fit(frame, y)
    assert not hasattr(model, "spent_")


@quiet
def test_a_number_is_no_class() -> None:
    frame, y = _people(50)
    with pytest.raises(SchemaError, match="two or more levels"):
        VerticalLogisticRegression(**SIMULATED, label=Numeric(0, 2)).fit(frame, np.searchsorted(WAYS, y))


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_what_several_classes_cost_is_what_two_cost(classes: int) -> None:
    """Tables with a column of levels move by 2 for one record, however many levels it has."""
    levels = tuple(f"c{i}" for i in range(classes))
    label = Binary(("c0", "c1")) if classes == 2 else Categorical(levels)
    task = Task.LOGISTIC if classes == 2 else Task.MULTINOMIAL
    schema = Schema({"a": {"x": Numeric(0, 1), "y": label}, "b": {"z": Categorical(("p", "q", "r"))}})
    session = plan_session(Agreement.from_terms("t", schema, "a.y", task, epsilon=1.0), 1000, bytes(32))
    scales = {item.block.name: float(item.scale) for item in session.plan.blocks}
    other = Schema({"a": {"x": Numeric(0, 1), "y": Binary(("c0", "c1"))}, "b": {"z": Categorical(("p", "q", "r"))}})
    beside = plan_session(Agreement.from_terms("t", other, "a.y", Task.LOGISTIC, epsilon=1.0), 1000, bytes(32))
    assert scales == pytest.approx({item.block.name: float(item.scale) for item in beside.plan.blocks}, rel=0.05)
    assert session.views()[View.OUTSIDER] == pytest.approx(1.0, rel=1e-6)


@quiet
@pytest.mark.parametrize("kind", ["pandas", "polars", "objects", "texts"])
def test_dates_and_truth_values_come_in_many_forms(kind: str) -> None:
    frame, y = _people(400)
    given: Any = {
        "pandas": lambda: frame,
        "polars": lambda: pl.DataFrame({name: frame[name].tolist() for name in frame}),
        "objects": lambda: frame.to_numpy(dtype=object),
        "texts": lambda: frame.assign(born=frame["born"].dt.strftime("%Y-%m-%d"), owner=frame["owner"].astype(int)),
    }[kind]()
    expected = VerticalLogisticRegression(**SIMULATED).fit(frame, y == "bus")
    found = VerticalLogisticRegression(**SIMULATED).fit(given, y == "bus")
    assert np.array_equal(found.coef_, expected.coef_)
    assert np.array_equal(found.predict(given), expected.predict(frame))


@quiet
def test_dates_pass_through_a_pipeline() -> None:
    frame, y = _people(400)
    steps = ColumnTransformer(
        [("scaled", StandardScaler(), ["age"]), ("kept", "passthrough", ["job", "owner", "born"])],
        verbose_feature_names_out=False,
    )
    schema = {"age": Numeric(-3, 3), **{name: SCHEMA[name] for name in ("job", "owner", "born")}}
    piped = make_pipeline(steps, VerticalLogisticRegression(**{**SIMULATED, "schema": schema})).fit(frame, y)
    assert piped.score(frame, y) > 0.5 and piped.predict_proba(frame).shape == (400, 3)


@quiet
def test_dates_without_a_declaration_are_refused() -> None:
    frame, y = _people(50)
    with pytest.raises(DataError, match="must hold numbers, got dates"):
        VerticalLogisticRegression(epsilon=1.0, schema=Numeric(0, 1)).fit(frame[["born"]], y)


def test_the_second_fit_of_an_object_warns_once_and_the_total_is_kept() -> None:
    X = np.random.default_rng(3).uniform(-1, 1, (80, 2))
    model = VerticalLinearRegression(epsilon=0.5, delta=1e-6, schema=Numeric(-1, 1), label=Numeric(-1, 1))

    def notes() -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(X, X[:, 0])
        return [str(w.message) for w in caught if "every fit spends anew" in str(w.message)]

    assert notes() == [] and model.spent_ == pytest.approx({"fits": 1, "epsilon": 0.5, "delta": 1e-6}, rel=1e-6)
    (told,) = notes()
    assert "epsilon 1 in all" in told
    assert notes() == [] and model.spent_["fits"] == 3 and model.spent_["epsilon"] == pytest.approx(1.5)
    assert not hasattr(clone(model), "spent_")


@quiet
def test_a_simulation_spends_nothing_to_warn_of() -> None:
    X = np.random.default_rng(3).uniform(-1, 1, (80, 2))
    model = VerticalLinearRegression(random_state=1, product="plain").fit(X, X[:, 0])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*every fit spends anew")
        model.fit(X, X[:, 0])
    assert model.spent_["fits"] == 2


@quiet
def test_a_ledger_counts_in_place_of_the_warning(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(
        '[policy]\nparty = "data"\npartners = ["*"]\n[session]\nepsilon = 2.0\n[total]\nepsilon = 2.5\n'
    )
    X = np.random.default_rng(3).uniform(-1, 1, (80, 2))
    consent = {"data": {"policy": tmp_path / "p.toml", "ledger": tmp_path / "l.db"}}
    model = VerticalLinearRegression(schema=Numeric(-1, 1), label=Numeric(-1, 1), consent=consent).fit(X, X[:, 0])
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*every fit spends anew")
        model.fit(X, X[:, 0])
    with pytest.raises(Exception, match=r"at most epsilon=2\.5 in total"):
        model.fit(X, X[:, 0])
    assert model.spent_["fits"] == 2


@pytest.mark.parametrize("estimator", [VerticalLinearRegression, VerticalLogisticRegression, VerticalPoissonRegressor])
def test_sample_weight_is_refused_with_the_reason(estimator: Any) -> None:
    X = np.zeros((4, 1))
    with pytest.raises(TypeError, match="a record that counts twice would move the release twice as far"):
        estimator().fit(X, [0, 1, 0, 1], sample_weight=np.ones(4))
    with pytest.raises(TypeError, match="fit takes X and y, got 'weights'"):
        estimator().fit(X, [0, 1, 0, 1], weights=np.ones(4))

"""Loaders, encodings, splits and the demo's files."""

import gzip
import tomllib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from colonnade.foundation.errors import DataError, SchemaError, StudyError
from colonnade.foundation.schema import Schema
from experiments.data import (
    Dataset,
    adult_41,
    adult_77,
    adult_hours,
    attribute_of,
    cps_wages,
    dutch,
    dutch_36,
    encode,
    ipums_income,
    make_demo,
    partition,
    split,
    synthetic,
    synthetic_arrays,
)
from experiments.data.adult import CATEGORICAL, INCOME, NUMERIC, read_adult
from experiments.data.dataset import binned, categorical, numeric
from experiments.data.ipums import COLUMNS as IPUMS_COLUMNS
from experiments.data.synthetic import NOISE_SHARE, label_scale, signal_variance

DEMO = Path(__file__).resolve().parents[3] / "demo"


@pytest.mark.parametrize(
    ("load", "rows", "features"),
    [(adult_41, 45_222, 41), (adult_77, 45_222, 77), (adult_hours, 45_222, 41), (cps_wages, 280_005, 14)],
)
def test_shipped_data_has_the_stated_shape(load, rows, features):
    dataset = load()
    X, y, names = encode(dataset)
    assert X.shape == (rows, features)
    assert len(names) == len(set(names)) == len(attribute_of(dataset)) == features
    assert X.min() >= -1
    assert X.max() <= 1
    assert np.isfinite(X).all()
    if dataset.task == "logistic":
        assert set(np.unique(y)) == {0.0, 1.0}
    else:
        assert -1 <= y.min() < y.max() <= 1
    Schema.of({"all": dataset.columns})


def test_no_shipped_label_is_constant_and_the_positive_class_is_the_rarer_one():
    _, y, _ = encode(adult_41())
    assert 0.2 < y.mean() < 0.3


def small(values, spec):
    frame = pl.DataFrame({"a": values, "y": [0.0] * len(values)})
    return Dataset("small", frame, {"a": spec, "y": numeric(-1, 1)}, "y", "linear")


def test_encode_maps_numbers_linearly_and_clips():
    X, _, names = encode(small([0, 5, 10, 99], numeric(0, 10)))
    assert names == ["a"]
    assert X[:, 0].tolist() == [-1, 0, 1, 1]


def test_encode_drops_the_first_level_and_the_first_bin():
    X, _, _ = encode(small(["u", "v", "w"], categorical(["u", "v", "w"])))
    assert X.tolist() == [[0, 0], [1, 0], [0, 1]]
    X, _, _ = encode(small([0, 1, 2, 5], binned(0, 10, [1, 3])))
    assert X.tolist() == [[0, 0], [1, 0], [1, 0], [0, 1]]


def test_encode_refuses_a_level_nobody_declared():
    with pytest.raises(SchemaError, match="x"):
        encode(small(["u", "x"], categorical(["u", "v"])))


def test_split_is_a_partition_that_depends_on_the_replicate_only():
    train, test = split(1001, 3)
    assert len(train) == 801
    assert sorted([*train, *test]) == list(range(1001))
    assert np.array_equal(split(1001, 3)[0], train)
    assert not np.array_equal(split(1001, 4)[0], train)


@pytest.mark.parametrize("K", [1, 2, 4, 8])
def test_partition_is_nearly_equal_and_keeps_every_attribute(K):
    features = adult_41().features
    parts = partition(features, K)
    assert [name for part in parts for name in part] == features
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_partition_refuses_more_parties_than_attributes():
    with pytest.raises(StudyError, match="K=3"):
        partition(["a", "b"], 3)


def test_dutch_says_where_to_put_the_file(monkeypatch):
    monkeypatch.delenv("COLONNADE_DUTCH", raising=False)
    with pytest.raises(DataError, match="COLONNADE_DUTCH"):
        dutch_36()


def test_dutch_refuses_another_file(tmp_path):
    other = tmp_path / "dutch.csv.gz"
    other.write_bytes(gzip.compress(b"sex,age\n1,4\n"))
    with pytest.raises(DataError, match="SHA-256"):
        dutch_36(other)
    with pytest.raises(DataError, match="absent"):
        dutch_36(tmp_path / "absent.csv")


def test_dutch_has_36_features_by_its_schema_and_by_the_file_where_there_is_one():
    features = {name: spec for name, spec in dutch.COLUMNS.items() if name != "occupation"}
    empty = pl.DataFrame({name: [] for name in dutch.COLUMNS})
    assert len(attribute_of(Dataset("empty", empty, dutch.COLUMNS, "occupation", "logistic"))) == 36
    assert len(features) == 11
    try:
        dataset = dutch_36()
    except DataError as absent:
        pytest.skip(str(absent))
    assert encode(dataset)[0].shape == (60_420, 36)


def ipums_row(**changed):
    row = {name: spec["levels"][0] if "levels" in spec else "1" for name, spec in IPUMS_COLUMNS.items()}
    return row | {"INCTOT": "50000"} | changed


def test_ipums_reads_an_extract_and_drops_unknown_codes(tmp_path):
    path = tmp_path / "us.csv"
    pl.DataFrame([ipums_row(), ipums_row(MARST="9"), ipums_row(INCTOT="9999999"), ipums_row(AGE="40")]).write_csv(path)
    X, y, _ = encode(ipums_income(path, income_bound=100_000))
    assert X.shape == (2, 14)
    assert y.tolist() == [0, 0]


def test_ipums_names_what_the_extract_lacks(tmp_path, monkeypatch):
    path = tmp_path / "us.csv"
    pl.DataFrame([ipums_row()]).drop("AUTOS").write_csv(path)
    with pytest.raises(DataError, match="no AUTOS"):
        ipums_income(path)
    monkeypatch.delenv("COLONNADE_IPUMS", raising=False)
    with pytest.raises(DataError, match="COLONNADE_IPUMS"):
        ipums_income()


@pytest.mark.parametrize("s", [0.1, 0.5, 1.0])
def test_synthetic_keeps_its_sparsity_noise_and_scale(s):
    n, d = 4000, 200
    X, y, w = synthetic_arrays(n, d, s, seed=3)
    assert np.mean(X != 0) == pytest.approx(s, abs=0.01)
    assert np.count_nonzero(w) == round(s * d)
    assert np.abs(y).max() <= 1
    inside = np.abs(y) < 1
    noise = NOISE_SHARE * signal_variance(d, s) / label_scale(d, s) ** 2
    assert np.mean((y - X @ w)[inside] ** 2) == pytest.approx(noise, rel=0.1)
    assert np.array_equal(synthetic_arrays(n, d, s, seed=3)[0], X)
    assert not np.array_equal(synthetic_arrays(n, d, s, seed=4)[1], y)


def test_synthetic_data_set_encodes_to_its_arrays():
    X, y, _ = synthetic_arrays(50, 7, 0.5, seed=1)
    encoded, label, _ = encode(synthetic(50, 7, 0.5, seed=1))
    assert np.allclose(encoded, X, atol=1e-15)
    assert np.allclose(label, y, atol=1e-15)
    with pytest.raises(StudyError, match="s=0"):
        synthetic_arrays(10, 10, 0)


def test_demo_files_are_what_make_demo_writes(tmp_path):
    make_demo.main(tmp_path)
    for party in make_demo.PARTIES:
        assert (tmp_path / f"{party}.csv").read_bytes() == (DEMO / f"{party}.csv").read_bytes()


def test_demo_files_overlap_in_part_and_follow_no_common_order():
    ids = {party: pl.read_csv(DEMO / f"{party}.csv")["person"].to_list() for party in make_demo.PARTIES}
    common = set.intersection(*(set(people) for people in ids.values()))
    for people in ids.values():
        assert len(set(people)) == len(people) > len(common) > 12_000
    orders = [[person for person in people if person in common] for people in ids.values()]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_the_study_of_all_columns_declares_the_public_facts_of_adult():
    study = tomllib.loads((DEMO.parent / "tests/studies/income/study.toml").read_text(encoding="utf-8"))
    declared = {party: table["columns"] for party, table in study["party"].items()}
    assert {party: list(columns) for party, columns in declared.items()} == make_demo.PARTIES
    public = {**NUMERIC, **CATEGORICAL, "income": INCOME}
    for columns in declared.values():
        for name, spec in columns.items():
            assert spec == {key: value for key, value in public[name].items() if key != "drop"}
    Schema.of(declared)
    adult = read_adult()
    for name, spec in CATEGORICAL.items():
        assert set(adult[name].unique()) == set(spec["levels"])

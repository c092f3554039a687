"""A model file keeps R² with its interval, and files from before there was one are still read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from colonnade.analysis.model import FittedModel
from colonnade.foundation.canonical import MODEL_FORMAT
from colonnade.foundation.schema import Categorical, Numeric, Schema
from colonnade.mechanism.release import read_sealed, write_sealed
from colonnade.model import PublicModel, predict, read_model, write_model
from colonnade.report.answers.coefficients import model_facts

MODEL = FittedModel("linear", "a.y", ("x",), ((0.5,),), (0.1,), "default", 0.01, 1.0, 0.3, (0.26, 0.34))
PUBLIC = PublicModel(MODEL, "s", Schema({"a": {"x": Numeric(0, 1), "y": Numeric(0, 1)}}), "a.y", "d")


def test_r_squared_and_its_interval_are_kept() -> None:
    assert read_model(write_model(PUBLIC)) == PUBLIC
    assert model_facts(PUBLIC)["r_squared_interval"] == [0.26, 0.34]


def test_an_unknown_r_squared_is_kept_as_unknown() -> None:
    public = replace(PUBLIC, model=replace(MODEL, r_squared=math.nan, r_squared_interval=None))
    read = read_model(write_model(public))
    assert math.isnan(read.model.r_squared)
    assert read.model.r_squared_interval is None


def test_a_file_from_before_intervals_is_read_as_it_was_and_states_no_r_squared() -> None:
    content = read_sealed(write_model(PUBLIC), MODEL_FORMAT, "model")
    del content["model"]["r_squared_interval"]
    old = write_sealed(content)
    public = read_model(old)
    assert write_model(public) == old
    assert model_facts(public)["r_squared"] is None


def test_a_linear_model_of_a_level_predicts_shares() -> None:
    """Its label is 0 or 1 where another column was named by the study, and -1 or 1 where this one was."""
    schema = Schema({"a": {"x": Numeric(0, 1), "c": Categorical(("r", "g")), "y": Numeric(0, 1)}})
    public = PublicModel(replace(MODEL, label="c=r"), "s", schema, "a.y", "d")
    scores = np.array([-0.5, 0.0, 0.4, 1.5])
    # The model's constant, .1, comes on top.
    assert np.allclose(predict(public, scores), [0.0, 0.1, 0.5, 1.0])
    assert np.allclose(predict(replace(public, declared="a.c"), scores), [0.3, 0.55, 0.75, 1.0])

"""The gate's arithmetic: predictions that are clipped, and gains that are larger than gains are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from colonnade.analysis.accepted import Found, Prospect, accepted, quadratic
from colonnade.analysis.families import GAUSSIAN, POISSON
from colonnade.analysis.glm import FeatureLaw
from colonnade.analysis.model import FitOutcome, FittedModel
from colonnade.analysis.posterior import NoisyEquations, posterior, sound_part
from colonnade.mechanism.moments import Distribution


@pytest.mark.parametrize("bounds", [(-0.1, 2.0), (-0.5, 0.4), (-9.0, 9.0), (0.2, 1.0)])
def test_clipped_predictions_gain_what_they_do_in_drawn_records(bounds: tuple[float, float]) -> None:
    rng = np.random.default_rng(1)
    spread, reached = 0.6, 0.2
    p = spread * rng.standard_normal(400_000)
    y = reached / spread**2 * p + 0.5 * rng.standard_normal(len(p))
    q = p.clip(*bounds)
    truth = 0.5 * ((y**2).mean() - ((y - q) ** 2).mean())
    known = Prospect(
        quadratic(np.array([[spread**2]])), GAUSSIAN, np.zeros(1), np.ones((1, 1)), reached, 0.0, bounds=bounds
    )
    assert known.gain == pytest.approx(truth, abs=0.004)


def model() -> FittedModel:
    return FittedModel("poisson", "y", ("x",), ((1.0,),), (0.0,), "ridge", 0.0, 1.0)


@pytest.mark.parametrize(
    ("gain", "error", "warned"), [(2.0, 1.99, True), (0.3, 0.28, True), (0.3, 0.1, False), (0.02, 0.02, False)]
)
def test_a_large_gain_that_noise_may_have_made_is_warned_of(gain: float, error: float, warned: bool) -> None:
    """The first two are models that were worse than the mean by 1.3 and .3 nats, and silent."""
    law = FeatureLaw(np.zeros((1, 1)), np.ones(1), np.zeros((1, 1)))
    known = Prospect(law, POISSON, np.ones(1), np.zeros((1, 1)), gain, error)
    found = accepted(Found(model(), known), FitOutcome("penalised"))
    assert found.outcome is not None and bool(found.outcome.why) == warned
    assert not warned or "the mean of y" in found.outcome.why


@pytest.mark.parametrize(("law", "told"), [(Distribution.LAPLACE, 0.85), (Distribution.GAUSSIAN, 1.0)])
def test_an_outlier_of_laplace_noise_is_no_signal(law: Distribution, told: float) -> None:
    """One deviation of 3.4 among 15: one draw in nine of Laplace noise has it, and one in a hundred of normal noise."""
    z = np.array([0.3, -1.6, 0.2, -1.6, 0.9, -0.9, 0.3, -0.4, -0.4, -1.0, 0.5, -3.4, 0.9, 0.3, 0.9])
    gram = np.eye(15) + 0.1
    noise = 0.01
    known = NoisyEquations(gram, noise * z, np.zeros((15, 15)), np.full(15, noise**2), 1e-6, tuple(range(15)), law=law)
    assert sound_part(known, posterior(known)) <= told
    signal = replace(known, right=noise * (z + 30.0 * gram @ np.ones(15)))
    assert sound_part(signal, posterior(signal)) > 0.99

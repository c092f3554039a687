"""Which model is wanted, and the release that it is wanted of: what every estimator of `fit.RULE` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.analysis.denoise import Estimate
from colonnade.analysis.equations import Target, chosen_attributes, coordinates_of, known_means, target_of
from colonnade.analysis.families import FAMILIES, Family, family_of
from colonnade.analysis.model import DECLARED
from colonnade.analysis.released import Known, Released
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.foundation.schema import Column
from colonnade.mechanism.moments import Layout, Moments
from colonnade.mechanism.release import ReleaseRecord

if TYPE_CHECKING:
    from colonnade.analysis.synthesis import FittedRelease

METHODS = ("default", "zhang", "raw")
"""How noisy moments are solved; `zhang` and `raw` are for reproducing the paper, and shrink nothing."""
PENALTIES = ("ridge", "lasso", "elastic-net")


@dataclass(frozen=True)
class Question:
    """Which model is wanted: what nobody says is the study's, or chosen from the noise."""

    label: str | None = None
    task: str = ""
    """A family's, or that of a declared objective; empty for the study's, or what the label asks for."""
    penalty: str = "ridge"
    strength: float | None = None
    """Per record; chosen from the noise if not given."""
    features: tuple[str, ...] | None = None
    given: tuple[str, ...] = ()
    method: str = "default"
    numbers: tuple[str, ...] | None = None
    """Columns with bins that shall be taken as numbers; None: as the study says."""
    seed: int = 0
    intercept: bool = True

    def __post_init__(self) -> None:
        if self.task not in ("", DECLARED):
            family_of(self.task)
        for name, value, known in (("penalty", self.penalty, PENALTIES), ("method", self.method, METHODS)):
            if value not in known:
                raise StudyError(f"{name} must be one of {', '.join(known)}, got {name}={value!r}")
        number = isinstance(self.strength, int | float | np.number) and not isinstance(self.strength, bool)
        if self.strength is not None and not (number and self.strength >= 0):
            raise StudyError(f"ridge must be a number from 0 up, got ridge={self.strength!r}")
        if self.features is not None and not self.features:
            raise StudyError("features must name a released column or more, got none")

    @property
    def from_moments(self) -> bool:
        """Whether second moments answer it without rows and tables."""
        family = FAMILIES.get(self.task)
        return family is not None and family.from_moments and not self.given and self.penalty == "ridge"

    def require_ridge(self, told: str) -> None:
        """Refuse what estimators from second moments alone can do."""
        if not self.from_moments:
            raise StudyError(f"{told} with linear and logistic models of all records and a ridge")

    @property
    def asked(self) -> dict[str, Any]:
        """What is not left to the study or to the noise, by the parameters of `Release.solve`."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "intercept"}
        kept = {k: v for k, v in own.items() if v != Question.__dataclass_fields__[k].default}
        if "strength" in kept:
            kept["ridge"] = kept.pop("strength")
        return {k: list(v) if isinstance(v, tuple) else v for k, v in kept.items()}


@dataclass(frozen=True)
class Held:
    """A release as models ask it: its moments alone, or a record, from which tables and rows follow."""

    known: Known
    record: ReleaseRecord | None = None
    numbers: Mapping[int, Column] = field(default_factory=dict)
    """Attributes released by their bins that a model has one weight for."""
    rows: Callable[[], FittedRelease] | None = None
    """Gives the release's maximum-entropy model, where it is kept."""

    @property
    def layout(self) -> Layout:
        return self.known.moments.layout

    @property
    def declared(self) -> bool:
        """Whether the release is of a declared objective."""
        return self.record is not None and str(self.record.plan["task"]) == DECLARED

    @cached_property
    def released(self) -> Released:
        """What can be asked for tables and levels."""
        if self.record is None:
            raise ReleaseError("moments alone tell no levels and tables: a release does")
        return Released(self.record)


@dataclass(frozen=True)
class Problem:
    """A question to a release: its target and features, and which sums there are of them."""

    held: Held
    question: Question

    @property
    def moments(self) -> Moments:
        return self.held.known.moments

    @property
    def layout(self) -> Layout:
        return self.held.layout

    @property
    def family(self) -> Family:
        return family_of(self.question.task)

    @property
    def estimate(self) -> Estimate:
        """The release's sums as the method takes them."""
        known = self.held.known
        return known.estimate if self.question.method == METHODS[0] else known.raw

    @cached_property
    def target(self) -> Target:
        return target_of(self.layout, self.family, self.question.label)

    @cached_property
    def chosen(self) -> tuple[int, ...]:
        """The attributes that the model may use."""
        return chosen_attributes(self.layout, self.target, self.question.features)

    @cached_property
    def centred(self) -> bool:
        """Whether there is an intercept, and the release tells the means that it needs."""
        columns = [*coordinates_of(self.layout, self.chosen), self.target.coordinate]
        return self.question.intercept and known_means(self.estimate, columns)

    @cached_property
    def columns(self) -> list[int]:
        return coordinates_of(self.layout, self.chosen, dropped=not self.centred)

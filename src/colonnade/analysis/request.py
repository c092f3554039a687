"""One request for a model of a release, answered from moments alone where that suffices, else from rows and tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from colonnade.analysis.cautions import attribute_of, constant_columns, faint_means, tied_attributes
from colonnade.analysis.denoise import denoise
from colonnade.analysis.intervals import Intervals, intervals
from colonnade.analysis.model import FittedModel
from colonnade.analysis.models import Question, answer, check_question, held_features
from colonnade.analysis.objectives import declared_model
from colonnade.analysis.released import Known, Released
from colonnade.analysis.slopes import bin_numeric_columns
from colonnade.analysis.solve import ridge_path, solve
from colonnade.analysis.synthesis import FittedRelease, fit_release
from colonnade.analysis.tables import Tables
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.foundation.schema import Column, estimated_notes
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import ReleaseRecord

PATH_RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
PATH_PENALTIES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)

BINS_ONLY = "they are of the bins that were released, and this model takes numbers in their place"
"""Why a model has no intervals."""


@dataclass(frozen=True)
class ModelRequest:
    """Which model is wanted; the study's task and label, all features and all records where nothing else is said."""

    release: ReleaseRecord
    task: str | None = None
    label: str | None = None
    features: tuple[str, ...] | None = None
    given: tuple[str, ...] = ()
    penalty: str = "ridge"
    method: str = "default"
    seed: int = 0
    numbers: tuple[str, ...] | None = None
    """Columns with bins that the model takes as numbers; None: as the study says, and an empty list: none."""
    fit: Callable[[], FittedRelease] | None = None
    """Gives the release's maximum-entropy model, where it is kept; else it is fitted when it is needed."""

    def __post_init__(self) -> None:
        if self._declared:
            self._require_declared()
        elif not self.from_moments and self.method != "default":
            raise StudyError(f"method {self.method} goes with linear and logistic models of all records and a ridge")
        if self.numbers and not self.from_moments:
            raise StudyError(
                "numbers in the place of bins go with linear and logistic models of all records and a ridge"
            )
        for name in self.features or ():
            found = self.release.layout.find(name, column=True) if self.left_out else None
            if found is not None and found[0] in self._unknown:
                raise ReleaseError(f"a feature needs its square, which the release lacks for {name}")
            if found is not None and (why := self.left_out.get(found[0])) is not None:
                raise StudyError(f"a feature must not tell the label by how it is computed, got {name}, {why}")

    def _require_declared(self) -> None:
        """A release of a declared objective answers that objective alone."""
        asked = (self.task in (None, Task.POLYNOMIAL.value), self.label is None, self.features is None, not self.given)
        if not all(asked) or self.penalty != "ridge" or self.method != "default":
            raise StudyError("a release of a declared objective has the minimum of that objective, and no other model")

    @property
    def _declared(self) -> bool:
        """Whether the release is of a declared objective, and has no label."""
        return str(self.release.plan["task"]) == Task.POLYNOMIAL.value

    @cached_property
    def left_out(self) -> dict[int, str]:
        """Attributes that no model of this label may use, and why.

        As one of the two is computed from the other, or as the attribute's own square was not released.
        """
        return {} if self._declared else {**self._unknown, **tied_attributes(self.release, self.label)}

    @cached_property
    def _unknown(self) -> dict[int, str]:
        """The study's label as a feature of another column's model, where nothing tells how far it varies."""
        moments = self.release.moments()
        layout = moments.layout
        if self._declared or attribute_of(layout, self.label) in (layout.label, None):
            return {}
        known = Known(denoise(moments))
        return {} if known.has_square(layout.label) else {layout.label: "its square was not released"}

    @cached_property
    def usable(self) -> tuple[str, ...] | None:
        """The features that are asked for; None for all."""
        if self.features is not None or not self.left_out:
            return self.features
        layout = self.release.layout.model
        held = {attribute_of(layout, self.label), *self.left_out}
        if self.from_moments:
            held.add(layout.label)
        if self.given:
            held |= Released(self.release).conditions(self.given).keys()
        return tuple(layout.spelled(i) for i in range(len(layout.attributes)) if i not in held)

    @property
    def notes(self) -> list[str]:
        """What a reader of the model has to know of its features."""
        out = []
        if self._declared:
            return []
        if self.features is None and self.left_out:
            told = ", ".join(f"{self.release.layout.columns[i]} ({why})" for i, why in self.left_out.items())
            out.append(f"not used as features: {told}")
        if self.given:
            released = Released(self.release)
            if held := held_features(released, self._questions(released, [None])[0]):
                out.append(f"given {', '.join(self.given)}, {', '.join(held)}: left out of the model")
        asked = (self.release, self.label, self.usable)
        return [*out, *estimated_notes(self.release.schema.parties), *faint_means(*asked), *constant_columns(*asked)]

    @property
    def fitting_task(self) -> str:
        """The task that was asked for, else the study's, or several classes where the label has them."""
        if self.task is not None:
            return self.task
        if self.label is not None:
            found = self.release.layout.find(self.label)
            if found is not None and found[1] is None and self.release.layout.attributes[found[0]].size > 2:
                return "multinomial"
        return str(self.release.plan["task"])

    @property
    def from_moments(self) -> bool:
        """Whether the released moments answer it without rows and tables."""
        return self.fitting_task in ("linear", "logistic") and not self.given and self.penalty == "ridge"

    def model(self, strength: float | None) -> FittedModel:
        """The model with this strength of the penalty; None: chosen from the noise."""
        if self.fitting_task == Task.POLYNOMIAL.value:
            return declared_model(self.release)
        if not self.from_moments:
            return self._answers([strength])[0]
        return solve(
            self.release.moments(),
            Task(self.fitting_task),
            method=self.method,
            ridge=strength,
            features=self.usable,
            label=self.label,
            numbers=self._cut_numbers,
        )

    @cached_property
    def _cut_numbers(self) -> dict[int, Column]:
        """The attributes that the model takes as numbers, though their bins were released."""
        return bin_numeric_columns(self.release.layout, self.release.schema, self.numbers)

    def intervals(self, level: float = 0.95) -> Intervals | None:
        """How sure the coefficients are; None for models that have no intervals."""
        if not self.from_moments or self._cut_numbers:
            return None
        task = Task(self.fitting_task)
        return intervals(self.release.moments(), task, features=self.usable, label=self.label, level=level)

    def certainty(self) -> Intervals:
        """The same; where a model has no intervals, the reason."""
        reason = "they are made of the moments alone, for linear and logistic models of all records with a ridge"
        if self.from_moments:
            reason = BINS_ONLY
        return self.intervals() or Intervals(0.95, "coefficient", (), (), False, reason)

    def path(self) -> list[FittedModel]:
        """One model for each of several strengths of the penalty."""
        if self.fitting_task == Task.POLYNOMIAL.value:
            return [self.model(None)]
        if not self.from_moments:
            return self._answers(PATH_PENALTIES)
        moments, task = self.release.moments(), Task(self.fitting_task)
        return list(
            ridge_path(moments, task, PATH_RIDGES, features=self.usable, label=self.label, numbers=self._cut_numbers)
        )

    def _answers(self, strengths: Sequence[float | None]) -> list[FittedModel]:
        released = Released(self.release)
        questions = self._questions(released, strengths)
        check_question(released, questions[0])
        fitted = None
        if self.given:
            fitted = self.fit() if self.fit else fit_release(Tables.of(released), self.seed, released.impossible())
        return [answer(released, question, self.seed, fitted) for question in questions]

    def _questions(self, released: Released, strengths: Sequence[float | None]) -> list[Question]:
        label = self.label or released.short(released.layout.label)
        known = (self.usable, self.given)
        return [Question(label, self.fitting_task, self.penalty, strength, *known) for strength in strengths]

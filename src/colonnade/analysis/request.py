"""One request for a model of a release: what a person asks for, and what the study says where nothing is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from colonnade.analysis.cautions import attribute_of, constant_columns, faint_means, tied_attributes
from colonnade.analysis.denoise import holds_indicators
from colonnade.analysis.families import BERNOULLI, CATEGORIES
from colonnade.analysis.fit import fit
from colonnade.analysis.intervals import Intervals, intervals
from colonnade.analysis.model import DECLARED, FittedModel
from colonnade.analysis.penalised import held_features
from colonnade.analysis.question import Held, Question
from colonnade.analysis.released import Known
from colonnade.analysis.slopes import bin_numeric_columns
from colonnade.analysis.synthesis import FittedRelease
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.foundation.schema import estimated_notes
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import ReleaseRecord

PATH_RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
PATH_PENALTIES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)

BINS_ONLY = "they are of the bins that were released, and this model takes numbers in their place"
"""Why a model has no intervals."""


@dataclass(frozen=True)
class ModelRequest:
    """A question to a release; the study's task and label, all features and all records where nothing else is said."""

    release: ReleaseRecord
    wanted: Question = field(default_factory=Question)
    rows: Callable[[], FittedRelease] | None = None
    """Gives the release's maximum-entropy model, where it is kept; else it is fitted when it is needed."""

    def __post_init__(self) -> None:
        asked = self._question
        if self._held.declared:
            if asked.asked.keys() - {"seed", "ridge"} != {"task"} or asked.task != DECLARED:
                raise StudyError("a release of a declared objective has its minimum, and no other model")
            return
        if asked.numbers:
            asked.require_ridge("numbers in the place of bins go")
        for name in asked.features or ():
            found = self.release.layout.find(name, column=True) if self.left_out else None
            if found is not None and found[0] in self._unknown:
                raise ReleaseError(f"a feature needs its square, which the release lacks for {name}")
            if found is not None and (why := self.left_out.get(found[0])) is not None:
                raise StudyError(f"a feature must not tell the label by how it is computed, got {name}, {why}")

    @cached_property
    def _held(self) -> Held:
        numbers = bin_numeric_columns(self.release.layout, self.release.schema, self.wanted.numbers)
        return Held(Known.of(self.release), self.release, numbers, self.rows)

    @cached_property
    def _question(self) -> Question:
        """What is asked, before features that must not be used are left out."""
        return replace(self.wanted, task=BERNOULLI.task if self._two_classes else self.fitting_task)

    @cached_property
    def _two_classes(self) -> tuple[str, ...]:
        """The levels of a label that has two, where a model of classes was asked for: it is that of a yes or no."""
        if self.fitting_task != CATEGORIES.task:
            return ()
        layout, label = self.release.layout, self.wanted.label
        found = (layout.label, None) if label is None else layout.find(label)
        if found is None or found[1] is not None or not holds_indicators(self._held.known.moments, found[0]):
            return ()
        levels = layout.attributes[found[0]].levels
        return levels if len(levels) == 2 else ()

    def _as_asked(self, model: FittedModel) -> FittedModel:
        return model.with_classes(self._two_classes, CATEGORIES.task) if self._two_classes else model

    @cached_property
    def question(self) -> Question:
        """What is asked, with the features that a model may use."""
        return replace(self._question, features=self.usable)

    @cached_property
    def left_out(self) -> dict[int, str]:
        """Attributes that no model of this label may use, and why.

        As one of the two is computed from the other, or as the attribute's own square was not released.
        """
        return {} if self._held.declared else {**self._unknown, **tied_attributes(self.release, self.wanted.label)}

    @cached_property
    def _unknown(self) -> dict[int, str]:
        """The study's label as a feature of another column's model, where nothing tells how far it varies."""
        known = self._held.known
        layout = known.moments.layout
        if self._held.declared or attribute_of(layout, self.wanted.label) in (layout.label, None):
            return {}
        return {} if known.has_square(layout.label) else {layout.label: "its square was not released"}

    @cached_property
    def usable(self) -> tuple[str, ...] | None:
        """The features that are asked for; None for all."""
        wanted = self.wanted
        if wanted.features is not None or not self.left_out:
            return wanted.features
        layout = self.release.layout.model
        held = {attribute_of(layout, wanted.label), *self.left_out}
        if self.from_moments:
            held.add(layout.label)
        if wanted.given:
            held |= self._held.released.conditions(wanted.given).keys()
        return tuple(layout.spelled(i) for i in range(len(layout.attributes)) if i not in held)

    @property
    def notes(self) -> list[str]:
        """What a reader of the model has to know of its features."""
        out, wanted = [], self.wanted
        if self._held.declared:
            return []
        if wanted.features is None and self.left_out:
            told = ", ".join(f"{self.release.layout.columns[i]} ({why})" for i, why in self.left_out.items())
            out.append(f"not used as features: {told}")
        if wanted.given and (held := held_features(self._held.released, self.question)):
            out.append(f"given {', '.join(wanted.given)}, {', '.join(held)}: left out of the model")
        asked = (self.release, wanted.label, self.usable)
        return [*out, *estimated_notes(self.release.schema.parties), *faint_means(*asked), *constant_columns(*asked)]

    @property
    def fitting_task(self) -> str:
        """The task that was asked for, else the study's, or that of the label: several classes, or one of them."""
        wanted, layout, asked = self.wanted, self.release.layout, str(self.release.plan["task"])
        found = None if wanted.task or wanted.label is None else layout.find(wanted.label)
        if found is not None and found[1] is not None and asked == CATEGORIES.task:
            return BERNOULLI.task
        if found is not None and found[1] is None and layout.attributes[found[0]].size > 2:
            return CATEGORIES.task
        return wanted.task or asked

    @property
    def from_moments(self) -> bool:
        """Whether the released moments answer it without rows and tables."""
        return self._question.from_moments

    def model(self) -> FittedModel:
        """The model that is asked for."""
        return self._as_asked(fit(self._held, self.question))

    def intervals(self, level: float = 0.95) -> Intervals | None:
        """How sure the coefficients are; None for models that have no intervals."""
        if not self.from_moments or self._held.numbers or self._two_classes:
            return None
        moments, label = self._held.known.moments, self.wanted.label
        return intervals(moments, Task(self._question.task), features=self.usable, label=label, level=level)

    def certainty(self) -> Intervals:
        """The same; where a model has no intervals, the reason."""
        reason = "they are for linear and logistic models of all records, with a ridge"
        if self.fitting_task == CATEGORIES.task:
            reason = "a model of several classes has none; solve --label COLUMN=LEVEL makes one of a level"
        if self.from_moments and not self._two_classes:
            reason = BINS_ONLY
        return self.intervals() or Intervals(0.95, "coefficient", (), (), False, reason)

    def path(self) -> list[FittedModel]:
        """One model for each of several strengths of the penalty."""
        if self._held.declared:
            return [self.model()]
        strengths = PATH_RIDGES if self.from_moments else PATH_PENALTIES
        asked = (replace(self.question, strength=strength) for strength in strengths)
        return [self._as_asked(fit(self._held, each)) for each in asked]

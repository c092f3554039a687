"""Models of any released column: several classes, counts, sparse weights, a part of the records.

The law of the features is that of rows drawn from the maximum-entropy model, and the products of the label with the
features are those of the denoised tables. Tables of two columns say nothing of how a third one changes their
dependence: no model here has an interaction, and none can be fitted to a release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from colonnade.analysis.bins import bin_means
from colonnade.analysis.draws import seeded
from colonnade.analysis.glm import LogPartition, Penalty, bernoulli, categories, fit_moments, gaussian, poisson
from colonnade.analysis.numbers import encode_levels, fill_numbers
from colonnade.analysis.plausible import plausible_records
from colonnade.analysis.released import Released
from colonnade.analysis.solve import Model
from colonnade.analysis.synthesis import FittedRelease, draw_levels, fit_release
from colonnade.analysis.tables import Tables
from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Column
from colonnade.mechanism.moments import Encoding, Floats, Layout

TASKS = ("linear", "logistic", "multinomial", "poisson")
PENALTIES = ("ridge", "lasso", "elastic-net")
RECORDS = 8192
MOST_SCORES = 1 << 20
"""Records of a model times its classes; where there are many classes, fewer records stand for the features' law."""
MOST_CLASSES = 1000
"""Levels of a multinomial model's label: 400 take about 20 CPU seconds, and time grows with their number."""
NOISE_TO_RIDGE = 1.0
"""A ridge is this many standard deviations of the noise on a product of label and feature, per record."""


@dataclass(frozen=True)
class ClassModel(Model):
    """A model of several classes: a score for each, of which the largest wins; `coefficients` are their ranges."""

    classes: tuple[str, ...] = ()
    by_class: tuple[tuple[float, ...], ...] = ()
    """One row of coefficients for each class."""
    intercepts: tuple[float, ...] = ()


@dataclass(frozen=True)
class Question:
    """Which model is asked for."""

    label: str
    task: str
    penalty: str = "ridge"
    strength: float | None = None
    """Per record; chosen from the noise if not given."""
    features: tuple[str, ...] | None = None
    given: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise StudyError(f"task must be one of {', '.join(TASKS)}, got task={self.task!r}")
        if self.penalty not in PENALTIES:
            raise StudyError(f"penalty must be one of {', '.join(PENALTIES)}, got penalty={self.penalty!r}")
        if self.strength is not None and not self.strength >= 0:
            raise StudyError(f"the strength of a penalty must be at least 0, got {self.strength}")


def check_question(released: Released, question: Question) -> None:
    """Refuse a question that the release cannot answer, before anything is fitted."""
    label, given = _Label.of(released, question), released.conditions(question.given)
    released.require_model(label.attribute, _chosen(released, question, label.attribute, given), given)


def answer(released: Released, question: Question, seed: int = 0, fitted: FittedRelease | None = None) -> Model:
    """The model that is asked for; `fitted` saves fitting the maximum-entropy model again."""
    label = _Label.of(released, question)
    given = released.conditions(question.given)
    if label.attribute in given:
        raise StudyError(f"a condition on the label {question.label} leaves nothing to learn")
    chosen = _chosen(released, question, label.attribute, given)
    at, count = _coordinates(released, chosen), min(RECORDS, MOST_SCORES // max(len(label.classes), 1))
    if fitted is None and len(released.tabular) < 2 and not given:
        # Without tables there is no maximum-entropy model: numbers have their moments, and records that fit them.
        tables = Tables.of(released)
        records, weights = plausible_records(tables.estimate, chosen, count)
    else:
        if fitted is None:
            fitted = fit_release(Tables.of(released), seed, released.impossible())
        tables = fitted.tables
        everything = len(chosen) == len(fitted.columns) - 1 and not released.numbers
        if label.classes and everything and question.penalty == "ridge" and question.strength is None:
            return _model(released, question, label, at, *_read_off(fitted, label.attribute, at))
        records, weights = _records(fitted, count, given, seed)
    if given:
        y = label.products(tables, records)
        moments, means = records[:, at].T @ y / len(y), y.mean(axis=0)
    else:
        value = tables.estimate.value / released.n
        moments, means = label.products(tables, value[at]), label.products(tables, value[:1])[0]
        # Rows meet the tables nearly: what they miss of a feature's mean must not be explained by the label.
        moments = moments + np.outer(weights @ records[:, at] - value[0, at], means)
    noise = label.noise(tables, at)
    w, b = fit_moments(records[:, at], weights, moments, means, label.law, _penalty(released, question, noise))
    moved = held_coordinates(released.layout, at, given)
    for k, to in moved.items():
        # Of a product that is another feature here the weight goes there; one that is 0 has none.
        if to is not None:
            w[at.index(to)] += w[at.index(k)]
    kept = [n for n, k in enumerate(at) if k not in moved]
    return _model(released, question, label, [at[n] for n in kept], w[kept], b)


def held_coordinates(layout: Layout, at: Sequence[int], given: Mapping[int, int]) -> dict[int, int | None]:
    """Products that conditions make 0 (None), or equal to another feature: that one."""
    fixed = {layout.starts[i] + j: j == level for i, level in given.items() for j in range(layout.attributes[i].size)}
    single = {layout.factors[k]: k for k in at}
    out: dict[int, int | None] = {}
    for k in at:
        factors = layout.factors[k]
        rest = tuple(c for c in factors if c not in fixed)
        if not all(fixed.get(c, True) for c in factors):
            out[k] = None
        elif rest != factors and rest in single:
            out[k] = single[rest]
    return out


def held_features(released: Released, question: Question) -> list[str]:
    """The products that `held_coordinates` finds among the features of a question, each with what it is."""
    given, layout = released.conditions(question.given), released.layout
    chosen = _chosen(released, question, _Label.of(released, question).attribute, given)
    found = held_coordinates(layout, _coordinates(released, chosen), given)
    return [f"{layout.names[k]} is {'0' if to is None else layout.names[to]}" for k, to in found.items()]


def _records(fitted: FittedRelease, count: int, given: Mapping[int, int], seed: int) -> tuple[Floats, Floats]:
    """Encoded records of the maximum-entropy model under conditions, and their weights, which are equal."""
    randomness = seeded(seed, "records of a model")
    levels = draw_levels(fitted, count, randomness, given)
    records = encode_levels(fitted.tables, fitted.columns, levels)
    fill_numbers(fitted.tables, fitted.columns, records, randomness)
    return records, np.full(len(records), 1.0 / len(records))


def _read_off(fitted: FittedRelease, label: int, at: Sequence[int]) -> tuple[Floats, Floats]:
    """In the maximum-entropy model a column given all others is a multinomial regression with these weights."""
    layout, model = fitted.released.layout, fitted.model
    place = {k: n for n, k in enumerate(k for i in fitted.columns for k in range(layout.width)[layout.span(i)])}
    own = model.spans[fitted.columns.index(label)]
    b = model.field[own].copy()
    base = np.zeros((layout.width, own.stop - own.start))
    for i in fitted.columns:
        if i != label:
            dropped = next(k for k in range(layout.width)[layout.span(i)] if k not in at)
            row = model.coupling[place[dropped], own]
            base[layout.span(i)] = row
            b += row
    return model.coupling[[place[k] for k in at]][:, own] - base[list(at)], b


@dataclass(frozen=True)
class _Label:
    """What is predicted: coordinates of one attribute, and how they become the outputs y."""

    name: str
    attribute: int
    law: LogPartition
    matrix: Floats
    """Outputs are the attribute's coordinates times this, plus `shift`."""
    shift: float
    classes: tuple[str, ...] = ()

    @classmethod
    def of(cls, released: Released, question: Question) -> _Label:
        text, task = question.label, question.task
        place = released.layout.find(text)
        level = place[1] if place is not None and place[0] in released.tabular else None
        i = released.find(text) if place is None or level is None else place[0]
        attribute, column = released.layout.attributes[i], released.columns[i]
        if task == "multinomial":
            if level is not None or i not in released.tabular:
                raise StudyError(f"a multinomial model needs a column with levels or bins as label, got {text}")
            if attribute.size > MOST_CLASSES:
                raise StudyError(
                    f"a multinomial model takes a label of at most {MOST_CLASSES:,} levels, got {text} with "
                    f"{attribute.size:,}"
                )
            return cls(text, i, categories, np.eye(attribute.size), 0.0, released.levels(i))
        if task == "logistic":
            if i not in released.tabular or (level is None and attribute.size != 2):
                raise StudyError(f"the label of a logistic regression must be binary or a level, got column {text}")
            pick = level if level is not None else 1
            return cls(text, i, bernoulli, np.eye(attribute.size)[:, [pick]], 0.0)
        if column.bounds is None:
            raise StudyError(f"a {task} model needs a numeric column as label, got {text}")
        low, high = column.bounds
        matrix, shift = _number(released, i, column)
        if task == "poisson":
            if low < 0:
                raise StudyError(f"a Poisson model needs counts from 0 up, got column {text} with low={low:g}")
            return cls(text, i, poisson, matrix, shift)
        half = 0.5 * (high - low)
        return cls(text, i, gaussian, matrix / half, (shift - 0.5 * (low + high)) / half)

    def products(self, tables: Tables, sums: Floats) -> Floats:
        """Means of y x from means of all coordinates times x; the constant's stands in column 0."""
        span = tables.released.layout.span(self.attribute)
        result: Floats = sums[:, span] @ self.matrix + self.shift * sums[:, :1]
        return result

    def noise(self, tables: Tables, at: Sequence[int]) -> Floats:
        """Standard deviation of the noise left in the products with each feature, per record, over outputs."""
        span = tables.released.layout.span(self.attribute)
        std = tables.estimate.std[list(at), span]
        std = np.where(np.isfinite(std), std, 0.0)
        spread: Floats = np.sqrt((std**2 @ self.matrix**2).mean(axis=1)) / tables.released.n
        return spread


def _number(released: Released, i: int, column: Column) -> tuple[Floats, float]:
    """How a numeric column's coordinates become its number in its own units."""
    span, (low, high) = released.layout.span(i), column.require_bounds()
    if i in released.tabular:
        margin = np.maximum(Tables.of(released).estimate.value[0, span], 0.0)
        return bin_means(column, margin / margin.sum())[:, None], 0.0
    if span.stop - span.start == 2:
        return np.array([[0.0], [high - low]]), low
    return np.array([[0.5 * (high - low)]]), 0.5 * (low + high)


def _chosen(released: Released, question: Question, label: int, given: Mapping[int, int]) -> list[int]:
    if question.features is None:
        return [i for i in range(len(released.layout.attributes)) if i != label and i not in given]
    found = sorted({released.find(name) for name in question.features})
    for i in found:
        if i == label or i in given:
            why = "the label" if i == label else "held by a condition"
            raise StudyError(
                f"a feature must be another column than the label and the conditions', got {released.short(i)}, {why}"
            )
    return found


def _coordinates(released: Released, chosen: Sequence[int]) -> list[int]:
    """Coordinates with a weight: no dropped level, and of a numeric label one half."""
    layout, out = released.layout, []
    for i in chosen:
        attribute = layout.attributes[i]
        drop = attribute.drop if attribute.drop is not None else (0 if attribute.kind is Encoding.SIMPLEX else None)
        out += [layout.starts[i] + j for j in range(attribute.size) if j != drop]
    return out


def _penalty(released: Released, question: Question, noise: Floats) -> Penalty:
    """A given strength for every feature alike, or for each by the noise on its products with the label."""
    size = len(noise)
    if question.strength is not None:
        strength = np.full(size, question.strength)
    elif question.penalty == "ridge":
        strength = NOISE_TO_RIDGE * noise + 1e-6
    else:
        # One standard deviation of noise and sampling together: what is smaller is more likely nothing.
        strength = np.sqrt(noise**2 + 0.25 / released.n)
    if question.penalty == "ridge":
        return Penalty(np.zeros(size), strength)
    if question.penalty == "lasso":
        return Penalty(strength, np.full(size, 1e-9))
    return Penalty(0.5 * strength, 0.5 * strength)


def _model(released: Released, question: Question, label: _Label, at: Sequence[int], w: Floats, b: Floats) -> Model:
    names = tuple(released.layout.names[k] for k in at)
    method = question.penalty + (f", given {', '.join(question.given)}" if question.given else "")
    strength = float("nan") if question.strength is None else question.strength
    kept = float((np.abs(w).max(axis=1, initial=0.0) > 1e-9).sum())
    if not label.classes:
        coefficients, intercept = tuple(float(v) for v in w[:, 0]), float(b[0])
        return Model(question.task, label.name, names, coefficients, intercept, method, strength, kept, float("nan"))
    w, b = w - w.mean(axis=1, keepdims=True), b - b.mean()
    ranges = tuple(float(v) for v in w.max(axis=1) - w.min(axis=1))
    return ClassModel(
        question.task, label.name, names, ranges, 0.0, method, strength, kept, float("nan"), None,
        label.classes, tuple(tuple(float(v) for v in column) for column in w.T), tuple(float(v) for v in b),
    )  # fmt: skip

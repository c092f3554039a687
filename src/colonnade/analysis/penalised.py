"""Penalised models of any released column: several classes, counts, sparse weights, a part of the records.

The law of the features is that of records that are plausible with the release, or of rows drawn from the
maximum-entropy model, and the products of the label with the features are those of the denoised tables. Tables of two
columns say nothing of how a third one changes their dependence: no model here has an interaction but declared ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from colonnade.analysis.accepted import Found, Prospect, blur_of
from colonnade.analysis.bins import bin_means
from colonnade.analysis.conditions import held_coordinates, held_sums
from colonnade.analysis.denoise import Estimate
from colonnade.analysis.draws import seeded
from colonnade.analysis.equations import Target, coordinates_of, equations
from colonnade.analysis.families import Family, LabelPlace, Outputs, family_of
from colonnade.analysis.from_bins import encode_levels, fill_numbers
from colonnade.analysis.glm import EXACT, FeatureLaw, MomentFit, Penalty, Prior, fit_moments
from colonnade.analysis.logistic import LARGEST_SHARE, SHAPES, feature_law
from colonnade.analysis.model import FittedModel
from colonnade.analysis.plausible import fill_products, plausible_records, with_target
from colonnade.analysis.posterior import Fit, NoisyEquations, followed_noise, posterior, prior_shapes, sound_part
from colonnade.analysis.question import Held, Question
from colonnade.analysis.released import Released
from colonnade.analysis.shrinkage import bounded_mean
from colonnade.analysis.synthesis import FittedRelease, draw_levels, fit_release
from colonnade.analysis.tables import Tables
from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Column
from colonnade.mechanism.moments import Encoding, Floats, Moments

RECORDS = 8192
MOST_SCORES = 1 << 20
"""Records of a model times its classes; where there are many classes, fewer records stand for the features' law."""
NEGLIGIBLE = 1e-12
ROUNDING = 1e-5
"""Per record: what equations are met up to counts as met."""
LEAST = 1e-6
"""No class has a smaller share, and no count a smaller mean."""
SPARSE = 0.5
"""Standard deviations below which a product is taken as nothing by a sparse fit. Products are shrunk before: with a
whole one five releases of the demo lost 0.002 of AUC on average, with the lasso and with the elastic net."""
SAMPLED = 0.25
"""Of a deviation of sampling so much counts beside the noise: with all of it 64 of 400 sparse models without noise were
more than .01 nats worse than scikit-learn's, whose lasso chooses about so little (decision 0085)."""
FAINT = 0.01
"""Scores of this standard deviation tell nothing: no prior is narrower."""
WIDEST = 2.5
"""Weights of log-odds of this size cost half a nat in all records together, whatever penalty is asked for."""


def penalised(held: Held, question: Question) -> Found:
    """The penalised fit of a family; under conditions to rows of the maximum-entropy model that meet them."""
    if question.method != "default":
        question.require_ridge(f"method {question.method} goes")
    released = held.released
    label, given = _Label.of(released, question), released.conditions(question.given)
    if label.attribute in given:
        raise StudyError(f"a condition on the label {label.name} leaves nothing to learn")
    chosen = _chosen(released, question, label.attribute, given)
    released.require_model(label.attribute, chosen, given)
    held_out = held_coordinates(released.layout, _coordinates(released, chosen), given)
    at = [k for k in _coordinates(released, chosen) if k not in held_out]
    count = min(RECORDS, MOST_SCORES // max(len(label.outputs.classes), 1))
    if given:
        rows = held.rows() if held.rows else fit_release(Tables.of(released), question.seed, released.impossible())
        known = _under_conditions(rows, label, at, given, count, question.seed)
    else:
        known = _of_moments(released, label, chosen, at, count)
    fit = fit_moments(known.law, known.shrunk, known.means, label.family, _penalty(known, question), known.pull)
    found = _evidence(known, fit, label)
    # A variance that is guessed judges a fit, and does not change it.
    part = 1.0 if found.guessed else found.believed()
    found, constants = found.scaled(part), fit.constants if part == 1.0 else found.cost(part)[2]
    model = _model(released, question, label, at, found.weights, constants - known.centre @ found.weights)
    error = np.vstack([known.error(known.spread), known.spread / known.n])
    met = bool((fit.left <= ROUNDING + EXACT * np.sqrt(error)).all())
    return Found(model, found, converged=met, stopped=fit.stopped)


@dataclass(frozen=True)
class _Known:
    """What the release tells of the label's outputs and some features, per record."""

    n: float
    law: FeatureLaw
    centre: Floats
    means: Floats
    right: Floats
    """Covariances with the outputs as released."""
    shrunk: Floats
    """The same, as far as the noise lets them be known."""
    noise: Floats
    """Variances of the noise on `right`."""
    gram: Floats
    """The features' covariance."""
    slopes: Floats
    """Of each output: <w, right> of its linear fit."""
    followed: Floats
    """What of that is expected to be noise."""
    spread: Floats
    """Variances of the outputs."""
    left: Floats
    """What of these the linear fits leave."""
    guessed: bool
    """Whether these were not released."""
    unsure: Floats
    """Standard deviations of the noise on `means`."""
    pull: Prior
    """To the linear fits, brought to the scale of scores: columns that nearly determine each other stay together."""
    sound: Floats
    """The parts of `slopes` that are no outliers of noise."""

    def error(self, spread: Floats) -> Floats:
        """Variances of noise and sampling on `right`, for outputs that vary so much."""
        result: Floats = self.noise + np.outer(np.diag(self.gram), spread) / self.n + NEGLIGIBLE
        return result


def _of_moments(released: Released, label: _Label, chosen: Sequence[int], at: Sequence[int], count: int) -> _Known:
    """All records: by the posterior of each output's linear fit, and records that are plausible with it."""
    moments, layout = released.moments, released.layout
    estimate = released.known.estimate
    columns = coordinates_of(layout, chosen)
    systems = _systems(moments, estimate, columns, label)
    means, unsure = _means(estimate, label)
    first = label.attribute if label.attribute in released.tabular else None

    def draw(shrunk: Floats) -> tuple[Floats, Floats]:
        drawn = estimate
        if first is not None and label.classes:
            drawn = with_target(estimate, columns, first, shrunk)
        elif first is not None and layout.attributes[first].size == 2:
            drawn = with_target(estimate, columns, first, shrunk * np.where(label.matrix[:, 0] > 0, 1.0, -1.0))
        records, weights = plausible_records(drawn, chosen, count, first)
        return records[:, columns], weights

    centre, places = estimate.margin[columns] / estimate.n, [columns.index(k) for k in at]
    return _known(systems, draw, centre, (means, unsure), label, places, moments.n)


def _means(estimate: Estimate, label: _Label) -> tuple[Floats, Floats]:
    """The means of the label's outputs, as far as their noise lets them be known, and that noise."""
    means = label.products(estimate, estimate.value[:1])[0] / estimate.n
    std = np.sqrt(estimate.std[0, estimate.layout.span(label.attribute)] ** 2 @ label.matrix**2) / estimate.n
    if not label.family.bounded:
        return means if label.family.identity else np.maximum(means, LEAST), std
    shares = np.array([bounded_mean(m, s, 0.0, 1.0) for m, s in zip(means, std, strict=True)])
    shares = np.clip(shares, LEAST, 1.0 - LEAST)
    return shares / shares.sum() if label.classes else shares, std


def _systems(moments: Moments, estimate: Estimate, columns: Sequence[int], label: _Label) -> list[NoisyEquations]:
    """The normal equations of each output: those of the label's coordinates, added up."""
    start, n = moments.layout.starts[label.attribute], moments.n
    used = [j for j in range(len(label.matrix)) if label.matrix[j].any()]
    own = {
        j: equations(moments, estimate, columns, Target(label.name, label.attribute, start + j, 1.0, 0.0), True)
        for j in used
    }
    out = []
    for row in label.matrix.T:
        parts = [(row[j], own[j]) for j in used if row[j]]
        first = parts[0][1]
        if len(parts) == 1:
            scale, limit = parts[0][0] ** 2, parts[0][0] ** 2 * first.explainable
            variance, plausible = scale * first.sampling, scale * first.plausible
        else:
            shares = np.maximum(estimate.margin[start : start + len(row)], 0.0) / n
            limit = float(shares @ row**2 - (shares @ row) ** 2)
            variance = limit / n
            plausible = variance if first.guessed else 0.0
        out.append(
            replace(
                first,
                right=np.sum([m * s.right for m, s in parts], axis=0),
                right_noise=np.sum([m**2 * s.right_noise for m, s in parts], axis=0),
                sampling=variance,
                plausible=plausible,
                explainable=limit,
            )
        )
    return out


def _known(
    systems: Sequence[NoisyEquations],
    draw: Callable[[Floats], tuple[Floats, Floats]],
    centre: Floats,
    known: tuple[Floats, Floats],
    label: _Label,
    at: Sequence[int],
    n: float,
) -> _Known:
    """What equations and records say together of the features at some places, and of the outputs' known means."""
    (means, unsure), gram, take = known, systems[0].gram, list(at)
    systems = [system.after(posterior(system), n) for system in systems]
    fits = [posterior(system) for system in systems]
    right = np.column_stack([system.right for system in systems])
    shrunk = gram @ np.column_stack([fit.weights for fit in fits])
    followed = np.array([followed_noise(system.judged, fit) for system, fit in zip(systems, fits, strict=True)])
    slopes = np.array([float(fit.weights @ own) for fit, own in zip(fits, shrunk.T, strict=True)])
    if label.classes:
        # One class more is the others less: what shrinking leaves of their sum is shared by their means.
        shrunk = shrunk - np.outer(shrunk.sum(axis=1), means)
    records, weights = draw(shrunk)
    law = feature_law(records, weights, gram)
    noise = np.column_stack([s.right_noise for s in systems])
    return _Known(
        n, FeatureLaw(law.records[:, take], law.weights, law.gap[np.ix_(take, take)]),
        centre[take], means, right[take], shrunk[take], noise[take], gram[np.ix_(take, take)], slopes, followed,
        n * np.array([s.judged.sampling for s in systems]), n * np.array([s.residual for s in systems]),
        systems[0].guessed, unsure,
        _pull(systems, fits, means, label, take),
        np.array([sound_part(system, fit) for system, fit in zip(systems, fits, strict=True)]),
    )  # fmt: skip


def _pull(
    systems: Sequence[NoisyEquations], fits: Sequence[Fit], means: Floats, label: _Label, take: Sequence[int]
) -> Prior:
    """The prior of the linear fits around them, in the family's scores, for as many records as the noise leaves."""
    system, (shape,) = systems[0], prior_shapes(systems[0].possible_gram, systems[0].groups, systems[0].ordered, SHAPES)
    groups = np.asarray(system.groups)
    # A level that the model leaves out is the base of the others of its column.
    base = np.zeros((len(take), len(groups)))
    for row, k in enumerate(take):
        left_out = [j for j in np.flatnonzero(groups == groups[k]) if j not in take]
        base[row, k] = 1.0
        base[row, left_out[:1]] -= 1.0
    spread, energy, scales, factors = np.diag(system.gram), max(float((shape * system.gram).sum()), 1e-300), [], []
    for own, fit, mean in zip(systems, fits, means, strict=True):
        sampled = own.sampling * spread
        told = float(np.mean(sampled / np.maximum(sampled + own.right_noise, NEGLIGIBLE))) / max(own.sampling, 1e-300)
        variance = float(own.explainable) if np.isfinite(own.explainable) else 1.0
        explained = min(float(fit.weights @ own.gram @ fit.weights) / max(variance, 1e-300), LARGEST_SHARE)
        slope = mean if label.classes else float(label.family.variance(np.array([mean]))[0])
        scales.append(1.0 / (slope * (1.0 - (0.0 if label.family.identity else explained))))
        square = max((fit.spread * scales[-1]) ** 2, FAINT**2 / energy)
        factors.append(variance / max(square * told * variance**2, 1e-12))
    prior = base @ shape @ base.T
    jitter = 1e-9 * float(np.trace(prior)) / len(prior) * np.eye(len(prior))
    form = np.asarray(np.linalg.pinv(prior + jitter), dtype=np.float64)
    centre = base @ np.column_stack([fit.weights * scale for fit, scale in zip(fits, scales, strict=True)])
    return Prior(form, np.array(factors), centre)


def _under_conditions(
    fitted: FittedRelease, label: _Label, at: Sequence[int], given: Mapping[int, int], count: int, seed: int
) -> _Known:
    """A part of the records: covariances are those of drawn rows, with the noise that tables of so few records have.

    Where a product with the condition's column was declared, they are the released ones.
    """
    records, weights = _records(fitted, count, given, seed)
    estimate, layout, columns = fitted.tables.estimate, fitted.released.layout, list(at)
    y, x = label.products(estimate, records), records[:, columns]
    means, centre = weights @ y, weights @ x
    right = (x - centre).T @ (weights[:, None] * (y - means))
    part = max(_part(fitted, given), 1.0 / estimate.n)
    spread = weights @ (y - means) ** 2
    square = np.where(np.isfinite(estimate.std), estimate.std, 0.0)[:, layout.span(label.attribute)] ** 2
    noise, gram = square[columns], (x - centre).T @ (weights[:, None] * (x - centre))
    extra, told = [], {row: held for row, k in enumerate(columns) if (held := held_sums(layout, k, given))}
    for row, (level, parts) in told.items():
        sums = np.stack([np.sum([sign * estimate.value[c] for c, sign in parts], axis=0), estimate.value[level]])
        own, (both, alone) = sums[0, 0] / max(sums[1, 0], 1.0), label.products(estimate, sums) / max(sums[1, 0], 1.0)
        noise[row] = square[[c for c, _ in parts]].sum(axis=0)
        extra.append(both - own * alone - right[row])
    if rows := list(told):
        # What other columns have of it, they have through these.
        right = right + gram[:, rows] @ np.linalg.pinv(gram[np.ix_(rows, rows)], hermitian=True) @ np.array(extra)
    noise = noise @ label.matrix**2 / (part * estimate.n) ** 2
    groups = tuple(int(i) for i in layout.attribute_of[columns])
    n = part * estimate.n
    systems = [
        NoisyEquations(gram, c, np.zeros_like(gram), v, float(s) / n, groups, explainable=float(s))
        for c, v, s in zip(right.T, noise.T, spread, strict=True)
    ]
    if not label.family.identity:
        means = np.clip(means, LEAST, 1.0 - LEAST if label.family.bounded else None)
    unsure = np.sqrt(estimate.std[0, layout.span(label.attribute)] ** 2 @ label.matrix**2) / n
    return _known(systems, lambda shrunk: (x, weights), centre, (means, unsure), label, range(len(columns)), n)


def _part(fitted: FittedRelease, given: Mapping[int, int]) -> float:
    """The share of records that conditions leave, by the chains of the maximum-entropy model."""
    place, chains = {i: k for k, i in enumerate(fitted.columns)}, fitted.model.chains
    held = np.all([chains[:, place[i]] == level for i, level in given.items()], axis=0)
    return float(fitted.model.weights @ held)


def _evidence(known: _Known, fit: MomentFit, label: _Label) -> Prospect:
    """The fit with what the release says of it."""
    w = fit.weights
    # The fit is steeper than the linear one, whose noise is known, and has followed the noise so much more.
    steeper = np.abs((w * known.shrunk).sum(axis=0)) / np.maximum(known.slopes, 1e-300)
    followed = np.where(w.any(axis=0), steeper, 0.0) * known.followed
    reached = float(known.sound @ ((w * known.right).sum(axis=0) - followed))
    # Classes exclude each other.
    varies = np.diag(known.means) - np.outer(known.means, known.means) if label.classes else np.diag(known.spread)
    noise = float(np.sqrt((w**2 * known.noise).sum() + ((w.T @ known.gram @ w) * varies).sum() / known.n))
    unit = float(known.spread[0]) if label.family.identity else 1.0
    blur = blur_of(label.family, known.means, known.unsure)
    most, guessed = float(known.sound @ (w * known.shrunk).sum(axis=0)), known.guessed and label.family.identity
    bounds = (-1.0 - float(known.means[0]), 1.0 - float(known.means[0])) if label.family.identity else None
    return Prospect(known.law, label.family, known.means, w, reached, noise, blur, unit, most, guessed, bounds)


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
    fill_products(fitted.released.layout, records)
    return records, np.full(len(records), 1.0 / len(records))


@dataclass(frozen=True)
class _Label:
    """What is predicted: outputs y of one attribute's coordinates, and their law."""

    name: str
    attribute: int
    family: Family
    outputs: Outputs

    @property
    def matrix(self) -> Floats:
        return self.outputs.matrix

    @property
    def classes(self) -> tuple[str, ...]:
        return self.outputs.classes

    @classmethod
    def of(cls, released: Released, question: Question) -> _Label:
        text = question.label or released.short(released.layout.label)
        found, family = released.layout.find(text), family_of(question.task)
        level = found[1] if found is not None and found[0] in released.tabular else None
        i = released.find(text) if found is None or level is None else found[0]
        column, levels = released.columns[i], released.levels(i) if i in released.tabular else ()
        place = LabelPlace(text, column, levels, level, lambda: _number(released, i, column))
        return cls(text, i, family, family.outputs(place))

    def products(self, estimate: Estimate, sums: Floats) -> Floats:
        """Means of y x from means of all coordinates times x; the constant's stands in column 0."""
        span = estimate.layout.span(self.attribute)
        result: Floats = sums[:, span] @ self.matrix + self.outputs.shift * sums[:, :1]
        return result


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


def _penalty(known: _Known, question: Question) -> Penalty:
    """A given strength for every feature alike, or for each by the noise on its products with the label."""
    size = len(known.centre)
    # Products are shrunk already: so much keeps classes that a line separates from weights without limit.
    squared = np.full(size, 1.0 / (known.n * WIDEST**2))
    strength = np.zeros(size)
    if question.strength is not None:
        strength = np.full(size, question.strength)
    elif question.penalty != "ridge":
        # Noise, and sampling of what the columns leave of the label; products that were shrunk have less of both.
        error = known.error(SAMPLED**2 * known.left)
        told = (known.right**2 / error).sum(axis=0)
        # A class that the release says nothing of, as one without a record, has no products to keep a part of.
        kept = (known.shrunk * known.right / error).sum(axis=0) / np.where(told > 0, told, 1.0)
        strength = SPARSE * np.sqrt((np.clip(kept, 0.0, 1.0) ** 2 * error).mean(axis=1))
    if question.penalty == "ridge":
        return Penalty(np.zeros(size), squared + strength)
    if question.penalty == "lasso":
        return Penalty(strength, squared)
    # Steep log-odds are drawn to 0 by a square as much as by its root, not more.
    typical = float(np.sqrt(np.mean(known.pull.centre**2))) if question.strength is None else 1.0
    return Penalty(0.5 * strength, squared + 0.5 * strength / max(typical, 1.0))


def _model(
    released: Released, question: Question, label: _Label, at: Sequence[int], w: Floats, b: Floats
) -> FittedModel:
    names = tuple(released.layout.names[k] for k in at)
    method = question.penalty + (f", given {', '.join(question.given)}" if question.given else "")
    strength = float("nan") if question.strength is None else question.strength
    kept = float((np.abs(w).max(axis=1, initial=0.0) > 1e-9).sum())
    if label.classes:
        w, b = w - w.mean(axis=1, keepdims=True), b - b.mean()
    rows, constants = tuple(tuple(map(float, column)) for column in w.T), tuple(map(float, b))
    return FittedModel(question.task, label.name, names, rows, constants, method, strength, kept, classes=label.classes)

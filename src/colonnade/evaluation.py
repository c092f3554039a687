"""How good a model is on people whose columns lie at several parties: a study of its scores, planned like any other.

Every party's part of a score becomes one bounded column, and a session opens noisy counts or sums of those columns. Of
a logistic model at two parties: counts by outcome and score bin of the label's holder and score bin of its partner. At
more parties: sums of scores by outcome, and of their products. Of a linear model: second moments of the error's parts.
A part's bounds are all that the model makes of the declared columns, so that nothing is clipped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
import polars as pl

from colonnade.analysis.denoise import Estimate
from colonnade.analysis.measures import ClassSums, CurvePoint, Measure, ScoreTable, Sum, error_measures
from colonnade.analysis.released import Known
from colonnade.analysis.score_parts import Part, added_scores
from colonnade.data.sources import Source
from colonnade.data.store import read_rows
from colonnade.data.table import Table, table_from
from colonnade.foundation.errors import PrivacyError, ReleaseError, StudyError
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
from colonnade.mechanism.accounting import check_epsilon
from colonnade.mechanism.moments import Floats, Moments, Role
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import ReleaseRecord, digest
from colonnade.model import PublicModel, partial_scores, write_model
from colonnade.planning.agreement import Agreement, TopDown
from colonnade.planning.query import EVALUATED, KEPT_NAME, Evaluated, Full
from colonnade.planning.session_plan import SessionPlan
from colonnade.planning.warnings import proof_warnings, refusing_columns
from colonnade.study import StudySpec

DROWNED = 0.25
"""An accuracy or a share explained that noise moves so far is not worth an epsilon."""
FEWEST, MOST = 3, 64
"""Bins of a score."""
NARROWEST = 4.0
"""No part of an error is let reach less than the widest over this."""
TYPICAL_ROWS = 10_000  # stands for n where a study does not state it
OUTCOMES = ("no", "yes")
_score, _error, _about, _outcome = (f"{what} at {{}}".format for what in ("score", "error", "label", "outcome"))
"""What the columns of a party are called."""


@dataclass(frozen=True)
class Measured:
    """What an evaluation found."""

    n: int
    measures: Mapping[str, Measure]
    """Those that are estimable."""
    curve: tuple[CurvePoint, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """A model's evaluation: the study that is planned, consented to and booked, and what parties make of records."""

    public: PublicModel
    study: StudySpec
    """The agreement of its sessions, and where the records lie."""
    holder: str
    """Who has the label."""
    parts: Mapping[str, Part]
    """Of every party's score; of the label's holder in a linear model, of its part of the error."""
    bins: int
    label: Part
    """Of the label of a linear model, in coded units: it is taken about what it was where the model was made."""

    @property
    def agreement(self) -> Agreement:
        return self.study.agreement

    @property
    def task(self) -> Task:
        return Task(self.public.model.task)

    @property
    def opens_counts(self) -> bool:
        """Whether counts are opened, and not sums."""
        return self.task.of_yes_or_no and len(self.parts) <= 2

    def needs(self, party: str) -> dict[str, Column]:
        """The columns that a party's file must have."""
        declared = self.public.schema.parties[party]
        return {name: declared[name] for name in self.agreement.used(party)}

    def derive(self, raw: Table) -> Table:
        """A party's records as this evaluation takes them: its scores, and at the label's holder the outcome."""
        # What was not as declared is counted in the columns that were read.
        return replace(self._scored(raw), unfit=raw.unfit, left_out=raw.left_out)

    def _scored(self, raw: Table) -> Table:
        party, part = raw.party, self.parts[raw.party]
        score = partial_scores(raw, self.public.model, self.public.factors)
        columns = self.agreement.schema.parties[party]
        if party != self.holder:
            return table_from(party, pl.DataFrame({_score(party): part.centred(score)}), columns, raw.ids)
        ref, place = self.public.about
        column = self.public.schema.columns[ref]
        values = column.encode(read_rows(raw.values[ref.column], 0, raw.rows))
        score = score + self.public.model.intercept
        if self.task.of_number:
            # Parts of the error have one sign, so that they add up to it.
            error, about = part.centred(score - values[None]), self.label.centred(values[None])
            return table_from(party, pl.DataFrame({_error(party): error, _about(party): about}), columns, raw.ids)
        yes = (values[1 if place is None else place] > 0.5).astype(np.int64)
        if self.opens_counts and len(self.parts) == 2:
            cuts = np.array(part.cuts(self.bins))
            codes = np.searchsorted(cuts, part.centred(score), side="right")
            cells = np.array(_cells(len(cuts) + 1))
            frame = pl.DataFrame({_outcome(party): cells[yes * (len(cuts) + 1) + codes]})
        else:
            frame = pl.DataFrame({_outcome(party): np.array(OUTCOMES)[yes], _score(party): part.centred(score)})
        return table_from(party, frame, columns, raw.ids)

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of what is measured, where it is estimable."""
        return ("rmse", "r_squared") if self.task.of_number else ("accuracy", "auc", "log_loss", "brier")

    def warnings(self, session: SessionPlan) -> list[str]:
        """What to consider before anything is spent."""
        refusing = proof_warnings(session) + refusing_columns({party: self.needs(party) for party in self.parts})
        if self.task.of_yes_or_no and not self.opens_counts:
            return [
                *refusing,
                "with three parties and more sums of scores are opened: they bound log-loss and Brier score, and most "
                "likely tell nothing of the area under the ROC curve, and little of accuracy, with any epsilon",
            ]
        return refusing + [
            f"noise is expected to move {name.replace('r_squared', 'R²')} by about {std:.2g}: most likely nothing will "
            "be told; more records or a larger epsilon would tell something"
            for name, std in self.expected(session).items()
            if std >= DROWNED
        ]

    def expected(self, session: SessionPlan) -> dict[str, float]:
        """Roughly how far the noise of a plan moves what is measured, before anything is spent."""
        stds = [session.plan.noise_std(item) for item in session.plan.blocks]
        if self.opens_counts:
            cells = 2 * np.prod([len(part.cuts(self.bins)) + 1 for part in self.parts.values()])
            return {"accuracy": max(stds) * sqrt(cells) / 2 / session.rows}
        if self.task.of_number:
            scale = sum(part.reach for part in self.parts.values()) ** 2
            return {"r_squared": scale * max(stds) / session.rows / self.label.spread**2}
        return {}

    def measure(self, release: ReleaseRecord) -> Measured:
        """What a release of this evaluation tells."""
        if release.agreement != self.agreement.to():
            raise ReleaseError(
                "the release is not of this evaluation: its model, columns or terms are others; one that was made with "
                "the release of the model needs that release again"
            )
        if self.task.of_number:
            low, high = self.public.label[1].require_bounds()
            errors, about = self._errors(release), self._about(release)
            return Measured(release.n, error_measures(release.n, errors, about, (high - low) / 2, self.label.spread**2))
        if not self.opens_counts:
            return Measured(release.n, self._classes(Known.of(release)).measures())
        table = self._table(Known.of(release).moments)
        return Measured(release.n, table.measures(), tuple(table.curve()))

    @property
    def _shift(self) -> float:
        return sum(part.centre for part in self.parts.values())

    def _table(self, moments: Moments) -> ScoreTable:
        place = moments.layout.span_of
        partner = next((party for party in self.parts if party != self.holder), self.holder)
        outcome = place(ColumnRef(self.holder, _outcome(self.holder)))
        score = place(ColumnRef(partner, _score(partner)))
        counts, std = moments.value[outcome, score], float(moments.std[outcome, score].max())
        axes = tuple(self.parts[party].axis(self.bins) for party in dict.fromkeys([self.holder, partner]))
        return ScoreTable(moments.n, counts.reshape(2, *(len(axis.lows) for axis in axes)), std, axes, self._shift)

    def _errors(self, release: ReleaseRecord) -> Sum:
        """The sum of squared errors: all numbers of two parties, each times twice the product of their reaches."""
        terms = []
        for block in release.blocks:
            if block.role is not Role.LABEL:
                continue
            reach = [self.parts[party].reach for party in block.owners]
            weight = reach[0] ** 2 if len(reach) == 1 else 2 * reach[0] * reach[1]
            # A number moves by at most this as one of its factors does (proofs/squared_sum.md).
            ratio = reach[0] / reach[-1]
            slopes = [1 + r / max(len(self.parts) - 1, 1) for r in (ratio, 1 / ratio)] if len(reach) > 1 else [2.0]
            terms.append((weight, float(block.values[0]) / block.unit, _with_rounding(release, block.std[0], slopes)))
        return Sum.of(terms)

    def _about(self, release: ReleaseRecord) -> Sum:
        """The sum of squares of the label about its centre."""
        block = next(block for block in release.blocks if block.role is Role.FEATURE)
        std = _with_rounding(release, block.std[0], [2.0])
        return Sum.of([(self.label.reach**2, float(block.values[0]) / block.unit, std)])

    def _classes(self, known: Known) -> ClassSums:
        moments, estimate = known.moments, known.estimate
        place = moments.layout.span_of
        outcome = place(ColumnRef(self.holder, _outcome(self.holder)))
        scores = [(place(ColumnRef(p, _score(p))).start, part.reach) for p, part in self.parts.items()]
        yes = outcome.stop - 1
        ones = Sum(float(estimate.margin[yes]), float(estimate.std[0, yes]))
        no_sum, yes_sum = (
            Sum.of((reach, moments.value[place, at], moments.std[place, at]) for place, reach in scores)
            for at in (outcome.start, yes)
        )
        ends = (sum(part.low for part in self.parts.values()), sum(part.high for part in self.parts.values()))
        return ClassSums(moments.n, ones, (no_sum, yes_sum), Sum.of(_squares(moments, scores)), ends, self._shift)


def evaluate_by(
    study: StudySpec,
    public: PublicModel,
    epsilon: float | None = None,
    *,
    delta: float | None = None,
    release: ReleaseRecord | None = None,
    rows: int | None = None,
    bins: int | None = None,
    sources: Mapping[str, Source] | None = None,
) -> Evaluation:
    """The evaluation of a model on the parties of a study.

    `release` is the one that the model comes from: where scores lie is taken from it, and the label's variance.
    `epsilon` and `delta` are the study's if not given, `rows` the number of records that bins are chosen for.
    """
    terms = study.agreement
    _require_model(public, terms.schema)
    holder, labelled = public.about.of
    parties = [party for party in terms.schema.names if party in public.needs() or party == holder]
    task = Task(public.model.task)
    estimate = _estimate(public, release)
    parts = {party: _part(public, party, holder, estimate) for party in parties}
    if task.of_number:
        parts = _balanced(parts, holder)
    spends = terms.budget.epsilon if epsilon is None else epsilon
    if spends is None:
        raise StudyError(
            "an evaluation needs an epsilon of its own where every party of the study states one: --epsilon"
        )
    spends = check_epsilon(spends)
    loses = terms.delta if delta is None else delta
    if not 0 <= loses < 1:
        raise PrivacyError(f"delta must lie in [0, 1), got delta={loses}")
    known = rows or study.rows or TYPICAL_ROWS
    cut = _bins(known, spends, loses, len(parties)) if bins is None else bins
    if not 2 <= cut <= MOST:
        raise StudyError(f"a score is cut into 2 to {MOST} bins, got {cut}")
    columns = {party: _columns(party, part, holder, task, len(parties), cut) for party, part in parts.items()}
    about = _label_part(public, estimate)
    if task.of_number:
        columns[holder][_about(holder)] = Numeric(-about.reach, about.reach)
    label = ColumnRef(holder, (_error if task.of_number else _outcome)(holder))
    needs = public.needs()
    used = {party: tuple(needs.get(party, {})) for party in parties}
    used[holder] = (*used[holder], labelled)
    model = hashlib.sha256(write_model(public)).hexdigest()
    agreement = Agreement(
        name=f"{terms.name[:KEPT_NAME]}{EVALUATED}{model[:16]}",
        schema=Schema(columns),
        label=str(label),
        task=task,
        budget=TopDown(spends),
        query=Full(evaluated=Evaluated(model, str(public.about.of), task, used)),
        delta=loses,
        collusion=min(terms.collusion, len(parties) - 1),
        product=terms.product,
        proofs=terms.proofs,
        reason=terms.reason,
        organisations={party: who for party, who in terms.organisations.items() if party in parties},
        auditors=terms.auditors,
        ids=terms.ids,
    )
    own = {party: (sources or study.sources)[party] for party in parties if party in (sources or study.sources)}
    return Evaluation(public, StudySpec(agreement, own, study.alignment, rows or study.rows), holder, parts, cut, about)


def terms_of(terms: Mapping[str, Any]) -> dict[str, Any]:
    """The terms that an evaluation had, by the agreement that a release or evidence has of it."""
    if "evaluates" not in terms:
        raise ReleaseError("this release evaluates no model: it is one that models are made of")
    columns = [column for own in terms["schema"].values() for column in own.values()]
    # A party whose part can be few scores has fewer bins than were asked for.
    found = [len(c["bins"]) + 1 for c in columns if c.get("bins")] + [len(c.get("levels", ())) // 2 for c in columns]
    bins = {"bins": max(found)} if max(found) > 1 else {}
    return {"epsilon": terms["epsilon"], "delta": terms["delta"], **bins}


def _require_model(public: PublicModel, declared: Schema) -> None:
    name, column, level = public.label
    if not (public.model.is_number or public.model.is_log_odds):
        raise StudyError(
            f"the model of {public.model.label} has several classes or is of counts: an evaluation is of a linear "
            "model, or of one level, such as solve --label COLUMN=LEVEL"
        )
    if public.interactions:
        raise StudyError(
            f"the model of {public.model.label} has interactions, such as {next(iter(public.interactions))}: an "
            "evaluation adds up what each party's own columns give; products within a party can be derived columns"
        )
    if public.model.is_number and (column.has_levels or column.bounds is None):
        raise StudyError(f"a linear model is evaluated where its label is a number without bins, got column {name}")
    if public.model.is_log_odds and level is None:
        raise StudyError(f"a logistic model is evaluated where its label is one level, got column {name}")
    for party, columns in {**public.needs()}.items():
        for other, kind in columns.items():
            found = declared.parties.get(party, {}).get(other)
            if not kind.is_like(found) and (found is None or not kind.is_like(found.uncut)):
                raise ReleaseError(
                    f"the model takes column {other} of party {party} otherwise than the study declares it"
                )
    holder, label = public.about.of
    if not column.is_like(declared.parties.get(holder, {}).get(label)):
        raise ReleaseError(f"the model's label {label} of party {holder} is not what the study declares")


def _estimate(public: PublicModel, release: ReleaseRecord | None) -> Estimate | None:
    if release is None:
        return None
    if digest(release.to()) != public.release:
        raise ReleaseError("the model does not come from this release: its digest is another")
    return Known.of(release).estimate


def _part(public: PublicModel, party: str, holder: str, estimate: Estimate | None) -> Part:
    """Where a part lies: by the release's means and products, or as if levels were as common and numbers even."""
    weights = dict(zip(public.model.features, public.model.coefficients, strict=True))
    centre = spread = 0.0
    low = high = 0.0
    scores: Floats | None = np.zeros(1)
    for name, column in public.needs().get(party, {}).items():
        own = np.array([weights.get(text, 0.0) for text in public.schema.texts(ColumnRef(party, name))])
        if column.has_levels:
            centre += own.mean()
            spread += own.var()
            low, high = low + own.min(), high + own.max()
            scores = added_scores(scores, own)
        else:
            scores = None if own[0] else scores
            spread += own[0] ** 2 / 3
            low, high = low - abs(own[0]), high + abs(own[0])
    error = public.model.is_number and party == holder
    constant = public.model.intercept if party == holder else 0.0
    low, high, centre = low + constant, high + constant, centre + constant
    scores = None if scores is None or error else scores + constant
    if error:
        spread += 1 / 3
        low, high, centre = low - 1.0, high + 1.0, 0.0
    if estimate is not None:
        told = _by_release(public, party, holder if error else None, estimate)
        if told is not None:
            centre, variance = told[0] + (0.0 if error else constant), told[1]
            spread = variance if variance > 0 else spread
    centre, high = min(max(centre, low), high), max(high, low + 1e-9)
    spread = max(sqrt(max(spread, 0.0)), max(high - centre, centre - low) * 1e-3)
    found = () if scores is None else tuple(float(v) for v in scores)
    return Part(float(centre), float(spread), float(low), float(high), found)


def _balanced(parts: Mapping[str, Part], holder: str) -> dict[str, Part]:
    """Parts of the error: their centres cancel, and none reaches so little that the squares of others weigh heavily."""
    others = sum(part.centre for party, part in parts.items() if party != holder)
    centred = {**parts, holder: replace(parts[holder], centre=-others)}
    least = max(part.reach for part in centred.values()) / NARROWEST
    return {party: replace(part, least=least) for party, part in centred.items()}


def _by_release(public: PublicModel, party: str, error: str | None, estimate: Estimate) -> tuple[float, float] | None:
    """Mean and variance of a party's part, or of its part of the error, by the release; None where it does not tell."""
    layout = estimate.layout
    vector = np.zeros(layout.width)
    for (factor,), weight in zip(public.factors.values(), public.model.coefficients, strict=True):
        if factor.of.party == party:
            if factor not in layout.index:
                # A number that was released by its bins.
                return None
            vector[layout.index[factor]] = weight
    if error is not None:
        label = layout.span(layout.label)
        vector[label.stop - 1] -= 1.0
        if label.stop - label.start == 2:
            vector[label.start] += 1.0
    if not (np.isfinite(estimate.std[0][vector != 0]).all() and np.isfinite(estimate.value).all()):
        return None
    return float(vector @ estimate.margin) / estimate.n, float(vector @ estimate.covariance @ vector) / estimate.n


def _label_part(public: PublicModel, estimate: Estimate | None) -> Part:
    """The label of a linear model: its mean by the release, and a spread as if it were even in its range."""
    centre = 0.0
    if estimate is not None:
        layout = estimate.layout
        label = layout.span(layout.label)
        if layout.attributes[layout.label].ref == public.about.of:
            upper = estimate.margin[label.stop - 1] / estimate.n
            centre = float(np.clip(2 * upper - 1 if label.stop - label.start == 2 else upper, -1.0, 1.0))
    return Part(centre, sqrt(1 / 3), -1.0, 1.0)


def _bins(rows: int, epsilon: float, delta: float, parties: int) -> int:
    """So many that noise costs the area under the curve a third of what bins leave unknown of it.

    With normal scores bins leave about 1.5 / bins unknown at one party, and 2.2 / bins at two; noise on their cells
    moves it by about 4.4 sqrt(cells / 2) std / n.
    """
    std = 4.0 / epsilon if delta == 0 else 3.0 * sqrt(2 * np.log(1.25 / delta)) / epsilon
    clear = rows / (4.4 * std)
    found = (1.5 / 3 * clear) ** (2 / 3) if parties == 1 else sqrt(2.2 / 3 * clear)
    return int(np.clip(round(found), FEWEST, MOST))


def _columns(party: str, part: Part, holder: str, task: Task, parties: int, bins: int) -> dict[str, Column]:
    number = Numeric(-part.reach, part.reach)
    if task.of_number:
        return {(_error if party == holder else _score)(party): number}
    if parties > 2:
        return ({_outcome(party): Binary(OUTCOMES)} if party == holder else {}) | {_score(party): number}
    cuts = part.cuts(bins)
    cut = Numeric(-part.reach, part.reach, cuts)
    if party != holder:
        return {_score(party): cut}
    if parties == 1:
        return {_outcome(party): Binary(OUTCOMES), _score(party): cut}
    return {_outcome(party): Categorical(_cells(len(cuts) + 1))}


def _cells(bins: int) -> tuple[str, ...]:
    """Outcome and score bin of the label's holder, as one column."""
    return tuple(f"{outcome}, score bin {i + 1}" for outcome in OUTCOMES for i in range(bins))


def _with_rounding(release: ReleaseRecord, noise: float, slopes: Sequence[float]) -> float:
    """The deviation of a sum: its noise's, and at most that of rounding each factor at random to the grid's steps."""
    steps = release.n / 4 * sum(slope**2 for slope in slopes) / release.plan["grid"]["bound"] ** 2
    return sqrt(float(noise) ** 2 + steps)


def _squares(moments: Moments, scores: list[tuple[int, float]]) -> list[tuple[float, float, float]]:
    """The terms of the square of a sum of scores."""
    own = [(reach**2, moments.value[place, place], moments.std[place, place]) for place, reach in scores]
    pairs = [
        (2 * first[1] * second[1], moments.value[first[0], second[0]], moments.std[first[0], second[0]])
        for first, second in combinations(scores, 2)
    ]
    return [*own, *pairs]

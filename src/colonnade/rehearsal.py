"""A study rehearsed before anything is spent: its noise on rows that are public, and how good the model would be.

Sums, rounding, noise and solver are those of a run; the secure product is left out, for it changes no number. Without
public rows, rows are invented from the schema, over stated strengths of signal: that gives a range.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from colonnade.analysis.draws import seeded, uniform
from colonnade.analysis.model import FittedModel
from colonnade.analysis.slopes import bin_numeric_columns
from colonnade.analysis.solve import solve
from colonnade.crypto.product import Integers
from colonnade.data.made_up import Signal, invent_tables
from colonnade.data.sources import Source, by_party, of_parties
from colonnade.data.store import read_rows
from colonnade.data.table import Look, Table
from colonnade.foundation.errors import DataError, StudyError
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Schema
from colonnade.mechanism.moments import Floats, Moments
from colonnade.planning.agreement import Agreement, TopDown
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.planning.variants import Choices, vary
from colonnade.protocol.fit import released
from colonnade.study import StudySpec


def simulate_release(session: SessionPlan, gram: Floats, randomness: Randomness) -> Moments:
    """The moments of a release whose sums of products of grid integers are `gram`; first is the constant, the bound."""
    values: Integers = np.zeros(session.length, dtype=np.int64)
    for i, item in enumerate(session.plan.blocks):
        a, b = item.block.factors[:, -2], item.block.factors[:, -1]
        exact = gram[a, b].sum(keepdims=True) if item.block.summed else gram[a, b]
        noise = session.noise(i)
        if item.block.single:
            drawn = noise.draw(1, randomness)
        else:
            exact = exact * session.spec.gain
            shares = [session.noise(i, session.plan.share(party)) for party in session.parties]
            drawn = np.sum([share.draw(session.plan.shares, randomness) for share in shares], axis=0)
        values[session.positions[i]] = np.rint(exact).astype(np.int64) + drawn
    return released(session, values, {}).moments()


DRAWS, SPLITS = 20, 4  # releases, and splits of the rows; chosen, not tuned
TESTED = 0.2
"""The part of the public rows that each split keeps for the test."""
FEWEST_ROWS = 50  # a test of ten rows at least
CLEAR = 1e5
"""An epsilon whose noise is nothing to speak of."""
STRENGTHS = {"weak": 0.05, "middle": 0.25, "strong": 0.8}
SHARES = (0.5, 0.25, 0.1, 0.01)  # how common the label's level may be
SCENES = ((1.0, False), (0.1, False), (1.0, True))
"""How much of their bounds numbers fill, and whether one column carries all of the signal."""
INVENTED_TRAIN, INVENTED_TEST = 6_000, 3_000  # enough that chance hardly adds to the noise of a release
CORNER = 0.1
"""Public values that fill less of their bounds sit in a corner."""
_BLOCK = 1 << 14  # rows at once stay in a cache


@dataclass(frozen=True)
class Quality:
    """One measure of a model on rows that it was not made of."""

    mean: float
    std: float
    """Of one release: how far a single run may be from the mean."""
    low: float
    high: float
    """Between these lie nine of ten releases."""
    trivial: float
    """Of the answer that looks at no feature: the larger class, the mean, no order."""
    clear: float
    """Of a model of the same columns with no noise to speak of."""

    def to(self) -> dict[str, float]:
        return {
            "mean": self.mean,
            "std": self.std,
            "low": self.low,
            "high": self.high,
            "trivial": self.trivial,
            "without_noise": self.clear,
        }


@dataclass(frozen=True)
class Expectation:
    """What one study would achieve, by a rehearsal."""

    n: int
    rows: int
    """Rows that it was rehearsed on."""
    releases: int
    measures: Mapping[str, Quality]
    notes: tuple[str, ...] = ()

    def to(self) -> dict[str, Any]:
        measures = {name: quality.to() for name, quality in self.measures.items()}
        return {
            "n": self.n,
            "public_rows": self.rows,
            "releases": self.releases,
            "measures": measures,
            "notes": list(self.notes),
        }


def rehearse(
    agreement: Agreement,
    tables: Mapping[str, Table],
    rows: int | None = None,
    *,
    releases: int = DRAWS,
    seed: int = 0,
) -> Expectation:
    """How good a model of n records would be, from public rows like theirs: many releases, each tested.

    Each split of the rows is also solved without noise.
    """
    _require_regression(agreement)
    have = _common_rows(tables)
    n = have if rows is None else rows
    session = plan_session(agreement, n, bytes(32))
    found: dict[str, list[float]] = {}
    clear: dict[str, list[float]] = {}
    trivial: dict[str, list[float]] = {}
    for split in range(SPLITS):
        # Every plan that is compared has the same splits.
        order = np.argsort(uniform(seeded(seed, f"split {split}"), have), kind="stable")
        randomness = seeded(seed, f"noise {split}")
        kept = max(1, round(TESTED * have))
        stage = _Stage(agreement, tables, order[kept:][:n], order[:kept])
        draws = len(range(split, releases, SPLITS))
        _gather(found, stage.scores(session, randomness, draws))
        _gather(clear, stage.scores(_clear(agreement, n), randomness, 1))
        _gather(trivial, [stage.trivial()])
    measures = {
        name: Quality(
            float(np.mean(values)),
            float(np.std(values)),
            float(np.quantile(values, 0.05)),
            float(np.quantile(values, 0.95)),
            float(np.mean(trivial[name])),
            float(np.mean(clear[name])),
        )
        for name, values in found.items()
    }
    return Expectation(n, have, releases, measures, tuple(corner_notes(agreement, tables)))


def _require_regression(agreement: Agreement) -> None:
    if agreement.query.declared is not None:
        raise StudyError("a rehearsal tests scores of a regression, and a declared objective has none")
    if agreement.query.higher:
        raise StudyError(
            "a rehearsal simulates sums of products of two columns, and this study releases longer ones: leave out its "
            "interactions, and any order above 2, for the rehearsal"
        )


def rehearse_each(
    agreement: Agreement,
    tables: Mapping[str, Table],
    rows: int | None,
    choices: Choices,
    *,
    releases: int = DRAWS,
    seed: int = 0,
) -> list[tuple[Mapping[str, object], Expectation]]:
    """The study as it is, or where there are choices each of its variants; one that cannot be is refused."""
    variants = vary(agreement, choices) if choices else [({}, agreement)]
    out: list[tuple[Mapping[str, object], Expectation]] = []
    for chosen, found in variants:
        if isinstance(found, str):
            told = ", ".join(f"{name} {value}" for name, value in chosen.items())
            raise StudyError(f"{told}: {found}")
        own = declared_anew(tables, found.schema)
        out.append((chosen, rehearse(found, own, rows, releases=releases, seed=seed)))
    return out


@dataclass(frozen=True)
class Range:
    """What the schema alone lets one expect: the measures of simulated releases for each strength of signal."""

    n: int
    measures: Mapping[str, Mapping[str, tuple[float, float]]]
    """By measure and strength, lowest and highest."""
    trivial: Mapping[str, tuple[float, float]]
    shares: tuple[float, ...]

    @property
    def strengths(self) -> Mapping[str, float]:
        return STRENGTHS

    def whole(self, measure: str) -> tuple[float, float]:
        """The range over all strengths."""
        ends = self.measures[measure].values()
        return min(low for low, _ in ends), max(high for _, high in ends)

    def to(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "strengths": dict(STRENGTHS),
            "shares": list(self.shares),
            "scenes": [{"filled": filled, "one_column": alone} for filled, alone in SCENES],
            "measures": {
                name: {
                    "by_strength": {strength: list(ends) for strength, ends in by.items()},
                    "range": list(self.whole(name)),
                    "trivial": list(self.trivial[name]),
                }
                for name, by in self.measures.items()
            },
        }


def foretell(agreement: Agreement, rows: int, *, share: float | None = None, releases: int = 2, seed: int = 0) -> Range:
    """A range from the schema alone, over strengths of signal, of how far bounds are filled, and of the label's share.

    `share` of positive records is a public fact that the schema does not have; without it several are tried.
    """
    _require_regression(agreement)
    if share is not None and not 0 < share < 1:
        raise StudyError(f"share must lie between 0 and 1, got share={share}")
    party, label = agreement.schema.find(agreement.label)
    classes = agreement.schema.parties[party][label].has_levels
    shares = (0.5,) if not classes else SHARES if share is None else (share,)
    session = plan_session(agreement, rows, bytes(32))
    randomness = seeded(seed, "foretold")
    train = np.arange(min(rows, INVENTED_TRAIN))
    test = np.arange(len(train), len(train) + INVENTED_TEST)
    people = len(train) + INVENTED_TEST
    seen: dict[str, dict[str, list[float]]] = {}
    trivial: dict[str, list[float]] = {}
    for name, strength in STRENGTHS.items():
        for positive in shares:
            for filled, alone in SCENES:
                signal = Signal(strength, positive, filled, alone)
                tables = invent_tables(agreement.schema, agreement.label, people, signal, randomness)
                stage = _Stage(agreement, tables, train, test)
                known = stage.trivial()
                for found in stage.scores(session, randomness, releases):
                    for measure, value in found.items():
                        seen.setdefault(measure, {}).setdefault(name, []).append(value)
                    if classes:
                        # The test rows' own share is chance: the gain over the larger class is not.
                        gain = found["accuracy"] - known["accuracy"]
                        seen["accuracy"][name][-1] = max(positive, 1 - positive) + gain
                _gather(trivial, [known | ({"accuracy": max(positive, 1 - positive)} if classes else {})])
    measures = {m: {s: (min(v), max(v)) for s, v in by.items()} for m, by in seen.items()}
    return Range(rows, measures, {m: (min(v), max(v)) for m, v in trivial.items()}, shares if classes else ())


def measure(agreement: Agreement, model: FittedModel, test: Mapping[str, Table]) -> dict[str, float]:
    """A model's measures on rows that all parties have, in the same order."""
    everyone = np.arange(next(iter(test.values())).rows)
    return _Stage(agreement, test, everyone[:1], everyone).measures(model)


class _Stage:
    """Training rows as sums on the grid of whatever plan is tried, and test rows with what is true of them."""

    def __init__(
        self, agreement: Agreement, tables: Mapping[str, Table], train: np.ndarray[Any, Any], test: np.ndarray[Any, Any]
    ) -> None:
        if not (agreement.task.of_number or agreement.task.of_yes_or_no):
            raise StudyError(f"a rehearsal is of linear and logistic studies, got task {agreement.task.value}")
        self._task, self._schema, self._train_rows = agreement.task, agreement.schema, len(train)
        self._train = {party: table.take(train) for party, table in tables.items()}
        unseen = {party: table.take(test) for party, table in tables.items()}
        taken = agreement.schema.changed({ref: column.in_model for ref, column in agreement.schema.columns.items()})
        found = [replace(table, columns=taken.parties[party]).coordinates() for party, table in unseen.items()]
        values = {at: own[at] for own in found for at in own}
        self._unseen = {text: values[at] for ref in taken.columns for text, at in taken.texts(ref).items()}
        owner, name = agreement.schema.find(agreement.label)
        self._known = _truth(self._train[owner], name)
        self._true = _truth(unseen[owner], name)
        self._grams: dict[tuple[int, int], Floats] = {}

    def scores(self, session: SessionPlan, randomness: Randomness, releases: int) -> list[dict[str, float]]:
        """The measures of so many releases of the training rows, as if there were n of them."""
        gram = self._gram(session) * (session.rows / self._train_rows)
        out = []
        for _ in range(releases):
            moments = simulate_release(session, gram, randomness)
            model = solve(moments, self._task, numbers=bin_numeric_columns(moments.layout, self._schema))
            out.append(self.measures(model))
        return out

    def _gram(self, session: SessionPlan) -> Floats:
        layout, bound = session.plan.layout, session.grid.bound
        if (layout.width, bound) in self._grams:
            return self._grams[layout.width, bound]
        coins = bytes(32)
        columns: dict[str, IntegerColumns] = {}
        for party in session.parties:
            columns[party] = self._train[party].encode(layout, session.grid, coins)
        gram = np.zeros((layout.width, layout.width))
        for start in range(0, self._train_rows, _BLOCK):
            stop = min(self._train_rows, start + _BLOCK)
            z = np.full((stop - start, layout.width), float(bound))
            for party, own in columns.items():
                z[:, session.columns_of(party)] = own.rows(start, stop)
            gram += z.T @ z
        for party, own in columns.items():
            # A party corrects its own squares for their rounding.
            places = np.r_[0, np.arange(layout.width)[session.columns_of(party)]]
            gram[np.ix_(places, places)] = own.sums.unbiased()
        self._grams[layout.width, bound] = gram
        return gram

    def measures(self, model: FittedModel) -> dict[str, float]:
        score = np.full(len(self._true), model.intercept)
        for feature, weight in zip(model.features, model.coefficients, strict=True):
            score += weight * self._unseen[feature]
        if self._task.of_yes_or_no:
            positive = self._true > 0.5
            return {"accuracy": float(np.mean((score > 0) == positive)), "auc": _auc(score, positive)}
        # A prediction outside the bounds is cut as `predict` cuts it.
        error = float(np.mean((np.clip(score, -1, 1) - self._true) ** 2))
        return {"r2": 1 - error / (float(self._true.var()) or 1.0), "rmse": float(np.sqrt(error))}

    def trivial(self) -> dict[str, float]:
        """The answer that knows the training rows' label alone."""
        if self._task.of_yes_or_no:
            larger = self._known.mean() > 0.5
            return {"accuracy": float(np.mean((self._true > 0.5) == larger)), "auc": 0.5}
        return {"r2": 0.0, "rmse": float(np.sqrt(np.mean((self._true - self._known.mean()) ** 2)))}


def _truth(table: Table, name: str) -> Floats:
    """The label as the model has it: 0 or 1, or a number in [-1, 1]."""
    column, values = table.columns[name], read_rows(table.values[name], 0, table.rows)
    return column.codes(values).astype(np.float64) if column.has_levels else column.signed(values)


def _auc(score: Floats, positive: np.ndarray[Any, Any]) -> float:
    """The chance that a positive record scores higher than a negative one; a tie counts half."""
    count = int(positive.sum())
    if count in (0, len(score)):
        return 0.5
    ranks = float(rankdata(score)[positive].sum())
    return (ranks - count * (count + 1) / 2) / (count * (len(score) - count))


def _clear(agreement: Agreement, rows: int) -> SessionPlan:
    return plan_session(replace(agreement, budget=TopDown(CLEAR), delta=0.0, product="plain"), rows, bytes(32))


def _gather(into: dict[str, list[float]], found: Sequence[Mapping[str, float]]) -> None:
    for measures in found:
        for name, value in measures.items():
            into.setdefault(name, []).append(value)


def _common_rows(tables: Mapping[str, Table]) -> int:
    counts = {party: table.rows for party, table in tables.items()}
    if len(set(counts.values())) != 1:
        told = ", ".join(f"{party} {count:,}" for party, count in counts.items())
        raise DataError(f"public rows must be as many for every party, got {told}")
    have = next(iter(counts.values()))
    if have < FEWEST_ROWS:
        raise DataError(f"a rehearsal needs at least {FEWEST_ROWS} public rows, got {have}")
    return have


def corner_notes(agreement: Agreement, tables: Mapping[str, Table]) -> list[str]:
    """Numbers whose public values sit in a corner of their bounds, or outside of them."""
    out = []
    label = agreement.schema.find(agreement.label)
    for party, table in tables.items():
        for name, column in table.columns.items():
            if column.has_levels or column.bounds is None or (party, name) == label:
                continue
            values = np.asarray(read_rows(table.values[name], 0, table.rows), dtype=np.float64)
            low, high = column.bounds
            ends = np.quantile(np.clip(values, low, high), [0.05, 0.95])
            part = float(ends[1] - ends[0]) / (high - low)
            if part < CORNER:
                out.append(
                    f"column {name} sits in a corner of its bounds: nine of ten public values fill "
                    f"{100 * part:.2g}% of them; bins or closer bounds may tell more (compare bins:{name}=0,4,8)"
                )
            outside = float(np.mean((values < low) | (values > high)))
            if outside > 0.01:
                out.append(f"column {name}: {100 * outside:.0f}% of its public values lie outside its bounds")
    return out


def public_files(texts: Sequence[str], parties: Collection[str]) -> str | dict[str, str]:
    """What --public names: one file with all columns, or PARTY=FILE for each party."""
    if len(texts) == 1 and by_party(texts[0], parties)[0] is None:
        return texts[0]
    return of_parties(texts, parties, "--public")


def read_public_rows(study: StudySpec, public: Any, look: Look | None = None, strict: bool = False) -> dict[str, Table]:
    """Public rows by party: of one file or frame with all columns, or of one for each party.

    Those of several are matched by the study's ids where it has them, and taken in their order where not.
    """
    tables, several = {}, isinstance(public, Mapping)
    for party, columns in study.agreement.schema.parties.items():
        if several and party not in public:
            told = "public rows are one file, or PARTY=FILE for each party of the study"
            raise StudyError(f"{told}, got none for {party}")
        own = study.sources[party]
        source = Source(None, own.id, form=own.form) if several else Source(None)
        given = source.given(party, public[party] if several else public, columns)
        tables[party] = given.read(party, columns).require_fit(strict, look)
    return match_tables(tables)


def match_tables(tables: Mapping[str, Table]) -> dict[str, Table]:
    """The people that all tables have, in the order of the first; without ids the tables as they are."""
    if any(table.ids is None for table in tables.values()):
        return dict(tables)
    places = {party: {text: k for k, text in enumerate(table.ids or ())} for party, table in tables.items()}
    first = next(iter(tables.values()))
    common = [text for text in first.ids or () if all(text in own for own in places.values())]
    return {
        party: table.take(np.array([places[party][text] for text in common], dtype=np.int64))
        for party, table in tables.items()
    }


def declared_anew(tables: Mapping[str, Table], schema: Schema) -> dict[str, Table]:
    """The same stored values under other bounds and bins: what is stored of a number depends on neither."""
    return {party: replace(table, columns=schema.parties[party], clipped=None) for party, table in tables.items()}

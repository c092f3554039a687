"""What else is in a release: tables, rows, models of every column, against the rows that it was made of."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from colonnade.analysis.draws import seeded
from colonnade.analysis.independence import dependence_tree, every_dependence, mutual_information
from colonnade.analysis.released import Released
from colonnade.analysis.solve import solve
from colonnade.analysis.synthesis import FittedRelease, draw_levels, expected_distance, fit_release
from colonnade.analysis.tables import Tables
from colonnade.data.table import table_from
from colonnade.mechanism.objective import Purpose, Task
from colonnade.mechanism.release import ReleaseRecord
from colonnade.planning.session_plan import plan_session
from experiments.data import Dataset, adult_77, dutch_36
from experiments.data.acs import nist_acs
from experiments.data.dataset import binned
from experiments.paper.central import encoded
from experiments.paper.protocol import Encoded, Replicate, Terms

Codes = NDArray[np.int64]
Array = NDArray[np.float64]
SIZES = (0.0, 0.5, 10.0, 100.0, 1000.0, np.inf)
TRIPLES = 60


def dutch() -> Dataset:
    """The Dutch census with its two ordered codes as bins of one code each."""
    found = dutch_36()
    own = {"age": binned(4, 16, list(range(5, 16))), "edu_level": binned(0, 6, [1, 2, 3, 4, 5])}
    return replace(found, name="Dutch", columns={**found.columns, **own})


DATA: dict[str, tuple[Callable[[], Dataset], int]] = {
    "Adult-77": (adult_77, 2),
    "Dutch": (dutch, 3),
    "ACS": (nist_acs, 3),
}


@lru_cache(maxsize=1)
def replicate(data: str) -> Replicate:
    return Replicate(Encoded(DATA[data][0]()), 0)


def release_of(
    rows: Replicate,
    data: str,
    epsilon: float,
    approximate: bool,
    seed: bytes,
    purpose: Purpose = Purpose.LABEL,
    parties: int | None = None,
) -> ReleaseRecord:
    """One session by the plain product, with the plan's own noise; collusion 1."""
    count = parties or DATA[data][1]
    delta = 1 / rows.n if approximate else 0.0
    terms = Terms(epsilon, delta, count, min(1, count - 1), purpose=purpose)
    return rows.run(terms, seed).release


@dataclass(frozen=True)
class Truth:
    """The exact levels of both sides of a split, in the order of a release's columns."""

    train: Codes
    test: Codes
    spans: tuple[slice, ...]

    @classmethod
    def of(cls, rows: Replicate, released: Released) -> Truth:
        frame = rows.dataset.frame
        return cls(
            codes_of(rows, released, frame[rows._train]),
            codes_of(rows, released, frame[rows._test]),
            tuple(
                slice(s - 1, s - 1 + a.size)
                for s, a in zip(released.layout.starts, released.layout.attributes, strict=True)
            ),
        )

    def pairs(self, codes: Codes) -> Array:
        hot = one_hot(codes, self.spans)
        return (hot.T @ hot).astype(np.float64) / len(codes)


def codes_of(rows: Replicate, released: Released, frame: object) -> Codes:
    found = encoded(table_from("all", frame, rows._columns))  # type: ignore[arg-type]
    return np.stack([np.stack([found[c] for c in a.coordinates], 1).argmax(1) for a in released.layout.attributes], 1)


def one_hot(codes: Codes, spans: tuple[slice, ...]) -> NDArray[np.float32]:
    out = np.zeros((len(codes), spans[-1].stop), np.float32)
    for i, span in enumerate(spans):
        out[np.arange(len(codes)), span.start + codes[:, i]] = 1
    return out


def distance(first: Array, second: Array, spans: tuple[slice, ...]) -> float:
    """Mean total variation over all pairs of columns."""
    return float(np.mean([0.5 * np.abs(first[a, b] - second[a, b]).sum() for a, b in combinations(spans, 2)]))


def margins_distance(first: Array, second: Array, spans: tuple[slice, ...]) -> float:
    return float(np.mean([0.5 * np.abs(np.diag(first)[s] - np.diag(second)[s]).sum() for s in spans]))


def triples_distance(first: Codes, second: Codes, spans: tuple[slice, ...]) -> float:
    """The same over some triples, drawn once."""
    every = list(combinations(range(len(spans)), 3))
    order = np.random.default_rng(7).permutation(len(every))[:TRIPLES]
    sizes = [s.stop - s.start for s in spans]
    out = []
    for i, j, k in (every[t] for t in order):
        shares = []
        for codes in (first, second):
            cell = (codes[:, i] * sizes[j] + codes[:, j]) * sizes[k] + codes[:, k]
            shares.append(np.bincount(cell, minlength=sizes[i] * sizes[j] * sizes[k]) / len(codes))
        out.append(0.5 * np.abs(shares[0] - shares[1]).sum())
    return float(np.mean(out))


def transfer(train: Codes, truth: Truth, label: int) -> tuple[float, float]:
    """Accuracy on real test rows of logistic regression and gradient boosting trained on the given rows."""
    rest = [k for k in range(len(truth.spans)) if k != label]
    spans = truth.spans

    def hot(codes: Codes) -> NDArray[np.float32]:
        keep = [c for k in rest for c in range(spans[k].start + 1, spans[k].stop)]
        return one_hot(codes, spans)[:, keep]

    linear = LogisticRegression(max_iter=200).fit(hot(train), train[:, label])
    boosted = HistGradientBoostingClassifier(random_state=0, max_iter=60).fit(train[:, rest], train[:, label])
    actual = truth.test[:, label]
    return float(linear.score(hot(truth.test), actual)), float(boosted.score(truth.test[:, rest], actual))


def every_label(fitted: FittedRelease, truth: Truth) -> float:
    """Mean accuracy over all columns, each predicted from all others."""
    model = fitted.model
    return float(
        np.mean(
            [(model.conditional(k, truth.test).argmax(1) == truth.test[:, k]).mean() for k in range(len(truth.spans))]
        )
    )


def every_label_by_rows(train: Codes, truth: Truth) -> float:
    """The same by logistic regressions on the given rows, real or drawn."""
    known = []
    hot, unseen = one_hot(train, truth.spans), one_hot(truth.test, truth.spans)
    for k, span in enumerate(truth.spans):
        y, actual = train[:, k], truth.test[:, k]
        if len(np.unique(y)) == 1:
            known.append(float((actual == y[0]).mean()))
            continue
        keep = [c for c in range(hot.shape[1]) if not span.start <= c < span.stop]
        known.append(float(LogisticRegression(max_iter=40).fit(hot[:, keep], y).score(unseen[:, keep], actual)))
    return float(np.mean(known))


def majority(truth: Truth) -> float:
    """The same by always saying the commonest level."""
    common = [np.bincount(column).argmax() for column in truth.train.T]
    return float(np.mean([(actual == most).mean() for actual, most in zip(truth.test.T, common, strict=True)]))


def score_rows(drawn: Codes, truth: Truth, label: int) -> dict[str, float]:
    """What is told of any rows: total variations, transfer to real test rows, all columns as labels."""
    pairs, exact = truth.pairs(drawn), truth.pairs(truth.train)
    linear, boosted = transfer(drawn, truth, label)
    return {
        "TV1": margins_distance(pairs, exact, truth.spans),
        "TV2": distance(pairs, exact, truth.spans),
        "TV3": triples_distance(drawn, truth.train, truth.spans),
        "LR": linear,
        "boosting": boosted,
        "all labels": every_label_by_rows(drawn, truth),
    }


@dataclass(frozen=True)
class RowsCase:
    """One release whose rows are scored."""

    data: str
    approximate: bool
    epsilon: float
    purpose: Purpose
    parties: int
    seed: int = 0

    @property
    def privacy(self) -> str:
        return f"({self.epsilon:g}, 1/n)" if self.approximate else f"pure {self.epsilon:g}"

    @property
    def name(self) -> str:
        kind = "approximate" if self.approximate else "pure"
        return f"{self.data}-{kind}-{self.epsilon:g}-{self.purpose.value}-{self.parties}-{self.seed}"


def score_case(case: RowsCase, rows_file: Path) -> dict[str, float | str]:
    """Total variations, transfer, all labels and CPU time of one release; its rows are kept for other scorers."""
    rows, law = replicate(case.data), case.approximate
    seed = b"synthesis" if not case.seed else b"synthesis %d" % case.seed
    release = release_of(rows, case.data, case.epsilon, law, seed, case.purpose, case.parties)
    released = Released(release)
    truth, tables = Truth.of(rows, released), Tables.of(released)
    exact, label = truth.pairs(truth.train), released.layout.label
    tabled = distance(tables.estimate.value[1:, 1:] / released.n, exact, truth.spans)
    told: dict[str, float | str] = {"released": str(release.plan["released"]), "TV2 of the tables": tabled}
    told["planned"] = planned_distance(case, rows)
    if told["released"] == "margins":
        return told
    start = time.process_time()
    fitted = fit_release(tables)
    levels = draw_levels(fitted, released.n, seeded(0, "rows"))
    seconds = time.process_time() - start
    np.savez(rows_file, codes=levels)
    drawn = truth.pairs(levels)
    model = solve(released.moments, Task.LOGISTIC)
    names = released.layout.names[1:]
    unseen = one_hot(truth.test, truth.spans)[:, [names.index(f) for f in model.features]]
    linear, boosted = transfer(levels, truth, label)
    return {
        **told,
        "TV1": margins_distance(drawn, exact, truth.spans),
        "TV2": distance(drawn, exact, truth.spans),
        "TV3": triples_distance(levels, truth.train, truth.spans),
        "forecast": expected_distance(tables, released.n)[0],
        "solve": float(((model.decision(unseen) > 0) == (truth.test[:, label] == 1)).mean()),
        "LR": linear,
        "boosting": boosted,
        "all labels": every_label(fitted, truth),
        "distance": fitted.certificate.distance,
        "misfit": fitted.certificate.misfit,
        "CPU s": seconds,
    }


def planned_distance(case: RowsCase, rows: Replicate) -> float:
    """The total variation that the plan foretells for tables, before anything is released."""
    delta = 1 / rows.n if case.approximate else 0.0
    terms = Terms(case.epsilon, delta, case.parties, min(1, case.parties - 1), purpose=case.purpose)
    found = plan_session(rows.agreement(terms), rows.n, bytes(32)).table_forecast
    assert found is not None
    return found.expected


def known_study(data: str) -> dict[str, object]:
    """What real rows give: bootstrap, independent columns, transfer, all labels."""
    rows = replicate(data)
    released = Released(release_of(rows, data, 10.0, True, b"shape"))
    truth = Truth.of(rows, released)
    exact = truth.pairs(truth.train)
    again = truth.train[np.random.default_rng(0).integers(0, len(truth.train), len(truth.train))]
    margin = np.diag(exact)
    linear, boosted = transfer(truth.train, truth, released.layout.label)
    return {
        "data": data,
        "bootstrap TV2": distance(truth.pairs(again), exact, truth.spans),
        "independent TV2": distance(np.outer(margin, margin), exact, truth.spans),
        "LR": linear,
        "boosting": boosted,
        "majority, all labels": majority(truth),
        "not private, all labels": every_label_by_rows(truth.train, truth),
    }


def coverage_study(approximate: bool, releases: int) -> list[dict[str, object]]:
    """Share of exact counts of Adult-77 within their intervals, by the size of the count."""
    rows = replicate("Adult-77")
    truth, exact, seen = None, np.zeros(0), []
    for number in range(releases):
        released = Released(release_of(rows, "Adult-77", 1.0, approximate, b"cover %d" % number))
        truth = truth or Truth.of(rows, released)
        exact = exact if exact.size else truth.pairs(truth.train) * released.n
        tables = Tables.of(released)
        for i, j in combinations(released.tabular, 2):
            cross, true = tables.cross(i, j), exact[truth.spans[i], truth.spans[j]]
            inside = (cross.low <= true + 0.01) & (true <= cross.high + 0.01)
            seen.append(np.stack([true.ravel(), inside.ravel()], 1))
    cells = np.concatenate(seen)
    out = []
    for low, high in pairwise(SIZES):
        at = (cells[:, 0] >= low) & (cells[:, 0] < high)
        size = "0" if high == 0.5 else f"{max(low, 1):g} to {high:g}" if np.isfinite(high) else f"{low:g} and more"
        out.append(
            {
                "privacy": "(1, 1/n)" if approximate else "pure 1",
                "count": size,
                "cells": int(at.sum()),
                "covered": float(cells[at, 1].mean()),
            }
        )
    return out


def null_study(approximate: bool, releases: int) -> dict[str, object]:
    """Tests of independence on Adult-77 with every column shuffled by itself."""
    base = replicate("Adult-77")
    tests, rejected = 0, 0
    for number in range(releases):
        rng = np.random.default_rng([11, number])
        frame = base.dataset.frame.select(
            [
                base.dataset.frame[c].gather(rng.permutation(base.dataset.frame.height))
                for c in base.dataset.frame.columns
            ]
        )
        rows = Replicate(Encoded(replace(base.dataset, frame=frame)), 0)
        tables = Tables.of(Released(release_of(rows, "Adult-77", 1.0, approximate, b"null %d" % number)))
        found = every_dependence(tables, number)
        tests, rejected = tests + len(found), rejected + sum(d.p_value <= 0.05 for d in found)
    return {"privacy": "(1, 1/n)" if approximate else "pure 1", "tests": tests, "rejected at 5%": rejected / tests}


def information_study(approximate: bool, releases: int) -> dict[str, object]:
    """Mutual information and the dependence tree of Adult-77."""
    rows = replicate("Adult-77")
    errors, inside, edges = [], [], []
    for number in range(releases):
        released = Released(release_of(rows, "Adult-77", 1.0, approximate, b"cover %d" % number))
        truth = Truth.of(rows, released)
        exact = truth.pairs(truth.train)
        found = every_dependence(Tables.of(released))
        true = []
        for d in found:
            i, j = (released.find(name) for name in d.names)
            true.append(mutual_information(exact[truth.spans[i], truth.spans[j]]))
        errors += [abs(d.information - t) for d, t in zip(found, true, strict=True)]
        inside += [d.low <= t <= d.high for d, t in zip(found, true, strict=True)]
        known = dependence_tree([replace(d, information=t) for d, t in zip(found, true, strict=True)])
        edges.append(len({d.names for d in dependence_tree(found)} & {d.names for d in known}))
    return {
        "privacy": "(1, 1/n)" if approximate else "pure 1",
        "releases": releases,
        "mean error, nats": float(np.mean(errors)),
        "within their interval": float(np.mean(inside)),
        "edges right of 12": float(np.mean(edges)),
    }

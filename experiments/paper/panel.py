"""The development panel: `python -m experiments.paper panel`. AUC, accuracy and log-loss beside the same without noise.

A release of ours is simulated: exact sums of a split's training rows plus noise of the law and the scales that the plan
of a session states (K = 3, c = 0). Baselines see the same encoding and the same splits.

"ours" takes columns as declared, "ours, auto" lets the plan cut numbers at bins (numeric = "auto"). The oracle is
about the ceiling of one round: the same with exact sums of products of features, and the whole budget on the label's.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from scipy.special import logit

from colonnade.analysis.solve import solve
from colonnade.foundation.schema import Column, Numeric, Schema, column_from
from colonnade.mechanism.cuts import choose_bins
from colonnade.mechanism.forecast import share_left
from colonnade.mechanism.moments import Layout, Moments
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.protocol.fit import released
from colonnade.report.text import NEARLY_ALL
from experiments.baselines import adassp, diffprivlib_models, nonprivate, private_gd, private_sgd
from experiments.data import Dataset, adult_41, adult_77, dutch_36, partition, split
from experiments.data.panel import PACKAGED, PANEL, UNREAD
from experiments.data.panel import missing as missing_package
from experiments.paper import catalogue
from experiments.paper.listing import read
from experiments.paper.methods import APPROXIMATE, NONE, OURS, PURE, Cell
from experiments.paper.protocol import Array
from experiments.paper.simulated import auc, log_loss, noisy
from experiments.paper.store import ROOT, Store, code_digest, seed_of

PAPERS: dict[str, Callable[[], Dataset]] = {"adult-41": adult_41, "adult-77": adult_77, "dutch-36": dutch_36}
DATA = (*PANEL, *PAPERS)
EPSILONS = (0.1, 1.0, 10.0)
PARTIES, COLLUSION = 3, 0
SPLITS = 2
RELEASES = 20
BASELINE_RUNS = 2
STORE = ROOT / ".cache" / "experiments" / "panel.jsonl"
NON_PRIVATE, BINNED, ORACLE = "non-private", "ours, auto", "oracle"
FIRST = "AUC, compared with no noise"
"""Headings whose tables stay on the page of results."""
BASELINES = ("diffprivlib", "DPSGD", "DP-GD", "AdaSSP")
EXACT = 1e-3
"""Standard deviation of a sum that the oracle knows."""
GOALS = {
    (PURE, 0.1): 0.06,
    (PURE, 1.0): 0.015,
    (PURE, 10.0): 0.002,
    (APPROXIMATE, 1.0): 0.003,
    (APPROXIMATE, 10.0): 0.002,
}
"""The largest gap in AUC that is asked for."""


def missing(key: str) -> str | None:
    """Why a data set cannot be had here, or None when it can."""
    return missing_package() if key in PACKAGED else None if key in PANEL else catalogue.missing(key)


Cuts = tuple[tuple[str, tuple[float, ...]], ...]
"""Numbers that a plan cuts, with their cuts."""


class Panelled:
    """A data set with every column's coordinates, and what a plan of any terms says of a release of it."""

    def __init__(self, dataset: Dataset, cut: Mapping[str, Column] | None = None) -> None:
        self.dataset = dataset
        self.parties = min(PARTIES, len(self.dataset.features))
        self.rows = self.dataset.frame.height
        self.columns = {name: column_from(name, spec) for name, spec in self.dataset.columns.items()} | dict(cut or {})

    @property
    def schema(self) -> Schema:
        deal = partition(self.dataset.features, self.parties)
        deal[0] = [*deal[0], self.dataset.label]
        return Schema({f"P{k}": {name: self.columns[name] for name in part} for k, part in enumerate(deal, 1)})

    @property
    def label(self) -> str:
        return f"P1.{self.dataset.label}"

    def cut(self, n: int, epsilon: float, delta: float) -> Cuts:
        """The numbers that a plan of these terms cuts at bins."""
        _, cuts = choose_bins(self.schema, self.label, Task.LOGISTIC, n, epsilon, delta)
        return tuple((c.column.column, c.bins) for c in cuts if c.chosen)

    def session(self, n: int, epsilon: float, delta: float = 0.0, release: str = "auto") -> SessionPlan:
        agreement = Agreement.from_terms(
            name=self.dataset.name,
            schema=self.schema,
            label=self.label,
            task=Task.LOGISTIC,
            epsilon=epsilon,
            delta=delta,
            collusion=COLLUSION,
            product="plain",
            release=release,
        )
        return plan_session(agreement, n, bytes(32))

    @cached_property
    def layout(self) -> Layout:
        return self.session(1000, 1.0, release="full").plan.layout

    @cached_property
    def records(self) -> Array:
        """Every record's coordinates, the constant first."""
        names = [a.bare for a in self.layout.attributes]
        return np.column_stack([np.ones(self.rows), *(self._coordinates(name) for name in names)])

    @cached_property
    def y(self) -> Array:
        return self.records[:, self.layout.span(self.layout.label).stop - 1]

    def _coordinates(self, name: str) -> Array:
        column, values = self.columns[name], self.dataset.frame[name]
        if isinstance(column, Numeric):
            numbers = values.cast(float).to_numpy()
            if not column.bins:
                return column.signed(numbers)[:, None]
            return (column.codes(numbers)[:, None] == np.arange(len(column.coordinates(name)))).astype(np.float64)
        levels = np.array(values.cast(str).to_list())
        return (levels[:, None] == np.array(column.all_levels)).astype(np.float64)


@lru_cache(maxsize=1)
def dataset(key: str) -> Dataset:
    """The last data set used by this process."""
    return PANEL[key]() if key in PANEL else PAPERS[key]()


@lru_cache(maxsize=3)
def panelled(key: str, cut: Cuts = ()) -> Panelled:
    """A data set as declared, or with some numbers cut."""
    plain = Panelled(dataset(key))
    found = ((name, plain.columns[name], bins) for name, bins in cut)
    bins = {name: replace(column, bins=bins) for name, column, bins in found if isinstance(column, Numeric)}
    return Panelled(plain.dataset, bins) if bins else plain


Scored = tuple[Array, dict[str, float]]


@dataclass(frozen=True)
class Part:
    """One split."""

    train: Array
    gram: Array
    test: Array
    y: Array
    y_test: Array


@lru_cache(maxsize=3 * SPLITS)
def part(key: str, number: int, cut: Cuts = ()) -> Part:
    own = panelled(key, cut)
    train, test = split(own.rows, number)
    records = own.records[train]
    return Part(records, records.T @ records, own.records[test], own.y[train], own.y[test])


def template(session: SessionPlan) -> Moments:
    """A release of the session's plan with nothing in it: what is released, and the noise on it."""
    return released(session, np.zeros(session.length, dtype=np.int64), {}).moments()


def knowing(plan: Moments) -> Moments:
    """The plan of an oracle: what is not a product with the label, and known at all to a full release, is exact."""
    label = plan.layout.span(plan.layout.label)
    std = np.where(plan.std == 0, 0.0, EXACT)
    std[label], std[:, label] = plan.std[label], plan.std[:, label]
    return replace(plan, std=std, traces=())


def unsplit(split: Layout, whole: Layout, gram: Array) -> Array:
    """Sums of products where the label is one number, 1 - 2y, from those where it is two classes."""
    place = {name: i for i, name in enumerate(split.names)}
    taken = np.zeros((split.width, whole.width))
    for k, name in enumerate(whole.names):
        if name in place:
            taken[place[name], k] = 1.0
    label = split.span(split.label)
    taken[:, whole.span(whole.label).start] = 0.0
    taken[[label.start, label.stop - 1], whole.span(whole.label).start] = 1.0, -1.0
    return taken.T @ gram @ taken


def ours(key: str, method: str, epsilon: float, delta: float, number: int, rng: np.random.Generator) -> Scored:
    """The log-odds of a release's model on the test rows of a split, and what its plan says."""
    n = len(part(key, number).train)
    cut = () if method == OURS else panelled(key).cut(n, epsilon, delta)
    own, rows = panelled(key, cut), part(key, number, cut)
    session = own.session(n, epsilon, delta, "label" if method == ORACLE else "auto")
    plan = template(session)
    exact = rows.gram if session.released != "trace" else unsplit(own.layout, plan.layout, rows.gram)
    model = solve(noisy(knowing(plan) if method == ORACLE else plan, exact, n, rng), Task.LOGISTIC)
    place = {name: i for i, name in enumerate(own.layout.names)}
    score = rows.test[:, [place[f] for f in model.features]] @ np.array(model.coefficients) + model.intercept
    noise = plan.std[plan.layout.span(plan.layout.label)]
    share = float(rows.y.mean())
    left = share_left(session.forecast.narrow or 0.0, (share, share))
    told = {"low": left.low, "explained": left.middle, "high": left.high, "label": float(session.released == "label")}
    told |= {"cut": float(len(cut)), "noise": float(noise[np.isfinite(noise)].max()), "positives": float(rows.y.sum())}
    return score, told


def measure(key: str, method: str, privacy: str, epsilon: float, number: int, seed: bytes) -> dict[str, float]:
    """Scores of one fit on the test rows of a split."""
    own, cut = panelled(key), part(key, number % SPLITS)
    n, used = len(cut.train), list(own.layout.features)
    X, T = cut.train[:, [*used, 0]], cut.test[:, [*used, 0]]
    delta = 1 / n if privacy == APPROXIMATE else 0.0
    rng = np.random.default_rng(int.from_bytes(seed))
    told: dict[str, float] = {}
    bound = math.sqrt(len(own.dataset.features) + 1)
    if method in (OURS, BINNED, ORACLE):
        score, told = ours(key, method, epsilon, delta, number % SPLITS, rng)
    elif method == "base rate":
        score = np.full(len(cut.y_test), float(logit(cut.y.mean())))
    elif method == NON_PRIVATE:
        score = T @ nonprivate.fit_logistic(X, cut.y)
    elif method == "AdaSSP":
        # Twice the distance from 1/2 is the label in [-1, 1]; its scores have no log-odds.
        score = T @ adassp.fit(X, 2 * cut.y - 1, epsilon, delta, rng, bound)
    elif method == "DP-GD":
        score = T @ private_gd.fit(X, cut.y, epsilon, delta, rng)
    elif method == "DPSGD":
        score = T @ private_sgd.fit(X, cut.y, epsilon, rng, R=bound)
    else:
        score = T @ diffprivlib_models.fit_logistic(X, cut.y, epsilon, bound, int(rng.integers(2**31)))
    return told | {
        "auc": auc(score, cut.y_test) if method != "base rate" else 0.5,
        "accuracy": float(np.mean((score > 0) == (cut.y_test > 0.5))),
        "log_loss": log_loss(score, cut.y_test) if method != "AdaSSP" else float("nan"),
    }


@dataclass(frozen=True)
class Row:
    """A cell of the study; gaps are to the same splits without noise."""

    data: str
    method: str
    privacy: str
    epsilon: float
    runs: int
    auc: float
    auc_gap: float
    gap_error: float
    accuracy: float
    accuracy_gap: float
    log_loss: float
    base: float
    released: str
    explained: float
    cut: float = math.nan
    """Numbers that the plan cut at bins."""
    noise: float = math.nan
    """Standard deviation of the noise on a product with the label; the largest."""
    positives: float = math.nan
    low: float = math.nan
    """Between this and `high` a plan that knows the share of positives predicts what is left."""
    high: float = math.nan


def cells(key: str, draws: int) -> Iterator[tuple[Cell, int]]:
    """Every method with its privacy, and how many runs it gets."""
    yield Cell(key, "base rate"), SPLITS
    yield Cell(key, NON_PRIVATE), SPLITS
    for epsilon in EPSILONS:
        for privacy in (PURE, APPROXIMATE):
            yield Cell(key, BINNED, privacy, epsilon, PARTIES), draws
            yield Cell(key, ORACLE, privacy, epsilon, PARTIES), SPLITS
            yield Cell(key, OURS, privacy, epsilon, PARTIES), SPLITS
        yield Cell(key, "diffprivlib", PURE, epsilon), BASELINE_RUNS
        yield Cell(key, "DPSGD", PURE, epsilon), BASELINE_RUNS
        yield Cell(key, "DP-GD", APPROXIMATE, epsilon), BASELINE_RUNS
        yield Cell(key, "AdaSSP", APPROXIMATE, epsilon), BASELINE_RUNS


def _name(cell: Cell, number: int) -> str:
    code = code_digest(OURS if cell.method in (BINNED, ORACLE) else cell.method)
    return json.dumps(cell.to() | {"number": number, "code": code}, sort_keys=True)


def _work(key: str, wanted: Sequence[tuple[Cell, int]], path: Path) -> str:
    store = Store(path)
    for cell, number in wanted:
        name = _name(cell, number)
        store.put(name, measure(key, cell.method, cell.privacy, cell.epsilon or 0.0, number, seed_of(cell, number)))
    return key


def stored(data: Sequence[str], draws: int, path: Path = STORE) -> list[Row]:
    """What the store holds of each data set that has all cells of ours, where a run has not finished."""
    store = Store(path)

    def needed(key: str) -> Iterator[str]:
        yield from (_name(Cell(key, NON_PRIVATE), i) for i in range(SPLITS))
        for privacy in (PURE, APPROXIMATE):
            yield from (_name(Cell(key, BINNED, privacy, epsilon, PARTIES), 0) for epsilon in EPSILONS)

    whole = [key for key in data if all(store.get(name) for name in needed(key))]
    return [row for key in whole for row in _rows(key, draws, store)]


def run(data: Sequence[str], draws: int, workers: int, path: Path = STORE, *, baselines: bool = True) -> list[Row]:
    """Every cell, run now or taken from the store."""
    store, jobs = Store(path), []
    present = [key for key in data if missing(key) is None]
    for late in (False, True) if baselines else (False,):
        for key in present:
            wanted = [(cell, i) for cell, runs in cells(key, draws) for i in range(runs)]
            todo = [(cell, i) for cell, i in wanted if store.get(_name(cell, i)) is None]
            todo = [(cell, i) for cell, i in todo if (cell.method in BASELINES) is late]
            todo = [(cell, i) for cell, i in todo if not (cell.method == "diffprivlib" and _no_diffprivlib())]
            jobs += [(key, todo)] if todo else []
    begun, context = time.monotonic(), multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for done, future in enumerate(as_completed([pool.submit(_work, k, t, path) for k, t in jobs]), start=1):
            sys.stderr.write(f"{done}/{len(jobs)} {future.result()}, {time.monotonic() - begun:.0f} s\n")
    return stored(present, draws, path)


def kept(rows: Sequence[Row], text: str) -> list[Row]:
    """The rows, and those of an earlier csv that they lack: baselines, and data sets that were not run again."""
    known = {(r.data, r.method, r.privacy, r.epsilon) for r in rows}
    again = {r.data for r in rows}
    found = list(rows)
    for old in read(text)[1]:
        key = (old["data"], old["method"], old["privacy"], float(old["epsilon"]))
        if key not in known and (old["method"] in BASELINES or old["data"] not in again):
            texts = {"data", "method", "privacy", "released"}
            values = {k: v if k in texts else int(v) if k == "runs" else float(v) for k, v in old.items()}
            found.append(Row(**values))  # type: ignore[arg-type]
    order = list(DATA)
    place = {m: i for i, m in enumerate(("base rate", NON_PRIVATE, ORACLE, BINNED, OURS, *BASELINES))}
    return sorted(found, key=lambda r: (order.index(r.data), r.epsilon, r.privacy == APPROXIMATE, place[r.method]))


def _no_diffprivlib() -> bool:
    return diffprivlib_models.missing() is not None


def _rows(key: str, draws: int, store: Store) -> Iterator[Row]:
    free = [store.get(_name(Cell(key, NON_PRIVATE), i)) or {} for i in range(SPLITS)]
    bases = [store.get(_name(Cell(key, "base rate"), i)) or {} for i in range(SPLITS)]
    for cell, runs in cells(key, draws):
        found = [store.get(_name(cell, i)) for i in range(runs)]
        kept = [(i, f) for i, f in enumerate(found) if f is not None]
        if not kept:
            continue
        gaps = np.array([free[i % SPLITS]["auc"] - f["auc"] for i, f in kept])
        lost = [free[i % SPLITS]["accuracy"] - f["accuracy"] for i, f in kept]
        mean = {name: float(np.mean([f[name] for _, f in kept])) for name in kept[0][1]}
        base = float(np.mean([bases[i % SPLITS]["log_loss"] for i, _ in kept]))
        yield Row(
            key, cell.method, cell.privacy, cell.epsilon or 0.0, len(kept), mean["auc"], float(gaps.mean()),
            float(gaps.std(ddof=1) / np.sqrt(len(gaps))), mean["accuracy"], float(np.mean(lost)),
            mean["log_loss"], base,
            "" if "label" not in mean else "label" if mean["label"] > 0.5 else "full", mean.get("explained", math.nan),
            *(mean.get(name, math.nan) for name in ("cut", "noise", "positives", "low", "high")),
        )  # fmt: skip


def markdown(text: str) -> str:
    """The tables of a csv: where we stand against the goals, then every method."""
    out, rows = read(text)
    out += [
        "Gaps are to logistic regression without noise on the same splits, with the columns as declared. *ours* lets",
        'the plan cut numbers (`numeric = "auto"`); the *oracle* has exact sums of products of features and the whole',
        "budget on those with the label: about the ceiling of one round, known as well as its two releases tell it. A",
        "gap in brackets misses its goal where the oracle does not, or was not run. Sets with * were first looked at",
        f"after a commit had fixed every constant ({', '.join(UNREAD)}; the first two before there were those of",
        "`mechanism/cuts.py`). Where no pair of features is released the release is named `label`; *cut* is how many",
        "numbers the plan cut.",
        "",
    ]
    columns = [(p, e) for p in (PURE, APPROXIMATE) for e in EPSILONS]
    out += [f"## {FIRST}", ""]
    out.append("| AUC gap: ours / oracle | " + " | ".join(f"{p} {e:g}" for p, e in columns) + " |")
    out.append("|---" * (1 + len(columns)) + "|")
    out.append("| goal | " + " | ".join(f"{GOALS[c]:g}" if c in GOALS else "" for c in columns) + " |")
    found = {(r["data"], r["method"], r["privacy"], float(r["epsilon"])): r for r in rows}
    for key in dict.fromkeys(r["data"] for r in rows):
        told = [_against(found, key, cell) for cell in columns]
        out.append(f"| {key}{'*' if key in UNREAD else ''} | " + " | ".join(told) + " |")
    out += [
        "",
        "## Won and lost",
        "",
        *_lost(found, columns),
        "",
        "## Log-loss and forecasts",
        "",
        *_losses(found, columns),
        "",
        *_forecasts(found, columns),
        "",
    ]
    out += ["## Every method", ""]
    heads = ["data", "method", "privacy", "ε", "runs", "released", "cut", "AUC", "gap", "accuracy", "gap", "log-loss"]
    heads.append("base rate's")
    out += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for r in rows:
        epsilon = "" if r["privacy"] == NONE else f"{float(r['epsilon']):g}"
        cut = "" if r["cut"] == "nan" else f"{float(r['cut']):.2g}"
        line = [r["data"], r["method"], r["privacy"], epsilon, r["runs"], r["released"], cut]
        for name in ("auc", "auc_gap", "accuracy", "accuracy_gap", "log_loss", "base"):
            line.append("" if r[name] == "nan" else f"{float(r[name]):.4f}")
        out.append("| " + " | ".join(line) + " |")
    return "\n".join(out) + "\n"


Found = Mapping[tuple[str, str, str, float], Mapping[str, str]]
Cells = Sequence[tuple[str, float]]


def _against(found: Found, key: str, cell: tuple[str, float]) -> str:
    """Our gap and the oracle's."""
    own, best = _own(found, key, cell), found.get((key, ORACLE, *cell))
    gap, goal = float(own["auc_gap"]), GOALS.get(cell)
    told = f"{gap:.4f} ± {float(own['gap_error']):.4f}"
    ceiling = float("nan") if best is None else float(best["auc_gap"])
    if goal is not None and gap > goal and not ceiling > goal:
        told = f"({told})"
    return told if best is None else f"{told} / {ceiling:.4f}"


def _own(found: Found, key: str, cell: tuple[str, float]) -> Mapping[str, str]:
    """Ours as the plan cuts numbers; where that was not run, with the columns as declared."""
    return found.get((key, BINNED, *cell)) or found[(key, OURS, *cell)]


def lost(found: Found, columns: Cells) -> list[tuple[str, tuple[str, float], float, str, float]]:
    """Return where a private method on pooled data has the better AUC: data, cell, our AUC, the method, its AUC."""
    out = []
    for key in dict.fromkeys(data for data, *_ in found):
        for cell in columns:
            own = float(_own(found, key, cell)["auc"])
            others = [
                (float(r["auc"]), m) for (d, m, *at), r in found.items() if (d, *at) == (key, *cell) and m in BASELINES
            ]
            if others and max(others)[0] > own:
                out.append((key, cell, own, max(others)[1], max(others)[0]))
    return out


def _lost(found: Found, columns: Cells) -> list[str]:
    """Return where another private method, which has all columns in one place, is better, and where nobody gains."""
    keys = list(dict.fromkeys(data for data, *_ in found))
    own = [_own(found, key, cell) for key in keys for cell in columns]
    above = sum(float(row["log_loss"]) > float(row["base"]) for row in own)
    beaten = lost(found, columns)
    out = [
        f"In {len(beaten)} of {len(own)} cells a private method that has all columns in one place "
        f"({', '.join(BASELINES)}) has the better AUC; in {above} of {len(own)} our log-loss is above the base rate's:",
        "",
        "| data | privacy | ε | ours | better | its AUC |",
        "|---" * 6 + "|",
    ]
    return out + [f"| {d} | {p} | {e:g} | {auc:.4f} | {m} | {best:.4f} |" for d, (p, e), auc, m, best in beaten]


def _losses(found: Found, columns: Cells) -> list[str]:
    """Log-loss as a share of the base rate's."""
    out = ["| log-loss over the base rate's | " + " | ".join(f"{p} {e:g}" for p, e in columns) + " |"]
    out.append("|---" * (1 + len(columns)) + "|")
    for key in dict.fromkeys(data for data, *_ in found):
        rows = [_own(found, key, cell) for cell in columns]
        shares = [f"{float(r['log_loss']) / float(r['base']):.4f}" for r in rows]
        out.append(f"| {key} | " + " | ".join(shares) + " |")
    return out


def _forecasts(found: Found, columns: Cells) -> list[str]:
    """The picture of what plans predict, and how far they are right."""
    held, widths = [], []
    for key in dict.fromkeys(data for data, *_ in found):
        for row in (_own(found, key, cell) for cell in columns):
            low, high = float(row["low"]), float(row["high"])
            left = min(max(1.0 - share_lost(found, key, row), 0.0), 1.0)
            # Near all and near nothing a plan says "at least" and "at most".
            held.append((low <= left or low <= 1 - NEARLY_ALL) and (left <= high or high >= NEARLY_ALL))
            widths.append(high - low)
    return [
        "![share left, predicted and found](panel.png)",
        "",
        "What noise left of what the columns explain lies in the range that the plan predicted, the share of positives "
        f"known to it, in {sum(held)} of {len(held)} cells; no range is wider than {max(widths):.2f}. The constants of "
        "the forecast were fitted to these cells.",
    ]


def share_lost(found: Found, key: str, row: Mapping[str, str]) -> float:
    """Of what the same columns gain on the base rate's log-loss without noise."""
    free = found[(key, NON_PRIVATE, NONE, 0.0)]
    gained = float(free["base"]) - float(free["log_loss"])
    return 1.0 - (float(row["base"]) - float(row["log_loss"])) / gained

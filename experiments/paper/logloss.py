"""Log-loss on test rows against the base rate's, by epsilon: `python -m experiments.paper logloss`.

The rule: the mean over the releases is at most the base rate's plus MARGIN, and does not rise with epsilon by more
than two standard errors of the difference on the same splits. The base rate is the training rows' own share of the
positive class, which a release knows only up to its noise: `known` is the log-loss of the share as released.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from colonnade.mechanism.moments import Moments
from experiments.data.hard import HARD, TEST
from experiments.paper import catalogue
from experiments.paper.listing import read
from experiments.paper.methods import APPROXIMATE, OURS, PURE, Cell
from experiments.paper.protocol import Array, Encoded, Replicate, Terms
from experiments.paper.simulated import made_up, scores
from experiments.paper.store import ROOT, Store, code_digest, seed_of

DATA = (*catalogue.CLASSIFIED, *HARD)
EPSILONS = (0.1, 1.0, 10.0)
PARTIES, COLLUSION = 2, 1
MARGIN = 0.002
RELEASES = 20
STORE = ROOT / ".cache" / "experiments" / "logloss.jsonl"
CELLS = tuple((privacy, epsilon) for privacy in (PURE, APPROXIMATE) for epsilon in EPSILONS)


@lru_cache(maxsize=1)
def _encoded(key: str) -> Encoded:
    return Encoded(HARD[key]())


@lru_cache(maxsize=12)
def plan_of(key: str, privacy: str, epsilon: float) -> Moments:
    """A release of a made-up data set by the protocol: what is released, and the noise on it."""
    r = Replicate(_encoded(key), 0)
    size = r.dataset.frame.height - TEST
    r._train = np.arange(size)
    delta = 1 / size if privacy == APPROXIMATE else 0.0
    return r.run(Terms(epsilon, delta, PARTIES, COLLUSION), b"a plan").release.moments()


def _name(data: str, privacy: str, epsilon: float, number: int) -> str:
    return json.dumps([data, privacy, epsilon, PARTIES, COLLUSION, number, code_digest(OURS)])


def _work(data: str, number: int, path: Path) -> tuple[str, int]:
    store = Store(path)
    for privacy, epsilon in CELLS:
        name = _name(data, privacy, epsilon, number)
        if store.get(name) is None:
            seed = seed_of(Cell(data, OURS, privacy, epsilon, PARTIES, COLLUSION), number)
            store.put(name, _measure(data, number, privacy, epsilon, seed))
    return data, number


def _measure(data: str, number: int, privacy: str, epsilon: float, seed: bytes) -> dict[str, float]:
    """Real data through the protocol; made-up data with the same noise, drawn in one place."""
    if data in HARD:
        return made_up(_columns(data), TEST, number, plan_of(data, privacy, epsilon), seed)
    r = catalogue.replicate(data, number)
    terms = Terms(epsilon, 1 / r.n if privacy == APPROXIMATE else 0.0, PARTIES, COLLUSION)
    return scores(r.run(terms, seed).release.moments(), r._unseen, r.y_test, float(r.y.mean()))


@lru_cache(maxsize=1)
def _columns(key: str) -> dict[str, NDArray[np.generic]]:
    frame = _encoded(key).dataset.frame
    return {name: np.asarray(frame[name].to_list()) for name in frame.columns}


@dataclass(frozen=True)
class Row:
    """A cell of the study."""

    data: str
    privacy: str
    epsilon: float
    releases: int
    log_loss: float
    error: float
    """Standard error of the mean log-loss."""
    base: float
    known: float
    accuracy: float
    auc: float
    rise: float
    """Mean difference to the next smaller epsilon on the same splits; nan for the smallest."""
    rise_error: float
    rule: str


def run(data: Sequence[str], releases: int, workers: int, path: Path = STORE) -> list[Row]:
    """Every cell, run now or taken from the store."""
    present = [key for key in data if key in HARD or catalogue.missing(key) is None]
    context, start = multiprocessing.get_context("spawn"), time.monotonic()
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        jobs = [pool.submit(_work, key, number, path) for key in present for number in range(releases)]
        for done, future in enumerate(as_completed(jobs), start=1):
            key, number = future.result()
            sys.stderr.write(f"{done}/{len(jobs)} {key} {number}, {time.monotonic() - start:.0f} s\n")
    store = Store(path)
    return [row for key in present for row in _rows(key, releases, store)]


def _rows(data: str, releases: int, store: Store) -> Iterator[Row]:
    before: dict[str, Array] = {}
    for privacy, epsilon in CELLS:
        found = [store.get(_name(data, privacy, epsilon, number)) or {} for number in range(releases)]
        values = {key: np.array([result[key] for result in found]) for key in found[0]}
        losses = values["log_loss"]
        rises = losses - before[privacy] if privacy in before else np.full(releases, np.nan)
        before[privacy] = losses
        rise, rise_error = float(rises.mean()), _error(rises)
        means = {key: float(own.mean()) for key, own in values.items()}
        yield Row(
            data, privacy, epsilon, releases, means["log_loss"], _error(losses), means["base"], means["known"],
            means["accuracy"], means["auc"], rise, rise_error, verdict(means, rise, rise_error),
        )  # fmt: skip


def _error(values: Array) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def verdict(means: dict[str, float], rise: float, rise_error: float) -> str:
    """Whether the rule holds; where it does not, whether the noise on the share alone breaks it."""
    if rise > 2 * rise_error:
        return "rises"
    if means["log_loss"] <= means["base"] + MARGIN:
        return "holds"
    if means["known"] > means["base"] + MARGIN:
        return "above; so is the released share alone"
    return "above"


def markdown(text: str) -> str:
    """The table of a csv."""
    out, rows = read(text)
    kept = sum(row["rule"] == "holds" for row in rows)
    out += [
        f"The rule holds in {kept} of {len(rows)} cells: mean log-loss at most the base rate's + {MARGIN}, and not",
        "above the next smaller epsilon's by more than two standard errors of the difference on the same splits. The",
        "base rate is the share of the training rows, the released share the same as the release knows it. The cells",
        "in which it does not hold; [logloss.csv](logloss.csv) has all:",
        "",
        "| data | privacy | ε | log-loss | base rate | released share | accuracy | AUC | change with ε | rule |",
        "|---" * 10 + "|",
    ]  # fmt: skip
    for r in (row for row in rows if row["rule"] != "holds"):
        change = "" if r["rise"] == "nan" else f"{float(r['rise']):+.4f} ± {float(r['rise_error']):.4f}"
        place = f"| {r['data']} | {r['privacy']} | {float(r['epsilon']):g} "
        figures = [f"{float(r['log_loss']):.4f} ± {float(r['error']):.4f}"]
        figures += [f"{float(r[key]):.4f}" for key in ("base", "known", "accuracy", "auc")]
        out.append(place + "| " + " | ".join([*figures, change, r["rule"]]) + " |")
    return "\n".join(out) + "\n"

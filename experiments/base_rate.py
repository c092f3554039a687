"""Models of releases beside the base rate and beside scikit-learn: `python -m experiments.base_rate --studies 60`.

Random studies, and the sets of the panel that are at hand, are released with noise and at an epsilon where there is
none. Every task and penalty is solved as a user solves it, and judged on records that no release saw:

- a loss above the base rate's by more than WORSE without a warning is a fault,
- a warning of a model that is better by more than BETTER than any constant would be is a false one: of few records
  the shares differ from those of all by so much themselves, and a model that tells nothing but luckier shares is none,
- at CLEAR a loss more than NEAR above scikit-learn's, on the same encoding, is listed; said or not.

With `--keep FILE` a run goes on where another stopped: 200 studies take ten CPU minutes. `--write` writes
docs/results/uncertainty.md. Losses are negative log-likelihoods per record: of classes log-loss, of counts
Poisson's, of numbers half of the squared error over the variance.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import colonnade as cn
from colonnade.analysis.model import FitOutcome
from docs.sections import publish
from experiments.data import Dataset, adult_41
from experiments.data.hard import HARD, TEST
from experiments.data.panel import PACKAGED, PANEL, missing

Floats = NDArray[np.float64]
WORSE, BETTER, NEAR = 0.002, 0.005, 0.01
CLEAR = 1e5
NEW = 20_000
CASES: tuple[dict[str, Any], ...] = (
    {},
    {"penalty": "lasso"},
    {"penalty": "elastic-net"},
    {"ridge": 0.0},
    {"ridge": 0.01},
    {"penalty": "lasso", "ridge": 1e-4},
)
"""What a user may ask for, beside the study's own task."""
SETS = {"adult-41": adult_41} | {k: make for k, make in (PANEL | HARD).items() if k not in PACKAGED or not missing()}


@dataclass(frozen=True)
class Study:
    """Columns with their declarations, of which the first `n` records are released."""

    name: str
    frame: pl.DataFrame
    kinds: Mapping[str, Any]
    n: int
    epsilon: float
    terms: Mapping[str, Any]


@dataclass(frozen=True)
class Judged:
    """One model: its loss on new records, the base rate's, scikit-learn's without noise, what the gate said of it."""

    study: str
    task: str
    asked: str
    epsilon: float
    n: int
    loss: float
    base: float
    best: float
    """That of the new records' own share, shares or mean: no constant has less."""
    clear: float | None
    said: str
    estimator: str
    gain: float
    error: float
    """What the gate expects of it."""
    seconds: float
    deviation: float
    """The standard error of loss less base: new records are many, and not all there are."""
    tested: float = 0.0
    """Base less loss on as many new records as were released, without noise."""
    tested_error: float = 0.0

    @property
    def fault(self) -> bool:
        return self.loss > self.base + WORSE and not self.said

    @property
    def good(self) -> bool:
        return self.loss < self.best - BETTER

    @property
    def far(self) -> bool:
        return self.clear is not None and self.loss > self.clear + NEAR

    @property
    def mark(self) -> str:
        """Which rule it breaks; none where it keeps all."""
        return "FAULT" if self.fault else "FALSE" if self.good and self.said else "FAR" if self.far else ""

    @property
    def line(self) -> str:
        clear = "" if self.clear is None else f", clear {self.clear:.4f}"
        asked = f"{self.study:12} {self.task:11} {self.asked:16} n {self.n:6} epsilon {self.epsilon:8.3g}"
        return f"{asked} loss {self.loss:.4f} base {self.base:.4f}{clear} {self.said[:150]}"


def draw_study(seed: int) -> Study:
    """Columns that depend on each other, of every kind, and a label that follows some of them, or none."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([150, 600, 2000, 6000]))
    count = int(rng.choice([2, 4, 7, 12]))
    z = rng.standard_normal((n + NEW, count)) @ (np.eye(count) + rng.uniform(-0.5, 0.5, (count, count)))
    frame, kinds, coded = {}, {}, []
    for j in range(count):
        name, v = f"c{j}", z[:, j] / z[:, j].std()
        frame[name], kinds[name], own = _column(rng, v)
        coded.append(own)
    signal = np.column_stack(coded)
    signal = (signal - signal.mean(axis=0)) / np.maximum(signal.std(axis=0), 1e-9)
    terms: dict[str, Any] = {"release": str(rng.choice(["auto", "auto", "full"]))}
    kind = str(rng.choice(["binary", "binary", "classes", "number", "count"]))
    classes = {"binary": 2, "classes": int(rng.integers(3, 6))}.get(kind, 1)
    strength = float(rng.choice([0.0, 0.3, 1.0, 3.0])) / np.sqrt(count)
    scores = strength * signal @ rng.standard_normal((count, classes))
    if rng.random() < 0.2 and count > 2:
        a, b = rng.choice(count, 2, replace=False)
        scores += strength * (signal[:, a] * signal[:, b])[:, None] * rng.standard_normal(classes)
        terms |= {"interactions": [[f"c{a}", f"c{b}"]], "release": "full"}
    if classes > 1:
        scores += rng.normal(0, float(rng.choice([0.2, 2.0])), classes)
        chance = np.exp(scores - scores.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        y = (chance.cumsum(axis=1) < rng.random((len(z), 1))).sum(axis=1).clip(0, classes - 1)
        frame["y"], levels = y.astype(str), [str(k) for k in range(classes)]
        kinds["y"] = {"kind": "binary" if classes == 2 else "categorical", "levels": levels}
    elif kind == "number":
        frame["y"] = np.clip(scores[:, 0] + rng.standard_normal(len(z)), -5, 5)
        kinds["y"] = {"kind": "numeric", "low": -5, "high": 5}
        terms["label_square"] = bool(rng.random() < 0.5)
    else:
        frame["y"] = np.minimum(rng.poisson(np.exp(np.clip(0.5 * scores[:, 0], -3, 2))), 20).astype(float)
        kinds["y"] = {"kind": "numeric", "low": 0, "high": 20, "integer": True}
    terms["delta"] = float(rng.choice([0.0, 1e-6]))
    epsilon = float(np.exp(rng.uniform(np.log(0.1), np.log(300))))
    return Study(f"{seed}", pl.DataFrame(frame), kinds, n, epsilon, terms)


def _column(rng: np.random.Generator, v: Floats) -> tuple[Any, Any, Floats]:
    """One column: its values, its declaration, and what the label follows."""
    kind = rng.choice(["number", "bins", "two", "three", "many"])
    if kind == "number":
        own = np.clip(v, -3, 3)
        return own, {"kind": "numeric", "low": -3, "high": 3}, own
    if kind == "bins":
        return (
            np.clip(v, -3, 3),
            {"kind": "numeric", "low": -3, "high": 3, "bins": [-1, 0, 1]},
            np.digitize(v, [-1, 0, 1]),
        )
    cuts = {"two": [0.4], "three": [-0.5, 0.7], "many": [-2, -1.2, -0.6, 0, 0.6, 1.2, 2]}[kind]
    codes = np.digitize(v, cuts)
    effect = rng.standard_normal(len(cuts) + 1)
    return codes.astype(str), {"kind": "categorical", "levels": [str(k) for k in range(len(cuts) + 1)]}, effect[codes]


def of_set(key: str, epsilon: float) -> Study:
    """A set of the panel, its last records kept for the test."""
    data: Dataset = SETS[key]()
    frame = data.frame.sample(fraction=1.0, shuffle=True, seed=1)
    kinds = {("y" if name == data.label else name): kind for name, kind in data.columns.items()}
    return Study(key, frame.rename({data.label: "y"}), kinds, frame.height - TEST, epsilon, {})


def judge(study: Study, seed: int, cases: Sequence[Mapping[str, Any]] = CASES) -> Iterator[Judged]:
    """Every model of one release."""
    names = [c for c in study.frame.columns if c != "y"]
    parts = {"a": [*names[::2], "y"], "b": names[1::2]}
    old, new = study.frame[: study.n], study.frame[study.n :]
    parties = {p: cn.Party(old.select(own), {c: study.kinds[c] for c in own}) for p, own in parts.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Collusion decides how noise is shared: with none of it plans are made several times faster.
        terms = {"epsilon": study.epsilon, "product": "plain", "collusion": 0, **study.terms}
        release = cn.Study("y", parties, **terms).fit(seed=seed)
    own = str(release.plan["task"])
    tasks = {"linear": ["linear"], "logistic": ["logistic", "multinomial"], "multinomial": ["multinomial"]}[own]
    if study.kinds["y"].get("integer"):
        tasks = ["linear", "poisson"]
    if study.name not in SETS:
        # One task a study: the next study of this kind has the other.
        tasks = [tasks[int(study.name) % len(tasks)]]
    for task in tasks:
        base, best, clear = _base(study, task), float(_base(study, task, new["y"]).mean()), None
        if study.epsilon >= CLEAR:
            clear = float(_in_the_clear(study, task).mean())
            # scikit-learn's is nearly without a penalty: strengths of one's own are not compared with it.
            cases = [case for case in cases if "ridge" not in case]
        for case in cases:
            begun = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = release.solve(task=task, **case)
            told = " ".join(f"{k} {v:g}" if isinstance(v, float) else str(v) for k, v in case.items()) or "own"
            found, took = _losses(study, task, _predicted(model, new, task), new), time.perf_counter() - begun
            deviation = float((found - base).std() / np.sqrt(len(found)))
            again = (base - found)[: study.n]
            tested = float(again.mean()), float(again.std() / np.sqrt(len(again)))
            outcome = model.public.model.outcome or FitOutcome("")
            made = (outcome.estimator, outcome.gain, outcome.error)
            losses = float(found.mean()), float(base.mean()), best, clear
            # What is warned of beside, as a constant column, does not say that a model is worse.
            yield Judged(
                study.name, task, told, study.epsilon, study.n, *losses, outcome.why, *made, took, deviation, *tested
            )


def _predicted(model: cn.Model, new: pl.DataFrame, task: str) -> Floats:
    return np.asarray(model.predict_proba(new) if task in ("logistic", "multinomial") else model.predict(new), float)


def _losses(study: Study, task: str, predicted: Floats, new: pl.DataFrame) -> Floats:
    """Of each record."""
    y = new["y"]
    if task in ("logistic", "multinomial"):
        at = [study.kinds["y"]["levels"].index(v) for v in y]
        return -np.log(np.clip(predicted[np.arange(len(at)), at], 1e-12, 1))
    truth = y.to_numpy().astype(float)
    if task == "poisson":
        rate = np.maximum(predicted, 1e-9)
        return np.asarray(rate - truth * np.log(rate))
    return np.asarray((truth - predicted) ** 2 / (2 * truth.var()))


def _base(study: Study, task: str, seen: pl.Series | None = None) -> Floats:
    """The loss of the share, the shares or the mean of the records that were released, or of those that are given."""
    old, new = study.frame["y"][: study.n] if seen is None else seen, study.frame[study.n :]
    if task in ("logistic", "multinomial"):
        # Half a record more of each class (Krichevsky & Trofimov 1981): a class that was not seen is not impossible.
        counts = np.array([(old == level).sum() + 0.5 for level in study.kinds["y"]["levels"]], float)
        return _losses(study, task, np.tile(counts / counts.sum(), (new.height, 1)), new)
    return _losses(study, task, np.full(new.height, float(old.mean())), new)  # type: ignore[arg-type]


def _in_the_clear(study: Study, task: str) -> Floats:
    """scikit-learn's on the same encoding, nearly without a penalty."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

    x, y = _encoded(study), study.frame["y"].to_numpy()
    old, new = x[: study.n], x[study.n :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if task == "linear":
            found = LinearRegression().fit(old, y[: study.n]).predict(new)
        elif task == "poisson":
            found = PoissonRegressor(alpha=1e-6, max_iter=2000).fit(old, y[: study.n]).predict(new)
        elif len(set(y[: study.n])) < 2:
            return _base(study, task)
        else:
            fitted = LogisticRegression(C=1e4, max_iter=3000).fit(old, y[: study.n])
            levels = study.kinds["y"]["levels"]
            found = np.full((len(new), len(levels)), 1e-12)
            found[:, [levels.index(c) for c in fitted.classes_]] = fitted.predict_proba(new)
    return _losses(study, task, found, study.frame[study.n :])


def _encoded(study: Study) -> Floats:
    """Numbers from -1 to 1, levels and bins against the first, products of columns' codes."""
    blocks: dict[str, Floats] = {}
    for name, kind in study.kinds.items():
        values = study.frame[name]
        if name == "y":
            continue
        if kind["kind"] == "numeric" and "bins" not in kind:
            low, high = kind["low"], kind["high"]
            blocks[name] = (2 * np.clip(values.to_numpy().astype(float), low, high) - low - high)[:, None] / (
                high - low
            )
            continue
        if kind["kind"] == "numeric":
            codes = np.searchsorted(kind["bins"], values.to_numpy(), side="right")
            size = len(kind["bins"]) + 1
        else:
            codes, size = np.array([kind["levels"].index(v) for v in values]), len(kind["levels"])
        blocks[name] = np.eye(size)[codes][:, 1:]
    made = [blocks[a][:, :, None] * blocks[b][:, None, :] for a, b in study.terms.get("interactions", [])]
    return np.hstack([*blocks.values(), *(m.reshape(len(m), -1) for m in made)])


def by_records(noisy: Sequence[Judged], silent: int) -> float:
    """The least share of good models that are warned of by who tests each on as many records as were released.

    Without noise, on records that no release saw, with the best of all thresholds that leave at most `silent` worse
    ones unsaid: what no gate of a noisy release can be asked to reach.
    """
    mean, error = (np.array([getattr(j, name) for j in noisy]) for name in ("tested", "tested_error"))
    good = np.array([j.good for j in noisy])
    worse = np.array([j.loss > j.base + WORSE for j in noisy])
    least = 1.0
    for times in np.arange(-1.0, 5.01, 0.05):
        # Where the gain less so many errors is at most a threshold a model is warned of.
        score = mean - times * error
        worst = np.sort(score[worse])[::-1]
        threshold = worst[silent] if len(worst) > silent else -np.inf
        least = min(least, float((score[good] <= threshold).mean()) if good.any() else 0.0)
    return least


def table(found: Sequence[Judged]) -> dict[str, Any]:
    """How often each rule was broken, by what was asked."""
    noisy, clear = [j for j in found if j.clear is None], [j for j in found if j.clear is not None]
    out: dict[str, Any] = {}
    for key in sorted({(j.task, j.asked) for j in noisy}):
        own = [j for j in noisy if (j.task, j.asked) == key]
        good = [j for j in own if j.good]
        out[" ".join(key)] = {
            "models": len(own),
            "worse and silent": sum(j.fault for j in own),
            "worse and warned": sum(j.loss > j.base + WORSE for j in own) - sum(j.fault for j in own),
            "better": len(good),
            "better and warned": sum(bool(j.said) for j in good),
            "mean loss less base": float(np.mean([min(j.loss - j.base, 1.0) for j in own])),
        }
    good, faults = [j for j in noisy if j.good], sum(j.fault for j in noisy)
    far = [j for j in clear if j.far]
    return {
        "by what was asked": out,
        "models": len(noisy),
        "worse and silent": faults,
        "better": len(good),
        "better and warned": sum(bool(j.said) for j in good),
        "better and warned, by as many records": {k: by_records(noisy, k) for k in sorted({0, faults})},
        "in the clear": len(clear),
        "far from scikit-learn": len(far),
        "far and silent": sum(not j.said for j in far),
        "studies far and said": sorted({j.study for j in far if j.said}),
        "studies in the clear": len({j.study for j in clear}),
    }


def collect(studies: Sequence[Study], which: str, seed: int, cases: int, keep: Path | None) -> list[Judged]:
    """Every model of every study, with noise and in the clear; lines of `keep` are taken as they are, and added to."""
    kept = [json.loads(line) for line in keep.read_text().splitlines()] if keep is not None and keep.exists() else []
    done: dict[str, list[Judged]] = {each["run"]: [Judged(**j) for j in each["found"]] for each in kept}
    found: list[Judged] = []
    for clear, study in ((clear, study) for clear in (False, True) for study in studies):
        if which == ("noisy" if clear else "clear") or (clear and study.name in SETS and study.epsilon != 1.0):
            continue
        run = f"{study.name} {seed} {cases} {'clear' if clear else study.epsilon}"
        if run not in done:
            each = Study(study.name, study.frame, study.kinds, study.n, CLEAR, study.terms) if clear else study
            done[run] = []
            try:
                for j in judge(each, seed, CASES[:cases]):
                    done[run].append(j)
                    if j.mark:
                        print(f"{j.mark:5} {j.line}", file=sys.stderr, flush=True)
            except cn.ColonnadeError as error:
                print(f"refused {each.name}: {error}", file=sys.stderr)
            if keep is not None:
                with keep.open("a") as file:
                    file.write(json.dumps({"run": run, "found": [asdict(j) for j in done[run]]}) + "\n")
        found += done[run]
    return found


def markdown(found: Sequence[Judged], told: Mapping[str, Any], asked: str) -> str:
    """Return its section of docs/results/uncertainty.md."""
    lines = [
        "# Models beside the base rate and beside scikit-learn",
        "",
        f"Made by `python -m experiments.base_rate {asked}`:",
        f"random studies, every model judged on {NEW:,} new records.",
        "Losses are nats a record. The base rate's are the shares or the mean of the released records, half a record",
        "more of each class; no constant is better than those of the new ones.",
        "",
        f"- with noise: {told['models']} models, {told['worse and silent']} worse than the base rate by more than",
        f"  {WORSE} without a word",
        f"- better than any constant by {BETTER}: {told['better']}, of which {told['better and warned']} are warned of",
        *(
            f"- who tests each model on as many new records as were released, without noise, warns of {share:.1%} of "
            f"these,\n  by the best threshold that leaves {silent} worse ones unsaid"
            for silent, share in told["better and warned, by as many records"].items()
        ),
        *(
            [
                f"- at epsilon {CLEAR:g}: {told['in the clear']} models of {told['studies in the clear']} studies,",
                f"  {told['far from scikit-learn']} farther than {NEAR} from scikit-learn's, {told['far and silent']}",
                "  of them without a word",
            ]
            if told["in the clear"]
            else []
        ),
        "",
        "| asked | models | worse, silent | worse, warned | better | better, warned | mean of min(loss less base, 1) |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in told["by what was asked"].items():
        *counts, mean = row.values()
        lines.append(f"| {name} | " + " | ".join(map(str, counts)) + f" | {mean:.4f} |")
    lines += [
        "",
        "What broke a rule, with the standard error of the difference on new records, and the gain that the gate",
        "expected, with its own error:",
        "",
        "| | study | asked | n | epsilon | loss less base | expected gain | loss less scikit-learn's |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for j in (j for j in found if j.mark):
        beside = "" if j.clear is None else f"{j.loss - j.clear:.4f}{' (said)' if j.said else ''}"
        lines.append(
            f"| {j.mark} | {j.study} | {j.task} {j.asked} | {j.n} | {j.epsilon:.3g} | {j.loss - j.base:.4f} ± "
            f"{j.deviation:.4f} | {j.gain:.3f} ± {j.error:.3f} | {beside} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sets", default="", help="sets of the panel, with commas; all: every one that is at hand")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cases", type=int, default=len(CASES), help="how many of the questions are asked")
    parser.add_argument("--which", choices=["noisy", "clear", "both"], default="both")
    parser.add_argument("--keep", type=Path, help="a file of what was run, one study a line, to go on from")
    parser.add_argument("--write", action="store_true", help="write its section of docs/results/uncertainty.md")
    options = parser.parse_args(arguments)
    studies = [draw_study(options.seed + k) for k in range(options.studies)]
    keys = list(SETS) if options.sets == "all" else [k for k in options.sets.split(",") if k]
    studies += [of_set(key, epsilon) for key in keys for epsilon in (0.1, 1.0, 10.0)]
    # Threads that wait for each other took most of the time.
    threadpool_limits(1)
    found = collect(studies, options.which, options.seed, options.cases, options.keep)
    told = table(found)
    print(json.dumps({**told, "found": [asdict(j) for j in found]} if options.json else told, indent=1))
    if options.write:
        asked = f"--studies {options.studies} --seed {options.seed} --which {options.which} --write"
        publish("base_rate", markdown(found, told, asked))
    return int(bool(told["worse and silent"]) or 20 * told["better and warned"] > told["better"])


if __name__ == "__main__":
    sys.exit(main())

"""Random studies through Python, and every answer beside what numpy and scikit-learn make of the same records.

At a huge epsilon an answer is the truth, or says why not. At a small one it is no worse than the trivial answer, or
says so; and no number lies outside its own interval.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

import colonnade as cn
from colonnade.foundation.errors import ColonnadeError

Floats = NDArray[np.float64]
HUGE = 1e5
PENALTIES = ("ridge", "lasso", "elastic-net")
NEAR_LOSS, WORSE = 0.01, 0.002
"""In log-loss, or in shares of the label's variance: how far above scikit-learn's, and above the trivial answer's."""
NEAR_COUNT, NEAR_CORRELATION, NEAR_ROWS = 0.5, 0.02, 6.0
"""In records, in correlation, and in standard errors of drawn rows."""
PAGES = 12
"""One study in so many has its page written, which takes seconds."""


@dataclass
class Drawn:
    """A random study with its records."""

    task: str
    epsilon: float
    product: str
    kinds: dict[str, dict[str, dict[str, Any]]]
    frame: pl.DataFrame
    derived: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, dict[str, Any]]:
        return {name: kind for own in self.kinds.values() for name, kind in own.items()}

    def study(self) -> cn.Study:
        parties = {}
        for party, own in self.kinds.items():
            more: dict[str, Any] = {"derived": self.derived[party]} if party in self.derived else {}
            parties[party] = cn.Party(self.frame[list(own)], own, **more)
        return cn.Study("y", parties, epsilon=self.epsilon, task=self.task, product=self.product)


@dataclass(frozen=True)
class Finding:
    """An answer that is wrong without a word."""

    where: str
    told: str
    truth: str


def draw_answers(draw: np.random.Generator) -> Drawn:
    """One to four parties; numbers alone, levels alone or both; constant, rare, binned and derived columns."""
    n, parties = int(draw.integers(300, 1500)), int(draw.integers(1, 5))
    mix = str(draw.choice(["both", "numbers", "levels"]))
    task = str(draw.choice(["linear", "logistic", "multinomial"]))
    kinds: dict[str, dict[str, dict[str, Any]]] = {f"p{k}": {} for k in range(parties)}
    values: dict[str, Any] = {}
    score = np.zeros(n)
    for k in range(parties):
        for j in range(int(draw.integers(1, 4))):
            name = f"c{k}{j}"
            kinds[f"p{k}"][name], values[name], x = _draw(draw, n, mix)
            score = score + draw.normal() * x
    odds = 1.5 * score / max(float(score.std()), 1e-9)
    owner = kinds[f"p{draw.integers(parties)}"]
    if task == "linear":
        owner["y"] = {"kind": "numeric", "low": -5, "high": 5}
        values["y"] = np.clip(odds + draw.normal(0, draw.choice([0.3, 2.0]), n), -5, 5)
    elif task == "logistic":
        owner["y"] = {"kind": "binary", "levels": ["no", "yes"]}
        values["y"] = np.where(draw.random(n) < 1 / (1 + np.exp(draw.choice([0.0, 3.5]) - odds)), "yes", "no")
    else:
        owner["y"] = {"kind": "categorical", "levels": ["u", "v", "w"]}
        logits = np.stack([np.zeros(n), odds - draw.choice([0.0, 2.5]), -odds - 1], axis=1)
        values["y"] = np.array(["u", "v", "w"])[(logits + draw.gumbel(size=logits.shape)).argmax(axis=1)]
    numbers = [c for c, kind in kinds["p0"].items() if kind["kind"] == "numeric" and "bins" not in kind and c != "y"]
    derived = {"p0": {"square": f"{numbers[0]}^2"}} if numbers and draw.random() < 0.15 else {}
    epsilon = HUGE if draw.random() < 0.6 else float(np.exp(draw.uniform(np.log(0.05), np.log(2))))
    product = str(draw.choice(["plain", "lattice"], p=[0.85, 0.15]))
    return Drawn(task, epsilon, product, kinds, pl.DataFrame(values), derived)


def _draw(draw: np.random.Generator, n: int, mix: str) -> tuple[dict[str, Any], Any, Floats]:
    """A declared column, its values, and a number that the label may depend on."""
    if mix == "numbers" or (mix == "both" and draw.random() < 0.5):
        low, high = sorted(draw.normal(size=2) * 10 ** draw.uniform(-2, 4))
        high += 0.1
        at = draw.choice(["even", "constant", "clumped", "binned"], p=[0.4, 0.15, 0.25, 0.2])
        unit = {"constant": np.full(n, 0.3), "clumped": draw.beta(1, 6, n)}.get(str(at), draw.random(n))
        kind = {"kind": "numeric", "low": float(low), "high": float(high)}
        if at == "binned":
            kind["bins"] = [float(v) for v in np.linspace(low, high, 5)[1:-1]]
        return kind, low + (high - low) * unit, 3 * unit
    count = int(draw.integers(2, 6))
    levels = [f"l{i}" for i in range(count)]
    shares = draw.dirichlet(np.full(count, draw.choice([0.4, 3.0])))
    codes = np.zeros(n, int) if draw.random() < 0.1 else draw.choice(count, n, p=shares)
    kind = {"kind": "binary" if count == 2 else "categorical", "levels": levels}
    return kind, np.array(levels)[codes], draw.normal(size=count)[codes]


def encoded(drawn: Drawn) -> Floats:
    """Numbers from -1 to 1, levels and bins as indicators of all but the first."""
    parts = []
    for name, kind in drawn.columns.items():
        if name == "y":
            continue
        values = drawn.frame[name].to_numpy()
        if kind["kind"] != "numeric":
            parts.append((values[:, None] == np.array(kind["levels"])[None, 1:]).astype(float))
        elif "bins" in kind:
            parts.append(np.eye(len(kind["bins"]) + 1)[np.searchsorted(kind["bins"], values, side="right")][:, 1:])
        else:
            parts.append(signed(values, kind)[:, None])
    for texts in drawn.derived.values():
        for text in texts.values():
            x = drawn.frame[text.removesuffix("^2")].to_numpy() ** 2
            parts.append(((x - x.min()) / max(x.max() - x.min(), 1e-12))[:, None])
    return np.concatenate(parts, axis=1)


def signed(values: Floats, kind: Mapping[str, Any]) -> Floats:
    found: Floats = (2 * values - kind["low"] - kind["high"]) / (kind["high"] - kind["low"])
    return found


def check_study(drawn: Drawn, seed: int, page: bool) -> tuple[str, list[Finding]]:
    """What became of a study: its kind or how it was refused, and what was found."""
    kind = f"{drawn.task} {drawn.product} {'huge' if drawn.epsilon == HUGE else 'small'}"
    found: list[Finding] = []
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        try:
            study = drawn.study()
            release = study.fit(seed=seed)
        except ColonnadeError as error:
            return f"refused: {type(error).__name__}", found
        models: dict[str, Any] = {}
        checks: list[tuple[str, Callable[[], None]]] = [
            ("tables", lambda: check_tables(drawn, release, found, page)),
            ("components", lambda: check_components(drawn, release, found)),
            (
                "models",
                lambda: models.update(check_models(drawn, release, PENALTIES[: 1 + seed % 3 : 1 + seed % 2], found)),
            ),
            ("rows", lambda: check_rows(drawn, release, found)),
            ("predictions", lambda: _predictions(drawn, study, models, Path(folder), found)),
            ("evaluation", lambda: _evaluation(drawn, study, release, models, Path(folder), found)),
            ("page", lambda: _page(release, Path(folder), found) if page else None),
        ]
        for where, check in checks:
            try:
                check()
            except ColonnadeError:
                continue
            except Exception as error:
                found.append(Finding(where, f"{type(error).__name__}: {error}"[:200], "an answer or a sentence"))
    return kind, found


def _plain(found: list[Finding], where: str, content: Any) -> None:
    """JSON has no nan and no infinity."""
    try:
        json.dumps(content, allow_nan=False)
    except ValueError:
        found.append(Finding(where, "nan or infinity in --json", "null"))


def check_tables(drawn: Drawn, release: Any, found: list[Finding], page: bool = False) -> None:
    shown = release.tables()
    if page:
        _plain(found, "tables", shown.to_dict())
    for line in shown.frame.to_dicts():
        if line["count"] is None:
            continue
        told = f"{line['count']:.4g} ({line['low']}, {line['high']})"
        where = f"table {line['column_a']}={line['level_a']} {line['column_b'] or ''}={line['level_b'] or ''}"
        if not (line["low"] is None or line["low"] - 1e-6 <= line["count"] <= line["high"] + 1e-6):
            found.append(Finding(where, told, "inside its own interval"))
        if not -1e-6 <= line["count"] <= drawn.frame.height + 1e-6:
            found.append(Finding(where, told, f"between 0 and {drawn.frame.height}"))
        inside = [_has(drawn, line["column_a"], line["level_a"])]
        inside += [_has(drawn, line["column_b"], line["level_b"])] if line["column_b"] else []
        if any(part is None for part in inside) or drawn.epsilon != HUGE:
            continue
        true = float(np.logical_and.reduce(inside).sum())
        if abs(line["count"] - true) > NEAR_COUNT and not line["low"] <= true <= line["high"]:
            found.append(Finding(where, told, f"{true:g}"))


def _has(drawn: Drawn, column: str, level: str) -> Any:
    """Which records have a level; None of a column whose levels are not the declared ones."""
    name = column.rpartition(".")[2] if column not in drawn.columns else column
    kind = drawn.columns.get(name)
    if kind is None or (kind["kind"] == "numeric" and "bins" not in kind):
        return None
    values = drawn.frame[name].to_numpy()
    if kind["kind"] != "numeric":
        return values == level
    cuts = [f"{v:g}" for v in kind["bins"]]
    names = [f"{name}<{cuts[0]}", *(f"{a}<={name}<{b}" for a, b in pairwise(cuts))]
    names.append(f"{name}>={cuts[-1]}")
    return np.searchsorted(kind["bins"], values, side="right") == names.index(level) if level in names else None


def check_components(drawn: Drawn, release: Any, found: list[Finding]) -> None:
    shown = release.components()
    numbers = [c for c, kind in drawn.columns.items() if kind["kind"] == "numeric" and "bins" not in kind]
    at = {c: shown.names.index(c) for c in numbers if c in shown.names}
    for a in at:
        for b in at:
            told = shown.correlations[at[a], at[b]]
            x, y = (drawn.frame[c].to_numpy() for c in (a, b))
            if a >= b or not np.isfinite(told):
                continue
            if min(x.std(), y.std()) <= 1e-9 * max(1.0, abs(x).max(), abs(y).max()):
                if drawn.epsilon == HUGE and abs(told) > NEAR_CORRELATION:
                    found.append(Finding(f"correlation {a}, {b}", f"{told:.3f}", "none: a constant column"))
                continue
            true, low, high = float(np.corrcoef(x, y)[0, 1]), shown.low[at[a], at[b]], shown.high[at[a], at[b]]
            if not low - 1e-6 <= told <= high + 1e-6:
                found.append(Finding(f"correlation {a}, {b}", f"{told:.3f}", f"inside ({low:.3f}, {high:.3f})"))
            missed = abs(told - true) > NEAR_CORRELATION and not low <= true <= high
            if drawn.epsilon == HUGE and missed:
                found.append(Finding(f"correlation {a}, {b}", f"{told:.3f} ({low:.3f}, {high:.3f})", f"{true:.3f}"))


def _loss(drawn: Drawn, model: Any) -> tuple[float, float, float]:
    """Of a model, of what scikit-learn or numpy makes of the same records, and of the trivial answer."""
    y, x = drawn.frame["y"].to_numpy(), encoded(drawn)
    if drawn.task == "linear":
        told = np.asarray(model.predict(drawn.frame), dtype=float)
        whole = np.column_stack([np.ones(len(y)), x])
        best = whole @ np.linalg.lstsq(whole, y, rcond=None)[0]
        scale = max(float(y.var()), 1e-12)
        return float(((y - told) ** 2).mean()) / scale, float(((y - best) ** 2).mean()) / scale, 1.0
    classes = [str(v) for v in model.classes]
    told = np.clip(np.asarray(model.predict_proba(drawn.frame), dtype=float), 1e-15, 1)
    shares = np.array([(y == c).mean() for c in classes])
    trivial = float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())
    loss = float(-np.log(told[np.arange(len(y)), [classes.index(v) for v in y]]).mean())
    if len(set(y)) < 2:
        return loss, trivial, trivial
    fitted = LogisticRegression(C=1e4, max_iter=300).fit(x, y)
    return loss, float(log_loss(y, fitted.predict_proba(x), labels=fitted.classes_)), trivial


def check_models(drawn: Drawn, release: Any, penalties: Sequence[str], found: list[Finding]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for penalty in penalties:
        try:
            model = out[penalty] = release.solve(penalty=penalty)
        except ColonnadeError:
            continue
        where = f"model, {penalty}"
        encodings = model.coef_encoded
        told = list(encodings.values()) if isinstance(encodings, Mapping) else np.ravel(encodings).tolist()
        flat = np.array([v for part in told for v in (part.values() if isinstance(part, Mapping) else [part])], float)
        if not np.isfinite(flat).all():
            found.append(Finding(where, "a coefficient that is no number", "numbers"))
        loss, best, trivial = _loss(drawn, model)
        if model.notes:
            continue
        if loss > trivial + WORSE:
            found.append(Finding(where, f"loss {loss:.4f} without a note", f"trivial {trivial:.4f}"))
        elif drawn.epsilon == HUGE and penalty == "ridge" and loss > best + NEAR_LOSS:
            found.append(Finding(where, f"loss {loss:.4f} without a note", f"not private {best:.4f}"))
        bounds = model.intervals() if callable(model.intervals) else model.intervals
        for line in () if bounds is None else bounds.coefficients:
            if not line.low <= line.estimate <= line.high:
                text = f"{line.estimate:.4g} ({line.low:.4g}, {line.high:.4g})"
                found.append(Finding(f"{where}, interval of {line.feature}", text, "inside its own interval"))
    return out


def check_rows(drawn: Drawn, release: Any, found: list[Finding]) -> None:
    count = 2000
    frame = release.synthesize(count, anyway=True).frame
    if drawn.epsilon != HUGE:
        return
    for name, kind in drawn.columns.items():
        if name not in frame.columns:
            continue
        if kind["kind"] == "numeric" and "bins" not in kind:
            true, got = drawn.frame[name].to_numpy(), frame[name].to_numpy()
            room = 0.02 * (kind["high"] - kind["low"])
            for what, a, b in (("mean", true.mean(), got.mean()), ("deviation", true.std(), got.std())):
                if abs(a - b) > room + NEAR_ROWS * true.std() / np.sqrt(count):
                    found.append(Finding(f"rows, {what} of {name}", f"{b:.4g}", f"{a:.4g}"))
        elif kind["kind"] != "numeric":
            for level in kind["levels"]:
                p, got = float((drawn.frame[name] == level).mean()), float((frame[name] == level).mean())
                if abs(p - got) > 0.002 + NEAR_ROWS * np.sqrt(p * (1 - p) / count):
                    found.append(Finding(f"rows, share of {name}={level}", f"{got:.4f}", f"{p:.4f}"))


def _predictions(drawn: Drawn, study: Any, models: Mapping[str, Any], folder: Path, found: list[Finding]) -> None:
    """In one frame, by hand, from files, and across parties."""
    model = models.get("ridge")
    if model is None:
        return
    several = drawn.task == "multinomial"
    told = np.asarray(model.predict(drawn.frame) if drawn.task == "linear" else model.predict_proba(drawn.frame))
    if not drawn.derived and not several:
        score = np.full(drawn.frame.height, float(model.intercept))
        weights = dict(model.coef)
        for name, kind in drawn.columns.items():
            values = drawn.frame[name].to_numpy()
            if name in weights:
                score += weights[name] * values
            for level in kind.get("levels", ()):
                score += weights.get(f"{name}={level}", 0.0) * (values == level)
            if "bins" in kind:
                for feature, weight in weights.items():
                    mask = _has(drawn, name, feature)
                    score += 0.0 if mask is None else weight * mask
        hand = np.clip(score, -5, 5) if drawn.task == "linear" else 1 / (1 + np.exp(-score))
        one = told if drawn.task == "linear" else told[:, 1]
        if np.abs(one - hand).max() > 1e-6 * max(1.0, np.abs(hand).max()):
            far = int(np.abs(one - hand).argmax())
            found.append(Finding("prediction by hand", f"{one[far]:.6g}", f"{hand[far]:.6g}"))
    files = {party: folder / f"{party}.parquet" for party in drawn.kinds}
    for party, own in drawn.kinds.items():
        drawn.frame[list(own)].write_parquet(files[party])
    needed = {p: f for p, f in files.items() if p in model.public.needs()}
    if needed:
        read = np.asarray((model.predict if drawn.task == "linear" else model.predict_proba)(needed))
        if np.abs(read - told).max() > 1e-9 * max(1.0, np.abs(told).max()):
            found.append(Finding("prediction from files", f"{read.ravel()[0]:.6g}", f"{told.ravel()[0]:.6g}"))
    if not several and len(drawn.kinds) > 1 and drawn.product == "plain" and len(needed) > 1:
        across = study.predict(model, to=next(iter(drawn.kinds)))["score"].to_numpy()
        one = told if drawn.task == "linear" else told[:, 1]
        if np.abs(across - one).max() > 1e-4 * max(1.0, np.abs(one).max()):
            found.append(Finding("prediction across parties", f"{across[0]:.6g}", f"{one[0]:.6g}"))


def _evaluation(
    drawn: Drawn, study: Any, release: Any, models: Mapping[str, Any], folder: Path, found: list[Finding]
) -> None:
    """Intervals at a huge epsilon hold the truth; at any, the value lies inside."""
    model = models.get("ridge")
    if model is None or drawn.task == "multinomial" or drawn.product != "plain":
        return
    out = folder / "e.json"
    shown = study.evaluate(model, release=release, rows=drawn.frame.height, epsilon=drawn.epsilon, out=out).frame
    y = drawn.frame["y"].to_numpy()
    if drawn.task == "linear":
        inside = np.abs(np.asarray(model.predict(drawn.frame))).max() < 5
        errors = float(np.sqrt(((y - np.asarray(model.predict(drawn.frame))) ** 2).mean()))
        truth = {"rmse": errors} if inside else {}
    else:
        yes, chance = y == "yes", model.predict_proba(drawn.frame)[:, 1]
        truth = {
            "accuracy": float(np.mean((chance >= 0.5) == yes)),
            "log_loss": float(log_loss(yes, chance, labels=[False, True])),
            "brier": float(brier_score_loss(yes, chance)),
        }
        truth |= {"auc": float(roc_auc_score(yes, chance))} if 0 < yes.sum() < len(yes) else {}
    for line in shown.to_dicts():
        if line["low"] is None:
            continue
        text = f"{line['value']:.5f} ({line['low']:.5f}, {line['high']:.5f})"
        if not line["low"] - 1e-9 <= line["value"] <= line["high"] + 1e-9:
            found.append(Finding(f"evaluation, {line['measure']}", text, "inside its own interval"))
        true, room = truth.get(line["measure"]), 2 * (line["high"] - line["low"]) + 1e-6
        # Noise may pass a 95% interval; three times its width it does not.
        if drawn.epsilon == HUGE and true is not None and not line["low"] - room <= true <= line["high"] + room:
            found.append(Finding(f"evaluation, {line['measure']}", text, f"{true:.5f}"))


def _page(release: Any, folder: Path, found: list[Finding]) -> None:
    release.report(folder / "page.html")
    text = (folder / "page.html").read_text(encoding="utf-8").lower()
    for bad in (">nan<", ">inf<", "nan to", "to nan", "traceback"):
        if bad in text:
            found.append(Finding("page", bad, "a number, or not known"))


def search_answers(studies: int, seed: int, only: int | None = None) -> dict[str, Any]:
    """What is wrong in the answers of so many random studies; each is drawn again by the seed and its number."""
    kinds: Counter[str] = Counter()
    wrong, begun = [], time.process_time()
    for i in range(studies) if only is None else [only]:
        kind, found = check_study(draw_answers(np.random.default_rng((seed, i))), i, i % PAGES == 0)
        kinds[kind] += 1
        for each in found:
            line = {"study": i, "kind": kind, "where": each.where, "told": each.told, "truth": each.truth}
            wrong.append(line)
            print(f"--seed {seed} --only {i}: {kind}: {each.where}: {each.told}, for {each.truth}", file=sys.stderr)
    return {
        "studies": studies,
        "seed": seed,
        "kinds": dict(sorted(kinds.items())),
        "wrong": wrong,
        "cpu_seconds": round(time.process_time() - begun, 1),
    }

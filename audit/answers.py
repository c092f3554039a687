"""Random studies through Python and the command line, every answer beside numpy's, scikit-learn's and statsmodels'.

At a huge epsilon an answer is the truth, or says why not. At a small one it is no worse than the trivial answer, or
says so; no number lies outside its own interval, and no truth far outside of it. A refusal is a sentence; refusals are
counted apart from answers, by what was asked and by what they say.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import unescape
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import statsmodels.api as sm
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
from typer.testing import CliRunner

from audit.drawn import BALL, Drawn, Floats, codes_of, design, draw_answers, is_number, levels_of, signed
from colonnade.cli import app
from colonnade.foundation.errors import ColonnadeError

NEAR_LOSS, SPARSE_LOSS, WORSE = 0.01, 0.03, 0.002
"""In nats, or in shares of the label's variance: above the reference's, above it for a sparse model that leaves out
what it cannot tell from nothing, and above the trivial answer's."""
NEAR_COEFFICIENT = {"linear": 1.0, "logistic": 3.0, "multinomial": 3.0, "poisson": 3.0}
"""In standard errors, and a tenth of it: a model is shrunk, and log-odds rest on a law of the features besides."""
NEAR_ESTIMATE, NARROWEST, WIDEST = 0.1, 0.9, 1.3
"""In standard errors: estimates that have intervals are not shrunk. Widths are in those of sampling alone."""
NEAR_COUNT, NEAR_CORRELATION, NEAR_INFORMATION, NEAR_SHARE = 0.5, 0.02, 0.005, 0.01
NEAR_NUMBER = 1e-3
"""Of a number's range, for its mean and standard deviation."""
NEAR_ROWS, COUNT = 6.0, 2000
"""In standard errors of so many drawn rows."""
FAR = 2.0
"""Widths of an interval beyond its ends: noise does not reach them."""
NEAR_MINIMUM = 1e-3
ODD = re.compile(r"\bNone\b|\bnan\b|\binf\b|Traceback|Error:|<class|object at 0x|np\.|array\(|\{'|\n")


@dataclass(frozen=True)
class Finding:
    """An answer that is wrong without a word."""

    where: str
    told: str
    truth: str


def is_sentence(text: str) -> bool:
    """Whether a refusal reads like one, and not like an internal error."""
    return len(text.split()) > 3 and not ODD.search(text)


def kind_of(text: str) -> str:
    """A refusal without its names and numbers."""
    return re.sub(r"\d+", "N", re.sub(r"\b[cpl]\.?\d+\b", "X", text))[:160]


@dataclass
class Look:
    """One study with everything that is asked of it, and how each question ended."""

    drawn: Drawn
    number: int
    found: list[Finding] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    covered: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    release: Any = None
    study: Any = None
    models: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return f"{self.drawn.task} {self.drawn.product} {'huge' if self.drawn.huge else 'small'}"

    def wrong(self, where: str, told: str, truth: str) -> None:
        self.found.append(Finding(where, told, truth))

    def ask(self, where: str, question: Callable[[], Any]) -> Any:
        """The answer; None where it is refused, which is counted, or where it breaks, which is found."""
        try:
            answer = question()
        except ColonnadeError as error:
            self.refused[f"{where}: {type(error).__name__}: {kind_of(str(error))}"] += 1
            if not is_sentence(str(error)):
                self.wrong(where, f"{type(error).__name__}: {error}"[:200], "a sentence")
            return None
        except Exception as error:
            self.wrong(where, f"{type(error).__name__}: {error}"[:200], "an answer or a sentence")
            return None
        self.answered[where] += 1
        return answer

    def beside(
        self, where: str, what: str, told: Any, low: Any, high: Any, true: float | None, near: float, wide: float = 0.0
    ) -> None:
        """A number inside its own interval, and the truth: near it at a huge epsilon, never far outside.

        What is cut at its limits has noise of a `wide` interval.
        """
        text = f"{told:.5g} ({low:.5g}, {high:.5g})"
        room = 1e-6 * max(1.0, abs(told))
        if not low - room <= told <= high + room:
            self.wrong(f"{where}, {what}", text, "inside its own interval")
        if true is None:
            return
        inside = low - room <= true <= high + room
        (self.covered if inside else self.missed)[f"{where}, {'huge' if self.drawn.huge else 'small'}"] += 1
        far = FAR * max(high - low, wide) + near
        if not low - far <= true <= high + far or (self.drawn.huge and abs(told - true) > near and not inside):
            self.wrong(f"{where}, {what}", text, f"{true:.5g}")

    def look(self, whole: bool) -> None:
        """All of it; `whole` with what takes seconds."""
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            self.study = self.ask("study", self.drawn.study)
            if self.study is not None:
                self.release = self.ask("fit", lambda: self.study.fit(seed=self.number))
            if self.release is None:
                return
            asked: dict[str, Callable[[], Any]] = {
                "tables": self.tables,
                "components": self.components,
                "models": self.solve,
            }
            if self.drawn.task == "objective":
                asked = {"minimum": self.minimum}
            else:
                asked |= {"rows": self.rows} if whole or self.number % 4 == 1 else {}
                asked |= {"predictions": lambda: self.predictions(Path(folder))}
                if self.number % 2 == 0 and (self.drawn.product == "plain" or whole):
                    asked["evaluation"] = lambda: self.evaluation(Path(folder))
            asked |= {"page and --json": lambda: self.media(Path(folder))} if whole else {}
            for where, check in asked.items():
                self.ask(where, check)

    # What columns are by themselves and together -------------------------------------------------------------------
    def values(self, name: str) -> Any:
        return self.drawn.frame[name].to_numpy()

    def has(self, column: str, level: str) -> Any:
        """Which records have a level; None of a column whose levels are not the declared ones."""
        kind = self.drawn.columns.get(column)
        levels = [] if kind is None else levels_of(column, kind)
        return (
            None if kind is None or level not in levels else codes_of(self.values(column), kind) == levels.index(level)
        )

    def tables(self) -> None:
        n, frame = self.drawn.frame.height, self.release.tables().frame
        widest = (pl.col("high") - pl.col("low")).max().over("column_a", pl.col("column_b").fill_null(""))
        for line in frame.with_columns(wide=widest).to_dicts():
            cell = f"{line['column_a']}={line['level_a']} {line['column_b'] or ''}={line['level_b'] or ''}"
            inside = [self.has(line["column_a"], line["level_a"])]
            inside += [self.has(line["column_b"], line["level_b"])] if line["column_b"] else []
            known = all(part is not None for part in inside)
            true = float(np.logical_and.reduce(inside).sum()) if known else None
            where = "cross table" if line["column_b"] else "margin"
            self.beside(where, cell, line["count"], line["low"], line["high"], true, NEAR_COUNT, line["wide"])
            if not -1e-6 <= line["count"] <= n + 1e-6:
                self.wrong(f"{where}, {cell}", f"{line['count']:.4g}", f"between 0 and {n}")
        tables = self.release._tables
        for found in map(tables.number, tables.released.numbers):
            kind = self.drawn.columns.get(found.name)
            for what, one in (("mean", found.mean), ("std", found.std)):
                if one is not None and kind is not None:
                    values = np.clip(self.values(found.name), kind["low"], kind["high"])
                    true, near = float(getattr(values, what)()), NEAR_NUMBER * (kind["high"] - kind["low"])
                    self.beside(what, found.name, one.value, one.low, one.high, true, near)

    def coordinates(self, names: Any) -> dict[str, Floats]:
        """What is known by hand of coded columns: levels 0 or 1, numbers from -1 to 1."""
        known = {}
        for name, kind in self.drawn.columns.items():
            if is_number(kind):
                known[name] = signed(self.values(name), kind)
            for level in levels_of(name, kind):
                known[level if kind["kind"] == "numeric" else f"{name}={level}"] = self.has(name, level).astype(float)
        return {name: known[name] for name in names if name in known}

    def components(self) -> None:
        shown = self.release.components()
        known = self.coordinates(shown.names)
        at = {name: shown.names.index(name) for name in known}
        for a, b in ((a, b) for a in known for b in known if a < b):
            told, low, high = (float(part[at[a], at[b]]) for part in (shown.correlations, shown.low, shown.high))
            if not np.isfinite(told):
                continue
            if min(known[a].std(), known[b].std()) < 1e-9:
                if self.drawn.huge and abs(told) > NEAR_CORRELATION:
                    self.wrong(f"correlation, {a}, {b}", f"{told:.3f}", "none: a constant column")
                continue
            true = float(np.corrcoef(known[a], known[b])[0, 1])
            self.beside("correlation", f"{a}, {b}", told, low, high, true, NEAR_CORRELATION)
        if self.drawn.huge and len(known) == len(shown.names) > 1:
            true_share = np.linalg.eigvalsh(np.cov(np.stack(list(known.values())), bias=True))[::-1]
            true_share = true_share / max(float(true_share.sum()), 1e-12)
            far = int(np.abs(shown.share - true_share).argmax())
            if abs(shown.share[far] - true_share[far]) > NEAR_SHARE:
                self.wrong(f"component {far + 1}", f"{shown.share[far]:.4f}", f"{true_share[far]:.4f}")

    # Models ----------------------------------------------------------------------------------------------------------
    @cached_property
    def whole(self) -> tuple[list[str], Floats]:
        """Names of features, and the coded design with a constant first."""
        names, x = design(self.drawn, coded=True)
        return names, np.column_stack([np.ones(len(x)), x])

    @cached_property
    def full_rank(self) -> bool:
        x = self.whole[1]
        return bool(not self.drawn.derived and np.linalg.cond(x / np.linalg.norm(x, axis=0).clip(1e-9)) < 1e4)

    @cached_property
    def units(self) -> Floats:
        """What a coded coefficient is times this in the data's units."""
        kinds = [self.drawn.columns.get(name) for name in self.whole[0]]
        own = [2 / (kind["high"] - kind["low"]) if kind is not None and is_number(kind) else 1.0 for kind in kinds]
        return np.array(own)

    def reference(self) -> tuple[dict[str, Floats], dict[str, Floats]] | None:
        """statsmodels' coefficients in the data's units with their standard errors, by class; None without a fit."""
        y, x = self.values("y"), self.whole[1]
        classes = [""]
        try:
            if self.drawn.task == "linear":
                fit = sm.OLS(y, x).fit()
            elif self.drawn.task == "poisson":
                fit = sm.GLM(y, x, family=sm.families.Poisson()).fit()
            elif self.drawn.task == "logistic":
                fit = sm.Logit((y == "yes").astype(float), x).fit(disp=0, maxiter=60)
            else:
                fit, classes = sm.MNLogit(codes_of(y, self.drawn.columns["y"]), x).fit(disp=0, maxiter=60), ["v", "w"]
        except Exception:  # separated classes, a class that nobody has
            return None
        params, bse = (np.asarray(part).reshape(x.shape[1], -1)[1:] for part in (fit.params, fit.bse))
        if params.shape[1] != len(classes) or not np.isfinite(bse).all():
            return None
        parts = [{c: self.units * part[:, k] for k, c in enumerate(classes)} for part in (params, bse)]
        return parts[0], parts[1]

    def losses(self, model: Any) -> tuple[float, float, float]:
        """Of a model, of what scikit-learn or numpy makes of the same records, and of the trivial answer."""
        y, x = self.values("y"), self.whole[1]
        # Without a penalty a fit tells its own records better than the truth does, by half a parameter over n (Wilks).
        luck = 0.5 * (x.shape[1] - 1) / len(y)
        if self.drawn.task == "linear":
            told = np.asarray(model.predict(self.drawn.frame), dtype=float)
            best, scale = x @ np.linalg.lstsq(x, y, rcond=None)[0], max(float(y.var()), 1e-12)
            # Of a variance s^2 that is left, n - rank parts in n are seen; levels that nobody has are no parameters.
            left = float(((y - best) ** 2).sum()) / max(len(y) - int(np.linalg.matrix_rank(x)), 1)
            return float(((y - told) ** 2).mean()) / scale, left / scale, 1.0
        if self.drawn.task == "poisson":
            fitted = PoissonRegressor(alpha=1e-6, max_iter=300).fit(x[:, 1:], y).predict(x[:, 1:])
            rates = (np.asarray(model.predict(self.drawn.frame), dtype=float), fitted, np.full(len(y), y.mean()))
            loss, best_loss, trivial = (float((r - y * np.log(np.maximum(r, 1e-12))).mean()) for r in rates)
            return loss, best_loss + luck, trivial
        classes = [str(v) for v in model.classes]
        chances = np.clip(np.asarray(model.predict_proba(self.drawn.frame), dtype=float), 1e-15, 1)
        shares = np.array([(y == c).mean() for c in classes])
        trivial = float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())
        loss = float(-np.log(chances[np.arange(len(y)), [classes.index(v) for v in y]]).mean())
        if len(set(y)) < 2:
            return loss, trivial, trivial
        known = LogisticRegression(C=1e4, max_iter=300).fit(x[:, 1:], y)
        best_loss = float(log_loss(y, known.predict_proba(x[:, 1:]), labels=known.classes_))
        return loss, best_loss + luck * (len(classes) - 1), trivial

    def solve(self) -> None:
        if self.drawn.task == "objective":
            return
        task = {"task": "poisson"} if self.drawn.task == "poisson" else {}
        second = {1: ("lasso",), 3: ("elastic-net",)}.get(self.number % 4, ())
        for penalty in ("ridge", *second):
            where = f"model, {penalty}"
            model = self.ask(where, lambda penalty=penalty: self.release.solve(penalty=penalty, **task))
            if model is None:
                continue
            self.models[penalty] = model
            encoded = model.coef_encoded
            rows = encoded.values() if self.drawn.task == "multinomial" else [encoded]
            if not np.isfinite([v for row in rows for v in row.values()]).all():
                self.wrong(where, "a coefficient that is no number", "numbers")
            loss, best, trivial = self.losses(model)
            if model.notes:
                self.answered[f"{where}, with a note"] += 1
                continue
            if loss > trivial + WORSE:
                self.wrong(where, f"loss {loss:.4f} without a note", f"trivial {trivial:.4f}")
            elif self.drawn.huge and loss > best + (NEAR_LOSS if penalty == "ridge" else SPARSE_LOSS):
                self.wrong(where, f"loss {loss:.4f} without a note", f"not private {best:.4f}")
            if self.drawn.huge and penalty == "ridge" and self.full_rank:
                self.coefficients(model)
        model = self.release.solve() if self.drawn.task == "poisson" else self.models.get("ridge")
        if self.drawn.task != "multinomial" and model is not None:
            self.intervals(model)

    def coefficients(self, model: Any) -> None:
        """Each in the data's units beside statsmodels'; of several classes against the first."""
        known = self.reference()
        if known is None:
            return
        for label, true in known[0].items():
            told = {f: model.coef[label][f] - model.coef["u"][f] for f in model.coef["u"]} if label else model.coef
            for name, value, error in zip(self.whole[0], true, known[1][label], strict=True):
                self.answered["coefficient"] += 1
                allowed = NEAR_COEFFICIENT[self.drawn.task] * error + 0.1 * abs(value)
                if not abs(told.get(name, np.nan) - value) <= allowed:
                    text = f"{told.get(name, np.nan):.4g}"
                    self.wrong(f"coefficient, {label} {name}", text, f"{value:.4g}, standard error {error:.2g}")

    def intervals(self, model: Any) -> None:
        """Those of the full model beside least squares' or the discriminant's; R² beside that of the predictions."""
        found, y = model.intervals, self.values("y")
        goal = (y == "yes").astype(float) if self.drawn.task == "logistic" else np.asarray(y, dtype=float)
        r = model.public.model
        if r.r_squared_interval is not None:
            # Of the score itself: predictions are cut at the label's bounds, which brings them nearer.
            left = goal - self.by_hand(model.coef, model.intercept)
            self.beside(
                "R²", "of the model", r.r_squared, *r.r_squared_interval, 1 - left.var() / goal.var(), NEAR_LOSS
            )
        for line in () if found is None else found.given:
            if not line.low <= line.estimate <= line.high:
                text = f"{line.estimate:.4g} ({line.low:.4g}, {line.high:.4g})"
                self.wrong(f"interval, {line.feature}", text, "inside itself")
        # A label of one value has coefficients of any size, and no reference.
        if found is None or not found.full or not self.full_rank or goal.var() == 0:
            return
        fit, x = sm.OLS(goal, self.whole[1]).fit(), self.whole[1]
        factor = 1 / max(float((fit.resid**2).mean()), 1e-12) if self.drawn.task == "logistic" else 1.0
        names, bases = self.whole[0], {levels_of(c, k)[0] for c, k in self.drawn.columns.items() if not is_number(k)}
        for line in model.summary().intervals.to_dicts():
            if line["estimate"] is None or line["feature"] not in names or line["against"] not in {"", *bases}:
                continue
            k = names.index(line["feature"])
            scale = factor * self.units[k]
            true, error = (
                scale * float(fit.params[k + 1]),
                scale * float(fit.bse[k + 1]) * np.sqrt(1 - x.shape[1] / len(x)),
            )
            near = NEAR_ESTIMATE * error + 1e-3 * abs(true)
            self.beside("interval", line["feature"], line["estimate"], line["low"], line["high"], true, near)
            if not self.drawn.huge:
                continue
            text = f"{line['estimate']:.4g} ({line['low']:.4g}, {line['high']:.4g})"
            if abs(line["estimate"] - true) > near:
                self.wrong(f"interval, {line['feature']}", text, f"{true:.5g}, standard error {error:.2g}")
            wide = (line["high"] - line["low"]) / (2 * 1.96 * error)
            free = bool(found.caution) or self.drawn.task == "logistic"
            # An interval counts with at least a twentieth of the label's variance, however much a model explains.
            widest = WIDEST * max(1.0, np.sqrt(0.05 * goal.var() / max(fit.resid.var(), 1e-12)))
            if not wide >= NARROWEST or (not free and wide > widest):
                self.wrong(f"interval, {line['feature']}", f"{text}, {wide:.2f} times statsmodels'", "1")

    def minimum(self) -> None:
        """Of a declared objective, beside scipy's on the records in the clear."""
        model = self.ask("model, objective", self.release.solve)
        if model is None:
            return
        name = next(iter(self.drawn.frame.columns))
        a, y = signed(self.values(name), self.drawn.columns[name]), signed(self.values("y"), self.drawn.columns["y"])
        text = self.drawn.terms["objective"].replace(f"'{name}'", "A").replace(name, "A").replace("^", "**")
        code = compile(text, "objective", "eval")

        def value(w: Floats) -> float:
            known = {"y": y, "A": a, "w0": w[0], "w1": w[1]}
            return float(np.mean(eval(code, {}, known)))  # noqa: S307 - one of our own texts

        ball = [{"type": "ineq", "fun": lambda w: BALL**2 - w @ w}]
        starts = ([0.1, 0.1], [0.5, -1.0], [-0.5, 1.0])
        found = [minimize(value, s, method="SLSQP", constraints=ball, options={"ftol": 1e-12}) for s in starts]
        best = min(found, key=lambda f: f.fun)
        told = np.array([model.coef[p] for p in ("w0", "w1")])
        if np.linalg.norm(told) > BALL + 1e-6:
            self.wrong("minimum", f"{told}", f"in the ball of radius {BALL}")
        if self.drawn.huge and value(told) > best.fun + NEAR_MINIMUM:
            self.wrong("minimum", f"{value(told):.5f} at {told}", f"{best.fun:.5f} at {best.x}")

    # Rows, predictions, evaluations --------------------------------------------------------------------------------
    def rows(self) -> None:
        frame = self.release.synthesize(COUNT, anyway=True).frame
        if not self.drawn.huge:
            return
        numbers = []
        for name, kind in ((c, k) for c, k in self.drawn.columns.items() if c in frame.columns):
            if is_number(kind):
                true, got = self.values(name), frame[name].to_numpy()
                numbers.append(name)
                room = 0.02 * (kind["high"] - kind["low"])
                for what, a, b in (("mean", true.mean(), got.mean()), ("deviation", true.std(), got.std())):
                    if abs(a - b) > room + NEAR_ROWS * true.std() / np.sqrt(COUNT):
                        self.wrong(f"rows, {what} of {name}", f"{b:.4g}", f"{a:.4g}")
            elif kind["kind"] != "numeric":
                for level in kind["levels"]:
                    p, share = float((self.values(name) == level).mean()), float((frame[name] == level).mean())
                    if abs(p - share) > 0.002 + NEAR_ROWS * np.sqrt(p * (1 - p) / COUNT):
                        self.wrong(f"rows, share of {name}={level}", f"{share:.4f}", f"{p:.4f}")
        told = self.release.components() if len(numbers) > 1 else None
        for a, b in ((a, b) for a in numbers for b in numbers if a < b):
            # Only what was released together is promised, and a constant column goes with nothing.
            if told is None or a not in told.names or b not in told.names or min(self.spread(a), self.spread(b)) < 1e-9:
                continue
            true, got = (np.corrcoef(f[a].to_numpy(), f[b].to_numpy())[0, 1] for f in (self.drawn.frame, frame))
            if abs(true - got) > 0.05 + NEAR_ROWS / np.sqrt(COUNT):
                self.wrong(f"rows, correlation of {a}, {b}", f"{got:.3f}", f"{true:.3f}")

    def spread(self, name: str) -> float:
        """The deviation of a number, in parts of its range."""
        kind = self.drawn.columns[name]
        return float(self.values(name).std()) / float(kind["high"] - kind["low"])

    def by_hand(self, weights: Mapping[str, float], intercept: float) -> Floats:
        names, x = design(self.drawn, coded=False)
        score = np.full(len(x), float(intercept))
        for name, column in zip(names, x.T, strict=True):
            score += weights.get(name, 0.0) * column
        return score

    def predictions(self, folder: Path) -> None:
        """In one frame, by hand, from files, and across parties."""
        model, frame = self.models.get("ridge"), self.drawn.frame
        if model is None:
            return
        number = self.drawn.task in ("linear", "poisson")
        ask = model.predict if number else model.predict_proba
        told = np.asarray(ask(frame), dtype=float)
        if self.drawn.task == "multinomial":
            scores = [self.by_hand(model.coef[c], model.intercept[c]) for c in model.classes]
            powers = np.exp(np.stack(scores, 1) - np.max(scores, axis=0)[:, None])
            hand = powers / powers.sum(axis=1, keepdims=True)
        else:
            score, y = self.by_hand(model.coef, model.intercept), self.drawn.columns["y"]
            hand = np.clip(np.exp(score) if self.drawn.task == "poisson" else score, y.get("low"), y.get("high"))
            if self.drawn.task == "logistic":
                hand = np.stack([1 / (1 + np.exp(score)), 1 / (1 + np.exp(-score))], 1)
        self._same("prediction by hand", hand, told, 1e-6)
        files = {party: folder / f"{party}.parquet" for party in self.drawn.kinds}
        for party, own in self.drawn.kinds.items():
            frame[list(own)].write_parquet(files[party])
        needed = {p: f for p, f in files.items() if p in model.public.needs()}
        if needed:
            self._same("prediction from files", np.asarray(ask(needed), dtype=float), told, 1e-9)
        if self.drawn.product == "plain" and len(needed) > 1 and self.number % 3 == 0:
            to = next(iter(self.drawn.kinds))
            across = self.ask("prediction across parties", lambda: self.study.predict(model, to=to)["score"].to_numpy())
            if across is not None:
                shown = np.stack(across) if across.dtype == object else across
                self._same(
                    "prediction across parties", shown, told[:, 1] if self.drawn.task == "logistic" else told, 1e-4
                )

    def _same(self, where: str, other: Floats, told: Floats, near: float) -> None:
        away = np.abs(other - told)
        self.answered[where] += 1
        if not away.max() <= near * max(1.0, np.abs(told).max()):
            far = np.unravel_index(int(np.nan_to_num(away, nan=np.inf).argmax()), away.shape)
            self.wrong(where, f"{other[far]:.6g}", f"{told[far]:.6g}")

    def evaluation(self, folder: Path) -> None:
        """Intervals hold the truth; of several classes a model of one of them is evaluated."""
        model, yes = self.models.get("ridge"), "yes"
        if self.drawn.task == "multinomial":
            model, yes = self.ask("model of one class", lambda: self.release.solve("y=v", task="logistic")), "v"
        if self.drawn.task == "poisson":
            model = self.release.solve()
        if model is None:
            return
        asked = {"release": self.release, "rows": self.drawn.frame.height, "epsilon": self.drawn.epsilon}
        found = self.ask("evaluate", lambda: self.study.evaluate(model, **asked, out=folder / "e.json"))
        if found is None:
            return
        y, shares = self.values("y"), np.zeros(0)
        trivial: dict[str, float] = {}
        if model.task == "linear":
            told = self.by_hand(model.coef, model.intercept)
            low, high = self.drawn.columns["y"]["low"], self.drawn.columns["y"]["high"]
            # Scores are taken as they are, where a prediction is clipped.
            truth = {"rmse": float(np.sqrt(((y - told) ** 2).mean()))} if low < told.min() <= told.max() < high else {}
        else:
            positive, chance = y == yes, model.predict_proba(self.drawn.frame)[:, 1]
            shares = np.array([positive.mean(), 1 - positive.mean()]).clip(1e-12)
            truth = {
                "accuracy": float(np.mean((chance >= 0.5) == positive)),
                "log_loss": float(log_loss(positive, chance, labels=[False, True])),
                "brier": float(brier_score_loss(positive, chance)),
            }
            truth |= {"auc": float(roc_auc_score(positive, chance))} if 0 < positive.sum() < len(y) else {}
            trivial = {"accuracy": shares.max(), "log_loss": -(shares @ np.log(shares)), "brier": shares.prod()}
        for line in (line for line in found.frame.to_dicts() if line["low"] is not None):
            name = line["measure"]
            self.beside("evaluation", name, line["value"], line["low"], line["high"], truth.get(name), NEAR_LOSS)
            told, true = line["trivial"], trivial.get(name)
            if self.drawn.huge and told is not None and true is not None and abs(told - true) > NEAR_LOSS:
                self.wrong(f"evaluation, trivial {name}", f"{told:.4f}", f"{true:.4f}")

    # The same in every medium ----------------------------------------------------------------------------------------
    def command(self, *arguments: object) -> Any:
        told = CliRunner().invoke(app, [*map(str, arguments), "--json"])
        if told.exception is not None and not isinstance(told.exception, SystemExit):
            raise told.exception
        return json.loads(told.stdout, parse_constant=lambda text: self.wrong("--json", text, "null"))

    def media(self, folder: Path) -> None:
        """What page and --json print are the numbers of Python."""
        opened, page = folder / "release.json", folder / "page.html"
        self.release.save(opened)
        model = self.ask("model of the study", self.release.solve)
        if model is None:
            return
        public, reported = model.public.model, self.command("report", opened, "--html", page)
        text = page.read_text(encoding="utf-8")
        own = dict(zip(public.features, public.coefficients, strict=True))
        for where, told in (("solve --json", self.command("solve", opened)), ("report --json", reported)):
            self.equal(where, told["coefficients"], own)
            self.equal(where, told["intercept"], public.intercept)
            self.equal(where, told["notes"], model.notes)
            lines = told.get("intervals", {}).get("coefficients", ())
            known = {} if model.intervals is None else {i.feature: i.low for i in model.intervals.given}
            self.equal(where, {i["feature"]: i["low"] for i in lines if not i["drowned"]}, known)
        encoded = dict(shown_numbers(text, "encoded"))
        encoded.pop("intercept", None)
        # Of several classes a page has a column for each, in the data's units.
        self.equal("page", encoded, {} if model.task == "multinomial" else own)
        given = [] if model.intervals is None else model.summary().intervals.drop_nulls("estimate").to_dicts()
        own_units = [*model.params.to_dicts(), {"feature": "intercept", "estimate": None}, *given]
        expected = {(one["feature"], one["estimate"]) for one in own_units if one.get("estimate") is not None}
        found = {pair for pair in shown_numbers(text, "estimate") if pair[0] != "intercept"}
        self.equal("page", found, expected)
        if (low_high := public.r_squared_interval) is not None:
            self.has_text(
                text, f"R² on the records {public.r_squared:.3f}, 95% interval {low_high[0]:.3f} to {low_high[1]:.3f}"
            )
        for note in model.notes:
            self.has_text(" ".join(text.split()), note[1:])
        for bad in (">nan<", ">inf<", "nan to", "to nan", "Traceback", ">None<"):
            if bad in text:
                self.wrong("page", bad, "a number, or not known")
        if self.drawn.task == "objective":
            return
        tables = self.ask("tables --json", lambda: self.command("tables", opened))
        if tables is None or "margins" not in tables:
            return
        self.equal("tables --json", tables, json.loads(json.dumps(self.release.tables().to_dict())))
        frame = self.release.tables().frame
        cells = [c for m in tables["margins"] for c in m["count"]]
        cells += [c for t in tables["tables"] for row in t["count"] for c in row]
        self.equal("tables --json", cells, frame["count"].to_list())
        self.dependences(tables["dependence"])

    def dependences(self, told: Any) -> None:
        for line in (line for line in told if line["information"] is not None):
            kinds = [self.drawn.columns.get(name) for name in line["columns"]]
            if any(kind is None or is_number(kind) for kind in kinds):
                continue
            codes = [codes_of(self.values(c), k) for c, k in zip(line["columns"], kinds, strict=True) if k is not None]
            joint = np.zeros((codes[0].max() + 1, codes[1].max() + 1))
            np.add.at(joint, (codes[0], codes[1]), 1 / len(codes[0]))
            apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
            true = float((joint[joint > 0] * np.log(joint[joint > 0] / apart[joint > 0])).sum())
            what = " - ".join(line["columns"])
            self.beside(
                "mutual information", what, line["information"], line["low"], line["high"], true, NEAR_INFORMATION
            )

    def equal(self, where: str, told: Any, own: Any) -> None:
        self.answered[f"{where}, a number or list"] += 1
        if told != own:
            self.wrong(where, str(told)[:80], str(own)[:80])

    def has_text(self, page: str, text: str) -> None:
        if text not in unescape(page):
            self.wrong("page", "not there", text[:120])


def shown_numbers(page: str, what: str) -> Iterator[tuple[str, float]]:
    """The names and numbers of a page's cells of one kind, each the number that is printed in it."""
    for name, value, printed in re.findall(rf'data-{what}="([^"]*)" data-value="([^"]*)">([^<]*)<', page):
        number, shown = float(value), float(printed.replace(",", ""))
        step = 5.1e-5 if what == "encoded" else 0.51 if abs(number) >= 100 else 0.0051 * abs(number)
        yield unescape(name), number if abs(number - shown) <= step + 1e-12 else shown


PAGES = 12
"""One study in so many has rows, page and --json whatever its number."""


def look_at(numbered: tuple[int, int]) -> tuple[Look, float]:
    """One study by the seed and its number, and the CPU seconds that it took."""
    seed, i = numbered
    begun = time.process_time()
    look = Look(draw_answers(np.random.default_rng((seed, i))), i)
    look.look(i % PAGES == 0)
    look.release = look.study = None
    look.models = {}
    return look, time.process_time() - begun


def search_answers(studies: int, seed: int, only: int | None = None, jobs: int = 1) -> dict[str, Any]:
    """What is wrong in the answers of so many random studies; each is drawn again by the seed and its number."""
    kinds: Counter[str] = Counter()
    answered, refused, covered, missed = (Counter[str]() for _ in range(4))
    wrong, seconds = [], 0.0
    for look, took in in_order(look_at, [(seed, i) for i in (range(studies) if only is None else [only])], jobs):
        kinds[look.kind] += 1
        seconds += took
        for total, own in zip((answered, refused, covered, missed), _counts(look), strict=True):
            total.update(own)
        for each in look.found:
            wrong.append({"study": look.number, "kind": look.kind, **each.__dict__})
            told = f"{look.kind}: {each.where}: {each.told}, for {each.truth}"
            print(f"--seed {seed} --only {look.number}: {told}", file=sys.stderr, flush=True)
    return {
        "studies": studies if only is None else 1,
        "seed": seed,
        "kinds": dict(sorted(kinds.items())),
        "answered": dict(sorted(answered.items())),
        "refused": dict(refused.most_common()),
        "intervals_hold": {k: [covered[k], covered[k] + missed[k]] for k in sorted({*covered, *missed})},
        "wrong": wrong,
        "cpu_seconds": round(seconds, 1),
    }


def _counts(look: Look) -> tuple[Counter[str], Counter[str], Counter[str], Counter[str]]:
    return look.answered, look.refused, look.covered, look.missed


def in_order(work: Callable[[Any], Any], each: list[Any], jobs: int) -> Iterator[Any]:
    """Work on each, in so many processes."""
    if jobs < 2:
        yield from map(work, each)
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(work, each)

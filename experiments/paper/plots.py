"""Utility against epsilon, one picture for each data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from experiments.paper.document import Row
from experiments.paper.methods import APPROXIMATE, OURS, PURE
from experiments.paper.panel import BINNED
from experiments.paper.panel import Row as PanelRow

COMPARED = ("FM repaired", "DPSGD", "DPFW-C", "AdaSSP", "diffprivlib")
LEVELS = ("non-private", "majority", "mean", "w = 0")


def save(figure: Figure, path: Path) -> None:
    """Without a time stamp or a version, so that equal figures are equal bytes."""
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def utility_plot(rows: Sequence[Row], path: Path) -> None:
    """Mean and deviation of every method against epsilon; a level for each method without privacy."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    levels = {row.method: row.mean for row in rows if row.method in LEVELS and row.mean is not None}
    for style, (method, mean) in zip(("-", ":", "-.", "--"), levels.items(), strict=False):
        axes.axhline(mean, color="grey", linestyle=style, linewidth=1, label=method)
    most = max((row.parties for row in rows if row.method == OURS), default=1)
    shown = [(OURS, privacy, most, collusion) for privacy in (PURE, APPROXIMATE) for collusion in (0, 1)]
    shown += [(method, row.privacy, 1, 0) for method in COMPARED for row in rows if row.method == method]
    for key in dict.fromkeys(shown):
        own = sorted(
            (r.epsilon, r.mean, r.std)
            for r in rows
            if (r.method, r.privacy, r.parties, r.collusion) == key
            and r.epsilon is not None and r.mean is not None and r.std is not None
        )  # fmt: skip
        if own:
            ours = key[0] == OURS
            label = f"ours, {key[1]}, K={key[2]}, c={key[3]}" if ours else f"{key[0]}, {key[1]}"
            x, y, error = zip(*own, strict=True)
            axes.errorbar(
                x, y, yerr=error, marker="o" if ours else "x", linewidth=2 if ours else 1, capsize=2, label=label
            )
    axes.set_xscale("log")
    axes.set_xlabel("ε")
    axes.set_ylabel(rows[0].metric)
    axes.set_title(rows[0].data)
    trivial = [levels[name] for name in ("mean", "w = 0") if name in levels]
    if trivial and "non-private" in levels:
        # From the non-private error to a little above the better trivial one; the table has what lies beyond.
        low, span = levels["non-private"], min(trivial) - levels["non-private"]
        axes.set_ylim(low - 0.1 * span, low + 1.5 * span)
    axes.legend(fontsize=7)
    save(figure, path)


LEAST_FORETOLD, LEAST_LOST = 1e-5, 1e-3
"""Smaller shares are drawn as these."""


def forecast_plot(rows: Sequence[PanelRow], path: Path) -> None:
    """What plans foretell to be lost of the log-loss that a model without noise gains, against what releases lost."""
    figure, axes = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
    free = {row.data: row.base - row.log_loss for row in rows if row.method == "non-private"}
    for i, data in enumerate(dict.fromkeys(row.data for row in rows)):
        method = BINNED if any(r.data == data and r.method == BINNED for r in rows) else OURS
        own = [r for r in rows if r.data == data and r.method == method]
        lost = [max(1.0 - (r.base - r.log_loss) / free[data], LEAST_LOST) for r in own]
        foretold = [max(1.0 - r.explained, LEAST_FORETOLD) for r in own]
        axes.plot(foretold, lost, "os^vDP"[i // 3], color=f"C{i % 10}", markersize=4, label=data)
    axes.plot([LEAST_FORETOLD, 1], [LEAST_FORETOLD, 1], color="grey", linewidth=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(LEAST_LOST * 0.8, 2.0)
    axes.set_xlabel("predicted by the plan: share lost, the middle of its range")
    axes.set_ylabel("share lost of the log-loss gained without noise")
    axes.legend(fontsize=7, loc="lower right")
    save(figure, path)

"""The overhead study as files: json for programs, csv of every size, markdown and pictures for people."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from docs.sections import publish
from experiments.paper.overhead import Measured, Size
from experiments.paper.plots import save

COLUMNS = ("product", "n", "d", "parties", "cpu_seconds", "plain_cpu_seconds", "bytes")
Sweeps = Mapping[str, Mapping[str, Sequence[Size]]]


def write(folder: Path, content: dict[str, Any], measured: Sequence[Measured], sweeps: Sweeps) -> None:
    """All files of the study."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "overhead.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    with (folder / "overhead.csv").open("w", encoding="utf-8", newline="") as file:
        file.write(f"# command: {content['command']}\n# machine: {content['machine']}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for m in measured:
            s = m.size
            writer.writerow([s.product, s.n, s.d, s.parties, f"{m.seconds:.6g}", f"{m.plain_seconds:.6g}", m.bytes])
    publish("overhead", markdown(content, measured), beside="overhead.csv", folder=folder)
    found = {m.size: m for m in measured}
    for name in ("n", "d", "K"):
        _plot(folder / f"overhead_{name}.png", name, content, sweeps, found)


def markdown(content: Mapping[str, Any], measured: Sequence[Measured]) -> str:
    """Growth, coefficients and every size."""
    out = ["# Overhead of the secure products against n, d and K", ""]
    out += [f"- command: `{content['command']}`", f"- machine: {content['machine']}"]
    out += ["- CPU seconds of all parties and the server together; bytes sent by all parties together", ""]
    out += ["## Growth: cost goes with size to the power of", ""]
    out += ["| product | cost | n | d | K |", "|---|---|---|---|---|"]
    for product, told in content["products"].items():
        for cost in ("seconds", "bytes"):
            row = " | ".join(f"{told['growth'][name][cost]:.2f}" for name in ("n", "d", "K"))
            out.append(f"| {product} | {cost} | {row} |")
    out += ["", "Coefficients of the cost model: overhead.json."]
    out += ["", "## Sizes", "", "| product | n | d | K | CPU s | plain GEMM CPU s | ratio | MB |"]
    out.append("|---|---|---|---|---|---|---|---|")
    for m in measured:
        s = m.size
        out.append(
            f"| {s.product} | {s.n:,} | {s.d} | {s.parties} | {m.seconds:.3f} | {m.plain_seconds:.5f} | "
            f"{m.seconds / max(m.plain_seconds, 1e-9):.3g} | {m.bytes / 1e6:.2f} |"
        )
    return "\n".join(out) + "\n"


def _plot(path: Path, name: str, content: Mapping[str, Any], sweeps: Sweeps, found: Mapping[Size, Measured]) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
    for product, by in sweeps.items():
        sizes = by[name]
        x = [{"n": s.n, "d": s.d, "K": s.parties}[name] for s in sizes]
        growth = content["products"][product]["growth"][name]
        fixed = {"n": f"d={sizes[0].d}, K={sizes[0].parties}", "d": f"n={sizes[0].n}, K={sizes[0].parties}"}
        label = f"{product}, {fixed.get(name, f'n={sizes[0].n}, d={sizes[0].d}')}"
        left.loglog(x, [found[s].seconds for s in sizes], marker="o", label=f"{label}: power {growth['seconds']:.2f}")
        right.loglog(x, [found[s].bytes for s in sizes], marker="o", label=f"{label}: power {growth['bytes']:.2f}")
    left.set_ylabel("CPU seconds, all sides")
    right.set_ylabel("bytes sent, all parties")
    for axes in (left, right):
        axes.set_xlabel(name)
        axes.legend(fontsize=7)
    save(figure, path)

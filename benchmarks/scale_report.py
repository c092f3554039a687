"""Scale in docs/results/speed.md with its plots, from what benchmarks/scale.py measured; the fitted model of cost."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from docs.sections import publish

Case = Mapping[str, Any]
WORK = ("values", "sealed", "received", "transformed", "terms")
TOLD = {
    "values": "value read, checked, coded",
    "sealed": "word sealed",
    "received": "sealed word received by a peer",
    "transformed": "value multiplied with public elements",
    "terms": "term of a matrix product",
}
MARKS = "<!-- scale:begin -->", "<!-- scale:end -->"
SAID = (
    "By the model that is fitted to the measurements (results/speed.md), on cores like those; all products released, "
    "parties of equal width, no alignment. The last party multiplies what all others seal and is the busiest, the "
    "first sends the most. Written by `python benchmarks/scale.py --write`."
)
HEAD = (
    "Written by `python -m experiments scale` from `scale.json`, which `python benchmarks/scale.py --series` "
    "measured: whole studies "
    "from Parquet parts to release, all parties in one process and of equal width, Gaussian noise, all products "
    "released, no alignment but where ids are named. CPU is that after imports; fixed is that of a study of 2,000 rows "
    "in the same process; memory is the largest resident set of the process."
)


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def of(cases: Mapping[str, Case], name: str) -> list[Case]:
    key = {"rows": "rows", "columns": "columns", "parties": "parties", "gram": "rows", "ids": "rows"}[name]
    return sorted((case for case in cases.values() if case["series"] == name), key=lambda case: case[key])


def model(cases: Sequence[Case]) -> dict[str, float]:
    """CPU seconds beyond the fixed = sum over kinds of work of seconds a piece, none negative, by least squares."""
    matrix = np.array([[float(case["rows"] * case["work"][kind]) for kind in WORK] for case in cases])
    cpu, fixed = (np.array([case[key] for case in cases]) for key in ("cpu", "fixed"))
    scale = matrix.max(axis=0)
    found, _ = nnls(matrix / scale / cpu[:, None], (cpu - fixed) / cpu)
    return dict(zip(WORK, map(float, found / scale), strict=True))


def predicted(fitted: Mapping[str, float], rows: int, work: Mapping[str, int]) -> float:
    return rows * sum(fitted[kind] * work[kind] for kind in WORK)


def work_of(columns: int, parties: int) -> dict[str, int]:
    """The work of a full release in which equal parties seal for those after them."""
    each = columns // parties
    pairs = parties * (parties - 1) // 2
    return {
        "values": columns,
        "sealed": (parties - 1) * each,
        "received": pairs * each,
        "transformed": (parties - 1) * each,
        "terms": pairs * each * each + parties * each * each // 2,
    }


def table(cases: Sequence[Case]) -> list[str]:
    lines = ["| rows | columns | parties | CPU s | of which fixed | wall s | MB sent | peak MB | word bits | grid |"]
    lines.append("|" + 10 * "---|")
    for c in cases:
        lines.append(
            f"| {c['rows']:,} | {c['columns']:,} | {c['parties']} | {c['cpu']:.2f} | {c['fixed']:.2f} | "
            f"{c['wall']:.1f} | {c['bytes'] / 1e6:,.1f} | {c['peak_mb']:.0f} | {c['modulus_bits']} | {c['bound']} |"
        )
    return lines


def plot(cases: Sequence[Case], key: str, place: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(10, 3), layout="constrained")
    x = [case[key] for case in cases]
    for axis, (what, name, unit) in zip(
        axes, (("cpu", "CPU, s", 1.0), ("bytes", "sent, MB", 1e6), ("peak_mb", "peak memory, MB", 1.0)), strict=True
    ):
        axis.loglog(x, [case[what] / unit for case in cases], "o-", color="#2f5d8a")
        axis.set_xlabel(key)
        axis.set_title(name, fontsize=10)
        axis.grid(alpha=0.3, which="both")
        if what == "peak_mb":
            axis.set_yscale("linear")
            axis.set_ylim(0)
    figure.savefig(place, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


def linear(rows: Sequence[Case]) -> list[str]:
    """What the issue asks of time and memory against rows."""
    lines = []
    if len(rows) > 1:
        slope = exponent([c["rows"] for c in rows], [c["cpu"] - c["fixed"] for c in rows])
        sent = exponent([c["rows"] for c in rows], [c["bytes"] for c in rows])
        lines.append(
            f"CPU beyond the fixed grows with rows^{slope:.3f} from {rows[0]['rows']:,} to {rows[-1]['rows']:,} rows, "
            f"bytes with rows^{sent:.3f}."
        )
    peak = {case["rows"]: case["peak_mb"] for case in rows}
    if {10**6, 10**7} <= set(peak):
        change = peak[10**7] / peak[10**6] - 1
        lines.append(f"Peak memory at 10,000,000 rows is {change:+.0%} of that at 1,000,000.")
        wall = next(case["wall"] for case in rows if case["rows"] == 10**7)
        lines.append(f"10,000,000 rows and 20 columns at two parties took {wall:.0f} s of wall time.")
    return lines


def alignments(matched: Sequence[Case]) -> list[str]:
    """What of a study is the matching of ids."""
    told = ", ".join(f"{c['seconds']['align'] / c['wall']:.0%} at {c['rows']:,} rows" for c in matched)
    lines = ["All records are common, and each party has them in an order of its own; tables are read whole, into"]
    lines[-1] += f" temporary files, before ids are matched. Matching takes of the wall time: {told}. MB sent are"
    lines[-1] += " those of the products; the section on matching ids has those of matching."
    return lines


def fitted_lines(cases: Sequence[Case]) -> list[str]:
    """The fitted model, and how well it fits."""
    fitted = model(cases)
    error: NDArray[np.float64] = np.array(
        [(predicted(fitted, c["rows"], c["work"]) + c["fixed"]) / c["cpu"] - 1 for c in cases]
    )
    parts = "; ".join(f"{TOLD[kind]} {fitted[kind] * 1e9:.2f}" for kind in WORK if fitted[kind] >= 5e-12)
    off = f"off by {np.abs(error).mean():.0%} on average, {np.abs(error).max():.0%} at most, over {len(cases)} cases"
    return [f"Nanoseconds of CPU, beside the fixed: {parts}; {off}."]


def large(cases: Sequence[Case]) -> list[str]:
    """What the model says of large studies."""
    fitted = model(cases)
    titles = ("rows", "columns", "parties", "CPU, all", "CPU, busiest party", "on 16 cores", "sent, all", "sent, most")
    lines = [f"| {' | '.join(titles)} | over 10 Gbit/s |"]
    lines.append("|" + 9 * "---|")
    for rows, columns, parties, word in ((10**8, 20, 2, 7), (10**8, 200, 5, 6), (10**9, 200, 5, 7)):
        each, pairs = columns // parties, parties * (parties - 1) // 2
        total = predicted(fitted, rows, work_of(columns, parties))
        # The last party receives and multiplies what all others seal.
        last = {"values": each, "sealed": 0, "received": (parties - 1) * each, "transformed": each, "terms": 0}
        last["terms"] = (parties - 1) * each * each + each * each // 2
        busiest = predicted(fitted, rows, last)
        sent, most = pairs * each * rows * word, (parties - 1) * each * rows * word
        lines.append(
            f"| {rows:,} | {columns} | {parties} | {_time(total)} | {_time(busiest)} | {_time(busiest / 16)} | "
            f"{_size(sent)} | {_size(most)} | {_time(most * 8 / 1e10)} |"
        )
    return lines


def _time(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"


def _size(count: float) -> str:
    return f"{count / 1e12:.2f} TB" if count >= 1e12 else f"{count / 1e9:.0f} GB"


def write(cases: Mapping[str, Case], folder: Path) -> None:
    """The page and its plots."""
    parts = ["# Scale", "", HEAD, ""]
    for name, title in (("rows", "Rows"), ("columns", "Columns"), ("parties", "Parties")):
        found = of(cases, name)
        if not found:
            continue
        parts += [f"## {title}", "", *table(found), ""]
        if name == "rows":
            parts += [*linear(found), ""]
        elif len(found) > 2:
            slope = exponent([c[name] for c in found[-3:]], [c["cpu"] for c in found[-3:]])
            parts += [f"Over the last three rows of the table CPU grows with {name}^{slope:.2f}.", ""]
        plot(found, name, folder / f"scale_{name}.png")
        parts += [f"![CPU, bytes and memory against {name}](scale_{name}.png)", ""]
    if matched := of(cases, "ids"):
        parts += ["## Rows with ids to match", "", *table(matched), "", *alignments(matched), ""]
    for case in of(cases, "gram"):
        parts += ["## The local Gram", "", f"{case['rows']:,} rows, {case['columns']} columns, from Parquet parts.", ""]
        parts += ["| | CPU s | wall s |", "|---|---|---|"]
        for name in ("polars and numpy", "the same, clipped and scaled", "a party"):
            parts.append(f"| {name} | {case[name]['cpu']:.2f} | {case[name]['wall']:.2f} |")
        ratio = case["ratio"]
        parts += ["", f"A party takes {ratio['cpu']:.2f} times the CPU and {ratio['wall']:.2f} times the wall time"]
        parts[-1] += " of polars batches and numpy alone, for which it also checks, clips, rounds and stores integers."
        parts += [""]
    fitted = [case for case in cases.values() if "work" in case and case["series"] != "ids"]
    if len(fitted) > len(WORK):
        parts += ["## A model of the cost", "", *fitted_lines(fitted), "", *large(fitted), ""]
        _between(folder.parent / "sizing.md", [*large(fitted), "", SAID])
    publish("scale", "\n".join(parts).rstrip() + "\n", folder=folder)


def _between(page: Path, lines: Sequence[str]) -> None:
    """Replace what stands between a page's marks."""
    head, rest = page.read_text().split(MARKS[0])
    page.write_text("\n".join([head + MARKS[0], *lines, MARKS[1] + rest.split(MARKS[1])[1]]))

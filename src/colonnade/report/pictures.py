"""Margins, heat maps of contingency tables and the dependence tree as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import cos, pi, sin

import numpy as np
from markupsafe import Markup, escape

from colonnade.analysis.independence import Dependence
from colonnade.analysis.tables import CrossTable, Margin
from colonnade.report.answers.crosstables import information_text
from colonnade.report.charts import WIDTH, Bar, bars, drawing, short_name

CELL, LEFT = 30, 190  # points: a number of three digits, and room for names
WIDEST, ROOMY = 76, 44
"""Of a cell, and from when on its count stands in it."""
DEEPEST_COLOUR = 0.6
"""Ink stays readable on it."""
LONGEST = 24  # characters of a name beside a cell
RADIUS, NAMES = 130, 17
"""Points, and characters of a name: they fit around it."""
_short = partial(short_name, longest=LONGEST)


def heat_map(cross: CrossTable) -> Markup:
    """Each cell's count over what independence would give: blue where there are more, orange where fewer."""
    R, C = cross.count.shape
    side = min(WIDEST, (WIDTH - LEFT - 8) / C)
    total = max(float(cross.count.sum()), 1e-9)
    expected = np.outer(cross.count.sum(axis=1), cross.count.sum(axis=0)) / total
    top = 24 + 6 * max(len(_short(column)) for column in cross.columns)
    parts = []
    for a, row in enumerate(cross.rows):
        y = top + a * CELL
        parts.append(f'<text class="name" x="{LEFT - 8}" y="{y + 19}">{escape(_short(row))}</text>')
        for b, column in enumerate(cross.columns):
            ratio = (cross.count[a, b] - expected[a, b]) / max(expected[a, b], 0.002 * total)
            kind, strength = ("bar" if ratio > 0 else "less"), min(abs(float(ratio)), 1.0)
            hint = (
                f"{cross.names[0]} {row}, {cross.names[1]} {column}: {cross.count[a, b]:,.0f} "
                f"({cross.low[a, b]:,.0f} to {cross.high[a, b]:,.0f}); {expected[a, b]:,.0f} if independent"
            )
            parts.append(
                f'<g><title>{escape(hint)}</title><rect class="cell" x="{LEFT + b * side:.1f}" y="{y}" '
                f'width="{max(side - 1, side / 2):.1f}" height="{CELL - 1}"/><rect class="{kind}" '
                f'fill-opacity="{DEEPEST_COLOUR * strength:.2f}" '
                f'x="{LEFT + b * side:.1f}" y="{y}" width="{max(side - 1, side / 2):.1f}" height="{CELL - 1}"/>'
            )
            if side >= ROOMY:
                at = LEFT + (b + 0.5) * side
                parts.append(f'<text class="count" x="{at:.1f}" y="{y + 19}">{cross.count[a, b]:,.0f}</text>')
            parts.append("</g>")
    for b, column in enumerate(cross.columns):
        x = LEFT + (b + 0.6) * side
        parts.append(f'<text transform="translate({x:.1f} {top - 8}) rotate(-50)">{escape(_short(column))}</text>')
    names = f"{cross.names[0]} by {cross.names[1]}"
    return drawing(top + R * CELL + 6, f"Heat map of {names}", "Counts over those of independent columns.", parts)


def tree_picture(tree: Sequence[Dependence]) -> Markup:
    """The dependence tree on a circle: thicker lines have a larger least dependence, dashed ones could be chance."""
    names = _around(tree)
    middle, height = WIDTH / 2, 2 * RADIUS + 90
    place = {
        name: (middle + RADIUS * sin(2 * pi * k / len(names)), height / 2 - RADIUS * cos(2 * pi * k / len(names)))
        for k, name in enumerate(names)
    }
    top = max((d.low for d in tree), default=1.0) or 1.0
    parts = []
    for d in tree:
        (x1, y1), (x2, y2) = place[d.names[0]], place[d.names[1]]
        dash = ' stroke-dasharray="5 4"' if d.p_value > 0.05 else ""
        hint = f"{d.names[0]} and {d.names[1]}: {information_text(d)}, p {d.p_value:.3f}"
        width = 1.5 + 8.0 * (max(d.low, 0.0) / top) ** 0.5
        parts.append(
            f'<g><title>{escape(hint)}</title><line class="edge" stroke-width="{width:.1f}"{dash} '
            f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/></g>'
        )
    for name, (x, y) in place.items():
        anchor = "middle" if abs(x - middle) < 40 else "start" if x > middle else "end"
        shift = 0 if anchor == "middle" else 10 if anchor == "start" else -10
        below = 4 if anchor != "middle" else -12 if y < height / 2 else 22
        parts.append(f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="6"/>')
        parts.append(
            f'<text x="{x + shift:.1f}" y="{y + below:.1f}" text-anchor="{anchor}">'
            f"{escape(short_name(name, NAMES))}</text>"
        )
    told = "; ".join(f"{d.names[0]} - {d.names[1]} {d.information:.3f}" for d in tree)
    return drawing(height, "Dependence tree", told, parts)


def _around(tree: Sequence[Dependence]) -> list[str]:
    """Columns in the order of a walk through the tree, so that lines cross seldom."""
    near: dict[str, list[str]] = {}
    for d in tree:
        near.setdefault(d.names[0], []).append(d.names[1])
        near.setdefault(d.names[1], []).append(d.names[0])
    out: list[str] = []
    waiting = [max(near, key=lambda name: len(near[name]))] if near else []
    while waiting:
        name = waiting.pop()
        if name not in out:
            out.append(name)
            waiting += [other for other in reversed(near[name]) if other not in out]
    return out


def margin_picture(margin: Margin) -> Markup:
    items = [
        Bar(
            level,
            max(float(count), 0.0),
            f"{count:,.0f}",
            f"{margin.name} {level}: {count:,.0f} ({low:,.0f} to {high:,.0f})",
        )
        for level, count, low, high in zip(margin.levels, margin.count, margin.low, margin.high, strict=True)
    ]
    return bars([("", items)], f"Margin of {margin.name}", "Counts by level.")

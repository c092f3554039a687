"""Pictures of a plan and of a model as inline SVG: no script, no image file, colours from the page's style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10

from markupsafe import Markup, escape

WIDTH = 720
LABELS = 232
VALUES = 84
ROW = 24
LONGEST = 28
"""Characters of a name that fit beside a bar."""


@dataclass(frozen=True)
class Bar:
    """One bar; without a value it stands for "there is no number"."""

    name: str
    value: float | None
    told: str
    hint: str
    strong: bool = False


@dataclass(frozen=True)
class Whisker:
    """An interval with a mark in it, and where known a second mark."""

    name: str
    low: float
    high: float
    mark: float
    other: float | None
    hint: str


def bars(groups: Sequence[tuple[str, Sequence[Bar]]], title: str, description: str) -> Markup:
    """Groups of horizontal bars from zero, each with its name and its number in words."""
    top = max((b.value or 0.0 for _, group in groups for b in group), default=0.0) or 1.0
    room = WIDTH - LABELS - VALUES
    parts, y = [], 4
    for name, group in groups:
        if name:
            parts.append(f'<text class="group" x="0" y="{y + 16}">{escape(_short(name, 60))}</text>')
            y += ROW
        for bar in group:
            parts.append(_bar(bar, y, room, top))
            y += ROW - 4
        y += 10
    return drawing(y, title, description, parts)


def _bar(bar: Bar, y: int, room: int, top: float) -> str:
    label = f'<text class="name" x="{LABELS - 10}" y="{y + 14}">{escape(_short(bar.name))}</text>'
    if bar.value is None:
        shape = f'<rect class="none" x="{LABELS}" y="{y + 3}" width="{room}" height="14"/>'
        value = f'<text class="warn" x="{LABELS + 8}" y="{y + 14}">{escape(bar.told)}</text>'
    else:
        width = max(1.5, room * bar.value / top)
        kind = "bar strong" if bar.strong else "bar"
        shape = f'<rect class="{kind}" x="{LABELS}" y="{y + 3}" width="{width:.1f}" height="14" rx="2"/>'
        value = f'<text class="value" x="{LABELS + width + 6:.1f}" y="{y + 14}">{escape(bar.told)}</text>'
    return f"<g><title>{escape(bar.hint)}</title>{label}{shape}{value}</g>"


def signed_bars(items: Sequence[Bar], title: str, description: str) -> Markup:
    """Bars to the left and right of zero."""
    far = max((abs(b.value or 0.0) for b in items), default=0.0) or 1.0
    room = (WIDTH - LABELS) / 2 - 70
    zero = LABELS + 70 + room
    parts, y = [], 4
    for bar in items:
        length = room * abs(bar.value or 0.0) / far
        left = zero - length if (bar.value or 0.0) < 0 else zero
        anchor, at = ("end", left - 6) if (bar.value or 0.0) < 0 else ("start", left + length + 6)
        parts.append(
            f'<g><title>{escape(bar.hint)}</title><text class="name" x="{LABELS - 10}" y="{y + 14}">'
            f'{escape(_short(bar.name))}</text><rect class="bar" x="{left:.1f}" y="{y + 3}" '
            f'width="{max(length, 1):.1f}" height="14" rx="2"/>'
            f'<text class="value" x="{at:.1f}" y="{y + 14}" text-anchor="{anchor}">{escape(bar.told)}</text></g>'
        )
        y += ROW - 2
    parts.append(f'<line class="axis" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{y}"/>')
    return drawing(y + 4, title, description, parts)


def whiskers(items: Sequence[Whisker], title: str, description: str) -> Markup:
    """Intervals on one axis with zero marked."""
    low = min(0.0, *(w.low for w in items))
    high = max(0.0, *(w.high for w in items))
    step = _step(high - low, 5)
    low, high = floor(low / step) * step, -floor(-high / step) * step
    room = WIDTH - LABELS - 20

    def x(value: float) -> float:
        return LABELS + room * (value - low) / (high - low)

    parts, y, bottom = [], 4, 4 + (ROW - 2) * len(items)
    for k in range(round((high - low) / step) + 1):
        tick = low + k * step
        kind = "axis" if abs(tick) < step / 2 else "grid"
        parts.append(f'<line class="{kind}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="0" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x(tick):.1f}" y="{bottom + 16}">{tick:g}</text>')
    for item in items:
        middle = y + 10
        second = "" if item.other is None else f'<path class="other" d="{_diamond(x(item.other), middle)}"/>'
        parts.append(
            f'<g><title>{escape(item.hint)}</title><text class="name" x="{LABELS - 10}" y="{y + 14}">'
            f'{escape(_short(item.name))}</text><line class="whisker" x1="{x(item.low):.1f}" x2="{x(item.high):.1f}" '
            f'y1="{middle}" y2="{middle}"/><circle class="mark" cx="{x(item.mark):.1f}" cy="{middle}" r="4"/>'
            f"{second}</g>"
        )
        y += ROW - 2
    return drawing(bottom + 24, title, description, parts)


def curve(points: Sequence[tuple[float, float]], here: float, title: str, description: str) -> Markup:
    """A share between 0 and 1 against epsilon on a logarithmic axis, with the present epsilon marked."""
    left, right, top, bottom = 56, WIDTH - 24, 14, 250
    first, last = log10(points[0][0]), log10(points[-1][0])

    def x(epsilon: float) -> float:
        return left + (right - left) * (log10(epsilon) - first) / ((last - first) or 1.0)

    def y(share: float) -> float:
        return bottom - (bottom - top) * share

    parts = []
    for percent in range(0, 101, 25):
        at = y(percent / 100)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="value" text-anchor="end" x="{left - 8}" y="{at + 4:.1f}">{percent}%</text>')
    for epsilon, _ in points:
        parts.append(f'<text class="tick" x="{x(epsilon):.1f}" y="{bottom + 18}">{epsilon:.3g}</text>')
    parts.append(f'<text class="tick" x="{(left + right) / 2:.0f}" y="{bottom + 38}">epsilon of a whole record</text>')
    if here > 0 and first <= log10(here) <= last:
        parts.append(f'<line class="here" x1="{x(here):.1f}" x2="{x(here):.1f}" y1="{top}" y2="{bottom}"/>')
    line = " ".join(f"{x(e):.1f},{y(s):.1f}" for e, s in points)
    parts.append(f'<polyline class="line" points="{line}"/>')
    for epsilon, share in points:
        parts.append(
            f"<g><title>epsilon {epsilon:.3g}: {100 * share:.1f}%</title>"
            f'<circle class="mark" cx="{x(epsilon):.1f}" cy="{y(share):.1f}" r="4"/></g>'
        )
    return drawing(bottom + 46, title, description, parts)


def drawing(height: float, title: str, description: str, parts: Sequence[str]) -> Markup:
    """A picture of already escaped parts, with its description for those who do not see it."""
    return Markup(  # noqa: S704 - every text in `parts` went through escape
        f'<svg role="img" aria-label="{escape(title)}. {escape(description)}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _diamond(x: float, y: float) -> str:
    return f"M{x - 5:.1f} {y}L{x:.1f} {y - 5}L{x + 5:.1f} {y}L{x:.1f} {y + 5}Z"


def _step(span: float, wanted: int) -> float:
    """1, 2 or 5 times a power of ten, so that about `wanted` steps fill the span."""
    raw = span / wanted if span > 0 and isfinite(span) else 1.0
    power: float = 10.0 ** floor(log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw)


def _short(name: str, longest: int = LONGEST) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"

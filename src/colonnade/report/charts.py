"""Pictures of a plan and of a model as inline SVG: no script, no image file, colours from the page's style sheet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import Any

from markupsafe import Markup, escape

WIDTH = 560  # points: what a phone shows whole, with letters that can be read
NARROW = 400
"""Of a picture beside a text."""
SCALE = (0.01, 100.0)
"""Ends of the scale of epsilon."""
LABELS = 206  # points: room for a name, and for a value behind its bar
VALUES = 76  # points: a number of five digits
ROW = 24  # points: a line of text with room
LONGEST = 23
"""Characters of a name that fit beside a bar."""


@dataclass(frozen=True)
class Bar:
    """One bar; without a value it stands for "there is no number"."""

    name: str
    value: float | None
    told: str
    hint: str
    strong: bool = False
    hollow: bool = False
    """Of a value that noise could explain."""


@dataclass(frozen=True)
class IntervalBar:
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
            parts.append(f'<text class="group" x="0" y="{y + 16}">{escape(short_name(name, 60))}</text>')
            y += ROW
        for bar in group:
            parts.append(_bar(bar, y, room, top))
            y += ROW - 4
        y += 10
    return drawing(y, title, description, parts)


def _bar(bar: Bar, y: int, room: int, top: float) -> str:
    label = f'<text class="name" x="{LABELS - 10}" y="{y + 14}">{escape(short_name(bar.name))}</text>'
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
    room = (WIDTH - LABELS) / 2 - 66
    zero = LABELS + 66 + room
    parts, y = [], 4
    for bar in items:
        length = room * abs(bar.value or 0.0) / far
        left = zero - length if (bar.value or 0.0) < 0 else zero
        anchor, at = ("end", left - 6) if (bar.value or 0.0) < 0 else ("start", left + length + 6)
        kind = "bar hollow" if bar.hollow else "bar"
        parts.append(
            f'<g><title>{escape(bar.hint)}</title><text class="name" x="{LABELS - 10}" y="{y + 14}">'
            f'{escape(short_name(bar.name))}</text><rect class="{kind}" x="{left:.1f}" y="{y + 3}" '
            f'width="{max(length, 1):.1f}" height="14" rx="2"/>'
            f'<text class="value" x="{at:.1f}" y="{y + 14}" text-anchor="{anchor}">{escape(bar.told)}</text></g>'
        )
        y += ROW - 2
    parts.append(f'<line class="axis" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{y}"/>')
    return drawing(y + 4, title, description, parts)


def whiskers(items: Sequence[IntervalBar], title: str, description: str) -> Markup:
    """Intervals on one axis with zero marked."""
    ends = [0.0, *(end for w in items for end in (w.low, w.high, w.mark, w.other) if end is not None)]
    low, high = min(ends), max(ends) if any(ends) else 1.0
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
            f'{escape(short_name(item.name))}</text><line class="whisker" x1="{x(item.low):.1f}" '
            f'x2="{x(item.high):.1f}" y1="{middle}" y2="{middle}"/>'
            f'<circle class="{"mark hollow" if item.low <= 0 <= item.high else "mark"}" cx="{x(item.mark):.1f}" '
            f'cy="{middle}" r="4"/>'
            f"{second}</g>"
        )
        y += ROW - 2
    return drawing(bottom + 24, title, description, parts)


def curve(points: Sequence[tuple[float, float]], here: float, title: str, description: str) -> Markup:
    """A share between 0 and 1 against epsilon on a logarithmic axis, with the present epsilon marked."""
    return curves({"": points}, here, title, description)


def curves(
    lines: Mapping[str, Sequence[tuple[float, float]]], here: float, title: str, description: str, floor: float = 0.0
) -> Markup:
    """Several named shares, between a floor and 1, against epsilon."""
    left, right, top, bottom = 56, WIDTH - (140 if len(lines) > 1 else 24), 14, 250
    points = next(iter(lines.values()))
    first, last = log10(points[0][0]), log10(points[-1][0])

    def x(epsilon: float) -> float:
        return left + (right - left) * (log10(epsilon) - first) / ((last - first) or 1.0)

    def y(share: float) -> float:
        return bottom - (bottom - top) * (share - floor) / (1 - floor)

    parts = []
    for k in range(5):
        share = floor + (1 - floor) * k / 4
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y(share):.1f}" y2="{y(share):.1f}"/>')
        place = f'x="{left - 8}" y="{y(share) + 4:.1f}"'
        parts.append(f'<text class="value" text-anchor="end" {place}>{100 * share:.3g}%</text>')
    for epsilon, _ in points:
        parts.append(f'<text class="tick" x="{x(epsilon):.1f}" y="{bottom + 18}">{epsilon:.3g}</text>')
    parts.append(f'<text class="tick" x="{(left + right) / 2:.0f}" y="{bottom + 38}">epsilon of a whole record</text>')
    if here > 0 and first <= log10(here) <= last:
        parts.append(f'<line class="here" x1="{x(here):.1f}" x2="{x(here):.1f}" y1="{top}" y2="{bottom}"/>')
    for name, found in lines.items():
        line = " ".join(f"{x(e):.1f},{y(s):.1f}" for e, s in found)
        parts.append(f'<polyline class="line" points="{line}"/>')
        if name:
            parts.append(f'<text x="{right + 10}" y="{y(found[-1][1]) + 4:.1f}">{escape(name)}</text>')
        for epsilon, share in found:
            hint = f"{name + ', ' if name else ''}epsilon {epsilon:.3g}: {100 * share:.1f}%"
            parts.append(
                f'<g><title>{escape(hint)}</title><circle class="mark" cx="{x(epsilon):.1f}" cy="{y(share):.1f}" '
                'r="4"/></g>'
            )
    return drawing(bottom + 46, title, description, parts)


def epsilon_scale(
    here: float, told: str, others: Sequence[tuple[str, float]], tiers: Sequence[tuple[str, float]], description: str
) -> Markup:
    """A logarithmic scale of epsilon with named stretches, one mark with its number, and small marks beneath."""
    left, right, top = 10, NARROW - 10, 44
    low, high = SCALE

    def x(epsilon: float) -> float:
        return left + (right - left) * log10(min(max(epsilon, low), high) / low) / log10(high / low)

    parts, start = [], low
    for k, (name, most) in enumerate(tiers):
        end = min(most, high)
        parts.append(
            f'<rect class="tier tier{k}" x="{x(start):.1f}" y="{top}" width="{x(end) - x(start):.1f}" height="18"/>'
            f'<text class="tick" x="{(x(start) + x(end)) / 2:.1f}" y="{top + 13.5}">{escape(name)}</text>'
        )
        start = end
    for tick in (0.01, 0.1, 1, 10, 100):
        parts.append(f'<line class="axis" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top + 18}" y2="{top + 24}"/>')
        anchor = "start" if tick == low else "end" if tick == high else "middle"
        parts.append(f'<text class="small" x="{x(tick):.1f}" y="{top + 37}" text-anchor="{anchor}">{tick:g}</text>')
    for name, value in others:
        at = x(value)
        parts.append(
            f"<g><title>{escape(name)}: {value:.4g}</title>"
            f'<circle class="mark" cx="{at:.1f}" cy="{top + 9}" r="3.5"/></g>'
        )
    at = x(here)
    anchor = "start" if at < 60 else "end" if at > NARROW - 60 else "middle"
    parts.append(f'<path class="here-mark" d="M{at:.1f} {top - 2}l-7 -11h14z"/>')
    parts.append(
        f'<text class="group" x="{at:.1f}" y="{top - 18}" text-anchor="{anchor}">epsilon {escape(told)}</text>'
    )
    return drawing(top + 42, "Epsilon on a scale", description, parts, NARROW)


def drawing(height: float, title: str, description: str, parts: Sequence[str], width: int = WIDTH) -> Markup:
    """A picture of already escaped parts, with its description for those who do not see it."""
    narrow = ' class="narrow"' if width < WIDTH else ""
    picture = (
        f'<svg role="img"{narrow} aria-label="{escape(title)}. {escape(description)}" '
        f'viewBox="0 0 {width} {height:.0f}" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
    if not narrow:
        # On a phone it keeps its size and scrolls: the keyboard must get there.
        picture = f'<div class="scroll" role="region" aria-label="{escape(title)}" tabindex="0">{picture}</div>'
    return Markup(picture)  # noqa: S704 - every text in `parts` went through escape


def _diamond(x: float, y: float) -> str:
    return f"M{x - 5:.1f} {y}L{x:.1f} {y - 5}L{x + 5:.1f} {y}L{x:.1f} {y + 5}Z"


def _step(span: float, wanted: int) -> float:
    """1, 2 or 5 times a power of ten, so that about `wanted` steps fill the span."""
    raw = span / wanted if span > 0 and isfinite(span) else 1.0
    power: float = 10.0 ** floor(log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= raw)


def noise_picture(plan: Mapping[str, Any], most: int) -> Markup:
    """Noise of each block against the largest sum that n records can have; the noisiest first."""
    n = plan["n"]
    items = [
        Bar(
            b["name"],
            b["noise_std"] / n,
            f"{100 * b['noise_std'] / n:.3g}%",
            f"{b['name']}: noise of standard deviation {b['noise_std']:.4g} on {b['terms']} numbers of at most {n}",
        )
        for b in sorted(plan["blocks"], key=lambda b: -b["noise_std"])[:most]
    ]
    return bars([("", items)], "Noise of each block, as a share of n", "; ".join(f"{b.name} {b.told}" for b in items))


def short_name(name: str, longest: int = LONGEST) -> str:
    """A name without its middle: long names often differ at their ends."""
    left = (longest - 1) // 2
    return name if len(name) <= longest else f"{name[:left]}…{name[left + 1 - longest :]}"

"""Principal components of a release's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colonnade.report.results import Answer, Figure, Heading, Listing, Passage

if TYPE_CHECKING:
    from markupsafe import Markup

    from colonnade.analysis.components import Components

SHOWN_LOADINGS = 6  # the largest, on one line
TITLE = "Principal components of the coded columns (levels 0 or 1, numbers from -1 to 1)"
COLUMNS = (
    Heading("component", "component"),
    Heading("share", "share", "{:.3f}".format, True),
    Heading("of all", "total", "{:.3f}".format, True),
    Heading("largest loadings", "loadings"),
)


def principal(found: Components, shown: int) -> Answer:
    """The first components by their largest loadings."""
    count = min(shown, len(found.share))
    records: list[dict[str, Any]] = []
    for k in range(count):
        order = sorted(range(len(found.names)), key=lambda c, k=k: -abs(found.loadings[k, c]))[:SHOWN_LOADINGS]  # type: ignore[misc]
        told = ", ".join(f"{found.names[c]} {found.loadings[k, c]:+.2f}" for c in order)
        share, total = float(found.share[k]), float(found.share[: k + 1].sum())
        records.append({"component": k + 1, "share": share, "total": total, "loadings": told})

    def facts() -> dict[str, Any]:
        return {
            "columns": list(found.names),
            "share": found.share[:count].tolist(),
            "loadings": found.loadings[:count].tolist(),
            "correlations": found.correlations.tolist(),
            "low": found.low.tolist(),
            "high": found.high.tolist(),
            "clear": found.clear,
            "notes": found.notes(),
        }

    table = Listing(COLUMNS, records, picture=Figure(lambda: _picture([r["share"] for r in records])))
    return Answer(TITLE, [table, *(Passage(note, "soft") for note in found.notes())], facts)


def _picture(shares: list[float]) -> Markup:
    from colonnade.report.charts import Bar, bars

    told = [(f"component {k}", share, f"{100 * share:.1f}%") for k, share in enumerate(shares, 1)]
    items = [Bar(name, share, text, f"{name}: {text}") for name, share, text in told]
    return bars([("", items)], "Share of the variance", "; ".join(item.hint for item in items))

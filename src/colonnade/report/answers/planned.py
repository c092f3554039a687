"""A plan as tables: whose columns are used, the epsilon of every view, the blocks of the release with their noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from colonnade.report.results import Figure, Heading, Listing, Words
from colonnade.report.text import VIEWS, epsilon_text

if TYPE_CHECKING:
    from markupsafe import Markup

MOST_COLUMNS = 24
SHOWN_BLOCKS = 40
NOISE = "Standard deviation of the noise on each released number, as a share of n, the largest value of such a sum."


def columns_of(plan: Mapping[str, Any], label: str) -> Listing:
    """Whose columns are used."""
    records = []
    for name, party in plan["parties"].items():
        told = [f"{c} (label)" if label in (c, f"{name}.{c}") else c for c in party["columns"]]
        if len(told) > MOST_COLUMNS:
            told = [*told[: MOST_COLUMNS - 4], f"and {len(told) - MOST_COLUMNS + 4} more"]
        records.append({"party": name, "columns": ", ".join(told)})
    return Listing((Heading("party", "party"), Heading("columns", "columns")), records, "Whose columns")


def epsilons_of(plan: Mapping[str, Any]) -> Listing:
    """The epsilon of each party's data and of the record, against every view."""
    # A party that is alone has no other party to look: that is no missing guarantee.
    absent = ("party", "coalition") if len(plan["parties"]) == 1 else ()
    nobody = dict.fromkeys(absent, Words("-", "soft"))
    records = [{"name": name, **party["epsilon"], **nobody} for name, party in plan["parties"].items()]
    last = {"name": "all parties", **plan["record"], **nobody}
    views = [Heading(name, view, epsilon_text, True, Words("none", "warn")) for view, name in VIEWS.items()]
    title = "Epsilon, by whose data and who looks"
    return Listing((Heading("data of", "name"), *views), records, title, last=last)


def blocks_of(plan: Mapping[str, Any]) -> Listing:
    """What is released and how much noise is on it."""
    records = [
        {**block, "made": "alone" if len(block["owners"]) == 1 else "product", "share": block["noise_std"] / plan["n"]}
        for block in plan["blocks"]
    ]
    numbers = {"sensitivity": "sensitivity", "scale": "scale b" if plan["law"] == "laplace" else "sigma"}
    columns = [Heading("block", "name"), Heading("made", "made"), Heading("numbers", "terms", "{:,}".format, True)]
    columns += [
        Heading(head, key, "{:.4g}".format, True) for key, head in {**numbers, "noise_std": "noise std"}.items()
    ]
    columns.append(Heading("of n", "share", lambda share: f"{100 * share:.3g}%", True))
    title = "Blocks of the release, made by the owner alone or by a secure product"
    return Listing(columns, records, title, picture=Figure(lambda: _noise(plan), NOISE))


def _noise(plan: Mapping[str, Any]) -> Markup:
    from colonnade.report.charts import noise_picture

    return noise_picture(plan, SHOWN_BLOCKS)

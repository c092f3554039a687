"""A plan, a run, a release and a model as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from colonnade.foundation.schema import Binary, Categorical, Numeric
from colonnade.mechanism.solve import Model
from colonnade.scoring import PublicModel

VIEWS = {"outsider": "outsider", "server": "server", "party": "another party", "coalition": "coalition"}
SHOWN = 16
"""Coefficients that a terminal shows."""


def epsilon_text(value: float | None) -> str:
    """Four digits, rounded up: a promise is never overstated; "none" where there is none."""
    if value is None:
        return "none"
    return f"{Context(prec=4, rounding=ROUND_CEILING).create_decimal(Decimal(value)).normalize():f}"


def size_text(count: float) -> str:
    """A number of bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


def time_text(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 9.5 else f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"


def _table(title: str, *columns: str, right: Sequence[int] = ()) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i in right else "left", no_wrap=i in right)
    return table


def heading(plan: Mapping[str, Any], label: str, assumed: bool = False) -> Text:
    """What is computed, and under which terms."""
    out = Text()
    out.append(f"{plan['study']}", style="bold")
    out.append(f": {plan['task']} regression of ")
    out.append(label, style="bold")
    out.append(f" over {plan['n']:,} records")
    if assumed:
        out.append(" (rows assumed: set rows in [study] or give --rows)", style="yellow")
    pure = "pure" if not plan["delta"] else f"delta {plan['delta']:g}"
    noise = {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian"}[plan["law"]]
    out.append(
        f"\nepsilon {epsilon_text(plan['epsilon'])} for a whole record, {pure}, {noise} noise; "
        f"neighbours: {plan['neighbours']}"
        f"\nproduct {plan['product']}, collusion {plan['collusion']}, calibration {plan['calibration']}, "
        f"release {plan['release']}"
    )
    return out


def columns_table(plan: Mapping[str, Any], label: str) -> Table:
    """Whose columns are used."""
    table = _table("Whose columns", "party", "columns")
    for name, party in plan["parties"].items():
        shown = [f"{c} (label)" if label in (c, f"{name}.{c}") else c for c in party["columns"]]
        if len(shown) > 24:
            shown = [*shown[:20], f"and {len(shown) - 20} more"]
        table.add_row(Text(name), Text(", ".join(shown)))
    return table


def epsilon_table(plan: Mapping[str, Any]) -> Table:
    """The epsilon of each party's data and of the record, against every view."""
    table = _table(
        "Epsilon, by whose data and who looks", "data of", *VIEWS.values(), right=range(1, 1 + len(VIEWS))
    )
    for name, party in plan["parties"].items():
        table.add_row(Text(name), *(_epsilon(party["epsilon"][view]) for view in VIEWS))
    table.add_section()
    table.add_row(Text("all parties", style="bold"), *(_epsilon(plan["record"][view]) for view in VIEWS))
    return table


def _epsilon(value: float | None) -> Text:
    return Text(epsilon_text(value), style="red" if value is None else "")


def blocks_table(plan: Mapping[str, Any]) -> Table:
    """What is released and how much noise is on it."""
    scale = {"laplace": "scale b", "gaussian": "sigma"}[plan["law"]]
    table = _table(
        "Blocks of the release",
        "block",
        "computed by",
        "numbers",
        "sensitivity",
        scale,
        "noise (std)",
        right=(2, 3, 4, 5),
    )
    for block in plan["blocks"]:
        alone = len(block["owners"]) == 1
        table.add_row(
            Text(block["name"]),
            Text(f"{block['owners'][0]} alone" if alone else "secure product"),
            f"{block['terms']:,}",
            f"{block['sensitivity']:.4g}",
            f"{block['scale']:.4g}",
            f"{block['noise_std']:.4g}",
        )
    return table


def forecast_text(plan: Mapping[str, Any]) -> Text:
    """What to expect of the model."""
    forecast = plan["forecast"]
    if forecast["noise_to_signal"] is None:
        return Text("")
    share = forecast["explained"]
    return Text(
        f"Predicted error: noise is {forecast['noise_to_signal']:.3g} times the largest possible signal, which leaves "
        f"about {100 * share:.0f}% of what a model without noise could explain; at {forecast['rows_needed']:,} records "
        "noise and signal would be equal."
    )


def cost_text(sent: Mapping[str, int], seconds: Mapping[str, float]) -> Text:
    """Bytes and time that a plan expects."""
    told = ", ".join(f"{name} {size_text(count)}" for name, count in sent.items())
    took = ", ".join(f"{step} {time_text(value)}" for step, value in seconds.items())
    return Text(f"Expected: each party sends {told}; CPU time of all together: {took}.")


def plan_report(
    plan: Mapping[str, Any], label: str, cost: RenderableType | None = None, assumed: bool = False
) -> RenderableType:
    """A whole plan."""
    parts: list[RenderableType] = [
        heading(plan, label, assumed),
        "",
        columns_table(plan, label),
        epsilon_table(plan),
        blocks_table(plan),
        forecast_text(plan),
    ]
    return Group(*parts, *([] if cost is None else [cost]))


def model_report(public: PublicModel, shown: int = SHOWN) -> RenderableType:
    """A model, largest coefficients first."""
    model = public.model
    name, column, level = public.label
    if model.task == "logistic":
        what = f"Model: log-odds of {name} = {level}"
    elif level is None and isinstance(column, Numeric):
        what = f"Model: {name}, with {column.low:g} as -1 and {column.high:g} as 1"
    else:
        what = f"Model: share of {name} = {level}"
    table = _table(what, "feature", "party", "coefficient", "coded as", right=(2,))
    ordered = sorted(zip(model.features, model.coefficients, strict=True), key=lambda item: -abs(item[1]))
    for feature, coefficient in ordered[:shown]:
        party, owner = public.owner(feature)
        table.add_row(Text(feature), Text(party), f"{coefficient:+.4f}", Text(_coded(public, party, owner, feature)))
    if len(ordered) > shown:
        table.add_row(Text(f"and {len(ordered) - shown} smaller ones", style="dim"), "", "", "")
    table.add_section()
    table.add_row(Text("intercept"), "", f"{model.intercept:+.4f}", "")
    return Group(table, _quality(model))


def _quality(model: Model) -> Text:
    parts = [f"method {model.method}", f"{model.freedom:.3g} effective parameters"]
    if model.ridge == model.ridge and model.ridge not in (float("inf"), 0.0):
        parts.append(f"ridge {model.ridge:.3g} per record")
    if model.r_squared == model.r_squared:
        parts.append(f"R² {model.r_squared:.3f} by the release itself")
    return Text("; ".join(parts), style="dim")


def _coded(public: PublicModel, party: str, name: str, feature: str) -> str:
    column = public.schema.parties[party][name]
    if isinstance(column, Numeric) and not column.bins:
        return f"{column.low:g} is -1, {column.high:g} is 1"
    if isinstance(column, Binary):
        return f"1, against {column.levels[0]}"
    if isinstance(column, Categorical):
        return f"1, against {column.drop or column.all_levels[0]}"
    return f"1, against {column.levels_of(name)[0]}"


def path_table(models: Sequence[PublicModel]) -> Table:
    """One line for each ridge: how the largest coefficients shrink."""
    first = models[0].model
    largest = sorted(range(len(first.features)), key=lambda i: -abs(first.coefficients[i]))[:5]
    table = _table(
        f"Ridge path of {first.label}",
        "ridge",
        "effective parameters",
        "R²",
        *(first.features[i] for i in largest),
        right=range(3 + len(largest)),
    )
    for public in models:
        model = public.model
        known = model.r_squared == model.r_squared
        table.add_row(
            f"{model.ridge:.3g}",
            f"{model.freedom:.3g}",
            f"{model.r_squared:.3f}" if known else "unknown",
            *(f"{model.coefficients[i]:+.4f}" for i in largest),
        )
    return table


def traffic_table(sent: Mapping[str, int], received: Mapping[str, int], seconds: Mapping[str, float]) -> RenderableType:
    """What a run took."""
    table = _table("Traffic of the session", "party", "sent", "received", right=(1, 2))
    for name in sent:
        table.add_row(Text(name), size_text(sent[name]), size_text(received[name]))
    took = ", ".join(f"{step} {value:.2f} s" for step, value in seconds.items())
    total = f"{sum(seconds.values()):.1f} seconds: {took}."
    return Group(table, Text(f"{total} The private matching of ids is timed, but its bytes are not in the table."))


def provenance_report(provenance: Mapping[str, Any]) -> RenderableType:
    """Where a release comes from, and what takes its guarantee away."""
    lines = [
        Text(f"session {provenance['session'][:16]}…, plan {provenance['plan_digest'][:16]}…, ", style="dim").append(
            f"transcript {provenance['transcript_digest'][:16]}…, colonnade {provenance['colonnade']}"
        )
    ]
    return Group(*lines, *(caution(note) for note in flaws(provenance)))


def flaws(provenance: Mapping[str, Any]) -> list[str]:
    """Why a release's epsilon is no promise, if it is none."""
    out = []
    if provenance["seeded"]:
        out.append("the noise came from a seed: whoever knows it can remove the noise, so no epsilon holds")
    if provenance["simulation"]:
        out.append('product "plain" showed columns in the clear: no epsilon holds against the server or a party')
    return out


def caution(note: str) -> Padding:
    return Padding(Text.assemble(("warning: ", "bold yellow"), note), 0)

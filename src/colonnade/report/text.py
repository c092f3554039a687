"""A plan, a run, a release and a model as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from colonnade.mechanism.forecast import weakly_explained
from colonnade.report.tidy import tidy_table as tidy_table

if TYPE_CHECKING:
    from colonnade.mechanism.cuts import Binning
    from colonnade.planning.prediction import Prediction

VIEWS = {"outsider": "outsider", "server": "server", "party": "another party", "coalition": "coalition"}
SHOWN = 16
"""Coefficients that a terminal shows."""


def epsilon_text(value: float | None) -> str:
    """Four digits, rounded up: a promise is never overstated; "none" where there is none."""
    if value is None:
        return "none"
    return f"{Context(prec=4, rounding=ROUND_CEILING).create_decimal(Decimal(repr(float(value)))).normalize():f}"


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


def titled(title: str, *parts: RenderableType) -> RenderableType:
    return Group(Text(title, style="bold"), *parts)


def heading(plan: Mapping[str, Any], label: str, assumed: bool = False) -> Text:
    """What is computed, and under which terms."""
    out = Text()
    out.append(f"{plan['study']}", style="bold")
    if "objective" in plan:
        out.append(": minimum, for parameters of norm up to ")
        out.append(f"{plan['ball']:g}, of the sum of ")
        out.append(plan["objective"], style="bold")
    else:
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
        f"release {plan['released']}"
    )
    return out


def columns_table(plan: Mapping[str, Any], label: str) -> RenderableType:
    """Whose columns are used."""
    table = tidy_table("party", "columns")
    for name, party in plan["parties"].items():
        shown = [f"{c} (label)" if label in (c, f"{name}.{c}") else c for c in party["columns"]]
        if len(shown) > 24:
            shown = [*shown[:20], f"and {len(shown) - 20} more"]
        table.add_row(Text(name), Text(", ".join(shown)))
    return titled("Whose columns", table)


def epsilon_table(plan: Mapping[str, Any]) -> RenderableType:
    """The epsilon of each party's data and of the record, against every view."""
    table = tidy_table("data of", *VIEWS.values(), right=range(1, 1 + len(VIEWS)))
    for name, party in plan["parties"].items():
        table.add_row(Text(name), *_epsilons(plan, party["epsilon"]))
    table.add_section()
    table.add_row(Text("all parties", style="bold"), *_epsilons(plan, plan["record"]))
    return titled("Epsilon, by whose data and who looks", table)


def _epsilons(plan: Mapping[str, Any], by_view: Mapping[str, float | None]) -> list[Text]:
    """A party that is alone has no other party to look: that is no missing guarantee."""
    out = []
    for view in VIEWS:
        if len(plan["parties"]) == 1 and view in ("party", "coalition"):
            out.append(Text("-", style="dim"))
        else:
            out.append(Text(epsilon_text(by_view[view]), style="red" if by_view[view] is None else ""))
    return out


def blocks_table(plan: Mapping[str, Any]) -> RenderableType:
    """What is released and how much noise is on it."""
    scale = {"laplace": "scale b", "gaussian": "sigma"}[plan["law"]]
    table = tidy_table("block", "made", "numbers", "sensitivity", scale, "noise std", right=(2, 3, 4, 5))
    for block in plan["blocks"]:
        alone = len(block["owners"]) == 1
        table.add_row(
            Text(block["name"]),
            "alone" if alone else "product",
            f"{block['terms']:,}",
            f"{block['sensitivity']:.4g}",
            f"{block['scale']:.4g}",
            f"{block['noise_std']:.4g}",
        )
    return titled("Blocks of the release, made by the owner alone or by a secure product", table)


def share_text(share: float) -> str:
    """A share in words that do not claim more than a forecast can: never all of it, never nothing."""
    if share >= 0.995:
        return "over 99%"
    return "under 1%" if share < 0.005 else f"about {100 * share:.0f}%"


def forecast_text(plan: Mapping[str, Any]) -> Text:
    """What to expect of the model, and what is taken for granted in it."""
    forecast = plan["forecast"]
    if forecast["noise_to_signal"] is None:
        return Text("")
    out = Text(
        "Predicted error, from public facts alone. If every numeric column fills its bounds evenly and all levels are "
        f"equally common, noise is {forecast['noise_to_signal']:.3g} times the largest possible signal, which leaves "
        f"{share_text(forecast['explained'])} of what a model of the same columns without noise could explain; at "
        f"{forecast['rows_needed']:,} records noise and signal would be equal."
    )
    out.append(
        " That is for a label that its columns explain wholly; where they explain a tenth of it, expect "
        f"{share_text(weakly_explained(forecast['noise_to_signal']))}."
    )
    tenth = forecast.get("if_a_tenth")
    if tenth is not None and tenth["noise_to_signal"] != forecast["noise_to_signal"]:
        out.append(
            f" If numeric columns fill a tenth of their bounds, noise is {tenth['noise_to_signal']:.3g} times the "
            f"signal and leaves {share_text(tenth['explained'])}."
        )
    return out.append(" How far data fill their bounds, and how much bounds cut off, a plan cannot know.")


def cost_text(sent: Mapping[str, int], seconds: Mapping[str, float], hub: int = 0) -> Text:
    """Bytes and time that a plan expects; `hub` is what the party with the fewest ids sends besides."""
    told = ", ".join(f"{name} {size_text(count)}" for name, count in sent.items())
    told += f", and whoever has the fewest ids {size_text(hub)} more" if hub else ""
    took = ", ".join(f"{step} {time_text(value)}" for step, value in seconds.items()) or "next to nothing"
    return Text(f"Expected: each party sends {told}; CPU time of all together: {took}.")


def shares_text(plan: Mapping[str, Any]) -> str:
    """How much of the scale each of two parties draws on products of both, where one draws less than all of it."""
    parts = {party: Fraction(text) for party, text in plan.get("narrowed", {}).items()}
    if all(part == 1 for part in parts.values()):
        return ""
    told = " and ".join(f"{party} {float(part):.2g}" for party, part in parts.items())
    return (
        f"On products of both parties {told} of the scale are drawn: a share hides its own party's part from the other "
        "party, and both together hide the record from everybody else."
    )


def plan_report(
    plan: Mapping[str, Any],
    label: str,
    cost: RenderableType | None = None,
    assumed: bool = False,
    cheating: RenderableType | None = None,
    mean: str = "",
) -> RenderableType:
    """A whole plan; `cheating` is what it says of parties that break the protocol, `mean` of the label's mean."""
    parts: list[RenderableType] = [
        heading(plan, label, assumed),
        "",
        columns_table(plan, label),
        "",
        epsilon_table(plan),
        "",
        blocks_table(plan),
        *([shares] if (shares := shares_text(plan)) else []),
        "",
        *([] if cheating is None else [cheating, ""]),
        forecast_text(plan),
        *([Text(sentence(mean))] if mean else []),
    ]
    return Group(*parts, *([] if cost is None else [cost]), "")


def digest_note(n: int, assumed: bool, cuts: Sequence[Binning] | None) -> str:
    """Which runs have the digest of a plan's terms."""
    if assumed:
        return (
            "This is the digest for an assumed number of records: an approval needs that for the real one, as "
            "plan --rows N (rows=N in Python) tells it."
        )
    told = f"A run of these terms has this digest if it finds exactly {n:,} records"
    if any(cut.chosen for cut in cuts or ()):
        told += f", and is told so beforehand, for bins depend on it: rows = {n} in [study], --rows {n}, or rows={n}"
    return f"{told}."


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
        name = provenance.get("agreement", {}).get("product", "plain")
        out.append(f'product "{name}" showed columns in the clear: no epsilon holds against the server or a party')
    return out


def sentence(note: str) -> str:
    """A note as a sentence of a text."""
    return f"{note[:1].upper()}{note[1:]}."


def caution(note: str) -> Text:
    """A warning, as all commands print it."""
    return Text.assemble(("warning: ", "bold yellow"), note)


def opened_scores_text(prediction: Prediction, rows: int) -> str:
    """What a prediction across parties has told to whom."""
    to = prediction.receiver
    others = [party for party in prediction.parties if party != to]
    whose = f"the part of {others[0]}" if len(others) == 1 else f"the sum of the parts of {', '.join(others)}"
    if prediction.scores > 1:
        return (
            f"{to} opened {prediction.scores} exact scores of each of {rows:,} records, one for each class but the "
            f"first: they are not differentially private about the record, and {to} can subtract its own parts and "
            f"learn {whose}, {prediction.scores} numbers about their columns. Nobody else learns a score."
        )
    return (
        f"{to} opened the exact score of each of {rows:,} records: it is not differentially private about the record, "
        f"and {to} can subtract its own part and learn {whose}. Nobody else learns a score."
    )

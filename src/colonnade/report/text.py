"""Numbers and sentences that several answers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from colonnade.mechanism.forecast import BALANCED, LARGEST_FLOAT, hides_nobody, share_left
from colonnade.mechanism.objective import Task

if TYPE_CHECKING:
    from colonnade.foundation.schema import Schema
    from colonnade.mechanism.cuts import Binning
    from colonnade.mechanism.release import ReleaseRecord
    from colonnade.planning.prediction import Prediction

NEARLY_ALL = 0.93  # of which a forecast says no more than "at least"
VIEWS = {"outsider": "outsider", "server": "server", "party": "another party", "coalition": "coalition"}


def epsilon_text(value: float | None, digits: int = 4) -> str:
    """Rounded up: a guarantee is never overstated; "none" where there is none."""
    if value is None:
        return "none"
    return f"{Context(prec=digits, rounding=ROUND_CEILING).create_decimal(Decimal(repr(float(value)))).normalize():f}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


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


def delta_text(delta: float) -> str:
    """What stands beside an epsilon."""
    return f"delta {delta:g}" if delta else "pure"


def worst(views: Mapping[str, float | None]) -> float | None:
    """The epsilon against the view that sees most, as far as there is a guarantee."""
    return max((epsilon for epsilon in views.values() if epsilon is not None), default=None)


def law_text(plan: Mapping[str, Any]) -> str:
    """The distribution of the noise."""
    return {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian"}[plan["law"]]


def share_text(share: float) -> str:
    """A share in words that do not claim more than a forecast can: never all of it, never nothing."""
    if share >= 0.995:
        return "over 99%"
    return "under 1%" if share < 0.005 else f"about {100 * share:.0f}%"


def range_text(ends: Sequence[float]) -> str:
    """A range of shares, open where it ends near all or nothing."""
    low, high = ends
    if high >= NEARLY_ALL:
        return f"at least {100 * min(low, 0.99):.0f}%"
    return (
        f"at most {100 * max(high, 0.01):.0f}%" if low <= 1 - NEARLY_ALL else f"{100 * low:.0f}% to {100 * high:.0f}%"
    )


def forecast_text(plan: Mapping[str, Any]) -> str:
    """What to expect of the model, and under which condition; nothing where no model is predicted."""
    ends = left_of(plan)
    if ends is None:
        return ""
    told = f"the model explains {range_text(ends)} of what it would without noise (trivial model: 0%)"
    if stated := plan.get("class_share"):
        told += f", with a class share of {' to '.join(f'{share:g}' for share in dict.fromkeys(stated))}"
    elif Task(plan["task"]).of_yes_or_no:
        told += "; less where one class is rare (state class_share)"
    return f"{told}."


def left_of(plan: Mapping[str, Any]) -> tuple[float, float] | None:
    """The range that a plan predicts, also of a release whose plan was made by an earlier theory."""
    forecast = plan["forecast"]
    noise = forecast.get("if_a_tenth", forecast)["noise_to_signal"]
    if noise is None:
        return None
    # Earlier plans took a tenth of a numeric label's bounds, too.
    earlier = "if_a_tenth" in forecast and "explained_range" not in forecast
    noise *= 0.1 if earlier and Task(plan["task"]).of_number else 1.0
    first, last = plan.get("class_share", BALANCED)
    left = share_left(noise, (first, last))
    return left.low, left.high


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


def described(schema: Schema) -> list[str]:
    """Return what a study says that its columns are, and in which unit, as one sentence; none where it says nothing."""
    columns = [item for own in schema.parties.values() for item in own.items() if item[1].description or item[1].unit]
    told = "; ".join(
        f"{name}{f' in {c.unit}' if c.unit else ''}{f': {c.description}' if c.description else ''}"
        for name, c in columns
    )
    return [f"Columns: {told}."] if told else []


def flaws(provenance: Mapping[str, Any], epsilon: float = 0.0) -> list[str]:
    """Why a release's epsilon is no promise, if it is none."""
    out = []
    if provenance["seeded"]:
        out.append("the noise came from a seed: whoever knows it can remove the noise, so no epsilon holds")
    if provenance["simulation"]:
        name = provenance.get("agreement", {}).get("product", "plain")
        out.append(f'product "{name}" showed columns in the clear: no epsilon holds against the server or a party')
    if epsilon > LARGEST_FLOAT:
        out.append(hides_nobody(epsilon))
    return out


def flaws_of(release: ReleaseRecord) -> list[str]:
    """Why a release's epsilon is no promise, or not the one that it states: all that is known of it."""
    from colonnade.mechanism.defects import defects_of

    told = flaws(release.provenance, release.plan["epsilon"])
    return [*told, *(defect.sentence for defect in defects_of(release))]


def sentence(note: str) -> str:
    """A note as a sentence of a text."""
    return f"{note[:1].upper()}{note[1:]}."


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


def reliable_text(signed: int, coefficients: int, predictors: int | None) -> str:
    """How many coefficients have a sign; `predictors` are those of the full model where this is a reduced one."""
    which = "" if predictors is None else " of a reduced model"
    of = f"{coefficients} coefficient{'' if coefficients == 1 else 's'}{which}"
    told = f"The sign of {signed} of {of} is reliable" if signed else f"No sign is reliable, of {of}"
    return told if predictors is None or signed else f"{told}; the model that predicts has {predictors}"

"""An evaluation for people and machines: what it would open, and what it found beside the trivial answer."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from colonnade.evaluation import Evaluation, Measured
from colonnade.protocol.session_plan import SessionPlan
from colonnade.report.text import blocks_table, epsilon_table, epsilon_text, titled
from colonnade.report.tidy import tidy_table

NAMES = {
    "accuracy": "accuracy",
    "auc": "area under the ROC curve",
    "log_loss": "log-loss",
    "brier": "Brier score",
    "rmse": "root mean squared error",
    "r_squared": "R², against the label's mean where the model was made",
}
TRIVIAL = {
    "accuracy": "the commoner class",
    "auc": "by chance",
    "log_loss": "the class shares",
    "brier": "the class shares",
    "rmse": "the label's mean",
    "r_squared": "the label's mean",
}


def what_is_opened(evaluation: Evaluation) -> str:
    """The opened numbers, in one sentence."""
    parties = list(evaluation.parts)
    if not evaluation.opens_counts:
        if evaluation.task.value == "linear":
            return "noisy sums of squared errors, and of the label's squares: nobody sees a score or an error"
        return "noisy sums of scores by outcome, and of their products: nobody sees a score"
    bins = {party: len(part.cuts(evaluation.bins)) + 1 for party, part in evaluation.parts.items()}
    if len(parties) == 1:
        return f"noisy counts by outcome and {bins[evaluation.holder]} bins of the score: nobody sees a score"
    partner = next(party for party in parties if party != evaluation.holder)
    return (
        f"noisy counts by outcome and {bins[evaluation.holder]} bins of the score at {evaluation.holder}, and "
        f"{bins[partner]} bins of the score at {partner}: nobody sees a score"
    )


def evaluation_report(evaluation: Evaluation, session: SessionPlan, assumed: bool = False) -> RenderableType:
    """What an evaluation would open, with how much noise and for which epsilon."""
    plan = session.describe()
    head = Text()
    head.append(evaluation.public.study, style="bold")
    head.append(f": evaluation of the {evaluation.public.model.task} model of ")
    head.append(evaluation.public.model.label, style="bold")
    head.append(f" on {session.rows:,} records" + (" (assumed: give --rows)" if assumed else ""))
    pure = "pure" if not plan["delta"] else f"delta {plan['delta']:g}"
    head.append(
        f"\nepsilon {epsilon_text(plan['epsilon'])} for a whole record, {pure}; opened: {what_is_opened(evaluation)}"
    )
    for name, std in evaluation.expected(session).items():
        head.append(f"\nThe noise is expected to move {NAMES[name].partition(',')[0]} by about {std:.2g}.")
    return Group(head, Text(), epsilon_table(plan), blocks_table(plan))


def measured_report(evaluation: Evaluation, measured: Measured) -> RenderableType:
    """What was found, each number with its interval and beside the trivial answer."""
    if not measured.measures:
        return Text(
            "The noise drowns what was opened: more records or a larger epsilon would tell something.", "yellow"
        )
    table = tidy_table("measure", "value", "95% interval", "trivial", "which is", right=(1, 2, 3))
    for name in evaluation.asked:
        found = measured.measures.get(name)
        if found is None:
            table.add_row(NAMES[name], "not known", "noise drowns it", "", "")
            continue
        trivial = "not known" if found.trivial is None else f"{found.trivial:.4f}"
        table.add_row(NAMES[name], f"{found.value:.4f}", f"{found.low:.4f} to {found.high:.4f}", trivial, TRIVIAL[name])
    title = f"How good the model is on these {measured.n:,} records"
    parts: list[RenderableType] = [titled(title, table), Text(interval_note(evaluation))]
    if any(point.observed is not None for point in measured.curve):
        curve = tidy_table("predicted", "records", "mean predicted", "observed", "95% interval", right=(1, 2, 3, 4))
        for point in measured.curve:
            seen = point.observed
            shown = ("drowned", "") if seen is None else (f"{seen.value:.3f}", f"{seen.low:.3f} to {seen.high:.3f}")
            curve.add_row(
                f"{point.low:.1f} to {point.high:.1f}", f"{point.records:,.0f}", f"{point.predicted:.3f}", *shown
            )
        parts.append(titled("Calibration: shares that were predicted, and that were", curve))
    return Group(*parts)


def interval_note(evaluation: Evaluation) -> str:
    """What an interval is about, and what a number rests on."""
    about = "Intervals are about these very records: they do not count that other people would differ."
    if evaluation.task.value == "linear":
        return (
            f"{about} Noise widens them, in proportion to the label's bounds and those of the scores. Scores are taken "
            "as they are, where a prediction is clipped to the label's range."
        )
    if evaluation.opens_counts:
        return (
            f"{about} They hold wherever in its bin a score lies: noise and bins widen them, and a larger epsilon "
            "narrows both, for it allows more bins. The value is what scores that lie evenly in their bins would have."
        )
    return (
        f"{about} They hold whatever law scores have, and this widens them more than noise does: sums of scores tell "
        "little of accuracy and area. A model of two parties' columns (solve --features) is evaluated by counts, which "
        "tell more. The value is what scores that are normal within classes would have."
    )


def measured_json(evaluation: Evaluation, session: SessionPlan, measured: Measured | None) -> dict[str, Any]:
    """The same for a machine."""
    plan = session.describe()
    known = {
        k: plan[k] for k in ("study", "n", "epsilon", "delta", "collusion", "product", "parties", "record", "blocks")
    }
    known |= {"model": evaluation.public.model.label, "task": evaluation.public.model.task}
    known |= {
        "opened": what_is_opened(evaluation),
        "expected": evaluation.expected(session),
        "warnings": evaluation.warnings(session),
        "terms_digest": session.terms,
    }
    if measured is None:
        return known
    curve = [
        {
            "low": point.low,
            "high": point.high,
            "records": point.records,
            "predicted": point.predicted,
            "observed": None if point.observed is None else point.observed.to(),
        }
        for point in measured.curve
    ]
    known_measures = {name: found.to() for name, found in measured.measures.items()}
    measures = {name: known_measures.get(name) for name in evaluation.asked}
    return {**known, "measures": measures, "calibration": curve, "note": interval_note(evaluation)}

"""An evaluation: what it would open, and what it found beside the trivial answer."""

from __future__ import annotations

from functools import partial
from typing import Any

from colonnade.evaluation import Evaluation, Measured
from colonnade.planning.session_plan import SessionPlan
from colonnade.report.answers.plan import blocks_of, epsilons_of
from colonnade.report.results import Answer, Heading, Listing, Part, Passage, Words
from colonnade.report.text import delta_text, epsilon_text

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
ENDS = ("value", "low", "high", "trivial")
DROWNED = Words("not estimable", "soft")
COLUMNS = (
    Heading("measure", "measure", NAMES.__getitem__),
    Heading("value", "value", "{:.4f}".format, True),
    Heading("95% interval", ("low", "high"), "{:.4f} to {:.4f}".format, True),
    Heading("trivial", "trivial", "{:.4f}".format, True, Words("not known")),
    Heading("which is", "measure", TRIVIAL.__getitem__),
)
CURVE = (
    Heading("predicted", "bin", lambda ends: "{:.1f} to {:.1f}".format(*ends)),
    Heading("records", "records", "{:,.0f}".format, True),
    Heading("mean predicted", "predicted", "{:.3f}".format, True),
    Heading("observed", "value", "{:.3f}".format, True),
    Heading("95% interval", ("low", "high"), "{:.3f} to {:.3f}".format, True),
)


def what_is_opened(evaluation: Evaluation) -> str:
    """The opened numbers, in one sentence."""
    parties = list(evaluation.parts)
    if not evaluation.opens_counts:
        if evaluation.task.of_number:
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


def foreseen(evaluation: Evaluation, session: SessionPlan, assumed: bool = False) -> Answer:
    """What an evaluation would open, with how much noise and for which epsilon."""
    plan, model = session.describe(), evaluation.public.model
    title = (
        f"{evaluation.public.study}: evaluation of the {model.task} model of {model.label} on {session.rows:,} records"
    )
    spent = f"epsilon {epsilon_text(plan['epsilon'])} for a whole record, {delta_text(plan['delta'])}"
    opened = f"{spent}; opened: {what_is_opened(evaluation)}"
    moved = (
        f"The noise is expected to move {NAMES[name].partition(',')[0]} by about {std:.2g}."
        for name, std in evaluation.expected(session).items()
    )
    parts: list[Part] = [Passage(opened), *map(Passage, moved), epsilons_of(plan), blocks_of(plan)]
    warned, facts = evaluation.warnings(session), partial(_facts, evaluation, session)
    return Answer(title + (" (assumed: give --rows)" if assumed else ""), parts, facts, warned)


def measured(evaluation: Evaluation, found: Measured, session: SessionPlan | None = None) -> Answer:
    """What was found, each number with its interval and beside the trivial answer."""
    known = {name: one.to() for name, one in found.measures.items()}
    curve = [
        {**vars(point), "observed": None if point.observed is None else point.observed.to()} for point in found.curve
    ]

    def facts() -> dict[str, Any]:
        told = _facts(evaluation, session or evaluation.study.session(found.n))
        measures = {name: known.get(name) for name in evaluation.asked}
        return {**told, "measures": measures, "calibration": curve, "note": interval_note(evaluation)}

    title = f"How good the model is on these {found.n:,} records"
    records = [
        {"measure": name, **known.get(name, {"value": DROWNED, "trivial": Words("")})} for name in evaluation.asked
    ]
    table = Listing(COLUMNS, records, fields={"measure": str, **dict.fromkeys(ENDS, float)})
    if not found.measures:
        loud = "Nothing is estimable: the noise exceeds what was opened. More records or a larger epsilon would help."
        return Answer(title, [table, Passage(loud, "warn")], facts)
    parts: list[Part] = [table, Passage(interval_note(evaluation))]
    if any(point.observed is not None for point in found.curve):
        points = [{**point, **(point["observed"] or {"value": Words("drowned"), "low": None}),
                   "bin": [point["low"], point["high"]]} for point in curve]  # fmt: skip
        parts.append(Listing(CURVE, points, "Calibration: shares that were predicted, and that were"))
    return Answer(title, parts, facts)


def _facts(evaluation: Evaluation, session: SessionPlan) -> dict[str, Any]:
    plan = session.describe()
    keys = ("study", "n", "epsilon", "delta", "collusion", "product", "parties", "record", "blocks")
    return {
        **{key: plan[key] for key in keys},
        "model": evaluation.public.model.label,
        "task": evaluation.public.model.task,
        "opened": what_is_opened(evaluation),
        "expected": evaluation.expected(session),
        "warnings": evaluation.warnings(session),
        "terms_digest": session.terms,
    }


def interval_note(evaluation: Evaluation) -> str:
    """What an interval is about, and what a number rests on."""
    about = "Intervals are about these very records: they do not count that other people would differ."
    if evaluation.task.of_number:
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

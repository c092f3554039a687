"""A plan before anything is spent: its verdict, whose columns are used, epsilons, noise, and what it will take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from colonnade.planning.leakage import KEY_BITS, TOLD_BITS, people_sentence
from colonnade.protocol.evidence import EVIDENCE_DAYS, auditors_named
from colonnade.report.results import Answer, Brief, Figure, Heading, Listing, Part, Passage, Words
from colonnade.report.spending import spending_json
from colonnade.report.text import (
    VIEWS,
    delta_text,
    digest_note,
    epsilon_text,
    forecast_text,
    law_text,
    sentence,
    shares_text,
    size_text,
    time_text,
    worst,
)

if TYPE_CHECKING:
    from markupsafe import Markup

    from colonnade.mechanism.cuts import Binning
    from colonnade.planning.leakage import Leakage
    from colonnade.planning.session_plan import SessionPlan
    from colonnade.report.choices import Options
    from colonnade.report.cost import Cost
    from colonnade.report.spending import Spending

MOST_COLUMNS, SHOWN_BLOCKS, SHOWN_PAIRS, SHOWN_PARTIES = 24, 40, 30, 4
"""Columns of a party in a line, blocks in a picture, pairs of parties in a table, and parties in a verdict."""
NOISE = "Standard deviation of the noise on each released number, as a share of n, the largest value of such a sum."
ABSENT = Words("none", "warn")
WORTH_SAYING = 0.95
"""Other terms that leave more of the noise than this are no advice: with few columns a delta makes it larger."""
KEYS = "If a party deviates from the protocol: what it could read of a partner's column and its key, at most"
ASSUMED = " (assumed: set rows in [study] or give --rows)"


def planned(
    session: SessionPlan,
    cost: Cost,
    assumed: bool = False,
    cuts: Sequence[Binning] | None = None,
    spending: Callable[[], Mapping[str, Spending]] = dict,
    alone: bool = True,
) -> Answer:
    """All of a plan; `alone` is False where a run follows, which says for itself what it took."""
    from colonnade.mechanism.cuts import describe_binning
    from colonnade.report.choices import Options, forecast_purposes, purposes_of

    plan, label = session.describe(), session.agreement.label
    options, purposes = Options(session), cache(lambda: forecast_purposes(session))
    parts = terms_of(plan, label, assumed)
    parts += leakage_of(session)
    parts += [Passage(sentence(forecast.removesuffix(".")))] if (forecast := forecast_text(plan)) else []
    parts += [Passage(sentence(mean))] if (mean := session.label_noise_text) else []
    if alone:
        parts.append(Passage(cost_text(cost)))
        parts += purposes_of(purposes())
        parts.append(Passage(options.text))
        parts += [] if cuts is None else [Passage(describe_binning(cuts))]
    parts.append(Passage(f"Digest of these terms, for --approve: {session.terms}"))
    parts += [Passage(digest_note(session.rows, assumed, cuts))] if alone else []

    def facts() -> dict[str, Any]:
        told = {
            **plan,
            "rows_assumed": assumed,
            "expected": {"sent": cost.sent, "fewest_ids_sends_more": cost.hub, "seconds": cost.seconds},
            "if_a_party_cheats": [exposure.describe() for exposure in session.exposures],
            "people_a_cheat_could_read": [telling.describe() for telling in session.tellings],
            "if_a_partner_breaks_the_protocol": people_sentence(session.tellings, session.rows) or None,
            "terms_digest": session.terms,
            "terms_digest_note": digest_note(session.rows, assumed, cuts),
            "label_mean_noise": session.label_noise_text or None,
            "warnings": session.warnings(),
            **options.facts,
        }
        told |= {} if cuts is None else {"numeric": [vars(cut) for cut in cuts]}
        return {**told, **spending_json(spending()), "purposes": [line.describe() for line in purposes()]}

    return Answer("", parts, facts, session.warnings(), _brief(options, plan, cost, assumed, cuts))


def _brief(
    options: Options, plan: Mapping[str, Any], cost: Cost, assumed: bool, cuts: Sequence[Binning] | None
) -> Brief:
    """What to know before agreeing, in a few lines."""
    session, parties = options.session, options.session.parties
    columns = sum(len(party["columns"]) for party in plan["parties"].values()) - 1
    about = f"{plan['n']:,} people" + (" in common" if len(parties) > 1 else "") + (", assumed" if assumed else "")
    lead = (
        f"{asked_of(plan, session.agreement.label)} on {columns} columns, "
        f"{len(session.plan.layout.features):,} encoded; {_count(len(parties), 'party', 'parties')}, {about}."
    )
    lines = [("Privacy", privacy_text(plan)), *_expected(options, plan, cuts)]
    sent = sorted([*cost.sent.values(), max(cost.sent.values()) + cost.hub])
    each = size_text(sent[0]) if len(parties) == 1 else f"{size_text(sent[0])} to {size_text(sent[-1])}"
    took = time_text(sum(cost.seconds.values())) if cost.seconds else "under a second"
    lines.append(("Costs", f"{each} sent by a party, about {took} of computing."))
    note = " It is for the assumed number of records: plan --rows N." if assumed else ""
    lines.append(("Digest", f"{session.terms}\nfor fit --approve.{note} All tables: plan --full"))
    return Brief(lead, lines)


def _expected(options: Options, plan: Mapping[str, Any], cuts: Sequence[Binning] | None) -> list[tuple[str, str]]:
    """What noise leaves, what was chosen, and what would leave more."""
    out = []
    if told := forecast_text(plan):
        out.append(("Expect", f"{told} Public rows narrow it: rehearse."))
    chosen = f"{options.session.query.meaning}: {options.why}."
    if cuts is not None:
        taken = [str(cut.column) for cut in cuts if cut.chosen]
        chosen += f" Binned: {_some(taken)}." if taken else " No numeric column is binned."
    out.append(("Chosen", chosen))
    better = [
        f"{one.term} makes the noise {one.ratio:.2f} times as large"
        for one in options.alternatives
        if not one.caution and one.ratio < WORTH_SAYING
    ]
    return [*out, ("Better", f"{'; '.join(better)}.")] if better else out


def privacy_text(plan: Mapping[str, Any]) -> str:
    """Epsilon of a record and of each party's part, each against the view that sees most."""
    told = f"epsilon {epsilon_text(plan['epsilon'])}, {delta_text(plan['delta'])}, for a whole record"
    if len(plan["parties"]) == 1:
        return f"{told}."
    told += f"; {worst_parts(plan)}, each against its worst view."
    if open_views := [VIEWS[view] for view, value in plan["record"].items() if value is None]:
        return f"{told} No guarantee against: {', '.join(open_views)}."
    count = plan["collusion"]
    pooled = f"The server may collude with {count} of {len(plan['parties'])} parties." if count else ""
    return f"{told} {pooled}".rstrip()


def worst_parts(plan: Mapping[str, Any]) -> str:
    """The epsilon of each party's part against the view that sees most, as far as there is a guarantee."""
    return _some([f"{name} {epsilon_text(worst(party['epsilon']), 2)}" for name, party in plan["parties"].items()])


def _some(names: Sequence[str]) -> str:
    if len(names) <= SHOWN_PARTIES + 1:
        return ", ".join(names)
    return f"{', '.join(names[:SHOWN_PARTIES])} and {len(names) - SHOWN_PARTIES} more"


def _count(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def asked_of(plan: Mapping[str, Any], label: str) -> str:
    """What is computed."""
    if "objective" in plan:
        return f"{plan['study']}: minimum of {plan['objective']} for parameters of norm up to {plan['ball']:g}"
    return f"{plan['study']}: {plan['task']} regression of {label}"


def terms_of(plan: Mapping[str, Any], label: str, assumed: bool = False) -> list[Part]:
    """What is computed, under which terms, from whose columns, and with how much noise."""
    told = [
        f"{asked_of(plan, label)} over {plan['n']:,} records{ASSUMED if assumed else ''}",
        f"epsilon {epsilon_text(plan['epsilon'])} for a whole record, {delta_text(plan['delta'])}, "
        f"{law_text(plan)} noise; "
        f"neighbours: {plan['neighbours']}",
        f"product {plan['product']}, collusion {plan['collusion']}, calibration {plan['calibration']}, "
        f"release {plan['released']}",
        *([sentence(plan["promise"])] if "promise" in plan else []),
        *([f"Without proofs: {plan['without_proofs']}"] if "without_proofs" in plan else []),
    ]
    out: list[Part] = [*map(Passage, told), columns_of(plan, label), epsilons_of(plan), blocks_of(plan)]
    return [*out, *([Passage(shares)] if (shares := shares_text(plan)) else [])]


def columns_of(plan: Mapping[str, Any], label: str) -> Listing:
    """Whose columns are used."""
    records = []
    for name, party in plan["parties"].items():
        names = [f"{c} (label)" if label in (c, f"{name}.{c}") else c for c in party["columns"]]
        if len(names) > MOST_COLUMNS:
            names = [*names[: MOST_COLUMNS - 4], f"and {len(names) - MOST_COLUMNS + 4} more"]
        records.append({"party": name, "columns": ", ".join(names)})
    return Listing((Heading("party", "party"), Heading("columns", "columns")), records, "Whose columns")


def epsilons_of(plan: Mapping[str, Any]) -> Listing:
    """The epsilon of each party's data and of the record, against every view."""
    records = [{"name": name, **party["epsilon"]} for name, party in plan["parties"].items()]
    last = {"name": "a whole record", **plan["record"]}
    # A party that is alone has no other party to look: that is no missing guarantee.
    shown = VIEWS if len(records) > 1 else ("outsider", "server")
    views = [Heading(VIEWS[view], view, epsilon_text, True, ABSENT) for view in shown]
    title = "Epsilon for each party's columns, by adversary"
    return Listing((Heading("columns of", "name"), *views), records, title, last=last)


def blocks_of(plan: Mapping[str, Any]) -> Listing:
    """What is released and how much noise is on it."""
    records = [{**block, "share": block["noise_std"] / plan["n"]} for block in plan["blocks"]]
    numbers = {"sensitivity": "sensitivity", "scale": "scale b" if plan["law"] == "laplace" else "sigma"}
    columns = [Heading("block", "name"), Heading("numbers", "terms", "{:,}".format, True)]
    columns += [
        Heading(head, key, "{:.4g}".format, True) for key, head in {**numbers, "noise_std": "noise std"}.items()
    ]
    columns.append(Heading("of n", "share", lambda share: f"{100 * share:.3g}%", True))
    title = "Blocks of the release: by the owner alone, or A x B by a secure product"
    return Listing(columns, records, title, picture=Figure(lambda: _noise(plan), NOISE))


def _noise(plan: Mapping[str, Any]) -> Markup:
    from colonnade.report.charts import noise_picture

    return noise_picture(plan, SHOWN_BLOCKS)


def cost_text(cost: Cost) -> str:
    """Bytes and time that a plan expects."""
    each = ", ".join(f"{name} {size_text(count)}" for name, count in cost.sent.items())
    each += f", and whoever has the fewest ids {size_text(cost.hub)} more" if cost.hub else ""
    took = ", ".join(f"{step} {time_text(value)}" for step, value in cost.seconds.items()) or "next to nothing"
    return f"Expected: each party sends {each}; CPU time of all together: {took}."


def leakage_of(session: SessionPlan) -> list[Part]:
    """What a malicious party could read of another, in people and in keys; nothing where there is none."""
    ordered = sorted(session.exposures, key=lambda exposure: exposure.key.bits)
    records = [
        {
            "partner": one.partner,
            "cheaters": ", ".join(one.cheaters),
            "information": one.information,
            "read": one.key.coefficients,
            "left": one.key.dimension,
            "bits": one.key.bits,
        }
        for one in ordered[:SHOWN_PAIRS]
    ]
    columns = [Heading("columns of", "partner"), Heading("malicious", "cheaters")]
    columns.append(Heading("bits of a column", "information", "{:,.0f}".format, True))
    columns += [Heading(f"key {what}", what, "{:,}".format, True) for what in ("read", "left")]
    columns.append(Heading("security", "bits", "{} bits".format, True))
    notes = [Passage(note, "soft") for note in _leakage_notes(session, ordered)]
    return [*([Listing(columns, records, KEYS)] if records else []), *notes]


def _leakage_notes(session: SessionPlan, ordered: Sequence[Leakage]) -> list[str]:
    notes = [people_sentence(session.tellings, session.rows)] if session.tellings else []
    if session.tellings:
        by_party = (f"{one.people:,} of {one.partner}'s ({', '.join(one.cheaters)})" for one in session.tellings)
        notes.append(
            f"By whose records: {'; '.join(by_party)}. It is one yes or no a person, of one column. A policy refuses "
            f"more than {TOLD_BITS:,} in all sessions of a data set (largest_bits_told)."
        )
    if len(session.parties) > 1:
        notes.append(
            "Across machines each party keeps evidence, by which an auditor can make its messages again; its secrets "
            f"are kept for as long as its policy says (keep_evidence, {EVIDENCE_DAYS} days by default). "
            f"{auditors_named(session.agreement.auditors)}"
        )
    if rest := ordered[SHOWN_PAIRS:]:
        notes.append(f"{len(rest)} more pairs leave {rest[0].key.bits} bits or more.")
    if ordered and ordered[0].key.bits < KEY_BITS:
        notes.append(
            f"A policy refuses what leaves under {KEY_BITS} bits (smallest_key_bits): {ordered[0].tell()}; "
            f"{session.leave_bits(ordered[0], KEY_BITS)}."
        )
    elif ordered:
        notes.append(
            f"A policy refuses what leaves under {KEY_BITS} bits (smallest_key_bits). Fewer columns or levels of the "
            "malicious party, fewer records and a smaller epsilon leave more."
        )
    return notes

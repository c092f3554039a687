"""What a person should know of a session before anything is spent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from colonnade.foundation.schema import Column, estimated_notes
from colonnade.mechanism.forecast import LARGEST_FLOAT, heavy_columns, hides_nobody, objective_note, order_warning
from colonnade.mechanism.objective import Calibration, Purpose
from colonnade.mechanism.plan import PrivacyPlan
from colonnade.planning.precision import SHARES, rounding_share

if TYPE_CHECKING:
    from colonnade.planning.session_plan import SessionPlan

LOUD_MEAN = 0.01
"""Noise on the label's mean, as a share of the label's bounds, above which a plan warns."""


def refusing_columns(parties: Mapping[str, Mapping[str, Column]]) -> list[str]:
    """What partners learn of a column that refuses what is not as declared."""
    return [
        f'column {party}.{name} says undeclared = "{column.undeclared}": one record that is not as declared ends the '
        "session, and every partner learns that there is one, exactly, however often they try, and no epsilon counts it"
        for party, columns in parties.items()
        for name, column in columns.items()
        if column.undeclared is not None
    ]


def warnings_of(session: SessionPlan, lower: Callable[[], PrivacyPlan]) -> list[str]:
    """One sentence each; `lower` plans the same study with the order 2."""
    parties = session.agreement.schema.parties
    out = refusing_columns(parties) + estimated_notes(parties)
    if session.agreement.query.declared is not None:
        out.append(objective_note(session.plan, session.rows))
    elif session.forecast.hopeless and session.agreement.query.evaluated is None:
        left = session.forecast.left
        assert left is not None
        out.append(
            f"the noise on the products with the label leaves {100 * left.low:.2g} to {100 * left.high:.2g}% of what "
            f"the columns could explain at n={session.rows}: the model may be no better than the trivial one; more "
            "records, a larger epsilon or fewer columns would help"
        )
    if (session.label_noise or 0.0) > LOUD_MEAN and session.agreement.query.evaluated is None:
        out.append(session.label_noise_text)
    tables = session.table_forecast
    if not session.query.products:
        out.append(
            f"at n={session.rows} tables of two columns would be no nearer to the rows' own than those of independent "
            "columns: margins alone are released, of which no model and no rows can be made; a larger epsilon, a "
            'delta, fewer columns or coarser bins would help, and purpose = "label" gives the label\'s model'
        )
    elif session.agreement.query.purpose is Purpose.ALL and tables is not None and tables.worse:
        out.append(
            f"tables of two columns are expected to be {tables.expected:.3f} from the rows' own (total variation) "
            f"at n={session.rows}, and {tables.independent:.3f} if columns were taken as independent: rows would be "
            "no better than independent columns; a larger epsilon, a delta, fewer columns or coarser bins would help"
        )
    rounding = rounding_share(session.plan, session.rows, session.grid.bound)
    if session.grid.bound > 1 and rounding > 2 * SHARES[0][0]:
        out.append(
            f"with n={session.rows} numbers are rounded to {session.grid.bound} steps on each side of zero, which adds "
            f"up to {rounding:.2g} times the noise's standard deviation to a released sum, without bias"
        )
    if (order := session.agreement.query.higher.order) > 2:
        out += order_warning(order, session.plan, lower(), session.rows)
    if session.plan.delta >= 1 / session.rows:
        out.append(
            f"delta={session.plan.delta:.3g} is 1/n or more at n={session.rows}: showing one record, drawn at random, "
            "to everybody would keep that promise too; choose a delta far below 1/n"
        )
    modelled = session.agreement.query.evaluated is None and session.agreement.query.declared is None
    out += heavy_columns(session.plan, session.rows) if modelled else []
    if session.agreement.schema.norms and not session.plan.layout.norms:
        out.append("declared norms are not used: they lower the noise of a trace release alone")
    if session.plan.epsilon > LARGEST_FLOAT:
        out.append(hides_nobody(session.plan.epsilon))
    if session.in_the_clear:
        out.append(f'product "{session.agreement.product}" shows columns in the clear: it is for simulation only')
    shared = any(not i.block.single for i in session.plan.blocks)
    if session.plan.collusion == 0 and shared and not session.plan.law.stable:
        out.append("with collusion = 0 there is no guarantee against a party, which knows its share of the noise")
    out += proof_warnings(session)
    if session.plan.calibration is Calibration.PAPER:
        out.append(
            'the paper\'s calibration is for reproducing its figures; "exact" adds less noise for the same epsilon'
        )
    return out


def proof_warnings(session: SessionPlan) -> list[str]:
    """Where a study asks for proofs: what they leave open, or why there are none."""
    if session.unproved:
        return [f"parties prove nothing of what they send, for proofs do not fit: {session.unproved}"]
    if not session.proved or session.plan.collusion >= len(session.parties) - 1:
        return []
    return [
        "a party that deviates may leave its noise out, so that another party sees less than all: collusion = "
        f"{session.plan.collusion + 1} covers both"
    ]

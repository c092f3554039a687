"""Whether parties of a session prove that what they send is made of numbers within their bounds, and what it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from colonnade.crypto.product import ColumnGroup, GroupKind, ProductSpec
from colonnade.foundation.errors import BrokenError, ColonnadeError, PolicyError, ProductError, StudyError
from colonnade.mechanism.moments import Attribute, Encoding, Layout
from colonnade.planning.agreement import REQUIRED, Agreement

if TYPE_CHECKING:
    from colonnade.planning.session_plan import SessionPlan

MOST_COMMITTED = 2 * 10**7
"""Bits that two parties commit to each other, at most, where proofs are not required: half a gigabyte passes."""
FOLLOWS = "against parties that follow the protocol"
DEVIATES = "against parties that deviate from the protocol, with abort"


def choose_proofs(agreement: Agreement, plan: Callable[[bool], SessionPlan]) -> SessionPlan:
    """Plan with proofs where the agreement asks for them, and they fit; required ones that do not fit are refused."""
    if not agreement.proofs:
        return plan(False)
    if agreement.proofs == REQUIRED:
        return plan(True)
    without = plan(False)
    try:
        proved = plan(True)
    except ColonnadeError as error:
        return replace(without, unproved=str(error))
    bits = max(committed_bits(proved.spec).values(), default=0)
    if proved.grid.bound < without.grid.bound:
        why = f"a plan with proofs rounds numbers to {proved.grid.bound} steps, one without to {without.grid.bound}"
    elif bits > MOST_COMMITTED:
        why = f"two parties would commit {bits:,} bits to each other, more than {MOST_COMMITTED:,}"
    else:
        return proved
    return replace(without, unproved=f'{why}: proofs = "{REQUIRED}" would accept it')


def promise_of(session: SessionPlan) -> str:
    """Against whom the epsilons hold; where no two parties' columns are multiplied nothing has to be proved."""
    alone = bool(session.agreement.proofs) and not session.spec.crosses and session.chains is None
    return DEVIATES if session.proved or alone else FOLLOWS


def describe_proofs(session: SessionPlan) -> dict[str, str]:
    """For a JSON object of a plan whose agreement says something of proofs."""
    if not session.agreement.proofs:
        return {}
    why = {"without_proofs": session.unproved} if session.unproved else {}
    return {"promise": f"the epsilons hold {promise_of(session)}", **why}


def require_expected(agreement: Agreement, own_rows: int, session: SessionPlan) -> None:
    """Refuse a session that falls back where this party's own list would not have.

    How many ids are common is known after they are matched, and a partner that claims ids which it can guess moves it.
    """
    from colonnade.planning.session_plan import plan_session

    if not session.unproved:
        return
    try:
        expected = plan_session(agreement, own_rows, session.identity).proved
    except ColonnadeError:
        # For a list of which no study could take all, nothing was to be expected.
        expected = False
    if expected:
        raise PolicyError(
            f"proofs fit this party's own {own_rows:,} records, and the plan for n={session.rows:,} has none: "
            f"{session.unproved}"
        )


def require_provable(agreement: Agreement, layout: Layout) -> None:
    """Refuse terms whose columns, or product, are not proved."""
    query, found = agreement.query, ""
    if agreement.product != "lattice":
        found = f'product = "{agreement.product}"'
    elif agreement.collusion == 0:
        found = "collusion = 0: a party that deviates leaves its share out of the noise"
    elif query.declared is not None:
        found = "a declared objective"
    elif query.evaluated is not None:
        found = "an evaluation"
    elif layout.has_interactions or layout.any_terms:
        found = "products that a party makes of its own columns"
    elif layout.norms:
        found = "a declared norm, which is not linear"
    if found:
        raise StudyError(f'proofs = "{REQUIRED}" does not go with {found}')


def proved_groups(agreement: Agreement, layout: Layout) -> tuple[tuple[ColumnGroup, ...], ...]:
    """What each party's encoded columns are, attribute by attribute."""

    def group(attribute: Attribute) -> ColumnGroup:
        if attribute.kind is Encoding.SIGNED:
            return ColumnGroup(GroupKind.NUMBER, 1)
        assert attribute.ref is not None
        levels = agreement.schema.columns[attribute.ref].has_levels
        return ColumnGroup(GroupKind.LEVELS if levels else GroupKind.HALVES, attribute.size)

    own = ((a for a in layout.attributes if a.owner == party) for party in layout.owners)
    return tuple(tuple(map(group, attributes)) for attributes in own)


def committed_bits(spec: ProductSpec) -> Mapping[frozenset[str], int]:
    """The bits that each two parties commit to each other; refuses sums that no field of the proofs holds."""
    from colonnade.crypto.ranges.party import statements_of

    found: Counter[frozenset[str]] = Counter()
    if not spec.groups:
        return found
    for (prover, verifier), statement in statements_of(spec).items():
        try:
            _ = statement.field
        except BrokenError:
            raise ProductError(
                f"with n={spec.rows} records and numbers of {spec.bound} steps sums of what is proved reach 2^87: "
                "fewer records, or a study without proofs, fits"
            ) from None
        found[frozenset((spec.parties[prover], spec.parties[verifier]))] += statement.committed
    return found

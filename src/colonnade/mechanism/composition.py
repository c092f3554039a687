"""What several sessions on the same data add up to, and whether a cap has room for one more.

The cap is a filter: later sessions may be chosen after seeing what earlier ones released.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import isfinite

import numpy as np
from scipy.special import ndtri_exp

from colonnade.foundation.errors import LedgerError, PrivacyError
from colonnade.foundation.proven import proven
from colonnade.mechanism.accounting import SLACK, epsilon_of_gaussian, epsilon_of_rho, gaussian_rho, zcdp_rho
from colonnade.mechanism.plan import PrivacyPlan

MOST_SESSIONS = 1 << 10
"""No more sessions than these share the slack of the noise under Rule.RHO and Rule.ZCDP."""
ALL_SLACK = MOST_SESSIONS * SLACK


class Rule(StrEnum):
    """How sessions add up: epsilons and deltas, the rho = mu^2 / 2 of Gaussian differential privacy, or zCDP's rho."""

    SUM = "sum"
    RHO = "rho"
    ZCDP = "zcdp"


@dataclass(frozen=True)
class Charge:
    """What one session may tell about one data set: (epsilon, delta), and rho where a Gaussian pair dominates it."""

    epsilon: float
    delta: float
    rho: float | None
    zcdp: float | None = None
    """Where no Gaussian pair does, the rho of zCDP."""

    def __post_init__(self) -> None:
        if not (isfinite(self.epsilon) and self.epsilon >= 0):
            raise PrivacyError(f"a charge's epsilon must be finite and not negative, got epsilon={self.epsilon}")
        if not 0 <= self.delta < 1:
            raise PrivacyError(f"a charge's delta must lie in [0, 1), got delta={self.delta}")
        for key, rho in (("rho", self.rho), ("zcdp", self.zcdp)):
            if rho is not None and not (isfinite(rho) and rho >= 0):
                raise PrivacyError(f"a charge's {key} must be finite and not negative, got {key}={rho}")

    @property
    def concentrated(self) -> Fraction | None:
        """The rho by which the session is zCDP: epsilon^2 / 2 if it is pure."""
        if self.delta == 0:
            return _decimal(self.epsilon) ** 2 / 2
        known = self.rho if self.zcdp is None else self.zcdp
        return None if known is None else Fraction(known)


@dataclass(frozen=True)
class Cap:
    """The most that all sessions together may tell about one data set.

    Without a rule the first session's distribution decides: Laplace adds up epsilons, Gaussian adds up rho.
    """

    epsilon: float
    delta: float = 0.0
    rule: Rule | None = None

    def __post_init__(self) -> None:
        if not (isfinite(self.epsilon) and self.epsilon > 0):
            raise PrivacyError(f"a cap's epsilon must be positive and finite, got epsilon={self.epsilon}")
        if not 0 <= self.delta < 1:
            raise PrivacyError(f"a cap's delta must lie in [0, 1), got delta={self.delta}")
        if self.rule not in (None, Rule.SUM) and self.delta == 0:
            raise PrivacyError(f'a cap with rule "{self.rule.value}" needs a positive delta, got delta=0')

    def rule_for(self, first: Charge) -> Rule:
        """The rule that an account keeps for good if `first` is its first entry, booked under this cap."""
        if self.rule is not None:
            return self.rule
        return Rule.RHO if min(first.delta, self.delta) > 0 and first.rho is not None else Rule.SUM


@dataclass(frozen=True)
class Spent:
    """What an account's sessions add up to: together they are (epsilon, delta)-private."""

    sessions: int
    epsilon: float
    delta: float
    rule: Rule


@proven("ledger_composition")
def rho_of_pure(epsilon: float) -> float:
    """A rho, rounded up, whose Gaussian pair dominates every epsilon-private mechanism.

    Domain: epsilon: not negative.
    Unit: half the squared L2 sensitivity over the variance that is accounted for.
    Guarantee: the Gaussian pair of this rho dominates. Proof: ledger_composition, claim 3.
    """
    half = -float(ndtri_exp(-np.logaddexp(0.0, epsilon)))
    mu = 2 * half * (1 + 2.0**-30) + 2.0**-48
    return mu * mu / 2 * (1 + 2.0**-50)


@proven("ledger_composition")
def charge_of(plan: PrivacyPlan, party: str) -> Charge:
    """What a session of this plan spends of a party's data: its guarantee against the worst view that has one.

    Domain: party: one of the plan's.
    Unit: epsilon in nats, delta a probability, rho as Gaussians have it.
    Guarantee: never less than the plan's guarantee. Proof: ledger_composition, Gaussian sessions.
    """
    if party not in plan.parties:
        raise PrivacyError(f"the plan has no party {party!r}, it has {', '.join(plan.names)}")
    worst = plan.guarantees[party]
    if worst.rho is None:
        return Charge(worst.epsilon, 0.0, rho_of_pure(worst.epsilon))
    # More than the plan's floats err: some roundings of 2^-53 each.
    rho = float(worst.rho) * (1 + 2.0**-29)
    return Charge(worst.epsilon, worst.delta, *((rho, None) if worst.dominated else (None, rho)))


def record_epsilon(plan: PrivacyPlan) -> float:
    """The epsilon of the whole record against the worst view with a guarantee."""
    return max(e for e in plan.record.values() if e is not None)


@proven("ledger_composition")
def require_room(cap: Cap, rule: Rule, before: Sequence[Charge], asked: Charge, name: str) -> None:
    """Refuse `asked`, with the numbers, unless all charges together stay within the cap of the data set `name`.

    `rule` is the account's, fixed by its first entry, void or not; `before` are the charges that count.

    Domain: before: in the order of booking, without void ones.
    Unit: epsilon in nats, delta a probability.
    Guarantee: all sessions that pass, chosen one after the other by what was released, keep the cap. Proof:
        ledger_composition, claims 1 to 5.
    """
    # The first session is chosen before anything was seen: its own statement is what counts.
    if not before:
        if _decimal(asked.epsilon) > _decimal(cap.epsilon) or _decimal(asked.delta) > _decimal(cap.delta):
            raise LedgerError(f"{_limit(cap, name)}, this session alone asks {_pair(asked.epsilon, asked.delta)}")
        return
    charges = [*before, asked]
    if rule is Rule.SUM:
        fits = _sum(c.epsilon for c in charges) <= _decimal(cap.epsilon)
        fits = fits and _sum(c.delta for c in charges) <= _decimal(cap.delta)
    else:
        fits = _pure_within(cap, charges) if rule is Rule.ZCDP else False
        fits = fits or _rho_within(cap, rule, charges, name)
    if not fits:
        spent, after = total(cap, rule, before), total(cap, rule, charges)
        raise LedgerError(
            f"{_limit(cap, name)}, {_pair(spent.epsilon, spent.delta)} is spent and with this session's "
            f"{_pair(asked.epsilon, asked.delta)} it would be {_pair(after.epsilon, after.delta)} by rule "
            f'"{rule.value}"'
        )


@proven("ledger_composition")
def _pure_within(cap: Cap, charges: Sequence[Charge]) -> bool:
    """Whether no loss can pass the cap's epsilon: all sessions are pure, and their epsilons add up to no more.

    Domain: charges: all that count, and the one that is asked.
    Unit: nats, added up as decimals.
    Guarantee: (A) of claim 5. Proof: ledger_composition.
    """
    return all(c.delta == 0 for c in charges) and _sum(c.epsilon for c in charges) <= _decimal(cap.epsilon)


@proven("ledger_composition")
def _rho_within(cap: Cap, rule: Rule, charges: Sequence[Charge], name: str) -> bool:
    """Whether the sum of rho gives no more than the cap; refuses charges that the rule cannot add up.

    Domain: rule: rho or zcdp.
    Unit: rho, read as epsilon at the cap's delta.
    Guarantee: claim 2 or claim 4, with slack for 1024 sessions. Proof: ledger_composition.
    """
    if cap.delta == 0:
        raise LedgerError(
            f'data set {name} is accounted by rule "{rule.value}" since its first entry, which needs a total.delta '
            "above 0; the policy has delta=0"
        )
    if len(charges) > MOST_SESSIONS:
        raise LedgerError(f'data set {name} may have at most {MOST_SESSIONS} sessions under rule "{rule.value}"')
    rho = _rho(rule, charges)
    if rho is None:
        raise LedgerError(
            f'data set {name} is accounted by rule "{rule.value}", which a session without collusion cannot join'
        )
    limit = gaussian_rho if rule is Rule.RHO else zcdp_rho
    return rho <= limit(cap.epsilon, cap.delta, ALL_SLACK)


@proven("ledger_composition")
def total(cap: Cap, rule: Rule, charges: Sequence[Charge]) -> Spent:
    """What the charges add up to by the account's rule.

    Domain: charges: all that count, by one rule.
    Unit: epsilon in nats, delta a probability.
    Guarantee: the charges together are (epsilon, delta)-private, had they been fixed in advance. Proof:
        ledger_composition.
    """
    if len(charges) == 1:
        return Spent(1, charges[0].epsilon, charges[0].delta, rule)
    plain = Spent(len(charges), float(_sum(c.epsilon for c in charges)), float(_sum(c.delta for c in charges)), rule)
    rho = None if rule is Rule.SUM or not charges or cap.delta == 0 else _rho(rule, charges)
    if rho is None:
        return plain
    read = epsilon_of_gaussian if rule is Rule.RHO else epsilon_of_rho
    # Sessions that use no column of the data set spend nothing.
    composed = Spent(len(charges), read(rho, cap.delta, ALL_SLACK) if rho else 0.0, cap.delta, rule)
    pure = rule is Rule.ZCDP and plain.delta == 0
    return plain if pure and plain.epsilon <= composed.epsilon else composed


def _decimal(value: float) -> Fraction:
    """The number as it is written, so that ten times 0.1 is 1."""
    return Fraction(repr(float(value)))


def _sum(values: Iterable[float]) -> Fraction:
    return sum((_decimal(v) for v in values), Fraction(0))


def _rho(rule: Rule, charges: Iterable[Charge]) -> Fraction | None:
    """The sum by rule "rho" or "zcdp"; None where a session has no such rho."""
    total = Fraction(0)
    for charge in charges:
        one = charge.concentrated if rule is Rule.ZCDP else None if charge.rho is None else Fraction(charge.rho)
        if one is None:
            return None
        total += one
    return total


def _limit(cap: Cap, name: str) -> str:
    return f"data set {name} may spend at most {_pair(cap.epsilon, cap.delta)} in total"


def _pair(epsilon: float, delta: float) -> str:
    return f"epsilon={epsilon:.6g}" + (f" at delta={delta:.6g}" if delta > 0 else "")

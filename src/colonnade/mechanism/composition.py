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
from colonnade.foundation.proof import proven
from colonnade.mechanism.accounting import SLACK, epsilon_of_gaussian, gaussian_rho
from colonnade.mechanism.moments import Law
from colonnade.mechanism.plan import PrivacyPlan

MOST_SESSIONS = 1 << 10
"""No more sessions than these share the slack of the noise under Rule.RHO."""
ALL_SLACK = MOST_SESSIONS * SLACK


class Rule(StrEnum):
    """How sessions add up: epsilons and deltas, or the rho = mu^2 / 2 of Gaussian differential privacy."""

    SUM = "sum"
    RHO = "rho"


@dataclass(frozen=True)
class Charge:
    """What one session may tell about one data set: (epsilon, delta), and rho where a Gaussian pair dominates it."""

    epsilon: float
    delta: float
    rho: float | None

    def __post_init__(self) -> None:
        if not (isfinite(self.epsilon) and self.epsilon > 0):
            raise PrivacyError(f"a charge's epsilon must be positive and finite, got epsilon={self.epsilon}")
        if not 0 <= self.delta < 1:
            raise PrivacyError(f"a charge's delta must lie in [0, 1), got delta={self.delta}")
        if self.rho is not None and not (isfinite(self.rho) and self.rho > 0):
            raise PrivacyError(f"a charge's rho must be positive and finite, got rho={self.rho}")


@dataclass(frozen=True)
class Cap:
    """The most that all sessions together may tell about one data set.

    Without a rule the first session's law decides: Laplace adds up epsilons, Gaussian adds up rho.
    """

    epsilon: float
    delta: float = 0.0
    rule: Rule | None = None

    def __post_init__(self) -> None:
        if not (isfinite(self.epsilon) and self.epsilon > 0):
            raise PrivacyError(f"a cap's epsilon must be positive and finite, got epsilon={self.epsilon}")
        if not 0 <= self.delta < 1:
            raise PrivacyError(f"a cap's delta must lie in [0, 1), got delta={self.delta}")
        if self.rule is Rule.RHO and self.delta == 0:
            raise PrivacyError('a cap with rule "rho" needs a positive delta, got delta=0')

    def rule_for(self, first: Charge) -> Rule:
        """The rule of an account whose first session was `first`."""
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
    """A rho, rounded up, whose Gaussian pair dominates every epsilon-private mechanism."""
    half = -float(ndtri_exp(-np.logaddexp(0.0, epsilon)))
    mu = 2 * half * (1 + 2.0**-30) + 2.0**-48
    return mu * mu / 2 * (1 + 2.0**-50)


@proven("ledger_composition")
def rho_of_stated(epsilon: float, delta: float) -> float:
    """An upper bound, within 2^-35 of itself, of the rho for which a plan stated (epsilon, delta)."""
    high = 1.0
    while epsilon_of_gaussian(Fraction(high), delta) <= epsilon:
        high *= 2
    low = high / 2
    while epsilon_of_gaussian(Fraction(low), delta) > epsilon:
        low, high = low / 2, low
        if low < 2.0**-400:
            raise PrivacyError(f"no Gaussian noise gives epsilon={epsilon} at delta={delta}")
    while high > low * (1 + 2.0**-40):
        middle = (low + high) / 2
        stated = epsilon_of_gaussian(Fraction(middle), delta)
        low, high = (middle, high) if stated <= epsilon else (low, middle)
    return high * (1 + 2.0**-36)


@proven("ledger_composition")
def charge_of(plan: PrivacyPlan, party: str) -> Charge:
    """What a session of this plan spends of a party's data: epsilon^(k) against the worst view with a guarantee."""
    if party not in plan.parties:
        raise PrivacyError(f"the plan has no party {party!r}, it has {', '.join(plan.names)}")
    epsilon = max(e for e in plan.parties[party].values() if e is not None)
    if plan.law is Law.LAPLACE:
        return Charge(epsilon, 0.0, rho_of_pure(epsilon))
    # A party that knows a share of the noise is accounted by zCDP alone, which no Gaussian pair need dominate.
    known = plan.collusion == 0 and len(plan.names) > 1
    return Charge(epsilon, plan.delta, None if known else rho_of_stated(epsilon, plan.delta))


def record_epsilon(plan: PrivacyPlan) -> float:
    """The epsilon of the whole record against the worst view with a guarantee."""
    return max(e for e in plan.record.values() if e is not None)


@proven("ledger_composition")
def require_room(cap: Cap, before: Sequence[Charge], asked: Charge, name: str) -> None:
    """Refuse `asked`, with the numbers, unless all charges together stay within the cap of the data set `name`."""
    # The first session is chosen before anything was seen: its own statement is what counts.
    if not before:
        if _decimal(asked.epsilon) > _decimal(cap.epsilon) or _decimal(asked.delta) > _decimal(cap.delta):
            raise LedgerError(f"{_limit(cap, name)}, this session alone asks {_pair(asked.epsilon, asked.delta)}")
        return
    rule = cap.rule_for(before[0])
    charges = [*before, asked]
    if rule is Rule.SUM:
        fits = _sum(c.epsilon for c in charges) <= _decimal(cap.epsilon)
        fits = fits and _sum(c.delta for c in charges) <= _decimal(cap.delta)
    else:
        if len(charges) > MOST_SESSIONS:
            raise LedgerError(f'data set {name} may have at most {MOST_SESSIONS} sessions under rule "rho"')
        if any(c.rho is None for c in charges):
            raise LedgerError(
                f'data set {name} is accounted by rule "rho", which a session without collusion cannot join'
            )
        fits = _rho(charges) <= gaussian_rho(cap.epsilon, cap.delta, ALL_SLACK)
    if not fits:
        spent, after = total(cap, before), total(cap, charges)
        raise LedgerError(
            f"{_limit(cap, name)}, {_pair(spent.epsilon, spent.delta)} is spent and with this session's "
            f"{_pair(asked.epsilon, asked.delta)} it would be {_pair(after.epsilon, after.delta)} by rule "
            f'"{rule.value}"'
        )


@proven("ledger_composition")
def total(cap: Cap, charges: Sequence[Charge]) -> Spent:
    """What the charges add up to by the cap's rule."""
    if not charges:
        return Spent(0, 0.0, 0.0, cap.rule or Rule.SUM)
    rule = cap.rule_for(charges[0])
    if len(charges) == 1:
        return Spent(1, charges[0].epsilon, charges[0].delta, rule)
    if rule is Rule.SUM:
        return Spent(len(charges), float(_sum(c.epsilon for c in charges)), float(_sum(c.delta for c in charges)), rule)
    return Spent(len(charges), epsilon_of_gaussian(_rho(charges), cap.delta, ALL_SLACK), cap.delta, rule)


def _decimal(value: float) -> Fraction:
    """The number as it is written, so that ten times 0.1 is 1."""
    return Fraction(repr(float(value)))


def _sum(values: Iterable[float]) -> Fraction:
    return sum((_decimal(v) for v in values), Fraction(0))


def _rho(charges: Iterable[Charge]) -> Fraction:
    return sum((Fraction(c.rho) for c in charges if c.rho is not None), Fraction(0))


def _limit(cap: Cap, name: str) -> str:
    return f"data set {name} may spend at most {_pair(cap.epsilon, cap.delta)} in total"


def _pair(epsilon: float, delta: float) -> str:
    return f"epsilon={epsilon:.6g}" + (f" at delta={delta:.6g}" if delta > 0 else "")

"""Defects of version 0.1.0 that touch a release, each with the epsilon that holds in spite of it, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any

from colonnade.foundation.proven import proven
from colonnade.mechanism.accounting import SLACK, epsilon_of_gaussian, epsilon_of_rho, gaussian_rho, zcdp_rho
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.release import ReleasedBlock, ReleaseRecord

DEFECTIVE = "0.1.0"
ACTION = (
    "count it with the epsilon that holds (without one, as a release of exact sums), tell whoever was promised the "
    "stated one, and release again with this version; docs/administrator.md"
)


@dataclass(frozen=True)
class Defect:
    """One defect as it touches one release, for the whole record or for one party's part of it."""

    name: str
    """traces, norms or derived."""
    stated: float
    bound: float | None
    """The epsilon that holds; None where none does."""

    @property
    def sentence(self) -> str:
        what = {
            "traces": "the rounding of a trace was counted once for all of its columns",
            "norms": "the rounding of a trace was counted once, beside the small sensitivity of a declared norm",
            "derived": "a derived column could leave its bounds",
        }[self.name]
        holds = "no epsilon holds" if self.bound is None else f"epsilon {self.bound:.6g} holds"
        return f"defect of {DEFECTIVE}, {what}: not the stated epsilon {self.stated:.6g}, {holds}; {ACTION}"

    def describe(self) -> dict[str, Any]:
        return {"defect": self.name, "stated": self.stated, "bound": self.bound, "sentence": self.sentence}


def defects_of(release: ReleaseRecord, party: str | None = None) -> list[Defect]:
    """Find the defects of 0.1.0 that touch a release: of the whole record, or of one party's part of it."""
    if release.provenance.get("colonnade") != DEFECTIVE:
        return []
    agreement: Mapping[str, Any] = release.provenance["agreement"]
    views = release.plan["record"] if party is None else release.plan["parties"][party]["epsilon"]
    stated = max(epsilon for epsilon in views.values() if epsilon is not None)
    owners = [party] if party is not None else list(agreement["schema"])
    found = []
    if any(column["kind"] == "derived" for name in owners for column in agreement["schema"][name].values()):
        found.append(Defect("derived", stated, None))
    traces = [
        b for b in release.blocks if b.summed and len(b.owners) == 1 and b.owners[0] in owners and _uncounted(b) > 0
    ]
    if traces:
        name = "norms" if any(b.owners[0] in agreement["norms"] for b in traces) else "traces"
        found.append(Defect(name, stated, epsilon_in_spite(release, traces, stated)))
    return found


def _uncounted(block: ReleasedBlock) -> float:
    """How many steps of the grid a record may have moved a trace by beyond those that its plan counted.

    Of m columns each rounded its own excess: m steps in the place of m/4 + 1.
    """
    return len(block.factors) * 0.75 - 1


@proven("rounding")
def epsilon_in_spite(release: ReleaseRecord, traces: list[ReleasedBlock], stated: float) -> float:
    """The epsilon of the steps that were counted and of those that were not, by the triangle inequality.

    Domain: a release of 0.1.0 with traces of two and more columns; stated: the epsilon that it was released with.
    Unit: nats of privacy loss, at the release's delta.
    Guarantee: the release is (epsilon, delta)-private in spite of the defect. Proof: rounding.
    """
    moved = [_uncounted(block) / block.unit / float(block.std[0]) for block in traces]
    if release.law is Distribution.LAPLACE:
        return (stated + sqrt(2) * sum(moved)) * (1 + 2.0**-40)
    delta = float(release.plan["delta"])
    # A view that knows part of the noise was stated by zCDP. Rounding takes 4 of the variance, on the integers.
    known = release.plan["collusion"] == 0 and len(release.plan["parties"]) > 1
    rho = zcdp_rho(stated, delta, SLACK) if known else gaussian_rho(stated, delta)
    shares = [
        (steps / (1 - 4 / (block.unit * block.std[0]) ** 2) ** 0.5) for steps, block in zip(moved, traces, strict=True)
    ]
    mu = sqrt(2 * float(rho)) * (1 + 2.0**-28) + sqrt(sum(steps**2 for steps in shares))
    return (epsilon_of_rho if known else epsilon_of_gaussian)(Fraction(mu * mu / 2), delta, SLACK)

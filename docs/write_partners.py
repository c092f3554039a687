"""Write what a malicious partner could read, and which studies are refused for it: docs/results/operations.md.

python docs/write_partners.py
"""

from __future__ import annotations

import sys
from math import e as euler
from math import log2, pi, sqrt
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from colonnade.consent.policy import Policy
from colonnade.foundation.errors import PolicyError
from colonnade.foundation.schema import Schema
from colonnade.mechanism.composition import Cap
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.leakage import KEY_BITS, TOLD_BITS, Leakage
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.study import read_study
from docs.sections import publish

ROOT = Path(__file__).resolve().parents[1]
SESSION = bytes(32)
APART = 6
"""Deviations of the noise between two values of a digit: an opened value is then read wrong in 1.5 of 100 cases."""

INTRO = f"""# What a malicious partner could read

`python docs/write_partners.py` writes this from plans alone; nothing is run. For each study: the party whose columns
are worst off, and the partner that would read them if malicious. "Told" are the bits that the revealed values of one
column can tell, "read" the coefficients of its key that they can spell, at most, by any means
([proof](../../proofs/key_reading.md)); "by fives" is what a plain attack reads, multiples of powers of five {APART}
deviations of the noise apart. "Left" is what remains of the 2,048 coefficients, "bits" its
[estimated security](../secure-product.md#parameters) ([`smallest_key_bits`](../policy.md), {KEY_BITS} by default).
"People": of how many a partner could read one thing exactly ([`largest_bits_told`](../policy.md), {TOLD_BITS:,} by
default). Epsilon is 1 where nothing else is said. Without a malicious partner every plan here has 128 bits or more.

"""
FULL = """
| study | records | q | whose columns | if it cheats | values | told | read | by fives | left | bits | people | policy |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""

HELP = """
## What helps
- **Fewer columns or levels** at the party that multiplies: what is read is proportional to them. A refusal
  says how many would do at the same modulus. Regions in place of postcodes, or bins, are such a change.
- **A smaller epsilon, or fewer records**: more noise beside the sums, a shorter modulus, fewer bits a value.
- **More parties** for the same columns: each of them multiplies fewer.
- `release = "full"` where a plan chose a trace: its sums of one product each carry more noise.
- `product = "bgn"`, which has no such key; it is far slower.
- `smallest_key_bits = 0` and a larger `largest_bits_told` for partners that are trusted to follow the protocol.

The narrower side encrypts: encrypted columns travel, so the wider one would cost traffic, and no option asks for it.
"""


def numeric_study(rows: int, columns: int, parties: int, **terms: Any) -> SessionPlan:
    """Numeric columns dealt out evenly, a numeric label at the first party."""
    number = {"kind": "numeric", "low": -1, "high": 1}
    each = columns // parties
    owned: dict[str, dict[str, Any]] = {f"p{k}": {f"x{k}_{i}": number for i in range(each)} for k in range(parties)}
    owned["p0"]["y"] = number
    agreement = Agreement.from_terms(
        name="s", schema=Schema.of(owned), label="p0.y", task=Task.LINEAR, **{"epsilon": 1.0, **terms}
    )
    return plan_session(agreement, rows, SESSION)


def levels_study(rows: int, levels: int, **terms: Any) -> SessionPlan:
    """Three columns of a hospital, one of a shop with that many levels."""
    binary = {"kind": "binary", "levels": ["no", "yes"]}
    owned = {
        "hospital": {"hiv": binary, "age": {"kind": "numeric", "low": 18, "high": 100}, "ill": binary},
        "shop": {"zip": {"kind": "categorical", "levels": [str(i) for i in range(levels)]}},
    }
    agreement = Agreement.from_terms(
        name="s",
        schema=Schema.of(owned),
        label="hospital.ill",
        task=Task.LOGISTIC,
        **{"epsilon": 1.0, "release": "full", **terms},
    )
    return plan_session(agreement, rows, SESSION)


def studies() -> list[tuple[str, SessionPlan]]:
    """The paper's Table 2 at epsilon = 1, tests/studies/income, and columns of many levels."""
    table2 = [
        (f"Table 2, 800 columns, K = {k}, {told}", numeric_study(80_000, 800, k, **terms))
        for told, terms in (
            ("delta = 1/n, full", {"delta": 1 / 80_000, "release": "full"}),
            ("delta = 1/n, trace", {"delta": 1 / 80_000}),
            ("delta = 0, full", {"release": "full"}),
            ("delta = 0, trace", {}),
        )
        for k in (2, 4, 8)
    ]
    levels = [
        (f"one column of {levels} levels", levels_study(rows, levels))
        for rows, levels in (
            (60_000, 40),
            (60_000, 100),
            (60_000, 256),
            (60_000, 400),
            (60_000, 1024),
            (1_000_000, 60),
            (1_000_000, 100),
            (1_000_000, 256),
        )
    ]
    less = [
        ("256 levels, epsilon = 0.1", levels_study(60_000, 256, epsilon=0.1)),
        ("256 levels", levels_study(6_000, 256)),
    ]
    # Ids that its three files have in common.
    demo = read_study(ROOT / "tests" / "studies" / "income" / "study.toml").session(14_146)
    return [
        *table2,
        ("41 columns, K = 2", numeric_study(45_000, 40, 2)),
        ("twelve columns of Adult", demo),
        *levels,
        *less,
    ]


def by_fives(session: SessionPlan, exposure: Leakage) -> int:
    """Coefficients that the plain attack reads of the column that is told most of."""
    word = exposure.information / exposure.values
    word += log2(euler * sqrt(2)) if session.plan.law is Distribution.LAPLACE else log2(2 * pi * euler) / 2
    choices = 5 if exposure.sealed else 31
    digits = 0
    while choices ** (digits + 1) * APART <= 2**word:
        digits += 1
    return min(digits * exposure.values, 2048)


def refusal(session: SessionPlan, party: str) -> str | None:
    """The sentence of a policy that asks for nothing but the default."""
    others = tuple(name for name in session.parties if name != party)
    try:
        Policy(party, others, 1e9, Cap(1e9), delta=0.5).check(session)
    except PolicyError as refused:
        return str(refused)
    return None


def main() -> None:
    rows, agreed = [], 0
    for name, session in studies():
        worst = min(session.exposures, key=lambda x: x.key.bits)
        people = max(session.tellings, key=lambda told: told.bits)
        sentence = refusal(session, worst.partner) or refusal(session, people.partner)
        what = "agrees" if sentence is None else "**refuses**"
        cells = (
            name,
            f"{session.rows:,}",
            f"2^{session.spec.modulus_bits}",
            worst.partner,
            ", ".join(worst.cheaters),
            f"{worst.values:,}",
            f"{worst.information:,.0f}",
            f"{worst.key.coefficients:,}",
            f"{by_fives(session, worst):,}",
            f"{worst.key.dimension:,}",
            str(worst.key.bits),
            f"{people.people:,}",
            what if sentence is None else f"{what}: `{sentence.split()[0]}`",
        )
        rows.append(f"| {' | '.join(cells)} |")
        agreed += sentence is None
    told = f"The default policy agrees to {agreed} of {len(rows)} studies; one categorical column of 100 levels is\n"
    told += "refused at 60,000 records, and 800 columns of two parties at 80,000.\n"
    publish("partners", INTRO + told + FULL + "\n".join(rows) + "\n" + HELP)


if __name__ == "__main__":
    main()

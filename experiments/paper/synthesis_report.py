"""The page of the synthesis study: docs/results/synthesis.md."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from experiments.paper import catalogue
from experiments.paper.synthesis import coverage_study, information_study, known_study, null_study, rows_study
from experiments.paper.synthesis_models import models_study

PURE, BOTH = [(False, 1.0), (False, 10.0)], [(False, 1.0), (False, 10.0), (True, 1.0), (True, 10.0)]
HEAD = """# What else is in a release

Made by `python -m experiments.paper synthesis --write`. One 80/20 split and one release for each line unless a line
says more; collusion 1, replace-one neighbours; Adult-77 with 2 parties, Dutch and ACS with 3. ACS has 24 columns with
{levels} levels, cut by this project. TV1, TV2, TV3: mean total variation of tables of one, two and three columns (60
triples) between as many drawn rows as training rows and the training rows. LR and boosting: trained on drawn rows,
accuracy on real test rows; `solve` is the release's own model. "All labels": mean accuracy over all columns, each
predicted from all others. CPU s: fit and draw. Not run: AIM and MST beside it, SDMetrics' score, more than one seed of
the rows study, other numbers of parties, the run across machines.
"""


def study(quick: bool) -> str:
    """All parts, as Markdown."""
    data = [key for key in ("Adult-77", "Dutch", "ACS") if key != "Dutch" or catalogue.missing("dutch-36") is None]
    settings = {"Adult-77": BOTH, "Dutch": BOTH[:3], "ACS": [(True, 1.0), (False, 10.0)]}
    if quick:
        data, settings = ["Adult-77"], {"Adult-77": [(True, 1.0)]}
    parts = [HEAD.format(levels=_levels())]
    parts += ["## Rows\n", _table(_told(line for key in data for line in rows_study(key, settings[key])))]
    if not quick:
        parts += ["## What real rows give\n", _table(_told(known_study(key) for key in data))]
    releases = 2 if quick else 100
    parts += ["## Intervals of counts, Adult-77\n", f"{releases} releases each; exact counts of the training rows.\n"]
    parts += [_table(_told(line for law in (True, False) for line in coverage_study(law, releases)))]
    parts += ["## Tests of independence, Adult-77 with shuffled columns\n"]
    parts += [_table(_told(null_study(law, 2 if quick else 12) for law in (True, False)))]
    parts += ["## Mutual information, Adult-77\n"]
    parts += [_table(_told(information_study(law, 2 if quick else 10) for law in (True, False)))]
    if not quick:
        parts += ["## Models against scikit-learn without privacy\n", "Releases at (1, 1/n).\n"]
        parts += [_table(_told(line for key in data for line in models_study(key)))]
    return "\n".join(parts)


def _levels() -> int:
    from colonnade.foundation.schema import Numeric, column_from
    from experiments.data.acs import nist_acs

    columns = [column_from(name, spec) for name, spec in nist_acs().columns.items()]
    return sum(len(c.bins) + 1 if isinstance(c, Numeric) else len(c.all_levels) for c in columns)


def _told(lines: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    out = []
    for line in lines:
        sys.stderr.write(f"{line}\n")
        out.append(line)
    return out


def _table(lines: Sequence[dict[str, object]]) -> str:
    names = list(lines[0])
    out = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    out += ["| " + " | ".join(_cell(name, line[name]) for name in names) + " |" for line in lines]
    return "\n".join(out) + "\n"


def _cell(name: str, value: object) -> str:
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:.1f}" if name in ("CPU s", "edges right of 12") else f"{value:.4f}"

"""The page of the synthesis study: docs/results/synthesis.md, one section for each part."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from colonnade.mechanism.objective import Purpose
from experiments.paper import catalogue
from experiments.paper.synthesis import coverage_study, information_study, known_study, null_study
from experiments.paper.synthesis_apart import kept_run
from experiments.paper.synthesis_labels import labels_study
from experiments.paper.synthesis_models import models_study
from experiments.paper.synthesis_pairs import pairs_study
from experiments.paper.synthesis_rounds import rounds_study
from experiments.paper.synthesis_rows import compared, lines, score_all

HEAD = """# What else is in a release

Made by `python -m experiments.paper synthesis --write`, which with `--only rows,...` runs some sections anew and keeps
the others. One 80/20 split; collusion 1, replace-one neighbours; Adult-77 with 2 parties, Dutch and ACS with 3 unless a
line says otherwise. ACS has 24 columns with {levels} levels, as binned here. TV1, TV2, TV3: mean total variation
of tables of one, two and three columns (60 triples) between as many drawn rows as training rows and the training rows.
LR and boosting: trained on drawn rows, accuracy on real test rows; `solve` is the release's own model. "All labels":
mean accuracy over all columns, each predicted from all others. CPU s: fit and draw.
"""
SIDE = {"ours": 'ours, purpose "all"', "AIM": "AIM, its settings: 80 MB, 1000 iterations", "MST": "MST"}
"""Methods that the page shows at once; the table of all lies beside it."""
Lines = Sequence[Mapping[str, object]]


OWN = "Rows have the label of the release's own model."
EARLIER = """
Run before rows had the label of the release's own model: LR and boosting are as without it ("The label of drawn
rows").
"""
LABEL = f"""
Purpose "label", the default: the tables with the label get less noise than the others. {OWN}

"""
LABELS = """
One release each: the same fit, and rows whose label is drawn by the maximum-entropy model or by the model that `solve`
makes of the release, given all other columns.

"""
ALL = f"""
Purpose "all": the budget is allocated to all columns. {OWN} A release of margins alone has
no rows. `planned` is the total variation of tables that the plan predicted from public facts, `forecast` what the
release itself says of the rows' TV2; both are to be near TV2.

"""
COMPARED = """
At (1, 1/n), dpmm 0.1.9 (`python -m experiments synthesis-baselines`; pinned in
experiments/synthesizers/requirements.txt) on the same training rows and levels, held in one
place; ours across 2 or 3 parties. The package's guarantee is for adding or removing
a record under zCDP. It is given the smaller rho at which *replacing* one costs epsilon 1: rho of its Gaussian noise
doubles, and that of its choices by the exponential mechanism is four times as large (AIM 2.2 times in all, MST 8/3).
Lines with add/remove are at epsilon 1 as the package means it. Its defaults (80 MB, 1000 iterations, tables of two
columns, 16 rounds for each column) are those of AIM's authors. All labels: by logistic regressions on the drawn rows.
AIM at its settings ran on a GPU, by other code for the same steps (docs/decisions/0029-aim-on-a-gpu.md); GPU s: by the
clock, on one H200 that three to nine runs shared. Means of the seeds; all lines:

"""
OURS_EARLIER = """Lines of ours are those of an earlier run of this page.

"""
PAIRS = """
ACS, purpose "all", one release each: TV2 of the denoised tables over all 276 pairs, where a pair that was not released
is taken as independent. Full: all pairs. Ring of w: the label with all columns, and each column with the w that follow
it in the schema. Label: the label with all columns. Margins: each column by itself. Independent: exact margins, which
no release has.

"""
ROUNDS = """
ACS by central simulation (`experiments/paper/synthesis_rounds.py`), two draws each, TV2 of tables over all pairs: all
pairs at once; a first round of all pairs with a share of the budget and a second of the strongest; margins alone; and
columns cut down to few levels, spread again by margins. Tables are shrunk by a simpler rule than a release's are.

"""
APART = """
Three parties and the server as processes of their own on one machine of two cores, which others were using at the time;
lattice product, purpose "all", (1, 1/n), records in the same order, without matching of ids.

"""


def label_section() -> str:
    """Rows of releases for the label."""
    return LABEL + _table(lines(Purpose.LABEL))


def all_section() -> str:
    """Rows of releases for all columns."""
    return ALL + _table(lines(Purpose.ALL))


def compared_section() -> str:
    """Ours beside MST and AIM."""
    return COMPARED + _table(compared())


def pairs_section() -> str:
    """What to release of many columns."""
    return PAIRS + _table(list(pairs_study()))


def labels_section() -> str:
    """Whose label rows have."""
    return LABELS + _table(list(labels_study()))


def rounds_section() -> str:
    """A second round, and coarser levels."""
    return ROUNDS + _table(list(rounds_study()))


def known_section() -> str:
    """What real rows give."""
    return "\n" + _table(_told(known_study(key) for key in _data()))


def intervals_section() -> str:
    """Coverage of the intervals of counts."""
    found = _told(line for law in (True, False) for line in coverage_study(law, 100))
    return "\n100 releases each; exact counts of the training rows.\n\n" + _table(found)


def tests_section() -> str:
    """Levels of the tests of independence."""
    return "\n" + _table(_told(null_study(law, 12) for law in (True, False)))


def information_section() -> str:
    """Errors of mutual information."""
    return "\n" + _table(_told(information_study(law, 10) for law in (True, False)))


def models_section() -> str:
    """Models of other columns."""
    return "\nReleases at (1, 1/n).\n\n" + _table(_told(line for key in _data() for line in models_study(key)))


def apart_section() -> str:
    """Time of a whole run."""
    return APART + _table([kept_run(key) for key in _data()])


SECTIONS: dict[str, tuple[str, Callable[[], str]]] = {
    "rows": ("Rows", label_section),
    "all": ("Rows of releases for all columns", all_section),
    "labels": ("The label of drawn rows", labels_section),
    "compared": ("Beside MST and AIM", compared_section),
    "pairs": ("Many columns: which pairs to release", pairs_section),
    "rounds": ("Many columns: a second round, coarser levels", rounds_section),
    "known": ("What real rows give", known_section),
    "apart": ("The whole run across three parties", apart_section),
    "intervals": ("Intervals of counts, Adult-77", intervals_section),
    "tests": ("Tests of independence, Adult-77 with shuffled columns", tests_section),
    "information": ("Mutual information, Adult-77", information_section),
    "models": ("Models against scikit-learn without privacy", models_section),
}


def study(quick: bool, only: Sequence[str] = (), before: str = "", kept_rows: bool = False) -> str:
    """The page; sections that are not run anew are taken from the page as it was before.

    `kept_rows` shows the releases that earlier runs have scored, and scores no others.
    """
    if quick:
        return _quick()
    if not kept_rows and (not only or {"rows", "all"} & set(only)):
        score_all()
    kept = dict(_sections(before))
    parts = [HEAD.format(levels=_levels())]
    for key, (title, run) in SECTIONS.items():
        if not only or key in only:
            made = run()
            made = side_by_side(_with_ours(made, kept.get(title, ""))) if key == "compared" else made
            parts.append(f"## {title}\n{made}")
        elif title in kept:
            old = key in ("rows", "all") and OWN not in kept[title] and EARLIER not in kept[title]
            parts.append(f"## {title}\n{EARLIER * old}{kept[title]}")
    return "\n".join(parts)


def _with_ours(found: str, before: str) -> str:
    """The comparison with the lines of ours that stood on the page, where no release of ours has been scored anew."""
    ours = [line for line in before.splitlines() if "| ours, " in line]
    if "| ours, " in found or not ours:
        return found
    old, new = (next(line for line in page.splitlines() if line.startswith("| data |")) for page in (before, found))
    for line in ours:
        data, known = line.split("|")[1], dict(zip(_cells(old), _cells(line), strict=True))
        line = "|".join(["", *(known.get(name, "  ") for name in _cells(new)), ""])
        first = f"\n|{data}|"
        found = found.replace(first, f"\n{line}{first}", 1)
    return found.replace("\n| data |", f"\n{OURS_EARLIER}| data |", 1)


def side_by_side(found: str) -> str:
    """The comparison with a short table before the long one: two-way tables and all labels, method by method."""
    head, *lines = [[c.strip() for c in _cells(line)] for line in found.splitlines() if line.startswith("| ")] or [[]]
    of = {(line[0], line[1]): dict(zip(head, line, strict=True)) for line in lines}
    names = [f"{what}: {name}" for what in ("TV2", "all labels") for name in SIDE]
    out = [f"| at (1, 1/n) | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for data in dict.fromkeys(line[0] for line in lines):
        cells = [of.get((data, method), {}).get(what, "") for what in ("TV2", "all labels") for method in SIDE.values()]
        out.append(f"| {data} | {' | '.join(cells)} |")
    return found.replace("\n| data |", "\n{}\n\n| data |".format("\n".join(out)), 1)


def _cells(line: str) -> list[str]:
    return line.split("|")[1:-1]


def _quick() -> str:
    """A few releases of Adult-77."""
    parts = [HEAD.format(levels=_levels())]
    parts += ["## Intervals\n", _table(_told(line for law in (True, False) for line in coverage_study(law, 2)))]
    parts += ["## Tests\n", _table(_told(null_study(law, 2) for law in (True, False)))]
    parts += ["## Information\n", _table(_told(information_study(law, 2) for law in (True, False)))]
    return "\n".join(parts)


def _sections(page: str) -> Iterable[tuple[str, str]]:
    for part in page.split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        yield title, text.rstrip("\n") + "\n"


def _data() -> list[str]:
    return [key for key in ("Adult-77", "Dutch", "ACS") if key != "Dutch" or catalogue.missing("dutch-36") is None]


def _levels() -> int:
    from colonnade.foundation.schema import Numeric, column_from
    from experiments.data.acs import nist_acs

    columns = [column_from(name, spec) for name, spec in nist_acs().columns.items()]
    return sum(len(c.bins) + 1 if isinstance(c, Numeric) else len(c.all_levels) for c in columns)


def _told(found: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    out = []
    for line in found:
        sys.stderr.write(f"{line}\n")
        out.append(line)
    return out


def _table(found: Lines) -> str:
    names = list(found[0])
    out = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    out += ["| " + " | ".join(_cell(name, line[name]) for name in names) + " |" for line in found]
    return "\n".join(out) + "\n"


def _cell(name: str, value: object) -> str:
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:.1f}" if name.endswith((" s", "edges right of 12", "MB sent")) else f"{value:.4f}"

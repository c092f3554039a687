"""The figures of an audit as docs/audit.md: everything between the two markers is written by the command."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from audit.planted import Planted
from audit.reconstruction import Membership, Recovered
from audit.studies import DELTA, EPSILON
from audit.survey import Attacked, Grids
from colonnade.audit.bounds import CONFIDENCE
from colonnade.audit.findings import Finding

PAGE = Path(__file__).resolve().parents[1] / "docs" / "audit.md"
VIEWS = PAGE.parent / "results" / "audit_views.csv"
BUGS = VIEWS.with_name("audit_bugs.csv")
HEAD = ("mechanism", "K", "c", "view", "changed", "claimed", "pair", "sessions prove", "noise proves", "reached", "")
"""Columns of all views: for each the neighbours that prove most; "reached" is the share of its claim."""
BEGIN, END = "<!-- written by make audit: begin -->", "<!-- written by make audit: end -->"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def number(value: float | None, missing: str = "") -> str:
    return missing if value is None else f"{value:.2f}"


def sharpest(findings: Sequence[Finding]) -> list[Finding]:
    """Of each view the finding that comes nearest to its claim."""
    best: dict[str, Finding] = {}
    for f in findings:
        if f.view not in best or _rank(f) > _rank(best[f.view]):
            best[f.view] = f
    return list(best.values())


def _rank(finding: Finding) -> tuple[bool, float, float]:
    return finding.broken, finding.tightness or 0.0, finding.proved


def rows_of_views(attacked: Sequence[Attacked]) -> list[tuple[str, ...]]:
    """Mechanisms x K x c x views, for each the neighbours that prove most: claimed, and what was proved."""
    rows = []
    for study in attacked:
        for f in sharpest(study.findings):
            view = f.view + (f" ({', '.join(f.known)})" if f.known else "")
            reached = "" if f.tightness is None else f"{f.tightness:.0%}"
            where = (study.mechanism, str(study.parties), str(study.collusion), view, ", ".join(f.scope))
            proved = number(f.claimed, "none"), number(f.loss), number(f.proved), number(f.drawn), reached
            rows.append((*where, *proved, "**broken**" if f.broken else "holds" if f.claimed is not None else "-"))
    return rows


def highest(rows: Sequence[tuple[str, ...]]) -> str:
    """For each mechanism and K: how many views hold, and the one whose claim was nearest to being reached."""
    groups: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for row in rows:
        groups.setdefault(row[:2], []).append(row)
    lines = []
    for (mechanism, parties), found in groups.items():
        claims = [row for row in found if row[5] != "none"]
        broken = sum(row[-1] == "**broken**" for row in claims)
        near = max(claims, key=lambda row: int(row[9].rstrip("%") or 0))
        share = (near[5], max(near[7], near[8], key=lambda text: float(text or 0)), near[9])
        verdict = f"**broken**: {broken}" if broken else "all hold"
        lines.append((mechanism, parties, str(len(claims)), f"c = {near[2]}, {near[3]}", *share, verdict))
    return table(("mechanism", "K", "views", "nearest to its claim", "claimed", "proved", "reached", ""), lines)


def views_section(attacked: Sequence[Attacked]) -> str:
    """What was proved of each mechanism; audit_views.csv has every view."""
    findings = [f for study in attacked for f in study.findings]
    claims = [f for f in findings if f.claimed is not None]
    broken = sum(f.broken for f in claims)
    sessions = sum(study.sessions for study in attacked)
    by_parties = {study.parties: max(f.runs for f in study.findings) for study in attacked}
    told = ", ".join(f"{runs} for K = {k}" for k, runs in by_parties.items())
    alike = sorted(f.alike for f in findings if f.alike is not None)
    low = sum(p < 0.01 for p in alike)
    drawn = [f.drawn / f.claimed for f in claims if f.drawn is not None and f.claimed]
    text = (
        f"{sessions:,} sessions ({told} on each data set), epsilon = {EPSILON:g}, delta = {DELTA:g} where noise is "
        f"Gaussian; {len(claims)} claims, {broken} broken. Each bound holds with {CONFIDENCE:.1%} confidence. The best "
        f"bound reaches {max(drawn):.0%} of its claim. Sessions and drawn noise have one distribution: of {len(alike)} "
        f"comparisons (Kolmogorov-Smirnov) {low} have a p-value under 0.01, the least is {alike[0]:.2g}. Every view, "
        f"with the neighbours that prove most: [{VIEWS.name}](results/{VIEWS.name}).\n\n"
    )
    return f"## Views\n\n{text}{highest(rows_of_views(attacked))}"


def bugs_section(planted: Sequence[Planted]) -> str:
    caught = sum(p.caught for p in planted)
    rows = [(p.name, p.detector, "flagged" if p.caught else "**missed**") for p in planted]
    told = f"{caught} of {len(planted)} flagged; figures without and with each bug: [{BUGS.name}](results/{BUGS.name})."
    return f"## Planted bugs\n\n{told}\n\n{table(('bug', 'detector', ''), rows)}"


def attacks_section(
    paper: Recovered,
    ours: dict[float, Recovered],
    members: Sequence[Membership],
    grids: Grids,
    gaps: tuple[float, float],
) -> str:
    rows = [("the paper's protocol", "1", f"{paper.error:.1e}", f"{paper.signs:.0%}")]
    rows += [("ours", f"{e:g}", f"{r.error:.2f}", f"{r.signs:.0%}") for e, r in ours.items()]
    recovered = table(("protocol", "epsilon", "relative error", "signs right"), rows)
    told = [
        (f"{m.epsilon:g}", f"{m.sessions:,}", f"{m.advantage:.3f}", f"{m.least:.3f}", f"{m.bound:.3f}") for m in members
    ]
    inferred = table(("epsilon", "sessions", "advantage", "proved", "bound"), told)
    return (
        "## Reconstruction\n\nA party with as many columns as there are records (n = 24) solves for the other party's "
        f"column of plus and minus ones; guessing 0 has relative error 1, guessing signs gets half.\n\n{recovered}\n"
        "## Membership\n\nRandom people, an attacker who knows all other records; advantage is true less false "
        f"positives, the bound (e^epsilon - 1)/(e^epsilon + 1).\n\n{inferred}\n"
        f"## Grid and floats\n\n{grids.values:,} released values of {grids.files} release files: {grids.off} off the "
        f"grid. Of textbook float Laplace {gaps[1]:.0%} of outputs are impossible under the neighbour (check: "
        f"{gaps[0]:.0%} under their own value); of our noise {grids.impossible:.0%}.\n"
    )


def write_views(rows: Sequence[tuple[str, ...]], place: Path = VIEWS) -> None:
    """Put every view into the csv beside the results."""
    _write_csv([HEAD, *rows], place)


def write_bugs(planted: Sequence[Planted], place: Path = BUGS) -> None:
    """Put what each detector found without and with its bug into the csv beside the results."""
    rows = [
        (p.name, p.detector, p.clean.figure, p.planted.figure, "flagged" if p.caught else "missed") for p in planted
    ]
    _write_csv([("bug", "detector", "as it is", "with the bug", ""), *rows], place)


def _write_csv(rows: Sequence[tuple[str, ...]], place: Path) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    place.write_text(out.getvalue(), encoding="utf-8")


def write(sections: Sequence[str], page: Path = PAGE) -> None:
    """Put the sections between the markers; all else on the page stays."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n" + "\n".join(sections) + f"\n{END}{after}", encoding="utf-8")

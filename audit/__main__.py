"""`make audit`: attack every view, plant every bug, and write the figures into docs/audit.md."""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from audit import document, planted, precision, reconstruction, survey
from colonnade.foundation.randomness import Randomness

SESSIONS = {2: 4000, 3: 600, 5: 200}
"""By K, on each data set."""
NUMBERS = 4_000_000
BUG_SESSIONS = 600
QUICK = 20
"""The --share of --quick."""


def _bug(index: int, seed: bytes, share: int) -> planted.Planted:
    bug = planted.BUGS[index]
    effort = planted.Effort(BUG_SESSIONS // share, NUMBERS // 2 // share, Randomness(seed).child(bug.name))
    return planted.try_bug(bug, effort)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m audit", description=__doc__)
    parser.add_argument("--share", type=int, default=1, help="divide the numbers of sessions and of draws by this")
    parser.add_argument("--quick", action="store_true", help=f"--share {QUICK}, printed and not written")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--seed", default="audit", help="any text; another one gives other sessions and other noise")
    options = parser.parse_args(arguments)
    seed, share = options.seed.encode(), QUICK if options.quick else options.share
    source = Randomness(seed)

    sections, failures = [], 0
    sizes = {k: max(20, runs // share) for k, runs in SESSIONS.items()}
    attacked = []
    for study in survey.attack(list(survey.cases(sizes, NUMBERS // min(share, 4))), seed, options.jobs):
        attacked.append(study)
        broken = sum(f.broken for f in study.findings)
        failures += broken
        sys.stderr.write(
            f"{study.mechanism}, K={study.parties}, c={study.collusion}: {study.sessions} sessions, "
            f"{len(study.findings)} views, {broken} broken\n"
        )
    sections.append(document.views_section(attacked))

    with ProcessPoolExecutor(options.jobs, get_context("fork")) as pool:
        tried = list(
            pool.map(_bug, range(len(planted.BUGS)), [seed] * len(planted.BUGS), [min(share, 6)] * len(planted.BUGS))
        )
    for bug in tried:
        failures += not bug.caught
        sys.stderr.write(f"{bug.name}: {'flagged' if bug.caught else 'MISSED'}, {bug.planted.figure}\n")
    sections.append(document.bugs_section(tried))

    paper = reconstruction.against_paper(24, 1.0, 1)
    ours = {e: reconstruction.against_ours(24, e, 1, source.child(f"columns {e}")) for e in (0.1, 1.0, 10.0)}
    members = [
        reconstruction.membership(e, 8, max(25, 100 // share), source.child(f"membership {e}")) for e in (0.5, 2.0)
    ]
    failures += sum(m.least > m.bound for m in members)
    files = survey.grids(max(5, 20 // share), source.child("grids"))
    gaps = precision.gaps(4.0, 1.0, source.child("textbook").words(20_000))
    failures += files.off > 0 or files.impossible > 0 or gaps[1] == 0 or min(r.error for r in ours.values()) < 0.5
    sections.append(document.attacks_section(paper, ours, members, files, gaps))
    if options.quick:
        sys.stdout.write("\n".join(sections))
    else:
        document.write(sections)
        document.write_views(document.rows_of_views(attacked))
        document.write_bugs(tried)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m experiments` lists the long runs behind docs/results; `python -m experiments NAME` runs one."""

from __future__ import annotations

import sys

from experiments.commands import Command, run

PAPER = ("-m", "experiments.paper")
COMMANDS = {
    "bench": Command("CPU time of the secure products against the plain one", (("benchmarks/product.py", "--table"),)),
    "tables": Command("the paper's tables from our own runs (long; --quick: 2 splits)", ((*PAPER, "tables"),)),
    "overhead": Command("time and bytes of the secure products against n, d, K (long)", ((*PAPER, "overhead"),)),
    "utility": Command("accuracy and error against epsilon, K, collusion (long)", ((*PAPER, "utility", "--write"),)),
    "synthesis": Command(
        "tables, rows and models of one release (30 CPU minutes)", ((*PAPER, "synthesis", "--write"),)
    ),
    "synthesis-baselines": Command(
        "AIM and MST beside them, in an environment of their own (an hour; --limit 300 CPU s a run)",
        (("-m", "experiments.synthesizers"), (*PAPER, "synthesis-baselines")),
    ),
    "coverage": Command("how often intervals hold the truth (20 CPU minutes)", ((*PAPER, "coverage", "--write"),)),
    "coverage-answers": Command(
        "how often intervals of tables, dependences and correlations do (an hour)",
        (("-m", "experiments.paper.coverage_answers", "--write"),),
    ),
    "evaluation-coverage": Command(
        "how often those of evaluations do (hours; --cases 12: 10 minutes)",
        ((*PAPER, "evaluation-coverage", "--write"),),
    ),
    "partners": Command(
        "studies that the default policy refuses for what a cheat could read", (("docs/write_partners.py",),)
    ),
    "alignment": Command("matching ids, up to ten million (long)", (("benchmarks/alignment_report.py", "--largest"),)),
    "whole": Command(
        "a private study beside the same in the clear (8 minutes)", (("benchmarks/whole.py", "--series"),)
    ),
    "scale": Command(
        "whole studies of up to 10,000,000 rows (long)",
        (
            ("benchmarks/scale.py", "--series", "rows", "columns", "parties", "ids", "gram"),
            ("benchmarks/scale.py", "--write"),
        ),
        threads=True,
    ),
    "load": Command(
        "64 parties, 4,000 columns, 100 studies in a row (5 minutes)", (("docs/write_robustness.py", "load"),)
    ),
    "notebooks": Command("run the notebooks and keep what they show (1 minute)", (("notebooks/write.py",),)),
}

if __name__ == "__main__":
    sys.exit(run("experiments", COMMANDS, sys.argv[1:]))

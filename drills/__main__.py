"""`python -m drills` lists the drills; `python -m drills NAME` runs one."""

from __future__ import annotations

import sys

from experiments.commands import Command, run

COMMANDS = {
    name: Command(what, (("-m", f"drills.{name}"),))
    for name, what in {
        "chaos": "kill -9 of server and parties at each request (--every 5)",
        "strikes": "kill -9 of the server's process at each step of a session",
        "load": "250 MB of sealed columns through the server; peak memory of each process (long)",
        "soak": "sessions over the real engine with faults (--sessions 100 --minutes 110 --write)",
        "mutants": "changes of the code that promises rest on (map, then run --count 500 --seed 1; planted)",
        "coverage": "lines and branches of the package that tests run, by room (-m quick)",
        "combinations": "random combinations of options, from plan to evaluation (--studies 150 --seed 0)",
        "wide_area": "sessions through a line with round trips, bandwidth and loss (--trips 0 50 --mbit 100 --write)",
        "proofs": "honest parties that prove what they send are not refused (--sessions 200 --seed 1 --json)",
        "timing": "what a party's answers tell by their timing",
        "signing_cost": "what signatures and evidence cost",
        "evidence_edits": "random edits of peers' evidence never convict the honest (--edits 10000 --seed 1 --json)",
    }.items()
}

if __name__ == "__main__":
    sys.exit(run("drills", COMMANDS, sys.argv[1:]))

"""Run the fuzz targets and count: python -m fuzz [--cases N] [--target NAME] [--engine mutate|atheris] [--json].

The mutating engine is deterministic: a seed and a number name a case. Atheris (optional, `pip install atheris`) is
guided by coverage and needs a process for each target, which this command starts.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
from random import Random
from time import process_time

MEMORY = 1 << 30
"""No input may make the process grow by more than this."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=1_000_000, help="in all, shared out among the targets")
    parser.add_argument("--target", action="append", help="only this target; repeat for several")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("mutate", "atheris"), default="mutate")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.engine == "atheris":
        return guided(options)
    from fuzz.targets import TARGETS

    rows = []
    for name in options.target or TARGETS:
        count = max(1, TARGETS[name].share * options.cases // sum(t.share for t in TARGETS.values()))
        rows.append(run(name, count, options.seed))
        if not options.json:
            print("{target:14} {cases:8} cases {accepted:7} accepted {seconds:7.1f} s".format(**rows[-1]), flush=True)
    total = {"cases": sum(r["cases"] for r in rows), "seconds": round(sum(r["seconds"] for r in rows), 1)}
    failed = [r for r in rows if r["failures"]]
    print(json.dumps({"engine": "mutate", "seed": options.seed, **total, "targets": rows}) if options.json else total)
    for row in failed:
        print(f"{row['target']}: {row['failures']}", file=sys.stderr)
    return 1 if failed else 0


def run(name: str, count: int, seed: int) -> dict[str, object]:
    """Cases of one target; every distinct kind of failure is kept with its first input."""
    from fuzz.targets import TARGETS, tried

    target, failures, accepted = TARGETS[name], dict[str, str](), 0
    target.inputs(Random(0))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, process_time()
    for number in range(count):
        data = target.inputs(Random(f"{seed} {name} {number}"))
        try:
            accepted += tried(target, data)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            line = "" if place is None else f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
            failures.setdefault(f"{type(error).__name__} at {line}", f"{str(error)[:120]!r} of {data[:4096].hex()}")
    gc.collect()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if grown > MEMORY:
        failures["memory"] = f"grew by {grown >> 20} MB"
    seconds = round(process_time() - start, 1)
    return {"target": name, "cases": count, "accepted": accepted, "seconds": seconds, "failures": failures}


def guided(options: argparse.Namespace) -> int:
    """One process of atheris for each target; libFuzzer itself watches memory and time of each case."""
    if options.target and len(options.target) == 1:
        import atheris

        with atheris.instrument_imports(include=["colonnade"]):
            from fuzz.targets import TARGETS, tried
        target = TARGETS[options.target[0]]

        def one(data: bytes) -> None:
            tried(target, data)

        runs = [f"-runs={options.cases}", f"-seed={options.seed}", "-rss_limit_mb=2048", "-timeout=20", "-max_len=4096"]
        atheris.Setup([sys.argv[0], *runs], one)
        atheris.Fuzz()
        return 0
    from fuzz.targets import TARGETS

    worst = 0
    for name in options.target or TARGETS:
        count = max(1, TARGETS[name].share * options.cases // sum(t.share for t in TARGETS.values()))
        call = [sys.executable, "-m", "fuzz", "--engine", "atheris", "--target", name]
        done = subprocess.run([*call, "--cases", str(count), "--seed", str(options.seed)], check=False)
        worst = max(worst, abs(done.returncode))
    return worst


if __name__ == "__main__":
    sys.exit(main())

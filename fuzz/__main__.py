"""Run the fuzz targets and count: python -m fuzz [--cases N] [--target NAME] [--engine mutate|atheris] [--json].

The mutating engine is deterministic: a seed and a number name a case; it starts from what targets name and from the
inputs in fuzz/corpus. Atheris (optional, `pip install atheris`) is guided by coverage and needs a process for each
target, which this command starts; there --cases is for each target, and what is printed is how many branches of the
package its inputs reach, at first and in the end.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from random import Random
from time import process_time

from fuzz.corpus import keep, kept

MEMORY = 1 << 30
"""No input may make the process grow by more than this."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=1_000_000, help="in all, shared out among the targets")
    parser.add_argument("--target", action="append", help="only this target; repeat for several")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=("mutate", "atheris"), default="mutate")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=int, default=0, help="atheris: at most so long for each target")
    parser.add_argument("--keep", action="store_true", help="atheris: put what reached new branches into fuzz/corpus")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
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

    target, corpus, failures, accepted = TARGETS[name], kept(name), dict[str, str](), 0
    target.inputs(Random(0), corpus)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, process_time()
    for number in range(count):
        data = target.inputs(Random(f"{seed} {name} {number}"), corpus)
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
    """Atheris, one process for each target; libFuzzer itself watches memory and time of each case."""
    if options.child:
        return _search(options)
    from fuzz.targets import TARGETS

    rows = [_searched(name, options) for name in options.target or TARGETS]
    if options.json:
        print(json.dumps({"engine": "atheris", "seed": options.seed, "targets": rows}))
    failed = [row for row in rows if row["failure"]]
    for row in failed:
        print(f"{row['target']}: {row['failure']}", file=sys.stderr)
    return 1 if failed else 0


def _search(options: argparse.Namespace) -> int:
    import atheris

    with atheris.instrument_imports(include=["colonnade", "tomllib"]):
        from fuzz.targets import TARGETS, tried
    target = TARGETS[options.target[0]]

    def one(data: bytes) -> None:
        tried(target, data)

    runs = [f"-runs={options.cases}", f"-seed={options.seed}", f"-max_total_time={options.seconds}"]
    limits = ["-rss_limit_mb=2048", "-timeout=20", "-max_len=8192", f"-artifact_prefix={options.child}/failed-"]
    atheris.Setup([sys.argv[0], *runs, *limits, f"{options.child}/corpus"], one)
    atheris.Fuzz()
    return 0


COVERED = re.compile(r"^#(\d+)\s+(INITED|NEW|REDUCE|pulse|DONE)\s+cov: (\d+)", re.MULTILINE)


def _searched(name: str, options: argparse.Namespace) -> dict[str, object]:
    """How many branches were reached after how many cases; what reached new ones joins the corpus, if asked."""
    from fuzz.targets import TARGETS

    with tempfile.TemporaryDirectory(prefix="colonnade-fuzz-") as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        seeds = [*TARGETS[name].seeds(), *(TARGETS[name].inputs(Random(f"seed {i}")) for i in range(20))]
        for number, data in enumerate([*seeds, *kept(name)]):
            (corpus / f"seed-{number:03d}").write_bytes(data)
        call = [sys.executable, "-m", "fuzz", "--engine", "atheris", "--target", name, "--child", folder]
        call += ["--cases", str(options.cases), "--seed", str(options.seed), "--seconds", str(options.seconds)]
        start = time.monotonic()
        done = subprocess.run(call, check=False, capture_output=True, text=True, errors="replace")
        found = [(int(count), int(branches)) for count, _, branches in COVERED.findall(done.stderr)]
        news = [pair for before, pair in pairwise([(0, 0), *found]) if pair[1] > before[1]]
        failure = "" if done.returncode == 0 and found else f"{done.stdout[-2000:]}\n{done.stderr[-800:]}"
        if options.keep:
            keep(name, [path.read_bytes() for path in sorted(corpus.iterdir()) if not path.name.startswith("seed-")])
    at_first, cases, last = (found[0][1], found[-1][0], found[-1][1]) if found else (0, 0, 0)
    row = {"target": name, "cases": cases, "branches_at_first": at_first, "branches": last, "new": news[1:]}
    row |= {"seconds": round(time.monotonic() - start, 1), "failure": failure}
    if not options.json:
        print(f"{name:20} {cases:8} cases {at_first:5} to {last:5} branches, last new at {news[-1][0] if news else 0}")
    return row


if __name__ == "__main__":
    sys.exit(main())

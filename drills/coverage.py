"""Lines and branches of the package that tests run, by room, and the lines of some rooms that none runs.

    python -m drills coverage                          every test (half an hour)
    python -m drills coverage -m quick                 what `make quick` runs
    python -m drills coverage --told                   the last run again, with the lines of ROOMS that no test runs

Other words go to pytest. Threads are counted, other processes are not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "colonnade"
KEPT = ROOT / ".cache" / "coverage"
ROOMS = ("mechanism", "crypto", "protocol", "consent")
"""Of these every line that no test runs is told."""


def measure(words: list[str]) -> int:
    KEPT.mkdir(parents=True, exist_ok=True)
    settings = KEPT / "coveragerc"
    settings.write_text(f"[run]\nbranch = true\nsource = {SOURCE}\nconcurrency = thread\n")
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", f"--data-file={KEPT / 'lines'}"]
    command += ["-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": f"src{os.pathsep}."}, check=False
    ).returncode


def rooms() -> Iterator[tuple[str, int, int, int, int, list[str]]]:
    """For each room its lines and branches, those that ran, and where others are."""
    from coverage import Coverage

    cover = Coverage(data_file=str(KEPT / "lines"), config_file=str(KEPT / "coveragerc"))
    cover.load()
    found: dict[str, list[int]] = {}
    missing: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        numbers = cover._analyze(str(path)).numbers
        place = path.relative_to(SOURCE)
        room = place.parts[0].removesuffix(".py")
        row = found.setdefault(room, [0, 0, 0, 0])
        for i, number in enumerate(
            (numbers.n_statements, numbers.n_executed, numbers.n_branches, numbers.n_executed_branches)
        ):
            row[i] += number
        if lines := cover.analysis2(str(path))[4]:
            missing.setdefault(room, []).append(f"{place.as_posix()}: {lines}")
    for room, (lines, run, branches, taken) in found.items():
        yield room, lines, run, branches, taken, missing.get(room, [])


def tell() -> None:
    print(f"{'room':<14}{'lines':>8}{'run':>8}{'branches':>10}{'run':>8}")
    whole = [0, 0, 0, 0]
    lacking = []
    for room, lines, run, branches, taken, missing in rooms():
        print(f"{room:<14}{lines:>8}{run / max(lines, 1):>8.1%}{branches:>10}{taken / max(branches, 1):>8.1%}")
        whole = [a + b for a, b in zip(whole, (lines, run, branches, taken), strict=True)]
        lacking += missing if room in ROOMS else []
    print(f"{'all':<14}{whole[0]:>8}{whole[1] / whole[0]:>8.1%}{whole[2]:>10}{whole[3] / whole[2]:>8.1%}")
    print("\nLines that no test ran:", *lacking, sep="\n  ")


def main() -> int:
    words = sys.argv[1:]
    code = 0 if words == ["--told"] else measure(words)
    tell()
    return code


if __name__ == "__main__":
    sys.exit(main())

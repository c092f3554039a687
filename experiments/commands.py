"""Long runs by name, one thread each for its linear algebra, as `make test` runs: `python -m experiments NAME`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Command:
    """What a run writes, how long it takes, and the programs that it starts one after another."""

    what: str
    steps: tuple[tuple[str, ...], ...]
    """Arguments of this Python; the caller's own go to the last one."""
    threads: bool = False
    """Whether linear algebra may take all cores, as in a user's process."""


def run(package: str, commands: Mapping[str, Command], words: Sequence[str]) -> int:
    """Run one of the commands; without a name, list them."""
    if not words or words[0] not in commands:
        for name, command in commands.items():
            print(f"python -m {package} {name:<22} {command.what}")
        return 0 if not words else 2
    command = commands[words[0]]
    environment = os.environ | ({} if command.threads else ONE_THREAD) | {"RUST_BACKTRACE": "0"}
    for step in command.steps:
        more = words[1:] if step is command.steps[-1] else ()
        ended = subprocess.run([sys.executable, *step, *more], cwd=ROOT, env=environment, check=False).returncode
        if ended:
            return ended
    return 0

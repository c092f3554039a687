"""250 MB of sealed columns through the server: `python -m drills.load` prints each process's peak memory.

Two parties with wide tables and no alignment, over the real engine with mutual TLS on loopback. Fails above 1 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl

from colonnade.flare.status import look
from colonnade.foundation.randomness import Randomness
from demo.network import Deployment

LIMIT = 1 << 30


def write_wide_study(folder: Path, rows: int, columns: int) -> Path:
    """Two parties with as many numeric columns each; the second has the label."""
    text = ['[study]\nname = "load"\ntask = "linear"\nlabel = "right.y"\nepsilon = 20.0\nalignment = "none"\n']
    text.append('product = "lattice"\nrelease = "full"\n')
    for k, party in enumerate(("left", "right")):
        names = [f"{party}{j}" for j in range(columns)] + (["y"] if k else [])
        text += [f"[party.{party}]", f"[party.{party}.columns]"]
        text += [f'{name} = {{ kind = "numeric", low = 0, high = 255 }}' for name in names]
        noise = Randomness(party.encode())
        data = {n: np.frombuffer(noise.bytes(rows), dtype=np.uint8).astype(np.float32) for n in names}
        pl.DataFrame(data).write_parquet(folder / f"{party}.parquet")
    (folder / "study.toml").write_text("\n".join(text) + "\n")
    return folder / "study.toml"


def peak(pid: int) -> int:
    """The largest resident size that a process has had, in bytes; 0 when it is gone."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return 0 if found is None else 1024 * int(found[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--columns", type=int, default=100)
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="colonnade-load-"))
    peaks: dict[str, int] = {}
    stop = threading.Event()
    try:
        study = write_wide_study(place, options.rows, options.columns)
        with Deployment(study, place / "sites") as sites:
            for party in sites.parties:
                sites.fill_in(party, place / f"{party}.parquet", epsilon="100.0")

            def watch() -> None:
                while not stop.wait(0.05):
                    for name, process in sites.sites.items():
                        peaks[name] = max(peaks.get(name, 0), peak(process.pid))
                        job = look(sites.folder / name / "status.json").get("pid")
                        if job is not None:
                            peaks[f"{name} job"] = max(peaks.get(f"{name} job", 0), peak(int(job)))

            for name in ("server", *sites.parties):
                sites.start(name)
            watcher = threading.Thread(target=watch)
            watcher.start()
            start = time.monotonic()
            done = sites.run(place / "release.json", more=("--json",))
            stop.set()
            watcher.join()
            if done.returncode:
                sys.exit(done.stderr + "".join(sites.said(name) for name in sites.sites))
            size = max(json.loads(done.stdout)["bytes"]["sent"].values())
            print(f"{size / 1e6:.0f} MB from the sealing party through the server in {time.monotonic() - start:.0f} s")
            for name, most in sorted(peaks.items()):
                print(f"{name}: peak {most / 1e6:.0f} MB")
            if max(peaks.values()) > LIMIT:
                sys.exit(f"peak memory must stay under {LIMIT / 1e6:.0f} MB")
    finally:
        stop.set()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()

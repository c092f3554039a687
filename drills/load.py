"""Many records through the real engine: `python -m drills.load` prints each process's peak memory.

Two parties with Parquet parts and no alignment, with mutual TLS on loopback. With `--cluster N` each party has a Dask
cluster of N processes, which read the parts themselves; `--kill` ends one of them in mid-session. Fails where a process
takes more than `--limit` MB.

    python -m drills.load                                                      250 MB of sealed columns
    python -m drills.load --rows 10000000 --columns 10 --cluster 2 --kill      long
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import polars as pl

from colonnade.flare.status import look
from demo.network import ROOT, Deployment

PARTIES = ("left", "right")
PART_ROWS = 1_000_000


def write_wide_study(folder: Path, rows: int, columns: int) -> Path:
    """Two parties with as many numeric columns each, in parts; the second has the label, which tells of the others."""
    text = ['[study]\nname = "load"\ntask = "linear"\nlabel = "right.y"\nepsilon = 20.0\nalignment = "none"\n']
    text.append('product = "lattice"\nrelease = "full"\n')
    for party in PARTIES:
        names = [f"{party}{j}" for j in range(columns)] + (["y"] if party == PARTIES[-1] else [])
        text += [f"[party.{party}]", f"[party.{party}.columns]"]
        text += [f'{name} = {{ kind = "numeric", low = 0, high = 255 }}' for name in names]
        (folder / party).mkdir()
    draw = np.random.default_rng(rows + columns)
    for number, start in enumerate(range(0, rows, PART_ROWS)):
        own: dict[str, dict[str, object]] = {party: {} for party in PARTIES}
        label = np.zeros(min(PART_ROWS, rows - start), np.float32)
        for party in PARTIES:
            for j in range(columns):
                values = draw.integers(0, 256, len(label)).astype(np.float32)
                own[party][f"{party}{j}"] = values
                label += values / (2 * columns)
        own[PARTIES[-1]]["y"] = label
        for party, data in own.items():
            pl.DataFrame(data).write_parquet(folder / party / f"{number:04d}.parquet", row_group_size=250_000)
    (folder / "study.toml").write_text("\n".join(text) + "\n")
    return folder / "study.toml"


class Cluster:
    """A party's scheduler and workers, each a process of its own on the loopback address."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.file = folder / "scheduler.json"
        folder.mkdir()
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
        }
        common = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(self.file)]
        kinds = [("dask_scheduler", ["--port", "0"]), *[("dask_worker", ["--nthreads", "1", "--no-nanny"])] * workers]
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", *common, *more],
                env=environment,
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for module, more in kinds
        ]

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        return self.processes[1:]

    def address(self) -> str:
        from distributed import Client

        with Client(scheduler_file=str(self.file), timeout=120, set_as_default=False) as client:
            client.wait_for_workers(len(self.workers), timeout=120)
            return str(client.scheduler.address)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        # Workers before their scheduler: one that has lost it waits for it, and does not end by itself.
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def peak(pid: int) -> int:
    """The largest resident size that a process has had, in bytes; 0 when it is gone."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return 0 if found is None else 1024 * int(found[1])


class Watch(threading.Thread):
    """Notes peaks of all processes, and what the session's progress says; may end one worker in mid-session."""

    def __init__(self, sites: Deployment, clusters: dict[str, Cluster], kill: bool) -> None:
        super().__init__(daemon=True)
        self.sites, self.clusters, self.kill = sites, clusters, kill
        self.peaks: dict[str, int] = {}
        self.killed = ""
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            seen = {name: process.pid for name, process in self.sites.sites.items()}
            for name in self.sites.sites:
                content = look(self.sites.folder / name / "status.json")
                seen[f"{name}: session"] = int(content.get("pid") or 0)
                if self.kill and name == PARTIES[0] and content.get("step") == "products" and not content.get("done"):
                    self.kill, victim = False, self.clusters[name].workers[0]
                    victim.send_signal(signal.SIGKILL)
                    self.killed = f"{name}'s first worker was killed at step products, share {content.get('share')}"
            for name, cluster in self.clusters.items():
                seen |= {f"{name}: worker {k}": worker.pid for k, worker in enumerate(cluster.workers)}
                seen[f"{name}: scheduler"] = cluster.processes[0].pid
            for name, pid in seen.items():
                self.peaks[name] = max(self.peaks.get(name, 0), peak(pid) if pid else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--columns", type=int, default=100, help="of each party, beside the label")
    parser.add_argument("--cluster", type=int, default=0, help="worker processes of each party; 0: none, threads")
    parser.add_argument("--kill", action="store_true", help="one worker in mid-session")
    parser.add_argument("--limit", type=int, default=1024, help="MB that a process may take")
    options = parser.parse_args()
    if options.kill and options.cluster < 2:
        parser.error("--kill needs --cluster 2 or more: another worker takes the killed one's pieces")
    place = Path(tempfile.mkdtemp(prefix="colonnade-load-"))
    try:
        with ExitStack() as stack:
            study = write_wide_study(place, options.rows, options.columns)
            parts = sum(file.stat().st_size for file in place.rglob("*.parquet"))
            print(f"{options.rows:,} rows, {2 * options.columns + 1} columns, {parts / 1e6:,.0f} MB of Parquet parts")
            clusters = {
                name: stack.enter_context(Cluster(place / f"cluster-{name}", options.cluster))
                for name in PARTIES
                if options.cluster
            }
            sites = stack.enter_context(Deployment(study, place / "sites"))
            for party in PARTIES:
                sites.fill_in(party, place / party, epsilon="100.0")
                if party in clusters:
                    with (sites.folder / party / "site.toml").open("a") as file:
                        file.write(f'cluster = "{clusters[party].address()}"\n')
            for name in ("server", *PARTIES):
                sites.start(name)
            watch = Watch(sites, clusters, options.kill)
            watch.start()
            start = time.monotonic()
            done = sites.run(place / "release.json", 300.0, more=("--json",))
            watch.over.set()
            watch.join()
            if done.returncode:
                sys.exit(done.stderr + "".join(sites.said(name) for name in sites.sites))
            size = max(json.loads(done.stdout)["bytes"]["sent"].values())
            print(f"{size / 1e6:,.0f} MB from the sealing party through the server in {time.monotonic() - start:.0f} s")
            print(watch.killed, end="\n" if watch.killed else "")
            for name, most in sorted(watch.peaks.items()):
                print(f"{name}: peak {most / 1e6:.0f} MB")
            if max(watch.peaks.values()) > options.limit << 20:
                sys.exit(f"peak memory must stay under {options.limit} MB")
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()

"""The demo's study on four processes with mutual TLS on loopback; `--check` compares it with the run in one process.

`make demo-network` runs it with `--check`: a seed, which the policies must allow, makes both runs draw the same noise,
and the two releases must be equal byte for byte. Such a run is a simulation and NOT PRIVATE. Without `--check` the run
has real noise, and every party books its spend in a ledger. Then a model of the release scores the same people, and
one party opens the scores.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[1]
SEED = "c0de"
RECEIVER = "bank"
COMMAND = (sys.executable, "-m", "colonnade.cli")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Deployment:
    """A deployed study whose sites run on this machine, each as a process of its own."""

    def __init__(self, study: Path, folder: Path, host: str = "localhost", seed: str | None = None) -> None:
        self.study, self.folder = study, folder
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
        self.environment |= {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
        # Each session starts a process at each site: as at an installed package, they need not compile it again.
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environment["PYTHONPYCACHEPREFIX"] = str(folder.with_name(f"{folder.name}-bytecode"))
        if seed is not None:
            self.environment["COLONNADE_SEED"] = seed
        self.seeded = seed is not None
        self.sites: dict[str, subprocess.Popen[bytes]] = {}
        address = f"{host}:{free_port()}"
        self.command("deploy", "new", str(study), "-o", str(folder), "--server", address)
        self.parties = [f.name for f in sorted(folder.iterdir()) if (f / "policy.toml").exists()]

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One call of the command line, to its end."""
        done = subprocess.run([*COMMAND, *arguments], env=self.environment, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"colonnade {' '.join(arguments)}: {done.stderr}")
        return done

    def fill_in(self, party: str, data: Path, **policy: str) -> None:
        """What an administrator and a privacy officer would write into a party's two files."""
        site, rules = self.folder / party / "site.toml", self.folder / party / "policy.toml"
        text = site.read_text().replace('data = "?"', f'data = "{data.resolve()}"')
        written = rules.read_text()
        if self.seeded:
            text = "\n".join(line for line in text.splitlines() if not line.startswith("ledger")) + "\n"
            written = written.replace("[policy]", "[policy]\nsimulation = true")
        for key, value in policy.items():
            lines = [f"{key} = {value}" if line.startswith(f"{key} = ") else line for line in written.splitlines()]
            written = "\n".join(lines) + "\n"
        site.write_text(text)
        rules.write_text(written)

    def ask_for_scores(self, model: Path, receiver: str) -> None:
        """What everybody would write to have records scored: the model came by hand, and all name one receiver."""
        for folder in [self.folder / name for name in ("server", "coordinator", *self.parties)]:
            shutil.copy(model, folder / "model.json")
            with (folder / "site.toml").open("a") as file:
                file.write(f'\n[prediction]\nmodel = "model.json"\nto = "{receiver}"\n')

    def predict(self, wait: float = 120.0) -> subprocess.CompletedProcess[str]:
        """One prediction, as a coordinator starts it."""
        call = [*COMMAND, "run", str(self.folder / "coordinator"), "--predict", "--wait", str(wait)]
        return subprocess.run(call, env=self.environment, capture_output=True, text=True)

    def start(self, name: str, prefix: Sequence[str] = ()) -> None:
        """Start the server or a party; what it says goes into a file beside its folder."""
        kind = "server" if name == "server" else "party"
        with (self.folder / f"{name}.out").open("ab") as out:
            self.sites[name] = subprocess.Popen(
                [*prefix, *COMMAND, kind, "start", str(self.folder / name)],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def run(
        self, out: Path, wait: float = 120.0, prefix: Sequence[str] = (), more: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """One session, as a coordinator starts it."""
        call = [
            *prefix,
            *COMMAND,
            "run",
            str(self.folder / "coordinator"),
            "--out",
            str(out),
            "--wait",
            str(wait),
            *more,
        ]
        return subprocess.run(call, env=self.environment, capture_output=True, text=True)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()

    def stop(self) -> None:
        """End the sites; a job of theirs notices that its parent is gone."""
        for site in self.sites.values():
            site.terminate()
        for site in self.sites.values():
            try:
                site.wait(10)
            except subprocess.TimeoutExpired:
                site.kill()
                site.wait()

    def __enter__(self) -> Deployment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def show(sites: Deployment, done: subprocess.CompletedProcess[str], seen: dict[str, int]) -> None:
    """What every site has said since the last time, and how the run ended."""
    for name in sites.sites:
        lines = sites.said(name).splitlines()
        print("".join(f"  {line}\n" for line in lines[seen.get(name, 0) :]), end="")
        seen[name] = len(lines)
    if done.returncode:
        sys.exit(done.stderr)
    print(done.stdout, end="")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="seed both runs and compare releases and scores")
    parser.add_argument("--keep", type=Path, help="a new folder that keeps the deployment")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="colonnade-demo-")) if options.keep is None else options.keep
    study, release = ROOT / "demo" / "study.toml", ROOT / "demo" / "network-release.json"
    model, seen = place / "model.json", dict[str, int]()
    release.unlink(missing_ok=True)
    start = time.monotonic()
    try:
        with Deployment(study, place / "sites", seed=SEED if options.check else None) as sites:
            print(f"a folder with certificates for each organisation: {', '.join([*sites.parties, 'server'])}")
            for party in sites.parties:
                sites.fill_in(party, ROOT / "demo" / f"{party}.csv", scores_to=f'["{RECEIVER}"]')
            for name in ("server", *sites.parties):
                sites.start(name)
            print("server and parties run as processes of their own, with mutual TLS on loopback")
            show(sites, sites.run(release), seen)
            print(f"it took {time.monotonic() - start:.0f} s")
            start = time.monotonic()
            sites.command("solve", str(release), "--out", str(model))
            sites.ask_for_scores(model, RECEIVER)
            print(f"a model of the release is handed to everybody, to score the same people for {RECEIVER}")
            show(sites, sites.predict(), seen)
            print(f"it took {time.monotonic() - start:.0f} s")
            if options.check:
                check(sites, release, model)
    finally:
        if options.keep is None:
            shutil.rmtree(place)


def check(sites: Deployment, release: Path, model: Path) -> None:
    """The same in one process: release with the same seed, and scores."""
    alone, scores = sites.folder / "alone.json", sites.folder / "scores.csv"
    sites.command("fit", str(sites.study), "--out", str(alone), "--seed", SEED)
    if alone.read_bytes() != release.read_bytes():
        sys.exit("the release differs from that of the run in one process")
    print(f"the run in one process with the same seed gives the same {release.stat().st_size:,} bytes")
    sites.command("predict", str(model), "--study", str(sites.study), "--to", RECEIVER, "--out", str(scores))
    (opened,) = (sites.folder / RECEIVER / "scores").iterdir()
    if opened.read_bytes() != scores.read_bytes():
        sys.exit("the scores differ from those of the run in one process")
    print(f"{RECEIVER} opened {len(scores.read_bytes().splitlines()) - 1:,} scores, equal to those of one process")


if __name__ == "__main__":
    main()

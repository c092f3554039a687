"""Every site on a host address of its own, in network namespaces; one is cut off in mid-run."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from colonnade.consent.entries import DataSet
from colonnade.consent.ledger import Ledger
from colonnade.flare.status import look
from colonnade.mechanism.composition import Cap
from demo.network import Deployment
from tests.helpers.wires import PARTIES, write_study

pytest.importorskip("nvflare", reason="the extra flare is not installed")
pytestmark = pytest.mark.skipif(
    not os.environ.get("COLONNADE_LONG"), reason="takes a minute and starts the engine; make chaos runs it"
)
SITES = ("server", *PARTIES)
NET = "10.213.77"
PEOPLE = 6000


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def space(name: str) -> str:
    return f"colonnade-{os.getpid()}-{name}"


@pytest.fixture
def hosts() -> Iterator[dict[str, str]]:
    """A namespace for each site and one for the switch between them; the machine's own network is not touched."""
    made: list[str] = []
    try:
        try:
            for name in ("switch", *SITES):
                ip("netns", "add", space(name))
                made.append(space(name))
            ip("-n", space("switch"), "link", "add", "bridge", "type", "bridge")
            ip("-n", space("switch"), "link", "set", "bridge", "up")
            for number, name in enumerate(SITES, 1):
                port = f"port{number}"
                ip(
                    "-n",
                    space(name),
                    "link",
                    "add",
                    "wire",
                    "type",
                    "veth",
                    "peer",
                    "name",
                    port,
                    "netns",
                    space("switch"),
                )
                ip("-n", space("switch"), "link", "set", port, "master", "bridge", "up")
                ip("-n", space(name), "addr", "add", f"{NET}.{number}/24", "dev", "wire")
                ip("-n", space(name), "link", "set", "wire", "up")
                ip("-n", space(name), "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"network namespaces are not allowed here: {error}")
        yield {name: f"{NET}.{number}" for number, name in enumerate(SITES, 1)}
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def inside(name: str) -> tuple[str, ...]:
    return ("ip", "netns", "exec", space(name))


def cut_off(sites: Deployment, name: str, step: str, done: threading.Event, cut: list[str]) -> None:
    while not done.wait(0.01):
        if look(sites.folder / name / "status.json").get("step") == step:
            ip("-n", space(name), "link", "set", "wire", "down")
            cut.append(step)
            return


def test_one_host_is_cut_off_in_mid_run(tmp_path: Path, hosts: dict[str, str]) -> None:
    write_study(tmp_path, PEOPLE)
    done, cut = threading.Event(), list[str]()
    with Deployment(tmp_path / "study.toml", tmp_path / "sites", host=hosts["server"]) as sites:
        for name in SITES:
            if name != "server":
                sites.fill_in(name, tmp_path / f"{name}.csv", epsilon="100.0")
            with (sites.folder / name / "site.toml").open("a") as file:
                file.write("silence = 10\n")
            sites.start(name, inside(name))
        knife = threading.Thread(target=cut_off, args=(sites, "bank", "align", done, cut))
        knife.start()
        try:
            first = sites.run(tmp_path / "first.json", prefix=inside("server"))
        finally:
            done.set()
            knife.join()
        assert cut == ["align"]
        assert first.returncode == 1 and not (tmp_path / "first.json").exists()
        assert "the session ended at bank (party-lost)" in first.stderr, first.stderr
        assert "it was at step align" in first.stderr and "nothing is spent" in first.stderr
        for other in ("works", "town"):
            assert "the session ended at bank (party-lost)" in sites.said(other)
        for _ in range(600):
            if "the server was not heard" in sites.said("bank"):
                break
            time.sleep(0.1)
        assert "nothing had been submitted, so that nothing is spent" in sites.said("bank")
        for party in PARTIES:
            data = DataSet.of_file(tmp_path / f"{party}.csv", f"{party} data")
            assert Ledger(sites.folder / party / "ledger.sqlite").spent(data, Cap(100.0)).epsilon == 0.0

        # The line comes back, and so does the party, without anybody's help.
        ip("-n", space("bank"), "link", "set", "wire", "up")
        second = sites.run(tmp_path / "second.json", wait=120, prefix=inside("server"))
        assert second.returncode == 0, second.stderr

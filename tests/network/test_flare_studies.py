"""Two studies on one real server through the coordinator's queue, with the server restarted on the way. Long."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from colonnade.consent.entries import EntryKind
from colonnade.consent.ledger import Ledger
from colonnade.flare.queue import DONE, SessionQueue
from demo.network import COMMAND, Deployment
from tests.helpers.wires import PARTIES, write_study

pytest.importorskip("nvflare", reason="the extra flare is not installed")


def fill_in(site: Path, data: Path) -> None:
    text = (site / "site.toml").read_text().replace('data = "?"', f'data = "{data}"')
    (site / "site.toml").write_text(text.replace('"ledger.sqlite"', '"../../ledger.sqlite"'))
    rules = re.sub(r"smallest_rows = \d+", "smallest_rows = 2", (site / "policy.toml").read_text())
    (site / "policy.toml").write_text(re.sub(r"(?m)^epsilon = .*$", "epsilon = 90.0", rules))


@pytest.mark.slow
@pytest.mark.skipif("COLONNADE_LONG" not in os.environ, reason="minutes; make chaos runs it")
def test_two_studies_are_worked_off_although_the_server_restarts(tmp_path: Path) -> None:
    write_study(tmp_path)
    with Deployment(tmp_path / "study.toml", tmp_path / "sites") as sites:
        for party in PARTIES:
            sites.fill_in(party, tmp_path / f"{party}.csv", smallest_rows="2", epsilon="90.0")
        second = tmp_path / "second.toml"
        second.write_text((tmp_path / "study.toml").read_text().replace('name = "pay"', 'name = "pay again"'))
        authority = str(sites.folder / "authority")
        sites.command("deploy", "add", str(second), "--authority", authority, "-o", str(tmp_path / "more"))
        for folder in (tmp_path / "more").iterdir():
            (folder / "studies").rename(sites.folder / folder.name / "studies")
            if folder.name in PARTIES:
                fill_in(sites.folder / folder.name / "studies" / "pay-again", tmp_path / f"{folder.name}.csv")
        for name in ("server", *PARTIES):
            sites.start(name)
        coordinator = sites.folder / "coordinator"
        queue = SessionQueue(coordinator)
        for study in ("pay", "pay again"):
            queue.add(study)
        call = [*COMMAND, "queue", "work", str(coordinator), "--until-empty"]
        with (tmp_path / "worker.out").open("w") as out:
            worker = subprocess.Popen(call, env=sites.environment, stderr=out)
            try:
                deadline = time.monotonic() + 400
                while not [e for e in queue.entries() if e.state == DONE] and time.monotonic() < deadline:
                    time.sleep(0.2)
                sites.sites["server"].terminate()
                sites.sites["server"].wait(30)
                queue.add("pay")
                sites.start("server")
                worker.wait(500)
            finally:
                worker.kill()
        ended = [(entry.study, entry.state, entry.told) for entry in queue.entries()]
        told = (tmp_path / "worker.out").read_text()
        good = [study for study, state, _ in ended if state == DONE]
        # The second may have been under way as the server was stopped; then it is told, and not run again.
        assert {"pay"} <= set(good) and all(state in (DONE, "failed") for _, state, _ in ended), (ended, told)
        for party in PARTIES:
            ledger = Ledger(sites.folder / party / "ledger.sqlite")
            last = {e.booking.session: (e.booking.study, e.kind) for e in ledger.entries()}
            released = sorted(study for study, kind in last.values() if kind is EntryKind.RELEASED)
            assert released == sorted(good), (party, ended, last, told)

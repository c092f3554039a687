"""One real run: server and three parties as processes of their own, mutual TLS on loopback, certificates made here."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from colonnade.consent.entries import EntryKind
from colonnade.consent.ledger import Ledger
from colonnade.flare.status import look
from colonnade.transport.evidence import HANDED, RECORD
from demo.network import COMMAND, ROOT, Deployment
from tests.helpers.wires import PARTIES, write_study

pytest.importorskip("nvflare", reason="the extra flare is not installed")
psutil = pytest.importorskip("psutil")
SEED = "5eed"


def deployment(folder: Path, seed: str | None = None, people: int = 60, more: str = "") -> Deployment:
    # At a path that a command line must quote.
    folder = folder / "two words"
    folder.mkdir(exist_ok=True)
    write_study(folder, people)
    study = folder / "study.toml"
    study.write_text(study.read_text().replace('product = "lattice"', f'product = "lattice"\n{more}'))
    sites = Deployment(folder / "study.toml", folder / "sites", seed=seed)
    for party in PARTIES:
        rules = {"smallest_rows": "2", "epsilon": "30.0", "scores_to": '["bank"]'}
        sites.fill_in(party, folder / f"{party}.csv", **rules)
    return sites


def test_network_and_one_process_give_the_same_bytes_then_refuse(tmp_path: Path) -> None:
    """Seeded, the release is that of `fit`; then, on the same processes, a party withdraws its permission."""
    with deployment(tmp_path, SEED) as sites:
        for name in ("server", *PARTIES):
            sites.start(name)
        done = sites.run(tmp_path / "network.json")
        assert done.returncode == 0, (done.stderr, [sites.said(name) for name in sites.sites])
        assert "NOT PRIVATE" in done.stdout
        sites.command("fit", str(sites.study), "--out", str(tmp_path / "alone.json"), "--seed", SEED)
        network, alone = (tmp_path / "network.json").read_bytes(), (tmp_path / "alone.json").read_bytes()
        assert network == alone
        assert json.loads(network)["provenance"]["seeded"] is True
        for party in PARTIES:
            kept = list((sites.folder / party / "releases").glob("*.json"))
            assert [file.read_bytes() for file in kept] == [network]
            assert "NOT PRIVATE" in sites.said(party) and "done: the release was opened" in sites.said(party)

        # By a model of this release the bank has everybody scored.
        sites.command("solve", str(tmp_path / "network.json"), "--out", str(tmp_path / "model.json"))
        sites.ask_for_scores(tmp_path / "model.json", "bank")
        done = sites.predict()
        assert done.returncode == 0, (done.stderr, [sites.said(name) for name in sites.sites])
        call = ("predict", str(tmp_path / "model.json"), "--study", str(sites.study), "--to", "bank")
        sites.command(*call, "--out", str(tmp_path / "scores.csv"))
        (scores,) = (sites.folder / "bank" / "scores").iterdir()
        assert scores.read_bytes() == (tmp_path / "scores.csv").read_bytes()
        opened = len(scores.read_text().splitlines()) - 1
        assert f"bank opened the scores of {opened} records: they are at bank, in scores/{scores.name}." in done.stdout
        assert "NOT PRIVATE" in done.stdout and "it is not differentially private about the record" in done.stderr
        assert [f.parent.parent.name for f in sites.folder.rglob("scores/*.csv")] == ["bank"]
        assert f"done: the parts of {opened} scores were handed in for bank" in sites.said("town")

        # Policies are read anew by each session, on the party's own machine.
        rules = sites.folder / "bank" / "policy.toml"
        rules.write_text(re.sub("simulation = true", "simulation = false", rules.read_text()))
        done = sites.run(tmp_path / "second.json")
        assert done.returncode == 1 and not (tmp_path / "second.json").exists()
        assert "the session ended at bank (policy)" in done.stderr and "nothing is spent" in done.stderr
        assert "the policy of bank does not say simulation = true" in sites.said("bank")
        for other in ("server", "works", "town"):
            assert "simulation = true" not in sites.said(other)
            assert "the session ended at bank (policy)" in sites.said(other)
        # Nothing of a site's log is sent to the server.
        assert "does not say simulation" not in "".join(
            file.read_text(errors="replace") for file in (sites.folder / "server").rglob("*.txt")
        )
        stop_a_party_then_the_server(sites, tmp_path / "third.json")


def stop_a_party_then_the_server(sites: Deployment, out: Path) -> None:
    """A party is told to end while a session is under way, the server when nothing goes on: both end at once."""
    rules = sites.folder / "bank" / "policy.toml"
    rules.write_text(re.sub("simulation = false", "simulation = true", rules.read_text()))
    struck: list[int] = []
    watcher = threading.Thread(target=stop_early, args=(sites, struck))
    watcher.start()
    done = sites.run(out)
    watcher.join()
    assert done.returncode == 1 and not out.exists()
    assert "the session ended at bank (stopped)" in done.stderr and "nothing is spent" in done.stderr
    assert sites.sites["bank"].wait(15) == 128 + signal.SIGTERM
    assert "bank: stopping; a session is under way" in sites.said("bank")
    assert "ended without a release: this party was stopped; nothing is spent" in sites.said("bank")
    assert look(sites.folder / "bank" / "status.json")["done"]
    assert not psutil.pid_exists(struck[0]) or psutil.Process(struck[0]).status() == psutil.STATUS_ZOMBIE
    server = sites.sites["server"]
    # A shell's background job ignores Ctrl-C, and so does all that it starts.
    number = signal.SIGTERM if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else signal.SIGINT
    server.send_signal(number)
    assert server.wait(15) == 128 + number
    assert "server: stopping" in sites.said("server")
    for party in PARTIES:
        # What a job says to the process that started it passes with certificates too.
        assert re.search(rf"<= \S+ SSL {party}\] is created", (sites.folder / party / "log.txt").read_text())
        assert "connected twice" not in sites.said(party) and "was made 5 times" not in sites.said(party)


def stop_early(sites: Deployment, struck: list[int]) -> None:
    """Before anything can be booked."""
    board = sites.folder / "bank" / "status.json"
    deadline, before = time.monotonic() + 120, look(board).get("job")
    while time.monotonic() < deadline:
        content = look(board)
        if content.get("job") != before and content.get("step") in ("wait", "read", "align"):
            struck.append(int(content["pid"]))
            sites.sites["bank"].terminate()
            return
        time.sleep(0.01)


@pytest.mark.skipif(not os.environ.get("COLONNADE_LONG"), reason="starts the engine again; make chaos runs it")
def test_ledgers_over_the_network(tmp_path: Path) -> None:
    with deployment(tmp_path) as sites:
        for name in ("server", *PARTIES):
            sites.start(name)
        assert sites.run(tmp_path / "first.json").returncode == 0
        for party in PARTIES:
            entries = Ledger(sites.folder / party / "ledger.sqlite").entries()
            assert [entry.kind for entry in entries] == [EntryKind.BOOKED, EntryKind.RELEASED]
        done = sites.run(tmp_path / "second.json")
        assert done.returncode == 1 and "(budget)" in done.stderr and "nothing is spent" in done.stderr
        for party in PARTIES:
            assert len(Ledger(sites.folder / party / "ledger.sqlite").entries()) == 2
        sites.command("solve", str(tmp_path / "first.json"), "--out", str(tmp_path / "model.json"))
        sites.ask_for_scores(tmp_path / "model.json", "bank")
        assert sites.predict().returncode == 0
        rules = sites.folder / "town" / "policy.toml"
        rules.write_text(rules.read_text().replace('scores_to = ["bank"]', "scores_to = []"))
        done = sites.predict()
        assert done.returncode == 1 and "the session ended at town (policy)" in done.stderr
        assert "no score was opened" in done.stderr and "spen" not in done.stderr
        assert "ended without scores: town refuses: scores_to allows none" in sites.said("town")
        assert [f.parent.parent.name for f in sites.folder.rglob("scores/*.csv")] == ["bank"]
        # No prediction is in anybody's book.
        for party in PARTIES:
            assert len(Ledger(sites.folder / party / "ledger.sqlite").entries()) == 2
        shutil.rmtree(sites.folder / "server" / "snapshots", ignore_errors=True)


CHEATS = """
import sys
from pathlib import Path
sys.path.append({root!r})
from colonnade.protocol import fit
from tests.helpers.proven import changing, spell_a_key
honest = fit.proven_party
fit.proven_party = lambda found: changing(spell_a_key) if Path({flag!r}).exists() else honest(found)
"""
"""Put before all that a site's processes run: as long as a file is there, it answers with words of its own making."""


@pytest.mark.skipif(not os.environ.get("COLONNADE_LONG"), reason="starts the engine again; make chaos runs it")
def test_a_cheat_is_refused_over_the_engine_and_an_honest_session_follows(tmp_path: Path) -> None:
    """Proofs are required: what works sends is refused before anybody hands in, and its audit says so."""
    flag, altered = tmp_path / "cheats", tmp_path / "altered"
    flag.touch()
    altered.mkdir()
    (altered / "sitecustomize").with_suffix(".py").write_text(CHEATS.format(root=str(ROOT), flag=str(flag)))
    with deployment(tmp_path, more='proofs = "required"') as sites:
        for name in ("server", *PARTIES):
            path = sites.environment["PYTHONPATH"]
            if name == "works":
                sites.environment["PYTHONPATH"] = f"{altered}{os.pathsep}{path}"
            sites.start(name)
            sites.environment["PYTHONPATH"] = path
        done = sites.run(tmp_path / "first.json")
        assert done.returncode == 1 and "(protocol-error)" in done.stderr and "nothing is spent" in done.stderr
        for party in PARTIES:
            # Right after the abort.
            assert not Ledger(sites.folder / party / "ledger.sqlite").entries()
        assert any("refuses works in round proof answer" in sites.said(party) for party in PARTIES)
        for party, outcome in {"works": "did not follow", "bank": "followed", "town": "followed"}.items():
            (place,) = (sites.folder / party / "evidence").iterdir()
            peers = [next((sites.folder / p / "evidence").iterdir()) for p in PARTIES if p != party]
            call = ["audit", "session", str(place), *(f"--against={peer}" for peer in peers)]
            finding = tmp_path / f"{party}.finding"
            subprocess.run([*COMMAND, *call, "--out", str(finding)], env=sites.environment, capture_output=True)
            assert json.loads(finding.read_text())["outcome"] == outcome, party
        flag.unlink()
        done = sites.run(tmp_path / "second.json")
        assert done.returncode == 0, (done.stderr, [sites.said(name) for name in sites.sites])
        told = json.loads((tmp_path / "second.json").read_text())["plan"]["promise"]
        assert told == "the epsilons hold against parties that deviate from the protocol, with abort"
        for party in PARTIES:
            entries = Ledger(sites.folder / party / "ledger.sqlite").entries()
            assert [entry.kind for entry in entries] == [EntryKind.BOOKED, EntryKind.RELEASED]


@pytest.mark.skipif(not os.environ.get("COLONNADE_LONG"), reason="starts the engine again; make chaos runs it")
def test_a_server_that_dies_at_submit_opens_the_same_session_in_the_next_job(tmp_path: Path) -> None:
    """Two of three have handed in, and the third is about to, when the server's process of the job is killed."""
    with deployment(tmp_path) as sites:
        for name in ("server", *PARTIES):
            sites.start(name)
        struck: list[int] = []
        watcher = threading.Thread(target=kill_at_submit, args=(sites, struck))
        watcher.start()
        done = sites.run(tmp_path / "first.json")
        watcher.join()
        assert struck and done.returncode == 1 and not (tmp_path / "first.json").exists(), done.stderr
        wait_for(lambda: all(look(sites.folder / party / "status.json").get("done") for party in PARTIES))
        before = {party: Ledger(sites.folder / party / "ledger.sqlite").entries() for party in PARTIES}
        assert all([entry.kind for entry in entries] == [EntryKind.BOOKED] for entries in before.values()), before
        (session,) = {entry.booking.session for entries in before.values() for entry in entries}
        done = sites.run(tmp_path / "second.json")
        assert done.returncode == 0, (done.stderr, [sites.said(name) for name in sites.sites])
        for party in PARTIES:
            entries = Ledger(sites.folder / party / "ledger.sqlite").entries()
            assert [entry.kind for entry in entries] == [EntryKind.BOOKED, EntryKind.RELEASED]
            assert {entry.booking.session for entry in entries} == {session}
            kept = sites.folder / party / "releases" / f"{session[:16]}.json"
            assert kept.read_bytes() == (tmp_path / "second.json").read_bytes()
            # One folder: the second job went on with it, and what it wrote can be audited.
            (place,) = (sites.folder / party / "evidence").iterdir()
            finding = tmp_path / f"{party}.finding"
            sites.command("audit", "session", str(place), "--out", str(finding))
            assert json.loads(finding.read_text())["outcome"] == "followed"


def wait_for(what: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def kill_at_submit(sites: Deployment, struck: list[int]) -> None:
    """The town's booking waits for its ledger, which is held until the others have handed in and the server is dead."""

    def evidence(party: str, name: str) -> list[Path]:
        return list((sites.folder / party / "evidence").glob(f"*/{name}"))

    wait_for(lambda: any('"what": "plan"' in path.read_text() for path in evidence("town", RECORD)))
    with closing(sqlite3.connect(sites.folder / "town" / "ledger.sqlite", isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        wait_for(lambda: all(evidence(party, HANDED) for party in PARTIES if party != "town"))
        pid = int(look(sites.folder / "server" / "status.json")["pid"])
        os.kill(pid, signal.SIGKILL)
        struck.append(pid)
        held.execute("ROLLBACK")

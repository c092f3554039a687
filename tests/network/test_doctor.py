"""`colonnade doctor` finds each planted fault and names it; `status` says how sites are doing."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from colonnade.consent.entries import Booking, DataSet
from colonnade.consent.ledger import Ledger
from colonnade.flare import doctor
from colonnade.flare.certificates import Address
from colonnade.flare.deploy import deploy_new
from colonnade.flare.doctor import Diagnosis, examine, standing
from colonnade.mechanism.composition import Cap, Charge, rho_of_pure
from tests.helpers.authority import DAY, Authority
from tests.helpers.cli_study import runner
from tests.helpers.wires import PARTIES, write_study

Patch = pytest.MonkeyPatch


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment as administrators would leave it, on a port where nobody listens."""
    place = tmp_path_factory.mktemp("doctor")
    write_study(place)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    deploy_new(place / "study.toml", place / "sites", Address("localhost", port))
    for party in PARTIES:
        site, rules = place / "sites" / party / "site.toml", place / "sites" / party / "policy.toml"
        site.write_text(site.read_text().replace('data = "?"', f'data = "{place / party}.csv"'))
        rules.write_text(rules.read_text().replace("smallest_rows = 1000", "smallest_rows = 2"))
        # What so few records cost is above what the template is made for.
        rules.write_text(re.sub(r"(?m)^epsilon = .*", "epsilon = 40", rules.read_text()))
    return place / "sites"


@pytest.fixture
def sites(deployed: Path, tmp_path: Path, monkeypatch: Patch) -> Path:
    """A copy that a test may spoil, with a server that answers."""
    shutil.copytree(deployed, tmp_path / "sites")
    monkeypatch.setattr(doctor, "probe", lambda *given: "")
    return tmp_path / "sites"


def faults(findings: list[Diagnosis]) -> list[tuple[str, str, str]]:
    return [(f.site, f.about, f.sentence) for f in findings if f.verdict == "fault"]


def test_a_sound_deployment_has_no_fault(sites: Path) -> None:
    findings = examine([sites])
    assert faults(findings) == []
    assert {f.site for f in findings} == {"server", "coordinator", *PARTIES}
    looks = {f.about for f in findings if f.site == "bank"}
    assert looks == {"version", "certificate", "key", "signing", "clock", "disk", "data", "policy", "ledger", "server"}


def edit(path: Path, old: str, new: str) -> None:
    assert old in path.read_text(), path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def no_certificate(bank: Path, patch: Patch) -> None:
    (bank / "startup" / "client.crt").unlink()


def give(bank: Path, start: timedelta = -DAY, end: timedelta = 90 * DAY) -> None:
    """A certificate of another authority, with the authority's own."""
    made = Authority("pay").folder(bank / "made", "bank", start, end)
    shutil.copytree(made / "startup", bank / "startup", dirs_exist_ok=True)
    (bank / "startup" / "client.key").chmod(0o600)


def old_certificate(bank: Path, patch: Patch) -> None:
    give(bank, -40 * DAY, -DAY)


def foreign_certificate(bank: Path, patch: Patch) -> None:
    root = (bank / "startup" / "rootCA.pem").read_bytes()
    give(bank)
    (bank / "startup" / "rootCA.pem").write_bytes(root)


def open_key(bank: Path, patch: Patch) -> None:
    (bank / "startup" / "client.key").chmod(0o644)


def clock_behind(bank: Path, patch: Patch) -> None:
    (bank / "status.json").write_text("{}")
    ahead = time.time() + 86400
    os.utime(bank / "status.json", (ahead, ahead))


def late_clock(bank: Path, patch: Patch) -> None:
    """This machine's clock is behind: the certificate begins in two hours, by it."""
    give(bank, timedelta(hours=2))


def full_disk(bank: Path, patch: Patch) -> None:
    usage = shutil.disk_usage(bank)
    patch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=5 << 20))


def no_data(bank: Path, patch: Patch) -> None:
    edit(bank / "site.toml", "bank.csv", "nothing.csv")


def unfit_data(bank: Path, patch: Patch) -> None:
    data = bank.parent / "unfit.csv"
    data.write_text("person,savings\np1,many\n")
    lines = (bank / "site.toml").read_text().splitlines()
    told = [f'data = "{data}"' if line.startswith("data = ") else line for line in lines]
    (bank / "site.toml").write_text("\n".join(told) + "\n")


def other_policy(bank: Path, patch: Patch) -> None:
    edit(bank / "policy.toml", 'party = "bank"', 'party = "town"')


def strict_policy(bank: Path, patch: Patch) -> None:
    edit(bank / "policy.toml", 'tasks = ["linear"]', 'tasks = ["logistic"]')


def book(bank: Path, epsilon: float) -> None:
    charge = Charge(epsilon, 0.0, rho_of_pure(epsilon))
    booking = Booking("s" * 64, "bank", "other", "p" * 64, DataSet("bank data", "d" * 64), charge, epsilon)
    Ledger(bank / "ledger.sqlite").book(booking, Cap(epsilon))


def spent_budget(bank: Path, patch: Patch) -> None:
    book(bank, 1000.0)


def broken_ledger(bank: Path, patch: Patch) -> None:
    book(bank, 0.001)
    with sqlite3.connect(bank / "ledger.sqlite") as connection:
        connection.execute("DROP TRIGGER no_update")
        connection.execute("UPDATE entries SET content = replace(content, '0.001', '0.0001')")


def server_away(bank: Path, patch: Patch) -> None:
    patch.setattr(doctor, "probe", lambda *given: "the server cannot be reached at localhost:1")


def old_classes(bank: Path, patch: Patch) -> None:
    edit(bank / "local" / "resources.json", "colonnade.flare.job_classes.FitPartyJob", "colonnade.flare.party.Old")


def old_engine(bank: Path, patch: Patch) -> None:
    patch.setattr(doctor, "version", lambda name: "2.7.1")


class Planted(NamedTuple):
    plant: Callable[[Path, Patch], None]
    about: str
    sentence: str


PLANTED = [
    Planted(no_certificate, "certificate", "bank has no certificate: startup/client.crt is missing"),
    Planted(old_certificate, "certificate", "the certificate of bank ended on"),
    Planted(late_clock, "certificate", "is it behind?"),
    Planted(late_clock, "clock", "and the certificate of bank begins on"),
    Planted(foreign_certificate, "certificate", "is not from the authority of this study"),
    Planted(open_key, "key", "can be read by others (mode 644): chmod 600"),
    Planted(clock_behind, "clock", "something here was written at"),
    Planted(full_disk, "disk", "the disk has 5 MB free, and must have 100 MB or more"),
    Planted(no_data, "data", "nothing.csv"),
    Planted(unfit_data, "data", "savings"),
    Planted(other_policy, "policy", "is for party 'town', this folder is bank's"),
    Planted(strict_policy, "policy", "linear"),
    Planted(spent_budget, "ledger", "epsilon"),
    Planted(broken_ledger, "ledger", "is broken at entry 1"),
    Planted(server_away, "server", "the server cannot be reached at localhost:"),
    Planted(old_classes, "version", "was deployed by an earlier version"),
    Planted(old_engine, "version", "nvflare must be 2.9, got 2.7.1"),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.plant.__name__)
def test_a_planted_fault_is_found_and_named(sites: Path, monkeypatch: Patch, planted: Planted) -> None:
    planted.plant(sites / "bank", monkeypatch)
    found = [(about, told) for site, about, told in faults(examine([sites / "bank"])) if about == planted.about]
    assert len(found) == 1 and planted.sentence in found[0][1], faults(examine([sites / "bank"]))


@pytest.mark.parametrize("name", ["bank", "server", "coordinator"])
def test_a_folder_without_a_key_is_told_how_to_get_one_and_once(sites: Path, name: str) -> None:
    for path in (*(sites / name / "startup").glob("*.key"), *(sites / name / "startup").glob("*.crt")):
        path.unlink()
    found = [told for site, _, told in faults(examine([sites / name])) if site == name and "cert" in told]
    assert len(found) == 1 and all(f"cert {word}" in found[0] for word in ("request", "approve", "install")), found
    assert not any("Errno" in told for _, _, told in faults(examine([sites / name])))


@pytest.mark.parametrize(
    ("step", "says"), [("align", "nothing is spent"), ("submit", "what is booked counts as spent; once more than")]
)
def test_a_process_that_died_without_a_last_word_is_told(sites: Path, step: str, says: str) -> None:
    """Nobody was there to note it: neither its site's process nor, on a full disk, its own."""
    died = subprocess.Popen([sys.executable, "-c", "pass"])
    died.wait()
    content = {"job": "j", "session": "ab" * 32, "step": step, "what": "a release", "done": False, "pid": died.pid}
    (sites / "bank" / "status.json").write_text(json.dumps(content))
    told = standing(sites / "bank")
    assert told.step == "" and told.ended.startswith(f"the session's process ended at step {step}; ")
    assert says in told.ended


def test_sites_that_hold_other_terms_are_named(sites: Path) -> None:
    edit(sites / "town" / "study.toml", "epsilon = ", "epsilon = 2")
    (found,) = (told for site, about, told in faults(examine([sites])) if about == "study")
    assert "study.toml of town states other terms than that of bank" in found


def test_a_taken_port_is_named(sites: Path) -> None:
    port = int(json.loads((sites / "server" / "startup" / "fed_server.json").read_text())["servers"][0]["admin_port"])
    with socket.socket() as taken:
        taken.bind(("localhost", port))
        taken.listen(1)
        assert faults(examine([sites / "server"])) == [
            ("server", "port", f"port {port} cannot be opened on this machine: address already in use")
        ]


def test_a_certificate_that_ends_soon_is_remarked(sites: Path) -> None:
    give(sites / "bank", end=10 * DAY)
    (found,) = (f for f in examine([sites / "bank"]) if f.about == "certificate")
    assert found.verdict == "remark" and "colonnade cert request" in found.sentence


def test_the_command_says_it_and_fails(sites: Path, monkeypatch: Patch, capfd: pytest.CaptureFixture[str]) -> None:
    run = runner(monkeypatch, capfd)
    sound = run("doctor", sites)
    assert sound.code == 0 and "no fault was found" in sound.out
    (sites / "bank" / "startup" / "client.key").chmod(0o644)
    told = run("doctor", sites, "--json")
    assert told.code == 1 and told.json["faults"] == 1


def test_status_tells_step_end_and_budget(sites: Path, monkeypatch: Patch, capfd: pytest.CaptureFixture[str]) -> None:
    book(sites / "bank", 0.25)
    now = datetime.now(UTC) - timedelta(seconds=5)
    content = {"job": "j", "session": "ab" * 32, "step": "align", "done": False, "pid": os.getpid()}
    (sites / "bank" / "status.json").write_text(json.dumps({**content, "time": now.isoformat()}))
    assert standing(sites / "bank").step == "align"
    (sites / "town" / "status.json").write_text(json.dumps({**content, "done": True, "sentence": "it ended"}))
    shown = run_status(sites, monkeypatch, capfd)
    assert "abababababababab at align" in shown and "0.25 of 0.25" in shown and "it ended" in shown


def test_a_ledger_that_cannot_be_read_keeps_no_state_back(sites: Path) -> None:
    (sites / "bank" / "ledger.sqlite").write_bytes(b"no database at all, " * 100)
    told = standing(sites / "bank")
    assert told.study == "pay" and told.spent.startswith("not known: ") and "Errno" not in told.spent


def run_status(sites: Path, monkeypatch: Patch, capfd: pytest.CaptureFixture[str]) -> str:
    done = runner(monkeypatch, capfd)("status", sites)
    assert done.code == 0
    return str(done.out)

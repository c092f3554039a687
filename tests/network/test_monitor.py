"""What a site tells machines: its health, its figures, its log; times, names and counts, and nothing of its data."""

from __future__ import annotations

import json
import logging
import re
import shutil
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from colonnade.flare import monitor as monitor_module
from colonnade.flare.certificates import PROBE_SECONDS, Address, probe
from colonnade.flare.flare_log import ServerLine
from colonnade.flare.folder_texts import policy_file, site_file
from colonnade.flare.launch import EVENTS, FIELDS, EventLog, rotate_audit_log, watch
from colonnade.flare.monitor import LOOPBACK, Monitor, parse_address, serve_monitor
from colonnade.foundation.errors import StudyError
from colonnade.protocol.tasks import JournalEvent
from colonnade.sites.site import METRICS, PARTY, Site, read_site
from colonnade.transport.journal import FileJournal
from tests.helpers.authority import DAY, Authority
from tests.helpers.wires import write_study

yaml = pytest.importorskip("yaml", reason="the extra flare, which brings YAML, is not installed")
LINE = re.compile(r'^[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+-]+$')


@pytest.fixture
def site(tmp_path: Path) -> Site:
    study = write_study(tmp_path)
    folder = Authority().folder(tmp_path, "bank")
    shutil.copy(tmp_path / "study.toml", folder)
    told = site_file(study, PARTY, "bank").replace('data = "?"', 'data = "../bank.csv"')
    (folder / "site.toml").write_text(told)
    (folder / "policy.toml").write_text(policy_file(study, "bank"))
    return read_site(folder)


def free_port() -> int:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def served(site: Site) -> Iterator[tuple[Monitor, int]]:
    monitor, port = Monitor(site), free_port()
    server = serve_monitor(monitor, (LOOPBACK, port))
    yield monitor, port
    server.shutdown()
    server.server_close()


def test_health_and_metrics_are_served(site: Site, served: tuple[Monitor, int]) -> None:
    monitor, port = served
    for job in ("a", "b"):
        ended = {"done": True, "ok": job == "a", "code": "" if job == "a" else "site"}
        monitor.follow({"job": job, "step": "read", "done": False})
        for _ in range(2):
            monitor.follow({"job": job, "step": "open", "bytes": {"sent": 5, "received": 7}, **ended})
    code, text = get(port, "/metrics")
    assert code == 200
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(LINE.match(line) for line in lines), lines
    figures = {key: float(value) for key, _, value in (line.rpartition(" ") for line in lines)}
    expected = {
        'colonnade_sessions_total{outcome="opened"}': 1,
        'colonnade_sessions_total{outcome="failed"}': 1,
        'colonnade_refusals_total{code="site"}': 1,
        'colonnade_session_bytes_total{direction="sent"}': 10,
        'colonnade_session_bytes_total{direction="received"}': 14,
        "colonnade_session_duration_seconds_count": 2,
        "colonnade_server_reachable": 0,
        "colonnade_epsilon_spent": 0,
        "colonnade_sessions_booked": 0,
    }
    assert {name: figures[name] for name in expected} == expected
    # Names as they are usual, so that rules and dashboards made for any process hold here.
    assert figures["colonnade_last_session_end_timestamp_seconds"] == pytest.approx(time.time(), abs=60)
    assert figures["colonnade_certificate_expiry_timestamp_seconds"] > time.time()
    assert figures["process_start_time_seconds"] == pytest.approx(psutil.Process().create_time(), abs=2)
    assert figures["process_resident_memory_bytes"] > 1e7
    assert get(port, "/live")[0] == 200 and get(port, "/health")[0] == 200 and get(port, "/else")[0] == 404


def flaws(port: int) -> list[str]:
    code, text = get(port, "/ready")
    content = json.loads(text)
    assert (code == 200) is content["ok"] is (not content["flaws"])
    return list(content["flaws"])


def test_readiness_is_apart_from_life(site: Site, served: tuple[Monitor, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """What keeps a site from a session does not have its process restarted."""
    monitor, port = served
    assert flaws(port) == ["server"], "the line has not been tried"
    monitor.away = ""
    assert flaws(port) == []
    usage = shutil.disk_usage(site.folder)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=5 << 20))
        assert flaws(port) == ["disk"]
    (site.folder / "ledger.sqlite").write_text("no ledger")
    assert flaws(port) == ["ledger"]
    (site.folder / "ledger.sqlite").unlink()
    for name, start, end, flaw in (("ended", -DAY, -DAY / 2, "certificate"), ("to come", DAY, 2 * DAY, "clock")):
        made = Authority().folder(site.folder / name, "bank", start, end)
        shutil.copy(made / "startup" / "client.crt", site.folder / "startup")
        assert flaws(port) == [flaw]
        assert get(port, "/live")[0] == 200
    assert json.loads(get(port, "/health")[1])["flaws"] == []


def test_who_connects_and_asks_nothing_is_let_go(
    site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor does it leave a traceback on the site's terminal, whatever it breaks off."""
    monkeypatch.setattr(monitor_module, "ASKING_SECONDS", 0.2)
    port = free_port()
    server = serve_monitor(Monitor(site), (LOOPBACK, port))
    before = threading.active_count()
    lines = [socket.create_connection((LOOPBACK, port)) for _ in range(20)]
    for number, line in enumerate(lines):
        line.send(b"GET /metrics HTTP/1.1\r\n"[: 2 * number])
    lines[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    lines.pop(0).close()
    assert get(port, "/live")[0] == 200
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before
    assert "Traceback" not in "".join(capfd.readouterr())
    for line in lines:
        line.close()
    server.shutdown()
    server.server_close()


def test_a_party_that_is_cut_off_shows_it_within_thirty_seconds(
    site: Site, served: tuple[Monitor, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a server that takes connections and says nothing: the engine's line to it stays as it was."""
    monitor, port = served
    assert monitor_module.LINE_SECONDS + PROBE_SECONDS < 30
    monkeypatch.setattr(monitor_module, "LINE_SECONDS", 0.1)
    said: list[str] = []
    with socket.create_server((LOOPBACK, 0)) as mute:
        address = Address(LOOPBACK, mute.getsockname()[1])
        line = ServerLine("bank", address, said.append, "waiting")
        line.emit(logging.makeLogRecord({"msg": "Connection [CN1 a => b SSL server] is created"}))
        monitor.away, whole = "", [True]

        def tried() -> str:
            return line.hear("" if whole[0] else probe(site.folder, "bank", address, "localhost", seconds=0.2))

        threading.Thread(target=monitor.keep_trying, args=(tried,), daemon=True).start()
        time.sleep(0.3)
        assert flaws(port) == []
        whole[0] = False
        end = time.monotonic() + 5
        while flaws(port) != ["server"]:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert "colonnade_server_reachable 0.0" in get(port, "/metrics")[1]
        assert "takes connections and does not shake hands" in said[-1] and said[-1].endswith("though the line is open")
        whole[0] = True
        while flaws(port):
            assert time.monotonic() < end
            time.sleep(0.05)
        assert said[-1].endswith("answers again")


MANIFESTS = sorted((Path(__file__).parents[2] / "packaging" / "kubernetes").glob("*.yaml"))


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.name)
def test_probes_as_shipped_are_answered_by_a_site_as_deployed(
    site: Site, manifest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pod's own environment has it answer; a folder of `deploy new` names no port."""
    parts = list(yaml.safe_load_all(manifest.read_text(encoding="utf-8")))
    (container,) = (p["spec"]["template"]["spec"]["containers"][0] for p in parts if p["kind"] == "StatefulSet")
    assert "metrics" not in site.content
    (address,) = (entry["value"] for entry in container["env"] if entry["name"] == METRICS)
    host, number = parse_address(address)
    (named,) = (p["containerPort"] for p in container["ports"] if p["name"] == "metrics")
    assert (host, number) == ("0.0.0.0", named), "the kubelet asks from outside"
    port = free_port()
    monkeypatch.setenv(METRICS, f"0.0.0.0:{port}")
    watchers = watch(site, lambda content: None)
    watchers.monitor.away = ""
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        asked = container[kind]["httpGet"]
        assert asked["port"] == "metrics" and get(port, asked["path"])[0] == 200, kind
    watchers.monitor.away = "the server cannot be reached"
    assert get(port, container["readinessProbe"]["httpGet"]["path"])[0] == 503
    assert get(port, container["livenessProbe"]["httpGet"]["path"])[0] == 200, "a pod is not restarted for that"


def test_nothing_of_the_data_is_told(site: Site) -> None:
    """Neither columns nor a number of the file are in figures or health."""
    told = Monitor(site).metrics() + json.dumps(Monitor(site).health())
    assert "savings" not in told
    for value in re.findall(r",([0-9.]+)", (site.folder.parent / "bank.csv").read_text()):
        if len(value) > 2:
            assert not re.search(rf"(?<![0-9.]){re.escape(value)}(?![0-9.])", told), value


def test_the_log_for_machines_has_times_and_names_alone(site: Site) -> None:
    log = EventLog(site.folder, site.name, "pay")
    log.note("start")
    ended = {"job": "j", "session": "ab", "step": "submit", "done": True, "ok": False, "spend": {"state": "void"}}
    for content in (
        {"job": "j", "session": "", "step": "read", "share": 0.1},
        {"job": "j", "session": "", "step": "read", "share": 0.9},
        {"job": "j", "session": "ab", "step": "submit", "share": 0.1},
        {**ended, "sentence": "the value of savings is 123.456", "file": "somewhere"},
    ):
        log.follow(content)
    text = (site.folder / EVENTS).read_text()
    entries = [json.loads(line) for line in text.splitlines()]
    assert [entry["event"] for entry in entries] == ["start", "step", "step", "end"]
    assert all(set(entry) <= set(FIELDS) for entry in entries) and "123.456" not in text and "somewhere" not in text
    told = {"job": "j", "session": "ab", "step": "submit", "ok": False, "spend": "void"}
    assert entries[-1] == {"time": entries[-1]["time"], "site": "bank", "study": "pay", "event": "end", **told}
    assert all(datetime.fromisoformat(entry["time"]).tzinfo is not None for entry in entries)


def test_the_engines_audit_log_is_kept_in_six_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the engine's own service: it opens none where there is one."""
    from nvflare.fuel.sec.audit import AuditService

    monkeypatch.setattr(AuditService, "the_auditor", None)
    monkeypatch.setattr("colonnade.flare.launch.LARGEST", 1000)
    rotate_audit_log(tmp_path)
    auditor = AuditService.initialize(str(tmp_path / "audit.log"))
    for number in range(200):
        auditor.add_event("coordinator", f"list_jobs {number} 100%s")
    auditor.close()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["audit.log", *(f"audit.log.{k}" for k in range(1, 6))]
    assert all(path.stat().st_size <= 1000 for path in tmp_path.iterdir())
    assert "[A:list_jobs 199 100%s]" in (tmp_path / "audit.log").read_text()


def test_the_servers_book_says_when(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "sessions.jsonl", lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    # A line of an earlier version has no time, and is read as before.
    (tmp_path / "sessions.jsonl").write_text('{"session": "old", "event": "opened"}\n')
    journal.note("new", JournalEvent.STARTED)
    last = json.loads((tmp_path / "sessions.jsonl").read_text().splitlines()[-1])
    assert last == {"time": "2026-01-02T03:04:05+00:00", "session": "new", "event": "started"}
    assert journal.outcomes(["old", "new"]) == {"old": "opened", "new": "void"}


def test_a_session_counts_once_all_submissions_have_come(tmp_path: Path) -> None:
    """A server that ends between the last submission and its opening may have the sum: void would give back a spend."""
    journal = FileJournal(tmp_path / "sessions.jsonl")
    for session, events in (("a", ""), ("b", "submitted"), ("c", "submitted opened"), ("d", "opened")):
        for event in ("started", *events.split()):
            journal.note(session, JournalEvent(event))
    assert journal.outcomes("abcde") == {"a": "void", "b": "opened", "c": "opened", "d": "opened"}


def test_an_address_is_on_loopback_unless_a_host_is_named() -> None:
    assert parse_address("9100") == ("127.0.0.1", 9100)
    assert parse_address("10.0.0.4:9100") == ("10.0.0.4", 9100)
    for wrong in ("", "host", "host:99999", "0"):
        with pytest.raises(StudyError, match=r"metrics in site\.toml, or COLONNADE_METRICS, must be"):
            parse_address(wrong)
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen(1)
        with pytest.raises(StudyError, match="metrics cannot be served"):
            serve_monitor(None, taken.getsockname())  # type: ignore[arg-type]

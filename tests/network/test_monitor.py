"""What a site tells machines: its health, its figures, its log; times, names and counts, and nothing of its data."""

from __future__ import annotations

import json
import re
import shutil
import socket
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from colonnade.flare.event_log import EVENTS, FIELDS, EventLog, rotate_audit_log
from colonnade.flare.folder_texts import policy_file, site_file
from colonnade.flare.monitor import LOOPBACK, Monitor, parse_address, serve_monitor
from colonnade.foundation.errors import StudyError
from colonnade.protocol.journal import JournalEvent
from colonnade.sites.site import PARTY, Site, read_site
from colonnade.transport.journal import FileJournal
from tests.helpers.authority import DAY, Authority
from tests.helpers.wires import write_study

LINE = re.compile(r'^[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+]+$')


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


def test_health_and_metrics_are_served(site: Site) -> None:
    monitor, port = Monitor(site), free_port()
    server = serve_monitor(monitor, (LOOPBACK, port))
    try:
        for job in ("a", "b"):
            monitor.follow({"job": job, "step": "read", "done": False})
            monitor.follow({"job": job, "step": "open", "done": True, "ok": job == "a"})
            monitor.follow({"job": job, "step": "open", "done": True, "ok": job == "a"})
        code, text = get(port, "/metrics")
        assert code == 200
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        assert all(LINE.match(line) for line in lines), lines
        assert 'colonnade_sessions_total{outcome="opened"} 1' in lines
        assert 'colonnade_sessions_total{outcome="failed"} 1' in lines
        assert {"colonnade_epsilon_spent 0.0", "colonnade_sessions_booked 0"} <= set(lines)
        assert get(port, "/health")[0] == 200
        assert get(port, "/else")[0] == 404
        made = Authority().folder(site.folder / "made", "bank", end=-DAY / 2)
        shutil.copy(made / "startup" / "client.crt", site.folder / "startup")
        code, text = get(port, "/health")
        assert code == 503 and json.loads(text)["flaws"] == ["certificate"]
    finally:
        server.shutdown()
        server.server_close()


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
    monkeypatch.setattr("colonnade.flare.event_log.LARGEST", 1000)
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


def test_an_address_is_on_loopback_unless_a_host_is_named() -> None:
    assert parse_address("9100") == (LOOPBACK, 9100)
    assert parse_address("10.0.0.4:9100") == ("10.0.0.4", 9100)
    for wrong in ("", "host", "host:99999", "0"):
        with pytest.raises(StudyError, match=r"metrics in site\.toml must be"):
            parse_address(wrong)
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen(1)
        with pytest.raises(StudyError, match="metrics cannot be served"):
            serve_monitor(None, taken.getsockname())  # type: ignore[arg-type]

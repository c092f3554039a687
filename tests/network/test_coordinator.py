"""The coordinator without an engine: Ctrl-C, a release that is fetched later, how long it waits."""

from __future__ import annotations

import errno
import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from nvflare.fuel.flare_api.api_spec import MonitorReturnCode

from colonnade.cli import app
from colonnade.flare import coordinator
from colonnade.flare.status import COMMAND, look
from colonnade.foundation.errors import ProtocolError, StoppedError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.party import PartyRole
from colonnade.protocol.tasks import JournalEvent, Unguarded
from colonnade.sites.site import COORDINATOR, OUTCOME, RELEASE, Site, read_site
from colonnade.study import StudySpec
from colonnade.transport.client import Client
from colonnade.transport.journal import FileJournal
from tests.helpers.accounts import Remembered
from tests.helpers.authority import Authority
from tests.helpers.played_jobs import JOB, ServerSite
from tests.helpers.wires import PARTIES, QUICK, party_task, write_study

VOID = "not all parties had submitted, so that nothing was opened and nothing is spent"


@dataclass
class Engine:
    """Stands for FLARE's session: jobs with what they left, and what it was asked to do."""

    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    here: tuple[str, ...] = PARTIES
    status: str = "RUNNING"
    interrupt: str = ""
    """At which call a person presses Ctrl-C, once."""
    deaf: bool = False
    asked: list[Any] = field(default_factory=list)

    def _pass(self, call: str) -> None:
        self.asked.append(call)
        if self.interrupt == call:
            self.interrupt = ""
            raise KeyboardInterrupt

    def get_system_info(self) -> Any:
        self._pass("info")
        heard = time.time() - 3
        return SimpleNamespace(client_info=[SimpleNamespace(name=name, last_connect_time=heard) for name in self.here])

    def submit_job(self, place: str) -> str:
        self._pass("submit")
        return "job-0000-1111"

    def do_app_command(self, job: str, topic: str, data: dict[str, Any]) -> dict[str, Any]:
        assert topic == COMMAND
        self._pass("stop" if data else "look")
        if self.deaf:
            raise RuntimeError("no such job runs")
        if data:
            assert data == {"stop": True}
            self.status = "FINISHED:COMPLETED"
        return {"job": job, "step": "align", "share": 0.5}

    def abort_job(self, job: str) -> None:
        self._pass("abort")
        self.status = "FINISHED:ABORTED"

    def monitor_job_and_return_job_meta(self, job: str, limit: float, poll: float, look: Any = None) -> Any:
        self._pass("monitor")
        end = time.monotonic() + (limit or 30)
        while time.monotonic() < end:
            if look is not None and not look(self, job, {"status": self.status}):
                return MonitorReturnCode.ENDED_BY_CB, None
            if self.status.startswith("FINISHED"):
                return MonitorReturnCode.JOB_FINISHED, {}
            time.sleep(0.02)
        return MonitorReturnCode.TIMEOUT, None

    def list_jobs(self, name_prefix: str, reverse: bool) -> list[dict[str, Any]]:
        assert reverse and name_prefix in ("pay", "")
        return [{"job_id": job, "status": left.get("status", "FINISHED:COMPLETED")} for job, left in self.jobs.items()]

    def download_job_result(self, job: str, place: str) -> str:
        self.asked.append(("download", job))
        got = Path(place) / "got"
        (got / "workspace").mkdir(parents=True)
        for name, content in self.jobs.get(job, {}).get("files", {}).items():
            (got / "workspace" / name).write_bytes(content)
        return str(got)

    def close(self) -> None:
        self.asked.append("close")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    folder = tmp_path / "coordinator"
    folder.mkdir()
    write_study(tmp_path)
    (folder / "study.toml").write_text((tmp_path / "study.toml").read_text())
    (folder / "site.toml").write_text('[site]\nrole = "coordinator"\n')
    return read_site(folder, COORDINATOR)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(coordinator, "check_certificate", lambda *_: None)
    monkeypatch.setattr(coordinator, "_connect", lambda *_: made)
    monkeypatch.setattr(coordinator, "POLL_SECONDS", 0.02)
    return made


def left(sentence: str, release: bytes | None = None, session: str = "", **more: Any) -> dict[str, Any]:
    account = {"ok": release is not None, "sentence": sentence, "bytes": {}, "session": session}
    files = {OUTCOME: json.dumps(account).encode()}
    return {"files": files if release is None else {**files, RELEASE: release}, **more}


def start(site: Site, wait: float = 5.0) -> tuple[bytes, dict[str, Any]]:
    return coordinator.run_session(site, wait, lambda step, share: None)


def test_stopped_while_parties_are_waited_for(site: Site, engine: Engine) -> None:
    engine.interrupt = "info"
    with pytest.raises(StoppedError, match="stopped before a session began; nothing is spent"):
        start(site)
    assert engine.asked == ["info", "close"]


def test_stopped_before_there_is_a_server(site: Site, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def waiting(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(coordinator, "_connect", waiting)
    with pytest.raises(StoppedError, match="stopped before a session began; nothing is spent"):
        start(site)


def test_stopped_while_it_is_asked_for(site: Site, engine: Engine) -> None:
    """Nobody knows whether the server has the job: nothing is said to be unspent."""
    engine.interrupt = "submit"
    with pytest.raises(StoppedError, match="it may go on; what is booked counts as spent; once more than"):
        start(site)


def test_whoever_asks_says_so_before_the_server_hears_of_it(site: Site, engine: Engine) -> None:
    """By this a queue does not ask again where an answer was lost: it could be a second spend."""
    told: list[str] = []
    engine.jobs["job-0000-1111"] = left("the release was opened", b"a release")
    engine.interrupt = "look"
    coordinator.run_session(site, 5.0, lambda step, share: None, begun=told.append)
    assert told == ["", "job-0000-1111"]
    told.clear()
    engine.interrupt = "submit"
    with pytest.raises(StoppedError):
        coordinator.run_session(site, 5.0, lambda step, share: None, begun=told.append)
    assert told == [""]


def test_stopped_under_way(site: Site, engine: Engine) -> None:
    """The relay is asked to end it, for all and with an account, and the job is not torn down."""
    engine.jobs["job-0000-1111"] = left(f"the session ended (stopped): a person stopped the session; {VOID}")
    engine.interrupt = "look"
    with pytest.raises(StoppedError, match=r"\(stopped\): a person stopped the session; not all parties had submitted"):
        start(site)
    assert "stop" in engine.asked and "abort" not in engine.asked


def test_stopped_too_late_keeps_the_release(site: Site, engine: Engine) -> None:
    engine.jobs["job-0000-1111"] = left("the release was opened", b"a release")
    engine.interrupt = "look"
    assert start(site)[0] == b"a release"


def test_stopped_and_nobody_answers(site: Site, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.deaf, engine.interrupt = True, "look"
    with pytest.raises(StoppedError, match="stopped before the session began; nothing is spent"):
        start(site)
    assert "abort" in engine.asked
    # Pressed once more while it is waited for: what is not known is said to be not known.
    again = Engine(interrupt="look")
    monkeypatch.setattr(coordinator, "_connect", lambda *_: again)
    monkeypatch.setattr(again, "monitor_job_and_return_job_meta", interrupted(again))
    with pytest.raises(StoppedError, match="has not said how it ended; what is booked counts as spent") as said:
        start(site)
    assert "colonnade run --fetch job-0000-1111" in str(said.value)


def interrupted(engine: Engine) -> Any:
    calls: list[int] = []

    def monitor(job: str, limit: float, poll: float, look: Any = None) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return Engine.monitor_job_and_return_job_meta(engine, job, limit, poll, look)

    return monitor


def test_the_command_ends_with_130_and_one_sentence(
    site: Site, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.interrupt = "info"
    call = ["run", str(site.folder), "--out", str(tmp_path / "r.json")]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 130
    assert done.stderr.splitlines()[-1] == "error: stopped before a session began; nothing is spent"
    assert not (tmp_path / "r.json").exists()


def test_a_release_is_fetched_by_its_session_or_its_job(site: Site, engine: Engine) -> None:
    engine.jobs = {
        "dddd-running": left("", status="RUNNING"),
        "cccc-third": left(f"ended; {VOID}"),
        "bbbb-second": left("the release was opened", b"two", "2" * 64),
        "aaaa-first": left("the release was opened", b"one", "1" * 64),
    }
    assert coordinator.fetch_release(site, "1" * 16, 1.0)[0] == b"one"
    engine.asked.clear()
    assert coordinator.fetch_release(site, "aaaa-first", 1.0)[0] == b"one"
    assert engine.asked == [("download", "aaaa-first"), "close"]
    with pytest.raises(ProtocolError, match=f"ended; {VOID}"):
        coordinator.fetch_release(site, "cccc-third", 1.0)
    for missing in ("9" * 16, "dddd-running"):
        with pytest.raises(ProtocolError, match=f"the server keeps no session {missing} that has ended"):
            coordinator.fetch_release(site, missing, 1.0)
    with pytest.raises(StudyError, match="at least 8 characters of its id, got '1'"):
        coordinator.fetch_release(site, "1", 1.0)


def test_a_job_that_does_not_begin_is_given_the_rest_of_the_time(
    site: Site, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "LEAST_SECONDS", 0.2)
    engine.status, began = "SUBMITTED", time.monotonic()
    with pytest.raises(ProtocolError, match="did not begin within 1 s, and nothing is spent"):
        start(site, 0.6)
    assert time.monotonic() - began < 2.0
    # A job that does not run yet is not even asked.
    assert "look" not in engine.asked and "abort" in engine.asked


def test_a_server_whose_process_was_killed_leaves_what_is_spent_to_be_said(site: Site, engine: Engine) -> None:
    """It left no account: the coordinator says what that means."""
    engine.status = "FINISHED:EXECUTION_EXCEPTION"
    with pytest.raises(ProtocolError) as ended:
        start(site, 5.0)
    assert str(ended.value).startswith("the server's process ended at step ")
    assert "and did not say why; what is booked counts as spent; once more than `collusion`" in str(ended.value)


SEED = "5eed"


def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[ServerSite, StudySpec]:
    """The server's job of a seeded session, with no engine."""
    monkeypatch.setenv("COLONNADE_SEED", SEED)
    study = write_study(tmp_path)
    return ServerSite(tmp_path / "study.toml", tmp_path / "server"), study


def all_take_part(server: ServerSite, study: StudySpec) -> None:
    """Three parties, to their end."""

    def take_part(name: str) -> None:
        role = PartyRole(party_task(study, name, Unguarded()), Randomness(bytes.fromhex(SEED)))
        Client(role, lambda data: server.ask(name, data), QUICK).run()

    with ThreadPoolExecutor(len(PARTIES)) as pool:
        list(pool.map(take_part, PARTIES))


def test_what_is_shown_of_a_session_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps, and nothing of the server's machine."""
    server, study = played(tmp_path, monkeypatch)
    server.start()
    all_take_part(server, study)
    told = server.finish()
    shown = server.command({})
    session = told["session"]
    assert shown == {"job": JOB, "session": session, "step": "open", "share": 1.0, "done": True}
    (kept,) = (tmp_path / "server" / "releases").iterdir()
    assert kept.name == f"{session[:16]}.json" and look(tmp_path / "server" / "status.json")["file"] == str(kept)


def test_the_server_names_the_session_as_ledgers_and_releases_do(tmp_path: Path) -> None:
    """Accountable parties draw the id together, behind the server's welcome."""
    study, authority = write_study(tmp_path), Authority()
    server = ServerSite(tmp_path / "study.toml", tmp_path / "server")
    roles = [
        PartyRole(
            party_task(study, name, Unguarded()),
            Randomness(),
            authority.signer(tmp_path / "certificates", name),
            account=SessionAccount(Remembered()),
        )
        for name in PARTIES
    ]
    server.start()
    with ThreadPoolExecutor(len(PARTIES)) as pool:
        list(pool.map(lambda role: Client(role, lambda data: server.ask(role.name, data), QUICK).run(), roles))
    told, shown = server.finish(), look(tmp_path / "server" / "status.json")
    assert {shown["session"], told["session"], *(role.identity.hex() for role in roles)} == {shown["session"]}


@pytest.mark.parametrize(("event", "step"), [("started", "align"), ("submitted", "submit")])
def test_the_servers_full_disk_ends_a_session_by_a_code_and_blames_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str, step: str
) -> None:
    server, study = played(tmp_path, monkeypatch)
    note = FileJournal.note

    def full(journal: FileJournal, session: str, what: JournalEvent) -> None:
        if what.value == event:
            raise OSError(errno.ENOSPC, "No space left on device")
        note(journal, session, what)

    monkeypatch.setattr(FileJournal, "note", full)
    server.start()
    with pytest.raises(ProtocolError, match=rf"the session ended \(site\): .*; it was at step {step}; {VOID}"):
        all_take_part(server, study)
    told = server.finish()
    assert not told["ok"] and "(site)" in told["sentence"] and "unexpected" not in told["sentence"]
    assert look(tmp_path / "server" / "status.json")["code"] == "site"


def test_the_server_has_a_last_word_where_the_coordinators_copy_finds_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, study = played(tmp_path, monkeypatch)
    (server.run_folder / OUTCOME).mkdir()
    server.start()
    all_take_part(server, study)
    server._thread.join(60)
    assert look(tmp_path / "server" / "status.json")["sentence"] == "the release was opened"


def test_asked_to_stop_the_relay_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, _ = played(tmp_path, monkeypatch)
    server.command({"stop": True})
    server.start()
    told = server.finish()
    assert not told["ok"] and told["sentence"] == (
        f"the session ended (stopped): a person stopped the session; it was at step wait; {VOID}"
    )


@pytest.mark.parametrize("blocked", ["", "releases", "run"])
def test_a_release_that_the_server_cannot_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocked: str) -> None:
    """The account is written in any case, and says that the session counts; parties have the release."""
    server, study = played(tmp_path, monkeypatch)
    if blocked == "releases":
        shutil.rmtree(server.folder / "releases")
        (server.folder / "releases").write_text("a file is in the way")
    elif blocked:
        (server.run_folder / RELEASE).mkdir()
    server.start()
    all_take_part(server, study)
    told = server.finish()
    assert len(told["session"]) == 64 and told["ok"] == (blocked != "run")
    if not blocked:
        assert told["sentence"] == "the release was opened" and (server.run_folder / RELEASE).is_file()
        return
    assert "the session counts as spent, and every party has the release" in told["sentence"]
    assert str(tmp_path) not in told["sentence"] and str(tmp_path) in (server.folder / "status.json").read_text()
    assert (server.run_folder / RELEASE).is_file() == (blocked == "releases")


def test_the_server_is_asked_who_is_connected_and_what_waits(site: Site, engine: Engine) -> None:
    engine.here = PARTIES[:2]
    engine.jobs = {"one": left("it ended"), "two": {"status": "SUBMITTED"}}
    told = coordinator.ask_connected(site, 1.0)
    heard = told["heard_seconds_ago"]
    assert heard[PARTIES[2]] is None and all(2 <= heard[name] < 10 for name in PARTIES[:2])
    assert [(job["job"], job["status"]) for job in told["jobs"]] == [("two", "SUBMITTED")]
    assert engine.asked[-1] == "close"


def test_a_job_that_another_process_began_is_followed_or_fetched(site: Site, engine: Engine) -> None:
    engine.jobs = {"one": left("opened", b"{}"), "two": left("the session ended at bank (policy)")}
    engine.list_jobs = lambda: [{"job_id": job, "status": "FINISHED:COMPLETED"} for job in engine.jobs]  # type: ignore[assignment,method-assign,misc]
    assert coordinator.resume_session(site, "one", 1.0, lambda step, share: None)[0] == b"{}"
    with pytest.raises(ProtocolError, match="ended at bank"):
        coordinator.resume_session(site, "two", 1.0, lambda step, share: None)
    with pytest.raises(ProtocolError, match="knows nothing of job three"):
        coordinator.resume_session(site, "three", 1.0, lambda step, share: None)
    engine.list_jobs = lambda: [{"job_id": "one", "status": "RUNNING"}]  # type: ignore[assignment,method-assign,misc]
    engine.status = "FINISHED:COMPLETED"
    assert coordinator.resume_session(site, "one", 1.0, lambda step, share: None)[0] == b"{}"
    assert "submit" not in engine.asked

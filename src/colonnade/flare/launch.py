"""Runs FLARE's own client or server process in this one, and tells from the status file how sessions go."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import logging.handlers
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from colonnade.flare.certificates import Address, check_certificate, own_address, probe, probe_own, server_address
from colonnade.flare.flare_log import TWICE, watch_failures, watch_line, watch_server
from colonnade.flare.monitor import Monitor, parse_address, serve_monitor
from colonnade.flare.process import StopSignals, alone, dead
from colonnade.flare.provision import CLASSES
from colonnade.flare.signing import CertificateSigner
from colonnade.flare.status import last_word, look, replace_status, unfinished
from colonnade.foundation.errors import PolicyError, StudyError
from colonnade.foundation.files import telling
from colonnade.sites.site import LOCAL, METRICS, SERVER, STATUS, Site

EVENTS, AUDIT = "log.jsonl", "audit.log"
LARGEST, KEPT = 20 << 20, 5  # 20 MB, and so many older files
FIELDS = ("time", "site", "study", "event", "job", "session", "step", "ok", "spend")


class Lines:
    """A file of lines, kept in six of 20 MB at most. A full disk loses lines, and keeps nobody from going on."""

    def __init__(self, path: Path) -> None:
        self._handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=LARGEST, backupCount=KEPT, encoding="utf-8", delay=True
        )

    def write(self, line: str) -> None:
        self._handler.emit(logging.LogRecord("lines", logging.INFO, "", 0, "%s", (line.rstrip("\n"),), None))

    def flush(self) -> None:
        """Each line is written at once."""

    def close(self) -> None:
        self._handler.close()


def rotate_audit_log(folder: Path) -> None:
    """The engine's audit.log grows by some 60 lines a session, for ever: its own auditor writes into ours."""
    from nvflare.fuel.sec.audit import Auditor, AuditService

    AuditService.the_auditor = auditor = Auditor(str(folder / AUDIT))
    auditor.audit_file.close()
    auditor.audit_file = Lines(folder / AUDIT)


class EventLog:
    """Appends what the status file says, as far as it is new."""

    def __init__(self, folder: Path, site: str, study: str) -> None:
        self._known = {"site": site, "study": study}
        self._last: tuple[str, str, bool] = ("", "", False)
        self._lines = Lines(folder / EVENTS)

    def note(self, event: str, **more: Any) -> None:
        """One line."""
        entry = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **self._known, "event": event, **more}
        self._lines.write(json.dumps({key: entry[key] for key in FIELDS if key in entry}))

    def follow(self, content: dict[str, Any]) -> None:
        """A line for each step, and one for the end."""
        job, step, done = str(content.get("job", "")), str(content.get("step", "")), bool(content.get("done"))
        if (job, step, done) == self._last:
            return
        self._last = (job, step, done)
        known = {"job": job, "session": str(content.get("session") or ""), "step": step}
        if not done:
            self.note("step", **known)
            return
        spend = content.get("spend") or {}
        self.note("end", **known, ok=bool(content.get("ok")), spend=str(spend.get("state", "none")))


Tell = Callable[[dict[str, Any]], None]
"""Called with what the status file says, whenever it says something new."""
Say = Callable[[str], None]
LOOK_SECONDS = 0.1  # a person at the terminal sees a step at once
SPARE_SECONDS = 5.0
"""When a site has begun, a process that waits for its first job is loaded."""
TIDY_SECONDS = 5.0
"""FLARE leaves each message that it passes on in a cycle of references; few and large, they wait long for Python."""
OUTCOME_WAIT = "NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT"
LOCAL_FILES = ("resources.json", "authorization.json", "log_config.json", "comm_config.json")
JOB = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
KEPT_JOBS = 20  # folders of the latest jobs, for whoever looks for a fault
LOOPBACK = ("localhost", "127.0.0.1")
log = logging.getLogger(__name__)


def serve(site: Site, tell: Tell, say: Say) -> int:
    """Run the server until it is stopped; what would keep it from serving is said at once."""
    from nvflare.private.fed.app.server.server_train import main

    from colonnade.flare.listener import use_driver

    with alone(site.folder):
        check_local(site.folder)
        address, name = own_address(site.folder)
        check_certificate(site.folder, name, "server")
        check_port(address)
        keep_storage_here(site.folder)
        use_driver()
        # A session has ended when its relay says so; FLARE would wait 15 minutes for the report of a dead site.
        os.environ.setdefault(OUTCOME_WAIT, "10")
        (site.folder / TWICE).unlink(missing_ok=True)
        watch_server(site.folder.resolve(), say)
        say(f"study {site.study.agreement.name}, port {address.port}: waiting for parties and sessions")
        away = partial(probe_own, site.folder)
        return _run(site, main, [f"org={SERVER}"], tell, say, away, fed_server="fed_server.json")


def take_part(site: Site, tell: Tell, say: Say) -> int:
    """Run a party until it is stopped; what its folder or certificate cannot do is said at once."""
    from nvflare.private.fed.app.client.client_train import main

    from colonnade.flare.listener import use_driver

    with alone(site.folder):
        check_local(site.folder)
        check_certificate(site.folder, site.party)
        if site.signing_agent is not None:
            # A party that cannot sign would be let into no session.
            CertificateSigner(site.folder, site.party, site.signing_agent)
        address, server = server_address(site.folder)
        if away := probe(site.folder, site.party, address, server):
            say(f"{away}, trying again")
        use_driver()
        line = watch_line(site.party, address, say, f"waiting for sessions of study {site.study.agreement.name}")
        names = [f"uid={site.party}", f"org={site.party}"]

        def silence() -> str:
            """Neither is enough: a line that a wall cut stays open at both ends, and the engine's may lag behind."""
            return line.hear(probe(site.folder, site.party, address, server))

        return _run(site, main, names, tell, say, silence, fed_client="fed_client.json", local_rank=0)


def check_local(folder: Path) -> None:
    """What FLARE may do here must be written down, and readable."""
    for file in LOCAL_FILES:
        try:
            json.loads((folder / LOCAL / file).read_text(encoding="utf-8"))
        except OSError:
            raise StudyError(f"{folder.name}/{LOCAL}/{file} is missing: deploy anew, or copy it back") from None
        except ValueError:
            raise StudyError(f"{folder.name}/{LOCAL}/{file} cannot be read: it must be JSON") from None
    check_classes(folder)


def check_classes(folder: Path) -> None:
    """FLARE would refuse every job, in its log alone, where the folder names classes that are gone."""
    content = json.loads((folder / LOCAL / LOCAL_FILES[0]).read_text(encoding="utf-8"))
    named = re.findall(r'"(colonnade\.[\w.]+)"', json.dumps(content))
    if not set(named) <= CLASSES:
        raise StudyError(
            f"{folder.name} was deployed by an earlier version of Colonnade, whose {LOCAL}/{LOCAL_FILES[0]} this one "
            "cannot use: deploy the study anew"
        )


def check_port(address: Address) -> None:
    """FLARE would try again for ever, in its log, where another process has the port."""
    host = "localhost" if address.host in LOOPBACK else ""
    with socket.socket() as trial, telling(f"port {address.port} cannot be opened on this machine", PolicyError):
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind((host, address.port))
        trial.listen(1)


def keep_storage_here(folder: Path) -> None:
    """FLARE wants absolute paths for its stores; the folder may have moved since it was written."""
    path = folder / LOCAL / "resources.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    here = folder.resolve()
    content["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(here / "snapshots")
    for component in content["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(here / "jobs")
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def clear_old_jobs(folder: Path) -> None:
    """Remove FLARE's folders of sessions long past; what they ended with stays in log.txt."""
    # The engine may remove one at the same time.
    with suppress(OSError):
        jobs = [place for place in folder.iterdir() if JOB.fullmatch(place.name) and place.is_dir()]
        jobs.sort(key=lambda place: place.stat().st_mtime)
        for place in jobs[:-KEPT_JOBS]:
            shutil.rmtree(place, ignore_errors=True)


def _run(site: Site, main: Any, names: list[str], tell: Tell, say: Say, away: Callable[[], str], **more: Any) -> int:
    from nvflare.fuel.f3.mpm import MainProcessMonitor

    from colonnade.flare.launcher import SPARE

    folder = site.folder.resolve()
    replace_status(folder / STATUS, {})
    # A full disk is told by the session that it ends; logging would print a traceback for each line it cannot write.
    logging.raiseExceptions = False
    watch_failures(folder, site.party, say)
    clear_old_jobs(folder)
    rotate_audit_log(folder)
    quiet = threading.Event()
    events = watch(site, tell)
    # The engine comes first.
    threading.Timer(SPARE_SECONDS, SPARE.prepare, (site.role,)).start()
    threading.Thread(target=events.monitor.keep_trying, args=(away,), daemon=True).start()
    follower = threading.Thread(target=follow, args=(folder / STATUS, events.hear, quiet, site.role), daemon=True)
    follower.start()
    settings = ["secure_train=true", "config_folder=config", *names]
    arguments = argparse.Namespace(workspace=str(folder), set=settings, **more)
    StopSignals(folder, events.hear_stop(say)).listen()
    MainProcessMonitor.add_cleanup_cb(lambda: say("the engine ended by itself: log.txt in the folder says why"))
    try:
        done = MainProcessMonitor.run(main_func=main, run_dir=str(folder), args=arguments)
    finally:
        quiet.set()
    return int(done or 0)


@dataclass
class Watchers:
    """Whoever is told of a site's sessions: its people, its log for machines, its monitor."""

    tell: Tell
    log: EventLog
    monitor: Monitor

    def hear(self, content: dict[str, Any]) -> None:
        self.log.follow(content)
        self.monitor.follow(content)
        self.tell(content)

    def hear_stop(self, say: Say) -> Say:
        """The same sayer for a signal's handler, which ends the process."""

        def stop(sentence: str) -> None:
            self.log.note("stop")
            say(sentence)

        return stop


def watch(site: Site, tell: Tell) -> Watchers:
    """Begin the log, and answer on the port that the site's file names, or the environment."""
    watchers = Watchers(tell, EventLog(site.folder, site.name, site.study.agreement.name), Monitor(site))
    if address := str(site.content.content.get("metrics", os.environ.get(METRICS, ""))):
        serve_monitor(watchers.monitor, parse_address(address))
    watchers.log.note("start")
    return watchers


def follow(path: Path, tell: Tell, quiet: threading.Event, role: str) -> None:
    """Tell what is new in a status file, until it is enough; a job that died without a last word is given one."""
    last: tuple[int, int] | None = None
    content: dict[str, Any] = {}
    tidied = time.monotonic()
    while not quiet.wait(LOOK_SECONDS):
        if unfinished(content) and time.monotonic() > tidied + TIDY_SECONDS:
            gc.collect()
            tidied = time.monotonic()
        try:
            seen = os.stat(path).st_mtime_ns, os.stat(path).st_ino
        except OSError:
            continue
        if seen == last and not (unfinished(content) and dead(int(content.get("pid", 0)))):
            continue
        # It may have ended between the two looks, and properly.
        new = look(path)
        if seen == last and unfinished(new):
            replace_status(path, new := last_word(new, role))
        last = seen
        if not new or new == content:
            continue
        content = new
        if content.get("done"):
            log.info("session %s (job %s): %s", content.get("session"), content.get("job"), content.get("sentence"))
        tell(content)
        if content.get("done"):
            clear_old_jobs(path.parent)
            gc.collect()

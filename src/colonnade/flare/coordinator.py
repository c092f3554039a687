"""Starts one session of a deployed study, follows it, and fetches the release; or a prediction, and who has it."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nvflare.fuel.flare_api.api_spec import MonitorReturnCode
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from colonnade.flare.certificates import PROBE_SECONDS, check_certificate, probe, server_address
from colonnade.flare.listener import use_driver
from colonnade.flare.provision import COORDINATOR, OF_EVALUATION, OF_RELEASE, OF_SCORES
from colonnade.flare.status import COMMAND
from colonnade.foundation.errors import ColonnadeError, ProtocolError, StoppedError, StudyError
from colonnade.protocol.codes import BOOKED_COUNTS
from colonnade.protocol.tasks import Watch
from colonnade.sites.site import OUTCOME, RELEASE, SERVER, Site

if TYPE_CHECKING:
    # Whoever waits for a session waits for what is loaded here.
    from colonnade.sites import evaluation_request, prediction_request

POLL_SECONDS = 0.5  # a person sees a step half a second late at most
TASK_SECONDS = 0.5
"""A party's process asks so often whether the session begins, or is over."""
STOP_SECONDS = 30.0
"""How long a session that is told to stop may take to say how it ended."""
LEAST_SECONDS = 15.0
"""What a job has to begin in, however long was waited for parties."""
LEAST_TRY = 2.0
"""Seconds for a try to reach the server, however little time is left."""
SHORTEST = 8
"""Characters that name a session or a job."""
log = logging.getLogger(__name__)


class NotReached(ProtocolError):
    """The server does not answer; whatever it was asked for may go on."""


@dataclass(frozen=True)
class Job:
    """What the coordinator asks for: two class names, and the parties that one of them runs at."""

    name: str
    parties: tuple[str, ...]
    classes: tuple[str, str]
    """The server's, and a party's."""
    lost: str
    """What it means when the server cannot be asked any more."""
    idle: str
    """What it means when the session has not begun."""


def run_session(
    site: Site,
    wait: float,
    watch: Watch,
    asked: evaluation_request.EvaluateRecipe | None = None,
    begun: Callable[[str], None] = lambda job: None,
) -> tuple[bytes, dict[str, Any]]:
    """The release's bytes, or those of an evaluation, and the server's account.

    Raises with the session's own sentence when there is none. `begun` is told an empty text before the server is asked,
    from when on a session may go on, and the job's id as soon as there is one.
    """
    return _opened(_conduct(site, fit_job(site, asked), wait, watch, begun))


def _opened(found: tuple[bytes | None, dict[str, Any]]) -> tuple[bytes, dict[str, Any]]:
    content, account = found
    if content is None:
        raise ProtocolError(str(account["sentence"]))
    return content, account


def fit_job(site: Site, asked: evaluation_request.EvaluateRecipe | None = None) -> Job:
    agreement = (site.study if asked is None else asked.evaluation.study).agreement
    return Job(
        agreement.name,
        agreement.schema.names,
        OF_RELEASE if asked is None else OF_EVALUATION,
        BOOKED_COUNTS,
        "nothing is spent",
    )


def resume_session(site: Site, job: str, wait: float, watch: Watch) -> tuple[bytes, dict[str, Any]]:
    """Follow a job that an earlier process asked for, to its end."""
    last: dict[str, Any] = {}
    with _asking(site, wait) as session:
        known = {str(meta["job_id"]): meta for meta in _quietly(session.list_jobs)}
        if job not in known:
            raise ProtocolError(f"the server knows nothing of job {job}")
        if not str(known[job].get("status", "")).startswith("FINISHED"):
            _follow(session, job, fit_job(site).idle, time.monotonic() + wait, watch, last)
        found = _fetch(session, job, last, BOOKED_COUNTS)
    return _opened(found)


def fetch_release(site: Site, which: str, wait: float) -> tuple[bytes, dict[str, Any]]:
    """The release of an earlier session, if the server keeps it, by the first characters of its id or of its job's."""
    if len(which) < SHORTEST:
        raise StudyError(f"a session is named by at least {SHORTEST} characters of its id, got {which!r}")
    with _asking(site, wait) as session:
        jobs = _quietly(lambda: session.list_jobs(name_prefix=site.study.agreement.name, reverse=True))
        # By its job's id a session is found at once; else one after the other is looked into, the latest first.
        for meta in sorted(jobs, key=lambda meta: not str(meta["job_id"]).startswith(which)):
            if not str(meta.get("status", "")).startswith("FINISHED"):
                continue
            found = _fetch(session, meta["job_id"], {}, BOOKED_COUNTS)
            if str(meta["job_id"]).startswith(which) or str(found[1].get("session", "")).startswith(which):
                break
        else:
            raise ProtocolError(f"the server keeps no session {which} that has ended")
    return _opened(found)


def ask_connected(site: Site, wait: float) -> dict[str, Any]:
    """What the server says: which parties are connected and when it last heard them, which jobs have not ended."""
    with _asking(site, wait) as session:
        seen = {client.name: client.last_connect_time for client in _quietly(session.get_system_info).client_info}
        jobs = _quietly(lambda: session.list_jobs(name_prefix="", reverse=True))
    names = site.study.agreement.schema.names
    heard = {name: None if name not in seen else round(time.time() - float(seen[name] or 0.0), 1) for name in names}
    under_way = [
        {"job": str(meta["job_id"]), "study": str(meta.get("job_name", "")), "status": str(meta.get("status", ""))}
        for meta in jobs
        if not str(meta.get("status", "")).startswith("FINISHED")
    ]
    return {"heard_seconds_ago": heard, "jobs": under_way}


@contextmanager
def _asking(site: Site, wait: float) -> Iterator[Session]:
    """A line to the server for as long as it is asked about sessions that others began."""
    check_certificate(site.home, COORDINATOR)
    session = _connect(site.home, time.monotonic() + wait)
    try:
        yield session
    except ColonnadeError:
        raise
    except Exception as error:
        log.info("the server can no longer be asked: %s", error)
        raise ProtocolError(f"the server was lost ({type(error).__name__})") from None
    finally:
        with suppress(Exception):
            _quietly(session.close)


def run_prediction(asked: prediction_request.PredictRecipe, wait: float, watch: Watch) -> dict[str, Any]:
    """The server's account of a prediction: who has how many scores; raises with its sentence when nobody has any."""
    job = Job(
        asked.job,
        asked.prediction.parties,
        OF_SCORES,
        f"{asked.prediction.receiver} can say whether it has the scores",
        "no score was opened",
    )
    _, account = _conduct(asked.site, job, wait, watch)
    if not account["ok"]:
        raise ProtocolError(str(account["sentence"]))
    return account


def _conduct(
    site: Site, wanted: Job, wait: float, watch: Watch, begun: Callable[[str], None] = lambda job: None
) -> tuple[bytes | None, dict[str, Any]]:
    """Start a job, follow it to its end, and fetch the release, where it left one, and the server's account."""
    check_certificate(site.home, COORDINATOR)
    deadline = time.monotonic() + wait
    session: Session | None = None
    job: str | None = None
    last: dict[str, Any] = {}
    try:
        session = _connect(site.home, deadline)
        _wait_for(session, wanted.parties, deadline, watch)
        begun(job := "")
        with tempfile.TemporaryDirectory(prefix="colonnade-") as place:
            write_job(Path(place), wanted)
            job = str(_quietly(lambda: session.submit_job(place)))
        begun(job)
        _follow(session, job, wanted.idle, deadline, watch, last)
        return _fetch(session, job, last, wanted.lost)
    except ColonnadeError:
        raise
    except KeyboardInterrupt:
        content, account = _stop(session, job, wanted, last)
        if content is None and not account.get("ok"):
            raise StoppedError(str(account["sentence"])) from None
        # It was too late to stop it, and the release costs nothing more.
        return content, account
    except Exception as error:
        log.info("the session can no longer be followed: %s", error)
        raise ProtocolError(f"the server was lost ({type(error).__name__}); {wanted.lost}") from None
    finally:
        if session is not None:
            with suppress(Exception):
                _quietly(session.close)


def write_job(place: Path, job: Job) -> None:
    """A job of two class names: it has no code and no arguments."""
    config = place / "app" / "config"
    config.mkdir(parents=True)
    meta = {
        "name": job.name,
        "resource_spec": {},
        "min_clients": len(job.parties),
        "mandatory_clients": list(job.parties),
        # Whoever takes no part does not start anything.
        "deploy_map": {"app": [SERVER, *job.parties]},
    }
    empty: dict[str, Any] = {"components": [], "task_data_filters": [], "task_result_filters": []}
    server = {
        "format_version": 2,
        "server": {"task_request_interval": TASK_SECONDS},
        "workflows": [{"id": "session", "path": job.classes[0], "args": {}}],
        **empty,
    }
    client = {
        "format_version": 2,
        "executors": [{"tasks": ["*"], "executor": {"path": job.classes[1], "args": {}}}],
        **empty,
    }
    for path, content in (
        (place / "meta.json", meta),
        (config / "config_fed_server.json", server),
        (config / "config_fed_client.json", client),
    ):
        path.write_text(json.dumps(content), encoding="utf-8")


def _connect(folder: Path, deadline: float) -> Session:
    # What FLARE has to say goes nowhere: its warnings are for a log that a coordinator does not keep.
    logging.getLogger().addHandler(logging.NullHandler())
    use_driver()
    address, server = server_address(folder)
    while True:
        seconds = min(PROBE_SECONDS, max(LEAST_TRY, deadline - time.monotonic()))
        away = probe(folder, COORDINATOR, address, server, seconds)
        if not away:
            try:
                return _quietly(partial(_session, folder, seconds))
            except Exception as error:
                log.info("no session yet: %s", error)
                away = f"the server at {address.host}:{address.port} shakes hands and does not answer"
        if time.monotonic() > deadline:
            raise NotReached(away)
        time.sleep(POLL_SECONDS)


def _session(folder: Path, seconds: float) -> Session:
    return new_secure_session(COORDINATOR, str(folder.resolve()), timeout=seconds)


def _wait_for(session: Session, names: tuple[str, ...], deadline: float, watch: Watch) -> None:
    while True:
        here = {client.name for client in _quietly(session.get_system_info).client_info}
        missing = [name for name in names if name not in here]
        watch("waiting for parties", 1 - len(missing) / len(names))
        if not missing:
            return
        if time.monotonic() > deadline:
            raise ProtocolError(f"all parties must be connected to start a session, missing: {', '.join(missing)}")
        time.sleep(POLL_SECONDS)


def _stop(
    session: Session | None, job: str | None, wanted: Job, last: dict[str, Any]
) -> tuple[bytes | None, dict[str, Any]]:
    """End a job that a person wants ended; how it ended, and the release if it had been opened."""
    if session is None or job is None:
        return None, {"sentence": f"stopped before a session began; {wanted.idle}"}
    if not job:
        return None, {"sentence": f"stopped as the session was asked for, and it may go on; {wanted.lost}"}
    silent = f"the session was told to stop and has not said how it ended; {wanted.lost}"
    if wanted.classes != OF_SCORES:
        silent += f"; colonnade run --fetch {job} tells, once it has"
    try:
        try:
            # The relay ends it for all, with a code and an account.
            _quietly(lambda: session.do_app_command(job, COMMAND, {"stop": True}))
        except Exception as error:
            log.info("the session cannot be told to stop, and is aborted: %s", error)
            _quietly(lambda: session.abort_job(job))
        ended, _ = _quietly(lambda: session.monitor_job_and_return_job_meta(job, STOP_SECONDS, POLL_SECONDS))
        if ended is not MonitorReturnCode.JOB_FINISHED:
            return None, {"sentence": silent}
        content, account = _fetch(session, job, last, wanted.lost)
    except KeyboardInterrupt:
        return None, {"sentence": silent}
    except Exception as error:
        log.info("the session cannot be asked: %s", error)
        return None, {"sentence": silent}
    if not last and "bytes" not in account:
        return None, {"sentence": f"stopped before the session began; {wanted.idle}"}
    return content, account


def _follow(
    session: Session, job: str, idle: str, deadline: float, watch: Watch, last: dict[str, Any]
) -> dict[str, Any]:
    """The last that the job said of itself, once it has ended; a job that does not begin in time is taken back."""
    begun = time.monotonic()
    deadline = max(deadline, begun + LEAST_SECONDS)

    def look(_session: Any, _job: str, meta: dict[str, Any]) -> bool:
        if not last and str(meta.get("status")) != "RUNNING":
            # A job that does not run yet answers late, and not at all.
            return time.monotonic() < deadline
        if last.get("done"):
            return True
        try:
            said = session.do_app_command(job, COMMAND, {})
        except Exception as error:
            log.info("the session does not say how far it is: %s", error)
            return bool(last) or time.monotonic() < deadline
        if said.get("job") == job:
            last.update(said)
            watch(str(said["step"]), float(said["share"]))
        return True

    ended, _meta = _quietly(lambda: session.monitor_job_and_return_job_meta(job, 0.0, POLL_SECONDS, look))
    if ended is not MonitorReturnCode.JOB_FINISHED:
        _quietly(lambda: session.abort_job(job))
        raise ProtocolError(
            f"the session did not begin within {deadline - begun:.0f} s, and {idle}: the server's terminal says "
            "whether a party is connected twice"
        )
    return last


def _fetch(session: Session, job: str, last: dict[str, Any], lost: str) -> tuple[bytes | None, dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="colonnade-") as place:
        got = Path(_quietly(lambda: session.download_job_result(job, place)))
        outcome = next(iter(sorted(got.rglob(OUTCOME))), None)
        release = next(iter(sorted(got.rglob(RELEASE))), None)
        silent = f"the server's process ended at step {last.get('step', 'wait')} and did not say why; {lost}"
        account = {"ok": False, "sentence": silent}
        if outcome is not None:
            account = json.loads(outcome.read_text(encoding="utf-8"))
        content = None if release is None else release.read_bytes()
        shutil.rmtree(got, ignore_errors=True)
    return content, account


def _quietly(work: Callable[[], Any]) -> Any:
    """FLARE's session prints; the terminal is ours."""
    with redirect_stdout(StringIO()):
        return work()

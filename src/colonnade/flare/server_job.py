"""The server's job on NVIDIA FLARE: a controller that hands requests to a hall. It has no arguments, ships no code."""

from __future__ import annotations

import json
import logging
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply

from colonnade.flare.doubles import doubled, sentence
from colonnade.flare.failures import failed_party
from colonnade.flare.readiness import try_releases
from colonnade.flare.site import OUTCOME, SERVER, STATUS, Site, read_site, server_randomness
from colonnade.flare.standing import stands
from colonnade.flare.status import StatusFile, look
from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.foundation.files import Place, keep_release, places
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import write_release
from colonnade.transport.hall import Hall
from colonnade.transport.hub import Hub
from colonnade.transport.journal import Journal

TOPIC, FRAME, TASK, COMMAND = "colonnade", "frame", "session", "colonnade"
RELEASE = "release.json"
RETURN_SECONDS = 10.0
TOLD = ("job", "session", "step", "share", "done")
"""What the coordinator is shown of a session under way."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class JobAccount:
    """What the job says of itself at its end; the coordinator fetches it."""

    sentence: str
    ok: bool = False
    bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    file: Path | None = None
    aside: str = ""
    """For the server's own people."""


class HallJob(Controller):  # type: ignore[misc]
    """One session of any kind, as the server's own folder states it."""

    task, what = TASK, "a release"

    @abstractmethod
    def _open(self, site: Site, randomness: Randomness, name: str) -> Hall:
        """The hall that answers requests; `name` is what the coordinator called the job."""

    @abstractmethod
    def _conduct(self, stop: Callable[[], bool]) -> JobAccount:
        """The session, to its end."""

    def start_controller(self, fl_ctx: Any) -> None:
        engine = fl_ctx.get_engine()
        workspace = engine.get_workspace()
        folder, job = Path(workspace.get_root_dir()), str(fl_ctx.get_job_id())
        self._run = Path(workspace.get_run_dir(job))
        self._open_hall: Hall | None = None
        self._told_to_stop = False
        randomness = server_randomness()
        self._board = StatusFile(folder / STATUS, job, randomness.seeded, self.what)
        self._flaw = ""
        try:
            self._site = read_site(folder, SERVER)
            self._hall = self._open(self._site, randomness, job_name(Path(workspace.get_job_meta_path(job))))
            self._open_hall = self._hall
            self._board.session = self._hall.identity.hex()
        except ColonnadeError as error:
            self._flaw = str(error)
        engine.register_aux_message_handler(TOPIC, self._answer)
        engine.register_app_command(COMMAND, self._progress)

    def _answer(self, topic: str, request: Any, fl_ctx: Any) -> Any:
        """A party's request; whatever goes wrong with it is told by a code alone."""
        peer = fl_ctx.get_peer_context()
        try:
            assert self._open_hall is not None
            answer = self._open_hall.handle(str(peer.get_identity_name()), bytes(request[FRAME]))
        except (ColonnadeError, KeyError, TypeError, AssertionError):
            return make_reply(ReturnCode.BAD_REQUEST_DATA)
        reply = make_reply(ReturnCode.OK)
        reply[FRAME] = answer
        return reply

    def _progress(self, topic: str, data: Any, fl_ctx: Any) -> dict[str, Any]:
        if isinstance(data, dict) and data.get("stop"):
            self._told_to_stop = True
        # Neither paths nor process numbers of this machine.
        return {key: value for key, value in look(self._board.path).items() if key in TOLD}

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        hall = self._open_hall
        if hall is None:
            self._tell(JobAccount(self._flaw))
            return
        names = list(hall.parties)
        self.broadcast(Task(name=self.task, data=Shareable()), fl_ctx, targets=names, min_responses=len(names))
        twice: list[str] = []

        def stop() -> bool:
            # Only before the session: whoever has entered it is tied to one process.
            name = doubled(self._site.folder, names) if hall.step == "wait" else ""
            twice.extend([name] if name else [])
            hall.absent = failed_party(self._run)
            return bool(abort_signal.triggered or self._told_to_stop or name or not stands(self._site.folder))

        try:
            account = self._conduct(stop)
        except Exception as error:
            log.exception("the session failed")
            known = isinstance(error, ColonnadeError)
            self._tell(JobAccount(str(error) if known else f"unexpected {type(error).__name__}, see the log"))
            return
        self._tell(JobAccount(f"{sentence(twice[0])}; nothing is spent") if twice and not account.ok else account)
        deadline = time.monotonic() + RETURN_SECONDS
        while self.get_num_standing_tasks() and time.monotonic() < deadline and not abort_signal.triggered:
            time.sleep(0.1)

    def _tell(self, account: JobAccount) -> None:
        outcome = {"ok": account.ok, "sentence": account.sentence, "bytes": account.bytes, **account.facts}
        (self._run / OUTCOME).write_text(json.dumps(outcome), encoding="utf-8")
        sentence = "; ".join(filter(None, (account.sentence, account.aside)))
        self._board.end(sentence, account.ok, account.file)
        log.info("the session ended: %s", sentence)

    def stop_controller(self, fl_ctx: Any) -> None:
        """Nothing is held open."""

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Any, fl_ctx: Any
    ) -> None:
        """A task's result carries nothing: the hall has heard it all."""


class ServerJob(HallJob):
    """One session of the study that lies in the server's own folder."""

    _hall: Hub

    def _open(self, site: Site, randomness: Randomness, name: str) -> Hub:
        try_releases(site)
        study, journal = site.study, Journal(site.journal)
        return Hub(study.agreement, study.alignment, randomness, journal, site.patience, self._board)

    def _conduct(self, stop: Callable[[], bool]) -> JobAccount:
        result = self._hall.run(stop)
        traffic = {"sent": result.sent, "received": result.received}
        if result.release is None:
            return JobAccount(result.sentence, False, traffic)
        content, session = write_release(result.release), str(result.release.provenance["session"])
        facts = {"session": session}
        # The coordinator's copy first: whatever happens to ours, it can be fetched.
        _, fetched = _kept(self._run / RELEASE, content, _write_over)
        place, flaw = (None, fetched) if fetched else _kept(self._site.releases / f"{session[:16]}.json", content)
        if not flaw:
            return JobAccount(result.sentence, True, traffic, facts, place)
        sentence = "the release was opened, and the server could not keep it; the session counts as spent"
        return JobAccount(f"{sentence}, and every party has the release", not fetched, traffic, facts, aside=flaw)


def _kept(place: Path, content: bytes, write: Callable[[Path, bytes], Path] = keep_release) -> tuple[Path | None, str]:
    """Where a file was written, or why it could not be."""
    try:
        return write(place, content), ""
    except StudyError as error:
        return None, str(error)


def _write_over(place: Path, content: bytes) -> Path:
    """The copy in the job's own folder, which is fetched by its name."""
    with places(Place(place, force=True)) as (file,):
        file.write(content)
    return place


def job_name(path: Path) -> str:
    """The name in a job's description; empty where there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return str(content.get("name", "")) if isinstance(content, dict) else ""

"""The server's job on NVIDIA FLARE: a controller that hands requests to the hub. It has no arguments, ships no code."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply

from colonnade.foundation.errors import ColonnadeError
from colonnade.mechanism.release import write_release
from colonnade.network.board import Board, look
from colonnade.network.doubles import doubled, sentence
from colonnade.network.site import SERVER, STATUS, Site, read_site, server_randomness
from colonnade.report.output import places
from colonnade.transport.hub import Hub, Result
from colonnade.transport.journal import Journal

TOPIC, FRAME, TASK, COMMAND = "colonnade", "frame", "session", "colonnade"
OUTCOME, RELEASE = "outcome.json", "release.json"
RETURN_SECONDS = 10.0
log = logging.getLogger(__name__)


class ServerJob(Controller):  # type: ignore[misc]
    """One session of the study that lies in the server's own folder."""

    def start_controller(self, fl_ctx: Any) -> None:
        engine = fl_ctx.get_engine()
        workspace = engine.get_workspace()
        folder = Path(workspace.get_root_dir())
        self._run = Path(workspace.get_run_dir(fl_ctx.get_job_id()))
        self._hub: Hub | None = None
        self._site: Site
        randomness = server_randomness()
        self._board = Board(folder / STATUS, str(fl_ctx.get_job_id()), randomness.seeded)
        self._flaw = ""
        try:
            self._site = read_site(folder, SERVER)
            study, patience, journal = self._site.study, self._site.patience, Journal(self._site.journal)
            self._hub = Hub(study.agreement, study.alignment, randomness, journal, patience, self._board)
        except ColonnadeError as error:
            self._flaw = str(error)
        engine.register_aux_message_handler(TOPIC, self._answer)
        engine.register_app_command(COMMAND, self._progress)

    def _answer(self, topic: str, request: Any, fl_ctx: Any) -> Any:
        """A party's request; whatever goes wrong with it is told by a code alone."""
        peer = fl_ctx.get_peer_context()
        try:
            assert self._hub is not None
            answer = self._hub.handle(str(peer.get_identity_name()), bytes(request[FRAME]))
        except (ColonnadeError, KeyError, TypeError, AssertionError):
            return make_reply(ReturnCode.BAD_REQUEST_DATA)
        reply = make_reply(ReturnCode.OK)
        reply[FRAME] = answer
        return reply

    def _progress(self, topic: str, data: Any, fl_ctx: Any) -> dict[str, Any]:
        return look(self._board.path)

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        if self._hub is None:
            self._tell(self._flaw, None, {})
            return
        names = list(self._site.study.agreement.schema.names)
        self.broadcast(Task(name=TASK, data=Shareable()), fl_ctx, targets=names, min_responses=len(names))
        twice: list[str] = []

        def stop() -> bool:
            # Only before the session: whoever has entered it is tied to one process.
            name = doubled(self._site.folder, names) if self._hub is not None and self._hub.step == "wait" else ""
            twice.extend([name] if name else [])
            return bool(abort_signal.triggered or name)

        try:
            result = self._hub.run(stop)
        except Exception as error:
            log.exception("the session failed")
            told = (
                str(error) if isinstance(error, ColonnadeError) else f"unexpected {type(error).__name__}, see the log"
            )
            self._tell(told, None, {})
            return
        if result.release is None and twice:
            self._tell(sentence(twice[0]), None, {})
        else:
            self._keep(result)
        deadline = time.monotonic() + RETURN_SECONDS
        while self.get_num_standing_tasks() and time.monotonic() < deadline and not abort_signal.triggered:
            time.sleep(0.1)

    def _keep(self, result: Result) -> None:
        traffic = {"sent": result.sent, "received": result.received}
        if result.release is None:
            self._tell(result.sentence, None, traffic)
            return
        content = write_release(result.release)
        place = self._site.releases / f"{result.release.provenance['session'][:16]}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        with places(place, self._run / RELEASE) as files:
            for file in files:
                file.write(content)
        self._tell(result.sentence, place, traffic)

    def _tell(self, sentence: str, place: Path | None, traffic: dict[str, Any]) -> None:
        outcome = {"ok": place is not None, "sentence": sentence, "bytes": traffic}
        (self._run / OUTCOME).write_text(json.dumps(outcome), encoding="utf-8")
        self._board.end(sentence, place)
        log.info("the session ended: %s", sentence)

    def stop_controller(self, fl_ctx: Any) -> None:
        """Nothing is held open."""

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Any, fl_ctx: Any
    ) -> None:
        """A task's result carries nothing: the hub has heard it all."""

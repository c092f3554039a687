"""The server's job on NVIDIA FLARE: a controller that hands requests to a relay. It has no arguments, ships no code."""

from __future__ import annotations

import json
import logging
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply

from colonnade.flare.flare_log import doubled, failed_party, sentence
from colonnade.flare.process import stands
from colonnade.flare.status import COMMAND, FRAME, TOPIC, StatusFile, job_name, look
from colonnade.foundation.errors import ColonnadeError, ProtocolError
from colonnade.protocol.server import ServerRole
from colonnade.sites.recipes import JobAccount, Recipe
from colonnade.sites.site import OUTCOME, SERVER, STATUS, server_randomness
from colonnade.transport.journal import FileJournal
from colonnade.transport.relay import Relay

RETURN_SECONDS = 10.0  # parties' jobs end by themselves; a session that is over does not wait for them
TOLD = ("job", "session", "step", "share", "done")
"""What the coordinator is shown of a session under way."""
log = logging.getLogger(__name__)


class ServerJob(Controller):  # type: ignore[misc]
    """One session of any kind, as the server's own folder states it."""

    @property
    @abstractmethod
    def recipe(self) -> type[Recipe]:
        """What this site does in a session of the kind."""

    def start_controller(self, fl_ctx: Any) -> None:
        engine = fl_ctx.get_engine()
        workspace = engine.get_workspace()
        folder, job = Path(workspace.get_root_dir()), str(fl_ctx.get_job_id())
        self.open(folder, job, Path(workspace.get_run_dir(job)), job_name(Path(workspace.get_job_meta_path(job))))
        engine.register_aux_message_handler(TOPIC, self._answer)
        engine.register_app_command(COMMAND, self._progress)

    def open(self, folder: Path, job: str, run: Path, name: str) -> None:
        """Make ready to answer; what the folder lacks is told at the end."""
        self._folder, self._run, self._told_to_stop, self._flaw = folder, run, False, ""
        self._relay: Relay | None = None
        randomness = server_randomness()
        self._status = StatusFile(folder / STATUS, job, self.recipe.kind, randomness.seeded)
        try:
            self._site = self.recipe.open_site(folder, name, SERVER)
            self._journal = FileJournal(self._site.journal)
            self._recipe = self.recipe(self._site)
            task = self._recipe.server_task(name, run)
            # Across machines sessions are accountable, unless they are simulations.
            role = ServerRole(task, randomness, self._journal, accountable=not randomness.seeded)
            self._relay = Relay(role, self._site.patience, self._show)
            self._status.session = role.identity.hex()
        except ColonnadeError as error:
            self._flaw = str(error)

    def _show(self, step: str, share: float) -> None:
        assert self._relay is not None
        # All draw the id together, or take an earlier one up again: then it is another than at first.
        self._status.session = self._relay.role.identity.hex()
        self._status(step, share)

    def _answer(self, topic: str, request: Any, fl_ctx: Any) -> Any:
        """A party's request; whatever goes wrong with it is told by a code alone."""
        peer = fl_ctx.get_peer_context()
        try:
            if self._relay is None:
                raise ProtocolError("a party must wait until the session is set up")
            answer = self._relay.handle(str(peer.get_identity_name()), bytes(request[FRAME]))
        except (ColonnadeError, KeyError, TypeError):
            return make_reply(ReturnCode.BAD_REQUEST_DATA)
        reply = make_reply(ReturnCode.OK)
        reply[FRAME] = answer
        return reply

    def _progress(self, topic: str, data: Any, fl_ctx: Any) -> dict[str, Any]:
        if isinstance(data, dict) and data.get("stop"):
            self._told_to_stop = True
        # Neither paths nor process numbers of this machine.
        return {key: value for key, value in look(self._status.path).items() if key in TOLD}

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        relay = self._relay
        if relay is None:
            self._tell(JobAccount(self._flaw))
            return
        names = list(relay.role.parties)
        self.broadcast(Task(name=self.recipe.task, data=Shareable()), fl_ctx, targets=names, min_responses=len(names))
        twice: list[str] = []

        def stop() -> bool:
            # Only before the session: whoever has entered it is tied to one process.
            name = doubled(self._folder, names) if relay.role.phase == "wait" else ""
            twice.extend([name] if name else [])
            relay.absent = failed_party(self._run)
            return bool(abort_signal.triggered or self._told_to_stop or name or not stands(self._folder))

        try:
            account = self.conduct(relay, stop)
        except Exception as error:
            log.exception("the session failed")
            known = isinstance(error, ColonnadeError)
            self._tell(JobAccount(str(error) if known else f"unexpected {type(error).__name__}, see the log"))
            return
        unspent = self.recipe.kind.unspent
        self._tell(JobAccount(f"{sentence(twice[0])}; {unspent}") if twice and not account.ok else account)
        deadline = time.monotonic() + RETURN_SECONDS
        while self.get_num_standing_tasks() and time.monotonic() < deadline and not abort_signal.triggered:
            time.sleep(0.1)

    def conduct(self, relay: Relay, stop: Callable[[], bool]) -> JobAccount:
        """The session, to its end."""
        with self._journal.alone():
            relay.run(stop)
        role = relay.role
        assert role.end is not None
        traffic = {"sent": relay.traffic.sent, "received": relay.traffic.received}
        well = role.end.code is None
        account = self._recipe.account(role) if well else JobAccount(role.task.ending(role.end), aside=role.aside)
        return replace(account, bytes=traffic)

    def _tell(self, account: JobAccount) -> None:
        outcome = {"ok": account.ok, "sentence": account.sentence, "bytes": account.bytes, **account.facts}
        try:
            (self._run / OUTCOME).write_text(json.dumps(outcome), encoding="utf-8")
        except OSError as error:
            log.error("the coordinator is not told how the session ended: %s", error)
        said = "; ".join(filter(None, (account.sentence, account.aside)))
        end = None if self._relay is None else self._relay.role.end
        self._status.bytes = {way: sum(counts.values()) for way, counts in account.bytes.items()}
        self._status.end(said, account.ok, account.file, "" if end is None or end.code is None else end.code.value)
        log.info("the session ended: %s", said)

    def stop_controller(self, fl_ctx: Any) -> None:
        """Nothing is held open."""

    def process_result_of_unknown_task(
        self, client: Any, task_name: str, client_task_id: str, result: Any, fl_ctx: Any
    ) -> None:
        """A task's result carries nothing: the relay has heard it all."""

"""FLARE's side of a job, played: the jobs themselves are real, and no engine starts."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable

from colonnade.flare.job_classes import FitPartyJob, FitServerJob
from colonnade.flare.process import ParentWatch, write_starter
from colonnade.flare.status import COMMAND, FRAME, TOPIC, StatusFile, look, replace_status
from colonnade.sites.site import OUTCOME
from colonnade.transport.wire import Unreachable

JOB = "0c40d202-3c07-4370-b918-000000000001"


class _Job(FitServerJob):
    """Nobody is sent a task: parties come by themselves."""

    def broadcast(self, *_: Any, **__: Any) -> None: ...

    def get_num_standing_tasks(self) -> int:
        return 0


class ServerSite:
    """The server's folder and its job; what the engine would call is called here."""

    def __init__(self, study: Path, folder: Path) -> None:
        self.folder, self.run_folder = folder, folder / JOB
        self.run_folder.mkdir(parents=True)
        shutil.copy(study, folder / "study.toml")
        (folder / "site.toml").write_text('[site]\nrole = "server"\nsilence = 4\n')
        write_starter(folder, str(os.getppid()))
        self._handlers: dict[str, Callable[..., Any]] = {}
        workspace = SimpleNamespace(
            get_root_dir=lambda: str(folder),
            get_run_dir=lambda job: str(folder / job),
            get_job_meta_path=lambda job: str(folder / job / "meta.json"),
        )
        engine = SimpleNamespace(
            get_workspace=lambda: workspace,
            register_aux_message_handler=lambda topic, work: self._handlers.__setitem__(f"aux {topic}", work),
            register_app_command=lambda topic, work: self._handlers.__setitem__(f"command {topic}", work),
        )
        self._context = SimpleNamespace(get_engine=lambda: engine, get_job_id=lambda: JOB)
        self._job = _Job()
        self._job.start_controller(self._context)
        self._thread = threading.Thread(target=self._job.control_flow, args=(self.abort, self._context))

    abort = SimpleNamespace(triggered=False)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> dict[str, Any]:
        """What the coordinator would fetch."""
        self._thread.join(60)
        assert not self._thread.is_alive(), "the server's job hangs"
        return dict(json.loads((self.run_folder / OUTCOME).read_text()))

    def ask(self, name: str, data: bytes) -> bytes:
        """A party's request, as the engine hands it over."""
        request = Shareable()
        request[FRAME] = data
        peer = SimpleNamespace(get_identity_name=lambda: name)
        reply = self._handlers[f"aux {TOPIC}"](TOPIC, request, SimpleNamespace(get_peer_context=lambda: peer))
        if reply.get_return_code() != ReturnCode.OK:
            raise Unreachable
        return bytes(reply[FRAME])

    def command(self, data: dict[str, Any]) -> dict[str, Any]:
        """The coordinator's."""
        return dict(self._handlers[f"command {COMMAND}"](COMMAND, data, None))


def take_part(folder: Path, name: str, call: Callable[[bytes], bytes]) -> dict[str, Any]:
    """A party's job by its own folder; its last word."""
    write_starter(folder, str(os.getppid()))
    replace_status(folder / "status.json", {})
    status = StatusFile(folder / "status.json", JOB, kind=FitPartyJob().recipe.kind)
    FitPartyJob().take_part(folder, name, status, call, ParentWatch(folder))
    return look(status.path)

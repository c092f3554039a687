"""FLARE's launchers of jobs, for folders at any path: theirs write paths into a command line as they are.

A process that has loaded what a job needs waits at each site for the next one: loading takes seconds, and every site of
a session would spend them while all others wait.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import subprocess
import sys
import threading
from typing import Any

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher
from nvflare.utils.job_launcher_utils import get_credential_env

from colonnade.flare.job_process import WAIT
from colonnade.sites.site import PARTY, SERVER

log = logging.getLogger(__name__)
SEVERAL = (JobProcessArgs.OPTIONS, JobProcessArgs.EXE_MODULE)
"""Values that are several words, all of them ours."""


def quote(fl_ctx: Any, side: str) -> None:
    """Quote each word of a job's command line, which runs our process of this side."""
    given = dict(fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS))
    option, _ = given[JobProcessArgs.EXE_MODULE]
    given[JobProcessArgs.EXE_MODULE] = (option, f"colonnade.flare.job_process {side}")
    words = {
        name: (option, value if name in SEVERAL or value is None else shlex.quote(str(value)))
        for name, (option, value) in given.items()
    }
    fl_ctx.set_prop(key=FLContextKey.JOB_PROCESS_ARGS, value=words, private=True, sticky=False)


def quoted_python(command: str) -> str:
    return shlex.quote(sys.executable) + command.removeprefix(sys.executable)


class SpareProcess:
    """The process that waits for the next job of a site; another takes its place when the job has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: subprocess.Popen[bytes] | None = None

    def prepare(self, side: str) -> None:
        with self._lock:
            if self._waiting is None:
                words = [sys.executable, "-m", "colonnade.flare.job_process", WAIT, side]
                self._waiting = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)

    def begin(self, side: str, words: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes] | None:
        """Have it run a job; None where no process waits."""
        with self._lock:
            process, self._waiting = self._waiting, None
        try:
            if process is None or process.poll() is not None or process.stdin is None:
                return None
            with process.stdin as line:
                line.write(json.dumps({"words": words, "environment": environment}).encode())
        except OSError as error:
            log.info("the process that waited for a job is gone: %s", error)
            return None
        finally:
            threading.Thread(target=self._replace, args=(side, process), daemon=True).start()
        return process

    def _replace(self, side: str, process: subprocess.Popen[bytes] | None) -> None:
        if process is not None:
            process.wait()
        self.prepare(side)


SPARE = SpareProcess()


class _Launcher:
    """Runs our process of one side, in the process that waits, or in a fresh one."""

    side = ""

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        quote(fl_ctx, self.side)
        return quoted_python(str(super().get_command(job_meta, fl_ctx)))  # type: ignore[misc]

    def launch_job(self, job_meta: Any, fl_ctx: Any) -> ProcessHandle:
        # Before the words are quoted: what is secret goes by the environment.
        secrets = get_credential_env(fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS))
        words = shlex.split(self.get_command(job_meta, fl_ctx), True)
        process = SPARE.begin(self.side, words[words.index(self.side) + 1 :], secrets)
        if process is None:
            process = subprocess.Popen(words, env={**os.environ, **secrets}, start_new_session=True)
        return ProcessHandle(process=process)


class PartyLauncher(_Launcher, ClientProcessJobLauncher):  # type: ignore[misc]
    side = PARTY


class ServerLauncher(_Launcher, ServerProcessJobLauncher):  # type: ignore[misc]
    side = SERVER

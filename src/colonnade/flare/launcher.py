"""FLARE's launchers of jobs, for folders at any path: theirs write paths into a command line as they are."""

from __future__ import annotations

import shlex
import sys
from typing import Any

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.app_common.job_launcher.client_process_launcher import ClientProcessJobLauncher
from nvflare.app_common.job_launcher.server_process_launcher import ServerProcessJobLauncher

from colonnade.sites.site import PARTY, SERVER

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


class PartyLauncher(ClientProcessJobLauncher):  # type: ignore[misc]
    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        quote(fl_ctx, PARTY)
        return quoted_python(str(super().get_command(job_meta, fl_ctx)))


class ServerLauncher(ServerProcessJobLauncher):  # type: ignore[misc]
    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        quote(fl_ctx, SERVER)
        return quoted_python(str(super().get_command(job_meta, fl_ctx)))

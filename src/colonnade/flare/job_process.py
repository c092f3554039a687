"""A job's own process: FLARE's main function, with a short good-bye. `python -m colonnade.flare.job_process party ...`.

FLARE lets a job's process linger for three seconds behind its end, and whoever waits for a release waits for that.
When the main function returns, the session has had its last word, and the connections are closed.

`job_process --wait party` has loaded all that a job needs, and takes the job's words from its input when there is one.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from importlib import import_module
from pathlib import Path

from colonnade.sites.site import PARTY, SERVER

MAINS = {
    PARTY: "nvflare.private.fed.app.client.worker_process",
    SERVER: "nvflare.private.fed.app.server.runner_process",
}
LINGER_SECONDS = 0.2  # FLARE lingers for three by default; a job's last word is out before
WAIT = "--wait"


def run(side: str) -> int:
    """FLARE's process of this side, by its command line, to its end."""
    from nvflare.fuel.f3.mpm import MainProcessMonitor

    from colonnade.flare.listener import use_driver

    use_driver()
    logging.raiseExceptions = False
    module = import_module(MAINS[side])
    arguments = module.parse_arguments()
    place = str(Path(arguments.workspace) / arguments.job_id)
    done = MainProcessMonitor.run(
        main_func=module.main, run_dir=place, shutdown_grace_time=LINGER_SECONDS, args=arguments
    )
    return int(done or 0)


def wait_for_job(side: str) -> int:
    """Load what is slow to load, then run the job that comes; none comes where the site has ended."""
    for name in (MAINS[side], f"colonnade.flare.{side}_job", "colonnade.sites.recipes"):
        import_module(name)
    text = sys.stdin.read()
    if not text:
        return 0
    told = json.loads(text)
    os.environ.update(told["environment"])
    sys.argv[1:] = told["words"]
    return run(side)


if __name__ == "__main__":
    mode = sys.argv.pop(1)
    code = wait_for_job(sys.argv.pop(1)) if mode == WAIT else run(mode)
    # The session has ended and its files are closed: to take the interpreter apart would keep all sites waiting.
    logging.shutdown()
    os._exit(code)

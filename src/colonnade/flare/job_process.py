"""A job's own process: FLARE's main function, with a short good-bye. `python -m colonnade.flare.job_process party ...`.

FLARE lets a job's process linger for three seconds behind its end, and whoever waits for a release waits for that.
When the main function returns, the session has had its last word, and the connections are closed.
"""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from pathlib import Path

from colonnade.sites.site import PARTY, SERVER

MAINS = {
    PARTY: "nvflare.private.fed.app.client.worker_process",
    SERVER: "nvflare.private.fed.app.server.runner_process",
}
LINGER_SECONDS = 0.2


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


if __name__ == "__main__":
    sys.exit(run(sys.argv.pop(1)))

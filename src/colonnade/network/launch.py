"""Runs FLARE's own client or server process in this one, and tells from the board how sessions go."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from colonnade.foundation.errors import PolicyError
from colonnade.network.board import look
from colonnade.network.certificates import check_certificate, probe, server_address
from colonnade.network.doubles import FILE, watch_party, watch_server
from colonnade.network.site import LOCAL, SERVER, STARTUP, STATUS, Site

Tell = Callable[[dict[str, Any]], None]
"""Called with what the board says, whenever it says something new."""
LOOK_SECONDS = 0.1
OUTCOME_WAIT = "NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT"


def serve(site: Site, tell: Tell, say: Callable[[str], None]) -> int:
    """Run the server until it is stopped."""
    from nvflare.private.fed.app.server.server_train import main

    name = _server_name(site)
    check_certificate(site.folder, name, "server")
    keep_storage_here(site.folder)
    # A session has ended when its hub says so; FLARE would wait a quarter of an hour for the report of a dead site.
    os.environ.setdefault(OUTCOME_WAIT, "10")
    (site.folder / FILE).unlink(missing_ok=True)
    watch_server(site.folder.resolve(), say)
    return _run(site, main, "fed_server.json", [f"org={SERVER}"], tell, fed_server="fed_server.json")


def take_part(site: Site, tell: Tell, say: Callable[[str], None]) -> int:
    """Run a party until it is stopped; what its certificate cannot do is said at once."""
    from nvflare.private.fed.app.client.client_train import main

    check_certificate(site.folder, site.party)
    address, server = server_address(site.folder)
    probe(site.folder, site.party, address, server)
    watch_party(site.party, say)
    names = [f"uid={site.party}", f"org={site.party}"]
    return _run(site, main, "fed_client.json", names, tell, fed_client="fed_client.json", local_rank=0)


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


def _server_name(site: Site) -> str:
    content = json.loads((site.folder / STARTUP / "fed_server.json").read_text(encoding="utf-8"))
    return str(content["servers"][0]["admin_server"])


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time serves a folder."""
    with (folder / ".running").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PolicyError(f"{folder} is being served by another process already") from None
        yield


def _run(site: Site, main: Any, config: str, names: list[str], tell: Tell, **more: Any) -> int:
    from nvflare.fuel.f3.mpm import MainProcessMonitor

    folder = site.folder.resolve()
    with alone(folder):
        (folder / STATUS).unlink(missing_ok=True)
        quiet = threading.Event()
        follower = threading.Thread(target=follow, args=(folder / STATUS, tell, quiet), daemon=True)
        follower.start()
        settings = ["secure_train=true", "config_folder=config", *names]
        arguments = argparse.Namespace(workspace=str(folder), set=settings, **more)
        try:
            done = MainProcessMonitor.run(main_func=main, run_dir=str(folder), args=arguments)
        finally:
            quiet.set()
        return int(done or 0)


def follow(path: Path, tell: Tell, quiet: threading.Event) -> None:
    """Tell what is new on a board, until it is enough."""
    last: tuple[Any, ...] = ()
    while not quiet.wait(LOOK_SECONDS):
        try:
            seen = os.stat(path).st_mtime_ns, os.stat(path).st_ino
        except OSError:
            continue
        if seen != last:
            last = seen
            content = look(path)
            if content:
                tell(content)

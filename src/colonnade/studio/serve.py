"""Serves the studio on the loopback address, and there only."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from colonnade.foundation.errors import StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.studio.pages import Studio
from colonnade.studio.request_check import RequestCheck
from colonnade.studio.workspace import Workspace

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 16  # 128 bits, which nobody guesses


def serve(workspace: Workspace, port: int, ready: Callable[[str], None]) -> None:
    """Serve until the process is stopped; `ready` gets the address, whose token is new in every start."""
    try:
        listener = socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise StudyError(f"cannot listen on {LOOPBACK}:{port}: {(error.strerror or str(error)).lower()}") from None
    token = Randomness().bytes(TOKEN_BYTES).hex()
    own = listener.getsockname()[1]
    app = RequestCheck(Studio(workspace, token).app, token, own)
    # No access log: it would hold the token.
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, ws="none", lifespan="off", workers=1
    )
    with listener:
        ready(f"http://{LOOPBACK}:{own}/{token}/")
        uvicorn.Server(config).run(sockets=[listener])


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Colonnade studio</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={address}"></head>
<body><p><a href="{address}">To the studio</a></p></body></html>
"""


@contextmanager
def doorway() -> Iterator[Callable[[str], Path]]:
    """Writes a page that leads to an address and that its owner alone can read; it is gone with the studio."""
    with tempfile.TemporaryDirectory(prefix="colonnade-studio-") as folder:

        def write(address: str) -> Path:
            path = Path(folder) / "studio.html"
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(PAGE.format(address=address))
            return path

        yield write

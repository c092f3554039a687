"""Serves the studio on the loopback address, and there only."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from colonnade.foundation.errors import StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.studio.pages import Studio
from colonnade.studio.request_check import RequestCheck
from colonnade.studio.workspace import Workspace

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 16


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

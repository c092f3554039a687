"""`colonnade studio`: opens the page, and prints its secret address."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli.options import flag, path_argument
from colonnade.foundation.errors import StudyError


def studio(
    study: Annotated[Path | None, path_argument("[STUDY]", "Study file to open; its folder is the studio's.")] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Port of 127.0.0.1; 0 takes a free one.")
    ] = 0,
    no_browser: Annotated[bool, flag("--no-browser", "Print the address and open nothing.")] = False,
) -> None:
    """Open a page on this machine to plan a study in, run it, and look at releases and ledgers."""
    from colonnade.report.pages import require

    require("jinja2", "starlette", "uvicorn")
    from colonnade.studio.serve import doorway, serve
    from colonnade.studio.workspace import Workspace

    folder = Path.cwd() if study is None else study.parent
    workspace = Workspace(folder.absolute())
    if study is not None:
        if not study.is_file():
            raise StudyError(f"there is no study file {study}")
        workspace.open(study.name)

    # The server raises what stopped it once more, which must not skip the end of what is open here.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with doorway() as write_page:

        def ready(address: str) -> None:
            typer.echo(f"The studio is at {address}")
            typer.echo("Whoever has this address can use it. Stop it with Ctrl-C.", err=True)
            if not no_browser:
                typer.launch(write_page(address).as_uri())

        serve(workspace, port, ready)

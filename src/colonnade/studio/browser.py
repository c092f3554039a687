"""Opens the studio in a browser without its token in a command line, which every user of the machine could read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

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

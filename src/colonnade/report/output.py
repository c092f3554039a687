"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from colonnade.foundation.errors import StudyError


class Draft:
    """A file to be: a place beside it that is held until the content is known. Without a path it is nothing."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._content: bytes | None = None
        self._held: str | None = None

    def hold(self) -> None:
        """Show before any work that the place can be written to."""
        if self.path is None:
            return
        if self.path.is_dir():
            raise StudyError(f"cannot write {self.path}: it is a folder")
        with _told(self.path):
            handle, self._held = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
            os.close(handle)

    def fill(self, data: bytes) -> None:
        self._content = data

    def store(self) -> None:
        if self.path is None or self._held is None or self._content is None:
            return
        with _told(self.path), open(self._held, "wb") as file:
            file.write(self._content)
            file.flush()
            os.fsync(file.fileno())

    def appear(self) -> None:
        if self.path is None or self._held is None or self._content is None:
            return
        mask = os.umask(0)
        os.umask(mask)
        with _told(self.path):
            os.chmod(self._held, 0o666 & ~mask)
            os.replace(self._held, self.path)

    def forget(self) -> None:
        if self._held is not None:
            Path(self._held).unlink(missing_ok=True)


@contextmanager
def drafts(*paths: Path | None) -> Iterator[tuple[Draft, ...]]:
    """Files to fill; all of them appear at the end, and none when anything fails before."""
    places = tuple(Draft(path) for path in paths)
    try:
        for place in places:
            place.hold()
        yield places
        for place in places:
            place.store()
        for place in places:
            place.appear()
    finally:
        for place in places:
            place.forget()


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StudyError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None


def read_whole(path: Path, name: str) -> bytes:
    """The bytes of a file; `name` says what kind of file an error is about."""
    if not path.is_file():
        raise StudyError(f"there is no {name} file {path}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise StudyError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None

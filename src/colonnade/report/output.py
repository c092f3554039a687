"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from colonnade.foundation.errors import StudyError


class Place:
    """Where a file will appear, held by an empty one beside it. Without a path it is nowhere."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
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

    def write(self, data: bytes) -> None:
        """The file appears, whole."""
        if self.path is None or self._held is None:
            return
        mask = os.umask(0)
        os.umask(mask)
        with _told(self.path):
            with open(self._held, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(self._held, 0o666 & ~mask)
            os.replace(self._held, self.path)
        self._held = None

    def free(self) -> None:
        if self._held is not None:
            Path(self._held).unlink(missing_ok=True)


@contextmanager
def places(*paths: Path | None) -> Iterator[tuple[Place, ...]]:
    """Places for files, all held before the work starts; those not written to are given up at the end."""
    held = tuple(Place(path) for path in paths)
    try:
        for place in held:
            place.hold()
        yield held
    finally:
        for place in held:
            place.free()


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

"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from colonnade.foundation.canonical import RELEASE_FORMAT
from colonnade.foundation.errors import ColonnadeError, SiteError, StudyError

MARK = f'"format":"{RELEASE_FORMAT}"'.encode()
UNFIT = (
    "this system has no file locks (fcntl), which a site needs: run it on Linux or macOS, or in a container; plan, "
    "fit, demo and all that is made of a release work here"
)
MOST_NAMES = 1000  # files of one name with a number; then a person should look


@contextmanager
def telling(told: str, error: type[ColonnadeError] = StudyError) -> Iterator[None]:
    """What the system refuses, as one sentence of this kind."""
    try:
        yield
    except OSError as problem:
        raise error(f"{told}: {(problem.strerror or str(problem)).lower()}") from None


def try_folder(folder: Path, what: str, mode: int = 0o777) -> None:
    """Make a folder, and show that files can be written into it."""
    # Without the path: the coordinator is told what the server cannot do, and not where.
    with telling(f"{what} cannot be written", SiteError):
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        tempfile.NamedTemporaryFile(dir=folder, prefix=".trial.").close()


def sync_file(file: IO[Any]) -> None:
    """What was written is on disk when this returns."""
    file.flush()
    os.fsync(file.fileno())


def open_new(path: Path) -> IO[bytes]:
    """A fresh file, for its owner's eyes alone."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def write_new(path: Path, data: bytes) -> None:
    """A fresh file for its owner's eyes alone, on disk when this returns."""
    with open_new(path) as file:
        file.write(data)
        sync_file(file)


def append_durably(path: Path, text: str) -> None:
    """More at a file's end, on disk when this returns."""
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
        sync_file(file)


def require_locks() -> None:
    """Raise SiteError where the system cannot lock files; Windows cannot."""
    if find_spec("fcntl") is None:
        raise SiteError(UNFIT)


def lock_alone(file: IO[str]) -> bool:
    """Hold an open file for this process until it is closed; False if another process holds it."""
    require_locks()
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Place:
    """Where a file will appear, held by an empty one beside it. Without a path it is nowhere."""

    def __init__(self, path: Path | None, *, new: bool = False, force: bool = False) -> None:
        """`new`: nothing that is there is overwritten. `force`: anything is, even a release."""
        self.path, self._new, self._force = path, new, force
        self._held: str | None = None

    def hold(self) -> None:
        """Show before any work that the place can be written to."""
        if self.path is None:
            return
        if os.path.lexists(self.path) and not self.path.is_dir():
            if self._new:
                raise StudyError(f"{self.path} is here already and is not overwritten")
            if self.path.exists() and not self.path.is_file():
                raise StudyError(f"cannot write {self.path}: it is not a plain file")
            if not self._force and holds_release(self.path):
                raise StudyError(f"cannot write {self.path}: a release is there, and is not overwritten")
        self.reserve()

    def reserve(self) -> None:
        """Make the empty file that will become the whole one."""
        assert self.path is not None
        if self.path.is_dir():
            raise StudyError(f"cannot write {self.path}: it is a folder")
        with telling(f"cannot write {self.path}"):
            handle, self._held = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
            os.close(handle)

    def write(self, data: bytes) -> None:
        """The file appears, whole. `path` is then another one if something new has taken this one."""
        if self.path is None or self._held is None:
            return
        mask = os.umask(0)
        os.umask(mask)
        with telling(f"cannot write {self.path}"):
            with open(self._held, "wb") as file:
                file.write(data)
                sync_file(file)
            os.chmod(self._held, 0o666 & ~mask)
            if not self._new:
                os.replace(self._held, self.path)
            else:
                self.path = _take_free_name(self._held, self.path, data)
                os.unlink(self._held)
        self._held = None

    def free(self) -> None:
        if self._held is not None:
            Path(self._held).unlink(missing_ok=True)


@contextmanager
def places(*paths: Path | Place | None) -> Iterator[tuple[Place, ...]]:
    """Places for files, all held before the work starts; those not written to are given up at the end."""
    held = tuple(path if isinstance(path, Place) else Place(path) for path in paths)
    try:
        for place in held:
            place.hold()
        yield held
    finally:
        for place in held:
            place.free()


def put(place: Path | Place, data: bytes) -> None:
    """A whole file, in the place of what was there."""
    with places(place) as (file,):
        file.write(data)


def release_place(path: Path, force: bool, by: str = "--force") -> Place:
    """Where a release will appear; what it cost cannot be had again, so none is overwritten unless a person says so."""
    if not force and os.path.lexists(path) and not path.is_dir():
        raise StudyError(f"{path} is here already: a release is not overwritten unless {by} is given")
    return Place(path, new=not force, force=force)


def keep_release(path: Path, data: bytes) -> Path:
    """Write a release that is paid for, and tell where: under another name if something else has this one."""
    place = Place(path, new=True)
    try:
        place.reserve()
        place.write(data)
    finally:
        place.free()
    return place.path or path


def replace_file(path: Path, data: bytes) -> None:
    """Put a small file in the place of another at once. It is not synced: for what may be lost with the machine."""
    beside = path.with_suffix(".part")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    except OSError:
        # A disk that is full has room for as many bytes as are there already.
        beside.unlink(missing_ok=True)
        with path.open("r+b") as file:
            file.write(data)
            file.truncate()


def holds_release(path: Path) -> bool:
    """Whether a file is a release, whole or damaged."""
    try:
        with path.open("rb") as file:
            return file.read(1) == b"{" and MARK in file.read()
    except OSError:
        return False


def _take_free_name(held: str, path: Path, data: bytes) -> Path:
    """Give a file that is whole a name that nothing has: a link fails where a rename would replace."""
    for k in range(1, MOST_NAMES):
        name = path if k == 1 else path.with_name(f"{path.stem}-{k}{path.suffix}")
        try:
            try:
                os.link(held, name)
            except FileExistsError:
                raise
            except OSError:
                # This file system has no links: the name is still taken only if it is free.
                with name.open("xb") as file, _whole_or_gone(name):
                    file.write(data)
                    sync_file(file)
        except FileExistsError:
            if name.is_file() and name.read_bytes() == data:
                return name
            continue
        return name
    raise StudyError(f"cannot write {path}: every name like it is taken")


@contextmanager
def _whole_or_gone(path: Path) -> Iterator[None]:
    """A disk that fills up leaves no part of a file under its name."""
    try:
        yield
    except OSError:
        path.unlink(missing_ok=True)
        raise


def read_whole(path: Path, name: str) -> bytes:
    """The bytes of a file; `name` says what kind of file an error is about."""
    if not path.is_file():
        raise StudyError(f"there is no {name} file {path}")
    with telling(f"cannot read {path}"):
        return path.read_bytes()

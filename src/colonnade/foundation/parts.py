"""Which files a data path names: one file, a folder or a pattern of parts, read in the order of their names."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from glob import glob
from pathlib import Path

from colonnade.foundation.errors import DataError, NoDataError, StudyError

PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".arrow", ".ipc")
SHEETS = (".xlsx", ".xlsm")
PROGRAMS = (".dta", ".sav", ".sas7bdat", ".xpt")
CSV = (".csv", ".csv.gz", ".csv.zst")
KINDS = {"Parquet": PARQUET, "Feather": FEATHER, "Excel": SHEETS, "Stata, SPSS or SAS": PROGRAMS}
"""Of files, by the ends of their names; any other is CSV."""


def local_path(place: str | os.PathLike[str]) -> Path:
    """The path that a text names; an address is refused here, because a path would no longer show it as written."""
    text = os.fspath(place)
    if not text:
        raise StudyError("a file must have a name, got an empty one")
    if "://" in text:
        raise StudyError(f"files must lie on this machine, got {text!r}")
    return Path(text)


def is_parquet(path: Path) -> bool:
    return path.name.lower().endswith(PARQUET)


def is_feather(path: Path) -> bool:
    return path.name.lower().endswith(FEATHER)


def is_sheet(path: Path) -> bool:
    return path.name.lower().endswith(SHEETS)


def is_copied(path: Path) -> bool:
    """Whether another program's library reads it, so that it is read through a copy as text."""
    return path.name.lower().endswith(SHEETS + PROGRAMS)


def _kind(path: Path) -> str:
    return next((kind for kind, ends in KINDS.items() if path.name.lower().endswith(ends)), "CSV")


def data_files(path: Path) -> list[Path]:
    """The files in order; a folder counts files of the known kinds alone."""
    if path.is_dir():
        known = sum(KINDS.values(), CSV)
        found = sorted(part for part in path.iterdir() if part.is_file() and part.name.lower().endswith(known))
        what = f"the folder {path.name} has no Parquet, Feather or CSV file"
    elif path.exists() or not any(c in str(path) for c in "*?["):
        found = [path] if path.exists() else []
        what = f"there is no data file {path}"
    else:
        found = sorted(part for part in map(Path, glob(str(path), recursive=True)) if part.is_file())
        what = f"no data file fits the pattern {path.name}"
    if not found:
        raise NoDataError(what)
    if len(kinds := {_kind(part) for part in found}) > 1:
        raise DataError(f"the parts of {path.name} must be of one kind, got {' and '.join(sorted(kinds))}")
    return found


@dataclass(frozen=True)
class DataSet:
    """A data set by name and content; entries that share either with it count against it."""

    name: str
    digest: str

    @classmethod
    def of_file(cls, path: Path, name: str | None = None) -> DataSet:
        """The data set in whatever a table is read from: a file, a folder, a pattern; it gives the name if none is.

        A file counts by its content, alone in a folder too; parts count together, whatever their names and order.
        """
        return cls(path.name or path.resolve().name if name is None else name, content_digest(path))


def content_digest(path: Path) -> str:
    """SHA-256 of a file's content, or of those of parts, whatever their names and order."""
    digests = sorted(_file_digest(part) for part in data_files(path))
    return digests[0] if len(digests) == 1 else _sha256(b"colonnade/1 parts " + "".join(digests).encode())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _file_digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise NoDataError(f"the data file {path} cannot be read: {error.strerror}") from None

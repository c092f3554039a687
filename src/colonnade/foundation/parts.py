"""Which files a data path names: one file, a folder or a pattern of parts, read in the order of their names."""

from __future__ import annotations

from glob import glob
from pathlib import Path

from colonnade.foundation.errors import DataError

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".csv.gz", ".csv.zst")


def is_parquet(path: Path) -> bool:
    return path.name.lower().endswith(PARQUET)


def data_files(path: Path) -> list[Path]:
    """The files in order; a folder counts its Parquet and CSV files alone."""
    if path.is_dir():
        found = sorted(part for part in path.iterdir() if part.is_file() and part.name.lower().endswith(PARQUET + CSV))
        what = f"the folder {path.name} has no Parquet or CSV file"
    elif path.exists() or not any(c in str(path) for c in "*?["):
        found = [path] if path.exists() else []
        what = f"there is no data file {path}"
    else:
        found = sorted(part for part in map(Path, glob(str(path), recursive=True)) if part.is_file())
        what = f"no data file fits the pattern {path.name}"
    if not found:
        raise DataError(what)
    if len({is_parquet(part) for part in found}) > 1:
        raise DataError(f"the parts of {path.name} must be all Parquet or all CSV, got both")
    return found

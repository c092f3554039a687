"""Make the shipped files from the originals: `python -m experiments.data.make_files TRAIN TEST CPS`.

TRAIN and TEST are the UCI Adult files with a header line, CPS is taxcalc's cps.csv.gz.
Run once by a developer; the output is byte for byte the same for the same input and library versions.
"""

import gzip
import io
import sys
from pathlib import Path

import polars as pl

from experiments.data.cps import SHIPPED_COLUMNS

FILES = Path(__file__).parent / "files"


def complete_adult(train: Path, test: Path) -> pl.DataFrame:
    """Both files one after the other, spaces and the test labels' dots stripped, rows with '?' dropped."""
    frame = pl.concat([pl.read_csv(path, infer_schema=False) for path in (train, test)])
    frame = frame.rename({name: name.replace("-", "_") for name in frame.columns})
    frame = frame.with_columns(pl.all().str.strip_chars().str.strip_chars_end("."))
    frame = frame.filter(~pl.any_horizontal(pl.all() == "?"))
    return frame.drop("fnlwgt", "education")


def cps_extract(source: Path) -> pl.DataFrame:
    """The used columns of every tax unit, in the order of the source."""
    return pl.read_csv(source).select(SHIPPED_COLUMNS)


def write(frame: pl.DataFrame, path: Path) -> None:
    """Write csv.gz without a time stamp, so that equal rows give equal bytes."""
    text = io.BytesIO()
    frame.write_csv(text)
    path.write_bytes(gzip.compress(text.getvalue(), compresslevel=9, mtime=0))


def main(arguments: list[str]) -> None:
    train, test, cps = (Path(argument) for argument in arguments)
    FILES.mkdir(exist_ok=True)
    write(complete_adult(train, test), FILES / "adult.csv.gz")
    write(cps_extract(cps), FILES / "cps.csv.gz")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Dutch census 2001 (Zliobaite, Kamiran and Calders 2011): high-level occupation from 11 attributes.

The file may not be passed on. Give the path of your own copy (csv or csv.gz) as an argument or in COLONNADE_DUTCH;
the SHA-256 of the uncompressed csv is checked, so that tables speak of the same 60,420 rows.
Levels are the codes of the census codebook; age is in five-year groups 4 to 15, edu_level runs from 0 to 5.
"""

import gzip
import hashlib
import os
from pathlib import Path

import polars as pl

from colonnade.foundation.errors import DataError
from experiments.data.dataset import ColumnSpec, Dataset, binary, categorical, integer

SHA256 = "cd86552131520fedeabb800813e2ca880008187ad52c710c1fc6f264e98f5f5d"
VARIABLE = "COLONNADE_DUTCH"

COLUMNS: dict[str, ColumnSpec] = {
    "sex": binary("1", "2"),
    "age": integer(4, 15),
    "household_position": categorical(["1110", "1121", "1122", "1131", "1132", "1140", "1210", "1220"]),
    "household_size": categorical(["111", "112", "113", "114", "125", "126"]),
    "prev_residence_place": binary("1", "2"),
    "citizenship": categorical(["1", "2", "3"]),
    "country_birth": categorical(["1", "2", "3"]),
    "edu_level": integer(0, 5),
    "economic_status": categorical(["111", "112", "120"]),
    "cur_eco_activity": categorical(
        ["111", "122", "124", "131", "132", "133", "134", "135", "136", "137", "138", "139"]
    ),
    "Marital_status": categorical(["1", "2", "3", "4"]),
    "occupation": binary("5_4_9", "2_1"),
}


def dutch_36(path: str | Path | None = None) -> Dataset:
    """High-level occupation from 11 attributes, 36 features."""
    given = path or os.environ.get(VARIABLE)
    if not given:
        raise DataError(
            f"the Dutch census file may not be shipped: give the path of your copy in {VARIABLE}, got nothing"
        )
    return Dataset(
        "Dutch-36", pl.read_csv(_checked(Path(given))).select(list(COLUMNS)), COLUMNS, "occupation", "logistic"
    )


def _checked(path: Path) -> bytes:
    if not path.is_file():
        raise DataError(f"the Dutch census file must exist at the path given, got {path}")
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise DataError(f"the Dutch census csv must have SHA-256 {SHA256}, got {found}")
    return content

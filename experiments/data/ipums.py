"""A user's own IPUMS International extract in the shape of the paper's US and Brazil data: income from 14 features.

The paper names the source and n but neither variables nor bounds. Zhang et al. 2012, who used the same two extracts,
name age, gender, marital status, education, disability, nativity, working hours, years of residence, ownership,
family size, children and automobiles. The table below states one reading of that list in IPUMS variable names,
with round public bounds; check the codes against your extract's own codebook.
A column that the extract lacks is an error; a row with an unknown code is dropped.
"""

import os
from pathlib import Path

import polars as pl

from colonnade.foundation.errors import DataError
from experiments.data.dataset import ColumnSpec, Dataset, binary, categorical, numeric

VARIABLE = "COLONNADE_IPUMS"

# IPUMS variable -> public facts; the codes are those of the IPUMS International codebook.
COLUMNS: dict[str, ColumnSpec] = {
    "AGE": numeric(0, 100),
    "SEX": binary("1", "2"),
    "EDATTAIN": categorical(["1", "2", "3", "4"]),
    "FAMSIZE": numeric(1, 20),
    "NATIVITY": binary("1", "2"),
    "OWNERSHIP": binary("1", "2"),
    "AUTOS": numeric(0, 7),
    "NCHILD": numeric(0, 9),
    "MARST": categorical(["1", "2", "3", "4"]),
    "HRSWORK1": numeric(0, 99),
    "INCTOT": numeric(0, 250_000),
}
# Smallest value that stands for "unknown" or "not in universe" rather than for a number.
_NOT_IN_UNIVERSE = {"AGE": 999, "AUTOS": 8, "HRSWORK1": 998, "INCTOT": 9_999_998}


def ipums_income(
    path: str | Path | None = None, income_bound: float = 250_000, columns: dict[str, ColumnSpec] | None = None
) -> Dataset:
    """Total income, clipped to [0, income_bound] in the extract's currency, from 14 features.

    `columns` replaces the schema for an extract with other variables; the label stays INCTOT.
    """
    given = path or os.environ.get(VARIABLE)
    if not given:
        raise DataError(f"an IPUMS extract may not be shipped: give the path of your csv in {VARIABLE}, got nothing")
    source = Path(given)
    if not source.is_file():
        raise DataError(f"the IPUMS extract must exist at the path given, got {source}")
    schema = dict(columns or COLUMNS)
    schema["INCTOT"] = numeric(0, income_bound)
    frame = pl.read_csv(source)
    missing = [name for name in schema if name not in frame.columns]
    if missing:
        raise DataError(f"the IPUMS extract must hold the columns {', '.join(schema)}, got no {', '.join(missing)}")
    frame = _complete(frame.select(list(schema)), schema)
    return Dataset(f"IPUMS {source.name.split('.')[0]}", frame, schema, "INCTOT", "linear")


def _complete(frame: pl.DataFrame, schema: dict[str, ColumnSpec]) -> pl.DataFrame:
    """Rows with a declared code in every column; IPUMS marks "unknown" and "not in universe" by codes of its own."""
    known = [
        pl.col(name).cast(pl.String).is_in(spec["levels"])
        if "levels" in spec
        else pl.col(name).is_not_null() & (pl.col(name) < _NOT_IN_UNIVERSE.get(name, float("inf")))
        for name, spec in schema.items()
    ]
    return frame.filter(pl.all_horizontal(known))

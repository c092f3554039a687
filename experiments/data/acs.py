"""NIST's excerpt of the American Community Survey 2019 (SDNist): 24 columns, cut at public points; N: not applicable.

Columns that mix numbers with N become levels; all cut points are round numbers of the codebook's units, and industry
codes keep their first digit.
"""

from importlib.resources import as_file, files
from itertools import pairwise

import numpy as np
import polars as pl

from experiments.data.dataset import ColumnSpec, Dataset, binary, binned, categorical

LABEL = "DEAR"
BINNED = {
    "AGEP": (99, [6, 12, 15, 18, 22, 26, 30, 40, 50, 60, 65, 75]),
    "DENSITY": (60_000, [50, 100, 500, 1000, 3000, 3500, 5000, 8000, 12_000]),
    "PWGTP": (3000, [30, 60, 100, 150, 250]),
    "WGTP": (3000, [1, 30, 60, 100, 150]),
}
CUTS = {
    "NPF": [3, 4, 5, 6, 7],
    "NOC": [1, 2, 3, 4],
    "PINCP": [1, 5000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 75_000, 100_000, 150_000],
    "POVPIP": [50, 100, 150, 200, 300, 400, 501],
}
BINARY = ("SEX", "DEYE", "DEAR")
LEVELS = {
    "INDP": ["N", *"0123456789"],
}


def nist_acs() -> Dataset:
    """Difficulty in hearing (DEAR) from 23 columns; every column is a label of its own elsewhere."""
    with as_file(files("experiments.data") / "files" / "nist_acs.csv.gz") as path:
        raw = pl.read_csv(path, infer_schema=False)
    columns: dict[str, ColumnSpec] = {}
    values: dict[str, pl.Series] = {}
    for name in raw.columns:
        series = raw[name]
        if name in BINNED:
            high, cuts = BINNED[name]
            columns[name], values[name] = binned(0, high, cuts), series.cast(pl.Float64)
        elif name in CUTS:
            columns[name], values[name] = _cut(series, CUTS[name])
        elif name in BINARY:
            columns[name], values[name] = binary("1", "2"), series
        elif name == "INDP":
            columns[name] = categorical(LEVELS[name])
            values[name] = pl.Series(name, [v if v == "N" else v.zfill(4)[0] for v in series])
        else:
            columns[name], values[name] = categorical(sorted(series.unique().to_list())), series
    return Dataset("NIST ACS", pl.DataFrame(values), columns, LABEL, "logistic")


def _cut(series: pl.Series, cuts: list[int]) -> tuple[ColumnSpec, pl.Series]:
    """Levels of a number that may not apply."""
    names = [f"<{cuts[0]}", *(f"{a} to {b}" for a, b in pairwise(cuts)), f">={cuts[-1]}"]
    numbers = series.replace("N", None).cast(pl.Float64)
    codes = np.searchsorted(cuts, numbers.fill_null(0).to_numpy(), side="right")
    told = ["N" if none else names[code] for code, none in zip(codes, numbers.is_null(), strict=True)]
    return categorical(["N", *names]), pl.Series(series.name, told)

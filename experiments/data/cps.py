"""CPS tax units (US Census Bureau, CPS ASEC 2012-2014, as prepared by taxcalc): wages from the household.

This is the *substitute* for the paper's US and Brazil extracts, which may not be passed on; tables must label it so.
The 14 features are those columns that say who lives in the unit, in the spirit of the IPUMS extracts (age, family,
children), and two benefits that are paid by rule; incomes and the taxes imputed from wages are left out, since they
would give the label away. Bounds are round numbers that a person who has seen only the documentation would write
down: ages are top-coded at 85 by the Census Bureau, EIC counts up to three children by law, sizes and dollar amounts
are cut at generous round values. Wages are clipped to [0, 250,000] dollars. All 280,005 units are used.
"""

from importlib.resources import as_file, files

import polars as pl

from experiments.data.dataset import ColumnSpec, Dataset, categorical, numeric

# Column of the source, our name, its public bounds. MARS is the filing status of the tax form.
_SOURCE: dict[str, tuple[str, ColumnSpec]] = {
    "age_head": ("age_head", numeric(0, 85)),
    "age_spouse": ("age_spouse", numeric(0, 85)),
    "MARS": ("filing_status", categorical(["single", "joint", "separate", "head_of_household"])),
    "XTOT": ("persons", numeric(1, 10)),
    "nu06": ("under_6", numeric(0, 5)),
    "nu13": ("under_13", numeric(0, 5)),
    "nu18": ("under_18", numeric(0, 10)),
    "n1820": ("aged_18_to_20", numeric(0, 3)),
    "n21": ("aged_21_and_over", numeric(0, 5)),
    "EIC": ("eic_children", numeric(0, 3)),
    "e02400": ("social_security", numeric(0, 60_000)),
    "e02300": ("unemployment_benefit", numeric(0, 20_000)),
    "e00200": ("wages", numeric(0, 250_000)),
}
SHIPPED_COLUMNS = list(_SOURCE)
FILING_STATUS = {1: "single", 2: "joint", 3: "separate", 4: "head_of_household"}


def cps_wages() -> Dataset:
    """Wages of a tax unit from 12 attributes, 14 features."""
    with as_file(files("experiments.data") / "files" / "cps.csv.gz") as path:
        frame = pl.read_csv(path)
    frame = frame.with_columns(pl.col("MARS").replace_strict(FILING_STATUS, return_dtype=pl.String))
    frame = frame.rename({source: name for source, (name, _) in _SOURCE.items()})
    columns = dict(_SOURCE.values())
    return Dataset("CPS wages (substitute)", frame, columns, "wages", "linear")

"""Make the three files of the demo: `python -m experiments.data.make_demo [FOLDER]`, always the same bytes."""

import sys
import tomllib
from pathlib import Path

import numpy as np
import polars as pl

from experiments.data.adult import read_adult

STUDY = Path(__file__).resolve().parents[2] / "src" / "colonnade" / "demo" / "study.toml"
SEED = 20201
PEOPLE = 16_000
PARTIES: dict[str, list[str]] = {
    "employer": ["age", "workclass", "occupation", "hours_per_week", "income"],
    "registry": ["education_num", "marital_status", "relationship", "race", "sex", "native"],
    "bank": ["capital_gain", "capital_loss"],
}
# Share of the people that a party has on its books; each leaves out others.
KNOWN = {"employer": 0.96, "registry": 0.98, "bank": 0.94}


def make_demo(frame: pl.DataFrame, seed: int = SEED) -> dict[str, pl.DataFrame]:
    """One file per party: random ids, rows in an order of its own, a few percent of the people unknown to it."""
    rng = np.random.default_rng(seed)
    people = frame[rng.choice(frame.height, PEOPLE, replace=False)]
    numbers = rng.choice(2**32, PEOPLE, replace=False, shuffle=True)
    people = people.with_columns(pl.Series("person", [f"P-{number:08x}" for number in numbers]))
    tables = {}
    for party, columns in PARTIES.items():
        rows = rng.choice(PEOPLE, round(KNOWN[party] * PEOPLE), replace=False)
        tables[party] = people[rows].select("person", *columns)
    return tables


def main(folder: Path, packaged: Path | None = None) -> None:
    """Write the files with all columns, and the package's with those that the demo's study declares."""
    folder.mkdir(exist_ok=True)
    declared = tomllib.loads(STUDY.read_text(encoding="utf-8"))["party"]
    for party, table in make_demo(read_adult()).items():
        table.write_csv(folder / f"{party}.csv")
        if packaged is not None:
            table.select("person", *declared[party]["columns"]).write_csv(packaged / f"{party}.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1])) if len(sys.argv) > 1 else main(Path("demo"), STUDY.parent)

"""What a server could learn from how long a party takes: steps of a session on records of different kinds, timed.

`python -m drills.timing` prints the median CPU time of each step by the data it ran on, and the quartiles.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.columns import resident
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.product import Cross, ProductSpec
from colonnade.data.table import read_table, table_from
from colonnade.foundation.grid import Grid
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.objective import Calibration, Task, layout_of

ROWS, WIDTH, REPEATS = 20_480, 4, 41
BOUND = 500
NAMES = [f"x{i}" for i in range(WIDTH)]
Values = NDArray[np.float64]


def kinds() -> dict[str, Values]:
    """The same number of records, of which a server would like to know which it is."""
    rng = np.random.default_rng(5)
    return {
        "all zero": np.zeros((ROWS, WIDTH)),
        "all at a bound": np.ones((ROWS, WIDTH)),
        "long decimals": rng.uniform(-1, 1, (ROWS, WIDTH)),
        "half beyond the bounds": rng.uniform(-2, 2, (ROWS, WIDTH)),
    }


def seconds(step: Callable[[], object]) -> float:
    started = time.process_time()
    step()
    return time.process_time() - started


def steps(values: Values, folder: Path) -> dict[str, Callable[[], object]]:
    columns = {name: Numeric(-1, 1) for name in NAMES}
    frame = pl.DataFrame({name: values[:, i] for i, name in enumerate(NAMES)})
    frame.write_csv(folder / "data.csv")
    frame.write_parquet(folder / "data.parquet")
    table = table_from("a", frame, columns)
    layout = layout_of(Schema({"a": columns, "b": {"y": Numeric(-1, 1)}}), "y", Task.LINEAR, Calibration.EXACT)
    cross = Cross(0, 1, 0, WIDTH, 0, 1)
    spec = ProductSpec(bytes(32), ("a", "b"), ROWS, BOUND, (cross,), 48, 4, 1 << 40)
    integers = np.rint(np.clip(values, -1, 1) * BOUND).astype(np.int16)
    noise = {cross: np.zeros(cross.shape, np.int64)}

    def seal() -> None:
        for _ in LatticeParty(spec, 0, resident(integers), noise, Randomness()).send("seal"):
            pass

    return {
        "read CSV": lambda: read_table("a", folder / "data.csv", columns, None),
        "read Parquet": lambda: read_table("a", folder / "data.parquet", columns, None),
        "put on the grid": lambda: table.encode(layout, Grid(BOUND), bytes(32)),
        "seal": seal,
    }


def main() -> None:
    print("| step | " + " | ".join(kinds()) + " |")
    print("|---|" + "---|" * len(kinds()))
    with tempfile.TemporaryDirectory() as place:
        ready: dict[str, list[Callable[[], object]]] = {}
        for number, values in enumerate(kinds().values()):
            folder = Path(place) / str(number)
            folder.mkdir()
            for name, step in steps(values, folder).items():
                ready.setdefault(name, []).append(step)
        for name, by_kind in ready.items():
            # In turns, so that a machine that gets slower does so for all kinds.
            taken = np.array([[seconds(step) for step in by_kind] for _ in range(REPEATS + 2)])[2:]
            quarters = np.percentile(taken, [25, 50, 75], axis=0) * 1000
            cells = [f"{middle:.2f} ms ({low:.2f} to {high:.2f})" for low, middle, high in quarters.T]
            print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

"""CPU, wall time, bytes and memory of whole embedded studies from Parquet parts, against rows, columns and parties.

    python benchmarks/scale.py --rows 1000000 --columns 20 --parties 2 [--ids] [--workers W] [--json]
    python benchmarks/scale.py --gram [--rows N --columns D]    the local Gram against polars batches and numpy alone
    python benchmarks/scale.py --series rows columns parties ids gram [--most-rows N]
    python benchmarks/scale.py --write                          the table and plots from what was measured

Every case runs in a process of its own. A series skips what docs/results/scale.json has, so that it may be stopped and
taken up again; --again measures anew. Data is made beforehand, by another process, and lies in --data. With --ids
every party has the same records in an order of its own, and they are matched first.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
STORE = RESULTS / "scale.json"
PART_ROWS = 1_000_000
FIXED_ROWS, WARM_ROWS = 2_000, 50_000
ROWS = [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000]
COLUMNS = [10, 20, 50, 100, 200, 500, 1000, 2000]
PARTIES = [2, 4, 8, 16, 32, 64]
SERIES = {
    "rows": [(n, 20, 2) for n in ROWS],
    "columns": [(20_000, d, 2) for d in COLUMNS],
    "parties": [(20_000, 128, k) for k in PARTIES],
    "ids": [(n, 20, 2) for n in (100_000, 1_000_000, 10_000_000)],
}


def split(columns: int, parties: int) -> list[list[str]]:
    names = [f"x{k}" for k in range(columns)]
    each = -(-columns // parties)
    return [names[k : k + each] for k in range(0, columns, each)]


def write_data(folder: Path, rows: int, columns: int, parties: int, ids: bool) -> None:
    """A folder of Parquet parts for each party; a linear label with noise stands in the last column.

    With ids, every party but the first has its parts in turned order, and the rows of each in a random one.
    """
    import numpy as np
    import polars as pl

    draw = np.random.default_rng(rows + columns + parties)
    weights = draw.normal(size=columns - 1) / np.sqrt(columns)
    each = max(1, min(PART_ROWS, (1 << 25) // columns))
    for number, start in enumerate(range(0, rows, each)):
        values = draw.normal(size=(columns, min(each, rows - start)))
        values[-1] = weights @ values[:-1] + 0.5 * values[-1]
        place = iter(values)
        for k, names in enumerate(split(columns, parties)):
            (folder / f"p{k}").mkdir(exist_ok=True)
            frame, part = pl.DataFrame({name: next(place) for name in names}), number
            if ids:
                own = pl.Series("id", np.arange(start, start + frame.height)).cast(pl.String).str.zfill(10)
                frame = frame.insert_column(0, own)
            if ids and k:
                frame, part = frame[draw.permutation(frame.height)], -(-rows // each) - 1 - number
            frame.write_parquet(folder / f"p{k}" / f"part-{part:05d}.parquet", compression="lz4")


@contextmanager
def data(place: Path | None, rows: int, columns: int, parties: int, ids: bool) -> Iterator[Path]:
    """Data made by another process, so that its memory does not count."""
    folder = Path(tempfile.mkdtemp(prefix="colonnade-scale-", dir=place))
    command = [sys.executable, __file__, "--make", str(folder)]
    sizes = ["--rows", str(rows), "--columns", str(columns), "--parties", str(parties)]
    try:
        subprocess.run([*command, *sizes, *(["--ids"] if ids else [])], check=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, rows: int, columns: int, parties: int, workers: int | None, ids: bool) -> dict[str, Any]:
    """One study, from files to release; before it some of few rows, for what a study costs in any case."""
    import polars as pl

    from colonnade.crypto.lattice.party import planned_bytes
    from colonnade.data.table import Table, open_table, read_table
    from colonnade.pool import open_workers
    from colonnade.runs import Outcome
    from colonnade.simulation import run_unguarded
    from colonnade.study import study_from

    party = {
        f"p{k}": {"data": f"p{k}", "columns": {name: {"kind": "numeric", "low": -6, "high": 6} for name in names}}
        for k, names in enumerate(split(columns, parties))
    }
    terms = {"name": "scale", "task": "linear", "label": f"x{columns - 1}", "epsilon": 1.0, "delta": 1e-9}
    alignment = "psi" if ids else "none"
    if ids:
        party = {k: {**given, "id": "id"} for k, given in party.items()}
    study = study_from({"study": {**terms, "alignment": alignment, "release": "full"}, "party": party}, folder)
    schema = study.agreement.schema.parties

    def timed(made: Callable[[], dict[str, Table]]) -> tuple[float, float, Outcome]:
        cpu, wall = time.process_time(), time.perf_counter()
        outcome = run_unguarded(study.agreement, made(), alignment, workers=crew)
        return time.process_time() - cpu, time.perf_counter() - wall, outcome

    def tables(place: Path) -> dict[str, Table]:
        if ids:
            return {k: read_table(k, place / k, schema[k], "id", crew) for k in party}
        return {k: open_table(k, place / k, schema[k], crew) for k in party}

    with open_workers(workers) as crew, tempfile.TemporaryDirectory() as small:
        for name, most in (("warm", WARM_ROWS), ("few", FIXED_ROWS)):
            for k in party:
                (Path(small) / name / k).mkdir(parents=True)
                head = pl.scan_parquet(folder / k / "*.parquet")
                head = (head.filter(pl.col("id") < f"{most:010d}") if ids else head.head(most)).collect()
                head.write_parquet(Path(small) / name / k / "part.parquet")
        timed(lambda: tables(Path(small) / "warm"))
        fixed = min(timed(lambda: tables(Path(small) / "few"))[0] for _ in range(3))
        cpu, wall, outcome = timed(lambda: tables(folder))
    spec = outcome.session.spec
    return {
        "rows": rows,
        "columns": columns,
        "parties": parties,
        "cpu": cpu,
        "fixed": fixed,
        "wall": wall,
        "bytes": sum(outcome.traffic.sent.values()),
        "product_bytes": sum(planned_bytes(spec, k) for k in range(parties)),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "seconds": dict(outcome.seconds),
        "modulus_bits": spec.modulus_bits,
        "bound": spec.bound,
        "work": work(spec, columns),
    }


def work(spec: Any, columns: int) -> dict[str, int]:
    """What is done for each row: values read and coded, words sealed, received and multiplied by, terms of products."""
    sealed = {(c.left, j) for c in spec.crosses for j in range(c.left_start, c.left_stop)}
    right = {(c.right, j) for c in spec.crosses for j in range(c.right_start, c.right_stop)}
    each = [len(names) for names in split(columns, len(spec.parties))]
    return {
        "values": columns,
        "sealed": len(sealed),
        "received": sum(c.shape[0] for c in spec.crosses),
        "transformed": len(right),
        "terms": sum(c.shape[0] * c.shape[1] for c in spec.crosses) + sum(d * d for d in each) // 2,
    }


def gram(folder: Path, columns: int, again: int = 5) -> dict[str, Any]:
    """CPU and wall seconds from Parquet parts to sums of products: polars and numpy alone, and as a party does it."""
    import numpy as np
    import polars as pl

    from colonnade.data.reading import ROW_BLOCK
    from colonnade.data.table import open_table
    from colonnade.foundation.grid import Grid
    from colonnade.foundation.schema import Column, Numeric
    from colonnade.mechanism.moments import Attribute, Encoding, Layout
    from colonnade.pool import open_workers

    names = split(columns, 1)[0]
    schema: dict[str, Column] = {name: Numeric(-6, 6) for name in names}
    layout = Layout(tuple(Attribute(f"p0.{name}", "p0", Encoding.SIGNED, (name,)) for name in names))

    def alone(clip: bool) -> Any:
        total = np.zeros((columns + 1, columns + 1))
        batches = pl.scan_parquet(folder / "p0" / "*.parquet").collect_batches(
            chunk_size=ROW_BLOCK, maintain_order=True
        )
        for frame in batches:
            block = frame.to_numpy()
            if clip:
                block = np.clip(block, -6, 6)
                block /= 6
            total[1:, 1:] += block.T @ block
            total[0, 1:] += block.sum(axis=0)
        return total

    def ours() -> Any:
        return open_table("p0", folder / "p0", schema, crew).encode(layout, Grid(1023), bytes(32), crew).sums.products

    ways: dict[str, Callable[[], Any]] = {
        "polars and numpy": lambda: alone(False),
        "the same, clipped and scaled": lambda: alone(True),
        "a party": ours,
    }
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with open_workers() as crew:
        for _ in range(again):
            # In turns, so that whatever else the machine does falls on all alike.
            for name, way in ways.items():
                cpu, wall = time.process_time(), time.perf_counter()
                way()
                found[name].append((time.process_time() - cpu, time.perf_counter() - wall))
        exact, mine = alone(True), ours()[1:, 1:] / 1023**2
    assert np.abs(mine - exact[1:, 1:]).max() < 1e-3 * exact.max()
    told = {n: {"cpu": median(c for c, _ in t), "wall": median(w for _, w in t)} for n, t in found.items()}
    ratio = {key: told["a party"][key] / told["polars and numpy"][key] for key in ("cpu", "wall")}
    return {"columns": columns, **told, "ratio": ratio}


def apart(
    task: str, given: argparse.Namespace, rows: int, columns: int, parties: int, ids: bool = False
) -> dict[str, Any]:
    """One case in a process of its own."""
    with data(given.data, rows, columns, parties, ids) as folder:
        command = [sys.executable, __file__, task, str(folder), "--rows", str(rows), "--columns", str(columns)]
        command += ["--parties", str(parties), *(["--workers", str(given.workers)] if given.workers else [])]
        command += ["--ids"] if ids else []
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def series(given: argparse.Namespace) -> None:
    stored = json.loads(STORE.read_text()) if STORE.exists() else {}
    for name in given.series:
        cases = [(1_000_000, 20, 1)] if name == "gram" else SERIES[name]
        for rows, columns, parties in cases:
            key = f"{name} {rows} {columns} {parties}"
            if rows > given.most_rows or (key in stored and not given.again):
                continue
            task = "--gram-in" if name == "gram" else "--run-in"
            found = apart(task, given, rows, columns, parties, name == "ids")
            stored[key] = {"series": name, "rows": rows, "parties": parties, **found}
            # After every case: what was measured survives whatever ends the series.
            STORE.with_suffix(".part").write_text(json.dumps(stored, indent=1) + "\n")
            STORE.with_suffix(".part").replace(STORE)
            print(key, json.dumps(found.get("ratio") or {k: found[k] for k in ("cpu", "wall", "peak_mb")}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--parties", type=int, default=2)
    parser.add_argument("--ids", action="store_true", help="match the records of each party by their ids first")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--gram", action="store_true")
    parser.add_argument("--series", nargs="+", choices=(*SERIES, "gram"))
    parser.add_argument("--most-rows", type=int, default=100_000_000)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--data", type=Path, help="folder for the data made; the system's if not given")
    parser.add_argument("--write", action="store_true")
    for task in ("--make", "--run-in", "--gram-in"):
        parser.add_argument(task, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = given.rows, given.columns, given.parties
    if given.make:
        write_data(given.make, *sizes, given.ids)
    elif given.run_in:
        print(json.dumps(run(given.run_in, *sizes, given.workers, given.ids)))
    elif given.gram_in:
        print(json.dumps(gram(given.gram_in, given.columns)))
    elif given.series:
        series(given)
    elif given.write:
        from scale_report import write

        write(json.loads(STORE.read_text()), RESULTS)
    else:
        found = apart(
            "--gram-in" if given.gram else "--run-in",
            given,
            given.rows,
            given.columns,
            1 if given.gram else given.parties,
            given.ids,
        )
        print(json.dumps(found) if given.json else "\n".join(f"{key:14s} {value}" for key, value in found.items()))


if __name__ == "__main__":
    main()

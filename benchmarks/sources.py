"""Peak memory of a party that reads the rows of a query: `python benchmarks/sources.py --write`.

A PostgreSQL server of its own is started in a temporary folder; DuckDB and SQLite read files. Each figure is that of a
fresh process, which reads all rows into a party's table, with ids.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from docs.sections import publish

SIZES = (100_000, 1_000_000, 3_000_000)
QUERY = "select id, age, cost, ward, seen, smoker from people limit {}"
COLUMNS = {
    "age": {"kind": "numeric", "low": 0, "high": 120},
    "cost": {"kind": "numeric", "low": 0, "high": 1000},
    "ward": {"kind": "categorical", "levels": ["a", "b", "c", "d"]},
    "seen": {"kind": "date", "earliest": "2020-01-01", "latest": "2024-12-31"},
    "smoker": {"kind": "boolean"},
}


def read(address: str, rows: int) -> dict[str, float]:
    """Seconds and peak memory of this process, before and after."""
    from colonnade.data.sources import Source, read_address
    from colonnade.foundation.schema import column_from

    columns = {name: column_from(name, declared) for name, declared in COLUMNS.items()}
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.process_time()
    data = read_address(address, QUERY.format(rows), "people", Path("/"), "[party.p]")
    table = Source(data, "id").read("p", columns)
    assert table.rows == rows
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rows": rows, "before": before, "after": after, "seconds": time.process_time() - start}


def fill(folder: str, files: Path) -> dict[str, str]:
    """The same rows in three databases."""
    import duckdb
    import psycopg

    made = (
        "select 'p' || i as id, i % 120 as age, {cost} as cost, substr('abcd', 1 + i % 4, 1) as ward, "
        "{seen} as seen, {smoker} as smoker from {series}"
    )
    most = max(SIZES)
    with psycopg.connect(f"postgresql:///postgres?host={folder}&user=postgres", autocommit=True) as connection:
        cost, seen = "(i % 100000)::numeric / 100", "date '2020-01-01' + i % 1800"
        query = made.format(cost=cost, seen=seen, smoker="i % 2 = 0", series=f"generate_series(1, {most}) as i")
        connection.execute(f"create table people as {query}".encode())
    with duckdb.connect(str(files / "people.duckdb")) as duck:
        seen = "date '2020-01-01' + (i % 1800)::integer"
        cost = "((i % 100000) / 100.0)::decimal(10, 2)"
        query = made.format(cost=cost, seen=seen, smoker="i % 2 = 0", series=f"range(1, {most + 1}) as t(i)")
        duck.execute(f"create table people as {query}")
    with sqlite3.connect(files / "people.db") as lite:
        series = f"(with recursive n(i) as (select 1 union all select i + 1 from n where i < {most}) select i from n)"
        seen = "date('2020-01-01', '+' || (i % 1800) || ' days')"
        query = made.format(cost="(i % 100000) / 100.0", seen=seen, smoker="i % 2", series=series)
        lite.execute(f"create table people as {query}")
    lite.close()
    return {
        "PostgreSQL": f"postgresql:///postgres?host={folder}&user=postgres",
        "DuckDB": f"duckdb:///{files}/people.duckdb",
        "SQLite": f"sqlite:///{files}/people.db",
    }


def markdown(found: dict[str, list[dict[str, float]]]) -> str:
    lines = [
        "# Memory of queries",
        "",
        "Written by `python benchmarks/sources.py --write`. A party reads all rows of a query (five columns and",
        "ids) in one pass; peak memory of a fresh process, in MB, beyond what it had before, and its CPU seconds.",
        "Columns beyond 32 MB and all ids lie on disk.",
        "",
        "| database | rows | MB more | CPU s |",
        "|---|---|---|---|",
    ]
    for name, runs in found.items():
        for r in runs:
            lines.append(f"| {name} | {r['rows']:,.0f} | {r['after'] - r['before']:.0f} | {r['seconds']:.1f} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write its section of docs/results/speed.md")
    parser.add_argument("--one", nargs=2, metavar=("ADDRESS", "ROWS"), help="one reading, as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(read(options.one[0], int(options.one[1]))))
        return 0
    from tests.helpers.postgres import running_postgres

    found: dict[str, list[dict[str, float]]] = {}
    with running_postgres() as server, tempfile.TemporaryDirectory() as files:
        for name, address in fill(str(server.folder), Path(files)).items():
            for rows in SIZES:
                command = [sys.executable, __file__, "--one", address, str(rows)]
                told = subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ))
                found.setdefault(name, []).append(json.loads(told.stdout))
    text = markdown(found)
    if options.write:
        publish("sources", text)
    print(text, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

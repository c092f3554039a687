"""Rows of a query, block by block, in one snapshot of the database, through the database's own driver."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl

from colonnade.data.frames import typed
from colonnade.foundation.errors import DataError, NoDataError, StudyError

Row = tuple[Any, ...]


def query_rows(address: str, file: Path | None, query: str, rows: int) -> Iterator[tuple[list[str], list[Row]]]:
    """The names of a query's columns, and blocks of so many rows; the database is read in one transaction."""
    scheme = address.partition("://")[0].lower()
    if scheme in ("postgresql", "postgres"):
        return _postgresql(address, query, rows)
    assert file is not None
    if not file.is_file():
        raise NoDataError(f"there is no database {address}")
    return _duckdb(address, file, query, rows) if scheme == "duckdb" else _sqlite(address, file, query, rows)


def _require(module: str, address: str) -> None:
    if find_spec(module) is None:
        scheme = address.partition("://")[0]
        raise StudyError(f"{scheme}:// needs {module}, which is not installed: pip install 'colonnade[sql]'")


def _postgresql(address: str, query: str, rows: int) -> Iterator[tuple[list[str], list[Row]]]:
    """A cursor on the server: no more than a block of rows is here at any time."""
    _require("psycopg", address)
    import psycopg

    try:
        with psycopg.connect(address) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            for kind in ("date", "timestamp", "timestamptz", "time", "timetz", "interval"):
                _take_any(connection.adapters, kind)
            with connection.cursor(name="colonnade") as cursor:
                cursor.itersize = rows
                cursor.execute(query.encode())
                yield from _blocks(cursor, rows)
    except psycopg.Error as error:
        told = error.diag.message_primary or str(error).strip().partition("\n")[0]
        # A data exception quotes the value that it is about.
        if (error.sqlstate or "").startswith("22"):
            told = f"a value does not fit its type (SQLSTATE {error.sqlstate})"
        raise DataError(f"{address} cannot be read: {told}") from None


def _take_any(adapters: Any, kind: str) -> None:
    """A day that Python has not, such as infinity, is its text: no record ends the reading."""
    import psycopg
    from psycopg.types import datetime as known

    usual = getattr(known, f"{kind.capitalize()}Loader")

    class AnyLoader(usual):  # type: ignore[misc, valid-type]
        def load(self, data: Any) -> Any:
            try:
                return super().load(data)
            except psycopg.DataError:
                return bytes(data).decode(errors="replace")

    adapters.register_loader(kind, AnyLoader)


def _duckdb(address: str, file: Path, query: str, rows: int) -> Iterator[tuple[list[str], list[Row]]]:
    _require("duckdb", address)
    import duckdb

    try:
        with closing(duckdb.connect(str(file), read_only=True)) as connection:
            yield from _blocks(connection.execute(query), rows)
    except duckdb.ConversionException:
        raise DataError(f"{address} cannot be read: a value does not fit its type") from None
    except duckdb.Error as error:
        raise DataError(f"{address} cannot be read: {_first(error)}") from None


def _sqlite(address: str, file: Path, query: str, rows: int) -> Iterator[tuple[list[str], list[Row]]]:
    try:
        with closing(sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode=ro", uri=True)) as connection:
            # A text that is not in UTF-8 is an undeclared one; no record ends the reading.
            connection.text_factory = _decoded
            connection.execute("begin")
            yield from _blocks(connection.execute(query), rows)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise DataError(f"{address} cannot be read: {_first(error)}") from None


def _decoded(text: bytes) -> str:
    return text.decode(errors="replace")


def _blocks(cursor: Any, rows: int) -> Iterator[tuple[list[str], list[Row]]]:
    names = [column[0] for column in cursor.description or ()]
    while block := cursor.fetchmany(rows):
        yield names, block
    yield names, []


def _first(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def frame_of(names: Sequence[str], rows: Sequence[Row], numbers: Collection[str]) -> pl.DataFrame:
    """A block of rows as a frame; decimals become floats in `numbers`, and the texts that they are elsewhere."""
    by_name = dict(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True))
    return pl.DataFrame([typed(name, values, name in numbers) for name, values in by_name.items()])

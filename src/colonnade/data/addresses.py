"""Data that lies at an address and not in a file of this machine: a database's query, or a file of an object store."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from colonnade.data.frames import select_from
from colonnade.data.reading import block_rows, explain_errors, filed
from colonnade.data.sql import frame_of, query_rows
from colonnade.data.table import Table, gather_table
from colonnade.foundation.errors import DataError, StudyError
from colonnade.foundation.names import require_name
from colonnade.foundation.parts import is_parquet
from colonnade.foundation.schema import Column, Storage
from colonnade.foundation.shown import shown

DATABASES = ("postgresql", "postgres", "duckdb", "sqlite")
POSSIBLE = (
    "files of this machine, postgresql://, duckdb:///FILE and sqlite:///FILE with a query, and s3:// for Parquet or CSV"
)
QUERY_ROWS = 1 << 14
"""Rows of a query that are here at a time: as a driver gives them they take far more room than as columns."""
_SECRET = re.compile(r"(?i)(passw|pwd|secret|token|api_?key|access_?key)[a-z_]*=")


@dataclass(frozen=True)
class AddressedData:
    """Where rows lie, and what a ledger knows them by; read once, from beginning to end."""

    address: str
    name: str
    """Of the data set: rows that changed are the same data set."""
    query: str | None = None
    file: Path | None = None
    """Of a database that is a file."""

    @property
    def digest(self) -> str:
        """Of address and query, and not of the rows: these may change."""
        content = f"colonnade/1 address {len(self.address)}:{self.address}{self.query or ''}"
        return hashlib.sha256(content.encode()).hexdigest()

    def read(
        self, party: str, columns: Mapping[str, Column], id_column: str | None = None, *, matched: bool = True
    ) -> Table:
        """The party's table, by the rules that hold for files, in blocks of rows."""
        frames = self._frames(party, columns, id_column)
        return gather_table(party, frames, columns, f"{self.address} gives", id_column, matched=matched)

    def _frames(self, party: str, columns: Mapping[str, Column], id_column: str | None) -> Iterator[pl.DataFrame]:
        wanted = [*filed(columns), *([] if id_column is None else [id_column])]
        rows = block_rows(len(wanted)) if self.query is None else min(QUERY_ROWS, block_rows(len(wanted)))
        with explain_errors(party, self.address):
            for frame in self._stored(wanted, rows) if self.query is None else self._queried(party, columns, rows):
                for name in wanted:
                    if name not in frame.columns:
                        raise DataError(f"party {party}: {self.address} has no column {name!r}")
                if frame.height:
                    yield select_from(party, frame.select(wanted), columns, id_column)

    def _queried(self, party: str, columns: Mapping[str, Column], rows: int) -> Iterator[pl.DataFrame]:
        numbers = [name for name, c in columns.items() if c.storage is Storage.NUMBERS and not c.dated]
        try:
            for names, block in query_rows(self.address, self.file, self.query or "", rows):
                if len(set(names)) < len(names):
                    raise DataError(f"{self.address}: a query's columns must have different names, got {names}")
                yield frame_of(names, block, numbers)
        except DataError as error:
            raise DataError(f"party {party}: {error}") from None

    def _stored(self, wanted: list[str], rows: int) -> Iterator[pl.DataFrame]:
        """A file of an object store, through polars, with credentials of the environment."""
        place = Path(self.address.partition("://")[2])
        found = (
            pl.scan_parquet(self.address)
            if is_parquet(place)
            else pl.scan_csv(self.address, infer_schema=False, encoding="utf8-lossy")
        )
        present = found.collect_schema().names()
        chosen = found.select(name for name in wanted if name in present)
        yield from chosen.collect_batches(chunk_size=rows, maintain_order=True)


def read_address(text: str, query: str | None, dataset: str | None, folder: Path, where: str) -> AddressedData:
    """Data at an address, checked before anything is opened; no secret may stand in it, and none is printed."""
    scheme, _, rest = text.partition("://")
    scheme = scheme.lower()
    before, at, _ = rest.rpartition("@")
    if (at and ":" in before) or _SECRET.search(text):
        raise StudyError(
            f"{where} data must hold no password or key: take it from the environment, such as PGPASSWORD or a "
            "password file"
        )
    if scheme not in (*DATABASES, "s3"):
        raise StudyError(f"{where} data may be {POSSIBLE}, got {shown(text)}")
    require_name(f"{where} data", text, StudyError, 4096)
    if scheme == "s3" and query is not None:
        raise StudyError(f"{where} query is for a database, and data is {shown(text)}")
    if scheme != "s3" and not (query or "").strip().rstrip(";"):
        raise StudyError(f'{where} needs query = "select ..." for {shown(text)}')
    if dataset is None:
        told = "what its ledger knows the rows by: rows that changed are the same data set"
        raise StudyError(f'{where} needs dataset = "NAME" for {shown(text)}, {told}')
    file = None
    if scheme in ("duckdb", "sqlite"):
        if not rest.startswith("/") or rest == "/":
            raise StudyError(f"{where} data must be written as {scheme}:///FILE, got {shown(text)}")
        file = folder / rest[1:]
    return AddressedData(text, dataset, None if query is None else query.strip().rstrip(";"), file)

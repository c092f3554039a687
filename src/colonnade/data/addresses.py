"""The rows at an address, block by block: of a database's query, or of a file of an object store."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from colonnade.data.frames import numbers_among, select_from
from colonnade.data.reading import Reading, block_rows, explain_errors, reason
from colonnade.data.sql import frame_of, query_rows
from colonnade.data.storage import plain_texts
from colonnade.foundation.errors import DataError
from colonnade.foundation.parts import is_parquet

if TYPE_CHECKING:
    from colonnade.data.sources import AddressSource

QUERY_ROWS = 1 << 14
"""Rows of a query that are here at a time: as a driver gives them they take far more room than as columns."""


def address_frames(at: AddressSource, how: Reading) -> Iterator[pl.DataFrame]:
    wanted = [*how.filed, *how.id_names]
    rows = block_rows(len(wanted)) if at.query is None else min(QUERY_ROWS, block_rows(len(wanted)))
    with explain_errors(how.party, at.address):
        for frame in _frames(at, rows, wanted, numbers_among(how.columns)):
            for name in wanted:
                if name not in frame.columns:
                    raise DataError(f"{at.address} has no column {name!r}")
            if frame.height:
                yield select_from(frame.select(wanted), how)


def head_frames(at: AddressSource, rows: int = QUERY_ROWS) -> Iterator[pl.DataFrame]:
    """All columns that lie at an address, in blocks of so many rows, with what types they show."""
    try:
        yield from map(plain_texts, _frames(at, rows))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataError(f"{at.address} cannot be read: {reason(error)}") from None


def _frames(
    at: AddressSource, rows: int, wanted: Collection[str] | None = None, numbers: Collection[str] | None = None
) -> Iterator[pl.DataFrame]:
    """A query's rows, or a file of an object store, through polars, with credentials of the environment."""
    if at.query is not None:
        for names, block in query_rows(at.address, at.file, at.query, rows):
            if len(set(names)) < len(names):
                raise DataError(f"{at.address}: a query's columns must have different names, got {names}")
            yield frame_of(names, block, names if numbers is None else numbers)
        return
    if is_parquet(Path(at.address.partition("://")[2])):
        found = pl.scan_parquet(at.address)
    elif wanted is None:
        found = pl.scan_csv(at.address)
    else:
        found = pl.scan_csv(at.address, infer_schema=False, encoding="utf8-lossy")
    if wanted is not None:
        present = found.collect_schema().names()
        found = found.select(name for name in wanted if name in present)
    yield from found.collect_batches(chunk_size=rows, maintain_order=True)

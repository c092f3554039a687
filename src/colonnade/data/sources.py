"""Where a party's records lie: in files, in a data frame, or at the address of a database or an object store.

Whoever needs records, their header or what a ledger knows them by asks a source, and not what kind of source it is.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.data.written import PLAIN, Written
from colonnade.foundation.errors import DataError, StudyError
from colonnade.foundation.names import require_name
from colonnade.foundation.parts import DataSet, local_path
from colonnade.foundation.schema import Column
from colonnade.foundation.shown import shown
from colonnade.foundation.workers import HERE, Workers

if TYPE_CHECKING:
    import polars as pl

    from colonnade.data.ids import IdColumns
    from colonnade.data.reading import Reading
    from colonnade.data.table import Table

DATABASES = ("postgresql", "postgres", "duckdb", "sqlite")
POSSIBLE = (
    "files of this machine, postgresql://, duckdb:///FILE and sqlite:///FILE with a query, and s3:// for Parquet or CSV"
)
_SECRET = re.compile(r"(?i)(passw|pwd|secret|token|api_?key|access_?key)[a-z_]*=")


@dataclass(frozen=True)
class FileSource:
    """A file, a folder or a pattern of parts."""

    path: Path
    dataset: str | None = None
    """What a ledger knows it by; its name if none is given."""

    @property
    def told(self) -> str:
        return self.path.name

    def frames(self, how: Reading) -> Iterator[pl.DataFrame]:
        from colonnade.data.reading import file_frames

        return file_frames(self.path, how)

    def data_set(self, party: str) -> DataSet:
        return DataSet.of_file(self.path, self.dataset)

    def header(self, written: Written = PLAIN) -> list[str]:
        """The names of its columns."""
        from colonnade.data.reading import file_schema

        return file_schema(self.path, written).names()


@dataclass(frozen=True, repr=False, eq=False)
class FrameSource:
    """The columns of a data frame that a party declares, and its ids."""

    frame: pl.DataFrame
    dataset: str | None = None

    @property
    def told(self) -> str:
        return "data frame" if self.dataset is None else f"data frame “{self.dataset}”"

    def frames(self, how: Reading) -> Iterator[pl.DataFrame]:
        from colonnade.data.frames import select_from

        return iter([select_from(self.frame, how)])

    def header(self, written: Written = PLAIN) -> list[str]:
        """The names of its columns."""
        return self.frame.columns

    def data_set(self, party: str) -> DataSet:
        """By its name, and by all values with the columns' names."""
        if self.dataset is None:
            raise StudyError(
                "a data frame needs a name where a ledger is kept: frames of that name are the same data set, whatever "
                "rows they have"
            ).of(party)
        from colonnade.data.storage import plain_texts

        return DataSet(self.dataset, hashlib.sha256(plain_texts(self.frame).write_csv().encode()).hexdigest())


@dataclass(frozen=True)
class AddressSource:
    """A query's rows, or a file of an object store; read once, from beginning to end."""

    address: str
    dataset: str
    query: str | None = None
    file: Path | None = None
    """Of a database that is a file."""

    @property
    def told(self) -> str:
        return self.address

    def frames(self, how: Reading) -> Iterator[pl.DataFrame]:
        from colonnade.data.addresses import address_frames

        return address_frames(self, how)

    def header(self, written: Written = PLAIN) -> list[str]:
        """The names of its columns."""
        from colonnade.data.addresses import head_frames

        return next(head_frames(self, 1)).columns

    def data_set(self, party: str) -> DataSet:
        """By its name, and by address and query and not by the rows: these may change."""
        content = f"colonnade/1 address {len(self.address)}:{self.address}{self.query or ''}"
        return DataSet(self.dataset, hashlib.sha256(content.encode()).hexdigest())


DataSource = FileSource | FrameSource | AddressSource


@dataclass(frozen=True)
class Source:
    """Where a party's records lie on its own machine, and what it agrees to and has spent; none of it is sent."""

    data: DataSource | None
    id: str | tuple[str, ...] | None = None
    policy: Path | None = None
    ledger: Path | None = None
    written: Written = PLAIN
    """How its values are written."""
    form: tuple[str, ...] | None = None
    """What is done to ids before they are matched; None where the study does not say."""

    @property
    def ids(self) -> IdColumns | None:
        """The columns that make an id, in the form that was agreed on."""
        from colonnade.data.ids import IdColumns

        columns = (self.id,) if isinstance(self.id, str) else self.id
        return None if columns is None else IdColumns(columns, self.form or (), self.written.dates)

    @property
    def id_name(self) -> str | None:
        """What a table of scores calls its ids."""
        return self.id if isinstance(self.id, str) or self.id is None else "+".join(self.id)

    def records(self, party: str) -> DataSource:
        """The records of a party that must have some."""
        if self.data is None:
            raise StudyError(f"[party.{party}] needs data, the path of its file, for a run in one process")
        return self.data

    def frames(self, party: str, columns: Mapping[str, Column]) -> Iterator[pl.DataFrame]:
        """The party's records in the house's own forms, block by block."""
        from colonnade.data.people import RecordFrames

        records = RecordFrames(self.reading(party, columns), matched=True)
        return records.of(self.records(party).frames(records.read))

    def reading(self, party: str, columns: Mapping[str, Column]) -> Reading:
        """How these columns of the party's records are read."""
        from colonnade.data.reading import Reading

        return Reading(party, columns, self.ids, self.written)

    def read(
        self, party: str, columns: Mapping[str, Column], workers: Workers = HERE, *, matched: bool = True
    ) -> Table:
        """The party's table with its ids, which are `matched` or names for people."""
        from colonnade.data.people import RecordFrames
        from colonnade.data.table import gather_table

        data, how = self.records(party), self.reading(party, columns)
        records = RecordFrames(how, matched)
        frames, told = records.of(data.frames(records.read)), f"{data.told} holds"
        return records.noted(gather_table(frames, how, told, matched=matched, workers=workers))

    def open(self, party: str, columns: Mapping[str, Column], workers: Workers = HERE) -> Table:
        """The party's table in the order of its records; a file may be read when it is encoded."""
        if not isinstance(data := self.records(party), FileSource) or any(c.people for c in columns.values()):
            return self.read(party, columns, workers, matched=False)
        from colonnade.data.table import open_table

        return open_table(party, data.path, columns, workers, self.written)

    def digest(self, party: str) -> bytes:
        """What a party commits to, and its ledger knows the records by."""
        return bytes.fromhex(self.records(party).data_set(party).digest)

    @property
    def name(self) -> str | None:
        """What a ledger knows the records by: rows that changed are the same data set."""
        if isinstance(self.data, FileSource):
            return self.data.dataset or self.data.path.name or self.data.path.resolve().name
        return None if self.data is None else self.data.dataset

    def given(self, party: str, data: Any, columns: Mapping[str, Column], name: str | None = None) -> Source:
        """The same with other records, from Python: a path, or a frame's declared columns; no others are looked at."""
        known = self.data.dataset if name is None and self.data is not None else name
        if isinstance(data, (FileSource, AddressSource)):
            return replace(self, data=data if known is None else replace(data, dataset=known))
        if isinstance(data, (str, os.PathLike)):
            return replace(self, data=FileSource(local_path(data), known))
        if not is_frame(data):
            told = f"a path or a data frame of polars, pandas or Arrow, got {shown(data)[:80]}"
            raise DataError(f"data must be {told}").of(party)
        from colonnade.data.frames import chosen_from
        from colonnade.data.people import RecordFrames

        frame = chosen_from(data, RecordFrames(self.reading(party, columns), matched=False).read)
        return replace(self, data=FrameSource(frame, known))


def is_frame(data: Any) -> bool:
    """Whether it is a data frame of polars or pandas, or Arrow's."""
    return any(hasattr(data, mark) for mark in ("iloc", "collect_schema", "__arrow_c_stream__"))


def by_party(text: str, parties: Collection[str] | None = None) -> tuple[str | None, str]:
    """What is written as PARTY=TEXT for one of the parties, or for any; without a party's name it is all text."""
    party, separator, rest = text.partition("=")
    named = "://" not in party if parties is None else party in parties
    return (party, rest) if separator and named else (None, text)


def of_parties(
    texts: Iterable[str], parties: Collection[str], what: str = "--data", form: str = "FILE"
) -> dict[str, str]:
    """What an option names for parties; refuses what is none's."""
    out = dict[str, str]()
    for text in texts:
        party, rest = by_party(text, parties)
        if party is None:
            raise StudyError(f"{what} names PARTY={form} for one of {', '.join(parties)}, got {text!r}")
        if party in out:
            raise StudyError(f"{what} names one {form} for each party, got two for {party}")
        out[party] = rest
    return out


def source_at(text: str, query: str | None, party: str | None) -> FileSource | AddressSource:
    """Data that a command names: a file, or an address with its query, known by its party's name."""
    if "://" not in text and query is None:
        return FileSource(local_path(text))
    if "://" not in text:
        raise StudyError(f"--query is for a database, and data is {shown(text)}")
    return read_address(text, query, party or local_name(text) or "data", Path(), "--query:")


def local_name(address: str) -> str:
    """What a party is called whose data lies at an address, if nobody says."""
    path = Path(address.partition("://")[2])
    return path.name.partition(".")[0]


def sources_at(
    data: Iterable[str], queries: Iterable[str], parties: Collection[str]
) -> dict[str, FileSource | AddressSource]:
    """What --data and --query name for parties."""
    named, asked = of_parties(data, parties), of_parties(queries, parties, "--query", "SELECT")
    if lonely := [party for party in asked if party not in named]:
        raise StudyError(f"--query goes with --data {lonely[0]}=ADDRESS, which is not given")
    return {party: source_at(text, asked.get(party), party) for party, text in named.items()}


def read_address(text: str, query: str | None, dataset: str | None, folder: Path, where: str) -> AddressSource:
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
    return AddressSource(text, dataset, None if query is None else query.strip().rstrip(";"), file)

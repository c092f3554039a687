"""One organisation of a study: its data, its columns, what it agrees to and what it has spent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from colonnade.api.display import Shown
from colonnade.data.sources import Source, is_frame
from colonnade.foundation.columns import Aggregate
from colonnade.foundation.errors import SchemaError
from colonnade.foundation.schema import Column, column_from, column_to
from colonnade.foundation.shown import plain, shown
from colonnade.report.results import Answer, Heading, Listing

LEVELS = 12
"""Levels of a column that are shown."""


class Party(Shown):
    """One organisation: its records, and public facts about its columns.

    Parameters
    ----------
    data : data frame, path or address, optional
        A frame of polars, pandas or Arrow, or a file, a database or an object store as a study names it. None: for
        plans alone.
    columns : {name: column}
        What is publicly known of each column that takes part: `Numeric(low, high)`, `Categorical(levels)`,
        `Binary(levels)`, or the declared form of a study file, such as {"kind": "numeric", "low": 17, "high": 90}.
        Bounds and levels are never computed from data. Other columns of the data are not looked at.
    id : str, optional
        The column that names a person, by which the parties' records are matched.
    name : str, optional
        What the ledger knows the data by, needed for a frame where a ledger is kept: frames of the same name are the
        same data set, whatever rows they have.
    policy, ledger : path, optional
        The party's own rules, and the file that books what its data has spent. They come together.
    epsilon : float, optional
        What this party allows (bottom-up); then every party states its own, and the study states none.
    split : {"own" or party: float}, optional
        How it spreads that over its own block and those with other parties.
    norm : float, optional
        A public bound on the length of its numeric columns, each scaled to [-1, 1].
    people : {name: {"how": ..., "of": ..., "by": ...}}, optional
        How a person's several rows become one value of each column.
    **more
        Further keys of a party in a study file, such as query or derived.
    """

    def __init__(
        self,
        data: Any = None,
        columns: Mapping[str, Column | Mapping[str, Any]] | None = None,
        *,
        id: str | None = None,
        name: str | None = None,
        policy: str | os.PathLike[str] | None = None,
        ledger: str | os.PathLike[str] | None = None,
        epsilon: float | None = None,
        split: Mapping[str, float] | None = None,
        norm: float | None = None,
        people: Mapping[str, Mapping[str, str]] | None = None,
        **more: Any,
    ) -> None:
        if not isinstance(columns, Mapping):
            raise SchemaError(f"a party's columns must be a mapping of names to columns, got {shown(columns)}")
        declared = {plain(key): plain(column) for key, column in columns.items()}
        self.columns = {key: c if isinstance(c, Column) else column_from(key, c) for key, c in declared.items()}
        for key, how in (plain(people) or {}).items():
            if key not in self.columns:
                raise SchemaError(f"people names columns of the party, got {shown(key)}")
            self.columns[key] = replace(self.columns[key], people=Aggregate.read(how, key))
        self.data, self.id, self.name = data, plain(id), plain(name)
        self.policy, self.ledger = policy, ledger
        self.epsilon, self.split, self.norm = plain(epsilon), plain(split), plain(norm)
        self._more = plain(more)

    def declared(self, party: str) -> dict[str, Any]:
        """The party's section as a study file has it, without data that is no file."""
        out: dict[str, Any] = dict(self._more)
        if self.data is not None and not is_frame(self.data):
            if not isinstance(self.data, (str, os.PathLike)):
                Source(None).given(party, self.data, self.columns)
            out["data"] = os.fspath(self.data)
            if self.name is not None:
                out["dataset"] = self.name
        if self.id is not None:
            out["id"] = self.id
        for key, value in (("policy", self.policy), ("ledger", self.ledger)):
            if value is not None:
                out[key] = os.fspath(value)
        for key, number in (("epsilon", self.epsilon), ("norm", self.norm), ("split", self.split)):
            if number is not None:
                out[key] = dict(number) if isinstance(number, Mapping) else number
        columns = {key: column_to(column) for key, column in self.columns.items()}
        if people := {key: column.pop("people") for key, column in columns.items() if "people" in column}:
            out["people"] = people
        return {**out, "columns": columns}

    def _source(self, party: str, declared: Source) -> Source:
        """Where its records lie: what its section names, or its data frame."""
        return declared.given(party, self.data, self.columns, self.name) if is_frame(self.data) else declared

    @property
    def answer(self) -> Answer:
        data = "no data" if self.data is None else "a data frame" if is_frame(self.data) else str(self.data)
        kept = " with a policy and a ledger" if self.policy is not None else ""
        title = f"Party with {data}{'' if self.id is None else f', ids in {self.id}'}{kept}"
        keys = ("column", "kind", "declared")
        records = [
            dict(zip(keys, (name, column.noun, column.facts(LEVELS)), strict=True))
            for name, column in self.columns.items()
        ]
        return Answer(title, [Listing([Heading(key, key) for key in keys], records)])

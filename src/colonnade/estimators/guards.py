"""Who agrees and books for parties whose columns come in a data frame."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from colonnade.consent.entries import DataSet
from colonnade.consent.guard import ConsentGuard, open_guard
from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Schema
from colonnade.protocol.tasks import Guard, Unguarded

KEYS = ("policy", "ledger", "dataset")
Consent = Mapping[str, Mapping[str, Any]]


def open_guards(consent: Consent | None, schema: Schema, frame: pl.DataFrame, seeded: bool) -> dict[str, Guard]:
    """A guard for each party that names a policy and a ledger; the others agree to whatever they are part of."""
    named = dict(consent or {})
    for party in named:
        if party not in schema.parties:
            raise StudyError(f"consent must name parties that hold columns, got {party!r}")
    if named and seeded:
        raise StudyError("random_state is for simulations, whose noise no ledger can book, and consent names one")
    guards: dict[str, Guard] = {}
    for party, columns in schema.parties.items():
        guards[party] = _open(party, named[party], frame.select(list(columns))) if party in named else Unguarded()
    return guards


def _open(party: str, named: Mapping[str, Any], own: pl.DataFrame) -> ConsentGuard:
    unknown = [key for key in named if key not in KEYS]
    if unknown or "policy" not in named or "ledger" not in named:
        told = f"an unknown {unknown[0]!r}" if unknown else ", ".join(named) or "nothing"
        raise StudyError(f"consent of {party} must name a policy and a ledger, and may name a dataset, got {told}")
    # What is booked counts against the same rows of the same columns, in whatever frame they come.
    content = hashlib.sha256(own.write_csv().encode()).hexdigest()
    data = DataSet(str(named.get("dataset", party)), content)
    return open_guard(party, Path(named["policy"]), Path(named["ledger"]), data)

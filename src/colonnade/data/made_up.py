"""Rows invented from public facts alone, with a stated strength of signal: what a schema lets one expect."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.analysis.draws import normal, uniform
from colonnade.data.store import Values
from colonnade.data.table import Table
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, Schema, Storage
from colonnade.mechanism.moments import Floats


@dataclass(frozen=True)
class Signal:
    """What a schema does not say of data."""

    strength: float
    """The part of what decides the label that the features know together."""
    share: float = 0.5
    """Of positive records, where the label has two levels."""
    filled: float = 1.0
    """The part of their bounds that numbers fill, from the lower end."""
    alone: bool = False
    """Whether one column, drawn at random, carries all of the signal, and not every column some of it."""


def invent_tables(schema: Schema, label: str, rows: int, signal: Signal, randomness: Randomness) -> dict[str, Table]:
    """Every party's table of the same made-up people: features independent, their effects drawn at random."""
    owner, name = schema.find(label)
    values: dict[str, dict[str, Values]] = {party: {} for party in schema.parties}
    effects: list[Floats] = []
    for party, columns in schema.parties.items():
        for column, kind in columns.items():
            if (party, column) != (owner, name):
                stored, effect = _feature(kind, rows, signal, randomness)
                values[party][column] = stored
                effects.append(effect)
    if signal.alone:
        effects = [effects[int(uniform(randomness, 1)[0] * len(effects))]]
    score = np.sum(effects, axis=0)
    spread = float(score.std()) or 1.0
    known = np.sqrt(signal.strength) * (score - score.mean()) / spread
    latent = known + np.sqrt(1 - signal.strength) * normal(randomness, rows)
    values[owner][name] = _label(schema.parties[owner][name], latent, signal)
    return {
        party: Table(party, dict(columns), {c: values[party][c] for c in columns}, rows)
        for party, columns in schema.parties.items()
    }


def _feature(column: Column, rows: int, signal: Signal, randomness: Randomness) -> tuple[Values, Floats]:
    """Stored values and their effect on the label, of variance 1 times a random weight."""
    if column.storage is Storage.LEVELS or column.bounds is None:
        examples = len(column.all_levels) or len(column.coordinates(""))
        codes = np.minimum((uniform(randomness, rows) * examples).astype(np.int32), examples - 1)
        stored: Values = codes
        if column.storage is Storage.NUMBERS:
            stored = np.asarray(column.examples(), dtype=np.float64)[codes]
        return stored, normal(randomness, examples)[codes]
    low, high = column.bounds
    part = 1.0 if column.has_levels else signal.filled
    place = uniform(randomness, rows)
    weight = float(normal(randomness, 1)[0])
    return low + (high - low) * part * place, weight * np.sqrt(12.0) * (place - 0.5)


def _label(column: Column, latent: Floats, signal: Signal) -> Values:
    if column.has_levels:
        return (latent > np.quantile(latent, 1 - signal.share)).astype(np.int32)
    # A normal number of the standard deviation of a uniform one, cut at the bounds as a file's values are.
    signed = np.clip(latent / np.sqrt(3.0), -1.0, 1.0)
    placed: Floats = column.unsigned(-1.0 + signal.filled * (signed + 1.0))
    return np.rint(placed).astype(np.int32) if column.storage is Storage.LEVELS else placed

"""Questions to single sessions: are sealed messages fresh, is u more than a hash, do releases lie on the grid."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from audit.precision import impossible, off_grid
from colonnade.audit.transcript import listen
from colonnade.data.table import Table
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.blocks import IntegerNoise
from colonnade.mechanism.moments import Distribution
from colonnade.planning.agreement import Agreement
from colonnade.protocol.messages import ParcelBody, body_of

SCALE = Fraction(50)
"""Of the noise that is searched for gaps: every integer near 0 is to come some fifty times in 20,000 draws."""
Payloads = dict[tuple[str, str, str, int], bytes]
"""What was sent, by round, sender, recipient and number."""


def payloads(
    agreement: Agreement, tables: Mapping[str, Table], randomness: Randomness, identity: bytes | None = None
) -> Payloads:
    """All parcels of one session, which its server and its parties can read."""
    out: Payloads = {}
    for envelope in listen(agreement, tables, randomness, identity=identity).parcels:
        parcel = body_of(envelope, ParcelBody)
        key = parcel.round, envelope.sender, envelope.recipient
        out[*key, sum(k[:3] == key for k in out)] = parcel.payload
    return out


def equal_bytes(one: Payloads, two: Payloads, round: str) -> float:
    """Share of bytes that two sessions' parcels of a round have in common, place by place; 1/256 by chance."""
    same = total = 0
    for key, payload in one.items():
        if key[0] == round and key in two:
            left, right = (np.frombuffer(p, np.uint8) for p in (payload, two[key]))
            size = min(len(left), len(right))
            same, total = same + int((left[:size] == right[:size]).sum()), total + size
    return same / total


def sealed_alike(agreement: Agreement, tables: Mapping[str, Table], randomness: Randomness) -> float:
    """How alike the sealed columns of two sessions on the same data are: under one seed and secret nearly equal."""
    one, two = (payloads(agreement, tables, randomness.child(name)) for name in ("first", "second"))
    return equal_bytes(one, two, "seal")


def u_guessed(agreement: Agreement, tables: Mapping[str, Table], randomness: Randomness) -> float:
    """How much of u somebody computes who has the right candidate for the data and knows the session's public id."""
    identity = randomness.bytes(32)
    seen, guess = (payloads(agreement, tables, randomness.child(name), identity) for name in ("session", "guess"))
    return equal_bytes(seen, guess, "multiply")


def noise_gaps(scale: Fraction, count: int, randomness: Randomness) -> tuple[float, float]:
    """Of what a party's noise makes of 1: the share off the grid, and the share that 0 could never have given.

    Integers give nothing away as long as noise leaves none out: the second figure is then the share of those within one
    scale of 0 that never came.
    """
    law = IntegerNoise(Distribution.LAPLACE, ((scale, np.arange(count)),), count)
    noise = np.asarray(_drawn(law, randomness))
    if noise.dtype.kind == "i":
        near = np.arange(-int(scale), int(scale) + 1)
        return off_grid(noise), float((~np.isin(near, noise)).mean())
    return off_grid(noise), float(impossible(1.0 + noise, 0.0, float(scale)).mean())


def _drawn(noise: IntegerNoise, randomness: Randomness) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    return noise.draw(1, randomness)

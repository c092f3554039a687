"""What a party that does not follow the protocol could read of its partners' keys, from the opened values alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, e, exp, expm1, log2, pi

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.chains.last import LastStep
from colonnade.crypto.product import ChainSpec, Cross, KeyLeft, KeyReading, ProductSpec
from colonnade.foundation.proven import proven
from colonnade.mechanism.blocks import IntegerNoise
from colonnade.mechanism.moments import Distribution

KEY_BITS = 100
"""Bits of a partner's keys that a cheating party has to leave, unless a policy says otherwise.

Nobody does 2^100 operations; the 128 that fresh keys start from would let no opened value tell anything.
"""
TOLD_BITS = 1000
"""Bits of a party's records that cheating partners may be told, in all sessions, unless a policy says otherwise.

Five sessions of twelve columns like Adult's tell 179 each; 800 columns at two parties are refused.
"""
HALF_LAPLACE = 0.706
"""Bits that half of a Laplace variable, the difference of two gamma variables of shape 1/2, has less than a whole."""

Bits = NDArray[np.float64]


@dataclass(frozen=True)
class Leakage:
    """What parties that cheat could read of one partner's columns in one session."""

    partner: str
    """Whose columns they are."""
    cheaters: tuple[str, ...]
    """Who cheats: the first, and as many more as may collude, those that learn most."""
    sealed: bool
    """Whether the partner seals its columns, and the cheaters multiply with theirs; else the other way round."""
    values: int
    """Opened values that speak of one column of the partner."""
    information: float
    """Bits that these tell of one column or of its key, at most; of the column that they tell most of."""
    key: KeyLeft
    """What they leave of that key, if all were spent on it."""

    def tell(self) -> str:
        """What could be read, in one sentence."""
        who, cheat = " and ".join(self.cheaters), "cheats" if len(self.cheaters) == 1 else "deviate together"
        return (
            f"if {who} {cheat}, the {self.values:,} opened values of a column of {self.partner} can tell up to "
            f"{self.key.coefficients:,} of the {self.key.coefficients + self.key.dimension:,} coefficients of its key"
        )

    def describe(self) -> dict[str, object]:
        """For a JSON object."""
        return {
            "columns_of": self.partner,
            "if_these_cheat": list(self.cheaters),
            "sealed": self.sealed,
            "opened_values_of_a_column": self.values,
            "bits_read_of_a_column": round(self.information, 1),
            "key_coefficients_read": self.key.coefficients,
            "key_dimension_left": self.key.dimension,
            "key_bits_left": self.key.bits,
        }


@dataclass(frozen=True)
class Telling:
    """How much of one party's records opened values could tell parties that cheat, every way counted together."""

    partner: str
    """Whose records they are."""
    cheaters: tuple[str, ...]
    """Who cheats: as many as may collude, those that learn most."""
    bits: float
    """Of one column: a yes or no of so many people."""

    @property
    def people(self) -> int:
        return ceil(self.bits)

    def describe(self) -> dict[str, object]:
        """For a JSON object."""
        return {"records_of": self.partner, "if_these_cheat": list(self.cheaters), "people": self.people}


@proven("key_reading")
def value_bits(noise: IntegerNoise, modulus_bits: float, alone: bool) -> Bits:
    """Bits that each opened value can tell, at most: those of a word less the entropy of the honest parties' noise.

    `alone` says that no party was expected to collude: then a cheater's own share of the noise is missing.

    Domain: noise: of all opened values.
    Unit: bits, one number for each value.
    Guarantee: no choice of messages tells more of keys and columns. Proof: key_reading, claim 1.
    """
    out = np.full(noise.size, float(modulus_bits))
    for spread, where in noise.spreads:
        out[where] -= _noise_entropy(noise.law, float(spread), alone)
    out[out < 0] = 0.0
    return out


def _noise_entropy(law: Distribution, spread: float, alone: bool) -> float:
    """Bits, at least; `alone` leaves K - 1 of K shares, which are half of the noise or more."""
    if law is Distribution.GAUSSIAN:
        return max(log2(2 * pi * e * spread * (0.5 if alone else 1.0)) / 2, 0.0)
    ratio = exp(-1 / spread)
    whole = log2((1 + ratio) / -expm1(-1 / spread)) - 2 * ratio / expm1(-2 / spread) / spread * log2(e)
    return max(whole - (HALF_LAPLACE if alone else 0.0), 0.0)


@proven("key_reading")
def exposures(spec: ProductSpec, noise: IntegerNoise, collusion: int, left: KeyReading) -> tuple[Leakage, ...]:
    """For each party and each partner that shares a product with it, what the partner could read of it.

    Domain: collusion: how many pool what they read; `left` estimates a key of which so much is read.
    Unit: bits and coefficients.
    Guarantee: no more coefficients of a key can be named. Proof: key_reading, claim 2.
    """
    bits = value_bits(noise, spec.modulus_bits, alone=collusion == 0)
    return _exposures(spec, bits, collusion, left)


@proven("key_reading")
def chain_exposures(chains: ChainSpec, noise: IntegerNoise, collusion: int, left: KeyReading) -> tuple[Leakage, ...]:
    """The same of the last products of chains, in which sealed shares stand for columns; `noise` is on their sums.

    Several holders' products add up to one opened value, which may tell all that it can of any of them.

    Domain: noise: on the sums of the last products; collusion: how many pool what they read.
    Unit: bits and coefficients.
    Guarantee: no more coefficients of a share's key can be named. Proof: key_reading, chains.
    """
    last = LastStep(chains)
    bits = value_bits(noise, chains.modulus_bits, alone=collusion == 0)
    return _exposures(last.product, bits[list(last.values)], collusion, left)


@proven("key_reading")
def tellings(
    spec: ProductSpec, bits: Bits, chains: ChainSpec | None, chain_bits: Bits, collusion: int
) -> tuple[Telling, ...]:
    """For each party what those that may collude could be told of one column of it, by all values together.

    A value of a chain may tell any of its owners all that it can of any other's column, whatever passes before.

    Domain: bits: what each opened value can tell; collusion: how many pool what they read.
    Unit: bits, one a person.
    Guarantee: of no more people can a yes or no of one column be told. Proof: key_reading, people.
    """
    between: dict[tuple[str, str], float] = {}
    for one in _told(spec, bits):
        for sealed in (True, False):
            pair = spec.parties[one.party(sealed)], spec.parties[one.partner(sealed)]
            between[pair] = between.get(pair, 0.0) + float(one.columns(sealed).max())
    start = 0
    for chain in () if chains is None else chains.chains:
        own = chain_bits[start : (start := start + len(chain.terms))]
        for place, owner in enumerate(chain.owners):
            most = float(np.bincount([term[place] for term in chain.terms], weights=own).max())
            for other in set(chain.owners) - {owner}:
                pair = spec.parties[owner], spec.parties[other]
                between[pair] = between.get(pair, 0.0) + most
    out = []
    for partner in (name for name in spec.parties if any(pair[0] == name for pair in between)):
        learnt = sorted(((told, other) for (name, other), told in between.items() if name == partner), reverse=True)
        most_told = learnt[: max(1, collusion)]
        out.append(Telling(partner, tuple(other for _, other in most_told), sum(told for told, _ in most_told)))
    return tuple(out)


def people_sentence(found: Sequence[Telling], rows: int) -> str:
    """The most people of whom a partner could read one thing exactly; empty where no values of two parties open."""
    if not found:
        return ""
    most = min(max(told.people for told in found), rows)
    return (
        f"A partner that breaks the protocol could read {people_told(most)}{'; it would leave evidence' * bool(most)}."
    )


def people_told(most: int) -> str:
    """Whose values, in words."""
    return (
        f"the exact values of up to {most:,} {'person' if most == 1 else 'people'}" if most else "nobody's exact values"
    )


def worst_of(found: Iterable[Leakage]) -> tuple[Leakage, ...]:
    """Of the same partner, cheaters and side the one that leaves the fewest bits: keys are not shared by products."""
    worst: dict[tuple[str, tuple[str, ...], bool], Leakage] = {}
    for one in found:
        key = one.partner, one.cheaters, one.sealed
        if key not in worst or one.key.bits < worst[key].key.bits:
            worst[key] = one
    return tuple(worst.values())


def _exposures(spec: ProductSpec, bits: Bits, collusion: int, left: KeyReading) -> tuple[Leakage, ...]:
    told = _told(spec, bits)
    out = []
    for me in range(len(spec.parties)):
        for sealed in (True, False):
            by = {t.partner(sealed): t for t in told if t.party(sealed) == me}
            bits_of = _aligned(by, sealed)
            for first in sorted(by):
                cheaters = _company(bits_of, first, max(1, collusion) - 1)
                information = float(np.sum([bits_of[k] for k in cheaters], axis=0).max())
                out.append(
                    Leakage(
                        spec.parties[me],
                        tuple(spec.parties[k] for k in cheaters),
                        sealed,
                        sum(by[k].opened(sealed) for k in cheaters),
                        information,
                        left(spec.modulus_bits, information, sealed),
                    )
                )
    return tuple(out)


def _told(spec: ProductSpec, bits: Bits) -> list[_Told]:
    """All crosses of two parties, in which the same one seals, as one: a value that is not opened tells nothing."""
    together: dict[tuple[int, int], list[tuple[Cross, Bits]]] = {}
    ends = np.cumsum([0, *(c.shape[0] * c.shape[1] for c in spec.crosses)])
    for cross, (start, stop) in zip(spec.crosses, pairwise(ends), strict=True):
        together.setdefault((cross.left, cross.right), []).append((cross, bits[start:stop].reshape(cross.shape)))
    out = []
    for (left, right), parts in together.items():
        rows = min(c.left_start for c, _ in parts), max(c.left_stop for c, _ in parts)
        columns = min(c.right_start for c, _ in parts), max(c.right_stop for c, _ in parts)
        hull = Cross(left, right, *rows, *columns)
        told, opened = np.zeros(hull.shape), np.zeros(hull.shape, dtype=bool)
        for c, own in parts:
            at = np.s_[
                c.left_start - rows[0] : c.left_stop - rows[0], c.right_start - columns[0] : c.right_stop - columns[0]
            ]
            told[at], opened[at] = own, True
        out.append(_Told(hull, told, opened))
    return out


@dataclass(frozen=True)
class _Told:
    """The bits of a cross's opened values; `sealed` asks for the side that seals."""

    cross: Cross
    bits: Bits
    open: NDArray[np.bool_]

    def opened(self, sealed: bool) -> int:
        """The most opened values of one column of that side."""
        return int(self.open.sum(axis=1 if sealed else 0).max())

    def party(self, sealed: bool) -> int:
        return self.cross.left if sealed else self.cross.right

    def partner(self, sealed: bool) -> int:
        return self.cross.right if sealed else self.cross.left

    def columns(self, sealed: bool) -> Bits:
        """Bits of each column of that side."""
        summed: Bits = self.bits.sum(axis=1 if sealed else 0)
        return summed

    def start(self, sealed: bool) -> int:
        return self.cross.left_start if sealed else self.cross.right_start


def _aligned(told: Mapping[int, _Told], sealed: bool) -> dict[int, Bits]:
    """Bits of each column of one party, by all these partners: one key of a column serves all products."""
    width = max((t.start(sealed) + len(t.columns(sealed)) for t in told.values()), default=0)
    out = {}
    for k, t in told.items():
        out[k] = np.zeros(width)
        out[k][t.start(sealed) : t.start(sealed) + len(t.columns(sealed))] = t.columns(sealed)
    return out


def _company(bits_of: Mapping[int, Bits], first: int, more: int) -> tuple[int, ...]:
    """A cheater, with as many others, so that together they learn most of one column."""
    others = [k for k in bits_of if k != first]
    if not more or not others:
        return (first,)
    each = np.array([bits_of[k] for k in others])
    column = int((bits_of[first] + np.sort(each, axis=0)[-more:].sum(axis=0)).argmax())
    return (first, *sorted(others, key=lambda k: -bits_of[k][column])[:more])


def most_values(exposure: Leakage, modulus_bits: int, wanted: int, left: KeyReading) -> int:
    """How many opened values of a column would leave that many bits of its key, if each told as much as now."""
    low, high = 0, exposure.values
    while low < high:
        values = (low + high + 1) // 2
        information = exposure.information * values / exposure.values
        enough = left(modulus_bits, information, exposure.sealed).bits >= wanted
        low, high = (values, high) if enough else (low, values - 1)
    return low

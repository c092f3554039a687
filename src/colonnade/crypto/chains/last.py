"""The last step of chains as a product of two owners: each holder's shares against the last owner's columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from colonnade.crypto.chains.stages import Prefix, Shares, prefixes
from colonnade.crypto.product import ChainSpec, Cross, ProductSpec, Words
from colonnade.foundation.randomness import derive


@dataclass(frozen=True)
class LastStep:
    """Where each share stands among its holder's, and which crosses add up to which sum."""

    spec: ChainSpec

    @cached_property
    def held(self) -> tuple[tuple[tuple[int, Prefix], ...], ...]:
        """For each party the shares that it brings, by chain and prefix."""
        out: list[list[tuple[int, Prefix]]] = [[] for _ in self.spec.parties]
        for number, chain in enumerate(self.spec.chains):
            found = [(number, prefix) for prefix in prefixes(chain, len(chain.owners) - 1)]
            for holder in chain.holders:
                out[holder] += found
        return tuple(tuple(own) for own in out)

    @cached_property
    def _crosses(self) -> dict[Cross, int]:
        """Every cross with the sum that it is a part of."""
        places = [{key: i for i, key in enumerate(own)} for own in self.held]
        out: dict[Cross, int] = {}
        value = 0
        for number, chain in enumerate(self.spec.chains):
            for term in chain.terms:
                for holder in chain.holders:
                    share = places[holder][number, term[:-1]]
                    column = term[-1]
                    out[Cross(holder, chain.owners[-1], share, share + 1, column, column + 1)] = value
                value += 1
        return out

    @property
    def values(self) -> tuple[int, ...]:
        """For each cross of the product the sum that it is a part of."""
        return tuple(self._crosses.values())

    @cached_property
    def product(self) -> ProductSpec:
        """The product of two owners; what is sealed has its gain already."""
        bits = self.spec.modulus_bits
        return ProductSpec(
            derive(self.spec.session, "chains"),
            self.spec.parties,
            self.spec.rows,
            self.spec.bound,
            tuple(self._crosses),
            bits,
            1,
            (1 << (bits - 1)) - 1,
        )

    def words(self, me: int, shares: Shares) -> Words:
        """A party's shares times their gains, one column each."""
        out = np.empty((self.spec.rows, len(self.held[me])), np.uint64)
        mask = np.uint64((1 << self.spec.modulus_bits) - 1)
        for column, key in zip(out.T, self.held[me], strict=True):
            column[:] = shares[key] * np.uint64(self.spec.gains[key[0]]) & mask
        return out

    def sums(self, crosses: Words) -> Words:
        """A party's part of each sum, from its parts of the crosses."""
        out = np.zeros(self.spec.values, np.uint64)
        np.add.at(out, np.array(list(self._crosses.values()), dtype=np.int64), crosses)
        return out

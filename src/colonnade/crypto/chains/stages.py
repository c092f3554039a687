"""Which shares a chain of owners has after each stage, what both its products agree on, and the checks of its inputs.

Stage 0: the first owner holds its columns. At stage j owner j multiplies what the owners before it share; then all of
them, j + 1 parties, share the product. The last owner's product is a sum over records, and is opened with noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.frames import LARGEST_ENTRY, SESSION_BYTES, check_columns
from colonnade.crypto.product import Chain, ChainSpec, Integers, Words
from colonnade.foundation.errors import ProductError
from colonnade.foundation.integers import IntegerColumns

Prefix = tuple[int, ...]
"""Columns of the first owners of a chain."""
Shares = dict[tuple[int, Prefix], Words]
"""By chain and prefix, one word for each record."""

ROWS_AT_ONCE = 1 << 12  # rows that are copied at once stay in a cache


@dataclass(frozen=True)
class Meeting:
    """One holder of shares and one owner at one stage of one chain: the owner's columns, and what each multiplies."""

    chain: int
    stage: int
    holder: int
    owner: int
    wanted: tuple[tuple[int, tuple[Prefix, ...]], ...]
    """For each column of the owner the holder's prefixes that it multiplies."""

    @property
    def words(self) -> int:
        """Products a record."""
        return sum(len(prefixes) for _, prefixes in self.wanted)


def prefixes(chain: Chain, length: int) -> tuple[Prefix, ...]:
    """The distinct beginnings of a chain's terms, in their order."""
    return tuple(dict.fromkeys(term[:length] for term in chain.terms))


def stages(spec: ChainSpec) -> int:
    """How many times shares are multiplied before the last owner's product."""
    return max((len(chain.owners) - 2 for chain in spec.chains), default=0)


def meetings(spec: ChainSpec, stage: int) -> Iterator[Meeting]:
    """All meetings of a stage, 1, 2, ..., in one order for all sides."""
    for number, chain in enumerate(spec.chains):
        if stage > len(chain.owners) - 2:
            continue
        wanted: dict[int, list[Prefix]] = {}
        for prefix in prefixes(chain, stage + 1):
            wanted.setdefault(prefix[-1], []).append(prefix[:-1])
        columns = tuple((column, tuple(found)) for column, found in wanted.items())
        for holder in chain.owners[:stage]:
            yield Meeting(number, stage, holder, chain.owners[stage], columns)


def check_chains(spec: ChainSpec, me: int, columns: IntegerColumns, noise: Integers) -> None:
    """Refuse what no product could run."""
    if len(spec.session) != SESSION_BYTES:
        raise ProductError(f"a session id must have {SESSION_BYTES} bytes, got {len(spec.session)}")
    check_columns(spec, me, columns)
    if not 1 <= spec.bound <= LARGEST_ENTRY or spec.rows < 1 or not 1 <= spec.modulus_bits <= 64:
        raise ProductError(
            f"rows, bound and modulus must fit a product, got rows={spec.rows}, bound={spec.bound}, "
            f"modulus_bits={spec.modulus_bits}"
        )
    if len(spec.gains) != len(spec.chains):
        raise ProductError(f"every chain needs a gain, got {len(spec.gains)} for {len(spec.chains)}")
    for chain, gain in zip(spec.chains, spec.gains, strict=True):
        if gain < 1 or gain & (gain - 1) or gain >> (spec.modulus_bits - 1):
            raise ProductError(f"the gain of a chain must be a power of two under half the modulus, got gain={gain}")
        owners = chain.owners
        if len(owners) < 3 or len(set(owners)) < len(owners) or not all(0 <= o < len(spec.parties) for o in owners):
            raise ProductError(f"a chain must have three or more different parties, got {owners}")
        if not chain.terms or len(set(chain.terms)) < len(chain.terms):
            raise ProductError("a chain must have terms, each once")
        for term in chain.terms:
            if len(term) != len(owners) or min(term) < 0:
                raise ProductError(f"a term must have one column of each of {len(owners)} owners, got {term}")
            if me in owners and term[owners.index(me)] >= columns.shape[1]:
                raise ProductError(f"party {spec.parties[me]} must have a column {term[owners.index(me)]}, it has none")
    if noise.shape != (spec.values,):
        raise ProductError(f"party {spec.parties[me]} must bring {spec.values} noise shares, got {noise.shape}")


def column_words(columns: IntegerColumns, places: Sequence[int]) -> dict[int, Words]:
    """Whole columns as words modulo 2^64."""
    out = {place: np.empty(columns.shape[0], np.int64) for place in places}
    for start in range(0, columns.shape[0], ROWS_AT_ONCE):
        rows: NDArray[np.int16] = columns.rows(start, min(columns.shape[0], start + ROWS_AT_ONCE))
        for place, column in out.items():
            column[start : start + len(rows)] = rows[:, place]
    return {place: column.view(np.uint64) for place, column in out.items()}

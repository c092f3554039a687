"""Bits of a key by trying everything, and words of products of three owners filled to the last."""

from __future__ import annotations

from math import ceil, e, log, log2, pi, sqrt

import numpy as np
import pytest
from scipy.special import gammaln

from colonnade.crypto.alignment.code import byte_sums
from colonnade.crypto.lattice.parameters import chain_gain
from colonnade.crypto.lattice.security import _reduction_bits, key_bits


def test_a_product_of_three_owners_fills_its_words() -> None:
    """Errors reach 2 (100 2047 7 + 2048 9 15 + 8190) = 3,435,140; gain times span stays that far below 2^41."""
    own, error = 100 * 2047**3, 3_435_140
    for gain in (1, 2, 4):
        most = (2**41 - error) // gain - own
        assert (2**41 - error) % gain == 0
        assert chain_gain(3, 100, 2047, 1e10, most - 1, 42) == gain
        assert chain_gain(3, 100, 2047, 1e10, most, 42) == (gain // 2 or None)


def test_bits_of_a_reduction() -> None:
    """2 log2 of the sum of a geometric series, log2 of the sieves, and a line; small sieves save no dimensions."""
    line, start = 0.29613500308205365, 20.387885985467914
    series = 2 * -log2(1 - 2**-line)
    assert _reduction_bits(17, 17) == pytest.approx(series + 17 * line + start, rel=1e-12)
    for block, rank in ((18, 18), (30, 31), (300, 1300)):
        kept = block - block * log(4 / 3) / log(block / (2 * pi * e))
        known = series + log2(max(rank - block, 1)) + kept * line + start
        assert _reduction_bits(block, rank) == pytest.approx(known, rel=1e-12)


def ways(block: int, dimension: int, modulus_bits: int, secret: float, error: float) -> float:
    """log2 of the cost of one block size: docs/secure-product.md's estimate, the projection found by trying all."""
    slope = (log(block / (2 * pi * e)) + log(pi * block) / block) / (2 * (block - 1))
    modulus, scale = modulus_bits * log(2), log(max(error / secret, 1.0))
    rank = max(block, ceil(sqrt(dimension * (modulus - scale) / slope)))
    volume = (rank - dimension) * modulus + dimension * scale
    left = np.arange(1, rank + 1)
    ball = (left + 1) / 2 * log(pi) - gammaln((left + 1) / 2 + 1)
    shortest = (left / rank * volume - (rank - left) * left * slope + log(error) - ball) / (left + 1)
    shown = left[shortest >= log(error) + np.log(left + 1) / 2]
    per_dimension, start = 0.29613500308205365, 20.387885985467914

    def sieves(size: int, count: int) -> float:
        saved = max(size * log(4 / 3) / log(size / (2 * pi * e)), 0.0) if size > 2 * pi * e else 0.0
        return -2 * log2(1 - 2**-per_dimension) + log2(max(count - size, 1)) + per_dimension * (size - saved) + start

    if not shown.size:
        return float("inf")
    return float(np.logaddexp2(sieves(block, rank), sieves(int(shown[0]) + 1, int(shown[0]) + 1)))


@pytest.mark.parametrize(
    ("dimension", "modulus_bits", "secret", "error"),
    [(2048, 40, 1.0, 3.24), (2048, 51, 0.7, 2.3), (600, 20, 1.0, 3.0), (300, 12, 2.0, 1.5), (100, 8, 1.0, 2.0)],
)
def test_bits_of_a_key_by_trying_every_block_size(
    dimension: int, modulus_bits: int, secret: float, error: float
) -> None:
    best = min(ways(block, dimension, modulus_bits, secret, error) for block in range(40, 800))
    margin = max(5.3 - 4.3 * secret, 1.0)
    assert key_bits(dimension, modulus_bits, secret, error) == pytest.approx(max(best - margin, 0.0), rel=1e-9)


def test_bits_beyond_a_message_stand_for_nothing() -> None:
    """The last of 11 bytes has 5 bits of 85."""
    last = byte_sums()[-1]
    assert all((last[byte] == last[byte % 32]).all() for byte in range(256))
    assert len({tuple(row) for row in last.tolist()}) == 32

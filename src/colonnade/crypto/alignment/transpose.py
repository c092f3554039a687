"""Bit matrices turned round: columns of many bits to rows of few, and back."""

from __future__ import annotations

import numpy as np

from colonnade.crypto.product import Words

_SWAPS = ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))


def turn_squares(words: Words) -> None:
    """Transpose, in place, each word as a square of eight by eight bits, byte r being row r."""
    for shift, mask in _SWAPS:
        part = words >> np.uint64(shift)
        part ^= words
        part &= np.uint64(mask)
        words ^= part
        part <<= np.uint64(shift)
        words ^= part


def rows_of(columns: Words) -> Words:
    """(c columns of w words) to (64 w rows of c / 64 words): bit r of column j becomes bit j of row r."""
    count, width = columns.shape
    by_bytes = columns.view(np.uint8).reshape(count // 8, 8, 8 * width)
    squares = np.ascontiguousarray(by_bytes.transpose(2, 0, 1)).view(np.uint64).reshape(8 * width, count // 8)
    turn_squares(squares)
    turned = squares.view(np.uint8).reshape(8 * width, count // 8, 8).transpose(0, 2, 1)
    return np.ascontiguousarray(turned).view(np.uint64).reshape(64 * width, count // 64)


def columns_of(rows: Words, count: int) -> Words:
    """The first `count` columns, a multiple of 8, of a number of rows that is a multiple of 64."""
    height = len(rows)
    by_bytes = rows.view(np.uint8).reshape(height // 8, 8, -1)[:, :, : count // 8]
    squares = np.ascontiguousarray(by_bytes.transpose(0, 2, 1)).view(np.uint64)[:, :, 0]
    turn_squares(squares)
    turned = squares.view(np.uint8).reshape(height // 8, count // 8, 8).transpose(1, 2, 0)
    return np.ascontiguousarray(turned).reshape(count, height // 8).view(np.uint64)

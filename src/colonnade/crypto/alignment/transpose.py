"""Bit matrices turned round: columns of many bits to rows of few, and back."""

from __future__ import annotations

import numpy as np

from colonnade.crypto.product import Words

_BLOCK = 64  # words of a column that are turned at once, while a cache holds them
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
    out = np.empty((64 * width, count // 64), np.uint64)
    for start in range(0, width, _BLOCK):
        part = np.ascontiguousarray(columns[:, start : start + _BLOCK])
        by_bytes = part.view(np.uint8).reshape(count // 8, 8, -1)
        squares = np.ascontiguousarray(by_bytes.transpose(2, 0, 1)).view(np.uint64).reshape(-1, count // 8)
        turn_squares(squares)
        turned = squares.view(np.uint8).reshape(-1, count // 8, 8).transpose(0, 2, 1)
        goal = out[64 * start : 64 * (start + _BLOCK)].view(np.uint8).reshape(-1, 8, count // 8)
        goal[:] = turned
    return out


def columns_of(rows: Words, count: int) -> Words:
    """The first `count` columns, a multiple of 8, of a number of rows that is a multiple of 64."""
    height = len(rows)
    by_bytes = rows.view(np.uint8).reshape(height // 8, 8, -1)[:, :, : count // 8]
    squares = np.ascontiguousarray(by_bytes.transpose(0, 2, 1)).view(np.uint64)[:, :, 0]
    turn_squares(squares)
    turned = squares.view(np.uint8).reshape(height // 8, count // 8, 8).transpose(1, 2, 0)
    return np.ascontiguousarray(turned).reshape(count, height // 8).view(np.uint64)

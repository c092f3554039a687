"""Points that fill the unit cube evenly (Sobol' 1967), without a random draw.

The first dimensions are made here, for scipy.stats takes longer to import than many studies take to solve.
Their primitive polynomials and initial direction numbers are those of Joe & Kuo (2008, new-joe-kuo-6.21201).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BITS = 30
# For each dimension from the second on: the polynomial's coefficients as bits, and its initial numbers.
_TABLE = """
    3: 1; 7: 1 3; 11: 1 3 1; 13: 1 1 1; 19: 1 1 3 3; 25: 1 3 5 13; 37: 1 1 5 5 17; 41: 1 1 5 5 5; 47: 1 1 7 11
    19; 55: 1 1 5 1 1; 59: 1 1 1 3 11; 61: 1 3 5 5 31; 67: 1 3 3 9 7 49; 91: 1 1 1 15 21 21; 97: 1 3 1 13 27 49;
    103: 1 1 1 15 7 5; 109: 1 3 1 15 13 25; 115: 1 1 5 5 19 61; 131: 1 3 7 11 23 15 103; 137: 1 3 7 13 13 15 69;
    143: 1 1 3 13 7 35 63; 145: 1 3 5 9 1 25 53; 157: 1 3 1 13 9 35 107; 167: 1 3 1 5 27 61 31; 171: 1 1 5 11 19
    41 61; 185: 1 3 5 3 3 13 69; 191: 1 1 7 13 1 19 1; 193: 1 3 7 5 13 19 59; 203: 1 1 3 9 25 29 41; 211: 1 3 5
    13 23 1 55; 213: 1 3 7 3 13 59 17; 229: 1 3 1 3 5 53 69; 239: 1 1 5 5 23 33 13; 241: 1 1 7 7 1 61 123; 247:
    1 1 7 9 13 61 49; 253: 1 3 3 5 3 55 33; 285: 1 3 1 15 31 13 49 245; 299: 1 3 5 15 31 59 63 97; 301: 1 3 1 11
    11 11 77 249; 333: 1 3 1 11 27 43 71 9; 351: 1 1 7 15 21 11 81 45; 355: 1 3 7 3 25 31 65 79; 357: 1 3 1 1 19
    11 3 205; 361: 1 1 5 9 19 21 29 157; 369: 1 3 7 11 1 33 89 185; 391: 1 3 3 3 15 9 79 71; 397: 1 3 7 11 15 39
    119 27; 425: 1 1 3 1 11 31 97 225; 451: 1 1 1 3 23 43 57 177; 463: 1 3 7 7 17 17 37 71; 487: 1 3 1 5 27 63
    123 213; 501: 1 1 3 5 11 43 53 133; 529: 1 3 5 5 29 17 47 173 479; 539: 1 3 3 11 3 1 109 9 69; 545: 1 1 1 5
    17 39 23 5 343; 557: 1 3 1 5 25 15 31 103 499; 563: 1 1 1 11 11 17 63 105 183; 601: 1 1 5 11 9 29 97 231
    363; 607: 1 1 5 15 19 45 41 7 383; 617: 1 3 7 7 31 19 83 137 221; 623: 1 1 1 3 23 15 111 223 83; 631: 1 1 5
    13 31 15 55 25 161; 637: 1 1 3 13 25 47 39 87 257
"""
DIMENSIONS = 1 + _TABLE.count(":")
"""How many dimensions are made here."""


def sobol_points(rows: int, columns: int) -> Floats:
    """The first `rows` points of the unscrambled sequence, in the order of the Gray code."""
    if columns > DIMENSIONS:
        from scipy.stats.qmc import Sobol

        far: Floats = Sobol(columns, scramble=False).random_base2(_exponent(rows))[:rows]
        return far
    directions = _directions(columns)
    points = np.zeros((1 << _exponent(rows), columns), dtype=np.int64)
    for bit in range(_exponent(rows)):
        half = 1 << bit
        # The Gray code of the second half is that of the first, backwards, with one more bit.
        points[half : 2 * half] = points[half - 1 :: -1] ^ directions[bit]
    return np.ldexp(points[:rows].astype(np.float64), -BITS)


def _exponent(rows: int) -> int:
    return int(np.ceil(np.log2(rows)))


def _directions(columns: int) -> NDArray[np.int64]:
    """Direction numbers, a row for each bit and a column for each dimension."""
    out = np.zeros((BITS, columns), dtype=np.int64)
    out[:, 0] = 1 << np.arange(BITS - 1, -1, -1)
    for column, entry in enumerate(_TABLE.split(";")[: columns - 1], 1):
        polynomial, initial = entry.split(":")
        coefficients = int(polynomial)
        degree = coefficients.bit_length() - 1
        numbers = [int(m) << (BITS - 1 - j) for j, m in enumerate(initial.split())]
        for j in range(degree, BITS):
            number = numbers[j - degree] ^ (numbers[j - degree] >> degree)
            for back in range(1, degree):
                if coefficients >> (degree - back) & 1:
                    number ^= numbers[j - back]
            numbers.append(number)
        out[:, column] = numbers
    return out

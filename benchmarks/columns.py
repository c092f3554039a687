"""Given integers as columns that products take: in memory, and through the same gate as coded records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.data.store import MemoryRows
from colonnade.foundation.integers import CodedBlock, CodedShape, IntegerColumns


def resident(values: NDArray[np.int16], bound: int | None = None) -> IntegerColumns:
    """Columns that lie in memory; the bound is that of the largest entry if none is given."""
    rows, width = values.shape
    bound = max(1, int(np.abs(values.astype(np.int32)).max(initial=0))) if bound is None else bound
    whole = np.full((rows, width + 1), float(bound))
    whole[:, 1:] = values
    block = CodedBlock(values.astype(np.int16, copy=False), whole.T @ whole, np.zeros(width))
    return IntegerColumns.of_blocks(CodedShape(bound, width), [block], MemoryRows(rows, width))

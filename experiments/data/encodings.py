"""From raw columns to the matrix that the baselines see, and the splits that every table uses."""

from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from colonnade.foundation.errors import SchemaError, StudyError
from colonnade.foundation.schema import Column, Numeric, column_from
from experiments.data.dataset import Dataset

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
SPLIT_SEED = 41_000
TRAIN_SHARE = 0.8


def encode(dataset: Dataset) -> tuple[Matrix, Vector, list[str]]:
    """Features in [-1, 1] (numbers) or {0, 1} (indicators, first level dropped), the label, the features' names.

    The label is 0 or 1 for a logistic task and lies in [-1, 1] for a linear one. The intercept is not a feature.
    """
    widths = [_width(column_from(name, dataset.columns[name])) for name in dataset.features]
    X = np.empty((dataset.frame.height, sum(widths)))
    names: list[str] = []
    for name in dataset.features:
        block, block_names = _encode_column(name, dataset.columns[name], dataset.frame[name])
        X[:, len(names) : len(names) + len(block_names)] = block
        names.extend(block_names)
    y, _ = _encode_column(dataset.label, dataset.columns[dataset.label], dataset.frame[dataset.label])
    return X, y[:, 0], names


def attribute_of(dataset: Dataset) -> list[str]:
    """The attribute that each encoded feature comes from."""
    owners: list[str] = []
    for name in dataset.features:
        owners.extend([name] * _width(column_from(name, dataset.columns[name])))
    return owners


def split(n: int, replicate: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Train and test rows of a replicate, 80 to 20, the same for every method."""
    order = np.random.default_rng([SPLIT_SEED, replicate]).permutation(n)
    cut = round(TRAIN_SHARE * n)
    return np.sort(order[:cut]), np.sort(order[cut:])


def partition(features: list[str], K: int) -> list[list[str]]:
    """Deal attributes to K parties in runs of nearly equal length, keeping their order."""
    if not 1 <= K <= len(features):
        raise StudyError(f"K must lie between 1 and the number of attributes {len(features)}, got K={K}")
    bounds = np.linspace(0, len(features), K + 1).round().astype(int)
    return [features[a:b] for a, b in pairwise(bounds.tolist())]


def _encode_column(name: str, declared: dict[str, object], values: pl.Series) -> tuple[Matrix, list[str]]:
    column = column_from(name, declared)
    if isinstance(column, Numeric):
        numbers = values.cast(pl.Float64).to_numpy()
        if not column.bins:
            return column.signed(numbers)[:, None], [name]
        codes, levels = column.codes(numbers), column.coordinates(name)
    else:
        index = {level: i for i, level in enumerate(column.all_levels)}
        unknown = set(values.cast(pl.String).unique()) - set(index)
        if unknown:
            raise SchemaError(f"column {name}: level {min(unknown)!r} is not among the declared levels {list(index)}")
        codes = values.cast(pl.String).replace_strict(index, return_dtype=pl.Int32).to_numpy()
        levels = tuple(f"{name}={level}" for level in column.all_levels)
    indicators = codes[:, None] == np.arange(1, len(levels))
    return indicators.astype(np.float64), list(levels[1:])


def _width(column: Column) -> int:
    if isinstance(column, Numeric):
        return max(1, len(column.bins))
    return len(column.all_levels) - 1

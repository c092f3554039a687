"""Data sets with public schemas, their encoding, splits and partitions."""

from experiments.data.adult import adult_41, adult_77, adult_hours
from experiments.data.cps import cps_wages
from experiments.data.dataset import Dataset
from experiments.data.dutch import dutch_36
from experiments.data.encodings import attribute_of, encode, partition, split
from experiments.data.ipums import ipums_income
from experiments.data.synthetic import synthetic, synthetic_arrays

__all__ = [
    "Dataset",
    "adult_41",
    "adult_77",
    "adult_hours",
    "attribute_of",
    "cps_wages",
    "dutch_36",
    "encode",
    "ipums_income",
    "partition",
    "split",
    "synthetic",
    "synthetic_arrays",
]

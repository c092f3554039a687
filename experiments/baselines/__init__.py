"""What others do with the same data, each with its privacy accounting; weights belong to the columns of X as given."""

from experiments.baselines import (
    accounting,
    adassp,
    block_frank_wolfe,
    diffprivlib_models,
    frank_wolfe,
    functional,
    nonprivate,
    private_sgd,
    scores,
)

__all__ = [
    "accounting",
    "adassp",
    "block_frank_wolfe",
    "diffprivlib_models",
    "frank_wolfe",
    "functional",
    "nonprivate",
    "private_sgd",
    "scores",
]

"""How many ids of random tables cannot be peeled and are left to the dense slots, over table sizes.

python benchmarks/alignment_tables.py --effort 1
"""

from __future__ import annotations

import argparse
import json

import numpy as np

from colonnade.crypto.alignment.kernels import AlignmentKernels
from colonnade.crypto.alignment.oblivious import segment_of
from colonnade.foundation.randomness import Randomness


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--effort", type=float, default=1, help="1 takes about 16 s of CPU")
    effort = parser.parse_args().effort
    randomness = Randomness(seed=b"alignment tables")
    for ids in (1, 10, 30, 60, 100, 200, 400, 800, 1600, 5000, 20_000, 100_000):
        segment = segment_of(ids)
        trials = int(effort * min(20_000, 2_000_000 // ids)) + 5
        rests = []
        for _ in range(trials):
            slots = (randomness.words(3 * ids).reshape(ids, 3) % segment).astype(np.int64)
            rests.append(len(AlignmentKernels().peel(slots + segment * np.arange(3), 3 * segment).rest))
        share = sum(rest > 0 for rest in rests) / trials
        print(json.dumps({"ids": ids, "tables": trials, "with_a_rest": round(share, 5), "largest_rest": max(rests)}))


if __name__ == "__main__":
    main()

"""What an opening that everyone can check costs: CPU of all sides for the added work, and bytes, by parties and words.

    python -m benchmarks.opening [--json] [--cases wide,demo,narrow] [--seed 1]

Each party hashes what it hands in, the server hashes and sends all of it to everybody, and each party hashes and adds
all of it up. Signatures are a few milliseconds each and not counted; TLS is not either.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

from colonnade.protocol.coins import hashed
from colonnade.protocol.messages import Envelope, Handed, Step, body_of, encode_body, in_pieces
from colonnade.protocol.signatures import SUBMISSION
from colonnade.protocol.submissions import Masked, Submissions, submission

BITS = 40
CASES: dict[str, tuple[int, tuple[int, ...]]] = {
    # Words of one submission: all products of the columns, their sums and the number of records.
    "wide": (322_001, (2, 4, 8)),
    "demo": (406, (2, 3, 8)),
    "narrow": (8_385, (64,)),
}
"""800 columns; 27 coordinates; 128 columns at 64 parties."""


def measured(words: int, parties: int, seed: int) -> dict[str, Any]:
    """CPU seconds of the server and of one party, and the bytes that pass."""
    rng = np.random.default_rng(seed)
    names = [f"p{k}" for k in range(parties)]
    made = {name: submission(Masked(rng.integers(0, 1 << BITS, words, dtype=np.uint64), b"")) for name in names}
    began = time.process_time()
    digests = {name: hashed(SUBMISSION, *bodies) for name, bodies in made.items()}
    signed = (time.process_time() - began) / parties
    wholes = {name: b"".join(bytes(b) for b in bodies) for name, bodies in made.items()}
    began = time.process_time()
    for whole in wholes.values():
        hashed(SUBMISSION, *in_pieces(whole))
    compared = time.process_time() - began
    began, sent = time.process_time(), []
    for name, bodies in made.items():
        for body in bodies:
            sent.append(Envelope(b"s" * 32, "d" * 64, "", name, Step.HANDED, encode_body(Handed(name, body))).encode())
    shown = (time.process_time() - began) * parties
    adds = Submissions(digests, words, BITS)
    began = time.process_time()
    for data in sent:
        adds.add(body_of(Envelope.decode(data), Handed))
    adds.total()
    added = time.process_time() - began
    each = sum(map(len, sent))
    return {
        "parties": parties,
        "words": words,
        "server_cpu_s": compared + shown,
        "party_cpu_s": signed + added,
        "all_cpu_s": compared + shown + parties * (signed + added),
        "bytes_to_a_party": each,
        "bytes_through_the_server": each * parties,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = {
        f"{case}, {parties} parties": measured(words, parties, options.seed)
        for case in options.cases.split(",")
        for words, counts in [CASES[case]]
        for parties in counts
    }
    if options.json:
        print(json.dumps(found, indent=1))
        return 0
    for name, row in found.items():
        print(
            f"{name}: {row['all_cpu_s']:.3f} CPU s of all sides, {row['party_cpu_s']:.3f} a party, "
            f"{row['bytes_to_a_party'] / 1e6:.2f} MB to each, {row['bytes_through_the_server'] / 1e6:.1f} MB in all"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())

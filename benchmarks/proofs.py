"""What proofs of bounds cost: CPU seconds and bytes of all parties together, beside the same product without them.

    python -m benchmarks.proofs [--cases "1000" "demo"] [--json]

Each measurement is a process of its own, with one thread for linear algebra. `demo` is `colonnade fit` of the demo's
study, whole; the other cases are the rounds of a session's product, planned as a session is, on columns drawn at
random. With `COLONNADE_NO_NUMBA=1` numpy works alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CASES: dict[str, tuple[int, float, int, int]] = {
    "1000": (1_000, 1.0, 10, 5),
    "10000": (10_000, 1.0, 10, 5),
    "80000 x 100 levels": (80_000, 1.0, 100, 0),
    "100000": (100_000, 1.0, 4, 0),
    "1000000": (1_000_000, 1.0, 4, 0),
}
"""Records, epsilon, and each of two parties' columns: levels of one, and numbers; the first has a binary label."""
DEMO = "demo"


def product_case(name: str, proofs: bool) -> dict[str, Any]:
    """The rounds of one product between two parties."""
    import numpy as np

    from benchmarks.columns import resident
    from colonnade.crypto.backends import proven_party
    from colonnade.crypto.product import GroupKind, PartyProduct
    from colonnade.foundation.randomness import Randomness
    from colonnade.foundation.schema import Binary, Categorical, Column, Numeric, Schema
    from colonnade.mechanism.objective import Task
    from colonnade.planning.agreement import REQUIRED, Agreement
    from colonnade.planning.crosses import party_product
    from colonnade.planning.proofs import committed_bits, proved_groups
    from colonnade.planning.session_plan import plan_session

    rows, epsilon, levels, numbers = CASES[name]
    columns: dict[str, dict[str, Column]] = {}
    for party in ("a", "b"):
        columns[party] = {f"{party}{i}": Numeric(0, 1) for i in range(numbers)}
        columns[party][f"{party}c"] = Categorical(tuple(map(str, range(levels))))
    columns["a"]["y"] = Binary(("no", "yes"))
    agreement = Agreement.from_terms(
        "cost", Schema(columns), "a.y", Task.LOGISTIC, epsilon=epsilon, release="full",
        proofs=REQUIRED if proofs else "",
    )  # fmt: skip
    session = plan_session(agreement, rows, bytes(32))
    spec, draw = session.spec, np.random.default_rng(1)
    found = party_product("lattice", "cpu", None if os.environ.get("COLONNADE_NO_NUMBA") else spec)
    kind = proven_party(found) if proofs else found
    parties: list[PartyProduct] = []
    for me, own in enumerate(proved_groups(agreement, session.plan.layout)):
        parts = []
        for group in own:
            if group.kind is GroupKind.NUMBER:
                parts.append(draw.integers(-spec.bound, spec.bound + 1, (rows, 1)).astype(np.int16))
            else:
                level = draw.integers(0, group.size, rows)
                parts.append((spec.bound * (level[:, None] == np.arange(group.size))).astype(np.int16))
        noise = {cross: np.zeros(cross.shape, np.int64) for cross in spec.crosses}
        parties.append(kind(spec, me, resident(np.concatenate(parts, axis=1), spec.bound), noise, Randomness()))
    begun, sent = time.process_time(), 0
    for round in kind.rounds:
        for name_of, party in zip(spec.parties, parties, strict=True):
            for parcel in party.send(round):
                sent += len(parcel.payload)
                parties[spec.parties.index(parcel.recipient)].receive(round, name_of, parcel.payload)
    for party in parties:
        party.contribute()
    seconds, bits = time.process_time() - begun, max(committed_bits(spec).values(), default=0)
    return {"seconds": round_to(seconds), "megabytes": round_to(sent / 1e6), "bits": bits, "words": spec.modulus_bits}


def demo_case(proofs: bool) -> dict[str, Any]:
    """A whole fit of the demo, ids matched."""
    from colonnade.runs import fit
    from colonnade.study import read_study

    with tempfile.TemporaryDirectory() as place:
        text = (
            (ROOT / "tests" / "studies" / "income" / "study.toml")
            .read_text(encoding="utf-8")
            .replace("../../../demo/", "")
        )
        if proofs:
            text = text.replace("[study]\n", '[study]\nproofs = "required"\n', 1)
        for file in (ROOT / "demo").glob("*.csv"):
            (Path(place) / file.name).symlink_to(file)
        (Path(place) / "study.toml").write_text(text, encoding="utf-8")
        study, begun = read_study(Path(place) / "study.toml"), time.process_time()
        outcome = fit(study).outcome
        seconds, traffic = time.process_time() - begun, outcome.traffic
    return {
        "seconds": round_to(seconds),
        "megabytes": round_to(sum(traffic.sent.values()) / 1e6),
        "words": outcome.session.spec.modulus_bits,
    }


def round_to(value: float) -> float:
    """Three figures."""
    return float(f"{value:.3g}")


def measured(name: str, proofs: bool) -> dict[str, Any]:
    """One case in a process of its own, with its peak of memory."""
    command = [sys.executable, "-m", "benchmarks.proofs", "--one", name, *(["--proofs"] if proofs else [])]
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    ran = subprocess.run(command, env={**os.environ, **threads}, capture_output=True, text=True, check=True, cwd=ROOT)
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", nargs="*", choices=[*CASES, DEMO], default=[*CASES, DEMO])
    parser.add_argument("--one", choices=[*CASES, DEMO])
    parser.add_argument("--proofs", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.one:
        if os.environ.get("COLONNADE_NO_NUMBA"):
            from colonnade.crypto.alignment import kernels

            kernels.available = lambda: False
        found = demo_case(given.proofs) if given.one == DEMO else product_case(given.one, given.proofs)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**found, "peak_megabytes": round_to(peak)}))
        return 0
    told = {}
    for name in given.cases:
        told[name] = {key: measured(name, key == "with") for key in ("without", "with")}
        # As it is found: a run of minutes that is cut off has told the cases before.
        print(f"{name}: {told[name]}", file=sys.stderr if given.json else sys.stdout, flush=True)
    if given.json:
        print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())

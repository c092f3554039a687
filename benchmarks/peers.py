"""Side by side with peers, where they are installed: SPU for the secure product, diffprivlib for the model.

    python benchmarks/peers.py [--spu PYTHON] [--diffprivlib PYTHON] [--n 10000] [--d 100] [--splits 3]

Both peers ask for older libraries than this project (SPU numpy below 2, diffprivlib scikit-learn below 1.8), so each
may live in an environment of its own: give its interpreter. A peer that is absent is skipped, with the reason.
Products: CPU seconds (process_time, all threads) of all sides in one process for X'Y between two parties, over the
plain float64 GEMM of the same columns in the same process; 2 x (d/2) columns, entries in [-1, 1] on the grid 1/127.
Models: mean accuracy on Adult-41 over the first splits of the tables, pure epsilon; diffprivlib sees all columns.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["POLARS_MAX_THREADS"] = "1"

import argparse
import json
import subprocess
import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
EPSILONS = (0.1, 1.0, 10.0)
SPU_PROTOCOLS = ("SEMI2K", "CHEETAH")


def spu_product(protocol: str, n: int, d: int) -> dict[str, float]:
    """X'Y under one of SPU's two-party protocols, in SPU's own simulator; runs in the peer's environment."""
    import spu
    import spu.utils.simulation as simulation

    generator = np.random.default_rng(1)
    X, Y = (generator.integers(-127, 128, (n, part)) / 127 for part in (d // 2, d - d // 2))
    plain = []
    for _ in range(3):
        start = process_time()
        exact = X.T @ Y
        plain.append(process_time() - start)
    config = spu.RuntimeConfig(
        protocol=getattr(spu.ProtocolKind, protocol), field=spu.FieldType.FM64, fxp_fraction_bits=18
    )
    multiply = simulation.sim_jax(simulation.Simulator(2, config), lambda x, y: x.T @ y)
    secure = []
    for _ in range(2):
        # The first run also compiles; the faster counts.
        start = process_time()
        found = multiply(X.astype(np.float32), Y.astype(np.float32))
        secure.append(process_time() - start)
    return {
        "cpu_seconds": min(secure),
        "plain_cpu_seconds": min(plain),
        "max_error": float(np.abs(found - exact).max()),
    }


def diffprivlib_accuracy(splits: int) -> dict[str, float]:
    """Mean accuracy of diffprivlib's logistic regression on Adult-41; runs in the peer's environment."""
    from experiments.paper import catalogue
    from experiments.paper.methods import PURE, Cell, run
    from experiments.paper.store import seed_of

    out = {}
    for epsilon in EPSILONS:
        cell = Cell("adult-41", "diffprivlib", PURE, epsilon)
        scores = [run(cell, catalogue.replicate(cell.data, k), seed_of(cell, k))["score"] for k in range(splits)]
        out[f"{epsilon:g}"] = float(np.mean(scores))
    return out


def our_accuracy(splits: int, parties: int) -> dict[str, float]:
    """The same through our protocol, in this environment."""
    from experiments.paper import catalogue
    from experiments.paper.methods import OURS, PURE, Cell, run
    from experiments.paper.store import seed_of

    out = {}
    for epsilon in EPSILONS:
        cell = Cell("adult-41", OURS, PURE, epsilon, parties, min(1, parties - 1))
        scores = [run(cell, catalogue.replicate(cell.data, k), seed_of(cell, k))["score"] for k in range(splits)]
        out[f"{epsilon:g}"] = float(np.mean(scores))
    return out


def in_environment(python: str, *arguments: str) -> tuple[Any, str]:
    """What this file prints when another interpreter runs it, or the reason why there is nothing."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [python, str(Path(__file__)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout.splitlines()[-1]), ""
    return None, (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]


def products(n: int, d: int, python: str) -> None:
    print(f"Secure product, n={n}, d={d}, two parties\n")
    print("| product | CPU s | plain GEMM CPU s | ratio |")
    print("|---|---|---|---|")
    command = [sys.executable, str(ROOT / "benchmarks" / "product.py"), "--json", "--n", str(n), "--d", str(d)]
    ours = json.loads(subprocess.run([*command, "--bound", "127"], check=True, capture_output=True, text=True).stdout)
    told: list[tuple[str, Any, str]] = [("lattice (ours)", ours, "")]
    for protocol in SPU_PROTOCOLS:
        told.append((f"SPU {protocol}", *in_environment(python, "child-spu", protocol, str(n), str(d))))
    for name, result, reason in told:
        if result is None:
            print(f"| {name} | skipped: {reason} | | |")
            continue
        spent, plain = result["cpu_seconds"], result["plain_cpu_seconds"]
        print(f"| {name} | {spent:.3f} | {plain:.5f} | {spent / plain:.1f} |")


def models(splits: int, python: str) -> None:
    print(f"\nAccuracy on Adult-41, pure epsilon, mean of {splits} splits\n")
    print("| method | " + " | ".join(f"epsilon = {e:g}" for e in EPSILONS) + " |")
    print("|---|" + "---|" * len(EPSILONS))
    told: list[tuple[str, Any, str]] = [
        ("ours, K=1", our_accuracy(splits, 1), ""),
        ("ours, K=2, collusion 1", our_accuracy(splits, 2), ""),
        ("diffprivlib, all columns in one place", *in_environment(python, "child-diffprivlib", str(splits))),
    ]
    for name, result, reason in told:
        cells = f"skipped: {reason} | |" if result is None else " | ".join(f"{v:.4f}" for v in result.values())
        print(f"| {name} | {cells} |")


def main() -> None:
    if sys.argv[1:2] == ["child-spu"]:
        print(json.dumps(spu_product(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
        return
    if sys.argv[1:2] == ["child-diffprivlib"]:
        print(json.dumps(diffprivlib_accuracy(int(sys.argv[2]))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spu", default=sys.executable, help="interpreter of an environment with spu")
    parser.add_argument("--diffprivlib", default=sys.executable, help="interpreter of an environment with diffprivlib")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--d", type=int, default=100)
    parser.add_argument("--splits", type=int, default=3)
    options = parser.parse_args()
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    products(options.n, options.d, options.spu)
    models(options.splits, options.diffprivlib)


if __name__ == "__main__":
    main()

"""CPU time, bytes, memory and error of a secure product against the plain float64 GEMM of the same cross blocks.

    python benchmarks/product.py --n 80000 --d 800 --parties 4 --product lattice [--kernels numpy] [--json]
    python benchmarks/product.py --table [--kernels numpy]

All sides run in this process, one after the other, with one BLAS thread; times are CPU times (process_time), medians
of several runs, with the plain products measured before and after each of them. Compiled kernels (where numba is
installed) are loaded before the first run; `ready_seconds` says what that took, compilation included if it was needed.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from time import process_time, sleep
from typing import Any

import numpy as np
from columns import resident
from numpy.typing import NDArray

from colonnade.crypto.lattice import compiled, parameters
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.server import LatticeServer
from colonnade.crypto.product import SERVER, Cross, Integers, PartyProduct, ProductSpec, ServerProduct
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.randomness import Randomness

KERNELS = ("numpy", "compiled")
BESIDE = (500, 6, 3)
"""n, d, K at which lattice and bgn are put side by side."""
SIZES = [(80_000, 800, 2), (80_000, 800, 4), (80_000, 800, 8), (45_000, 41, 2), (370_000, 14, 2)]
"""n, d, K of the speed table in docs/results/speed.md."""


class Peak:
    """The largest resident set of this process while it is entered, sampled, above what it was."""

    def __enter__(self) -> Peak:
        self._start = self.most = self._resident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def megabytes(self) -> float:
        return (self.most - self._start) / 1e6

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.most = max(self.most, self._resident())
            sleep(0.02)

    @staticmethod
    def _resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Case:
    """Random columns of K parties, every pair of parties crossed, and no noise, so that the error can be seen."""

    spec: ProductSpec
    data: list[NDArray[np.int16]]

    @cached_property
    def columns(self) -> list[IntegerColumns]:
        """What each party has before a product begins: whatever coded the columns has verified them."""
        return [resident(data) for data in self.data]

    @staticmethod
    def make(n: int, d: int, parties: int, bound: int, product: str, modulus_bits: int | None = None) -> Case:
        generator = np.random.default_rng(n + d + parties)
        widths = [len(part) for part in np.array_split(np.arange(d), parties)]
        crosses = tuple(Cross(k, m, 0, widths[k], 0, widths[m]) for k in range(parties) for m in range(k + 1, parties))
        names = tuple(f"party {k}" for k in range(parties))
        # About the Gaussian noise of d numeric attributes at (1, 1/n), which has an L2 sensitivity near d.
        std = 4.0 * d * bound**2
        chosen = parameters.choose_parameters(n, bound, std, int(10 * std), d)
        bits, gain, reach = modulus_bits or chosen.modulus_bits, chosen.gain, chosen.reach
        if product != "lattice":
            bits, gain, reach = 48, 1, n * bound**2
        spec = ProductSpec(generator.bytes(32), names, n, bound, crosses, bits, gain, reach)
        return Case(spec, [generator.integers(-bound, bound + 1, (n, w), dtype=np.int16) for w in widths])

    def multiply(self, floats: Sequence[NDArray[np.float64]]) -> tuple[float, list[Integers]]:
        """CPU seconds of the plain GEMMs alone, and X'Y."""
        start = process_time()
        products = [
            floats[c.left][:, c.left_start : c.left_stop].T @ floats[c.right][:, c.right_start : c.right_stop]
            for c in self.spec.crosses
        ]
        return process_time() - start, [product.astype(np.int64) for product in products]


def backend(product: str, kernels: str = "numpy") -> tuple[type[PartyProduct], type[ServerProduct]]:
    if product == "lattice":
        party = compiled.CompiledParty if kernels == "compiled" else LatticeParty
        return party, LatticeServer
    if product == "plain":
        from colonnade.crypto.plain import PlainParty, PlainServer

        return PlainParty, PlainServer
    from colonnade.crypto.bgn.party import BgnParty
    from colonnade.crypto.bgn.server import BgnServer

    return BgnParty, BgnServer


class Meter:
    """CPU seconds by step."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}
        self._last = process_time()

    def lap(self, step: str) -> None:
        now = process_time()
        self.steps[step] = self.steps.get(step, 0.0) + now - self._last
        self._last = now


def run(case: Case, product: str, meter: Meter, kernels: str = "numpy") -> tuple[Integers, list[int]]:
    """All sides of one session; the opened integers, and the bytes that each party sent."""
    spec, (Party, Server) = case.spec, backend(product, kernels)
    zero = {cross: np.zeros(cross.shape, np.int64) for cross in spec.crosses}
    parties = [Party(spec, k, own, zero, Randomness()) for k, own in enumerate(case.columns)]
    server, sent = Server(spec), [0] * len(parties)
    meter.lap("start")
    for round in Party.rounds:
        for k, party in enumerate(parties):
            for parcel in party.send(round):
                meter.lap(f"{round}: send")
                sent[k] += len(parcel.payload)
                to = server if parcel.recipient == SERVER else parties[spec.parties.index(parcel.recipient)]
                to.receive(round, spec.parties[k], parcel.payload)
                meter.lap(f"{round}: receive")
            meter.lap(f"{round}: send")
        for parcel in server.send(round):
            meter.lap(f"{round}: server")
            parties[spec.parties.index(parcel.recipient)].receive(round, SERVER, parcel.payload)
            meter.lap(f"{round}: receive")
    given = [party.contribute() for party in parties]
    sent = [count + contribution.vector.nbytes for count, contribution in zip(sent, given, strict=True)]
    meter.lap("contribute")
    total: NDArray[np.uint64] = np.sum([contribution.vector for contribution in given], axis=0, dtype=np.uint64)
    total &= np.uint64((1 << spec.modulus_bits) - 1)
    opened = server.open(total, [contribution.payload for contribution in given])
    meter.lap("open")
    return opened, sent


def measure(
    n: int, d: int, parties: int, product: str, bound: int, repeat: int, modulus_bits: int | None, kernels: str
) -> dict[str, object]:
    case = Case.make(n, d, parties, bound, product, modulus_bits)
    floats = [data.astype(np.float64) for data in case.data]
    plains, runs, _ = [], [], case.columns
    start = process_time()
    if product == "lattice" and kernels == "compiled":
        run(Case.make(1, d, parties, bound, product, case.spec.modulus_bits), product, Meter(), kernels)
    ready = process_time() - start
    with Peak() as peak:
        # Interleaved, so that whatever else the machine does falls on both sides alike.
        for _ in range(repeat):
            plains.append(case.multiply(floats)[0])
            meter = Meter()
            opened, sent = run(case, product, meter, kernels)
            runs.append(meter.steps)
            plains.append(case.multiply(floats)[0])
    plain, exact = median(plains), case.multiply(floats)[1]
    best = sorted(runs, key=lambda steps: sum(steps.values()))[len(runs) // 2]
    seconds = sum(best.values())
    error = opened - np.concatenate([case.spec.gain * part.ravel() for part in exact])
    return {
        "n": n, "d": d, "parties": parties, "product": product, "bound": bound,
        "kernels": kernels if product == "lattice" else "-", "ready_seconds": ready,
        "modulus_bits": case.spec.modulus_bits, "gain": case.spec.gain,
        "cpu_seconds": seconds, "plain_cpu_seconds": plain, "ratio": seconds / plain,
        "microseconds_per_record_product": 1e6 * seconds / (n * error.size),
        "bytes": sent, "own_mb": max(data.nbytes for data in case.data) / 1e6, "peak_mb": peak.megabytes,
        "rms_error": float(np.sqrt(np.mean(np.square(error, dtype=np.float64)))), "max_error": int(np.abs(error).max()),
        "steps": best,
    }  # fmt: skip


def measured_apart(n: int, d: int, parties: int, kernels: str, product: str = "lattice") -> dict[str, Any]:
    """The same in a process of its own."""
    sizes = ["--n", str(n), "--d", str(d), "--parties", str(parties)]
    command = [sys.executable, __file__, "--json", *sizes, "--kernels", kernels, "--product", product]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def table(kernels: str) -> None:
    print("| n | d | K | bound | q | CPU s | plain GEMM s | ratio | MB sent | peak MB | rms error / gain |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for n, d, parties in SIZES:
        r = measured_apart(n, d, parties, kernels)
        print(
            f"| {n:,} | {d} | {parties} | {r['bound']} | 2^{r['modulus_bits']} | {r['cpu_seconds']:.3f} | "
            f"{r['plain_cpu_seconds']:.4f} | {r['ratio']:.2f} | {sum(r['bytes']) / 1e6:.0f} | {r['peak_mb']:.0f} | "
            f"{r['rms_error'] / r['gain']:.2f} |",
            flush=True,
        )
    print(f"\nKernels: {r['kernels']}, ready after {r['ready_seconds']:.1f} CPU s in a new process.\n")
    print("| product | n | d | K | CPU s | microseconds per record product |")
    print("|---|---|---|---|---|---|")
    for product in ("lattice", "bgn"):
        r = measured_apart(*BESIDE, kernels, product)
        print(
            f"| {product} | {BESIDE[0]} | {BESIDE[1]} | {BESIDE[2]} | {r['cpu_seconds']:.3f} | "
            f"{r['microseconds_per_record_product']:.3g} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=80_000)
    parser.add_argument("--d", type=int, default=800)
    parser.add_argument("--parties", type=int, default=2)
    parser.add_argument("--product", choices=("plain", "lattice", "bgn"), default="lattice")
    parser.add_argument("--kernels", choices=KERNELS, help="of lattice; compiled where numba is installed")
    parser.add_argument("--bound", type=int, help="largest entry; 7 for d above 100, 127 below")
    parser.add_argument("--modulus-bits", type=int, help="a larger modulus than the plan needs")
    parser.add_argument("--repeat", type=int, help="runs, of which the median counts")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--table", action="store_true", help="the sizes of the speed table, one process each")
    given = parser.parse_args()
    kernels = given.kernels or KERNELS[compiled.available()]
    if given.table:
        table(kernels)
        return
    bound = given.bound or (7 if given.d > 100 else 127)
    repeat = given.repeat or (1 if given.product == "bgn" else 3 if given.n * given.d > 10_000_000 else 9)
    result = measure(given.n, given.d, given.parties, given.product, bound, repeat, given.modulus_bits, kernels)
    if given.json:
        print(json.dumps(result))
        return
    for key, value in result.items():
        print(f"{key:18s} {value}")


if __name__ == "__main__":
    main()

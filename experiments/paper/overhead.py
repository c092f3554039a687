"""The overhead study that the paper left as future work: CPU time and bytes of bgn and lattice against n, d and K.

Each size runs in a process of its own (benchmarks/product.py, one BLAS thread, CPU time of all parties and the server
together); a growth exponent is the slope of log time on log size over the larger half of the sizes, where fixed costs
no longer show. The cost model is a non-negative least squares fit of relative errors to the terms below, for parties
of nearly equal width and all pairs of parties crossed; `overhead.json` holds its coefficients.

lattice, seconds: fixed; n for each sealed column; n for each sealed column and receiver; n for each product of columns
lattice, bytes:   words of sealed columns to every receiver and of ring elements back; entries for each party
bgn, seconds:     n for each encrypted column; n for each product; products for each party, and for each pair of parties
bgn, bytes:       n for each encrypted column; products for each party, and for each pair of parties
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from experiments.paper.store import ROOT

BENCHMARK = ROOT / "benchmarks" / "product.py"
RING = 2048
"""Rows in a ring element of the lattice product."""
SECONDS_TERMS = {
    "lattice": ("fixed", "by_sealed_word", "by_received_word", "by_term"),
    "bgn": ("by_encryption", "by_term", "by_entry_and_party", "by_entry_and_pair"),
}
BYTES_TERMS = {
    "lattice": ("by_word", "by_entry_and_party"),
    "bgn": ("by_encryption", "by_entry_and_party", "by_entry_and_pair"),
}


@dataclass(frozen=True, order=True)
class Size:
    """A session: n records, d columns dealt evenly to K parties."""

    product: str
    n: int
    d: int
    parties: int

    @property
    def widths(self) -> list[int]:
        return [len(part) for part in np.array_split(np.arange(self.d), self.parties)]

    @property
    def entries(self) -> int:
        """Cross-party products of columns: the sum over k < l of d^k d^l."""
        w = self.widths
        return sum(w[k] * w[m] for k in range(len(w)) for m in range(k + 1, len(w)))

    @property
    def _received(self) -> int:
        """Sealed columns, counted once for each party that they go to."""
        w = self.widths
        return sum(w[k] * (len(w) - 1 - k) for k in range(len(w)))

    def seconds_terms(self) -> list[float]:
        n, K, w = float(self.n), self.parties, self.widths
        if self.product == "bgn":
            return [n * (2 * self.d - w[0] - w[-1]), n * self.entries, K * self.entries, K * K * self.entries]
        return [1.0, n * (self.d - w[-1]), n * self._received, n * self.entries]

    def bytes_terms(self) -> list[float]:
        n, K, w = float(self.n), self.parties, self.widths
        if self.product == "bgn":
            return [n * (2 * self.d - w[0] - w[-1]), K * self.entries, K * K * self.entries]
        back = sum(w[k] * k for k in range(K))
        return [self._received * (n + RING) + back * RING, K * self.entries]


@dataclass(frozen=True)
class Measured:
    """What one session cost."""

    size: Size
    seconds: float
    plain_seconds: float
    bytes: int


@dataclass(frozen=True)
class CostModel:
    """Coefficients of one product, and the largest relative error on the sizes that were measured."""

    seconds: Mapping[str, float]
    seconds_error: float
    bytes: Mapping[str, float]
    bytes_error: float


def sweeps(product: str, quick: bool) -> dict[str, list[Size]]:
    """For each of n, d and K the sizes in which only it changes."""
    if product == "bgn":
        n, d, rows, columns = 50, 8, [50, 100, 200, 400, 800], [4, 8, 12, 16, 24]
    else:
        n, d, rows, columns = 16_384, 64, [8192, 16_384, 32_768, 65_536, 131_072, 262_144], [32, 64, 128, 256, 512]
    parties = [2, 4, 8]
    if quick:
        rows, columns, parties = rows[:2], columns[:2], parties[:2]
    few = d // 2 if product == "bgn" else d
    return {
        "n": [Size(product, m, few, 2) for m in rows],
        "d": [Size(product, n, m, 2) for m in columns],
        "K": [Size(product, n, d, m) for m in parties],
    }


def measure(size: Size) -> Measured:
    """One session in a process of its own."""
    command = [sys.executable, str(BENCHMARK), "--json", "--product", size.product]
    command += ["--n", str(size.n), "--d", str(size.d), "--parties", str(size.parties)]
    command += ["--bound", "127", "--repeat", "1" if size.product == "bgn" else "3"]
    if size.product == "lattice":
        # What every installation has; compiled loops are for sessions larger than these.
        command += ["--kernels", "numpy"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told = json.loads(done.stdout.splitlines()[-1])
    return Measured(size, told["cpu_seconds"], told["plain_cpu_seconds"], sum(told["bytes"]))


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of log cost on log size over the larger half of the sizes."""
    half = max(2, (len(sizes) + 1) // 2)
    x, y = np.log(np.asarray(sizes, dtype=float)[-half:]), np.log(np.asarray(costs, dtype=float)[-half:])
    return float(np.polyfit(x, y, 1)[0])


def fitted(measured: Iterable[Measured]) -> CostModel:
    """The cost model whose largest terms fit the relative errors best."""
    done = list(measured)
    product = done[0].size.product
    seconds, seconds_error = _fit([m.size.seconds_terms() for m in done], [m.seconds for m in done])
    sent, bytes_error = _fit([m.size.bytes_terms() for m in done], [float(m.bytes) for m in done])
    return CostModel(
        dict(zip(SECONDS_TERMS[product], seconds, strict=True)),
        seconds_error,
        dict(zip(BYTES_TERMS[product], sent, strict=True)),
        bytes_error,
    )


def _fit(terms: list[list[float]], costs: list[float]) -> tuple[list[float], float]:
    relative = np.asarray(terms) / np.asarray(costs)[:, None]
    # Columns of very different size are brought to one before the fit.
    scale = relative.max(axis=0)
    found = nnls(relative / scale, np.ones(len(costs)))[0] / scale
    return [float(f"{c:.6g}") for c in found], float(np.abs(relative @ found - 1).max())


def predicted(model: CostModel, size: Size) -> tuple[float, float]:
    """CPU seconds of all sides together, and bytes that all parties send."""
    seconds = sum(c * t for c, t in zip(model.seconds.values(), size.seconds_terms(), strict=True))
    sent = sum(c * t for c, t in zip(model.bytes.values(), size.bytes_terms(), strict=True))
    return seconds, sent


def study(folder: Path, quick: bool = False) -> dict[str, Any]:
    """Measure, fit and write overhead.json, overhead.csv, its section of docs/results/speed.md and two pictures."""
    from experiments.paper.overhead_report import write

    measured: dict[Size, Measured] = {}
    for product in ("lattice", "bgn"):
        for size in sorted({s for sizes in sweeps(product, quick).values() for s in sizes}):
            measured[size] = measure(size)
            m = measured[size]
            sys.stderr.write(
                f"{product} n={size.n} d={size.d} K={size.parties}: {m.seconds:.3f} CPU s, {m.bytes} bytes\n"
            )
    content: dict[str, Any] = {
        "command": "python -m experiments.paper overhead" + (" --quick" if quick else ""),
        "machine": f"{platform.machine()}, python {platform.python_version()}, numpy {np.__version__}, one BLAS thread",
        "products": {},
    }
    for product in ("lattice", "bgn"):
        by = sweeps(product, quick)
        growth = {
            name: {
                "seconds": exponent([_value(name, s) for s in sizes], [measured[s].seconds for s in sizes]),
                "bytes": exponent([_value(name, s) for s in sizes], [measured[s].bytes for s in sizes]),
            }
            for name, sizes in by.items()
        }
        model = fitted(m for s, m in measured.items() if s.product == product)
        content["products"][product] = {"growth": growth, **asdict(model)}
    write(folder, content, list(measured.values()), {p: sweeps(p, quick) for p in ("lattice", "bgn")})
    return content


def _value(name: str, size: Size) -> float:
    return float({"n": size.n, "d": size.d, "K": size.parties}[name])

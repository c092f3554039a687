"""The sums of a clique tree on a GPU: two CUDA kernels over all jobs of a step, recorded once as a CUDA graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np
from clique_tree import CliqueTree, Job, Vector

THREADS = 256
WARPS = THREADS // 32
CHUNK = 1024
"""Cells that one warp sums; longer sums are done in parts."""
SOURCE = r"""
struct Job { int cells, out, outs, size, chunks, partial, kept, rest, first, last; };
struct Addend { int place, kept, rest; };

__device__ double cell(const Job& job, const Addend* addends, const int* numbers, const double* source,
                       const double* values, int kept, int rest) {
  double found = source[job.cells + numbers[job.kept + kept] + numbers[job.rest + rest]];
  for (int k = job.first; k < job.last; ++k) {
    const Addend a = addends[k];
    found += values[a.place + numbers[a.kept + kept] + numbers[a.rest + rest]];
  }
  return found;
}

extern "C" __global__ void spread(const Job* jobs, const Addend* addends, const int* numbers, const int2* blocks,
                                  const double* source, const double* values, double* target,
                                  const double* log_sum, double log_total) {
  const Job job = jobs[blocks[blockIdx.x].x];
  const int at = blocks[blockIdx.x].y + threadIdx.x;
  if (at >= job.outs * job.size) return;
  const double found = cell(job, addends, numbers, source, values, at / job.size, at % job.size);
  target[job.cells + at] = log_sum ? exp(found + log_total - *log_sum) : found;
}

__device__ void join(int logs, double& top, double& sum, double other_top, double other) {
  if (!logs) { sum += other; return; }
  if (other_top > top) { sum = sum * exp(top - other_top) + other; top = other_top; }
  else sum += other * exp(other_top - top);
}

__device__ void join_lanes(int logs, double& top, double& sum) {
  for (int step = 16; step; step /= 2) {
    const double other_top = __shfl_down_sync(~0u, top, step), other = __shfl_down_sync(~0u, sum, step);
    join(logs, top, sum, other_top, other);
  }
}

extern "C" __global__ void reduce(const Job* jobs, const Addend* addends, const int* numbers, const int2* blocks,
                                  const double* source, const double* values, double2* partial, double* target,
                                  int logs, int chunk) {
  const Job job = jobs[blocks[blockIdx.x].x];
  const int item = blocks[blockIdx.x].y + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (item >= job.outs * job.chunks) return;
  const int kept = item / job.chunks, begin = item % job.chunks * chunk;
  double top = -1e300, sum = 0;
  for (int rest = begin + lane; rest < min(begin + chunk, job.size); rest += 32) {
    const double found = cell(job, addends, numbers, source, values, kept, rest);
    if (logs) join(logs, top, sum, found, 1); else sum += found;
  }
  join_lanes(logs, top, sum);
  if (lane) return;
  if (job.chunks == 1) target[job.out + kept] = logs ? top + log(sum) : sum;
  else partial[job.partial + item] = make_double2(top, sum);
}

extern "C" __global__ void finish(const Job* jobs, const int2* blocks, const double2* partial, double* target,
                                  int logs) {
  const Job job = jobs[blocks[blockIdx.x].x];
  const int kept = blocks[blockIdx.x].y + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (kept >= job.outs) return;
  double top = -1e300, sum = 0;
  for (int k = lane; k < job.chunks; k += 32) {
    const double2 part = partial[job.partial + kept * job.chunks + k];
    join(logs, top, sum, part.x, part.y);
  }
  join_lanes(logs, top, sum);
  if (!lane) target[job.out + kept] = logs ? top + log(sum) : sum;
}
"""
MODULE = cupy.RawModule(code=SOURCE)


class _Batch:
    """Jobs on the device, and which blocks of threads do which part of them."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        numbers, addends, rows = _Pool(), [], []
        self.partials = 0
        for job in jobs:
            first = len(addends)
            addends += [(place, numbers.add(kept), numbers.add(rest)) for place, kept, rest in job.addends]
            outs, size, chunks = len(job.kept), len(job.rest), -(-len(job.rest) // CHUNK)
            shape = (job.cells, job.out, outs, size, chunks, self.partials)
            rows.append((*shape, numbers.add(job.kept), numbers.add(job.rest), first, len(addends)))
            self.partials += outs * chunks if chunks > 1 else 0
        self.jobs = _sent(rows, 10)
        self.told = (self.jobs, _sent(addends, 3), numbers.sent())
        self.by_cell = _blocks([row[2] * row[3] for row in rows], THREADS)
        self.by_item = _blocks([row[2] * row[4] for row in rows], WARPS)
        self.by_sum = _blocks([row[2] if row[4] > 1 else 0 for row in rows], WARPS)


class _Pool:
    """Arrays of numbers, one after another."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._length = 0

    def add(self, part: Any) -> int:
        self._parts.append(part)
        self._length += len(part)
        return self._length - len(part)

    def sent(self) -> Any:
        return cupy.asarray(np.concatenate(self._parts))


def _sent(rows: Sequence[Sequence[int]], width: int) -> Any:
    return cupy.asarray(np.array(rows, np.int32).reshape(-1, width))


def _blocks(counts: Sequence[int], each: int) -> Any:
    """A block for each so many of a job's parts: which job, and its first part."""
    starts = [np.arange(0, count, each, dtype=np.int32) for count in counts]
    told = np.repeat(np.arange(len(counts), dtype=np.int32), [len(part) for part in starts])
    return cupy.asarray(np.stack([told, np.concatenate(starts)], axis=1))


class CudaSums:
    """The sums of a tree, with all cells on the GPU: small tables go in, marginals of tables come out."""

    def __init__(self, tree: CliqueTree, start: Vector, total: float) -> None:
        self._log_total = float(np.log(total))
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._spread, self._reduce, self._finish = map(MODULE.get_function, ("spread", "reduce", "finish"))
        batches = [_Batch(level) for level in tree.messages]
        steps = (_Batch(tree.potentials), batches, _Batch(tree.marginals), _Batch(tree.projections))
        self._cells = [cupy.asarray(start), cupy.empty(tree.cell_count), cupy.empty(tree.cell_count)]
        self._small, self._tables = cupy.empty(tree.table_count), cupy.empty(tree.table_count)
        self._messages = cupy.empty(tree.message_count)
        self._partials = cupy.empty(2 * max(1, *(batch.partials for batch in (*batches, steps[3]))))
        self._kept = steps  # the graph reads their arrays
        cupy.cuda.get_current_stream().synchronize()
        self._graph = self._record(*steps)
        self._host = np.frombuffer(cupy.cuda.alloc_pinned_memory(8 * tree.table_count), np.float64, tree.table_count)

    def tables(self, small: Vector) -> Vector:
        """The measured marginals of the model whose log potentials are the start plus these small tables."""
        self._host[:] = small
        self._small.data.copy_from_host_async(self._host.ctypes.data, self._host.nbytes, self._stream)
        self._graph.launch(self._stream)
        self._tables.data.copy_to_host_async(self._host.ctypes.data, self._host.nbytes, self._stream)
        self._stream.synchronize()
        return self._host.copy()

    def project(self, jobs: Sequence[Job], count: int) -> Vector:
        """Sums of the last marginals."""
        batch, out = _Batch(jobs), cupy.empty(count)
        partials = cupy.empty(2 * max(1, batch.partials))
        cupy.cuda.get_current_stream().synchronize()
        with self._stream:
            self._sum(batch, self._cells[2], out, out, partials, logs=0)
        self._stream.synchronize()
        return cupy.asnumpy(out)

    def potentials(self) -> Vector:
        """Of the last call, all cliques one after another."""
        return cupy.asnumpy(self._cells[1])

    def marginals(self) -> Vector:
        """Of the last call, all cliques one after another."""
        return cupy.asnumpy(self._cells[2])

    def _record(self, potentials: _Batch, levels: list[_Batch], marginals: _Batch, projections: _Batch) -> Any:
        start, logs, cells = self._cells
        with self._stream:
            self._stream.begin_capture()
            self._put(potentials, start, self._small, logs, np.intp(0))
            for level in levels:
                self._sum(level, logs, self._messages, self._messages, self._partials, logs=1)
            self._put(marginals, logs, self._messages, cells, self._messages[-1:])
            self._sum(projections, cells, self._messages, self._tables, self._partials, logs=0)
            return self._stream.end_capture()

    def _put(self, batch: _Batch, source: Any, values: Any, target: Any, log_sum: Any) -> None:
        arguments = (*batch.told, batch.by_cell, source, values, target, log_sum, np.float64(self._log_total))
        self._spread((len(batch.by_cell),), (THREADS,), arguments)

    def _sum(self, batch: _Batch, source: Any, values: Any, target: Any, partials: Any, *, logs: int) -> None:
        told = (batch.by_item, source, values, partials, target, np.int32(logs), np.int32(CHUNK))
        self._reduce((len(batch.by_item),), (THREADS,), (*batch.told, *told))
        if len(batch.by_sum):
            told = (batch.by_sum, partials, target, np.int32(logs))
            self._finish((len(batch.by_sum),), (THREADS,), (batch.jobs, *told))

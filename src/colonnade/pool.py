"""Who does a party's block work: threads of this process, or the workers of a Dask cluster that the party runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.foundation.threads import one_thread
from colonnade.foundation.workers import Workers

AHEAD = 2
"""Pieces under way for each worker: one that is done, one that waits."""
CONNECT_SECONDS = 10  # a scheduler on a cluster's network answers at once
DEVICES = ("cpu", "cuda")


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@contextmanager
def open_workers(count: int | None = None, cluster: str | None = None, device: str = "cpu") -> Iterator[Workers]:
    """Threads, one for each core unless `count` says otherwise, or the workers of the cluster at this address.

    What is computed is the same, bit for bit, whoever does it.
    """
    if device not in DEVICES:
        raise StudyError(f"device must be one of {', '.join(DEVICES)}, got device={device!r}")
    if count is not None and count < 1:
        raise StudyError(f"workers must be at least 1, got workers={count}")
    if cluster is not None:
        if count is not None or device != "cpu":
            raise StudyError("a cluster has workers of its own: workers and device are for this machine")
        with _cluster(cluster) as workers:
            yield workers
        return
    if device == "cuda":
        from colonnade.crypto.lattice.device import require_cuda

        require_cuda()
    with _threads(count or cores(), device) as workers:
        yield workers


@contextmanager
def _threads(count: int, device: str) -> Iterator[Workers]:
    if count == 1:
        with one_thread():
            yield Workers(device=device)
        return
    with one_thread(), ThreadPoolExecutor(count, "colonnade") as executor:
        try:
            yield Workers(executor, AHEAD * count, device)
        except BaseException:
            executor.shutdown(wait=True, cancel_futures=True)
            raise


@contextmanager
def _cluster(address: str) -> Iterator[Workers]:
    if find_spec("distributed") is None:
        raise StudyError("a cluster needs distributed, which is not installed: pip install 'colonnade[dask]'")
    dask, distributed = import_module("dask"), import_module("distributed")
    # Blocks travel with their work, so that a lost worker's work can be given to another.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
        try:
            client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise StudyError(f"there is no cluster at {address}: {_first_line(error)}") from None
        try:
            threads = _agreeing(client, address)
            yield Workers(_Told(client.get_executor()), AHEAD * threads, remote=True)
        finally:
            # A cluster that ends badly after its work is done must not cost what was released.
            with suppress(Exception):
                client.close()


def _agreeing(client: Any, address: str) -> int:
    """How many pieces the cluster does at once; all of its workers must have this version."""
    threads: dict[str, int] = client.nthreads()
    if not threads:
        raise StudyError(f"the cluster at {address} has no workers")
    mine = version("colonnade")
    try:
        theirs = set(client.run(version, "colonnade").values())
    except Exception as error:
        raise StudyError(f"the workers of {address} must have colonnade {mine}: {_first_line(error)}") from None
    if theirs != {mine}:
        raise StudyError(f"the workers of {address} must have colonnade {mine}, got {', '.join(sorted(theirs))}")
    return sum(threads.values())


class _Told(Executor):
    """An executor whose own failures, such as a piece that killed worker after worker, become one sentence."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return _Piece(self._executor.submit(fn, *args, **kwargs))


class _Piece(Future[Any]):
    def __init__(self, inner: Future[Any]) -> None:
        super().__init__()
        self._inner = inner

    def result(self, timeout: float | None = None) -> Any:
        try:
            return self._inner.result(timeout)
        except ColonnadeError:
            raise
        except (Exception, CancelledError) as error:
            raise StudyError(f"the cluster could not do a piece of work: {_first_line(error)}") from error

    def cancel(self) -> bool:
        return self._inner.cancel()


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__

"""Processes that multiply an alignment's points, and end with whoever made them, however that ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any

from colonnade.crypto.alignment.party import BATCH
from colonnade.transport.workers import cores

NO_WORKERS = (BrokenProcessPool, OSError, NotImplementedError, AssertionError)
"""A killed worker, no process or semaphore left, a platform without them, a program that may have no children."""

LONG = 1 << 16
"""Ids for which it pays to start workers anew."""


def point_workers(points: int, start: str = "fork") -> Executor | None:
    """A pool for lists of so many points; None on one core, or where a list is one job.

    `fork` is for a program whose other threads hold no lock that the curve needs, whatever its own start method is: the
    others run its main module anew, which a script need not be made for.
    """
    if cores() == 1 or points <= BATCH:
        return None
    try:
        context = multiprocessing.get_context(start)
        return ProcessPoolExecutor(min(cores(), -(-points // BATCH)), context, _begin)
    except NO_WORKERS:
        return None


def steady_workers(points: int) -> Executor | None:
    """The same for a program that has threads of its own: workers start anew, which pays for long lists alone.

    Whatever a worker does not do is done here instead.
    """
    executor = None if points < LONG else point_workers(points, "spawn")
    return None if executor is None else _Steady(executor)


class _Steady(Executor):
    """An executor that may lose its workers, and no work: a job is a function of its arguments."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        try:
            return _Job(self._executor.submit(fn, *args, **kwargs), fn, args, kwargs)
        except NO_WORKERS:
            return _Job(None, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._executor.shutdown(wait, cancel_futures=cancel_futures)


class _Job(Future[Any]):
    def __init__(self, inner: Future[Any] | None, fn: Any, args: Any, kwargs: Any) -> None:
        super().__init__()
        self._inner, self._again = inner, (fn, args, kwargs)

    def result(self, timeout: float | None = None) -> Any:
        try:
            if self._inner is not None:
                return self._inner.result(timeout)
        except NO_WORKERS:
            pass
        fn, args, kwargs = self._again
        return fn(*args, **kwargs)


def _begin() -> None:
    """In a worker: an interrupt reaches the whole group, and the main process alone tells of it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    """A pool's workers wait for ever for jobs of a process that was killed."""
    wait([sentinel])
    os._exit(1)

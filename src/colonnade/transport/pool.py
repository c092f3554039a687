"""Processes that multiply an alignment's points, and end with whoever made them, however that ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait

from colonnade.crypto.alignment.party import BATCH
from colonnade.transport.workers import cores

NO_WORKERS = (BrokenProcessPool, OSError, NotImplementedError, AssertionError)
"""A killed worker, no process or semaphore left, a platform without them, a program that may have no children."""


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

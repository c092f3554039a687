"""kill -9 at every system call of a booking and its settlement: between two of them, no file can change.

The line-by-line test of test_ledger.py kills between lines of our code; this one also kills inside SQLite's commit.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from colonnade.consent.entries import Booking, DataSet, EntryKind
from colonnade.consent.ledger import Ledger
from colonnade.mechanism.composition import Cap, Charge, rho_of_pure

TRACEME, SYSCALL, SETOPTIONS, EXITKILL = 0, 24, 0x4200, 0x100000
CAP = Cap(1.0)
BOOKING = Booking(
    "s", "bank", "income", "p" * 64, DataSet("bank.csv", "d" * 64), Charge(0.25, 0.0, rho_of_pure(0.25)), 1.0
)
KINDS = [EntryKind.BOOKED, EntryKind.RELEASED]


def _ptrace(request: int, pid: int, data: int = 0) -> int:
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.restype, call.argtypes = ctypes.c_long, [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    return int(call(request, pid, None, data))


def _traced(work: Callable[[int], None], limit: int | None) -> tuple[int, str]:
    """Fork, count the child's system calls, kill it as it enters number `limit`; the calls made and what it confirmed.

    With limit None it ends by itself; a machine that forbids tracing gives 0 calls.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            if _ptrace(TRACEME, 0) == 0:
                os.kill(os.getpid(), signal.SIGSTOP)
                work(writer)
        finally:
            os._exit(0)
    os.close(writer)
    calls, entering, status = 0, True, os.waitpid(child, 0)[1]
    if os.WIFSTOPPED(status):
        _ptrace(SETOPTIONS, child, EXITKILL)
    while os.WIFSTOPPED(status):
        if entering and calls == limit:
            os.kill(child, signal.SIGKILL)
        else:
            calls, entering = calls + entering, not entering
            if _ptrace(SYSCALL, child) != 0:
                os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    with os.fdopen(reader) as confirmed:
        return calls, confirmed.read()


def _work(path: Path) -> Callable[[int], None]:
    def work(writer: int) -> None:
        Ledger(path).book(BOOKING, CAP)
        os.write(writer, b"b")
        Ledger(path).settle("s", "bank", EntryKind.RELEASED)
        os.write(writer, b"r")

    return work


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="traces system calls by ptrace")
def test_kill_9_at_every_system_call(tmp_path: Path) -> None:
    calls, confirmed = _traced(_work(tmp_path / "whole"), None)
    if not calls:
        pytest.skip("this machine forbids a process to trace its child")
    assert confirmed == "br" and calls > 60
    seen, torn = set(), 0
    # A pass may make a few calls less or more than another, by its memory: go on until one ends by itself.
    for limit in range(2 * calls):
        folder = tmp_path / str(limit)
        folder.mkdir()
        path = folder / "ledger"
        made, confirmed = _traced(_work(path), limit)
        torn += (folder / "ledger-journal").exists()
        entries = Ledger(path).entries()
        if path.exists():
            Ledger(path).verify()
        kinds = [entry.kind for entry in entries]
        assert kinds == KINDS[: len(kinds)]
        assert len(confirmed) <= len(kinds) <= len(confirmed) + 1
        seen.add((confirmed, len(kinds)))
        # Whatever was left, the party goes on as if nothing had happened.
        Ledger(path).settle("s", "bank", EntryKind.RELEASED) if kinds else Ledger(path).book(BOOKING, CAP)
        if made < limit:
            break
    else:
        raise AssertionError("no pass ended by itself")
    assert {("", 0), ("", 1), ("b", 1), ("b", 2), ("br", 2)} <= seen
    # Some of the kills hit a commit half way, which is what this test is for.
    assert torn > 5

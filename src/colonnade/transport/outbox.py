"""Items that wait for a party at the server: a few in memory, the rest in an unlinked file; memory stays flat."""

from __future__ import annotations

import tempfile
from collections import deque
from typing import IO

MEMORY = 48 << 20
"""Bytes of one outbox that stay in memory."""


class Outbox:
    """First in, first out; the item at the head stays until it is known to have arrived."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._memory = memory
        self._items: deque[bytes | tuple[int, int]] = deque()
        self._held = 0
        self._file: IO[bytes] | None = None
        self._end = 0
        self._head: bytes | None = None
        self.arrived = 0
        """How many items are known to have arrived."""

    def put(self, item: bytes) -> None:
        if self._held + len(item) <= self._memory:
            self._items.append(item)
            self._held += len(item)
            return
        if self._file is None:
            # What lies here is sealed or masked already, and no other process can open the file.
            self._file = tempfile.TemporaryFile(prefix="colonnade-")  # noqa: SIM115 - lives as long as the outbox
        self._file.seek(self._end)
        self._file.write(item)
        self._items.append((self._end, len(item)))
        self._end += len(item)

    def take(self, taken: int) -> tuple[int, bytes] | None:
        """The next item with its number, once all up to `taken` have arrived; the same again if it has not."""
        if taken == self.arrived + 1 and self._head is not None:
            self._drop()
        if not self._items:
            return None
        if self._head is None:
            self._head = self._read(self._items[0])
        return self.arrived + 1, self._head

    def __len__(self) -> int:
        return len(self._items)

    def _drop(self) -> None:
        first = self._items.popleft()
        if isinstance(first, bytes):
            self._held -= len(first)
        self._head = None
        self.arrived += 1
        if not self._items and self._file is not None:
            self._file.seek(0)
            self._file.truncate()
            self._end = 0

    def _read(self, item: bytes | tuple[int, int]) -> bytes:
        if isinstance(item, bytes):
            return item
        assert self._file is not None
        self._file.seek(item[0])
        return self._file.read(item[1])

    def clear(self) -> None:
        """Drop what has not arrived: the session is over."""
        self._items.clear()
        self._held, self._head = 0, None
        if self._file is not None:
            self._file.close()
            self._file, self._end = None, 0

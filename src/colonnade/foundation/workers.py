"""Independent pieces of work on an executor: results in the order of the pieces, a bounded number of them under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

T = TypeVar("T")


class Workers:
    """Runs module-level functions here or wherever its executor runs them; remote workers need picklable arguments.

    What a piece of work returns depends on its arguments alone, so that neither the executor nor the order in which
    pieces end can be seen in a result.
    """

    def __init__(
        self, executor: Executor | None = None, ahead: int = 1, device: str = "cpu", *, remote: bool = False
    ) -> None:
        self._executor = executor
        self.ahead = max(1, ahead)
        """Pieces that may be under way before the first result is taken."""
        self.device = device
        """Where the secure product's arrays are: "cpu" or "cuda"."""
        self.remote = remote
        """Whether the executor's workers are other processes, which share no memory with this one."""

    @property
    def apart(self) -> bool:
        """Whether work is done by others than the caller."""
        return self._executor is not None

    def submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:
        """One piece of work; without an executor it is done at once."""
        if self._executor is not None:
            return self._executor.submit(work, *arguments)
        done: Future[T] = Future()
        done.set_result(work(*arguments))
        return done

    def map(self, work: Callable[..., T], pieces: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """The results in the order of the pieces, which are made as they are needed."""
        if self._executor is None:
            for piece in pieces:
                yield work(*piece)
            return
        under_way: deque[Future[T]] = deque()
        try:
            for piece in pieces:
                under_way.append(self.submit(work, *piece))
                if len(under_way) >= self.ahead:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()

    def __repr__(self) -> str:
        return f"Workers({type(self._executor).__name__}, ahead={self.ahead}, device={self.device!r})"


HERE = Workers()
"""No executor: every piece is done by the caller."""

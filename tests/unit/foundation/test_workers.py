"""Workers give results in the order of the pieces, with a bounded number under way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from colonnade.foundation.errors import StudyError
from colonnade.foundation.workers import HERE, Workers
from colonnade.pool import open_workers


def slow(k: int) -> int:
    time.sleep(0.002 * (5 - k % 6))
    return k


@pytest.mark.parametrize("count", [0, 1, 3])
def test_results_come_in_order(count: int) -> None:
    with ThreadPoolExecutor(max(1, count)) as executor:
        workers = Workers(executor, 4) if count else HERE
        assert list(workers.map(slow, ((k,) for k in range(20)))) == list(range(20))
        assert workers.submit(slow, 4).result() == 4


def test_pieces_are_made_as_they_are_needed() -> None:
    made = taken = 0

    def pieces() -> Iterator[tuple[int]]:
        nonlocal made
        for k in range(50):
            made += 1
            yield (k,)

    with ThreadPoolExecutor(2) as executor:
        for _ in Workers(executor, 4).map(slow, pieces()):
            taken += 1
            assert made - taken < 4


def fail(k: int) -> int:
    if k == 3:
        raise StudyError("three is refused")
    return k


def test_an_error_reaches_the_caller_and_ends_the_rest() -> None:
    with ThreadPoolExecutor(1) as executor:
        found = Workers(executor, 8).map(fail, ((k,) for k in range(100)))
        with pytest.raises(StudyError, match="three"):
            list(found)


def test_threads_do_not_oversubscribe() -> None:
    import numpy as np
    from threadpoolctl import threadpool_info

    np.ones((2, 2)) @ np.ones((2, 2))
    with open_workers(64):
        assert all(pool["num_threads"] == 1 for pool in threadpool_info() if pool["user_api"] == "blas")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"count": 0}, "workers must be at least 1"),
        ({"device": "tpu"}, "device must be one of cpu, cuda"),
        ({"cluster": "tcp://127.0.0.1:9", "count": 2}, "a cluster has workers of its own"),
    ],
)
def test_what_is_wrong_is_refused(given: dict[str, object], told: str) -> None:
    with pytest.raises(StudyError, match=told), open_workers(**given):  # type: ignore[arg-type]
        pass

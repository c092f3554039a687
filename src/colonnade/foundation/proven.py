"""Ties a function that carries a privacy claim to its argument in proofs/."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

PROVEN: dict[str, str] = {}


def proven(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Record that proofs/<name>.md proves the decorated function, and leave the function as it is."""

    def register(function: Callable[P, R]) -> Callable[P, R]:
        PROVEN[f"{function.__module__}.{function.__qualname__}"] = name
        return function

    return register

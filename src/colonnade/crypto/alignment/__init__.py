"""Private id alignment: K parties find the ids that all of them have, and show no others."""

from typing import Any

__all__ = ["align_in_process"]


def __getattr__(name: str) -> Any:
    """What whoever plans the sizes of a matching need not load."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from colonnade.crypto.alignment.all_sides import align_in_process

    return align_in_process

"""The guard that asks nobody, where programs outside this package look for it; tests and simulations take it."""

from colonnade.protocol.tasks import Unguarded

__all__ = ["Unguarded"]

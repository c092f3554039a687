"""The tie between a function and its proof leaves the function as it is."""

from __future__ import annotations

from colonnade.foundation.proven import PROVEN, proven


def test_proven_registers_and_returns_the_function() -> None:
    def claim(x: int) -> int:
        """Doubles."""
        return 2 * x

    before = dict(PROVEN)
    try:
        assert proven("some_proof")(claim) is claim
        (name,) = set(PROVEN) - set(before)
        assert name.endswith("claim") and PROVEN[name] == "some_proof"
    finally:
        for name in set(PROVEN) - set(before):
            del PROVEN[name]

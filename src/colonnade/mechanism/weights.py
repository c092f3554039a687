"""Which blocks deserve less noise, from public facts: chosen to minimise the predicted risk of the model."""

from __future__ import annotations

from colonnade.mechanism.moments import Kind, Law, Layout, Role

SLOPE = 0.1
"""||w||^2 taken for a typical model: how much an error of X'X counts beside one of X'y."""


def label_weight(layout: Layout, law: Law) -> float:
    """Weight (inverse noise scale) of label blocks relative to feature blocks.

    With p feature attributes the risk goes with A/w_y^2 + B/w_x^2, B/A = ||w||^2, while p w_y + p(p-1)/2 w_x is fixed
    (squares of weights for Gaussian): the ratio is the cube (fourth) root of (p-1)/2 / ||w||^2.
    """
    p = sum(a.role is Role.FEATURE for a in layout.attributes)
    ratio = max(1.0, (p - 1) / 2) / SLOPE
    return float(ratio ** (1 / 3 if law is Law.LAPLACE else 1 / 4))


def choose_release(layout: Layout, n: int, law: Law, epsilon: float, delta: float) -> str:
    """"full" products, or "trace" where the table would drown: the noise's spectral norm against n/3."""
    d = sum(a.role is Role.FEATURE for a in layout.attributes)
    signed = all(a.kind is Kind.SIGNED or a.role is Role.LABEL for a in layout.attributes)
    if not signed or d < 100:
        return "full"
    pairs = d * (d + 1) / 2
    std = 2**0.5 * pairs / epsilon if law is Law.LAPLACE else pairs**0.5 * 4 / epsilon
    return "trace" if 2 * std * d**0.5 > n / 3 else "full"

"""Correlations of all released coordinates, and their principal components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from colonnade.analysis.denoise import denoise
from colonnade.analysis.released import Released
from colonnade.analysis.spectra import eigen
from colonnade.foundation.errors import ReleaseError
from colonnade.mechanism.moments import Encoding, Floats, Role


@dataclass(frozen=True)
class Components:
    """Principal components of the encoded columns: levels 0 or 1, numbers in [-1, 1], centred."""

    names: tuple[str, ...]
    share: Floats
    """Of the total variance, for each component, largest first."""
    loadings: Floats
    """One row for each component."""
    correlations: Floats
    """Of every two coordinates."""


def components(released: Released, label: bool = False) -> Components:
    """PCA of a release's features, with the label where asked for."""
    released.require_pairs("nothing in it tells how columns go together")
    layout, estimate = released.layout, denoise(released.moments)
    at = [
        k
        for i, a in enumerate(layout.attributes)
        if a.role is Role.FEATURE or (label and i in released.tabular)
        for k in range(layout.width)[layout.span(i)]
    ]
    _require_signal(released, at)
    covariance = estimate.covariance[np.ix_(at, at)] / estimate.n
    values, vectors = eigen(covariance)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    # A component has no sign of its own: its largest loading is made positive.
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    vectors = vectors * np.where(largest < 0, -1.0, 1.0)
    spread = np.sqrt(np.maximum(np.diag(covariance), 1e-12))
    correlations = np.clip(covariance / np.outer(spread, spread), -1.0, 1.0)
    total = max(float(values.sum()), 1e-300)
    return Components(tuple(layout.names[k] for k in at), values / total, vectors.T, correlations)


def _require_signal(released: Released, at: list[int]) -> None:
    """Refuse a release whose noise is larger than what it is about."""
    layout, noise = released.layout, released.moments.std[np.ix_(at, at)]
    indicator = [layout.attributes[layout.attribute_of[k]].kind is Encoding.SIMPLEX for k in at]
    # A covariance is at most 1, of two levels at most 1/4.
    largest = np.where(indicator, 0.5, 1.0)
    share = noise / (released.n * np.outer(largest, largest))
    known = share[np.isfinite(share) & (share > 0)]
    if known.size and float(np.median(known)) >= 1.0:
        raise ReleaseError(
            "components of this release are not known: the noise on its products is "
            f"{float(np.median(known)):.3g} times the largest covariance that two columns can have"
        )

"""Tables of two columns are shrunk towards the best path through a third; truth and noise are made here, by numpy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from colonnade.analysis import mediators
from colonnade.analysis.mediators import NoisyTables, shrink_tables

LEVELS, COLUMNS, N = 6, 5, 20_000


def chain(rng: np.random.Generator) -> dict[tuple[int, int], np.ndarray]:
    """Exact tables of columns of which each follows the first alone."""
    first = rng.integers(0, LEVELS, N)
    codes = [first, *(np.where(rng.random(N) < 0.7, first, rng.integers(0, LEVELS, N)) for _ in range(COLUMNS - 1))]
    pairs = combinations(range(COLUMNS), 2)
    return {
        (i, j): np.bincount(codes[i] * LEVELS + codes[j], minlength=LEVELS**2).reshape(LEVELS, LEVELS) * 1.0
        for i, j in pairs
    }


def noisy_of(exact: dict[tuple[int, int], np.ndarray], std: float, rng: np.random.Generator) -> NoisyTables:
    margins = [exact[0, 1].sum(axis=1), *(exact[0, j].sum(axis=0) for j in range(1, COLUMNS))]
    tables = {}
    for pair, table in exact.items():
        noise = rng.normal(0, std, table.shape)
        tables[pair] = table + noise - noise.mean(axis=0) - noise.mean(axis=1, keepdims=True) + noise.mean()
    starts = [LEVELS * k for k in range(COLUMNS + 1)]
    return NoisyTables(N, starts, np.concatenate(margins), tables, dict.fromkeys(tables, std**2))


def alone(noisy: NoisyTables) -> np.ndarray:
    return np.outer(noisy.margin, noisy.margin) / N


def error(found: dict[tuple[int, int], np.ndarray], exact: dict[tuple[int, int], np.ndarray], pairs: list) -> float:
    return float(np.mean([np.abs(found[pair] - exact[pair]).sum() for pair in pairs])) / (2 * N)


def test_tables_that_a_third_column_explains_are_nearer_to_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    exact = chain(rng)
    through = [pair for pair in exact if 0 not in pair]
    noisy = noisy_of(exact, 150.0, rng)
    found = {pair: table for pair, (table, _) in shrink_tables(noisy, alone(noisy)).items()}
    monkeypatch.setattr(mediators, "LARGEST_SEARCH", 0)
    plain = {pair: table for pair, (table, _) in shrink_tables(noisy, alone(noisy)).items()}
    # Ten other seeds gave .057 to .069, for .079 to .095 without paths, and .080 to .095 of the noisy tables.
    assert error(found, exact, through) < 0.85 * error(plain, exact, through)
    assert error(found, exact, through) < 0.85 * error(dict(noisy.tables), exact, through)


def test_margins_are_met_and_what_is_left_is_foretold() -> None:
    rng = np.random.default_rng(6)
    exact = chain(rng)
    noisy = noisy_of(exact, 100.0, rng)
    errors, left = [], []
    for pair, (table, std) in shrink_tables(noisy, alone(noisy)).items():
        assert table.min() >= 0
        assert np.allclose(table.sum(axis=1), exact[pair].sum(axis=1), rtol=1e-6)
        assert np.allclose(table.sum(axis=0), exact[pair].sum(axis=0), rtol=1e-6)
        errors.append((table - exact[pair]).std())
        left.append(np.sqrt((std**2).mean()))
    assert np.mean(left) == pytest.approx(np.mean(errors), rel=0.35)


def test_exact_tables_stay_and_independent_ones_gain_no_path() -> None:
    rng = np.random.default_rng(7)
    exact = chain(rng)
    noisy = noisy_of(exact, 1e-3, rng)
    for pair, (table, _) in shrink_tables(noisy, alone(noisy)).items():
        assert np.abs(table - exact[pair]).max() < 0.05
    codes = rng.integers(0, LEVELS, (COLUMNS, N))
    free = {
        (i, j): np.bincount(codes[i] * LEVELS + codes[j], minlength=LEVELS**2).reshape(LEVELS, LEVELS) * 1.0
        for i, j in exact
    }
    noisy = noisy_of(free, 200.0, rng)
    found = {pair: table for pair, (table, _) in shrink_tables(noisy, alone(noisy)).items()}
    # Independent columns: the noise is recognised as such.
    assert error(found, free, list(free)) < 0.35 * error(dict(noisy.tables), free, list(free))


def test_a_path_leads_through_released_tables_alone() -> None:
    rng = np.random.default_rng(8)
    exact = chain(rng)
    noisy = noisy_of(exact, 150.0, rng)
    kept = {pair: table for pair, table in noisy.tables.items() if 0 not in pair}
    cut = NoisyTables(N, noisy.starts, noisy.margin, kept, dict.fromkeys(kept, 150.0**2))
    guess = alone(noisy)
    # What stands where nothing was released is a guess: another guess changes nothing.
    other = guess.copy()
    other[:LEVELS] *= rng.uniform(0, 3, other[:LEVELS].shape)
    other[:, :LEVELS] = other[:LEVELS].T
    first, second = shrink_tables(cut, guess), shrink_tables(cut, other)
    assert all(np.array_equal(first[pair][0], second[pair][0]) for pair in kept)


def test_a_release_without_tables_has_none() -> None:
    assert shrink_tables(NoisyTables(10, [0, 2, 4], np.full(4, 5.0), {}, {}), np.full((4, 4), 2.5)) == {}

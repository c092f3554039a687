"""The one door to randomness: seeded is repeatable, unseeded is not, children are independent, nothing shows."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
from scipy.stats import chisquare

import colonnade
from colonnade.foundation.randomness import Randomness, Stream, derive

SOURCE = Path(colonnade.__file__).parent


def test_seeded_sources_repeat_and_unseeded_do_not() -> None:
    assert Randomness(b"a").bytes(64) == Randomness(b"a").bytes(64) != Randomness(b"b").bytes(64)
    assert Randomness().bytes(32) != Randomness().bytes(32)
    assert Randomness(b"a").seeded and not Randomness().seeded
    assert Randomness(b"a").child("x").seeded and not Randomness().child("x").seeded


def test_children_depend_on_seed_and_label_alone() -> None:
    used = Randomness(b"a")
    used.bytes(100)
    assert used.child("x").bytes(16) == Randomness(b"a").child("x").bytes(16)
    assert used.child("x").bytes(16) != used.child("y").bytes(16) != Randomness(b"a").bytes(16)


def test_a_stream_goes_on() -> None:
    whole = Randomness(b"a").bytes(64)
    parts = Randomness(b"a")
    assert parts.bytes(10) + parts.bytes(54) == whole
    words = Randomness(b"a").words(8)
    assert words.dtype == np.uint64 and words.astype("<u8").tobytes() == whole


def test_words_are_uniform() -> None:
    counts = np.bincount(Randomness(b"u").words(1 << 15).view(np.uint8), minlength=256)
    assert chisquare(counts).pvalue > 1e-6


def test_words_are_owned_by_the_caller() -> None:
    source = Stream(derive(b"k", "x"))
    first = source.words(4)
    kept = first.copy()
    source.words(4)
    assert np.array_equal(first, kept)


def test_repr_hides_the_seed() -> None:
    assert repr(Randomness(b"secret")) == "Randomness(seeded=True)"


def test_derive_separates_labels_and_lengths() -> None:
    assert derive(b"s", "a") != derive(b"s", "b")
    assert len(derive(b"s", "a", 64)) == 64


def test_no_other_door() -> None:
    """`secrets`, `os.urandom`, `random` and numpy's generators are used nowhere else in the library."""
    for path in SOURCE.rglob("*.py"):
        if path.name == "randomness.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            assert not {"secrets", "random"} & {n.split(".")[0] for n in names}, path.name
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("urandom", "default_rng", "SystemRandom"), path.name

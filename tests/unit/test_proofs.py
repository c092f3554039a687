"""A function that carries a privacy claim has a proof that names it and a test that checks it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import colonnade
from colonnade.foundation.proof import PROVEN

ROOT = Path(__file__).parents[2]
PROOFS = ROOT / "proofs"
SOURCE = Path(colonnade.__file__).parent

# Only modules that make a claim are loaded, so that no extra is needed.
for _path in sorted(SOURCE.rglob("*.py")):
    if "\n@proven(" in _path.read_text():
        importlib.import_module(".".join(("colonnade", *_path.relative_to(SOURCE).with_suffix("").parts)))


def test_claims_are_registered() -> None:
    assert len(PROVEN) >= 10
    assert {"box_bound", "exact_sensitivity", "top_down", "bottom_up", "views"} <= set(PROVEN.values())


@pytest.mark.parametrize("function", sorted(PROVEN))
def test_the_proof_exists_and_names_the_function(function: str) -> None:
    text = (PROOFS / f"{PROVEN[function]}.md").read_text()
    name = function.rpartition(".")[2]
    assert f"`{name}`" in text, f"proofs/{PROVEN[function]}.md must name `{name}`"
    assert function.split(".")[-2] in text


@pytest.mark.parametrize("proof", sorted(p.name for p in PROOFS.glob("*.md")))
def test_a_proof_names_tests_that_exist(proof: str) -> None:
    text = (PROOFS / proof).read_text()
    files = re.findall(r"`(tests/[\w/]+\.py)`", text)
    assert files, f"proofs/{proof} must name the test that checks it"
    sources = ""
    for file in files:
        assert (ROOT / file).exists(), f"proofs/{proof} names {file}, which does not exist"
        sources += (ROOT / file).read_text()
    for test in re.findall(r"`(test_\w+)`", text):
        assert f"def {test}" in sources, f"proofs/{proof} names {test}, which is in none of its files"


def test_every_proof_belongs_to_a_function() -> None:
    assert {p.stem for p in PROOFS.glob("*.md")} == set(PROVEN.values())

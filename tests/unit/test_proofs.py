"""A function that carries a privacy claim has a proof that names it, is pinned to it, and a test that checks it."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

import colonnade
from colonnade.foundation.proof import PROVEN
from proofs.pin import IGNORED, Pin, digest, digest_of, pins_of, proven, renew

ROOT = Path(__file__).parents[2]
PROOFS = ROOT / "proofs"
SOURCE = Path(colonnade.__file__).parent

# Only modules that make a claim are loaded, so that no extra is needed.
for _path in sorted(SOURCE.rglob("*.py")):
    if "@proven(" in _path.read_text():
        importlib.import_module(".".join(("colonnade", *_path.relative_to(SOURCE).with_suffix("").parts)))


def test_claims_are_registered() -> None:
    assert len(PROVEN) >= 10
    assert {"box_bound", "exact_sensitivity", "top_down", "bottom_up", "views", "bgn", "masks"} <= set(PROVEN.values())


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


@pytest.mark.parametrize("proof", sorted(p.name for p in PROOFS.glob("*.md")))
def test_a_proof_is_pinned_to_the_code_that_it_is_about(proof: str) -> None:
    """Code that changes under a proof is noticed: read both, then `python proofs/pin.py`."""
    pins = pins_of((PROOFS / proof).read_text())
    missing = {*proven().get(proof.removesuffix(".md"), [])} - {pin.name for pin in pins}
    assert not missing, f"proofs/{proof} must pin {', '.join(sorted(missing))}: python proofs/pin.py"
    for pin in pins:
        assert digest_of(pin.name) == pin.digest, f"{pin.name} has changed under proofs/{proof}: python proofs/pin.py"


def test_pins_are_found_where_functions_are_marked() -> None:
    marked = {f"colonnade.{name}": proof for proof, names in proven().items() for name in names}
    assert marked == PROVEN


SOURCE_OF_F = """
def f(x: float, y=1):
    \"\"\"What.\"\"\"
    if x > 2:
        raise ValueError(f"x must be small, got {x}")
    return x * y + 1
"""


def hashed(source: str) -> str:
    return digest(ast.parse(source).body[0])


@pytest.mark.parametrize(
    ("old", "new", "noticed"),
    [
        ("x * y + 1", "x * y + 2", True),
        ("x > 2", "x >= 2", True),
        ("y=1", "y=0", True),
        ("ValueError", "KeyError", True),
        ("+ 1", "+ (1)  # one", False),
        ("What.", "Something else.", False),
        ("x must be small", "x ought to be small", False),
        ("x: float", "x", False),
        ("    if x > 2:\n", "\n    if (x\n        > 2):\n", False),
    ],
)
def test_a_pin_sees_what_counts(old: str, new: str, noticed: bool) -> None:
    assert old in SOURCE_OF_F
    assert (hashed(SOURCE_OF_F.replace(old, new)) != hashed(SOURCE_OF_F)) is noticed
    assert "type_params" in IGNORED  # a field that Python 3.12 added


def test_pins_are_renewed_and_lost_names_told(tmp_path: Path) -> None:
    path = tmp_path / "views.md"
    path.write_text("# Title\n\nText.\n")
    changed, gone = renew(path, ["mechanism.plan._views"])
    assert len(changed) == 1 and not gone and path.read_text().endswith("-->\n\nText.\n")
    assert pins_of(path.read_text()) == [Pin("mechanism.plan._views", digest_of("mechanism.plan._views"))]
    assert renew(path, ["mechanism.plan._views"]) == ([], [])
    path.write_text(path.read_text().replace("plan._views", "plan._vistas"))
    changed, gone = renew(path, [])
    assert not changed and "mechanism.plan._vistas is gone" in gone[0]


ELSEWHERE = {"RdpAccountant", "ZCDpEvent", "GaussianPrivacyLoss", "isqrt"}
"""Names of other packages."""


@cache
def names_of_the_package() -> tuple[set[str], dict[str, set[str]]]:
    """Everything that is defined, called by keyword or held as an attribute, and for each class what is in it."""
    names: set[str] = set()
    inside: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        names |= {path.stem, path.parent.name}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            if isinstance(node, ast.ClassDef):
                inside.setdefault(node.name, set()).update(
                    inner.name if isinstance(inner, ast.FunctionDef) else inner.target.id
                    for inner in node.body
                    if isinstance(inner, ast.FunctionDef)
                    or (isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name))
                )
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            if isinstance(node, ast.arg):
                names.add(node.arg)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
    return names, inside


def unknown_names(text: str) -> list[str]:
    """What stands in backticks like a name or a file of the package, and is none."""
    names, inside = names_of_the_package()
    out = []
    for quoted in re.findall(r"`([^`\n]+)`", text):
        if re.fullmatch(r"[\w/.-]+\.(py|md|toml)", quoted):
            if not any((base / quoted).exists() for base in (ROOT, SOURCE)):
                out.append(quoted)
            continue
        named = re.fullmatch(r"([A-Za-z_][\w.]*)(\(.*\))?", quoted)
        if not named or named[1].startswith("test_"):
            continue
        *before, last = named[1].split(".")
        held = inside.get(before[-1]) if before else None
        known = {*names, *ELSEWHERE} if held is None else held
        if last not in known or (before and before[-1] not in names):
            out.append(quoted)
    return out


@pytest.mark.parametrize("proof", sorted(p.name for p in PROOFS.glob("*.md")))
def test_a_proof_names_code_that_exists(proof: str) -> None:
    assert not unknown_names((PROOFS / proof).read_text())


def test_a_name_that_is_gone_is_noticed() -> None:
    text = "`_Touch` and `EncodedColumns._within` in `mechanism/sensitivities.py`; `sensitivity`, `_Families.l1`"
    assert unknown_names(text) == ["_Touch", "EncodedColumns._within", "mechanism/sensitivities.py"]

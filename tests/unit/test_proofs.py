"""A function that carries a privacy claim has a proof that names it, is pinned to it, and a test that checks it."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import colonnade
from colonnade.foundation.proven import PROVEN
from drills import mutants
from proofs import pin as pinning
from proofs.pin import IGNORED, Pin, changed, digest, digests_of, pins_of, proven, renew

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


def test_the_proof_exists_and_names_the_function() -> None:
    for function, proof in sorted(PROVEN.items()):
        text = (PROOFS / f"{proof}.md").read_text()
        name = function.rpartition(".")[2]
        assert f"`{name}`" in text, f"proofs/{proof}.md must name `{name}`"
        assert function.split(".")[-2] in text, f"proofs/{proof}.md must say where `{name}` stands"


def test_a_proven_function_says_its_domain_unit_guarantee_and_proof() -> None:
    for function, proof in sorted(PROVEN.items()):
        name = without_module(function)
        module = function.removeprefix("colonnade.").removesuffix(f".{name}")
        (place,) = (one for one in pinning.definitions()[name] if one.module == module)
        said = " ".join((ast.get_docstring(place.node) or "").split())  # type: ignore[arg-type]
        parts = [said.find(f"{part}: ") for part in ("Domain", "Unit", "Guarantee", "Proof")]
        assert parts[0] >= 0 and parts == sorted(parts), function
        assert re.search(rf"Proof: [^.]*\b{proof}\b", said), function


def test_a_proof_names_tests_that_exist() -> None:
    for path in sorted(PROOFS.glob("*.md")):
        text = path.read_text()
        files = re.findall(r"`(tests/[\w/]+\.py)`", text)
        assert files, f"{path.name} must name the test that checks it"
        sources = ""
        for file in files:
            assert (ROOT / file).exists(), f"{path.name} names {file}, which does not exist"
            sources += (ROOT / file).read_text()
        for test in re.findall(r"`(test_\w+)`", text):
            assert f"def {test}" in sources, f"{path.name} names {test}, which is in none of its files"


def test_every_proof_belongs_to_a_function() -> None:
    assert {p.stem for p in PROOFS.glob("*.md")} == set(PROVEN.values())


def test_a_proof_is_pinned_to_the_code_that_it_is_about() -> None:
    """Code that changes under a proof is noticed: read both, then `python proofs/pin.py renew PROOF`."""
    told = []
    for path in sorted(PROOFS.glob("*.md")):
        missing = {*proven().get(path.stem, [])} - {pin.name for pin in pins_of(path.read_text())}
        told += [f"proofs/{path.name} must pin {name}" for name in sorted(missing)] + changed(path)
    assert not told, "\n".join(told)


def test_all_that_pinned_code_uses_is_pinned_or_named_beside_it() -> None:
    """A new callee: pin it in the proof that rests on it, or say in `beside.toml` why none does."""
    assert not pinning.loose()


def test_nothing_stands_beside_the_proofs_that_they_do_not_use(monkeypatch: pytest.MonkeyPatch) -> None:
    named = pinning.beside()
    assert all(len(reason) > 60 for reason in named.values())
    monkeypatch.setattr(pinning, "beside", dict)
    used = {place.name for name in pinning.loose() for place in by_whole_name(name)}
    assert set(named) == used


def by_whole_name(whole: str) -> list[pinning.Place]:
    return [one for places in pinning.definitions().values() for one in places if f"{one.module}.{one.name}" == whole]


def test_a_proof_says_at_which_commit_it_was_read() -> None:
    for path in sorted(PROOFS.glob("*.md")):
        assert re.search(r"^<!-- pins, read at [0-9a-f]{7,}$", path.read_text(), re.MULTILINE), path.name


def test_pins_are_found_where_functions_are_marked() -> None:
    marked = {(name, proof) for proof, names in proven().items() for name in names}
    assert marked == {(without_module(name), proof) for name, proof in PROVEN.items()}


def without_module(whole: str) -> str:
    parts = whole.split(".")[1:]
    cut = next(i for i in range(len(parts), 0, -1) if SOURCE.joinpath(*parts[:i]).with_suffix(".py").exists())
    return ".".join(parts[cut:])


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


def test_pins_are_renewed_one_proof_at_a_time_and_lost_names_told(tmp_path: Path) -> None:
    path = tmp_path / "views.md"
    path.write_text("# Title\n\nText.\n")
    assert renew(path, ["plan_top_down"], "0123abc") == []
    assert path.read_text().startswith("# Title\n\n<!-- pins, read at 0123abc\nplan_top_down ")
    assert path.read_text().endswith("-->\n\nText.\n")
    assert pins_of(path.read_text()) == [Pin("plan_top_down", digests_of("plan_top_down")[0])] and not changed(path)
    before = path.read_text().replace("plan_top", "plan_tip")
    path.write_text(before)
    assert "plan_tip_down is gone" in changed(path)[0] and "plan_tip_down is gone" in renew(path, [], "4567def")[0]
    assert path.read_text() == before
    path.write_text("# Title\n\n<!-- pins\n_views 0000000000000000\n-->\n")
    told = renew(path, [], "4567def")
    assert len(told) == 1 and all(one in told[0] for one in digests_of("_views")), "two functions have this name"
    path.write_text(path.read_text().replace("0" * 16, digests_of("_views")[1]))
    assert renew(path, [], "4567def") == [] and pins_of(path.read_text()) == [Pin("_views", digests_of("_views")[1])]
    for words in (["renew"], ["renew", "everything"], ["check", "views"]):
        assert pinning.main(words) == 2


@pytest.fixture
def small_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of two modules, with a proof that pins one function and its callee."""
    for name, folder in (("PACKAGE", "src"), ("PROOFS", "proofs")):
        (tmp_path / folder).mkdir()
        monkeypatch.setattr(pinning, name, tmp_path / folder)
    monkeypatch.setattr(pinning, "BESIDE", tmp_path / "beside.toml")
    (tmp_path / "beside.toml").write_text("group = []\n")
    (tmp_path / "src" / "first.py").write_text(
        "from colonnade.second import reach\n\nSLACK = 3\n\ndef bound(n):\n    return reach(n) + SLACK\n"
    )
    (tmp_path / "src" / "second.py").write_text("def reach(n):\n    return 2 * n\n")
    (tmp_path / "proofs" / "bound.md").write_text("# Bound\n")
    read_again()
    assert renew(tmp_path / "proofs" / "bound.md", ["bound", "reach", "SLACK"], "0123abc") == []
    yield tmp_path
    read_again()


def read_again() -> None:
    pinning.definitions.cache_clear()
    pinning._imports.cache_clear()


def test_moving_a_function_keeps_its_pin(small_package: Path) -> None:
    (small_package / "src" / "third").mkdir()
    (small_package / "src" / "second.py").rename(small_package / "src" / "third" / "far.py")
    first = small_package / "src" / "first.py"
    first.write_text(first.read_text().replace("colonnade.second", "colonnade.third.far"))
    read_again()
    assert not changed(small_package / "proofs" / "bound.md") and not pinning.loose()


def test_a_changed_callee_is_found(small_package: Path) -> None:
    second = small_package / "src" / "second.py"
    second.write_text(second.read_text().replace("2 * n", "n"))
    read_again()
    told = changed(small_package / "proofs" / "bound.md")
    assert len(told) == 1 and told[0].startswith("bound.md: reach ")


@pytest.mark.parametrize(
    ("old", "new", "carried"),
    [
        ("def reach(n):\n    return 2 * n", "def extent(n):\n    return 2 * n", True),
        ("def reach(n):\n    return 2 * n", "def extent(n):\n    return 3 * n", False),
        ("def reach(n):\n    return 2 * n", "def extent(n):\n    return 2 * n + reach", False),
    ],
)
def test_a_rename_carries_pins_of_code_that_only_changed_names(
    small_package: Path, old: str, new: str, carried: bool
) -> None:
    proof = small_package / "proofs" / "bound.md"
    head = proof.read_text().splitlines()[2]
    for name in ("first", "second"):
        path = small_package / "src" / f"{name}.py"
        path.write_text(
            path.read_text()
            .replace(old, new)
            .replace("import reach", "import extent")
            .replace("reach(n) +", "extent(n) +")
        )
    read_again()
    assert pinning.main(["rename", "reach=extent"]) == 0
    assert bool(changed(proof)) is not carried
    assert proof.read_text().splitlines()[2] == head, "the commit that was read stays"


def test_what_pinned_code_uses_is_pinned_or_named_beside_it(small_package: Path) -> None:
    proof = small_package / "proofs" / "bound.md"
    lines = proof.read_text().splitlines()
    proof.write_text("\n".join(line for line in lines if not line.startswith(("reach", "SLACK"))))
    assert pinning.loose() == {"second.reach": ["bound"], "first.SLACK": ["bound"]}
    (small_package / "beside.toml").write_text('[[group]]\nnames = ["reach"]\nreason = "It only prints."\n')
    assert pinning.loose() == {"first.SLACK": ["bound"]}


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


def test_a_proof_names_code_that_exists() -> None:
    unknown = {path.name: unknown_names(path.read_text()) for path in sorted(PROOFS.glob("*.md"))}
    assert not {name: found for name, found in unknown.items() if found}


def test_a_name_that_is_gone_is_noticed() -> None:
    text = "`_Touch` and `EncodedColumns._within` in `mechanism/sensitivities.py`; `sensitivity`, `_Families.l1`"
    assert unknown_names(text) == ["_Touch", "EncodedColumns._within", "mechanism/sensitivities.py"]


def test_planted_changes_and_those_that_are_argued_are_of_the_code_as_it_is() -> None:
    """A planted text stands once in its file, or `planted` says which does not."""
    assert len({mutant.key for mutant in mutants.planted()}) >= 21
    every = {mutant.key for path in mutants.modules() for mutant in mutants.mutants_of(path)}
    assert not set(mutants.equivalent()) - every
    assert all(len(why) > 40 for why in mutants.equivalent().values())

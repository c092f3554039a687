"""Names that users may write down: what `colonnade` exports, and the import paths that documents and examples use.

A rename shows up here. If it is wanted, change the list, the documents and the changelog together.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import colonnade

ROOT = Path(__file__).resolve().parents[2]
ESTIMATORS = {"VerticalLinearRegression", "VerticalLogisticRegression", "VerticalPoissonRegressor"}
OBJECTS = {"Study", "Party", "Plan", "Release", "Model"}
EXPORTED = ESTIMATORS | OBJECTS | {"Schema", "Numeric", "Categorical", "Binary", "Boolean", "Date", "ColonnadeError"}
PATHS = {
    "colonnade.analysis.components": {"components"},
    "colonnade.analysis.intervals": {"Intervals", "intervals"},
    "colonnade.analysis.question": {"Question"},
    "colonnade.analysis.released": {"Released"},
    "colonnade.analysis.request": {"ModelRequest"},
    "colonnade.analysis.solve": {"FittedModel", "solve"},
    "colonnade.cli.demo": {"judge_model"},
    "colonnade.analysis.synthesis": {"fit_release", "synthesize"},
    "colonnade.analysis.tables": {"Tables"},
    "colonnade.cli": {"app", "main"},
    "colonnade.consent.entries": {"Booking", "DataSet", "EntryKind"},
    "colonnade.consent.ledger": {"Ledger"},
    "colonnade.consent.policy": {"policy_from", "read_policy"},
    "colonnade.data.table": {"open_table", "read_table", "table_from"},
    "colonnade.foundation.threads": {"one_thread"},
    "colonnade.api": OBJECTS,
    "colonnade.estimators": ESTIMATORS,
    "colonnade.foundation.errors": {"ColonnadeError", "DataError", "LedgerError", "PolicyError", "StudyError"},
    "colonnade.foundation.randomness": {"Randomness"},
    "colonnade.foundation.schema": {"Binary", "Categorical", "Numeric", "Schema"},
    "colonnade.mechanism.composition": {"Cap", "Charge", "rho_of_pure"},
    "colonnade.mechanism.release": {"ReleaseRecord", "read_release", "write_release"},
    "colonnade.model": {"PublicModel", "Scores", "publish", "read_model", "score_files", "write_model"},
    "colonnade.runs": {"FittedStudy", "fit", "predict"},
    "colonnade.study": {"StudySpec", "read_study", "study_from"},
}
PARAMETERS = {
    "colonnade.runs.fit": "study options observer",
    "colonnade.runs.predict": "study model receiver options observer data",
    "colonnade.study.read_study": "path rows epsilon",
    "colonnade.model.score_files": "public files ids look strict queries",
    "colonnade.analysis.solve.solve": "moments task method ridge features label intercept numbers",
    "colonnade.analysis.intervals.intervals": "moments task features label intercept level",
    "colonnade.Study": "label parties epsilon task name delta collusion product alignment rows terms",
    "colonnade.Study.plan": "self rows",
    "colonnade.Study.fit": "self out force approve ask strict seed rows workers evidence progress",
    "colonnade.Study.evaluate": (
        "self model data release epsilon delta rows out force strict approve ask evidence progress"
    ),
    "colonnade.Study.rehearse": "self public rows releases seed strict compare",
    "colonnade.Party": "data columns id name policy ledger epsilon split norm people more",
    "colonnade.Release.solve": "self label task features given penalty ridge method seed numbers",
    "colonnade.Release.tables": "self a b seed",
    "colonnade.Release.synthesize": "self rows given impossible seed force anyway",
    "colonnade.Model.predict": "self data id strict",
    "colonnade.VerticalLinearRegression": (
        "epsilon delta split parties schema norms label label_party collusion product calibration release label_square "
        "method fit_intercept ridge random_state consent strict"
    ),
}


def documents() -> list[Path]:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.py")]
    return [path for path in [*pages, *(ROOT / "demo").glob("*.py")] if path.is_file()]


def imported(text: str) -> set[tuple[str, str]]:
    """(module, name) of every import from the package in a document's code blocks, or in a program."""
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "```" in text else [text]
    found = set()
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "colonnade":
                found |= {(str(node.module), alias.name) for alias in node.names}
    return found


def test_the_package_exports_these_names() -> None:
    assert set(colonnade.__all__) == EXPORTED
    assert set(dir(colonnade)) == EXPORTED | {"__version__"}
    for name in EXPORTED:
        assert inspect.isclass(getattr(colonnade, name))


def test_documented_paths_hold_their_names() -> None:
    missing = [
        f"{module}.{name}"
        for module, names in PATHS.items()
        for name in sorted(names)
        if not hasattr(import_module(module), name)
    ]
    assert not missing


def test_parameters_keep_their_names() -> None:
    found = {}
    for name in PARAMETERS:
        module, _, last = name.rpartition(".")
        _, _, owner = module.partition(".")
        place = getattr(colonnade, owner) if owner in EXPORTED else import_module(module)
        found[name] = " ".join(inspect.signature(getattr(place, last)).parameters)
    assert found == PARAMETERS


def test_whatever_a_document_imports_is_on_the_list() -> None:
    known = {(module, name) for module, names in PATHS.items() for name in names}
    known |= {("colonnade", name) for name in (*EXPORTED, "runs", "simulation")}
    for path in documents():
        text = path.read_text(encoding="utf-8")
        if path.suffix != ".md" or "```python" in text:
            assert imported(text) <= known, path.relative_to(ROOT).as_posix()


def test_the_page_of_the_reference_is_up_to_date_and_every_public_thing_says_what_it_is() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "write_api.py", "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for name in OBJECTS | ESTIMATORS:
        found = getattr(colonnade, name)
        members = [m for n, m in vars(found).items() if not n.startswith("_") and inspect.isfunction(m)]
        assert inspect.getdoc(found) and all(inspect.getdoc(m) for m in members), name


def test_the_module_is_a_program() -> None:
    done = subprocess.run([sys.executable, "-m", "colonnade.cli", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("colonnade ")

"""The tree of errors is the one that is drawn, and every refusal of the library comes from it."""

from __future__ import annotations

import ast
import inspect
import pickle
from pathlib import Path

import colonnade
from colonnade.foundation import errors

SOURCE = Path(colonnade.__file__).parent
TREE = {name: kind for name, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__}
BUILT_IN = {"NotImplementedError", "AssertionError", "IndexError"}
# CommError: what the engine's own loop takes from a driver.
INNER = {"CommError", "NotReached", "Remark", "Unreachable"}
"""Caught inside the package: no caller of its front doors ever sees it."""


def test_every_error_is_drawn_and_documented() -> None:
    for name, kind in TREE.items():
        assert issubclass(kind, errors.ColonnadeError)
        assert name in (errors.__doc__ or "")
        assert kind.__doc__


def test_the_library_raises_only_errors_of_the_tree() -> None:
    """But for Python's own contracts: scikit-learn's estimators, an exit, a module's missing name, a sequence's end."""
    outside = {"logistic.py", "vertical.py", "model.py", "__init__.py", "job_classes.py"}
    for path in SOURCE.rglob("*.py"):
        if path.name in outside:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            # `.of(party)` and `.at(key)` say what a refusal is about.
            raised = node.exc if isinstance(node, ast.Raise) else None
            while isinstance(raised, ast.Call) and isinstance(raised.func, ast.Attribute):
                raised = raised.func.value
            if isinstance(raised, ast.Call) and isinstance(raised.func, ast.Name):
                name = raised.func.id
                if name[0].isupper():
                    assert name in TREE or name in BUILT_IN | INNER, f"{path.name} raises {name}"


def test_an_error_says_whose_records_it_is_about() -> None:
    found = errors.DataError("there is no column 'x'").of("bank")
    assert (str(found), found.told, found.party) == (
        "party bank: there is no column 'x'",
        "there is no column 'x'",
        "bank",
    )
    # A worker in another process hands it on.
    again = pickle.loads(pickle.dumps(found))
    assert (str(again), again.party) == (str(found), "bank")
    assert str(errors.DataError("party bank: as it is")) == "party bank: as it is"

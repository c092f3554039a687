"""One reader for study and policy files: each wrong value is named with its key, by the file's own kind of error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from colonnade.foundation.errors import PolicyError, StudyError
from colonnade.foundation.sections import Section, read_toml


def section(**content: Any) -> Section:
    return Section(content, "[total]", PolicyError, "total.")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: section(epsilom=1).known(("epsilon",)), r"^\[total\] has no key 'epsilom'; did you mean 'epsilon'\?$"),
        (lambda: section(zzz=1).known(("a", "b")), r"^\[total\] has no key 'zzz'; it takes a, b$"),
        (lambda: section(a=1).need("a", "b"), r"^\[total\] needs 'b'$"),
        (lambda: section(a=1).table("a", "[a]"), r"^\[a\] must be a table, got 1$"),
        (lambda: section(a="").text("a"), r"^total\.a must be a non-empty text, got a=''$"),
        (lambda: section(a="x").texts("a"), r"^total\.a must be a list of texts, got a='x'$"),
        (lambda: section(a=["x", 1]).texts("a"), r"^total\.a must be a list of texts"),
        (lambda: section(a=["x"]).texts("a", ("y", "z")), r"^total\.a may list y, z, got 'x'$"),
        (lambda: section(a=[]).choice("a", ("y", "z")), r"^total\.a must be one of y, z, got a=\[\]$"),
        (lambda: section().choice("a", ("y",)), r"^total\.a must be one of y, got a=None$"),
        (lambda: section(a=1).flag("a"), r"^total\.a must be true or false, got 1$"),
        (lambda: section(a=True).number("a"), r"^total\.a must be a number, got a=True$"),
        (lambda: section(a=float("nan")).number("a"), r"^total\.a must be a finite number, got a=nan$"),
        (lambda: section(a=10**400).number("a"), r"^total\.a must be a finite number, got a=an integer of 1329 bits$"),
        (lambda: section().number("a"), r"^total\.a must be a number, got a=None$"),
        (lambda: section(a=1.0).whole("a"), r"^total\.a must be a whole number, got a=1\.0$"),
        (lambda: section(a=-1).whole("a"), r"^total\.a must be a whole number, got a=-1$"),
    ],
)
def test_a_wrong_value_is_named(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        ask()


def test_right_values_are_read() -> None:
    whole = section(a="x", b=["x", "y"], c=2, d=True, e={"f": 1.5})
    assert whole.known("abcde").need("a") is whole
    assert whole.text("a") == whole.choice("a", ("x",)) == "x" and whole.choice("z", ("q",), "q") == "q"
    assert whole.texts("b") == ("x", "y") and whole.whole("c") == 2 and whole.number("c") == 2.0
    assert whole.flag("d") and not whole.flag("z") and whole.whole("z", 7) == 7
    assert whole.table("e", "[e]").number("f") == 1.5 and "f" not in whole.table("z", "[z]")


def test_a_file_is_read_whole_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    with pytest.raises(StudyError, match=r"^there is no study file "):
        read_toml(path, "study", 100, StudyError)
    path.write_text("a = 1")
    assert read_toml(path, "study", 5, StudyError).whole("a") == 1
    with pytest.raises(StudyError, match=r"^a study file must have at most 4 bytes, got 5$"):
        read_toml(path, "study", 4, StudyError)
    for wrong in (b"a = ", b"a = '\xff'"):
        path.write_bytes(wrong)
        with pytest.raises(StudyError, match=r"^study\.toml is not valid TOML: "):
            read_toml(path, "study", 100, StudyError)

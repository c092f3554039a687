"""A system without file locks, as Windows: studies work, and a site says in one sentence why it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from colonnade.foundation.errors import SiteError
from colonnade.foundation.files import UNFIT, lock_alone
from tests.helpers.cli_study import write_study

WITHOUT = "import sys; sys.modules['fcntl'] = None; from colonnade.cli import main; main()"


def colonnade(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT, *words], cwd=folder, capture_output=True, text=True)


def test_a_file_is_held_once(tmp_path: Path) -> None:
    with (tmp_path / "held").open("a") as first, (tmp_path / "held").open("a") as second:
        assert lock_alone(first)
        assert not lock_alone(second)


def test_no_locks_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with (tmp_path / "held").open("a") as file, pytest.raises(SiteError, match="no file locks"):
        lock_alone(file)


def test_a_study_is_fitted_and_a_site_refused_without_locks(tmp_path: Path) -> None:
    write_study(tmp_path)
    fitted = colonnade(tmp_path, "fit", "study.toml", "--json")
    assert fitted.returncode == 0, fitted.stderr
    for words in (("server", "start", "."), ("party", "start", "."), ("deploy", "new", "study.toml", "-o", "out")):
        refused = colonnade(tmp_path, *words)
        assert refused.returncode == 1
        assert refused.stderr == f"error: {UNFIT}\n"

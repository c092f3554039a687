"""The licence table covers the lock file, states no licence that forbids use, and says what its generator says."""

from __future__ import annotations

import re
import runpy
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = runpy.run_path(str(ROOT / "docs" / "write_licences.py"))
ROW = re.compile(r"^\| (?P<package>[a-z0-9._-]+) \| (?P<version>\S+) \| (?P<licence>[^|]+) \| (?P<needed>yes)? *\|$")
FINE = re.compile(r"Apache|BSD|MIT|ISC|PSF|MPL|Zlib|CC0|HPND|Python-2\.0|LGPL")


def rows() -> dict[str, re.Match[str]]:
    lines = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8").splitlines()
    return {match["package"]: match for line in lines if (match := ROW.match(line))}


def test_every_locked_package_has_its_row() -> None:
    found = {package: row["version"] for package, row in rows().items()}
    assert found == GENERATOR["locked"](), "run python docs/write_licences.py"


def test_licences_are_those_of_the_installed_packages() -> None:
    checked = 0
    for package, row in rows().items():
        try:
            if version(package) != row["version"]:
                continue
        except PackageNotFoundError:
            continue
        assert GENERATOR["licence"](package) == row["licence"], f"{package}: run python docs/write_licences.py"
        checked += 1
    assert checked > 20


def test_licences_allow_use() -> None:
    for package, row in rows().items():
        assert FINE.search(row["licence"]), f"{package} is under {row['licence']}"
        assert not re.search(r"\bA?GPL", row["licence"]), f"{package} is under {row['licence']}"

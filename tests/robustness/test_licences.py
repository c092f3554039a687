"""The licence table covers the lock file, states no licence that forbids use, and says what its generator says."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = runpy.run_path(str(ROOT / "docs" / "write_licences.py"))
ROW = re.compile(r"^\| (?P<package>[a-z0-9._-]+) \| (?P<version>\S+) \| (?P<licence>[^|]+) \| (?P<needed>yes)? *\|$")
FINE = re.compile(r"Apache|BSD|MIT|ISC|PSF|MPL|Zlib|CC0|HPND|Python-2\.0|LGPL")


def rows() -> dict[str, re.Match[str]]:
    lines = (ROOT / "LICENCES.md").read_text(encoding="utf-8").splitlines()
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


def test_the_bill_of_materials_names_what_is_locked_and_is_the_same_each_time(tmp_path: Path) -> None:
    """Fields as CycloneDX 1.6 has them; every package with every hash that an installation may take."""
    written = []
    for name in ("one", "two"):
        command = [sys.executable, ROOT / "docs" / "write_sbom.py", tmp_path / name]
        subprocess.run(command, check=True, capture_output=True)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    bill = json.loads(written[0])
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    listed = {each["name"].lower(): each for each in bill["components"]}
    assert {name: each["version"] for name, each in listed.items()} == GENERATOR["locked"]()
    lock = (ROOT / "requirements.lock").read_text()
    hashes = [each["content"] for part in bill["components"] for each in part["hashes"]]
    assert sorted(hashes) == sorted(re.findall("sha256:([0-9a-f]{64})", lock)) and len(hashes) > len(listed)
    refs = [each["bom-ref"] for each in bill["components"]]
    assert len(set(refs)) == len(refs) and listed["numpy"]["purl"] == f"pkg:pypi/numpy@{listed['numpy']['version']}"
    assert set(bill["dependencies"][0]["dependsOn"]) <= set(refs)
    assert listed["numpy"]["scope"] == "required" and listed["nvflare"]["scope"] == "optional"

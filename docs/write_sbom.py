"""Write a software bill of materials (CycloneDX 1.6, JSON): Colonnade, and every package of requirements.lock.

python docs/write_sbom.py FILE. Names, versions and hashes are the lock's; licences are what installed packages state.
The same lock gives the same bytes: there is no time in it, and its number is made of what it says.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from write_licences import ROOT, licence, name_of, needed

LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)[^\n]*\n((?:\s+--hash=[^\n]+\n?)*)", re.MULTILINE)


def purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name_of(name)}@{version}"


def component(name: str, version: str, hashes: list[str], plain: set[str]) -> dict[str, Any]:
    """A package: required by a plain installation, or by an extra alone. It has a hash for each of its files."""
    known = purl(name, version)
    out = {"type": "library", "bom-ref": known, "name": name, "version": version, "purl": known}
    out["scope"] = "required" if name_of(name) in plain else "optional"
    out["hashes"] = [{"alg": "SHA-256", "content": each} for each in hashes]
    try:
        out["licenses"] = [{"license": {"name": licence(name)}}]
    except PackageNotFoundError:
        print(f"{name} is locked and not installed here: its licence is left out", file=sys.stderr)
    return out


def bill() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    plain = needed()
    packages = [
        component(name, version, re.findall(r"sha256:([0-9a-f]{64})", hashes), plain)
        for name, version, hashes in LOCKED.findall((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    ]
    own = purl(project["name"], project["version"])
    itself = {
        "type": "application",
        "bom-ref": own,
        "name": project["name"],
        "version": project["version"],
        "purl": own,
    }
    direct = {name_of(text) for text in project["dependencies"]}
    rests = [p["bom-ref"] for p in packages if name_of(p["name"]) in direct]
    content = {
        "metadata": {"component": {**itself, "licenses": [{"expression": project["license"]}]}},
        "components": packages,
        "dependencies": [{"ref": own, "dependsOn": rests}],
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        **content,
    }


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(bill(), indent=1) + "\n", encoding="utf-8")

"""Write LICENCES.md: the licence of every package of requirements.lock, from the installed packages' metadata.

python docs/write_licences.py
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import PackageMetadata, PackageNotFoundError, files, metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "LICENCES.md"
CLASSIFIER = "License :: OSI Approved :: "
KNOWN = {"Apache 2.0": "Apache-2.0", "Apache License 2.0": "Apache-2.0", "MIT License": "MIT", "BSD License": "BSD"}
KNOWN |= {
    "Apache Software License": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "BSD 3-Clause": "BSD-3-Clause",
}
KNOWN |= {"Python Software Foundation License": "PSF-2.0", "ISC License (ISCL)": "ISC"}
KNOWN |= {"Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0"}
INTRO = """# Licences of what we depend on

Colonnade is under Apache-2.0 ([LICENSE](LICENSE)). This table lists every package of requirements.lock, at its
pinned version, with the licence that its own metadata states. `python docs/write_licences.py` writes it; a test
compares it with the lock file. "Needed" packages come with `pip install colonnade`, or are needed by those; the others
belong to an extra (tests, pages, experiments, `bgn`).

| package | version | licence | needed |
|---|---|---|---|
"""
AUDIT = """
## Known vulnerabilities
`pip-audit` compares pins with an advisory database on the network: the package index's own, or OSV. Where this page was
written neither could be reached. The index in use was a mirror without advisories, so that
`pip-audit -r requirements.lock --require-hashes --disable-pip` skipped every package ("could not be audited"), and with
`-s osv` its host could not be resolved. So no package has been compared with any advisory, and the absence of findings
says nothing. What holds without a network: every package is pinned by version and SHA-256 and installed with
`--require-hashes`, so that what is installed is what was resolved. Whoever deploys should run the first command where
the database can be reached.
"""


def locked() -> dict[str, str]:
    """Package -> version."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return {m[1].lower(): m[2] for line in lines if (m := re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", line))}


def licence(package: str) -> str:
    """The licence as an SPDX expression where the metadata has one, else its short name."""
    found = metadata(package)
    if stated := found.get("License-Expression"):
        return str(stated)
    text = (found.get("License") or "").strip()
    if text and "\n" not in text and len(text) < 60 and text.upper() != "UNKNOWN":
        return KNOWN.get(text, text)
    names = [c.removeprefix(CLASSIFIER) for c in found.get_all("Classifier") or [] if c.startswith(CLASSIFIER)]
    if names:
        return " OR ".join(KNOWN.get(name, name) for name in names)
    return KNOWN.get(first := _first_line(package), first)


def _first_line(package: str) -> str:
    """What a package's licence file begins with, where its metadata says nothing."""
    for file in files(package) or []:
        if file.name.upper().startswith("LICEN"):
            return next(line.strip() for line in file.read_text().splitlines() if line.strip())
    return "not stated"


def needed() -> set[str]:
    """What a plain installation brings, with all that those packages require on this platform."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: set[str] = set()
    waiting = [name_of(text) for text in project["dependencies"]]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        waiting += [name_of(r) for r in requirements(metadata(name)) if "extra ==" not in r]
    return found


def requirements(found: PackageMetadata) -> list[str]:
    lines = found.get_all("Requires-Dist") or []
    return [line for line in lines if not re.search(r"(sys_platform|platform_system) == .(win32|Windows|darwin)", line)]


def name_of(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return re.sub(r"[._]", "-", match[0]).lower()


def page() -> str:
    pins, plain = locked(), needed()
    rows = []
    for package, version in sorted(pins.items()):
        try:
            rows.append(
                f"| {package} | {version} | {licence(package)} | {'yes' if name_of(package) in plain else ''} |"
            )
        except PackageNotFoundError:
            print(f"{package} is locked and not installed here", file=sys.stderr)
            rows.append(
                f"| {package} | {version} | not installed here | {'yes' if name_of(package) in plain else ''} |"
            )
    return INTRO + "\n".join(rows) + "\n" + AUDIT


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""`colonnade deploy new`: one folder for each organisation of a study, with certificates, configuration and papers."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from colonnade.crypto.backends import require_private
from colonnade.flare.certificates import Address
from colonnade.flare.folder_texts import policy_file, readme, site_file, smallest_rows, start_script
from colonnade.flare.provision import COORDINATOR as COORDINATOR_NAME
from colonnade.flare.provision import keep_own_key_only, place_kit, provision
from colonnade.flare.renewal import open_authority
from colonnade.foundation.errors import StudyError
from colonnade.foundation.toml import toml_section
from colonnade.sites.site import COORDINATOR, PARTY, POLICY, SERVER, SITE, STARTUP, STUDIES, STUDY
from colonnade.study import StudySpec, read_study

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
RESERVED = (SERVER, COORDINATOR, "authority")
SITE_LOCAL = ("data", "query", "dataset", "read", "policy", "ledger")


def deploy_new(study_file: Path, out: Path, address: Address, keyless: bool = False) -> list[Path]:
    """Write the folders; returns them. Nothing is overwritten, and a failure leaves nothing behind.

    `keyless` folders have no key and no certificate: each site asks for its own (`renewal`).
    """
    study, public, slug = _read(study_file, out)
    new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".new-", dir=out) as place:
            names = _write_folders(study, public, slug, Path(place), address, keyless)
            for name in ("authority", *names):
                os.replace(Path(place) / name, out / name)
    except BaseException:
        if new:
            out.rmdir()
        raise
    return [out / name for name in names]


def _read(study_file: Path, out: Path) -> tuple[StudySpec, str, str]:
    """A study that can be deployed, its public terms, and what a folder or a project of it is called."""
    study = read_study(study_file)
    check_study(study)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StudyError(f"{out} must be a new or an empty folder, and is neither")
    slug = re.sub(r"[^A-Za-z0-9_-]", "-", study.agreement.name)[:32].strip("-_") or "study"
    return study, public_study(tomllib.loads(study_file.read_text(encoding="utf-8"))), slug


def _sides(study: StudySpec) -> list[tuple[str, str]]:
    """Role and folder of each organisation."""
    return [(SERVER, SERVER), (COORDINATOR, COORDINATOR), *((PARTY, name) for name in study.agreement.schema.names)]


def _write(folder: Path, study: StudySpec, public: str, role: str, name: str, more: Mapping[str, str]) -> None:
    texts = {STUDY: public, SITE: site_file(study, role, name), **more}
    if role == PARTY:
        texts[POLICY] = policy_file(study, name)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


def _write_folders(study: StudySpec, public: str, slug: str, out: Path, address: Address, keyless: bool) -> list[str]:
    authority = out / "authority"
    authority.mkdir(mode=0o700)
    kits = provision(authority, slug, study.agreement.schema.names, address)
    called = {SERVER: address.host, COORDINATOR: COORDINATOR_NAME}
    for role, name in _sides(study):
        folder = out / name
        folder.mkdir(mode=0o700)
        place_kit(kits / called.get(role, name), folder, role)
        more = {"README.md": readme(study, role, name, address, keyless), "start.sh": start_script(role)}
        _write(folder, study, public, role, name, more)
        (folder / "start.sh").chmod(0o755)
        if keyless:
            remove_pair(folder)
    # The kits are in the folders now; what stays is the authority's own key and the certificates it gave.
    shutil.rmtree(kits)
    keep_own_key_only(authority)
    return [name for _, name in _sides(study)]


def deploy_add(study_file: Path, authority: Path, out: Path) -> list[Path]:
    """Write what each site of a deployment needs for a further study; its certificate and its process stay the same."""
    study, public, slug = _read(study_file, out)
    _, _, given = open_authority(authority)
    strangers = [name for name in study.agreement.schema.names if name not in given]
    if strangers:
        raise StudyError(f"this deployment has no {', '.join(strangers)}: a party that joins needs a new deployment")
    folders = {name: out / name / STUDIES / slug for _, name in _sides(study)}
    for role, name in _sides(study):
        folders[name].mkdir(parents=True, mode=0o700)
        _write(folders[name], study, public, role, name, {})
    return list(folders.values())


def remove_pair(folder: Path) -> None:
    """Key and certificate go: the site makes its own key, and nobody else ever has it."""
    for file in (folder / STARTUP).iterdir():
        if file.suffix in (".key", ".crt"):
            file.unlink()


def warnings(study: StudySpec) -> list[str]:
    """What the organisations should be told before they read their policies."""
    said = [f"the policies refuse sessions of fewer than {smallest_rows(study)} common records (smallest_rows)"]
    if study.agreement.collusion == 0:
        said.append("collusion = 0: what is not promised, and against whom, is in the policies (views); read it there")
    return said


def check_study(study: StudySpec) -> None:
    """Refuse what cannot leave one process."""
    agreement = study.agreement
    if len(agreement.schema.names) < 2:
        raise StudyError(f"a deployment needs two parties or more, got {len(agreement.schema.names)}")
    require_private(agreement.product)
    for name in agreement.schema.names:
        if not NAME.fullmatch(name) or name in RESERVED:
            raise StudyError(
                f"a party's name in a deployment must be letters, digits, - and _, and none of "
                f"{', '.join(RESERVED)}, got {name!r}"
            )


def public_study(content: Mapping[str, Any]) -> str:
    """The study file without what lies on anybody's machine."""
    parts = ["# The public terms of the study, the same at all organisations.", toml_section("study", content["study"])]
    for name, party in content["party"].items():
        terms = {k: v for k, v in party.items() if k not in (*SITE_LOCAL, "columns")}
        parts.append(toml_section(f"party.{name}", terms))
        parts.append(toml_section(f"party.{name}.columns", party.get("columns", {})))
    # Who may audit is agreed on like all else.
    parts += [toml_section("audit", content["audit"])] if "audit" in content else []
    return "\n".join(parts)

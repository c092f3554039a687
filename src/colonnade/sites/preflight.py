"""What would refuse a session later, said before anybody is asked: files, places, policy, ledger."""

from __future__ import annotations

import tempfile
from pathlib import Path

from colonnade.consent.guard import ConsentGuard
from colonnade.consent.policy import check_approvals
from colonnade.foundation.errors import LedgerError, PolicyError, SiteError
from colonnade.sites.site import SITE, Site


def try_folder(folder: Path, what: str, mode: int = 0o777) -> None:
    """Make a folder, and show that files can be written into it."""
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".trial."):
            pass
    except OSError as error:
        # Without the path: the coordinator is told what the server cannot do, and not where.
        raise SiteError(f"{what} cannot be written: {(error.strerror or str(error)).lower()}") from None


def try_releases(site: Site) -> None:
    try_folder(site.releases, f"the releases of {site.folder.name}/{SITE}")


def get_ready(site: Site, approved: list[str]) -> list[str]:
    """Raise what would refuse every session of a party; what its people should know otherwise."""
    check_approvals(approved)
    guard, _ = site.guard()
    try_releases(site)
    with site.open_workers():
        table = site.table()
    # Whoever approves decides with what is not as declared in mind: no partner hears of it.
    notes = table.notes()
    agreement, aligned = site.study.agreement, site.study.aligned
    try:
        if not isinstance(guard, ConsentGuard):
            guard.foresee(agreement, table.rows, aligned)
        else:
            guard.ledger.try_to_write()
            # What a broken session left is settled by the next one, and may be void.
            apart = guard.pending(agreement.name)
            guard.foresee(agreement, table.rows, aligned, apart)
    except (PolicyError, LedgerError) as error:
        if not site.asked.content:
            raise
        # A party whose budget is spent may still score records.
        notes.append(f"a session would be refused: {error}")
    return notes

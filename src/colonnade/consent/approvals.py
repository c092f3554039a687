"""Approvals that a person leaves in a site's folder while it runs: each admits one session."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from colonnade.foundation.errors import PolicyError


@dataclass(frozen=True)
class Approvals:
    """Files that are named by digests of plans, or by their first characters; whoever removes one has used it."""

    site: Path
    """The organisation's folder."""

    @property
    def _place(self) -> Path:
        return self.site / "approved"

    def waiting(self) -> list[str]:
        """What is approved and not used."""
        return sorted(path.name for path in self._place.iterdir()) if self._place.is_dir() else []

    def leave(self, digest: str) -> None:
        self._place.mkdir(mode=0o700, exist_ok=True)
        (self._place / digest.lower()).touch(mode=0o600)

    def take(self, digest: str) -> bool:
        """Use an approval of this plan up, if there is one."""
        for given in self.waiting():
            if digest.startswith(given):
                with suppress(FileNotFoundError):
                    (self._place / given).unlink()
                    return True
        return False

    def withdraw(self, digest: str) -> None:
        try:
            (self._place / digest.lower()).unlink()
        except FileNotFoundError:
            waiting = ", ".join(self.waiting()) or "none"
            raise PolicyError(f"there is no approval {digest} to withdraw: {waiting} waits for a session") from None

    def command(self, digest: str) -> str:
        return f"colonnade approve {digest} --site {shlex.quote(str(self.site))}"

"""A party's premises, where it is audited: its evidence and key, its data, and its part by its own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

from colonnade.audit.session import Checker, SessionAudit, audit_session, replay, require_of, unproduced
from colonnade.data.table import read_table
from colonnade.foundation.errors import MessageError, SiteError, StudyError
from colonnade.foundation.parts import content_digest
from colonnade.foundation.sections import Section
from colonnade.foundation.workers import HERE
from colonnade.protocol.fit import FIT, FitParty
from colonnade.protocol.guard import Unguarded
from colonnade.protocol.kinds import PartyTask, matches_ids
from colonnade.protocol.messages import Envelope
from colonnade.sites.recipes import EvaluateRecipe, FitRecipe, PredictRecipe, Recipe
from colonnade.sites.site import PARTY, STARTUP, Site, read_site
from colonnade.study import read_study
from colonnade.transport.evidence import AUTHORITY, KeptEvidence, read_messages, write_message


@dataclass(frozen=True)
class Premises:
    """What an auditor finds at the audited party."""

    kept: KeptEvidence
    task: PartyTask
    """The party's part, as its files state it, that asks nobody and keeps nothing."""
    key: Path
    collusion: int
    authority: Path | None
    """The certificate of the party's own authority, where it has one."""

    @classmethod
    def open(
        cls, evidence: Path, *, site: Path | None, study: Path | None, data: Path | None, key: Path | None
    ) -> Premises:
        """By the party's folder, or by the study file of a run in one process."""
        kept = KeptEvidence.read(evidence)
        if study is None:
            return cls._at_site(kept, site or evidence.resolve().parent.parent, data, key)
        if key is None or site is not None:
            raise StudyError("a run in one process has no site: give --study and --key, and no --site")
        return cls._of_study(kept, study, data, key)

    @classmethod
    def _at_site(cls, kept: KeptEvidence, folder: Path, data: Path | None, key: Path | None) -> Premises:
        site = read_site(folder, PARTY)
        asked = _recipe(kept, site if data is None else _with_data(site, data))
        task: Any = asked.party_task(Unguarded(), HERE)
        task.keep, file, root = None, asked.source.data, folder / STARTUP / "rootCA.pem"
        assert file is not None
        # The digest that the party's ledger has of it.
        task.data = lambda: bytes.fromhex(content_digest(file))
        authority = root if root.is_file() else None
        return cls(kept, task, key or site.evidence_key, site.study.agreement.collusion, authority)

    @classmethod
    def _of_study(cls, kept: KeptEvidence, path: Path, data: Path | None, key: Path) -> Premises:
        study, party = read_study(path), str(kept.facts["party"])
        if party not in study.sources or kept.facts.get("kind") != FIT.name:
            raise SiteError(f"the evidence is of {party} in a session for {kept.facts.get('kind')}, not of this study")
        source = study.sources[party]
        file = source.data if data is None else data
        if file is None:
            raise SiteError(f"[party.{party}] names no data: give its file with --data")
        columns = study.agreement.schema.parties[party]
        matched = matches_ids(study.alignment, study.agreement.schema.names)
        read = partial(read_table, party, file, columns, source.id, matched=matched)
        task = FitParty(party, study.agreement, study.alignment, read, Unguarded())
        task.data = lambda: bytes.fromhex(content_digest(file))
        return cls(kept, task, key, study.agreement.collusion, None)

    def audit(self, against: Sequence[Path], came: Sequence[Path], authority: Path | None) -> SessionAudit:
        """The replay; a party that cannot show its secrets fails."""
        root, fingerprint = self._authority(authority)
        require_of(self.kept, self.task)
        try:
            opening = self.kept.opening(_read_key(self.key))
        except SiteError as error:
            return unproduced(self.kept, str(error), fingerprint)
        peers = [KeptEvidence.read(peer) for peer in against]
        checker_of = None if root is None else lambda kept: _checker(root, kept)
        more = [envelope for path in came for envelope in _messages(path)]
        return audit_session(
            self.kept, opening, self.task, peers, checker_of=checker_of, authority=fingerprint, came=more
        )

    def resend(self, to: str, came: Sequence[Path], file: IO[bytes]) -> tuple[int, str]:
        """Write what this party sent to a peer; how many messages, and what is missing for more."""
        require_of(self.kept, self.task)
        if to not in self.task.parties or to == self.task.name:
            raise SiteError(f"the session has no peer {to!r} of {self.task.name}")
        made = 0

        def keep(envelope: Envelope) -> None:
            nonlocal made
            if envelope.recipient == to:
                write_message(file, envelope)
                made += 1

        more = [envelope for path in came for envelope in _messages(path)]
        again = replay(self.kept, self.kept.opening(_read_key(self.key)), self.task, came=more, keep=keep)
        return made, again.lacks

    def _authority(self, named: Path | None) -> tuple[Any, str]:
        """The certificate that signatures are checked by, and its fingerprint; none where the session had none."""
        path, kept = named or self.authority, self.kept.place / AUTHORITY
        if path is None:
            return None, ""
        root, fingerprint = _certificate(path)
        if kept.is_file() and _certificate(kept)[1] != fingerprint:
            raise SiteError(
                f"the session had another authority than that of {path}: compare {kept} with what its parties know, "
                "and name it with --authority"
            )
        return root, fingerprint


def require_same_authority(kept: KeptEvidence, verdict: Mapping[str, Any]) -> None:
    """Raise when the auditor checked signatures by another authority than the one of this session."""
    own = kept.place / AUTHORITY
    if own.is_file() and verdict["authority"] and _certificate(own)[1] != verdict["authority"]:
        raise SiteError("the auditor checked signatures by another authority than the one of this session")


def _certificate(path: Path) -> tuple[Any, str]:
    from cryptography.hazmat.primitives.hashes import SHA256

    from colonnade.flare.signing import read_authority

    root = read_authority(path)
    return root, root.fingerprint(SHA256()).hex()


def _checker(root: Any, kept: KeptEvidence) -> Checker:
    """Certificates count that were valid when the session began."""
    from colonnade.flare.signing import CertificateChecker

    try:
        began = datetime.fromisoformat(str(kept.facts.get("began")))
    except ValueError:
        raise SiteError(f"{kept.place} does not say when its session began") from None
    return CertificateChecker(root, began if began.tzinfo else began.replace(tzinfo=UTC))


def _read_key(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise SiteError(f"the key of the evidence cannot be read: {(error.strerror or '').lower()}") from None


def _messages(path: Path) -> list[Envelope]:
    try:
        return list(read_messages(path))
    except (OSError, MessageError):
        raise SiteError(f"{path} holds no messages that a party made again") from None


def _recipe(kept: KeptEvidence, site: Site) -> Recipe:
    """What the session was for, by its terms: a site's files may ask for several things."""
    kinds: tuple[type[Recipe], ...] = (FitRecipe, EvaluateRecipe, PredictRecipe)
    found: list[Recipe] = []
    for kind in kinds:
        if kind.kind.name == kept.facts.get("kind"):
            with suppress(StudyError):
                found.append(kind(site))
    if not found:
        raise SiteError(f"the evidence is of a session for {kept.facts.get('kind')!r}, which these files do not state")
    fitting = (one for one in found if one.party_task(Unguarded(), HERE).terms == kept.facts.get("terms"))
    return next(fitting, found[0])


def _with_data(site: Site, data: Path) -> Site:
    """The site with another file in place of its own, whatever the session was for."""

    def naming(section: Section) -> Section:
        return replace(section, content={**section.content, "data": str(data.resolve())})

    return replace(site, content=naming(site.content), asked=naming(site.asked), evaluated=naming(site.evaluated))

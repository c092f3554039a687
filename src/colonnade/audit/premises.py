"""A party's premises, where it is audited: its evidence and key, its data, and its part by its own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec

from colonnade.audit.quoted import Quote, is_signed
from colonnade.audit.session import Checker, SessionAudit, audit_session, foreign, other_terms, replay, unproduced
from colonnade.audit.verdict import require_few, require_start
from colonnade.data.table import Table
from colonnade.evaluation import Evaluation, evaluate_by, terms_of
from colonnade.foundation.errors import ColonnadeError, MessageError, SiteError, StudyError
from colonnade.foundation.files import read_whole
from colonnade.foundation.sections import Section
from colonnade.foundation.workers import HERE
from colonnade.mechanism.release import read_release
from colonnade.model import read_model
from colonnade.planning.agreement import Agreement
from colonnade.protocol.fit import FIT, FitParty
from colonnade.protocol.messages import Envelope
from colonnade.protocol.tasks import PartyTask, Unguarded
from colonnade.sites.evaluation_request import EvaluateRecipe
from colonnade.sites.prediction_request import PredictRecipe
from colonnade.sites.recipes import FitRecipe, Recipe
from colonnade.sites.site import PARTY, STARTUP, Site, read_site
from colonnade.study import StudySpec, read_study
from colonnade.transport.evidence import AUTHORITY, KeptEvidence, read_key, read_messages, write_message


class _Replayed(Unguarded):
    """What the party's policy allowed in the session is not asked again."""

    largest_list = 1 << 64


@dataclass(frozen=True)
class AuditedSite:
    """What an auditor finds at the audited party."""

    kept: KeptEvidence
    task: PartyTask | None
    """The party's part, as its files state it, that asks nobody and keeps nothing; None if they cannot be read."""
    key: Path
    terms: Agreement | None
    folder: Path | None
    """The party's own, where it has certificates."""
    unreadable: str = ""

    @classmethod
    def open(
        cls,
        evidence: Path,
        *,
        site: Path | None,
        study: Path | None,
        data: Path | None,
        key: Path | None,
        model: Path | None = None,
        release: Path | None = None,
    ) -> AuditedSite:
        """By the party's folder, or by the study file of a run in one process, with the model that was evaluated."""
        kept = KeptEvidence.read(evidence)
        if study is not None and (key is None or site is not None):
            raise StudyError("a run in one process has no site: give --study and --key, and no --site")
        try:
            if study is not None:
                assert key is not None
                return cls._of_study(kept, study, data, key, model, release)
            return cls._at_site(kept, site or evidence.resolve().parent.parent, data, key)
        except ColonnadeError as error:
            return cls(kept, None, key or evidence, None, None, str(error))

    @classmethod
    def _at_site(cls, kept: KeptEvidence, folder: Path, data: Path | None, key: Path | None) -> AuditedSite:
        site = read_site(folder, PARTY)
        asked = _recipe(kept, site if data is None else _with_data(site, data))
        task: Any = asked.party_task(_Replayed(), HERE)
        task.keep, task.data = None, partial(asked.source.digest, site.party)
        return cls(kept, task, key or site.evidence_key, site.study.agreement, folder)

    @classmethod
    def _of_study(
        cls,
        kept: KeptEvidence,
        path: Path,
        data: Path | None,
        key: Path,
        model: Path | None,
        release: Path | None,
    ) -> AuditedSite:
        study, party = read_study(path), str(kept.facts["party"])
        evaluation = None if model is None else _evaluation(kept, study, model, release)
        study = study if evaluation is None else evaluation.study
        if party not in study.sources or kept.facts.get("kind") != FIT.name:
            raise SiteError(f"the evidence is of {party} in a session for {kept.facts.get('kind')}, not of this study")
        columns = study.agreement.schema.parties[party] if evaluation is None else evaluation.needs(party)
        source = study.sources[party] if data is None else study.sources[party].given(party, data, columns)
        if source.data is None:
            raise SiteError(f"[party.{party}] names no data: give its file with --data")

        def read() -> Table:
            table = source.read(party, columns, matched=study.aligned)
            return table if evaluation is None else evaluation.derive(table)

        task = FitParty(party, study.agreement, study.alignment, read, _Replayed())
        task.data = partial(source.digest, party)
        return cls(kept, task, key, study.agreement, None)

    @property
    def auditors(self) -> tuple[str, ...]:
        """The public keys that the parties agreed on."""
        return () if self.terms is None else self.terms.auditors

    def require_start(self, start: Mapping[str, Any] | None, against: Sequence[Path]) -> None:
        """Raise, before a seed is seen, unless an agreed auditor has signed that it starts, and few others did."""
        if self.terms is None or not self.auditors:
            return
        peers = [peer for peer, _ in map(_read_peer, against) if peer is not None]
        require_start(self.kept, start, self.auditors)
        require_few(self.kept, peers, self.auditors, self.terms.collusion)

    def audit(self, against: Sequence[Path], came: Sequence[Path], authority: Path | None) -> SessionAudit:
        """The replay; a party that cannot show what it should have kept is not shown to have followed."""
        peers, unread = [], []
        for peer, why in map(_read_peer, against):
            peers += [] if peer is None else [peer]
            unread += [] if peer is not None else [f"evidence of a peer cannot be read: {why}"]
        found = self._judge(peers, [envelope for path in came for envelope in _messages(path)], authority)
        return msgspec.structs.replace(found, doubts=(*unread, *found.doubts))

    def _judge(self, peers: Sequence[KeptEvidence], came: Sequence[Envelope], authority: Path | None) -> SessionAudit:
        fingerprint = ""
        try:
            root, fingerprint = self._authority(authority)
            if (told := foreign(self.kept, peers, fingerprint)) is not None:
                return told
            if self.task is None:
                return unproduced(self.kept, f"its files cannot be read: {self.unreadable}", fingerprint)
            opening = self.kept.opening(read_key(self.key))
            checker = None if root is None else _checker(root, self.kept, self._revoked())
        except SiteError as error:
            return unproduced(self.kept, str(error), fingerprint)
        return audit_session(self.kept, opening, self.task, peers, checker=checker, authority=fingerprint, came=came)

    def resend(self, to: str, came: Sequence[Path], file: IO[bytes]) -> tuple[int, str]:
        """Write what this party sent to a peer; how many messages, and what is missing for more."""
        if self.task is None:
            raise SiteError(f"the party's files cannot be read: {self.unreadable}")
        if (told := other_terms(self.kept, self.task)) is not None:
            raise SiteError(told.sentence)
        if to not in self.task.parties or to == self.task.name:
            raise SiteError(f"the session has no peer {to!r} of {self.task.name}")
        made = 0

        def keep(envelope: Envelope) -> None:
            nonlocal made
            if envelope.recipient == to:
                write_message(file, envelope)
                made += 1

        more = [envelope for path in came for envelope in _messages(path)]
        again = replay(self.kept, self.kept.opening(read_key(self.key)), self.task, came=more, keep=keep)
        return made, again.lacks

    def _authority(self, named: Path | None) -> tuple[Any, str]:
        """The certificate that signatures are checked by, and its fingerprint; none where the session had none."""
        own = None if self.folder is None else self.folder / STARTUP / "rootCA.pem"
        path, kept = named or own, self.kept.place / AUTHORITY
        if path is None or not (named or path.is_file()):
            return None, ""
        root, fingerprint = _certificate(path)
        if kept.is_file() and _certificate(kept)[1] != fingerprint:
            raise SiteError(
                f"the session had another authority than that of {path}: compare {kept} with what its parties know, "
                "and name it with --authority"
            )
        return root, fingerprint

    def _revoked(self) -> Mapping[int, datetime]:
        from colonnade.flare.certificates import read_revoked

        return {} if self.folder is None else read_revoked(self.folder)


def _evaluation(kept: KeptEvidence, study: StudySpec, model: Path, release: Path | None) -> Evaluation:
    """What was evaluated in one process: bins and epsilon are as the evidence says, which must have these terms."""
    asked = Agreement.of(kept.facts.get("agreement", {})).to()
    opened = None if release is None else read_release(read_whole(release, "release"))
    return evaluate_by(study, read_model(read_whole(model, "model")), release=opened, **terms_of(asked))


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


def _read_peer(place: Path) -> tuple[KeptEvidence | None, str]:
    """A peer's evidence; what cannot be read is a doubt about the peer."""
    try:
        return KeptEvidence.read(place), ""
    except SiteError as error:
        return None, str(error)


def check_quotes(verdict: Mapping[str, Any], kept: KeptEvidence) -> bool | None:
    """Whether the audited party signed what a verdict quotes, by the authority of one's own evidence; None without."""
    if not (kept.place / AUTHORITY).is_file():
        return None
    checker = _checker(_certificate(kept.place / AUTHORITY)[0], kept)
    return all(is_signed(Quote(**quote), verdict["party"], verdict["session"], checker) for quote in verdict["quotes"])


def _checker(root: Any, kept: KeptEvidence, revoked: Mapping[int, datetime] | None = None) -> Checker:
    """Certificates count that were valid when the session began."""
    from colonnade.flare.signing import CertificateChecker

    try:
        began = datetime.fromisoformat(str(kept.facts.get("began")))
    except ValueError:
        raise SiteError(f"{kept.place} does not say when its session began") from None
    return CertificateChecker(root, began if began.tzinfo else began.replace(tzinfo=UTC), revoked)


def _messages(path: Path) -> list[Envelope]:
    """What a peer made again, as far as it can be read."""
    found: list[Envelope] = []
    with suppress(OSError, MessageError):
        found.extend(read_messages(path))
    return found


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

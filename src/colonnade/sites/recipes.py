"""What a site does in a session of each kind, by its own files: which tasks it runs and what is left of them here.

The jobs know of recipes alone, and carriers of nothing: a further kind of session is a recipe and a class path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from colonnade.consent.entries import DataSet
from colonnade.consent.guard import ConsentGuard, PolicyGuard
from colonnade.data.sources import Source
from colonnade.data.table import Table
from colonnade.foundation.errors import SiteError, StudyError
from colonnade.foundation.files import Place, keep_release, put, telling
from colonnade.foundation.sections import Section
from colonnade.foundation.workers import HERE, Workers
from colonnade.mechanism.release import ReleaseRecord, write_release
from colonnade.planning.query import KEPT_NAME
from colonnade.planning.session_plan import SessionPlan
from colonnade.protocol.fit import FIT, FitParty, FitServer
from colonnade.protocol.tasks import Guard, PartyTask, ServerTask, SessionKind
from colonnade.sites.site import PARTY, RELEASE, SITE, STARTUP, Site, find_site, read_sites
from colonnade.study import StudySpec
from colonnade.transport.evidence import EvidenceFolder, destroy_expired, read_key

if TYPE_CHECKING:
    from colonnade.protocol.server import ServerRole

AnyGuard = ConsentGuard | PolicyGuard


@dataclass(frozen=True)
class JobAccount:
    """What the server's job says of itself at its end; the coordinator fetches it."""

    sentence: str
    ok: bool = False
    bytes: dict[str, dict[str, int]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    file: Path | None = None
    aside: str = ""
    """For the server's own people."""


class Recipe(ABC):
    """One site's part in one session."""

    kind: ClassVar[SessionKind]
    task: ClassVar[str]
    """What the engine calls it."""
    mark: ClassVar[str] = ""
    """What comes behind the study's name in the name of a job."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.file: Path | None = None
        """What the session left here."""
        self.data: DataSet | None = None
        """This party's data by content, where its ledger asks for it."""
        self.notes: list[str] = []
        """What this party's people should know of how their records were read."""
        self._table: Table | None = None

    def require_asked(self, section: Section, *keys: str) -> None:
        """Refuse a section of the site's file that does not say what is asked for."""
        for key in keys:
            if key not in section:
                told = f"{self.site.folder.name}/{SITE} asks for no {self.task}"
                raise StudyError(f"{told}: {section.where} has no {key}")

    def require_part(self, parties: Collection[str]) -> None:
        """Refuse, at a party, a model that leaves it out."""
        if self.site.role == PARTY and self.site.party not in parties:
            told = f"the model has no weight for a column of {self.site.party}, which takes no part in the {self.task}"
            raise StudyError(told)

    @classmethod
    def open_site(cls, folder: Path, job: str, role: str) -> Site:
        """This organisation's side, by its own files; of a job no more than its name is known, which says its study."""
        named = job.rpartition(cls.mark)[0] if cls.mark else job
        for site in read_sites(folder, role) if cls.mark and named else ():
            # An evaluation's own name has only so much of the study's.
            if site.study.agreement.name[:KEPT_NAME] == named[:KEPT_NAME]:
                return site
        return find_site(folder, named, role)

    @abstractmethod
    def server_task(self, job: str, run: Path) -> ServerTask:
        """The server's part; `job` is what the coordinator called the job, `run` the folder of this run."""

    @abstractmethod
    def account(self, role: ServerRole) -> JobAccount:
        """What the server has to say of a session that was opened."""

    def prepare(self, guard: AnyGuard) -> AnyGuard:
        """Refuse what this site cannot do before others hear of it; the guard of this session's data."""
        if isinstance(guard, ConsentGuard):
            # Of other records than the study's, which were hashed for the guard, it is another data set.
            if self.source != self.site.source:
                guard = replace(guard, data=self.source.records(self.site.party).data_set(self.site.party))
            self.data = guard.data
        return guard

    @property
    def source(self) -> Source:
        """Where this party's records of the session lie."""
        return self.site.source

    def data_digest(self) -> Callable[[], bytes] | None:
        """What a party commits to: the digest that its ledger has of the file, so that nothing is hashed twice."""
        data = self.data
        return None if data is None else lambda: bytes.fromhex(data.digest)

    @abstractmethod
    def table(self, workers: Workers = HERE) -> Table:
        """The party's records, as the session takes them."""

    def read(self, workers: Workers) -> Table:
        """The same, of which the party's people are told."""
        self._table = self.table(workers)
        self.notes = self._table.notes()
        return self._table

    @abstractmethod
    def party_task(self, guard: Guard, workers: Workers) -> PartyTask:
        """A party's part."""

    @abstractmethod
    def sentence(self) -> str:
        """What a party's people are told of a session that went well."""


class FitRecipe(Recipe):
    """A release: every site that takes part keeps it."""

    kind, task = FIT, "session"
    opened = "the release was opened"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._flaw = ""
        self._fetched = False

    @property
    def study(self) -> StudySpec:
        """Whose agreement the session has."""
        return self.site.study

    def table(self, workers: Workers = HERE) -> Table:
        return self.site.table(workers)

    def server_task(self, job: str, run: Path) -> FitServer:
        self.site.try_releases()

        def keep(release: ReleaseRecord) -> None:
            content = write_release(release)
            try:
                # The coordinator's copy first: whatever happens to ours, it can be fetched.
                put(Place(run / RELEASE, force=True), content)
                self._fetched = True
                self.file = keep_release(self._place(task.session), content)
            except StudyError as error:
                self._flaw = str(error)

        task = FitServer(self.study.agreement, self.study.alignment, keep=keep)
        return task

    def _place(self, session: SessionPlan | None) -> Path:
        """By this site's own session, whatever a release says of itself."""
        assert session is not None
        return self.site.releases / f"{session.identity.hex()[:16]}.json"

    def account(self, role: ServerRole) -> JobAccount:
        facts = {"session": role.identity.hex()}
        assert role.end is not None
        if not self._flaw:
            return JobAccount(role.task.ending(role.end), True, facts=facts, file=self.file)
        sentence = "the release was opened, and the server could not keep it; the session counts as spent"
        return JobAccount(f"{sentence}, and every party has the release", self._fetched, facts=facts, aside=self._flaw)

    def prepare(self, guard: AnyGuard) -> AnyGuard:
        self.site.try_releases()
        return super().prepare(guard)

    def party_task(self, guard: Guard, workers: Workers) -> FitParty:
        study, read = self.study, partial(self.read, workers)

        def keep(release: ReleaseRecord) -> None:
            if self._table is not None:
                # A file that was read while it was coded has its notes now.
                self.notes = self._table.notes()
            if self.study.aligned and self._table is not None and task.session is not None:
                # Where few match, ids may be written in two ways; of others' ids a party hears nothing.
                self.notes.append(f"{task.session.rows:,} of {self._table.rows:,} records were matched")
            self._keep(release, task.session)

        task = FitParty(self.site.party, study.agreement, study.alignment, read, guard, keep, workers=workers)
        task.data = self.data_digest()
        return task

    def _keep(self, release: ReleaseRecord, session: SessionPlan | None) -> None:
        assert session is not None
        try:
            self.file = keep_release(self._place(session), write_release(release))
        except StudyError as error:
            raise SiteError(
                f"the release was opened and could not be kept here: {error}; the session counts as spent, and the "
                "server and the other parties have the release: colonnade run --fetch gets it again"
            ) from None

    def sentence(self) -> str:
        return "; ".join([self.opened, *self.notes])


def open_evidence(site: Site, task: PartyTask, now: float) -> EvidenceFolder:
    """Where the next session's evidence goes; what was kept long enough is destroyed first."""
    policy, root = site.policy(), site.folder / STARTUP / "rootCA.pem"
    with telling("old evidence cannot be destroyed", SiteError):
        destroy_expired(site.evidence, policy.evidence_days, now)
    facts = {
        "party": task.name,
        "terms": task.terms,
        "kind": task.kind.name,
        "simulated": False,
        "auditors": list(site.study.agreement.auditors),
        "began": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
    }
    key, authority = read_key(site.evidence_key, make=True), root.read_bytes() if root.is_file() else b""
    return EvidenceFolder(site.evidence, key, facts, keep_traffic=policy.keep_traffic, authority=authority)

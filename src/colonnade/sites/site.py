"""What an organisation's folder says: its side, its study, and where data, policy and ledger lie on this machine."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from colonnade.consent.guard import ConsentGuard, PolicyGuard, open_guard
from colonnade.consent.ledger import open_ledger
from colonnade.consent.policy import Approvals, Policy, check_approvals, read_policy
from colonnade.data.sources import Source
from colonnade.data.table import Table
from colonnade.foundation.errors import LedgerError, PolicyError, StudyError
from colonnade.foundation.files import try_folder
from colonnade.foundation.parts import local_path
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.sections import Section, read_toml
from colonnade.foundation.shown import OPEN
from colonnade.foundation.workers import HERE, Workers
from colonnade.pool import open_workers
from colonnade.study import StudySpec, id_column, id_parts, read_source, read_study, read_written
from colonnade.transport.wire import Timeouts

SITE, STUDY, POLICY, STATUS = "site.toml", "study.toml", "policy.toml", "status.json"
STARTUP, LOCAL, SCORES = "startup", "local", "scores"
OUTCOME, RELEASE = "outcome.json", "release.json"
"""What the server's job leaves for the coordinator."""
STUDIES = "studies"
"""Where further studies lie in a folder, each in a folder of its own."""
SERVER, PARTY, COORDINATOR = "server", "party", "coordinator"
LARGEST_SITE = 1 << 20  # 1 MB: a site's file is a page, and a mistaken path must not fill memory
SITE_KEYS = (
    *("role", "party", "data", "query", "read", "id", "dataset", "policy", "ledger", "releases", "join", "silence"),
    *("workers", "cluster", "device", "evidence_key", "metrics", "signing_agent"),
)
RECORD_KEYS = ("data", "query", "dataset", "id")
"""Of a section that may name other records than the study's."""
PREDICTION_KEYS = ("model", "to")
EVALUATION_KEYS = ("model", "epsilon", "delta", "release", "rows")
SEED, APPROVED, METRICS = "COLONNADE_SEED", "COLONNADE_APPROVED", "COLONNADE_METRICS"
NOT_PRIVATE = "NOT PRIVATE: the noise of this run comes from a known seed; it is a simulation and protects nobody"


@dataclass(frozen=True)
class Site:
    """One organisation's side of a deployment; nothing of it is sent."""

    folder: Path
    role: str
    party: str
    study: StudySpec
    content: Section
    asked: Section
    """The section [prediction]; `prediction_request` reads it."""
    evaluated: Section
    """The section [evaluation]; `evaluation_request` reads it."""

    @property
    def name(self) -> str:
        return self.party or self.role

    @property
    def home(self) -> Path:
        """The organisation's own folder, with its certificate, also of a further study."""
        return self.folder.parent.parent if self.folder.parent.name == STUDIES else self.folder

    @property
    def releases(self) -> Path:
        return self.folder / local_path(self.content.text("releases", "releases"))

    @property
    def scores(self) -> Path:
        return self.folder / SCORES

    @property
    def evidence(self) -> Path:
        """Where this party keeps what its sessions can be audited by."""
        return self.folder / "evidence"

    @property
    def evidence_key(self) -> Path:
        """The file with the key of the secrets there; one that lies beside them protects nothing."""
        return self.folder / local_path(self.content.text("evidence_key", "evidence.key"))

    @property
    def signing_agent(self) -> str | None:
        """The SSH agent that holds the key this party signs by, if its own file names one."""
        return self.content.text("signing_agent") if "signing_agent" in self.content else None

    @property
    def journal(self) -> Path:
        return self.folder / "sessions.jsonl"

    @property
    def patience(self) -> Timeouts:
        known = Timeouts()
        join, silence = self.content.number("join", known.join), self.content.number("silence", known.silence)
        if join <= 0 or silence <= 0:
            raise StudyError(f"join and silence must be positive, got join={join:g}, silence={silence:g}")
        beat = min(known.beat, silence / 5)
        return Timeouts(join, silence, beat, min(known.poll, silence / 3), known.farewell)

    @property
    def source(self) -> Source:
        """Where this party's data lies, by its own file."""
        if self.content.content.get("data", OPEN) == OPEN:
            raise StudyError(f"{self.folder.name}/{SITE} must name the data file of {self.party}, and names none")
        policy, ledger = (
            self.folder / local_path(self.content.text(key)) if key in self.content else None
            for key in ("policy", "ledger")
        )
        own = self.study.sources[self.party]
        column = self._id(self.content, own.id)
        written = read_written(self.content)
        return Source(read_source(self.content, self.folder), column, policy, ledger, written, own.form)

    def _id(self, section: Section, known: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        column = id_column(section) if "id" in section else known
        if column is not None and id_parts(column) != (agreed := self.study.agreement.ids.parts):
            raise StudyError(
                f"{section.where} id must name {agreed} columns, as the study does, got {id_parts(column)}"
            )
        return column

    def source_of(self, section: Section) -> Source:
        """Where the records lie that a section asks for: its own file, or the study's rows."""
        own, known = self.source, {k: self.content.content[k] for k in ("dataset",) if k in self.content}
        named = Section({**known, **section.content}, section.where, StudyError)
        data = read_source(named, self.folder) if "data" in section else own.data
        return replace(own, data=data, id=self._id(section, own.id))

    def open_workers(self) -> AbstractContextManager[Workers]:
        """Who does this party's block work: by default a thread for each core of its machine."""
        count = self.content.whole("workers") if "workers" in self.content else None
        cluster = self.content.text("cluster") if "cluster" in self.content else None
        return open_workers(count, cluster, self.content.text("device", "cpu"))

    def table(self, workers: Workers = HERE) -> Table:
        columns = self.study.agreement.schema.parties[self.party]
        if self.study.aligned:
            return self.source.read(self.party, columns, workers)
        return self.source.open(self.party, columns, workers)

    def policy(self) -> Policy:
        path = self.source.policy
        if path is None:
            raise StudyError(f"{self.folder.name}/{SITE} must name a policy")
        policy = read_policy(path)
        if policy.party != self.party:
            raise PolicyError(f"the policy in {path.name} is for party {policy.party!r}, this folder is {self.party}'s")
        return policy

    def guard(self) -> tuple[ConsentGuard | PolicyGuard, Randomness]:
        """Who agrees and books, and where noise comes from; a seed must be allowed by the policy, and has no ledger."""
        policy, source = self.policy(), self.source
        seed = os.environ.get(SEED)
        if seed is not None:
            if not policy.simulation:
                raise PolicyError(f"{SEED} is set, and the policy of {self.party} does not say simulation = true")
            if source.ledger is not None:
                raise PolicyError(f"{SEED} is set, and no ledger can book the noise of a simulation: {SITE} names one")
            return PolicyGuard(self.party, policy), seeded(seed)
        if source.ledger is None:
            raise StudyError(f"{self.folder.name}/{SITE} must name a ledger, outside simulations")
        approved = [a for a in os.environ.get(APPROVED, "").split(",") if a]
        known = source.records(self.party).data_set(self.party)
        return open_guard(self.party, policy, source.ledger, known, approved, left=self.approvals), Randomness()

    @property
    def approvals(self) -> Approvals:
        """What people approved here for one session each."""
        return Approvals(self.folder)

    def try_releases(self) -> None:
        """Show that releases can be written."""
        try_folder(self.releases, f"the releases of {self.folder.name}/{SITE}")

    def get_ready(self, approved: list[str]) -> list[str]:
        """Raise what would refuse every session of a party; what its people should know otherwise."""
        check_approvals(approved)
        guard, _ = self.guard()
        self.try_releases()
        with self.open_workers():
            table = self.table()
        # Whoever approves decides with what is not as declared in mind: no partner hears of it.
        notes = table.notes()
        agreement, aligned = self.study.agreement, self.study.aligned
        try:
            if not isinstance(guard, ConsentGuard):
                guard.foresee(agreement, table.rows, aligned)
            else:
                guard.ledger.try_to_write()
                # What a broken session left is settled by the next one, and may be void.
                guard.foresee(agreement, table.rows, aligned, guard.pending(agreement.name))
        except (PolicyError, LedgerError) as error:
            if not self.asked.content:
                raise
            # A party whose budget is spent may still score records.
            notes.append(f"a session would be refused: {error}")
        return notes

    def approve(self, digest: str) -> None:
        """Leave an approval for one session; the id of a session that was is none."""
        check_approvals([digest])
        if not self.policy().require_approval:
            raise PolicyError(
                f"the policy of {self.party} asks for no approval: it does not say require_approval = true"
            )
        ledger = self.source.ledger
        known = {entry.booking.session for entry in open_ledger(ledger).entries()} if ledger is not None else set()
        if any(session.startswith(digest.lower()) for session in known):
            raise PolicyError(f"{digest} is the id of a session, and an approval needs the digest of a plan")
        self.approvals.leave(digest)


def seeded(seed: str) -> Randomness:
    try:
        key = bytes.fromhex(seed)
    except ValueError:
        key = b""
    if not key:
        raise StudyError(f"{SEED} must be hexadecimal and not empty")
    return Randomness(seed=key)


def server_randomness() -> Randomness:
    """The server's; it draws public ids only, but a release must say that the run was seeded."""
    seed = os.environ.get(SEED)
    return Randomness() if seed is None else seeded(seed)


def read_site(folder: Path, role: str | None = None) -> Site:
    """Read and check an organisation's folder."""
    content = read_toml(folder / SITE, "site", LARGEST_SITE, StudyError).known(("site", "prediction", "evaluation"))
    site = content.table("site", "[site]").known(SITE_KEYS).need("role")
    found = site.choice("role", (SERVER, PARTY, COORDINATOR))
    if role is not None and found != role:
        raise StudyError(f"{folder} must be the folder of a {role}, and is that of a {found}")
    study = read_study(folder / STUDY)
    party = site.text("party") if found == PARTY and "party" in site else ""
    if found == PARTY and party not in study.agreement.schema.names:
        raise StudyError(f"{folder.name}/{SITE} must name a party of the study, got {party!r}")
    asked = content.table("prediction", "[prediction]", "prediction.")
    asked.known((*PREDICTION_KEYS, *RECORD_KEYS) if party else PREDICTION_KEYS)
    evaluated = content.table("evaluation", "[evaluation]", "evaluation.")
    evaluated.known((*EVALUATION_KEYS, *RECORD_KEYS) if party else EVALUATION_KEYS)
    return Site(folder, found, party, study, site, asked, evaluated)


def read_sites(folder: Path, role: str | None = None) -> list[Site]:
    """The organisation's side in its own study, and in those under studies/."""
    own = read_site(folder, role)
    others = [read_site(place.parent, own.role) for place in sorted((folder / STUDIES).glob(f"*/{SITE}"))]
    for other in others:
        if other.party != own.party:
            told = f"{other.folder.name}/{SITE} must name the party {own.party!r} of this folder"
            raise StudyError(f"{told}, got {other.party!r}")
    names = [site.study.agreement.name for site in (own, *others)]
    if len(set(names)) < len(names):
        raise StudyError(f"studies in {folder.name} must have different names, got {', '.join(sorted(names))}")
    return [own, *others]


def find_site(folder: Path, study: str, role: str | None = None) -> Site:
    """The organisation's side in the study of this name; in its own, if none is named."""
    sites = read_sites(folder, role)
    for site in sites:
        if study in ("", site.study.agreement.name):
            return site
    known = ", ".join(site.study.agreement.name for site in sites)
    raise StudyError(f"{folder.name} has no study {study!r}: it has {known}")

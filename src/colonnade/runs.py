"""A study run in this process from its files to its release, or to scores, as every door runs it.

The policies and ledgers that the study names are honoured here, whoever calls: the command line, the studio, a script.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.consent.guard import ConsentGuard, open_guard
from colonnade.consent.policy import check_approvals
from colonnade.data.ids import require_same_forms
from colonnade.data.sources import FileSource, Source
from colonnade.data.table import Table
from colonnade.foundation.errors import StudyError
from colonnade.foundation.files import Place
from colonnade.foundation.matching import matches_ids
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.workers import HERE, Workers
from colonnade.mechanism.composition import Spent
from colonnade.mechanism.release import ReleaseRecord, write_release
from colonnade.model import PublicModel, Scores, parts_to_open, prediction_of, receivers_scores
from colonnade.planning.agreement import Agreement
from colonnade.planning.prediction import Prediction
from colonnade.planning.session_plan import SessionPlan, plan_once
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.party import PartyRole
from colonnade.protocol.predict import OpenedScores, PredictParty, PredictServer
from colonnade.protocol.server import ServerRole
from colonnade.protocol.tasks import Guard, PartyTask, ServerTask, Unguarded
from colonnade.study import StudySpec
from colonnade.transport.evidence import EvidenceFolder, read_key
from colonnade.transport.in_process import InProcess
from colonnade.transport.wire import Traffic

if TYPE_CHECKING:
    from colonnade.evaluation import Evaluation, Measured

Ask = Callable[[str], bool]
"""Asks a person about a plan."""
Folders = Path | Mapping[str, Path]
"""One in which each party has its own, by its name, or one for each party."""


@dataclass(frozen=True)
class RunOptions:
    """How a session in this process is run; none of it is a term of the study."""

    randomness: Randomness | None = None
    """A fresh source for each run if none is given: options may serve twice, and noise may not."""
    approved: Collection[str] = ()
    """Digests of plans that a person approved beforehand."""
    workers: Workers = HERE
    evidence: Folders | None = None
    """Makes the session accountable: each party can be audited by what it keeps there. Nothing is signed."""
    strict: bool = False
    """Refuse any value that is not as declared, and not only a column with more than one such value in twenty."""


class Observer:
    """What a run tells whoever watches it: a subclass takes what it wants to hear."""

    ask: Ask | None = None
    """Asks a person about a plan, where there is one to ask."""
    file: Place | None = None
    """Where the release appears."""

    def step(self, name: str, share: float) -> None:
        """So much of a step is done."""

    def plan(self, party: str, session: SessionPlan) -> None:
        """A party is about to agree to this plan; may raise PolicyError to refuse it."""

    def table(self, table: Table) -> None:
        """A party's records were read; for its own eyes."""

    def opened(self, release: ReleaseRecord) -> None:
        """Write the release as soon as it is open, before anything else can go wrong: the budget is spent."""
        if self.file is not None:
            self.file.write(write_release(release))


PLAIN, UNSEEN = RunOptions(), Observer()


@dataclass(frozen=True)
class Outcome:
    """What a session in this process leaves behind."""

    release: ReleaseRecord
    session: SessionPlan
    traffic: Traffic
    seconds: Mapping[str, float]
    unsettled: Mapping[str, str] = field(default_factory=dict)
    """Parties whose ledger could not note the release, with the reason: there the session stays booked."""


@dataclass(frozen=True)
class FittedStudy:
    """A study that was run."""

    outcome: Outcome
    tables: Mapping[str, Table]
    guards: Mapping[str, ConsentGuard]
    """Of the parties that named a policy and a ledger."""
    spent: Mapping[str, Spent]
    """What each of their data sets has spent in all."""

    @property
    def release(self) -> ReleaseRecord:
        return self.outcome.release

    @property
    def unsettled(self) -> Mapping[str, str]:
        return self.outcome.unsettled

    @property
    def unkept(self) -> list[str]:
        """Parties for which no ledger was kept."""
        return [name for name in self.tables if name not in self.guards]


def fit(study: StudySpec, options: RunOptions = PLAIN, observer: Observer = UNSEEN) -> FittedStudy:
    """Run a study on all parties' files and spend its epsilon once; refused before that unless all policies agree."""

    def read(name: str) -> Table:
        source, columns = study.sources[name], study.agreement.schema.parties[name]
        if study.aligned:
            return source.read(name, columns, options.workers)
        return source.open(name, columns, options.workers)

    return _fit(study, read, options, observer)


def evaluate(
    evaluation: Evaluation, options: RunOptions = PLAIN, observer: Observer = UNSEEN
) -> tuple[FittedStudy, Measured]:
    """How good a model is on the records of all parties' files; spends the evaluation's epsilon once, as `fit` does."""
    study = evaluation.study

    def read(name: str) -> Table:
        own = study.sources[name].read(name, evaluation.needs(name), options.workers, matched=study.aligned)
        return evaluation.derive(own)

    fitted = _fit(study, read, options, observer)
    return fitted, evaluation.measure(fitted.release)


def _fit(study: StudySpec, read_own: Callable[[str], Table], options: RunOptions, observer: Observer) -> FittedStudy:
    options = replace(options, randomness=options.randomness or Randomness())
    guards = open_guards(study, options.approved, observer.ask, seeded=_source(options).seeded)
    for name, own in study.sources.items():
        own.records(name)
    agreement, tables = study.agreement, dict[str, Table]()
    names = agreement.schema.names
    readers = _readers(study, names, study.sources, read_own, tables, options, observer)
    # What a ledger would know a file by, so that an auditor needs the file alone.
    digests = {n: partial(own.digest, n) for n, own in study.sources.items() if isinstance(own.data, FileSource)}
    # A party that names no policy agrees to whatever it wrote into the study.
    consent = {name: guards.get(name) or Unguarded() for name in names}
    outcome = _run(agreement, study.alignment, readers, consent, options, observer, digests)
    for table in tables.values():
        if table.late:
            observer.table(table)
    spent = {name: guard.spent() for name, guard in guards.items() if name not in outcome.unsettled}
    return FittedStudy(outcome, tables, guards, spent)


def _readers(
    study: StudySpec,
    names: Collection[str],
    sources: Mapping[str, Source],
    read_own: Callable[[str], Table],
    tables: dict[str, Table],
    options: RunOptions,
    observer: Observer,
) -> dict[str, Callable[[], Table]]:
    """Read each party's records into `tables` when it is let in.

    Once all are read, ids that would match in another form are refused, unless the study says in which.
    """
    aligned = matches_ids(study.alignment, names)

    def read(name: str) -> Table:
        tables[name] = read_own(name).require_fit(options.strict, observer.table)
        if aligned and len(tables) == len(sources) and all(source.form is None for source in sources.values()):
            found = {party: table.ids or () for party, table in tables.items()}
            several = [party for party, table in tables.items() if table.gathered]
            require_same_forms(found, study.agreement.ids.parts, several)
        return tables[name]

    return {name: partial(read, name) for name in names}


def run_guarded(
    agreement: Agreement,
    tables: Mapping[str, Table],
    guards: Mapping[str, Guard],
    alignment: str = "psi",
    options: RunOptions = PLAIN,
    observer: Observer = UNSEEN,
) -> Outcome:
    """One session on tables in memory, every party with its guard; a party without one must be `Unguarded` by name."""
    _require_guards(agreement.schema.names, guards)
    readers = {name: partial(tables.__getitem__, name) for name in agreement.schema.names}
    return _run(agreement, alignment, readers, guards, options, observer)


def _run(
    agreement: Agreement,
    alignment: str,
    readers: Mapping[str, Callable[[], Table]],
    guards: Mapping[str, Guard],
    options: RunOptions,
    observer: Observer,
    digests: Mapping[str, Callable[[], bytes]] | None = None,
) -> Outcome:
    server = FitServer(agreement, alignment, keep=observer.opened)
    parties = {
        name: FitParty(
            name,
            agreement,
            alignment,
            read,
            guards[name],
            show=partial(observer.plan, name),
            workers=options.workers,
            data=(digests or {}).get(name),
        )
        for name, read in readers.items()
    }
    with plan_once():
        traffic, seconds = carry_in_process(server, parties, _source(options), observer, options.evidence)
    assert server.release is not None and server.session is not None
    unsettled = {name: party.unsettled for name, party in parties.items() if party.unsettled}
    return Outcome(server.release, server.session, traffic, seconds, unsettled)


def _source(options: RunOptions) -> Randomness:
    return Randomness() if options.randomness is None else options.randomness


def predict(
    study: StudySpec,
    model: PublicModel,
    receiver: str,
    options: RunOptions = PLAIN,
    observer: Observer = UNSEEN,
    *,
    data: Mapping[str, Any] | None = None,
) -> tuple[Scores, Prediction]:
    """Scores of the records that all parties have in common, opened to one of them; `data` names other files."""
    prediction = prediction_of(model, study.agreement.schema, receiver, study.agreement.ids)
    sources = {name: study.sources[name] for name in prediction.parties}
    for name, given in (data or {}).items():
        if name not in sources:
            raise StudyError(f"data names parties whose columns are scored, {', '.join(sources)}, got {name!r}")
        sources[name] = sources[name].given(name, given, prediction.columns[name])
    guards, aligned = _guards(sources, options.approved, observer.ask), matches_ids(study.alignment, prediction.parties)

    def read(name: str) -> Table:
        return sources[name].read(name, prediction.columns[name], matched=aligned)

    readers = _readers(study, prediction.parties, sources, read, {}, options, observer)
    consent = {name: guards.get(name) or Unguarded() for name in prediction.parties}
    scores = predict_guarded(model, prediction, readers, consent, study.alignment, options, observer)
    return scores, prediction


def predict_guarded(
    model: PublicModel,
    prediction: Prediction,
    readers: Mapping[str, Callable[[], Table]],
    guards: Mapping[str, Guard],
    alignment: str = "psi",
    options: RunOptions = PLAIN,
    observer: Observer = UNSEEN,
) -> Scores:
    """One prediction on tables that are read when the party is let in, in the order of the receiver's records."""
    _require_guards(prediction.parties, guards)
    read: dict[str, Table] = {}
    opened: list[OpenedScores] = []

    def reader(name: str) -> Table:
        read[name] = readers[name]()
        return read[name]

    parties = {
        name: PredictParty(
            name,
            prediction,
            alignment,
            partial(reader, name),
            partial(parts_to_open, public=model),
            guards[name],
            model.study,
            lambda session, scores: opened.append(scores),
        )
        for name in prediction.parties
    }
    carry_in_process(PredictServer(prediction, alignment), parties, _source(options), observer, options.evidence)
    return receivers_scores(model, read[prediction.receiver], opened[0])


def _require_guards(parties: Collection[str], guards: Mapping[str, Guard]) -> None:
    missing = [name for name in parties if name not in guards]
    if missing:
        raise StudyError(f"every party needs a guard, or Unguarded by name, got none for {missing[0]}")


def carry_in_process(
    server: ServerTask,
    parties: Mapping[str, PartyTask],
    randomness: Randomness,
    observer: Observer = UNSEEN,
    evidence: Folders | None = None,
) -> tuple[Traffic, Mapping[str, float]]:
    """A session of any kind in this process; the traffic and the seconds of each step."""
    clock, kept = _Clock(observer, len(parties)), _evidence(parties, evidence, randomness.seeded)
    middle = ServerRole(server, randomness, watch=clock.hear_server, accountable=evidence is not None)
    roles = {}
    for name, task in parties.items():
        account = SessionAccount(kept[name]) if name in kept else None
        roles[name] = PartyRole(task, randomness, watch=partial(clock.hear_party, name), account=account)
    carrier = InProcess(middle, roles)
    try:
        carrier.carry()
    finally:
        for folder in kept.values():
            folder.close()
    return carrier.traffic, clock.seconds


def _evidence(parties: Mapping[str, PartyTask], folders: Folders | None, seeded: bool) -> dict[str, EvidenceFolder]:
    """In each party's folder, as at a site: what can be shown in `evidence`, its key beside it."""
    if folders is None:
        return {}
    if isinstance(folders, Path):
        folders = {name: folders / name for name in parties}
    if set(folders) != set(parties):
        named, needed = ", ".join(sorted(folders)) or "nobody", ", ".join(parties)
        raise StudyError(f"evidence must name a folder for each of {needed}, got {named}")
    kept = {}
    for name, task in parties.items():
        began = datetime.now(UTC).isoformat(timespec="seconds")
        facts = {"party": name, "terms": task.terms, "kind": task.kind.name, "simulated": seeded, "began": began}
        facts["auditors"] = list(task.agreement.auditors) if isinstance(task, FitParty) else []
        if isinstance(task, FitParty) and task.agreement.query.evaluated is not None:
            # A model and its study are not all: bins and epsilon were this evaluation's own.
            facts["agreement"] = task.agreement.to()
        folders[name].mkdir(parents=True, exist_ok=True)
        kept[name] = EvidenceFolder(
            folders[name] / "evidence", read_key(folders[name] / "evidence.key", make=True), facts
        )
    return kept


class _Clock:
    """Seconds of each step, and what is shown of it: a party's own progress where the server knows of none."""

    def __init__(self, observer: Observer, parties: int) -> None:
        self._observer, self._parties = observer, parties
        self._shares: dict[str, float] = {}
        self._step, self._last = "read", time.perf_counter()
        self.seconds: dict[str, float] = {}

    def hear_party(self, party: str, step: str, share: float) -> None:
        if step in ("read", "align"):
            self._count(step)
            if step == "read":
                self._observer.step(step, len(self._shares) / self._parties)
                self._shares.setdefault(party, 0.0)
            else:
                self._shares[party] = share
                self._observer.step(step, sum(self._shares.values()) / self._parties)

    def hear_server(self, step: str, share: float) -> None:
        if step != "wait":
            self._count(step)
            if step != "align":
                self._observer.step(step, share)

    def _count(self, step: str) -> None:
        now = time.perf_counter()
        self.seconds[self._step] = self.seconds.get(self._step, 0.0) + now - self._last
        self._step, self._last = step, now


def open_guards(
    study: StudySpec, approved: Collection[str] = (), ask: Ask | None = None, *, seeded: bool = False
) -> dict[str, ConsentGuard]:
    """For each party that names a policy and a ledger, who agrees and books on its behalf."""
    kept = [name for name, source in study.sources.items() if source.policy is not None]
    if seeded and kept:
        raise StudyError(f"a seed is for simulations, whose noise no ledger can book, and party {kept[0]} keeps one")
    return _guards(study.sources, approved, ask)


def _guards(sources: Mapping[str, Source], approved: Collection[str], ask: Ask | None) -> dict[str, ConsentGuard]:
    check_approvals(approved)
    return {
        name: open_guard(name, source.policy, source.ledger, source.records(name).data_set(name), approved, ask=ask)
        for name, source in sources.items()
        if source.policy is not None and source.ledger is not None
    }

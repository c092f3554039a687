"""A study run in this process from its files to its release, or to scores, as every door runs it.

The policies and ledgers that the study names are honoured here, whoever calls: the command line, the studio, a script.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from colonnade.consent.entries import DataSet
from colonnade.consent.guard import ConsentGuard, refusing
from colonnade.consent.ledger import Ledger
from colonnade.consent.policy import check_approvals, read_policy
from colonnade.data.table import Table, open_table, read_table
from colonnade.foundation.errors import LedgerError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.workers import HERE, Workers
from colonnade.mechanism.composition import Spent
from colonnade.mechanism.release import Release
from colonnade.model import PublicModel, Scores, partial_scores, prediction_of, receivers_scores
from colonnade.protocol.prediction import Consent, Prediction
from colonnade.protocol.session_plan import SessionPlan
from colonnade.study import Source, Study
from colonnade.transport.embedded import Outcome, Watch, run_embedded
from colonnade.transport.scores import score_embedded

Ask = Callable[[str], bool]
"""Asks a person about a plan."""
Show = Callable[[str, SessionPlan], None]
"""Is shown the plan in a party's name before that party agrees; may raise PolicyError to refuse it."""
Look = Callable[[Table], None]
"""Is shown each party's own table once it is read, for that party's own eyes."""
Keep = Callable[[Release], None]
"""Gets the release as soon as it is open, before anything else can go wrong: the budget is spent."""


@dataclass(frozen=True)
class FittedStudy:
    """A study that was run."""

    outcome: Outcome
    tables: Mapping[str, Table]
    guards: Mapping[str, ConsentGuard]
    """Of the parties that named a policy and a ledger."""
    spent: Mapping[str, Spent]
    """What each of their data sets has spent in all."""
    unsettled: Mapping[str, str]
    """Parties whose ledger could not note the release, with the reason: there the session stays booked."""

    @property
    def release(self) -> Release:
        return self.outcome.release

    @property
    def unkept(self) -> list[str]:
        """Parties for which no ledger was kept."""
        return [name for name in self.tables if name not in self.guards]


def fit(
    study: Study,
    *,
    randomness: Randomness | None = None,
    approved: Collection[str] = (),
    ask: Ask | None = None,
    show: Show | None = None,
    look: Look | None = None,
    keep: Keep | None = None,
    watch: Watch | None = None,
    workers: Workers = HERE,
) -> FittedStudy:
    """Run a study on all parties' files and spend its epsilon once; refused before that unless all policies agree."""
    source = Randomness() if randomness is None else randomness
    guards = open_guards(study, approved, ask, seeded=source.seeded)
    tables = read_tables(study, watch, workers, look)

    def consent(party: str, session: SessionPlan) -> None:
        if show is not None:
            show(party, session)
        if party in guards:
            guards[party].consent(session)

    outcome = run_embedded(
        study.agreement,
        tables,
        study.alignment,
        source,
        watch,
        consent={name: partial(consent, name) for name in tables},
        workers=workers,
        guards=guards,
    )
    if keep is not None:
        keep(outcome.release)
    spent, unsettled = {}, {}
    for name, guard in guards.items():
        try:
            guard.release()
            spent[name] = guard.spent()
        except LedgerError as error:
            unsettled[name] = str(error)
    return FittedStudy(outcome, tables, guards, spent, unsettled)


def predict(
    study: Study,
    model: PublicModel,
    receiver: str,
    *,
    data: Mapping[str, Path] | None = None,
    approved: Collection[str] = (),
    ask: Ask | None = None,
    watch: Watch | None = None,
    randomness: Randomness | None = None,
) -> tuple[Scores, Prediction]:
    """Scores of the records that all parties have in common, opened to one of them; `data` names other files."""
    prediction = prediction_of(model, study.agreement.schema, receiver)
    sources = {name: _source(study, name, (data or {}).get(name)) for name in prediction.parties}
    guards = _guards(sources, approved, ask)
    matched = study.alignment != "none" and len(prediction.parties) > 1
    for name, guard in guards.items():
        with refusing(name):
            guard.foresee_scores(prediction, matched)
    tables = {
        name: read_table(name, _place(name, sources[name]), columns, sources[name].id)
        for name, columns in prediction.columns.items()
    }
    for name, guard in guards.items() if matched else ():
        with refusing(name):
            guard.align("", f"{model.study} scores", prediction.parties)
    consent = {name: guard.consent_scores for name, guard in guards.items()}
    largest = {name: guard.policy.largest_list for name, guard in guards.items()}
    scores = score_across(model, prediction, tables, study.alignment, randomness, watch, consent, largest)
    return scores, prediction


def score_across(
    public: PublicModel,
    prediction: Prediction,
    tables: Mapping[str, Table],
    alignment: str,
    randomness: Randomness | None = None,
    watch: Watch | None = None,
    consent: Mapping[str, Consent] | None = None,
    largest_lists: Mapping[str, int | None] | None = None,
) -> Scores:
    """Scores of the records that all parties' tables have in common, in the order of the receiver's."""
    opened = score_embedded(
        prediction,
        tables,
        lambda table: partial_scores(table, public.model),
        alignment,
        randomness,
        watch,
        consent,
        largest_lists,
    )
    return receivers_scores(public, tables[prediction.receiver], opened)


def open_guards(
    study: Study, approved: Collection[str] = (), ask: Ask | None = None, *, seeded: bool = False
) -> dict[str, ConsentGuard]:
    """For each party that names a policy and a ledger, who agrees and books on its behalf."""
    kept = [name for name, source in study.sources.items() if source.policy is not None]
    if seeded and kept:
        raise StudyError(f"a seed is for simulations, whose noise no ledger can book, and party {kept[0]} keeps one")
    return _guards(study.sources, approved, ask)


def read_tables(
    study: Study, watch: Watch | None = None, workers: Workers = HERE, look: Look | None = None
) -> dict[str, Table]:
    """Every party's table; where rows stay in their files' order, Parquet is read when it is needed."""
    out = {}
    for k, (name, source) in enumerate(study.sources.items()):
        if watch is not None:
            watch("read", k / len(study.sources))
        columns = study.agreement.schema.parties[name]
        if study.alignment == "none" or len(study.sources) == 1:
            out[name] = open_table(name, _place(name, source), columns, workers)
        else:
            out[name] = read_table(name, _place(name, source), columns, source.id, workers)
        if look is not None:
            look(out[name])
    return out


def _guards(sources: Mapping[str, Source], approved: Collection[str], ask: Ask | None) -> dict[str, ConsentGuard]:
    check_approvals(approved)
    out = {}
    for name, source in sources.items():
        if source.policy is not None and source.ledger is not None:
            data = DataSet.of_file(_place(name, source))
            out[name] = ConsentGuard(name, read_policy(source.policy), Ledger(source.ledger), data, approved, ask)
    return out


def _source(study: Study, party: str, data: Path | None) -> Source:
    """A party's source with another file, where one is named."""
    own = study.sources[party]
    return own if data is None else Source(data, own.id, own.policy, own.ledger)


def _place(party: str, source: Source) -> Path:
    if source.data is None:
        raise StudyError(f"[party.{party}] needs data, the path of its file, for a run in one process")
    return source.data

"""The prediction that an organisation's own files ask for: model, receiver, and at a party the records to score."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.data.sources import Source
from colonnade.data.table import Table
from colonnade.foundation.errors import ReleaseError, SiteError, StudyError
from colonnade.foundation.files import put, read_whole, try_folder
from colonnade.foundation.matching import matches_ids
from colonnade.foundation.workers import HERE, Workers
from colonnade.model import parts_to_open, prediction_of, read_model, receivers_scores, scores_csv
from colonnade.protocol.predict import PREDICT, OpenedScores, PredictParty, PredictServer, prediction_digest
from colonnade.protocol.tasks import Guard
from colonnade.sites.recipes import AnyGuard, JobAccount, Recipe
from colonnade.sites.site import SCORES, SITE, Site

if TYPE_CHECKING:
    from colonnade.protocol.server import ServerRole

SCORED = " scores "
"""Between the study's name and the prediction's terms, in the name of a job."""


class PredictRecipe(Recipe):
    """Scores: one party opens them, and they are its own. Nothing of what is asked is taken from others."""

    kind, task, mark = PREDICT, "prediction", SCORED

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.require_asked(site.asked, "model", "to")
        terms = site.study.agreement
        try:
            self.public = read_model(read_whole(site.folder / site.asked.text("model"), "model"))
            self.prediction = prediction_of(self.public, terms.schema, site.asked.text("to"), terms.ids)
        except ReleaseError as error:
            raise StudyError(f"the model of {site.folder.name}/{SITE} cannot be scored by: {error}") from None
        self.require_part(self.prediction.parties)
        self._task: PredictParty | None = None

    @property
    def terms(self) -> str:
        return prediction_digest(self.prediction, self.site.study.alignment)

    @property
    def job(self) -> str:
        """The name of the job: by it a coordinator says which prediction it means, and chooses nothing."""
        return f"{self.site.study.agreement.name}{SCORED}{self.terms}"

    def server_task(self, job: str, run: Path) -> PredictServer:
        if job != self.job:
            raise StudyError(
                "the coordinator's model, receiver of scores, columns or alignment is not the server's; "
                "no part of a score was made"
            )
        return PredictServer(self.prediction, self.site.study.alignment)

    def account(self, role: ServerRole) -> JobAccount:
        assert role.end is not None and isinstance(role.task, PredictServer)
        session, receiver = role.identity.hex(), self.prediction.receiver
        place = file_of(session)
        facts = {"session": session, "receiver": receiver, "rows": role.task.rows, "scores": place}
        facts["seeded"] = role.seeded
        return JobAccount(f"{role.task.ending(role.end)}: they are at {receiver}, in {place}", True, facts=facts)

    @property
    def source(self) -> Source:
        return self.site.source_of(self.site.asked)

    def table(self, workers: Workers = HERE) -> Table:
        party, parties = self.site.party, self.prediction.parties
        matched = matches_ids(self.site.study.alignment, parties)
        return self.source.read(party, self.prediction.columns[party], workers, matched=matched)

    def prepare(self, guard: AnyGuard) -> AnyGuard:
        if self.site.party == self.prediction.receiver:
            # Exact scores of people: for this organisation's eyes alone.
            try_folder(self.site.scores, f"the folder {SCORES}", 0o700)
        return super().prepare(guard)

    def party_task(self, guard: Guard, workers: Workers) -> PredictParty:
        self._task = PredictParty(
            self.site.party,
            self.prediction,
            self.site.study.alignment,
            partial(self.read, workers),
            lambda table: parts_to_open(table, self.public),
            guard,
            self.public.study,
            self._keep,
            self.data_digest(),
        )
        return self._task

    def _keep(self, session: str, opened: OpenedScores) -> None:
        """What the receiver keeps: the same as `predict --study` writes."""
        assert self._table is not None
        place, found = self.site.folder / file_of(session), receivers_scores(self.public, self._table, opened)
        try:
            put(place, scores_csv(self.public, found, self.source.id_name).encode())
        except StudyError as error:
            raise SiteError(f"the scores were opened and could not be kept here: {error}") from None
        self.file = place

    def sentence(self) -> str:
        assert self._task is not None
        told = f"the parts of {self._task.scored:,} scores were handed in for {self.prediction.receiver}"
        if self.file is not None:
            told = f"{self._task.scored:,} scores were opened, and lie in {SCORES}/{self.file.name}"
        return "; ".join([told, *self.notes])


def file_of(session: str) -> str:
    """Where the receiver's scores lie in its folder."""
    return f"{SCORES}/{session[:16]}.csv"

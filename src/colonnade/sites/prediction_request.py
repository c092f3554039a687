"""The prediction that an organisation's own files ask for: model, receiver, and at a party the records to score."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.data.sources import Source
from colonnade.data.table import Table
from colonnade.foundation.errors import ReleaseError, SiteError, StudyError
from colonnade.foundation.files import places, read_whole
from colonnade.foundation.matching import matches_ids
from colonnade.foundation.workers import Workers
from colonnade.mechanism.moments import Floats
from colonnade.model import PublicModel, parts_to_open, prediction_of, read_model, receivers_scores, scores_csv
from colonnade.planning.prediction import Prediction
from colonnade.protocol.predict import PREDICT, OpenedScores, PredictParty, PredictServer, prediction_digest
from colonnade.protocol.tasks import Guard
from colonnade.sites.preflight import try_folder
from colonnade.sites.recipes import AnyGuard, JobAccount, Recipe
from colonnade.sites.site import PARTY, SCORES, SITE, Site

if TYPE_CHECKING:
    from colonnade.protocol.server import ServerRole

SCORED = " scores "
"""Between the study's name and the prediction's terms, in the name of a job."""


@dataclass(frozen=True)
class PredictionRequest:
    """One site's view of a prediction; nothing of it is taken from others."""

    site: Site
    public: PublicModel
    prediction: Prediction

    @property
    def terms(self) -> str:
        return prediction_digest(self.prediction, self.site.study.alignment)

    @property
    def job(self) -> str:
        """The name of the job: by it a coordinator says which prediction it means, and chooses nothing."""
        return f"{self.site.study.agreement.name}{SCORED}{self.terms}"

    @property
    def source(self) -> Source:
        """Where the records to score lie."""
        return self.site.source_of(self.site.asked)

    def table(self) -> Table:
        party = self.site.party
        return self.source.read(
            party,
            self.prediction.columns[party],
            matched=matches_ids(self.site.study.alignment, self.prediction.parties),
        )

    def part(self, table: Table) -> Floats:
        return parts_to_open(table, self.public)

    def csv(self, table: Table, opened: OpenedScores) -> bytes:
        """What the receiver keeps: the same as `predict --study` writes."""
        return scores_csv(self.public, receivers_scores(self.public, table, opened), self.source.id_name).encode()


def read_prediction_request(site: Site) -> PredictionRequest:
    """The prediction that the site's files state; refuses a model that does not fit the site's study."""
    asked = site.asked
    for key in ("model", "to"):
        if key not in asked:
            raise StudyError(f"{site.folder.name}/{SITE} asks for no prediction: [prediction] has no {key}")
    try:
        public = read_model(read_whole(site.folder / asked.text("model"), "model"))
        prediction = prediction_of(public, site.study.agreement.schema, asked.text("to"), site.study.agreement.ids)
    except ReleaseError as error:
        raise StudyError(f"the model of {site.folder.name}/{SITE} cannot be scored by: {error}") from None
    if site.role == PARTY and site.party not in prediction.parties:
        raise StudyError(f"the model has no weight for a column of {site.party}, which takes no part in the prediction")
    return PredictionRequest(site, public, prediction)


class PredictRecipe(Recipe):
    """Scores: one party opens them, and they are its own."""

    kind, task, mark = PREDICT, "prediction", SCORED

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.asked: PredictionRequest = read_prediction_request(site)
        self._task: PredictParty | None = None
        self._table: Table | None = None

    def server_task(self, job: str, run: Path) -> PredictServer:
        if job != self.asked.job:
            raise StudyError(
                "the coordinator's model, receiver of scores, columns or alignment is not the server's; "
                "no part of a score was made"
            )
        return PredictServer(self.asked.prediction, self.site.study.alignment)

    def account(self, role: ServerRole) -> JobAccount:
        assert role.end is not None and isinstance(role.task, PredictServer)
        session, receiver = role.identity.hex(), self.asked.prediction.receiver
        place = file_of(session)
        facts = {"session": session, "receiver": receiver, "rows": role.task.rows, "scores": place}
        facts["seeded"] = role.seeded
        return JobAccount(f"{role.task.ending(role.end)}: they are at {receiver}, in {place}", True, facts=facts)

    @property
    def source(self) -> Source:
        return self.asked.source

    def prepare(self, guard: AnyGuard) -> AnyGuard:
        if self.site.party == self.asked.prediction.receiver:
            # Exact scores of people: for this organisation's eyes alone.
            try_folder(self.site.scores, f"the folder {SCORES}", 0o700)
        return super().prepare(guard)

    def party_task(self, guard: Guard, workers: Workers) -> PredictParty:
        asked = self.asked

        def read() -> Table:
            self._table = asked.table()
            self.notes = self._table.notes()
            return self._table

        self._task = PredictParty(
            self.site.party,
            asked.prediction,
            self.site.study.alignment,
            read,
            asked.part,
            guard,
            asked.public.study,
            self._keep,
        )
        self._task.data = self.data_digest()
        return self._task

    def _keep(self, session: str, opened: OpenedScores) -> None:
        assert self._table is not None
        place = self.site.folder / file_of(session)
        try:
            with places(place) as (file,):
                file.write(self.asked.csv(self._table, opened))
        except StudyError as error:
            raise SiteError(f"the scores were opened and could not be kept here: {error}") from None
        self.file = place

    def sentence(self) -> str:
        assert self._task is not None
        told = f"the parts of {self._task.scored:,} scores were handed in for {self.asked.prediction.receiver}"
        if self.file is not None:
            told = f"{self._task.scored:,} scores were opened, and lie in {SCORES}/{self.file.name}"
        return "; ".join([told, *self.notes])


def file_of(session: str) -> str:
    """Where the receiver's scores lie in its folder."""
    return f"{SCORES}/{session[:16]}.csv"

"""The prediction that an organisation's own files ask for: model, receiver, and at a party the records to score."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.data.sources import Source
from colonnade.data.table import Table
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.foundation.files import read_whole
from colonnade.mechanism.moments import Floats
from colonnade.model import PublicModel, parts_to_open, prediction_of, read_model, receivers_scores, scores_csv
from colonnade.planning.prediction import Prediction
from colonnade.protocol.predict import OpenedScores, prediction_digest
from colonnade.sites.site import PARTY, SITE, Site

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
        return self.source.read(party, self.prediction.columns[party], matched=self.site.aligned)

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

"""The evaluation that an organisation's own files ask for: model, epsilon, and at a party the records it is made on."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.data.sources import Source
from colonnade.data.table import Table
from colonnade.evaluation import Evaluation, evaluate_by
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.foundation.files import read_whole
from colonnade.foundation.workers import Workers
from colonnade.mechanism.release import read_release
from colonnade.model import read_model
from colonnade.planning.query import EVALUATED
from colonnade.sites.recipes import FitRecipe
from colonnade.sites.site import PARTY, SITE, Site
from colonnade.study import StudySpec


@dataclass(frozen=True)
class EvaluationRequest:
    """One site's view of an evaluation; nothing of it is taken from others."""

    site: Site
    evaluation: Evaluation

    @property
    def source(self) -> Source:
        """Where the records lie that the model is evaluated on."""
        return self.site.source_of(self.site.evaluated)

    def table(self, workers: Workers) -> Table:
        """What this party's records are in the evaluation."""
        party = self.site.party
        raw = self.source.read(party, self.evaluation.needs(party), workers, matched=self.site.study.aligned)
        return self.evaluation.derive(raw)


def read_evaluation_request(site: Site) -> EvaluationRequest:
    """The evaluation that the site's files state; refuses a model that does not fit the site's study."""
    asked = site.evaluated
    if "model" not in asked:
        raise StudyError(f"{site.folder.name}/{SITE} asks for no evaluation: [evaluation] has no model")
    try:
        public = read_model(read_whole(site.folder / asked.text("model"), "model"))
        release = None
        if "release" in asked:
            release = read_release(read_whole(site.folder / asked.text("release"), "release"))
        evaluation = evaluate_by(
            site.study,
            public,
            asked.number("epsilon") if "epsilon" in asked else None,
            delta=asked.number("delta") if "delta" in asked else None,
            release=release,
            rows=asked.whole("rows") if "rows" in asked else None,
        )
    except ReleaseError as error:
        raise StudyError(f"the model of {site.folder.name}/{SITE} cannot be evaluated: {error}") from None
    if site.role == PARTY and site.party not in evaluation.parts:
        raise StudyError(f"the model has no weight for a column of {site.party}, which takes no part in the evaluation")
    return EvaluationRequest(site, evaluation)


class EvaluateRecipe(FitRecipe):
    """A release of a model's scores on the records that each party's own files name."""

    task = "evaluation"
    mark = EVALUATED

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.asked: EvaluationRequest = read_evaluation_request(site)

    @property
    def study(self) -> StudySpec:
        return self.asked.evaluation.study

    def table(self, workers: Workers) -> Table:
        return self.asked.table(workers)

    @property
    def source(self) -> Source:
        return self.asked.source

    def sentence(self) -> str:
        return "; ".join(["the evaluation was opened", *self.notes])

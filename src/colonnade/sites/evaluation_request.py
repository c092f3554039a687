"""The evaluation that an organisation's own files ask for: model, epsilon, and at a party the records it is made on."""

from __future__ import annotations

from colonnade.data.sources import Source
from colonnade.data.table import Table
from colonnade.evaluation import evaluate_by
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.foundation.files import read_whole
from colonnade.foundation.workers import HERE, Workers
from colonnade.mechanism.release import read_release
from colonnade.model import read_model
from colonnade.planning.query import EVALUATED
from colonnade.sites.recipes import FitRecipe
from colonnade.sites.site import SITE, Site
from colonnade.study import StudySpec


class EvaluateRecipe(FitRecipe):
    """A release of a model's scores on the records that each party's own files name; nothing is taken from others."""

    task = "evaluation"
    mark = EVALUATED
    opened = "the evaluation was opened"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        asked = site.evaluated
        self.require_asked(asked, "model")
        try:
            release = None
            if "release" in asked:
                release = read_release(read_whole(site.folder / asked.text("release"), "release"))
            self.evaluation = evaluate_by(
                site.study,
                read_model(read_whole(site.folder / asked.text("model"), "model")),
                asked.number("epsilon") if "epsilon" in asked else None,
                delta=asked.number("delta") if "delta" in asked else None,
                release=release,
                rows=asked.whole("rows") if "rows" in asked else None,
            )
        except ReleaseError as error:
            raise StudyError(f"the model of {site.folder.name}/{SITE} cannot be evaluated: {error}") from None
        self.require_part(self.evaluation.parts)

    @property
    def study(self) -> StudySpec:
        return self.evaluation.study

    @property
    def source(self) -> Source:
        return self.site.source_of(self.site.evaluated)

    def table(self, workers: Workers = HERE) -> Table:
        party = self.site.party
        raw = self.source.read(party, self.evaluation.needs(party), workers, matched=self.site.study.aligned)
        return self.evaluation.derive(raw)

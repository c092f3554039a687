"""The classes that a site's allow-list names, for each kind of session one of either side: it refuses by class path."""

from __future__ import annotations

from colonnade.flare.party_job import PartyJob
from colonnade.flare.server_job import ServerJob
from colonnade.sites.recipes import EvaluateRecipe, FitRecipe, PredictRecipe


class FitServerJob(ServerJob):
    recipe = FitRecipe


class FitPartyJob(PartyJob):
    recipe = FitRecipe


class EvaluateServerJob(ServerJob):
    recipe = EvaluateRecipe


class EvaluatePartyJob(PartyJob):
    recipe = EvaluateRecipe


class PredictServerJob(ServerJob):
    recipe = PredictRecipe


class PredictPartyJob(PartyJob):
    recipe = PredictRecipe

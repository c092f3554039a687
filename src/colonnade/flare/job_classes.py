"""The classes that a site's allow-list names, for each kind of session one of either side: it refuses by class path.

A process loads its own side of its own kind, and what its session runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colonnade.flare.party_job import PartyJob

if TYPE_CHECKING:
    from colonnade.sites.recipes import Recipe


class _Fit:
    @property
    def recipe(self) -> type[Recipe]:
        from colonnade.sites.recipes import FitRecipe

        return FitRecipe


class _Evaluate:
    @property
    def recipe(self) -> type[Recipe]:
        from colonnade.sites.evaluation_request import EvaluateRecipe

        return EvaluateRecipe


class _Predict:
    @property
    def recipe(self) -> type[Recipe]:
        from colonnade.sites.prediction_request import PredictRecipe

        return PredictRecipe


class FitPartyJob(_Fit, PartyJob):
    pass


class EvaluatePartyJob(_Evaluate, PartyJob):
    pass


class PredictPartyJob(_Predict, PartyJob):
    pass


SERVERS = {"FitServerJob": _Fit, "EvaluateServerJob": _Evaluate, "PredictServerJob": _Predict}


def __getattr__(name: str) -> Any:
    """A server's class, made when it is asked for: a party's job loads no role of a server."""
    if name not in SERVERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from colonnade.flare.server_job import ServerJob

    return globals().setdefault(name, type(name, (SERVERS[name], ServerJob), {"__module__": __name__}))

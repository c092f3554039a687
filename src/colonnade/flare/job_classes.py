"""The classes that a site's allow-list names, for each kind of session one of either side: it refuses by class path.

Each is made when it is asked for: a process loads its own side of its own kind, and what its session runs.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

KINDS = {"Fit": "recipes", "Evaluate": "evaluation_request", "Predict": "prediction_request"}
"""Where the recipe of a kind stands."""
NAME = re.compile(rf"({'|'.join(KINDS)})(Party|Server)Job")


def __getattr__(name: str) -> Any:
    if (found := NAME.fullmatch(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    kind, side = found.groups()

    def recipe(_: Any) -> Any:
        return getattr(import_module(f"colonnade.sites.{KINDS[kind]}"), f"{kind}Recipe")

    base = getattr(import_module(f"colonnade.flare.{side.lower()}_job"), f"{side}Job")
    return globals().setdefault(name, type(name, (base,), {"__module__": __name__, "recipe": property(recipe)}))

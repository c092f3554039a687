"""The interface for Python and notebooks: `import colonnade as cn`, then `cn.Study.read("study.toml").fit()`."""

from importlib import import_module
from typing import Any

HELD = ["Model", "Party", "Plan", "Release", "Study"]


def __getattr__(name: str) -> Any:
    # A plan loads no model.
    if name not in HELD:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{name.lower()}"), name)

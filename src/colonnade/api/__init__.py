"""The front door for Python and notebooks: `import colonnade as cn`, then `cn.Study.read("study.toml").fit()`."""

from colonnade.api.model import Model
from colonnade.api.party import Party
from colonnade.api.plan import Plan
from colonnade.api.release import Release
from colonnade.api.study import Study

__all__ = ["Model", "Party", "Plan", "Release", "Study"]

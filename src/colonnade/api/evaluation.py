"""How good a model is on held-out people across parties, as it was measured in private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.api.display import Framed

if TYPE_CHECKING:
    from colonnade.report.results import Answer
    from colonnade.runs import FittedStudy


class ModelEvaluation(Framed):
    """What an evaluation found: what `Study.evaluate` gives.

    Attributes
    ----------
    n : int
        The number of records.
    frame : polars.DataFrame
        One line for each measure: its value, a 95% interval about these very records, and the trivial answer's. What
        is not estimable is null.
    ran : colonnade.runs.FittedStudy
        The session, with what each party's data has spent.
    """

    def __init__(self, answer: Answer, n: int, ran: FittedStudy) -> None:
        super().__init__(answer)
        self.n, self.ran = n, ran

"""How good a model is on held-out people across parties, as it was measured in private."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.api.shown import Shown

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from colonnade.evaluation import Evaluation, Measured


class ModelEvaluation(Shown):
    """What an evaluation found: what `Study.evaluate` gives.

    Attributes
    ----------
    n : int
        The number of records.
    frame : polars.DataFrame
        One line for each measure: its value, a 95% interval about these very records, and the trivial answer's. What
        noise drowns is null.
    """

    def __init__(self, evaluation: Evaluation, measured: Measured) -> None:
        self._evaluation, self._measured = evaluation, measured
        self.n = measured.n

    @property
    def frame(self) -> pl.DataFrame:
        import polars as pl

        kinds = {"measure": pl.String, **dict.fromkeys(("value", "low", "high", "trivial"), pl.Float64)}
        found = self._measured.measures
        rows = [
            (name, m.value, m.low, m.high, m.trivial) if (m := found.get(name)) else (name, None, None, None, None)
            for name in self._evaluation.asked
        ]
        return pl.DataFrame(rows, kinds, orient="row")

    def __rich__(self) -> RenderableType:
        from colonnade.report.evaluation import measured_report

        return measured_report(self._evaluation, self._measured)

    def _html(self) -> str:
        from colonnade.report.evaluation import NAMES, interval_note
        from colonnade.report.notebook import fragment, heading, paragraph, rows_html

        rows = []
        for name in self._evaluation.asked:
            found = self._measured.measures.get(name)
            if found is None:
                rows.append({"measure": NAMES[name], "value": "not known", "95% interval": "", "trivial": ""})
                continue
            trivial = "not known" if found.trivial is None else f"{found.trivial:.4f}"
            between = f"{found.low:.4f} to {found.high:.4f}"
            rows.append(
                {"measure": NAMES[name], "value": f"{found.value:.4f}", "95% interval": between, "trivial": trivial}
            )
        title = heading(f"How good the model is on these {self.n:,} records")
        return fragment(title, rows_html(rows), paragraph(interval_note(self._evaluation), "soft"))

"""A plan: what a study would release, to whom, with how much noise, before anything is spent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any

from colonnade.api.display import Framed, PathLike, Shown
from colonnade.foundation.errors import StudyError
from colonnade.foundation.files import places, read_whole
from colonnade.foundation.matching import HYBRID, NONE, PSI
from colonnade.foundation.parts import local_path
from colonnade.foundation.shown import shown
from colonnade.mechanism.cuts import Binning
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.planning.variants import Variant, compare

if TYPE_CHECKING:
    from colonnade.rehearsal import Range
    from colonnade.report.cost import Cost
    from colonnade.report.results import Answer
    from colonnade.report.spending import Spending
    from colonnade.runs import FittedStudy
    from colonnade.study import StudySpec

NOBODY = bytes(32)
"""The id of a session that is only thought of."""


class Plan(Shown):
    """What a study would release. No data is touched and nothing is spent.

    `study.plan()` makes one.

    Attributes
    ----------
    session : colonnade.planning.session_plan.SessionPlan
        The plan itself.
    rows : int
        The number of common records that it is for.
    assumed : bool
        Whether nobody stated that number.
    epsilon : float
        Of a whole record.
    digest : str
        Of these terms; `study.fit(approve=[digest])` says that a person has approved them.
    warnings : list of str
        What the plan has to warn of.
    """

    def __init__(
        self,
        session: SessionPlan,
        alignment: str,
        assumed: bool = False,
        cuts: Sequence[Binning] | None = None,
        study: StudySpec | None = None,
    ) -> None:
        self.session, self.assumed = session, assumed
        self._alignment, self.cuts, self._study = alignment, cuts, study

    @classmethod
    def read(cls, path: PathLike) -> Plan:
        """Read what `save` wrote; the plan is computed again from its terms."""
        data = read_whole(local_path(path), "plan")
        try:
            content = json.loads(data)
            terms, rows = content["agreement"], index(content["n"])
            alignment, assumed = content["alignment"], bool(content["rows_assumed"])
            if alignment not in (PSI, HYBRID, NONE):
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise StudyError(f"{path} cannot be read: it is not a complete plan") from None
        session = plan_session(Agreement.of(terms), rows, NOBODY)
        if session.terms != content.get("terms_digest"):
            raise StudyError(f"{path} cannot be read: its terms give another plan, or were altered")
        return cls(session, alignment, assumed)

    def save(self, path: PathLike) -> None:
        """Write the plan as JSON, as `colonnade plan --json` prints it, with the terms that it follows from."""
        # What data have spent is for their owners' eyes, and a file travels.
        known = {key: value for key, value in self.to_dict().items() if key != "spending"}
        content = {**known, "agreement": self.session.agreement.to(), "alignment": self._alignment}
        with places(local_path(path)) as (file,):
            file.write((json.dumps(content, indent=1, allow_nan=False) + "\n").encode())

    @property
    def rows(self) -> int:
        return self.session.rows

    @property
    def epsilon(self) -> float:
        return self.session.plan.epsilon

    @property
    def digest(self) -> str:
        return self.session.terms

    @property
    def warnings(self) -> list[str]:
        return list(self.session.warnings())

    @cached_property
    def cost(self) -> Cost:
        """Bytes and CPU time that a run is expected to take."""
        from colonnade.report.cost import expected_cost

        return expected_cost(self.session, self._alignment)

    @cached_property
    def spending(self) -> Mapping[str, Spending]:
        """What the ledgers say that the study names, where they are on this machine."""
        from colonnade.report.spending import planned_spending

        return {} if self._study is None else planned_spending(self._study, self.session)

    @cached_property
    def answer(self) -> Answer:
        from colonnade.report.answers.plan import planned

        return planned(self.session, self.cost, self.assumed, self.cuts, lambda: self.spending)

    def to_dict(self) -> dict[str, Any]:
        """The plan as `colonnade plan --json` prints it."""
        from colonnade.report.results import finite

        found: dict[str, Any] = finite(self.answer.facts())
        return found

    def compare(self, **changes: Any) -> PlanComparison:
        """The same study under other terms, side by side: a table, and a picture in a notebook.

        Parameters
        ----------
        **changes
            Lists of values of epsilon, delta, collusion or release. Of bounds and bins {column: list of values}, such
            as bounds={"capital_gain": [(0, 5000), (0, 99999)]}, or as factors of the declared width, and
            bins={"age": [0, 5]}, numbers of bins of equal width; a list alone is for all numbers but the label.
            Several are combined.

        Returns
        -------
        PlanComparison
        """
        from colonnade.report.answers.compared import compared

        agreement = self.session.agreement
        found = compare(agreement, self.rows, choices_of(changes))
        return PlanComparison(compared(found, agreement.name, self.rows, self.assumed), found)

    def report(self, path: PathLike) -> None:
        """Write the page that organisations read and sign before a run."""
        with places(local_path(path)) as (file,):
            file.write(self.page().encode())

    def page(self, doors: Sequence[tuple[str, str]] = ()) -> str:
        """The same as a text; `doors` are addresses and names of pages to go back to."""
        from colonnade.report.pages import require

        require()
        from colonnade.report.html import PageContext, plan_page

        around = PageContext(self.spending, doors=doors, cuts=self.cuts)
        return plan_page(self.session, self.cost, self.assumed, around)


class PlanComparison(Framed):
    """Plans of the same study side by side: what `Plan.compare` gives.

    Attributes
    ----------
    variants : list of colonnade.planning.variants.Variant
        What each plan chooses, and its session or the reason why there is none.
    frame : polars.DataFrame
        One line for each plan.
    """

    def __init__(self, answer: Answer, variants: list[Variant]) -> None:
        super().__init__(answer)
        self.variants = variants

    def __len__(self) -> int:
        return len(self.variants)


class StudyRehearsal(Framed):
    """How good a study's model is expected to be, from public rows: what `Study.rehearse` gives.

    Attributes
    ----------
    frame : polars.DataFrame
        One line for each plan and measure: the mean over releases, its spread, where nine of ten releases lie, the
        trivial answer, and what the same columns give without noise.
    notes : list of str
        Columns whose public values sit in a corner of their bounds, or outside of them.
    """

    @property
    def notes(self) -> list[str]:
        return list(self.answer.warnings)


class ExpectedRange(Framed):
    """What the schema alone lets one expect, over stated strengths of signal: `Study.rehearse` without public rows.

    Attributes
    ----------
    found : colonnade.rehearsal.Range
        Lowest and highest of each measure, by strength of signal.
    """

    def __init__(self, answer: Answer, found: Range) -> None:
        super().__init__(answer)
        self.found = found


def choices_of(changes: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Changes as a comparison takes them: "bounds:age" for one column, "low..high" for a pair."""
    out: dict[str, list[Any]] = {}
    for key, values in changes.items():
        by_column = {f"{key}:{name}": own for name, own in values.items()} if isinstance(values, Mapping) else {}
        for name, own in (by_column or {key: values}).items():
            if isinstance(own, str) or not isinstance(own, Sequence):
                raise StudyError(f"{name} must be a list of values to compare, got {shown(own)}")
            out[name] = [f"{v[0]}..{v[1]}" if isinstance(v, tuple) and len(v) == 2 else v for v in own]
    return out


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

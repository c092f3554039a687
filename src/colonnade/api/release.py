"""A release: the noisy moments of a study, and every question that can be asked of them at no cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from colonnade.api.display import PathLike, Shown, warn_user
from colonnade.api.model import Model, ModelPath
from colonnade.api.views import PrincipalComponents, ReleasedTables, SyntheticRows
from colonnade.foundation.errors import StudyError
from colonnade.foundation.files import places, read_whole, release_place
from colonnade.foundation.parts import local_path
from colonnade.foundation.shown import plain
from colonnade.mechanism.release import ReleaseRecord, digest, read_release, write_release

if TYPE_CHECKING:
    from colonnade.analysis.intervals import Intervals
    from colonnade.analysis.request import ModelRequest
    from colonnade.analysis.synthesis import FittedRelease
    from colonnade.analysis.tables import Tables
    from colonnade.model import PublicModel
    from colonnade.report.results import Answer
    from colonnade.report.spending import Spending
    from colonnade.runs import FittedStudy

MOST_DRAWN = 100_000_000
"""Rows that one call draws: more fit into few machines."""


def listed(texts: str | Sequence[str] | None) -> tuple[str, ...]:
    """One text or several as a tuple."""
    return () if texts is None else (plain(texts),) if isinstance(texts, str) else tuple(map(plain, texts))


class Release(Shown):
    """What a study released. Everything made of it is free: the privacy was paid for once.

    `study.fit()` gives one; `Release.read` reads one from its file.

    Attributes
    ----------
    released : colonnade.mechanism.release.ReleaseRecord
        The noisy moments themselves.
    plan : dict
        What was promised, as `colonnade plan --json` prints it.
    n : int
        The number of records.
    epsilon, delta : float
        Of a whole record.
    digest : str
        SHA-256 of the release.
    flaws : list of str
        Why its epsilon is no promise, if it is none: a seed, or a product in the clear.
    seconds : dict
        Of each step of the run that made it; empty where it was read from a file.
    sent : dict
        Bytes that each party sent in that run.
    spent : dict
        What the data set of each party that keeps a ledger has spent in all, after that run.
    ran : colonnade.runs.FittedStudy or None
        That run.
    """

    def __init__(
        self,
        released: ReleaseRecord,
        *,
        ran: FittedStudy | None = None,
    ) -> None:
        self.released, self.ran = released, ran
        self.seconds = {} if ran is None else dict(ran.outcome.seconds)
        self.sent = {} if ran is None else dict(ran.outcome.traffic.sent)
        self.spent = {} if ran is None else dict(ran.spent)
        self._fits: dict[tuple[Any, ...], FittedRelease] = {}

    @classmethod
    def read(cls, path: PathLike) -> Release:
        """Read a release file; one that was altered is refused."""
        return cls(read_release(read_whole(local_path(path), "release")))

    def save(self, path: PathLike, *, force: bool = False) -> None:
        """Write the release to a file.

        Parameters
        ----------
        path : str or path
            Where to; a file that is there already is refused.
        force : bool
            Overwrite it all the same.
        """
        with places(release_place(local_path(path), force, "force=True")) as (file,):
            file.write(write_release(self.released))

    @property
    def plan(self) -> dict[str, Any]:
        return dict(self.released.plan)

    @property
    def n(self) -> int:
        return self.released.n

    @property
    def epsilon(self) -> float:
        return float(self.released.plan["epsilon"])

    @property
    def delta(self) -> float:
        return float(self.released.plan["delta"])

    @property
    def digest(self) -> str:
        return digest(self.released.to())

    @property
    def flaws(self) -> list[str]:
        from colonnade.report.text import flaws_of

        return flaws_of(self.released)

    def solve(
        self,
        label: str | None = None,
        *,
        task: str | None = None,
        features: str | Sequence[str] | None = None,
        given: str | Sequence[str] | None = None,
        penalty: str = "ridge",
        ridge: float | None = None,
        method: str = "default",
        seed: int = 0,
        numbers: str | Sequence[str] | None = None,
    ) -> Model:
        """Compute a model from the release.

        Parameters
        ----------
        label : str, optional
            Any released column, or a level such as "sex=Male"; the study's label if not given.
        task : {"linear", "logistic", "multinomial", "poisson"}, optional
            The study's if not given; multinomial for a label of several levels.
        features : sequence of str, optional
            Columns to use; all if not given, but for those that are computed from the label.
        given : str or sequence of str, optional
            Only records with these levels, such as "sex=Female".
        penalty : {"ridge", "lasso", "elastic-net"}
            What keeps weights small.
        ridge : float, optional
            Strength of the penalty per record; chosen from the noise if not given.
        method : {"default", "zhang", "raw"}
            How the noisy moments are solved.
        seed : int
            The same seed gives the same answer.
        numbers : sequence of str, optional
            Columns that were released by their bins and that the model takes as numbers; as the study says if not
            given, and none if empty.

        Returns
        -------
        Model
        """
        from colonnade.model import solved

        asked = {"penalty": penalty, "strength": ridge, "method": method}
        wanted = self._request(label, task, features, given, seed, numbers, **asked)
        model = Model(solved(wanted), wanted)
        for note in model.notes:
            warn_user(note)
        return model

    def path(
        self,
        label: str | None = None,
        *,
        task: str | None = None,
        features: str | Sequence[str] | None = None,
        given: str | Sequence[str] | None = None,
        penalty: str = "ridge",
        seed: int = 0,
        numbers: str | Sequence[str] | None = None,
    ) -> ModelPath:
        """One model for each of several strengths of the penalty; takes what `solve` takes."""
        from colonnade.model import publish

        wanted = self._request(label, task, features, given, seed, numbers, penalty=penalty)
        for note in wanted.notes:
            warn_user(note)
        models = [Model(publish(self.released, model)) for model in wanted.path()]
        for model in models:
            for note in model.notes:
                warn_user(f"strength {model.public.model.ridge:g}: {note}")
        known = {"study": self.plan["study"], "task": models[0].task, "notes": wanted.notes}
        return ModelPath(models, penalty, known)

    def _request(
        self, label: str | None, task: str | None, features: Any, given: Any, seed: int, numbers: Any, **asked: Any
    ) -> ModelRequest:
        from colonnade.analysis.question import Question
        from colonnade.analysis.request import ModelRequest

        lists = {"features": features, "numbers": numbers}
        asked |= {key: None if told is None else listed(told) for key, told in lists.items()}
        question = Question(plain(label), task or "", given=listed(given), seed=seed, **asked)
        return ModelRequest(self.released, question, partial(self._fitted, seed))

    def _fitted(self, seed: int, impossible: Sequence[Sequence[str]] = ()) -> FittedRelease:
        """The maximum-entropy model of the release, fitted once: rows and models of several kinds are made of it."""
        from colonnade.analysis.synthesis import fit_release

        zeros = self._tables.released.impossible(impossible)
        if (seed, zeros) not in self._fits:
            self._fits[seed, zeros] = fit_release(self._tables, seed, zeros)
        return self._fits[seed, zeros]

    @cached_property
    def _tables(self) -> Tables:
        from colonnade.analysis.released import Released
        from colonnade.analysis.tables import Tables

        return Tables.of(Released(self.released))

    def tables(self, a: str | None = None, b: str | None = None, *, seed: int = 0) -> ReleasedTables:
        """One-way and contingency tables across organisations, denoised, with 95% intervals.

        Parameters
        ----------
        a, b : str, optional
            One column for its margin, two for their contingency table; none for all margins, numbers and dependences.
        seed : int
            Of the test of independence: the same seed gives the same answer.
        """
        names = [name for name in (a, b) if name is not None]
        if a is None and b is not None:
            raise StudyError("tables takes a first column before a second one, got none")
        return ReleasedTables(self._tables, [self._tables.released.find_table(name) for name in names], seed)

    def synthesize(
        self,
        rows: int,
        *,
        given: str | Sequence[str] | None = None,
        impossible: Sequence[Sequence[str]] = (),
        seed: int = 0,
        force: bool = False,
        anyway: bool = False,
    ) -> SyntheticRows:
        """Draw rows that have the release's tables. Standard errors must not be computed from them.

        Raises ReleaseError where rows are expected to be no better than independent columns.

        Parameters
        ----------
        rows : int
            How many.
        given : str or sequence of str, optional
            Only records with these levels, such as "sex=Female".
        impossible : sequence of (str, str)
            Pairs of levels that no record has, besides those that the study declares.
        seed : int
            The same seed gives the same rows.
        force : bool
            Draw rows even if independent columns are expected to be as good.
        anyway : bool
            The old spelling of `force`.
        """
        from colonnade.analysis.synthesis import draw_rows

        if isinstance(rows, bool) or not isinstance(rows, int) or not 1 <= rows <= MOST_DRAWN:
            raise StudyError(f"rows must be a whole number from 1 to {MOST_DRAWN:,}, got rows={rows!r}")
        if anyway:
            warn_user("anyway is called force, here as elsewhere", FutureWarning)
        conditions, fit = self._tables.released.conditions(listed(given)), partial(self._fitted, seed, impossible)
        found = draw_rows(self._tables, fit, rows, conditions, seed, force or anyway)
        notes = [*found.notes(), *self.flaws]
        if given:
            notes.insert(1, f"Only records with {', '.join(listed(given))}.")
        return SyntheticRows(found, notes)

    def components(self, shown: int = 5) -> PrincipalComponents:
        """Principal components and correlations of the released columns; `shown` of them are displayed."""
        from colonnade.analysis.components import components
        from colonnade.analysis.released import Released

        return PrincipalComponents(components(Released(self.released)), shown)

    @cached_property
    def own(self) -> tuple[PublicModel, Intervals]:
        """The model that the release was made for, and how sure its coefficients are: solved once."""
        from colonnade.model import own_model

        return own_model(self.released)

    def report(self, path: PathLike, *, ledgers: Sequence[PathLike] = ()) -> None:
        """Write one self-contained HTML page about the release.

        Parameters
        ----------
        path : str or path
            Where to; a file that is there is replaced, unless it is a release.
        ledgers : sequence of path
            Of parties: the page then shows what their data had spent before, and with this release.
        """
        spending = self._spending(ledgers)
        with places(local_path(path)) as (file,):
            file.write(self.page(spending).encode())

    def page(self, spending: Mapping[str, Spending], doors: Sequence[tuple[str, str]] = ()) -> str:
        """The same as a text; `doors` are addresses and names of pages to go back to."""
        from colonnade.report.pages import require

        require()
        from colonnade.report.html import PageContext, release_page

        return release_page(self.released, PageContext(spending, doors=doors, answered=self.own))

    def summary(self, *, ledgers: Sequence[PathLike] = ()) -> ReleaseSummary:
        """Its terms, its own model and digests, as `colonnade report` prints them; takes ledgers as `report` does."""
        return ReleaseSummary(self, self._spending(ledgers))

    def _spending(self, ledgers: Sequence[PathLike]) -> Mapping[str, Spending]:
        from colonnade.report.spending import booked_spending, named_ledgers

        return booked_spending(self.released, named_ledgers(local_path(path) for path in ledgers))

    @property
    def answer(self) -> Answer:
        from colonnade.report.answers.release import held

        return held(self.released)


class ReleaseSummary(Shown):
    """What `Release.summary()` shows.

    Attributes
    ----------
    model : Model
        The one that the release was made for.
    """

    def __init__(self, release: Release, spending: Mapping[str, Spending]) -> None:
        self._release, self._spending = release, spending
        self.model = Model(release.own[0])

    @cached_property
    def answer(self) -> Answer:
        from colonnade.report.answers.coefficients import fitted
        from colonnade.report.answers.release import held

        return held(self._release.released, fitted(*self._release.own), self._spending)

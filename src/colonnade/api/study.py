"""A study from Python: from its file or from parts, planned and run through the one door of consent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.api.display import PathLike, Shown, warn_of, warn_user
from colonnade.api.party import Party
from colonnade.api.plan import ExpectedRange, ModelEvaluation, Plan, StudyRehearsal, choices_of
from colonnade.data.sources import FrameSource, Source
from colonnade.foundation.errors import StudyError
from colonnade.foundation.files import places, release_place
from colonnade.foundation.matching import NONE, PSI
from colonnade.foundation.parts import local_path
from colonnade.foundation.schema import find_column
from colonnade.foundation.shown import plain
from colonnade.report.results import Answer, Heading, Listing, Passage
from colonnade.report.text import delta_text
from colonnade.study import StudySpec, read_study, study_from

if TYPE_CHECKING:
    from colonnade.api.model import Model
    from colonnade.api.release import Release
    from colonnade.check import Checked
    from colonnade.data.table import Look
    from colonnade.evaluation import Evaluation
    from colonnade.foundation.randomness import Randomness
    from colonnade.mechanism.release import ReleaseRecord
    from colonnade.model import Scores
    from colonnade.planning.prediction import Prediction
    from colonnade.planning.variants import Choices
    from colonnade.runs import FittedStudy, Observer, RunOptions

NAME = "study"


class Study(Shown):
    """Several organisations, what is publicly known of their columns, and what is to be computed over them.

    Parameters
    ----------
    label : str
        The column to predict, as "party.column" or by its name alone.
    parties : {name: Party}
        The organisations, in the order in which they stand in the release.
    epsilon : float, optional
        Of a whole record. None: every party states its own.
    task : {"linear", "logistic", "multinomial", "polynomial"}, optional
        By default logistic for a label of two levels, multinomial for one of several, and linear for a number.
    name : str
        What policies and ledgers know the study by.
    delta : float
        0 for discrete Laplace noise, above 0 for discrete Gaussian.
    collusion : int, optional
        How many parties may pool what they see with the server; 1, or 0 for a single party.
    product : {"lattice", "bgn", "plain"}
        The secure product; "plain" is for simulations.
    alignment : {"psi", "none"}, optional
        How records are matched: by ids in private where the parties name an id column, else row by row.
    rows : int, optional
        The number of common records, where it is known before the run.
    **terms
        Further keys of [study] in a study file, such as release, label_square or impossible; objective, parameters
        and ball of the task polynomial.

    Attributes
    ----------
    study : colonnade.study.StudySpec
        The checked study.
    opened : Release or None
        What the last `fit` released, there as soon as it is open: it is paid for, whatever goes wrong afterwards.
    clipped : {party: {column: int}}
        After `fit`: how many values lay outside of their declared bounds, for each party's own eyes.
    unfit : {party: {column: int}}
        After `fit` or `evaluate`: how many values were missing or not as declared, and under the id column how many
        rows were left out, for each party's own eyes.
    """

    def __init__(
        self,
        label: str,
        parties: Mapping[str, Party],
        *,
        epsilon: float | None = None,
        task: str | None = None,
        name: str = NAME,
        delta: float = 0.0,
        collusion: int | None = None,
        product: str = "lattice",
        alignment: str | None = None,
        rows: int | None = None,
        **terms: Any,
    ) -> None:
        if product == "plain":
            told = 'product = "plain" is for tests and teaching: colonnade.simulation.in_the_clear(study)'
            warn_user(told, FutureWarning)
        label, parties = plain(label), {plain(party): own for party, own in parties.items()}
        for party, own in parties.items():
            if not isinstance(own, Party):
                raise StudyError(f"parties must map names to Party objects, got {type(own).__name__} for {party}")
        named = {"epsilon": epsilon, "collusion": collusion, "rows": rows}
        head: dict[str, Any] = {"name": name, "label": label, "task": task or _task_of(label, parties)}
        head |= {"delta": delta, "product": product, "alignment": alignment or _alignment_of(parties)}
        head |= {key: value for key, value in named.items() if value is not None} | terms
        content = {"study": head, "party": {party: own.declared(party) for party, own in parties.items()}}
        checked = study_from(plain(content), Path())
        sources = {party: parties[party]._source(party, source) for party, source in checked.sources.items()}
        self._start(replace(checked, sources=sources))

    def _start(self, study: StudySpec) -> None:
        self.study = study
        self.opened: Release | None = None
        self.clipped: dict[str, dict[str, int]] = {}
        self.unfit: dict[str, dict[str, int]] = {}

    @classmethod
    def read(cls, path: PathLike, *, rows: int | None = None, epsilon: float | None = None) -> Study:
        """Read a study file (TOML); data, policies and ledgers are where it says.

        Parameters
        ----------
        path : str or path
            The file.
        rows, epsilon : optional
            In the place of what [study] says of them.
        """
        return cls.of(read_study(local_path(path), plain(rows), plain(epsilon)))

    @classmethod
    def of(cls, study: StudySpec) -> Study:
        """A study that is checked already."""
        out = cls.__new__(cls)
        out._start(study)
        return out

    @property
    def name(self) -> str:
        return self.study.agreement.name

    @property
    def label(self) -> str:
        return self.study.agreement.label

    @property
    def parties(self) -> tuple[str, ...]:
        return self.study.agreement.schema.names

    def plan(self, rows: int | None = None) -> Plan:
        """What the study would release, to whom, with how much noise. No data is read and nothing is spent.

        Parameters
        ----------
        rows : int, optional
            The number of common records. By default what the study states, or the number of rows of data frames that
            are taken row by row; else a typical one is assumed, and the plan says so. What is given here is as if the
            study stated it; give it to `fit`, too.
        """
        from colonnade.planning.session_plan import TYPICAL_ROWS

        study = self.study.with_rows(plain(rows))
        known = study.rows
        if known is None and study.alignment == NONE:
            held = (source.data for source in study.sources.values())
            known = min((data.frame.height for data in held if isinstance(data, FrameSource)), default=None)
        assumed = known is None
        session = study.session(TYPICAL_ROWS if known is None else known)
        return Plan(session, study.alignment, assumed, study.cuts, study)

    def check(self, strict: bool = False) -> Checked:
        """List all in the parties' records that would refuse a run or spoil its result. Nothing is spent.

        Parameters
        ----------
        strict : bool
            Count as a fault any value that is not as declared, as `fit` with `strict` does.

        Returns
        -------
        Checked
            Its `findings`, each of a party, a fault or a remark, with what its owner may write; whether a run would be
            `refused`; and how many people all parties have in `common`.
        """
        from colonnade.check import check_study

        return check_study(self.study, strict)

    def rehearse(
        self,
        public: Any = None,
        *,
        rows: int | None = None,
        releases: int = 20,
        seed: int = 0,
        strict: bool = False,
        **compare: Any,
    ) -> StudyRehearsal | ExpectedRange:
        """Predict how good the model will be, by simulating the noise. Nothing is spent, no party's data is read.

        Parameters
        ----------
        public : data frame, path, or {party: data frame or path}, optional
            Public rows like those of the study, with all columns; matched by the study's ids where they come by party
            and have them. Without any, a range from the schema alone, over stated strengths of signal.
        rows : int, optional
            The number of common records; what the study states, or as many as there are public rows.
        releases : int
            How many to simulate for each plan.
        seed : int
            The same seed gives the same answer.
        strict : bool
            Refuse any value of the public rows that is not as declared.
        **compare
            Other terms to rehearse under, as `Plan.compare` takes them.

        Returns
        -------
        StudyRehearsal, or ExpectedRange without public rows
        """
        study = self if rows is None else Study.of(self.study.with_rows(plain(rows)))
        return study.rehearsal(public, choices_of(compare), warn_of, releases=releases, seed=seed, strict=strict)

    def rehearsal(
        self,
        public: Any,
        choices: Choices,
        look: Look,
        *,
        releases: int = 20,
        seed: int = 0,
        share: float | None = None,
        strict: bool = False,
    ) -> StudyRehearsal | ExpectedRange:
        """What `rehearse` gives; `look` hears how rows were read, `share` is the label's where there are none."""
        from colonnade.planning.session_plan import TYPICAL_ROWS
        from colonnade.rehearsal import foretell, read_public_rows, rehearse_each
        from colonnade.report.answers.rehearsed import expected_range, rehearsed

        agreement, rows = self.study.agreement, self.study.rows
        if public is None:
            if choices:
                raise StudyError("other terms are compared on public rows, and none are given")
            found = foretell(agreement, rows or TYPICAL_ROWS, share=share, seed=seed)
            return ExpectedRange(expected_range(found, self.name), found)
        tables = read_public_rows(self.study, public, look, strict)
        each = rehearse_each(agreement, tables, rows, choices, releases=releases, seed=seed)
        return StudyRehearsal(rehearsed(each, self.name))

    def fit(
        self,
        out: PathLike | None = None,
        *,
        force: bool = False,
        approve: Collection[str] = (),
        ask: Callable[[str], bool] | None = None,
        strict: bool = False,
        seed: int | bytes | Randomness | None = None,
        rows: int | None = None,
        workers: int | None = None,
        evidence: PathLike | Mapping[str, PathLike] | None = None,
        progress: bool | None = None,
    ) -> Release:
        """Run the study with all parties in this process, and spend its epsilon once.

        Every party's policy is asked before anything is spent, and its ledger books the spend; a refusal is one
        sentence, a `PolicyError`. Warnings of the plan are given as `UserWarning` before that.

        Parameters
        ----------
        out : str or path, optional
            Where the release is written as soon as it is open. What it cost cannot be had again.
        force : bool
            Overwrite a file that is there.
        approve : collection of str
            Digests of plans that a person has approved (`plan().digest`), where a policy asks for one.
        ask : callable, optional
            Asks a person about a plan where a policy wants that: gets the question, returns whether it is approved.
        strict : bool
            Refuse a plan that comes with a warning, and any value that is not as declared. By default a column of
            which more than one value in twenty is not is refused, and fewer are warned of.
        seed : int or bytes, optional
            The old spelling of `colonnade.simulation.fit(study, seed)`.
        rows : int, optional
            As in `plan`: the number of common records, where the study does not state it and bins shall depend on it.
        workers : int, optional
            Threads; all cores if not given.
        evidence : path or {party: path}, optional
            Where each party's evidence is kept, so that `colonnade audit session` can make its messages again. In one
            process nothing is signed, so that it convicts nobody.
        progress : bool, optional
            Show bars; by default in a notebook and on a terminal.

        Returns
        -------
        Release
        """
        from colonnade.api.release import Release
        from colonnade.foundation.randomness import Randomness
        from colonnade.pool import open_workers
        from colonnade.runs import RunOptions

        if seed is not None and not isinstance(seed, Randomness):
            warn_user("a seed is for tests and teaching: colonnade.simulation.fit(study, seed)", FutureWarning)
            seed = Randomness(seed=seed if isinstance(seed, bytes) else str(seed).encode())
        self.opened = None

        def keep(opened: ReleaseRecord) -> None:
            self.opened = Release(opened)

        watched = _watched(progress, out, force, ask=ask, strict=strict, keep=keep)
        with watched as watch, open_workers(workers) as crew:
            return self.run(RunOptions(seed, list(approve), crew, _folders(evidence), strict), watch, plain(rows))

    def run(self, options: RunOptions, watch: Observer, rows: int | None = None) -> Release:
        """Run the study as `fit` does, for whoever watches it in another way."""
        from colonnade.api.release import Release
        from colonnade.runs import fit

        fitted = fit(self.study.with_rows(rows), options, watch)
        self.clipped = {name: dict(table.clipped or {}) for name, table in fitted.tables.items()}
        for note in (note for table in fitted.tables.values() for note in table.heavy_clipping()):
            warn_user(note)
        self._note(fitted)
        return Release(fitted.release, ran=fitted)

    def evaluate(
        self,
        model: Model,
        data: Mapping[str, Any] | None = None,
        *,
        release: Release | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        rows: int | None = None,
        out: PathLike | None = None,
        force: bool = False,
        strict: bool = False,
        approve: Collection[str] = (),
        ask: Callable[[str], bool] | None = None,
        evidence: PathLike | Mapping[str, PathLike] | None = None,
        progress: bool | None = None,
    ) -> ModelEvaluation:
        """Measure how good a model is on held-out people across the parties; it spends epsilon, as `fit` does.

        Nobody sees a score: noisy counts or sums of them are opened. Every party's policy is asked, and its ledger
        books the spend.

        Parameters
        ----------
        model : Model
            A linear model, or a logistic one of one level.
        data : {party: data frame or path}, optional
            Each party's held-out records. A party that is not named brings the study's own, on which a model looks
            better than it is.
        release : Release, optional
            The one that the model comes from: where scores lie is taken from it, which lowers the error.
        epsilon, delta : float, optional
            What it may spend; the study's if not given.
        rows : int, optional
            Roughly how many records there are: bins are chosen for it.
        out : str or path, optional
            Where what was opened is written as soon as it is open.
        force, strict, approve, ask, evidence, progress
            As in `fit`.

        Returns
        -------
        ModelEvaluation
        """
        from colonnade.runs import RunOptions

        asked = self.evaluation(model, data, release=release, epsilon=epsilon, delta=delta, rows=rows)
        options = RunOptions(approved=list(approve), evidence=_folders(evidence), strict=strict)
        with _watched(progress, out, force, ask=ask, strict=strict, warnings=asked.warnings) as watch:
            return self.measure(asked, options, watch)

    def evaluation(
        self, model: Model, data: Mapping[str, Any] | None = None, *, release: Release | None = None, **terms: Any
    ) -> Evaluation:
        """What `evaluate` would ask of the parties: bins, noise and epsilon; nothing is spent."""
        from colonnade.evaluation import evaluate_by

        opened, sources = None if release is None else release.released, self._sources_with(data or {})
        return evaluate_by(self.study, model.public, release=opened, sources=sources, **terms)

    def measure(self, asked: Evaluation, options: RunOptions, watch: Observer) -> ModelEvaluation:
        """Run what `evaluation` asks, and spend its epsilon."""
        from colonnade.report.answers.measured import measured
        from colonnade.runs import evaluate

        fitted, found = evaluate(asked, options, watch)
        self._note(fitted)
        return ModelEvaluation(measured(asked, found, fitted.outcome.session), found.n, fitted)

    def _note(self, fitted: FittedStudy) -> None:
        """Keep and tell what a run leaves beside its release."""
        self.unfit = {name: table.unfit_counts for name, table in fitted.tables.items()}
        for party, reason in fitted.unsettled.items():
            warn_user(f"the session of {party} stays booked: {reason}")

    def _sources_with(self, data: Mapping[str, Any]) -> dict[str, Source]:
        """Each party's source, with other records where they are named."""
        out = dict(self.study.sources)
        for party, given in data.items():
            if party not in out:
                raise StudyError(f"data names parties of the study, {', '.join(out)}, got {party!r}")
            out[party] = out[party].given(party, given, self.study.agreement.schema.parties[party])
        return out

    def predict(
        self,
        model: Model,
        to: str,
        *,
        data: Mapping[str, PathLike] | None = None,
        approve: Collection[str] = (),
        ask: Callable[[str], bool] | None = None,
        strict: bool = False,
        progress: bool | None = None,
    ) -> Any:
        """Score the records that all parties have in common; one party opens the sums of the parties' parts.

        Scores are exact: they are not differentially private about a record, and every party's policy is asked
        whether it allows them to `to`.

        Parameters
        ----------
        model : Model
            Of this study's columns.
        to : str
            The one party that opens the scores.
        data : {party: path}, optional
            Other files of records to score; the study's own if not given.
        approve, ask, progress
            As in `fit`.
        strict : bool
            Refuse any value that is not as declared.

        Returns
        -------
        polars.DataFrame
            One line for each record of the receiver that is common: its id if there is one, and the score, a
            probability or the label in its own units.
        """
        import polars as pl

        from colonnade.model import beside_ids
        from colonnade.runs import RunOptions

        with _watched(progress, ask=ask) as watch:
            scores, _ = self.scores(model, to, data, RunOptions(approved=list(approve), strict=strict), watch)
        return pl.DataFrame(beside_ids(scores.id_column, scores.ids, {"score": scores.values}))

    def scores(
        self, model: Model, to: str, data: Mapping[str, Any] | None, options: RunOptions, watch: Observer
    ) -> tuple[Scores, Prediction]:
        """What `predict` opens, with ids, and the terms that the parties agreed to."""
        from colonnade.model import prediction_of
        from colonnade.planning.warnings import refusing_columns
        from colonnade.runs import predict

        agreement = self.study.agreement
        for note in refusing_columns(prediction_of(model.public, agreement.schema, to, agreement.ids).columns):
            warn_user(note)
        scores, prediction = predict(self.study, model.public, to, options, watch, data=data)
        return replace(scores, id_column=self.study.sources[to].id_name), prediction

    def _terms(self) -> list[str]:
        agreement, study = self.study.agreement, self.study
        whole, release = agreement.budget.epsilon, agreement.query.terms()["release"]
        epsilon = "epsilon stated by each party" if whole is None else f"epsilon {whole:g}"
        matched = {NONE: "records row by row", PSI: "ids matched in private"}.get(study.alignment, study.alignment)
        if agreement.ids.form and study.alignment != NONE:
            matched += f" after {', '.join(agreement.ids.form)}"
        return [
            f"{agreement.told}; {epsilon}, {delta_text(agreement.delta)}",
            f"product {agreement.product}, collusion {agreement.collusion}, release {release}; {matched}",
        ]

    @property
    def answer(self) -> Answer:
        records = []
        for party, columns in self.study.agreement.schema.parties.items():
            source = self.study.sources[party]
            data = "none" if source.data is None else source.data.told
            kept = "policy and ledger" if source.policy is not None else "no ledger"
            records.append({"party": party, "columns": ", ".join(columns), "data": data, "consent": kept})
        table = Listing([Heading(key, key) for key in ("party", "columns", "data", "consent")], records)
        return Answer(f"Study “{self.name}”", [*map(Passage, self._terms()), table])


def _task_of(label: str, parties: Mapping[str, Party]) -> str:
    """The regression that fits the label; one that is not there is refused later, by its name."""
    found = find_column({party: own.columns for party, own in parties.items()}, label)
    if found is None:
        return "linear"
    column = parties[found[0]].columns[found[1]]
    return "logistic" if column.positive is not None else "multinomial" if column.has_levels else "linear"


def _alignment_of(parties: Mapping[str, Party]) -> str:
    return NONE if all(own.id is None for own in parties.values()) else PSI


def _folders(evidence: PathLike | Mapping[str, PathLike] | None) -> Path | dict[str, Path] | None:
    if isinstance(evidence, Mapping):
        return {party: local_path(folder) for party, folder in evidence.items()}
    return None if evidence is None else local_path(evidence)


@contextmanager
def _watched(
    progress: bool | None, out: PathLike | None = None, force: bool = False, **watching: Any
) -> Iterator[Observer]:
    """Warnings and bars of a run, and the file of what it opens."""
    from colonnade.api.watcher import Watcher

    place = None if out is None else release_place(local_path(out), force, "force=True")
    with places(place) as (file,), _steps(progress) as steps:
        watch = Watcher(steps, **watching)
        watch.file = file
        yield watch


def _steps(progress: bool | None) -> Any:
    """Bars in a notebook or on a terminal; nothing elsewhere."""
    from colonnade.report.progress import NotebookSteps, Steps, in_notebook

    if progress is False:
        return nullcontext()
    if in_notebook():
        return NotebookSteps()
    from rich.console import Console

    return Steps(Console(stderr=True, markup=False, highlight=False, emoji=False))

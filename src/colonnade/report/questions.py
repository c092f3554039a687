"""Commands that ask a release for more than its model: tables, rows, models of other columns, components."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.foundation.errors import StudyError
from colonnade.foundation.parts import local_path
from colonnade.report.screen import print_json, stderr, stdout

if TYPE_CHECKING:
    from colonnade.analysis.intervals import Intervals
    from colonnade.analysis.released import Released
    from colonnade.analysis.solve import Model
    from colonnade.mechanism.release import Release

PATH_RIDGES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
PATH_PENALTIES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)


class TaskName(StrEnum):
    """Which regression."""

    LINEAR = "linear"
    LOGISTIC = "logistic"
    MULTINOMIAL = "multinomial"
    POISSON = "poisson"


class PenaltyName(StrEnum):
    """What keeps weights small."""

    RIDGE = "ridge"
    LASSO = "lasso"
    ELASTIC_NET = "elastic-net"


ReleaseFile = Annotated[Path, typer.Argument(parser=local_path, metavar="RELEASE", help="Release file that fit wrote.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
Given = Annotated[
    list[str] | None,
    typer.Option("--given", metavar="COLUMN=LEVEL", help="Only records with this level; repeat for more columns."),
]
Impossible = Annotated[
    list[str] | None,
    typer.Option(
        "--impossible",
        metavar="A=X,B=Y",
        help="Two levels that no record has together, besides those that the study declares; may be repeated.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", metavar="S", help="The same seed gives the same answer.")]


def open_release(path: Path) -> Release:
    """The release in a file."""
    from colonnade.mechanism.release import read_release
    from colonnade.report.output import read_whole

    return read_release(read_whole(path, "release"))


def tables(
    release: ReleaseFile,
    columns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[A [B]]", help="One column, or two for their cross table; all if none."),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Print lines of comma-separated values and nothing else.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", parser=local_path, metavar="FILE", help="Page to write, readable offline.")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show margins and cross tables across organisations, denoised, with 95% intervals. It costs no privacy."""
    from colonnade.analysis.released import Released
    from colonnade.analysis.tables import Tables
    from colonnade.report.commands import tables_html
    from colonnade.report.output import places
    from colonnade.report.tables import tables_csv, tables_json, tables_text

    names = columns or []
    if len(names) > 2:
        raise typer.BadParameter("give no column, one, or two")
    if json and csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    released = Released(open_release(release))
    chosen = [released.find_table(name) for name in names]
    with places(html) as (page,):
        found = Tables.of(released)
        if html is not None:
            page.write(tables_html(found, chosen, seed))
        if json:
            print_json(tables_json(found, chosen, seed))
        elif csv:
            typer.echo(tables_csv(found, chosen), nl=False)
        elif html is None:
            stdout().print(tables_text(found, chosen, seed))
        else:
            stdout().print(f"Page written to {html}.")


def synthesize(
    release: ReleaseFile,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="How many rows.")],
    out: Annotated[
        Path, typer.Option("--out", parser=local_path, metavar="FILE", help="CSV or Parquet file to write.")
    ],
    given: Given = None,
    impossible: Impossible = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Draw rows that have a release's tables, for looking and for programs that need rows. It costs no privacy."""
    from colonnade.analysis.released import Released
    from colonnade.analysis.synthesis import fit_release
    from colonnade.analysis.synthesis import synthesize as drawn
    from colonnade.analysis.tables import Tables
    from colonnade.report.output import places
    from colonnade.report.rows import rows_file
    from colonnade.report.text import caution, flaws

    if out.suffix.lower() not in (".csv", ".parquet", ".pq"):
        raise StudyError(f"rows are written as .csv or .parquet, got {out}")
    opened = open_release(release)
    released = Released(opened)
    conditions = released.conditions(given or [])
    zeros = released.impossible([pair.split(",") for pair in impossible or []])
    with places(out) as (file,):
        found = drawn(fit_release(Tables.of(released), seed, zeros), rows, conditions, seed)
        notes = [*found.notes(), *flaws(opened.provenance)]
        if given:
            notes.insert(1, f"Only records with {', '.join(given)}.")
        file.write(rows_file(found, notes, out.suffix.lower() == ".csv"))
    if json:
        print_json(
            {
                "study": opened.plan["study"],
                "rows": rows,
                "out": str(out),
                "given": list(given or []),
                "seed": seed,
                "expected_tv": found.expected,
                "independent_tv": found.independent,
                "converged": found.certificate.converged,
                "distance": found.certificate.distance,
                "misfit": found.certificate.misfit,
                "unbinned": list(found.unbinned),
                "notes": notes,
            }
        )
        return
    for note in notes:
        stderr().print(caution(note))
    stdout().print(f"{rows:,} rows written to {out}.")


def solve(
    release: ReleaseFile,
    task: Annotated[
        TaskName | None,
        typer.Option(
            "--task",
            metavar="linear|logistic|multinomial|poisson",
            help="The study's if not given; multinomial for a label of several levels.",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            "--label", metavar="COLUMN", help="A column, or a level such as sex=Male; the study's if not given."
        ),
    ] = None,
    features: Annotated[
        str | None, typer.Option("--features", metavar="A,B,...", help="Columns to use; all if not given.")
    ] = None,
    given: Given = None,
    penalty: Annotated[
        PenaltyName, typer.Option("--penalty", metavar="ridge|lasso|elastic-net", help="What keeps weights small.")
    ] = PenaltyName.RIDGE,
    ridge: Annotated[
        float | None,
        typer.Option(
            "--ridge", metavar="X", help="Strength of the penalty per record; chosen from the noise if not given."
        ),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="default, zhang (regularise and trim) or raw.")
    ] = "default",
    path: Annotated[
        bool, typer.Option("--path", help="One model for each of several strengths of the penalty.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", parser=local_path, metavar="FILE", help="Model file to write.")
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compute another model from a release. It costs no privacy."""
    from colonnade.report.certainty import intervals_json, intervals_report
    from colonnade.report.machine import model_json
    from colonnade.report.output import places
    from colonnade.report.text import caution, flaws, model_report, path_table
    from colonnade.scoring import publish, write_model

    if path and (ridge is not None or out is not None or method != "default"):
        raise typer.BadParameter("--path goes without --ridge, --method and --out")
    opened = open_release(release)
    columns = None if features is None else [f.strip() for f in features.split(",")]
    asked = _Asked(opened, task, label, columns, given or [], penalty, method, seed)
    if path:
        models = [publish(opened, m) for m in asked.path()]
        if json:
            study = opened.plan["study"]
            print_json({"study": study, "task": models[0].model.task, "path": [model_json(m) for m in models]})
        else:
            stdout().print(path_table(models))
        return
    with places(out) as (file,):
        public = publish(opened, asked.model(ridge))
        file.write(write_model(public))
    sure = asked.intervals()
    if json:
        known = {"study": opened.plan["study"], "n": opened.n, **model_json(public)}
        found = {} if sure is None else intervals_json(sure)
        print_json({**known, **found, "model": None if out is None else str(out)})
        return
    stdout().print(model_report(public))
    if sure is not None:
        stdout().print(intervals_report(sure))
    for note in flaws(opened.provenance):
        stderr().print(caution(note))
    if out is not None:
        stdout().print(f"Model written to {out}.")


class _Asked:
    """One question for a model, answered from moments alone where that suffices, else from rows and tables."""

    def __init__(
        self,
        release: Release,
        task: TaskName | None,
        label: str | None,
        features: list[str] | None,
        given: list[str],
        penalty: PenaltyName,
        method: str,
        seed: int,
    ) -> None:
        self.release, self.features, self.given, self.seed = release, features, given, seed
        self.label, self.penalty, self.method = label, penalty, method
        self.task = str(task or self._fitting_task())
        self.simple = self.task in ("linear", "logistic") and not given and penalty is PenaltyName.RIDGE
        if not self.simple and method != "default":
            raise StudyError(f"method {method} goes with linear and logistic models of all records and a ridge")

    def _fitting_task(self) -> str:
        """The study's task, or several classes where the label has them."""
        if self.label is not None:
            for attribute in self.release.layout.attributes:
                known = (attribute.name, attribute.name.removeprefix(f"{attribute.owner}."))
                if self.label in known and attribute.size > 2:
                    return "multinomial"
        return str(self.release.plan["task"])

    def model(self, strength: float | None) -> Model:
        if self.simple:
            from colonnade.analysis.solve import solve
            from colonnade.mechanism.objective import Task

            moments = self.release.moments()
            return solve(
                moments, Task(self.task), method=self.method, ridge=strength, features=self.features, label=self.label
            )
        return self._answers([strength])[0]

    def intervals(self) -> Intervals | None:
        """How sure the coefficients are; None for models that have no intervals."""
        if not self.simple:
            return None
        from colonnade.analysis.intervals import intervals
        from colonnade.mechanism.objective import Task

        return intervals(self.release.moments(), Task(self.task), features=self.features, label=self.label)

    def path(self) -> list[Model]:
        if self.simple:
            from colonnade.analysis.solve import ridge_path
            from colonnade.mechanism.objective import Task

            moments = self.release.moments()
            return list(ridge_path(moments, Task(self.task), PATH_RIDGES, features=self.features, label=self.label))
        return self._answers(list(PATH_PENALTIES))

    def _answers(self, strengths: list[float | None] | list[float]) -> list[Model]:
        from colonnade.analysis.models import Question, answer, check_question
        from colonnade.analysis.released import Released
        from colonnade.analysis.synthesis import fit_release
        from colonnade.analysis.tables import Tables

        released = Released(self.release)
        label = self.label or released.short(released.layout.label)
        features = None if self.features is None else tuple(self.features)
        questions = [
            Question(label, self.task, str(self.penalty), strength, features, tuple(self.given))
            for strength in strengths
        ]
        check_question(released, questions[0])
        several = len(released.tabular) > 1
        fitted = fit_release(Tables.of(released), self.seed, released.impossible()) if several else None
        return [answer(released, question, self.seed, fitted) for question in questions]


def components(
    release: ReleaseFile,
    shown: Annotated[int, typer.Option("--show", metavar="K", min=1, help="Components to print.")] = 5,
    json: Json = False,
) -> None:
    """Show principal components and the largest correlations of a release's columns. It costs no privacy."""
    from colonnade.analysis.components import components as found
    from colonnade.analysis.released import Released
    from colonnade.report.tables import components_json, components_text

    released: Released = Released(open_release(release))
    answer = found(released)
    if json:
        print_json(components_json(answer, shown))
    else:
        stdout().print(components_text(answer, shown))

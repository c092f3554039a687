"""Commands that read a release, at no cost: what it holds, its tables, rows, models and components."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli.options import Html, Json, ReleaseFile, argument, flag, names_in, option, path_option
from colonnade.cli.screen import print_json, show, stderr, stdout, write_page
from colonnade.foundation.errors import StudyError

if TYPE_CHECKING:
    from colonnade.mechanism.release import ReleaseRecord


class Regression(StrEnum):
    """Which regression."""

    LINEAR = "linear"
    LOGISTIC = "logistic"
    MULTINOMIAL = "multinomial"
    POISSON = "poisson"


class Shrinkage(StrEnum):
    """What keeps weights small."""

    RIDGE = "ridge"
    LASSO = "lasso"
    ELASTIC_NET = "elastic-net"


Given = Annotated[
    list[str] | None, option("--given", "COLUMN=LEVEL", "Only records with this level; repeat for more columns.")
]
Impossible = Annotated[
    list[str] | None,
    option(
        "--impossible",
        "A=X,B=Y",
        "Two levels that no record has together, besides those that the study declares; may be repeated.",
    ),
]
LedgerFiles = Annotated[
    list[Path] | None,
    path_option(
        "--ledger", "A party's ledger: the page then shows what its data had spent before, and with this release."
    ),
]
FREE = "Everything here is computed from the release alone and costs no privacy."
Seed = Annotated[int, option("--seed", "S", "The same seed gives the same answer.")]


def read_opened(path: Path) -> ReleaseRecord:
    """What a session opened, in a file."""
    from colonnade.foundation.files import read_whole
    from colonnade.mechanism.release import read_release

    return read_release(read_whole(path, "release"))


def open_release(path: Path) -> ReleaseRecord:
    """The release in a file; what evaluated a model has no columns to ask about."""
    opened = read_opened(path)
    if "evaluates" in opened.agreement:
        raise StudyError(f"{path.name} evaluates a model: colonnade evaluate STUDY MODEL --opened {path.name} tells it")
    return opened


def report(release: ReleaseFile, html: Html = None, ledger: LedgerFiles = None, json: Json = False) -> None:
    """Tell what a release holds: what was computed, whose columns, epsilon per party and view, noise, model."""
    from colonnade.api.release import Release

    found = Release(open_release(release))
    if html is not None:
        found.report(html, ledgers=ledger or [])
    told = found.summary(ledgers=ledger or [])
    answer, public = told.answer, told.model.public
    if json:
        print_json({**answer.facts(), "digest": public.release, "label": public.declared, "release": str(release)})
        return
    show(answer, json)


def tables(
    release: ReleaseFile,
    columns: Annotated[
        list[str] | None, argument("[A [B]]", "One column, or two for their contingency table; all if none.")
    ] = None,
    csv: Annotated[bool, flag("--csv", "Print lines of comma-separated values and nothing else.")] = False,
    html: Html = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show one-way and contingency tables across organisations, denoised, with 95% intervals. It costs no privacy."""
    from colonnade.api.release import Release
    from colonnade.foundation.files import places

    if len(columns or []) > 2:
        raise typer.BadParameter("give no column, one, or two")
    if json and csv:
        raise typer.BadParameter("--json and --csv exclude each other")
    opened = Release(open_release(release))
    found = opened.tables(*(columns or []), seed=seed)
    with places(html) as (page,):
        lead = f"{opened.n:,} records of several organisations. {FREE}"
        write_page(page, found.answer, f"Tables of “{opened.plan['study']}”", lead)
    if csv:
        typer.echo(found.to_csv(), nl=False)
    elif html is None or json:
        show(found.answer, json)
    else:
        stdout().print(f"Page written to {html}.")


def synthesize(
    release: ReleaseFile,
    rows: Annotated[int, option("--rows", "N", "How many rows.", min=1)],
    out: Annotated[Path, path_option("--out", "CSV or Parquet file to write.")],
    given: Given = None,
    impossible: Impossible = None,
    seed: Seed = 0,
    force: Annotated[
        bool, flag("--force --anyway", "Draw rows even if independent columns are expected to be as good.")
    ] = False,
    json: Json = False,
) -> None:
    """Draw rows that have a release's tables, for looking and for programs that need rows. It costs no privacy."""
    from colonnade.api.release import Release
    from colonnade.foundation.files import places
    from colonnade.report.answers.rows import notes_place
    from colonnade.report.render.terminal import caution

    opened, pairs = Release(open_release(release)), [names_in(pair) for pair in impossible or []]
    with places(out, notes_place(out)) as (file, beside):
        found = opened.synthesize(rows, given=given, impossible=pairs, seed=seed, force=force)
        found.write(file, beside)
    if json:
        known = {"study": opened.plan["study"], "rows": rows, "out": str(out), "given": list(given or []), "seed": seed}
        print_json({**known, **found.answer.facts()})
        return
    for note in found.notes:
        stderr().print(caution(note))
    stdout().print(f"{rows:,} rows written to {out}.")


def solve(
    release: ReleaseFile,
    task: Annotated[
        Regression | None,
        option(
            "--task",
            "linear|logistic|multinomial|poisson",
            "The study's if not given; multinomial for a label of several levels.",
        ),
    ] = None,
    label: Annotated[
        str | None, option("--label", "COLUMN", "A column, or a level such as sex=Male; the study's if not given.")
    ] = None,
    features: Annotated[str | None, option("--features", "A,B,...", "Columns to use; all if not given.")] = None,
    numbers: Annotated[
        str | None,
        option(
            "--numbers",
            "A,B,...",
            "Columns released by their bins to take as numbers; as the study says if not given, none if empty.",
        ),
    ] = None,
    given: Given = None,
    penalty: Annotated[
        Shrinkage, option("--penalty", "ridge|lasso|elastic-net", "What keeps weights small.")
    ] = Shrinkage.RIDGE,
    ridge: Annotated[
        float | None, option("--ridge", "X", "Strength of the penalty per record; chosen from the noise if not given.")
    ] = None,
    method: Annotated[str, option("--method", "NAME", "default, zhang (regularise and trim) or raw.")] = "default",
    path: Annotated[bool, flag("--path", "One model for each of several strengths of the penalty.")] = False,
    out: Annotated[Path | None, path_option("--out", "Model file to write.")] = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Compute another model from a release. It costs no privacy."""
    from colonnade.api.display import telling
    from colonnade.api.release import Release
    from colonnade.foundation.files import places
    from colonnade.model import write_model
    from colonnade.report.render.terminal import caution

    if path and (ridge is not None or out is not None or method != "default"):
        raise typer.BadParameter("--path goes without --ridge, --method and --out")
    opened = Release(open_release(release))
    columns = None if features is None else names_in(features)
    taken = None if numbers is None else tuple(filter(None, names_in(numbers)))
    asked: dict[str, Any] = {"task": task and task.value, "features": columns, "given": given, "numbers": taken}
    asked |= {"penalty": penalty.value, "seed": seed}
    with telling():
        if path:
            show(opened.path(label, **asked).answer, json)
            return
        with places(out) as (file,):
            model = opened.solve(label, ridge=ridge, method=method, **asked)
            file.write(write_model(model.public))
    answer = model.fitted
    if json:
        known = {"study": opened.plan["study"], "n": opened.n, **answer.facts()}
        print_json({**known, "model": None if out is None else str(out)})
        return
    show(answer, json)
    for note in opened.flaws:
        stderr().print(caution(note))
    if out is not None:
        stdout().print(f"Model written to {out}.")


def components(
    release: ReleaseFile,
    shown: Annotated[int, option("--show", "K", "Components to print.", min=1)] = 5,
    json: Json = False,
) -> None:
    """Show principal components and the largest correlations of a release's columns. It costs no privacy."""
    from colonnade.api.release import Release

    show(Release(open_release(release)).components(shown).answer, json)

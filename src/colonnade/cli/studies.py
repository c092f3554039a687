"""Commands about a study: what it would release, a run of it in this process, a draft of its columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli.options import (
    ApprovedPlans,
    Evidence,
    Force,
    Full,
    Html,
    Json,
    Strict,
    StudyFile,
    argument,
    flag,
    option,
    path_option,
)
from colonnade.cli.screen import show, stderr, stoppable, tell_evidence, tell_own
from colonnade.foundation.errors import DataError

if TYPE_CHECKING:
    from colonnade.foundation.randomness import Randomness
    from colonnade.planning.session_plan import SessionPlan
    from colonnade.report.results import Answer

Compare = Annotated[
    list[str] | None,
    option(
        "--compare",
        "WHAT=A,B,...",
        "Plans side by side: epsilon, delta, collusion, release, bins[:COLUMN], bounds[:COLUMN]; may be repeated.",
    ),
]
Rows = Annotated[int | None, option("--rows", "N", "Number of common records, in the place of [study] rows.", min=2)]
DEFAULT_RELEASE = Path("release.json")
UNSPENT = "{:,} records. Nothing has been spent."


def plan(
    study: StudyFile,
    rows: Rows = None,
    compare: Compare = None,
    html: Html = None,
    full: Full = False,
    json: Json = False,
) -> None:
    """Show what a study would release, to whom, with how much noise. No data is touched and nothing is spent."""
    from colonnade.foundation.files import places
    from colonnade.planning.session_plan import TYPICAL_ROWS
    from colonnade.planning.variants import compare as variants
    from colonnade.planning.variants import read_choices
    from colonnade.report.answers.compared import compared
    from colonnade.report.answers.plan import planned
    from colonnade.report.cost import expected_cost
    from colonnade.report.pages import answer_html, plan_html
    from colonnade.report.render.terminal import caution
    from colonnade.report.spending import planned_spending
    from colonnade.study import read_study

    checked = read_study(study, rows)
    assumed = checked.rows is None
    if compare:
        agreement, n = checked.agreement, checked.rows or TYPICAL_ROWS
        with places(html) as (page,):
            found = compared(variants(agreement, n, read_choices(compare)), agreement.name, n, assumed)
            if html is not None:
                page.write(answer_html(found, f"Plans of “{agreement.name}” side by side", UNSPENT.format(n)))
        show(found, json)
        return
    session = checked.session(TYPICAL_ROWS if assumed else None)
    cost = expected_cost(session, checked.alignment)
    spending = planned_spending(checked, session) if json or html is not None else {}
    with places(html) as (page,):
        if html is not None:
            page.write(plan_html(session, cost, assumed, spending, checked.cuts))
    answer = planned(session, cost, assumed, checked.cuts, spending)
    show(replace(answer, warnings=()), json, full)
    for note in () if json else answer.warnings:
        stderr().print(caution(note))


def rehearse(
    study: StudyFile,
    public: Annotated[
        list[str] | None,
        option(
            "--rows",
            "[PARTY=]FILE",
            "Public rows like those of the study: one file with all columns, or PARTY=FILE for each party.",
        ),
    ] = None,
    records: Annotated[
        int | None, option("--records", "N", "Number of common records; [study] rows if not given.", min=2)
    ] = None,
    compare: Compare = None,
    share: Annotated[
        float | None, option("--share", "P", "Public share of positive records, where no rows are named.")
    ] = None,
    releases: Annotated[int, option("--releases", "M", "Releases to simulate for each plan.", min=4)] = 20,
    seed: Annotated[int, option("--seed", "S", "The same seed gives the same answer.")] = 0,
    strict: Strict = False,
    html: Html = None,
    json: Json = False,
) -> None:
    """Foretell how good the model will be, with its spread, by simulating the noise. Nothing is spent.

    On public rows that you name; without any, a range from the schema alone, over stated strengths of signal.
    """
    from colonnade.foundation.files import places
    from colonnade.planning.session_plan import TYPICAL_ROWS
    from colonnade.planning.variants import read_choices
    from colonnade.rehearsal import foretell, read_public_rows, rehearse_each
    from colonnade.report.answers.rehearsed import expected_range, rehearsed
    from colonnade.report.pages import answer_html
    from colonnade.study import read_study

    checked = read_study(study, records)
    name = checked.agreement.name
    if not public:
        if compare or html is not None:
            raise typer.BadParameter("--compare and --html of a rehearsal go with --rows")
        n = checked.rows or TYPICAL_ROWS
        show(expected_range(foretell(checked.agreement, n, share=share, seed=seed), name), json)
        return
    with places(html) as (page,):
        tables = read_public_rows(checked, public, tell_own, strict)
        choices = read_choices(compare or [])
        each = rehearse_each(checked.agreement, tables, checked.rows, choices, releases=releases, seed=seed)
        found = rehearsed(each, name)
        if html is not None:
            page.write(answer_html(found, f"Rehearsal of “{name}”", UNSPENT.format(each[0][1].n)))
    show(found, json)


def fit(
    study: StudyFile,
    out: Annotated[Path | None, path_option("--out", f"Release file to write; {DEFAULT_RELEASE} if not given.")] = None,
    model: Annotated[Path | None, path_option("--model", "Model file to write, for predict.")] = None,
    epsilon: Annotated[
        float | None, option("--epsilon", "E", "What a whole record is worth, in the place of the study's.")
    ] = None,
    rows: Rows = None,
    force: Force = False,
    full: Full = False,
    json: Json = False,
    strict: Strict = False,
    approve: ApprovedPlans = None,
    seed: Annotated[str | None, option("--seed", "HEX", "For simulations only; the release says so.")] = None,
    workers: Annotated[
        int | None, option("--workers", "N", "Threads for work on row blocks; all cores if not given.", min=1)
    ] = None,
    cluster: Annotated[
        str | None, option("--cluster", "ADDRESS", "Dask scheduler whose workers do it, e.g. tcp://host:8786.")
    ] = None,
    device: Annotated[str, option("--device", "cpu|cuda", "Where the secure product is computed.")] = "cpu",
    evidence: Evidence = None,
) -> None:
    """Run a study with all parties in this process, on their files, and spend its epsilon once."""
    from colonnade import runs
    from colonnade.analysis.request import ModelRequest
    from colonnade.check import check_study
    from colonnade.cli.terminal import Terminal, tell_unsettled
    from colonnade.foundation.files import places, release_place
    from colonnade.model import publish, write_model
    from colonnade.pool import open_workers
    from colonnade.report.answers.fit import run_of
    from colonnade.report.answers.plan import planned
    from colonnade.report.cost import expected_cost
    from colonnade.report.progress import Steps
    from colonnade.runs import RunOptions
    from colonnade.study import read_study

    randomness = _randomness(seed)
    checked = read_study(study, rows, epsilon)
    place = out or DEFAULT_RELEASE
    if model is not None and model.absolute() == place.absolute():
        raise typer.BadParameter("--out and --model must name two files")
    with places(release_place(place, force), model) as (release_file, model_file), stoppable() as written:
        with open_workers(workers, cluster, device) as crew, Steps(stderr()) as steps:

            def plan_of(session: SessionPlan) -> Answer:
                return planned(session, expected_cost(session, checked.alignment), alone=False)

            terminal = Terminal(steps, plan_of, strict=strict, full=full and not json, may_ask=not json)
            terminal.file, terminal.written = release_file, written
            try:
                fitted = runs.fit(checked, RunOptions(randomness, approve or [], crew, evidence, strict), terminal)
            except DataError:
                # Whatever else would refuse the run, so that nobody mends one thing at a time.
                found = check_study(checked, strict) if not json else None
                if found is not None and sum(finding.fault for finding in found.findings) > 1:
                    steps.print_between(stderr(), *found.lines)
                raise
        tell_unsettled(fitted)
        wanted = ModelRequest(fitted.release)
        public = publish(fitted.release, wanted.model(None), wanted.notes)
        model_file.write(write_model(public))
    show(run_of(fitted, public, wanted.certainty(), release_file.path or place, model, checked.aligned), json, full)
    if not json:
        tell_evidence(evidence)


def schema(
    data: Annotated[str, argument("DATA", "A party's file, or a database's address.")],
    party: Annotated[str | None, option("--party", "NAME", "The party's name; the file's if not given.")] = None,
    public_data: Annotated[
        bool, flag("--public-data", "The data is public: take bounds, levels and forms from it.")
    ] = False,
    query: Annotated[str | None, option("--query", "SELECT", "Of a database.")] = None,
) -> None:
    """Draft a party's part of a study file, with a "?" wherever a person has to write what is publicly known."""
    from colonnade.data.drafts import draft_columns
    from colonnade.data.sources import source_at

    typer.echo(draft_columns(source_at(data, query, party), party, public_data), nl=False)


def _randomness(seed: str | None) -> Randomness:
    from colonnade.foundation.randomness import Randomness

    if seed is None:
        return Randomness()
    try:
        key = bytes.fromhex(seed)
    except ValueError:
        raise typer.BadParameter(f"--seed must be hexadecimal, got {seed!r}") from None
    if not key:
        raise typer.BadParameter("--seed must not be empty")
    return Randomness(seed=key)

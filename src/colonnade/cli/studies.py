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
    path_argument,
    path_option,
)
from colonnade.cli.screen import answer_of, print_json, show, stderr, stdout, stoppable, tell_evidence, tell_own
from colonnade.foundation.errors import DataError, StudyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colonnade.api.study import Study
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
UNSPENT = "Nothing has been spent."


def plan(
    study: StudyFile,
    rows: Rows = None,
    compare: Compare = None,
    html: Html = None,
    full: Full = False,
    json: Json = False,
) -> None:
    """Show what a study would release, to whom, with how much noise. No data is touched and nothing is spent."""
    from colonnade.api.study import Study
    from colonnade.planning.variants import read_choices
    from colonnade.report.render.terminal import caution

    asked = Study.read(study, rows=rows)
    found = asked.plan()
    if compare:
        title, lead = f"Plans of “{asked.name}” side by side", f"{found.rows:,} records. {UNSPENT}"
        answer_of(lambda: found.compare(**read_choices(compare)).answer, json, html, title, lead)
        return
    if html is not None:
        found.report(html)
    answer = found.answer
    show(replace(answer, warnings=()), json, full)
    for note in () if json else answer.warnings:
        stderr().print(caution(note))


def rehearse(
    study: StudyFile,
    public: Annotated[
        list[str] | None,
        option(
            "--public",
            "[PARTY=]FILE",
            "Public rows like those of the study: one file with all columns, or PARTY=FILE for each party.",
        ),
    ] = None,
    rows: Annotated[
        list[str] | None, option("--rows", "N", "Number of common records, in the place of [study] rows.")
    ] = None,
    records: Annotated[int | None, option("--records", "N", "The old spelling of --rows.", min=2, hidden=True)] = None,
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
    """Estimate how good the model will be, and how much that varies, by simulating the noise. Nothing is spent.

    On public rows that you name; without any, a range from the schema alone, over stated strengths of signal.
    """
    from colonnade.api.study import Study
    from colonnade.planning.variants import read_choices
    from colonnade.rehearsal import public_files

    files = _files_of(rows or [], public or [])
    asked = Study.read(study, rows=_number_of(rows or [], records))
    if not files:
        if compare or html is not None:
            raise typer.BadParameter("--compare and --html of a rehearsal go with --public")
        show(asked.rehearsal(None, {}, tell_own, share=share, seed=seed).answer, json)
        return
    if share is not None:
        raise typer.BadParameter("--share is for a rehearsal without public rows, whose own share counts")

    def rehearsal() -> Answer:
        named, choices = public_files(files, asked.parties), read_choices(compare or [])
        return asked.rehearsal(named, choices, tell_own, releases=releases, seed=seed, strict=strict).answer

    answer_of(rehearsal, json, html, f"Rehearsal of “{asked.name}”", UNSPENT)


def _files_of(rows: Sequence[str], public: Sequence[str]) -> list[str]:
    """Public files, which --rows named before it was a number here as elsewhere."""
    from colonnade.report.render.terminal import caution

    if old := [text for text in rows if not text.isdecimal()]:
        stderr().print(caution("--rows is a number of records: name public files by --public"))
    return [*public, *old]


def _number_of(rows: Sequence[str], records: int | None) -> int | None:
    """The one number of records that is given, or none."""
    found = [int(text) for text in rows if text.isdecimal()] + ([] if records is None else [records])
    if len(found) > 1 or any(number < 2 for number in found):
        raise typer.BadParameter(f"--rows is one whole number from 2 up, got {', '.join(map(str, found))}")
    return found[0] if found else None


def fit(
    study: StudyFile,
    out: Annotated[Path | None, path_option("--out", f"Release file to write; {DEFAULT_RELEASE} if not given.")] = None,
    model: Annotated[Path | None, path_option("--model", "Model file to write, for predict.")] = None,
    epsilon: Annotated[
        float | None, option("--epsilon", "E", "Privacy budget of a whole record, in the place of the study's.")
    ] = None,
    rows: Rows = None,
    force: Force = False,
    full: Full = False,
    json: Json = False,
    strict: Strict = False,
    approve: ApprovedPlans = None,
    seed: Annotated[
        str | None,
        option("--seed", "S", "A whole number or hexadecimal: for simulations only, and the release says so."),
    ] = None,
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
    with stoppable():
        from colonnade.api.study import Study
        from colonnade.simulation import seeded

        try:
            randomness = None if seed is None else seeded(seed)
        except StudyError as error:
            raise typer.BadParameter(str(error)) from None
        place = out or DEFAULT_RELEASE
        if model is not None and model.absolute() == place.absolute():
            raise typer.BadParameter("--out and --model must name two files")
        asked, crew = Study.read(study, rows=rows, epsilon=epsilon), (workers, cluster, device)
    answer = fit_into(
        place, model, asked, randomness, approve or [], crew, evidence, strict=strict, force=force, full=full, json=json
    )
    show(answer, json, full)
    if not json:
        tell_evidence(evidence)


def fit_into(
    place: Path,
    model: Path | None,
    study: Study,
    randomness: Randomness | None = None,
    approved: Sequence[str] = (),
    crew: tuple[int | None, str | None, str] = (None, None, "cpu"),
    evidence: Path | None = None,
    *,
    strict: bool = False,
    force: bool = False,
    full: bool = False,
    json: bool = False,
) -> Answer:
    """Run a study into a release file and a model file."""
    with stoppable() as written:
        from colonnade.api.display import telling
        from colonnade.cli.observer import Terminal, tell_unsettled
        from colonnade.foundation.files import places, release_place
        from colonnade.model import write_model
        from colonnade.pool import open_workers
        from colonnade.report.answers.fit import run_of
        from colonnade.report.answers.plan import planned
        from colonnade.report.cost import expected_cost
        from colonnade.report.progress import Steps
        from colonnade.runs import RunOptions

        def plan_of(session: SessionPlan) -> Answer:
            return planned(session, expected_cost(session, study.study.alignment), alone=False)

        with places(release_place(place, force), model) as (release_file, model_file), telling():
            with open_workers(*crew) as workers, Steps(stderr()) as steps:
                terminal = Terminal(steps, plan_of, strict=strict, full=full and not json, may_ask=not json)
                terminal.file, terminal.written = release_file, written
                try:
                    release = study.run(RunOptions(randomness, approved, workers, evidence, strict), terminal)
                except DataError:
                    # Whatever else would refuse the run, so that nobody mends one thing at a time.
                    found = study.check(strict) if not json else None
                    if found is not None and sum(finding.fault for finding in found.findings) > 1:
                        steps.print_between(stderr(), *found.lines)
                    raise
            assert release.ran is not None
            tell_unsettled(release.ran)
            model_file.write(write_model(release.own[0]))
        return run_of(release.ran, *release.own, release_file.path or place, model, study.study.aligned)


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


def check(
    study: Annotated[Path, path_argument("STUDY", "Study file, or the folder of a party's site.")],
    strict: Strict = False,
    json: Json = False,
) -> None:
    """List all that would refuse a run in one process, or spoil its result: nothing is spent. Exit 1 if one would be.

    It reads every party's records, and says what its owner may write; at a site it looks at the site's own part.
    """
    from colonnade.api.study import Study
    from colonnade.check import check_site
    from colonnade.sites.site import PARTY, read_site

    found = check_site(read_site(study, PARTY)) if study.is_dir() else Study.read(study).check(strict)
    if json:
        print_json(found.to())
    else:
        stdout().print(*found.lines, sep="\n", soft_wrap=True)
    if found.refused:
        raise typer.Exit(1)

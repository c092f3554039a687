"""The command line: parse, call, print. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.audit.commands import audit
from colonnade.flare.commands import hang_in
from colonnade.foundation.errors import ColonnadeError, PolicyError
from colonnade.foundation.garbage import collecting_seldom
from colonnade.foundation.parts import local_path
from colonnade.report.book import app as ledger_app
from colonnade.report.questions import components, solve, synthesize, tables
from colonnade.report.scores import predict
from colonnade.report.screen import print_json, stderr, stdout
from colonnade.studio.commands import studio

if TYPE_CHECKING:
    from colonnade.data.table import Table
    from colonnade.foundation.randomness import Randomness
    from colonnade.mechanism.release import Release
    from colonnade.protocol.session_plan import SessionPlan
    from colonnade.report.progress import Steps

app = typer.Typer(
    name="colonnade",
    help="One differentially private regression over columns that different organisations hold about the same people.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 refused or failed (one sentence on standard error), 2 wrong usage.",
)
app.add_typer(ledger_app, name="ledger", short_help="What a party's data has spent: show, verify, export, settle.")

TRACEBACK = "COLONNADE_TRACEBACK"
DEFAULT_RELEASE = Path("release.json")


StudyFile = Annotated[Path, typer.Argument(parser=local_path, metavar="STUDY", help="Study file (TOML).")]
ReleaseFile = Annotated[Path, typer.Argument(parser=local_path, metavar="RELEASE", help="Release file that fit wrote.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a release that is there already.")]
Html = Annotated[
    Path | None, typer.Option("--html", parser=local_path, metavar="FILE", help="Page to write, readable offline.")
]


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"colonnade {version('colonnade')}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


@app.command(short_help="What a study would release, with how much noise; touches no data.")
def plan(
    study: StudyFile,
    rows: Annotated[
        int | None,
        typer.Option("--rows", metavar="N", min=2, help="Number of common records; [study] rows if not given."),
    ] = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Show what a study would release, to whom, with how much noise. No data is touched and nothing is spent."""
    from colonnade.protocol.session_plan import TYPICAL_ROWS
    from colonnade.report.commands import plan_html
    from colonnade.report.cost import expected_cost
    from colonnade.report.output import places
    from colonnade.report.text import caution, cost_text, plan_report
    from colonnade.study import read_study

    checked = read_study(study)
    assumed = rows is None and checked.rows is None
    session = checked.session(TYPICAL_ROWS if assumed else rows)
    cost = expected_cost(session, checked.alignment)
    with places(html) as (page,):
        if html is not None:
            page.write(plan_html(session, cost, assumed))
    if json:
        expected = {"sent": cost.sent, "seconds": cost.seconds}
        told = {**session.describe(), "rows_assumed": assumed, "expected": expected}
        print_json({**told, "terms_digest": session.terms, "warnings": session.warnings()})
        return
    label = checked.agreement.label
    stdout().print(plan_report(session.describe(), label, cost_text(cost.sent, cost.seconds), assumed))
    stdout().print(_terms(session))
    for note in session.warnings():
        stderr().print(caution(note))


@app.command(short_help="Run a study on all parties' files in this process.")
def fit(
    study: StudyFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", parser=local_path, metavar="FILE", help=f"Release file to write; {DEFAULT_RELEASE} if not given."
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", parser=local_path, metavar="FILE", help="Model file to write, for predict."),
    ] = None,
    force: Force = False,
    json: Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a plan that comes with a warning.")] = False,
    approve: Annotated[
        list[str] | None,
        typer.Option(
            "--approve", metavar="DIGEST", help="A plan that a person has approved, by the digest of its terms."
        ),
    ] = None,
    seed: Annotated[
        str | None, typer.Option("--seed", metavar="HEX", help="For simulations only; the release says so.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", min=1, help="Threads for work on row blocks; all cores if not given."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="ADDRESS", help="Dask scheduler whose workers do it, e.g. tcp://host:8786."),
    ] = None,
    device: Annotated[
        str, typer.Option("--device", metavar="cpu|cuda", help="Where the secure product is computed.")
    ] = "cpu",
) -> None:
    """Run a study with all parties in this process, on their files, and spend its epsilon once."""
    from colonnade import runs
    from colonnade.analysis.intervals import intervals
    from colonnade.analysis.solve import solve as solved
    from colonnade.mechanism.release import write_release
    from colonnade.report.book import guard_json, spent_line
    from colonnade.report.certainty import intervals_json, intervals_report
    from colonnade.report.machine import model_json
    from colonnade.report.output import places, release_place
    from colonnade.report.progress import Steps
    from colonnade.report.text import caution, flaws, model_report, plan_report, spent_text, traffic_table
    from colonnade.scoring import publish, write_model
    from colonnade.study import read_study
    from colonnade.workers import open_workers

    randomness = _randomness(seed)
    checked = read_study(study)
    agreement = checked.agreement
    place = out or DEFAULT_RELEASE
    if model is not None and model.absolute() == place.absolute():
        raise typer.BadParameter("--out and --model must name two files")
    shown: list[str] = []

    def show(party: str, session: SessionPlan) -> None:
        """The first party that is asked shows the plan: nothing is spent yet."""
        if not shown:
            parts = [] if json else [plan_report(session.describe(), agreement.label), _terms(session)]
            steps.aside(stdout(), *parts)
            steps.aside(stderr(), *(caution(note) for note in session.warnings()))
        shown.append(party)
        if strict and session.warnings():
            raise PolicyError(f"--strict refuses this plan: {session.warnings()[0]}")

    def ask(question: str) -> bool:
        with steps.pause():
            return typer.confirm(f"{question}\nIs it approved?", err=True)

    with places(release_place(place, force), model) as (release_file, model_file):
        with open_workers(workers, cluster, device) as crew, Steps(stderr()) as steps:
            fitted = runs.fit(
                checked,
                randomness=randomness,
                approved=approve or [],
                ask=ask if sys.stdin.isatty() and not json else None,
                show=show,
                look=lambda table: _clipped(table, steps),
                keep=lambda release: release_file.write(write_release(release)),
                watch=steps,
                workers=crew,
            )
            for table in (t for t in fitted.tables.values() if t.late):
                _clipped(table, steps)
        outcome, place = fitted.outcome, release_file.path or place
        for name, reason in fitted.unsettled.items():
            stderr().print(caution(f"the session of {name} stays booked: {reason}"))
        public = publish(outcome.release, solved(outcome.release.moments(), agreement.task))
        model_file.write(write_model(public))
    sure = intervals(outcome.release.moments(), agreement.task)
    sent, received = outcome.traffic.sent, outcome.traffic.received
    if json:
        content = {
            **outcome.session.describe(),
            **model_json(public),
            **intervals_json(sure),
            "seconds": sum(outcome.seconds.values()),
            "steps": dict(outcome.seconds),
            "bytes": {"sent": sent, "received": received},
            "seeded": outcome.release.provenance["seeded"],
            "release": str(place),
            "model": None if model is None else str(model),
            "ledger": {n: guard_json(guard, fitted.spent.get(n)) for n, guard in fitted.guards.items()} or None,
            "terms_digest": outcome.session.terms,
            "warnings": outcome.session.warnings(),
        }
        print_json(content)
        return
    screen = stdout()
    screen.print(model_report(public))
    screen.print(intervals_report(sure))
    screen.print(spent_text(outcome.session.describe()))
    for name, total in fitted.spent.items():
        screen.print(spent_line(fitted.guards[name], total))
    if fitted.unkept:
        whose = f" for {', '.join(fitted.unkept)}" if fitted.guards else ""
        screen.print(f"There was no ledger kept{whose}: [party.NAME] may name a policy and a ledger.")
    screen.print()
    matched = checked.alignment != "none" and len(fitted.tables) > 1
    screen.print(traffic_table(sent, received, outcome.seconds, matched))
    for note in flaws(outcome.release.provenance):
        screen.print(caution(note))
    screen.print(f"Release written to {place}" + ("" if model is None else f", model to {model}") + ".")


@app.command(short_help="Draft a party's part of a study file.")
def schema(
    data: Annotated[Path, typer.Argument(parser=local_path, metavar="DATA", help="A party's CSV or Parquet file.")],
    party: Annotated[
        str | None, typer.Option("--party", metavar="NAME", help="The party's name; the file's if not given.")
    ] = None,
    public_data: Annotated[
        bool, typer.Option("--public-data", help="The file is public: take bounds and levels from it.")
    ] = False,
) -> None:
    """Draft a party's part of a study file, with a "?" wherever a person has to write what is publicly known."""
    from colonnade.report.drafts import draft_columns

    typer.echo(draft_columns(data, party, public_data), nl=False)


app.command(short_help="Score records by a model.")(predict)


app.command(short_help="Another model from a release, at no cost.")(solve)
app.command(short_help="Margins and cross tables of a release, with intervals.")(tables)
app.command(short_help="Rows that have a release's tables.")(synthesize)
app.command(short_help="Principal components and correlations of a release.")(components)


@app.command(short_help="What a release holds.")
def report(release: ReleaseFile, html: Html = None, json: Json = False) -> None:
    """Tell what a release holds: what was computed, whose columns, epsilon per party and view, noise, model."""
    from colonnade.analysis.intervals import intervals
    from colonnade.analysis.solve import solve as solved
    from colonnade.mechanism.objective import Task
    from colonnade.report.certainty import intervals_json, intervals_report
    from colonnade.report.commands import release_html
    from colonnade.report.machine import model_json
    from colonnade.report.output import places
    from colonnade.report.text import flaws, model_report, plan_report, provenance_report
    from colonnade.scoring import publish

    opened = _release(release)
    with places(html) as (page,):
        if html is not None:
            page.write(release_html(opened))
    public = publish(opened, solved(opened.moments(), Task(opened.plan["task"])))
    sure = intervals(opened.moments(), Task(opened.plan["task"]))
    if json:
        known = {k: v for k, v in opened.provenance.items() if k != "agreement"}
        found = {**model_json(public), **intervals_json(sure)}
        content = {**opened.plan, **found, "provenance": known, "digest": public.release}
        print_json({**content, "label": public.declared, "flaws": flaws(opened.provenance), "release": str(release)})
        return
    screen = stdout()
    screen.print(plan_report(opened.plan, public.declared))
    screen.print(model_report(public))
    screen.print(intervals_report(sure))
    screen.print(provenance_report(opened.provenance))


app.command(short_help="Plan, run and look, on a page of this machine.")(studio)
app.command(short_help="Attack a study: lower bounds on the epsilon of every view.")(audit)
hang_in(app)


def _terms(session: SessionPlan) -> str:
    return f"Digest of these terms, for --approve: {session.terms}"


def _clipped(table: Table, watch: Steps) -> None:
    for column, count in (table.clipped or {}).items():
        if count:
            told = f"{table.party} (for its own eyes): {count} values of {column} were clipped to its bounds"
            watch.aside(stderr(), told)


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


def _release(path: Path) -> Release:
    from colonnade.mechanism.release import read_release
    from colonnade.report.output import read_whole

    return read_release(read_whole(path, "release"))


def main() -> None:
    """The entry point: refusals become one sentence and exit code 1."""
    try:
        try:
            with collecting_seldom():
                app(prog_name="colonnade")
        finally:
            sys.stdout.flush()
    except ColonnadeError as error:
        _fail(str(error))
    except OSError as error:
        # Whatever is left in the buffer has nowhere to go; without this the interpreter complains once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _fail(f"{error.filename or 'the output'}: {(error.strerror or str(error)).lower()}")
    except MemoryError:
        _fail("there is not enough memory for this study")
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        _fail(f"this is a bug in colonnade, {TRACEBACK}=1 shows where: {type(error).__name__}: {error}")


def _fail(sentence: str) -> None:
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(" ".join(sentence.split()), err=True)
    sys.exit(1)


if __name__ == "__main__":
    main()

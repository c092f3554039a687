"""Commands about a study: what it would release, a run of it in this process, a draft of its columns."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli.options import ApprovedPlans, Evidence, Force, Html, Json, Strict, StudyFile
from colonnade.cli.screen import own_eyes, print_json, show, stderr, stdout, tell_evidence, tell_own
from colonnade.foundation.errors import DataError, PolicyError
from colonnade.foundation.matching import NONE
from colonnade.foundation.parts import local_path

if TYPE_CHECKING:
    from rich.console import RenderableType

    from colonnade.data.table import Table
    from colonnade.foundation.randomness import Randomness
    from colonnade.planning.session_plan import SessionPlan
    from colonnade.report.progress import Steps
    from colonnade.runs import FittedStudy
    from colonnade.study import StudySpec

Compare = Annotated[
    list[str] | None,
    typer.Option(
        "--compare",
        metavar="WHAT=A,B,...",
        help="Plans side by side: epsilon, delta, collusion, release, bins[:COLUMN], bounds[:COLUMN]; may be repeated.",
    ),
]
Rows = Annotated[
    int | None,
    typer.Option("--rows", metavar="N", min=2, help="Number of common records, in the place of [study] rows."),
]
DEFAULT_RELEASE = Path("release.json")
UNSPENT = "{:,} records. Nothing has been spent."


def plan(
    study: StudyFile,
    rows: Rows = None,
    compare: Compare = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Show what a study would release, to whom, with how much noise. No data is touched and nothing is spent."""
    from colonnade.foundation.files import places
    from colonnade.mechanism.cuts import describe_binning
    from colonnade.planning.session_plan import TYPICAL_ROWS
    from colonnade.planning.variants import compare as variants
    from colonnade.planning.variants import read_choices
    from colonnade.report.answers.compared import compared
    from colonnade.report.choices import choices_text, describe_choices
    from colonnade.report.cost import expected_cost, plan_json
    from colonnade.report.malicious import cheating_table
    from colonnade.report.pages import answer_html, plan_html
    from colonnade.report.purposes import forecast_purposes, purposes_table
    from colonnade.report.spending import planned_spending, spending_json
    from colonnade.report.text import caution, cost_text, digest_note, plan_report
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
    purposes = forecast_purposes(session)
    spending = planned_spending(checked, session) if json or html is not None else {}
    with places(html) as (page,):
        if html is not None:
            page.write(plan_html(session, cost, assumed, spending, checked.cuts))
    if json:
        told = plan_json(session, cost, assumed, checked.cuts) | describe_choices(session)
        if checked.cuts is not None:
            told["numeric"] = [vars(cut) for cut in checked.cuts]
        print_json({**told, **spending_json(spending), "purposes": [line.describe() for line in purposes]})
        return
    label = checked.agreement.label
    expected_text = cost_text(cost.sent, cost.seconds, cost.hub)
    told_cheating, mean = cheating_table(session), session.label_noise_text
    stdout().print(plan_report(session.describe(), label, expected_text, assumed, told_cheating, mean))
    if (foretold := purposes_table(purposes)) is not None:
        stdout().print(foretold, "")
    stdout().print(choices_text(session))
    if checked.cuts is not None:
        stdout().print(describe_binning(checked.cuts), highlight=False)
    stdout().print(_terms(session))
    stdout().print(digest_note(session.rows, assumed, checked.cuts))
    for note in session.warnings():
        stderr().print(caution(note))


def rehearse(
    study: StudyFile,
    public: Annotated[
        list[str] | None,
        typer.Option(
            "--rows",
            metavar="[PARTY=]FILE",
            help="Public rows like those of the study: one file with all columns, or PARTY=FILE for each party.",
        ),
    ] = None,
    records: Annotated[
        int | None,
        typer.Option("--records", metavar="N", min=2, help="Number of common records; [study] rows if not given."),
    ] = None,
    compare: Compare = None,
    share: Annotated[
        float | None,
        typer.Option("--share", metavar="P", help="Public share of positive records, where no rows are named."),
    ] = None,
    releases: Annotated[
        int, typer.Option("--releases", metavar="M", min=4, help="Releases to simulate for each plan.")
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", metavar="S", help="The same seed gives the same answer.")] = 0,
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
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", metavar="E", help="What a whole record is worth, in the place of the study's."),
    ] = None,
    rows: Rows = None,
    force: Force = False,
    json: Json = False,
    strict: Strict = False,
    approve: ApprovedPlans = None,
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
    evidence: Evidence = None,
) -> None:
    """Run a study with all parties in this process, on their files, and spend its epsilon once."""
    from colonnade import runs
    from colonnade.analysis.request import ModelRequest
    from colonnade.foundation.files import places, release_place
    from colonnade.mechanism.release import write_release
    from colonnade.model import publish, write_model
    from colonnade.report.answers.fit import run_of
    from colonnade.report.progress import Steps
    from colonnade.study import read_study
    from colonnade.workers import open_workers

    randomness = _randomness(seed)
    checked = read_study(study, rows, epsilon)
    place = out or DEFAULT_RELEASE
    if model is not None and model.absolute() == place.absolute():
        raise typer.BadParameter("--out and --model must name two files")
    with places(release_place(place, force), model) as (release_file, model_file):
        with open_workers(workers, cluster, device) as crew, Steps(stderr()) as steps:
            terminal = _Terminal(steps, checked, quiet=json, strict=strict)
            try:
                fitted = runs.fit(
                    checked,
                    randomness=randomness,
                    approved=approve or [],
                    ask=terminal.ask if sys.stdin.isatty() and not json else None,
                    show=terminal.show_plan,
                    look=terminal.tell_own,
                    keep=lambda release: release_file.write(write_release(release)),
                    watch=steps,
                    workers=crew,
                    evidence=evidence,
                    strict=strict,
                )
            except DataError:
                if not json:
                    terminal.tell_all()
                raise
        _tell_unsettled(fitted)
        wanted = ModelRequest(fitted.release)
        public = publish(fitted.release, wanted.model(None), wanted.notes)
        model_file.write(write_model(public))
    matched = checked.alignment != NONE and len(fitted.tables) > 1
    show(run_of(fitted, public, wanted.certainty(), release_file.path or place, model, matched), json)
    if not json:
        tell_evidence(evidence)


def schema(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A party's file, or a database's address.")],
    party: Annotated[
        str | None, typer.Option("--party", metavar="NAME", help="The party's name; the file's if not given.")
    ] = None,
    public_data: Annotated[
        bool, typer.Option("--public-data", help="The data is public: take bounds, levels and forms from it.")
    ] = False,
    query: Annotated[str | None, typer.Option("--query", metavar="SELECT", help="Of a database.")] = None,
) -> None:
    """Draft a party's part of a study file, with a "?" wherever a person has to write what is publicly known."""
    from colonnade.data.drafts import draft_columns
    from colonnade.data.sources import source_at

    typer.echo(draft_columns(source_at(data, query, party), party, public_data), nl=False)


@dataclass
class _Terminal:
    """What a run shows to the person at the terminal, and asks, between the bars of its progress."""

    steps: Steps
    study: StudySpec
    quiet: bool
    strict: bool
    _shown: bool = field(default=False, init=False)

    def show_plan(self, party: str, session: SessionPlan) -> None:
        """Show the plan once, for the first party that is asked: nothing is spent yet."""
        from colonnade.report.malicious import cheating_table
        from colonnade.report.text import caution, plan_report

        if not self._shown:
            label = self.study.agreement.label
            parts: list[RenderableType] = []
            if not self.quiet:
                cheating, mean = cheating_table(session), session.label_noise_text
                parts = [plan_report(session.describe(), label, cheating=cheating, mean=mean), _terms(session)]
            self.steps.print_between(stdout(), *parts)
            self.steps.print_between(stderr(), *(caution(note) for note in session.warnings()))
        self._shown = True
        if self.strict and session.warnings():
            raise PolicyError(f"--strict refuses this plan: {session.warnings()[0]}")

    def ask(self, question: str) -> bool:
        with self.steps.pause():
            return typer.confirm(f"{question}\nIs it approved?", err=True)

    def tell_all(self) -> None:
        """Whatever else would refuse the run, so that nobody mends one thing at a time."""
        from colonnade.check import check_study

        found = check_study(self.study, self.strict)
        if sum(finding.fault for finding in found.findings) > 1:
            self.steps.print_between(stderr(), *found.lines)

    def tell_own(self, table: Table) -> None:
        """Tell a party what of its records is not as it declared."""
        self.steps.print_between(stderr(), *own_eyes(table))


def _tell_unsettled(fitted: FittedStudy) -> None:
    from colonnade.report.text import caution

    for name, reason in fitted.unsettled.items():
        stderr().print(caution(f"the session of {name} stays booked: {reason}"))


def _terms(session: SessionPlan) -> str:
    return f"Digest of these terms, for --approve: {session.terms}"


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

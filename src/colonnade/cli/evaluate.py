"""`colonnade evaluate`: how good a model is on people whose columns lie at several parties."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from colonnade.cli.options import (
    ApprovedPlans,
    Evidence,
    Force,
    Json,
    Queries,
    Strict,
    StudyFile,
    flag,
    option,
    path_argument,
    path_option,
)
from colonnade.cli.screen import print_json, show, stderr, stdout, stoppable, tell_evidence

if TYPE_CHECKING:
    from colonnade.evaluation import Evaluation

DEFAULT_OUT = Path("evaluation.json")


def evaluate(
    study: StudyFile,
    model: Annotated[Path, path_argument("MODEL", "Model file that fit or solve wrote.")],
    data: Annotated[
        list[str] | None, option("--data", "PARTY=FILE", "A party's records to evaluate on; the study's if not given.")
    ] = None,
    query: Queries = None,
    release: Annotated[
        Path | None,
        path_option(
            "--release",
            "The release that the model comes from: where scores lie is taken from it, which lowers the error.",
        ),
    ] = None,
    epsilon: Annotated[float | None, option("--epsilon", "E", "What it may spend; the study's if not given.")] = None,
    delta: Annotated[float | None, option("--delta", "D", "The study's if not given.")] = None,
    rows: Annotated[
        int | None, option("--rows", "N", "Roughly how many records: bins are chosen for it.", min=2)
    ] = None,
    plan: Annotated[bool, flag("--plan", "Only show what it would open; nothing is spent.")] = False,
    out: Annotated[Path | None, path_option("--out", f"What was opened; {DEFAULT_OUT} if not given.")] = None,
    opened: Annotated[Path | None, path_option("--opened", "Tell again what such a file says; no cost.")] = None,
    strict: Strict = False,
    force: Force = False,
    approve: ApprovedPlans = None,
    evidence: Evidence = None,
    json: Json = False,
) -> None:
    """Tell how good a model is on held-out people: noisy counts or sums of scores are opened, and spend epsilon."""
    from colonnade.cli.releases import read_opened
    from colonnade.data.sources import sources_at
    from colonnade.evaluation import TYPICAL_ROWS, evaluate_by, terms_of
    from colonnade.foundation.files import read_whole
    from colonnade.model import read_model
    from colonnade.report.answers.measured import foreseen, measured
    from colonnade.report.render.terminal import shown
    from colonnade.study import read_study

    checked = read_study(study)
    public = read_model(read_whole(model, "model"))
    found = None if opened is None else read_opened(opened)
    sources = dict(checked.sources)
    for party, place in sources_at(data or [], query or [], sources).items():
        sources[party] = sources[party].given(party, place, {})
    asked = {"epsilon": epsilon, "delta": delta} if found is None else terms_of(found.agreement)
    evaluation = evaluate_by(
        checked, public, release=None if release is None else read_opened(release), rows=rows, sources=sources, **asked
    )
    if plan or opened is not None:
        known = evaluation.study.rows or TYPICAL_ROWS if found is None else found.n
        session = evaluation.study.session(known)
        planned = foreseen(evaluation, session, assumed=found is None and evaluation.study.rows is None)
        if found is None:
            show(planned, json)
            if not json:
                stdout().print(f"Digest of these terms, for --approve: {session.terms}")
            return
        if not json:
            stdout().print(shown(planned))
        show(measured(evaluation, evaluation.measure(found), session), json)
        return
    if not data:
        stderr().print("note: these are the study's own records; on people whom the model has seen it looks better.")
    _run(evaluation, out or DEFAULT_OUT, force, approve or [], json, strict, evidence)


def _run(
    evaluation: Evaluation, out: Path, force: bool, approved: list[str], json: bool, strict: bool, evidence: Path | None
) -> None:
    from colonnade import runs
    from colonnade.cli.observer import Terminal, tell_unsettled
    from colonnade.foundation.files import places, release_place
    from colonnade.report.answers.measured import foreseen, measured
    from colonnade.report.progress import Steps

    with places(release_place(out, force)) as (file,), stoppable() as written, Steps(stderr()) as steps:
        plan_of = partial(foreseen, evaluation)
        terminal = Terminal(steps, plan_of, strict=strict, full=not json, may_ask=not json, what="evaluation")
        terminal.file, terminal.written = file, written
        options = runs.RunOptions(approved=approved, evidence=evidence, strict=strict)
        fitted, opened = runs.evaluate(evaluation, options, terminal)
    tell_unsettled(fitted)
    place, found = file.path or out, measured(evaluation, opened, fitted.outcome.session)
    if json:
        print_json({**found.facts(), "opened_file": str(place), "unkept": fitted.unkept})
        return
    show(found, json)
    if fitted.unkept:
        stdout().print(f"No ledger booked this for {', '.join(fitted.unkept)}.")
    stdout().print(f"What was opened is in {place}.")
    tell_evidence(evidence)

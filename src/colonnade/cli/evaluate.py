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
    from colonnade.api.study import Study
    from colonnade.evaluation import Evaluation
    from colonnade.foundation.files import Place
    from colonnade.runs import RunOptions

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
    from colonnade.api.model import Model
    from colonnade.api.release import Release
    from colonnade.api.study import Study
    from colonnade.data.sources import sources_at
    from colonnade.evaluation import TYPICAL_ROWS, terms_of
    from colonnade.foundation.files import release_place
    from colonnade.report.answers.measured import foreseen, measured
    from colonnade.report.render.terminal import shown
    from colonnade.runs import RunOptions

    checked, public = Study.read(study), Model.read(model)
    found = None if opened is None else Release.read(opened).released
    named = sources_at(data or [], query or [], checked.parties)
    asked = {"epsilon": epsilon, "delta": delta} if found is None else terms_of(found.agreement)
    comes = None if release is None else Release.read(release)
    evaluation = checked.evaluation(public, named, release=comes, rows=rows, **asked)
    if plan or found is not None:
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
    options = RunOptions(approved=approve or [], evidence=evidence, strict=strict)
    _run(checked, evaluation, release_place(out or DEFAULT_OUT, force), json, options)
    if not json:
        tell_evidence(evidence)


def _run(study: Study, evaluation: Evaluation, file: Place, json: bool, options: RunOptions) -> None:
    from colonnade.api.display import telling
    from colonnade.cli.observer import Terminal, tell_unsettled
    from colonnade.foundation.files import places
    from colonnade.report.answers.measured import foreseen
    from colonnade.report.progress import Steps

    plan_of, strict = partial(foreseen, evaluation), options.strict
    with places(file), stoppable() as written, telling(), Steps(stderr()) as steps:
        terminal = Terminal(steps, plan_of, strict=strict, full=not json, may_ask=not json, what="evaluation")
        terminal.file, terminal.written = file, written
        found = study.measure(evaluation, options, terminal)
    tell_unsettled(found.ran)
    if json:
        print_json({**found.answer.facts(), "opened_file": str(file.path), "unkept": found.ran.unkept})
        return
    show(found.answer, json)
    if found.ran.unkept:
        stdout().print(f"No ledger booked this for {', '.join(found.ran.unkept)}.")
    stdout().print(f"What was opened is in {file.path}.")

"""The command that scores records: from files in one place, or across parties so that one of them opens the sum."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.foundation.errors import StudyError
from colonnade.report.screen import print_json, stderr

if TYPE_CHECKING:
    from colonnade.protocol.prediction import Prediction
    from colonnade.report.progress import Steps
    from colonnade.scoring import PublicModel, Scores
    from colonnade.study import Source, Study
    from colonnade.transport.keeper import Keeper


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file that fit or solve wrote.")],
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data",
            metavar="[PARTY=]FILE",
            help="One wide file, or one file for each party: repeat the option. With --study: the party's new records.",
        ),
    ] = None,
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="Match files by this column; row by row if not given.")
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option("--study", metavar="STUDY", help="Score across the parties of this study file; needs --to."),
    ] = None,
    receiver: Annotated[
        str | None, typer.Option("--to", metavar="PARTY", help="The one party that opens the scores, with --study.")
    ] = None,
    approve: Annotated[
        list[str] | None,
        typer.Option("--approve", metavar="DIGEST", help="A prediction that a person has approved, with --study."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="CSV file to write; standard output if not given.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")
    ] = False,
) -> None:
    """Score records. Each party adds up its own columns, and only the sum over parties is shown: exactly, to one."""
    from colonnade.report.machine import scores_csv
    from colonnade.report.output import places, read_whole
    from colonnade.report.text import caution
    from colonnade.scoring import read_model, score_files

    if (study is None) != (receiver is None) or (study is None and approve):
        raise typer.BadParameter("--study and --to go together, and --approve goes with them")
    if (study is None and not data) or (study is not None and id_column is not None):
        raise typer.BadParameter("give files by --data, or a --study, which names its own ids")
    public = read_model(read_whole(model, "model"))
    told: dict[str, Any] = {}
    with places(out) as (file,):
        if study is None or receiver is None:
            scores = score_files(public, data or [], id_column)
        else:
            scores, id_column, prediction = _across(public, study, receiver, data or [], approve or [], not json)
            told = {"receiver": receiver, "parties": list(prediction.parties), "exact": True}
            stderr().print(caution(what_is_opened(prediction, len(scores.values))))
        content = scores_csv(public, scores, id_column)
        file.write(content.encode())
    if json:
        rows = {"ids": None if scores.ids is None else list(scores.ids), "scores": scores.values.tolist()}
        shown = rows if out is None else {"scores": str(out)}
        known = {"study": public.study, "task": public.model.task, "label": public.model.label}
        print_json({**known, **told, "rows": len(scores.values), **shown})
    elif out is None:
        typer.echo(content, nl=False)
    else:
        stderr().print(f"{len(scores.values):,} scores written to {out}.")


def what_is_opened(prediction: Prediction, rows: int) -> str:
    """Who learns what, in one sentence for each."""
    to = prediction.receiver
    others = [party for party in prediction.parties if party != to]
    whose = f"the part of {others[0]}" if len(others) == 1 else f"the sum of the parts of {', '.join(others)}"
    return (
        f"{to} opened the exact score of each of {rows:,} records: it is not differentially private about the record, "
        f"and {to} can subtract its own part and learn {whose}. Nobody else learns a score."
    )


def _across(
    public: PublicModel, path: Path, receiver: str, files: list[str], approved: list[str], may_ask: bool
) -> tuple[Scores, str | None, Prediction]:
    from colonnade.report.progress import Steps
    from colonnade.scoring import prediction_of, score_across
    from colonnade.study import read_study
    from colonnade.table import read_table
    from colonnade.transport.keeper import refusing

    study = read_study(path)
    prediction = prediction_of(public, study.agreement.schema, receiver)
    places = _places(study, prediction, files)
    with Steps(stderr()) as steps:
        keepers = _keepers(study, places, approved, steps, may_ask and sys.stdin.isatty())
        matched = study.alignment != "none" and len(prediction.parties) > 1
        for name, keeper in keepers.items():
            with refusing(name):
                keeper.foresee_scores(prediction, matched)
        tables = {
            name: read_table(name, places[name], columns, study.sources[name].id)
            for name, columns in prediction.columns.items()
        }
        for name, keeper in keepers.items() if matched else ():
            with refusing(name):
                keeper.align("", f"{public.study} scores", prediction.parties)
        consent = {name: keeper.consent_scores for name, keeper in keepers.items()}
        scores = score_across(public, prediction, tables, study.alignment, None, steps, consent)
    return scores, study.sources[receiver].id, prediction


def _places(study: Study, prediction: Prediction, files: list[str]) -> dict[str, Path]:
    """Each party's file of records to score: as named by "party=path", or the study's own."""
    named: dict[str, Path] = {}
    for text in files:
        party, separator, path = text.partition("=")
        if not separator or party not in prediction.parties:
            raise StudyError(f"--data names PARTY=FILE for one of {', '.join(prediction.parties)}, got {text!r}")
        named[party] = Path(path)
    for party in prediction.parties:
        source = study.sources[party]
        if party not in named:
            if source.data is None:
                raise StudyError(f"[party.{party}] has no data, and --data {party}=FILE is not given")
            named[party] = source.data
    return named


def _keepers(study: Study, places: dict[str, Path], approved: list[str], steps: Steps, asks: bool) -> dict[str, Keeper]:
    """For each party with a policy, who agrees on its behalf."""

    def ask(question: str) -> bool:
        with steps.pause():
            return typer.confirm(f"{question}\nIs it approved?", err=True)

    return {
        name: _keeper(name, study.sources[name], path, approved, ask if asks else None)
        for name, path in places.items()
        if study.sources[name].policy is not None
    }


def _keeper(name: str, source: Source, data: Path, approved: list[str], ask: Any) -> Keeper:
    from colonnade.ledger import DataSet, Ledger
    from colonnade.policy import check_approvals, read_policy
    from colonnade.transport.keeper import Keeper

    assert source.policy is not None and source.ledger is not None
    check_approvals(approved)
    policy = read_policy(source.policy)
    return Keeper(name, policy, Ledger(source.ledger), DataSet.of_file(data), approved, ask)

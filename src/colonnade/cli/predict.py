"""The command that scores records: from files in one place, or across parties so that one of them opens the sum."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli.options import Json, Queries, Strict, option, path_argument, path_option
from colonnade.cli.screen import print_json, stderr, tell_own
from colonnade.foundation.errors import StudyError

if TYPE_CHECKING:
    from colonnade.api.model import Model
    from colonnade.model import Scores
    from colonnade.planning.prediction import Prediction


def predict(
    model: Annotated[Path, path_argument("MODEL", "Model file that fit or solve wrote.")],
    data: Annotated[
        list[str] | None,
        option(
            "--data",
            "[PARTY=]FILE",
            "One wide file, or one file for each party: repeat the option. With --study: the party's new records.",
        ),
    ] = None,
    query: Queries = None,
    id_columns: Annotated[
        list[str] | None,
        option(
            "--id",
            "[PARTY=]COLUMN",
            "Match files by this column of all, or of one party: repeat the option. Row by row if not given.",
        ),
    ] = None,
    study: Annotated[
        Path | None, path_option("--study", "Score across the parties of this study file; needs --to.", "STUDY")
    ] = None,
    receiver: Annotated[
        str | None, option("--to", "PARTY", "The one party that opens the scores, with --study.")
    ] = None,
    approve: Annotated[
        list[str] | None, option("--approve", "DIGEST", "A prediction that a person has approved, with --study.")
    ] = None,
    out: Annotated[Path | None, path_option("--out", "CSV file to write; standard output if not given.")] = None,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Score records. Each party adds up its own columns, and only the sum over parties is shown: exactly, to one."""
    from colonnade.api.model import Model
    from colonnade.foundation.files import places
    from colonnade.model import score_files, scores_csv
    from colonnade.report.render.terminal import caution
    from colonnade.report.text import opened_scores_text

    if (study is None) != (receiver is None) or (study is None and approve):
        raise typer.BadParameter("--study and --to go together, and --approve goes with them")
    if (study is None and not data) or (study is not None and id_columns):
        raise typer.BadParameter("give files by --data, or a --study, which names its own ids")
    if out is not None and out.exists() and any(_is_same_file(out, text) for text in [str(model), *(data or [])]):
        raise StudyError(f"scores must not be written over what they are computed from, got --out {out}")
    scorer = Model.read(model)
    public = scorer.public
    told: dict[str, Any] = {}
    with places(out) as (file,):
        if study is None or receiver is None:
            scores = score_files(public, data or [], id_columns, look=tell_own, strict=strict, queries=query or [])
        else:
            named = (data or [], query or [])
            scores, prediction = _score_across(scorer, study, receiver, named, approve or [], strict, not json)
            told = {"receiver": receiver, "parties": list(prediction.parties), "exact": True}
            stderr().print(caution(opened_scores_text(prediction, len(scores.values))))
        content = scores_csv(public, scores, scores.id_column)
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


def _is_same_file(out: Path, text: str) -> bool:
    """Whether a model or a data file, with its party's name before it or not, is the one to write."""
    return any(Path(name).exists() and out.samefile(name) for name in (text, text.partition("=")[2]) if name)


def _score_across(
    scorer: Model,
    path: Path,
    receiver: str,
    named: tuple[list[str], list[str]],
    approved: list[str],
    strict: bool,
    may_ask: bool,
) -> tuple[Scores, Prediction]:
    from colonnade.api.display import telling
    from colonnade.api.study import Study
    from colonnade.cli.observer import Terminal
    from colonnade.data.sources import sources_at
    from colonnade.report.progress import Steps
    from colonnade.report.render.terminal import caution
    from colonnade.runs import RunOptions

    study = Study.read(path)
    places = sources_at(*named, study.parties)
    with Steps(stderr()) as steps, telling(lambda note: steps.print_between(stderr(), caution(note))):
        options = RunOptions(approved=approved, strict=strict)
        return study.scores(scorer, receiver, places, options, Terminal(steps, may_ask=may_ask))

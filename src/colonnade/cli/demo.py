"""`colonnade demo`: a study of three invented organisations, from their files to a release and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from colonnade.cli.options import path_argument
from colonnade.cli.screen import stdout
from colonnade.cli.studies import fit
from colonnade.foundation.errors import StudyError

DATA = Path(__file__).resolve().parents[1] / "demo"
"""The demo's files, part of the installed package."""
DEFAULT = "colonnade-demo"


def demo(
    folder: Annotated[
        Path | None, path_argument("[FOLDER]", f"Folder to write, new or empty; {DEFAULT} if not given.")
    ] = None,
) -> None:
    """Write the files of three invented organisations, run their study, and write its release, model and page."""
    folder = Path(DEFAULT) if folder is None else folder
    copy_demo(folder)
    release, model, page = (folder / name for name in ("release.json", "model.json", "report.html"))
    fit(folder / "study.toml", out=release, model=model)
    write_page(release, page)
    stdout().print(judge_model(folder, model), soft_wrap=True)
    told = f"The page to read and sign is {page}; the files and the study are beside it, for trying more: "
    stdout().print(f"{told}colonnade tables {release}", soft_wrap=True)


def copy_demo(folder: Path) -> None:
    """Put the demo's files into a folder that holds nothing else."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StudyError(f"{folder} must be a new or an empty folder, and is neither: colonnade demo OTHER")
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(path for path in DATA.iterdir() if path.is_file()):
        (folder / file.name).write_bytes(file.read_bytes())


def write_page(release: Path, page: Path) -> None:
    from colonnade.api.release import Release

    Release.read(release).report(page)


def judge_model(folder: Path, model: Path) -> str:
    """How often the private model is right beside the majority class: the demo's rows are public, so one may look."""
    import csv

    from colonnade.model import read_model, score_files
    from colonnade.study import read_study

    study, public = read_study(folder / "study.toml"), read_model(model.read_bytes())
    owner, label = study.agreement.schema.find(study.agreement.label)
    files = {name: folder / f"{name}.csv" for name in study.sources}
    scores = score_files(public, [f"{name}={path}" for name, path in files.items()], "person")
    with files[owner].open(encoding="utf-8", newline="") as file:
        positive = {row["person"]: row[label] == public.label[2] for row in csv.DictReader(file)}
    truth = [positive[person] for person in scores.ids or ()]
    right = sum((score >= 0.5) == true for score, true in zip(scores.values, truth, strict=True)) / len(truth)
    share = sum(truth) / len(truth)
    return (
        f"On these {len(truth):,} public records the private model is right about {label} for {right:.1%}; the "
        f"majority class alone is right for {max(share, 1 - share):.1%}."
    )

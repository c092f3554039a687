"""`colonnade demo`: a study of three invented organisations, from their files to a release and a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from colonnade.cli.options import path_argument
from colonnade.cli.screen import show
from colonnade.cli.studies import fit_into
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
    from colonnade.api.study import Study

    folder = Path(DEFAULT) if folder is None else folder
    copy_demo(folder)
    release, model, page = (folder / name for name in ("release.json", "model.json", "report.html"))
    answer = fit_into(release, model, Study.read(folder / "study.toml"))
    write_page(release, page)
    assert answer.brief is not None
    lines = dict(answer.brief.lines) | {
        "Quality": f"{judge_model(folder, model)}.",
        "Files": f"{page}, to sign. At no cost, of the same release:\ncolonnade tables {release} sex income",
    }
    show(replace(answer, brief=replace(answer.brief, lines=list(lines.items()))), False, False)


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
    """Compare a model of public records with one without privacy: the same columns, the same people."""
    import numpy as np
    import polars as pl
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    from colonnade.data.table import table_from
    from colonnade.foundation.threads import one_thread
    from colonnade.model import read_model, score_files
    from colonnade.study import read_study

    study, public = read_study(folder / "study.toml"), read_model(model.read_bytes())
    owner, label = study.agreement.schema.find(study.agreement.label)
    files = {name: folder / f"{name}.csv" for name in study.sources}
    scores = score_files(public, [f"{name}={path}" for name, path in files.items()], "person")
    frame = pl.DataFrame({"person": scores.ids})
    for path in files.values():
        frame = frame.join(pl.read_csv(path, infer_schema=False), on="person", how="left", maintain_order="left")
    tables = {name: table_from(name, frame, columns) for name, columns in study.agreement.schema.parties.items()}
    encoded = {place: values for table in tables.values() for place, values in table.coordinates().items()}
    truth = np.asarray(tables[owner].values[label]) == 1
    features = np.column_stack([encoded[public.factors[name][0]] for name in public.model.features])
    with one_thread():
        clear = LogisticRegression(C=1e4, max_iter=2000).fit(features, truth).predict_proba(features)[:, 1]
    private, share = np.asarray(scores.values), float(truth.mean())
    (right, area), (most, bound) = (
        (float(((chance >= 0.5) == truth).mean()), roc_auc_score(truth, chance)) for chance in (private, clear)
    )
    return (
        f"on these public records right for {right:.1%}, AUC {area:.3f}; not private (scikit-learn) {most:.1%}, "
        f"{bound:.3f}; the larger class {max(share, 1 - share):.1%}, 0.5"
    )

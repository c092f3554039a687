"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from colonnade.foundation.parts import local_path

StudyFile = Annotated[Path, typer.Argument(parser=local_path, metavar="STUDY", help="Study file (TOML).")]
ReleaseFile = Annotated[Path, typer.Argument(parser=local_path, metavar="RELEASE", help="Release file that fit wrote.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a release that is there already.")]
Html = Annotated[
    Path | None, typer.Option("--html", parser=local_path, metavar="FILE", help="Page to write, readable offline.")
]
ApprovedPlans = Annotated[
    list[str] | None,
    typer.Option("--approve", metavar="DIGEST", help="A plan that a person has approved, by the digest of its terms."),
]

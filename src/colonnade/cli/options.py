"""Arguments and options that several commands take."""

from __future__ import annotations

import csv
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from colonnade.foundation.errors import StudyError
from colonnade.foundation.locks import require_locks
from colonnade.foundation.parts import local_path

StudyFile = Annotated[Path, typer.Argument(parser=local_path, metavar="STUDY", help="Study file (TOML).")]
ReleaseFile = Annotated[Path, typer.Argument(parser=local_path, metavar="RELEASE", help="Release file that fit wrote.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse what comes with a warning, and any value that is not as declared.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
Full = Annotated[bool, typer.Option("--full", help="Print all tables and notes, not the verdict alone.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a release that is there already.")]
Html = Annotated[
    Path | None, typer.Option("--html", parser=local_path, metavar="FILE", help="Page to write, readable offline.")
]
ApprovedPlans = Annotated[
    list[str] | None,
    typer.Option("--approve", metavar="DIGEST", help="A plan that a person has approved, by the digest of its terms."),
]
Evidence = Annotated[
    Path | None,
    typer.Option(
        "--evidence",
        parser=local_path,
        metavar="FOLDER",
        help="Keep each party's evidence here, so that it can be audited; unsigned, it convicts nobody.",
    ),
]


Queries = Annotated[
    list[str] | None,
    typer.Option("--query", metavar="PARTY=SELECT", help="The query of a party whose data is a database's address."),
]


def names_in(text: str) -> tuple[str, ...]:
    """Names that are listed with commas; one that has a comma of its own stands in quotes, as in a CSV file."""
    return tuple(part.strip() for part in next(csv.reader([text or '""'], skipinitialspace=True)))


def require_engine() -> None:
    """Refuse where a site cannot run: no file locks, or no NVIDIA FLARE."""
    require_locks()
    for needed in ("nvflare", "prometheus_client"):
        if find_spec(needed) is None:
            told = f"a run across machines needs {needed}, which is not installed: pip install 'colonnade[flare]'"
            raise StudyError(told)

"""Arguments and options that several commands take."""

from __future__ import annotations

import csv
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade.foundation.errors import StudyError
from colonnade.foundation.files import require_locks
from colonnade.foundation.parts import local_path

HELP = {"help_option_names": ["-h", "--help"]}


def group(help: str, **more: Any) -> typer.Typer:
    """Return commands that stand under one name."""
    found = typer.Typer(no_args_is_help=True, help=help, rich_markup_mode=None, context_settings=HELP, **more)
    # A group of one command stays a group.
    found.callback()(lambda: None)
    return found


def path_option(flags: str, help: str, metavar: str = "FILE") -> Any:
    """Return an option for a place on this machine; several spellings of it are separated by blanks."""
    return typer.Option(*flags.split(), parser=local_path, metavar=metavar, help=help)


def path_argument(metavar: str, help: str) -> Any:
    """Return an argument for a place on this machine."""
    return typer.Argument(parser=local_path, metavar=metavar, help=help)


def option(name: str, metavar: str, help: str, **more: Any) -> Any:
    """Return an option with a value."""
    return typer.Option(name, metavar=metavar, help=help, **more)


def flag(name: str, help: str) -> Any:
    """Return an option without a value; several spellings of it are separated by blanks."""
    return typer.Option(*name.split(), help=help)


def argument(metavar: str, help: str) -> Any:
    """Return an argument that is no place."""
    return typer.Argument(metavar=metavar, help=help)


StudyFile = Annotated[Path, path_argument("STUDY", "Study file (TOML).")]
ReleaseFile = Annotated[Path, path_argument("RELEASE", "Release file that fit wrote.")]
Strict = Annotated[bool, flag("--strict", "Refuse what comes with a warning, and any value that is not as declared.")]
Json = Annotated[bool, flag("--json", "Print one JSON object on standard output and nothing else.")]
Full = Annotated[bool, flag("--full", "Print all tables and notes, not the verdict alone.")]
Force = Annotated[bool, flag("--force", "Overwrite a release that is there already.")]
Html = Annotated[Path | None, path_option("--html", "Page to write, readable offline.")]
ApprovedPlans = Annotated[
    list[str] | None, option("--approve", "DIGEST", "A plan that a person has approved, by the digest of its terms.")
]
Evidence = Annotated[
    Path | None,
    path_option(
        "--evidence",
        "Keep each party's evidence here, so that it can be audited; unsigned, it convicts nobody.",
        "FOLDER",
    ),
]


Queries = Annotated[
    list[str] | None, option("--query", "PARTY=SELECT", "The query of a party whose data is a database's address.")
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

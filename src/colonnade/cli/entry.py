"""The command `colonnade` with all its commands, and how its failures are told."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Annotated

import typer

from colonnade.cli.audit import app as audit_app
from colonnade.cli.certificates import app as cert_app
from colonnade.cli.demo import demo
from colonnade.cli.deployment import add_deployment
from colonnade.cli.evaluate import evaluate
from colonnade.cli.ledger import app as ledger_app
from colonnade.cli.new import new
from colonnade.cli.operations import add_operations
from colonnade.cli.options import HELP
from colonnade.cli.predict import predict
from colonnade.cli.queue import app as queue_app
from colonnade.cli.releases import components, report, solve, synthesize, tables
from colonnade.cli.studies import check, fit, plan, rehearse, schema
from colonnade.cli.studio import studio
from colonnade.foundation.errors import ColonnadeError, MistakesError

ALLOCATIONS = 100_000
"""New objects between two looks; Python's own number is 700 to 2,000."""


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Look for garbage seldom within this context, and not at all when the interpreter ends."""
    before = gc.get_threshold()
    gc.set_threshold(ALLOCATIONS, *before[1:])
    atexit.register(gc.freeze)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Later:
    """Finds what scipy loads by name alone, to be loaded when it is first used: numpy's Fortran and its test tools."""

    names = ("numpy.f2py", "numpy.testing")

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in cls.names else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


TRACEBACK = "COLONNADE_TRACEBACK"

app = typer.Typer(
    name="colonnade",
    help="One differentially private regression over columns that different organisations hold about the same people.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings=HELP,
    epilog="Exit codes: 0 done, 1 refused or failed (one sentence on standard error), 2 wrong usage.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"colonnade {version('colonnade')}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    pass


app.add_typer(ledger_app, name="ledger", short_help="What a party's data has spent: show, verify, export, settle.")
app.command(short_help="Draft a study file from data files, with questions or by flags.")(new)
app.command(short_help="A study of three invented organisations, from files to a page.")(demo)
app.command(short_help="All that would refuse a run or spoil its result, in one list.")(check)
app.command(short_help="What a study would release, with how much noise; touches no data.")(plan)
app.command(short_help="How good the model will be, by simulating the noise.")(rehearse)
app.command(short_help="Run a study on all parties' files in this process.")(fit)
app.command(short_help="Draft a party's part of a study file.")(schema)
app.command(short_help="Score records by a model.")(predict)
app.command(short_help="How good a model is on held-out people.")(evaluate)
app.command(short_help="Another model from a release, at no cost.")(solve)
app.command(short_help="One-way and contingency tables of a release, with intervals.")(tables)
app.command(short_help="Rows that have a release's tables.")(synthesize)
app.command(short_help="Principal components and correlations of a release.")(components)
app.command(short_help="What a release holds.")(report)
app.command(short_help="Plan, run and look, on a page of this machine.")(studio)
app.add_typer(audit_app, name="audit", short_help="Attack a study; audit what a party did: study, session, verify.")
add_deployment(app)
add_operations(app)
app.add_typer(queue_app, name="queue", short_help="Sessions in a queue: add, show, drop, work.")
app.add_typer(cert_app, name="cert", short_help="Certificates of a deployed study: request, approve, install, revoke.")


def _hush() -> None:
    """DuckDB's bindings count what is left of them after the interpreter's end, in some fifty lines."""
    if "duckdb" in sys.modules:
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _only(named: str) -> typer.Typer:
    """The application with the command that was named alone: to read the options of all of them takes a while."""
    found = copy(app)
    found.registered_commands = [c for c in app.registered_commands if named == getattr(c.callback, "__name__", "")]
    found.registered_groups = [group for group in app.registered_groups if named == group.name]
    return found if found.registered_commands or found.registered_groups else app


def main() -> None:
    """The entry point: refusals become one sentence and exit code 1."""
    # What is registered first runs last.
    atexit.register(_hush)
    if _Later not in sys.meta_path:
        sys.meta_path.insert(0, _Later)
    try:
        try:
            with collecting_seldom():
                _only(sys.argv[1] if len(sys.argv) > 1 else "")(prog_name="colonnade")
        finally:
            sys.stdout.flush()
    except MistakesError as error:
        _fail(str(error).partition("\n")[0], *error.lines)
    except ColonnadeError as error:
        _fail(str(error))
    except OSError as error:
        # Whatever is left in the buffer has nowhere to go; without this the interpreter complains once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _fail(f"{error.filename or 'the output'}: {(error.strerror or str(error)).lower()}")
    except KeyboardInterrupt:
        _fail("stopped")
    except MemoryError:
        _fail("there is not enough memory for this study")
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        _fail(f"this is a bug in colonnade, {TRACEBACK}=1 shows where: {type(error).__name__}: {error}")


def _fail(*sentences: str) -> None:
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    for sentence in sentences:
        # A file's name, or what a library says of its content, may hold what a terminal obeys.
        told = (c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(sentence.split()))
        typer.echo("".join(told), err=True)
    sys.exit(1)

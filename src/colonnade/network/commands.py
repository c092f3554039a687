"""`colonnade deploy new`, `server start`, `party start` and `run`: a study across organisations."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade.foundation.errors import StudyError

deploy_app = typer.Typer(no_args_is_help=True, help="Folders for the organisations of a study.")
server_app = typer.Typer(no_args_is_help=True, help="The server of a deployed study.")
party_app = typer.Typer(no_args_is_help=True, help="A party of a deployed study.")

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The organisation's folder, from deploy new.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]


def hang_in(app: typer.Typer) -> None:
    """Hang these commands into the command line."""
    app.add_typer(deploy_app, name="deploy", short_help="Folders for the organisations of a study.")
    app.add_typer(server_app, name="server", short_help="The server of a deployed study.")
    app.add_typer(party_app, name="party", short_help="A party of a deployed study.")
    app.command("run", short_help="Start one session of a deployed study.")(run)


def _require() -> None:
    if find_spec("nvflare") is None:
        raise StudyError("a run across machines needs nvflare, which is not installed: pip install 'colonnade[flare]'")


@deploy_app.callback()
def _deploy() -> None:
    pass


@deploy_app.command("new", short_help="Write a folder for each organisation of a study.")
def deploy_new(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="Study file (TOML).")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder to write; new or empty.")],
    server: Annotated[
        str, typer.Option("--server", metavar="HOST[:PORT]", help="Where parties reach the server.")
    ] = "localhost:8002",
    json: Json = False,
) -> None:
    """Write a folder for each organisation: certificates, study, policy template, start script, and what to do."""
    _require()
    from colonnade.network.deploy import deploy_new as deploy
    from colonnade.network.provision import Address
    from colonnade.report.screen import print_json

    folders = deploy(study, out, Address.of(server))
    if json:
        print_json({"folders": [str(f) for f in folders], "authority": str(out / "authority"), "server": server})
        return
    for folder in folders:
        typer.echo(f"{folder}: hand it to its organisation over a safe channel; its README.md says what to do.")
    typer.echo(f"{out / 'authority'}: keep it offline; it can make certificates for this study.")


@server_app.callback()
def _server() -> None:
    pass


@server_app.command("start", short_help="Serve sessions until stopped.")
def server_start(folder: Folder) -> None:
    """Serve sessions of the folder's study until stopped with Ctrl-C."""
    _require()
    from colonnade.network.launch import serve
    from colonnade.network.site import SERVER, read_site

    site = read_site(folder, SERVER)
    typer.echo(f"server of study {site.study.agreement.name}: waiting for parties and sessions", err=True)
    raise typer.Exit(serve(site, _teller("server"), _sayer("server")))


@party_app.callback()
def _party() -> None:
    pass


@party_app.command("start", short_help="Take part in sessions until stopped.")
def party_start(
    folder: Folder,
    approve: Annotated[
        list[str] | None,
        typer.Option(
            "--approve", metavar="DIGEST", help="A plan that a person has approved, by the digest of its terms."
        ),
    ] = None,
) -> None:
    """Take part in sessions of the folder's study until stopped with Ctrl-C; policy and ledger judge each."""
    _require()
    from colonnade.network.launch import take_part
    from colonnade.network.site import APPROVED, PARTY, read_site

    site = read_site(folder, PARTY)
    # Whatever would refuse a session later is said now.
    site.guard()
    if approve:
        os.environ[APPROVED] = ",".join(approve)
    typer.echo(f"party {site.party} of study {site.study.agreement.name}: waiting for sessions", err=True)
    raise typer.Exit(take_part(site, _teller(site.party), _sayer(site.party)))


def run(
    folder: Folder,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Release file to write.")] = Path("release.json"),
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for server and parties.")
    ] = 120.0,
    json: Json = False,
) -> None:
    """Start one session of a deployed study, follow it, and write the release; server and parties must be running."""
    _require()
    from colonnade.mechanism.release import read_release
    from colonnade.network.coordinator import run_session
    from colonnade.network.site import COORDINATOR, NOT_PRIVATE, read_site
    from colonnade.report.output import places
    from colonnade.report.progress import Steps
    from colonnade.report.screen import print_json, stderr

    site = read_site(folder, COORDINATOR)
    if out.exists():
        raise StudyError(f"{out} is here already and is not overwritten")
    with places(out) as (file,), Steps(stderr()) as steps:
        content, account = run_session(site, wait, steps)
        release = read_release(content)
        file.write(content)
    seeded = bool(release.provenance["seeded"])
    if json:
        known = {"study": release.plan["study"], "n": release.n, "session": release.provenance["session"]}
        print_json({**known, "release": str(out), "seeded": seeded, "bytes": account.get("bytes")})
        return
    if seeded:
        typer.echo(NOT_PRIVATE)
    typer.echo(f"The session was opened with n={release.n}; the release is in {out}: colonnade report {out}")


def _sayer(name: str) -> Callable[[str], None]:
    return lambda sentence: typer.echo(f"{name}: {sentence}", err=True)


def _teller(name: str) -> Callable[[dict[str, Any]], None]:
    """One line for each step of a session, and the sentence at its end."""
    from colonnade.network.site import NOT_PRIVATE
    from colonnade.report.progress import NAMES

    last: list[str] = ["", ""]

    def tell(content: dict[str, Any]) -> None:
        job, step = str(content.get("job", "")), str(content.get("step", ""))
        if job != last[0] and content.get("seeded"):
            typer.echo(f"{name}: {NOT_PRIVATE}", err=True)
        if [job, step] != last and not content.get("done"):
            typer.echo(f"{name}: session {job[:8]}: {NAMES.get(step, 'waiting for the others')}", err=True)
        if content.get("done"):
            mark = "done" if content.get("ok") else "ended without a release"
            typer.echo(f"{name}: session {job[:8]}: {mark}: {content.get('sentence')}", err=True)
        last[:] = [job, step]

    return tell

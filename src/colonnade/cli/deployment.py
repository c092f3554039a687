"""`colonnade deploy new`, `server start`, `party start` and `run`: a study across organisations."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade.cli.options import (
    ApprovedPlans,
    Force,
    Json,
    StudyFile,
    flag,
    group,
    option,
    path_argument,
    path_option,
    require_engine,
)
from colonnade.cli.screen import print_json, show, stderr, tell
from colonnade.foundation.errors import StoppedError

deploy_app = group("Folders for the organisations of a study.")
server_app = group("The server of a deployed study.")
party_app = group("A party of a deployed study.")

SCORING = {
    "plan": "agreeing on the prediction",
    "submit": "handing in masked parts of scores",
    "open": "opening the scores at their receiver",
}
"""What steps are called in a prediction."""
Folder = Annotated[Path, path_argument("FOLDER", "The organisation's folder, from deploy new.")]


def add_deployment(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.add_typer(deploy_app, name="deploy", short_help="Folders for the organisations of a study.")
    app.add_typer(server_app, name="server", short_help="The server of a deployed study.")
    app.add_typer(party_app, name="party", short_help="A party of a deployed study.")
    app.command("run", short_help="Start one session of a deployed study.")(run)


@deploy_app.command("new", short_help="Write a folder for each organisation of a study.")
def deploy_new(
    study: StudyFile,
    out: Annotated[Path, path_option("--out -o", "Folder to write; new or empty.", "DIR")],
    server: Annotated[str, option("--server", "HOST[:PORT]", "Where parties reach the server.")] = "localhost:8002",
    keyless: Annotated[
        bool, flag("--keyless", "Without keys: each organisation makes its own (cert request).")
    ] = False,
    json: Json = False,
) -> None:
    """Write a folder for each organisation: certificates, study, policy template, start script, and what to do."""
    require_engine()
    from colonnade.flare.certificates import Address
    from colonnade.flare.deploy import deploy_new as deploy
    from colonnade.flare.deploy import warnings
    from colonnade.study import read_study

    folders = deploy(study, out, Address.of(server), keyless)
    said = warnings(read_study(study))
    known = {"folders": [str(f) for f in folders], "authority": str(out / "authority"), "server": server}
    handed = (f"{f}: hand it to its organisation over a safe channel; its README.md says what to do." for f in folders)
    kept = f"{out / 'authority'}: keep it offline; it can make certificates for this study."
    tell(json, {**known, "warnings": said}, *handed, kept)
    for sentence in () if json else said:
        typer.echo(f"note: {sentence}", err=True)


@deploy_app.command("add", short_help="Write what a further study needs at each site.")
def deploy_add(
    study: StudyFile,
    authority: Annotated[Path, path_option("--authority", "The deployment's folder authority/.", "DIR")],
    out: Annotated[Path, path_option("--out -o", "Folder to write; new or empty.", "DIR")],
    json: Json = False,
) -> None:
    """Write what each site needs for a further study of the same organisations, on the same server."""
    require_engine()
    from colonnade.flare.deploy import deploy_add as deploy

    folders = deploy(study, authority, out)
    lines = (f"{folder}: goes into studies/ of the folder of {folder.parent.parent.name}." for folder in folders)
    tell(json, {"folders": [str(folder) for folder in folders]}, *lines)


@server_app.command("start", short_help="Serve sessions until stopped.")
def server_start(folder: Folder) -> None:
    """Serve sessions of the folder's study until stopped with Ctrl-C."""
    require_engine()
    from colonnade.flare.launch import serve
    from colonnade.sites.site import SERVER, read_site

    site = read_site(folder, SERVER)
    raise typer.Exit(serve(site, _teller("server"), _sayer("server")))


@party_app.command("start", short_help="Take part in sessions until stopped.")
def party_start(folder: Folder, approve: ApprovedPlans = None) -> None:
    """Take part in sessions of the folder's study until stopped with Ctrl-C; policy and ledger judge each."""
    require_engine()
    from colonnade.flare.launch import take_part
    from colonnade.sites.site import APPROVED, PARTY, read_sites

    # Whatever would refuse a session later is said now, of every study in the folder.
    site, *others = read_sites(folder, PARTY)
    for each in (site, *others):
        for note in each.get_ready(approve or []):
            _sayer(site.party)(note if each is site else f"study {each.study.agreement.name}: {note}")
    if approve:
        os.environ[APPROVED] = ",".join(approve)
    raise typer.Exit(take_part(site, _teller(site.party), _sayer(site.party)))


def run(
    folder: Folder,
    out: Annotated[Path | None, path_option("--out", "Release file to write; release.json if not given.")] = None,
    predict: Annotated[
        bool, flag("--predict", "Score records by [prediction] of site.toml instead, for one party to open.")
    ] = False,
    evaluate: Annotated[
        bool, flag("--evaluate", "Evaluate a model by [evaluation] of site.toml instead; it spends epsilon.")
    ] = False,
    study: Annotated[
        str, option("--study", "NAME", "Which study, where the folder has several; its own if not given.")
    ] = "",
    fetch: Annotated[
        str | None, option("--fetch", "SESSION", "Only fetch the release of an earlier session, by its id.")
    ] = None,
    force: Force = False,
    wait: Annotated[float, option("--wait", "SECONDS", "How long to wait for server and parties.", min=0)] = 120.0,
    json: Json = False,
) -> None:
    """Start one session of a deployed study, follow it, and write the release; Ctrl-C stops it for all."""
    require_engine()
    if predict and (out is not None or fetch is not None or force):
        told = "--out, --fetch and --force are for a release; with --predict the scores stay with their receiver"
        raise typer.BadParameter(told)
    if predict and evaluate:
        raise typer.BadParameter("--predict and --evaluate ask for two sessions: give one of them")
    try:
        if evaluate:
            _run_evaluation(folder, Path("evaluation.json") if out is None else out, force, wait, json, study)
        elif predict:
            _run_prediction(folder, wait, json, study)
        else:
            _run_session(folder, Path("release.json") if out is None else out, force, wait, json, fetch, study)
    except StoppedError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(130) from None


def _run_session(folder: Path, out: Path, force: bool, wait: float, json: bool, fetch: str | None, study: str) -> None:
    from colonnade.flare.coordinator import fetch_release, run_session
    from colonnade.foundation.files import places, release_place
    from colonnade.mechanism.release import read_release
    from colonnade.report.progress import Steps
    from colonnade.sites.site import COORDINATOR, NOT_PRIVATE, find_site

    site = find_site(folder, study, COORDINATOR)
    with places(release_place(out, force)) as (file,), Steps(stderr()) as steps:
        content, account = run_session(site, wait, steps) if fetch is None else fetch_release(site, fetch, wait)
        release = read_release(content)
        file.write(content)
    out = file.path or out
    seeded = bool(release.provenance["seeded"])
    if json:
        known = {"study": release.plan["study"], "n": release.n, "session": release.provenance["session"]}
        print_json({**known, "release": str(out), "seeded": seeded, "bytes": account.get("bytes")})
        return
    if seeded:
        typer.echo(NOT_PRIVATE)
    typer.echo(f"The session was opened with n={release.n}; the release is in {out}: colonnade report {out}")


def _run_evaluation(folder: Path, out: Path, force: bool, wait: float, json: bool, study: str) -> None:
    from colonnade.flare.coordinator import run_session
    from colonnade.foundation.files import places, release_place
    from colonnade.mechanism.release import read_release
    from colonnade.report.answers.measured import measured
    from colonnade.report.progress import Steps
    from colonnade.sites.evaluation_request import EvaluateRecipe
    from colonnade.sites.site import COORDINATOR, NOT_PRIVATE, find_site

    asked = EvaluateRecipe(find_site(folder, study, COORDINATOR))
    with places(release_place(out, force)) as (file,), Steps(stderr()) as steps:
        content, account = run_session(asked.site, wait, steps, asked)
        opened = read_release(content)
        file.write(content)
    found = measured(asked.evaluation, asked.evaluation.measure(opened))
    seeded = bool(opened.provenance["seeded"])
    if json:
        known = {"session": opened.provenance["session"], "opened_file": str(file.path or out), "seeded": seeded}
        print_json({**found.facts(), **known, "bytes": account.get("bytes")})
        return
    if seeded:
        typer.echo(NOT_PRIVATE)
    show(found, json)
    typer.echo(f"What was opened is in {file.path or out}.")


def _run_prediction(folder: Path, wait: float, json: bool, study: str) -> None:
    from colonnade.flare.coordinator import run_prediction
    from colonnade.report.progress import Steps
    from colonnade.report.render.terminal import caution
    from colonnade.report.text import opened_scores_text
    from colonnade.sites.prediction_request import PredictRecipe
    from colonnade.sites.site import COORDINATOR, NOT_PRIVATE, find_site

    asked = PredictRecipe(find_site(folder, study, COORDINATOR))
    with Steps(stderr()) as steps:
        account = run_prediction(asked, wait, lambda step, share: steps(SCORING.get(step, step), share))
    stderr().print(caution(opened_scores_text(asked.prediction, account["rows"])))
    if json:
        known = {key: account[key] for key in ("session", "receiver", "rows", "scores", "seeded", "bytes")}
        print_json({"study": asked.public.study, **known})
        return
    if account["seeded"]:
        typer.echo(NOT_PRIVATE)
    typer.echo(f"{account['sentence']}.")


def _sayer(name: str) -> Callable[[str], None]:
    def say(sentence: str) -> None:
        # A terminal that is gone keeps no site from its sessions, nor its log and its figures from being kept.
        with suppress(OSError):
            typer.echo(f"{name}: {sentence}", err=True)

    return say


def _teller(name: str) -> Callable[[dict[str, Any]], None]:
    """One line for each step of a session, and the sentence at its end."""
    from colonnade.report.progress import NAMES
    from colonnade.sites.site import NOT_PRIVATE

    say, last = _sayer(name), ["", "", ""]

    def tell(content: dict[str, Any]) -> None:
        job, step = str(content.get("job", "")), str(content.get("step", ""))
        if job != last[0] and content.get("seeded"):
            say(NOT_PRIVATE)
        # Ledgers and releases have the session's own id, which is known once all are there.
        session = str(content.get("session") or "")
        which = f"session {session[:16]}" if session else f"job {job[:8]}"
        if job == last[0] and session not in ("", last[2]):
            say(f"job {job[:8]} is session {session[:16]}")
        if [job, step] != last[:2] and not content.get("done"):
            names = NAMES if content.get("spends", True) else {**NAMES, **SCORING}
            say(f"{which}: {names.get(step, 'waiting for the others')}")
        if content.get("done"):
            mark = "done" if content.get("ok") else f"ended without {content.get('what')}"
            say(f"{which}: {mark}: {content.get('sentence')}")
            if spend := content.get("spend"):
                say(f"{which}: {_spending(spend)}")
        last[:] = [job, step, session]

    return tell


def _spending(spend: dict[str, Any]) -> str:
    """What a session cost, by the party's own ledger."""
    cost = f"epsilon={spend['epsilon']:.6g}" + (f", delta={spend['delta']:.3g}" if spend["delta"] else "")
    of = f"{spend['total']:.6g} of {spend['cap']:.6g} is spent"
    match spend["state"]:
        case "released":
            return f"spent {cost}; {of}"
        case "void":
            return f"the booking of {cost} is void"
        case _:
            from colonnade.protocol.codes import BOOKED_COUNTS

            return f"booked {cost}; {of}; {BOOKED_COUNTS}"

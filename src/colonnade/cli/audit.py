"""`colonnade audit`: attacks on a study's plan, and audits of what one party did in an accountable session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from colonnade.cli.options import Json
from colonnade.cli.screen import print_json, stderr, stdout
from colonnade.foundation.errors import PrivacyError, ProtocolError
from colonnade.foundation.parts import local_path

if TYPE_CHECKING:
    from colonnade.protocol.kinds import PartyTask
    from colonnade.sites.site import Site


class _StudyByDefault(TyperGroup):
    """`colonnade audit STUDY` is `colonnade audit study STUDY`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0].startswith("-"))
        return super().parse_args(ctx, args if named or not args else ["study", *args])


app = typer.Typer(cls=_StudyByDefault, no_args_is_help=True, help="Attack a study, or audit what one party did.")


@app.command("study", short_help="Attack a study: lower bounds on the epsilon of every view.")
def audit(
    study: Annotated[
        Path, typer.Argument(parser=local_path, metavar="STUDY", help="Study file (TOML); its data files are not read.")
    ],
    seconds: Annotated[
        int, typer.Option("--seconds", metavar="N", min=1, help="Time for sessions; drawing noise takes as much again.")
    ] = 30,
    rows: Annotated[
        int | None,
        typer.Option("--rows", metavar="N", min=2, help="Records of the invented data; about 16 if not given."),
    ] = None,
    json: Json = False,
) -> None:
    """Attack a study: run sessions on invented worst-case data, and bound from below the epsilon of every view."""
    from colonnade.audit.rehearsal import rehearse
    from colonnade.audit.tables import finding_json, findings_table
    from colonnade.study import read_study

    agreement = read_study(study).agreement
    rehearsal = rehearse(agreement, seconds, rows)
    broken = [f for f in rehearsal.findings if f.broken]
    if json:
        told = {"study": agreement.name, "product": "lattice", "delta": agreement.delta, "sessions": rehearsal.sessions}
        print_json({**told, "broken": len(broken), "views": [finding_json(f) for f in rehearsal.findings]})
    else:
        stdout().print(findings_table(rehearsal.findings))
        stdout().print(
            f"{rehearsal.sessions:,} sessions of this study's plan on invented data of {rehearsal.rows} records; "
            "each bound holds with 99.9% confidence. No data was read and nothing was spent."
        )
        if agreement.product != "lattice" and len(agreement.schema.names) > 1:
            stderr().print("The sessions ran with the lattice product, whatever the study names.")
    if broken:
        worst = broken[0]
        raise PrivacyError(
            f"the audit proves epsilon={max(worst.proved, worst.drawn or 0.0, worst.loss or 0.0):.3g} for the view "
            f"{worst.view} of {', '.join(worst.scope)}, where epsilon={worst.claimed:.3g} is claimed"
        )


@app.command("session", short_help="Make a party's messages of a session again, and say where they differ.")
def audit_one(
    evidence: Annotated[
        Path, typer.Argument(parser=local_path, metavar="EVIDENCE", help="The session's folder: SITE/evidence/SESSION.")
    ],
    sign: Annotated[
        Path,
        typer.Option(
            "--sign", parser=local_path, metavar="KEY", help="The auditor's Ed25519 key (PEM), made if there is none."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", parser=local_path, metavar="FILE", help="Verdict file to write.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", parser=local_path, metavar="FILE", help="The party's data; its site's if not given."),
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option("--site", parser=local_path, metavar="FOLDER", help="The party's folder, if EVIDENCE was moved."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", parser=local_path, metavar="FILE", help="Key of the evidence; the site's if not given."),
    ] = None,
    against: Annotated[
        list[Path] | None,
        typer.Option("--against", parser=local_path, metavar="EVIDENCE", help="A peer's evidence: repeat the option."),
    ] = None,
    json: Json = False,
) -> None:
    """Audit one party on its own premises: replay what it sent from its seed and data, and sign what was found."""
    from dataclasses import asdict

    from colonnade.audit.session import audit_session
    from colonnade.audit.verdict import auditor_key, note_audit, read_verdict, require_few, write_verdict
    from colonnade.foundation.files import Place, places
    from colonnade.sites.evidence import KeptEvidence, read_key
    from colonnade.sites.site import PARTY, read_site

    kept = KeptEvidence.read(evidence)
    place = read_site(site or evidence.resolve().parent.parent, PARTY)
    require_few(kept, place.study.agreement.collusion)
    with places(Place(out, new=True)) as (file,):
        opening = kept.opening(read_key(key or place.evidence_key))
        task = _task(place, str(kept.facts.get("kind")), data)
        found = audit_session(kept, opening, task, [KeptEvidence.read(peer) for peer in against or []])
        content = write_verdict(found, auditor_key(sign))
        file.write(content)
    note_audit(kept, read_verdict(content))
    if json:
        print_json(asdict(found))
    else:
        stdout().print(f"{found.replayed:,} messages of {found.party} were made again and are the same.")
        for told in found.left_out:
            stdout().print(f"Not made again: {told}.")
        peers = ", ".join(found.compared) or "nobody: it could have written its own notes anew"
        stdout().print(f"Compared with what is held by {peers}. The verdict is in {out}.")
    if found.deviation is not None:
        raise ProtocolError(f"{found.party} did not follow the protocol: {found.deviation.sentence}")


def _task(site: Site, kind: str, data: Path | None) -> PartyTask:
    """The party's part, as its files state it, that asks nobody and keeps nothing."""
    from colonnade.data.table import read_table
    from colonnade.foundation.errors import SiteError
    from colonnade.foundation.workers import HERE
    from colonnade.protocol.guard import Unguarded
    from colonnade.sites.recipes import FitRecipe, PredictRecipe, Recipe

    recipes: tuple[type[Recipe], ...] = (FitRecipe, PredictRecipe)
    recipe = next((one for one in recipes if one.kind.name == kind), None)
    if recipe is None:
        raise SiteError(f"the evidence is of a session for {kind!r}, which nobody here can make again")
    task: Any = recipe(site).party_task(Unguarded(), HERE)
    task.keep = None
    if data is not None:
        task.source = lambda: read_table(site.party, data, task.columns, site.source.id)
    return task  # type: ignore[no-any-return]


@app.command("verify", short_help="Check a verdict, and note it in one's own evidence.")
def verify(
    verdict: Annotated[Path, typer.Argument(parser=local_path, metavar="VERDICT", help="Verdict file of an auditor.")],
    evidence: Annotated[
        Path | None,
        typer.Option("--evidence", parser=local_path, metavar="EVIDENCE", help="One's own evidence of the session."),
    ] = None,
    json: Json = False,
) -> None:
    """Check that a verdict is what its auditor signed; whose key that is, people must compare."""
    from colonnade.audit.verdict import note_audit, read_verdict
    from colonnade.foundation.files import read_whole
    from colonnade.sites.evidence import KeptEvidence

    content = read_verdict(read_whole(verdict, "verdict"))
    if evidence is not None:
        note_audit(KeptEvidence.read(evidence), content)
    if json:
        print_json(content)
        return
    found = content["deviation"]
    said = "followed the protocol" if found is None else f"did not follow the protocol: {found['sentence']}"
    stdout().print(f"Auditor {content['auditor'][:16]}: {content['party']} {said}.")
    peers = ", ".join(content["compared"]) or "nobody"
    stdout().print(f"{content['replayed']:,} messages were made again, and compared with what is held by {peers}.")
    if evidence is not None:
        stderr().print("The audit is noted in the evidence: audits of more parties than collusion are refused.")

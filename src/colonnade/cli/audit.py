"""`colonnade audit`: attacks on a study's plan, and audits of what one party did in an accountable session."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer.core import TyperGroup

from colonnade.cli.options import Json, group, option, path_argument, path_option
from colonnade.cli.screen import print_json, stderr, stdout
from colonnade.foundation.errors import PrivacyError, ProtocolError, StudyError


class _StudyByDefault(TyperGroup):
    """`colonnade audit STUDY` is `colonnade audit study STUDY`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0].startswith("-"))
        return super().parse_args(ctx, args if named or not args else ["study", *args])


app = group("Attack a study, or audit what one party did.", cls=_StudyByDefault)


@app.command("study", short_help="Attack a study: lower bounds on the epsilon of every view.")
def audit(
    study: Annotated[Path, path_argument("STUDY", "Study file (TOML); its data files are not read.")],
    seconds: Annotated[
        int, option("--seconds", "N", "Time for sessions; drawing noise takes as much again.", min=1)
    ] = 30,
    rows: Annotated[
        int | None, option("--rows", "N", "Records of the invented data; about 16 if not given.", min=2)
    ] = None,
    json: Json = False,
) -> None:
    """Attack a study: run sessions on invented worst-case data, and bound from below the epsilon of every view."""
    from colonnade.audit.findings import finding_json, findings_table, rehearse
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


UNAGREED = "The parties agreed on no auditor: any key may have signed."
Evidence = Annotated[Path, path_argument("EVIDENCE", "The session's folder: SITE/evidence/SESSION.")]
Data = Annotated[Path | None, path_option("--data", "The party's data; its site's if not given.")]
SiteFolder = Annotated[Path | None, path_option("--site", "The party's folder, if EVIDENCE was moved.", "FOLDER")]
StudyFile = Annotated[Path | None, path_option("--study", "Of a run in one process, in place of a site.", "STUDY")]
Key = Annotated[Path | None, path_option("--key", "Key of the evidence; the site's if not given.")]
Came = Annotated[list[Path] | None, path_option("--came", "Messages that a peer made again: repeat the option.")]


AuditorKey = path_option("--sign", "The auditor's Ed25519 key (PEM), made if there is none.", "KEY")


@app.command("start", short_help="Sign, as an auditor, that an audit of a party begins.")
def start_audit(
    session: Annotated[str, option("--session", "ID", "The session's id in hexadecimal.")],
    party: Annotated[str, option("--party", "NAME", "Who is to be audited.")],
    sign: Annotated[Path, AuditorKey],
    out: Annotated[Path, path_option("--out", "Start file to write.")],
) -> None:
    """Sign that an audit begins, before a seed is seen: the audited party and its peers are shown it and note it."""
    from colonnade.audit.verdict import auditor_key, public_key, write_start
    from colonnade.foundation.files import Place, places

    key = auditor_key(sign)
    with places(Place(out, new=True)) as (file,):
        file.write(write_start(session.lower(), party, key))
    stdout().print(f"The start is in {out}, signed by {public_key(key)}. Show it to {party} and to its peers.")


@app.command("session", short_help="Make a party's messages of a session again, and say where they differ.")
def audit_one(
    evidence: Evidence,
    out: Annotated[Path, path_option("--out", "Finding, or verdict, to write.")],
    sign: Annotated[Path | None, AuditorKey] = None,
    start: Annotated[Path | None, path_option("--start", "Start that an agreed auditor signed.")] = None,
    data: Data = None,
    site: SiteFolder = None,
    study: StudyFile = None,
    key: Key = None,
    model: Annotated[Path | None, path_option("--model", "With --study: the model that was evaluated.")] = None,
    release: Annotated[
        Path | None, path_option("--release", "With --model: the release that evaluate was given.")
    ] = None,
    against: Annotated[
        list[Path] | None, path_option("--against", "A peer's evidence: repeat the option.", "EVIDENCE")
    ] = None,
    came: Came = None,
    authority: Annotated[
        Path | None,
        path_option("--authority", "Certificate of the session's authority (PEM); the site's if not given."),
    ] = None,
    json: Json = False,
) -> None:
    """Audit one party on its own premises: replay what it sent from its seed and data, and write what was found.

    The finding is signed elsewhere, by `colonnade audit sign`. Where the parties agreed on no auditor, --sign does it
    here.
    """
    from msgspec import to_builtins

    from colonnade.audit.premises import AuditedSite
    from colonnade.audit.verdict import auditor_key, note_audit, read_start, said_of, sign_finding, write_finding
    from colonnade.foundation.files import Place, places, read_whole

    place = AuditedSite.open(evidence, site=site, study=study, data=data, key=key, model=model, release=release)
    if place.auditors and sign is not None:
        raise StudyError(
            "the parties agreed on auditors, whose keys never lie at an audited party: leave --sign out, and sign what "
            "is found elsewhere, by colonnade audit sign"
        )
    started = None if start is None else read_start(read_whole(start, "start"))
    place.require_start(started, against or [])
    with places(Place(out, new=True)) as (file,):
        if started is not None:
            note_audit(place.kept, started)
        found = place.audit(against or [], came or [], authority)
        content = write_finding(found, place.auditors, started)
        file.write(content if sign is None else sign_finding(content, auditor_key(sign)))
    if json:
        print_json(to_builtins(found))
    else:
        stdout().print(f"{found.replayed:,} messages of {found.party} were made again and are the same.")
        for told in found.left_out:
            stdout().print(f"Not made again: {told}.")
        for told in found.doubts:
            stdout().print(f"Not counted: {told}.")
        peers = ", ".join(found.compared) or "nobody: it could have written its own notes anew"
        stdout().print(f"Compared with what is held by {peers}.")
        if not found.authority:
            stdout().print("No certificates were at hand: no signature could be checked, and nothing convicts.")
        if sign is None:
            stdout().print(f"The finding is in {out}: sign it elsewhere, by colonnade audit sign.")
        else:
            stdout().print(f"The verdict is in {out}. {UNAGREED}")
    if not found.passed:
        raise ProtocolError(said_of(to_builtins(found)))


@app.command("sign", short_help="Sign, as an auditor, what was found at a party.")
def sign_found(
    finding: Annotated[Path, path_argument("FINDING", "What colonnade audit session wrote.")],
    sign: Annotated[Path, AuditorKey],
    out: Annotated[Path, path_option("--out", "Verdict file to write.")],
) -> None:
    """Sign a finding on the auditor's own machine: from there on it is a verdict that others can check."""
    from colonnade.audit.verdict import auditor_key, read_verdict, said_of, sign_finding
    from colonnade.foundation.files import Place, places, read_whole

    with places(Place(out, new=True)) as (file,):
        content = sign_finding(read_whole(finding, "finding"), auditor_key(sign))
        file.write(content)
    verdict = read_verdict(content)
    stdout().print(f"Signed by {verdict['auditor']}: {said_of(verdict)}. The verdict is in {out}.")
    if not verdict["auditors"]:
        stdout().print(UNAGREED)


@app.command("resend", short_help="Make one's own messages to a peer again, for the peer's audit.")
def resend(
    evidence: Evidence,
    to: Annotated[str, option("--to", "PARTY", "Whose audit needs them.")],
    out: Annotated[Path, path_option("--out", "Message file to write.")],
    data: Data = None,
    site: SiteFolder = None,
    study: StudyFile = None,
    key: Key = None,
    came: Came = None,
) -> None:
    """Make again what this party sent to a peer that keeps no traffic: the peer had it all in the session."""
    from io import BytesIO

    from colonnade.audit.premises import AuditedSite
    from colonnade.foundation.files import Place, places

    place = AuditedSite.open(evidence, site=site, study=study, data=data, key=key)
    messages = BytesIO()
    with places(Place(out, new=True)) as (file,):
        made, lacks = place.resend(to, came or [], messages)
        file.write(messages.getvalue())
    stdout().print(f"{made:,} messages to {to} were made again, and are in {out}.")
    if lacks:
        stderr().print(f"More could not be made: {lacks} was not kept; its sender can make it again.")


@app.command("verify", short_help="Check a verdict or a start, and note it in one's own evidence.")
def verify(
    verdict: Annotated[Path, path_argument("VERDICT", "Verdict, or start, of an auditor.")],
    evidence: Annotated[
        Path | None, path_option("--evidence", "One's own evidence of the session.", "EVIDENCE")
    ] = None,
    auditor: Annotated[
        str | None, option("--auditor", "KEY", "The agreed auditor's public key in hexadecimal.")
    ] = None,
    json: Json = False,
) -> None:
    """Check that a verdict is what its auditor signed, and that the audited party signed what it quotes."""
    from colonnade.audit.premises import check_quotes, require_same_authority
    from colonnade.audit.verdict import START, note_audit, read_start, read_verdict, said_of
    from colonnade.foundation.files import read_whole
    from colonnade.transport.evidence import KeptEvidence

    data = read_whole(verdict, "verdict")
    starts = START.encode() in data and b'"outcome"' not in data
    content = read_start(data) if starts else read_verdict(data)
    if auditor is not None and auditor.lower() != content["auditor"]:
        raise ProtocolError(f"the verdict is signed by {content['auditor'][:16]}, and not by the auditor who was named")
    quoted: bool | None = None
    if evidence is not None:
        kept = KeptEvidence.read(evidence)
        agreed = kept.facts.get("auditors")
        if isinstance(agreed, list) and agreed and content["auditor"] not in agreed:
            raise ProtocolError(f"it is signed by {content['auditor'][:16]}, on whom the parties have not agreed")
        if not starts:
            require_same_authority(kept, content)
            quoted = check_quotes(content, kept)
            if quoted is False:
                raise ProtocolError(f"the verdict quotes what {content['party']} did not sign in this session")
        note_audit(kept, content)
    if json:
        print_json(content)
        return
    if starts:
        stdout().print(f"Auditor {content['auditor']} starts an audit of {content['party']} on {content['date']}.")
    else:
        stdout().print(f"Auditor {content['auditor']}: {said_of(content)}.")
        peers = ", ".join(content["compared"]) or "nobody"
        stdout().print(f"{content['replayed']:,} messages were made again, and compared with what is held by {peers}.")
        for quote in content["quotes"]:
            stdout().print(f"Quoted, as {quote['holder']} holds it: {quote['about']} {quote['value']}.")
        if quoted and content["quotes"]:
            stdout().print(f"What is quoted is signed by {content['party']}, by the authority of this session.")
        if not content["authority"]:
            stdout().print("The auditor had no certificates: no signature was checked.")
        if not content["auditors"]:
            stdout().print(UNAGREED)
    if evidence is not None:
        stderr().print("Starts of agreed auditors are noted in the evidence: more of them than collusion are refused.")

"""The texts in an organisation's folder: what to do there, what it agrees to, where its data lies."""

from __future__ import annotations

from contextlib import suppress
from math import ceil

from colonnade.consent.policy import bits_told
from colonnade.flare.certificates import Address
from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.foundation.matching import TWICE
from colonnade.foundation.shown import OPEN
from colonnade.foundation.toml import toml_section, toml_value
from colonnade.mechanism.composition import charge_of
from colonnade.mechanism.plan import View
from colonnade.planning.leakage import people_sentence
from colonnade.planning.session_plan import SessionPlan
from colonnade.protocol.evidence import EVIDENCE_DAYS, auditors_named
from colonnade.sites.site import COORDINATOR, PARTY, POLICY, SERVER, SITE, STUDY
from colonnade.study import StudySpec

_HEAD = """# {title}: study {study}

Keep this folder private: it holds the key of a certificate. Nobody else needs any file of it.
"""
_KEYLESS = """# {title}: study {study}

This folder has no key yet. Make one here, and keep the folder private from then on; nobody else ever has the key:

    colonnade cert request .                  # writes NAME.csr and prints a fingerprint; send the file to the authority
    colonnade cert approve authority NAME.csr # there: compare the fingerprint by telephone; NAME.crt comes back
    colonnade cert install . NAME.crt
"""
_PARTY = """
1. Install: `pip install 'colonnade[flare]'`, in the same version as the others.
2. Read `{study_file}`: what is computed, from which of your columns, within which bounds. It must be the study that you
   agreed to; a plan of any other study is refused.
3. Write into `{site}` where your data lies, and read `{policy}`: what you agree to, and the most that may be spent.
   A data protection officer signs for these two files. They are read on this machine only.
4. Run `./start.sh` and leave it running. It connects to {address} (outgoing, TCP) and to nothing else.
   Each session is checked against `{policy}`, booked in the ledger before anything leaves, and told here.
5. After a session: `colonnade ledger show ledger.sqlite`, and the release in `releases/`.
   `evidence/` has what the session can be audited by. Its secrets lie under the key in `evidence.key`: let that lie on
   another disk (`evidence_key` in `{site}`). They are destroyed after `keep_evidence` of `{policy}`.
   {auditors}
6. To score new records by a model of the release: `[prediction]` in `{site}`, and `scores_to` in `{policy}`, which says
   who may open scores that your columns are in. A score is exact: nobody may unless you say so.

Sessions are started by the coordinator. Code is never taken from the server (`local/authorization.json`,
`local/resources.json`), logs are never sent, and other organisations are told a code where something fails: your own
sentences are in `status.json` and `log.txt`; `JOB/log.txt` has what went before, for the last 20 sessions.

To stop: Ctrl-C, or SIGTERM to the process. A session that has booked nothing ends there, and nothing is spent.
"""
_SERVER = """
1. Install: `pip install 'colonnade[flare]'`, in the same version as the parties.
2. Open {address} for incoming TCP from the parties and the coordinator; nothing else.
3. Run `./start.sh` and leave it running. It relays, adds up and opens; it sees no column and no unmasked sum.
4. Keep `sessions.jsonl`: it tells parties afterwards whether a broken session counts as spent.
5. To let parties score new records: `[prediction]` in `{site}`, the same as theirs. The scores do not come here.
"""
_COORDINATOR = """
`./start.sh` starts one session of the study, shows how far it is, and writes the release here. All parties and the
server must be running. It cannot choose data, change the study, or send code.

`./start.sh --predict` scores records by a model of the release, where `[prediction]` in `{site}` says the same at all
sites. The scores stay with their receiver: you are told how many, and where.
"""
_FOOT = """
Certificates end after 360 days; `colonnade cert request` asks for a new one. `colonnade doctor` looks for faults. Of
Colonnade's pages, docs/administrator.md has firewalls, renewal, backup and upgrades, docs/troubleshooting.md the rest.
"""
SMALLEST_ROWS = 1000  # a policy's first proposal; its party writes its own
ROOM = 1.25
"""What partners could read goes up and down with n, by leaps of a bit a value."""
DOUBLINGS = 10
"""Plans of up to a million records are looked at."""
START = {SERVER: "colonnade server start", PARTY: "colonnade party start", COORDINATOR: "colonnade run"}


def readme(study: StudySpec, role: str, party: str, address: Address, keyless: bool = False) -> str:
    title = f"Party {party}" if role == PARTY else role.capitalize()
    body = {SERVER: _SERVER, PARTY: _PARTY, COORDINATOR: _COORDINATOR}[role]
    values = {
        "title": title,
        "study": study.agreement.name,
        "address": f"{address.host}:{address.port}",
        "site": SITE,
        "policy": POLICY,
        "study_file": STUDY,
        "auditors": auditors_named(study.agreement.auditors),
    }
    return ((_KEYLESS if keyless else _HEAD) + body + _FOOT).format(**values)


def start_script(role: str) -> str:
    return f'#!/bin/sh\n# {START[role]}, for this folder.\nexec {START[role]} "$(dirname "$0")" "$@"\n'


def prediction_template(study: StudySpec, role: str, party: str) -> str:
    """The section that asks for a prediction, not in force before somebody takes the marks away."""
    agreement = study.agreement
    names, receiver = agreement.schema.names, agreement.schema.find(agreement.label)[0]
    lines = [
        "",
        "# To score new records by a model of the release: take the marks away; all sites must say the same.",
        "# [prediction]",
        "# The model file, handed from person to person; nothing about it is taken from the server.",
        '# model = "model.json"',
        f"# The one party that opens the scores, exactly: one of {', '.join(names)}.",
        f"# to = {toml_value(receiver)}",
    ]
    if role == PARTY:
        lines += [
            "# The records to score, if not those of the study; the label column is not needed.",
            '# data = "new.csv"',
            "# Their column of ids, if it has another name.",
            f"# id = {toml_value(_id(study, party) or 'id')}",
        ]
    return "\n".join([*lines, ""])


def _id(study: StudySpec, party: str) -> str | list[str] | None:
    column = study.sources[party].id
    return list(column) if isinstance(column, tuple) else column


def site_file(study: StudySpec, role: str, party: str) -> str:
    """Where things lie on the organisation's machine."""
    template = prediction_template(study, role, party)
    if role != PARTY:
        return toml_section("site", {"role": role}) + template
    head = "# Read on this machine only. Paths are relative to this folder, or absolute.\n"
    content: dict[str, str | list[str]] = {"role": role, "party": party, "data": OPEN}
    if (column := _id(study, party)) is not None:
        content["id"] = column
    content |= {"dataset": f"{party} data", "policy": POLICY, "ledger": "ledger.sqlite", "releases": "releases"}
    return head + toml_section("site", content) + template


def policy_file(study: StudySpec, party: str) -> str:
    """A template that agrees to this study once, and to nothing else."""
    agreement, sessions = study.agreement, _sessions(study)
    # It depends a little on n, which alignment alone tells.
    offer = float(f"{1.01 * max(charge_of(s.plan, party).epsilon for s in sessions):.4g}")
    others = [name for name in agreement.schema.names if name != party]
    worst = max(sessions, key=lambda session: bits_told(session, party))
    told, rows = bits_told(worst, party), worst.rows
    tellings = [one for one in worst.tellings if one.partner == party]
    lines = [
        "# What this organisation agrees to. Written from the study; read it, change it, and sign for it.",
        "[policy]",
        f"party = {toml_value(party)}",
        f"partners = {toml_value(others)}",
        f"labels = {toml_value(['.'.join(agreement.schema.find(agreement.label))])}",
        f"columns = {toml_value(list(agreement.schema.parties[party]))}",
        f"tasks = {toml_value([agreement.task.value])}",
        f"products = {toml_value([agreement.product])}",
        f"smallest_collusion = {agreement.collusion}",
        *([f"proofs = {toml_value(agreement.proofs)}"] if agreement.proofs else []),
        "# The fewest common records; a session of fewer is refused.",
        f"smallest_rows = {smallest_rows(study)}",
        *_views(sessions, party),
        "# How often ids of this data may be matched with those of partners; a refused session may match them too.",
        "largest_alignments = 20",
        "# How many sessions may end without a release after this data was read: refused, or broken by a partner.",
        "largest_attempts = 20",
        "# Lists of partners: at most twice as many ids as ours, or 500; or a number, of ids that one may be able to",
        "# test: 1.3 times its list, and 160 a bin. Ids that a partner invents within such a list are not found.",
        f"largest_list = {toml_value(TWICE)}",
        f"# {people_sentence(tellings, rows) or 'No partner could read exact values.'}",
        "# This is for all sessions on this data: one more needs as many again.",
        f"largest_bits_told = {ceil(ROOM * told)}",
        "# How long the secrets in evidence/ are kept, by which a session can be audited; then they are destroyed.",
        f"# {auditors_named(agreement.auditors)}",
        f'keep_evidence = "{EVIDENCE_DAYS} days"',
        "# Parties that may open exact scores of records by these columns, colonnade run --predict; nobody, if empty.",
        "scores_to = []",
        "# true: a person approves each plan by the digest of its terms, colonnade approve DIGEST --site FOLDER",
        "require_approval = false",
        "",
        "# The most that may be spent of this party's part of a record: the price of one session.",
        "[session]",
        f"epsilon = {offer!r}",
        f"delta = {agreement.delta!r}",
        "",
        "[total]",
        f"epsilon = {offer!r}",
        "# Room for two sessions: one that breaks after submissions have left stays booked and counts as spent.",
        f"# epsilon = {2 * offer!r}",
        f"delta = {agreement.delta!r}",
        *([f"# delta = {2 * agreement.delta!r}  # for two sessions by rule sum"] if agreement.delta else []),
        "",
    ]
    return "\n".join(lines)


def smallest_rows(study: StudySpec) -> int:
    """What the templates ask for, unless the study itself expects fewer."""
    return SMALLEST_ROWS if study.rows is None else min(SMALLEST_ROWS, study.rows)


def _views(sessions: list[SessionPlan], party: str) -> list[str]:
    """Views without a guarantee must be left out by name, so that whoever signs reads of it."""
    held = [view for view in View if all(s.views(party)[view] is not None for s in sessions)]
    if len(held) == len(View):
        return []
    bare = ", ".join(view.value for view in View if view not in held)
    return [
        f"# Guarantees that the plan must give. THIS STUDY GIVES NONE AGAINST: {bare}.",
        f"views = {toml_value([view.value for view in held])}",
    ]


def _sessions(study: StudySpec) -> list[SessionPlan]:
    """Plans of the study for n as large as it says, or may be."""
    # A party's part goes up and down with n, and by leaps: few sizes would miss the most that it can be.
    sizes = (study.rows,) if study.rows is not None else tuple(SMALLEST_ROWS << k for k in range(DOUBLINGS + 1))
    sessions = []
    for n in sizes:
        # Not every n has a plan.
        with suppress(ColonnadeError):
            sessions.append(study.session(n))
    if not sessions:
        raise StudyError(f"there is no plan for this study with n={sizes[-1]}: colonnade plan says why")
    return sessions

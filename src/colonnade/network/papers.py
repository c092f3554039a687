"""The texts in an organisation's folder: what to do there, what it agrees to, where its data lies."""

from __future__ import annotations

from contextlib import suppress

from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.mechanism.composition import charge_of
from colonnade.network.provision import Address
from colonnade.network.site import COORDINATOR, PARTY, POLICY, SERVER, SITE, STUDY, UNSET
from colonnade.network.toml import toml_section, toml_value
from colonnade.protocol.session import TYPICAL_ROWS
from colonnade.study import Study

_HEAD = """# {title}: study {study}

Keep this folder private: it holds the key of a certificate. Nobody else needs any file of it.
"""
_PARTY = """
1. Install: `pip install 'colonnade[flare]'`, in the same version as the others.
2. Read `{study_file}`: what is computed, from which of your columns, within which bounds. It must be the study that you
   agreed to; a plan of any other study is refused.
3. Write into `{site}` where your data lies, and read `{policy}`: what you agree to, and the most that may be spent.
   A privacy officer signs for these two files. They are read on this machine only.
4. Run `./start.sh` and leave it running. It connects to {address} (outgoing, TCP) and to nothing else.
   Each session is checked against `{policy}`, booked in the ledger before anything leaves, and told here.
5. After a session: `colonnade ledger show ledger.sqlite`, and the release in `releases/`.

Sessions are started by the coordinator. Code is never taken from the server (`local/authorization.json`,
`local/resources.json`), logs are never sent, and other organisations are told a code where something fails: your own
sentences are in `status.json` and `log.txt`.
"""
_SERVER = """
1. Install: `pip install 'colonnade[flare]'`, in the same version as the parties.
2. Open {address} for incoming TCP from the parties and the coordinator; nothing else.
3. Run `./start.sh` and leave it running. It relays, adds up and opens; it sees no column and no unmasked sum.
4. Keep `sessions.jsonl`: it tells parties afterwards whether a broken session counts as spent.
"""
_COORDINATOR = """
`./start.sh` starts one session of the study, shows how far it is, and writes the release here. All parties and the
server must be running. It cannot choose data, change the study, or send code.
"""
_FOOT = """
Certificates end after 360 days; whoever ran `colonnade deploy new` makes new ones. docs/deployment.md of Colonnade has
firewalls, rotation, backup, upgrades, and what to do when a run breaks.
"""
START = {SERVER: "colonnade server start", PARTY: "colonnade party start", COORDINATOR: "colonnade run"}


def readme(study: Study, role: str, party: str, address: Address) -> str:
    title = f"Party {party}" if role == PARTY else role.capitalize()
    body = {SERVER: _SERVER, PARTY: _PARTY, COORDINATOR: _COORDINATOR}[role]
    values = {
        "title": title,
        "study": study.agreement.name,
        "address": f"{address.host}:{address.port}",
        "site": SITE,
        "policy": POLICY,
        "study_file": STUDY,
    }
    return (_HEAD + body + _FOOT).format(**values)


def start_script(role: str) -> str:
    return f'#!/bin/sh\n# {START[role]}, for this folder.\nexec {START[role]} "$(dirname "$0")" "$@"\n'


def site_file(study: Study, role: str, party: str) -> str:
    """Where things lie on the organisation's machine."""
    if role != PARTY:
        return toml_section("site", {"role": role})
    head = "# Read on this machine only. Paths are relative to this folder, or absolute.\n"
    content = {"role": role, "party": party, "data": UNSET}
    if study.sources[party].id is not None:
        content["id"] = str(study.sources[party].id)
    content |= {"dataset": f"{party} data", "policy": POLICY, "ledger": "ledger.sqlite", "releases": "releases"}
    return head + toml_section("site", content)


def policy_file(study: Study, party: str) -> str:
    """A template that agrees to this study once, and to nothing else."""
    agreement = study.agreement
    offer = float(f"{1.01 * _price(study, party):.4g}")
    others = [name for name in agreement.schema.names if name != party]
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
        "smallest_rows = 1000",
        "# true: a person approves each plan by the digest of its terms, colonnade party start --approve DIGEST",
        "require_approval = false",
        "",
        "# The most that may be spent of this party's part of a record: the price of one session.",
        "[session]",
        f"epsilon = {offer!r}",
        f"delta = {agreement.delta!r}",
        "",
        "[total]",
        f"epsilon = {offer!r}",
        f"delta = {agreement.delta!r}",
        "",
    ]
    return "\n".join(lines)


def _price(study: Study, party: str) -> float:
    """A party's part of epsilon in one session; it depends a little on n, which alignment alone tells."""
    sizes = (study.rows,) if study.rows is not None else (TYPICAL_ROWS // 10, TYPICAL_ROWS, 100 * TYPICAL_ROWS)
    prices = []
    for n in sizes:
        # Not every n has a plan.
        with suppress(ColonnadeError):
            prices.append(charge_of(study.session(n).plan, party).epsilon)
    if not prices:
        raise StudyError(f"there is no plan for this study with n={sizes[-1]}: colonnade plan says why")
    return max(prices)

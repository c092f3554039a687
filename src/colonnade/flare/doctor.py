"""`colonnade doctor` and `colonnade status`: what is wrong with an organisation's folder, and how it is doing."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from colonnade.consent.guard import ConsentGuard
from colonnade.consent.ledger import open_ledger
from colonnade.flare.certificates import check_certificate, own_address, probe, probe_own, require_pair, server_address
from colonnade.flare.launch import EVENTS, check_local, check_port
from colonnade.flare.monitor import LEAST_FREE
from colonnade.flare.process import RUNNING, dead
from colonnade.flare.renewal import bearer, own_certificate
from colonnade.flare.signing import CertificateSigner
from colonnade.flare.status import last_word, look, unfinished
from colonnade.foundation.canonical import canonical_json
from colonnade.foundation.errors import ColonnadeError, LedgerError, SiteError, StudyError
from colonnade.foundation.files import require_locks
from colonnade.protocol.codes import BOOKED_COUNTS
from colonnade.protocol.messages import versions
from colonnade.sites.site import COORDINATOR, PARTY, SERVER, SITE, STARTUP, STATUS, Site, read_site

FLARE = (2, 9)  # the engine's version that sessions were tried with
SOON = timedelta(days=30)
"""A certificate that ends within so long should be renewed."""
TRIAL = b"colonnade doctor"
CLOCK_SLACK = timedelta(minutes=5)  # clocks without NTP drift by seconds a day


class Remark(Exception):
    """Something to know of that keeps no session from running."""


@dataclass(frozen=True)
class Diagnosis:
    """What one look at a folder found: `fault` keeps sessions from running, `remark` will some day."""

    site: str
    about: str
    verdict: str
    """ok, remark or fault."""
    sentence: str


Look = Callable[[Site], str]
"""Says what is well, or raises."""


def find_folders(places: Sequence[Path]) -> list[Path]:
    """The folders themselves, or those of a deployment that lie in one place."""
    folders: list[Path] = []
    for place in places:
        inside = sorted(path.parent for path in place.glob(f"*/{SITE}")) if place.is_dir() else []
        folders += [place] if (place / SITE).is_file() or not inside else inside
    return folders


def examine(places: Sequence[Path]) -> list[Diagnosis]:
    """Every look at every folder, and a comparison of their studies; nothing is changed, and nothing is spent."""
    findings, terms = [], {}
    for folder in find_folders(places):
        try:
            site = read_site(folder)
        except (ColonnadeError, OSError) as error:
            findings.append(Diagnosis(folder.name, "folder", "fault", str(error)))
            continue
        findings += _look_at_all(site)
        terms[site.name] = canonical_json(site.study.agreement.to())
    if len(set(terms.values())) > 1:
        first = next(iter(terms))
        others = [name for name, digest in terms.items() if digest != terms[first]]
        told = f"study.toml of {', '.join(others)} states other terms than that of {first}: sessions will be refused"
        findings.append(Diagnosis("all", "study", "fault", told))
    return findings


def _look_at_all(site: Site) -> list[Diagnosis]:
    """One fault is told once, under the first name that it has."""
    findings: list[Diagnosis] = []
    for about, look_at, roles in LOOKS:
        if site.role not in roles:
            continue
        found = _look(site, about, look_at)
        if found.verdict != "fault" or found.sentence not in [f.sentence for f in findings]:
            findings.append(found)
    return findings


def _look(site: Site, about: str, look_at: Look) -> Diagnosis:
    try:
        return Diagnosis(site.name, about, "ok", look_at(site))
    except Remark as error:
        return Diagnosis(site.name, about, "remark", str(error))
    except (ColonnadeError, OSError) as error:
        return Diagnosis(site.name, about, "fault", str(error))


def look_at_version(site: Site) -> str:
    require_locks()
    try:
        engine = version("nvflare")
    except PackageNotFoundError:
        raise SiteError("nvflare is not installed: pip install 'colonnade[flare]'") from None
    if tuple(int(part) for part in engine.split(".")[:2]) != FLARE:
        raise SiteError(f"nvflare must be {FLARE[0]}.{FLARE[1]}, got {engine}: all sites need the same")
    if site.role != COORDINATOR:
        check_local(site.folder)
    return f"{versions()}, nvflare {engine}, Python {platform.python_version()}, {sys.platform}"


def look_at_certificate(site: Site) -> str:
    check_certificate(site.folder, *bearer(site))
    name, shown = own_certificate(site)
    end = shown.not_valid_after_utc
    if end - datetime.now(UTC) < SOON:
        raise Remark(f"the certificate of {name} ends on {end:%Y-%m-%d}: colonnade cert request renews it")
    return f"of {name}, until {end:%Y-%m-%d}"


def look_at_key(site: Site) -> str:
    require_pair(site.folder, *bearer(site))
    key = site.folder / STARTUP / f"{bearer(site)[1]}.key"
    mode = stat.S_IMODE(key.stat().st_mode)
    if mode & 0o077:
        raise SiteError(f"{STARTUP}/{key.name} can be read by others (mode {mode:o}): chmod 600")
    return "for its owner's eyes alone"


def look_at_signing(site: Site) -> str:
    """The agent is asked for a signature: it may be locked, or the token may be gone."""
    if site.signing_agent is None:
        return "by the key of its certificate"
    signer = CertificateSigner(site.folder, site.party, site.signing_agent)
    signer.check(site.party, TRIAL, signer.sign(TRIAL))
    return f"by a key that the agent at {site.signing_agent} holds"


def look_at_clock(site: Site) -> str:
    """No clock is asked: this one must lie after all that was written here, and in the certificate's time."""
    now = datetime.now(UTC)
    seen = [datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in _written(site)]
    # What is wrong with data or ledger is told under their own names.
    with suppress(ColonnadeError, ValueError):
        if site.role == PARTY and site.source.ledger is not None:
            seen += [datetime.fromisoformat(line.time) for line in open_ledger(site.source.ledger).lines()[-1:]]
    latest = max(seen, default=now)
    if latest > now + CLOCK_SLACK:
        late = f"{latest:%Y-%m-%d %H:%M}"
        raise SiteError(f"the clock says {now:%Y-%m-%d %H:%M}, and something here was written at {late}")
    require_pair(site.folder, *bearer(site))
    name, shown = own_certificate(site)
    if now < shown.not_valid_before_utc - CLOCK_SLACK:
        begins = f"{shown.not_valid_before_utc:%Y-%m-%d %H:%M}"
        raise SiteError(f"the clock says {now:%Y-%m-%d %H:%M}, and the certificate of {name} begins on {begins}")
    return f"{now:%Y-%m-%d %H:%M} UTC, after all that was written here"


def _written(site: Site) -> list[Path]:
    files = [site.folder / name for name in (STATUS, EVENTS, "sessions.jsonl", "log.txt")]
    return [path for path in files if path.exists()]


def look_at_disk(site: Site) -> str:
    free = shutil.disk_usage(site.folder).free
    if free < LEAST_FREE:
        raise SiteError(f"the disk has {free >> 20} MB free, and must have {LEAST_FREE >> 20} MB or more")
    site.try_releases()
    return f"{free >> 20:,} MB free, releases can be written"


def look_at_data(site: Site) -> str:
    with site.open_workers():
        # For the owner's own eyes: a session would not end on these values.
        rows = site.table().require_fit().rows
    return f"{rows:,} records that fit the schema"


def look_at_policy(site: Site) -> str:
    policy = site.policy()
    policy.check_terms(site.study.agreement, site.party)
    return f"agrees to the terms of study {site.study.agreement.name}, at most epsilon={policy.cap.epsilon:g}"


def look_at_ledger(site: Site) -> str:
    guard, _ = site.guard()
    if not isinstance(guard, ConsentGuard):
        return "none: a simulation"
    book = guard.ledger
    lines = book.lines()
    if lines:
        book.verify()
    book.try_to_write()
    agreement = site.study.agreement
    pending = guard.pending(agreement.name)
    spent, cap = guard.spent().epsilon, guard.policy.cap.epsilon
    failed = sum(account.failed for account in book.accounts())
    told = f"{len(lines)} entries, {spent:.6g} of {cap:.6g} is spent"
    told += f", {failed} sessions ended without a release after data was read" if failed else ""
    guard.foresee(agreement, site.table().rows, site.study.aligned, pending)
    if pending:
        named = ", ".join(session[:16] for session in pending)
        raise Remark(f"{told}; session {named}: {BOOKED_COUNTS}")
    return told


def look_at_line(site: Site) -> str:
    address, server = server_address(site.folder)
    name, basename = bearer(site)
    require_pair(site.folder, name, basename)
    if away := probe(site.folder, name, address, server):
        raise SiteError(away)
    return f"{address.host}:{address.port} answers, and both certificates are accepted"


def look_at_port(site: Site) -> str:
    address, _ = own_address(site.folder)
    if running(site.folder):
        if away := probe_own(site.folder):
            raise SiteError(f"{away}, and this folder's process serves it")
        return f"port {address.port} is served by this folder's process, and shakes hands"
    check_port(address)
    return f"port {address.port} is free"


SITES = (SERVER, PARTY, COORDINATOR)
LOOKS: Sequence[tuple[str, Look, Sequence[str]]] = (
    ("version", look_at_version, SITES),
    ("certificate", look_at_certificate, SITES),
    ("key", look_at_key, SITES),
    ("signing", look_at_signing, (PARTY,)),
    ("clock", look_at_clock, SITES),
    ("disk", look_at_disk, (SERVER, PARTY)),
    ("data", look_at_data, (PARTY,)),
    ("policy", look_at_policy, (PARTY,)),
    ("ledger", look_at_ledger, (PARTY,)),
    ("port", look_at_port, (SERVER,)),
    ("server", look_at_line, (PARTY, COORDINATOR)),
)
"""In the order in which they are told, and whose they are."""


def running(folder: Path) -> bool:
    """Whether a process serves the folder."""
    try:
        number = (folder / RUNNING).read_text(encoding="utf-8")
    except OSError:
        return False
    return number.isdecimal() and not dead(int(number)) and int(number) != os.getpid()


@dataclass(frozen=True)
class SiteState:
    """How a site is doing, by its own files."""

    site: str
    role: str
    study: str
    running: bool
    step: str
    """Of the session under way; empty if there is none."""
    session: str
    ended: str
    """How the last one ended, if none is under way."""
    time: str
    spent: str
    approved: list[str]
    """Digests of plans, each for one session that has not come yet."""

    def describe(self) -> dict[str, Any]:
        return asdict(self)


def standing(folder: Path) -> SiteState:
    site = read_site(folder)
    content = look(folder / STATUS)
    busy = unfinished(content)
    if busy and dead(int(content.get("pid", 0))):
        # Nobody was there to note it, or the disk was full.
        busy, content = False, last_word(content, site.role)
    sentence = "" if busy else str(content.get("sentence", ""))
    spent = ""
    try:
        # Who has not said yet where its data lies has spent nothing.
        with suppress(StudyError):
            source = site.source if site.role == PARTY else None
            accounts = [] if source is None or source.ledger is None else open_ledger(source.ledger).accounts()
            spent = "; ".join(f"{a.spent.epsilon:.6g} of {a.cap.epsilon:.6g}" for a in accounts)
    except LedgerError as error:
        spent = f"not known: {error}"
    return SiteState(
        site.name,
        site.role,
        site.study.agreement.name,
        running(folder),
        str(content.get("step", "")) if busy else "",
        str(content.get("session", "")),
        sentence,
        str(content.get("time", "")),
        spent,
        site.approvals.waiting(),
    )

"""The sites of a deployed study: what keeps them from taking part, how they are doing, and what waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from colonnade.report.results import Answer, Heading, Listing, Passage, Words

KINDS = {"ok": "good", "remark": "warn", "fault": "strong"}


def checked(findings: Sequence[Mapping[str, str]]) -> Answer:
    """Site, what was looked at, the verdict, and a sentence."""
    faults = sum(one["verdict"] == "fault" for one in findings)
    records = [{**one, "verdict": Words(one["verdict"], KINDS[one["verdict"]])} for one in findings]
    heads = {"site": "site", "about": "about", "verdict": "", "sentence": ""}
    told = "no fault was found" if not faults else "1 fault" if faults == 1 else f"{faults} faults"
    facts = {"faults": faults, "findings": list(findings)}
    return Answer("", [_table(heads, records), Passage(told)], lambda: facts)


def standings(sites: Sequence[Mapping[str, Any]], asked: Mapping[str, Any] | None) -> Answer:
    """One row for each site, and what the server says where it was asked."""
    records = [
        {
            **site,
            "process": "runs" if site["running"] else "does not run",
            "session": f"{site['session'][:16]} at {site['step']}" if site["step"] else site["ended"] or "none yet",
        }
        for site in sites
    ]
    told = asked or {}
    heard = (
        f"{name}: " + ("not connected" if seconds is None else f"heard by the server {seconds:g} s ago")
        for name, seconds in told.get("heard_seconds_ago", {}).items()
    )
    jobs = (f"job {job['job'][:8]} of study {job['study']}: {job['status'].lower()}" for job in told.get("jobs", []))
    approved = (
        f"{site['site']}: plan {digest} is approved for one session" for site in sites for digest in site["approved"]
    )
    heads = {key: key for key in ("site", "study", "process", "session", "spent")} | {"time": "since"}
    facts = {"sites": list(sites), **({} if asked is None else {"server": asked})}
    return Answer("", [_table(heads, records), *map(Passage, (*approved, *heard, *jobs))], lambda: facts)


def queued(entries: Sequence[Mapping[str, Any]]) -> Answer:
    """One row for each session that was asked for."""
    records = [{**entry, "every": f"{entry['hours']:g} h" if entry["hours"] else ""} for entry in entries]
    heads = {"number": "", "study": "study", "due": "due", "every": "every", "state": "", "told": ""}
    return Answer("", [_table(heads, records)], lambda: {"queue": list(entries)})


def _table(heads: Mapping[str, str], records: Sequence[Mapping[str, Any]]) -> Listing:
    return Listing([Heading(head, key, number=key == "number") for key, head in heads.items()], records)

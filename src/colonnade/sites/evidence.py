"""Where a party's sessions leave their evidence, and how long its policy has the secrets kept."""

from __future__ import annotations

from datetime import UTC, datetime

from colonnade.foundation.errors import SiteError
from colonnade.protocol.kinds import PartyTask
from colonnade.sites.site import STARTUP, Site
from colonnade.transport.evidence import EvidenceFolder, destroy_expired, read_key


def open_evidence(site: Site, task: PartyTask, now: float) -> EvidenceFolder:
    """Where the next session's evidence goes; what was kept long enough is destroyed first."""
    policy, root = site.policy(), site.folder / STARTUP / "rootCA.pem"
    try:
        destroy_expired(site.evidence, policy.evidence_days, now)
    except OSError as error:
        raise SiteError(f"old evidence cannot be destroyed: {(error.strerror or str(error)).lower()}") from None
    facts = {
        "party": task.name,
        "terms": task.terms,
        "kind": task.kind.name,
        "simulated": False,
        "auditors": list(site.study.agreement.auditors),
        "began": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
    }
    key, authority = read_key(site.evidence_key), root.read_bytes() if root.is_file() else b""
    return EvidenceFolder(site.evidence, key, facts, keep_traffic=policy.keep_traffic, authority=authority)

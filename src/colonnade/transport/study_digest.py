"""A digest of a study's public terms, by which server and parties see at once whether they hold the same study."""

from __future__ import annotations

import hashlib
import json

from colonnade.protocol.agreement import Agreement


def study_digest(agreement: Agreement, alignment: str) -> str:
    """SHA-256 of the terms in one canonical form."""
    content = {"agreement": agreement.to(), "alignment": alignment}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()

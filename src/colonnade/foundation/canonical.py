"""One canonical writing of JSON, over which every digest of terms, files and ledgers is formed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

RELEASE_FORMAT = "colonnade-release/1"
MODEL_FORMAT = "colonnade-model/1"


def canonical_json(content: Mapping[str, Any], *, escaped: bool = True) -> str:
    """Sorted keys, no spaces, shortest floats, no NaN; files write letters as they are, terms and ledgers escaped."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=escaped, allow_nan=False)


def canonical_digest(content: Mapping[str, Any], *, escaped: bool = True) -> str:
    """SHA-256 of the canonical writing."""
    return hashlib.sha256(canonical_json(content, escaped=escaped).encode()).hexdigest()

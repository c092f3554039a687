"""Writes TOML: drafts, studies and the files of a deployment's folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

from colonnade.foundation.errors import StudyError


def toml_value(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(k)} = {toml_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    raise StudyError(f"a study file must hold texts, numbers, lists and tables, got {value!r}")


def toml_key(key: str) -> str:
    """A key, bare where it may be."""
    return key if key.isascii() and key.replace("-", "").replace("_", "").isalnum() else toml_value(key)


def toml_section(name: str, content: Mapping[str, Any]) -> str:
    """A [section] with one line for each key."""
    lines = [f"{toml_key(key)} = {toml_value(value)}" for key, value in content.items()]
    return "\n".join([f"[{name}]", *lines, ""])

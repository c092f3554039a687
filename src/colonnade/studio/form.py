"""A study as the fields of a form and back, and as the text of a study file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import KINDS, MOST_PARTIES
from colonnade.foundation.sections import require_shallow
from colonnade.foundation.shown import OPEN, number_of
from colonnade.foundation.toml import toml_key, toml_section

Content = dict[str, Any]
"""A study file's parsed form, {"study": ..., "party": ...}, whether or not it is a valid study."""

STUDY_NUMBERS = ("epsilon", "delta", "collusion", "rows")
STUDY_TEXTS = ("name", "task", "label", "reason", "product", "alignment", "calibration", "release", "purpose")
PARTY_TEXTS = ("data", "id", "policy", "ledger", "organisation", "contact")
PARTY_NUMBERS = ("epsilon", "norm")
BY_KIND = {kind.kind: tuple(kind.keys) for kind in KINDS}
KNOWN = ("kind", *dict.fromkeys(key for keys in BY_KIND.values() for key in keys))
PLAIN = tuple(key for key in KNOWN if key not in ("kind", "levels", "bins", "other"))
"""Keys of a column that are one text or number each."""
EMPTY: Content = {
    "study": {"name": "study", "task": "logistic", "label": "", "epsilon": 1.0, "collusion": 1, "rows": 10_000},
    "party": {},
}


def from_fields(fields: Mapping[str, str]) -> Content:
    """The study that a filled form describes; an empty field is a key that is left out."""
    study: Content = _rest(fields, "study")
    study |= {key: fields[f"study.{key}"] for key in STUDY_TEXTS if fields.get(f"study.{key}")}
    study |= {key: number_of(fields[f"study.{key}"]) for key in STUDY_NUMBERS if fields.get(f"study.{key}")}
    if fields.get("study.label_square"):
        study["label_square"] = True
    by_party = fields.get("budget") == "parties"
    if by_party:
        study.pop("epsilon", None)
    parties: Content = {}
    if (parts := _count(fields, "p{}.name")) > MOST_PARTIES:
        raise StudyError(f"a study must have at most {MOST_PARTIES} parties, got {parts}")
    for i in range(parts):
        at = f"p{i}"
        party = _rest(fields, at)
        party |= {key: fields[f"{at}.{key}"] for key in PARTY_TEXTS if fields.get(f"{at}.{key}")}
        party |= {key: number_of(fields[f"{at}.{key}"]) for key in PARTY_NUMBERS if fields.get(f"{at}.{key}")}
        if split := _split(fields.get(f"{at}.split", "")):
            party["split"] = split
        if not by_party:
            party.pop("epsilon", None)
            party.pop("split", None)
        columns = (_column(fields, f"{at}.c{j}") for j in range(_count(fields, at + ".c{}.name")))
        party["columns"] = {name: column for name, column in columns if name}
        parties[_free(fields[f"{at}.name"].strip() or "party", parties)] = party
    return {"study": study, "party": parties}


def _column(fields: Mapping[str, str], at: str) -> tuple[str, Content]:
    kind = fields.get(f"{at}.kind", "numeric")
    column: Content = {"kind": kind, **_rest(fields, at)}
    for key in BY_KIND.get(kind, ()):
        text = fields.get(f"{at}.{key}", "").strip()
        if not text:
            continue
        if key == "levels":
            column[key] = [line.strip() for line in text.splitlines() if line.strip()]
        elif key == "bins":
            column[key] = [number_of(part) for part in text.split(",") if part.strip()]
        elif key == "other":
            column[key] = True
        else:
            column[key] = number_of(text) if kind == "numeric" else text
    return fields[f"{at}.name"].strip(), column


def _split(text: str) -> Content:
    """Lines such as "own = 0.1"."""
    pairs = (line.partition("=") for line in text.splitlines() if line.strip())
    return {name.strip(): number_of(value) for name, _, value in pairs}


def _count(fields: Mapping[str, str], pattern: str) -> int:
    return next(k for k in count() if pattern.format(k) not in fields)


def _rest(fields: Mapping[str, str], at: str) -> Content:
    """Keys that the form has no field for travel along unseen."""
    try:
        rest = json.loads(fields.get(f"{at}.rest") or "{}")
    except (ValueError, RecursionError):
        return {}
    require_shallow(rest, "the study", StudyError)
    return rest if isinstance(rest, dict) else {}


def _free(name: str, taken: Mapping[str, Any]) -> str:
    return next(free for k in count(1) if (free := name if k == 1 else f"{name}{k}") not in taken)


def to_form(content: Mapping[str, Any]) -> Content:
    """What the form's template shows: every value as the text of its field."""
    study = table(content.get("study"))
    parties = {name: table(party) for name, party in table(content.get("party")).items()}
    known = (*STUDY_TEXTS, *STUDY_NUMBERS, "label_square")
    return {
        "study": {key: text_of(study.get(key)) for key in (*STUDY_TEXTS, *STUDY_NUMBERS)},
        "label_square": bool(study.get("label_square")),
        "by_party": "epsilon" not in study and any("epsilon" in party for party in parties.values()),
        "rest": _unknown(study, known),
        "parties": [_party_form(name, party) for name, party in parties.items()],
        "labels": [f"{name}.{c}" for name, party in parties.items() for c in table(party.get("columns"))],
    }


def _party_form(name: str, party: Content) -> Content:
    split = "\n".join(f"{key} = {text_of(value)}" for key, value in table(party.get("split")).items())
    return {
        "name": name,
        "split": split,
        **{key: text_of(party.get(key)) for key in (*PARTY_TEXTS, *PARTY_NUMBERS)},
        "rest": _unknown(party, (*PARTY_TEXTS, *PARTY_NUMBERS, "split", "columns")),
        "columns": [_column_form(c, table(declared)) for c, declared in table(party.get("columns")).items()],
    }


def _column_form(name: str, column: Content) -> Content:
    levels, bins = column.get("levels", []), column.get("bins", [])
    return {
        "name": name,
        "kind": str(column.get("kind", "numeric")),
        **{key: text_of(column.get(key)) for key in PLAIN},
        "levels": "\n".join(text_of(v) for v in levels) if isinstance(levels, list) else text_of(levels),
        "bins": ", ".join(text_of(v) for v in bins) if isinstance(bins, list) else text_of(bins),
        "other": bool(column.get("other")),
        "rest": _unknown(column, KNOWN),
    }


def table(value: Any) -> Content:
    """A table, or an empty one in its place."""
    return dict(value) if isinstance(value, Mapping) else {}


def text_of(value: Any) -> str:
    """A value as a field's text; what a draft leaves open is an empty field."""
    if value is None or value == OPEN:
        return ""
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _unknown(content: Mapping[str, Any], known: Sequence[str]) -> str:
    rest = {key: value for key, value in content.items() if key not in known}
    return json.dumps(rest, default=str) if rest else ""


def to_toml(content: Mapping[str, Any]) -> str:
    """The text of a study file with this content."""
    parts = [toml_section("study", table(content.get("study")))]
    if not content.get("party"):
        parts.append("\n[party]\n")
    for name, party in table(content.get("party")).items():
        head, declared = f"party.{toml_key(name)}", table(party)
        columns = table(declared.pop("columns", None))
        parts += ["\n", toml_section(head, declared), toml_section(f"{head}.columns", columns)]
    return "".join(parts)

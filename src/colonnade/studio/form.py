"""A study as the fields of a form and back, and as the text of a study file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from colonnade.foundation.errors import KeyPath, StudyError
from colonnade.foundation.matching import PSI
from colonnade.foundation.schema import KINDS, MOST_PARTIES
from colonnade.foundation.sections import require_shallow
from colonnade.foundation.shown import OPEN, number_of
from colonnade.foundation.toml import toml_key, toml_section
from colonnade.planning.agreement import USUAL as TERMS

Content = dict[str, Any]
"""A study file's parsed form, {"study": ..., "party": ...}, whether or not it is a valid study."""

Readers = Mapping[str, Callable[[str], Any]]
"""How the text of each field is read."""
STUDY: Readers = {
    **dict.fromkeys(
        ("name", "task", "label", "reason", "product", "alignment", "calibration", "release", "purpose"), str
    ),
    **dict.fromkeys(("epsilon", "delta", "collusion", "rows"), number_of),
}
USUAL = {key: str(getattr(usual, "value", usual)) for key, usual in TERMS.items() if key in STUDY} | {"alignment": PSI}
USUAL = {key: text for key, text in USUAL.items() if STUDY[key] is str and text}
"""What a choice of the form shows where the study says nothing."""
BY_KIND = {kind.kind: tuple(kind.keys) for kind in KINDS.values()}
KNOWN = tuple(dict.fromkeys(key for keys in BY_KIND.values() for key in keys))
OTHER_TOO = "other"
"""The one key of a column that is a box."""
NAMED = ""
"""Stands beside the keys of a party or a column that travel along, for the name that it had: no key is empty."""
EMPTY: Content = {
    "study": {"name": "study", "task": "logistic", "label": "", "epsilon": 1.0, "collusion": 1, "rows": 10_000},
    "party": {},
}


def from_fields(fields: Mapping[str, str]) -> Content:
    """The study that a filled form describes: as it was, but for the fields that were changed or emptied."""
    study = _was(fields, "study")
    before = USUAL | {key: text for key, text in _study_texts(study).items() if text}
    _edit(study, fields, "study", STUDY, before)
    _tick(study, fields, "study", "label_square")
    by_party = fields.get("budget") == "parties"
    if by_party:
        study.pop("epsilon", None)
    parties: Content = {}
    if (parts := _count(fields, "p{}.name")) > MOST_PARTIES:
        raise StudyError(f"a study must have at most {MOST_PARTIES} parties, got {parts}")
    for i in range(parts):
        at = f"p{i}"
        party = _was(fields, at)
        named = _name(fields, at, party)
        _edit(party, fields, at, PARTY, _party_texts(party))
        if not by_party:
            party.pop("epsilon", None)
            party.pop("split", None)
        columns = (_column(fields, f"{at}.c{j}") for j in range(_count(fields, at + ".c{}.name")))
        party["columns"] = {name: column for name, column in columns if name.strip()}
        parties[_free(named if named.strip() else "party", parties)] = party
    audit = _was(fields, "audit")
    return {"study": study, "party": parties} | ({"audit": audit} if audit else {})


def _column(fields: Mapping[str, str], at: str) -> tuple[str, Content]:
    was = _was(fields, at)
    name, before = _name(fields, at, was), _column_texts(was)
    kind = fields.get(f"{at}.kind", "numeric")
    taken = BY_KIND.get(kind, ())
    # What another kind had is left out; keys that no kind has travel along, and are refused by their name.
    column = {"kind": kind} | {key: v for key, v in was.items() if key != "kind" and (key in taken or key not in KNOWN)}
    readers = {key: _reader(key, kind) for key in taken if key != OTHER_TOO}
    _edit(column, fields, at, readers, before)
    if OTHER_TOO in taken:
        _tick(column, fields, at, OTHER_TOO)
    return name, column


def _reader(key: str, kind: str) -> Callable[[str], Any]:
    if key == "levels":
        return lambda text: [line.strip() for line in text.splitlines() if line.strip()]
    if key == "bins":
        return lambda text: [number_of(part) for part in text.split(",") if part.strip()]
    return number_of if kind == "numeric" else str.strip


def _edit(section: Content, fields: Mapping[str, str], at: str, readers: Readers, before: Mapping[str, str]) -> None:
    """Change what was changed in the form: a key that it has no field for, or that says the same, stays as it is."""
    for key, read in readers.items():
        text = fields.get(f"{at}.{key}")
        if text is None:
            continue
        if not text.strip():
            section.pop(key, None)
        elif not _alike(text, before.get(key, "")):
            section[key] = read(text)


def _tick(section: Content, fields: Mapping[str, str], at: str, key: str) -> None:
    """A box: a browser sends nothing of one that is not ticked."""
    if not fields.get(f"{at}.{key}") and section.get(key):
        del section[key]
    elif fields.get(f"{at}.{key}") and not section.get(key):
        section[key] = True


def _name(fields: Mapping[str, str], at: str, section: Content) -> str:
    """The name in the form, or the one that it had, with its blanks, where nobody changed it."""
    text, was = fields[f"{at}.name"], section.pop(NAMED, None)
    return was if isinstance(was, str) and _alike(text, was) else text.strip()


def _alike(text: str, before: str) -> bool:
    """Whether a browser's text is what it was shown: lines may end otherwise, and blanks at the ends be lost."""
    return "\n".join(text.splitlines()).strip() == "\n".join(before.splitlines()).strip()


def _split(text: str) -> Content:
    """Lines such as "own = 0.1"."""
    pairs = (line.partition("=") for line in text.splitlines() if line.strip())
    return {name.strip(): number_of(value) for name, _, value in pairs}


PARTY: Readers = {
    **dict.fromkeys(("data", "id", "policy", "ledger", "organisation", "contact"), str),
    **dict.fromkeys(("epsilon", "norm"), number_of),
    "split": _split,
}


def _count(fields: Mapping[str, str], pattern: str) -> int:
    return next(k for k in count() if pattern.format(k) not in fields)


def _was(fields: Mapping[str, str], at: str) -> Content:
    """The section as it was when the form was made: it travels along unseen."""
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
    return {
        "study": _study_texts(study),
        "label_square": bool(study.get("label_square")),
        "by_party": "epsilon" not in study and any("epsilon" in party for party in parties.values()),
        "rest": _dump(study),
        "audit": _dump(table(content.get("audit"))),
        "parties": [_party_form(name, party) for name, party in parties.items()],
        "labels": [f"{name}.{c}" for name, party in parties.items() for c in table(party.get("columns"))],
    }


def _party_form(name: str, party: Content) -> Content:
    columns = table(party.get("columns"))
    return {
        "name": name,
        **_party_texts(party),
        "rest": _dump({NAMED: name} | {key: value for key, value in party.items() if key != "columns"}),
        "columns": [_column_form(c, table(declared)) for c, declared in columns.items()],
    }


def _column_form(name: str, column: Content) -> Content:
    return {
        "name": name,
        "kind": str(column.get("kind", "numeric")),
        **_column_texts(column),
        OTHER_TOO: bool(column.get(OTHER_TOO)),
        "rest": _dump({NAMED: name} | column),
    }


def _study_texts(study: Content) -> dict[str, str]:
    return {key: text_of(study.get(key)) for key in STUDY}


def _party_texts(party: Content) -> dict[str, str]:
    split = "\n".join(f"{key} = {text_of(value)}" for key, value in table(party.get("split")).items())
    return {key: text_of(party.get(key)) for key in PARTY} | {"split": split}


def _column_texts(column: Content) -> dict[str, str]:
    levels, bins = column.get("levels", []), column.get("bins", [])
    return {key: text_of(column.get(key)) for key in KNOWN if key != OTHER_TOO} | {
        "levels": "\n".join(text_of(v) for v in levels) if isinstance(levels, list) else text_of(levels),
        "bins": ", ".join(text_of(v) for v in bins) if isinstance(bins, list) else text_of(bins),
    }


def table(value: Any) -> Content:
    """A table, or an empty one in its place."""
    return dict(value) if isinstance(value, Mapping) else {}


def text_of(value: Any) -> str:
    """A value as a field's text; what a draft leaves open is an empty field."""
    if value is None or value == OPEN:
        return ""
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _dump(section: Mapping[str, Any]) -> str:
    return json.dumps(section, default=str) if section else ""


def field_of(content: Content, path: KeyPath) -> str:
    """The form's field of a study's key, or the nearest one above it; none where it is about the whole."""
    parties = table(content.get("party"))
    match path:
        case ("study", str(key), *_):
            return f"study.{key}"
        case ("party", str(name), *below) if name in parties:
            at = f"p{list(parties).index(name)}"
            columns = table(table(parties[name]).get("columns"))
            match below:
                case ("columns", str(column), *inner) if column in columns:
                    known = ("kind", *BY_KIND.get(str(table(columns[column]).get("kind")), ()))
                    told = inner[0] if inner and inner[0] in known else "name"
                    return f"{at}.c{list(columns).index(column)}.{told}"
                case (str(key), *_) if key in PARTY:
                    return f"{at}.{key}"
            return f"{at}.name"
    return ""


def to_toml(content: Mapping[str, Any]) -> str:
    """The text of a study file with this content."""
    parts = [toml_section("study", table(content.get("study")))]
    if not content.get("party"):
        parts.append("\n[party]\n")
    for name, party in table(content.get("party")).items():
        head, declared = f"party.{toml_key(name)}", table(party)
        columns = table(declared.pop("columns", None))
        parts += ["\n", toml_section(head, declared), toml_section(f"{head}.columns", columns)]
    parts += ["\n", toml_section("audit", table(content["audit"]))] if content.get("audit") else []
    return "".join(parts)

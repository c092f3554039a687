"""A study file (TOML) becomes a checked, immutable Study: the public agreement, and where each party's data lies."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colonnade.foundation.errors import StudyError
from colonnade.foundation.schema import Schema, column_from
from colonnade.mechanism.objective import Calibration, Task
from colonnade.mechanism.plan import Offer, check_epsilon
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.session import Session, open_session

ALIGNMENTS = ("psi", "none")
STUDY_KEYS = (
    "name",
    "task",
    "label",
    "epsilon",
    "delta",
    "collusion",
    "product",
    "alignment",
    "calibration",
    "release",
    "label_square",
    "rows",
)
PARTY_KEYS = ("data", "id", "policy", "ledger", "epsilon", "split", "norm", "columns")
LARGEST_STUDY = 16 << 20


@dataclass(frozen=True)
class Source:
    """Where a party's data lies on its own machine, and what it agrees to and has spent; none of it is sent."""

    data: Path | None
    id: str | None
    policy: Path | None = None
    ledger: Path | None = None


@dataclass(frozen=True)
class Study:
    """A checked study."""

    agreement: Agreement
    sources: Mapping[str, Source] = field(default_factory=dict)
    alignment: str = "psi"
    rows: int | None = None
    """The number of common records, where it is known before the run."""

    def session(self, rows: int | None = None, identity: bytes = bytes(32)) -> Session:
        """The plan of this study for n records."""
        known = rows if rows is not None else self.rows
        if known is None:
            raise StudyError("a plan needs the number of records: set rows in [study] or give --rows")
        return open_session(self.agreement, known, identity)


def read_study(path: Path) -> Study:
    """Read and check a study file."""
    if not path.is_file():
        raise StudyError(f"there is no study file {path}")
    if path.stat().st_size > LARGEST_STUDY:
        raise StudyError(f"a study file must have at most {LARGEST_STUDY} bytes, got {path.stat().st_size}")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StudyError(f"{path.name} is not valid TOML: {error}") from None
    return study_from(content, path.parent)


def study_from(content: Mapping[str, Any], folder: Path) -> Study:
    """A study from its parsed form; data paths are relative to `folder`."""
    _known(content, ("study", "party"), "the study file")
    terms = _section(content, "study")
    parties = _section(content, "party")
    _known(terms, STUDY_KEYS, "[study]")
    for key in ("name", "task", "label"):
        if key not in terms:
            raise StudyError(f"[study] needs {key!r}")
    schema, sources, offers, norms = {}, {}, {}, {}
    for name, party in parties.items():
        if not isinstance(party, Mapping):
            raise StudyError(f"[party.{name}] must be a table")
        _known(party, PARTY_KEYS, f"[party.{name}]")
        columns = party.get("columns", {})
        if not isinstance(columns, Mapping):
            raise StudyError(f"[party.{name}.columns] must be a table")
        schema[name] = {c: column_from(c, _table(d, f"column {c}")) for c, d in columns.items()}
        data, policy, ledger = (_path(party, key, folder, name) for key in ("data", "policy", "ledger"))
        if (policy is None) != (ledger is None):
            raise StudyError(
                f"[party.{name}] needs policy and ledger together: the policy has the cap, the ledger what is spent"
            )
        sources[name] = Source(data, party.get("id"), policy, ledger)
        if "norm" in party:
            norms[name] = _number(party, "norm", 0.0)
        if "epsilon" in party:
            offers[name] = _offer(name, party)
        elif "split" in party:
            raise StudyError(f"[party.{name}] has a split but no epsilon to split")
    if offers and len(offers) < len(parties):
        missing = next(p for p in parties if p not in offers)
        raise StudyError(f"in the bottom-up case every party gives its epsilon, party {missing} gives none")
    agreement = Agreement(
        name=_text(terms, "name"),
        schema=Schema(schema, norms),
        label=_text(terms, "label"),
        task=Task(_choice(terms, "task", [t.value for t in Task])),
        epsilon=None if "epsilon" not in terms else check_epsilon(terms["epsilon"]),
        offers=offers,
        delta=_number(terms, "delta", 0.0),
        collusion=_whole(terms, "collusion", 1 if len(schema) > 1 else 0),
        calibration=Calibration(_choice(terms, "calibration", [c.value for c in Calibration], "exact")),
        product=str(terms.get("product", "lattice")),
        release=str(terms.get("release", "auto")),
        label_square=bool(terms.get("label_square", False)),
    )
    alignment = _choice(terms, "alignment", ALIGNMENTS, "psi")
    for name, source in sources.items():
        if alignment == "psi" and source.id is None and len(schema) > 1:
            raise StudyError(f'[party.{name}] needs an id column for alignment = "psi"')
    rows = None if "rows" not in terms else _whole(terms, "rows", 0)
    return Study(agreement, sources, alignment, rows)


def _known(content: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    for key in content:
        if key not in keys:
            near = difflib.get_close_matches(key, list(keys), 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(keys)}"
            raise StudyError(f"{where} has no key {key!r}{hint}")


def _section(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if name not in content:
        raise StudyError(f"a study file needs a [{name}] section")
    return _table(content[name], f"[{name}]")


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise StudyError(f"{where} must be a table, got {value!r}")
    return value


def _text(terms: Mapping[str, Any], key: str) -> str:
    if not isinstance(terms[key], str) or not terms[key]:
        raise StudyError(f"{key} must be a non-empty text, got {key}={terms[key]!r}")
    return str(terms[key])


def _choice(terms: Mapping[str, Any], key: str, choices: Iterable[str], default: str | None = None) -> str:
    value = terms.get(key, default)
    if value not in list(choices):
        raise StudyError(f"{key} must be one of {', '.join(choices)}, got {key}={value!r}")
    return str(value)


def _number(terms: Mapping[str, Any], key: str, default: float) -> float:
    value = terms.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise StudyError(f"{key} must be a number, got {key}={value!r}")
    return float(value)


def _whole(terms: Mapping[str, Any], key: str, default: int) -> int:
    value = terms.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise StudyError(f"{key} must be a whole number, got {key}={value!r}")
    return value


def _path(terms: Mapping[str, Any], key: str, folder: Path, party: str) -> Path | None:
    value = terms.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise StudyError(f"[party.{party}] {key} must be a path, got {value!r}")
    return folder / value


def _offer(name: str, party: Mapping[str, Any]) -> Offer:
    total = check_epsilon(party["epsilon"], f"[party.{name}] epsilon")
    split = _table(party.get("split", {}), f"[party.{name}] split")
    parts = {key: check_epsilon(value, f"[party.{name}] split.{key}") for key, value in split.items()}
    return Offer(total, parts.pop("own", None), parts)

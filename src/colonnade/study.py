"""A study file (TOML) becomes a checked, immutable Study: the public agreement, and where each party's data lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from colonnade.foundation.errors import StudyError
from colonnade.foundation.matching import HYBRID, NONE, PSI
from colonnade.foundation.names import require_name
from colonnade.foundation.parts import local_path
from colonnade.foundation.schema import Schema, column_from, derive_columns
from colonnade.foundation.sections import Section, read_toml
from colonnade.foundation.shown import OPEN, shown
from colonnade.mechanism.objective import Calibration, Purpose, Task
from colonnade.mechanism.plan import Offer, check_epsilon
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.session_plan import SessionPlan, plan_session

ALIGNMENTS = (PSI, NONE)
STUDY_KEYS = (
    "name",
    "task",
    "label",
    "epsilon",
    "delta",
    "collusion",
    "product",
    "alignment",
    "post_quantum",
    "calibration",
    "release",
    "label_square",
    "rows",
    "pairs",
    "impossible",
    "interactions",
    "purpose",
)
PARTY_KEYS = ("data", "id", "policy", "ledger", "epsilon", "split", "norm", "columns", "derived")
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
    alignment: str = PSI
    """How ids are matched: "psi", HYBRID where post_quantum is set, or "none"."""
    rows: int | None = None
    """The number of common records, where it is known before the run."""

    def session(self, rows: int | None = None, identity: bytes = bytes(32)) -> SessionPlan:
        """The plan of this study for n records."""
        known = rows if rows is not None else self.rows
        if known is None:
            raise StudyError("a plan needs the number of records: set rows in [study] or give --rows")
        return plan_session(self.agreement, known, identity)


def read_study(path: Path) -> Study:
    """Read and check a study file."""
    return _study(read_toml(path, "study", LARGEST_STUDY, StudyError), path.parent)


def study_from(content: Mapping[str, Any], folder: Path) -> Study:
    """A study from its parsed form; data paths are relative to `folder`."""
    return _study(Section(content, "the study file", StudyError), folder)


def _study(content: Section, folder: Path) -> Study:
    content.known(("study", "party"))
    for key in ("study", "party"):
        if key not in content:
            raise StudyError(f"a study file needs a [{key}] section")
    terms = content.table("study", "[study]").known(STUDY_KEYS).need("name", "task", "label")
    parties = content.table("party", "[party]")
    schema, sources, offers, norms = {}, {}, {}, {}
    for name in parties.content:
        require_name("a party's name", name)
        party = parties.table(name, f"[party.{name}]").known(PARTY_KEYS)
        columns = party.table("columns", f"[party.{name}.columns]")
        schema[name] = {c: column_from(c, columns.content[c]) for c in columns.content}
        derived = party.table("derived", f"[party.{name}.derived]")
        schema[name] |= derive_columns(derived.content, schema[name], derived.where)
        data, policy, ledger = (_path(party, key, folder) for key in ("data", "policy", "ledger"))
        if (policy is None) != (ledger is None):
            raise StudyError(
                f"[party.{name}] needs policy and ledger together: the policy has the cap, the ledger what is spent"
            )
        sources[name] = Source(data, _id_column(party), policy, ledger)
        if "norm" in party:
            norms[name] = party.number("norm")
        if "epsilon" in party:
            split = party.table("split", f"{party.where} split").content
            if "own" in split and "own" in parties:
                raise StudyError(f'{party.where} split: "own" is its own block, so no party may have that name')
            offers[name] = offer_of(party.content["epsilon"], split, party.where)
        elif "split" in party:
            raise StudyError(f"[party.{name}] has a split but no epsilon to split")
    if offers and len(offers) < len(sources):
        missing = next(p for p in sources if p not in offers)
        raise StudyError(f"in the bottom-up case every party gives its epsilon, party {missing} gives none")
    agreement = Agreement(
        name=terms.text("name"),
        schema=Schema(schema, norms),
        label=terms.text("label"),
        task=Task(terms.choice("task", [t.value for t in Task])),
        epsilon=None if "epsilon" not in terms else check_epsilon(terms.content["epsilon"]),
        offers=offers,
        delta=terms.number("delta", 0.0),
        collusion=terms.whole("collusion", 1 if len(schema) > 1 else 0),
        calibration=Calibration(terms.choice("calibration", [c.value for c in Calibration], "exact")),
        product=str(terms.content.get("product", "lattice")),
        release=str(terms.content.get("release", "auto")),
        label_square=terms.flag("label_square"),
        pairs=_pairs(terms, "pairs", '["column", "column"]'),
        impossible=_pairs(terms, "impossible", '["column=level", "column=level"]'),
        interactions=_interactions(terms),
        purpose=Purpose(terms.choice("purpose", [p.value for p in Purpose], "label")),
    )
    alignment = _alignment(terms)
    for name, source in sources.items():
        if alignment != NONE and source.id is None and len(schema) > 1:
            raise StudyError(f'[party.{name}] needs an id column for alignment = "psi"')
    rows = None if "rows" not in terms else terms.whole("rows")
    return Study(agreement, sources, alignment, rows)


def _id_column(party: Section) -> str | None:
    if "id" not in party:
        return None
    if party.content["id"] == OPEN:
        told = "replace it by the column that names a person, or leave the line out"
        raise StudyError(f'{party.where} id still has the "?" of a draft: {told}')
    return party.text("id")


def _alignment(terms: Section) -> str:
    """How ids are matched, in one word; whether a quantum computer is reckoned with is part of it."""
    alignment = terms.choice("alignment", ALIGNMENTS, PSI)
    if not terms.flag("post_quantum"):
        return alignment
    if alignment == NONE:
        raise StudyError('post_quantum is for alignment = "psi", got alignment = "none"')
    from colonnade.crypto.alignment.kem_ot import require_post_quantum

    require_post_quantum()
    return HYBRID


def _pairs(terms: Section, key: str, form: str) -> tuple[tuple[str, str], ...]:
    found = terms.content.get(key, [])
    if not isinstance(found, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in found):
        raise StudyError(f"[study] {key} must be a list of pairs {form}, got {shown(found)}")
    return tuple((str(a), str(b)) for a, b in found)


def _interactions(terms: Section) -> tuple[tuple[str, ...], ...]:
    found = terms.content.get("interactions", [])
    if not isinstance(found, list) or not all(
        isinstance(columns, list) and all(isinstance(text, str) for text in columns) for columns in found
    ):
        raise StudyError(
            f'[study] interactions must be a list of lists ["party.column", "party.column"], got {shown(found)}'
        )
    return tuple(tuple(columns) for columns in found)


def _path(party: Section, key: str, folder: Path) -> Path | None:
    value = party.content.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise StudyError(f"{party.where} {key} must be a path, got {shown(value)}")
    return folder / local_path(value)


def offer_of(epsilon: Any, split: Mapping[str, Any], where: str) -> Offer:
    """What a party allows; a split names the parts for its own block ("own") and for those with other parties."""
    total = check_epsilon(epsilon, f"{where} epsilon")
    parts = {key: check_epsilon(value, f"{where} split.{key}") for key, value in split.items()}
    return Offer(total, parts.pop("own", None), parts)

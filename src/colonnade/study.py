"""A study file (TOML) becomes a checked, immutable Study: the public agreement, and where each party's data lies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from colonnade.data.sources import DataSource, FileSource, Source, read_address
from colonnade.data.written import PLAIN, Written, written_from
from colonnade.foundation.columns import DROP, Aggregate
from colonnade.foundation.errors import KeyPath, SchemaError, StudyError
from colonnade.foundation.matching import AS_THEY_ARE, HYBRID, NONE, PSI, matches_ids
from colonnade.foundation.names import ColumnRef, Names
from colonnade.foundation.parts import local_path
from colonnade.foundation.schema import Column, Schema, column_from, derive_columns, require_party, require_people
from colonnade.foundation.sections import Mistakes, Section, parse_toml, read_text
from colonnade.foundation.shown import OPEN, shown
from colonnade.mechanism.accounting import check_epsilon
from colonnade.mechanism.moments import Layout
from colonnade.mechanism.objective import Calibration, layout_of, with_interactions, with_sums
from colonnade.mechanism.plan import Offer, Terms
from colonnade.planning.agreement import STATED, Agreement, Organisation
from colonnade.planning.session_plan import SessionPlan, plan_session

if TYPE_CHECKING:
    from colonnade.mechanism.cuts import Binning

T = TypeVar("T", bound=Enum)
ALIGNMENTS = (PSI, NONE)
NEEDED = ("name", "task", "label")
KEPT = ("policy", "ledger")
SIGNED = ("organisation", "contact")
PARTY_KEYS = (
    *("data", "query", "dataset", "read", "id", *KEPT, "epsilon", "split", "norm", "columns", "derived", "people"),
    *SIGNED,
)
AUDIT_KEYS = ("auditors",)
LARGEST_STUDY = 16 << 20  # 16 MB: thousands of columns with their levels
DECLARED, AUTO = "declared", "auto"
NUMERIC = (DECLARED, AUTO)
"""Numbers have the bins that their columns declare, or those that the plan expects to pay."""


@dataclass(frozen=True)
class StudySpec:
    """A checked study."""

    agreement: Agreement
    sources: Mapping[str, Source] = field(default_factory=dict)
    alignment: str = PSI
    """How ids are matched: "psi", HYBRID where post_quantum is set, or "none"."""
    rows: int | None = None
    """The number of common records, where it is known before the run."""
    cuts: Sequence[Binning] | None = None
    """What was decided for numbers without bins, where the study leaves it to the plan."""
    content: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The parsed form that it was read from, and where its paths begin."""
    folder: Path = field(default=Path(), repr=False, compare=False)

    @property
    def aligned(self) -> bool:
        """Whether a session matches ids first."""
        return matches_ids(self.alignment, self.agreement.schema.names)

    def with_rows(self, rows: int | None) -> StudySpec:
        """The same study as if it stated so many rows, on which the plan's bins depend."""
        if rows is None or rows == self.rows:
            return self
        if not self.content:
            return replace(self, rows=rows)
        found = study_from(_changed(self.content, rows, None), self.folder)
        return replace(found, sources=self.sources)

    def session(self, rows: int | None = None, identity: bytes = bytes(32)) -> SessionPlan:
        """The plan of this study for n records."""
        known = rows if rows is not None else self.rows
        if known is None:
            raise StudyError("a plan needs the number of records: set rows in [study] or give --rows")
        return plan_session(self.agreement, known, identity)


def read_study(path: Path, rows: int | None = None, epsilon: float | None = None) -> StudySpec:
    """Read and check a study file; all that is wrong in it is told at once, each with its line.

    `rows` and `epsilon` stand in the place of what [study] says of them: the study is as if the file said so.
    """
    text = read_text(path, "study", LARGEST_STUDY, StudyError)
    content = _changed(parse_toml(text, path.name, LARGEST_STUDY, StudyError), rows, epsilon)
    return _Reader(Section(content, "the study file", StudyError), path.parent).study(path.name, text)


def _changed(content: Mapping[str, Any], rows: int | None, epsilon: float | None) -> Mapping[str, Any]:
    """The parsed form with other rows and another epsilon, where they are given."""
    terms = content.get("study")
    if not isinstance(terms, Mapping):
        return content
    if epsilon is not None and "epsilon" not in terms:
        raise StudyError("another epsilon is for a study that states one; here each party states its own")
    changes = {key: value for key, value in (("rows", rows), ("epsilon", epsilon)) if value is not None}
    return {**content, "study": {**terms, **changes}}


def study_from(content: Mapping[str, Any], folder: Path) -> StudySpec:
    """A study from its parsed form; data paths are relative to `folder`."""
    return _Reader(Section(content, "the study file", StudyError), folder).study()


def study_mistakes(content: Mapping[str, Any], folder: Path) -> list[tuple[KeyPath, str]]:
    """All that is wrong in a study's parsed form, each with the key that it is about; none in a study that is right."""
    return _Reader(Section(content, "the study file", StudyError), folder).mistakes()


class _Reader:
    """Reads a study part by part and goes on after a mistake, so that all are found."""

    def __init__(self, content: Section, folder: Path) -> None:
        self._content, self._folder = content, folder
        self._mistakes = Mistakes()
        self._misspelt: set[tuple[str, ...]] = set()
        self._columns: dict[str, dict[str, Column]] = {}
        self._sources: dict[str, Source] = {}
        self._offers: dict[str, Offer] = {}
        self._norms: dict[str, float] = {}
        self._organisations: dict[str, Organisation] = {}

    def mistakes(self) -> list[tuple[KeyPath, str]]:
        self._read()
        return [(path, str(error)) for path, error in self._mistakes.found]

    def study(self, name: str = "", text: str = "") -> StudySpec:
        """The checked study; `name` and `text` of its file tell the lines of mistakes."""
        found = self._read()
        self._mistakes.tell(name, text)
        assert found is not None
        return found

    def _read(self) -> StudySpec | None:
        note = self._mistakes
        self._known((), self._content, ("study", "party", "audit"))
        for key in ("study", "party"):
            with note.at():
                if key not in self._content and () not in self._misspelt:
                    raise StudyError(f"a study file needs a [{key}] section")
        terms = parties = Section({}, "", StudyError)
        with note.at("study"):
            terms = self._content.table("study", "[study]")
        with note.at("party"):
            parties = self._content.table("party", "[party]")
        for name in parties.content:
            self._party(name, parties)
        self._known(("study",), terms, STUDY_KEYS)
        checked = self._terms(terms) if "study" in self._content else {}
        self._check_whole(terms, parties)
        alignment, rows, audits = PSI, None, Section({}, "", StudyError)
        with note.at("audit"):
            audits = self._content.table("audit", "[audit]")
        self._known(("audit",), audits, AUDIT_KEYS)
        with note.at("audit", "auditors"):
            checked["auditors"] = audits.texts("auditors") if "auditors" in audits else ()
        with note.at("study", "alignment"):
            alignment = _alignment(terms)
        with note.at("study", "rows"):
            if "rows" in terms:
                _require_closed(terms, "rows")
            rows = None if "rows" not in terms else terms.whole("rows")
        for name, source in self._sources.items():
            with note.at("party", name):
                if alignment == NONE or len(parties.content) == 1 or ("party", name) in self._misspelt:
                    continue
                if source.id is None:
                    raise StudyError(f'[party.{name}] needs an id column for alignment = "psi"').at("id")
        if note.found:
            return None
        self._check_records(len(self._columns) > 1, alignment)
        if note.found:
            return None
        form = checked["ids"].form if "id_form" in terms else None
        self._sources = {name: replace(source, form=form) for name, source in self._sources.items()}
        with note.at("study"):
            schema = Schema(self._columns, self._norms)
            agreement = Agreement.from_terms(
                schema=schema, offers=self._offers, organisations=self._organisations, **checked
            )
            self._check_agreement(agreement)
            cuts = None
            with note.at("study", "numeric"):
                if terms.choice("numeric", NUMERIC, AUTO if _may_cut(agreement, rows) else DECLARED) == AUTO:
                    agreement, cuts = _cut(agreement, rows)
                    # A study that says nothing and has nothing to cut needs no sentence about it.
                    cuts = cuts if cuts or "numeric" in terms else None
            if not note.found and (homonym := find_homonym(agreement)) is not None:
                with note.at(*homonym[0]):
                    raise homonym[1]
            if not note.found:
                return StudySpec(agreement, self._sources, alignment, rows, cuts, self._content.content, self._folder)
        return None

    def _parts(self) -> int:
        """Of how many columns an id is made, at all parties."""
        counts = {name: id_parts(source.id) for name, source in self._sources.items() if source.id is not None}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise StudyError(f"ids must be made of the same number of columns at all parties, got {told}")
        return max(counts.values(), default=1)

    def _known(self, path: tuple[str, ...], section: Section, keys: Collection[str]) -> None:
        if any(key not in keys for key in section.content):
            # A key that seems to be missing may be the one that is misspelt.
            self._misspelt.add(path)
        for key in section.content:
            with self._mistakes.at(*path, key):
                section.require_known(key, keys)

    def _party(self, name: str, parties: Section) -> None:
        note, at = self._mistakes, ("party", name)
        with note.at(*at):
            require_party(name)
        party = columns = Section({}, f"[party.{name}]", StudyError)
        with note.at(*at):
            party = parties.table(name, party.where)
        with note.at(*at, "columns"):
            columns = party.table("columns", f"[party.{name}.columns]")
        self._known(at, party, PARTY_KEYS)
        self._columns[name] = {}
        for column, declared in columns.content.items():
            with note.at(*at, "columns", column):
                if isinstance(declared, Mapping) and "people" in declared:
                    raise StudyError(f"column {column}: what becomes of several rows stands in [party.{name}.people]")
                self._columns[name][column] = column_from(column, declared)
        with note.at(*at, "people"):
            self._people(name, party)
        with note.at(*at, "derived"):
            derived = party.table("derived", f"[party.{name}.derived]")
            if derived.content and not note.among(*at):
                self._columns[name] |= derive_columns(derived.content, self._columns[name], derived.where)
        if not columns.content and not note.among(*at) and at not in self._misspelt:
            with note.at(*at):
                raise SchemaError(f"party {name} declares no column")
        self._source(name, party)
        with note.at(*at, "organisation" if "organisation" in party else "contact"):
            if "organisation" in party or "contact" in party:
                stated = (party.text(key) if key in party else "" for key in SIGNED)
                self._organisations[name] = Organisation(*stated)
        with note.at(*at, "norm"):
            if "norm" in party:
                self._norms[name] = party.number("norm")
        with note.at(*at, "epsilon" if "epsilon" in party else "split"):
            self._offer(name, party, parties)

    def _people(self, name: str, party: Section) -> None:
        """Note of each column how a person's several rows make it."""
        section, columns = party.table("people", f"[party.{name}.people]"), self._columns[name]
        for column, how in section.content.items():
            with self._mistakes.at("party", name, "people", column):
                try:
                    found = Aggregate.read(how, column)
                    if column in columns:
                        columns[column] = replace(columns[column], people=found)
                except SchemaError as error:
                    raise StudyError(f"{section.where} {column}: {error}") from None
                if column not in _keys(party.content.get("columns")):
                    raise StudyError(
                        f"{section.where} {column} must be a column of [party.{name}.columns], and is none"
                    )
        if not self._mistakes.among("party", name):
            require_people(name, columns)

    def _check_records(self, several: bool, alignment: str) -> None:
        """Refuse records that are made or dropped before ids are matched where no ids are."""
        for name, columns in self._columns.items():
            with self._mistakes.at("party", name, "people"):
                if any(c.people for c in columns.values()):
                    if alignment == NONE and several:
                        raise StudyError(f'[party.{name}.people] needs matching of ids, got alignment = "none"')
                    if self._sources[name].id is None:
                        raise StudyError(f"[party.{name}.people] needs id, the column that names a person")
            for column, own in columns.items():
                with self._mistakes.at("party", name, "columns", column):
                    if own.missing == DROP and (alignment == NONE or not several):
                        told = "and this study matches none" if alignment == NONE else "and one party has none to match"
                        raise StudyError(f'column {column}: missing = "{DROP}" acts before ids are matched, {told}')

    def _source(self, name: str, party: Section) -> None:
        note, at = self._mistakes, ("party", name)
        found: dict[str, Any] = {}
        with note.at(*at, "data"):
            found["data"] = read_source(party, self._folder)
        found["read"] = PLAIN
        with note.at(*at, "read"):
            found["read"] = read_written(party)
        for key in KEPT:
            with note.at(*at, key):
                found[key] = _path(party, key, self._folder)
        with note.at(*at, "policy" if "policy" in party else "ledger"):
            if "policy" in found and "ledger" in found and ("policy" in party) != ("ledger" in party):
                raise StudyError(
                    f"[party.{name}] needs policy and ledger together: the policy has the cap, the ledger what is spent"
                )
        with note.at(*at, "id"):
            column = id_column(party)
            if len(found) == 4:
                self._sources[name] = Source(found["data"], column, found["policy"], found["ledger"], found["read"])

    def _offer(self, name: str, party: Section, parties: Section) -> None:
        if "epsilon" in party:
            split = party.table("split", f"{party.where} split").content
            if "own" in split and "own" in parties:
                raise StudyError(f'{party.where} split: "own" is its own block, so no party may have that name')
            self._offers[name] = offer_of(party.content["epsilon"], split, party.where)
        elif "split" in party:
            raise StudyError(f"[party.{name}] has a split but no epsilon to split")

    def _terms(self, terms: Section) -> dict[str, Any]:
        """What [study] says of the agreement; a missing key is a mistake of its own."""
        out: dict[str, Any] = {}
        for name, (key, read) in STATED.items():
            with self._mistakes.at("study", name):
                if name in NEEDED and (name in terms or ("study",) not in self._misspelt):
                    terms.need(name)
                    _require_closed(terms, name)
                if name in terms:
                    out[key] = read(terms, name)
        out.setdefault("collusion", int(len(self._columns) > 1))
        with self._mistakes.at("study", "id_form"):
            out["ids"] = replace(out.get("ids", AS_THEY_ARE), parts=self._parts())
        return out

    def _check_whole(self, terms: Section, parties: Section) -> None:
        """What parts of a study say of each other."""
        note, label = self._mistakes, terms.content.get("label")
        names = {name: table for name, table in parties.content.items() if isinstance(table, Mapping)}
        with note.at("study", "label"):
            if isinstance(label, str) and label and not note.among("study", "label"):
                declared = {str(ColumnRef(p, c)): c for p, t in names.items() for c in _named(t)}
                if label not in declared and label not in declared.values():
                    raise SchemaError(f"column {label} is declared by no party")
        with note.at("study", "epsilon"):
            given = [p for p, table in names.items() if "epsilon" in table]
            if given and len(given) < len(names):
                missing = next(p for p in names if p not in given)
                raise StudyError(f"in the bottom-up case every party gives its epsilon, party {missing} gives none")
            if "study" in self._content and ("study",) not in self._misspelt and bool(given) == ("epsilon" in terms):
                raise StudyError(
                    "give either epsilon of the study (top-down) or an epsilon of every party (bottom-up), "
                    f"got {'both' if given else 'neither'}"
                )

    def _check_agreement(self, agreement: Agreement) -> None:
        """What a plan would refuse later: the label's kind, and how many may collude."""
        note = self._mistakes
        with note.at("study", "label"):
            layout = _columns_of(agreement)
            with note.at("study", "interactions"):
                multiplied = with_interactions(layout, agreement.schema, agreement.query.higher.interactions)
                if (order := agreement.query.higher.order) > 2:
                    with_sums(multiplied, order)
            with note.at("study", "collusion"):
                Terms(agreement.task, collusion=agreement.collusion).check(layout, ())
            with note.at("study", "delta"):
                Terms(agreement.task, agreement.calibration, agreement.delta, 0).check(layout, ())


def _columns_of(agreement: Agreement) -> Layout:
    """The coordinates of a record, without interactions."""
    if agreement.query.declared is not None:
        return agreement.query.draft(agreement)
    return layout_of(agreement.schema, agreement.label, agreement.task, agreement.calibration)


def find_homonym(agreement: Agreement) -> tuple[KeyPath, SchemaError] | None:
    """The refusal of a study in which one text would stand for two columns, levels, bins, halves or products.

    Files of earlier versions may have such names, and are read; what is asked of them by such a text is refused.
    """
    layout = agreement.query.draft(agreement)
    # In the paper's calibration an attribute is a level, and known by its place.
    places = Names((str(a.of), (i, None)) for i, a in enumerate(layout.attributes) if a.ref is not None)
    for text, found in (layout.named.collisions() | places.collisions()).items():
        if text not in map(layout.text, found) and text not in places.collisions():
            # Columns of one name at two parties: all that is written of them has their party.
            continue
        told = " and ".join(layout.tell(place) for place in found)
        path: KeyPath = ("study", "interactions" if agreement.query.higher.interactions else "label")
        for ref in (layout.attributes[i].ref for i, _ in found):
            if ref is not None:
                path = ("party", ref.party, "columns", ref.column)
        return path, SchemaError(f"{told} would both be called {text}: one of them needs another name")
    return None


def _may_cut(agreement: Agreement, rows: int | None) -> bool:
    """Whether bins are left to the plan where a study does not say: for a logistic model of columns as they are."""
    query = agreement.query
    plain = agreement.calibration is Calibration.EXACT and query.tables and not query.higher
    return rows is not None and plain and agreement.task.of_yes_or_no


def _cut(agreement: Agreement, rows: int | None) -> tuple[Agreement, Sequence[Binning]]:
    """The agreement with bins where a plan expects them to pay."""
    if rows is None:
        raise StudyError('numeric = "auto" needs rows in [study]: whether bins pay depends on the number of records')
    query = agreement.query
    if agreement.calibration is not Calibration.EXACT or query.higher.order > 2 or not query.tables:
        told = 'calibration = "exact", order = 2 and a release with tables'
        raise StudyError(f'numeric = "auto" chooses bins, and goes with {told} alone')
    from colonnade.mechanism.cuts import choose_bins

    epsilon, delta = agreement.budget.least, agreement.delta
    schema, cuts = choose_bins(agreement.schema, agreement.label, agreement.task, rows, epsilon, delta)
    return replace(agreement, schema=schema), cuts


def _named(party: Mapping[str, Any]) -> list[str]:
    """The columns that a party's section names."""
    return [*_keys(party.get("columns")), *_keys(party.get("derived"))]


def _keys(table: object) -> list[str]:
    return list(table) if isinstance(table, Mapping) else []


def _require_closed(section: Section, key: str) -> None:
    if section.content[key] == OPEN:
        raise StudyError(f'{section.where} {key} still has the "?" of a draft')


def id_column(party: Section) -> str | tuple[str, ...] | None:
    """The column that names a person, or several that do together."""
    if "id" not in party:
        return None
    if isinstance(party.content["id"], list):
        found = party.texts("id")
        if not found or len(set(found)) < len(found) or not all(found):
            raise StudyError(f"{party.where} id must list different columns, got {shown(party.content['id'])}")
        return found if len(found) > 1 else found[0]
    if party.content["id"] == OPEN:
        told = "replace it by the column that names a person, or leave the line out"
        raise StudyError(f'{party.where} id still has the "?" of a draft: {told}')
    return party.text("id")


def id_parts(column: str | tuple[str, ...] | None) -> int:
    return len(column) if isinstance(column, tuple) else 1


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


def read_source(party: Section, folder: Path) -> DataSource | None:
    """The records that a section's `data`, `query` and `dataset` name."""
    data = party.content.get("data")
    query, dataset = (party.text(key) if key in party else None for key in ("query", "dataset"))
    if isinstance(data, str) and "://" in data:
        return read_address(data, query, dataset, folder, party.where)
    if query is not None:
        raise StudyError(f"{party.where} query is for a database, and data is {shown(data)}")
    place = _path(party, "data", folder)
    return None if place is None else FileSource(place, dataset)


def read_written(party: Section) -> Written:
    """How the values of a party's records are written, by the section `read`."""
    return written_from(party.table("read", f"{party.where.removesuffix(']')}.read]"), "query" in party)


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


STUDY_KEYS = (*STATED, "alignment", "post_quantum", "numeric", "rows")

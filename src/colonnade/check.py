"""Everything in parties' records that would refuse a run or spoil its result, in one list, before anything is spent.

It is for the owners' eyes: in one process for all parties, at a site for its own part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from colonnade.data.ids import TOLD, in_common, written_differently
from colonnade.data.people import read_columns
from colonnade.data.proposals import propose_written
from colonnade.data.reading import filed
from colonnade.data.sources import Source
from colonnade.data.storage import as_texts
from colonnade.data.store import read_rows
from colonnade.data.table import Table
from colonnade.data.unfit import ONE_IN, Unfit, counting
from colonnade.data.written import Written
from colonnade.foundation.columns import FILL, INDICATOR
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.schema import Column, Storage
from colonnade.foundation.shown import shown
from colonnade.planning.leakage import KEY_BITS
from colonnade.runs import open_guards
from colonnade.sites.site import Site
from colonnade.study import StudySpec

ALL, STUDY = "all", "study"
"""Stand for the parties together, and for the terms, where findings name a party."""
OPENING = ("separator", "encoding", "skip")
"""Without these a file cannot be opened, and is looked at as it seems to be written."""
FEW = 30
"""A level with fewer records says little."""
NARROW = 0.1
"""Nine of ten values in so small a part of their bounds leave most of them unused."""
SHOWN = 3  # values of each fault: enough to see what it is, on one line


@dataclass(frozen=True)
class CheckItem:
    """One thing; a fault refuses a run in one process."""

    party: str
    fault: bool
    told: str
    write: str = ""
    """What its owner may write, where that is known."""

    @property
    def text(self) -> str:
        return f"{'fault' if self.fault else 'remark'}: {self.told}" + (f" [{self.write}]" if self.write else "")


@dataclass(frozen=True)
class Checked:
    """What was found of a study's records."""

    study: str
    findings: Sequence[CheckItem]
    common: int | None = None
    """People that all parties have, where one looked at all parties."""

    @property
    def refused(self) -> bool:
        return any(finding.fault for finding in self.findings)

    @property
    def head(self) -> str:
        faults = sum(finding.fault for finding in self.findings)
        told = "a run would be refused" if faults else "a run would not be refused for its data"
        counts = f"{counting(faults, 'fault')}, {counting(len(self.findings) - faults, 'remark')}"
        return f"{self.study}: {told}. {counts}; nothing was spent. For the owners' eyes alone."

    @property
    def lines(self) -> list[str]:
        """One line for each thing, faults first."""
        width = max((len(finding.party) for finding in self.findings), default=0)
        listed = sorted(self.findings, key=lambda finding: not finding.fault)
        return [self.head, *(f"{finding.party:<{width}}  {finding.text}" for finding in listed)]

    def to(self) -> dict[str, Any]:
        found = [asdict(finding) for finding in self.findings]
        return {"study": self.study, "refused": self.refused, "common": self.common, "findings": found}


def check_study(study: StudySpec, strict: bool = False) -> Checked:
    """Look at all parties' records; nothing is spent, and no session begins."""
    agreement, found, tables = study.agreement, list[CheckItem](), dict[str, Table]()
    matched = study.aligned
    owner, label = agreement.schema.find(agreement.label)
    for party, columns in agreement.schema.parties.items():
        source = study.sources.get(party, Source(None))
        findings, table = check_party(party, source, columns, matched, strict, label if party == owner else "")
        found += findings
        if table is not None:
            tables[party] = table
    common = None
    if len(tables) == len(agreement.schema.names):
        common = min(table.rows for table in tables.values())
        if matched and all(table.ids is not None for table in tables.values()):
            findings, common = _common(study, tables)
            found += findings
        elif not matched and len({table.rows for table in tables.values()}) > 1:
            told = ", ".join(f"{party} {table.rows:,}" for party, table in tables.items())
            found.append(CheckItem(ALL, True, f"rows are matched by their order, and differ in number: {told}"))
        elif common < 2:
            found.append(_too_few(common))
        found += _policies(study, tables, matched)
        found += _terms(study, common, strict)
    return Checked(agreement.name, found, common)


def check_site(site: Site) -> Checked:
    """Look at a site's own records."""
    columns = site.study.agreement.schema.parties[site.party]
    found, _ = check_party(site.party, site.source, columns, site.study.aligned)
    return Checked(site.study.agreement.name, found)


def check_party(
    party: str, source: Source, columns: Mapping[str, Column], matched: bool, strict: bool = False, label: str = ""
) -> tuple[list[CheckItem], Table | None]:
    """One party's records: how they are read, what does not fit, ids, and columns that say little."""
    if source.data is None:
        return [CheckItem(party, True, f"[party.{party}] names no data")], None
    found, stated = list[CheckItem](), source.written
    try:
        seems = _proposed(source, columns)
        source, why, present = _opened(party, source, seems, columns, matched, found)
        if not filed(present):
            return found, None
        # A column that refuses is looked at as any other here: all that is wrong shall be told.
        lenient = {name: replace(own, undeclared=None) if own.undeclared else own for name, own in present.items()}
        table = again = source.read(party, lenient, matched=matched)
        # What lies in a corner of its bounds, or is rare, is judged in the forms that the file seems to have.
        if table.unfit and seems != source.written:
            again = replace(source, written=seems).read(party, lenient, matched=matched)
        odd = {n: own for n, own in table.unfit.items() if n not in again.unfit or again.unfit[n].wrong < own.wrong}
        most = {
            name: 0 if strict or (name in columns and columns[name].undeclared) else (own.rows or table.seen) / ONE_IN
            for name, own in table.unfit.items()
        }
        if why or odd:
            fault = bool(why) or any(own.unplaced > most[name] for name, own in odd.items())
            write = [line for line in seems.lines if line not in stated.lines]
            found.append(CheckItem(party, fault, _written(why, odd), f"read: {', '.join(write)}"))
        undeclared = _undeclared(party, replace(source, written=seems), again)
        for name, own in again.unfit.items():
            if own.unplaced:
                told = f"{name}: {_told(own, own.rows or table.seen, undeclared.get(name, []))}"
                found.append(CheckItem(party, own.unplaced > most[name], told, _answer(own, name == label)))
        found += _ids(party, table, strict) + _little(party, again)
    except ColonnadeError as error:
        return [*found, CheckItem(party, True, error.told)], None
    return found, table


def _proposed(source: Source, columns: Mapping[str, Column]) -> Written:
    """The forms that are stated, and for keys that are not, those that the file seems to have."""
    assert source.data is not None
    levels = {level for column in columns.values() for level in column.all_levels}
    seems, stated = propose_written(source.data, source.written.sheet), source.written.stated
    seems = replace(seems, missing=tuple(text for text in seems.missing if text not in levels))
    return replace(source.written, **{f.name: getattr(seems, f.name) for f in fields(seems) if f.name not in stated})


def _opened(
    party: str, source: Source, seems: Written, columns: Mapping[str, Column], matched: bool, found: list[CheckItem]
) -> tuple[Source, str, dict[str, Column]]:
    """The source in a form that can be read, why it cannot be in the stated one, and the columns that it has."""
    ids, needed = source.ids.columns if source.ids is not None and matched else (), filed(read_columns(party, columns))
    wanted, why = {*needed, *ids}, ""
    names, refusal = _header(party, source)
    if not wanted <= set(names):
        opening = replace(source, written=replace(source.written, **{key: getattr(seems, key) for key in OPENING}))
        better, _ = _header(party, opening)
        if len(wanted & set(better)) > len(wanted & set(names)):
            why = "it has other columns" if refusal is None else refusal.what
            names, refusal, source = better, None, opening
    if refusal is not None:
        found.append(CheckItem(party, True, refusal.told))
        return source, "", {}
    for name in (name for name in (*needed, *ids) if name not in names):
        by_case = {other.casefold().strip(): other for other in names}
        near = get_close_matches(name.casefold().strip(), by_case, 1)
        kind = "id column" if name in ids else "column"
        found.append(CheckItem(party, True, f"there is no {kind} {name!r}", f"{by_case[near[0]]!r}?" if near else ""))
    if any(name not in names for name in ids):
        source = replace(source, id=None)
    filled = {n: filed(read_columns(party, {n: own})) for n, own in columns.items() if not own.sources}
    present = {name: columns[name] for name, read in filled.items() if set(read) <= set(names)}
    present |= {n: own for n, own in columns.items() if own.sources and all(s in present for s in own.sources)}
    return source, why, {name: present[name] for name in columns if name in present}


def _header(party: str, source: Source) -> tuple[list[str], ColonnadeError | None]:
    assert source.data is not None
    try:
        return source.data.header(source.written), None
    except ColonnadeError as error:
        return [], error.of(party)


def _written(why: str, odd: Mapping[str, Unfit]) -> str:
    """How a file is written otherwise than declared, with a text of each column that shows it."""
    texts = ", ".join(f"{name} {shown(own.text)}" if own.text else name for name, own in odd.items())
    told = f"the file is not as it is declared: {why}" if why else "values are written in other forms"
    return f"{told}; it seems to have other forms in {texts}" if why and odd else f"{told}: {texts}" if odd else told


def _answer(own: Unfit, label: bool) -> str:
    """What the owner may write of values that are missing or not as declared."""
    column = own.column
    if own.missing and not column.takes(missing=True):
        level = not label and column.storage is Storage.LEVELS
        return 'missing = "level"' if level else f'missing = "{FILL if label else INDICATOR}", fill = ...'
    return "levels, or other = true" if column.storage is Storage.LEVELS and not column.spelled else "correct the file"


def _told(own: Unfit, rows: int, undeclared: Sequence[tuple[str, int]]) -> str:
    parts = []
    if own.wrong and undeclared:
        few = ", ".join(f"{shown(text)} in {count:,} rows" for text, count in undeclared[:SHOWN])
        parts.append(f"{own.wrong:,} of {rows:,} values are no declared levels ({few})")
    elif own.wrong:
        kind = "truth values" if own.column.spelled else "dates" if own.column.dated else "numbers"
        quoted = f", {shown(own.text)}" if own.text else ""
        parts.append(f"{own.wrong:,} of {rows:,} values are no {kind} (row {own.wrong_row}{quoted})")
    if own.missing:
        parts.append(f"{own.missing:,} of {rows:,} are missing (row {own.missing_row})")
    return "; ".join(parts)


def _undeclared(party: str, source: Source, table: Table) -> dict[str, list[tuple[str, int]]]:
    """The undeclared texts of columns of levels, the most frequent first."""
    wrong = {name: own.column for name, own in table.unfit.items() if own.wrong and own.unplaced}
    levels = [name for name, own in wrong.items() if own.storage is Storage.LEVELS and not own.spelled]
    counts: dict[str, Counter[str]] = {name: Counter() for name in levels}
    if levels and source.data is not None:
        for frame in source.frames(party, table.columns):
            for name in levels:
                texts = as_texts(frame.get_column(name)).drop_nulls().str.strip_chars()
                counts[name].update(dict(texts.value_counts().iter_rows()))
    return {
        name: [(text, many) for text, many in found.most_common() if text and text not in wrong[name].all_levels]
        for name, found in counts.items()
    }


def _ids(party: str, table: Table, strict: bool) -> list[CheckItem]:
    """Rows that ids cannot tell apart, and what other parties' ids may not have."""
    found, left, rows = list[CheckItem](), table.left_out, table.left_out.rows or table.seen
    if left.merged:
        found.append(CheckItem(party, True, left.refusal(party).told))
    for many, told in ((left.repeated - len(left.merged), "repeat an id"), (left.missing, "have no id")):
        if many > 0:
            fault, write = ONE_IN * left.count > rows or strict, f"[party.{party}.people]" if "repeat" in told else ""
            told = f"{left.column}: {many:,} of {rows:,} rows {told}, and are left out"
            found.append(CheckItem(party, fault, told, write))
    return found + [CheckItem(party, False, f"{many:,} ids have {TOLD[name]}") for name, many in table.id_forms.items()]


def _little(party: str, table: Table) -> list[CheckItem]:
    """Columns that are clipped, lie in a corner of their bounds, are constant or there twice, or have rare levels."""
    found, seen = [CheckItem(party, False, note) for note in table.heavy_clipping()], dict[bytes, str]()
    for name, column in table.columns.items():
        if name in table.unfit and 2 * table.unfit[name].count > table.seen:
            continue
        values = np.asarray(read_rows(table.values[name], 0, table.rows))
        values = values[~np.isnan(values)]
        if (twin := seen.setdefault(values.tobytes(), name)) != name:
            found.append(CheckItem(party, False, f"{name} holds the same as {twin}", "leave one out"))
        if values.size and values.min() == values.max():
            found.append(
                CheckItem(party, False, f"{name} is always the same", "" if column.sources else "leave it out")
            )
        elif column.storage is Storage.LEVELS:
            counts = np.bincount(values.astype(np.int64), minlength=len(column.all_levels))
            if rare := int((counts < FEW).sum()):
                told = f"{name}: {rare} of {len(counts)} levels have fewer than {FEW} records"
                grouped = rare > 1 and len(counts) > 2
                found.append(CheckItem(party, False, told, "other = true, or group them" if grouped else ""))
        elif not column.has_levels and column.bounds is not None:
            low, high = column.bounds
            ends = np.quantile(np.clip(values, low, high), [0.05, 0.95])
            part = float(ends[1] - ends[0]) / (high - low) if high > low else 1.0
            if part < NARROW:
                told = f"{name}: nine of ten values fill {100 * part:.0f}% of the bounds"
                found.append(CheckItem(party, False, told, "closer bounds, or bins"))
    return found


def _common(study: StudySpec, tables: Mapping[str, Table]) -> tuple[list[CheckItem], int]:
    """How many people all have, as their ids are and in other forms."""
    ids, terms = {party: table.ids or () for party, table in tables.items()}, study.agreement.ids
    now = in_common(ids)
    several = [party for party, table in tables.items() if table.gathered or table.left_out.repeated]
    if (differently := written_differently(ids, terms.form, terms.parts, several)) is not None:
        told, write = differently
        stated = any(source.form is not None for source in study.sources.values())
        return [CheckItem(ALL, not stated, told, write), *([_too_few(now)] if stated and now < 2 else [])], now
    return [_too_few(now)] * (now < 2), now


def _too_few(common: int) -> CheckItem:
    return CheckItem(ALL, True, f"records in common: {common}, and a regression needs at least 2")


def _policies(study: StudySpec, tables: Mapping[str, Table], matched: bool) -> list[CheckItem]:
    found = []
    try:
        guards = open_guards(study)
    except ColonnadeError as error:
        return [CheckItem(ALL, True, str(error))]
    for party, guard in guards.items():
        try:
            guard.foresee(study.agreement, tables[party].rows, matched)
        except ColonnadeError as error:
            found.append(CheckItem(party, True, f"its policy or ledger would refuse: {error}"))
    return found


def _terms(study: StudySpec, common: int | None, strict: bool) -> list[CheckItem]:
    """What a plan for so many records warns of; `strict` refuses a plan with any warning."""
    if common is None or common < 2:
        return []
    try:
        session = study.session(common)
        exposed = min(session.exposures, key=lambda exposure: exposure.key.bits, default=None)
        found = [CheckItem(STUDY, strict, note) for note in session.warnings()]
        if exposed is not None and exposed.key.bits < KEY_BITS:
            told = f"a policy would refuse what leaves under {KEY_BITS} bits of a key: {exposed.tell()}"
            found.append(CheckItem(STUDY, False, f"{told}; {session.leave_bits(exposed, KEY_BITS)}"))
        return found
    except ColonnadeError as error:
        return [CheckItem(STUDY, True, str(error))]

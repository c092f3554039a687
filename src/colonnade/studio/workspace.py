"""The studio's workspace: one study, and the files of one folder. No name from outside becomes a path."""

from __future__ import annotations

import tomllib
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from colonnade.consent.entries import Account
from colonnade.consent.ledger import Ledger
from colonnade.data.drafts import draft_columns
from colonnade.data.sources import FileSource
from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.foundation.files import MARK, places, read_whole
from colonnade.foundation.parts import data_files
from colonnade.foundation.sections import parse_toml
from colonnade.foundation.shown import OPEN
from colonnade.mechanism.release import ReleaseRecord, read_release
from colonnade.report.answers.booked import booked
from colonnade.report.results import Listing
from colonnade.studio.form import EMPTY, Content, table, to_toml
from colonnade.study import LARGEST_STUDY, StudySpec, read_study, study_from

DATA = (".csv", ".parquet", ".pq")
LEDGERS = (".ledger", ".sqlite", ".db")
LARGEST_RELEASE = 1 << 28  # 256 MB: larger files are not looked into when the page lists releases


@dataclass(frozen=True)
class LedgerView:
    """A ledger as the page shows it."""

    name: str
    head: str
    accounts: list[Account]
    lines: Listing | None
    """Every entry, as `colonnade ledger show` has it."""
    error: str = ""


@dataclass
class Workspace:
    """The study that is being worked on, in a folder that nothing leaves."""

    folder: Path
    content: Content = field(default_factory=lambda: deepcopy(EMPTY))
    opened: str | None = None
    found: Content = field(default_factory=dict)
    """The parties of the file that was opened, as it had them: what it names may lie outside of the folder."""
    kept: Content | None = None
    """A study that was put aside to compare others with."""
    lock: Lock = field(default_factory=Lock)

    def files(self, *endings: str) -> list[str]:
        """Names of the folder's files with one of these endings; hidden ones are left out."""
        return sorted(
            p.name
            for p in self.folder.iterdir()
            if p.suffix.lower() in endings and p.is_file() and not p.name.startswith(".") and self._inside(p)
        )

    def place(self, name: str, *endings: str) -> Path:
        """A listed file by its name; anything else is refused, whatever path it spells."""
        if name not in self.files(*endings):
            raise StudyError(f"there is no such file in the studio's folder, got {name!r}")
        return self.folder / name

    def new_place(self, name: str, ending: str) -> Path:
        """Where a file of this name may be written: a plain name that is still free."""
        plain = Path(name).name == name and name not in ("", ".", "..") and not name.startswith(".")
        if not plain or not name.endswith(ending) or not name.isprintable() or "\\" in name:
            raise StudyError(f"a file's name must be a plain name that ends in {ending}, got {name!r}")
        if (self.folder / name).exists():
            raise StudyError(f"{name} is in the studio's folder already and is not overwritten")
        return self.folder / name

    def _inside(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.folder.resolve())

    def open(self, name: str) -> None:
        """Put a study file of the folder into the workspace."""
        self.content, self.opened = self.read(name), name
        self.found = deepcopy(table(self.content.get("party")))

    def read(self, name: str) -> Content:
        """A study file of the folder, valid or not."""
        path = self.place(name, ".toml")
        if path.stat().st_size > LARGEST_STUDY:
            read_study(path)
        return _opened(read_whole(path, "study").decode("utf-8", "replace"))

    def load(self, text: str) -> None:
        """Put a study that is given as text into the workspace, valid or not."""
        self.content, self.opened, self.found = _opened(text), None, {}

    def save(self, name: str) -> None:
        """Write the study into the folder; only the file it was opened from may be there already."""
        path = self.folder / name if name == self.opened else self.new_place(name, ".toml")
        with places(path) as (place,):
            place.write(to_toml(self.content).encode())
        self.opened = name

    def study(self, content: Content | None = None) -> StudySpec:
        """The study, or another, checked as a file with this content would be."""
        return study_from(parsed(to_toml(self.content if content is None else content)), self.folder)

    def guarded_study(self) -> StudySpec:
        """The study for a run: what it names lies in the folder, or stands so in the file that was opened."""
        study, parties = self.study(), table(self.content.get("party"))
        for name, source in study.sources.items():
            now, before = table(parties.get(name)), table(self.found.get(name))
            typed = [key for key in ("data", "query", "policy", "ledger") if now.get(key) != before.get(key)]
            database = source.data is not None and not isinstance(source.data, FileSource)
            if database and {"data", "query"} & {*typed}:
                raise StudyError(
                    f"party {name}: the studio reads files of its own folder only, and addresses that stand in the "
                    "study file that was opened, got an address that was typed"
                )
            data = source.data.path if "data" in typed and isinstance(source.data, FileSource) else None
            own = {"policy": source.policy, "ledger": source.ledger}
            named = [data, *(path for key, path in own.items() if key in typed)]
            # A folder or a pattern names many files, and each of them may be a link.
            parts = data_files(data) if data is not None and self._inside(data) else []
            for path in (*named, *parts):
                if path is not None and not self._inside(path):
                    raise StudyError(
                        f"party {name}: the studio reads files of its own folder only, and those that the study file "
                        f"names that was opened, got {path.name!r}"
                    )
        return study

    def add_draft(self, name: str, party: str) -> None:
        """Add a party with the columns of a file's header; bounds and levels stay open."""
        path = self.place(name, *DATA)
        drafted = tomllib.loads(draft_columns(FileSource(path), party.strip() or None))["party"]
        parties = table(self.content.get("party"))
        for new, declared in drafted.items():
            if new in parties:
                raise StudyError(f"the study has a party {new} already")
            parties[new] = {**declared, "id": None} if declared.get("id") == OPEN else declared
            parties[new] = {key: value for key, value in parties[new].items() if value is not None}
        self.content = {**self.content, "party": parties}

    def add_header(self, text: str, party: str) -> None:
        """Add a party with columns named in a pasted header line, all numeric until someone says otherwise."""
        names = [name.strip().strip('"') for name in text.replace(";", ",").replace("\t", ",").split(",")]
        names = list(dict.fromkeys(name for name in names if name))
        parties = table(self.content.get("party"))
        new = party.strip() or f"party{len(parties) + 1}"
        if new in parties:
            raise StudyError(f"the study has a party {new} already")
        if not names:
            raise StudyError("a header needs at least one column's name, got none")
        parties[new] = {"columns": {name: {"kind": "numeric"} for name in names}}
        self.content = {**self.content, "party": parties}

    def releases(self) -> list[tuple[str, ReleaseRecord]]:
        """The folder's releases that can be read."""
        out = []
        for name in self.files(".json"):
            path = self.folder / name
            if path.stat().st_size > LARGEST_RELEASE or MARK not in path.read_bytes():
                continue
            try:
                out.append((name, read_release(path.read_bytes())))
            except ColonnadeError:
                continue
        return out

    def release(self, name: str) -> ReleaseRecord:
        """A release of the folder that columns can be asked about."""
        found = read_release(read_whole(self.place(name, ".json"), "release"))
        if "evaluates" in found.agreement:
            raise StudyError(
                f"{name} evaluates a model and has no columns: colonnade evaluate --opened {name} tells it"
            )
        return found

    def readable_ledgers(self) -> list[Ledger]:
        """The folder's ledgers that are in order."""
        return [Ledger(self.folder / view.name) for view in self.ledgers() if not view.error]

    def ledgers(self) -> list[LedgerView]:
        """The folder's ledgers, each with its chain checked."""
        out = []
        for name in self.files(*LEDGERS):
            ledger = Ledger(self.folder / name)
            try:
                head, accounts = ledger.verify(), ledger.accounts()
                out.append(LedgerView(name, head, accounts, booked(name, accounts, ledger.lines()).tables[1]))
            except ColonnadeError as error:
                out.append(LedgerView(name, "", [], None, str(error)))
        return out


def parsed(text: str) -> Content:
    """A study file's parsed form."""
    return parse_toml(text, "the study", LARGEST_STUDY, StudyError)


def _opened(text: str) -> Content:
    content = parsed(text)
    if not content.keys() & {"study", "party"}:
        raise StudyError("a study file needs a [study] section")
    return content


def edit_study(content: Content, what: str) -> Content:
    """The study after a button: "party", "column:I", "drop-party:I" or "drop-column:I:J"."""
    kind, *numbers = what.split(":")
    parties: list[tuple[str, Any]] = list(table(content.get("party")).items())
    try:
        places_of = [int(n) for n in numbers]
        match kind, places_of:
            case "party", []:
                parties.append((f"party{len(parties) + 1}", {"columns": {"column1": {"kind": "numeric"}}}))
            case "column", [i]:
                columns = table(parties[i][1].get("columns"))
                columns[_new_name(content)] = {"kind": "numeric"}
                parties[i][1]["columns"] = columns
            case "drop-party", [i]:
                parties.pop(i)
            case "drop-column", [i, j]:
                columns = table(parties[i][1].get("columns"))
                columns.pop(list(columns)[j])
                parties[i][1]["columns"] = columns
            case _:
                return content
    except (ValueError, IndexError):
        raise StudyError(f"the form has no such party or column, got {what!r}") from None
    return {**content, "party": dict(parties)}


def _new_name(content: Content) -> str:
    taken = {name for party in table(content.get("party")).values() for name in table(party).get("columns", {})}
    return next(name for k in range(1, len(taken) + 2) if (name := f"column{k}") not in taken)

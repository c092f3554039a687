"""The command `new`: a first study file from data files, by questions in a terminal or by flags."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colonnade.cli.options import Json, Queries, argument, flag, option, path_argument
from colonnade.cli.releases import Regression
from colonnade.cli.screen import print_json, stderr, stdout
from colonnade.foundation.errors import ColonnadeError, MistakesError, SchemaError, StudyError
from colonnade.foundation.names import ColumnRef
from colonnade.foundation.shown import number_of

if TYPE_CHECKING:
    from colonnade.data.drafts import DraftColumn, DraftParty

STUDY = "study.toml"


def new(
    folder: Annotated[Path, path_argument("FOLDER", "Folder of the study; made if there is none.")],
    data: Annotated[
        list[str] | None,
        argument(
            "[[PARTY=]DATA...]", "Each party's data file, or a database's address; its name is the file's if not given."
        ),
    ] = None,
    name: Annotated[str | None, option("--name", "TEXT", "The study's name; the folder's if not given.")] = None,
    label: Annotated[str | None, option("--label", "PARTY.COLUMN", "The column to be predicted.")] = None,
    task: Annotated[Regression | None, option("--task", "linear|logistic", "By the label's kind if not given.")] = None,
    epsilon: Annotated[
        float | None, option("--epsilon", "E", "Privacy budget of a whole record; 1 if not given.")
    ] = None,
    delta: Annotated[float, option("--delta", "D", "0: pure.")] = 0.0,
    rows: Annotated[int | None, option("--rows", "N", "About how many records all parties have in common.")] = None,
    public_data: Annotated[
        bool, flag("--public-data", "The data is public: take bounds, levels and forms from it.")
    ] = False,
    query: Queries = None,
    ask: Annotated[
        bool | None, typer.Option("--ask/--no-ask", help="Ask for what is open; asked in a terminal if not given.")
    ] = None,
    json: Json = False,
) -> None:
    """Draft a study file from data files: every column with its kind, and a "?" wherever a person has to decide."""
    from colonnade.data.drafts import draft_study
    from colonnade.foundation.files import places

    asking = sys.stdin.isatty() and not json if ask is None else ask
    place = folder / STUDY
    if place.exists():
        raise StudyError(f"{place} is there already, and a draft overwrites nothing")
    parties = _parties(folder, data or [], query or [], public_data, asking)
    head: dict[str, Any] = {"name": name or folder.resolve().name, "delta": int(delta) if delta == 0 else delta}
    head["label"] = _label(parties, label, asking)
    head["task"] = _task(parties, head["label"], task)
    head["epsilon"] = epsilon if epsilon is not None else _epsilon(asking)
    head["rows"] = rows or _rows(parties, asking)
    if asking:
        _ask_facts(parties)
    folder.mkdir(parents=True, exist_ok=True)
    with places(place) as (file,):
        file.write(draft_study(head, parties, public_data).encode())
    missing = _missing(place)
    if json:
        print_json({"study": str(place), "parties": [party.name for party in parties], "missing": missing})
        return
    stdout().print(f"Draft written to {place}.")
    if missing:
        stdout().print(f"Still to be declared, {len(missing)} in all:")
        for line in missing:
            stdout().print(f"  {line}", soft_wrap=True)
    else:
        stdout().print(f"Nothing is open. Next: colonnade plan {place}")


def _parties(folder: Path, data: Sequence[str], queries: Sequence[str], public: bool, asking: bool) -> list[DraftParty]:
    from colonnade.data.drafts import draft_party
    from colonnade.data.sources import AddressSource, by_party, local_name, source_at

    named = list(data)
    while asking and not data:
        answer = typer.prompt("Data file of a party (Enter when there are no more)", default="", show_default=False)
        if not answer.strip():
            break
        named.append(answer.strip())
    if not named:
        raise StudyError("a study needs data files, got none: colonnade new FOLDER FILE...")
    out: list[DraftParty] = []
    asked = dict(map(by_party, queries))
    for text in named:
        party, data_text = by_party(text)
        # A query is known by the party's name, which is the database's where none is given.
        known = party or (local_name(data_text) if "://" in data_text else None)
        source = source_at(data_text, asked.pop(known, None), party)
        # The study file names data relative to itself.
        if isinstance(source, AddressSource):
            file = source.file
            relative = source.address if file is None else f"{source.address.partition(':')[0]}:///"
        else:
            file, relative = source.path, ""
        relative += "" if file is None else os.path.relpath(file.resolve(), folder.resolve())
        found = draft_party(source, party, public, relative)
        if any(found.name == other.name for other in out):
            raise StudyError(f"two parties would be called {found.name}: name one as NAME={data_text}")
        out.append(found)
    if asked:
        raise StudyError(f"--query goes with data of the same party, got none for {next(iter(asked))}")
    out[0].alone = len(out) == 1
    return out


def _label(parties: Sequence[DraftParty], label: str | None, asking: bool) -> str | None:
    """The label as "party.column"."""
    names = {str(ColumnRef(party.name, column)): column for party in parties for column in party.columns}
    while label is not None or asking:
        if label is None:
            stderr().print(f"Columns: {', '.join(names)}")
            label = typer.prompt("Column to be predicted (Enter leaves it open)", default="", show_default=False)
            if not label.strip():
                return None
        found = [name for name, column in names.items() if label.strip() in (name, column)]
        if len(found) == 1:
            return found[0]
        told = f"{label} is in no file" if not found else f"{label} is in several files, {' and '.join(found)}"
        if not asking:
            raise StudyError(f"the label must be a column of one party: {told}")
        stderr().print(told)
        label = None
    return None


def _task(parties: Sequence[DraftParty], label: str | None, task: Regression | None) -> str | None:
    """The task, by the label's kind if none is given; a label of a logistic regression has two levels."""
    if task is not None and task not in (Regression.LINEAR, Regression.LOGISTIC):
        raise StudyError(f"a study's task is linear or logistic, got {task.value}")
    if label is None:
        return None if task is None else task.value
    party, column = next((p, c) for p in parties for c in p.columns if str(ColumnRef(p.name, c)) == label)
    found = party.columns[column]
    numeric = found.kind in ("numeric", "date")
    chosen = task.value if task is not None else "linear" if numeric else "logistic"
    open_levels = found.kind in ("categorical", "numeric") and not found.facts.get("levels")
    if chosen == Regression.LOGISTIC.value and open_levels:
        found.kind, found.facts = "binary", {}
    found.be_label(len(parties) > 1)
    return chosen


def _epsilon(asking: bool) -> float:
    if not asking:
        return 1.0
    return float(typer.prompt("Epsilon, the privacy budget of a whole record", default=1.0, type=float))


def _rows(parties: Sequence[DraftParty], asking: bool) -> int | None:
    """About how many records all have in common; of public data no more than the smallest has."""
    held = [party.rows for party in parties if party.rows is not None]
    known = min(held) if len(held) == len(parties) else None
    if not asking:
        return known
    return int(
        typer.prompt(
            "About how many records all have in common (0 leaves it open)", default=known or 0, type=int, err=True
        )
    )


def _ask_facts(parties: Sequence[DraftParty]) -> None:
    """Ask for public facts; an empty answer leaves them open."""
    screen = stderr()
    screen.print("Now what is publicly known of each column, never what the data shows. Enter leaves it open.")
    for party in parties:
        if party.written.stated and not party.confirmed:
            screen.print(f"{party.name}: its file seems to be written so:", *party.written.lines, sep="\n  ")
            party.confirmed = typer.confirm("Is that right?", default=True, err=True)
        columns = list(party.columns)
        guess = party.id or ""
        said = typer.prompt(f"{party.name}: column that names a person", default=guess, show_default=bool(guess))
        if said.strip() and said != party.id and said in columns:
            party.id = said
            del party.columns[said]
        for name, column in list(party.columns.items()):
            if column.facts:
                continue
            while not _ask_column(str(ColumnRef(party.name, name)), column):
                pass
            if column.kind == "":
                del party.columns[name]


QUESTIONS = {
    "numeric": "number; lowest and highest possible value, such as 0 120",
    "date": "date; earliest and latest day, such as 2020-01-01 2024-12-31",
    "categorical": "text; all levels, separated by commas, a last ... for any other",
    "binary": "label; its two levels, separated by a comma, the positive one second",
    "boolean": "yes or no; Enter to take it",
}


def _ask_column(name: str, column: DraftColumn) -> bool:
    """One question; "-" leaves the column out. False where the answer cannot be read."""
    if column.code and column.kind == "numeric" and typer.confirm(f"{name} has few whole numbers. Are they codes?"):
        column.kind = "categorical"
    column.code = False
    text = typer.prompt(f"{name} ({QUESTIONS[column.kind]}; - leaves it out)", default="", show_default=False).strip()
    if text == "-":
        column.kind = ""
        return True
    if not text:
        return True
    try:
        column.facts = _facts(column.kind, text)
        _check(name, column)
        if column.gaps:
            column.facts |= _ask_gaps(name, column)
            _check(name, column)
    except ColonnadeError as error:
        stderr().print(str(error))
        column.facts = {}
        return False
    return True


def _ask_gaps(name: str, column: DraftColumn) -> dict[str, Any]:
    """What becomes of missing values; nothing is declared of them where no answer is given."""
    if not column.filled:
        asked = f"{name}: some values are missing. Is that a level of its own?"
        return {"missing": "level"} if typer.confirm(asked, default=True, err=True) else {}
    asked = f"{name}: some values are missing; what stands for one, beside a column that says so"
    text = typer.prompt(asked, default="", show_default=False, err=True).strip()
    if not text:
        return {}
    return {"missing": "indicator", "fill": text if column.kind == "date" else number_of(text)}


def _facts(kind: str, text: str) -> dict[str, Any]:
    if kind in ("categorical", "binary"):
        levels = [level.strip() for level in text.split(",") if level.strip()]
        other = kind == "categorical" and levels[-1:] == ["..."]
        return {"levels": levels[:-1] if other else levels} | ({"other": True} if other else {})
    parts = text.replace(",", " ").split()
    if kind == "boolean" or len(parts) != 2:
        raise SchemaError(f"two values are wanted, got {text!r}")
    keys = ("earliest", "latest") if kind == "date" else ("low", "high")
    return dict(zip(keys, parts if kind == "date" else map(number_of, parts), strict=True))


def _check(name: str, column: DraftColumn) -> None:
    from colonnade.foundation.schema import column_from

    column_from(name, column.content)


def _missing(place: Path) -> list[str]:
    """What the reader of study files still refuses, each with its line."""
    from colonnade.study import read_study

    try:
        read_study(place)
    except MistakesError as error:
        return list(error.lines)
    except ColonnadeError as error:
        return [str(error)]
    return []

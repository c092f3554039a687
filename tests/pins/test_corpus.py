"""Files that 0.1.0 wrote are read, and written back byte for byte, with the same digests and the same plans."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from colonnade.consent.ledger import OLDEST, TABLES, Ledger
from colonnade.foundation.canonical import canonical_json
from colonnade.foundation.errors import ColonnadeError
from colonnade.mechanism.release import read_release, write_release
from colonnade.model import read_model, write_model
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session
from colonnade.transport.evidence import RECORD, KeptEvidence
from tests.pins.studies import read_lines, write_lines

ROWS, IDENTITY = 1000, bytes(32)
PLANNED = 10
"""Every so many agreements are planned: a plan takes longer than a reading."""


def read_back(line: str) -> str:
    """What is written of an agreement that was read; or the sentence that it is refused with."""
    try:
        return canonical_json(Agreement.of(json.loads(line)).to(), escaped=False)
    except ColonnadeError as error:
        return f"{type(error).__name__}: {error}"


def planned(line: str) -> str:
    """The digest of the plan of an agreement; or the sentence that it is refused with."""
    try:
        return plan_session(Agreement.of(json.loads(line)), ROWS, IDENTITY).digest
    except ColonnadeError as error:
        return f"{type(error).__name__}: {error}"


def test_agreements_come_back_byte_for_byte() -> None:
    """But for those that this version refuses, whose sentences are kept."""
    lines, refused = read_lines("agreements"), json.loads(read_lines("plans")[0])
    assert len(lines) == 500
    for place, line in enumerate(lines):
        assert read_back(line) == refused.get(str(place), line)
    assert len(refused) <= 10


def test_agreements_are_planned_as_they_were() -> None:
    lines, kept = read_lines("agreements")[::PLANNED], json.loads(read_lines("plans")[1])
    assert [planned(line) for line in lines] == kept
    assert sum(len(digest) == 64 for digest in kept) > len(kept) // 2


def test_releases_and_models_come_back_byte_for_byte() -> None:
    for line in read_lines("releases"):
        assert write_release(read_release(f"{line}\n".encode())) == f"{line}\n".encode()
    for line in read_lines("models"):
        assert write_model(read_model(f"{line}\n".encode())) == f"{line}\n".encode()


def test_a_ledgers_lines_come_back_with_their_hashes(tmp_path: Path) -> None:
    """Each hash is of the line's bytes and of the hash before."""
    lines = [json.loads(line) for line in read_lines("ledger")]
    with closing(sqlite3.connect(tmp_path / "a.ledger", isolation_level=None)) as book:
        for statement in (*TABLES, f"PRAGMA user_version = {OLDEST}"):
            book.execute(statement)
        for line in lines:
            content = {key: value for key, value in line.items() if key not in ("number", "hash")}
            book.execute(
                "INSERT INTO entries VALUES (?, ?, ?)", (line["number"], canonical_json(content), line["hash"])
            )
    assert [line.to() for line in Ledger(tmp_path / "a.ledger").lines()] == lines
    assert {line["kind"] for line in lines} >= {"booked", "released"}


def test_evidence_is_read(tmp_path: Path) -> None:
    lines = read_lines("evidence")
    (tmp_path / RECORD).write_text("\n".join(lines) + "\n")
    kept = KeptEvidence.read(tmp_path)
    assert [json.dumps(record, sort_keys=True) for record in kept.records] == lines
    assert not kept.damaged
    assert kept.of("commitment")


def write_plans() -> None:
    """Keep what this version says of the corpus's agreements."""
    lines = read_lines("agreements")
    refused = {str(place): told for place, line in enumerate(lines) if (told := read_back(line)) != line}
    write_lines("plans", (json.dumps(refused), json.dumps([planned(line) for line in lines[::PLANNED]])))


if __name__ == "__main__":
    sys.exit(write_plans())

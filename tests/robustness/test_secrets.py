"""No key, seed, share, mask, noise, column or exact sum is in a message, a file, a text or a repr; arrays are wiped."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade.crypto.alignment import frames
from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.crypto.alignment.server import AlignmentServer
from colonnade.crypto.masks import MaskKeys
from colonnade.crypto.product import SERVER
from colonnade.data.ids import IdColumns
from colonnade.foundation.errors import ColonnadeError, PolicyError
from colonnade.foundation.matching import NONE, PSI
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import write_release
from colonnade.planning.prediction import words_of
from colonnade.protocol.messages import SUBMIT, Envelope, Go, Step, body_of
from tests.helpers.canaries import Needles, noted
from tests.helpers.predictions import predicted
from tests.helpers.sessions import Drop, Scripted, TappedSession, agreement_of, people_of, tables_of, tapped_session
from tests.helpers.signers import signers_of

SRC = Path(__file__).resolve().parents[2] / "src"
KINDS = {"column", "exact sums", "hint", "lattice error", "lattice key", "mask", "mask key", "noise", "seed", "share"}
KINDS |= {"stream key"}
MATCHING = {
    "pair key",
    "function key",
    "base seed",
    "group key",
    "tag",
    "message",
    "function value",
    "id",
    "stream key",
}
WIPED = ("exact sums", "lattice key", "mask", "share")


def session(
    needles: Needles, product: str, seed: bytes | None, drop: Drop = lambda _: False, alignment: str = NONE, **more: Any
) -> TappedSession:
    """A whole session, from hello to the last word, whose secrets are noted as they are made."""
    agreement = agreement_of(3, product=product)
    tables = people_of(tables_of(agreement, 16)) if alignment == PSI else tables_of(agreement)
    with noted(needles):
        wire = tapped_session(agreement, seed, drop, tables, alignment, **more)
        try:
            wire.run()
        except ColonnadeError as error:
            needles.told = str(error)
    for table in tables.values():
        for person in table.ids or ():
            needles.text("id", person)
        for values in table.values.values():
            for value in np.asarray(values, dtype=np.float64)[:20]:
                if value != round(value):
                    needles.number("column", float(value))
    return wire


def texts(wire: TappedSession) -> bytes:
    """What anybody could print."""
    things: list[object] = [wire.server, wire.server.task, *wire.parties.values()]
    for role in (wire.server, *wire.parties.values()):
        things += [value for value in vars(role).values() if not isinstance(value, (bytes, list, dict))]
        # A task's own public words; the table that its source reads is the party's.
        things += [v for k, v in vars(role.task).items() if k not in ("source", "_table") and not isinstance(v, dict)]
    return "\n".join(f"{thing!r} {thing!s}" for thing in things).encode()


@pytest.mark.parametrize("seed", [b"canary seed of thirty-two bytes.", None], ids=["seeded", "fresh"])
def test_nothing_secret_in_messages_release_logs_and_reprs(
    seed: bytes | None, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    needles = Needles()
    wire = session(needles, "lattice", seed, alignment=PSI, signers=signers_of("p0", "p1", "p2"))
    assert wire.release is not None
    assert set(needles.kinds) >= (KINDS | MATCHING) - (set() if seed else {"seed"})
    # A session that breaks has more, and an accountable one hands out what SUBMIT carried.
    others = {Step.REFUSE, Step.HALT, Step.WITHDRAW, Step.RESUME, Step.HANDED}
    assert {e.step for e in wire.seen} == set(Step) - others
    for envelope in wire.seen:
        assert not needles.found_in(envelope.encode()), f"a {envelope.step.value} message from {envelope.sender!r}"
    assert not needles.found_in(write_release(wire.release))
    assert not needles.found_in(texts(wire))
    spoken = capfd.readouterr()
    assert not needles.found_in((caplog.text + spoken.out + spoken.err).encode())


def test_nothing_secret_in_a_prediction(caplog: pytest.LogCaptureFixture) -> None:
    """Parts of scores are as secret as the columns that they are made of; what the receiver opens is its own."""
    caplog.set_level(logging.DEBUG)
    needles = Needles()
    draw = np.random.default_rng(4)
    parts = {f"p{k}": draw.normal(0, 3, 30) for k in range(3)}
    people = {name: [f"canary-{i}" for i in range(30)] for name in parts}
    with noted(needles):
        wire = predicted(parts, "p1", people)
        wire.run()
    for name, part in parts.items():
        needles.text("id", people[name][0])
        needles.array("part", words_of(part, 3).view(np.int64))
        for value in part:
            needles.number("part", float(value))
    assert set(needles.kinds) >= {"mask", "mask key", "part", "id", "stream key"} | MATCHING
    assert set(wire.opened) == {"p1"}
    for envelope in wire.seen:
        assert not needles.found_in(envelope.encode()), f"a {envelope.step.value} message from {envelope.sender!r}"
    # Nor is the opened sum on the wire: it is unmasked at the receiver.
    needles.array("score", words_of(wire.opened["p1"].scores, 3).view(np.int64))
    assert not any(needles.found_in(envelope.encode()) for envelope in wire.seen)
    assert not needles.found_in((caplog.text + "".join(repr(p) for p in wire.parties.values())).encode())


def test_the_search_would_find_a_part_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MaskKeys, "mask", lambda self, session, me, publics, length, bits: np.zeros(length, np.uint64))
    needles, part = Needles(), np.random.default_rng(4).normal(0, 3, 30)
    wire = predicted({"p0": part, "p1": part}, "p1")
    wire.run()
    needles.array("part", words_of(part, 2).view(np.int64))
    assert any(needles.found_in(envelope.encode()) for envelope in wire.sent(Step.SUBMIT))


def test_the_search_would_find_a_leak() -> None:
    """product = "plain" shows columns: the same search over the same messages must say so."""
    needles = Needles()
    wire = session(needles, "plain", b"seed")
    found = {kind for envelope in wire.seen for kind in needles.found_in(envelope.encode())}
    assert "column" in found
    numbers = np.array([11, -500, 70000, 8, 15, 3], dtype=np.int64)
    for planted in (numbers.tobytes(), numbers.astype(">f8").tobytes(), str(numbers.tolist()).encode()):
        needles = Needles()
        needles.array("planted", numbers)
        assert needles.found_in(b"x" + planted) == ["planted"]
        assert not needles.found_in(planted[:20])


def test_secrets_are_overwritten_when_a_session_ends() -> None:
    needles = Needles()
    wire = session(needles, "lattice", b"seed")
    assert wire.release is not None
    for kind in WIPED:
        assert needles.arrays[kind] and not any(values.any() for values in needles.arrays[kind]), kind


def test_secrets_are_overwritten_when_a_session_breaks() -> None:
    """The last party's submission is lost and the server gives up: what was drawn is gone all the same."""
    needles = Needles()

    def lost(envelope: Envelope) -> bool:
        return envelope.step is Step.GO and envelope.recipient == "p2" and body_of(envelope, Go).round == SUBMIT

    wire = session(needles, "lattice", b"seed", lost)
    assert wire.release is None
    for envelope in wire.server.stop():
        list(wire.parties[envelope.recipient].receive(envelope))
    kept = needles.arrays["lattice key"]
    assert kept and not any(values.any() for values in kept)


def test_a_refusal_carries_no_data() -> None:
    def refuse(session: object) -> None:
        raise PolicyError("not today")

    needles = Needles()
    wire = session(needles, "lattice", b"seed", guards={"p1": Scripted(consent=refuse)})
    assert needles.told == "p1 refuses: not today" and not needles.found_in(needles.told.encode())
    told = wire.sent(Step.REFUSE, Step.END)
    assert {e.step for e in told} == {Step.REFUSE, Step.END} and not any(needles.found_in(e.encode()) for e in told)
    assert all(e.recipient == SERVER or e.sender == SERVER for e in told)


@pytest.mark.parametrize("post_quantum", [False, True], ids=["x25519", "hybrid"])
def test_nothing_secret_in_an_alignments_parcels_and_reprs(post_quantum: bool) -> None:
    people = {name: [f"canary-{i}-{name if i % 3 else 'all'}" for i in range(12)] for name in ("a", "b", "c")}
    people["a"].pop()
    needles, parcels = Needles(), list[bytes]()
    for ids in people.values():
        for person in ids:
            needles.text("id", person)
    with noted(needles):
        names = tuple(people)
        server = AlignmentServer(bytes(32), names)
        parties = {
            name: AlignmentParty(bytes(32), names, k, people[name], Randomness(), post_quantum=post_quantum)
            for k, name in enumerate(names)
        }
        spoken = ""
        for round in server.rounds:
            for name, party in parties.items():
                for parcel in party.send(round):
                    parcels.append(parcel.payload)
                    receiver = server if parcel.recipient == SERVER else parties[parcel.recipient]
                    receiver.receive(round, name, parcel.payload)
                spoken += f"{party!r} {party!s} {party._role!r} {party._channels!r}"
            for parcel in server.send(round):
                parcels.append(parcel.payload)
                parties[parcel.recipient].receive(round, SERVER, parcel.payload)
    assert server.count == 4
    assert set(needles.kinds) >= MATCHING
    assert not needles.found_in(b"".join(parcels))
    assert not needles.found_in(spoken.encode())
    for party in parties.values():
        assert party._role is None and not party._channels
        assert not {"_key", "_base", "_randomness"} & set(vars(party)), "keys end with the matching"


def test_the_search_would_find_an_alignment_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the seal the group key and announced values travel: the same search must say so."""
    monkeypatch.setattr(frames.Channel, "_cipher", lambda self, *_: Clear())
    needles, parcels = Needles(), list[bytes]()
    names = ("a", "b")
    with noted(needles):
        server = AlignmentServer(bytes(32), names)
        parties = {n: AlignmentParty(bytes(32), names, k, ["x", "y"], Randomness()) for k, n in enumerate(names)}
        for round in server.rounds[:5]:
            for name, party in parties.items():
                for parcel in party.send(round):
                    parcels.append(parcel.payload)
                    if parcel.recipient != SERVER:
                        parties[parcel.recipient].receive(round, name, parcel.payload)
    assert "group key" in needles.found_in(b"".join(parcels))


class Clear:
    def encrypt(self, nonce: bytes, body: bytes, head: bytes) -> bytes:
        return body

    decrypt = encrypt


STUDY = """[study]
name = "canary"
task = "linear"
label = "works.pay"
epsilon = 5.0
[party.works]
data = "works.csv"
id = "person"
policy = "policy.toml"
ledger = "works.ledger"
[party.works.columns]
pay = { kind = "numeric", low = 0, high = 100 }
hours = { kind = "numeric", low = 0, high = 80 }
[party.bank]
data = "bank.csv"
id = "person"
[party.bank.columns]
savings = { kind = "numeric", low = 0, high = 1000 }
"""
POLICY = """[policy]
party = "works"
partners = ["bank"]
[session]
epsilon = 10.0
[total]
epsilon = 50.0
"""
PEOPLE = 60


def planted(folder: Path, needles: Needles) -> None:
    """Two files whose every id and number is a canary."""
    generator = np.random.default_rng(3)
    lines: dict[str, list[str]] = {"works": ["person,pay,hours"], "bank": ["person,savings"]}
    for i in range(PEOPLE):
        person = f"canary-{generator.integers(10**12, 10**13)}"
        numbers = generator.uniform(1, 90, 3).tolist()
        # Out of bounds: a clipped value must not be told either.
        numbers[0] = 98765.4321 + i if i < 3 else numbers[0]
        needles.text("id", person)
        for number in numbers:
            needles.number("column", number)
        lines["works"].append(f"{person},{numbers[0]!r},{numbers[1]!r}")
        lines["bank"].append(f"{person},{numbers[2]!r}")
    for name, content in lines.items():
        (folder / f"{name}.csv").write_text("\n".join(content) + "\n")
    (folder / "study.toml").write_text(STUDY)
    (folder / "policy.toml").write_text(POLICY)


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    places = {"HOME": str(folder), "TMPDIR": str(folder / "tmp"), "COLONNADE_TRACEBACK": "1", "PYTHONPATH": str(SRC)}
    call = [sys.executable, "-m", "colonnade.cli", *arguments]
    return subprocess.run(call, cwd=folder, env={**os.environ, **places}, capture_output=True, check=False)


def test_nothing_secret_in_output_and_files_of_the_command_line(tmp_path: Path) -> None:
    needles = Needles()
    planted(tmp_path, needles)
    (tmp_path / "tmp").mkdir()
    given = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert needles.found_in(given[tmp_path / "works.csv"]) == ["column", "id"]
    spoken = b""
    for arguments in (
        ("fit", "study.toml", "--out", "release.json", "--model", "model.json"),
        ("report", "release.json", "--html", "page.html"),
        ("ledger", "show", "works.ledger"),
    ):
        done = command(tmp_path, *arguments)
        assert done.returncode == 0, done.stderr.decode()
        spoken += done.stdout + done.stderr
    assert not needles.found_in(spoken)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path not in given]
    assert {path.name for path in written} >= {"release.json", "model.json", "page.html", "works.ledger"}
    for path in written:
        assert not needles.found_in(path.read_bytes()), path.name
    assert not list((tmp_path / "tmp").iterdir()), "temporary files stay behind"


@pytest.mark.parametrize("damage", ["repeated", "text", "fields", "quote", "missing"])
def test_nothing_secret_in_refusals_of_a_damaged_file(tmp_path: Path, damage: str) -> None:
    from colonnade.data.table import read_table
    from colonnade.foundation.errors import DataError
    from colonnade.foundation.schema import Numeric

    needles = Needles()
    planted(tmp_path, needles)
    lines = (tmp_path / "works.csv").read_text().splitlines()
    person, pay, hours = lines[5].split(",")
    lines[6] = {
        "repeated": lines[5],
        "text": f"x,{pay},canary-{hours}",
        "fields": f"x,{pay},{hours},{pay}",
        "quote": f'x,{pay},"{hours}',
        "missing": f"{person}9,,{hours}",
    }[damage]
    (tmp_path / "works.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError) as refused:
        table = read_table(
            "works", tmp_path / "works.csv", {"pay": Numeric(0, 100), "hours": Numeric(0, 80)}, IdColumns(("person",))
        )
        table.require_fit(strict=True)
    assert not needles.found_in(str(refused.value).encode()), refused.value
    assert refused.value.__context__ is None or refused.value.__suppress_context__, "a traceback would show more"

"""Digests that stored files, ledgers and approvals hold: the literals were written by the code before there was one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from colonnade.consent.entries import DataSet
from colonnade.consent.guard import ConsentGuard
from colonnade.consent.ledger import Ledger
from colonnade.consent.policy import policy_from
from colonnade.foundation.schema import Categorical, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import digest, write_sealed
from colonnade.planning.agreement import Agreement
from colonnade.planning.prediction import Prediction
from colonnade.planning.session_plan import plan_session
from colonnade.protocol.fit import study_digest
from colonnade.protocol.predict import prediction_digest

CONTENT = {"zwölf": [1, 2.5, 1e-300, None, True], "a": {"ß": "“x” \x7f\n", "b": -0.0}}
SCHEMA = Schema(
    {
        "büro": {"pay": Numeric(0.0, 100.0)},
        "bank": {"risk": Categorical(("a", "größer"), other=False), "savings": Numeric(0.0, 1000.0)},
    }
)
AGREEMENT = Agreement.from_terms("prüfung", SCHEMA, "büro.pay", Task.LINEAR, epsilon=20.0, collusion=1)


def test_a_sealed_file_and_its_digest() -> None:
    assert digest(CONTENT) == "35b6a82e36ff43e345b184ebeb3ad084294004b1fe8b8a517cf1c141cabc7f0e"
    head, tail = '{"a":{"b":-0.0,"ß":"“x” \x7f\\n"},"digest":"', '","zwölf":[1,2.5,1e-300,null,true]}\n'
    assert write_sealed(CONTENT) == (head + digest(CONTENT) + tail).encode()


def test_the_digest_of_a_plan() -> None:
    session = plan_session(AGREEMENT, 500, bytes(range(32)))
    assert session.digest == "594e490db448694b76df9acfd832e77d1a5373c8bc1412061f8f8bc8a267b8ba"
    assert session.terms == "5c98177e70ce5d8934dabc1c64a10718484c35dda6a7c4582e7cd0fc142893a5"


def test_the_digest_of_a_study_and_of_a_prediction() -> None:
    prediction = Prediction("0" * 64, "bank", SCHEMA.parties)
    assert study_digest(AGREEMENT, "psi") == "922b5e437e684aabd8fd753c07a3ffbc56cac4337181a561400189d38e2fe7a6"
    assert prediction_digest(prediction, "psi") == "e57a96c086a6576e06924c1892a7d86e203d097e9a033560472a8281645d5f63"


def test_the_chain_of_a_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Entries say which version wrote them and what a cheat could read; but for that they are as 0.1.0 wrote them.
    monkeypatch.setattr("colonnade.consent.ledger.version", lambda name: "")
    monkeypatch.setattr("colonnade.consent.guard.bits_told", lambda *_: 0)
    rules = {"policy": {"party": "büro", "partners": ["*"]}, "session": {"epsilon": 50}, "total": {"epsilon": 200}}
    clock = lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)  # noqa: E731
    ledger = Ledger(tmp_path / "ledger", clock)
    guard = ConsentGuard("büro", policy_from(rules), ledger, DataSet("büro.csv", "0" * 64))
    guard.book(plan_session(AGREEMENT, 500, bytes(range(32))))
    guard.release()
    assert [line.hash for line in ledger.lines()] == [
        "c60392aade6689c07991eb7b857db5abd49541c3b2d2c460b2cdc5bf42886f08",
        "d6777588d8e0c73000df18d8a147f426176f27e028a58fa9abb94698c647c531",
    ]

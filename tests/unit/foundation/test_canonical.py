"""Digests that stored files, ledgers and approvals hold: the literals were written by the code before there was one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from colonnade.consent.entries import DataSet
from colonnade.consent.guard import ConsentGuard
from colonnade.consent.ledger import Ledger
from colonnade.consent.policy import policy_from
from colonnade.foundation.schema import Categorical, Numeric, Schema
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import digest, write_sealed
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.fit import study_digest
from colonnade.protocol.predict import prediction_digest
from colonnade.protocol.prediction import Prediction
from colonnade.protocol.session_plan import plan_session

CONTENT = {"zwölf": [1, 2.5, 1e-300, None, True], "a": {"ß": "“x” \x7f\n", "b": -0.0}}
SCHEMA = Schema(
    {
        "büro": {"pay": Numeric(0.0, 100.0)},
        "bank": {"risk": Categorical(("a", "größer"), other=False), "savings": Numeric(0.0, 1000.0)},
    }
)
AGREEMENT = Agreement("prüfung", SCHEMA, "büro.pay", Task.LINEAR, epsilon=20.0, collusion=1)


def test_a_sealed_file_and_its_digest() -> None:
    assert digest(CONTENT) == "35b6a82e36ff43e345b184ebeb3ad084294004b1fe8b8a517cf1c141cabc7f0e"
    head, tail = '{"a":{"b":-0.0,"ß":"“x” \x7f\\n"},"digest":"', '","zwölf":[1,2.5,1e-300,null,true]}\n'
    assert write_sealed(CONTENT) == (head + digest(CONTENT) + tail).encode()


def test_the_digest_of_a_plan() -> None:
    session = plan_session(AGREEMENT, 500, bytes(range(32)))
    assert session.digest == "f955cbcd6950d1f4d50414073adabaec7b828532d6ead85ab23e191c2048b13f"
    assert session.terms == "5c57b7117e0b9e4aba24c8033745be3aacfce449803ea475f96be2d5efed6f3f"


def test_the_digest_of_a_study_and_of_a_prediction() -> None:
    prediction = Prediction("0" * 64, "bank", SCHEMA.parties)
    assert study_digest(AGREEMENT, "psi") == "922b5e437e684aabd8fd753c07a3ffbc56cac4337181a561400189d38e2fe7a6"
    assert prediction_digest(prediction, "psi") == "e57a96c086a6576e06924c1892a7d86e203d097e9a033560472a8281645d5f63"


def test_the_chain_of_a_ledger(tmp_path: Path) -> None:
    rules = {"policy": {"party": "büro", "partners": ["*"]}, "session": {"epsilon": 50}, "total": {"epsilon": 200}}
    clock = lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)  # noqa: E731
    ledger = Ledger(tmp_path / "ledger", clock)
    guard = ConsentGuard("büro", policy_from(rules), ledger, DataSet("büro.csv", "0" * 64))
    guard.book(plan_session(AGREEMENT, 500, bytes(range(32))))
    guard.release()
    assert [line.hash for line in ledger.lines()] == [
        "0f8c76613ffb2641d9711b94af010295255e1d250d0f2f7289af9106cb9b2cd7",
        "88109d6d2e0a05b0a682c4126e5e1f807a87eca4cc11e27a3d7bfa2f3bfa6116",
    ]

"""How a study says that ids are matched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.foundation.errors import StudyError
from colonnade.foundation.matching import HYBRID, NONE, PSI
from colonnade.protocol.fit import study_digest
from colonnade.protocol.messages import Done, Envelope, ParcelBody, Step, encode_body
from colonnade.report.cost import expected_cost
from colonnade.study import StudySpec, study_from
from tests.helpers.sessions import agreement_of, tables_of, tapped_session


def study(**terms: Any) -> StudySpec:
    columns = {"low": 0, "high": 1, "kind": "numeric"}
    content = {
        "study": {"name": "s", "task": "linear", "label": "a.y", "epsilon": 1.0, "rows": 1000, **terms},
        "party": {name: {"id": "id", "columns": {column: columns}} for name, column in (("a", "y"), ("b", "x"))},
    }
    return study_from(content, Path())


def test_post_quantum_is_a_choice_and_a_term() -> None:
    assert study().alignment == study(post_quantum=False).alignment == PSI
    assert study(alignment="none").alignment == NONE
    hybrid = study(post_quantum=True)
    assert hybrid.alignment == HYBRID
    assert study_digest(hybrid.agreement, hybrid.alignment) != study_digest(hybrid.agreement, PSI)
    with pytest.raises(StudyError, match='post_quantum is for alignment = "psi", got alignment = "none"'):
        study(alignment="none", post_quantum=True)
    with pytest.raises(StudyError, match="post_quantum must be true or false"):
        study(post_quantum="yes")


def test_without_the_library_post_quantum_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("colonnade.crypto.alignment.kem_ot._LIBRARY", "cryptography.no_such_module")
    with pytest.raises(StudyError, match="post_quantum needs ML-KEM"):
        study(post_quantum=True)


def _parcel(party: str) -> Envelope:
    return Envelope(bytes(32), "", party, "b", Step.PARCEL, encode_body(ParcelBody(AlignmentParty.rounds[0], b"")))


def _ends(party: str) -> list[Envelope]:
    return [Envelope(bytes(32), "", party, "", Step.DONE, encode_body(Done(name))) for name in AlignmentParty.rounds]


def test_the_forecast_counts_the_matching() -> None:
    plain, hybrid, none = (study(**terms) for terms in ({}, {"post_quantum": True}, {"alignment": "none"}))
    sent = [expected_cost(s.session(), s.alignment) for s in (plain, hybrid, none)]
    # Whoever has the fewest ids is the hub: 512 columns of its matrix, against base transfers and a table.
    rows = 2048  # 3 x (434 + 32) + 64 slots, 168 rows more, filled up to a multiple of 512
    # Beside these, six parcels of the hub and five of its partner, and the ends of six rounds, have heads.
    heads = {p: sum(len(e.encode()) for e in (6 if p == "a" else 5) * [_parcel(p)] + _ends(p)) for p in "ab"}
    payloads = {"a": 144 + 64 * rows + 128 * 75 + 36 + 16 * 1000, "b": 144 + 64 * 512 + 16 * (3 * (434 + 32) + 64)}
    for p, payload in payloads.items():
        assert sent[0].sent[p] + (p == "a") * sent[0].hub - sent[2].sent[p] == payload + heads[p]
    assert sent[1].sent["b"] - sent[0].sent["b"] == 512 * (2 * 1152 + 32) + 1184
    assert sent[1].sent["a"] + sent[1].hub - sent[0].sent["a"] - sent[0].hub == (2 * 512 + 1) * 1088
    assert sent[2].hub == 0
    assert sent[0].seconds["align"] < 0.5 and "align" not in sent[2].seconds


@pytest.mark.parametrize("parties", [1, 2, 4])
@pytest.mark.parametrize("product", ["lattice", "plain"])
@pytest.mark.parametrize("alignment", [PSI, NONE])
def test_the_forecast_counts_every_message(parties: int, product: str, alignment: str) -> None:
    agreement = agreement_of(parties, product=product)
    tables = {name: replace(t, ids=[f"i{i}" for i in range(t.rows)]) for name, t in tables_of(agreement).items()}
    session = tapped_session(agreement, tables=tables, alignment=alignment)
    session.run()
    cost = expected_cost(session.session, alignment)
    # All have as many ids: the first is the hub.
    hub = {next(iter(tables)): cost.hub}
    for name, sent in session.traffic.sent.items():
        assert cost.sent[name] + hub.get(name, 0) == pytest.approx(sent, rel=0.02), name

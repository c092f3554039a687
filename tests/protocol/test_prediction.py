"""Scores across parties: the receiver opens x . w, and nobody holds another party's part of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from colonnade.protocol.prediction_server import ScoringServer
from numpy.typing import NDArray
from scipy.stats import chisquare

from colonnade.crypto.masks import MaskKeys
from colonnade.foundation.errors import MessageError, PolicyError, ProtocolError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, Numeric
from colonnade.protocol.codes import Code
from colonnade.protocol.messages import (
    SUBMIT,
    Accept,
    Done,
    Envelope,
    Go,
    Join,
    Piece,
    Proposal,
    Refuse,
    Step,
    body_of,
    encode_body,
    masked_from,
)
from colonnade.protocol.party import State
from colonnade.protocol.prediction import LARGEST_SCORE, STEPS, Prediction, ScoringParty, words_of
from colonnade.transport.in_process import Carrier

ROWS = 400
Parts = Mapping[str, NDArray[np.float64]]


def columns_of(parties: int) -> dict[str, dict[str, Column]]:
    return {f"p{k}": {f"x{k}": Numeric(-1, 1)} for k in range(parties)}


def parts_of(parties: int, rows: int = ROWS, seed: int = 5) -> dict[str, NDArray[np.float64]]:
    draw = np.random.default_rng(seed)
    return {f"p{k}": draw.normal(0, 3, rows) for k in range(parties)}


def carrier(parts: Parts, receiver: str = "p0", kind: type[Carrier] = Carrier, **hooks: Any) -> Any:
    prediction = Prediction("ab" * 32, receiver, columns_of(len(parts)))
    source = Randomness(b"scores")
    roles = {n: ScoringParty(n, prediction, part.copy(), source.child(n), **hooks) for n, part in parts.items()}
    return kind(ScoringServer(prediction, source.child("server")), roles)


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("last", [False, True], ids=["first-receives", "last-receives"])
def test_the_receiver_opens_the_sum_within_the_grid(parties: int, last: bool) -> None:
    parts = parts_of(parties)
    receiver = f"p{parties - 1}" if last else "p0"
    run = carrier(parts, receiver)
    run.carry()
    scores = run._parties[receiver].scores
    assert np.abs(scores - sum(parts.values())).max() <= parties * 0.5 / STEPS + 1e-15
    assert all(p.scores is None for name, p in run._parties.items() if name != receiver)
    assert all(p.state is State.RELEASED for p in run._parties.values())


def test_each_part_is_rounded_to_the_grid_and_no_further() -> None:
    part = np.array([0.3, -0.3, 1.5 / STEPS, -1e6])
    words = words_of(part, 2).view(np.int64)
    assert np.abs(words / STEPS - part).max() <= 0.5 / STEPS
    assert words[3] == -(10**6) * int(STEPS)
    for wrong in (np.nan, np.inf, LARGEST_SCORE / 2):
        with pytest.raises(ProtocolError, match="a part of a score must be below"):
            words_of(np.array([0.0, wrong]), 2)


def _reachable(root: object) -> Iterator[NDArray[np.float64]]:
    """Every array and every longer byte string that an object holds, as 64-bit numbers."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        item = stack.pop()
        kind = type(item).__name__
        if id(item) in seen or isinstance(item, type) or kind in ("module", "function", "builtin_function_or_method"):
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            yield item.ravel().view(np.int64) if item.dtype.itemsize == 8 else item.ravel()
        elif isinstance(item, bytes | bytearray | memoryview) and len(item) >= 8 * 16:
            for start in range(8):  # wherever the numbers begin
                raw = bytes(item)[start:]
                yield np.frombuffer(raw[: len(raw) // 8 * 8], dtype=np.int64)  # type: ignore[misc]
        else:
            stack.extend(gc.get_referents(item))


class Searching(Carrier):
    """Looks through all roles after each delivery for parts that are not their own."""

    def __init__(self, server: ScoringServer, parties: dict[str, ScoringParty]) -> None:
        super().__init__(server, parties)
        self.looked, self.found = 0, set[str]()
        self.parts = {name: party._part.copy() for name, party in parties.items()}

    def _look(self, role: str, holder: object) -> None:
        for array in _reachable(holder):
            self.looked += 1
            for name, part in self.parts.items():
                if name == role:
                    continue
                for form in (part.view(np.int64), words_of(part, len(self.parts)).view(np.int64)):
                    if np.isin(form, array).sum() > 3:
                        self.found.add(f"{role} holds the part of {name}")

    def _look_at_all(self) -> None:
        self._look("server", self._server)
        for name, party in self._parties.items():
            self._look(name, party)

    def _to_server(self, envelope: Envelope) -> None:
        super()._to_server(envelope)
        self._look_at_all()

    def _to_party(self, envelope: Envelope) -> None:
        super()._to_party(envelope)
        self._look_at_all()


@pytest.mark.parametrize("parties", [2, 3])
def test_nobody_holds_the_part_of_another(parties: int) -> None:
    run = carrier(parts_of(parties, 60), "p1", Searching)
    run.carry()
    assert run.looked > 100
    assert run.found == set()


def test_the_search_would_notice_a_missing_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MaskKeys, "mask", lambda self, session, me, publics, length, bits: np.zeros(length, np.uint64))
    run = carrier(parts_of(3, 60), "p1", Searching)
    run.carry()
    assert "server holds the part of p0" in run.found


class Tapped(Carrier):
    def __init__(self, server: ScoringServer, parties: dict[str, ScoringParty]) -> None:
        super().__init__(server, parties)
        self.wire: list[Envelope] = []

    def _to_server(self, envelope: Envelope) -> None:
        self.wire.append(envelope)
        super()._to_server(envelope)

    def _to_party(self, envelope: Envelope) -> None:
        self.wire.append(envelope)
        super()._to_party(envelope)


def test_what_the_server_sees_is_uniform_and_so_is_its_sum() -> None:
    run = carrier(parts_of(3, 4000), "p2", Tapped)
    run.carry()
    sent = [
        masked_from(body_of(e, Piece).data, 4000).words
        for e in run.wire
        if e.step in (Step.SUBMIT, Step.OPENED) and len(e.body) > 100
    ]
    assert len(sent) == 3  # two parts and their sum
    for words in sent:
        for shift in (0, 28, 60):
            counts = np.bincount(((words >> np.uint64(shift)) & np.uint64(15)).astype(int), minlength=16)
            assert chisquare(counts).pvalue > 1e-6
    assert {e.recipient for e in run.wire if e.step is Step.OPENED and len(e.body) > 100} == {"p2"}


def test_a_refusal_ends_it_with_a_code_and_opens_nothing() -> None:
    def consent(prediction: Prediction, rows: int) -> None:
        raise PolicyError(f"scores_to allows none, the prediction is for n={rows} secret records")

    run = carrier(parts_of(3), "p0", Tapped, consent=consent)
    with pytest.raises(PolicyError, match="p0 refuses: scores_to allows none"):
        run.carry()
    assert [body_of(e, Refuse) for e in run.wire if e.step is Step.REFUSE] == [Refuse(Code.POLICY)]
    assert not any(b"secret" in e.body for e in run.wire)
    assert all(p.state is State.ENDED and p.scores is None and not len(p._part) for p in run._parties.values())


def test_different_numbers_of_records_end_it() -> None:
    parts = parts_of(2)
    run = carrier({**parts, "p1": parts["p1"][:-1]})
    with pytest.raises(ProtocolError, match="the same number of records, got p0 400, p1 399"):
        run.carry()


def started(parties: int = 3, receiver: str = "p1") -> tuple[ScoringServer, dict[str, ScoringParty], Proposal]:
    """All have joined; the plan is on its way."""
    run = carrier(parts_of(parties), receiver)
    server, members = run._server, run._parties
    out = [e for member in members.values() for e in server.receive(member.join(server.identity))]
    return server, members, body_of(out[0], Proposal)


def said(party: ScoringParty, server: ScoringServer, step: Step, body: Any, digest: str = "") -> list[Envelope]:
    return list(party.receive(Envelope(server.identity, digest, "", party.name, step, encode_body(body))))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: {"agreement": {**p.agreement, "model": "cd" * 32}}, "proposes another model, receiver or columns"),
        (lambda p: {"agreement": {**p.agreement, "receiver": "p2"}}, "proposes another model, receiver or columns"),
        (
            lambda p: {"agreement": {**p.agreement, "columns": dict(reversed(p.agreement["columns"].items()))}},
            "proposes another model",
        ),
        (lambda p: {"agreement": {}}, "proposes another model"),
        (lambda p: {"rows": 399}, "for n=399 records, this party aligned 400"),
        (lambda p: {"mask_keys": p.mask_keys[::-1]}, "must hold this party's own key at place 0"),
        (lambda p: {"mask_keys": p.mask_keys[:1]}, "one mask key for each party, got 1"),
        (lambda p: {"mask_keys": [p.mask_keys[0]] * 3}, "must differ from that of party 0"),
        (lambda p: {"mask_keys": [p.mask_keys[0], bytes(32), p.mask_keys[2]]}, "small order"),
    ],
)
def test_a_party_agrees_to_its_own_terms_alone(change: Any, sentence: str) -> None:
    server, members, plan = started()
    fields = {"agreement": plan.agreement, "rows": plan.rows, "mask_keys": plan.mask_keys} | change(plan)
    out = said(members["p0"], server, Step.PLAN, Proposal(**fields))
    assert [body_of(e, Refuse) for e in out] == [Refuse(Code.PLAN)]
    assert sentence in members["p0"].reason
    assert members["p0"]._own is None and not len(members["p0"]._part)


def test_a_party_refuses_what_is_out_of_turn() -> None:
    server, members, plan = started()
    party = members["p0"]
    with pytest.raises(ProtocolError, match="is joined and expects no go message"):
        said(party, server, Step.GO, Go(SUBMIT))
    (accept,) = said(party, server, Step.PLAN, plan)
    digest = body_of(accept, Accept).digest
    with pytest.raises(ProtocolError, match="another prediction"):
        said(party, server, Step.GO, Go(SUBMIT), "00")
    with pytest.raises(ProtocolError, match="a prediction has the round submit alone, got 'seal'"):
        said(party, server, Step.GO, Go("seal"), digest)
    first = said(party, server, Step.GO, Go(SUBMIT), digest)
    assert [e.body for e in said(party, server, Step.GO, Go(SUBMIT), digest)] == [e.body for e in first]
    with pytest.raises(ProtocolError, match="p0 is not the receiver and was sent scores"):
        said(party, server, Step.OPENED, Piece(0, 1, b"scores"), digest)
    with pytest.raises(ProtocolError, match="joins a prediction once"):
        party.join(server.identity)
    with pytest.raises(ProtocolError, match="another session"):
        list(party.receive(Envelope(bytes(32), digest, "", "p0", Step.GO, encode_body(Go(SUBMIT)))))
    assert repr(party) == "ScoringParty('p0', submitted)"


def test_the_receiver_refuses_a_sum_of_another_length() -> None:
    server, members, plan = started(2)
    (accept,) = said(members["p1"], server, Step.PLAN, plan)
    digest = body_of(accept, Accept).digest
    assert [e.step for e in said(members["p1"], server, Step.GO, Go(SUBMIT), digest)] == [Step.DONE]
    with pytest.raises(MessageError, match="must have 400 words"):
        said(members["p1"], server, Step.OPENED, Piece(0, 1, bytes(80)), digest)
    assert members["p1"].scores is None


def test_the_server_refuses_what_is_out_of_turn() -> None:
    server, _, _ = started()
    prediction = server.prediction

    def tell(sender: str, step: Step, body: Any, digest: str = "") -> list[Envelope]:
        return list(server.receive(Envelope(server.identity, digest, sender, "", step, encode_body(body))))

    with pytest.raises(ProtocolError, match="knows no party 'p9'"):
        tell("p9", Step.ACCEPT, Accept("x"))
    with pytest.raises(ProtocolError, match="is asking and expects no submit message from p0"):
        tell("p0", Step.SUBMIT, Piece(0, 1, b""))
    digest = prediction.terms(ROWS)
    for name in ("p0", "p1"):
        tell(name, Step.ACCEPT, Accept(digest))
    with pytest.raises(ProtocolError, match="has heard accept from p1 already"):
        tell("p1", Step.ACCEPT, Accept(digest))
    assert {e.step for e in tell("p2", Step.ACCEPT, Accept(digest))} == {Step.GO}
    with pytest.raises(ProtocolError, match="another prediction from p0"):
        tell("p0", Step.SUBMIT, Piece(0, 1, b""), "00")
    with pytest.raises(ProtocolError, match="the part of p1 already, or expects none"):
        tell("p1", Step.SUBMIT, Piece(0, 1, b""), digest)
    with pytest.raises(ProtocolError, match="the end of round submit from the receiver, got p0's"):
        tell("p0", Step.DONE, Done(SUBMIT), digest)
    with pytest.raises(MessageError, match="must have 400 words"):
        tell("p0", Step.SUBMIT, Piece(0, 1, b"short"), digest)
    other = ScoringServer(prediction, Randomness(b"other"))
    with pytest.raises(ProtocolError, match="p0 declares other columns than the model has"):
        list(other.receive(Envelope(other.identity, "", "p0", "", Step.JOIN, encode_body(Join({}, ROWS, bytes(32))))))
    with pytest.raises(ProtocolError, match="another session"):
        list(other.receive(Envelope(server.identity, "", "p0", "", Step.JOIN, b"")))


def test_another_digest_ends_it() -> None:
    server, _, _ = started()
    accept = Envelope(server.identity, "", "p0", "", Step.ACCEPT, encode_body(Accept("00")))
    assert {e.step for e in server.receive(accept)} == {Step.ABORT}
    assert server.code is Code.PLAN and server.culprit == "p0"


def test_a_prediction_needs_a_receiver_and_another_party() -> None:
    for receiver, parties in (("p9", 3), ("p0", 1)):
        with pytest.raises(ProtocolError, match="scores must go to one of two or more parties"):
            Prediction("ab", receiver, columns_of(parties))


def test_terms_differ_by_everything_that_was_agreed() -> None:
    base = Prediction("ab", "p0", columns_of(3))
    others = [
        (Prediction("cd", "p0", columns_of(3)), 5),
        (Prediction("ab", "p1", columns_of(3)), 5),
        (Prediction("ab", "p0", columns_of(2)), 5),
        (Prediction("ab", "p0", dict(reversed(columns_of(3).items()))), 5),
        (base, 6),
    ]
    assert len({base.terms(5), *(p.terms(rows) for p, rows in others)}) == 6

"""Scores across parties: the receiver opens x . w, and nobody holds another party's part of it."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from colonnade.crypto.masks import MaskKeys
from colonnade.foundation.errors import BrokenError, MessageError, PolicyError, ProtocolError, StudyError
from colonnade.planning.prediction import LARGEST_SCORE, STEPS, Prediction, words_of
from colonnade.protocol.codes import Code
from colonnade.protocol.conversation import PartyState, ServerState
from colonnade.protocol.messages import (
    SUBMIT,
    Accept,
    Done,
    End,
    Envelope,
    Go,
    Join,
    ParcelBody,
    Piece,
    Proposal,
    Refuse,
    Step,
    body_of,
    encode_body,
)
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.submissions import masked_from
from tests.helpers.predictions import PredictedSession, columns_of, predicted
from tests.helpers.sessions import Scripted, altered

ROWS = 400


def parts_of(parties: int, rows: int = ROWS, seed: int = 5) -> dict[str, NDArray[np.float64]]:
    draw = np.random.default_rng(seed)
    return {f"p{k}": draw.normal(0, 3, rows) for k in range(parties)}


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("last", [False, True], ids=["first-receives", "last-receives"])
def test_the_receiver_opens_the_sum_within_the_grid(parties: int, last: bool) -> None:
    parts = parts_of(parties)
    receiver = f"p{parties - 1}" if last else "p0"
    wire = predicted(parts, receiver)
    wire.run()
    assert set(wire.opened) == {receiver}
    assert wire.opened[receiver].rows.tolist() == list(range(ROWS))
    assert np.abs(wire.opened[receiver].scores - sum(parts.values())).max() <= parties * 0.5 / STEPS + 1e-15
    assert all(p.state is PartyState.CLOSED and p.released for p in wire.parties.values())
    assert wire.ended() == {End(None, "", "open", True)}


@pytest.mark.parametrize("parties", [2, 3])
def test_several_scores_of_each_record_are_opened_together(parties: int) -> None:
    draw = np.random.default_rng(8)
    parts = {f"p{k}": draw.normal(0, 3, (ROWS, 4)) for k in range(parties)}
    people = {n: [f"person {(7 * i) % ROWS}" for i in range(ROWS)] for n in parts}
    wire = predicted(parts, "p1", people, scores=4)
    wire.run()
    assert set(wire.opened) == {"p1"}
    assert wire.opened["p1"].scores.shape == (ROWS, 4)
    assert np.abs(wire.opened["p1"].scores - sum(parts.values())).max() <= parties * 0.5 / STEPS + 1e-15


@pytest.mark.parametrize("scores", [1, 3])
def test_a_part_of_another_size_than_agreed_is_never_handed_in(scores: int) -> None:
    parts = {f"p{k}": np.ones((20, 2)) for k in range(2)}
    wire = predicted(parts, scores=scores)
    with pytest.raises(ProtocolError, match="got a part of 40 numbers"):
        wire.run()


def test_the_number_of_scores_is_part_of_what_is_agreed() -> None:
    one, several = (Prediction("ab" * 32, "p0", columns_of(2), scores) for scores in (1, 3))
    assert "scores" not in one.to() and several.to()["scores"] == 3
    assert one.terms(10) != several.terms(10)
    with pytest.raises(ProtocolError, match="one score of each record or more, got 0"):
        Prediction("ab" * 32, "p0", columns_of(2), 0)


def test_scores_stand_in_the_order_of_the_receivers_own_records() -> None:
    parts = parts_of(3, 40)
    people = {n: [f"person {(7 * k + i) % 40 + k}" for i in range(40)] for k, n in enumerate(parts)}
    wire = predicted(parts, "p1", people)
    wire.run()
    by_person = {n: dict(zip(people[n], parts[n], strict=True)) for n in parts}
    common = [i for i, person in enumerate(people["p1"]) if all(person in own for own in by_person.values())]
    assert 30 < len(common) < 40
    assert wire.opened["p1"].rows.tolist() == common
    expected = [sum(own[people["p1"][i]] for own in by_person.values()) for i in common]
    assert np.abs(wire.opened["p1"].scores - expected).max() <= 1.5 / STEPS + 1e-15


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


class Searching(PredictedSession):
    """Looks through all roles, whenever a message is on the wire, for parts that are not their own."""

    def __init__(self, server: ServerRole, parties: Mapping[str, PartyRole]) -> None:
        super().__init__(server, parties, meddle=self._search)
        self.looked, self.found = 0, set[str]()
        self.parts = {name: party.task.source().values.copy() for name, party in parties.items()}  # type: ignore

    def _look(self, role: str, holder: object) -> None:
        for array in _reachable(holder):
            self.looked += 1
            for name, part in self.parts.items():
                if name == role:
                    continue
                for form in (part.view(np.int64), words_of(part, len(self.parts)).view(np.int64)):
                    if np.isin(form, array).sum() > 3:
                        self.found.add(f"{role} holds the part of {name}")

    def _search(self, envelope: Envelope, up: bool) -> Iterable[Envelope]:
        self._look("server", self.server)
        for name, party in self.parties.items():
            self._look(name, party)
        return (envelope,)


@pytest.mark.parametrize("parties", [2, 3])
def test_nobody_holds_the_part_of_another(parties: int) -> None:
    wire = predicted(parts_of(parties, 60), "p1", kind=Searching)
    wire.run()
    assert wire.looked > 100
    assert wire.found == set()
    draw = np.random.default_rng(9)
    several = predicted({f"p{k}": draw.normal(0, 3, (30, 3)) for k in range(parties)}, "p1", scores=3, kind=Searching)
    several.run()
    assert several.looked > 100 and several.found == set()


def test_the_search_would_notice_a_missing_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MaskKeys, "mask", lambda self, session, me, publics, length, bits: np.zeros(length, np.uint64))
    wire = predicted(parts_of(3, 60), "p1", kind=Searching)
    wire.run()
    assert "server holds the part of p0" in wire.found


def test_what_the_server_sees_is_uniform_and_so_is_its_sum() -> None:
    wire = predicted(parts_of(3, 4000), "p2")
    wire.run()
    large = [e for e in wire.sent(Step.SUBMIT, Step.OPENED) if len(e.body) > 100]
    sent = [masked_from(body_of(e, Piece).data, 4000).words for e in large]
    assert len(sent) == 3  # two parts and their sum
    for words in sent:
        for shift in (0, 28, 60):
            counts = np.bincount(((words >> np.uint64(shift)) & np.uint64(15)).astype(int), minlength=16)
            assert chisquare(counts).pvalue > 1e-6
    assert {e.recipient for e in large if e.step is Step.OPENED} == {"p2"}


def test_a_refusal_ends_it_with_a_code_and_opens_nothing() -> None:
    def consent(prediction: Prediction, rows: int) -> None:
        raise PolicyError(f"scores_to allows none, the prediction is for n={rows} secret records")

    parts = parts_of(3)
    wire = predicted(parts, guards={"p0": Scripted(consent_scores=consent)})
    with pytest.raises(PolicyError, match="p0 refuses: scores_to allows none"):
        wire.run()
    assert [body_of(e, Refuse) for e in wire.sent(Step.REFUSE)] == [Refuse(Code.POLICY, "plan")]
    assert not any(b"secret" in e.body for e in wire.seen)
    assert all(p.state is PartyState.CLOSED for p in wire.parties.values()) and not wire.opened
    for name, party in wire.parties.items():
        party.task.source = None  # type: ignore[attr-defined]
        assert not any(np.isin(parts[name].view(np.int64), held).sum() > 3 for held in _reachable(party))


def test_different_numbers_of_records_end_it() -> None:
    parts = parts_of(2)
    wire = predicted({**parts, "p1": parts["p1"][:-1]})
    with pytest.raises(StudyError, match="the same number of records, got p0 400, p1 399"):
        wire.run()
    assert wire.ended() == {End(Code.ROWS, "", "plan", False)}


def started(parties: int = 3, receiver: str = "p1") -> tuple[PredictedSession, Envelope]:
    """All have joined; the proposals are lost on their way."""
    wire = predicted(parts_of(parties), receiver, drop=lambda e: e.step is Step.PROPOSAL)
    wire.run()
    return wire, wire.sent(Step.PROPOSAL)[0]


def said(wire: PredictedSession, party: str, step: Step, body: Any, digest: str) -> list[Envelope]:
    envelope = Envelope(wire.server.identity, digest, "", party, step, encode_body(body))
    return list(wire.parties[party].receive(envelope))


OWN_KEY = "must list one mask key for each party, and the one that this party sent"


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
        (lambda p: {"mask_keys": p.mask_keys[::-1]}, OWN_KEY),
        (lambda p: {"mask_keys": p.mask_keys[:1]}, OWN_KEY),
        (lambda p: {"mask_keys": [p.mask_keys[0]] * 3}, "must differ from that of party 0"),
        (lambda p: {"mask_keys": [p.mask_keys[0], bytes(32), p.mask_keys[2]]}, "small order"),
    ],
)
def test_a_party_agrees_to_its_own_terms_alone(change: Any, sentence: str) -> None:
    asked: list[int] = []

    def meddle(envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
        if envelope.step is not Step.PROPOSAL or envelope.recipient != "p0":
            return (envelope,)
        plan = body_of(envelope, Proposal)
        return (altered(envelope, body=encode_body(msgspec.structs.replace(plan, **change(plan)))),)

    guard = Scripted(consent_scores=lambda prediction, rows: asked.append(rows))
    wire = predicted(parts_of(3), "p1", meddle=meddle, guards={"p0": guard})
    with pytest.raises(PolicyError, match=sentence):
        wire.run()
    assert [body_of(e, Refuse) for e in wire.sent(Step.REFUSE)] == [Refuse(Code.PLAN, "plan")]
    assert sentence in wire.parties["p0"].reason
    assert asked == [] and not wire.sent(Step.SUBMIT)


def test_a_party_refuses_what_is_out_of_turn() -> None:
    wire, proposal = started()
    party, plan = wire.parties["p0"], body_of(proposal, Proposal)
    with pytest.raises(ProtocolError, match="is joined and expects no go message"):
        said(wire, "p0", Step.GO, Go(SUBMIT), "")
    (accept,) = said(wire, "p0", Step.PROPOSAL, plan, proposal.plan)
    digest = body_of(accept, Accept).digest
    with pytest.raises(ProtocolError, match="another prediction"):
        said(wire, "p0", Step.GO, Go(SUBMIT), "00")
    with pytest.raises(ProtocolError, match="a session for scores has no round 'seal'"):
        said(wire, "p0", Step.GO, Go("seal"), digest)
    with pytest.raises(ProtocolError, match="a session for scores has no round 'seal'"):
        said(wire, "p0", Step.PARCEL, ParcelBody("seal", b"x"), digest)
    first = said(wire, "p0", Step.GO, Go(SUBMIT), digest)
    assert [e.body for e in said(wire, "p0", Step.GO, Go(SUBMIT), digest)] == [e.body for e in first] != []
    assert repr(party) == "PartyRole('p0', submitted)"
    with pytest.raises(BrokenError, match="is submitted, and start has no place"):
        list(party.start())
    with pytest.raises(ProtocolError, match="another session"):
        list(party.receive(Envelope(bytes(32), digest, "", "p0", Step.GO, encode_body(Go(SUBMIT)))))
    with pytest.raises(ProtocolError, match="p0 is not the receiver and was sent scores"):
        said(wire, "p0", Step.OPENED, Piece(0, 1, b"scores"), digest)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [(bytes(80), "must have 400 words"), (bytes(16 * ROWS + 65), "within 3208 bytes")],
    ids=["short", "long"],
)
def test_the_receiver_refuses_a_sum_of_another_length(data: bytes, sentence: str) -> None:
    wire, proposal = started(2)
    (accept,) = said(wire, "p1", Step.PROPOSAL, body_of(proposal, Proposal), proposal.plan)
    digest = body_of(accept, Accept).digest
    assert [e.step for e in said(wire, "p1", Step.GO, Go(SUBMIT), digest)] == [Step.DONE]
    with pytest.raises(MessageError, match=sentence):
        said(wire, "p1", Step.OPENED, Piece(0, 1, data), digest)
    assert wire.opened == {}


def test_the_server_refuses_what_is_out_of_turn() -> None:
    wire, proposal = started()
    server = wire.server

    def tell(sender: str, step: Step, body: Any, digest: str = "") -> list[Envelope]:
        return list(server.receive(Envelope(server.identity, digest, sender, "", step, encode_body(body))))

    with pytest.raises(ProtocolError, match="knows no party 'p9'"):
        tell("p9", Step.ACCEPT, Accept("x"))
    with pytest.raises(ProtocolError, match="is asking and expects no submit message from p0"):
        tell("p0", Step.SUBMIT, Piece(0, 1, b""))
    digest = proposal.plan
    for name in ("p0", "p1"):
        tell(name, Step.ACCEPT, Accept(digest))
    with pytest.raises(ProtocolError, match="has heard accept from p1 already"):
        tell("p1", Step.ACCEPT, Accept(digest))
    assert {e.step for e in tell("p2", Step.ACCEPT, Accept(digest))} == {Step.GO}
    with pytest.raises(ProtocolError, match="another prediction from p0"):
        tell("p0", Step.SUBMIT, Piece(0, 1, b""), "00")
    with pytest.raises(ProtocolError, match="the submission of p1 already, or expects none"):
        tell("p1", Step.SUBMIT, Piece(0, 1, b""), digest)
    with pytest.raises(ProtocolError, match="party p0 must hand in a submission, and says that it is done"):
        tell("p0", Step.DONE, Done(SUBMIT), digest)
    with pytest.raises(ProtocolError, match="the server is submitting and expects no parcel message from p0"):
        tell("p0", Step.PARCEL, ParcelBody(SUBMIT, b"x"), digest)
    with pytest.raises(MessageError, match="must have 400 words"):
        tell("p0", Step.SUBMIT, Piece(0, 1, b"short"), digest)


def test_the_server_refuses_other_columns_and_sessions_on_the_way_in() -> None:
    wire = predicted(parts_of(3), drop=lambda e: e.step is Step.JOIN)
    wire.run()
    server, first = wire.server, wire.sent(Step.JOIN)[0]
    join = body_of(first, Join)
    with pytest.raises(ProtocolError, match="p0 declares other columns than the model has"):
        list(server.receive(altered(first, body=encode_body(Join({}, ROWS, join.mask_key)))))
    with pytest.raises(ProtocolError, match="another session"):
        list(server.receive(altered(first, session=bytes(32))))


def test_another_digest_ends_it() -> None:
    wire, _ = started()
    accept = Envelope(wire.server.identity, "", "p0", "", Step.ACCEPT, encode_body(Accept("00")))
    assert {e.step for e in wire.server.receive(accept)} == {Step.END}
    assert wire.server.state is ServerState.FAILED
    assert wire.server.end == End(Code.PLAN, "p0", "plan", False)


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

"""Whole sessions of K parties and a server: what is released, what is refused, and that nothing leaks on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.stats import chisquare

from colonnade.foundation.errors import (
    BrokenError,
    LedgerError,
    MessageError,
    PolicyError,
    ProtocolError,
    ReleaseError,
    StudyError,
)
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.blocks import ExactBlock, NoisyBlock
from colonnade.mechanism.objective import Calibration
from colonnade.mechanism.plan import Offer
from colonnade.mechanism.release import ReleaseRecord, read_release, write_release
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session
from colonnade.protocol.codes import Code
from colonnade.protocol.conversation import PARTY, Event, PartyState, ServerState
from colonnade.protocol.fit import FitServer
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
from colonnade.protocol.submissions import Masked, masked_from, total_of
from tests.helpers.sessions import (
    Scripted,
    TappedSession,
    agreement_of,
    altered,
    exact_moments,
    parties_of,
    secrets_in,
    server_of,
    tables_of,
    tapped_session,
)


def released(wire: TappedSession) -> ReleaseRecord:
    assert wire.release is not None, wire.server.sentence
    return wire.release


@pytest.mark.parametrize("parties", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"delta": 1e-6},
        {"calibration": Calibration.PAPER},
        {"release": "trace", "schema": "signed"},
        {"offers": 0.8, "epsilon": None},
        {"collusion": 0},
    ],
    ids=["laplace", "gaussian", "paper", "trace", "bottom-up", "no-collusion"],
)
def test_release_is_exact_plus_noise(parties: int, changes: dict[str, Any]) -> None:
    changes = dict(changes)
    agreement = agreement_of(parties)
    if changes.get("schema") == "signed":
        columns = {
            p: {n: c for n, c in own.items() if isinstance(c, Numeric)} for p, own in agreement.schema.parties.items()
        }
        changes["schema"] = Schema(columns)
    if "offers" in changes:
        changes["offers"] = {p: Offer(changes["offers"]) for p in agreement.schema.names}
    agreement = agreement.with_terms(**changes)
    wire = tapped_session(agreement)
    wire.run()
    release, session = released(wire), wire.session
    exact = exact_moments(session, tables_of(agreement))
    far = 0
    for block in release.blocks:
        truth = exact[block.factors[:, 0], block.factors[:, 1]]
        truth = truth.sum(keepdims=True) if block.summed else truth
        noise = (block.values / block.unit - truth) / block.std
        # Laplace noise is beyond 14 standard deviations once in 10^8.
        assert np.abs(noise).max() < 14
        far += int((np.abs(noise) > 1e-3).sum())
    assert far > 0.9 * sum(len(b.values) for b in release.blocks)
    for name in wire.parties:
        kept = wire.kept(name)
        assert kept is not None
        assert write_release(kept) == write_release(release)


@pytest.mark.parametrize("parties", [1, 2, 4, 8])
def test_huge_epsilon_gives_the_exact_moments(parties: int) -> None:
    agreement = agreement_of(parties, epsilon=1e9, collusion=0)
    wire = tapped_session(agreement)
    wire.run()
    release, session = released(wire), wire.session
    exact = exact_moments(session, tables_of(agreement))
    for block in release.blocks:
        truth = exact[block.factors[:, 0], block.factors[:, 1]]
        assert np.abs(block.values / block.unit - truth).max() < 1e-4


def submissions(wire: TappedSession) -> dict[str, Masked]:
    return {e.sender: masked_from(body_of(e, Piece).data, wire.session.length) for e in wire.sent(Step.SUBMIT)}


def test_all_or_nothing() -> None:
    """K-1 submissions open nothing: their sum is uniform. All K together are small numbers."""
    partial, whole = [], []
    for i in range(12):
        wire = tapped_session(agreement_of(3), b"run %d" % i, lambda e: e.step is Step.SUBMIT and e.sender == "p2")
        wire.run()
        assert wire.release is None
        assert all(wire.kept(name) is None for name in wire.parties)
        sent = submissions(wire)
        partial.append(total_of([sent["p0"], sent["p1"]], 64))
        whole.append(total_of(list(sent.values()), 64))
    counts = np.bincount(np.concatenate(partial).view(np.uint8), minlength=256)
    assert chisquare(counts).pvalue > 1e-6
    assert np.abs(np.concatenate(whole).view(np.int64)).max() < 1 << 40
    open_counts = np.bincount(np.concatenate(whole).view(np.uint8), minlength=256)
    assert chisquare(open_counts).pvalue < 1e-12


def test_a_submission_alone_is_uniform() -> None:
    words = []
    for i in range(12):
        wire = tapped_session(agreement_of(2), b"alone %d" % i)
        wire.run()
        words.append(submissions(wire)["p0"].words)
    counts = np.bincount(np.concatenate(words).view(np.uint8), minlength=256)
    assert chisquare(counts).pvalue > 1e-6


def test_no_message_carries_an_exact_sum() -> None:
    """No exact single-party or cross-party sum stands in any message but the sealed columns of "plain" themselves."""
    agreement = agreement_of(2)
    wire = tapped_session(agreement)
    wire.run()
    session = wire.session
    exact = np.rint(exact_moments(session, tables_of(agreement)) * session.grid.unit).astype(np.int64)
    needles = {int(v).to_bytes(8, "little", signed=True) for v in exact.ravel() if abs(v) > 1 << 12}
    assert len(needles) > 20
    for envelope in wire.seen:
        if envelope.step is Step.PARCEL and body_of(envelope, ParcelBody).round == "seal":
            continue
        assert not any(needle in envelope.body for needle in needles)


def test_seeded_runs_are_byte_identical_and_others_are_not() -> None:
    one, two, other = (tapped_session(agreement_of(3), seed) for seed in (b"same", b"same", b"other"))
    for wire in (one, two, other):
        wire.run()
    assert [e.encode() for e in one.seen] == [e.encode() for e in two.seen]
    assert write_release(released(one)) == write_release(released(two)) != write_release(released(other))
    assert released(one).provenance["seeded"] is True


def test_an_unseeded_release_says_so() -> None:
    wire = tapped_session(agreement_of(2), None)
    wire.run()
    assert released(wire).provenance["seeded"] is False
    assert released(wire).provenance["simulation"] is True


def test_transcript_digest_does_not_depend_on_interleaving() -> None:
    """Parties may answer in any order; what the server hashed of each is the same."""

    straight, agreement, source = tapped_session(agreement_of(3)), agreement_of(3), Randomness(b"seed")
    straight.run()
    server, parties = server_of(agreement, source), parties_of(agreement, tables_of(agreement), source)
    queue = [hello for name in reversed(parties) for hello in parties[name].start()]
    generator = np.random.default_rng(3)
    heard = []
    while queue:
        # Keep each sender's own order; choose which sender speaks next.
        senders = list(dict.fromkeys(e.sender for e in queue))
        sender = senders[int(generator.integers(len(senders)))]
        envelope = queue.pop(next(i for i, e in enumerate(queue) if e.sender == sender))
        heard.append(envelope)
        for answer in server.receive(Envelope.decode(envelope.encode())):
            queue += list(parties[answer.recipient].receive(Envelope.decode(answer.encode())))
    assert [e.sender for e in heard] != [e.sender for e in straight.seen if e.sender]
    assert isinstance(server.task, FitServer) and server.task.release is not None
    assert released(straight).provenance == server.task.release.provenance
    assert write_release(released(straight)) == write_release(server.task.release)


def started(parties: int = 2, until: Step = Step.SUBMIT, **hooks: Any) -> TappedSession:
    """A session that stops where the first message of a kind is lost."""
    wire = tapped_session(agreement_of(parties), drop=lambda e: e.step is until, **hooks)
    wire.run()
    return wire


def answers(party: PartyRole, envelope: Envelope) -> list[Envelope]:
    return list(party.receive(envelope))


def forged(wire: TappedSession, step: Step, body: bytes, **changes: Any) -> Envelope:
    """A message in the server's name, of the plan that it announced."""
    plan = next((e.plan for e in wire.sent(Step.PROPOSAL)), "")
    return altered(Envelope(wire.server.identity, plan, "", "p0", step, body), **changes)


GO_SUBMIT = encode_body(Go(SUBMIT))


def test_a_retry_gets_the_same_bytes() -> None:
    wire = started()
    first = [e.encode() for e in wire.seen if e.step is Step.SUBMIT and e.sender == "p0"]
    again = [e.encode() for e in answers(wire.parties["p0"], forged(wire, Step.GO, GO_SUBMIT))]
    assert first == again != []


def test_party_refuses_other_sessions_plans_states_and_senders() -> None:
    wire = started()
    party = wire.parties["p0"]
    with pytest.raises(ProtocolError, match=r"party p0 \(submitted\) got a message of another session"):
        answers(party, forged(wire, Step.GO, GO_SUBMIT, session=bytes(32)))
    with pytest.raises(ProtocolError, match=r"party p0 \(submitted\) got a message of another plan"):
        answers(party, forged(wire, Step.GO, GO_SUBMIT, plan="0" * 64))
    with pytest.raises(ProtocolError, match="party p0 is submitted and expects no proposal message"):
        answers(party, forged(wire, Step.PROPOSAL, b""))
    with pytest.raises(ProtocolError, match="party p0 is submitted and expects no go message"):
        answers(party, forged(wire, Step.GO, encode_body(Go("seal"))))
    with pytest.raises(BrokenError, match="party p0 is submitted, and start has no place"):
        list(party.start())


def test_party_refuses_a_replayed_parcel() -> None:
    def replay(envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
        return (envelope,) * (1 if up or envelope.step is not Step.PARCEL else 2)

    wire = tapped_session(agreement_of(2), meddle=replay)
    with pytest.raises(ProtocolError):
        wire.run()
    assert [body_of(e, Refuse).code for e in wire.sent(Step.REFUSE)] == [Code.PROTOCOL]
    assert not wire.sent(Step.SUBMIT) and wire.release is None


def test_server_refuses_other_sessions_plans_states_and_senders() -> None:
    wire = started()
    server = wire.server
    submit = wire.sent(Step.SUBMIT)[0]

    def receive(**changes: Any) -> list[Envelope]:
        return list(server.receive(altered(submit, **changes)))

    with pytest.raises(ProtocolError, match=r"the server \(submitting\) got a message of another session"):
        receive(session=bytes(32))
    with pytest.raises(ProtocolError, match="the server knows no party 'mallory'"):
        receive(sender="mallory")
    with pytest.raises(ProtocolError, match="another plan from p0"):
        receive(plan="0" * 64)
    with pytest.raises(ProtocolError, match="the server is submitting and expects no join message from p0"):
        receive(step=Step.JOIN)
    with pytest.raises(ProtocolError, match="the server is in round submit, p0 sends round seal"):
        receive(step=Step.DONE, body=encode_body(Done("seal")))
    with pytest.raises(ProtocolError, match="the server is submitting and expects no parcel message from p0"):
        receive(step=Step.PARCEL, recipient="mallory", body=encode_body(ParcelBody("seal", b"")))
    earlier = started(2, Step.DONE)
    parcel = altered(earlier.sent(Step.PARCEL)[0], recipient="mallory")
    with pytest.raises(ProtocolError, match="sends a parcel to 'mallory', whom nobody knows"):
        list(earlier.server.receive(parcel))
    receive()
    with pytest.raises(ProtocolError, match="the server has the submission of p0 already"):
        receive()
    assert wire.release is None


@pytest.mark.parametrize("up", [True, False])
def test_a_stranger_on_the_wire_is_named(up: bool) -> None:
    def meddle(envelope: Envelope, way: bool) -> tuple[Envelope, ...]:
        if way is up and envelope.step in (Step.READY, Step.WELCOME):
            return (altered(envelope, **({"sender": "mallory"} if up else {"recipient": "mallory"})),)
        return (envelope,)

    wire = tapped_session(agreement_of(2), meddle=meddle)
    with pytest.raises(ProtocolError, match="'mallory'"):
        wire.run()
    assert wire.server.state is ServerState.FAILED and set(wire.traffic.sent) == {"p0", "p1"}


def test_server_refuses_a_join_twice_and_other_columns() -> None:
    wire = tapped_session(agreement_of(2), drop=lambda e: e.step is Step.JOIN)
    wire.run()
    first, second = wire.sent(Step.JOIN)
    assert list(wire.server.receive(first)) == []
    with pytest.raises(ProtocolError, match="the server has heard join from p0 already"):
        list(wire.server.receive(first))
    join = body_of(second, Join)
    for columns in ({"z": join.columns["x1"]}, {}, {**join.columns, "x1": {"kind": "numeric", "low": -1, "high": 2}}):
        other = encode_body(Join(columns, join.rows, join.mask_key))
        with pytest.raises(ProtocolError, match="party p1 declares other columns than the study"):
            list(wire.server.receive(altered(second, body=other)))
    assert {e.step for e in wire.server.receive(second)} == {Step.PROPOSAL}


def test_different_numbers_of_records_end_the_session() -> None:
    agreement = agreement_of(2)
    wire = tapped_session(agreement, tables={**tables_of(agreement, 60), "p1": tables_of(agreement, 61)["p1"]})
    with pytest.raises(StudyError, match="the same number of records, got p0 60, p1 61"):
        wire.run()
    assert {body_of(e, End) for e in wire.sent(Step.END)} == {End(Code.ROWS, "", "plan", False)}


def proposed(wire: TappedSession) -> Proposal:
    return body_of(wire.sent(Step.PROPOSAL)[0], Proposal)


def plan_of(plan: Proposal, **changes: Any) -> bytes:
    """The server's plan with altered fields."""
    return encode_body(msgspec.structs.replace(plan, **changes))


def other_columns(content: dict[str, Any]) -> dict[str, Any]:
    schema = {p: dict(c) for p, c in content["schema"].items()}
    schema["p0"]["x0"] = {"kind": "numeric", "low": 0, "high": 1000}
    return {**content, "schema": schema}


OWN_KEY = "must list one mask key for each party, and the one that this party sent"


@pytest.mark.parametrize(
    ("alter", "sentence"),
    [
        (lambda p: {"agreement": other_columns(p.agreement)}, "the plan states other columns than this party declared"),
        (
            lambda p: {"agreement": {**p.agreement, "schema": dict(reversed(p.agreement["schema"].items()))}},
            "the plan states other columns than this party declared",
        ),
        (lambda p: {"rows": p.rows + 1}, "the plan is for n=61 records, this party aligned 60"),
        (lambda p: {"mask_keys": p.mask_keys[::-1]}, OWN_KEY),
        (lambda p: {"mask_keys": p.mask_keys[:1]}, OWN_KEY),
        (lambda p: {"agreement": {**p.agreement, "delta": 2.0}}, "delta is not what this party agreed to: it is 2.0"),
        (lambda p: {"agreement": {**p.agreement, "epsilon": -1.0}}, "epsilon is not what .* it is -1.0"),
        (lambda p: {"agreement": {**p.agreement, "task": "cubic"}}, "task is not what .* it is 'cubic'"),
        (lambda p: {"agreement": {**p.agreement, "delta": "much"}}, "delta is not what .* it is 'much'"),
        (lambda p: {"agreement": {**p.agreement, "collusion": None}}, "collusion is not what .* it is None"),
        (lambda p: {"agreement": {**p.agreement, "epsilon": [1]}}, r"epsilon is not what .* it is \[1\]"),
        (lambda p: {"agreement": {**p.agreement, "schema": {"p0": 3}}}, "the plan states other columns"),
        (lambda p: {"agreement": {**p.agreement, "label": 7}}, "label is not what .* it is 7"),
        (lambda p: {"agreement": {**p.agreement, "weight": 7}}, "the plan's weight is not what this party agreed to"),
        (lambda p: {"agreement": {}}, "the plan states other columns"),
    ],
)
def test_an_altered_plan_is_refused_and_nothing_leaves(alter: Any, sentence: str) -> None:
    asked: list[str] = []

    def meddle(envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
        if envelope.step is Step.PROPOSAL and envelope.recipient == "p0":
            plan = body_of(envelope, Proposal)
            return (altered(envelope, body=plan_of(plan, **alter(plan))),)
        return (envelope,)

    guard = Scripted(consent=lambda session: asked.append("consent"), book=lambda session: asked.append("book"))
    wire = tapped_session(agreement_of(2), meddle=meddle, guards={"p0": guard})
    with pytest.raises(PolicyError, match=sentence):
        wire.run()
    party = wire.parties["p0"]
    assert [body_of(e, Refuse) for e in wire.sent(Step.REFUSE)] == [Refuse(Code.PLAN, "plan")]
    assert re.search(sentence, party.reason), party.reason
    assert party.state is PartyState.CLOSED and asked == []
    assert not wire.sent(Step.PARCEL, Step.SUBMIT)
    with pytest.raises(ProtocolError, match="is closed and expects no go message"):
        answers(party, forged(wire, Step.GO, GO_SUBMIT))


def test_a_plan_message_has_no_place_for_a_scale() -> None:
    """A party computes scales itself; a server that adds one sends a malformed message."""
    wire = started(2, Step.PROPOSAL)
    body = msgspec.msgpack.decode(plan_of(proposed(wire)))
    body["scale"] = 1e-6
    with pytest.raises(MessageError, match="the body of a proposal message cannot be decoded"):
        answers(wire.parties["p0"], forged(wire, Step.PROPOSAL, msgspec.msgpack.encode(body)))


def test_a_smaller_noise_by_a_larger_epsilon_is_refused_before_anybody_is_asked() -> None:
    """Scales cannot be sent, only terms: those with another epsilon, under their own digest, fit no party's files."""
    seen: list[float] = []
    guard = Scripted(consent=lambda session: seen.append(session.plan.epsilon))
    wire = started(2, Step.PROPOSAL, guards={"p0": guard})
    plan = proposed(wire)
    terms = {**plan.agreement, "epsilon": 100.0}
    digest = plan_session(Agreement.of(terms), plan.rows, wire.server.identity).digest
    with pytest.raises(PolicyError, match=r"p0 refuses: the plan's epsilon is not what .* it is 100\.0"):
        answers(wire.parties["p0"], forged(wire, Step.PROPOSAL, plan_of(plan, agreement=terms), plan=digest))
    assert seen == []
    # Announced with the right terms, the digest of the others does not fit.
    other = wire.parties["p1"]
    with pytest.raises(PolicyError, match=f"the server announces plan {digest[:16]} and sends the terms of plan"):
        answers(other, forged(wire, Step.PROPOSAL, plan_of(plan), plan=digest, recipient="p1"))


def test_a_party_that_accepts_another_plan_ends_the_session() -> None:
    def meddle(envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
        if envelope.step is Step.ACCEPT and envelope.sender == "p1":
            return (altered(envelope, body=encode_body(Accept("0" * 64))),)
        return (envelope,)

    wire = tapped_session(agreement_of(3), meddle=meddle)
    with pytest.raises(ProtocolError, match="party p1 computed another plan: 0000000000000000, not"):
        wire.run()
    assert wire.server.state is ServerState.FAILED
    assert {body_of(e, End) for e in wire.sent(Step.END)} == {End(Code.PLAN, "p1", "plan", False)}


def test_refusal_ends_the_session_before_anything_is_booked() -> None:
    booked: list[str] = []

    def consent(session: SessionPlan) -> None:
        raise PolicyError("epsilon=1 is above the largest this party allows, 0.5")

    booking = Scripted(book=lambda session: booked.append("spent"))
    guards = {"p0": booking, "p1": Scripted(consent=consent), "p2": booking}
    wire = tapped_session(agreement_of(3), b"refuse", guards=guards)
    with pytest.raises(PolicyError, match="p1 refuses: epsilon=1 is above the largest this party allows"):
        wire.run()
    assert booked == [] and wire.release is None
    assert all(p.state is PartyState.CLOSED for p in wire.parties.values())


def test_book_is_called_once_before_the_first_submission_leaves() -> None:
    log: list[str] = []

    def listen(envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
        if envelope.step is Step.SUBMIT:
            log.append(f"submit {envelope.sender}")
        return (envelope,)

    guards = {name: Scripted(book=lambda session: log.append("book")) for name in ("p0", "p1")}
    wire = tapped_session(agreement_of(2), meddle=listen, guards=guards)
    wire.run()
    assert log == ["book", "submit p0", "book", "submit p1"]
    assert released(wire)


def test_a_failing_book_lets_nothing_out() -> None:
    void: list[str] = []

    def book(session: SessionPlan) -> None:
        raise LedgerError("the ledger cannot be written")

    wire = tapped_session(agreement_of(2), guards={"p0": Scripted(book=book, void=void.append)})
    with pytest.raises(LedgerError):
        wire.run()
    assert not wire.sent(Step.SUBMIT)
    assert void == ["the ledger cannot be written"] and not wire.parties["p0"].handed_in
    with pytest.raises(ProtocolError, match="party p0 is closed and expects no go message"):
        answers(wire.parties["p0"], forged(wire, Step.GO, GO_SUBMIT))
    assert secrets_in(wire.parties["p0"]) == []


def test_secrets_are_not_in_repr() -> None:
    wire = started(2, Step.DONE)
    party = wire.parties["p0"]
    assert repr(party) == "PartyRole('p0', accepted)"
    values = np.array([123456789])
    assert "123456789" not in repr(ExactBlock(values)) + repr(NoisyBlock(values))
    assert repr(Masked(np.zeros(3, dtype=np.uint64), b"secret")) == "Masked(3 words)"
    assert "seed" in repr(Randomness(b"top secret")) and "top" not in repr(Randomness(b"top secret"))
    assert "Table(" not in repr(tables_of(agreement_of(1))["p0"])


def test_party_forgets_after_its_submission() -> None:
    before, after = started(2, Step.DONE), started()
    assert secrets_in(before.parties["p0"]) and secrets_in(before.parties["p1"])
    for party in after.parties.values():
        # Noisy sums that the release will state are kept to be compared with it; nothing else is.
        kept = [block.values for block in party.task._own.values()]
        assert all(any(found is one for one in kept) for found in secrets_in(party))
    whole = tapped_session(agreement_of(2))
    whole.run()
    assert secrets_in(whole.parties["p0"]) == secrets_in(whole.parties["p1"]) == []


def test_the_end_ends_every_party() -> None:
    wire = started()
    for envelope in wire.server.stop():
        assert body_of(envelope, End) == End(Code.STOPPED, "", "submit", False)
        answers(wire.parties[envelope.recipient], envelope)
    assert all(p.state is PartyState.CLOSED for p in wire.parties.values())
    for party in wire.parties.values():
        with pytest.raises(ProtocolError, match="is closed and expects no go message"):
            answers(party, forged(wire, Step.GO, GO_SUBMIT))
    with pytest.raises(ProtocolError, match="the server is failed and expects no submit message"):
        list(wire.server.receive(wire.sent(Step.SUBMIT)[0]))


def test_an_altered_release_is_refused_by_a_party() -> None:
    wire = tapped_session(agreement_of(2), drop=lambda e: e.step is Step.OPENED)
    wire.run()
    blob = write_release(released(wire))
    at = blob.index(b'"values":[') + 10
    altered = blob[:at] + (b"1" if blob[at : at + 1] != b"1" else b"2") + blob[at + 1 :]
    piece = encode_body(Piece(0, 1, altered))
    with pytest.raises(ReleaseError, match=r"altered|cannot be read"):
        answers(wire.parties["p0"], forged(wire, Step.OPENED, piece))
    assert wire.kept("p0") is None
    assert write_release(read_release(blob)) == blob


def test_the_last_word_is_heard_in_every_state_but_the_first() -> None:
    assert [state for state in PartyState if (state, Event.END) not in PARTY] == [PartyState.NEW]
    ended = {PartyState.ENDED, PartyState.CLOSED}
    assert {state for state in PartyState if (state, Event.ERROR) not in PARTY} == ended


def test_streams_are_lazy() -> None:
    """Rows stream: the first parcel is out before the last is made."""
    wire = tapped_session(agreement_of(2), drop=lambda e: e.step is Step.GO and body_of(e, Go).round == "seal")
    wire.run()
    out = wire.parties["p1"].receive(forged(wire, Step.GO, encode_body(Go("seal")), recipient="p1"))
    assert isinstance(out, Iterator)
    assert next(out).step in (Step.PARCEL, Step.DONE)
    assert wire.parties["p1"].state is PartyState.ACCEPTED


def test_agreement_travels() -> None:
    agreement = agreement_of(3, epsilon=None, offers={f"p{k}": Offer(1.0, 0.2, {}) for k in range(3)})
    assert Agreement.of(agreement.to()) == agreement

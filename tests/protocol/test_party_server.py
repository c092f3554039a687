"""Whole sessions of K parties and a server: what is released, what is refused, and that nothing leaks on the way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy.stats import chisquare

from colonnade.foundation.errors import (
    LedgerError,
    MessageError,
    PolicyError,
    ProductError,
    ProtocolError,
    ReleaseError,
)
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric, Schema
from colonnade.mechanism.blocks import ExactBlock, NoisyBlock
from colonnade.mechanism.objective import Calibration
from colonnade.mechanism.plan import Offer
from colonnade.mechanism.release import Release, read_release, write_release
from colonnade.protocol.agreement import Agreement
from colonnade.protocol.codes import Code
from colonnade.protocol.messages import (
    SUBMIT,
    Done,
    Envelope,
    Go,
    Masked,
    ParcelBody,
    Piece,
    Proposal,
    Refuse,
    Step,
    body_of,
    encode_body,
    masked_from,
    total_of,
)
from colonnade.protocol.party import TRANSITIONS, Party
from colonnade.protocol.party import State as PartyState
from colonnade.protocol.server import Server
from colonnade.protocol.server import State as ServerState
from colonnade.protocol.session_plan import SessionPlan
from colonnade.transport.in_process import InProcess
from tests.helpers.sessions import Wire, agreement_of, exact_moments, parties_of, tables_of, wired


def released(wire: Wire) -> Release:
    assert wire.server.release is not None, wire.server.reason
    return wire.server.release


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
    agreement = replace(agreement, **changes)
    wire = wired(agreement)
    wire.run()
    release, session = released(wire), wire.server.session
    assert session is not None
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
    for party in wire.parties.values():
        assert party.release is not None
        assert write_release(party.release) == write_release(release)


@pytest.mark.parametrize("parties", [1, 2, 4, 8])
def test_huge_epsilon_gives_the_exact_moments(parties: int) -> None:
    wire = wired(agreement_of(parties, epsilon=1e9, collusion=0))
    wire.run()
    release, session = released(wire), wire.server.session
    assert session is not None
    exact = exact_moments(session, tables_of(wire.server.agreement))
    for block in release.blocks:
        truth = exact[block.factors[:, 0], block.factors[:, 1]]
        assert np.abs(block.values / block.unit - truth).max() < 1e-4


def submissions(wire: Wire) -> dict[str, Masked]:
    session = wire.server.session
    assert session is not None
    return {e.sender: masked_from(body_of(e, Piece).data, session.length) for e in wire.seen if e.step is Step.SUBMIT}


def test_all_or_nothing() -> None:
    """K-1 submissions open nothing: their sum is uniform. All K together are small numbers."""
    partial, whole = [], []
    for i in range(12):
        wire = wired(agreement_of(3), b"run %d" % i, lambda e: e.step is Step.SUBMIT and e.sender == "p2")
        wire.run()
        assert wire.server.release is None
        assert all(p.release is None for p in wire.parties.values())
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
        wire = wired(agreement_of(2), b"alone %d" % i)
        wire.run()
        words.append(submissions(wire)["p0"].words)
    counts = np.bincount(np.concatenate(words).view(np.uint8), minlength=256)
    assert chisquare(counts).pvalue > 1e-6


def test_no_message_carries_an_exact_sum() -> None:
    """No exact single-party or cross-party sum stands in any message but the sealed columns of "plain" themselves."""
    wire = wired(agreement_of(2))
    wire.run()
    session = wire.server.session
    assert session is not None
    exact = np.rint(exact_moments(session, tables_of(wire.server.agreement)) * session.grid.unit).astype(np.int64)
    needles = {int(v).to_bytes(8, "little", signed=True) for v in exact.ravel() if abs(v) > 1 << 12}
    assert len(needles) > 20
    for envelope in wire.seen:
        if envelope.step is Step.PARCEL and body_of(envelope, ParcelBody).round == "seal":
            continue
        assert not any(needle in envelope.body for needle in needles)


def test_seeded_runs_are_byte_identical_and_others_are_not() -> None:
    one, two, other = (wired(agreement_of(3), seed) for seed in (b"same", b"same", b"other"))
    for wire in (one, two, other):
        wire.run()
    assert [e.encode() for e in one.seen] == [e.encode() for e in two.seen]
    assert write_release(released(one)) == write_release(released(two)) != write_release(released(other))
    assert released(one).provenance["seeded"] is True


def test_an_unseeded_release_says_so() -> None:
    wire = wired(agreement_of(2), None)
    wire.run()
    assert released(wire).provenance["seeded"] is False
    assert released(wire).provenance["simulation"] is True


def test_transcript_digest_does_not_depend_on_interleaving() -> None:
    """Parties may answer in any order; what the server hashed of each is the same."""

    class Shuffled(Wire):
        def run(self) -> None:
            queue = [self.parties[name].join(self.server.identity) for name in reversed(self.parties)]
            generator = np.random.default_rng(3)
            while queue:
                # Keep each sender's own order; choose which sender speaks next.
                senders = list(dict.fromkeys(e.sender for e in queue))
                sender = senders[int(generator.integers(len(senders)))]
                envelope = queue.pop(next(i for i, e in enumerate(queue) if e.sender == sender))
                for answer in self.server.receive(Envelope.decode(envelope.encode())):
                    queue += list(self.parties[answer.recipient].receive(Envelope.decode(answer.encode())))

    straight = wired(agreement_of(3))
    source = Randomness(b"seed")
    agreement = agreement_of(3)
    shuffled = Shuffled(Server(agreement, source.child("server")), parties_of(agreement, tables_of(agreement), source))
    straight.run()
    shuffled.run()
    assert released(straight).provenance == released(shuffled).provenance
    assert write_release(released(straight)) == write_release(released(shuffled))


def started(parties: int = 2, until: Step = Step.SUBMIT, **hooks: Any) -> Wire:
    """A session that stops where the first message of a kind is lost."""
    wire = wired(agreement_of(parties), drop=lambda e: e.step is until, **hooks)
    wire.run()
    return wire


def answers(party: Party, envelope: Envelope) -> list[Envelope]:
    return list(party.receive(envelope))


def forged(wire: Wire, step: Step, body: bytes, **changes: Any) -> Envelope:
    session = wire.server.session
    envelope = Envelope(wire.server.identity, "" if session is None else session.digest, "", "p0", step, body)
    return Envelope(**{**{f: getattr(envelope, f) for f in envelope.__struct_fields__}, **changes})


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
    with pytest.raises(ProtocolError, match="party p0 is submitted and expects no plan message"):
        answers(party, forged(wire, Step.PLAN, b""))
    with pytest.raises(ProtocolError, match="party p0 has submitted and takes no further part in round seal"):
        answers(party, forged(wire, Step.GO, encode_body(Go("seal"))))
    with pytest.raises(ProtocolError, match="party p0 joins a session once, it is submitted"):
        party.join(wire.server.identity)


def test_party_refuses_a_replayed_parcel() -> None:
    wire = started(2, Step.GO)
    wire.drop = lambda e: e.step is Step.SUBMIT
    parcels: list[Envelope] = []
    for envelope in [e for e in wire.seen if e.step is Step.GO]:
        wire.carry(envelope)
    parcels = [e for e in wire.seen if e.step is Step.PARCEL and e.recipient in wire.parties]
    assert parcels
    target = wire.parties[parcels[0].recipient]
    with pytest.raises(ProtocolError):
        answers(target, parcels[0])


def test_server_refuses_other_sessions_plans_states_and_senders() -> None:
    wire = started()
    server = wire.server
    submit = next(e for e in wire.seen if e.step is Step.SUBMIT)

    def receive(**changes: Any) -> list[Envelope]:
        fields = {f: getattr(submit, f) for f in submit.__struct_fields__}
        return list(server.receive(Envelope(**{**fields, **changes})))

    with pytest.raises(ProtocolError, match=r"the server \(running\) got a message of another session"):
        receive(session=bytes(32))
    with pytest.raises(ProtocolError, match="the server knows no party 'mallory'"):
        receive(sender="mallory")
    with pytest.raises(ProtocolError, match="another plan from p0"):
        receive(plan="0" * 64)
    with pytest.raises(ProtocolError, match="the server is running and expects no join message from p0"):
        receive(step=Step.JOIN)
    with pytest.raises(ProtocolError, match="the server is in round submit, p0 sends round seal"):
        receive(step=Step.DONE, body=encode_body(Done("seal")))
    with pytest.raises(ProtocolError, match="sends a parcel to 'mallory', whom nobody knows"):
        receive(step=Step.PARCEL, recipient="mallory", body=encode_body(ParcelBody("seal", b"")))
    receive()
    with pytest.raises(ProtocolError, match="the server has the submission of p0 already"):
        receive()
    assert server.release is None


def test_server_refuses_a_join_twice_and_other_columns() -> None:
    wire = wired(agreement_of(2))
    join = wire.parties["p0"].join(wire.server.identity)
    list(wire.server.receive(join))
    with pytest.raises(ProtocolError, match="the server has heard join from p0 already"):
        list(wire.server.receive(join))
    source = Randomness(b"x")
    stranger = Party("p1", {"z": Numeric(0, 1)}, 60, tables_of(agreement_of(2))["p1"].encode, source)
    with pytest.raises(ProtocolError, match="party p1 declares other columns than the study"):
        list(wire.server.receive(stranger.join(wire.server.identity)))


def test_different_numbers_of_records_end_the_session() -> None:
    agreement = agreement_of(2)
    source = Randomness(b"n")
    tables = {**tables_of(agreement, 60), "p1": tables_of(agreement, 61)["p1"]}
    server = Server(agreement, source.child("server"))
    with pytest.raises(ProtocolError, match="the same number of records, got p0 60, p1 61"):
        InProcess(server, parties_of(agreement, tables, source)).run()


def plan_of(wire: Wire, **changes: Any) -> bytes:
    """The server's plan with altered fields."""
    plan = body_of(next(e for e in wire.seen if e.step is Step.PLAN), Proposal)
    fields = {"agreement": plan.agreement, "rows": plan.rows, "mask_keys": plan.mask_keys}
    return encode_body(Proposal(**{**fields, **changes}))


def other_columns(content: dict[str, Any]) -> dict[str, Any]:
    schema = {p: dict(c) for p, c in content["schema"].items()}
    schema["p0"]["x0"] = {"kind": "numeric", "low": 0, "high": 1000}
    return {**content, "schema": schema}


@pytest.mark.parametrize(
    ("alter", "sentence"),
    [
        (lambda p: {"agreement": other_columns(p.agreement)}, "the plan states other columns than this party declared"),
        (lambda p: {"rows": p.rows + 1}, "the plan is for n=61 records, this party aligned 60"),
        (lambda p: {"mask_keys": p.mask_keys[::-1]}, "the plan lists another mask key than this party sent"),
        (lambda p: {"mask_keys": p.mask_keys[:1]}, "the plan lists another mask key than this party sent"),
        (lambda p: {"agreement": {**p.agreement, "delta": 2.0}}, "delta must lie in"),
        (lambda p: {"agreement": {**p.agreement, "epsilon": -1.0}}, "epsilon must be a positive number"),
        (lambda p: {"agreement": {**p.agreement, "task": "cubic"}}, "misstates a field"),
        (lambda p: {"agreement": {**p.agreement, "delta": "much"}}, "delta must be a number, got delta='much'"),
        (lambda p: {"agreement": {**p.agreement, "collusion": None}}, "collusion must be a number, got collusion=None"),
        (
            lambda p: {"agreement": {**p.agreement, "epsilon": [1]}},
            r"epsilon must be a positive number, got epsilon=\[1\]",
        ),
        (lambda p: {"agreement": {**p.agreement, "schema": {"p0": 3}}}, "misstates a field"),
        (lambda p: {"agreement": {**p.agreement, "label": 7}}, "label must be the name of a column, got label=7"),
    ],
)
def test_an_altered_plan_is_refused_and_nothing_leaves(alter: Any, sentence: str) -> None:
    wire = started(2, Step.PLAN)
    plan = body_of(next(e for e in wire.seen if e.step is Step.PLAN), Proposal)
    party = wire.parties["p0"]
    out = answers(party, forged(wire, Step.PLAN, plan_of(wire, **alter(plan))))
    assert [e.step for e in out] == [Step.REFUSE]
    assert body_of(out[0], Refuse) == Refuse(Code.PLAN)
    assert re.search(sentence, party.reason), party.reason
    assert party.state is PartyState.ENDED
    with pytest.raises(ProtocolError, match="is ended and expects no go message"):
        answers(party, forged(wire, Step.GO, GO_SUBMIT))


def test_a_plan_message_has_no_place_for_a_scale() -> None:
    """A party computes scales itself; a server that adds one sends a malformed message."""
    wire = started(2, Step.PLAN)
    body = msgspec.msgpack.decode(plan_of(wire))
    body["scale"] = 1e-6
    with pytest.raises(MessageError, match="the body of a plan message cannot be decoded"):
        answers(wire.parties["p0"], forged(wire, Step.PLAN, msgspec.msgpack.encode(body)))


def test_a_smaller_noise_by_a_larger_epsilon_shows_in_the_plan_that_is_asked() -> None:
    """Scales cannot be sent, only terms: consent sees the epsilon that they mean, and the digests part."""
    seen: list[float] = []
    wire = started(2, Step.PLAN, consent=lambda session: seen.append(session.plan.epsilon))
    plan = body_of(next(e for e in wire.seen if e.step is Step.PLAN), Proposal)
    body = plan_of(wire, agreement={**plan.agreement, "epsilon": 100.0})
    accept = answers(wire.parties["p0"], forged(wire, Step.PLAN, body))
    assert seen == [pytest.approx(100.0, rel=1e-6)]
    out = list(wire.server.receive(accept[0]))
    assert {e.step for e in out} == {Step.ABORT}
    assert wire.server.state is ServerState.FAILED
    assert "computed another plan" in wire.server.reason


def test_refusal_ends_the_session_before_anything_is_booked() -> None:
    booked: list[str] = []

    def consent(session: SessionPlan) -> None:
        raise PolicyError("epsilon=1 is above the largest this party allows, 0.5")

    agreement = agreement_of(3)
    source = Randomness(b"refuse")
    parties = parties_of(agreement, tables_of(agreement), source, book=lambda session: booked.append("spent"))
    parties["p1"] = Party(
        "p1", agreement.schema.parties["p1"], 60, tables_of(agreement)["p1"].encode, source, consent=consent
    )
    server = Server(agreement, source.child("server"))
    with pytest.raises(PolicyError, match="p1 refuses: epsilon=1 is above the largest this party allows"):
        InProcess(server, parties).run()
    assert booked == [] and server.release is None
    assert all(p.state is PartyState.ENDED for p in parties.values() if p.name != "p2")


def test_book_is_called_once_before_the_first_submission_leaves() -> None:
    log: list[str] = []
    wire = wired(agreement_of(2), book=lambda session: log.append("book"))
    carry = wire.carry

    def listening(envelope: Envelope) -> None:
        if envelope.step is Step.SUBMIT:
            log.append(f"submit {envelope.sender}")
        carry(envelope)

    wire.carry = listening  # type: ignore[method-assign]
    wire.run()
    assert log == ["book", "submit p0", "book", "submit p1"]
    assert released(wire)


def test_a_failing_book_lets_nothing_out() -> None:
    def book(session: SessionPlan) -> None:
        raise LedgerError("the ledger cannot be written")

    wire = wired(agreement_of(2), book=book)
    with pytest.raises(LedgerError):
        wire.run()
    assert not [e for e in wire.seen if e.step is Step.SUBMIT]
    with pytest.raises(ProductError, match="contributes once"):
        answers(wire.parties["p0"], forged(wire, Step.GO, GO_SUBMIT))
    assert not wire.parties["p0"]._submission


def test_secrets_are_not_in_repr() -> None:
    wire = started(2, Step.DONE)
    party = wire.parties["p0"]
    assert repr(party) == "Party('p0', accepted)"
    values = np.array([123456789])
    assert "123456789" not in repr(ExactBlock(values)) + repr(NoisyBlock(values))
    assert repr(Masked(np.zeros(3, dtype=np.uint64), b"secret")) == "Masked(3 words)"
    assert "seed" in repr(Randomness(b"top secret")) and "top" not in repr(Randomness(b"top secret"))
    assert "Table(" not in repr(tables_of(agreement_of(1))["p0"])


def test_party_forgets_after_its_submission() -> None:
    wire = started()
    party = wire.parties["p0"]
    assert party._own == {} and party._product is None


def test_abort_ends_every_party() -> None:
    wire = started()
    for envelope in wire.server.abort(Code.STOPPED):
        answers(wire.parties[envelope.recipient], envelope)
    assert all(p.state is PartyState.ENDED and not p._submission for p in wire.parties.values())
    with pytest.raises(ProtocolError, match="the server is failed and expects no submit message"):
        list(wire.server.receive(next(e for e in wire.seen if e.step is Step.SUBMIT)))


def test_an_altered_release_is_refused_by_a_party() -> None:
    wire = wired(agreement_of(2), drop=lambda e: e.step is Step.OPENED)
    wire.run()
    blob = write_release(released(wire))
    at = blob.index(b'"values":[') + 10
    altered = blob[:at] + (b"1" if blob[at : at + 1] != b"1" else b"2") + blob[at + 1 :]
    piece = encode_body(Piece(0, 1, altered))
    with pytest.raises(ReleaseError, match=r"altered|cannot be read"):
        answers(wire.parties["p0"], forged(wire, Step.OPENED, piece))
    assert wire.parties["p0"].release is None
    assert write_release(read_release(blob)) == blob


def test_transitions_in_the_docstring_are_those_in_the_table() -> None:
    """The drawn table is the one that runs: every (state, step) of the docstring is allowed."""
    import colonnade.protocol.party as module

    drawn: dict[str, set[str]] = {}
    lines = (module.__doc__ or "").splitlines()
    for line in lines[lines.index(next(li for li in lines if li.startswith("---"))) + 1 :]:
        words = line.split()
        if len(words) > 2 and words[0] in {s.value for s in PartyState} and words[1] in {s.value for s in Step}:
            drawn.setdefault(words[0], set()).add(words[1])
    for state, steps in drawn.items():
        assert steps - {"join"} <= {s.value for s in TRANSITIONS[PartyState(state)]}, state
    for state in (PartyState.JOINED, PartyState.ACCEPTED, PartyState.SUBMITTED):
        assert Step.ABORT in TRANSITIONS[state]


def test_streams_are_lazy() -> None:
    """Rows stream: the first parcel is out before the last is made."""
    wire = started(2, Step.GO)
    out = wire.parties["p1"].receive(forged(wire, Step.GO, encode_body(Go("seal")), recipient="p1"))
    assert isinstance(out, Iterator)
    assert next(out).step in (Step.PARCEL, Step.DONE)


def test_agreement_travels() -> None:
    agreement = agreement_of(3, epsilon=None, offers={f"p{k}": Offer(1.0, 0.2, {}) for k in range(3)})
    assert Agreement.of(agreement.to()) == agreement

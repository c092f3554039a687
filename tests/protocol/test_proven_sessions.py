"""Whole sessions with proofs: honest ones open, and every deviation is refused before anything is handed in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from colonnade.crypto.alignment.kernels import AlignmentKernels
from colonnade.crypto.ranges.commitments import BitChecker
from colonnade.crypto.ranges.party import (
    ANSWER,
    CHALLENGE,
    MULTIPLY,
    OPENING,
    PROMISE,
    ROUNDS,
    SEAL,
    ProvenParty,
    proven_kind,
)
from colonnade.crypto.ranges.proof import KeysHeld
from colonnade.crypto.ranges.statements import RandomMasks
from colonnade.data.table import table_from
from colonnade.foundation.errors import ColonnadeError, ProofError, ProtocolError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Schema
from colonnade.mechanism.objective import Task
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session
from colonnade.protocol.fit import FitParty
from colonnade.protocol.messages import Envelope, ParcelBody, Step, body_of, encode_body
from tests.helpers.proven import (
    READ_BITS,
    FarNumbers,
    LongKeys,
    OtherAnswer,
    ProvenReading,
    Reading,
    TwoBits,
    TwoFaces,
    TwoOnes,
    changing,
    checking,
    committing,
    move_by_half,
    proven_session,
    second_form,
    spell_a_key,
    weigh_beyond_rows,
)
from tests.helpers.sessions import (
    TappedSession,
    altered,
    exact_moments,
    parties_of,
    server_of,
    tables_of,
)
from tests.unit.crypto.test_ranges import FalseOpening, MixedRows, OtherBits, WrongCorrection, _flip


def opened_nothing(session: TappedSession) -> bool:
    """No party handed in, and no party's word of it left."""
    return not any(role.handed_in for role in session.parties.values()) and not session.sent(Step.SUBMIT)


def refused(session: TappedSession, match: str, kind: type[ColonnadeError] = ProofError) -> str:
    with pytest.raises(kind, match=match) as caught:
        session.run()
    assert opened_nothing(session)
    return str(caught.value)


# Honest sessions.


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("seed", [b"seed", None], ids=["seeded", "of the system"])
def test_honest_parties_open_what_they_would_open_without_proofs(parties: int, seed: bytes | None) -> None:
    session = proven_session(parties=parties, seed=seed)
    session.run()
    release, plan = session.release, session.session
    assert release is not None and plan.proved
    for name in plan.parties:
        # Parcels and submission are as many bytes as the plan says; headers come on top.
        sent = sum(len(body_of(e, ParcelBody).payload) for e in session.sent(Step.PARCEL) if e.sender == name)
        assert sent + 8 * plan.length == plan.sent[name]
    if seed is not None:
        exact = exact_moments(plan, tables_of(plan.agreement, 120))
        for block, item in zip(release.blocks, plan.plan.blocks, strict=True):
            true = exact[block.factors[:, -2], block.factors[:, -1]]
            assert (np.abs(block.values / block.unit - true) < 12 * plan.plan.noise_std(item)).all()


def test_the_same_seeds_say_the_same() -> None:
    said = []
    for _ in range(2):
        session = proven_session(parties=3)
        session.run()
        said.append(session.seen)
    assert said[0] == said[1]


def test_under_one_plan_the_release_is_the_same_with_and_without_proofs() -> None:
    """Proofs draw from sources of their own: words, noise and what is opened are the same integers."""
    with_proofs = proven_session(parties=3)
    with_proofs.run()
    planned = with_proofs.session

    def unproved(agreement: Agreement, rows: int, identity: bytes) -> object:
        from dataclasses import replace

        return replace(planned, spec=replace(planned.spec, groups=()))

    source, agreement = Randomness(b"seed"), planned.agreement
    roles = parties_of(agreement, tables_of(agreement, 120), source, planner=unproved)
    without = TappedSession(server_of(agreement, source, planner=unproved), roles)
    without.run()
    for one, other in zip(with_proofs.release.blocks, without.release.blocks, strict=True):  # type: ignore[union-attr]
        assert (one.values == other.values).all()


def test_compiled_loops_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="the extra fast is not installed")
    from colonnade.crypto.alignment.compiled_kernels import CompiledAlignmentKernels
    from colonnade.crypto.lattice.compiled import CompiledParty

    said = []
    for kernels, kinds in (
        (AlignmentKernels, {}),
        (CompiledAlignmentKernels, dict.fromkeys(("p0", "p1"), proven_kind(CompiledParty))),
    ):
        monkeypatch.setattr("colonnade.crypto.ranges.party.best_kernels", lambda ids, kernels=kernels: kernels())
        session = proven_session(kinds)
        session.run()
        said.append(session.seen)
    assert said[0] == said[1]


def test_gaussian_noise_and_narrower_releases_are_proved_alike() -> None:
    session = proven_session(changes={"proofs": "required", "delta": 1e-6, "release": "label"}, parties=3)
    session.run()
    assert session.release is not None and session.session.proved


# A party that deviates.


@pytest.mark.parametrize(
    ("cheat", "kind"),
    [
        ("p0", FarNumbers),
        ("p1", FarNumbers),
        ("p0", TwoOnes),
        ("p0", changing(spell_a_key)),
        ("p0", changing(move_by_half)),
        ("p1", changing(move_by_half, SEAL)),
        ("p0", changing(weigh_beyond_rows)),
        ("p0", LongKeys),
        ("p1", LongKeys),
    ],
    ids=[
        "multiplies with far numbers",
        "seals far numbers",
        "two levels in a record",
        "an answer that spells a key",
        "one word of an answer moved by q/2",
        "one sealed word moved by q/2",
        "a weight beyond the rows",
        "rho beyond its law",
        "s beyond its law",
    ],
)
@pytest.mark.parametrize("seed", [b"1", b"2"])
def test_words_that_are_not_made_of_bounded_numbers_are_refused(
    cheat: str, kind: type[ProvenParty], seed: bytes
) -> None:
    told = refused(proven_session({cheat: kind}, seed=seed), "made of numbers within their bounds")
    partner = "p1" if cheat == "p0" else "p0"
    assert told.startswith(f"party {partner} refuses {cheat} in round {ANSWER}, by what came in its name: ")


def test_two_sealed_levels_of_a_record_are_refused() -> None:
    """Three parties, of which the first seals here: p1, which has fewer columns, multiplies."""
    changes = {"proofs": "required", "release": "full"}
    told = refused(proven_session({"p0": TwoOnes}, parties=3, changes=changes), "made of numbers within their bounds")
    assert "refuses p0" in told


def test_another_answer_than_the_one_that_was_bound_is_refused() -> None:
    told = refused(proven_session({"p0": OtherAnswer}), "must have the digest that came with its bits")
    assert "refuses p0 in round multiply" in told


@pytest.mark.parametrize(("cheat", "at"), [("p0", MULTIPLY), ("p1", SEAL)])
def test_a_word_above_the_modulus_is_refused_as_it_comes(cheat: str, at: str) -> None:
    """Relations are of words modulo q, and products of words as they came: floats are exact for those below q alone."""
    session = proven_session({cheat: second_form(at)})
    told = refused(session, "must have words below 2\\^", ProtocolError)
    assert "parcel 0 from" in told and session.session.spec.modulus_bits % 8


def test_other_words_to_one_of_two_partners_are_refused_and_nobody_is_named() -> None:
    told = refused(proven_session({"p2": TwoFaces}, parties=3), "must send the same words to all", ProtocolError)
    assert "refuses" not in told


def test_other_bits_to_one_of_two_partners_are_refused() -> None:
    told = refused(proven_session({"p2": TwoBits}, parties=3), "made of numbers within their bounds")
    assert told.startswith("party p1 refuses p2")


def test_a_row_of_transfers_that_mixes_bits_is_refused_with_the_matrices() -> None:
    assert "round proof bits" in refused(proven_session({"p0": committing(OtherBits)}), "repeat one bit")


class OneColumn(OtherBits):
    rows = type("OneColumn", (MixedRows,), {"columns": 1})


def test_a_row_mixed_in_one_column_passes_for_half_of_all_secrets() -> None:
    """It tells one bit of D, at the cost of the session for the other half, and nothing of anybody's data."""
    ends = []
    for seed in range(12):
        try:
            proven_session({"p0": committing(OneColumn)}, seed=bytes([seed])).run()
            ends.append(True)
        except ProofError as error:
            assert "repeat one bit" in str(error)
            ends.append(False)
    assert 1 <= sum(ends) <= 11


# A party that checks otherwise.


class FalseSecret(FalseOpening):
    changed = staticmethod(_flip(0))  # type: ignore[assignment]


class OtherOffset(FalseOpening):
    changed = staticmethod(_flip(48))  # type: ignore[assignment]


class FarOffset(FalseOpening):
    """F + p, which is the same number modulo p (crit_offset)."""

    @staticmethod
    def changed(opening: bytes) -> bytes:
        size = len(opening) - 48
        return opening[:48] + b"\xff" * size


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (WrongCorrection, "made by the opened secret"),
        (FalseSecret, "that of the base transfers"),
        (OtherOffset, "made by the opened secret"),
        (FarOffset, "below the prime"),
    ],
)
@pytest.mark.parametrize("name", ["p0", "p1"])
def test_a_deviating_verifier_is_refused_before_the_answer(kind: type[BitChecker], said: str, name: str) -> None:
    session = proven_session({name: checking(kind)})
    partner = "p1" if name == "p0" else "p0"
    assert f"party {partner} refuses {name} in round {OPENING}" in refused(session, said)
    answers = [e for e in session.sent(Step.PARCEL) if body_of(e, ParcelBody).round == ANSWER]
    assert not [e for e in answers if e.sender == partner]


def foreseen(seed: bytes) -> type[ProvenParty]:
    """Seals words whose errors the sums of one challenge do not see: a vector orthogonal to its masks."""

    def change(party: object, words: np.ndarray) -> None:
        spec = party._spec  # type: ignore[attr-defined]
        from colonnade.crypto.lattice.kernels import NumpyKernels
        from colonnade.crypto.ranges.party import statements_of

        statement = statements_of(spec)[1, 0]
        masks = RandomMasks(statement, seed, NumpyKernels()).rows(0, 66)
        words[0, :66] += orthogonal(masks.astype(object), 1 << spec.modulus_bits)

    return changing(change, SEAL)


def orthogonal(masks: np.ndarray, modulus: int) -> np.ndarray:
    """A vector modulo `modulus` that these 64 sums of 66 words do not see: by elimination over the odd primes' field.

    Fractions are avoided by working modulo 2^k with odd pivots; masks whose determinant is even are scaled.
    """
    from fractions import Fraction

    rows = [[Fraction(int(v)) for v in row] for row in masks]
    pivots: list[int] = []
    for column in range(len(rows[0])):
        at = len(pivots)
        place = next((r for r in range(at, len(rows)) if rows[r][column]), None)
        if place is None:
            continue
        rows[at], rows[place] = rows[place], rows[at]
        rows[at] = [v / rows[at][column] for v in rows[at]]
        for r in range(len(rows)):
            if r != at and rows[r][column]:
                rows[r] = [v - rows[r][column] * w for v, w in zip(rows[r], rows[at], strict=True)]
        pivots.append(column)
    free = next(c for c in range(len(rows[0])) if c not in pivots)
    out = [Fraction(0)] * len(rows[0])
    out[free] = Fraction(1)
    for at, column in enumerate(pivots):
        out[column] = -rows[at][free]
    scale = np.lcm.reduce(np.array([v.denominator for v in out], object))
    whole = [int(v * scale) for v in out]
    while all(v % 2 == 0 for v in whole):
        whole = [v // 2 for v in whole]
    return np.array([v % modulus for v in whole], np.uint64)


class Showing(ProvenParty):
    """Its challenge is known before: it uses one that others have seen."""

    def _take_bits(self, peer: int, payload: bytes) -> None:
        super()._take_bits(peer, payload)
        held = self._step(self._checking, peer, KeysHeld)
        if held._seed != bytes(32) and not self._taken["proof bits"][peer]:
            self._checking[peer] = KeysHeld(held.statement, held._bits, bytes(32), self._ring)

    _takes: ClassVar[Any] = {**ProvenParty._takes, "proof bits": _take_bits}


def test_words_made_for_a_challenge_of_before_are_refused() -> None:
    refused(proven_session({"p1": foreseen(bytes(32))}), "made of numbers within their bounds")


def test_where_a_challenge_is_used_again_such_words_would_pass() -> None:
    """The control: errors of half the modulus pass sums that were known, so that a challenge must be fresh."""
    session = proven_session({"p1": foreseen(bytes(32)), "p0": Showing})
    session.run()
    assert session.release is not None


# The order of messages.


@pytest.mark.parametrize("round", ROUNDS[:-1])
def test_a_parcel_that_comes_twice_is_refused(round: str) -> None:
    sent = []

    def twice(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if not up and envelope.step is Step.PARCEL and body_of(envelope, ParcelBody).round == round and not sent:
            sent.append(envelope)
            return envelope, envelope
        return (envelope,)

    session = proven_session(meddle=twice)
    with pytest.raises(ProtocolError):
        session.run()
    assert sent and opened_nothing(session)


def cut(payload: bytes) -> bytes:
    return payload[:-1]


def lengthened(payload: bytes) -> bytes:
    return payload + b"\0"


def full(payload: bytes) -> bytes:
    return b"\xff" * len(payload)


@pytest.mark.parametrize("form", [cut, lengthened, full])
@pytest.mark.parametrize("round", ROUNDS[:-1])
def test_a_parcel_of_another_form_is_refused_by_its_form(round: str, form: Callable[[bytes], bytes]) -> None:
    changed = []

    def meddle(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if up and envelope.step is Step.PARCEL:
            body = body_of(envelope, ParcelBody)
            if body.round == round and not changed:
                changed.append(round)
                return (altered(envelope, body=encode_body(ParcelBody(round, form(body.payload)))),)
        return (envelope,)

    session = proven_session(meddle=meddle)
    with pytest.raises(ColonnadeError):
        session.run()
    assert changed and opened_nothing(session)


@pytest.mark.parametrize("at", range(len(ROUNDS) - 1))
def test_rounds_in_another_order_are_refused_whatever_the_server_says(at: int) -> None:
    session = proven_session(parties=3)
    rounds = list(ROUNDS)
    rounds[at], rounds[at + 1] = rounds[at + 1], rounds[at]
    type_of = type(session.server.task)
    session.server.task.__class__ = type("Other", (type_of,), {"rounds": tuple(rounds)})
    with pytest.raises(ProtocolError, match=r"must follow all of round|takes no parcel of round"):
        session.run()
    assert opened_nothing(session)


@pytest.mark.parametrize("left_out", ROUNDS[:-1])
def test_a_round_that_the_server_leaves_out_is_missed(left_out: str) -> None:
    session = proven_session()
    rounds = tuple(round for round in ROUNDS if round != left_out)
    session.server.task.__class__ = type("Other", (type(session.server.task),), {"rounds": rounds})
    with pytest.raises(ColonnadeError, match=r"must follow all of round|takes no parcel of round|once all proofs hold"):
        session.run()
    assert not session.sent(Step.SUBMIT)


@pytest.mark.parametrize("last", range(ROUNDS.index(MULTIPLY), ROUNDS.index(ANSWER)))
def test_a_server_that_ends_the_proofs_early_gets_nothing(last: int) -> None:
    """It asks for submissions as soon as all words are there, or a few rounds later."""
    session = proven_session()
    session.server.task.__class__ = type("Other", (type(session.server.task),), {"rounds": ROUNDS[: last + 1]})
    with pytest.raises(ColonnadeError, match="contributes once all proofs hold"):
        session.run()
    assert not session.sent(Step.SUBMIT)


def test_nobody_answers_twice_and_a_second_opening_finds_nothing() -> None:
    """A verifier that is stopped after the opening and begins again, or takes a second promise, meets a refusal."""
    session = proven_session()
    session.run()
    again = proven_session()
    caught: list[str] = []

    def meddle(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if not up and envelope.step is Step.PARCEL and envelope.recipient == "p0":
            round = body_of(envelope, ParcelBody).round
            if round == ANSWER:
                product = again.parties["p0"].task._products._pairs  # type: ignore[attr-defined]
                for earlier in (OPENING, PROMISE, CHALLENGE):
                    for seen in session.sent(Step.PARCEL):
                        if seen.recipient == "p0" and body_of(seen, ParcelBody).round == earlier:
                            with pytest.raises(ProtocolError, match="got another"):
                                product.receive(earlier, "p1", body_of(seen, ParcelBody).payload)
                            with pytest.raises(ProtocolError, match="answers a round once"):
                                product.send(earlier)
                            caught.append(earlier)
        return (envelope,)

    again.meddle = meddle
    again.run()
    assert caught == [OPENING, PROMISE, CHALLENGE]


def test_no_parcel_is_taken_before_the_rounds_that_must_be_sent_first() -> None:
    """Words of a partner, or its challenge, come as early as the server likes: u is made before any is heard."""
    session = proven_session()
    session.run()
    caught, again = list[str](), proven_session()

    def meddle(envelope: Envelope, up: bool) -> Iterable[Envelope]:
        if not up and envelope.step is Step.PARCEL and envelope.recipient == "p0" and not caught:
            product = again.parties["p0"].task._products._pairs  # type: ignore[attr-defined]
            for seen in session.sent(Step.PARCEL):
                round = body_of(seen, ParcelBody).round
                if seen.recipient == "p0" and round not in (*ROUNDS[:2], *caught):
                    with pytest.raises(ProtocolError, match=r"takes no parcel of round .* yet"):
                        product.receive(round, "p1", body_of(seen, ParcelBody).payload)
                    caught.append(round)
        return (envelope,)

    again.meddle = meddle
    again.run()
    assert set(caught) == {*ROUNDS[2:-1]} - {MULTIPLY}


def test_sealed_words_of_all_come_before_any_answer() -> None:
    session = proven_session(parties=3)
    session.run()
    rounds = [body_of(e, ParcelBody).round for e in session.sent(Step.PARCEL)]
    for before, after in pairwise(ROUNDS[:-1]):
        assert max(i for i, r in enumerate(rounds) if r == before) < rounds.index(after)


# The cheat that reads people's values.

LEVELS, ROWS = 8, 1200
BINARY = {"kind": "binary", "levels": ["no", "yes"]}
OWNED = {
    "hospital": {"hiv": BINARY, "age": {"kind": "numeric", "low": 18, "high": 100}, "ill": BINARY},
    "shop": {"zip": {"kind": "categorical", "levels": [str(i) for i in range(LEVELS)]}},
}


def reading_session(monkeypatch: pytest.MonkeyPatch, proofs: str) -> tuple[TappedSession, np.ndarray, np.ndarray]:
    """The shop multiplies with weights that spell whether chosen people are ill; who they are, and whether they are."""
    study = Agreement.from_terms(
        "s", Schema.of(OWNED), "hospital.ill", Task.LOGISTIC, epsilon=1.0, collusion=1, release="full", proofs=proofs
    )
    draw = np.random.default_rng(3)
    data = {"hospital": {name: draw.choice(["no", "yes"], ROWS) for name in ("hiv", "ill")}}
    data["hospital"]["age"] = draw.uniform(18, 100, ROWS)
    data["shop"] = {"zip": draw.integers(0, LEVELS, ROWS).astype(str)}
    plan = plan_session(study, ROWS, bytes(32))
    (cross,), step = plan.spec.crosses, plan.grid.bound * plan.spec.gain
    size = (1 << plan.spec.modulus_bits) // (step << READ_BITS)
    people = draw.permutation(ROWS)[: cross.shape[1] * READ_BITS].reshape(cross.shape[1], READ_BITS)
    weights = np.zeros((ROWS, cross.shape[1]), np.int64)
    for column, chosen in enumerate(people):
        weights[chosen, column] = size << np.arange(READ_BITS)
    monkeypatch.setattr(Reading, "weights", weights)
    tables = {
        name: table_from(name, pl.DataFrame(data[name]).select(*OWNED[name]), study.schema.parties[name])
        for name in data
    }
    roles = parties_of(study, tables, Randomness(b"r" * 32))
    task = roles["shop"].task
    assert isinstance(task, FitParty)
    task.product = lambda session, workers: ProvenReading if session.proved else Reading
    return TappedSession(server_of(study, Randomness(b"s" * 32)), roles), people, data["hospital"]["ill"] == "yes"


def test_without_proofs_a_partner_reads_chosen_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the attack works where nothing is proved."""
    session, people, ill = reading_session(monkeypatch, "")
    session.run()
    plan, release = session.session, session.release
    assert release is not None
    opened = np.zeros(plan.length, np.int64)
    for i, block in enumerate(release.blocks):
        opened[plan.positions[i]] = block.values
    (cross,), step = plan.spec.crosses, plan.grid.bound * plan.spec.gain
    size = (1 << plan.spec.modulus_bits) // (step << READ_BITS)
    words = opened[plan.cross_start :].reshape(cross.shape).view(np.uint64)
    spelt = np.rint((words[-1] & np.uint64((1 << plan.spec.modulus_bits) - 1)) / (step * size)).astype(np.int64)
    right = (spelt[:, None] >> np.arange(READ_BITS) & 1) == ill[people]
    assert right.mean() > 0.95


def test_with_proofs_it_reads_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    session, _, _ = reading_session(monkeypatch, "required")
    told = refused(session, "made of numbers within their bounds")
    assert told.startswith("party hospital refuses shop")

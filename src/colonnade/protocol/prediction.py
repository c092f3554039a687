"""Scores of records whose columns lie at several parties: each adds up its own, and one party opens the sum.

state      receives   sends                             next
---------  ---------  --------------------------------  ---------
new                   join                              joined
joined     plan       accept | refuse                   accepted
accepted   go submit  masked part | done, the receiver  submitted
submitted  opened                                       released
any        abort                                        ended
any        (error)    refuse                            ended

A part is x_k . w_k of every record in fixed point, under pairwise masks modulo 2^64. The receiver sends none: without
its own part, which stays with it, the sum of all others is as uniform as each of them. What the receiver opens is every
record's score, exactly. It is not differentially private, and with two parties it is the other's part plus its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.masks import MaskKeys
from colonnade.crypto.product import SERVER, Words
from colonnade.foundation.errors import ColonnadeError, ProtocolError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, column_to
from colonnade.mechanism.release import digest
from colonnade.protocol.codes import Code, code_of, sentence_of
from colonnade.protocol.messages import (
    SUBMIT,
    Abort,
    Accept,
    Assembly,
    Body,
    Done,
    Envelope,
    Go,
    Join,
    Masked,
    Piece,
    Proposal,
    Refuse,
    Step,
    body_of,
    encode_body,
    masked_from,
    submission,
    total_of,
)
from colonnade.protocol.party import TRANSITIONS, State

Floats = NDArray[np.float64]

MODULUS_BITS = 64
STEPS = 2.0**40
"""Steps of the fixed-point grid in a score of 1; each party's part is rounded to it once."""
LARGEST_SCORE = 2.0**62 / STEPS
"""No sum of parts may reach this: half the modulus, and a factor of two to spare."""


@dataclass(frozen=True)
class Prediction:
    """What parties agree to before they score: which model, by which of their columns, for whom."""

    model: str
    """Digest of the model file, which every party has."""
    receiver: str
    columns: Mapping[str, Mapping[str, Column]]
    """The columns of each party that the model has a weight for; the receiver may have none."""

    def __post_init__(self) -> None:
        if self.receiver not in self.columns or len(self.columns) < 2:
            told = ", ".join(self.columns) or "none"
            raise ProtocolError(f"scores must go to one of two or more parties, got {self.receiver!r} of {told}")

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.columns)

    def to(self) -> dict[str, Any]:
        columns = {p: {n: column_to(c) for n, c in own.items()} for p, own in self.columns.items()}
        return {"model": self.model, "receiver": self.receiver, "columns": columns}

    def terms(self, rows: int) -> str:
        """The digest of these terms for n records: what a person approves."""
        # Parties stand in mask order, which sorted keys would not tell.
        return digest({"prediction": {**self.to(), "parties": list(self.parties), "rows": rows}})


Consent = Callable[[Prediction, int], None]
"""Raises PolicyError to refuse; called with the number of records before a part is made."""


def _agree(prediction: Prediction, rows: int) -> None:
    """Consent without conditions."""


def words_of(part: Floats, parties: int) -> Words:
    """A party's part in fixed point, modulo 2^64."""
    if not np.isfinite(part).all() or (part.size and float(np.abs(part).max()) >= LARGEST_SCORE / parties):
        raise ProtocolError(f"a part of a score must be below {LARGEST_SCORE / parties:.6g}, got a larger one")
    return np.rint(part * STEPS).astype(np.int64).view(np.uint64)


def scores_of(total: Words) -> Floats:
    """The opened sums as numbers."""
    scores: Floats = total.view(np.int64) / STEPS
    return scores


class ScoringParty:
    """One organisation's side of one prediction, by its own copy of the model."""

    def __init__(
        self,
        name: str,
        prediction: Prediction,
        part: Floats,
        randomness: Randomness,
        consent: Consent = _agree,
    ) -> None:
        self.name, self.state = name, State.NEW
        self.prediction = prediction
        self.scores: Floats | None = None
        """Every record's score before the intercept, at the receiver alone."""
        self.reason = ""
        """Why the prediction ended, for this party's own people: others are told a code."""
        self._rows, self._part = len(part), part
        self._digest = ""
        self._keys = MaskKeys(randomness.child("masks"))
        self._consent = consent
        self._identity = b""
        self._own: Masked | None = None
        self._submission: list[bytes] = []
        self._opened = Assembly(16 * self._rows + 64)

    def join(self, identity: bytes) -> Envelope:
        """Enter with this party's public facts."""
        if self.state is not State.NEW:
            raise ProtocolError(f"party {self.name} joins a prediction once, it is {self.state.value}")
        self._identity, self.state = identity, State.JOINED
        facts = {name: column_to(column) for name, column in self.prediction.columns[self.name].items()}
        return self._to_server(Step.JOIN, Join(facts, self._rows, self._keys.public))

    def receive(self, envelope: Envelope) -> Iterator[Envelope]:
        """Answer one message."""
        if envelope.session != self._identity:
            raise ProtocolError(f"party {self.name} ({self.state.value}) got a message of another session")
        if envelope.step not in TRANSITIONS[self.state] or envelope.step is Step.PARCEL:
            raise ProtocolError(f"party {self.name} is {self.state.value} and expects no {envelope.step.value} message")
        if self._digest and envelope.step is not Step.ABORT and envelope.plan != self._digest:
            raise ProtocolError(f"party {self.name} ({self.state.value}) got a message of another prediction")
        match envelope.step:
            case Step.PLAN:
                yield self._consider(body_of(envelope, Proposal))
            case Step.GO:
                yield from self._submit(body_of(envelope, Go))
            case Step.OPENED:
                self._open(body_of(envelope, Piece))
            case Step.ABORT:
                abort = body_of(envelope, Abort)
                known = abort.party in self.prediction.parties
                self.reason = self.reason or sentence_of(abort.code, abort.party if known else "")
                self._end()

    def _consider(self, plan: Proposal) -> Envelope:
        """Agree to nothing but what this party was itself asked for."""
        place = self.prediction.parties.index(self.name)
        try:
            if plan.agreement != self.prediction.to() or list(plan.agreement["columns"]) != list(
                self.prediction.parties
            ):
                raise ProtocolError("the server proposes another model, receiver or columns than this party was given")
            if plan.rows != self._rows:
                raise ProtocolError(f"the prediction is for n={plan.rows} records, this party aligned {self._rows}")
            if len(plan.mask_keys) != len(self.prediction.parties):
                raise ProtocolError(f"the plan must list one mask key for each party, got {len(plan.mask_keys)}")
            mask = self._keys.mask(self._identity, place, plan.mask_keys, self._rows, MODULUS_BITS)
            self._own = Masked(words_of(self._part, len(self.prediction.parties)) + mask, b"")
        except ColonnadeError as error:
            return self.refuse(error, Code.PLAN)
        try:
            self._consent(self.prediction, self._rows)
        except ColonnadeError as error:
            return self.refuse(error)
        self._part = np.zeros(0)
        self._digest = self.prediction.terms(self._rows)
        self.state = State.ACCEPTED
        return self._to_server(Step.ACCEPT, Accept(self._digest))

    def _submit(self, go: Go) -> Iterator[Envelope]:
        """One masked message; asked again, the same bytes again. The receiver's part stays with it."""
        if go.round != SUBMIT:
            raise ProtocolError(f"a prediction has the round {SUBMIT} alone, got {go.round!r}")
        mine = self.name == self.prediction.receiver
        if self.state is State.ACCEPTED:
            assert self._own is not None
            if not mine:
                self._submission, self._own = submission(self._own), None
            self.state = State.SUBMITTED
        if mine:
            yield self._to_server(Step.DONE, Done(SUBMIT))
        for body in self._submission:
            yield self._make(Step.SUBMIT, body)

    def _open(self, piece: Piece) -> None:
        whole = self._opened.add(piece)
        if whole is None:
            return
        if self.name == self.prediction.receiver:
            assert self._own is not None
            self.scores = scores_of(total_of([self._own, masked_from(whole, self._rows)], MODULUS_BITS))
        elif whole:
            raise ProtocolError(f"party {self.name} is not the receiver and was sent scores")
        self._forget()
        self.state = State.RELEASED

    def refuse(self, error: BaseException, code: Code | None = None) -> Envelope:
        """End this party's part for an error that its own people are told of, and others by a code alone."""
        if self.state in (State.NEW, State.RELEASED, State.ENDED):
            raise ProtocolError(f"party {self.name} is {self.state.value} and has nothing to refuse")
        self._end()
        self.reason = str(error) if isinstance(error, ColonnadeError) else f"{type(error).__name__}: {error}"
        return self._to_server(Step.REFUSE, Refuse(code_of(error) if code is None else code))

    def _forget(self) -> None:
        self._part, self._own, self._submission = np.zeros(0), None, []

    def _end(self) -> None:
        self._forget()
        self.state = State.ENDED

    def _to_server(self, step: Step, body: Body) -> Envelope:
        return self._make(step, encode_body(body))

    def _make(self, step: Step, body: bytes) -> Envelope:
        return Envelope(self._identity, self._digest, self.name, SERVER, step, body)

    def __repr__(self) -> str:
        return f"ScoringParty({self.name!r}, {self.state.value})"

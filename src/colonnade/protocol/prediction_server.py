"""The server's side of a prediction: it adds up masked parts and can read neither them nor their sum.

state    receives           sends                                next
-------  -----------------  -----------------------------------  -------
joining  join (the last)    plan to all                          asking
asking   accept (the last)  go submit to all                     running
running  part, done (last)  the sum to the receiver, end to all  opened
any      refuse             abort to all                         failed
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.crypto.product import SERVER
from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.codes import Code, sentence_of
from colonnade.protocol.messages import (
    SUBMIT,
    Abort,
    Accept,
    Assembly,
    Done,
    Envelope,
    Go,
    Join,
    Masked,
    Piece,
    Plan,
    Refuse,
    Step,
    body_of,
    encode_body,
    masked_from,
    submission,
    total_of,
)
from colonnade.protocol.prediction import MODULUS_BITS, Prediction
from colonnade.protocol.server import TRANSITIONS, State


class ScoringServer:
    """Adds up masked parts and hands the sum, still masked, to the receiver."""

    def __init__(self, prediction: Prediction, randomness: Randomness) -> None:
        self.prediction, self.state = prediction, State.JOINING
        self.identity = randomness.bytes(32)
        self.reason, self.culprit = "", ""
        self.code: Code | None = None
        self._joined: dict[str, Join] = {}
        self._digest = ""
        self._waiting = set(prediction.parties)
        self._assemblies: dict[str, Assembly] = {}
        self._total: Masked | None = None

    @property
    def parties(self) -> tuple[str, ...]:
        return self.prediction.parties

    def receive(self, envelope: Envelope) -> Iterator[Envelope]:
        """Answer one message."""
        party, step = envelope.sender, envelope.step
        if envelope.session != self.identity:
            raise ProtocolError(f"the server ({self.state.value}) got a message of another session")
        if party not in self.parties:
            raise ProtocolError(f"the server knows no party {party!r}")
        if step not in TRANSITIONS[self.state] or step is Step.PARCEL:
            raise ProtocolError(f"the server is {self.state.value} and expects no {step.value} message from {party}")
        if self.state is State.RUNNING and envelope.plan != self._digest:
            raise ProtocolError(f"the server ({self.state.value}) got a message of another prediction from {party}")
        match step:
            case Step.JOIN:
                yield from self._join(party, body_of(envelope, Join))
            case Step.ACCEPT:
                yield from self._accept(party, body_of(envelope, Accept))
            case Step.SUBMIT:
                yield from self._submitted(party, body_of(envelope, Piece))
            case Step.DONE:
                self._done(party, body_of(envelope, Done))
                yield from self._hand_over()
            case Step.REFUSE:
                yield from self.abort(body_of(envelope, Refuse).code, party)

    def _arrived(self, party: str, what: str) -> bool:
        if party not in self._waiting:
            raise ProtocolError(f"the server has heard {what} from {party} already, or expects none")
        self._waiting.discard(party)
        return not self._waiting

    def _join(self, party: str, join: Join) -> Iterator[Envelope]:
        if join.columns != self.prediction.to()["columns"][party]:
            raise ProtocolError(f"party {party} declares other columns than the model has")
        last = self._arrived(party, "join")
        self._joined[party] = join
        if not last:
            return
        rows = {name: self._joined[name].rows for name in self.parties}
        if len(set(rows.values())) > 1:
            told = ", ".join(f"{name} {n}" for name, n in rows.items())
            sentence = f"all parties must score the same number of records, got {told}"
            yield from self.abort(Code.ROWS, sentence=sentence)
            return
        self.state, self._waiting = State.ASKING, set(self.parties)
        self._digest = self.prediction.terms(join.rows)
        keys = [self._joined[name].mask_key for name in self.parties]
        yield from self._to_all(Step.PLAN, encode_body(Plan(self.prediction.to(), join.rows, keys)))

    def _accept(self, party: str, accept: Accept) -> Iterator[Envelope]:
        if accept.digest != self._digest:
            yield from self.abort(Code.PLAN, party)
            return
        if self._arrived(party, "accept"):
            self.state = State.RUNNING
            self._waiting = set(self.parties)
            yield from self._to_all(Step.GO, encode_body(Go(SUBMIT)))

    def _submitted(self, party: str, piece: Piece) -> Iterator[Envelope]:
        if party == self.prediction.receiver or party not in self._waiting:
            raise ProtocolError(f"the server has the part of {party} already, or expects none")
        rows = self._joined[party].rows
        whole = self._assemblies.setdefault(party, Assembly(16 * rows + 64)).add(piece)
        if whole is None:
            return
        del self._assemblies[party]
        part = masked_from(whole, rows)
        self._total = part if self._total is None else Masked(total_of([self._total, part], MODULUS_BITS), b"")
        self._arrived(party, "the part")
        yield from self._hand_over()

    def _done(self, party: str, done: Done) -> None:
        if party != self.prediction.receiver or done.round != SUBMIT:
            raise ProtocolError(f"the server expects the end of round {SUBMIT} from the receiver, got {party}'s")
        self._arrived(party, "the end")

    def _hand_over(self) -> Iterator[Envelope]:
        if self._waiting or self._total is None:
            return
        bodies = submission(self._total)
        self.state, self._total = State.OPENED, None
        for name in self.parties:
            for body in bodies if name == self.prediction.receiver else [encode_body(Piece(0, 1, b""))]:
                yield self._make(name, Step.OPENED, body)

    def abort(self, code: Code, party: str = "", sentence: str = "") -> Iterator[Envelope]:
        """End the prediction for everybody; the sentence stays here, the code is sent."""
        if self.state is State.OPENED:
            raise ProtocolError("the server has handed the scores on, and nothing ends the prediction any more")
        self.state, self._total = State.FAILED, None
        self._assemblies.clear()
        self.code, self.culprit = code, party
        self.reason = sentence or sentence_of(code, party)
        for name in self._joined:
            yield self._make(name, Step.ABORT, encode_body(Abort(code, party)))

    def _to_all(self, step: Step, body: bytes) -> Iterator[Envelope]:
        for name in self.parties:
            # An answer to the first of these messages may have ended the prediction.
            if self.state is not State.FAILED:
                yield self._make(name, step, body)

    def _make(self, recipient: str, step: Step, body: bytes) -> Envelope:
        return Envelope(self.identity, self._digest, SERVER, recipient, step, body)

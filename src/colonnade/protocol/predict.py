"""Sessions that open scores: each party adds up its own columns' part, and one party opens the sum.

Parts are under pairwise masks, a word for each score. The receiver hands in none: without its own part, which stays
with it, the sum of all others is as uniform as each of them. What the receiver opens is every record's score, exactly.
It is not differentially private, and with two parties it is the other's part plus its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from colonnade.crypto.product import Words
from colonnade.foundation.canonical import canonical_digest
from colonnade.foundation.errors import ProtocolError
from colonnade.foundation.schema import Column
from colonnade.planning.prediction import MODULUS_BITS, Floats, Prediction, scores_of, words_of
from colonnade.protocol.codes import Code, sentence_of
from colonnade.protocol.coins import hashed
from colonnade.protocol.messages import End, Piece, Proposal, encode_body, room_for
from colonnade.protocol.submissions import Masked, masked_from, submission, submission_bytes, total_of
from colonnade.protocol.tasks import (
    Guard,
    Mask,
    PartyTask,
    Records,
    Rows,
    ServerTask,
    SessionContext,
    SessionKind,
)

PREDICT = SessionKind(
    name="scores",
    agreed="prediction",
    declared="model",
    done="handed the scores on",
    unspent="no score was opened",
    terms="its model, its receiver of scores, its columns or its alignment is not the server's",
    stranger="the prediction has no part for it",
    spends=False,
)


@dataclass(frozen=True)
class OpenedScores:
    """What the receiver holds at the end: a score, or a row of scores, for each of these rows of its own table."""

    rows: Rows
    scores: Floats

    @classmethod
    def of(cls, scores: Floats, rows: Rows | None) -> OpenedScores:
        """The common order is that of the matching; the receiver's own is what its people know."""
        matched = np.arange(len(scores)) if rows is None else rows
        order = np.argsort(matched)
        return cls(matched[order], scores[order])


Keep = Callable[[str, OpenedScores], None]
"""Puts the receiver's scores where they stay, by session, before others hear that all is done."""


def prediction_digest(prediction: Prediction, alignment: str) -> str:
    """Digest of a prediction's public terms; n is not known before the records are matched."""
    # Parties stand in mask order, which sorted keys would not tell.
    terms = {**prediction.to(), "parties": list(prediction.parties)}
    return canonical_digest({"prediction": terms, "alignment": alignment})


@dataclass
class PredictParty(PartyTask):
    """One organisation's records and consent in one prediction, by its own copy of the model."""

    kind: ClassVar[SessionKind] = PREDICT
    name: str
    prediction: Prediction
    alignment: str
    source: Callable[[], Records]
    part_of: Callable[[Any], Floats]
    """This party's part of every score, of its own records: a row for each of them where there are several scores."""
    guard: Guard
    study: str = ""
    """What a ledger calls the study that the model comes from."""
    keep: Keep | None = None
    data: Callable[[], bytes] | None = None
    scored: int = field(default=0, init=False)
    """How many records all parties have."""
    _table: Any = field(default=None, init=False, repr=False)
    _rows: Rows | None = field(default=None, init=False, repr=False)
    _part: Floats = field(default_factory=lambda: np.zeros(0), init=False, repr=False)
    _own: Masked | None = field(default=None, init=False, repr=False)

    @property
    def parties(self) -> tuple[str, ...]:
        return self.prediction.parties

    @property
    def terms(self) -> str:
        return prediction_digest(self.prediction, self.alignment)

    @property
    def label(self) -> str:
        return f"scores {self.name}"

    @property
    def columns(self) -> Mapping[str, Column]:
        return self.prediction.columns[self.name]

    @property
    def receives(self) -> bool:
        return self.name == self.prediction.receiver

    @property
    def largest_proposal(self) -> int:
        return room_for(self.prediction.to(), len(self.parties))

    @property
    def _words(self) -> int:
        return self.scored * self.prediction.scores

    @property
    def largest_opened(self) -> int:
        return submission_bytes(self._words)

    def require_private(self) -> None:
        """Parts are always masked."""

    def judge(self) -> None:
        self.guard.foresee_scores(self.prediction, self.aligned)

    def note_matching(self, session: str) -> None:
        self.guard.align(session, f"{self.study} scores", self.parties)

    def take(self, rows: Rows | None) -> int:
        table, self._rows, self._table = self._table, rows, None
        self._part = self.part_of(table if rows is None else table.take(rows))
        self.scored = len(self._part)
        if self._part.size != self._words:
            told = f"{self.prediction.scores} scores of each of {self.scored} records"
            raise ProtocolError(f"the prediction opens {told}, got a part of {self._part.size} numbers")
        return self.scored

    def compare(self, proposal: Proposal) -> None:
        """Agree to nothing but what this party was itself asked for."""
        theirs = proposal.agreement
        if theirs != self.prediction.to() or list(theirs["columns"]) != list(self.parties):
            raise ProtocolError("the server proposes another model, receiver or columns than this party was given")

    def agree(self, proposal: Proposal, context: SessionContext) -> str:
        terms = self.prediction.terms(proposal.rows)
        if terms != context.announced:
            raise ProtocolError(f"the server announces prediction {context.announced[:16]} and means {terms[:16]}")
        # Refused now rather than when all wait for it.
        words_of(self._part, len(self.parties))
        return terms

    def consent(self) -> None:
        self.guard.consent_scores(self.prediction, self.scored)

    def bindings(self) -> tuple[bytes, bytes]:
        """This party's parts of all scores; there is no noise."""
        return hashed("parts", words_of(self._part, len(self.parties)).tobytes()), b""

    def submit(self, mask: Mask) -> list[bytes]:
        words = words_of(self._part, len(self.parties)) + mask(self._words, MODULUS_BITS)
        self._part = np.zeros(0)
        if self.receives:
            self._own = Masked(words, b"")
            return []
        return submission(Masked(words, b""))

    def open(self, session: str, whole: bytes, total: Words | None = None) -> None:
        if not self.receives:
            if whole:
                raise ProtocolError(f"party {self.name} is not the receiver and was sent scores")
            return
        assert self._own is not None
        scores = scores_of(total_of([self._own, masked_from(whole, self._words)], MODULUS_BITS), self.prediction.scores)
        if self.keep is not None:
            self.keep(session, OpenedScores.of(scores, self._rows))

    def forget(self) -> None:
        self._part, self._own, self._table = np.zeros(0), None, None

    def ending(self, end: End) -> str:
        return ending(end, self.prediction.receiver)

    def alone(self, handed_in: bool) -> str:
        if handed_in and not self.receives:
            receiver = self.prediction.receiver
            return f"its part had been handed in under masks, and {receiver} can say whether it has the scores"
        return "its part had not been handed in, and no score was opened"


@dataclass
class PredictServer(ServerTask):
    """Adds up masked parts and hands the sum, still masked, to the receiver: it can read neither."""

    kind: ClassVar[SessionKind] = PREDICT
    prediction: Prediction
    alignment: str
    rows: int = field(default=0, init=False)
    """How many records are scored; none before all have joined."""
    _total: Masked | None = field(default=None, init=False, repr=False)
    _bodies: list[bytes] = field(default_factory=list, init=False, repr=False)

    @property
    def declared(self) -> Mapping[str, Mapping[str, Column]]:
        return self.prediction.columns

    @property
    def terms(self) -> str:
        return prediction_digest(self.prediction, self.alignment)

    @property
    def label(self) -> str:
        return "scores"

    def require_private(self) -> None:
        """Parts are always masked."""

    def propose(self, identity: bytes, rows: int) -> tuple[dict[str, Any], str]:
        self.rows = rows
        return self.prediction.to(), self.prediction.terms(rows)

    def hands_in(self, party: str) -> bool:
        return party != self.prediction.receiver

    @property
    def _words(self) -> int:
        return self.rows * self.prediction.scores

    @property
    def largest_submission(self) -> int:
        return submission_bytes(self._words)

    def collect(self, party: str, whole: bytes) -> None:
        part = masked_from(whole, self._words)
        self._total = part if self._total is None else Masked(total_of([self._total, part], MODULUS_BITS), b"")

    def open(self, transcript: str, seeded: bool) -> None:
        assert self._total is not None
        self._bodies, self._total = submission(self._total), None

    def bodies(self, party: str) -> list[bytes]:
        return self._bodies if party == self.prediction.receiver else [encode_body(Piece(0, 1, b""))]

    def hinges_on(self, party: str) -> bool:
        """Nobody but the receiver can say whether there are scores."""
        return party == self.prediction.receiver

    def ending(self, end: End) -> str:
        if end.code is None:
            return f"{self.prediction.receiver} opened the scores of {self.rows:,} records"
        return ending(end, self.prediction.receiver)

    def forget(self) -> None:
        self._total, self._bodies = None, []


def ending(end: End, receiver: str) -> str:
    """Who ended a prediction, at which step, and whether a score can have been opened."""
    shown = (
        f"{receiver} had been handed the masked sum, and can say whether it has the scores"
        if end.opened
        else "the sum was handed to nobody, and no score was opened"
    )
    return f"{sentence_of(end.code or Code.INTERNAL, end.party)}; it was at step {end.phase}; {shown}"

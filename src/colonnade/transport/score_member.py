"""A party's side of a prediction over a network: its part of every score, and at the receiver the scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from colonnade.consent.guard import refusing
from colonnade.data.table import Table
from colonnade.foundation.errors import ColonnadeError, PolicyError, ProtocolError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.messages import Step
from colonnade.protocol.party import State
from colonnade.protocol.prediction import Consent, Floats, Prediction, ScoringParty
from colonnade.transport.score_hub import without_scores
from colonnade.transport.scores import Opened
from colonnade.transport.seat import Call, Seat, Watch
from colonnade.transport.study_digest import prediction_digest
from colonnade.transport.vouching import Voucher
from colonnade.transport.wire import ENTRY_MEANING, Entry, Over, Patience, Pull

Keep = Callable[[str, Table, Opened], None]
"""Puts the receiver's scores where they stay, by session and for its own table, before others hear that all is done."""
MEANING = {
    **ENTRY_MEANING,
    Entry.STRANGER: "the prediction has no part for it",
    Entry.STUDY: "its model, its receiver of scores, its columns or its alignment is not the server's",
}

CLOSING = "; no score was opened"


class ScoreMember(Seat):
    """One organisation's process in one prediction."""

    steps = {Step.PLAN: "plan", Step.GO: "submit", Step.OPENED: "open"}  # noqa: RUF012 - never changed
    closing = CLOSING

    def __init__(
        self,
        name: str,
        prediction: Prediction,
        alignment: str,
        read: Callable[[], Table],
        part_of: Callable[[Table], Floats],
        call: Call,
        randomness: Randomness,
        consent: Consent,
        keep: Keep,
        patience: Patience | None = None,
        watch: Watch | None = None,
        voucher: Voucher | None = None,
        judge: Callable[[], None] = lambda: None,
        matching: Callable[[str], None] = lambda session: None,
        largest_list: int | None = None,
    ) -> None:
        """`judge` refuses before others hear of this party; `matching` notes an alignment before it begins."""
        terms, parties = prediction_digest(prediction, alignment), prediction.parties
        super().__init__(name, parties, terms, alignment, read, call, randomness, patience, watch, voucher)
        self._prediction, self._part_of = prediction, part_of
        self._agree, self._keep = consent, keep
        self._allow, self._note, self._largest = judge, matching, largest_list
        self._session = ""
        self._rows: NDArray[np.int64] | None = None
        self.party: ScoringParty | None = None

    @property
    def receives(self) -> bool:
        return self._name == self._prediction.receiver

    def run(self) -> int:
        """How many records were scored; raises one sentence that says who ended the prediction, and at which step."""
        self._attend()
        self._show("open", 1.0)
        assert self._table is not None
        return self._table.rows if self._rows is None else len(self._rows)

    def _judge(self) -> None:
        with refusing(self._name, CLOSING):
            self._allow()

    def _largest_list(self) -> int | None:
        return self._largest

    def _matching(self) -> None:
        with refusing(self._name, CLOSING):
            self._note(self._alignment_id.hex())

    def _begin(self, table: Table, rows: NDArray[np.int64] | None) -> ScoringParty:
        self._rows = rows
        part = self._part_of(table if rows is None else table.take(rows))
        # The same label as in one process, so that a seeded run draws the same.
        randomness = self._randomness.child(f"scores {self._name}")
        self.party = ScoringParty(self._name, self._prediction, part, randomness, self._agree)
        return self.party

    def _join(self, identity: bytes) -> None:
        self._session = identity.hex()
        super()._join(identity)

    def _take_leave(self) -> None:
        if not self.receives:
            super()._take_leave()
            return
        assert self.party is not None and self.party.scores is not None and self._table is not None
        self._keep(self._session, self._table, Opened.of(self.party.scores, self._rows))
        # The server tells others that the scores are here: it must hear of it, unless it is gone.
        self._ask_to_the_end(Pull(self._instance, self._taken))

    # How it ends: nothing was booked, and nothing has to be settled.

    def _barred(self, why: Entry) -> ColonnadeError:
        sentence = f"party {self._name} is not let in: {MEANING[why]}; no part of a score was made"
        return StudyError(sentence) if why is Entry.STUDY else PolicyError(sentence)

    def _ended(self, over: Over) -> ColonnadeError:
        own = "" if self.party is None else self.party.reason
        if own and over.party == self._name:
            return PolicyError(f"{self._name} refuses: {own}; no score was opened")
        return ProtocolError(without_scores(over, self._prediction.receiver))

    def _alone(self) -> ColonnadeError:
        handed_in = self.party is not None and self.party.state is State.SUBMITTED and not self.receives
        receiver = self._prediction.receiver
        then = (
            f"its part had been handed in under masks, and {receiver} can say whether it has the scores"
            if handed_in
            else "its part had not been handed in, and no score was opened"
        )
        return ProtocolError(f"the server was not heard for {self._patience.silence:g} s at step {self._step}; {then}")

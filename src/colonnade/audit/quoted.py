"""What a party signed to its peers, as sets: each statement is known by what it is about, whatever order it came in.

A statement convicts if the party's replay says something else about the same. It is quoted with all that it takes to
check it: what was signed, the proof, and what the context that it names is made of, back to the session's id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from colonnade.foundation.errors import SignatureError
from colonnade.protocol.signatures import (
    COINS,
    MASK_KEY,
    NUMBER_BYTES,
    OPENED,
    PASSED,
    SUBMISSION,
    packed,
    statement,
    unpacked,
)

JUDGED = (MASK_KEY, PASSED, SUBMISSION, OPENED)
"""What a replay says too; that a party withdraws is its own matter."""
Key = tuple[str, str, str, str, str]
Contexts = Mapping[str, tuple[str, ...]]
"""By its digest, what a context is made of: the first part is the session's id, or an earlier context."""


@dataclass(frozen=True)
class Statement:
    """All in hexadecimal but the names."""

    stage: str
    context: str
    sender: str
    recipient: str
    about: str
    value: str

    @classmethod
    def noted(cls, held: Mapping[str, Any]) -> Statement:
        """As a record of evidence has it."""
        return cls(held["stage"], held["context"], held["from"], held["to"], held["about"], held["value"])

    @classmethod
    def signed(cls, data: bytes) -> Statement:
        """From the bytes that are signed."""
        context, *texts, value = unpacked(data)
        stage, sender, recipient, about = (text.decode() for text in texts)
        return cls(stage, context.hex(), sender, recipient, about, value.hex())

    def encode(self) -> bytes:
        context, value = bytes.fromhex(self.context), bytes.fromhex(self.value)
        return statement(self.stage, context, self.sender, self.recipient, self.about, value)

    @property
    def number(self) -> int:
        """Of parcels that had passed, where it is about these."""
        return int(self.value[: 2 * NUMBER_BYTES] or "0", 16) if self.about == PASSED else 0

    @property
    def key(self) -> Key:
        """What it is about: of two statements with one key one is wrong."""
        return self.stage, self.context, self.recipient, self.about, str(self.number)


@dataclass(frozen=True)
class Quote:
    """A statement of the audited party that its replay contradicts: whoever has the authority's certificate can check
    it.
    """

    holder: str
    stage: str
    context: str
    made_of: list[list[str]]
    """What the context is made of, and so on, to the session's id."""
    about: str
    round: str
    """The last one whose parcels it is about, as far as the replay tells."""
    value: str
    proof: str
    """With the certificate that it was signed by."""
    replay: str
    """What data and seed make the party say of the same; empty if nothing."""

    @property
    def sentence(self) -> str:
        what = f"what passed until round {self.round}" if self.round else self.about
        other = "another" if self.replay else "none"
        return f"{self.holder} holds its signature about {what}, and its data and seed make {other}"


def is_signed(quote: Quote, party: str, session: str, checker: Any) -> bool:
    """Whether the party signed what is quoted, in this session."""
    said = Statement(quote.stage, quote.context, party, quote.holder, quote.about, quote.value)
    known = {context_of(parts): tuple(parts) for parts in quote.made_of}
    if quote.stage != COINS and chain_of(quote.context, session, known) is None:
        return False
    try:
        checker.check(party, said.encode(), bytes.fromhex(quote.proof))
    except SignatureError:
        return False
    return True


def chain_of(context: str, session: str, known: Contexts) -> list[list[str]] | None:
    """What a context is made of, back to the session's id; None if it is of another session, or nobody can tell."""
    chain: list[list[str]] = []
    while context != session:
        parts = known.get(context, ())
        if len(chain) > len(known) or not parts or context != context_of(parts):
            return None
        chain.append(list(parts))
        context = parts[0]
    return chain or None


def context_of(parts: Iterable[str]) -> str:
    return hashlib.sha256(packed(*map(bytes.fromhex, parts))).hexdigest()


def contexts_in(notes: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    return {str(note["context"]): tuple(note["of"]) for note in notes if note["what"] == "context"}

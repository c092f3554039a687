"""What a session is for: a kind is one value and two tasks, a party's and the server's. Roles know no more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product import Parcel, Words
from colonnade.foundation.errors import BrokenError, ProtocolError
from colonnade.foundation.matching import matches_ids
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan
from colonnade.protocol.messages import SMALL, End, Proposal

if TYPE_CHECKING:
    from colonnade.planning.prediction import Prediction


Watch = Callable[[str, float], None]
"""Called with the name of a phase and the share of it that is done."""


def unseen(phase: str, share: float) -> None:
    """Nobody watches."""


class JournalEvent(StrEnum):
    """What happened to a session."""

    STARTED = "started"
    SUBMITTED = "submitted"
    OPENED = "opened"


class Journal(Protocol):
    """Notes are durable when the call returns."""

    def note(self, session: str, event: JournalEvent) -> None: ...

    def outcomes(self, sessions: Iterable[str]) -> dict[str, str]:
        """Of sessions that began here and are over: "void" where a submission was lacking, else "opened"."""
        ...


class NullJournal:
    """The journal of a run in one process: whoever would ask ends with it."""

    def note(self, session: str, event: JournalEvent) -> None: ...

    def outcomes(self, sessions: Iterable[str]) -> dict[str, str]:
        return {}


class Guard(Protocol):
    """Each may raise PolicyError or LedgerError to refuse; none but `align`, `book`, `resume`, `release` and
    `void` writes."""

    @property
    def largest_list(self) -> int | str | None: ...

    def judge(self, agreement: Agreement, aligned: bool) -> None: ...
    def pending(self, study: str) -> list[str]: ...
    def settle(self, outcomes: Mapping[str, str]) -> None: ...
    def inform(self, notes: Sequence[str]) -> None: ...
    def foresee(self, agreement: Agreement, rows: int, aligned: bool) -> None: ...
    def align(self, session: str, study: str, parties: Collection[str]) -> None: ...
    def consent(self, session: SessionPlan) -> None: ...
    def book(self, session: SessionPlan) -> None: ...
    def resumable(self, session: str) -> bool: ...
    def resume(self, session: SessionPlan) -> None: ...
    def release(self) -> None: ...
    def void(self, reason: str) -> None: ...
    def foresee_scores(self, prediction: Prediction, aligned: bool) -> None: ...
    def consent_scores(self, prediction: Prediction, rows: int) -> None: ...


class Unbooked:
    """What a guard does where there is no ledger. Of consent it says nothing: that each guard states for itself."""

    def pending(self, study: str) -> list[str]:
        return []

    def settle(self, outcomes: Mapping[str, str]) -> None: ...
    def inform(self, notes: Sequence[str]) -> None: ...
    def align(self, session: str, study: str, parties: Collection[str]) -> None: ...
    def book(self, session: SessionPlan) -> None: ...
    def resumable(self, session: str) -> bool:
        return True

    def resume(self, session: SessionPlan) -> None: ...
    def release(self) -> None: ...
    def void(self, reason: str) -> None: ...


class Unguarded(Unbooked):
    """Consent without conditions, for whoever asks for it by this name: nothing is checked and nothing is booked."""

    largest_list: int | str | None = None

    def judge(self, agreement: Agreement, aligned: bool) -> None: ...
    def foresee(self, agreement: Agreement, rows: int, aligned: bool) -> None: ...
    def consent(self, session: SessionPlan) -> None: ...
    def foresee_scores(self, prediction: Prediction, aligned: bool) -> None: ...
    def consent_scores(self, prediction: Prediction, rows: int) -> None: ...


Rows = NDArray[np.int64]
Mask = Callable[[int, int], Words]
"""The party's mask of so many words, modulo 2 to so many bits."""


@dataclass(frozen=True)
class SessionKind:
    """The words that differ between kinds of session."""

    name: str
    """What is opened."""
    agreed: str
    """What parties agree to."""
    declared: str
    """Where their columns are declared."""
    done: str
    """What the server cannot take back."""
    unspent: str
    """What it means that the session ended before anything was handed in."""
    terms: str
    """What differs where a party's own files state other terms than the server's."""
    stranger: str
    """What it means that a party is none of the session's."""
    spends: bool
    """Whether it is noted, durably, that it began and that all had submitted."""


class Records(Protocol):
    """A party's records, as its file has them."""

    @property
    def rows(self) -> int: ...

    @property
    def ids(self) -> Sequence[str] | None: ...

    def notes(self) -> Sequence[str]:
        """What the party alone should know of how they were read."""
        ...

    def take(self, rows: Rows) -> Any:
        """These records, in this order."""
        ...

    def digest(self) -> bytes:
        """Of all values, in their order."""
        ...


@dataclass(frozen=True)
class SessionContext:
    """A party's place in a session, when it considers what the server proposes."""

    identity: bytes
    index: int
    announced: str
    """The digest that the server's message bears."""
    randomness: Randomness
    """The party's own source in this session."""
    accountable: bool = False
    """Whether `bindings` will be asked for."""


MOST_OPENED = 1 << 32  # bytes, where a kind of session says no less
SPENDING = ("pending", "settle", "foresee", "prepare", "book", "release", "void")
"""What a party's task must say itself where a budget is spent."""


class PartyTask(ABC):
    """One party's part of a kind of session: its data, its consent, what it hands in and what it takes.

    What a kind without a budget need not say stands here; one that spends must say all of `SPENDING` itself.
    """

    kind: ClassVar[SessionKind]
    name: str
    alignment: str
    source: Callable[[], Records]
    """Reads the party's records, once the server has let it in."""
    guard: Guard
    data: Callable[[], bytes] | None = None
    """Digest of the data by its file's content; without it that of the table's values counts."""
    _table: Any = None

    def __init_subclass__(cls) -> None:
        if forgotten := [
            name for name in SPENDING if cls.kind.spends and getattr(cls, name) is getattr(PartyTask, name)
        ]:
            raise BrokenError(f"a session for {cls.kind.name} spends, and {cls.__name__} does not say {forgotten[0]}")

    @property
    @abstractmethod
    def parties(self) -> tuple[str, ...]: ...

    @property
    def aligned(self) -> bool:
        """Whether ids are matched first."""
        return matches_ids(self.alignment, self.parties)

    @property
    @abstractmethod
    def terms(self) -> str:
        """Digest of the public terms that this party's own files state."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Under which the party's source of randomness is derived: a seeded run depends on it."""

    @property
    @abstractmethod
    def columns(self) -> Mapping[str, Column]:
        """What this party declares of its own."""

    @property
    def largest_list(self) -> int | str | None:
        """How many ids a partner may be able to test in one alignment, or TWICE."""
        return self.guard.largest_list

    @abstractmethod
    def require_private(self) -> None:
        """Raise unless what passes may leave this process: carriers between machines ask."""

    # Consent, in the order in which it is asked for.

    @abstractmethod
    def judge(self) -> None:
        """Refuse, before others hear of this party, what the public terms alone decide."""

    def pending(self) -> list[str]:
        """Sessions that were booked and never seen to end."""
        return []

    def settle(self, outcomes: Mapping[str, str]) -> None:  # noqa: B027 (see SPENDING)
        """What the server says of them."""

    def read(self) -> Records:
        table = self._table = self.source()
        self.guard.inform(table.notes())
        return table

    def foresee(self, rows: int) -> None:  # noqa: B027
        """Refuse, before ids are matched, what is known before n is."""

    @abstractmethod
    def note_matching(self, session: str) -> None:
        """Ids are about to be matched: nothing of it has left yet."""

    # The session proper.

    @abstractmethod
    def take(self, rows: Rows | None) -> int:
        """The records that all have, in the common order, or all as they stand; how many they are."""

    @abstractmethod
    def compare(self, proposal: Proposal) -> None:
        """Raise unless the server proposes what this party's own files state; nothing is computed from it before."""

    @abstractmethod
    def agree(self, proposal: Proposal, context: SessionContext) -> str:
        """Compute what is proposed, and the digest of it, which the server must have announced."""

    @abstractmethod
    def consent(self) -> None:
        """Raise unless policy, ledger and person agree."""

    def prepare(self, context: SessionContext) -> None:  # noqa: B027
        """All is agreed: draw what is to be drawn."""

    @property
    def expected_bytes(self) -> float:
        """Roughly how much this party will send and take in rounds."""
        return 0.0

    def send(self, round: str) -> Iterator[Parcel]:
        """This party's parcels of a round."""
        raise ProtocolError(f"a session for {self.kind.name} has no round {round!r}")

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        """Take a peer's or the server's parcel."""
        raise ProtocolError(f"a session for {self.kind.name} has no round {round!r}")

    @abstractmethod
    def submit(self, mask: Mask) -> list[bytes]:
        """The bodies of this party's submission; none says that it hands in nothing."""

    def book(self) -> None:  # noqa: B027
        """Note the spend, durably: a submission leaves next."""

    @abstractmethod
    def open(self, session: str, whole: bytes, total: Words | None = None) -> None:
        """Take what was opened, and put it where it stays; it must be the total, where this party has added it up."""

    # What accountable sessions ask for besides.

    collusion: int = 1
    """How many parties may work together, as all have agreed."""
    opens_alike: bool = False
    """Whether all parties are opened the same bytes."""

    def added_up(self) -> tuple[int, int] | None:
        """How many words each party hands in, and the bits of their modulus, where what is opened is their sum."""
        return None

    def data_digest(self) -> bytes:
        """Digest of the records that were read: by their file's content, or of all values."""
        return bytes(self._table.digest() if self.data is None else self.data())

    def bindings(self) -> tuple[bytes, bytes]:
        """Digests of the encoded columns and of all noise, once they are drawn."""
        raise ProtocolError(f"a session for {self.kind.name} cannot be accountable")

    def resumes(self, session: str) -> bool:
        """Whether this party would go on with a session that broke after its submission was signed."""
        return False

    def resume(self, identity: bytes, rows: int, seeded: bool) -> str:
        """Compute again what was agreed to in such a session, and its digest."""
        raise ProtocolError(f"a session for {self.kind.name} cannot be gone on with")

    def release(self) -> None:  # noqa: B027
        """Note that the session was opened."""

    def void(self, reason: str) -> None:  # noqa: B027
        """Note that it never will be."""

    @abstractmethod
    def forget(self) -> None:
        """Overwrite what is secret."""

    @abstractmethod
    def ending(self, end: End) -> str:
        """Who ended the session, where, and what it means for a budget or for scores."""

    @abstractmethod
    def alone(self, handed_in: bool) -> str:
        """What it means that the server is not heard any more."""

    @property
    def largest_proposal(self) -> int:
        """No proposal with more bytes can state what this party's own files do."""
        return SMALL

    @property
    def largest_opened(self) -> int:
        """No more bytes than these may be opened, once all is agreed."""
        return MOST_OPENED


class ServerTask(ABC):
    """The server's part of a kind of session."""

    kind: ClassVar[SessionKind]
    alignment: str

    @property
    @abstractmethod
    def declared(self) -> Mapping[str, Mapping[str, Column]]:
        """Each party's columns."""

    @property
    def aligned(self) -> bool:
        """Whether ids are matched first."""
        return matches_ids(self.alignment, self.declared)

    @property
    @abstractmethod
    def terms(self) -> str:
        """Digest of the public terms."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Under which the server's source of randomness is derived."""

    @abstractmethod
    def require_private(self) -> None:
        """Raise unless what passes may leave this process: carriers between machines ask."""

    @abstractmethod
    def propose(self, identity: bytes, rows: int) -> tuple[dict[str, Any], str]:
        """All are there with so many records: the terms that they are asked to agree to, and their digest."""

    @property
    def rounds(self) -> tuple[str, ...]:
        """The product's rounds, once parties have agreed."""
        return ()

    def begin_product(self) -> None:  # noqa: B027 (a kind without a product has nothing to begin)
        """Parties have agreed: make what opens the sum."""

    @property
    def expected_bytes(self) -> float:
        """Roughly how much will pass, so that people are shown how far it is."""
        return 0.0

    def send(self, round: str) -> Iterator[Parcel]:
        """The server's own parcels, once all parties' parcels of the round are in."""
        return iter(())

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        """Take a parcel addressed to the server."""
        raise ProtocolError(f"a session for {self.kind.name} has no parcel for the server")

    def hands_in(self, party: str) -> bool:
        """Whether a party submits anything."""
        return True

    @property
    @abstractmethod
    def largest_submission(self) -> int: ...

    @abstractmethod
    def collect(self, party: str, whole: bytes) -> None:
        """Take a party's whole submission."""

    @abstractmethod
    def open(self, transcript: str, seeded: bool) -> None:
        """All submissions are in: form what is opened."""

    def handed(self) -> Iterator[tuple[str, bytes]]:
        """Each party's submission in pieces, for all parties, where what is opened is their sum."""
        return iter(())

    @abstractmethod
    def bodies(self, party: str) -> list[bytes]:
        """What a party is sent of it."""

    def hinges_on(self, party: str) -> bool:
        """Whether the session went well only if this party says that it has what was opened."""
        return False

    @abstractmethod
    def ending(self, end: End) -> str:
        """Who ended the session, where, and what it means for a budget or for scores."""

    @abstractmethod
    def forget(self) -> None:
        """Drop what parties have handed in."""

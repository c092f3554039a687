"""What a ledger's entries say: of a data set, a booking, a matching of ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, TypeVar

import msgspec

from colonnade.foundation.errors import LedgerError
from colonnade.foundation.parts import DataSet as DataSet
from colonnade.mechanism.composition import Cap, Charge, Spent


class EntryKind(StrEnum):
    """What an entry says of a session."""

    BOOKED = "booked"
    RELEASED = "released"
    VOID = "void"
    ALIGNED = "aligned"
    FAILED = "failed"


@dataclass(frozen=True)
class Booking:
    """One party's spend in one session."""

    session: str
    party: str
    study: str
    plan: str
    """The digest of the plan that the party computed and accepted."""
    data: DataSet
    charge: Charge
    record_epsilon: float
    """The epsilon of the whole record, for information."""
    bits_told: Annotated[int, msgspec.Meta(ge=0)] = 0
    """What partners that do not follow the protocol could be told of its records; earlier entries have none."""

    def to(self) -> dict[str, Any]:
        """As a line has it; entries of 0.1.0 have neither `zcdp` nor `bits_told`, nor have those that need none."""
        content: dict[str, Any] = msgspec.to_builtins(self)
        if self.charge.zcdp is None:
            content["charge"].pop("zcdp", None)
        if not self.bits_told:
            content.pop("bits_told", None)
        return content


@dataclass(frozen=True)
class Entry:
    """One line of the book."""

    number: int
    kind: EntryKind
    time: str
    booking: Booking
    cap: Cap
    """The cap in force when the session was booked."""
    reason: str
    hash: str
    software: str = ""
    """The version that wrote it; 0.1.0 wrote none."""

    @property
    def data(self) -> DataSet:
        return self.booking.data

    def to(self) -> dict[str, Any]:
        """The entry as it is exported: its hashed content, its number and its hash."""
        content = content_of(self.kind, self.time, self.booking, self.cap, self.reason, self.software)
        return {"number": self.number, **content, "hash": self.hash}


@dataclass(frozen=True)
class Alignment:
    """One matching of a data set's ids with those of partners; it tells each of them which of its ids are common."""

    session: str
    """The id under which ids were matched; a session proper has its own."""
    party: str
    study: str
    partners: tuple[str, ...]
    data: DataSet

    def to(self) -> dict[str, Any]:
        content: dict[str, Any] = msgspec.to_builtins(self)
        return content | {"partners": list(self.partners)}


T = TypeVar("T", Booking, Alignment)


def read_back(content: Mapping[str, Any], kind: type[T]) -> T:
    """What `to` wrote, in a line of a ledger."""
    try:
        made = msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise LedgerError(f"a ledger's {kind.__name__.lower()} cannot be read: {error}") from None
    if any(content[key] != value for key, value in made.to().items()):
        raise LedgerError(f"a ledger's {kind.__name__.lower()} must say what is known here, and says more")
    return made


@dataclass(frozen=True)
class Note:
    """A line of the book that spends nothing: ids were matched, or a session failed after data was read."""

    number: int
    time: str
    alignment: Alignment
    cap: Cap
    """The cap in force when ids were matched."""
    hash: str
    software: str = ""
    kind: EntryKind = EntryKind.ALIGNED
    reason: str | None = None
    """Of a session that failed: why."""

    @property
    def data(self) -> DataSet:
        return self.alignment.data

    def to(self) -> dict[str, Any]:
        content = content_of(self.kind, self.time, self.alignment, self.cap, self.reason, self.software)
        return {"number": self.number, **content, "hash": self.hash}


Line = Entry | Note


@dataclass(frozen=True)
class Account:
    """One data set under all its names and contents, and what it has spent of its cap."""

    data: tuple[DataSet, ...]
    cap: Cap
    spent: Spent
    pending: int
    """Sessions that were booked and neither released nor void; they count."""
    alignments: int = 0
    """How often its ids were matched with those of partners."""
    bits_told: int = 0
    """What its sessions could have told partners that do not follow the protocol; entries of 0.1.0 do not say."""
    failed: int = 0
    """Sessions that ended without a release after its data was read: refused, or broken by a partner. Never a spend."""


def content_of(
    kind: EntryKind,
    time: str,
    what: Booking | Alignment,
    cap: Cap,
    reason: str | None = None,
    software: str = "",
) -> dict[str, Any]:
    """What is hashed of an entry."""
    rule = None if cap.rule is None else cap.rule.value
    content = {
        "kind": kind.value,
        "time": time,
        **what.to(),
        "cap": {"epsilon": cap.epsilon, "delta": cap.delta, "rule": rule},
    }
    content |= {} if reason is None else {"reason": reason}
    return content | ({"colonnade": software} if software else {})

"""The contract of a secure product: K parties' integer columns in, a sum of shares out, nothing exact in between.

A backend works in rounds. In each round every party sends parcels (to other parties or to the server), then the
server sends its own. After the last round each party gives a `Contribution`: a vector that the protocol masks and
sums modulo 2^modulus_bits, and, for backends whose opening is not a sum, bytes that are safe to show the server.
The opened integers are gain * (X'Y + noise) up to the error the backend states, where the noise was handed over at
the start: a backend never opens, and never could open, a product without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.workers import HERE, Workers

SERVER = ""
"""The recipient or sender that stands for the server."""

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Cross:
    """Columns [left_start, left_stop) of party `left` against columns [right_start, right_stop) of party `right`.

    Left seals, right multiplies; the block is a matrix with one row for each left column.
    """

    left: int
    right: int
    left_start: int
    left_stop: int
    right_start: int
    right_stop: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.left_stop - self.left_start, self.right_stop - self.right_start


class GroupKind(Enum):
    """What the integer columns of one attribute are, with B the bound of the entries."""

    NUMBER = "number"
    """One column within [-B, B]."""
    LEVELS = "levels"
    """B in one column of each record, 0 in all others."""
    HALVES = "halves"
    """Two columns within [0, B] that add up to B in each record."""


@dataclass(frozen=True)
class ColumnGroup:
    """The columns of one attribute, next to each other."""

    kind: GroupKind
    size: int


@dataclass(frozen=True)
class ProductSpec:
    """What all sides of one session know of its products."""

    session: bytes
    """32 bytes, fresh for each session; every derived key and public element is bound to it."""
    parties: tuple[str, ...]
    rows: int
    bound: int
    """Every entry is an integer of absolute value at most this."""
    crosses: tuple[Cross, ...]
    modulus_bits: int
    gain: int
    """The factor by which exact products are multiplied before the noise is added."""
    reach: int
    """No opened value exceeds this in absolute value, but for a probability of 2^-48 for each weight of a block."""
    groups: tuple[tuple[ColumnGroup, ...], ...] = field(default=(), repr=False)
    """What each party's columns are, where every party proves that its own are so; empty: nothing is proved.

    It stands in no digest of a frame, so that sessions without proofs keep their bytes; the agreement decides it.
    """


@dataclass(frozen=True)
class Chain:
    """Sums over records of products of three and more columns, one of each owner."""

    owners: tuple[int, ...]
    """Places of the parties; each multiplies what those before it share, the last one by the sealed product."""
    terms: tuple[tuple[int, ...], ...]
    """For each sum the column of each owner."""

    @property
    def holders(self) -> tuple[int, ...]:
        """Who shares the product of all columns but the last owner's."""
        return self.owners[:-1]


@dataclass(frozen=True)
class ChainSpec:
    """What all sides of one session know of its products of three owners and more."""

    session: bytes
    """As in `ProductSpec`."""
    parties: tuple[str, ...]
    rows: int
    bound: int
    chains: tuple[Chain, ...]
    modulus_bits: int
    gains: tuple[int, ...]
    """For each chain the power of two by which its sums are multiplied; shares are modulo 2^modulus_bits / gain."""

    @property
    def values(self) -> int:
        """How many sums are opened."""
        return sum(len(chain.terms) for chain in self.chains)


@dataclass(frozen=True)
class Parcel:
    recipient: str
    payload: bytes


@dataclass(frozen=True, repr=False)
class Contribution:
    """One party's part of the opening; `vector` still needs the protocol's masks before it leaves."""

    vector: Words
    """All crosses in order, each block flattened in C order, modulo 2^modulus_bits."""
    payload: bytes = b""


class PartyProduct(ABC):
    """One party's side of one session's products."""

    rounds: ClassVar[tuple[str, ...]]
    workers: Workers = HERE
    """Who does its pieces of work; may be set before the first round."""

    @abstractmethod
    def __init__(
        self,
        spec: ProductSpec,
        me: int,
        columns: IntegerColumns,
        noise: Mapping[Cross, Integers],
        randomness: Randomness,
    ) -> None:
        """`noise` holds this party's noise share for *every* cross of the session, in units of the opened integers."""

    @abstractmethod
    def send(self, round: str) -> Iterator[Parcel]:
        """This round's parcels, made lazily in row order; each is at most 32 MB."""

    @abstractmethod
    def receive(self, round: str, sender: str, payload: bytes) -> None:
        """Take one parcel; raises MessageError when it is malformed, out of order or of another session."""

    @abstractmethod
    def contribute(self) -> Contribution:
        """The final share with the noise in it; raises ProductError when parcels are missing. Wipes the secrets."""

    def wipe(self) -> None:  # noqa: B027 (a product without arrays of its own has nothing to overwrite)
        """Overwrite secrets and shares that are arrays of this object: a session may end before it contributes."""


class ChainParty(ABC):
    """One party's side of one session's products of three owners and more; opened as a sum of all contributions."""

    @staticmethod
    @abstractmethod
    def rounds(spec: ChainSpec) -> tuple[str, ...]:
        """The rounds of a session; no other product's have these names."""

    @staticmethod
    @abstractmethod
    def planned_bytes(spec: ChainSpec, me: int) -> int:
        """The bytes that one party sends in all rounds."""

    @abstractmethod
    def __init__(
        self, spec: ChainSpec, me: int, columns: IntegerColumns, noise: Integers, randomness: Randomness
    ) -> None:
        """`noise` holds this party's noise share for every sum, in units of the opened integers."""

    @abstractmethod
    def send(self, round: str) -> Iterator[Parcel]:
        """As `PartyProduct.send`."""

    @abstractmethod
    def receive(self, round: str, sender: str, payload: bytes) -> None:
        """As `PartyProduct.receive`."""

    @abstractmethod
    def contribute(self) -> Words:
        """The final share of every sum, chain after chain, with the noise in it; wipes the secrets."""

    @abstractmethod
    def wipe(self) -> None:
        """Overwrite secrets and shares."""


class ServerProduct(ABC):
    """The server's side: what it does beyond relaying."""

    payload_bytes: int = 0
    """Of every party's contribution, behind its vector."""

    @abstractmethod
    def __init__(self, spec: ProductSpec) -> None: ...

    def receive(self, round: str, sender: str, payload: bytes) -> None:  # noqa: B027 (most products send it nothing)
        """Take a parcel addressed to the server."""

    def send(self, round: str) -> Iterator[Parcel]:
        """Parcels to parties once all parties' parcels of the round are in."""
        return iter(())

    @abstractmethod
    def open(self, total: Words, payloads: Sequence[bytes]) -> Integers:
        """The noisy integers, from the unmasked sum of all contributions."""


@dataclass(frozen=True)
class ChainNeeds:
    """What a plan asks of products of so many owners; noise is in units of the product before the gain."""

    owners: int
    noise_std: float
    noise_reach: int
    sealed: int
    """Columns that are sealed, of all holders together."""


@dataclass(frozen=True)
class ProductNeeds:
    """What a plan asks of a product's words; noise and reaches are in units of the product before the gain."""

    rows: int
    bound: int
    noise_std: float
    """The least of any cross."""
    noise_reach: int
    """Passed with a probability of 2^-48 for each weight of a block."""
    columns: int
    """Of all parties together."""
    levels: int
    """Coordinates of the largest attribute."""
    share: Fraction
    """The most that the standard deviation of the product's own error may be of the noise's."""
    hints: int
    """Columns of the parties that may collude, at most: opened values of each tell them of the others' keys."""
    own_reach: int
    """Bounds what parties add to the same words without the gain: sums of one owner, such as traces."""
    chains: tuple[ChainNeeds, ...] = ()
    proved: int = 0
    """Records, where parties prove that what they send is made of numbers within their bounds; else 0."""


@dataclass(frozen=True)
class ProductSizes:
    """How large a product's words are, and what its own error costs."""

    gain: int = 1
    modulus_bits: int = 64
    reach: int = 0
    """As in `ProductSpec`; 0 where the plan's own sums and noise say it."""
    error: int = 0
    """The largest that the product itself adds to an opened integer."""
    error_factor: Fraction = Fraction(1)
    """By how much the rates of cross-party blocks grow in every sensitivity, so that it covers that error."""
    chain_gains: Mapping[int, int] = field(default_factory=dict)
    """For products of each number of owners above two, their gain."""
    moves: Mapping[int, float] = field(default_factory=dict)
    """How far the product's own error moves a term of so many owners, where a record changes; nothing if not named."""


@dataclass(frozen=True)
class KeyLeft:
    """What is left of the key that hides a column, once opened values were spent on reading it."""

    coefficients: int
    """Read, at most."""
    dimension: int
    """Not read."""
    bits: int
    """Security of what is not read, by the best attack known."""


KeyReading = Callable[[int, float, bool], KeyLeft]
"""From modulus_bits, the bits that opened values tell, and whether the column is sealed: what they leave of its key."""


@dataclass(frozen=True)
class Backend:
    """A secure product as the protocol sees it; what is expensive to load is loaded when it is called for."""

    name: str
    private: bool
    """False: columns pass between roles as they are, and it may not leave one process."""
    party: Callable[[str, ProductSpec | None], type[PartyProduct]]
    """A party's side on a device, the best for a session of this specification where one is given."""
    server: Callable[[], type[ServerProduct]]
    sent: Callable[[ProductSpec, int], int]
    """The bytes that one party sends in all rounds."""
    seconds: Callable[[ProductSpec], float]
    """CPU seconds of all sides together, from costs measured on one core."""
    sizes: Callable[[ProductNeeds], ProductSizes] | None = None
    """Chooses the words, or raises ProductError; None: opened integers have no error, in words of 64 bits."""
    key_left: KeyReading | None = None
    """What a party that cheats could leave of a partner's key; None: opened values cannot be made to spell a key."""
    devices: tuple[str, ...] = ("cpu",)
    shared: bool = True
    """Whether what is opened is a sum of the parties' words, so that a party can add to its share."""
    assumptions: str = ""
    """What its secrecy rests on, for a reader."""


def centred(total: Words, modulus_bits: int) -> Integers:
    """Residues modulo 2^modulus_bits as integers around zero."""
    shift = np.uint64(64 - modulus_bits)
    return (total << shift).view(np.int64) >> np.int64(64 - modulus_bits)


class Exchange(Protocol):
    """One side of an exchange. A round opens for all at once; parcels of it may come before it opens here."""

    def send(self, round: str) -> Iterator[Parcel]:
        """This round's parcels, made lazily."""
        ...

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        """Take one parcel; raises MessageError when it is malformed, out of turn or of another session."""
        ...

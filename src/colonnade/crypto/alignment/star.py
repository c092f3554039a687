"""The two roles of an alignment after the greetings: the hub, which evaluates its partners' functions, and a partner.

Both take whole bodies and give whole bodies; what is on the wire is the party's matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from colonnade.crypto.alignment.base_ot import CHOICE_BYTES, COUNT, BaseReceiver, BaseSender
from colonnade.crypto.alignment.code import LENGTH
from colonnade.crypto.alignment.frames import Channel
from colonnade.crypto.alignment.hashed_ids import COINS, MESSAGE, SLOTS, TAG, Bin, Ids, opened
from colonnade.crypto.alignment.kem_ot import KEM_CHOICE_BYTES, KEM_REPLY_BYTES, KemReceiver, KemSender, mixed
from colonnade.crypto.alignment.kernels import AlignmentKernels, take
from colonnade.crypto.alignment.oblivious import Store
from colonnade.crypto.alignment.oprf import Codewords, Evaluator, KeyHolder
from colonnade.crypto.alignment.sizes import GROUP_BYTES, SLOT_BYTES, Sizes
from colonnade.crypto.product import Words
from colonnade.foundation.errors import AlignmentError, MessageError
from colonnade.foundation.randomness import Randomness

Rows = NDArray[np.int64]
Step = Callable[[], None]


@dataclass(frozen=True)
class Setting:
    """What a role begins with."""

    name: str
    sizes: Sizes
    me: int
    ids: Ids
    channels: Mapping[str, Channel]
    kernels: AlignmentKernels
    randomness: Randomness
    post_quantum: bool
    step: Step


class StarRole(ABC):
    """One side after the greetings."""

    def __init__(self, setting: Setting) -> None:
        self._sizes, self._me, self._channels = setting.sizes, setting.me, setting.channels
        self._kernels, self._randomness, self._step = setting.kernels, setting.randomness, setting.step
        self._post_quantum = setting.post_quantum
        self._rows, self._words, self._ends = setting.ids.bins(self._sizes.bins)
        self.rows: Rows | None = None
        """Own rows of the common ids in the common order, once they are known."""
        self.names = b""
        """A digest of the common ids' tags in that order, under the group's key."""
        self.group = b""
        room = self._sizes.capacity(self._me)
        fullest = int(np.diff(self._ends).max())
        if fullest > room:
            raise AlignmentError(
                f"a bin of ids of {setting.name!r} has room for {room}, got {fullest}: start a new session"
            )

    @property
    @abstractmethod
    def steps(self) -> int:
        """How often this side tells that a piece of its work is done."""

    @abstractmethod
    def senders(self, round: str) -> tuple[str, ...]:
        """Who sends to this side in a round."""

    @abstractmethod
    def size(self, round: str, sender: str, number: int) -> int:
        """How large the next body is; zero if there is none."""

    @abstractmethod
    def send(self, round: str) -> Iterator[tuple[str, bytes]]:
        """This round's bodies by recipient, made as they are asked for."""

    @abstractmethod
    def take(self, round: str, sender: str, number: int, body: bytes) -> None:
        """A body that came."""

    def _bin(self, number: int) -> Bin:
        here = self._span(number)
        return opened(self._rows[here], self._words[here])

    def _span(self, number: int) -> slice:
        """Where a bin lies among all own ids."""
        return slice(int(self._ends[number]), int(self._ends[number + 1]))

    def _take(self, chosen: Rows) -> tuple[Rows, Words]:
        """Rows and tags of these ids; all else is let go, before anything new is made."""
        rows, tags = self._rows[chosen], take(self._words[:, TAG], chosen)
        del self._rows, self._words
        return rows, tags

    def _put_in_order(self, rows: Rows, tags: Words) -> None:
        """The common order: that of the tags' images under a key that the parties alone share."""
        images = permuted(blake2b(self.group, digest_size=32, person=b"colonnade order").digest(), tags)
        order = np.argsort(images[:, 0])
        firsts = images[order, 0]
        if (firsts[1:] == firsts[:-1]).any():
            order = np.lexsort((images[:, 1], images[:, 0]))
        self.rows = rows[order]
        self.names = blake2b(take(tags, order).data, digest_size=32, key=self.group).digest()


class HubRole(StarRole):
    """The side with the fewest ids: it learns first which of them all hold, and tells the others."""

    def __init__(self, setting: Setting, base: BaseSender) -> None:
        super().__init__(setting)
        self._base = base
        self.group = self._randomness.bytes(GROUP_BYTES)
        self._evaluators: dict[str, Evaluator] = {}
        self._replies: dict[str, tuple[bytes, bytes]] = {}
        self._announced = {partner: np.empty((len(self._words), 2), np.uint64) for partner in self._channels}

    @property
    def steps(self) -> int:
        return 2 * self._sizes.bins * len(self._channels)

    def senders(self, round: str) -> tuple[str, ...]:
        return tuple(self._channels) if round in ("choose", "compare") else ()

    def size(self, round: str, sender: str, number: int) -> int:
        if round == "choose":
            return 0 if number else CHOICE_BYTES + (KEM_CHOICE_BYTES if self._post_quantum else 0)
        return self._sizes.table_bytes(self._place(sender)) if number < self._sizes.bins else 0

    def _place(self, partner: str) -> int:
        """A partner's number among all parties."""
        place = list(self._channels).index(partner)
        return place + (place >= self._me)

    def take(self, round: str, sender: str, number: int, body: bytes) -> None:
        if round == "choose":
            self._prepare(sender, body)
        else:
            self._compare(sender, number, body)

    def _prepare(self, partner: str, body: bytes) -> None:
        channel = self._channels[partner]
        context = channel.key("base")
        zeros, ones = self._base.seeds(context, body[:CHOICE_BYTES])
        if self._post_quantum:
            kem = KemSender(context, body[CHOICE_BYTES:], self._randomness)
            self._replies[partner] = (kem.reply, kem.secret)
            zeros, ones = mixed(zeros, kem.keys[0]), mixed(ones, kem.keys[1])
        self._evaluators[partner] = Evaluator(zeros, ones, channel.key("oprf"), channel.key("check"))

    def send(self, round: str) -> Iterator[tuple[str, bytes]]:
        if round == "matrix":
            for partner, (reply, secret) in self._replies.items():
                yield partner, reply
                self._channels[partner].strengthen(secret)
            self._replies.clear()
            for number in range(self._sizes.bins):
                yield from self._matrices(number)
            self._evaluators.clear()
        elif round == "announce":
            yield from self._announce()

    def _matrices(self, number: int) -> Iterator[tuple[str, bytes]]:
        ids = self._bin(number)
        entries = self._sizes.capacity(self._me)
        codewords = Codewords(ids, entries, self._sizes.matrix_rows, self._kernels, self._randomness)
        here = self._span(number)
        # A message has done its work: its place is for the sum of the partners' values.
        self._words[here, MESSAGE] = 0
        for partner, evaluator in self._evaluators.items():
            body, values = evaluator.matrix(codewords, number)
            self._words[here, MESSAGE] ^= values[:, :2]
            self._announced[partner][here] = values[:, 2:]
            yield partner, body
            self._step()

    def _compare(self, partner: str, number: int, body: bytes) -> None:
        """Add a partner's table at the hub's ids: the total vanishes where all hold the id."""
        here = self._span(number)
        table = np.frombuffer(body, np.uint64).reshape(-1, 2)
        entries = self._sizes.capacity(self._place(partner))
        slots, coins = self._words[here, SLOTS], np.ascontiguousarray(self._words[here, COINS])
        self._words[here, MESSAGE] ^= Store(slots, coins, entries, self._kernels).read(table)
        self._step()

    def _announce(self) -> Iterator[tuple[str, bytes]]:
        common = np.flatnonzero(~self._words[:, MESSAGE].any(axis=1))
        rows, tags = self._take(common)
        cuts = np.searchsorted(common, self._ends)
        counts = np.diff(cuts).astype("<u4").tobytes()
        for partner in self._channels:
            yield partner, self.group + counts
            said = take(self._announced.pop(partner), common)
            for first, last in pairwise(cuts.tolist()):
                _sort(said[first:last])
            if len(said):
                yield partner, said.tobytes()
        self._put_in_order(rows, tags)


class PartnerRole(StarRole):
    """Any other side: it holds a function's key, and tells the hub its own ids' values in a table."""

    def __init__(self, setting: Setting, hub: str, public: bytes) -> None:
        super().__init__(setting)
        self._hub, self._public = hub, public
        self._bits = np.unpackbits(np.frombuffer(self._randomness.bytes(LENGTH // 8), np.uint8), bitorder="little")
        self._holder: KeyHolder | None = None
        self._base: BaseReceiver | None = None
        self._kem: KemReceiver | None = None
        self._shares = [c.key("share") for peer, c in self._channels.items() if peer != hub]
        self._tables = np.empty((self._sizes.bins, self._sizes.slots(self._me), 2), np.uint64)
        self._counts: NDArray[np.uint32] | None = None

    @property
    def steps(self) -> int:
        return 2 * self._sizes.bins

    def senders(self, round: str) -> tuple[str, ...]:
        return (self._hub,) if round in ("matrix", "announce") else ()

    def size(self, round: str, sender: str, number: int) -> int:
        if round == "matrix":
            number -= self._post_quantum
            if number < 0:
                return KEM_REPLY_BYTES
            return self._sizes.matrix_bytes if number < self._sizes.bins else 0
        if number == 0:
            return GROUP_BYTES + 4 * self._sizes.bins
        return SLOT_BYTES * int(self._found.sum()) if number == 1 else 0

    @property
    def _found(self) -> NDArray[np.int64]:
        assert self._counts is not None
        return self._counts.astype(np.int64)

    def send(self, round: str) -> Iterator[tuple[str, bytes]]:
        if round == "choose":
            context = self._channels[self._hub].key("base")
            self._base = BaseReceiver(context, self._public, self._bits, self._randomness)
            choices = self._base.choices
            if self._post_quantum:
                self._kem = KemReceiver(context, self._bits, self._randomness)
                choices += self._kem.choices
            else:
                self._hold(self._base.seeds)
            yield self._hub, choices
        elif round == "compare":
            for table in self._tables:
                yield self._hub, table.tobytes()
                self._step()
            del self._tables

    def _hold(self, seeds: list[bytes]) -> None:
        channel = self._channels[self._hub]
        key = np.packbits(self._bits, bitorder="little").view(np.uint64)
        self._holder = KeyHolder(key, seeds, channel.key("oprf"), channel.key("check"))
        self._base = self._kem = None
        self._bits = np.zeros(COUNT, np.uint8)

    def take(self, round: str, sender: str, number: int, body: bytes) -> None:
        if round == "matrix":
            if self._kem is not None:
                assert self._base is not None
                secret = self._kem.secret(body)
                self._hold(mixed(self._base.seeds, self._kem.keys(body)))
                self._channels[self._hub].strengthen(secret)
                return
            self._evaluate(number - self._post_quantum, body)
        elif number == 0:
            self.group, self._counts = body[:GROUP_BYTES], np.frombuffer(body[GROUP_BYTES:], "<u4")
            if (self._found > np.diff(self._ends)).any():
                raise MessageError("the hub must announce no more ids than there are, got more")
            if not self._counts.any():
                self._find(np.empty((0, 2), np.uint64))
        else:
            self._find(np.frombuffer(body, np.uint64).reshape(-1, 2))

    def _evaluate(self, number: int, body: bytes) -> None:
        """Check a bin's matrix, and write the bin's table: none leaves before all bins are checked."""
        assert self._holder is not None
        ids, sizes = self._bin(number), self._sizes
        entries = sizes.capacity(sizes.hub)
        values = self._holder.values(body, number, ids, entries, sizes.matrix_rows, self._kernels)
        shares = values[:, :2].copy()
        for key in self._shares:
            shares ^= permuted(key, ids.tags)
        store = Store(ids.slots, ids.coins, sizes.capacity(self._me), self._kernels)
        self._tables[number] = store.write(shares, self._randomness)
        # A message has done its work: its place is for what the hub may announce.
        self._words[self._span(number), MESSAGE] = values[:, 2:]
        if number == sizes.bins - 1:
            self._holder = None
        self._step()

    def _find(self, said: Words) -> None:
        """Own rows of what the hub announced; it can announce nothing that it did not evaluate."""
        cuts = np.cumsum([0, *self._found])
        found = np.empty(len(said), np.int64)
        for number, (first, last) in enumerate(pairwise(cuts.tolist())):
            here = self._span(number)
            found[first:last] = here.start + looked_up(self._words[here, MESSAGE], said[first:last])
        self._put_in_order(*self._take(found))


def permuted(key: bytes, tags: Words) -> Words:
    """AES-256 of each tag: a pseudorandom function, for tags are distinct."""
    encryptor = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # noqa: S305 - blocks are distinct
    return np.frombuffer(encryptor.update(tags.tobytes()), np.uint64).reshape(-1, 2)


def _sort(values: Words) -> None:
    """In place, by their first words, so that their order says nothing of a file's."""
    values[:] = take(values, np.argsort(values[:, 0]))


def looked_up(values: Words, wanted: Words) -> Rows:
    """Where each of `wanted` is among `values`; raises MessageError for what is not, or comes twice."""
    order = np.argsort(values[:, 0])
    at = np.searchsorted(values[order, 0], wanted[:, 0])
    found = order[np.minimum(at, len(order) - 1)] if len(order) else np.zeros(0, np.int64)
    once = np.zeros(len(values), bool)
    once[found] = True
    if len(found) != len(wanted) or (take(values, found) != wanted).any() or np.count_nonzero(once) < len(found):
        raise MessageError("the hub must announce common ids, once each, got another value")
    return found

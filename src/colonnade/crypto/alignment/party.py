"""One party's side of an alignment: which of its ids all K parties have, in an order equal for all.

Greet: an X25519 key and the number of ids, to everyone. Hop 1: the own ids as points, shuffled and blinded, to the next
party of the ring. Hop 2 to K: the list that came from the party before, raised to the own secret, to the next; after K
hops it is home. There the own secret replaces the blind: each party then holds F(id) = [s_1 ... s_K] H(id) for its own
ids and for no other. Compare: a table that reads, at the tag of each own F(id), the sum of keyed hashes of that tag,
one for each pair the party is in. Summed over all parties they cancel, so the sum of all tables reads zero exactly at
the ids that all have, and noise anywhere else. Agree: all found the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from hashlib import blake2b

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from colonnade.crypto.alignment.curve import LOW_ORDER, POINT_BYTES, hash_and_raise, quotient, raise_points
from colonnade.crypto.alignment.frames import Frame, Pieces, as_count, check_points, party_of, split_points
from colonnade.crypto.alignment.oblivious import SLOT_BYTES, Tags, read, segment_of, slots_of, write
from colonnade.crypto.alignment.server import GREETING_BYTES, TABLE_PIECE
from colonnade.crypto.product import SERVER, Parcel
from colonnade.foundation.errors import AlignmentError, MessageError, ProtocolError
from colonnade.foundation.randomness import Randomness, derive

BATCH = 8192
"""Points in one job and in one parcel."""
_AHEAD = 64  # jobs given to the executor before the first result is taken

Job = tuple[Callable[..., bytes], tuple[object, ...]]


class AlignmentParty:
    """A state machine without I/O; parcels for other parties may pass through the server's hands."""

    def __init__(
        self,
        session: bytes,
        parties: Sequence[str],
        me: int,
        ids: Sequence[str],
        randomness: Randomness,
        executor: Executor | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self._frame = Frame(session, tuple(parties))
        self.rounds = self._frame.rounds
        if not 0 <= me < len(parties):
            raise AlignmentError(f"me must be the number of one of {len(parties)} parties, got {me}")
        self._me, self._name = me, self._frame.parties[me]
        self._executor, self._progress, self._randomness = executor, progress, randomness
        self._ids = _encoded(self._name, ids)
        self._order = np.argsort(randomness.words(len(self._ids)), kind="stable")
        self._draw_secrets()
        self._sizes = {self._name: len(self._ids)}
        self._keys: dict[str, bytes] = {}
        self._sent = self._done = self._raised = 0
        self._inbox: Pieces | None = None
        self._lists: deque[bytes] = deque()
        self._tags: Tags | None = None
        self._rows: NDArray[np.int64] | None = None

    def _draw_secrets(self) -> None:
        self._greeting = X25519PrivateKey.from_private_bytes(self._randomness.bytes(32))
        self._secret = self._blind = self._randomness.bytes(32)
        self._last: bytes | None = None
        # Of two parties each may see the other's final points: they show the common ids, which is the result itself.
        while len(self._frame.parties) > 2 and self._last is None:
            self._blind = self._randomness.bytes(32)
            self._last = quotient(self._secret, self._blind)

    def send(self, round: str) -> Iterator[Parcel]:
        """This round's parcels, made lazily; every round is sent once, after the rounds before have come in."""
        if self._sent >= len(self.rounds) or round != self.rounds[self._sent] or self._done < self._sent:
            raise ProtocolError(
                f"round {round!r} must be sent once and in turn, got it with {self._sent} sent, {self._done} complete"
            )
        self._sent += 1
        if round == "greet":
            return self._greet()
        if round == "compare":
            return self._compare()
        if round == "agree":
            return iter([self._frame.seal(round, self._name, SERVER, self.common())])
        return self._hop(round)

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        """Take one parcel; raises MessageError when it is malformed, out of turn or of another session."""
        offset, body = self._frame.open(round, sender, self._name, payload)
        if self._done >= len(self.rounds) or round != self.rounds[self._done]:
            raise MessageError(
                f"a parcel of round {round!r} must come in its turn, got it after {self._done} complete rounds"
            )
        if round == "greet":
            self._meet(sender, body)
        elif round == "agree":
            self._confirm(sender, body)
        else:
            self._collect(round, sender, offset, body)

    def rows(self) -> NDArray[np.int64]:
        """This party's row numbers of the common ids, in the common order."""
        if self._rows is not None and not len(self._rows):
            raise AlignmentError(
                f"parties {', '.join(self._frame.parties)} must have ids in common, got none (compared as text)"
            )
        if self._rows is None or self._done < len(self.rounds):
            raise ProtocolError(f"rows are known after {len(self.rounds)} rounds, got {self._done} complete")
        return self._rows

    def _greet(self) -> Iterator[Parcel]:
        body = self._greeting.public_key().public_bytes_raw() + len(self._ids).to_bytes(8, "big")
        for other in (*self._others(), SERVER):
            yield self._frame.seal("greet", self._name, other, body)

    def _meet(self, sender: str, body: bytes) -> None:
        if sender not in self._others() or sender in self._sizes or len(body) != GREETING_BYTES:
            raise MessageError(f"a greeting must come once with {GREETING_BYTES} bytes, got {len(body)} of {sender!r}")
        size = as_count("a number of ids", body[32:])
        if not size or body[:32] in LOW_ORDER:
            raise MessageError(f"a greeting must name some ids and a valid key, got {size} ids of {sender!r}")
        shared = self._greeting.exchange(X25519PublicKey.from_public_bytes(body[:32]))
        pair = sorted((self._me, party_of(self._frame.parties, sender)))
        self._keys[sender] = derive(shared, f"alignment {self._frame.session.hex()} {pair[0]} {pair[1]}")
        self._sizes[sender] = size
        if len(self._sizes) == len(self._frame.parties):
            self._done += 1

    def _hop(self, round: str) -> Iterator[Parcel]:
        recipient = self._frame.parties[(self._me + 1) % len(self._frame.parties)]
        offset = 0
        jobs = self._blinding() if round == "hop1" else self._raising(self._secret, self._lists.popleft())
        for body in self._in_order(jobs):
            yield self._frame.seal(round, self._name, recipient, body, offset)
            offset += len(body)

    def _blinding(self) -> Iterator[Job]:
        tag = b"colonnade/1 alignment " + self._frame.session
        for i in range(0, len(self._ids), BATCH):
            yield hash_and_raise, (self._blind, [self._ids[row] for row in self._order[i : i + BATCH]], tag)

    def _raising(self, scalar: bytes, points: bytes) -> Iterator[Job]:
        for i in range(0, len(points), BATCH * POINT_BYTES):
            yield raise_points, (scalar, points[i : i + BATCH * POINT_BYTES])

    def _in_order(self, jobs: Iterator[Job]) -> Iterator[bytes]:
        """The jobs' results in their order, with a bounded number of them under way."""
        if self._executor is None:
            for function, arguments in jobs:
                yield self._count(function(*arguments))
            return
        pending: deque[Future[bytes]] = deque()
        for function, arguments in jobs:
            pending.append(self._executor.submit(function, *arguments))
            if len(pending) >= _AHEAD:
                yield self._count(pending.popleft().result())
        while pending:
            yield self._count(pending.popleft().result())

    def _count(self, points: bytes) -> bytes:
        self._raised += len(points) // POINT_BYTES
        if self._progress is not None:
            self._progress(self._raised, sum(self._sizes.values()) + (0 if self._last is None else len(self._ids)))
        return points

    def _collect(self, round: str, sender: str, offset: int, body: bytes) -> None:
        """Take a piece of the ring's list, or of the sum of tables."""
        if self._inbox is None:
            unit = SLOT_BYTES if round == "compare" else POINT_BYTES
            self._inbox = Pieces(f"round {round!r}", self._expected(round), unit)
        if sender != (SERVER if round == "compare" else self._frame.parties[self._me - 1]):
            raise MessageError(f"a parcel of round {round!r} must not come from {sender!r}")
        self._inbox.add(offset, body)
        if not self._inbox.complete:
            return
        whole, self._inbox = self._inbox.whole(), None
        if round == "compare":
            self._find(whole)
        else:
            check_points(f"round {round!r}", whole)
            self._lists.append(whole)
        self._done += 1

    def _expected(self, round: str) -> int:
        if round == "compare":
            return SLOT_BYTES * slots_of(max(self._sizes.values()))
        return POINT_BYTES * self._sizes[self._frame.parties[self._me - int(round.removeprefix("hop"))]]

    def _compare(self) -> Iterator[Parcel]:
        points = self._lists.popleft()
        if self._last is not None:
            points = b"".join(self._in_order(self._raising(self._last, points)))
        self._tags = Tags(split_points(points), self._frame.session)
        shares = np.zeros((len(self._tags), 2), dtype=np.uint64)
        for key in self._keys.values():
            hashes = [blake2b(name, digest_size=SLOT_BYTES, key=key).digest() for name in self._tags.names]
            shares ^= np.frombuffer(b"".join(hashes), dtype="<u8").reshape(-1, 2)
        table = write(self._tags, shares, segment_of(max(self._sizes.values())), self._randomness)
        raw = table.astype("<u8").tobytes()
        for offset in range(0, len(raw), TABLE_PIECE):
            yield self._frame.seal("compare", self._name, SERVER, raw[offset : offset + TABLE_PIECE], offset)

    def _find(self, raw: bytes) -> None:
        if self._tags is None:
            raise MessageError("the sum of tables must come after this party's table, got it before")
        table = np.frombuffer(raw, dtype="<u8").reshape(-1, 2)
        common = np.flatnonzero(~read(table, self._tags, segment_of(max(self._sizes.values()))).any(axis=1))
        common = common[self._tags.ranks(common)]
        self._names = [self._tags.names[i] for i in common]
        self._rows = self._order[common].astype(np.int64)
        del self._secret, self._blind, self._last, self._greeting
        self._keys.clear()

    def common(self) -> bytes:
        """Number and digest of the common ids: all parties must have found the same."""
        digest = blake2b(b"".join(self._names), digest_size=32, key=self._frame.session)
        return len(self._names).to_bytes(8, "big") + digest.digest()

    def _confirm(self, sender: str, body: bytes) -> None:
        count = as_count("a number of common ids", body)
        if sender != SERVER or self._sent < len(self.rounds) or count != len(self._names):
            raise MessageError(f"the server must confirm {len(self._names)} common ids, got {count} from {sender!r}")
        self._done += 1

    def _others(self) -> list[str]:
        return [party for party in self._frame.parties if party != self._name]


def _encoded(name: str, ids: Sequence[str]) -> list[bytes]:
    """The ids in UTF-8; none twice. Errors name rows, never an id."""
    if not len(ids):
        raise AlignmentError(f"party {name!r} must have ids, got none")
    try:
        encoded = [one.encode() for one in ids]
    except UnicodeEncodeError:
        raise AlignmentError(f"ids of party {name!r} must be valid Unicode, got one that is not") from None
    if repeated := len(encoded) - len(set(encoded)):
        seen: set[bytes] = set()
        rows = [row for row, one in enumerate(encoded) if one in seen or seen.add(one)]  # type: ignore[func-returns-value]
        raise AlignmentError(f"ids of party {name!r} must be distinct, got {repeated} repeated, first at row {rows[0]}")
    return encoded

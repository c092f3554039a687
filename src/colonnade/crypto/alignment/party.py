"""One party's side of an alignment: which of its ids all K parties have, in an order equal for all.

Greet: an X25519 key, the number of ids and a key for base transfers, to everyone. The party with the fewest ids is the
hub. Choose: every other party's base transfers, to the hub. Matrix: the hub's codewords under them, so that it learns
each partner's function at its own ids, and nothing else of it. Compare: a partner's table of its function at its own
ids, masked by keys shared with other partners; the sum over partners fits the hub's own values at the common ids
alone. Announce: the hub tells each partner which ids those are, by values that the partner can compute. Agree: all
found the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from colonnade.crypto.alignment.base_ot import BaseSender, check_public
from colonnade.crypto.alignment.curve25519 import LOW_ORDER
from colonnade.crypto.alignment.frames import ROUNDS, Channel, Frame, Inbox, as_count
from colonnade.crypto.alignment.hashed_ids import Ids
from colonnade.crypto.alignment.kem_ot import require_post_quantum
from colonnade.crypto.alignment.kernels import AlignmentKernels, best_kernels
from colonnade.crypto.alignment.sizes import GREETING_BYTES, LARGEST_COUNT, Sizes
from colonnade.crypto.alignment.star import HubRole, PartnerRole, Setting, StarRole
from colonnade.crypto.product import SERVER, Parcel
from colonnade.foundation.errors import AlignmentError, MessageError, PolicyError, ProtocolError
from colonnade.foundation.matching import SHORT, TWICE
from colonnade.foundation.randomness import Randomness


class AlignmentParty:
    """A state machine without I/O; parcels for other parties may pass through the server's hands."""

    rounds = ROUNDS

    def __init__(
        self,
        session: bytes,
        parties: Sequence[str],
        me: int,
        ids: Sequence[str],
        randomness: Randomness,
        progress: Callable[[int, int], None] | None = None,
        *,
        post_quantum: bool = False,
        largest_list: int | str | None = None,
        kernels: AlignmentKernels | None = None,
    ) -> None:
        """`largest_list` is how many ids any other party may be able to test, or TWICE."""
        self._frame = Frame(session, tuple(parties))
        if not 0 <= me < len(parties):
            raise AlignmentError(f"me must be the number of one of {len(parties)} parties, got {me}")
        if post_quantum:
            require_post_quantum()
        self._me, self._name = me, self._frame.parties[me]
        self._progress, self._randomness = progress, randomness
        self._post_quantum, self._largest = post_quantum, largest_list
        self._kernels = kernels or best_kernels(len(ids))
        self._ids = Ids(self._name, ids, session, self._kernels)
        self._key = X25519PrivateKey.from_private_bytes(randomness.bytes(32))
        self._base = BaseSender(randomness)
        own = self._key.public_key().public_bytes_raw() + self._ids.count.to_bytes(8, "big") + self._base.public
        self._greetings = {self._name: own}
        self._sent = self._done = self._worked = 0
        self._broken = False
        self._role: StarRole | None = None
        self._channels: dict[str, Channel] = {}
        self._inboxes: dict[str, Inbox] = {}
        self._rows: NDArray[np.int64] | None = None
        self._found = b""

    def send(self, round: str) -> Iterator[Parcel]:
        """This round's parcels, made lazily; every round is sent once, after the rounds before have come in."""
        in_turn = self._sent < len(ROUNDS) and round == ROUNDS[self._sent] and self._done >= self._sent
        if not in_turn or self._broken:
            raise ProtocolError(
                f"round {round!r} must be sent once and in turn, got it with {self._sent} sent, {self._done} complete"
            )
        self._sent += 1
        if round == "greet":
            body = self._greetings[self._name]
            return iter([self._frame.seal(round, self._name, other, body) for other in (*self._others(), SERVER)])
        if round == "agree":
            # Whatever was secret has done its work.
            self._role = None
            self._channels.clear()
            del self._randomness
            return iter([self._frame.seal(round, self._name, SERVER, self.common())])
        return self._parcels(round)

    def _parcels(self, round: str) -> Iterator[Parcel]:
        assert self._role is not None
        for recipient, body in self._role.send(round):
            yield from self._channels[recipient].sealed(round, body)
        if not self._role.senders(round):
            self._complete()

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        """Take one parcel; raises MessageError when it is malformed, out of turn or of another session.

        What a party refuses it does not take again: a hub gets one try at a matrix.
        """
        number, body = self._frame.open(round, sender, self._name, payload)
        if self._broken or self._done >= len(ROUNDS) or round != ROUNDS[self._done]:
            raise MessageError(
                f"a parcel of round {round!r} must come in its turn, got it after {self._done} complete rounds"
            )
        self._broken = True
        if round == "greet":
            self._meet(sender, body)
        elif round == "agree":
            self._confirm(sender, body)
        else:
            self._collect(round, sender, number, body)
        self._broken = False

    def rows(self) -> NDArray[np.int64]:
        """This party's row numbers of the common ids, in the common order."""
        if self._rows is not None and not len(self._rows):
            raise AlignmentError(
                f"parties {', '.join(self._frame.parties)} must have ids in common, got none (compared as text)"
            )
        if self._rows is None or self._done < len(ROUNDS):
            raise ProtocolError(f"rows are known after {len(ROUNDS)} rounds, got {self._done} complete")
        return self._rows

    @property
    def complete(self) -> bool:
        """Whether all rounds are over."""
        return self._done == len(ROUNDS)

    def common(self) -> bytes:
        """Number and digest of the common ids: all parties must have found the same."""
        return self._found

    def _meet(self, sender: str, body: bytes) -> None:
        if sender not in self._others() or sender in self._greetings or len(body) != GREETING_BYTES:
            raise MessageError(f"a greeting must come once with {GREETING_BYTES} bytes, got {len(body)} of {sender!r}")
        size = as_count("a number of ids", body[32:40])
        if not 0 < size <= LARGEST_COUNT or body[:32] in LOW_ORDER:
            raise MessageError(f"a greeting must name some ids and a valid key, got {size} ids of {sender!r}")
        check_public(body[40:])
        self._greetings[sender] = body
        if len(self._greetings) == len(self._frame.parties):
            self._begin()

    def _begin(self) -> None:
        """All are known: who is the hub, and which keys each pair shares."""
        names = self._frame.parties
        sizes = Sizes(tuple(as_count("a number of ids", self._greetings[name][32:40]) for name in names))
        for place, name in enumerate(names):
            if place != self._me:
                self._require_list(name, sizes.counts[place], sizes.testable(place), sizes.counts[self._me])
        if self._largest is None and not sizes.bearable(self._me):
            # 72 bytes must not cost their reader hours; whoever expects such a list says so.
            longest = names[sizes.counts.index(max(sizes.counts))]
            raise PolicyError(
                f"{longest} names {max(sizes.counts)} ids, too many beside {sizes.counts[self._me]} here unless "
                f"largest_list of the policy allows them"
            )
        for place, name in enumerate(names):
            if place != self._me:
                shared = self._key.exchange(X25519PublicKey.from_public_bytes(self._greetings[name][:32]))
                both = b"".join(self._greetings[names[k]] for k in sorted((place, self._me)))
                self._channels[name] = Channel(self._frame, self._name, name, shared, both)
        hub = names[sizes.hub]
        setting = Setting(
            self._name,
            sizes,
            self._me,
            self._ids,
            self._channels,
            self._kernels,
            self._randomness,
            self._post_quantum,
            self._step,
        )
        if self._name == hub:
            self._role = HubRole(setting, self._base)
        else:
            self._role = PartnerRole(setting, hub, self._greetings[hub][40:])
        del self._key, self._base, self._ids
        self._done += 1

    def _require_list(self, name: str, announced: int, testable: int, own: int) -> None:
        """Raise PolicyError for a list that is longer than the policy allows."""
        if isinstance(self._largest, str):
            if announced > max(2 * own, SHORT):
                raise PolicyError(
                    f'largest_list is "{TWICE}", {name} brings {announced} ids beside {own} here, and could test '
                    f"{testable}: a number in its place allows so many"
                )
        elif self._largest is not None and testable > self._largest:
            raise PolicyError(f"largest_list is {self._largest}, {name} could test {testable} ids")

    def _collect(self, round: str, sender: str, number: int, sealed: bytes) -> None:
        """A piece of what another party sends; whole bodies go to the role."""
        role = self._role
        assert role is not None
        if sender not in role.senders(round):
            raise MessageError(f"a parcel of round {round!r} must not come from {sender!r}")
        inbox = self._inboxes.setdefault(sender, Inbox(f"round {round!r} of {sender!r}"))
        size = role.size(round, sender, inbox.bodies)
        if not size:
            raise MessageError(f"round {round!r} of {sender!r} must end after {inbox.bodies} bodies, got more")
        body = inbox.add(number, self._channels[sender].opened(round, number, sealed), size)
        if body is None:
            return
        role.take(round, sender, inbox.bodies - 1, body)
        if all(self._ended(round, peer) for peer in role.senders(round)):
            self._inboxes.clear()
            self._complete()

    def _ended(self, round: str, sender: str) -> bool:
        assert self._role is not None
        inbox = self._inboxes.get(sender)
        return inbox is not None and not self._role.size(round, sender, inbox.bodies)

    def _complete(self) -> None:
        """A round is over."""
        role = self._role
        assert role is not None
        self._done += 1
        if role.rows is not None and self._rows is None:
            self._found = len(role.rows).to_bytes(8, "big") + role.names
            self._rows = role.rows

    def _confirm(self, sender: str, body: bytes) -> None:
        count = as_count("a number of common ids", body)
        own = int.from_bytes(self._found[:8], "big")
        if sender != SERVER or self._sent < len(ROUNDS) or count != own:
            raise MessageError(f"the server must confirm {own} common ids, got {count} from {sender!r}")
        self._done += 1

    def _step(self) -> None:
        assert self._role is not None
        self._worked += 1
        if self._progress is not None:
            self._progress(self._worked, self._role.steps)

    def _others(self) -> list[str]:
        return [party for party in self._frame.parties if party != self._name]

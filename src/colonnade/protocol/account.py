"""A party's side of what makes a session accountable: commitments, joint coins, bindings, and evidence of it all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from colonnade.crypto.product import SERVER, Parcel
from colonnade.foundation.errors import BrokenError, MessageError, ProtocolError
from colonnade.foundation.randomness import Randomness
from colonnade.protocol.coins import BIND, COMMIT, REVEAL, Commitment, Opening, PartyCoins, hashed
from colonnade.protocol.evidence import Evidence, Kept
from colonnade.protocol.messages import End, Envelope, Resumable, Signature, Step, versions
from colonnade.protocol.signatures import OPENED, SUBMISSION, BodyDigest


class Binding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a party will compute with: nothing can be read from it, and nothing else can be shown for it later."""

    columns: bytes
    noise: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Binding)


class SessionAccount:
    """One party's commitments in one session, what its peers are bound to, and where evidence is kept."""

    def __init__(self, evidence: Evidence, opening: Opening | None = None, software: str | None = None) -> None:
        """An opening that is given is one that was drawn before, by the software of then: its session is made again."""
        self._evidence, self._opening, self._software = evidence, opening, software or versions()
        self.live = opening is None
        """Whether the session happens now: what passed and was not kept does not pass again."""
        self.digest_of = BodyDigest()
        """Of bodies, which signatures are about too."""
        self._name, self._session, self._simulated = "", b"", False
        self._parties: tuple[str, ...] = ()
        self._coins: PartyCoins | None = None
        self._before: list[Envelope] = []
        self._bindings: dict[str, Binding] = {}
        self._bound = self._resumed = False
        self.digests: dict[str, bytes] = {}
        """What this party signed of its submission, and of what was opened to it."""
        self._contexts: set[bytes] = set()
        self.identity = b""
        """The session's id, once all coins are there: what is signed from then on is about it."""

    def begin(
        self, server: bytes, name: str, parties: Sequence[str], randomness: Randomness, ids: bytes, data: bytes
    ) -> None:
        """Draw, or take again, what the party commits to; it can be opened later before anything of it has left."""
        self._session, self._name, self._parties = server, name, tuple(parties)
        self._simulated = randomness.seeded
        opening = self._opening or Opening.draw(randomness.child(f"opening {name}"))
        self._evidence.begin(server, opening)
        for envelope in self._before:
            self._evidence.keep_received(envelope, self.digest_of(envelope.body))
        self._before = []
        self._coins = PartyCoins(
            server, name, parties, opening, opening.commit(server, name, ids, data, self._software)
        )
        self._opening = opening

    # What passes, as evidence.

    def witness(self, envelope: Envelope, answer: Callable[[Envelope], Iterator[Envelope]]) -> Iterator[Envelope]:
        """Answer a message; it is kept before it is worked on, and every answer before it leaves."""
        if not self._begun:
            self._before.append(envelope)
        elif envelope.step is not Step.HANDED:
            # Others' submissions pass and leave no trace: K stores of them would be K places to steal from.
            self._evidence.keep_received(envelope, self.digest_of(envelope.body))
        for reply in answer(envelope):
            self.keep_sent(reply)
            yield reply

    @property
    def _begun(self) -> bool:
        return self._coins is not None or self._resumed

    def keep_sent(self, envelope: Envelope) -> None:
        if self._begun:
            self._evidence.keep_sent(envelope, self.digest_of(envelope.body))

    def note(self, what: str, facts: Mapping[str, Any]) -> None:
        if self._begun:
            self._evidence.note(what, facts)

    def note_signature(
        self, sender: str, stage: str, context: bytes, made_of: Sequence[bytes], signature: Signature
    ) -> None:
        """With all that the statement was made of, so that others can check it."""
        if context not in self._contexts:
            self._contexts.add(context)
            of = [part.hex() for part in made_of]
            self.note("context", {"stage": stage, "context": context.hex(), "of": of})
        facts = {"from": sender, "to": self._name, "stage": stage, "context": context.hex()}
        told = {"about": signature.about, "value": signature.value.hex(), "proof": signature.proof.hex()}
        self.note("signature", {**facts, **told})

    def digest(self, what: str, pieces: Sequence[bytes]) -> bytes:
        """Of this party's submission, or of what was opened to it; it is signed to every peer."""
        self.digests[what] = hashed(what, *pieces)
        self.note(what, {"digest": self.digests[what].hex()})
        return self.digests[what]

    def note_end(self, end: End | None, handed_in: bool) -> None:
        """The server's last word, or that none came."""
        told = {} if end is None else {"code": end.code and end.code.value, "party": end.party, "opened": end.opened}
        self.note("end", {"heard": end is not None, "handed_in": handed_in, **told})

    def compare_opened(self, parties: Sequence[str], told: Mapping[tuple[str, str], bytes]) -> str:
        """All peers must have signed that the same was opened to them: a sentence where one has not."""
        own = self.digests.get(OPENED)
        if own is None:
            return ""
        signed = {peer: told.get((OPENED, peer)) for peer in sorted(parties) if peer != self._name}
        others = ", ".join(peer for peer, value in signed.items() if value not in (own, None))
        silent = ", ".join(peer for peer, value in signed.items() if value is None)
        return "; ".join(
            [f"the server handed another release to {others}"] * bool(others)
            + [f"{silent} has not said what it was handed"] * bool(silent)
        )

    def standing(self, peers: Sequence[str], needed: int) -> str:
        """Why a booking stands, unless so many peers have signed that they did not submit and will not."""
        self.note("withdrawn", {"by": list(peers), "needed": needed})
        if len(peers) >= needed:
            return ""
        return f"the spend stands: {len(peers)} of {needed} needed parties have signed that they did not submit"

    # A submission that outlives its process.

    def offers(self) -> list[Resumable]:
        return self._evidence.offers()

    def keep_submission(self, kept: Kept | None) -> None:
        """Durably, before the party says that it is ready to hand in."""
        self._evidence.keep_submission(kept)

    def decide(self, choice: str) -> bool:
        """Whether the party may do this: it hands in or withdraws, and never both, in whatever process."""
        return self._evidence.decide(choice) == choice

    def finish(self) -> None:
        if self._begun:
            self._evidence.drop_submission()

    def resume(self, offer: Resumable, name: str, parties: Sequence[str]) -> Kept:
        """What was kept of a session that another process began: the very bytes that were signed."""
        kept = self._evidence.resume(offer.session)
        if kept is None or kept.offer != offer or len(offer.digests) != len(parties):
            raise ProtocolError(f"party {name} has kept no such session, and the server goes on with it")
        self._name, self._parties, self._session, self._resumed = name, tuple(parties), offer.session, True
        self.digests[SUBMISSION] = hashed(SUBMISSION, *kept.bodies)
        if self.digests[SUBMISSION] != offer.digests[self._parties.index(name)]:
            raise BrokenError(f"what party {name} has kept is not what it signed: it is not handed in")
        for envelope in self._before:
            self._evidence.keep_received(envelope, self.digest_of(envelope.body))
        self._before = []
        self.note("resumed", {})
        return kept

    # Rounds of its own.

    def runs(self, round: str, aligning: bool) -> bool:
        """Whether this round is the account's, before the alignment or before the product."""
        return round in ((COMMIT, REVEAL) if aligning else (BIND,))

    def send(self, round: str) -> Iterator[Parcel]:
        if round != BIND:
            return self._exchange().send(round)
        own = self._bindings.get(self._name)
        if own is None:
            raise BrokenError(f"party {self._name} must be bound to its columns and noise before it says to what")
        self._bound = True
        return iter([Parcel(peer, _encoder.encode(own)) for peer in self._parties if peer != self._name])

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        if sender == SERVER:
            self._finish(round)
        elif round != BIND:
            self._exchange().receive(round, sender, payload)
        elif sender not in self._parties or sender in self._bindings:
            raise MessageError(f"each peer binds itself once, and {sender!r} does not")
        else:
            try:
                self._bindings[sender] = _decoder.decode(payload)
            except (msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError):
                raise MessageError(f"the binding of {sender} cannot be decoded") from None
            self._note_binding(sender)

    def _finish(self, round: str) -> None:
        """The server says that all signatures of the last round before the alignment have passed."""
        coins = self._exchange()
        if round != REVEAL or self.identity or not coins.complete:
            raise ProtocolError("the server ends the exchange of coins before all have revealed theirs, or twice")
        self.identity = coins.session
        self._evidence.rename(self.identity)
        for name in self._parties:
            self.note("commitment", {"from": name, **_hex(coins.commitments[name])})

    def source(self) -> Randomness:
        """All that this party draws from here on; raises unless coins were exchanged."""
        if not self.identity:
            raise ProtocolError(f"party {self._name} has not exchanged coins, and the server goes on without")
        return self._exchange().source(self._simulated)

    def bind(self, columns: bytes, noise: bytes) -> None:
        """This party's encoded columns and its noise, by digest: they are told before anything is sealed."""
        assert self._opening is not None
        columns, noise = (
            self._opening.bind(what, self._session, value) for what, value in (("columns", columns), ("noise", noise))
        )
        self._bindings[self._name] = Binding(columns, noise)
        self._note_binding(self._name)

    def require_bound(self) -> None:
        """Raise unless all parties are bound to what they compute with."""
        if not self._bound or len(self._bindings) < len(self._parties):
            raise ProtocolError(f"not all parties are bound to their columns and noise, {self._name} does not go on")

    def _note_binding(self, sender: str) -> None:
        self.note("binding", {"from": sender, **_hex(self._bindings[sender])})

    def _exchange(self) -> PartyCoins:
        if self._coins is None:
            raise BrokenError("a party must read its data before it commits to anything")
        return self._coins


def _hex(made: Commitment | Binding) -> dict[str, str]:
    fields = {field: getattr(made, field) for field in made.__struct_fields__}
    return {name: value if isinstance(value, str) else value.hex() for name, value in fields.items()}


def listed(ids: Sequence[str] | None) -> bytes:
    """Digest of a list of ids, in its order."""
    return hashed("ids", *(identifier.encode() for identifier in ids or ()))

"""The lattice product of parties that prove what they send: nobody hands in before all proofs of all partners hold.

Each party proves to each partner that gets its words, and checks what each partner proves to it. The order of messages
is by construction: a round is sent once all rounds before are complete, from all partners and whatever the server
says; a parcel is taken in its turn, and once; and every step of a proof is made of the one before (`proof.py`). A
multiplying party's answer u is made before it hears any sealed word, and its digest is told with the matrices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from colonnade.crypto.alignment.curve25519 import POINT_BYTES
from colonnade.crypto.alignment.kernels import best_kernels
from colonnade.crypto.chains.transfer import matrix_bytes
from colonnade.crypto.frames import check_round
from colonnade.crypto.lattice.frames import ParcelPlace, parcel_places
from colonnade.crypto.lattice.kernels import Kernels, NumpyKernels
from colonnade.crypto.lattice.parameters import N
from colonnade.crypto.lattice.party import LatticeParty, needed_columns
from colonnade.crypto.lattice.words import Planes
from colonnade.crypto.product import (
    ColumnGroup,
    Contribution,
    Cross,
    Integers,
    Parcel,
    PartyProduct,
    ProductSpec,
)
from colonnade.crypto.ranges.coding import BitCoding
from colonnade.crypto.ranges.commitments import (
    CHOICE_BYTES,
    DIGEST_BYTES,
    REPLY_BYTES,
    SECRET_BYTES,
    require_bytes,
)
from colonnade.crypto.ranges.proof import (
    HASH_BYTES,
    SALT_BYTES,
    Challenged,
    Committed,
    Committing,
    KeysHeld,
    Opened,
    Promised,
    ProverKey,
    VerifierChoices,
    Witness,
)
from colonnade.crypto.ranges.statements import SEED_BYTES, RangeStatement
from colonnade.crypto.ranges.witness import LatticeWitness
from colonnade.foundation.errors import BrokenError, MessageError, ProductError, ProofError, ProtocolError
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Randomness, derive
from colonnade.foundation.workers import Workers

KEY, CHOICES, BITS, CORRECTIONS = "proof key", "proof choices", "proof bits", "proof corrections"
SEAL, MULTIPLY = "seal", "multiply"
CHALLENGE, PROMISE, OPENING, ANSWER = "proof challenge", "proof promise", "proof opening", "proof answer"
HOLDS = "proofs hold"
"""Has no parcels: who is done with it has found all proofs right, and nobody is asked to hand in before."""
ROUNDS = (KEY, CHOICES, BITS, CORRECTIONS, SEAL, MULTIPLY, CHALLENGE, PROMISE, OPENING, ANSWER, HOLDS)

BITS_AN_ID = 32
"""Committed bits on which compiled loops save as much as on an id of an alignment: loading them takes a second or two,
and each bit saves 0.2 microseconds."""
NOTHING = bytes(DIGEST_BYTES)
"""Stands for the digest of words that a party does not send."""
Pair = tuple[int, int]
"""Who proves, and to whom."""
S = TypeVar("S")


def statements_of(spec: ProductSpec) -> Mapping[Pair, RangeStatement]:
    """Return what each party proves to each partner that gets its words, in the order of crosses."""
    found: dict[Pair, RangeStatement] = {}
    for cross in spec.crosses:
        for prover, verifier, seals in ((cross.left, cross.right, True), (cross.right, cross.left, False)):
            statement = _statement(spec, prover, seals)
            if found.setdefault((prover, verifier), statement) is not statement:
                raise BrokenError("of two parties one seals in all products, and the other one multiplies")
    return found


@lru_cache(maxsize=64)
def _statement(spec: ProductSpec, prover: int, seals: bool) -> RangeStatement:
    needed, kept, at = needed_columns(spec, prover, left=seals).tolist(), list[ColumnGroup](), 0
    for group in spec.groups[prover]:
        own = set(range(at, at + group.size))
        at += group.size
        if own & set(needed):
            kept.append(group)
            if not own <= set(needed):
                raise BrokenError("products take whole attributes: of one they take a part")
    return RangeStatement(spec, BitCoding(spec.bound, kept), seals)


def planned_proof_bytes(spec: ProductSpec, me: int) -> int:
    """Return the bytes that one party sends for all proofs, beside its words."""
    total, told = 0, _challenge_bytes(spec)
    for (prover, verifier), statement in statements_of(spec).items():
        pieces, size = statement.pieces, statement.field.size
        if prover == me:
            total += POINT_BYTES + REPLY_BYTES + DIGEST_BYTES + sum(matrix_bytes(piece.bits) for piece in pieces)
            total += HASH_BYTES + -(-statement.sum_bits // 8) + SALT_BYTES + HASH_BYTES
        if verifier == me:
            total += CHOICE_BYTES + statement.committed * size + SEED_BYTES
            total += SECRET_BYTES + DIGEST_BYTES + size
    return total + told * (len(spec.parties) - 1)


def _challenge_bytes(spec: ProductSpec) -> int:
    """Of the digests that everyone tells everyone."""
    return 2 * DIGEST_BYTES * len(spec.parties)


def proven_kind(inner: type[PartyProduct]) -> type[PartyProduct]:
    """Return a party's side that proves what this one sends."""
    if not issubclass(inner, LatticeParty):
        raise BrokenError(f"the lattice product alone is proved, not {inner.__name__}")
    return _proven(inner)


@lru_cache
def _proven(inner: type[LatticeParty]) -> type[ProvenParty]:
    return type(f"Proven{inner.__name__}", (ProvenParty,), {"inner": inner})


class ProvenParty(PartyProduct):
    """One party's side: the product's own, and a proof to, and from, each partner."""

    rounds = ROUNDS
    inner: ClassVar[type[LatticeParty]] = LatticeParty

    def __init__(
        self,
        spec: ProductSpec,
        me: int,
        columns: IntegerColumns,
        noise: Mapping[Cross, Integers],
        randomness: Randomness,
    ) -> None:
        # What the words are made of is drawn again when it is proved.
        randomness = randomness.again()
        self._spec, self._me, self._name = spec, me, spec.parties[me]
        self._product = self.inner(spec, me, columns, noise, randomness)
        self._product.heard = self._hear
        self._ring: Kernels = self.inner.kernels() if self.inner.on_host else NumpyKernels()
        self._statements = statements_of(spec)
        committed = sum(s.committed for pair, s in self._statements.items() if me in pair)
        self._kernels = best_kernels(committed // BITS_AN_ID)
        self._proving: dict[int, Any] = {}  # The step of each proof, by the partner to whom it is made.
        self._checking: dict[int, Any] = {}  # The same by the partner who makes it.
        self._witnesses: dict[bool, LatticeWitness] = {}
        self._sources: dict[Pair, Randomness] = {}
        self._terms = hashlib.sha256(repr((spec, spec.groups)).encode()).hexdigest()
        for (prover, verifier), statement in self._statements.items():
            if me in (prover, verifier):
                label = f"proof {prover} {verifier} {spec.session.hex()}"
                source = self._sources[prover, verifier] = randomness.child(label)
            if prover == me:
                bound = self._bound(prover, verifier)
                self._proving[verifier] = ProverKey(statement, bound, source, self._kernels)
                self._witnesses[statement.seals] = LatticeWitness(spec, me, columns, randomness, statement.seals)
        self._expected = {round: dict(self._parcels(round)) for round in self.rounds}
        self._taken = {round: dict.fromkeys(senders, 0) for round, senders in self._expected.items()}
        self._sent: list[str] = []
        self._answer: list[Parcel] = []
        self._told: dict[int, bytes] = {}
        """Digests of answers that are still to come."""
        self._words = {pair: hashlib.sha256() for pair in self._statements if pair[1] == me}
        self._own: dict[bool, Any] = {}
        """Of the words that this party sends, which are the same to all."""
        self._seeds: dict[int, bytes] = {}

    @property
    def workers(self) -> Workers:
        return self._product.workers

    @workers.setter
    def workers(self, workers: Workers) -> None:
        self._product.workers = workers

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, rows={self._spec.rows}, sent={len(self._sent)})"

    def _bound(self, prover: int, verifier: int) -> bytes:
        """What a proof's transfers are about: the session with all its numbers, who proves, and to whom."""
        return derive(self._spec.session, f"proof {prover} {verifier} {self._terms}")

    # The order of parcels.

    def _parcels(self, round: str) -> Iterator[tuple[int, int]]:
        """Who sends how many parcels of a round to this party."""
        if round == CHALLENGE:
            yield from ((k, 1) for k in range(len(self._spec.parties)) if k != self._me)
            return
        for (prover, verifier), statement in self._statements.items():
            pieces = len(statement.pieces)
            if verifier == self._me:
                words = len(parcel_places(statement.columns, self._spec.rows if statement.seals else 0))
                own = {KEY: 1, BITS: 1 + pieces, (SEAL if statement.seals else MULTIPLY): words, PROMISE: 1, ANSWER: 1}
                if round in own:
                    yield prover, own[round]
            if prover == self._me and round in (CHOICES, CORRECTIONS, OPENING):
                yield verifier, pieces if round == CORRECTIONS else 1

    def _require_turn(self, round: str) -> None:
        """Raise unless all rounds before this one are sent, and complete from all partners."""
        before = self.rounds[: self.rounds.index(round)]
        for one in before:
            lacking = [k for k, count in self._expected[one].items() if self._taken[one][k] < count]
            if one not in self._sent or lacking:
                whose = ", ".join(self._spec.parties[k] for k in lacking) or self._name
                raise ProtocolError(
                    f"round {round} must follow all of round {one}, and parcels of {whose} are lacking at {self._name}"
                )

    def send(self, round: str) -> Iterator[Parcel]:
        check_round(self.rounds, round)
        if round in self._sent:
            raise ProtocolError(
                f"party {self._name} answers a round once, a retry resends the parcels of round {round}"
            )
        self._require_turn(round)
        self._sent.append(round)
        return self._sends[round](self)

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        check_round(self.rounds, round)
        peer = self._spec.parties.index(sender) if sender in self._spec.parties else -1
        expected = self._expected[round].get(peer, 0)
        if self._taken[round].get(peer, 0) == expected:
            raise MessageError(
                f"party {self._name} expects {expected} parcels of round {round} from {sender!r}, got another"
            )
        if len(self._sent) < self.rounds.index(round):
            raise MessageError(f"party {self._name} takes no parcel of round {round} yet, {sender} sends one")
        try:
            self._takes[round](self, peer, payload)
        except MessageError as error:
            if round in (SEAL, MULTIPLY, CHALLENGE):
                raise
            raise self._refusal(peer, round, str(error)) from None
        self._taken[round][peer] += 1

    def _refusal(self, peer: int, round: str, why: str) -> ProofError:
        """Whoever carries messages may have altered them: signatures, and audits, say whose they were."""
        sender = self._spec.parties[peer]
        return ProofError(f"party {self._name} refuses {sender} in round {round}, by what came in its name: {why}")

    def _step(self, steps: dict[int, Any], peer: int, kind: type[S]) -> S:
        found = steps.get(peer)
        if not isinstance(found, kind):
            raise ProtocolError(f"a proof between {self._name} and {self._spec.parties[peer]} is not at this step")
        return found

    def _witness(self, peer: int) -> Witness:
        """What the words to a partner are made of."""
        return self._witnesses[self._statements[self._me, peer].seals]

    def _each(self, steps: dict[int, Any], kind: type[S]) -> Iterator[tuple[str, int, S]]:
        """The step of each proof, and the partner's name and place; in whatever order partners were heard."""
        for peer in sorted(steps):
            yield self._spec.parties[peer], peer, self._step(steps, peer, kind)

    # Rounds 1 to 4: bits are committed.

    def _send_keys(self) -> Iterator[Parcel]:
        for name, _, key in self._each(self._proving, ProverKey):
            yield Parcel(name, key.public)

    def _take_key(self, peer: int, payload: bytes) -> None:
        pair = peer, self._me
        terms = self._statements[pair], self._bound(*pair), payload, self._sources[pair], self._kernels
        self._checking[peer] = VerifierChoices(*terms)

    def _send_choices(self) -> Iterator[Parcel]:
        for name, _, choices in self._each(self._checking, VerifierChoices):
            yield Parcel(name, choices.choices)

    def _take_choices(self, peer: int, payload: bytes) -> None:
        self._proving[peer] = self._step(self._proving, peer, ProverKey).take(payload)

    def _send_bits(self) -> Iterator[Parcel]:
        answer = hashlib.sha256()
        self._answer = list(self._product.send(MULTIPLY))
        for parcel in self._answer:
            if parcel.recipient == self._answer[0].recipient:
                answer.update(parcel.payload)
        self._own[False] = answer
        for name, peer, committing in self._each(self._proving, Committing):
            seals = self._statements[self._me, peer].seals
            yield Parcel(name, committing.reply + (NOTHING if seals else answer.digest()))
            for matrix in committing.matrices(self._witness(peer)):
                yield Parcel(name, matrix)
            self._proving[peer] = committing.committed

    def _take_bits(self, peer: int, payload: bytes) -> None:
        if self._taken[BITS][peer]:
            self._step(self._checking, peer, KeysHeld).take(payload)
            return
        require_bytes("a reply and a digest", payload, REPLY_BYTES + DIGEST_BYTES)
        choices = self._step(self._checking, peer, VerifierChoices)
        self._checking[peer] = choices.take(payload[:REPLY_BYTES], self._ring)
        self._told[peer] = payload[REPLY_BYTES:]

    def _send_corrections(self) -> Iterator[Parcel]:
        for name, _, held in self._each(self._checking, KeysHeld):
            yield from (Parcel(name, corrections) for corrections in held.corrections())

    def _take_corrections(self, peer: int, payload: bytes) -> None:
        self._step(self._proving, peer, Committed).take(payload)

    # The product's own rounds.

    def _send_sealed(self) -> Iterator[Parcel]:
        sealed, first = hashlib.sha256(), ""
        for parcel in self._product.send(SEAL):
            first = first or parcel.recipient
            if parcel.recipient == first:
                sealed.update(parcel.payload)
            yield parcel
        self._own[True] = sealed

    def _send_answer(self) -> Iterator[Parcel]:
        self._answer.reverse()
        while self._answer:
            yield self._answer.pop()

    def _take_sealed(self, peer: int, payload: bytes) -> None:
        self._product.receive(SEAL, self._spec.parties[peer], payload)
        self._words[peer, self._me].update(payload)

    def _take_answer(self, peer: int, payload: bytes) -> None:
        self._product.receive(MULTIPLY, self._spec.parties[peer], payload)
        words = self._words[peer, self._me]
        words.update(payload)
        last = self._taken[MULTIPLY][peer] + 1 == self._expected[MULTIPLY][peer]
        if last and words.digest() != self._told[peer]:
            raise self._refusal(peer, MULTIPLY, "an answer must have the digest that came with its bits, got another")

    def _hear(self, peer: int, place: ParcelPlace, planes: Planes) -> None:
        """Words of a partner, which its proof is about."""
        row = min(place.block * N, self._spec.rows) if self._statements[peer, self._me].seals else self._spec.rows
        self._step(self._checking, peer, KeysHeld).hear(place.all_columns, row, planes.words())

    # Rounds 7 to 10: challenge, promise, opening, answer.

    def _digests(self) -> bytes:
        """Of the words that came from each party, sealed ones and answers; and of those that it sent itself."""
        out = []
        for seals in (True, False):
            for party in range(len(self._spec.parties)):
                if party == self._me:
                    sends = any(p == party and s.seals is seals for (p, _), s in self._statements.items())
                    out.append(self._own[seals].digest() if sends else NOTHING)
                    continue
                heard = self._statements.get((party, self._me))
                known = heard is not None and heard.seals is seals
                out.append(self._words[party, self._me].digest() if known else NOTHING)
        return b"".join(out)

    def _send_challenges(self) -> Iterator[Parcel]:
        digests = self._digests()
        for peer, name in enumerate(self._spec.parties):
            if peer in self._checking:
                challenged = self._step(self._checking, peer, KeysHeld).challenge()
                self._checking[peer] = challenged
                yield Parcel(name, digests + challenged.seed)
            elif peer != self._me:
                yield Parcel(name, digests)

    def _take_challenge(self, peer: int, payload: bytes) -> None:
        seed = SEED_BYTES * (peer in self._proving)
        require_bytes("a challenge", payload, _challenge_bytes(self._spec) + seed)
        own = self._digests()
        for at in range(0, len(own), DIGEST_BYTES):
            theirs, mine = payload[at : at + DIGEST_BYTES], own[at : at + DIGEST_BYTES]
            if NOTHING not in (theirs, mine) and theirs != mine:
                sender = self._spec.parties[at // DIGEST_BYTES % len(self._spec.parties)]
                told = f"{self._spec.parties[peer]} tells of other words of {sender} than {self._name} knows"
                raise MessageError(f"a party must send the same words to all, and {told}")
        if seed:
            self._seeds[peer] = payload[-SEED_BYTES:]

    def _send_promises(self) -> Iterator[Parcel]:
        for name, peer, committed in self._each(self._proving, Committed):
            promised = committed.promise(self._seeds[peer], self._witness(peer), self._ring)
            self._proving[peer] = promised
            yield Parcel(name, promised.promise)

    def _take_promise(self, peer: int, payload: bytes) -> None:
        self._checking[peer] = self._step(self._checking, peer, Challenged).take(payload)

    def _send_openings(self) -> Iterator[Parcel]:
        for name, _, opened in self._each(self._checking, Opened):
            yield Parcel(name, opened.opening)

    def _take_opening(self, peer: int, payload: bytes) -> None:
        self._proving[peer] = self._step(self._proving, peer, Promised).answer(payload)

    def _send_answers(self) -> Iterator[Parcel]:
        for name, peer, answer in self._each(self._proving, bytes):
            self._proving[peer] = None
            yield Parcel(name, answer)

    def _take_proof(self, peer: int, payload: bytes) -> None:
        self._step(self._checking, peer, Opened).verify(payload)

    def _send_nothing(self) -> Iterator[Parcel]:
        return iter(())

    _sends: ClassVar[Mapping[str, Callable[[ProvenParty], Iterator[Parcel]]]] = dict(
        zip(
            ROUNDS,
            (
                _send_keys,
                _send_choices,
                _send_bits,
                _send_corrections,
                _send_sealed,
                _send_answer,
                _send_challenges,
                _send_promises,
                _send_openings,
                _send_answers,
                _send_nothing,
            ),
            strict=True,
        )
    )
    _takes: ClassVar[Mapping[str, Callable[[ProvenParty, int, bytes], None]]] = dict(
        zip(
            ROUNDS[:-1],
            (
                _take_key,
                _take_choices,
                _take_bits,
                _take_corrections,
                _take_sealed,
                _take_answer,
                _take_challenge,
                _take_promise,
                _take_opening,
                _take_proof,
            ),
            strict=True,
        )
    )

    @proven("proven_ranges")
    def contribute(self) -> Contribution:
        """The product's share, once every proof of every partner holds.

        Domain: a session whose rounds came in any order, with any parcels.
        Unit: words of the submitted vector.
        Guarantee: raises unless all parcels of all rounds were taken in their turn. Proof: proven_ranges, order.
        """
        for round, senders in self._expected.items():
            for peer, count in senders.items():
                if round not in self._sent or self._taken[round][peer] < count:
                    raise ProductError(
                        f"party {self._name} contributes once all proofs hold, and round {round} with "
                        f"{self._spec.parties[peer]} is not complete"
                    )
        contribution = self._product.contribute()
        self.wipe()
        return contribution

    def wipe(self) -> None:
        self._product.wipe()
        for witness in self._witnesses.values():
            witness.wipe()
        for steps in (self._proving, self._checking, self._witnesses, self._sources, self._seeds):
            steps.clear()
        self._answer.clear()

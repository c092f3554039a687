"""One proof as steps, each an object that is made of the one before and is taken once; no step can come early.

    who proves      ProverKey -> Committing -> Committed -> Promised -> answer
    who checks      VerifierChoices -> KeysHeld -> Challenged -> Opened -> right, or MessageError

The matrices fix the bits before corrections exist; a challenge exists once all words are heard; an opening once the
promise is there; an answer once the opening is found right.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from hmac import compare_digest
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.alignment.base_ot import BaseSender
from colonnade.crypto.alignment.kernels import AlignmentKernels
from colonnade.crypto.lattice.kernels import Kernels
from colonnade.crypto.lattice.parameters import N
from colonnade.crypto.product import Words
from colonnade.crypto.ranges.coding import Bits, spell
from colonnade.crypto.ranges.commitments import BitChecker, BitCommitter, require_bytes
from colonnade.crypto.ranges.field import Field
from colonnade.crypto.ranges.relations import RelationSums, TrueSums
from colonnade.crypto.ranges.statements import (
    DATA,
    KEYS,
    SEED_BYTES,
    CommittedPiece,
    RandomMasks,
    RangeStatement,
    Targets,
)
from colonnade.foundation.errors import MessageError, ProtocolError
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Randomness

SALT_BYTES = 32
HASH_BYTES = 32


class Witness(Protocol):
    """What a statement is true of."""

    @property
    def keys(self) -> NDArray[np.int8]:
        """s or rho of each column, as they are stored."""
        ...

    def rows(self, start: int, stop: int) -> NDArray[np.int16]:
        """Records [start, stop) of the columns."""
        ...

    def errors(self) -> Iterator[tuple[int, slice, NDArray[np.int8]]]:
        """Errors of all words: from which word on, of which columns; a row for each word."""
        ...


class _Step:
    """A step that is taken once."""

    _taken = False

    def _once(self) -> None:
        if self._taken:
            raise ProtocolError(f"a proof takes the step {type(self).__name__} once, got it twice")
        self._taken = True


# Who proves.


class ProverKey(_Step):
    """Round 1: the key of the base transfers."""

    def __init__(
        self, statement: RangeStatement, context: bytes, randomness: Randomness, kernels: AlignmentKernels
    ) -> None:
        self.statement, self._context, self._randomness, self._kernels = statement, context, randomness, kernels
        self._base = BaseSender(randomness.child("base"))
        self.public = self._base.public

    def take(self, choices: bytes, committer: type[BitCommitter] = BitCommitter) -> Committing:
        self._once()
        source, field = self._randomness.child("spare"), self.statement.field
        bits = committer(self._context, self._base, choices, source, field, self._kernels)
        return Committing(self.statement, bits, self._randomness)


class Committing(_Step):
    """Round 3: the matrices of all bits; those of z and h, which are not known yet, are random."""

    def __init__(self, statement: RangeStatement, bits: BitCommitter, randomness: Randomness) -> None:
        self.statement, self._bits, self._randomness = statement, bits, randomness
        self.reply, self.committed = bits.reply, Committed(statement, bits, randomness)

    def matrices(self, witness: Witness) -> Iterator[bytes]:
        """A matrix of each piece; `committed` is the next step once all are made."""
        self._once()
        hidden = hidden_bits(self.statement, self._randomness)
        for piece in self.statement.pieces:
            yield self._bits.commit(bits_of(self.statement, piece, witness, hidden))


class Committed(_Step):
    """Rounds 4 to 7: corrections of all pieces, then the challenge."""

    def __init__(self, statement: RangeStatement, bits: BitCommitter, randomness: Randomness) -> None:
        self.statement, self._bits, self._randomness = statement, bits, randomness

    def take(self, corrections: bytes) -> None:
        self._bits.take(corrections)

    def promise(self, seed: bytes, witness: Witness, kernels: Kernels) -> Promised:
        """Bind the answer to one challenge: to a second one there is none."""
        self._once()
        require_bytes("a challenge", seed, SEED_BYTES)
        if not self._bits.complete(len(self.statement.pieces)):
            raise ProtocolError("a proof promises an answer once it has the corrections of all bits")
        statement = self.statement
        masks = RandomMasks(statement, seed, kernels)
        sums, true = RelationSums(statement, masks), TrueSums(statement, masks)
        for piece, numbers in zip(statement.pieces, self._bits.numbers(), strict=True):
            sums.add(piece.kind, piece.start, numbers)
            if piece.kind == DATA:
                true.add_rows(piece.start, witness.rows(piece.start, piece.stop))
        for start, columns, errors in witness.errors():
            true.add_errors(start, columns, errors)
        turned = true.bits(witness.keys) ^ hidden_bits(statement, self._randomness)
        answer = digest_of(sums.totals(turned, 0), statement.field)
        return Promised(self._bits, turned, self._randomness.child("salt").bytes(SALT_BYTES), answer)


class Promised(_Step):
    """Rounds 7 to 9: the promise, which binds the answer, and the answer once the opening is found right."""

    def __init__(self, bits: BitCommitter, turned: Bits, salt: bytes, answer: bytes) -> None:
        self._bits, self._answer = bits, salt + answer
        self.promise = hashlib.sha256(salt + answer).digest() + np.packbits(turned).tobytes()

    def answer(self, opening: bytes) -> bytes:
        """Return salt and answer; nothing that depends on them has left before, nor leaves if the opening is wrong."""
        self._once()
        answer, self._answer = self._answer, b""
        try:
            self._bits.check(opening)
        finally:
            self._bits.wipe()
        return answer


# Who checks.


class VerifierChoices(_Step):
    """Round 2: the choices of the base transfers. The challenge is drawn here, and shown when all words are heard."""

    def __init__(
        self, statement: RangeStatement, context: bytes, public: bytes, randomness: Randomness,
        kernels: AlignmentKernels, checker: type[BitChecker] = BitChecker,
    ) -> None:  # fmt: skip
        self.statement, self._randomness = statement, randomness
        self._bits = checker(context, public, randomness.child("secret"), statement.field, kernels)
        self.choices = self._bits.choices

    def take(self, reply: bytes, kernels: Kernels) -> KeysHeld:
        self._once()
        self._bits.take_reply(reply)
        seed = self._randomness.child("challenge").bytes(SEED_BYTES)
        return KeysHeld(self.statement, self._bits, seed, kernels)


class KeysHeld(_Step):
    """Rounds 3 to 6: a key for each bit, summed as matrices come; then all words, summed as they come."""

    def __init__(self, statement: RangeStatement, bits: BitChecker, seed: bytes, kernels: Kernels) -> None:
        self.statement, self._bits, self._seed = statement, bits, seed
        masks = RandomMasks(statement, seed, kernels)
        self._sums, self._targets = RelationSums(statement, masks), Targets(statement, masks)
        self._corrections: list[bytes] = []
        self._taken_pieces, self._heard = 0, 0

    @property
    def committed(self) -> bool:
        """Whether the matrices of all pieces are here."""
        return self._taken_pieces == len(self.statement.pieces)

    def take(self, matrix: bytes) -> None:
        """Take the matrix of the next piece."""
        if self.committed:
            raise MessageError(f"a proof must have {self._taken_pieces} matrices, got more")
        piece: CommittedPiece = self.statement.pieces[self._taken_pieces]
        keys, corrections = self._bits.take(matrix, piece.bits)
        self._sums.add(piece.kind, piece.start, keys)
        self._corrections.append(corrections)
        self._taken_pieces += 1

    def corrections(self) -> Iterator[bytes]:
        """The corrections of all pieces, once all bits are committed; each is forgotten as it leaves."""
        if not self.committed:
            raise ProtocolError("a proof sends corrections once all bits are committed")
        self._corrections.reverse()
        while self._corrections:
            yield self._corrections.pop()

    def hear(self, columns: slice, row: int, words: Words) -> None:
        """Take words of the party that proves: a row for each of these columns, from this row on."""
        if not self.committed:
            raise ProtocolError("words are taken once all bits that they are made of are committed")
        self._targets.add(columns, row, words)
        self._heard += words.size

    def challenge(self) -> Challenged:
        """Show the challenge, once all words are heard."""
        self._once()
        rows = self.statement.spec.rows if self.statement.seals else 0
        if self._heard != self.statement.columns * (rows + N) or self._corrections:
            raise ProtocolError("a challenge is shown once all words are heard and all corrections are sent")
        return Challenged(self.statement, self._bits, self._seed, self._sums, self._targets)


class Challenged(_Step):
    """Rounds 6 and 7: the challenge is out, and a promise is awaited."""

    def __init__(
        self, statement: RangeStatement, bits: BitChecker, seed: bytes, sums: RelationSums, targets: Targets
    ) -> None:
        self.statement, self.seed = statement, seed
        self._bits, self._sums, self._targets = bits, sums, targets

    def take(self, promise: bytes) -> Opened:
        self._once()
        require_bytes("a promise", promise, HASH_BYTES + -(-self.statement.sum_bits // 8))
        return Opened(self.statement, self._bits, self._sums, self._targets, promise)


class Opened(_Step):
    """Rounds 8 and 9: the opening, and whether the answer is the one that was promised and must be."""

    def __init__(
        self, statement: RangeStatement, bits: BitChecker, sums: RelationSums, targets: Targets, promise: bytes
    ) -> None:
        self.statement, self._bits, self._sums, self._targets = statement, bits, sums, targets
        self._promise, self.opening = promise, bits.opening()

    @proven("proven_ranges")
    def verify(self, answer: bytes) -> None:
        """Raise MessageError unless the answer is the promised one, and every relation holds.

        Domain: answer: as it came, of any bytes.
        Unit: bytes: a salt and a digest.
        Guarantee: words of which the statement is false pass with 2^-62 at most. Proof: proven_ranges, soundness.
        """
        self._once()
        require_bytes("an answer", answer, SALT_BYTES + HASH_BYTES)
        statement, field, offset = self.statement, self.statement.field, self._bits.offset
        turned = np.unpackbits(np.frombuffer(self._promise[HASH_BYTES:], np.uint8), count=statement.sum_bits)
        keys = self._sums.totals(turned, offset)
        constants = self._sums.constants(self._targets.value())
        expected = [(key + offset * constant) % field.p for key, constant in zip(keys, constants, strict=True)]
        promised = compare_digest(hashlib.sha256(answer).digest(), self._promise[:HASH_BYTES])
        if not promised or not compare_digest(answer[SALT_BYTES:], digest_of(expected, field)):
            raise MessageError("words must be made of numbers within their bounds, and proved to be, got others")


def hidden_bits(statement: RangeStatement, randomness: Randomness) -> Bits:
    """Return the random bits that are committed in the place of those of z and h, the same each time."""
    words = randomness.child("hidden").words(-(-statement.sum_bits // 64))
    return np.unpackbits(words.view(np.uint8), count=statement.sum_bits)


def bits_of(statement: RangeStatement, piece: CommittedPiece, witness: Witness, hidden: Bits) -> Bits:
    """Return the bits of a piece."""
    if piece.kind == DATA:
        return statement.coding.bits(witness.rows(piece.start, piece.stop)).ravel()
    if piece.kind == KEYS:
        keys = witness.keys[piece.start : piece.stop].astype(np.int64)
        return spell(keys + statement.reach, statement.key_weights).ravel()
    return hidden[piece.start : piece.stop]


def digest_of(totals: list[int], field: Field) -> bytes:
    """Return the digest of all totals, which are below p."""
    return hashlib.sha256(b"".join(total.to_bytes(field.size, "little") for total in totals)).digest()

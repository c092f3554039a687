"""The server's side of the product bgn; party.py says what is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from colonnade.crypto.bgn.layout import ROUNDS, CipherLayout
from colonnade.crypto.bgn.logarithm import SmallLogarithm
from colonnade.crypto.bgn.pairing import curve as load_curve
from colonnade.crypto.frames import HEADER, Rounds, check_round, pack, unpack
from colonnade.crypto.product import SERVER, Integers, Parcel, ProductSpec, ServerProduct, Words
from colonnade.foundation.errors import MessageError, ProductError


class BgnServer(ServerProduct):
    """The server: multiplies and adds ciphertexts, combines partial decryptions, solves small logarithms."""

    def __init__(self, spec: ProductSpec, *, curve: str = "bn254") -> None:
        self._spec, self._curve = spec, load_curve(curve)
        self._layout = layout = CipherLayout(spec, self._curve)
        groups = (self._curve.g1, self._curve.g1, self._curve.g2, self._curve.g2)
        # For each party S, T in G1 and S', T' in G2; a column of ciphertexts is one C vector.
        self._ciphers = [
            [
                np.zeros((len(layout.left[k] if i < 2 else layout.right[k]), spec.rows, group.words), dtype=np.uint64)
                for i, group in enumerate(groups)
            ]
            for k in range(len(spec.parties))
        ]
        due = {("encrypt", name): len(layout.blocks(k)) for k, name in enumerate(spec.parties)}
        self._rounds = Rounds("the server", ROUNDS, due | {("blind", name): layout.chunks for name in spec.parties})
        self._sum = self._curve.gt.empty(0)
        self.payload_bytes = HEADER.size + layout.entries * self._curve.gt.size if layout.entries else 0

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        number = self._rounds.next(round, sender)
        if round == "blind" and not len(self._sum):
            raise MessageError(f"the server must send its products before it takes round blind from {sender}")
        body = unpack(self._spec, round, sender, SERVER, number, payload)
        if round == "encrypt":
            self._take_ciphers(self._spec.parties.index(sender), number, body)
        else:
            part = self._layout.chunk(number)
            values = self._curve.gt.read(body, part.stop - part.start)
            self._sum[part] = self._curve.gt.add(self._sum[part], values)
        self._rounds.take(round, sender)

    def send(self, round: str) -> Iterator[Parcel]:
        check_round(ROUNDS, round)
        return self._evaluate() if round == "encrypt" and self._layout.entries else iter(())

    def open(self, total: Words, payloads: Sequence[bytes]) -> Integers:
        count, gt = self._layout.entries, self._curve.gt
        if total.shape != (count,) or np.any(total):
            raise ProductError("the contributions to bgn must add up to zeros, got others: a mask is missing")
        if len(payloads) != len(self._spec.parties):
            raise ProductError(f"opening needs all {len(self._spec.parties)} partial decryptions, got {len(payloads)}")
        if not count:
            return np.zeros(0, dtype=np.int64)
        self._rounds.require("blind")
        value = self._sum
        for name, payload in zip(self._spec.parties, payloads, strict=True):
            value = gt.add(value, gt.read(unpack(self._spec, "open", name, SERVER, 0, payload), count))
        return SmallLogarithm(self._curve, self._spec.reach, count).solve(value)

    def _take_ciphers(self, party: int, number: int, body: memoryview) -> None:
        start, stop = self._layout.blocks(party)[number]
        if len(body) != (stop - start) * self._layout.row_bytes(party):
            raise MessageError(
                f"ciphertexts of {self._spec.parties[party]} must have {(stop - start) * self._layout.row_bytes(party)}"
                f" bytes, got {len(body)}"
            )
        at = 0
        for i, field in enumerate(self._ciphers[party]):
            group = self._curve.g1 if i < 2 else self._curve.g2
            count = len(field) * (stop - start)
            got = group.read(body[at : at + count * group.size], count).reshape(stop - start, len(field), group.words)
            field[:, start:stop] = got.transpose(1, 0, 2)
            at += count * group.size

    def _evaluate(self) -> Iterator[Parcel]:
        """Multiply and add ciphertexts: four multi-pairings for each opened integer."""
        self._rounds.require("encrypt")
        curve, layout = self._curve, self._layout
        products = [curve.gt.empty(layout.entries) for _ in range(4)]
        at = 0
        for cross in self._spec.crosses:
            (s, t, _, _), (_, _, s2, t2) = self._ciphers[cross.left], self._ciphers[cross.right]
            for i in range(cross.left_start, cross.left_stop):
                x = layout.left[cross.left].index(i)
                for j in range(cross.right_start, cross.right_stop):
                    y = layout.right[cross.right].index(j)
                    for product, (one, two) in zip(products, ((s, s2), (s, t2), (t, s2), (t, t2)), strict=True):
                        product[at] = curve.multi_pairing(one[x], two[y])[0]
                    at += 1
        self._ciphers.clear()
        self._sum = products[0]
        for number in range(layout.chunks):
            part = layout.chunk(number)
            body = b"".join(curve.gt.write(product[part]) for product in products[1:])
            for name in self._spec.parties:
                yield Parcel(name, pack(self._spec, "encrypt", SERVER, name, number, body))

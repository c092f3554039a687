"""The paper's product: doubly homomorphic encryption with split decryption, after Boneh, Goh and Nissim (TCC 2005).

Prime-order form (Freeman, EUROCRYPT 2010; Attrapadung et al., AsiaCCS 2018): lifted ElGamal in G1 for left columns and
in G2 for right columns under joint keys Z1 = sum z1_k P and Z2 = sum z2_k Q, multiplied by pairing in GT. With (S, T)
and (S', T') two such ciphertexts the server forms, summed over the rows,

    c1 = e(S, S'), c2 = e(S, T'), c3 = e(T, S'), c4 = e(T, T'),  and  x'y g = c1 - z1 c3 - z2 (c2 - z1 c4).

The key z1 z2 of c4 is no sum of shares, so the parties take z1 off first and put their noise on in the same stroke:
party k answers c3, c4 with A_k = -z1_k c3 + eta_k g + rho_k H and B_k = -z1_k c4 + rho_k g, where H = e(P, Z2) and
eta_k is its noise share. Then (c1 + sum A_k, c2 + sum B_k) is a fresh ElGamal encryption of x'y + sum eta_k under z2:
the exact product is never in a form that z2 would open. In the end every party gives -z2_k D with D = c2 + sum B_k,
which it forms itself from c2, received before it answered, and the other parties' B_j. K - 1 of these open nothing.

The server is honest but curious. One that lies cannot take the noise off if parties sign what they send each other,
but it could have other sums opened under the same noise, such as a thousand times one record, since no party repeats
the pairings; and parties do not prove that they know their key shares. mcl's arithmetic is not in constant time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from colonnade.crypto.bgn.layout import ROUNDS, CipherLayout
from colonnade.crypto.bgn.pairing import Elements, Group
from colonnade.crypto.bgn.pairing import curve as load_curve
from colonnade.crypto.frames import Rounds, check_party, flat_noise, pack, unpack
from colonnade.crypto.product import SERVER, Contribution, Cross, Integers, Parcel, PartyProduct, ProductSpec
from colonnade.foundation.errors import MessageError
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.proven import proven
from colonnade.foundation.randomness import Randomness


class BgnParty(PartyProduct):
    """One party: encrypts its columns, blinds with its noise, gives partial decryptions."""

    rounds: ClassVar[tuple[str, ...]] = ROUNDS

    def __init__(
        self,
        spec: ProductSpec,
        me: int,
        columns: IntegerColumns,
        noise: Mapping[Cross, Integers],
        randomness: Randomness,
        *,
        curve: str = "bn254",
    ) -> None:
        self._curve = load_curve(curve)
        self._layout = CipherLayout(spec, self._curve)
        check_party(spec, me, columns, columns.shape[1], noise)
        self._spec, self._me, self._columns = spec, me, columns
        self._randomness = randomness.child(f"bgn {spec.session.hex()}")
        self._name = spec.parties[me]
        self._noise = flat_noise(spec, noise).view(np.int64).copy()
        self._z1, self._z2 = (self._curve.scalars(self._randomness, 1) for _ in range(2))
        self._own1 = self._curve.g1.scale(self._curve.p, self._z1)
        self._own2 = self._curve.g2.scale(self._curve.q, self._z2)
        self._key1, self._key2 = self._own1.copy(), self._own2.copy()
        gt = self._curve.gt
        self._opening, self._c3, self._c4 = (gt.empty(self._layout.entries) for _ in range(3))
        self._others = [name for name in spec.parties if name != self._name]
        needed = {("keys", name): 1 for name in self._others}
        needed |= {("encrypt", SERVER): self._layout.chunks}
        needed |= {("blind", name): self._layout.chunks for name in self._others}
        self._rounds = Rounds(f"party {self._name}", self.rounds, needed if self._layout.entries else {})

    def send(self, round: str) -> Iterator[Parcel]:
        self._rounds.answer(round)
        if not self._layout.entries:
            return iter(())
        return {"keys": self._send_keys, "encrypt": self._encrypt, "blind": self._blind}[round]()

    def receive(self, round: str, sender: str, payload: bytes) -> None:
        number = self._rounds.next(round, sender)
        if round == "blind" and not self._rounds.complete("encrypt", SERVER):
            raise MessageError(f"party {self._name} must have the server's products before {sender}'s round blind")
        body = unpack(self._spec, round, sender, self._name, number, payload)
        if round == "keys":
            self._take_keys(sender, body)
        else:
            part = self._layout.chunk(number)
            count = part.stop - part.start
            fields = [self._opening, self._c3, self._c4] if round == "encrypt" else [self._opening]
            got = self._curve.gt.read(body, count * len(fields)).reshape(len(fields), count, -1)
            for field, values in zip(fields, got, strict=True):
                field[part] = values if round == "encrypt" else self._curve.gt.add(field[part], values)
        self._rounds.take(round, sender)

    @proven("bgn")
    def contribute(self) -> Contribution:
        """This party's partial decryptions, once every party's B_k is here; then its secrets are wiped.

        Domain: the keys, ciphertexts and blinded sums of all parties, as they were taken.
        Unit: elements of GT.
        Guarantee: all of them together open the noisy sum; fewer open nothing. Proof: bgn, claims 1 and 2.
        """
        self._rounds.close()
        if not self._layout.entries:
            return Contribution(np.zeros(0, dtype=np.uint64))
        gt = self._curve.gt
        # A partial decryption of the noisy sums, useless without all the others.
        partial = gt.scale(self._opening, self._curve.negate(self._z2))
        self.wipe()
        payload = pack(self._spec, "open", self._name, SERVER, 0, gt.write(partial))
        return Contribution(np.zeros(self._layout.entries, dtype=np.uint64), payload)

    def wipe(self) -> None:
        for secret in (self._z1, self._z2, self._noise):
            secret.fill(0)

    def _send_keys(self) -> Iterator[Parcel]:
        body = self._curve.g1.write(self._own1) + self._curve.g2.write(self._own2)
        for name in self._others:
            yield Parcel(name, pack(self._spec, "keys", self._name, name, 0, body))

    def _take_keys(self, sender: str, body: memoryview) -> None:
        g1, g2 = self._curve.g1, self._curve.g2
        if len(body) != g1.size + g2.size:
            raise MessageError(f"the key shares of {sender} must have {g1.size + g2.size} bytes, got {len(body)}")
        key1, key2 = g1.read(body[: g1.size], 1), g2.read(body[g1.size :], 1)
        if g1.is_identity(key1) or g2.is_identity(key2):
            raise MessageError(f"the key shares of {sender} must not be the neutral element, got it")
        self._key1, self._key2 = g1.add(self._key1, key1), g2.add(self._key2, key2)

    def _encrypt(self) -> Iterator[Parcel]:
        self._rounds.require("keys")
        curve, layout = self._curve, self._layout
        for number, (start, stop) in enumerate(layout.blocks(self._me)):
            rows = np.asarray(self._columns.rows(start, stop), dtype=np.int64)
            left, right = rows[:, layout.left[self._me]].ravel(), rows[:, layout.right[self._me]].ravel()
            body = self._ciphertexts(curve.g1, curve.p, self._key1, left)
            body += self._ciphertexts(curve.g2, curve.q, self._key2, right)
            yield Parcel(SERVER, pack(self._spec, "encrypt", self._name, SERVER, number, body))

    def _ciphertexts(self, group: Group, base: Elements, key: Elements, values: Integers) -> bytes:
        """S = m base + r key and T = r base, for fresh r: all S, then all T."""
        if not values.size:
            return b""
        distinct, index = np.unique(values, return_inverse=True)
        messages = group.normalize(group.scale(base, self._curve.integers(distinct)))
        r = self._curve.scalars(self._randomness, len(values))
        s = group.add(group.scale(key, r), np.ascontiguousarray(messages[index]))
        t = group.scale(base, r)
        r.fill(0)
        return group.write(s) + group.write(t)

    @proven("bgn")
    def _blind(self) -> Iterator[Parcel]:
        """A party's answer to the server's sums: A_k and B_k of the proof, with its noise share inside.

        Domain: the server's c3 and c4 of every cross, all of them.
        Unit: elements of GT.
        Guarantee: no side ever holds a power of the exact product. Proof: bgn, claim 2.
        """
        self._rounds.require("keys", "encrypt")
        curve, gt = self._curve, self._curve.gt
        strip, high = curve.negate(self._z1), curve.multi_pairing(curve.p, self._key2)
        for number in range(self._layout.chunks):
            part = self._layout.chunk(number)
            rho = curve.scalars(self._randomness, part.stop - part.start)
            # This party's noise share enters in the same step as its key share.
            noise = gt.add(gt.scale(curve.g, curve.integers(self._noise[part])), gt.scale(high, rho))
            a = gt.add(gt.scale(self._c3[part], strip), noise)
            b = gt.add(gt.scale(self._c4[part], strip), gt.scale(curve.g, rho))
            rho.fill(0)
            self._opening[part] = gt.add(self._opening[part], b)
            body = gt.write(b)
            yield Parcel(SERVER, pack(self._spec, "blind", self._name, SERVER, number, gt.write(a)))
            for name in self._others:
                yield Parcel(name, pack(self._spec, "blind", self._name, name, number, body))

"""Expected values by stage, computed without the package: python integers, fractions, AES and X25519 of `cryptography`.

    python tests/vectors/derive.py    writes tests/vectors/stages.json

README.md beside it has the derivations. Nothing here may import the package: a test sees to it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from math import comb, erfc, exp, floor, isqrt, log, sqrt
from pathlib import Path
from statistics import NormalDist

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

N = 2048
SESSION = bytes(range(32))


def hkdf(secret: bytes, label: str) -> bytes:
    """RFC 5869 with SHA-256, no salt, one block."""
    key = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(key, b"colonnade/1 " + label.encode() + b"\x01", hashlib.sha256).digest()


def stream(key: bytes, count: int, start: int = 0) -> bytes:
    """AES-256-CTR from byte `start` on."""
    counter = (start // 16).to_bytes(16, "big")
    return Cipher(algorithms.AES256(key), modes.CTR(counter)).encryptor().update(bytes(count))


def words(data: bytes, size: int = 8) -> list[int]:
    return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]


def told(values: list[int]) -> dict[str, object]:
    """Some words as they are, and the hash of all, eight bytes each."""
    whole = b"".join(value.to_bytes(8, "little") for value in values)
    return {"first": values[:3], "last": values[-1], "sha256": hashlib.sha256(whole).hexdigest()}


# Rounding


def rounding() -> dict[str, object]:
    bound, coins = 7, bytes(range(64, 96))
    values = [-2.0, -1.25, -0.40625, 0.0, 0.0625, 1.125, 2.0, 5.0, -1e300]
    tossed = [u | 1 for u in words(stream(coins, 4 * len(values)), 4)]
    rows, excess = [], Fraction(0)
    for value, coin in zip(values, tossed, strict=True):
        s = Fraction(max(-2.0, min(2.0, value))) * bound / 2
        rows.append(floor(s + Fraction(coin, 1 << 32)))
        part = s - floor(s)
        excess += part * (1 - part)
    squares = sum(z * z for z in rows)
    return {
        "low": -2,
        "high": 2,
        "bound": bound,
        "coins": coins.hex(),
        "values": values,
        "rows": rows,
        "sum": sum(rows),
        "squares": squares,
        "excess": float(excess),
        "released_square": squares - round(excess),
        "square_slack": {"one": [5, 4], "of_12": [4, 1]},
    }


# Sensitivity


def moved(terms: list[tuple[Fraction, tuple[int, ...]]], one: list[object], two: list[object]) -> Fraction:
    """The L1 distance of the weighted products of two records."""

    def value(record: list[object], places: tuple[int, ...]) -> Fraction:
        out = Fraction(1)
        for place in places:
            out *= Fraction(record[place])  # type: ignore[arg-type]
        return out

    return sum((weight * abs(value(one, at) - value(two, at)) for weight, at in terms), Fraction(0))


def sensitivity() -> list[dict[str, object]]:
    def pairs(m: int, skip: tuple[int, int] | None = None) -> list[tuple[Fraction, tuple[int, ...]]]:
        found = combinations_with_replacement(range(m), 2)
        return [(Fraction(1), pair) for pair in found if pair != skip]

    def ordered(m: int) -> list[tuple[Fraction, tuple[int, ...]]]:
        return [(Fraction(1), (i, j)) for i, j in product(range(m), repeat=2)]

    quarter = Fraction(1, 4)
    logistic = [(Fraction(1, 2), (i, 2)) for i in (0, 1)] + [(Fraction(1, 8), (i, i)) for i in (0, 1)]
    logistic.append((Fraction(1, 4), (0, 1)))
    found = {
        "distinct pairs of 3": moved(pairs(3), [1, 1, 1], [0, 0, 0]),
        "distinct pairs of 3 features and a label, its square left out": moved(
            pairs(4, (3, 3)), [1, 1, 1, 1], [quarter, quarter, quarter, -1]
        ),
        "ordered pairs of 5": moved(ordered(5), [1] * 5, [0] * 5),
        "ordered pairs of 4, one of them replaced": moved(ordered(4), [1, 1, 1, 1], [-1, 1, 1, 1]),
        "logistic of 2 features": moved(logistic, [1, 1, 1], [1, 1, -1]),
    }
    closed = [Fraction(6), Fraction(75, 8), Fraction(25), Fraction(12), Fraction(2)]
    assert list(found.values()) == closed, found
    return [{"what": what, "value": [v.numerator, v.denominator]} for what, v in found.items()]


# Shares of noise


def laplace_reach(scale: float, values: int, parties: int, parts: int) -> float:
    """What so many sums of shares pass with probability 2^-48: Chernoff's bound, the best of 63 tilts."""
    odds, shape = log(2 * values) + 48 * log(2), parties / parts
    return scale * min((odds - shape * log(1 - (i / 64) ** 2)) * 64 / i for i in range(1, 64))


def share_of_noise() -> dict[str, object]:
    scale, parts = 2, 3
    lam, r = exp(-1 / scale), 1 / parts
    negative = [(1 - lam) ** r]
    for k in range(1, 400):
        negative.append(negative[-1] * lam * (r + k - 1) / k)
    law = [sum(a * b for a, b in zip(negative, negative[x:], strict=False)) for x in range(4)]
    whole = [(1 - lam) / (1 + lam) * lam**x for x in range(4)]
    # Three shares convolved are the whole law again.
    wide = [sum(a * b for a, b in zip(negative, negative[abs(x) :], strict=False)) for x in range(-80, 81)]
    twice = [sum(wide[i] * wide[x - i] for i in range(161) if 0 <= x - i < 161) for x in range(321)]
    thrice = [sum(wide[i] * twice[x + 240 - i] for i in range(161) if 0 <= x + 240 - i < 321) for x in range(4)]
    assert max(abs(a - b) for a, b in zip(thrice, whole, strict=True)) < 1e-9
    odds = log(2 * 5) + 48 * log(2)
    slack = 5 * sum(exp(-19.739 * 12 / 3 * k / (k + 1)) for k in (1, 2))
    return {
        "scale": scale,
        "parts": parts,
        "law": law,
        "variance": 2 * lam / (1 - lam) ** 2 / parts,
        "reach": {
            "laplace 10, 1 value": floor(10 * (log(2) + 48 * log(2))),
            "laplace 1000, 5 values, 3 of 2 shares": floor(laplace_reach(1000, 5, parties=3, parts=2)),
            "gaussian 900, 5 values, 3 of 2 shares": isqrt(floor(2 * 900 * 1.5 * odds)),
        },
        "slack of 3 shares of variance 12": slack,
        "integer noise": {
            "about": "scale 5/3 on moments, weight 1/2, unit 49: b = (5/3) 49 / (1/2); Gaussian b^2 + 4",
            "laplace": [490, 3],
            "gaussian": [240136, 9],
        },
    }


# The lattice product


def times(left: list[int], right: list[int]) -> list[int]:
    """left(X) right(1/X) modulo X^N + 1, by one product of long integers for each sign of right."""
    turned = [right[0], *(-right[N - i] for i in range(1, N))]

    def packed(values: list[int]) -> int:
        return int.from_bytes(b"".join(v.to_bytes(8, "little") for v in values), "little")

    whole = [0] * (2 * N)
    for sign in (1, -1):
        part = [max(sign * c, 0) for c in turned]
        data = (packed(left) * packed(part)).to_bytes(16 * N + 8, "little")
        for i, c in enumerate(words(data)[: 2 * N]):
            whole[i] += sign * c
    return [whole[i] - whole[i + N] for i in range(N)]


def in_order(stored: list[int]) -> list[int]:
    """Coefficients from storage, where i and i + N/2 stand side by side."""
    return stored[0::2] + stored[1::2]


def as_stored(element: list[int]) -> list[int]:
    return [c for pair in zip(element[: N // 2], element[N // 2 :], strict=True) for c in pair]


def element(block: int, bits: int) -> list[int]:
    data = stream(hkdf(SESSION, "lattice elements"), 8 * N, block * N * 8)
    return [word % (1 << bits) for word in words(data)]


SECRETS = (-2, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2)


def secret() -> list[int]:
    return [SECRETS[(7 * i * i + 3 * i) % 16] for i in range(N)]


def entries(rows: int, factor: int, bound: int) -> list[int]:
    return [(i * i + factor * i) % (2 * bound + 1) - bound for i in range(rows)]


def lattice() -> dict[str, object]:
    bits, gain, bound, rows, source = 40, 600, 7, 2100, bytes(range(32, 64))
    x, y = entries(rows, 5, bound), entries(rows, 3, bound)
    sealed: list[int] = []
    raw = stream(source, 2 * N)
    errors = [(byte & 7) - (byte >> 3 & 7) for byte in raw]
    for block in range(2):
        mask = as_stored(times(in_order(element(block, bits)), in_order(secret())))
        for i in range(N):
            at = block * N + i
            sealed.append((mask[i] + errors[at] + gain * (x[at] if at < rows else 0)) % (1 << bits))
    sealed = sealed[:rows]
    u = [0] * N
    for block in range(2):
        part = (y + [0] * (2 * N - rows))[block * N : (block + 1) * N]
        u = [a + b for a, b in zip(u, times(in_order(element(block, bits)), in_order(part)), strict=True)]
    kept = sum(b * c for b, c in zip(sealed, y, strict=True)) % (1 << bits)
    back = sum(a * b for a, b in zip(as_stored(u), secret(), strict=True))
    product_of = sum(a * b for a, b in zip(x, y, strict=True))
    error = sum(a * b for a, b in zip(errors, y, strict=False))
    # The algebra of the product, on these numbers: <b, y> - <u, s> = gain x'y + e'y.
    assert (kept - back - gain * product_of - error) % (1 << bits) == 0
    return {
        "modulus_bits": bits,
        "gain": gain,
        "bound": bound,
        "rows": rows,
        "session": SESSION.hex(),
        "source": source.hex(),
        "secret": "SECRETS[(7 i^2 + 3 i) mod 16] for i < 2048",
        "secrets": list(SECRETS),
        "seal": told(sealed),
        "multiply": told([c % (1 << bits) for c in as_stored(u)]),
        "kept": kept,
        "returned": back % (1 << bits),
        "opened": gain * product_of + error,
    }


def lattice_error() -> list[dict[str, int]]:
    tau, s, wide, hint = 7, 2, 15, 2 * 4095
    out = []
    for rows, bound in ((1, 1), (50, 15), (4500, 127), (80_000, 7)):
        largest = rows * bound * tau + N * tau * wide + N * s * wide + hint
        # Variances: 10.5 = 2 (8^2 - 1)/12, 1, 42.5 = 2 (16^2 - 1)/12, 4 (4096^2 - 1)/12.
        variance = Fraction(21, 2) * rows * bound**2 + N * (Fraction(21, 2) + 1) * Fraction(85, 2)
        variance += Fraction(4 * (4096**2 - 1), 12)
        assert variance.denominator == 1 or variance.denominator == 2
        out.append({"rows": rows, "bound": bound, "largest": largest, "twice_the_variance": int(2 * variance)})
    return out


# Masks and opening


def masks() -> dict[str, object]:
    bits, length = 40, 5
    privates = [bytes((17 * k + i) % 256 for i in range(32)) for k in range(3)]
    publics = [X25519PrivateKey.from_private_bytes(p).public_key().public_bytes_raw() for p in privates]
    out = [[0] * length for _ in privates]
    for k, peer in combinations(range(3), 2):
        own = X25519PrivateKey.from_private_bytes(privates[k])
        shared = own.exchange(X25519PublicKey.from_public_bytes(publics[peer]))
        key = hkdf(shared + SESSION + publics[k] + publics[peer], f"mask {k} {peer}")
        for i, word in enumerate(words(stream(key, 8 * length))):
            out[k][i] = (out[k][i] + word) % (1 << bits)
            out[peer][i] = (out[peer][i] - word) % (1 << bits)
    assert all(sum(column) % (1 << bits) == 0 for column in zip(*out, strict=True))
    return {
        "modulus_bits": bits,
        "session": SESSION.hex(),
        "privates": [p.hex() for p in privates],
        "publics": [p.hex() for p in publics],
        "masks": out,
    }


def opening() -> dict[str, object]:
    bits = 40
    half = 1 << (bits - 1)
    values = [0, 1, -1, 12_345_678_901, half - 1, -half, -(half - 1)]
    # Three submissions of each value, with parts that are far outside one word.
    shares = [
        [(v + 3 * half + 7) % (1 << bits), (5 - half) % (1 << bits), (-2 * half - 12) % (1 << bits)] for v in values
    ]
    return {"modulus_bits": bits, "shares": shares, "values": values}


# Composition


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Balle and Wang 2018, theorem 8, at sensitivity over deviation mu."""

    def below(x: float) -> float:
        return erfc(-x / sqrt(2)) / 2

    return below(mu / 2 - epsilon / mu) - exp(epsilon) * below(-mu / 2 - epsilon / mu)


def solved(rises: object, low: float, high: float) -> float:
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if rises(middle) else (middle, high)  # type: ignore[operator]
    return (low + high) / 2


ORDERS = [1 + exp(i / 2000) / 1000 for i in range(40_000)]


def zcdp(rho: float, delta: float) -> float:
    return min(a * rho + log(1 - 1 / a) - log(a * delta) / (a - 1) for a in ORDERS)


def most_rho(epsilon: float, delta: float) -> float:
    return max((epsilon - log(1 - 1 / a) + log(a * delta) / (a - 1)) / a for a in ORDERS)


def composition() -> dict[str, object]:
    def pure(epsilon: float) -> float:
        return 2 * NormalDist().inv_cdf(1 / (1 + exp(epsilon))) ** 2

    delta = 1e-6
    # Probabilities are within e^(1/8) of those of the law: two times in the loss, and once in delta.
    slackened = delta * exp(-1 / 8)
    return {
        "delta": delta,
        "slack 1/8": {
            "gaussian_rho of 1": solved(lambda m: gaussian_delta(m, 0.75) > slackened, 1e-9, 100.0) ** 2 / 2,
            "zcdp_rho of 1": most_rho(0.75, slackened),
            "epsilon_of_gaussian of 1/2": solved(lambda e: gaussian_delta(1.0, e) <= slackened, 0.0, 99.0) + 0.25,
            "epsilon_of_rho of 1/2": zcdp(0.5, slackened) + 0.25,
        },
        "rho_of_pure": {str(e): pure(e) for e in (0.1, 1.0, 5.0)},
        "gaussian_rho": {
            str(e): solved(lambda m, e=e: gaussian_delta(m, e) > delta, 1e-9, 100.0) ** 2 / 2 for e in (0.1, 1.0, 8.0)
        },
        "epsilon_of_gaussian": {
            str(r): solved(lambda e, r=r: gaussian_delta(sqrt(2 * r), e) <= delta, 0.0, 1000.0)
            for r in (0.005, 0.5, 8.0)
        },
        "epsilon_of_rho": {str(r): zcdp(r, delta) for r in (0.005, 0.5, 8.0)},
        # Of pure 0.1: by rho, and by zcdp where either the epsilons or the rho of 0.1^2/2 add up to what fits.
        "sessions that fit": [
            [
                "rho",
                epsilon,
                floor(solved(lambda m, e=epsilon: gaussian_delta(m, e) > delta, 0.0, 99.0) ** 2 / 2 / pure(0.1)),
            ]
            for epsilon in (1.0, 4.0)
        ]
        + [["zcdp", 1.0, 10], ["zcdp", 6.0, floor(most_rho(6.0, delta) / 0.005)]],
        "2 pure sessions of 0.1": {
            "sum": 0.2,
            "rho": solved(lambda e: gaussian_delta(sqrt(4 * pure(0.1)), e) <= delta, 0.0, 99.0),
            "zcdp": 0.2,
        },
        "100 pure sessions of 0.1": {
            "sum": 10.0,
            "rho": solved(lambda e: gaussian_delta(sqrt(200 * pure(0.1)), e) <= delta, 0.0, 1000.0),
            "zcdp": zcdp(100 * 0.1**2 / 2, delta),
        },
    }


# The alignment's code


def alignment_code() -> dict[str, object]:
    powers = [1]
    for _ in range(510):
        shifted = powers[-1] << 1
        powers.append(shifted ^ 0b1000010001 if shifted >> 9 else shifted)
    assert len(set(powers)) == 511, "x^9 + x^4 + 1 is primitive"

    def minimal(root: int) -> int:
        """The shortest linear relation among the powers of a^root: Gauss over GF(2), no product of conjugates."""
        basis: list[tuple[int, int]] = []
        for degree in range(10):
            vector, used = powers[root * degree % 511], 1 << degree
            for reduced, made in basis:
                if vector ^ reduced < vector:
                    vector, used = vector ^ reduced, used ^ made
            if vector == 0:
                return used
            basis.append((vector, used))
            basis.sort(reverse=True)
        raise AssertionError("ten vectors of nine bits are dependent")

    generator, seen = 1, set[int]()
    for root in range(1, 127):
        factor = minimal(root)
        if factor not in seen:
            seen.add(factor)
            generator = sum_of_shifts(generator, factor)
    assert generator.bit_length() - 1 == 511 - 85
    rows = [generator << k for k in range(85)]
    rows = [row | (row.bit_count() & 1) << 511 for row in rows]
    messages = [1, 1 << 84, (1 << 85) - 1, 0x123456789ABCDEF012345 & ((1 << 85) - 1)]
    coded = []
    for message in messages:
        word = 0
        for k in range(85):
            word ^= rows[k] * (message >> k & 1)
        coded.append(word)
    assert all(word.bit_count() >= 128 and word.bit_count() % 2 == 0 for word in coded)
    return {
        "generator": f"{generator:x}",
        "messages": [f"{m:x}" for m in messages],
        "codewords": [f"{word:0128x}" for word in coded],
        "blinding_rows": {str(k): 128 * (k - 1) + 40 for k in (2, 3, 6)},
    }


def sum_of_shifts(left: int, right: int) -> int:
    out = 0
    for k in range(right.bit_length()):
        if right >> k & 1:
            out ^= left << k
    return out


def stages() -> dict[str, object]:
    assert comb(4, 2) == SECRETS.count(0), "secrets have the weights of four fair bits"
    return {
        "rounding": rounding(),
        "sensitivity": sensitivity(),
        "share of noise": share_of_noise(),
        "lattice": lattice(),
        "lattice error": lattice_error(),
        "mask": masks(),
        "opening": opening(),
        "composition": composition(),
        "alignment code": alignment_code(),
    }


if __name__ == "__main__":
    Path(__file__).with_name("stages.json").write_text(json.dumps(stages(), indent=1) + "\n")

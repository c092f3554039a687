"""Two pairing-friendly curves behind one small interface, through the C functions of the mcl library.

`bn254` is mclbn256's compiled library (Beuchat et al.'s curve Fp254BNb): the faster choice, about 100 to 110 bits since
the extended tower number field sieve (Kim and Barbulescu, CRYPTO 2016; Barbulescu and Duquesne, J. Cryptology 2019).
`bls12-381` is the library inside pymcl: about 120 bits, and two to three times slower.

Elements are rows of uint64 arrays that hold mcl's own structures, so that a column of points is a C vector.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.product import Integers
from colonnade.foundation.errors import MessageError, ProductError
from colonnade.foundation.randomness import Randomness

Elements = NDArray[np.uint64]

CURVES = ("bn254", "bls12-381")
VECTOR = 4096
"""Pairs in one call of the multi-Miller loop, so that an interrupt is noticed within a second."""
SCALAR_BYTES = 48
"""Random bytes behind one scalar: their residue is within 2^-128 of uniform."""

_VOID, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
# mcl's number of the curve, 64-bit words of a base field element, first bytes of SHA-256 over both generators. Hashing
# to a curve has changed between versions of mcl, and parties with different generators could not understand each other.
_FACTS = {"bn254": (0, 4, "ec7fcd0e4c4abe47"), "bls12-381": (5, 6, "c0a41783a6656b6c")}
_FR_WORDS = 4  # words of 64 bits of an exponent (mcl's MCLBN_FR_UNIT_SIZE)


def _load(name: str) -> Any:
    try:
        if name == "bn254":
            import mclbn256.mclbn256

            return mclbn256.mclbn256.lib
        import pymcl._pymcl

        return ctypes.CDLL(str(pymcl._pymcl.__file__))
    except ImportError as error:
        raise ProductError(
            f"the product bgn on {name} needs the packages of the extra colonnade[bgn], got: {error}"
        ) from error


def _walk(elements: NDArray[np.uint64]) -> tuple[int, int]:
    """Address and stride of an array of elements; one element stands for as many as are asked for."""
    if not elements.flags.c_contiguous or elements.ndim != 2:
        raise ProductError(f"group elements must be the rows of one array, got shape {elements.shape}")
    return elements.ctypes.data, 0 if len(elements) == 1 else elements.strides[0]


class Group:
    """One of the three groups of a pairing, written additively; all operations run over the rows of arrays."""

    def __init__(self, library: Any, name: str, words: int, size: int) -> None:
        self._name, self.words, self.size = name, words, size
        prefix = f"mclBn{name}_"

        def bind(verb: str, arguments: int, result: Any = None) -> Callable[..., int]:
            function: Callable[..., int] = getattr(library, prefix + verb)
            kinds = {"serialize": [_VOID, _SIZE, _VOID], "deserialize": [_VOID, _VOID, _SIZE]}
            function.argtypes = kinds.get(verb, [_VOID] * arguments)  # type: ignore[attr-defined]
            function.restype = result  # type: ignore[attr-defined]
            return function

        self._add = bind("mul" if name == "GT" else "add", 3)
        self._scale = bind("pow" if name == "GT" else "mul", 3)
        self._serialize = bind("serialize", 3, _SIZE)
        self._deserialize = bind("deserialize", 3, _SIZE)
        self._is_identity = bind("isOne" if name == "GT" else "isZero", 1, _INT)
        if name == "GT":
            self._check_scale = bind("powGeneric", 3)
            self._minus_one = np.zeros((1, _FR_WORDS), dtype=np.uint64)
        else:
            self._normalize = bind("normalize", 2)

    def empty(self, count: int) -> Elements:
        return np.zeros((count, self.words), dtype=np.uint64)

    def add(self, left: Elements, right: Elements) -> Elements:
        """Sums, row by row (products, in GT)."""
        out = self.empty(max(len(left), len(right)) if len(left) and len(right) else 0)
        return self.add_into(out, left, right)

    def add_into(self, out: Elements, left: Elements, right: Elements) -> Elements:
        (o, os), (x, xs), (y, ys) = _walk(out), _walk(left), _walk(right)
        for i in range(len(out)):
            self._add(o + i * os, x + i * xs, y + i * ys)
        return out

    def scale(self, elements: Elements, scalars: Elements) -> Elements:
        """Multiples, row by row (powers, in GT)."""
        out = self.empty(max(len(elements), len(scalars)) if len(elements) and len(scalars) else 0)
        (o, os), (x, xs), (k, ks) = _walk(out), _walk(elements), _walk(scalars)
        for i in range(len(out)):
            self._scale(o + i * os, x + i * xs, k + i * ks)
        return out

    def normalize(self, elements: Elements) -> Elements:
        """Affine coordinates in place: mixed additions and Miller loops are faster on them."""
        x, xs = _walk(elements)
        for i in range(len(elements)):
            self._normalize(x + i * xs, x + i * xs)
        return elements

    def is_identity(self, elements: Elements) -> bool:
        """Whether any row is the neutral element."""
        x, xs = _walk(elements)
        return any(self._is_identity(x + i * xs) for i in range(len(elements)))

    def write(self, elements: Elements) -> bytes:
        buffer = np.zeros((len(elements), self.size), dtype=np.uint8)
        x, xs = _walk(elements)
        for i in range(len(elements)):
            if self._serialize(buffer.ctypes.data + i * self.size, self.size, x + i * xs) != self.size:
                raise ProductError(f"an element of {self._name} must fill {self.size} bytes")
        return buffer.tobytes()

    def read(self, data: bytes | memoryview, count: int) -> Elements:
        """Elements from their encodings, each proven to lie in the group of prime order."""
        if len(data) != count * self.size:
            raise MessageError(f"{count} elements of {self._name} must have {count * self.size} bytes, got {len(data)}")
        buffer = np.frombuffer(data, dtype=np.uint8)
        out = self.empty(count)
        o, _ = _walk(out)
        for i in range(count):
            if self._deserialize(o + i * out.strides[0], buffer.ctypes.data + i * self.size, self.size) != self.size:
                raise MessageError(f"an element of {self._name} must be a canonical encoding, got number {i} malformed")
        if self._name == "GT":
            self._check_order(out)
        return out

    def _check_order(self, elements: Elements) -> None:
        # mcl checks the order of points but not of GT: a small order would leak the exponents it is raised to.
        power = self.empty(1)
        p, (x, xs), k = power.ctypes.data, _walk(elements), self._minus_one.ctypes.data
        for i in range(len(elements)):
            self._check_scale(p, x + i * xs, k)
            self._add(p, p, x + i * xs)
            if not self._is_identity(p):
                raise MessageError(
                    f"an element of {self._name} must have prime order, got number {i} outside the group"
                )

    def use_order(self, minus_one: Elements) -> None:
        self._minus_one = minus_one


class Curve:
    """The groups G1, G2 and GT of one curve, their scalars and the pairing."""

    def __init__(self, name: str) -> None:
        if name not in _FACTS:
            raise ProductError(f"the curve must be one of {', '.join(CURVES)}, got {name!r}")
        number, fp, digest = _FACTS[name]
        library = _load(name)
        if library.mclBn_init(number, fp + 10 * _FR_WORDS) != 0:
            raise ProductError(f"mcl must be compiled for {name} with {fp}-word fields, got another library")
        library.mclBn_verifyOrderG1(1)
        library.mclBn_verifyOrderG2(1)
        self.name = name
        self.g1 = Group(library, "G1", 3 * fp, 8 * fp)
        self.g2 = Group(library, "G2", 6 * fp, 16 * fp)
        self.gt = Group(library, "GT", 12 * fp, 96 * fp)
        self._set_random, self._negate = library.mclBnFr_setLittleEndianMod, library.mclBnFr_neg
        self._set_integer = library.mclBnFr_setInt
        self._set_random.argtypes, self._negate.argtypes = [_VOID, _VOID, _SIZE], [_VOID, _VOID]
        self._set_integer.argtypes = [_VOID, ctypes.c_int64]
        self._miller, self._finish = library.mclBn_millerLoopVec, library.mclBn_finalExp
        self._miller.argtypes, self._finish.argtypes = [_VOID, _VOID, _VOID, _SIZE], [_VOID, _VOID]
        self.gt.use_order(self.integers(np.array([-1])))
        self.p, self.q = self._generators(library, digest)
        self.g = self.multi_pairing(self.p, self.q)

    def _generators(self, library: Any, digest: str) -> tuple[Elements, Elements]:
        points = []
        for group, verb in ((self.g1, "mclBnG1_hashAndMapTo"), (self.g2, "mclBnG2_hashAndMapTo")):
            function, point, label = getattr(library, verb), group.empty(1), b"colonnade/1 bgn generator"
            function.argtypes = [_VOID, ctypes.c_char_p, _SIZE]
            function(point.ctypes.data, label, len(label))
            points.append(group.normalize(point))
        got = hashlib.sha256(self.g1.write(points[0]) + self.g2.write(points[1])).hexdigest()
        if not got.startswith(digest):
            raise ProductError(f"the generators of {self.name} must have digest {digest}, got {got[:16]}: another mcl")
        return points[0], points[1]

    def scalars(self, randomness: Randomness, count: int) -> Elements:
        """Uniform secret scalars."""
        out = np.zeros((count, _FR_WORDS), dtype=np.uint64)
        source = np.frombuffer(randomness.bytes(SCALAR_BYTES * count), dtype=np.uint8)
        for i in range(count):
            self._set_random(out.ctypes.data + i * out.strides[0], source.ctypes.data + i * SCALAR_BYTES, SCALAR_BYTES)
        return out

    def integers(self, values: Integers) -> Elements:
        """Signed integers as scalars."""
        out = np.zeros((len(values), _FR_WORDS), dtype=np.uint64)
        for i, value in enumerate(values.tolist()):
            self._set_integer(out.ctypes.data + i * out.strides[0], value)
        return out

    def negate(self, scalars: Elements) -> Elements:
        out = np.zeros_like(scalars)
        for i in range(len(scalars)):
            self._negate(out.ctypes.data + i * out.strides[0], scalars.ctypes.data + i * scalars.strides[0])
        return out

    def multi_pairing(self, left: Elements, right: Elements) -> Elements:
        """The sum over rows of the pairings of G1 and G2 points: many Miller loops, one final exponentiation."""
        if len(left) != len(right) or not len(left):
            raise ProductError(f"a multi-pairing must join equally many points, got {len(left)} and {len(right)}")
        total, part = self.gt.empty(1), self.gt.empty(1)
        (x, _), (y, _) = _walk(left), _walk(right)
        for start in range(0, len(left), VECTOR):
            count = min(VECTOR, len(left) - start)
            self._miller(part.ctypes.data, x + start * left.strides[0], y + start * right.strides[0], count)
            total = self.gt.add(total, part) if start else part.copy()
        self._finish(total.ctypes.data, total.ctypes.data)
        return total


@cache
def curve(name: str) -> Curve:
    """The one instance of a curve."""
    return Curve(name)

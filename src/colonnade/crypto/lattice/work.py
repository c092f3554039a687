"""The lattice product's pieces of work: what each computes depends on its arguments alone, so any worker may do it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.lattice.frames import Frames, ParcelPlace
from colonnade.crypto.lattice.kernels import Kernels, Small
from colonnade.crypto.lattice.parameters import TAU, N, seal_limbs
from colonnade.crypto.lattice.words import Planes, Scratch
from colonnade.crypto.product import ProductSpec, Words
from colonnade.foundation.errors import ProductError
from colonnade.foundation.randomness import Stream, derive

ERRORS_AT_ONCE = 1 << 16  # errors that are drawn at once stay in a cache
BLOCKS_AT_ONCE = 8
"""Public elements, and rows that they multiply, worked on at once."""
PIECE_COLUMNS, PIECE_BLOCKS, PIECE_WORDS = 64, 64, 1 << 22
"""The largest piece of a multiplication: a piece ends with transforms of its own, which longer pieces share."""


class WorkerState:
    """What one worker needs beside its piece of work."""

    def __init__(self, kernels: type[Kernels], spec: ProductSpec) -> None:
        self.kernels, self.scratch, self.frames = kernels(), Scratch(), Frames(spec)

    def wipe(self) -> None:
        self.kernels.wipe()
        self.scratch.wipe()


class WorkerStates:
    """The states of all workers, kept from piece to piece: fresh memory costs more than the arithmetic in it."""

    def __init__(self, kernels: type[Kernels], spec: ProductSpec) -> None:
        self._kernels, self.spec = kernels, spec
        self._own = local()
        self._all: list[WorkerState] = []

    @property
    def own(self) -> WorkerState:
        """That of the thread that asks."""
        if not hasattr(self._own, "state"):
            self._own.state = WorkerState(self._kernels, self.spec)
            self._all.append(self._own.state)
        found: WorkerState = self._own.state
        return found

    def wipe(self) -> None:
        """Overwrite what was used; no piece may be under way."""
        for state in self._all:
            state.wipe()

    def __reduce__(self) -> tuple[type[WorkerStates], tuple[type[Kernels], ProductSpec]]:
        """What is sent to another process arrives empty."""
        return WorkerStates, (self._kernels, self.spec)


@contextmanager
def _state(states: WorkerStates, remote: bool) -> Iterator[WorkerState]:
    """A remote worker's state is wiped after the piece, for nobody could tell it when the session ends."""
    try:
        yield states.own
    finally:
        if remote:
            states.wipe()


def draw_errors(stream: Stream, count: int) -> NDArray[np.int8]:
    """A difference of two uniform 3-bit numbers: variance 10.5, at most 7. `count` is a multiple of 8."""
    mask = np.uint64(0x0707070707070707)
    word = stream.words(count // 8)
    plus = word & mask
    word >>= np.uint64(3)
    word &= mask
    error = plus.view(np.int8)
    error -= word.view(np.int8)
    return error


def public_elements(spec: ProductSpec, block: int, blocks: int) -> Words:
    """Some of the public a_0, a_1, ... and p of a session, one in each row."""
    stream = Stream(derive(spec.session, "lattice elements"), block * N * 8)
    return stream.words(blocks * N).reshape(blocks, N)


def check_entries(rows: NDArray[Any], spec: ProductSpec, party: int) -> NDArray[Any]:
    """Rows whose entries the plan allows for."""
    largest = max(int(rows.max()), -int(rows.min())) if rows.size else 0
    if largest > spec.bound:
        name = spec.parties[party]
        raise ProductError(f"an entry of {name} must be within {spec.bound} of zero, got {largest}")
    return rows


def pad_rows(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows of whole blocks, filled up with zeros after the last."""
    lacking = -len(rows) % N
    return np.concatenate([rows, np.zeros((lacking, rows.shape[1]), rows.dtype)]) if lacking else rows


def seal_piece(
    states: WorkerStates, remote: bool, me: int, place: ParcelPlace, keys: Any, rows: NDArray[np.int16], source: bytes
) -> bytes:
    """One parcel of sealed words; `source` is the key of its errors, so that a piece done twice is the same twice."""
    spec = states.spec
    with _state(states, remote) as at:
        message = _message(pad_rows(check_entries(rows, spec, me)), spec, Stream(source), at.scratch)
        elements = at.kernels.elements(public_elements(spec, place.block, place.blocks), seal_limbs(spec.modulus_bits))
        planes = Planes.empty((place.columns, place.rows), spec.modulus_bits, at.scratch)
        at.kernels.seal(planes, keys, place.all_columns, elements, message)
        return at.frames.wrap(0, me, place, planes)


def seal_words(
    states: WorkerStates, spec: ProductSpec, me: int, place: ParcelPlace, keys: Any, words: Words, source: bytes
) -> bytes:
    """One parcel of sealed words of any size modulo 2^modulus_bits, a row for each record: a s + e plus the words."""
    at = states.own
    blank = np.zeros((place.blocks * N, place.columns), np.int16)
    message = _message(blank, spec, Stream(source), at.scratch)
    elements = at.kernels.elements(public_elements(spec, place.block, place.blocks), seal_limbs(spec.modulus_bits))
    planes = Planes.empty((place.columns, place.rows), spec.modulus_bits, at.scratch)
    at.kernels.seal(planes, keys, place.all_columns, elements, message)
    sealed = planes.words()
    sealed[:, : len(words)] += words.T
    planes.write(slice(None), 0, sealed)
    return at.frames.wrap(0, me, place, planes)


def _message(rows: NDArray[np.int16], spec: ProductSpec, errors: Stream, scratch: Scratch) -> Small:
    """gain x + e, in the order of the rows."""
    short = spec.gain * spec.bound + TAU < 1 << 15
    dtype = np.int16 if short else np.int32
    message: Small = scratch("message", rows.shape, dtype)
    np.multiply(rows, dtype(spec.gain), out=message)
    flat = message.reshape(-1)
    for start in range(0, len(flat), ERRORS_AT_ONCE):
        part = flat[start : start + ERRORS_AT_ONCE]
        part += draw_errors(errors, len(part))
    return message


def times_piece(states: WorkerStates, remote: bool, planes: Planes, small: Small, bound: int) -> Words:
    """A sealed parcel times the integers it meets."""
    with _state(states, remote) as at:
        return at.kernels.times(planes, small, bound)


def spans(columns: int, blocks: int, most: int) -> Iterator[tuple[slice, int, int]]:
    """Columns, first block and number of blocks of each piece of a multiplication."""
    wide = min(columns, PIECE_COLUMNS)
    long = min(most, PIECE_BLOCKS, max(BLOCKS_AT_ONCE, PIECE_WORDS // (N * max(1, wide))))
    for block in range(0, blocks, long):
        for column in range(0, columns, wide):
            yield slice(column, min(columns, column + wide)), block, min(long, blocks - block)


def multiply_piece(
    states: WorkerStates, remote: bool, spec: ProductSpec, me: int, bits: Sequence[int], block: int, rows: Small
) -> Words:
    """The sum of a_r y_r(1/X) over the blocks of these rows; the block after the last is that of p and rho."""
    key = block * N >= spec.rows
    rows = pad_rows(rows if key else check_entries(rows, spec, me))
    with _state(states, remote) as at:
        blocks, sums = len(rows) // N, at.kernels.sums(rows.shape[1], bits)
        for first in range(0, blocks, BLOCKS_AT_ONCE):
            count = min(BLOCKS_AT_ONCE, blocks - first)
            elements = at.kernels.elements(public_elements(spec, block + first, count), bits)
            at.kernels.accumulate(sums, elements, rows[first * N : (first + count) * N])
        return at.kernels.collect(sums, bits)

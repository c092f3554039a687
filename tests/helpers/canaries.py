"""Secrets of a session, noted as they are made, in every form in which they could leak."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from colonnade.crypto.alignment import frames, hashed_ids, oprf, star
from colonnade.crypto.lattice import party as lattice
from colonnade.crypto.masks import MaskKeys
from colonnade.data.table import Table
from colonnade.foundation.randomness import Randomness, Stream
from colonnade.mechanism.blocks import IntegerNoise
from colonnade.protocol import fit

FEW = 16
"""Of 512 seeds so many are looked for."""
RUN = 6
"""So many numbers in a row are no accident."""
WIDTHS = ("<i2", ">i2", "<i4", ">i4", "<i8", ">i8", "<f4", ">f4", "<f8", ">f8")


class Needles:
    """What must appear nowhere, by kind."""

    def __init__(self) -> None:
        self.kinds: dict[str, set[bytes]] = {}
        self.arrays: dict[str, list[NDArray[Any]]] = {}
        """The very arrays that held secrets, to see whether they were overwritten."""
        self.told = ""
        """The error by which the session ended."""

    def text(self, kind: str, value: str) -> None:
        forms = {value.encode(), value.encode("utf-16-le"), value.encode().hex().encode()}
        self.kinds.setdefault(kind, set()).update(forms)

    def secret(self, kind: str, value: bytes) -> None:
        forms = {value, value[::-1], value.hex().encode(), str(int.from_bytes(value, "little")).encode()}
        self.kinds.setdefault(kind, set()).update(forms | {str(int.from_bytes(value, "big")).encode()})

    def number(self, kind: str, value: float) -> None:
        forms = {struct.pack(order + "d", value) for order in "<>"} | {repr(value).encode(), f"{value:.9g}".encode()}
        self.kinds.setdefault(kind, set()).update(forms)

    def array(self, kind: str, values: NDArray[Any]) -> None:
        """A few runs of an array of integers, in any width and byte order, and as texts."""
        flat = np.asarray(values).ravel()
        if flat.dtype == np.uint64:
            flat = flat.view(np.int64)
        # A lattice key has five different entries: only many of them in a row are no accident.
        length, distinct = (6 * RUN, 3) if flat.dtype == np.int8 else (RUN, RUN - 2)
        for start in range(0, min(len(flat) - length + 1, 4 * length), length):
            run = flat[start : start + length]
            if len(np.unique(run)) < distinct:
                continue
            forms = {separator.join(str(v) for v in run.tolist()).encode() for separator in (",", ", ", " ")}
            for width in WIDTHS:
                cast = run.astype(width)
                if np.array_equal(cast.astype(np.float64), run.astype(np.float64)):
                    forms.add(cast.tobytes())
            forms.add(run.tobytes())
            self.kinds.setdefault(kind, set()).update(forms)

    def found_in(self, hay: bytes) -> list[str]:
        return sorted(kind for kind, needles in self.kinds.items() if any(needle in hay for needle in needles))


def noting(needles: Needles, kind: str, original: Callable[..., Any], take: Callable[[Any], Any]) -> Callable[..., Any]:
    """The same function, whose results are noted."""

    def call(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        values = take(result)
        # Where a party holds nothing its submission is the mask alone; at the end every party has a share.
        needles.array(kind, values[-2 * RUN :] if kind == "mask" else values)
        needles.arrays.setdefault(kind, []).append(values)
        return result

    return call


def note_alignment(needles: Needles, patch: pytest.MonkeyPatch) -> None:
    """What an alignment keeps to itself: keys of pairs, of functions and of the group, seeds, digests and values."""
    key, hold, evaluate = frames.Channel.key, oprf.KeyHolder.__init__, oprf.Evaluator.__init__
    hub = star.HubRole.__init__

    def pair_key(self: frames.Channel, purpose: str) -> bytes:
        value = key(self, purpose)
        needles.secret("pair key", value)
        return value

    def holder(self: oprf.KeyHolder, own: NDArray[np.uint64], seeds: list[bytes], *rest: Any) -> None:
        needles.secret("function key", own.tobytes())
        for seed in seeds[:FEW]:
            needles.secret("base seed", seed)
        hold(self, own, seeds, *rest)

    def evaluator(self: oprf.Evaluator, zeros: list[bytes], ones: list[bytes], *rest: Any) -> None:
        for seed in zeros[:FEW] + ones[:FEW]:
            needles.secret("base seed", seed)
        evaluate(self, zeros, ones, *rest)

    def group(self: star.HubRole, *arguments: Any) -> None:
        hub(self, *arguments)
        needles.secret("group key", self.group)

    def digests(*arguments: Any) -> Iterator[NDArray[np.uint64]]:
        for words in made(*arguments):
            for row in words:
                needles.secret("tag", row[:2].tobytes())
                needles.secret("message", row[2:4].tobytes())
            yield words

    def values(prefix: bytes, *arguments: Any) -> Any:
        out = hashed(prefix, *arguments)
        for row in out:
            needles.secret("function value", row[:2].tobytes())
        return out

    made, hashed = hashed_ids._digests, oprf.hashed
    patch.setattr(frames.Channel, "key", pair_key)
    patch.setattr(oprf.KeyHolder, "__init__", holder)
    patch.setattr(oprf.Evaluator, "__init__", evaluator)
    patch.setattr(star.HubRole, "__init__", group)
    patch.setattr(hashed_ids, "_digests", digests)
    patch.setattr(oprf, "hashed", values)


@contextmanager
def noted(needles: Needles) -> Iterator[None]:
    """Notes every key, seed, share, noise, mask and exact sum that this process makes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "exact_block", noting(needles, "exact sums", fit.exact_block, lambda b: b.values))
        patch.setattr(IntegerNoise, "draw", noting(needles, "noise", IntegerNoise.draw, lambda v: v))
        patch.setattr(MaskKeys, "mask", noting(needles, "mask", MaskKeys.mask, lambda v: v))
        contribute = noting(needles, "share", lattice.LatticeParty.contribute, lambda c: c.vector)
        patch.setattr(lattice.LatticeParty, "contribute", contribute)
        for name, kind in (("draw_secrets", "lattice key"), ("draw_wide", "lattice error"), ("draw_hints", "hint")):
            patch.setattr(lattice, name, noting(needles, kind, getattr(lattice, name), lambda v: v))
        encode = Table.encode

        def encoded(self: Table, *arguments: Any, **named: Any) -> Any:
            columns = encode(self, *arguments, **named)
            rows = columns.rows(0, columns.shape[0])
            for column in rows.T:
                needles.array("column", column)
            return columns

        patch.setattr(Table, "encode", encoded)
        begin, start, keys = Stream.__init__, Randomness.__init__, MaskKeys.__init__

        def stream(self: Stream, key: bytes, *rest: Any, **named: Any) -> None:
            needles.secret("stream key", bytes(key))
            begin(self, key, *rest, **named)

        def randomness(self: Randomness, seed: bytes | None = None) -> None:
            if seed is not None:
                needles.secret("seed", seed)
            start(self, seed)

        class Spy:
            def __init__(self, source: Randomness) -> None:
                self._source = source

            def bytes(self, count: int) -> bytes:
                value = self._source.bytes(count)
                needles.secret("mask key", value)
                return value

        note_alignment(needles, patch)
        patch.setattr(Stream, "__init__", stream)
        patch.setattr(Randomness, "__init__", randomness)
        patch.setattr(MaskKeys, "__init__", lambda self, source: keys(self, Spy(source)))
        yield

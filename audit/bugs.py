"""Bugs, each planted from outside by patching: as a context in which the package has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

from audit.precision import textbook_laplace
from colonnade.crypto.lattice import party as lattice
from colonnade.data.gate import Coding
from colonnade.data.table import Table
from colonnade.foundation import integers
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Column, Derived, Numeric
from colonnade.foundation.sums import Sums
from colonnade.mechanism import plan as plan_module
from colonnade.mechanism.blocks import IntegerNoise
from colonnade.mechanism.dissection import Block
from colonnade.mechanism.moments import Role
from colonnade.mechanism.plan import PrivacyPlan
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.messages import Piece
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.submissions import Masked, masked_from, submission

Plant = Callable[[], Any]


@contextmanager
def half_the_noise() -> Iterator[None]:
    """Every draw is divided by two."""
    draw = IntegerNoise.draw
    with patch.object(IntegerNoise, "draw", lambda self, parts, source: draw(self, parts, source) // 2):
        yield


@contextmanager
def known_share() -> Iterator[None]:
    """All K shares are needed for the whole noise, though one party of them knows its own."""
    with patch.object(PrivacyPlan, "shares", property(lambda plan: len(plan.names))):
        yield


@contextmanager
def cross_terms_once() -> Iterator[None]:
    """The paper's linear Delta_f^k: products of two parties' features count once."""

    def once(blocks: Any, owner: str | None = None) -> Fraction:
        def counted(block: Block) -> Fraction:
            whole = 2 * Fraction(float(np.abs(block.weights).sum()))
            crossed = not block.single and block.role is Role.FEATURE
            return whole / 2 if owner is not None and crossed else whole

        return sum((counted(b) for b in blocks if owner is None or owner in b.owners), Fraction(0))

    with patch.object(plan_module, "paper_sensitivity", once):
        yield


def _columns(alter: Callable[[Numeric, Any], Numeric]) -> Any:
    """A patch by which a table puts numbers on the grid with other bounds than declared."""
    encode = Table.encode

    def encoded(self: Table, layout: Any, grid: Any, *more: Any, **named: Any) -> Any:
        columns: dict[str, Column] = {}
        for name, column in self.columns.items():
            plain = isinstance(column, Numeric) and not column.bins
            columns[name] = alter(column, np.asarray(self.values[name])) if plain else column  # type: ignore[arg-type]
        return encode(replace(self, columns=columns), layout, grid, *more, **named)

    return patch.object(Table, "encode", encoded)


def _unclipped(values: Any, *bounds: Any, out: Any = None, **more: Any) -> Any:
    if out is None:
        return values
    out[...] = values
    return out


def _unverified() -> Any:
    """A patch by which coded records are believed: else the gate would refuse them before the audit has a look."""
    return patch.object(integers, "verify_block", lambda shape, block: None)


@contextmanager
def one_bound_twice() -> Iterator[None]:
    """Numbers are scaled by max(|low|, |low|), as diffprivlib's linear regression takes the size of a feature."""
    with _columns(lambda c, _: Numeric(-abs(c.low), abs(c.low))), patch("numpy.clip", _unclipped), _unverified():
        yield


@contextmanager
def derived_outside() -> Iterator[None]:
    """A derived number is computed of what stands in the file, and taken for one that lies within its bounds."""
    project = Coding._project

    def computed(self: Derived, values: Any, columns: Any) -> Any:
        given = {name: np.asarray(values[name], np.float64) for name in self.sources}
        return np.broadcast_to(self.expression.compute(given), (len(values[self.sources[0]]),))

    def trusting(self: Coding, out: Any) -> None:
        kept, place = {}, 0
        for attribute, (name, _) in zip(self.attributes, self.sources, strict=True):
            if self.columns[name].sources:
                kept[place] = out[place].copy()
            place += attribute.size
        project(self, out)
        for place, numbers in kept.items():
            out[place] = numbers

    with patch.object(Derived, "compute", computed), patch.object(Coding, "_project", trusting), _unverified():
        yield


@contextmanager
def fresh_noise_on_retry() -> Iterator[None]:
    """A party that is asked again for its submission draws its noise again."""
    prepare, hand_in, draw = FitParty.prepare, PartyRole._submit, IntegerNoise.draw

    def prepared(self: Any, seat: Any) -> None:
        drawn: list[Any] = []

        def kept(law: Any, parts: int, source: Any) -> Any:
            drawn.append((law, parts, draw(law, parts, source)))
            return drawn[-1][2]

        with patch.object(IntegerNoise, "draw", kept):
            prepare(self, seat)
        session = self.session
        own = [i for i in session.single if session.plan.blocks[i].block.owners == (self.name,)]
        crossed = np.arange(session.cross_start, session.length)
        self.planted = list(zip([*(session.positions[i] for i in own), crossed], drawn, strict=True))

    def submitted(self: PartyRole) -> Any:
        task: Any = self.task
        if hasattr(task, "planted_first"):
            words = task.planted_first.words.copy()
            for places, (law, parts, old) in task.planted:
                words[places] += (draw(law, parts, Randomness()) - old).view(np.uint64)
            words &= np.uint64((1 << task.session.spec.modulus_bits) - 1)
            self._submission = submission(Masked(words, task.planted_first.payload))
        for envelope in hand_in(self):
            if not hasattr(task, "planted_first"):
                pieces = [msgspec.msgpack.decode(body, type=Piece) for body in self._submission]
                task.planted_first = masked_from(b"".join(p.data for p in pieces), task.session.length)
            yield envelope

    with patch.object(FitParty, "prepare", prepared), patch.object(PartyRole, "_submit", submitted):
        yield


@contextmanager
def same_seed() -> Iterator[None]:
    """Every session has the same id, and every party's product the same secrets."""
    child = Randomness.child

    def same(self: Randomness, label: str) -> Randomness:
        return Randomness(b"the same seed") if label == "product" else child(self, label)

    identity = property(lambda self: bytes(range(32)))
    with patch.object(ServerRole, "identity", identity), patch.object(Randomness, "child", same):
        yield


@contextmanager
def bare_u() -> Iterator[None]:
    """u is made without rho and e1."""
    with patch.object(lattice, "draw_wide", lambda randomness, count: np.zeros(count, np.int8)):
        yield


@contextmanager
def rounding_counted_once() -> Iterator[None]:
    """What rounding added is rounded for each term of a sum, where the plan counts one rounding of the sum."""
    added = Sums.added
    with patch.object(Sums, "added", lambda self, rows, columns: np.rint(added(self, rows, columns))):
        yield


@contextmanager
def float_laplace() -> Iterator[None]:
    """Noise comes from a logarithm in floating point."""

    def drawn(self: IntegerNoise, parts: int, source: Randomness) -> Any:
        out = np.zeros(self.size)
        for spread, where in self.spreads:
            out[where] = textbook_laplace(float(spread), source.words(where.size))
        return out

    with patch.object(IntegerNoise, "draw", drawn):
        yield


@contextmanager
def opened_before_noise() -> Iterator[None]:
    """Parties submit cross-party products without noise; the server adds it to what it has opened."""
    prepare, draw, opening = FitParty.prepare, IntegerNoise.draw, FitServer.open

    def bare(self: IntegerNoise, parts: int, source: Randomness) -> Any:
        values = draw(self, parts, source)
        return values if parts == 1 else np.zeros_like(values)

    def prepared(self: FitParty, seat: Any) -> None:
        with patch.object(IntegerNoise, "draw", bare):
            prepare(self, seat)

    def opened(self: FitServer, *told: Any) -> None:
        opening(self, *told)
        assert self.release is not None and self.session is not None
        source = Randomness()
        for i, block in enumerate(self.release.blocks):
            if len(block.owners) > 1:
                for _ in self.session.parties:
                    block.values[...] += draw(self.session.noise(i), self.session.plan.shares, source)

    with patch.object(FitParty, "prepare", prepared), patch.object(FitServer, "open", opened):
        yield


@contextmanager
def unclipped() -> Iterator[None]:
    """Values outside the declared bounds stay outside."""
    with patch("numpy.clip", _unclipped), _unverified():
        yield


@contextmanager
def bounds_from_data() -> Iterator[None]:
    """The smallest and the largest value of a column serve as its bounds."""

    def seen(column: Numeric, values: Any) -> Numeric:
        low, high = (float(np.clip(v, column.low, column.high)) for v in (values.min(), values.max()))
        return Numeric(low, high) if low < high else column

    with _columns(seen):
        yield


@contextmanager
def unmasked_block() -> Iterator[None]:
    """Masks lie over cross-party blocks alone."""
    of = Masked.of.__func__  # type: ignore[attr-defined]

    def without(cls: Any, own: Any, places: Any, contribution: Any, mask: Any, modulus_bits: int) -> Any:
        bare = mask.copy()
        bare[: bare.size - contribution.vector.size] = 0
        return of(cls, own, places, contribution, bare, modulus_bits)

    with patch.object(Masked, "of", classmethod(without)):
        yield


@contextmanager
def none() -> Iterator[None]:
    """The package as it is."""
    yield

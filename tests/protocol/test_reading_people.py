"""A partner that multiplies with weights far outside its bounds reads chosen people: no more than the plan's page says.

Shop multiplies hospital's sealed columns with weights w, 2w, 4w, ... on chosen records, others for each of its levels,
and adds no noise of its own: each opened sum spells as many people's values as it has bits above hospital's noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from colonnade.consent.policy import Policy
from colonnade.crypto.lattice.frames import parcel_places
from colonnade.crypto.lattice.parameters import N
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.words import Planes
from colonnade.data.table import table_from
from colonnade.foundation.errors import PolicyError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.composition import Cap
from colonnade.planning.leakage import people_sentence
from colonnade.planning.session_plan import SessionPlan
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.tasks import Unguarded
from colonnade.report.answers.plan import leakage_of
from colonnade.report.results import Passage
from colonnade.transport.in_process import InProcess
from tests.protocol.test_cheating import levels_session

DIGIT = 13
"""Weights are multiplied in digits of so many bits, by the project's own kernels."""


class Reading(LatticeParty):
    """Multiplies with `weights`, records by levels, in place of its columns; hides nothing and adds no noise."""

    weights = np.zeros((0, 0), np.int64)
    digits: Sequence[int] = ()
    digit = 0

    def __init__(self, spec: Any, *more: Any) -> None:
        super().__init__(replace(spec, bound=1 << DIGIT, gain=1), *more)
        self._rho[:] = 0

    def _rows(self, needed: Any, block: int, blocks: int) -> Any:
        rows = self.weights[block * N : min((block + blocks) * N, self._spec.rows)]
        return (rows >> (DIGIT * self.digit) & ((1 << DIGIT) - 1)).astype(np.int16)

    def receive(self, round: str, sender: str, payload: Any) -> None:
        (share,), taken = self._kept.values(), dict(self._rounds._taken)
        held, share[:] = share.copy(), 0
        for digit in self.digits:
            self.digit = digit
            share <<= np.uint64(DIGIT)
            self._rounds._taken = dict(taken)
            super().receive(round, sender, payload)
        share += held

    def _multiply(self) -> Iterator[Any]:
        u = np.zeros((len(self._right), N), np.uint64)
        for digit in self.digits:
            self.digit = digit
            u <<= np.uint64(DIGIT)
            for columns, words in self._sums_here():
                u[columns] += words
        for place in parcel_places(len(self._right), 0):
            planes = Planes.empty((place.columns, N), self._spec.modulus_bits, self._states.own.scratch)
            planes.write(slice(None), 0, u[place.all_columns] & np.uint64((1 << self._spec.modulus_bits) - 1))
            yield self._states.own.frames.wrap(1, self._me, place, planes)

    def _share(self, cross: Any) -> Any:
        return self._needs.block(self._kept[cross.left], cross)


def read_people(plan: SessionPlan, bits: int) -> tuple[int, int]:
    """How many people were chosen, and of how many it is told rightly whether they are ill."""
    rows, modulus, (cross,) = plan.rows, 1 << plan.spec.modulus_bits, plan.spec.crosses
    draw = np.random.default_rng(bits)
    step = plan.grid.bound * plan.spec.gain
    size = modulus // (step << bits)
    people = draw.permutation(rows)[: cross.shape[1] * bits].reshape(cross.shape[1], bits)
    Reading.weights = np.zeros((rows, cross.shape[1]), np.int64)
    for column, chosen in enumerate(people):
        Reading.weights[chosen, column] = size << np.arange(bits)
    Reading.digits = range(int(Reading.weights.max()).bit_length() // DIGIT, -1, -1)
    hiv, ill = (draw.choice(["n", "y"], rows) for _ in range(2))
    data = {
        "hospital": {"hiv": hiv, "age": draw.uniform(18, 100, rows), "L": ill},
        "shop": {"zip": draw.integers(0, cross.shape[1], rows).astype(str)},
    }
    roles = {}
    for name, columns in data.items():
        own = table_from(name, pl.DataFrame(columns), plan.agreement.schema.parties[name])
        kind = Reading if name == "shop" else LatticeParty
        product = partial(lambda kind, session, workers: kind, kind)
        task = FitParty(name, plan.agreement, "none", partial(lambda own: own, own), Unguarded(), product=product)
        roles[name] = PartyRole(task, Randomness(), None)
    server = FitServer(plan.agreement, "none")
    InProcess(ServerRole(server, Randomness()), roles).carry()
    assert server.session is not None and server.release is not None
    opened = np.zeros(server.session.length, np.int64)
    for i, block in enumerate(server.release.blocks):
        opened[server.session.positions[i]] = block.values
    # The last sealed column is the level "y" of the label, 0 or bound: a sum is a whole number of steps, and noise.
    sums = opened[server.session.cross_start :].reshape(cross.shape)[-1] % modulus
    read = np.rint(sums / (step * size)).astype(np.int64)[:, None] >> np.arange(bits) & 1
    return people.size, int((read == (ill[people] == "y")).sum())


def law_of_reading(bits: int, scale: float) -> tuple[float, NDArray[np.float64]]:
    """Bits of information in one value, and how likely each number of wrong bits in it is, by the Laplace law alone.

    People are drawn evenly, so their number V is uniform below 2^bits, and what is read is V + K modulo 2^bits, K being
    the noise rounded to whole steps: P(K = 0) = 1 - e^(-1/2s), P(K = k) = (1 - e^(-1/s)) e^(-(|k| - 1/2)/s) / 2. Of V
    it tells exactly bits - H(K), as K does not depend on V.
    """
    k = np.arange(1, 1 << (bits - 1))
    tail = -np.expm1(-1 / scale) * np.exp(-(k - 0.5) / scale) / 2
    chance = np.concatenate([tail[::-1], [-np.expm1(-0.5 / scale)], tail])
    held = chance[chance > 0]
    wrong = np.zeros(bits + 1)
    numbers = np.arange(1 << bits)
    for step, one in zip(range(-len(k), len(k) + 1), chance, strict=True):
        if one > 1e-18:
            differ = np.bitwise_count(numbers + step & (1 << bits) - 1 ^ numbers)
            wrong += one * np.bincount(differ, minlength=bits + 1) / (1 << bits)
    return bits + float(held @ np.log2(held)), wrong


@pytest.mark.parametrize(("levels", "rows"), [(12, 20_000), (40, 4_000)])
@pytest.mark.parametrize("bits", [9, 12, 15])
def test_no_more_people_are_read_than_the_page_says(bits: int, levels: int, rows: int) -> None:
    """The page bounds bits of information, a person's yes or no being one of them.

    What is read is held to the law that says how much this attack tells: an honest run lies outside with probability
    at most 1e-7. A share of guesses that happen to be right says nothing of information.
    """
    plan = levels_session(levels, rows=rows)
    page = {told.partner: told.people for told in plan.tellings}["hospital"]
    asked, right = read_people(plan, bits)
    noise = plan.cross_noise(plan.plan.share("hospital"))
    (spread,) = (spread for spread, where in noise.spreads if noise.size - 1 in where)
    told, wrong = law_of_reading(bits, float(spread) / 2 ** (plan.spec.modulus_bits - bits))
    values = asked // bits
    whole = np.array([1.0])
    for _ in range(values):
        whole = np.convolve(whole, wrong)
    below, above = whole[: asked - right + 1].sum(), whole[asked - right :].sum()
    assert min(below, above) > 0.5e-7
    assert values * told <= page
    # The page counts the smallest share of all parties, which is not hospital's: it may be higher by a bit a value.
    assert bits < 15 or values * told > 0.85 * page
    assert bits > 9 or values * told > (0.99 if levels == 12 else 0.8) * asked
    # A policy that allows fewer than could be read refuses, and one that allows what the page says agrees.
    policy = Policy("hospital", ("shop",), 10.0, Cap(10.0), smallest_key_bits=0, largest_bits_told=page)
    policy.check(plan)
    with pytest.raises(PolicyError, match=f"the plan has {page}"):
        replace(policy, largest_bits_told=int(values * told) - 1).check(plan)
    sentence = people_sentence(plan.tellings, plan.rows)
    assert f"up to {page} people" in sentence and Passage(sentence, "soft") in leakage_of(plan)

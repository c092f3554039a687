"""One session: from the public agreement, n and the session id to all numbers of the plan, alike at all sides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import log2, sqrt
from typing import Any

import numpy as np

from colonnade.crypto.backends import BACKENDS, chain_bytes, chain_party, proof_bytes, proven_party, require_chains
from colonnade.crypto.product import Backend, ChainSpec, Cross, Integers, ProductSizes, ProductSpec
from colonnade.foundation.canonical import canonical_digest
from colonnade.foundation.grid import Grid
from colonnade.foundation.integers import IntegerColumns
from colonnade.mechanism.blocks import IntegerNoise
from colonnade.mechanism.dissection import Block, allocate
from colonnade.mechanism.forecast import (
    Forecast,
    degree_of,
    forecast,
    forecast_tables,
    mean_noise,
    mean_noise_text,
)
from colonnade.mechanism.moments import Floats
from colonnade.mechanism.objective import Calibration
from colonnade.mechanism.plan import PrivacyPlan, Terms, View
from colonnade.mechanism.release import fraction_text
from colonnade.mechanism.table_error import TableForecast
from colonnade.planning.agreement import Agreement
from colonnade.planning.crosses import CrossPlaces, crosses_of, party_product, span_of
from colonnade.planning.leakage import (
    Leakage,
    Telling,
    chain_exposures,
    exposures,
    most_values,
    tellings,
    value_bits,
    worst_of,
)
from colonnade.planning.local_columns import LocalPlan, encoded_blocks
from colonnade.planning.precision import (
    check_rows,
    check_squares,
    cross_reach,
    fit_sizes,
    grid_bound,
    require_room,
)
from colonnade.planning.proofs import (
    choose_proofs,
    committed_bits,
    describe_proofs,
    promise_of,
    proved_groups,
    require_provable,
)
from colonnade.planning.query import Query

TYPICAL_ROWS = 10_000
"""Stands for n where a plan is wanted before n is known."""


@dataclass(frozen=True)
class SessionPlan:
    """The plan with its integers: grid, blocks in the order of the submitted vector, and the secure product's sizes."""

    agreement: Agreement
    rows: int
    identity: bytes
    plan: PrivacyPlan
    grid: Grid
    spec: ProductSpec
    query: Query
    """What is released: the agreement's query, once settled."""
    local: LocalPlan | None = None
    """What parties make of their columns, where there are interactions."""
    chain_gains: Mapping[int, int] = field(default_factory=dict)
    """For products of each number of owners above two, their gain."""
    unproved: str = ""
    """Why parties prove nothing of what they send, where the agreement would have it where it fits."""

    @property
    def proved(self) -> bool:
        """Whether parties prove that what they send is made of numbers within their bounds."""
        return bool(self.spec.groups)

    @property
    def released(self) -> str:
        """The word for what is released."""
        return self.query.word

    @property
    def parties(self) -> tuple[str, ...]:
        return self.spec.parties

    @cached_property
    def single(self) -> tuple[int, ...]:
        """Blocks of one owner, first in the submitted vector."""
        return tuple(i for i, item in enumerate(self.plan.blocks) if item.block.single)

    def own(self, party: str) -> tuple[int, ...]:
        """Of the blocks that are allocated to a party, those that it computes alone; crosses name the others."""
        mine = {id(block) for block in allocate(tuple(item.block for item in self.plan.blocks), party)}
        return tuple(i for i in self.single if id(self.plan.blocks[i].block) in mine)

    def shared_sums(self, party: str) -> tuple[int, ...]:
        """Sums of two owners' terms to which a party adds squares of its own."""
        items = enumerate(self.plan.blocks)
        return tuple(
            i for i, item in items if item.block.summed and not item.block.single and party in item.block.owners
        )

    @cached_property
    def adds_up(self) -> bool:
        """Whether the words that parties hand in add up to the released integers, each of them to one and none besides.

        Then whoever has the release learns nothing from all submissions (proofs/masks.md).
        """
        taken = np.zeros(self.length, dtype=bool)
        for place in self.positions.values():
            taken[place] = True
        once = taken.all() and sum(place.size for place in self.positions.values()) == self.length
        return bool(once) and (BACKENDS[self.agreement.product].shared or not self.spec.crosses)

    @cached_property
    def positions(self) -> dict[int, Integers]:
        """Where each block's values stand in the submitted vector: single-party blocks, then crosses, flattened."""
        out: dict[int, Integers] = {}
        start = 0
        for i in self.single:
            size = self.plan.blocks[i].block.size
            out[i] = np.arange(start, start + size)
            start += size
        if self.local is not None:
            return out | self.local.positions(self.spec.crosses, start)
        place = CrossPlaces(self.plan.layout, self.spec, start)
        for i, item in enumerate(self.plan.blocks):
            if not item.block.single:
                out[i] = place.of(item.block)
        return out

    @cached_property
    def cross_start(self) -> int:
        return sum(self.plan.blocks[i].block.size for i in self.single)

    @cached_property
    def length(self) -> int:
        """Numbers in the submitted vector."""
        return self.chain_start + (0 if self.chains is None else self.chains.values)

    @cached_property
    def chain_start(self) -> int:
        """Where products of more than two owners begin in the submitted vector."""
        return self.cross_start + sum(c.shape[0] * c.shape[1] for c in self.spec.crosses)

    @cached_property
    def chains(self) -> ChainSpec | None:
        """The products of more than two owners, if there are any."""
        if self.local is None or not self.local.chains:
            return None
        spec, gains = self.spec, tuple(self.chain_gains[len(chain.owners)] for chain in self.local.chains)
        return ChainSpec(spec.session, spec.parties, spec.rows, spec.bound, self.local.chains, spec.modulus_bits, gains)

    @property
    def product_rounds(self) -> tuple[str, ...]:
        """The rounds of all products of the session, in their order."""
        product = party_product(self.agreement.product)
        rounds = (proven_party(product) if self.proved else product).rounds if self.spec.crosses else ()
        return rounds if self.chains is None else rounds + chain_party(self.agreement.product).rounds(self.chains)

    def made_columns(self, party: str, encoded: IntegerColumns, coins: bytes) -> IntegerColumns:
        """A party's columns with what it makes of them behind."""
        return encoded if self.local is None else self.local.made_columns(party, encoded, coins)

    def own_block(self, index: int) -> Block:
        """A block of one owner in places of its columns, those that it makes among them."""
        return self.plan.blocks[index].block if self.local is None else self.local.own_block(index)

    def unit(self, block: Block) -> int:
        """What one integer of a block is a fraction of."""
        if (owners := len(block.owners)) > 2:
            return int(self.grid.bound**owners) * self.chain_gains[owners]
        return self.grid.unit if block.single else self.grid.unit * self.spec.gain

    def released_std(self, index: int) -> Floats:
        """The standard deviation of the noise on each released moment of a block, all shares counted."""
        return self._released_stds[index]

    @cached_property
    def _released_stds(self) -> tuple[Floats, ...]:
        return tuple(self._released_std(index) for index in range(len(self.plan.blocks)))

    def _released_std(self, index: int) -> Floats:
        block = self.plan.blocks[index].block
        shares = 1.0 if block.single else self.plan.crossed
        return self.noise(index).stds() * sqrt(shares) / self.unit(block)

    def noise(self, index: int, part: Fraction = Fraction(1)) -> IntegerNoise:
        """The law of a block's noise, or of a share that has this part of its scale."""
        item = self.plan.blocks[index]
        return IntegerNoise.of(item.block, item.scale * part, self.plan.law, self.unit(item.block))

    def cross_noise(self, part: Fraction) -> IntegerNoise:
        """The law of the noise on all products of two parties, as they stand in the submitted vector, at that scale."""
        places: dict[Fraction, list[Integers]] = {}
        for i, item in enumerate(self.plan.blocks):
            if not item.block.single:
                where = self.positions[i] - self.cross_start
                for spread, which in self.noise(i, part).spreads:
                    places.setdefault(spread, []).append(where[which])
        spreads = tuple((spread, np.concatenate(parts)) for spread, parts in places.items())
        return IntegerNoise(self.plan.law, spreads, self.length - self.cross_start)

    def columns_of(self, party: str) -> slice:
        """The coordinates that a party's integer columns fill, in order."""
        return span_of(self.plan.layout, party)

    @property
    def backend(self) -> Backend:
        """The secure product."""
        return BACKENDS[self.agreement.product]

    @cached_property
    def sent(self) -> dict[str, int]:
        """The bytes that each party is expected to send: sealed columns, products and the submission."""
        sizes = [self.backend.sent(self.spec, k) if self.spec.crosses else 0 for k in range(len(self.parties))]
        if self.proved:
            sizes = [size + proof_bytes(self.spec, k) for k, size in enumerate(sizes)]
        if self.chains is not None:
            sizes = [size + chain_bytes(self.agreement.product, self.chains, k) for k, size in enumerate(sizes)]
        return {name: 8 * self.length + size for name, size in zip(self.parties, sizes, strict=True)}

    @property
    def in_the_clear(self) -> bool:
        """Whether columns pass between the roles as they are, so that an outsider alone sees just the release."""
        return not self.backend.private and len(self.parties) > 1

    def views(self, party: str | None = None) -> dict[View, float | None]:
        """The epsilon of a party's part, or of the whole record, against each view; None where nothing is promised."""
        planned = self.plan.record if party is None else self.plan.parties[party]
        return {view: None if self.in_the_clear and view is not View.OUTSIDER else planned[view] for view in View}

    @cached_property
    def exposures(self) -> tuple[Leakage, ...]:
        """What each party could read of each partner's keys if it did not follow the protocol."""
        left, collusion = self.backend.key_left, self.plan.collusion
        if left is None or self.proved:
            return ()
        noise, at = self.cross_noise(min(map(self.plan.share, self.parties))), self.chain_start - self.cross_start
        found = () if not self.spec.crosses else exposures(self.spec, noise.part(0, at), collusion, left)
        if self.chains is not None:
            found += chain_exposures(self.chains, noise.part(at), collusion, left)
        return worst_of(found)

    @cached_property
    def tellings(self) -> tuple[Telling, ...]:
        """What each party's partners could be told of its records if they did not follow the protocol."""
        if not self.backend.private or self.length == self.cross_start or self.proved:
            return ()
        # Where no key is spelt, opened integers are searched for within their reach.
        word = self.spec.modulus_bits if self.backend.key_left else log2(2 * self.spec.reach + 1)
        noise = self.cross_noise(min(map(self.plan.share, self.parties)))
        bits, at = value_bits(noise, word, self.plan.collusion == 0), self.chain_start - self.cross_start
        return tellings(self.spec, bits[:at], self.chains, bits[at:], self.plan.collusion)

    def leave_bits(self, exposure: Leakage, bits: int) -> str:
        """What would leave that many bits of a partner's keys, in one sentence."""
        assert self.backend.key_left is not None
        most = most_values(exposure, self.spec.modulus_bits, bits, self.backend.key_left)
        return (
            f"at most {most:,} columns or levels of {' and '.join(exposure.cheaters)} would leave {bits} at the same "
            f"modulus of 2^{self.spec.modulus_bits}; fewer records and a smaller epsilon raise the number too"
        )

    @cached_property
    def forecast(self) -> Forecast:
        return forecast(self.plan, self.rows, classes=self.agreement.classes)

    @cached_property
    def table_forecast(self) -> TableForecast | None:
        """What to expect of tables of two columns, where columns have levels."""
        return forecast_tables(self.plan, self.rows)

    @cached_property
    def described(self) -> Mapping[str, Any]:
        """The same as `describe`, computed once: every party compares a release with it."""
        return self.describe()

    def describe(self) -> dict[str, Any]:
        """The plan as one JSON object."""
        plan = self.plan
        terms = self.agreement.terms()
        asked = {key: terms[key] for key in ("interval", "ball", "objective", "parameters")}
        if plan.layout.has_interactions:
            asked["degree"] = degree_of(plan)
        return {
            **{key: list(value) if key == "parameters" else value for key, value in asked.items() if value},
            "study": self.agreement.name,
            "task": plan.task.value,
            "n": self.rows,
            "epsilon": plan.epsilon,
            "delta": plan.delta,
            "collusion": plan.collusion,
            "calibration": plan.calibration.value,
            "product": self.agreement.product,
            "law": plan.law.value,
            "neighbours": plan.neighbours.value,
            "released": self.released,
            "record": _named(self.views()),
            "parties": {
                name: {
                    "columns": list(self.agreement.schema.parties[name]),
                    "epsilon": _named(self.views(name)),
                }
                for name in self.parties
            },
            "blocks": [
                {
                    "owners": list(item.block.owners),
                    "role": item.block.role.value,
                    "name": item.block.name,
                    "terms": item.block.size,
                    "sensitivity": float(item.sensitivity),
                    "scale": float(item.scale),
                    "scale_exact": fraction_text(item.scale),
                    "noise_std": plan.noise_std(item),
                }
                for item in plan.blocks
            ],
            "grid": {"bound": self.grid.bound, "modulus_bits": self.spec.modulus_bits, "gain": self.spec.gain},
            "error_factor": fraction_text(plan.error_factor),
            **({"narrowed": _texts(plan.narrowed)} if plan.narrowed else {}),
            **describe_proofs(self),
            **({"class_share": list(self.agreement.class_share)} if self.agreement.class_share else {}),
            "forecast": self.forecast.describe(),
        }

    @cached_property
    def digest(self) -> str:
        """Over the agreement, n, the session and every number that decides a promise."""
        decided = [
            [list(i.block.owners), i.block.role.value, i.block.size, fraction_text(i.scale)] for i in self.plan.blocks
        ]
        content = {
            "agreement": self.agreement.to(),
            "n": self.rows,
            "session": self.identity.hex(),
            "blocks": decided,
            "bound": self.grid.bound,
            "modulus_bits": self.spec.modulus_bits,
            "gain": self.spec.gain,
            "error_factor": fraction_text(self.plan.error_factor),
            "release": self.released,
        }
        if self.proved:
            content["proofs"] = promise_of(self)
        if self.plan.narrowed:
            content["narrowed"] = _texts(self.plan.narrowed)
        if self.chain_gains:
            content["chain_gains"] = {str(owners): gain for owners, gain in sorted(self.chain_gains.items())}
        return canonical_digest(content)

    @cached_property
    def terms(self) -> str:
        """The digest under the session id of zeros: what a person can approve before there is a session."""
        return self.digest if not any(self.identity) else replace(self, identity=bytes(32)).digest

    @cached_property
    def label_noise(self) -> float | None:
        """Standard deviation of the noise on a numeric label's mean, as a share of the label's bounds."""
        return mean_noise(self.plan, self.rows)

    @property
    def label_noise_text(self) -> str:
        """The same in the label's own units, for a person; empty where it is not known."""
        if self.label_noise is None:
            return ""
        party, name = self.agreement.schema.find(self.agreement.label)
        return mean_noise_text(self.label_noise, name, self.agreement.schema.parties[party][name])

    def warnings(self) -> list[str]:
        """What a person should know before spending."""
        from colonnade.planning.warnings import warnings_of

        second = self.agreement
        if second.query.higher.order > 2:
            second = second.with_terms(order=2, interval=None, ball=None)
        return warnings_of(self, lambda: plan_session(second, self.rows, self.identity).plan)


def _texts(parts: Mapping[str, Fraction]) -> dict[str, str]:
    return {party: fraction_text(part) for party, part in sorted(parts.items())}


def _named(views: dict[View, float | None]) -> dict[str, float | None]:
    return {view.value: epsilon for view, epsilon in views.items()}


_computed: ContextVar[dict[tuple[str, int, bytes], SessionPlan] | None] = ContextVar("computed", default=None)


@contextmanager
def plan_once() -> Iterator[None]:
    """Within this context the same terms are planned once: where all roles share a process, all compute the same."""
    token = _computed.set({})
    try:
        yield
    finally:
        _computed.reset(token)


def plan_session(agreement: Agreement, rows: int, identity: bytes) -> SessionPlan:
    """Compute the plan of a session; the server proposes it and every party computes it again."""
    computed = _computed.get()
    if computed is None:
        return _plan_session(agreement, rows, identity)
    # Parties stand in the order of the schema, which decides the plan: keys are not sorted.
    key = (json.dumps(agreement.to()), rows, identity)
    if key not in computed:
        computed[key] = _plan_session(agreement, rows, identity)
    return computed[key]


def draft_plan(agreement: Agreement, rows: int) -> tuple[Query, PrivacyPlan]:
    """What is released, and the scales of its noise before rounding and the product's own error are paid for."""
    agreement.require_counted_bins()
    draft = agreement.query.draft(agreement)
    query = agreement.query.settled(agreement, draft, rows)
    layout = query.layout(agreement, draft)
    blocks = query.blocks(agreement, layout)
    return query, agreement.budget.plan(layout, blocks, replace(_terms(agreement, rows), draft=True, promised=False))


def foretold(agreement: Agreement, rows: int) -> tuple[float, float | None]:
    """The epsilon of a record and the share of what could be explained that survives the noise, of terms as planned."""
    epsilon, exact = agreement.budget.epsilon, agreement.calibration is Calibration.EXACT
    # An epsilon of the whole record is kept by construction: what each view learns need not be worked out.
    session = _plan_session(agreement, rows, bytes(32), promised=epsilon is None or not exact)
    return session.plan.epsilon if epsilon is None or not exact else epsilon, session.forecast.explained


def _plan_session(agreement: Agreement, rows: int, identity: bytes, promised: bool = True) -> SessionPlan:
    return choose_proofs(agreement, lambda proved: _planned(agreement, rows, identity, promised, proved))


def _planned(agreement: Agreement, rows: int, identity: bytes, promised: bool, proved: bool) -> SessionPlan:
    check_rows(rows)
    query, plan = draft_plan(agreement, rows)
    layout, blocks = plan.layout, tuple(item.block for item in plan.blocks)
    check_squares(rows, blocks)
    local = None
    sizes, choose = ProductSizes(), BACKENDS[agreement.product].sizes
    if layout.any_terms:
        crosses: tuple[Cross, ...] = ()
    else:
        crosses = crosses_of(layout, encoded_blocks(layout, blocks), query.seals(layout))
    if layout.has_interactions:
        local = LocalPlan(layout, blocks)
        crosses = local.crosses(crosses)
        if local.chains:
            require_chains(agreement.product)
        sizes = ProductSizes(chain_gains={len(chain.owners): 1 for chain in local.chains})
    if proved and len(layout.owners) > 1:
        require_provable(agreement, layout)
    proved = proved and bool(crosses)
    if choose is not None and (crosses or (local is not None and local.chains)):
        grid, sizes = fit_sizes(plan, rows, choose, local, proved)
    else:
        grid = Grid(grid_bound(plan, rows))
    # What rounding and the product's own error cost is known now, and is paid for.
    paid = replace(_terms(agreement, rows), bound=grid.bound, error_factor=sizes.error_factor, errors=sizes.moves)
    plan = agreement.budget.plan(layout, blocks, replace(paid, promised=promised))
    reach = sizes.reach or cross_reach(plan, rows, grid)
    groups = proved_groups(agreement, layout) if proved else ()
    words = sizes.modulus_bits, sizes.gain, reach
    spec = ProductSpec(identity, layout.owners, rows, grid.bound, crosses, *words, groups)
    committed_bits(spec)
    require_room(plan, spec, sizes.error, sizes.chain_gains)
    return SessionPlan(agreement, rows, identity, plan, grid, spec, query, local, sizes.chain_gains)


def _terms(agreement: Agreement, rows: int) -> Terms:
    terms = Terms(agreement.task, agreement.calibration, agreement.delta, agreement.collusion, rows=rows)
    return replace(terms, purpose=agreement.query.purpose)

"""The secure products that a study may name, and which of them may leave one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from colonnade.crypto.lattice.backend import LATTICE
from colonnade.crypto.product import Backend, ChainParty, ChainSpec, PartyProduct, ProductSpec, ServerProduct
from colonnade.foundation.errors import StudyError
from colonnade.foundation.registry import Registry


class _Roles(NamedTuple):
    """What a product is made of."""

    party: type[PartyProduct]
    server: type[ServerProduct]
    sent: Callable[[ProductSpec, int], int]
    seconds: Callable[[ProductSpec], float]


# A session loads the product that it runs: the paper's libraries are an extra besides.
def _bgn() -> _Roles:
    from colonnade.crypto.bgn.layout import planned_bytes
    from colonnade.crypto.bgn.logarithm import predicted_seconds
    from colonnade.crypto.bgn.party import BgnParty
    from colonnade.crypto.bgn.server import BgnServer

    return _Roles(BgnParty, BgnServer, planned_bytes, predicted_seconds)


def _plain() -> _Roles:
    from colonnade.crypto.plain import PlainParty, PlainServer, planned_bytes, predicted_seconds

    return _Roles(PlainParty, PlainServer, planned_bytes, predicted_seconds)


def _lazily(name: str, private: bool, load: Callable[[], _Roles], **more: Any) -> Backend:
    return Backend(
        name,
        private,
        lambda device, spec: load().party,
        lambda: load().server,
        lambda spec, me: load().sent(spec, me),
        lambda spec: load().seconds(spec),
        **more,
    )


BGN = _lazily("bgn", True, _bgn, shared=False)
PLAIN = _lazily("plain", False, _plain)
BACKENDS: Registry[Backend] = Registry("product", StudyError)
for _backend in (LATTICE, BGN, PLAIN):
    BACKENDS.add(_backend.name, _backend)


def _lattice_chain() -> type[ChainParty]:
    from colonnade.crypto.chains.party import LatticeChain

    return LatticeChain


def _plain_chain() -> type[ChainParty]:
    from colonnade.crypto.chains.in_the_clear import PlainChain

    return PlainChain


CHAINS: dict[str, Callable[[], type[ChainParty]]] = {LATTICE.name: _lattice_chain, PLAIN.name: _plain_chain}
"""The products that serve more than two owners; loaded when they are called for, as few studies have such products."""


def require_chains(name: str) -> None:
    """Refuse a product that has no way to multiply more than twice."""
    if name not in CHAINS:
        serve = " and ".join(f'"{other}"' for other in CHAINS)
        raise StudyError(
            f'products of three owners and more are made by product {serve}, got product="{name}": it multiplies once'
        )


def chain_party(name: str) -> type[ChainParty]:
    """A party's side of products of three owners and more."""
    require_chains(name)
    return CHAINS[name]()


def chain_bytes(name: str, spec: ChainSpec, me: int) -> int:
    """The bytes that one party sends for products of three owners and more."""
    return chain_party(name).planned_bytes(spec, me)


def proven_party(inner: type[PartyProduct]) -> type[PartyProduct]:
    """A party's side that proves that what this one sends is made of numbers within their bounds."""
    from colonnade.crypto.ranges.party import proven_kind

    return proven_kind(inner)


def proof_bytes(spec: ProductSpec, me: int) -> int:
    """The bytes that one party sends for its proofs, and for those of its partners."""
    from colonnade.crypto.ranges.party import planned_proof_bytes

    return planned_proof_bytes(spec, me)


def require_private(name: str) -> Backend:
    """The product of this name, once it may leave the process: it must show no column to another role."""
    backend = BACKENDS[name]
    if not backend.private:
        raise StudyError(f'product = "{name}" shows columns to others and stays in one process: use "lattice"')
    return backend

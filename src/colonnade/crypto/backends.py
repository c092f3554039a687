"""The secure products that a study may name, and which of them may leave one process."""

from __future__ import annotations

from collections.abc import Callable

from colonnade.crypto.lattice.backend import LATTICE
from colonnade.crypto.product import Backend, ChainParty, ChainSpec, PartyProduct, ProductSpec, ServerProduct
from colonnade.foundation.errors import StudyError
from colonnade.foundation.registry import Registry


def _bgn_party(device: str, spec: ProductSpec | None) -> type[PartyProduct]:
    from colonnade.crypto.bgn.party import BgnParty

    return BgnParty


def _bgn_server() -> type[ServerProduct]:
    from colonnade.crypto.bgn.server import BgnServer

    return BgnServer


def _bgn_sent(spec: ProductSpec, me: int) -> int:
    from colonnade.crypto.bgn.layout import planned_bytes

    return planned_bytes(spec, me)


def _bgn_seconds(spec: ProductSpec) -> float:
    from colonnade.crypto.bgn.logarithm import predicted_seconds

    return predicted_seconds(spec)


def _plain_party(device: str, spec: ProductSpec | None) -> type[PartyProduct]:
    from colonnade.crypto.plain import PlainParty

    return PlainParty


def _plain_server() -> type[ServerProduct]:
    from colonnade.crypto.plain import PlainServer

    return PlainServer


def _plain_sent(spec: ProductSpec, me: int) -> int:
    from colonnade.crypto.plain import planned_bytes

    return planned_bytes(spec, me)


def _plain_seconds(spec: ProductSpec) -> float:
    from colonnade.crypto.plain import predicted_seconds

    return predicted_seconds(spec)


# A session loads the product that it runs: the paper's libraries are an extra besides.
BGN = Backend("bgn", True, _bgn_party, _bgn_server, _bgn_sent, _bgn_seconds, shared=False)
PLAIN = Backend("plain", False, _plain_party, _plain_server, _plain_sent, _plain_seconds)
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

"""The lattice product as the protocol sees it: its sizes from a plan's needs, its bytes and its CPU time."""

from __future__ import annotations

from math import floor, sqrt

from colonnade.crypto.lattice.parameters import (
    ERROR_VARIANCE,
    MODULUS_BITS,
    SECRET_DISTRIBUTION,
    SECRET_VARIANCE,
    WIDE_DISTRIBUTION,
    WIDE_VARIANCE,
    N,
    chain_gain,
    chain_move,
    choose_parameters,
    error_factor,
    lattice_error,
)
from colonnade.crypto.lattice.security import key_bits, readable_coefficients
from colonnade.crypto.product import (
    Backend,
    KeyLeft,
    PartyProduct,
    ProductNeeds,
    ProductSizes,
    ProductSpec,
    ServerProduct,
)
from colonnade.foundation.errors import ProductError

# The cost model that `python -m experiments overhead` fits, in docs/results/overhead.json.
SECONDS_A_SESSION = 8.97e-3
SECONDS_A_SEALED_WORD = 19.5e-9  # fitted, as above
SECONDS_A_RECEIVED_WORD = 14.24e-9  # fitted, as above
SECONDS_A_TERM = 0.0913e-9  # fitted, as above


def party(device: str, spec: ProductSpec | None) -> type[PartyProduct]:
    """With a specification in compiled loops, where they are installed and the session is large enough."""
    if device != "cpu":
        from colonnade.crypto.lattice.device import DeviceParty

        return DeviceParty
    if spec is not None:
        from colonnade.crypto.lattice.compiled import best_party

        return best_party(spec)
    from colonnade.crypto.lattice.party import LatticeParty

    return LatticeParty


def server() -> type[ServerProduct]:
    from colonnade.crypto.lattice.server import LatticeServer

    return LatticeServer


def sizes(needs: ProductNeeds) -> ProductSizes:
    bits = _chain_bits(needs)
    chosen = choose_parameters(
        needs.rows,
        needs.bound,
        needs.noise_std,
        needs.noise_reach,
        needs.columns + sum(chain.sealed for chain in needs.chains),
        levels=needs.levels,
        share=needs.share,
        hints=needs.hints,
        own_reach=needs.own_reach,
        least_bits=bits,
        proved=needs.proved,
    )
    most = max((chain.owners - 1 for chain in needs.chains), default=1)
    error = lattice_error(needs.rows, needs.bound)[1] * most
    factor = error_factor(chosen, needs.bound, needs.levels)
    gains = _chain_gains(needs, chosen.modulus_bits)
    if gains is None:
        raise _too_long(needs)
    moves = {2: chain_move(2, needs.bound, chosen.gain)}
    moves |= {owners: chain_move(owners, needs.bound, gain) for owners, gain in gains.items()}
    return ProductSizes(chosen.gain, chosen.modulus_bits, chosen.reach, error, factor, gains, moves)


def _chain_bits(needs: ProductNeeds) -> int:
    """The shortest words that hold products of more than two owners."""
    for bits in MODULUS_BITS:
        if _chain_gains(needs, bits) is not None:
            return bits
    raise _too_long(needs)


def _chain_gains(needs: ProductNeeds, bits: int) -> dict[int, int] | None:
    """The gains of products of more than two owners in words of so many bits; None where these are too short."""
    found = {
        chain.owners: chain_gain(
            chain.owners,
            needs.rows,
            needs.bound,
            chain.noise_std,
            chain.noise_reach,
            bits,
            share=needs.share,
            hints=needs.hints,
        )
        for chain in needs.chains
    }
    gains = {owners: gain for owners, gain in found.items() if gain is not None}
    return gains if len(gains) == len(found) else None


def _too_long(needs: ProductNeeds) -> ProductError:
    most = max(chain.owners for chain in needs.chains)
    return ProductError(
        f"with n={needs.rows} records and numbers of {needs.bound} steps products of {most} owners do not fit words of "
        f"{MODULUS_BITS[-1]} bits: fewer records, fewer owners or a smaller epsilon would"
    )


def key_left(modulus_bits: int, information: float, sealed: bool) -> KeyLeft:
    """Of s, which hides a sealed column, or of rho, which hides one that multiplies."""
    law, secret, error = SECRET_DISTRIBUTION, SECRET_VARIANCE, ERROR_VARIANCE
    if not sealed:
        law, secret, error = WIDE_DISTRIBUTION, WIDE_VARIANCE, WIDE_VARIANCE
    read = readable_coefficients(information, law)
    bits = key_bits(N - read, modulus_bits, sqrt(secret), sqrt(error))
    return KeyLeft(read, N - read, floor(bits))


def sent(spec: ProductSpec, me: int) -> int:
    from colonnade.crypto.lattice.party import planned_bytes

    return planned_bytes(spec, me)


def seconds(spec: ProductSpec) -> float:
    """CPU seconds of all parties together."""
    sealed = {(c.left, column) for c in spec.crosses for column in range(c.left_start, c.left_stop)}
    receivers = {(c.left, c.right) for c in spec.crosses}
    received = sum(1 for left, _ in sealed for to in receivers if to[0] == left)
    terms = sum(c.shape[0] * c.shape[1] for c in spec.crosses)
    each = len(sealed) * SECONDS_A_SEALED_WORD + received * SECONDS_A_RECEIVED_WORD + terms * SECONDS_A_TERM
    return SECONDS_A_SESSION + spec.rows * each


LATTICE = Backend(
    name="lattice",
    private=True,
    party=party,
    server=server,
    sent=sent,
    seconds=seconds,
    sizes=sizes,
    key_left=key_left,
    devices=("cpu", "cuda"),
    assumptions="ring-LWE, X25519, AES",
)

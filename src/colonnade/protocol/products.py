"""Which class stands behind each product's name; the pairing library is loaded only when it is asked for."""

from __future__ import annotations

from colonnade.crypto.lattice.product import LatticeParty, LatticeServer
from colonnade.crypto.plain import PlainParty, PlainServer
from colonnade.crypto.product import PartyProduct, ProductSpec, ServerProduct
from colonnade.foundation.errors import StudyError


def party_product(name: str, device: str = "cpu", spec: ProductSpec | None = None) -> type[PartyProduct]:
    """A party's side; with a `spec` in compiled loops where they are installed and the session is large enough."""
    if device != "cpu":
        if name != "lattice":
            raise StudyError(f'device {device} serves product "lattice", got product="{name}"')
        from colonnade.crypto.lattice.device import DeviceParty

        return DeviceParty
    if name == "bgn":
        from colonnade.crypto.bgn.product import BgnParty

        return BgnParty
    if name == "lattice" and spec is not None:
        from colonnade.crypto.lattice.compiled import best_party

        return best_party(spec)
    return {"lattice": LatticeParty, "plain": PlainParty}[name]


def server_product(name: str) -> type[ServerProduct]:
    if name == "bgn":
        from colonnade.crypto.bgn.product import BgnServer

        return BgnServer
    return {"lattice": LatticeServer, "plain": PlainServer}[name]

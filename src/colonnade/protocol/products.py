"""Which class stands behind each product's name, on which device."""

from __future__ import annotations

from colonnade.crypto.backends import BACKENDS
from colonnade.crypto.product import PartyProduct, ProductSpec, ServerProduct
from colonnade.foundation.errors import StudyError


def party_product(name: str, device: str = "cpu", spec: ProductSpec | None = None) -> type[PartyProduct]:
    """A party's side; with a `spec` the one that takes least time for such a session."""
    backend = BACKENDS[name]
    if device not in backend.devices:
        serves = ", ".join(f'"{other.name}"' for other in BACKENDS if device in other.devices) or "none"
        raise StudyError(f'device {device} serves product {serves}, got product="{name}"')
    return backend.party(device, spec)


def server_product(name: str) -> type[ServerProduct]:
    return BACKENDS[name].server()

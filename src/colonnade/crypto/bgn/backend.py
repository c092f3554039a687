"""The paper's product as the protocol sees it; its libraries are an extra, and loaded when it is used."""

from __future__ import annotations

from colonnade.crypto.product import Backend, PartyProduct, ProductSpec, ServerProduct


def party(device: str, spec: ProductSpec | None) -> type[PartyProduct]:
    from colonnade.crypto.bgn.party import BgnParty

    return BgnParty


def server() -> type[ServerProduct]:
    from colonnade.crypto.bgn.server import BgnServer

    return BgnServer


def sent(spec: ProductSpec, me: int) -> int:
    from colonnade.crypto.bgn.layout import planned_bytes

    return planned_bytes(spec, me)


def seconds(spec: ProductSpec) -> float:
    from colonnade.crypto.bgn.cost import predicted_seconds

    return predicted_seconds(spec)


BGN = Backend(name="bgn", private=True, party=party, server=server, sent=sent, seconds=seconds, shared=False)

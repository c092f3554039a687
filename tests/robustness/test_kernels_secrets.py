"""The search for secrets on every kind of kernel: numpy, compiled loops, and the device's with numpy in its place.

What lies in a graphics card's own memory is not looked at: it is freed with the session, and not overwritten.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from colonnade.crypto.lattice import party as lattice
from colonnade.crypto.lattice.compiled import CompiledParty, available
from colonnade.crypto.lattice.device import DeviceKernels, DeviceParty
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.server import LatticeServer
from tests.helpers.canaries import Needles, noting
from tests.helpers.product_sessions import Relay, Session, arrays

DRAWN = {"draw_secrets": "lattice key", "draw_wide": "lattice error", "draw_hints": "hint"}


class StandKernels(DeviceKernels):
    module = "numpy"


class StandParty(DeviceParty):
    kernels = StandKernels


SIDES = [
    LatticeParty,
    pytest.param(CompiledParty, marks=pytest.mark.skipif(not available(), reason="numba is not installed")),
    StandParty,
]


def flat(value: Any) -> list[np.ndarray]:
    """The arrays that kernels made of a secret."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, (tuple, list)):
        return [found for item in value for found in flat(item)]
    return [found for item in vars(value).values() for found in flat(item)] if hasattr(value, "__dict__") else []


@pytest.mark.parametrize("side", SIDES, ids=["numpy", "compiled", "device"])
def test_nothing_secret_in_parcels_and_reprs_and_keys_are_gone(
    side: type[LatticeParty], monkeypatch: pytest.MonkeyPatch
) -> None:
    needles, made = Needles(), list[np.ndarray]()
    for name, kind in DRAWN.items():
        monkeypatch.setattr(lattice, name, noting(needles, kind, getattr(lattice, name), lambda values: values))
    keys = side.kernels.keys

    def noted(self: Any, *arguments: Any) -> Any:
        found = keys(self, *arguments)
        made.extend(flat(found))
        return found

    monkeypatch.setattr(side.kernels, "keys", noted)
    given = Session.make(2, rows=70, widths=(4, 4), bound=1000, gain=4)
    for columns in given.data:
        for column in columns.T:
            needles.array("column", column)
    relay = Relay(given, side, LatticeServer)
    contributions = relay.contributions()
    for contribution in contributions:
        assert not needles.found_in(contribution.payload)
    assert set(needles.kinds) >= {"column", *DRAWN.values()} and made, "the search looks for something"
    for sent in relay.sent:
        assert not needles.found_in(sent.payload), (sent.round, sent.sender)
    spoken = "".join(f"{party!r} {party!s} {party.__dict__.keys()}" for party in relay.parties)
    assert not needles.found_in(spoken.encode())
    for party in relay.parties:
        party.wipe()
    assert not any(values.any() for values in needles.arrays["lattice key"])
    for party in relay.parties:
        for kept in arrays(party):
            for key in made:
                assert not np.shares_memory(kept, key) or not key.any(), "a key's transform outlives the session"


@pytest.mark.parametrize("side", SIDES, ids=["numpy", "compiled", "device"])
def test_the_search_would_find_a_column_that_is_not_sealed(
    side: type[LatticeParty], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A parcel that carries a column beside its words is found."""
    needles = Needles()
    given = Session.make(2, rows=70, widths=(4, 4), bound=1000, gain=4)
    for column in given.data[0].T:
        needles.array("column", column)
    relay = Relay(given, side, LatticeServer)
    relay.rounds()
    sealed = next(sent.payload for sent in relay.sent if sent.round == "seal")
    assert needles.found_in(sealed + given.data[0][:, 0].astype("<i4").tobytes()) == ["column"]

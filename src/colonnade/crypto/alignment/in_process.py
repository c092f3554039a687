"""All sides of an alignment in one process: the embedded run, simulations and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.alignment.frames import SESSION_BYTES
from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.crypto.alignment.server import AlignmentServer
from colonnade.crypto.product import SERVER
from colonnade.foundation.randomness import Randomness


def align_in_process(
    ids: Mapping[str, Sequence[str]],
    randomness: Randomness,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, NDArray[np.int64]]:
    """Each party's row numbers of the common ids, in one common order."""
    session = randomness.bytes(SESSION_BYTES)
    names = tuple(ids)
    server = AlignmentServer(session, names)
    told: dict[str, tuple[int, int]] = {}

    def of_all(name: str) -> Callable[[int, int], None] | None:
        """A party tells its own part; what is shown is the whole, with parties not heard yet taken as the others."""
        if progress is None:
            return None

        def tell(done: int, total: int) -> None:
            told[name] = (done, total)
            progress(sum(d for d, _ in told.values()), sum(t for _, t in told.values()) * len(names) // len(told))

        return tell

    parties = {
        name: AlignmentParty(
            session, names, k, ids[name], randomness.child(f"alignment {name}"), executor, of_all(name)
        )
        for k, name in enumerate(names)
    }
    for round in server.rounds:
        for name, party in parties.items():
            for parcel in party.send(round):
                receiver = server if parcel.recipient == SERVER else parties[parcel.recipient]
                receiver.receive(round, name, parcel.payload)
        for parcel in server.send(round):
            parties[parcel.recipient].receive(round, SERVER, parcel.payload)
    return {name: party.rows() for name, party in parties.items()}

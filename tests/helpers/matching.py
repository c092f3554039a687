"""All sides of an alignment in one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.alignment.frames import SESSION_BYTES
from colonnade.crypto.alignment.kernels import AlignmentKernels
from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.crypto.alignment.server import AlignmentServer
from colonnade.crypto.product import SERVER
from colonnade.foundation.errors import PolicyError
from colonnade.foundation.randomness import Randomness


def align_in_process(
    ids: Mapping[str, Sequence[str]],
    randomness: Randomness,
    progress: Callable[[int, int], None] | None = None,
    *,
    post_quantum: bool = False,
    largest_lists: Mapping[str, int | str | None] | None = None,
    kernels: AlignmentKernels | None = None,
    meter: Callable[[str, str, int], None] | None = None,
) -> dict[str, NDArray[np.int64]]:
    """Each party's row numbers of the common ids, in one common order; `meter` hears of every parcel."""
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
            session,
            names,
            k,
            ids[name],
            randomness.child(f"alignment {name}"),
            of_all(name),
            post_quantum=post_quantum,
            largest_list=(largest_lists or {}).get(name),
            kernels=kernels,
        )
        for k, name in enumerate(names)
    }
    for round in server.rounds:
        for name, party in parties.items():
            for parcel in party.send(round):
                if meter is not None:
                    meter(round, parcel.recipient, len(parcel.payload))
                receiver = server if parcel.recipient == SERVER else parties[parcel.recipient]
                try:
                    receiver.receive(round, name, parcel.payload)
                except PolicyError as error:
                    raise PolicyError(f"{parcel.recipient} refuses: {error}") from None
        for parcel in server.send(round):
            parties[parcel.recipient].receive(round, SERVER, parcel.payload)
    return {name: party.rows() for name, party in parties.items()}

"""What signatures cost: CPU of one session's statements for K parties, with the kind of keys that a deployment has.

python -m drills.signing_cost [K]
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

from colonnade.protocol.messages import Signature
from colonnade.protocol.signatures import ALIGNMENT, SESSION, SignedTraffic
from tests.helpers.authority import Authority, as_deployed

HASHED = 1 << 26


def milliseconds(work: Callable[[], object], times: int) -> float:
    start = process_time()
    for _ in range(times):
        work()
    return 1e3 * (process_time() - start) / times


def session(ends: dict[str, SignedTraffic]) -> int:
    """All statements of an alignment and a lattice product between all pairs, signed and checked; how many."""
    names, count = list(ends), 0

    def hand(sender: str, signatures: Iterator[tuple[str, Signature]]) -> None:
        nonlocal count
        for peer, signature in signatures:
            count += 1
            ends[peer].take(sender, signature)

    def pass_on(round: str, recipients: Callable[[int], list[str]]) -> None:
        for place, name in enumerate(names):
            for peer in recipients(place):
                ends[name].note_sent(peer, round, b"parcel")
                ends[peer].note_received(name, round, b"parcel")
            hand(name, ends[name].sign_rounds())

    for end in ends.values():
        end.begin(ALIGNMENT, bytes(32))
    pass_on("greet", lambda k: names[:k] + names[k + 1 :])
    # The first is the hub: every other sends to it, and it to every other.
    for round, hub in (("choose", False), ("matrix", True), ("compare", False), ("announce", True)):
        pass_on(round, lambda k, hub=hub: (names[1:] if hub else []) if k == 0 else ([] if hub else names[:1]))
    for end in ends.values():
        end.begin(SESSION, bytes(32))
    keys = [hashlib.sha256(name.encode()).digest() for name in names]
    for name, key in zip(names, keys, strict=True):
        hand(name, ends[name].sign_key(key))
    for end in ends.values():
        end.require_keys(names, keys)
    pass_on("seal", lambda k: names[k + 1 :])
    pass_on("multiply", lambda k: names[:k])
    for end in ends.values():
        end.require_all()
    return count


def main() -> None:
    parties = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    authority, names = Authority(key=as_deployed), [f"p{k}" for k in range(parties)]
    with tempfile.TemporaryDirectory() as place:
        signers = {name: authority.signer(Path(place), name, as_deployed) for name in names}
        said = bytes(200)
        proof = signers["p0"].sign(said)
        print(f"a proof has {len(proof)} bytes")
        print(f"signing takes {milliseconds(lambda: signers['p0'].sign(said), 200):.2f} ms")
        print(f"checking takes {milliseconds(lambda: signers['p1'].check('p0', said, proof), 500):.2f} ms")
        start = process_time()
        count = session({name: SignedTraffic(name, names, signers[name]) for name in names})
        each = 1e3 * (process_time() - start) / parties
        print(f"K={parties}: {count} signatures in a session, {each:.1f} ms for each party")
        data = bytes(HASHED)
        print(f"the running digest: {milliseconds(lambda: hashlib.sha256(data), 3) * 1e9 / HASHED:.0f} ms a gigabyte")


if __name__ == "__main__":
    main()

"""The contract of a secure product, asked of every backend: right sums, uniform shares, and no mistake passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from benchmarks.columns import resident
from colonnade.crypto import plain
from colonnade.crypto.backends import BACKENDS as KNOWN
from colonnade.crypto.bgn.party import BgnParty
from colonnade.crypto.bgn.server import BgnServer
from colonnade.crypto.lattice.party import LatticeParty
from colonnade.crypto.lattice.server import LatticeServer
from colonnade.crypto.product import SERVER, ProductSpec, centred
from colonnade.foundation.errors import MessageError, ProductError, ProtocolError
from colonnade.foundation.randomness import Randomness
from tests.helpers.product_sessions import MakeParty, MakeServer, Relay, Sent, Session, arrays


@dataclass(frozen=True)
class Backend:
    name: str
    party: MakeParty
    server: MakeServer
    shares: bool
    """Whether the opening is a sum of shares."""
    modulus_bits: int = 48
    gain: int = 1
    tolerance: int = 0
    """The largest error of an opened integer."""

    def session(self, **settings: object) -> Session:
        return Session.make(**({"modulus_bits": self.modulus_bits, "gain": self.gain} | settings))  # type: ignore[arg-type]

    def relay(self, session: Session | None = None, **settings: object) -> Relay:
        return Relay(session or self.session(rows=12, parties=3), self.party, self.server, **settings)  # type: ignore[arg-type]

    def planned_bytes(self, spec: ProductSpec, me: int) -> int:
        return KNOWN[self.name].sent(spec, me)


BACKENDS = [
    Backend("plain", plain.PlainParty, plain.PlainServer, shares=True),
    Backend("bgn", BgnParty, BgnServer, shares=False),
    Backend(
        "lattice",
        LatticeParty,
        LatticeServer,
        shares=True,
        gain=1 << 20,
        tolerance=289_920,  # 50 * 15 * 7 + 2048 * (7 + 2) * 15 + 2 * 4095: proofs/no_wrap.md
    ),
]
REFUSED = (ProtocolError, ProductError)


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    chosen: Backend = request.param
    return chosen


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_opened_integers_are_the_product_with_all_noise(backend: Backend, parties: int) -> None:
    session = backend.session(parties=parties, rows=30)
    relay = backend.relay(session)
    error = relay.open(relay.contributions()) - session.expected()
    assert np.abs(error).max() <= backend.tolerance


def test_noise_of_a_party_outside_a_cross_is_opened_too(backend: Backend) -> None:
    session = backend.session(parties=3, rows=10)
    only = session.spec.crosses[:1]
    session = Session(replace(session.spec, crosses=only), session.data, session.noise)
    bare = Session(session.spec, session.data, [*session.noise[:2], {c: 0 * session.noise[2][c] for c in only}])
    opened = [relay.open(relay.contributions()) for relay in (backend.relay(session), backend.relay(bare))]
    difference = opened[0] - opened[1] - session.noise[2][only[0]].ravel()
    assert np.abs(difference).max() <= 2 * backend.tolerance


def test_shares_alone_are_uniform(backend: Backend) -> None:
    if not backend.shares:
        pytest.skip("bgn contributes partial decryptions, not shares")
    session = backend.session(parties=3, rows=50, widths=(60, 60, 60), bound=3)
    bits, size = session.spec.modulus_bits, 3600
    gathered: dict[int, list[np.ndarray]] = {0: [], 1: [], 2: []}
    for seed in range(4):
        relay = backend.relay(session, seed=b"uniform %d" % seed)
        for k, contribution in enumerate(relay.contributions()):
            own = [i for i, c in enumerate(session.spec.crosses) if k in (c.left, c.right)]
            gathered[k] += [contribution.vector[i * size : (i + 1) * size] for i in own]
    for words in (np.concatenate(parts) for parts in gathered.values()):
        assert int(words.max()) < 1 << bits
        for shift in (0, 8, bits - 16, bits - 8):
            byte = (words >> np.uint64(shift)) & np.uint64(255)
            assert stats.chisquare(np.bincount(byte.astype(np.int64), minlength=256)).pvalue > 1e-6


def test_the_same_session_twice_gives_other_bytes(backend: Backend) -> None:
    session = backend.session(rows=12)
    runs = [backend.relay(session, seed=seed).contributions() for seed in (b"first", b"second")]
    for one, two in zip(*runs, strict=True):
        assert one.payload + one.vector.tobytes() != two.payload + two.vector.tobytes()


def test_bytes_are_as_planned(backend: Backend) -> None:
    session = backend.session(rows=33)
    relay = backend.relay(session)
    given = relay.contributions()
    for k, name in enumerate(session.spec.parties):
        sent = sum(len(parcel.payload) for parcel in relay.sent if parcel.sender == name)
        assert sent + len(given[k].payload) == backend.planned_bytes(session.spec, k)
    assert max(len(parcel.payload) for parcel in relay.sent) <= 32_000_000


def kinds(backend: Backend) -> list[Sent]:
    """One parcel of each round and direction of an honest run."""
    relay = backend.relay()
    relay.rounds()
    found = {}
    for parcel in relay.sent:
        found.setdefault((parcel.round, parcel.sender == SERVER, parcel.recipient == SERVER), parcel)
    return list(found.values())


def same(parcel: Sent, kind: Sent) -> bool:
    return (parcel.round, parcel.sender, parcel.recipient) == (kind.round, kind.sender, kind.recipient)


def flipped(payload: bytes, place: int) -> bytes:
    changed = bytearray(payload)
    changed[place] ^= 0x40
    return bytes(changed)


def test_altered_and_truncated_parcels_raise_and_the_right_one_is_still_taken(backend: Backend) -> None:
    session = backend.session(rows=12)
    for kind in kinds(backend):
        tried: list[bytes] = []

        def tamper(parcel: Sent, kind: Sent = kind, tried: list[bytes] = tried) -> Iterator[Sent]:
            if same(parcel, kind) and not tried:
                good = parcel.payload
                places = (0, 9, len(good) // 3, len(good) // 2, -1)
                tried += [b"", good[:5], good[:-1], good[:-8], good + b"\0", *(flipped(good, p) for p in places)]
                for payload in tried:
                    yield replace(parcel, payload=payload, bad=True)
            yield parcel

        relay = backend.relay(session, tamper=tamper)
        error = relay.open(relay.contributions()) - session.expected()
        assert len(tried) == 10
        assert np.abs(error).max() <= backend.tolerance


def test_replayed_parcels_raise(backend: Backend) -> None:
    for kind in kinds(backend):

        def twice(parcel: Sent, kind: Sent = kind) -> Iterator[Sent]:
            yield parcel
            if same(parcel, kind):
                yield parcel

        with pytest.raises(REFUSED):
            backend.relay(tamper=twice).rounds()


def test_parcels_of_another_session_raise(backend: Backend) -> None:
    session = backend.session(rows=12, parties=3)
    other = Session(replace(session.spec, session=bytes(32)), session.data, session.noise)
    source = backend.relay(other)
    source.rounds()
    for kind in kinds(backend):

        def swap(parcel: Sent, kind: Sent = kind) -> Iterator[Sent]:
            yield next(old for old in source.sent if same(old, parcel)) if same(parcel, kind) else parcel

        with pytest.raises(MessageError, match="session"):
            backend.relay(session, tamper=swap).rounds()


CHANGES: dict[str, dict[str, object]] = {
    "rows": {"rows": 11},
    "columns": {"widths": (2, 3, 2)},
    "modulus": {"modulus_bits": 46},
}


@pytest.mark.parametrize("change", CHANGES)
def test_parcels_of_another_shape_or_modulus_raise(backend: Backend, change: str) -> None:
    session = backend.session(rows=12, parties=3)
    other = backend.session(**({"rows": 12, "parties": 3} | CHANGES[change]))
    spec = replace(other.spec, session=session.spec.session)
    source = backend.relay(Session(spec, other.data, other.noise))
    source.rounds()
    for kind in kinds(backend):
        old = next(parcel for parcel in source.sent if same(parcel, kind))
        if change != "modulus" and len(old.payload) == len(kind.payload):
            continue  # this parcel's shape does not depend on what was changed

        def swap(parcel: Sent, kind: Sent = kind, old: Sent = old) -> Iterator[Sent]:
            yield old if same(parcel, kind) else parcel

        with pytest.raises(MessageError):
            backend.relay(session, tamper=swap).rounds()


def test_misdirected_parcels_raise(backend: Backend) -> None:
    for kind in kinds(backend):
        relay = backend.relay()
        names = relay.session.spec.parties
        changed = [
            replace(kind, sender="a stranger"),
            replace(kind, sender=next(name for name in names if name not in (kind.sender, kind.recipient))),
            replace(kind, round="another round"),
        ]
        for parcel in changed:
            with pytest.raises(REFUSED):
                relay.deliver(parcel)


def test_a_missing_parcel_stops_everything(backend: Backend) -> None:
    for kind in kinds(backend):

        def drop(parcel: Sent, kind: Sent = kind) -> Iterator[Sent]:
            return iter(()) if same(parcel, kind) else iter((parcel,))

        relay = backend.relay(tamper=drop)
        with pytest.raises(ProductError):
            relay.open(relay.contributions())


def test_each_step_is_answered_once(backend: Backend) -> None:
    relay = backend.relay()
    first = relay.parties[0]
    with pytest.raises(ProductError):
        first.contribute()
    with pytest.raises(REFUSED):
        list(first.send("another round"))
    relay.contributions()
    for round in first.rounds:
        with pytest.raises(REFUSED):
            list(first.send(round))
    with pytest.raises(ProductError):
        first.contribute()


def test_inputs_that_do_not_fit_are_refused(backend: Backend) -> None:
    session = backend.session(rows=12, parties=3)
    spec, data, noise = session.spec, session.data, session.noise

    def make(spec: ProductSpec = spec, me: int = 0, columns: np.ndarray = data[0], share: object = noise[0]) -> None:
        backend.party(spec, me, resident(columns), share, Randomness(b"x"))

    make()
    with pytest.raises(ProductError):
        make(columns=data[0][:-1])
    with pytest.raises(ProductError):
        make(columns=data[0][:, :0])
    with pytest.raises(ProductError):
        make(share={c: noise[0][c] for c in spec.crosses[1:]})
    with pytest.raises(ProductError):
        make(share=dict(noise[0]) | {spec.crosses[0]: np.zeros((9, 9), dtype=np.int64)})
    with pytest.raises(ProductError):
        make(me=3)
    own = replace(spec.crosses[0], right=0)
    for wrong in ({"session": b"short"}, {"parties": ("a", "a", "b")}, {"bound": 0}, {"crosses": (own,)}, {"reach": 0}):
        with pytest.raises(ProductError):
            make(spec=replace(spec, **wrong))  # type: ignore[arg-type]
        with pytest.raises(ProductError):
            backend.server(replace(spec, **wrong))  # type: ignore[arg-type]


def test_an_entry_beyond_the_bound_never_leaves(backend: Backend) -> None:
    session = backend.session(rows=12, parties=3)
    session.data[0][5, 0] = session.spec.bound + 1
    with pytest.raises(ProductError):
        backend.relay(session).rounds()


def holds_exact_block(root: object, session: Session, tolerance: int) -> bool:
    """Whether any array in sight is the exact product of a cross, to within the error of the backend."""
    spec, exact, at = session.spec, session.exact(), 0
    for cross in spec.crosses:
        block = exact[at : at + cross.shape[0] * cross.shape[1]].reshape(cross.shape)
        at += block.size
        for array in arrays(root):
            if array.dtype.kind in "iuf" and array.size == block.size:
                values = array.astype(np.int64)
                residues = [values, centred(values.view(np.uint64), spec.modulus_bits)]
                for got in (r.ravel() * f for r in residues for f in (1, spec.gain)):
                    if any(np.abs(got - want.ravel()).max() <= tolerance for want in (block, block.T)):
                        return True
    return False


def test_no_side_ever_holds_an_exact_block(backend: Backend) -> None:
    session = backend.session(rows=20, parties=3, widths=(2, 3, 4), noise=2_000_000)
    found = []

    def look(parcel: Sent) -> Iterator[Sent]:
        yield parcel
        found.extend(side for side in (*relay.parties, relay.server) if holds_exact_block(side, session, tolerance))

    tolerance = 2 * backend.tolerance
    relay = backend.relay(session, tamper=look)
    relay.open(relay.contributions())
    # The product in the clear is the control: the search does find what its right parties hold.
    assert bool(found) == (backend.name == "plain")

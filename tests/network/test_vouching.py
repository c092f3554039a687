"""A server that meddles with what passes between parties: what it gains where nobody signs, and how it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from colonnade.transport.hub import Hub
from colonnade.transport.vouching import LABEL, MASK_KEY, PASSED, Voucher, Vouching, statement

from colonnade.consent.entries import EntryKind
from colonnade.consent.guard import ConsentGuard
from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.crypto.lattice.frames import Frames, parcel_places
from colonnade.crypto.lattice.words import Planes, width
from colonnade.crypto.masks import MaskKeys
from colonnade.crypto.product import Words, centred
from colonnade.data.table import read_table
from colonnade.foundation.randomness import Randomness, Stream
from colonnade.mechanism.release import write_release
from colonnade.protocol.messages import Envelope, Masked, ParcelBody, Proposal, Step, body_of, encode_body
from colonnade.protocol.session_plan import SessionPlan
from colonnade.study import Study
from colonnade.transport.wire import Item, Ring, Start, Vouch, decode_item, encode_item
from tests.helpers.authority import DAY, Authority, as_deployed
from tests.helpers.wires import PARTIES, Run, Wire, guard, run, write_study

SEED = b"a seed of tests"
Meddle = Callable[[str, Item], Sequence[Item]]
"""What a server that deviates sends to a party in place of an item."""


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def vouchers(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Voucher]:
    place = tmp_path_factory.mktemp("sites")
    return {name: authority.voucher(place, name, as_deployed) for name in PARTIES}


@pytest.fixture(scope="module")
def servers(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Voucher:
    return authority.voucher(tmp_path_factory.mktemp("server"), "localhost")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Rows as they stand, for the mask keys' sake."""
    study = write_study(tmp_path, 40)
    for name in PARTIES:
        lines = (tmp_path / f"{name}.csv").read_text().splitlines()
        (tmp_path / f"{name}.csv").write_text("\n".join(lines[:31]) + "\n")
    return replace(study, alignment="none")


@pytest.fixture
def guards(study: Study, tmp_path: Path) -> dict[str, ConsentGuard]:
    return {name: guard(tmp_path, name) for name in PARTIES}


def aligned(study: Study) -> Study:
    return replace(study, alignment="psi")


def deviating(meddle: Meddle) -> Callable[[Hub], Wire]:
    def wire(hub: Hub) -> Wire:
        post = hub._post

        def post_others(name: str, item: Item) -> None:
            for each in meddle(name, item):
                post(name, each)

        hub._post = post_others  # type: ignore[method-assign]
        return hub.handle

    return wire


def released(out: Run) -> bytes:
    assert out.result is not None and out.result.release is not None and not out.errors, out.errors
    whole = {write_release(release) for release in (out.result.release, *out.releases.values())}
    assert len(whole) == 1
    return whole.pop()


def refused(out: Run, guards: dict[str, ConsentGuard], says: str, by: str = "bank") -> None:
    """One party's own sentence, a code for the others, and nothing in any book."""
    assert not out.releases and out.result is not None and out.result.release is None
    assert says in out.sentence(by), out.sentence(by)
    for other in PARTIES:
        if other != by:
            told = out.sentence(other)
            assert told.startswith(f"the session ended at {by} (signature): what came in a party's name"), told
            assert "nothing is spent" in told
        assert not list(guards[other].ledger.entries())


# Honest runs.


@pytest.mark.parametrize("alignment", ["psi", "none"])
def test_signatures_change_no_byte_of_the_release(
    study: Study, tmp_path: Path, vouchers: dict[str, Voucher], alignment: str
) -> None:
    study = replace(study, alignment=alignment)
    signed = run(study, tmp_path, SEED, vouchers=vouchers)
    bare = run(study, tmp_path, SEED)
    assert released(signed) == released(bare)
    # It was signed all the same.
    assert signed.result is not None and bare.result is not None
    for name in PARTIES:
        assert signed.result.sent[name] > bare.result.sent[name] + 2000


def test_ledgers_are_booked(study: Study, tmp_path: Path, vouchers: dict[str, Voucher]) -> None:
    guards = {name: guard(tmp_path, name) for name in PARTIES}
    released(run(aligned(study), tmp_path, guards=guards, vouchers=vouchers))
    assert all(len(list(guards[name].ledger.entries())) == 2 for name in PARTIES)


def test_a_statement_has_one_reading() -> None:
    parts = ("session", b"i" * 32, "works", "bank", MASK_KEY, b"k" * 32)
    whole = statement(*parts)
    assert whole.startswith(LABEL) and whole != statement("sessio", b"n" + b"i" * 32, *parts[2:])
    assert whole != statement(*parts[:2], "worksb", "ank", *parts[4:])
    for place in range(6):
        other = [*parts]
        other[place] = other[place] + ("x" if isinstance(other[place], str) else b"x")  # type: ignore[operator]
        assert statement(*other) != whole  # type: ignore[arg-type]


# The man in the middle of all pairs, by keys of its own in the plan.


class Middleman:
    """A server that agrees with each party on masks, in the names of all others."""

    def __init__(self) -> None:
        self._keys = [MaskKeys(Randomness(f"middleman {place}".encode())) for place in range(len(PARTIES))]
        self._publics: dict[str, bytes] = {}

    def __call__(self, name: str, item: Item) -> Sequence[Item]:
        if not isinstance(item, Envelope) or item.step is not Step.PLAN:
            return [item]
        plan, place = body_of(item, Proposal), PARTIES.index(name)
        keys = [key.public for key in self._keys]
        keys[place] = self._publics[name] = plan.mask_keys[place]
        return [msgspec.structs.replace(item, body=encode_body(msgspec.structs.replace(plan, mask_keys=keys)))]

    def unmask(self, name: str, masked: Masked, session: SessionPlan) -> Words:
        words, me = masked.words.copy(), PARTIES.index(name)
        for place, keys in enumerate(self._keys):
            if place != me:
                pair = keys._pair_key(session.identity, place, me, self._publics[name])
                stream = Stream(pair).words(session.length)
                words += -stream if me < place else stream
        return words & np.uint64((1 << session.spec.modulus_bits) - 1)


def test_unsigned_keys_let_the_server_open_one_submission(study: Study, tmp_path: Path) -> None:
    honest = run(study, tmp_path, SEED).result
    assert honest is not None and honest.release is not None
    middleman, hubs, taken = Middleman(), list[Hub](), dict[str, Masked]()

    def wire(hub: Hub) -> Wire:
        hubs.append(hub)
        opening = hub._server._open
        # All submissions are there now; what the honest server would make of them is of no use to this one.
        hub._server._open = lambda session: [taken.update(hub._server._submissions), opening(session)][1]  # type: ignore
        return deviating(middleman)(hub)

    run(study, tmp_path, SEED, wire=wire)
    session = hubs[0]._server.session
    assert session is not None and set(taken) == set(PARTIES)
    found: list[int] = []
    for name in PARTIES:
        opened = centred(middleman.unmask(name, taken[name], session), session.spec.modulus_bits)
        masked = centred(taken[name].words, session.spec.modulus_bits)
        own = [i for i in session.single if session.plan.blocks[i].block.owners == (name,)]
        found.extend(own)
        for i in own:
            # The party's noisy block, from its submission alone: all-or-nothing is gone.
            where = session.positions[i]
            assert np.array_equal(opened[where], honest.release.blocks[i].values)
            assert not np.array_equal(masked[where], honest.release.blocks[i].values)
    assert sorted(found) == sorted(session.single) and found


def test_signed_keys_stop_the_man_in_the_middle(
    study: Study, tmp_path: Path, guards: dict[str, ConsentGuard], vouchers: dict[str, Voucher]
) -> None:
    out = run(study, tmp_path, guards=guards, wire=deviating(Middleman()), vouchers=vouchers)
    assert not out.releases
    own = [name for name in PARTIES if " in the plan is not the one that " in out.sentence(name)]
    assert own and all("(signature)" in out.sentence(name) for name in PARTIES if name not in own)
    assert not any(list(guards[name].ledger.entries()) for name in PARTIES)


# One lie to one party.


def only(kind: str, change: Callable[[Vouch], Sequence[Item]]) -> Meddle:
    """To the bank, for what works vouches for."""

    def meddle(name: str, item: Item) -> Sequence[Item]:
        if name == "bank" and isinstance(item, Vouch) and (item.peer, item.about) == ("works", kind):
            return change(item)
        return [item]

    return meddle


def other_key(name: str, item: Item) -> Sequence[Item]:
    if name != "bank" or not isinstance(item, Envelope) or item.step is not Step.PLAN:
        return [item]
    plan = body_of(item, Proposal)
    keys = [MaskKeys(Randomness(b"its own")).public, *plan.mask_keys[1:]]
    return [msgspec.structs.replace(item, body=encode_body(msgspec.structs.replace(plan, mask_keys=keys)))]


def other_greeting(name: str, item: Item) -> Sequence[Item]:
    """Its own X25519 key in place of the one that works sent; the parcel's digest does not cover it."""
    if name != "bank" or not isinstance(item, Ring) or (item.round, item.peer) != ("greet", "works"):
        return [item]
    key = MaskKeys(Randomness(b"its own")).public
    return [Ring(item.round, item.peer, item.payload[:24] + key + item.payload[56:])]


def other_greeting_unsigned(name: str, item: Item) -> Sequence[Item]:
    if name == "bank" and isinstance(item, Vouch) and item.peer == "works":
        return []
    return other_greeting(name, item)


def flipped(data: bytes) -> bytes:
    return data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]


def swapped(vouch: Vouch, **fields: bytes) -> Sequence[Item]:
    return [msgspec.structs.replace(vouch, **fields)]


LIES: dict[str, tuple[bool, Meddle, str]] = {
    "mask key": (False, other_key, "the mask key of works in the plan is not the one that works signed"),
    "no proof": (
        False,
        only(MASK_KEY, lambda _: []),
        "the mask key of works in the plan bears no signature of works",
    ),
    "flipped bit": (
        False,
        only(MASK_KEY, lambda v: swapped(v, proof=flipped(v.proof))),
        "the signature of works does not fit what came in its name",
    ),
    "other key, old proof": (
        False,
        only(MASK_KEY, lambda v: swapped(v, value=bytes(32))),
        "the signature of works does not fit what came in its name",
    ),
    "proof for another purpose": (
        False,
        only(MASK_KEY, lambda v: [Vouch(v.peer, PASSED, v.value, v.proof)]),
        "the signature of works does not fit what came in its name",
    ),
    "unknown purpose": (
        False,
        only(MASK_KEY, lambda v: [Vouch(v.peer, "anything", v.value, v.proof)]),
        "works did for something else",
    ),
    "stranger": (
        False,
        only(MASK_KEY, lambda v: [Vouch("mallory", v.about, v.value, v.proof)]),
        "something came of another",
    ),
    "too long": (
        False,
        only(MASK_KEY, lambda v: swapped(v, proof=v.proof + bytes(10_000))),
        "a proof of works must have at most 8192 bytes, got 1",
    ),
    "greeting": (True, other_greeting, "what came in the name of works is not what works signed"),
    "greeting without proof": (
        True,
        other_greeting_unsigned,
        "what came in the name of works bears no signature of works",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused(
    study: Study, tmp_path: Path, guards: dict[str, ConsentGuard], vouchers: dict[str, Voucher], lie: str
) -> None:
    aligns, meddle, says = LIES[lie]
    out = run(aligned(study) if aligns else study, tmp_path, guards=guards, wire=deviating(meddle), vouchers=vouchers)
    refused(out, guards, says)


def test_a_greeting_is_refused_before_ids_leave(
    study: Study, tmp_path: Path, guards: dict[str, ConsentGuard], vouchers: dict[str, Voucher]
) -> None:
    """The bank has sent its greeting, and not one blinded id."""
    seen: list[tuple[str, str]] = []

    def meddle(name: str, item: Item) -> Sequence[Item]:
        seen.extend([(item.peer, item.round)] if isinstance(item, Ring) else [])
        return other_greeting(name, item)

    run(aligned(study), tmp_path, guards=guards, wire=deviating(meddle), vouchers=vouchers)
    assert ("bank", "greet") in seen and {round for _, round in seen} == {"greet"}


def test_another_alignment_than_the_peers(
    study: Study,
    tmp_path: Path,
    guards: dict[str, ConsentGuard],
    vouchers: dict[str, Voucher],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many common ids, and others: a server that confirms it all the same is found out by the parties."""
    found = AlignmentParty.common

    def common(self: AlignmentParty) -> bytes:
        confirmed = self._done == len(self.rounds)
        return found(self)[:8] + bytes(32) if confirmed and self._name == "works" else found(self)

    monkeypatch.setattr(AlignmentParty, "common", common)
    out = run(aligned(study), tmp_path, guards=guards, vouchers=vouchers)
    assert not out.releases and not any(list(guards[name].ledger.entries()) for name in PARTIES)
    told = [out.sentence(name) for name in PARTIES]
    assert any("does not fit what came in its name" in sentence for sentence in told)


def test_a_proof_of_another_session(
    study: Study, tmp_path: Path, guards: dict[str, ConsentGuard], vouchers: dict[str, Voucher]
) -> None:
    old: list[Vouch] = []
    run(study, tmp_path, wire=deviating(only(MASK_KEY, lambda v: [old.append(v), v][1:])), vouchers=vouchers)  # type: ignore
    out = run(study, tmp_path, guards=guards, wire=deviating(only(MASK_KEY, lambda v: old)), vouchers=vouchers)
    refused(out, guards, "the signature of works does not fit what came in its name")


def test_a_proof_of_another_party_or_of_the_server(
    study: Study, tmp_path: Path, guards: dict[str, ConsentGuard], vouchers: dict[str, Voucher], servers: Voucher
) -> None:
    """Somebody with a good certificate speaks in the name of works: a party, then the server itself."""
    for voucher, signer in ((vouchers["town"], "town"), (servers, "localhost")):
        lying = {**vouchers, "works": voucher}
        out = run(study, tmp_path, guards=guards, vouchers=lying)
        told = [out.sentence(name) for name in ("bank", "town")]
        assert any(f"what came in the name of works is signed by {signer}" in sentence for sentence in told)
        assert not out.releases and not any(list(guards[name].ledger.entries()) for name in PARTIES)


@pytest.mark.parametrize("how", ["expired", "foreign", "none"])
def test_a_party_whose_certificate_is_no_good(
    study: Study,
    tmp_path: Path,
    guards: dict[str, ConsentGuard],
    authority: Authority,
    vouchers: dict[str, Voucher],
    how: str,
) -> None:
    place = tmp_path / "other"
    works: dict[str, Callable[[], dict[str, Voucher]]] = {
        "expired": lambda: {"works": authority.late(place, "works", -9 * DAY, -DAY)},
        "foreign": lambda: {"works": Authority().voucher(place, "works")},
        "none": dict,
    }
    says = {
        "expired": "the certificate that works signs by is valid from",
        # Whose authority is foreign is a matter of who looks, and works may look first.
        "foreign": "signs by is not from the authority of this study",
        "none": "the mask key of works in the plan bears no signature of works",
    }
    out = run(
        study,
        tmp_path,
        guards=guards,
        vouchers={**{name: vouchers[name] for name in ("bank", "town")}, **works[how]()},
    )
    assert any(says[how] in out.sentence(name) for name in PARTIES)
    assert not out.releases and not any(list(guards[name].ledger.entries()) for name in PARTIES)


# Sealed columns, which the server carries and could move.


class Amplifier:
    """A server that adds a large number to one sealed entry: what is opened then speaks of one record above all."""

    def __init__(self) -> None:
        self.hub: Hub | None = None
        self.added = 0

    def __call__(self, name: str, item: Item) -> Sequence[Item]:
        if not isinstance(item, Envelope) or item.step is not Step.PARCEL or (item.sender, name) != ("bank", "works"):
            return [item]
        parcel = body_of(item, ParcelBody)
        if parcel.round != "seal" or self.added:
            return [item]
        assert self.hub is not None and self.hub._server.session is not None
        spec = self.hub._server.session.spec
        slot, sender = parcel_places(1, spec.rows)[0], spec.parties.index("bank")
        words = Frames(spec).unwrap(0, sender, slot, parcel.payload).words()
        self.added = (1 << (spec.modulus_bits - 3)) // (spec.gain * spec.bound)
        words[0, 0] += np.uint64(self.added * spec.gain)
        room = bytearray(words.size * width(spec.modulus_bits))
        planes = Planes.read(memoryview(room), words.shape, spec.modulus_bits)
        planes.write(slice(None), 0, words)
        payload = Frames(spec).wrap(0, sender, slot, planes)
        return [msgspec.structs.replace(item, body=encode_body(ParcelBody(parcel.round, payload)))]

    def wire(self, hub: Hub) -> Wire:
        self.hub = hub
        return deviating(self)(hub)


def test_unsigned_columns_let_the_server_ask_for_one_record(study: Study, tmp_path: Path) -> None:
    honest = run(study, tmp_path, SEED).result
    amplifier = Amplifier()
    attacked = run(study, tmp_path, SEED, wire=amplifier.wire).result
    assert honest is not None and attacked is not None and honest.release is not None and attacked.release is not None
    assert amplifier.hub is not None
    session = amplifier.hub._server.session
    assert session is not None and amplifier.added > 10 * session.grid.bound
    table = read_table("works", tmp_path / "works.csv", study.agreement.schema.parties["works"], "person")
    coins = Randomness(SEED).child("party works").child("rounding").bytes(32)
    record = table.encode(session.plan.layout, session.grid, coins).rows(0, 1)[0]
    found: set[int] = set()
    for before, after in zip(honest.release.blocks, attacked.release.blocks, strict=True):
        moved = after.values - before.values
        if set(before.owners) == {"works", "bank"}:
            found.update(int(value) for value in np.rint(moved / (amplifier.added * session.spec.gain)))
            # What one person's value can move it by stands far above the noise.
            most = amplifier.added * session.spec.gain * session.grid.bound / before.unit
            assert (most > 10 * before.std).all()
        else:
            assert not moved.any()
    # One person's pay (and hours) to the last step of the grid, where noise was to hide it.
    assert {int(value) for value in record} & found


def test_signed_columns_cannot_be_moved(
    study: Study, tmp_path: Path, guards: dict[str, ConsentGuard], vouchers: dict[str, Voucher]
) -> None:
    out = run(study, tmp_path, guards=guards, wire=Amplifier().wire, vouchers=vouchers)
    refused(out, guards, "what came in the name of bank is not what bank signed", by="works")


# A session's id, which the server chooses.


def test_a_session_is_started_once(
    study: Study, tmp_path: Path, guards: dict[str, ConsentGuard], vouchers: dict[str, Voucher]
) -> None:
    """All have submitted, and the server asks the bank to begin anew under the same id."""
    seen: list[Start] = []

    def meddle(name: str, item: Item) -> Sequence[Item]:
        if name == "bank" and isinstance(item, Start):
            seen.append(item)
        return [*seen, item] if name == "bank" and isinstance(item, Envelope) and item.step is Step.OPENED else [item]

    out = run(study, tmp_path, guards=guards, wire=deviating(meddle), vouchers=vouchers)
    assert "party bank joins once, and the server starts the session again" in out.sentence("bank")
    # It has handed in its submission, so that the spend stays.
    assert [entry.kind for entry in guards["bank"].ledger.entries()] == [EntryKind.BOOKED]


def test_an_id_that_was_used_before_gets_no_second_noise(
    study: Study, tmp_path: Path, vouchers: dict[str, Voucher], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first session was opened, and the parties never heard of it: its booking stands."""
    guards = {name: guard(tmp_path, name, total=500.0) for name in PARTIES}
    monkeypatch.setattr(ConsentGuard, "release", lambda self: None)
    identity = bytes(range(32))

    def wire(hub: Hub) -> Wire:
        hub._server.identity = identity
        # It does not say what became of the first one either.
        hub._settled = lambda pending: {}  # type: ignore[method-assign]
        return hub.handle

    released(run(study, tmp_path, guards=guards, wire=wire, vouchers=vouchers))
    before = {name: guards[name].spent().epsilon for name in PARTIES}
    again = {name: guard(tmp_path, name, total=500.0) for name in PARTIES}
    out = run(study, tmp_path, guards=again, wire=wire, vouchers=vouchers)
    assert not out.releases
    assert any(f"session {identity.hex()} of party {name} is booked already" in out.sentence(name) for name in PARTIES)
    assert {name: again[name].spent().epsilon for name in PARTIES} == before
    assert all([e.kind for e in again[name].ledger.entries()] == [EntryKind.BOOKED] for name in PARTIES)


# The running digest by itself.


class Signs:
    """Stands for a voucher: the signature is the statement."""

    def sign(self, statement: bytes) -> bytes:
        return statement

    def check(self, peer: str, statement: bytes, proof: bytes) -> None:
        assert proof == statement


def pair() -> tuple[Vouching, Vouching]:
    ends = Vouching("a", ("a", "b"), Signs()), Vouching("b", ("a", "b"), Signs())
    for end in ends:
        end.begin("session", b"i" * 32)
    return ends


def handed(vouches: Iterator[Vouch], sender: str) -> list[Vouch]:
    return [decode_item(encode_item(Vouch(sender, v.about, v.value, v.proof))) for v in vouches]  # type: ignore[misc]


@pytest.mark.parametrize(
    "came",
    [
        [("r", b"xy"), ("r", b"z")],
        [("r", b"x"), ("r", b"yz")],
        [("r", b"z"), ("r", b"xy")],
        [("rx", b"y"), ("r", b"z")],
        [("r", b"xy")],
        [("r", b"xy"), ("r", b"z"), ("r", b"")],
    ],
    ids=["as sent", "cut elsewhere", "another order", "another round", "one less", "one more"],
)
def test_a_digest_is_of_all_parcels_in_order(came: list[tuple[str, bytes]]) -> None:
    a, b = pair()
    a.sent("b", "r", b"xy")
    a.sent("b", "r", b"z")
    for round, payload in came:
        b.came("a", round, payload)
    with pytest.raises(Exception, match="what came in the name of a bears no signature of a"):
        b.settled()
    (vouch,) = handed(a.due(), "a")
    if came == [("r", b"xy"), ("r", b"z")]:
        b.take(vouch)
        b.settled()
        assert list(a.due()) == []
        b.came("a", "r", b"later")
    else:
        with pytest.raises(Exception, match="what came in the name of a is not what a signed"):
            b.take(vouch)
    with pytest.raises(Exception, match="bears no signature of a"):
        b.settled()


@pytest.mark.parametrize("facts", [(b"terms", b"30 ids"), (b"term", b"s30 ids"), (b"terms", b"29 ids"), (b"terms",)])
def test_facts_on_which_all_must_agree(facts: tuple[bytes, ...]) -> None:
    a, b = pair()
    a.begin("session", bytes(32), b"terms", b"30 ids")
    b.begin("session", bytes(32), *facts)
    (vouch,) = handed(a.mask_key(b"1" * 32), "a")
    if facts == (b"terms", b"30 ids"):
        b.take(vouch)
    else:
        with pytest.raises(AssertionError):
            b.take(vouch)


def test_two_keys_of_one_party() -> None:
    a, b = pair()
    (first,) = handed(a.mask_key(b"1" * 32), "a")
    (second,) = handed(a.mask_key(b"2" * 32), "a")
    b.take(first)
    b.take(first)
    with pytest.raises(Exception, match="party a has signed two mask keys for one session"):
        b.take(second)


def test_a_session_is_named_by_its_keys() -> None:
    """A server that uses an id twice cannot replay what was signed about parcels."""
    seen = []
    for key in (b"1" * 32, b"2" * 32):
        a, b = pair()
        (mine,), (theirs,) = handed(a.mask_key(b"a" * 32), "a"), handed(b.mask_key(key), "b")
        a.take(theirs)
        b.take(mine)
        for end in (a, b):
            end.agree(("a", "b"), (b"a" * 32, key))
        a.sent("b", "r", b"x")
        b.came("a", "r", b"x")
        (passed,) = handed(a.due(), "a")
        b.take(passed)
        seen.append(passed.proof)
    assert seen[0] != seen[1]


def test_without_a_voucher_nothing_is_asked() -> None:
    bare = Vouching("a", ("a", "b"), None)
    bare.begin("session", bytes(32))
    bare.came("b", "r", b"x")
    bare.sent("b", "r", b"x")
    bare.agree(("a", "b"), (b"", b""))
    bare.take(Vouch("b", MASK_KEY, b"", b""))
    bare.settled()
    assert not list(bare.due()) and not list(bare.mask_key(bytes(32)))

"""A server that meddles with what passes between parties: what it gains where nobody signs, and how it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from colonnade.consent.entries import EntryKind
from colonnade.consent.guard import ConsentGuard
from colonnade.crypto.alignment.party import AlignmentParty
from colonnade.crypto.lattice.frames import Frames, parcel_places
from colonnade.crypto.lattice.words import Planes, width
from colonnade.crypto.masks import MaskKeys
from colonnade.crypto.product import Words, centred
from colonnade.data.ids import IdColumns
from colonnade.data.table import read_table
from colonnade.foundation.randomness import Randomness, Stream
from colonnade.mechanism.release import write_release
from colonnade.planning.session_plan import SessionPlan
from colonnade.protocol.fit import FitServer, study_digest
from colonnade.protocol.messages import (
    JOINING,
    Envelope,
    Go,
    ParcelBody,
    Piece,
    Proposal,
    Signature,
    Step,
    body_of,
    encode_body,
)
from colonnade.protocol.server import ServerRole
from colonnade.protocol.signatures import LABEL, MASK_KEY, PASSED, SignedTraffic, Signer, statement
from colonnade.protocol.submissions import Masked, masked_from
from colonnade.protocol.tasks import NullJournal, ServerTask
from colonnade.study import StudySpec
from colonnade.transport.relay import Relay
from tests.helpers.authority import DAY, Authority, as_deployed
from tests.helpers.wires import PARTIES, Meddle, Run, Wire, deviating, guard, message_in, run, unmatched, write_study

SEED = b"a seed of tests"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def signers(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Signer]:
    place = tmp_path_factory.mktemp("sites")
    return {name: authority.signer(place, name, as_deployed) for name in PARTIES}


@pytest.fixture(scope="module")
def servers(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return authority.signer(tmp_path_factory.mktemp("server"), "localhost")


@pytest.fixture
def study(tmp_path: Path) -> StudySpec:
    """Rows as they stand, for the mask keys' sake."""
    return unmatched(write_study(tmp_path, 40), tmp_path, 30)


@pytest.fixture
def guards(study: StudySpec, tmp_path: Path) -> dict[str, ConsentGuard]:
    return {name: guard(tmp_path, name) for name in PARTIES}


def aligned(study: StudySpec) -> StudySpec:
    return replace(study, alignment="psi")


def released(out: Run) -> bytes:
    assert out.release is not None and not out.errors, out.errors
    whole = {write_release(release) for release in (out.release, *out.releases.values())}
    assert len(whole) == 1
    return whole.pop()


def refused(out: Run, guards: dict[str, ConsentGuard], says: str, by: str = "bank") -> None:
    """One party's own sentence, a code for the others, and nothing in any book."""
    assert not out.releases and out.release is None
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
    study: StudySpec, tmp_path: Path, signers: dict[str, Signer], alignment: str
) -> None:
    study = replace(study, alignment=alignment)
    signed = run(study, tmp_path, SEED, signers=signers)
    bare = run(study, tmp_path, SEED)
    assert released(signed) == released(bare)
    # It was signed all the same.
    for name in PARTIES:
        assert signed.relay.traffic.sent[name] > bare.relay.traffic.sent[name] + 2000


def test_ledgers_are_booked(study: StudySpec, tmp_path: Path, signers: dict[str, Signer]) -> None:
    guards = {name: guard(tmp_path, name) for name in PARTIES}
    released(run(aligned(study), tmp_path, guards=guards, signers=signers))
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

    def __call__(self, name: str, message: Envelope) -> Sequence[Envelope]:
        if message.step is not Step.PROPOSAL:
            return [message]
        plan, place = body_of(message, Proposal), PARTIES.index(name)
        keys = [key.public for key in self._keys]
        keys[place] = self._publics[name] = plan.mask_keys[place]
        return [msgspec.structs.replace(message, body=encode_body(msgspec.structs.replace(plan, mask_keys=keys)))]

    def unmask(self, name: str, masked: Masked, session: SessionPlan) -> Words:
        words, me = masked.words.copy(), PARTIES.index(name)
        for place, keys in enumerate(self._keys):
            if place != me:
                pair = keys._pair_key(session.identity, place, me, self._publics[name])
                stream = Stream(pair).words(session.length)
                words += -stream if me < place else stream
        return words & np.uint64((1 << session.spec.modulus_bits) - 1)


def test_unsigned_keys_let_the_server_open_one_submission(study: StudySpec, tmp_path: Path) -> None:
    honest = run(study, tmp_path, SEED).release
    assert honest is not None
    middleman, blobs = Middleman(), dict[str, bytes]()

    def wire(relay: Relay) -> Wire:
        deviates = deviating(middleman)(relay)

        def carry(name: str, data: bytes) -> bytes:
            message = message_in(data)
            if message is not None and message.step is Step.SUBMIT:
                blobs[name] = body_of(message, Piece).data
            return deviates(name, data)

        return carry

    session = run(study, tmp_path, SEED, wire=wire).task.session
    assert session is not None and set(blobs) == set(PARTIES)
    taken = {name: masked_from(blob, session.length) for name, blob in blobs.items()}
    found: list[int] = []
    for name in PARTIES:
        opened = centred(middleman.unmask(name, taken[name], session), session.spec.modulus_bits)
        masked = centred(taken[name].words, session.spec.modulus_bits)
        own = [i for i in session.single if session.plan.blocks[i].block.owners == (name,)]
        found.extend(own)
        for i in own:
            # The party's noisy block, from its submission alone: all-or-nothing is gone.
            where = session.positions[i]
            assert np.array_equal(opened[where], honest.blocks[i].values)
            assert not np.array_equal(masked[where], honest.blocks[i].values)
    assert sorted(found) == sorted(session.single) and found


def test_signed_keys_stop_the_man_in_the_middle(
    study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard], signers: dict[str, Signer]
) -> None:
    out = run(study, tmp_path, guards=guards, wire=deviating(Middleman()), signers=signers)
    assert not out.releases
    own = [name for name in PARTIES if " in the plan is not the one that " in out.sentence(name)]
    assert own and all("(signature)" in out.sentence(name) for name in PARTIES if name not in own)
    assert not any(list(guards[name].ledger.entries()) for name in PARTIES)


# One lie to one party.


def signed_by_works(name: str, message: Envelope) -> Signature | None:
    """What the bank is sent of a signature of works."""
    if name != "bank" or message.step is not Step.SIGNATURE or message.sender != "works":
        return None
    return body_of(message, Signature)


def only(kind: str, change: Callable[[Signature], Sequence[Signature]], sender: str = "works") -> Meddle:
    """To the bank, for what works signs."""

    def meddle(name: str, message: Envelope) -> Sequence[Envelope]:
        signature = signed_by_works(name, message)
        if signature is None or signature.about != kind:
            return [message]
        return [msgspec.structs.replace(message, sender=sender, body=encode_body(s)) for s in change(signature)]

    return meddle


def other_key(name: str, message: Envelope) -> Sequence[Envelope]:
    if name != "bank" or message.step is not Step.PROPOSAL:
        return [message]
    plan = body_of(message, Proposal)
    keys = [MaskKeys(Randomness(b"its own")).public, *plan.mask_keys[1:]]
    return [msgspec.structs.replace(message, body=encode_body(msgspec.structs.replace(plan, mask_keys=keys)))]


def other_greeting(name: str, message: Envelope) -> Sequence[Envelope]:
    """Its own X25519 key in place of the one that works sent; the parcel's digest does not cover it."""
    if name != "bank" or message.step is not Step.PARCEL or message.sender != "works":
        return [message]
    parcel, key = body_of(message, ParcelBody), MaskKeys(Randomness(b"its own")).public
    if parcel.round != "greet":
        return [message]
    other = ParcelBody(parcel.round, parcel.payload[:24] + key + parcel.payload[56:])
    return [msgspec.structs.replace(message, body=encode_body(other))]


def other_greeting_unsigned(name: str, message: Envelope) -> Sequence[Envelope]:
    return [] if signed_by_works(name, message) is not None else other_greeting(name, message)


def flipped(data: bytes) -> bytes:
    return data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]


def swapped(signature: Signature, **fields: bytes) -> Sequence[Signature]:
    return [msgspec.structs.replace(signature, **fields)]


LIES: dict[str, tuple[bool, Meddle, str]] = {
    "mask key": (False, other_key, "the mask key of works in the plan is not the one that works signed"),
    "no proof": (
        False,
        only(MASK_KEY, lambda _: []),
        "the mask key of works in the plan bears no signature of works",
    ),
    "flipped bit": (
        False,
        only(MASK_KEY, lambda s: swapped(s, proof=flipped(s.proof))),
        "the signature of works does not fit what came in its name",
    ),
    "other key, old proof": (
        False,
        only(MASK_KEY, lambda s: swapped(s, value=bytes(32))),
        "the signature of works does not fit what came in its name",
    ),
    "proof for another purpose": (
        False,
        only(MASK_KEY, lambda s: [Signature(PASSED, s.value, s.proof)]),
        "the signature of works does not fit what came in its name",
    ),
    "unknown purpose": (
        False,
        only(MASK_KEY, lambda s: [Signature("anything", s.value, s.proof)]),
        "works did for something else",
    ),
    "stranger": (
        False,
        only(MASK_KEY, lambda s: [s], sender="mallory"),
        "something came of another",
    ),
    "too long": (
        False,
        only(MASK_KEY, lambda s: swapped(s, proof=s.proof + bytes(10_000))),
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
    study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard], signers: dict[str, Signer], lie: str
) -> None:
    aligns, meddle, says = LIES[lie]
    out = run(aligned(study) if aligns else study, tmp_path, guards=guards, wire=deviating(meddle), signers=signers)
    refused(out, guards, says)


def test_a_greeting_is_refused_before_ids_leave(
    study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard], signers: dict[str, Signer]
) -> None:
    """The bank has sent its greeting, and not one blinded id."""
    seen: list[tuple[str, str]] = []

    def wire(relay: Relay) -> Wire:
        deviates = deviating(other_greeting)(relay)

        def carry(name: str, data: bytes) -> bytes:
            message = message_in(data)
            if message is not None and message.step is Step.PARCEL:
                seen.append((name, body_of(message, ParcelBody).round))
            return deviates(name, data)

        return carry

    run(aligned(study), tmp_path, guards=guards, wire=wire, signers=signers)
    assert ("bank", "greet") in seen and {round for name, round in seen if name == "bank"} == {"greet"}


def test_another_alignment_than_the_peers(
    study: StudySpec,
    tmp_path: Path,
    guards: dict[str, ConsentGuard],
    signers: dict[str, Signer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many common ids, and others: a server that confirms it all the same is found out by the parties."""
    found = AlignmentParty.common

    def common(self: AlignmentParty) -> bytes:
        confirmed = self.complete
        return found(self)[:8] + bytes(32) if confirmed and self._name == "works" else found(self)

    monkeypatch.setattr(AlignmentParty, "common", common)
    out = run(aligned(study), tmp_path, guards=guards, signers=signers)
    assert not out.releases and not any(list(guards[name].ledger.entries()) for name in PARTIES)
    told = [out.sentence(name) for name in PARTIES]
    assert any("does not fit what came in its name" in sentence for sentence in told)


@pytest.mark.parametrize("signed", [True, False])
def test_a_server_that_skips_the_matching(
    study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard], signers: dict[str, Signer], signed: bool
) -> None:
    """All hold as many records: without the matching those of different people would be multiplied."""

    class Skipping(FitServer):
        @property
        def terms(self) -> str:
            return study_digest(self.agreement, "psi")

    served = Skipping(study.agreement, "none")
    out = run(aligned(study), tmp_path, guards=guards, served=served, signers=signers if signed else None)
    told = [out.sentence(name) for name in PARTIES]
    assert any("has not matched its ids, and the server asks it to join" in sentence for sentence in told), told
    assert all(
        "nothing is spent" in sentence + out.closings[name] for name, sentence in zip(PARTIES, told, strict=True)
    )
    assert not out.releases and not any(guards[name].ledger.entries() for name in PARTIES)


def test_a_proof_of_another_session(
    study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard], signers: dict[str, Signer]
) -> None:
    old: list[Signature] = []

    def keep(signature: Signature) -> Sequence[Signature]:
        old.append(signature)
        return [signature]

    run(study, tmp_path, wire=deviating(only(MASK_KEY, keep)), signers=signers)
    out = run(study, tmp_path, guards=guards, wire=deviating(only(MASK_KEY, lambda _: old)), signers=signers)
    refused(out, guards, "the signature of works does not fit what came in its name")


def test_a_proof_of_another_party_or_of_the_server(
    study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard], signers: dict[str, Signer], servers: Signer
) -> None:
    """Somebody with a good certificate speaks in the name of works: a party, then the server itself."""
    for other, signer in ((signers["town"], "town"), (servers, "localhost")):
        lying = {**signers, "works": other}
        out = run(study, tmp_path, guards=guards, signers=lying)
        told = [out.sentence(name) for name in ("bank", "town")]
        assert any(f"what came in the name of works is signed by {signer}" in sentence for sentence in told)
        assert not out.releases and not any(list(guards[name].ledger.entries()) for name in PARTIES)


@pytest.mark.parametrize("how", ["expired", "foreign", "none"])
def test_a_party_whose_certificate_is_no_good(
    study: StudySpec,
    tmp_path: Path,
    guards: dict[str, ConsentGuard],
    authority: Authority,
    signers: dict[str, Signer],
    how: str,
) -> None:
    place = tmp_path / "other"
    works: dict[str, Callable[[], dict[str, Signer]]] = {
        "expired": lambda: {"works": authority.late(place, "works", -9 * DAY, -DAY)},
        "foreign": lambda: {"works": Authority().signer(place, "works")},
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
        signers={**{name: signers[name] for name in ("bank", "town")}, **works[how]()},
    )
    assert any(says[how] in out.sentence(name) for name in PARTIES)
    assert not out.releases and not any(list(guards[name].ledger.entries()) for name in PARTIES)


# Sealed columns, which the server carries and could move.


class Amplifier:
    """A server that adds a large number to one sealed entry: what is opened then speaks of one record above all."""

    def __init__(self) -> None:
        self._relay: Relay | None = None
        self.added = 0

    @property
    def session(self) -> SessionPlan:
        assert self._relay is not None and isinstance(self._relay.role.task, FitServer)
        assert self._relay.role.task.session is not None
        return self._relay.role.task.session

    def __call__(self, name: str, message: Envelope) -> Sequence[Envelope]:
        if message.step is not Step.PARCEL or (message.sender, name) != ("bank", "works"):
            return [message]
        parcel = body_of(message, ParcelBody)
        if parcel.round != "seal" or self.added:
            return [message]
        spec = self.session.spec
        slot, sender = parcel_places(1, spec.rows)[0], spec.parties.index("bank")
        words = Frames(spec).unwrap(0, sender, slot, parcel.payload).words()
        self.added = (1 << (spec.modulus_bits - 3)) // (spec.gain * spec.bound)
        words[0, 0] += np.uint64(self.added * spec.gain)
        room = bytearray(words.size * width(spec.modulus_bits))
        planes = Planes.read(memoryview(room), words.shape, spec.modulus_bits)
        planes.write(slice(None), 0, words)
        payload = Frames(spec).wrap(0, sender, slot, planes)
        return [msgspec.structs.replace(message, body=encode_body(ParcelBody(parcel.round, payload)))]

    def wire(self, relay: Relay) -> Wire:
        self._relay = relay
        return deviating(self)(relay)


def test_unsigned_columns_let_the_server_ask_for_one_record(study: StudySpec, tmp_path: Path) -> None:
    honest = run(study, tmp_path, SEED).release
    amplifier = Amplifier()
    attacked = run(study, tmp_path, SEED, wire=amplifier.wire).release
    assert honest is not None and attacked is not None
    session = amplifier.session
    assert amplifier.added > 10 * session.grid.bound
    table = read_table("works", tmp_path / "works.csv", study.agreement.schema.parties["works"], IdColumns(("person",)))
    coins = Randomness(SEED).child("party works").child("rounding").bytes(32)
    record = table.encode(session.plan.layout, session.grid, coins).rows(0, 1)[0]
    found: set[int] = set()
    for before, after in zip(honest.blocks, attacked.blocks, strict=True):
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
    study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard], signers: dict[str, Signer]
) -> None:
    out = run(study, tmp_path, guards=guards, wire=Amplifier().wire, signers=signers)
    refused(out, guards, "what came in the name of bank is not what bank signed", by="works")


# A session's id, which the server chooses.


def test_a_session_is_started_once(
    study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard], signers: dict[str, Signer]
) -> None:
    """All have submitted, and the server asks the bank to begin anew under the same id."""
    seen: list[Envelope] = []

    def meddle(name: str, message: Envelope) -> Sequence[Envelope]:
        if name == "bank" and message.step is Step.GO and body_of(message, Go).round == JOINING:
            seen.append(message)
        return [*seen, message] if name == "bank" and message.step is Step.OPENED else [message]

    out = run(study, tmp_path, guards=guards, wire=deviating(meddle), signers=signers)
    assert "party bank is submitted and expects no go message" in out.sentence("bank")
    # It has handed in its submission, so that the spend stays.
    assert [entry.kind for entry in guards["bank"].ledger.entries()] == [EntryKind.BOOKED]


def test_an_id_that_was_used_before_gets_no_second_noise(
    study: StudySpec, tmp_path: Path, signers: dict[str, Signer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first session was opened, and the parties never heard of it: its booking stands."""
    guards = {name: guard(tmp_path, name, total=500.0) for name in PARTIES}
    monkeypatch.setattr(ConsentGuard, "release", lambda self: None)
    used = bytes(range(32))

    class Repeating(ServerRole):
        """It does not say what became of the first one either."""

        identity = used  # type: ignore[assignment]

    def serve(task: ServerTask, randomness: Randomness, _: object) -> ServerRole:
        return Repeating(task, randomness, NullJournal())

    released(run(study, tmp_path, guards=guards, serve=serve, signers=signers))
    before = {name: guards[name].spent().epsilon for name in PARTIES}
    again = {name: guard(tmp_path, name, total=500.0) for name in PARTIES}
    out = run(study, tmp_path, guards=again, serve=serve, signers=signers)
    assert not out.releases
    assert any(f"session {used.hex()} of party {name} is booked already" in out.sentence(name) for name in PARTIES)
    assert {name: again[name].spent().epsilon for name in PARTIES} == before
    assert all([e.kind for e in again[name].ledger.entries()] == [EntryKind.BOOKED] for name in PARTIES)


# The running digest by itself.


class Signs:
    """Stands for a signer: the signature is the statement."""

    def sign(self, statement: bytes) -> bytes:
        return statement

    def check(self, peer: str, statement: bytes, proof: bytes) -> None:
        assert proof == statement


def pair() -> tuple[SignedTraffic, SignedTraffic]:
    ends = SignedTraffic("a", ("a", "b"), Signs()), SignedTraffic("b", ("a", "b"), Signs())
    for end in ends:
        end.begin("session", b"i" * 32)
    return ends


def handed(signatures: Iterator[tuple[str, Signature]]) -> list[Signature]:
    return [msgspec.msgpack.decode(encode_body(s), type=Signature) for _, s in signatures]


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
    a.note_sent("b", "r", b"xy")
    a.note_sent("b", "r", b"z")
    for round, payload in came:
        b.note_received("a", round, payload)
    with pytest.raises(Exception, match="what came in the name of a bears no signature of a"):
        b.require_all()
    (signature,) = handed(a.sign_rounds())
    if came == [("r", b"xy"), ("r", b"z")]:
        b.take("a", signature)
        b.require_all()
        assert list(a.sign_rounds()) == []
        b.note_received("a", "r", b"later")
    else:
        with pytest.raises(Exception, match="what came in the name of a is not what a signed"):
            b.take("a", signature)
    with pytest.raises(Exception, match="bears no signature of a"):
        b.require_all()


@pytest.mark.parametrize("facts", [(b"terms", b"30 ids"), (b"term", b"s30 ids"), (b"terms", b"29 ids"), (b"terms",)])
def test_facts_on_which_all_must_agree(facts: tuple[bytes, ...]) -> None:
    a, b = pair()
    a.begin("session", bytes(32), b"terms", b"30 ids")
    b.begin("session", bytes(32), *facts)
    (signature,) = handed(a.sign_key(b"1" * 32))
    if facts == (b"terms", b"30 ids"):
        b.take("a", signature)
    else:
        with pytest.raises(AssertionError):
            b.take("a", signature)


def test_two_keys_of_one_party() -> None:
    a, b = pair()
    (first,) = handed(a.sign_key(b"1" * 32))
    (second,) = handed(a.sign_key(b"2" * 32))
    b.take("a", first)
    b.take("a", first)
    with pytest.raises(Exception, match="party a has signed two mask keys for one session"):
        b.take("a", second)


def test_a_session_is_named_by_its_keys() -> None:
    """A server that uses an id twice cannot replay what was signed about parcels."""
    seen = []
    for key in (b"1" * 32, b"2" * 32):
        a, b = pair()
        (mine,), (theirs,) = handed(a.sign_key(b"a" * 32)), handed(b.sign_key(key))
        a.take("b", theirs)
        b.take("a", mine)
        for end in (a, b):
            end.require_keys(("a", "b"), (b"a" * 32, key))
        a.note_sent("b", "r", b"x")
        b.note_received("a", "r", b"x")
        (passed,) = handed(a.sign_rounds())
        b.take("a", passed)
        seen.append(passed.proof)
    assert seen[0] != seen[1]


def test_without_a_signer_nothing_is_asked() -> None:
    bare = SignedTraffic("a", ("a", "b"), None)
    bare.begin("session", bytes(32))
    bare.note_received("b", "r", b"x")
    bare.note_sent("b", "r", b"x")
    bare.require_keys(("a", "b"), (b"", b""))
    bare.take("b", Signature(MASK_KEY, b"", b""))
    bare.require_all()
    assert not list(bare.sign_rounds()) and not list(bare.sign_key(bytes(32)))

"""A session over a wire without an engine: the same release as in one process, and every refusal with its sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import colonnade
from colonnade.consent.entries import EntryKind
from colonnade.consent.guard import ConsentGuard
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import write_release
from colonnade.protocol.fit import FitServer, study_digest
from colonnade.protocol.messages import Envelope, Hello, Proposal, Step, body_of, encode_body
from colonnade.protocol.server import ServerRole
from colonnade.simulation import run_unguarded
from colonnade.study import StudySpec, read_study
from colonnade.transport.relay import Relay
from colonnade.transport.wire import (
    Poll,
    Rejected,
    Rejection,
    Send,
    Timeouts,
    Unreachable,
    decode_reply,
    decode_request,
    encode,
)
from tests.helpers.wires import (
    PARTIES,
    QUICK,
    Meddle,
    Run,
    Wire,
    deviating,
    guard,
    message_in,
    run,
    unmatched,
    write_study,
)

SEED = b"a seed of tests"
VERSIONS = f"colonnade {colonnade.__version__}, protocol 3"


@pytest.fixture
def study(tmp_path: Path) -> StudySpec:
    return write_study(tmp_path)


@pytest.fixture
def guards(study: StudySpec, tmp_path: Path) -> dict[str, ConsentGuard]:
    return {name: guard(tmp_path, name) for name in PARTIES}


@pytest.fixture
def plain(study: StudySpec, tmp_path: Path) -> StudySpec:
    """Rows as they stand, where the matching is not the matter."""
    return unmatched(study, tmp_path)


def kinds(guards: dict[str, ConsentGuard], name: str) -> list[EntryKind]:
    return [entry.kind for entry in guards[name].ledger.entries()]


def nothing_spent(guards: dict[str, ConsentGuard]) -> None:
    for name in PARTIES:
        assert guards[name].spent().epsilon == 0.0, name


def embedded(study: StudySpec, seed: bytes) -> bytes:
    tables = {name: source.read(name, study.agreement.schema.parties[name]) for name, source in study.sources.items()}
    return write_release(run_unguarded(study.agreement, tables, study.alignment, Randomness(seed)).release)


def opened(out: Run) -> set[bytes]:
    assert not out.errors, out.errors
    assert out.release is not None and out.told == "the release was opened"
    return {write_release(release) for release in (out.release, *out.releases.values())}


def test_release_is_that_of_one_process(study: StudySpec, tmp_path: Path) -> None:
    assert opened(run(study, tmp_path, SEED)) == {embedded(study, SEED)}
    assert embedded(study, b"another") != embedded(study, SEED)


def test_release_is_that_of_one_process_without_alignment(tmp_path: Path) -> None:
    study = unmatched(write_study(tmp_path), tmp_path)
    assert opened(run(study, tmp_path, SEED)) == {embedded(study, SEED)}


def test_lost_answers_are_asked_for_again_and_done_once(study: StudySpec, tmp_path: Path) -> None:
    """Every third answer is lost after the work was done, every fifth request before."""

    def lossy(relay: Relay) -> Wire:
        count, lock = [0], threading.Lock()

        def carry(name: str, data: bytes) -> bytes:
            with lock:
                count[0] += 1
                here = count[0]
            if here % 5 == 0:
                raise Unreachable
            answer = relay.handle(name, data)
            if here % 3 == 0:
                raise Unreachable
            return answer

        return carry

    patience = Timeouts(10.0, 10.0, 0.05, 0.05, 2.0)
    assert opened(run(study, tmp_path, SEED, wire=lossy, patience=patience)) == {embedded(study, SEED)}


def test_ledgers_are_booked_and_released(plain: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]) -> None:
    assert len(opened(run(plain, tmp_path, guards=guards))) == 1
    for name in PARTIES:
        assert kinds(guards, name) == [EntryKind.BOOKED, EntryKind.RELEASED]


def test_a_session_that_a_partner_breaks_is_counted_by_all_and_never_as_spend(
    plain: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]
) -> None:
    guards["bank"].policy = replace(guards["bank"].policy, require_approval=True)
    out = run(plain, tmp_path, guards=guards)
    assert "nobody approved the plan" in out.sentence("bank")
    for name in PARTIES:
        (account,) = guards[name].ledger.accounts()
        assert (account.failed, account.spent.epsilon, account.pending) == (1, 0.0, 0), name
        (note,) = guards[name].ledger.lines()
        assert note.kind is EntryKind.FAILED and note.to()["reason"], name
    again = {name: guard(tmp_path, name) for name in PARTIES}
    again["works"].policy = replace(again["works"].policy, largest_attempts=1)
    out = run(plain, tmp_path, guards=again)
    assert "largest_attempts is 1" in out.sentence("works")
    nothing_spent(again)


def test_second_session_within_the_same_budget(
    plain: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]
) -> None:
    opened(run(plain, tmp_path, guards=guards))
    before = {name: guards[name].spent().epsilon for name in PARTIES}
    # The bank has room for half a session more.
    room = 1.5 * before["bank"]
    again = {name: guard(tmp_path, name, total=room if name == "bank" else 500.0) for name in PARTIES}
    out = run(plain, tmp_path, guards=again)
    assert not out.releases and out.release is None
    assert "bank refuses: " in out.sentence("bank") and f"{room:.6g}" in out.sentence("bank")
    # The others hear who and which kind of reason, and no number of the bank's book.
    assert out.sentence("works").startswith("the session ended at bank (budget)")
    assert f"{room:.6g}" not in out.sentence("works") and "nothing is spent" in out.sentence("works")
    assert {name: again[name].spent().epsilon for name in PARTIES} == before


def meddling(change: Callable[[Envelope], Envelope], victim: str = "bank") -> Meddle:
    """Changes plans on their way to one party."""

    def meddle(name: str, message: Envelope) -> Sequence[Envelope]:
        return [change(message) if name == victim and message.step is Step.PROPOSAL else message]

    return meddle


def with_plan(envelope: Envelope, **terms: object) -> Envelope:
    plan = body_of(envelope, Proposal)
    other = msgspec.structs.replace(plan, agreement={**plan.agreement, **terms})
    return msgspec.structs.replace(envelope, body=encode_body(other))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        # A larger epsilon is a smaller noise scale than the study announces.
        (lambda e: with_plan(e, epsilon=60.0), "the plan's epsilon is not what this party agreed to: it is 60.0"),
        (lambda e: with_plan(e, collusion=0), "the plan's collusion is not what this party agreed to: it is 0"),
        (lambda e: with_plan(e, delta=0.1), "the plan's delta is not what this party agreed to"),
        (lambda e: msgspec.structs.replace(e, plan="0" * 64), "the server announces plan 0000000000000000"),
        (lambda e: msgspec.structs.replace(e, body=e.body[:-1]), "cannot be decoded"),
    ],
    ids=["smaller noise", "fewer shares of noise", "delta", "another digest", "cut off"],
)
def test_plan_altered_in_transit(
    plain: StudySpec,
    tmp_path: Path,
    guards: dict[str, ConsentGuard],
    change: Callable[[Envelope], Envelope],
    says: str,
) -> None:
    out = run(plain, tmp_path, guards=guards, wire=deviating(meddling(change)))
    assert not out.releases and says in out.sentence("bank"), out.sentence("bank")
    for other in ("works", "town"):
        assert out.sentence(other).startswith("the session ended at bank (")
        assert "nothing is spent" in out.sentence(other)
    assert all(not kinds(guards, name) for name in PARTIES)


def test_server_with_another_study(plain: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]) -> None:
    """A server that plans less noise than the study of the parties is refused at the door, or by the plan itself."""
    greedy = plain.agreement.with_terms(epsilon=60.0)
    out = run(plain, tmp_path, guards=guards, served=FitServer(greedy, plain.alignment))
    told = [out.sentence(name) for name in PARTIES]
    # Who comes first is not let in, and for the others it ends there.
    assert sum("its study file states other terms than the server's; nothing is spent" in text for text in told) == 1
    assert all("(study-differs)" in text or "is not let in" in text for text in told), told
    assert all("nothing is spent" in text for text in told)

    class Lying(FitServer):
        @property
        def terms(self) -> str:
            return study_digest(plain.agreement, plain.alignment)

    out = run(plain, tmp_path, guards=guards, served=Lying(greedy, plain.alignment))
    told = [out.sentence(name) for name in PARTIES]
    assert any("the plan's epsilon is not what this party agreed to: it is 60.0" in sentence for sentence in told)
    assert all("nothing is spent" in sentence for sentence in told)
    assert all(not kinds(guards, name) for name in PARTIES)


def test_party_name_used_twice(plain: StudySpec, tmp_path: Path) -> None:
    """Whoever enters second under a name is refused; the session of the first goes on."""
    seen: list[bytes] = []

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            answer = relay.handle(name, data)
            request = decode_request(data)
            if name == "bank" and isinstance(request, Poll) and not seen:
                stranger = bytes(16)
                for meddled in (msgspec.structs.replace(request, instance=stranger), Send(stranger, 1, b"")):
                    seen.append(relay.handle("bank", encode(meddled)))
            return answer

        return carry

    assert opened(run(plain, tmp_path, SEED, wire=wire)) == {embedded(plain, SEED)}
    assert [decode_reply(answer) for answer in seen] == [Rejected(Rejection.TWICE)] * 2


def test_second_process_of_a_party_hears_its_sentence(
    study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]
) -> None:
    """Two processes with the bank's certificate: the wire lets the town's speak in the bank's name."""

    def wire(relay: Relay) -> Wire:
        return lambda name, data: relay.handle("bank" if name == "town" else name, data)

    out = run(study, tmp_path, guards=guards, wire=wire, patience=replace(QUICK, join=1.0))
    told = [out.sentence("bank"), out.sentence("town")]
    assert sum("a party of this name has entered the session already; nothing is spent" in text for text in told) == 1
    assert out.release is None
    nothing_spent(guards)


def test_seeds_must_agree(study: StudySpec, tmp_path: Path) -> None:
    out = run(study, tmp_path, SEED, serve=lambda task, _, journal: ServerRole(task, Randomness(), journal))
    told = sorted(out.sentence(name) for name in PARTIES)
    says = "server and parties must all be seeded for a simulation, or none"
    assert all(says in text for text in told) and sum("is not let in" in text for text in told) == 1
    assert all("(seed-differs)" in text for text in told if "is not let in" not in text)


def older(hello: Hello) -> bytes:
    """What 0.1.0 sends."""
    return encode_body(msgspec.structs.replace(hello, version=2))


def later(hello: Hello) -> bytes:
    """What a version to come may send: another number, and a field that nobody knows yet."""
    return msgspec.msgpack.encode({**msgspec.structs.asdict(hello), "version": 4, "dialect": "new"})


@pytest.mark.parametrize(
    ("body", "says", "named"),
    [
        (older, "", "colonnade 0.1.0 or unknown"),
        (later, "colonnade 9.1, protocol 4", "colonnade 9.1, protocol 4"),
        (later, "bank\x1b[31m; colonnade 9.1, protocol 4", "colonnade 0.1.0 or unknown"),
    ],
)
def test_another_version_of_the_protocol(
    study: StudySpec,
    tmp_path: Path,
    guards: dict[str, ConsentGuard],
    body: Callable[[Hello], bytes],
    says: str,
    named: str,
) -> None:
    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            message, request = message_in(data), decode_request(data)
            if name == "town" and message is not None and message.step is Step.HELLO:
                item = msgspec.structs.replace(message, plan=says, body=body(body_of(message, Hello))).encode()
                data = encode(msgspec.structs.replace(request, item=item))
            return relay.handle(name, data)

        return carry

    out = run(study, tmp_path, guards=guards, wire=wire)
    assert out.sentence("town") == (
        "party town is not let in: it speaks another version of the protocol than the server "
        f"(it is {VERSIONS}, the server {VERSIONS}); nothing is spent"
    )
    assert out.told.startswith("the session ended at town (version-differs)")
    assert out.relay.role.aside == f"town is {named}, the server {VERSIONS}"
    for other in ("works", "bank"):
        assert out.sentence(other).startswith("the session ended at town (version-differs)"), out.sentence(other)
    nothing_spent(guards)


class Gone(BaseException):
    """Stands for a process that was killed: it says nothing more."""


def dying(victim: str, calls: int) -> Callable[[Relay], Wire]:
    """A wire on which a party falls silent after so many of its pushes and pulls."""

    def wire(relay: Relay) -> Wire:
        count = [0]

        def carry(name: str, data: bytes) -> bytes:
            if name == victim:
                count[0] += isinstance(decode_request(data), (Send, Poll))
                if count[0] > calls:
                    raise Gone
            return relay.handle(name, data)

        return carry

    return wire


@pytest.mark.parametrize("calls", [1, 5, 20])
def test_party_dies(study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard], calls: int) -> None:
    patience = Timeouts(join=10.0, silence=0.6, beat=0.1, poll=0.1, farewell=1.0)
    out = run(study, tmp_path, guards=guards, wire=dying("town", calls), patience=patience)
    assert isinstance(out.errors["town"], Gone)
    for other in ("works", "bank"):
        sentence = out.sentence(other)
        assert sentence.startswith("the session ended at town (party-lost)"), sentence
        assert "it was at step " in sentence and "nothing is spent" in sentence
    nothing_spent({name: kept for name, kept in guards.items() if name != "town"} | {"town": guards["town"]})


def test_exception_text_stays_at_home(study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]) -> None:
    secret = "the-mayors-secret"
    file = tmp_path / "study.toml"
    file.write_text(file.read_text().replace('levels = ["no", "yes"]', 'levels = ["no", "yes"], undeclared = "refuse"'))
    study = read_study(file)
    lines = (tmp_path / "town.csv").read_text().replace(",yes", f",{secret}", 1)
    (tmp_path / "town.csv").write_text(lines)
    heard: list[bytes] = []

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            heard.append(data)
            heard.append(relay.handle(name, data))
            return heard[-1]

        return carry

    out = run(study, tmp_path, guards=guards, wire=wire)
    assert secret in out.sentence("town")
    assert out.sentence("bank").startswith("the session ended at town (data)")
    assert not any(secret.encode() in data for data in heard)
    nothing_spent(guards)


def test_party_that_never_comes(study: StudySpec, tmp_path: Path, guards: dict[str, ConsentGuard]) -> None:
    patience = replace(QUICK, join=0.5)

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            if name == "town":
                raise Unreachable
            return relay.handle(name, data)

        return carry

    out = run(study, tmp_path, guards=guards, wire=wire, patience=patience)
    assert out.sentence("bank").startswith("the session ended at town (timeout)")
    assert "the server was not heard" in out.sentence("town")
    nothing_spent(guards)

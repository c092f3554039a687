"""Audits of sessions: an honest party's messages are made again bit for bit; a deviation is named by its message."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.columns import resident
from colonnade.audit.quoted import is_signed
from colonnade.audit.session import AuditOutcome, SessionAudit, audit_session, replay
from colonnade.audit.verdict import (
    _signed,
    note_audit,
    public_key,
    read_start,
    read_verdict,
    require_few,
    require_start,
    sign_finding,
    write_finding,
    write_start,
)
from colonnade.crypto.alignment import kem_ot
from colonnade.crypto.alignment.encapsulation import encapsulated
from colonnade.crypto.product import PartyProduct
from colonnade.data.table import Table, table_from
from colonnade.foundation.errors import SignatureError, SiteError
from colonnade.foundation.integers import IntegerColumns
from colonnade.foundation.matching import HYBRID
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.objective import Task
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.fit import FitParty, FitServer, best_product
from colonnade.protocol.party import PartyRole
from colonnade.protocol.predict import PredictParty, PredictServer
from colonnade.protocol.server import ServerRole
from colonnade.protocol.signatures import Signer
from colonnade.protocol.tasks import PartyTask, ServerTask, Unguarded
from colonnade.transport.client import Client
from colonnade.transport.evidence import DAY, RECORD, SECRETS, TRAFFIC, EvidenceFolder, KeptEvidence, destroy_expired
from colonnade.transport.in_process import InProcess, Wire, pass_on
from colonnade.transport.relay import Relay
from colonnade.transport.wire import Timeouts
from tests.helpers.accounts import SharedSigner
from tests.helpers.conversations import AGREEMENT, COLUMNS, NAMES, PLANS, PREDICTION, ROWS, table

KEY = Fernet.generate_key()
CHEAT, SEALS = "works", "town"
"""One multiplies, one seals."""
LATTICE = replace(AGREEMENT, product="lattice")
Plant = Callable[[PartyRole], None]


def fit_task(name: str, aligned: bool) -> FitParty:
    alignment = "psi" if aligned else "none"
    return FitParty(name, LATTICE, alignment, lambda: table(name, aligned), Unguarded(), planner=PLANS)


def predict_task(name: str, aligned: bool = False) -> PredictParty:
    return PredictParty(
        name,
        PREDICTION,
        "psi" if aligned else "none",
        lambda: table(name, aligned),
        lambda own: next(iter(own.coordinates().values())),
        Unguarded(),
        keep=lambda session, opened: None,
    )


def carry(
    server: ServerTask,
    tasks: dict[str, PartyTask],
    folder: Path,
    plant: Plant,
    cheat: str = CHEAT,
    keep_traffic: bool = True,
    signers: Mapping[str, Signer] | None = None,
    wire: Wire = pass_on,
    identity: bytes | None = None,
) -> dict[str, KeptEvidence]:
    """A session with operating-system randomness, evidence of every party on disk, and one party that cheats."""
    roles, folders = {}, {}
    for name, task in tasks.items():
        facts = {"party": name, "terms": task.terms, "kind": task.kind.name, "simulated": False}
        folders[name] = EvidenceFolder(folder / name, KEY, facts, keep_traffic=keep_traffic)
        signer = SharedSigner(name) if signers is None else signers[name]
        roles[name] = PartyRole(task, Randomness(), signer, account=SessionAccount(folders[name]))
    plant(roles[cheat])
    middle = ServerRole(server, Randomness(), accountable=True)
    if identity is not None:
        middle.identity, middle.__dict__["alignment_id"] = identity, bytes(32)
    InProcess(middle, roles, wire).carry()
    for kept in folders.values():
        kept.close()
    return {name: KeptEvidence.read(kept.place) for name, kept in folders.items() if kept.place is not None}


def honest(role: PartyRole) -> None:
    """Plants nothing."""


def fit_session(folder: Path, plant: Plant = honest, aligned: bool = False, **more: Any) -> dict[str, KeptEvidence]:
    tasks: dict[str, PartyTask] = {name: fit_task(name, aligned) for name in NAMES}
    return carry(FitServer(LATTICE, "psi" if aligned else "none", PLANS), tasks, folder, plant, **more)


def audit(kept: dict[str, KeptEvidence], task: PartyTask, peers: bool = True) -> SessionAudit:
    mine = kept[task.name]
    against = [other for name, other in kept.items() if name != task.name] if peers else []
    return audit_session(mine, mine.opening(KEY), task, against, checker=SharedSigner("auditor"))


@pytest.mark.parametrize("aligned", [True, False], ids=["ids are matched", "rows as they stand"])
def test_an_honest_release_is_made_again_by_every_party(aligned: bool, tmp_path: Path) -> None:
    kept = fit_session(tmp_path, aligned=aligned)
    for name in NAMES:
        found = audit(kept, fit_task(name, aligned))
        assert (found.outcome, found.left_out, found.doubts) == (AuditOutcome.FOLLOWED, (), ()), name
        assert found.replayed == len(kept[name].of("sent")) > 10
        assert set(found.compared) == set(NAMES) - {name}


def post_quantum_task(name: str) -> FitParty:
    return FitParty(name, LATTICE, HYBRID, lambda: table(name, True), Unguarded(), planner=PLANS)


def post_quantum_session(folder: Path) -> dict[str, KeptEvidence]:
    return carry(FitServer(LATTICE, HYBRID, PLANS), {n: post_quantum_task(n) for n in NAMES}, folder, honest)


def test_an_honest_session_with_post_quantum_is_made_again_by_every_party(tmp_path: Path) -> None:
    """Encapsulations come from the party's seed, as all that it draws; the library's come from the operating system."""
    kept = post_quantum_session(tmp_path)
    for name in NAMES:
        found = audit(kept, post_quantum_task(name))
        assert (found.outcome, found.left_out, found.doubts) == (AuditOutcome.FOLLOWED, (), ())


def test_who_wraps_something_else_than_it_drew_is_convicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as cheats:
        cheats.setattr(kem_ot, "encapsulated", lambda keys, _: encapsulated(keys, [os.urandom(32) for _ in keys]))
        kept = post_quantum_session(tmp_path)
    found = [audit(kept, post_quantum_task(name)) for name in NAMES]
    assert sorted(one.outcome for one in found) == [AuditOutcome.DEVIATED, *2 * [AuditOutcome.FOLLOWED]]
    assert {quote.round for one in found for quote in one.quotes} == {"matrix"}


def test_products_of_three_owners_are_made_again_by_every_party(tmp_path: Path) -> None:
    text = "w^2 * works_x^2 - w * works_x * bank_x * town_x - w * works_x * bank_x"
    declared = LATTICE.with_terms(task=Task.POLYNOMIAL, release="auto", objective=text, parameters=("w",), ball=1.0)

    def task(name: str) -> FitParty:
        return FitParty(name, declared, "none", lambda: table(name, False), Unguarded())

    kept = carry(FitServer(declared, "none"), {name: task(name) for name in NAMES}, tmp_path, honest)
    for name in NAMES:
        found = audit(kept, task(name))
        assert (found.outcome, found.left_out, found.doubts) == (AuditOutcome.FOLLOWED, (), ()), name
        assert found.replayed == len(kept[name].of("sent")) > 10


@pytest.mark.parametrize("aligned", [True, False], ids=["ids are matched", "rows as they stand"])
def test_honest_scores_are_made_again(aligned: bool, tmp_path: Path) -> None:
    tasks: dict[str, PartyTask] = {name: predict_task(name, aligned) for name in NAMES}
    kept = carry(PredictServer(PREDICTION, "psi" if aligned else "none"), tasks, tmp_path, honest)
    for name in NAMES:
        found = audit(kept, predict_task(name, aligned))
        assert found.passed and found.left_out == () and found.replayed == len(kept[name].of("sent")) > 5


def test_a_part_of_scores_that_differs_is_named(tmp_path: Path) -> None:
    def another_part(role: PartyRole) -> None:
        role.task.part_of = lambda own: 2 * next(iter(own.coordinates().values()))  # type: ignore[attr-defined]

    tasks: dict[str, PartyTask] = {name: predict_task(name, True) for name in NAMES}
    kept = carry(PredictServer(PREDICTION, "psi"), tasks, tmp_path, another_part)
    found = audit(kept, predict_task(CHEAT, True))
    assert found.outcome is AuditOutcome.DEVIATED and found.quotes[0].round == "bind"


# What a party may do otherwise.


@dataclass(frozen=True, repr=False)
class Bent(Table):
    """A table whose columns are bent after they were encoded."""

    bend: Callable[[Any], None] = lambda rows: None

    def encode(self, *args: Any, **named: Any) -> IntegerColumns:
        columns = super().encode(*args, **named)
        self.bend(columns.rows(0, self.rows))
        return columns


def bent(bend: Callable[[Any], None]) -> Plant:
    def plant(role: PartyRole) -> None:
        own = table(CHEAT, False)
        role.task.source = lambda: Bent(own.party, own.columns, own.values, own.rows, bend=bend)  # type: ignore[attr-defined]

    return plant


def beyond_bounds(rows: Any) -> None:
    rows[0, -1] += 5_000


def scaled(rows: Any) -> None:
    rows[:, -1] //= 2


def another_file(role: PartyRole) -> None:
    own = table(CHEAT, False)
    other = table_from(CHEAT, pl.DataFrame({f"{CHEAT}_x": [0.5] * own.rows}), own.columns)
    role.task.source = lambda: other  # type: ignore[attr-defined]


def product_of(change: Callable[[type[PartyProduct]], type[PartyProduct]]) -> Plant:
    def plant(role: PartyRole) -> None:
        role.task.product = lambda session, workers: change(best_product(session, workers))  # type: ignore[attr-defined]

    return plant


def wrong_in(wanted: str) -> Plant:
    """What is drawn in a round comes from a key of the party's own choice, or of last time."""

    def change(kind: type[PartyProduct]) -> type[PartyProduct]:
        class Wrong(kind):  # type: ignore[misc, valid-type]
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                self._randomness[wanted] = Randomness(b"of last time")

        return Wrong

    return product_of(change)


def other_columns(kind: type[PartyProduct]) -> type[PartyProduct]:
    class Other(kind):  # type: ignore[misc, valid-type]
        def __init__(self, spec: Any, me: int, columns: Any, noise: Any, randomness: Randomness) -> None:
            rows = columns.rows(0, spec.rows).copy()
            scaled(rows)
            super().__init__(spec, me, resident(rows), noise, randomness)

    return Other


def unchecked(kind: type[PartyProduct]) -> type[PartyProduct]:
    """Without the party's own check of its bounds."""

    class Unchecked(kind):  # type: ignore[misc, valid-type]
        def __init__(self, spec: Any, *more: Any) -> None:
            super().__init__(replace(spec, bound=1 << 14), *more)

    return Unchecked


def out_of_bounds(role: PartyRole) -> None:
    bent(beyond_bounds)(role)
    product_of(unchecked)(role)


def less_noise(kind: type[PartyProduct]) -> type[PartyProduct]:
    class Less(kind):  # type: ignore[misc, valid-type]
        def __init__(self, spec: Any, me: int, columns: Any, noise: Any, randomness: Randomness) -> None:
            halved = {cross: values // 2 for cross, values in noise.items()}
            super().__init__(spec, me, columns, halved, randomness)

    return Less


def drawn_from(label: str) -> Plant:
    """The party draws what stands under this label from a seed of its own."""

    class Own(Randomness):
        def __init__(self, real: Randomness) -> None:
            super().__init__(b"unused")
            self._real = real

        @property
        def seeded(self) -> bool:
            return self._real.seeded

        def child(self, wanted: str) -> Randomness:
            return Randomness.derived(b"of its own") if wanted == label else self._real.child(wanted)

    def plant(role: PartyRole) -> None:
        real = role._own
        role._own = lambda: Own(real())  # type: ignore[method-assign]

    return plant


def another_submission(role: PartyRole) -> None:
    real = role.task.submit

    def submit(mask: Any) -> list[bytes]:
        bodies = real(mask)
        changed = bytearray(bodies[-1])
        changed[-1] ^= 1
        return [*bodies[:-1], bytes(changed)]

    role.task.submit = submit  # type: ignore[method-assign]


def invented_ids(role: PartyRole) -> None:
    account = role._account
    assert account is not None
    real = account.begin

    def begin(*args: Any) -> None:
        real(*args)
        own = role._records
        assert isinstance(own, Table) and own.ids is not None
        role._records = replace(own, ids=[*own.ids[:-1], "somebody"])

    account.begin = begin  # type: ignore[method-assign]


PLANTED: dict[str, tuple[str, Plant, bool, str, str]] = {
    "one value out of bounds": (CHEAT, out_of_bounds, False, "passed", "bind"),
    "a scaled column": (CHEAT, bent(scaled), False, "passed", "bind"),
    "a column scaled behind the binding": (SEALS, product_of(other_columns), False, "passed", "seal"),
    "another file": (CHEAT, another_file, False, "", ""),
    "a wrong u": (CHEAT, wrong_in("multiply"), False, "passed", "multiply"),
    "a column under a reused key": (SEALS, wrong_in("seal"), False, "passed", "seal"),
    "noise halved behind the binding": (CHEAT, product_of(less_noise), False, "submission", ""),
    "noise of its own seed": (CHEAT, drawn_from("noise"), False, "passed", "bind"),
    "a submission that differs": (CHEAT, another_submission, False, "submission", ""),
    "invented ids": (CHEAT, invented_ids, True, "passed", "matrix"),
    "a mask key of its own": (CHEAT, drawn_from("masks"), False, "mask key", ""),
    "rounding coins of its own": (CHEAT, drawn_from("rounding"), False, "passed", "bind"),
}
"""Who, what, whether ids are matched; what the quoted signature is about, and the round that it speaks of."""


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_deviation_is_convicted_by_what_a_peer_holds(planted: str, tmp_path: Path) -> None:
    cheat, plant, aligned, about, round = PLANTED[planted]
    kept = fit_session(tmp_path, plant, aligned, cheat=cheat)
    found = audit(kept, fit_task(cheat, aligned))
    assert {quote.holder for quote in found.quotes} <= set(NAMES) - {cheat}
    if not about:
        # A typing error, a file updated since, and a cheat's other file look alike.
        assert found.outcome is AuditOutcome.NOT_SHOWN and len(found.quotes) == 2
        assert "data shown now are not what works committed to" in found.sentence
        return
    assert (found.outcome, found.quotes[0].about, found.quotes[0].round) == (AuditOutcome.DEVIATED, about, round)
    for quote in found.quotes:
        held = kept[quote.holder].of("signature")
        assert (cheat, quote.value, quote.proof) in {(h["from"], h["value"], h["proof"]) for h in held}
        assert quote.replay not in ("", quote.value)
        assert is_signed(quote, cheat, found.session, SharedSigner("anybody"))
        assert not is_signed(replace(quote, value=quote.replay), cheat, found.session, SharedSigner("anybody"))
        assert not is_signed(quote, cheat, "ab" * 32, SharedSigner("anybody"))
        # That peer's evidence alone does.
        alone = audit({cheat: kept[cheat], quote.holder: kept[quote.holder]}, fit_task(cheat, aligned))
        assert alone.outcome is AuditOutcome.DEVIATED and alone.quotes == (quote,)
    # The others did as they said, whatever came.
    assert audit(kept, fit_task(NAMES[1], aligned)).outcome is AuditOutcome.FOLLOWED


def test_nobody_is_convicted_where_no_signature_can_be_checked(tmp_path: Path) -> None:
    kept = fit_session(tmp_path, another_submission)
    mine, peers = kept[CHEAT], [kept[name] for name in NAMES if name != CHEAT]
    found = audit_session(mine, mine.opening(KEY), fit_task(CHEAT, False), peers)
    assert found.outcome is AuditOutcome.NOT_SHOWN and found.compared == () and found.quotes == ()


def test_evidence_that_was_written_anew_is_told_by_what_peers_hold(tmp_path: Path) -> None:
    """The cheat's own notes say what it should have sent: its peers hold its signatures about what it did send."""
    kept = fit_session(tmp_path, wrong_in("multiply"))
    path = kept[CHEAT].place / RECORD
    clean = fit_task(CHEAT, False)
    made = replay(kept[CHEAT], kept[CHEAT].opening(KEY), clean)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    notes = [line for line in lines if line["what"] != "sent"] + [{"what": "sent", **m} for m in made.sent]
    path.write_text("".join(json.dumps(line) + "\n" for line in notes))
    kept[CHEAT] = KeptEvidence.read(kept[CHEAT].place)
    assert audit(kept, fit_task(CHEAT, False), peers=False).passed
    found = audit(kept, fit_task(CHEAT, False))
    assert found.outcome is AuditOutcome.DEVIATED and {quote.round for quote in found.quotes} == {"multiply"}


def test_what_depends_on_traffic_that_was_not_kept_is_left_out(tmp_path: Path) -> None:
    kept = fit_session(tmp_path, keep_traffic=False)
    found = audit(kept, fit_task(CHEAT, False))
    assert found.outcome is AuditOutcome.NOT_SHOWN and 5 < found.replayed < len(kept[CHEAT].of("sent"))
    assert any("was not kept" in sentence for sentence in found.left_out)


# Evidence on disk.


def test_either_nothing_has_left_or_seed_and_evidence_are_readable(tmp_path: Path) -> None:
    """Cut at every write: whoever has heard of a commitment can be shown what it opens to."""

    class Killed(BaseException):
        pass

    class Binning(EvidenceFolder):
        left = 0

        def _tick(self) -> None:
            Binning.left -= 1
            if Binning.left < 0:
                raise Killed

        def begin(self, *args: Any) -> None:
            self._tick()
            super().begin(*args)

        def _write(self, content: Any, sync: bool = False) -> None:
            self._tick()
            super()._write(content, sync)

    for after in range(0, 40, 3):
        Binning.left = after
        place = tmp_path / str(after)
        task = fit_task(CHEAT, False)
        others = {name: fit_task(name, False) for name in NAMES if name != CHEAT}
        facts = {"party": CHEAT, "terms": task.terms}
        roles = {CHEAT: PartyRole(task, Randomness(), account=SessionAccount(Binning(place, KEY, facts)))}
        for name, other in others.items():
            folder = EvidenceFolder(tmp_path / f"{after} {name}", KEY, {"party": name})
            roles[name] = PartyRole(other, Randomness(), account=SessionAccount(folder))
        seen: list[str] = []

        def wire(envelope: Any, up: bool, seen: list[str] = seen) -> Any:
            if up and envelope.sender == CHEAT and envelope.step.value not in ("hello", "refuse"):
                seen.append(envelope.step.value)
            return (envelope,)

        with pytest.raises(Killed):
            InProcess(
                ServerRole(FitServer(LATTICE, "none", PLANS), Randomness(), accountable=True), roles, wire
            ).carry()
        if seen:
            (folder,) = place.iterdir()
            assert len(KeptEvidence.read(folder).opening(KEY).seed) == 32


def test_secrets_open_with_the_key_alone_and_are_destroyed_after_the_retention(tmp_path: Path) -> None:
    kept = fit_session(tmp_path)[CHEAT]
    with pytest.raises(SiteError, match="do not open with this key"):
        kept.opening(Fernet.generate_key())
    assert (kept.place / SECRETS).stat().st_mode & 0o777 == 0o600
    ended = (kept.place / SECRETS).stat().st_mtime
    assert destroy_expired(tmp_path / CHEAT, 90, ended + 89 * DAY) == []
    assert destroy_expired(tmp_path / CHEAT, 90, ended + 91 * DAY) == [kept.place.name]
    assert not (kept.place / SECRETS).exists() and not (kept.place / TRAFFIC).exists()
    with pytest.raises(SiteError, match="not there any more"):
        KeptEvidence.read(kept.place).opening(KEY)
    assert (
        KeptEvidence.read(kept.place).of("destroyed") and destroy_expired(tmp_path / CHEAT, 90, ended + 99 * DAY) == []
    )


def test_over_the_relay_every_party_hears_the_end_and_can_be_audited(tmp_path: Path) -> None:
    server = ServerRole(FitServer(LATTICE, "none", PLANS), Randomness(), accountable=True)
    relay = Relay(server, Timeouts(silence=20.0, beat=0.2, poll=0.2, farewell=5.0))
    folders, clients = {}, []
    for name in NAMES:
        task = fit_task(name, False)
        folders[name] = EvidenceFolder(tmp_path / name, KEY, {"party": name, "terms": task.terms})
        role = PartyRole(task, Randomness(), SharedSigner(name), account=SessionAccount(folders[name]))
        clients.append(Client(role, lambda data, n=name: relay.handle(n, data), Timeouts(beat=0.2)))
    threads = [threading.Thread(target=client.run) for client in clients]
    for thread in threads:
        thread.start()
    relay.run()
    for thread in threads:
        thread.join(20)
    assert all(client.role.end is not None and client.role.released for client in clients)
    kept = {name: KeptEvidence.read(folder.place) for name, folder in folders.items() if folder.place is not None}
    for name in NAMES:
        found = audit(kept, fit_task(name, False))
        assert (found.outcome, found.left_out) == (AuditOutcome.FOLLOWED, ())
        signed = {held["from"] for held in kept[name].of("signature") if held["about"] == "opened"}
        assert signed == set(NAMES) - {name}


def test_a_verdict_is_signed_and_audits_add_up(tmp_path: Path) -> None:
    kept = fit_session(tmp_path, another_submission)
    key, stranger = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    agreed, found = [public_key(key)], audit(kept, fit_task(CHEAT, False))
    start = read_start(write_start(found.session, CHEAT, key))
    data = sign_finding(write_finding(found, agreed, start), key)
    verdict = read_verdict(data)
    assert (verdict["party"], verdict["outcome"]) == (CHEAT, "did not follow")
    assert {quote["about"] for quote in verdict["quotes"]} == {"submission"}
    with pytest.raises(SignatureError, match="not what its auditor signed"):
        read_verdict(data.replace(b'"party": "works"', b'"party": "town"'))
    with pytest.raises(SiteError, match="must have the format"):
        read_verdict(b"[]")
    with pytest.raises(SiteError, match="agreed on other auditors"):
        sign_finding(write_finding(found, agreed, start), stranger)
    # Whoever writes the verdict without this program can sign anything, and not in an agreed auditor's name.
    forged = {**json.loads(write_finding(found, agreed, start)), "format": verdict["format"]}
    with pytest.raises(SignatureError, match="signed by none of the auditors"):
        read_verdict(_signed(forged, stranger))
    # Starts by agreed auditors count, whoever shows them, and nothing else does.
    bank = note_audit(note_audit(kept["bank"], verdict), start)
    assert len(bank.of("start")) == 1
    require_few(note_audit(kept[CHEAT], start), [bank], agreed, 1)
    for mine, peers in ((bank, []), (kept["town"], [bank])):
        with pytest.raises(SiteError, match="audits of works have started in this session"):
            require_few(mine, peers, agreed, 1)
        with pytest.raises(SiteError, match="and collusion is 0"):
            require_few(mine, peers, agreed, 0)
        require_few(mine, peers, agreed, 2)
        require_few(mine, peers, [public_key(stranger)], 1)
    forged = [{"what": "start", **start, "party": "town"}, {"what": "audit", "party": "town", "auditor": "00"}]
    for line in forged:
        kept["town"].append(line)
    require_few(KeptEvidence.read(kept["town"].place), [], agreed, 1)
    with pytest.raises(SiteError, match="another session"):
        note_audit(fit_session(tmp_path / "next")[CHEAT], verdict)


def test_an_audit_starts_by_the_word_of_an_agreed_auditor(tmp_path: Path) -> None:
    kept = fit_session(tmp_path)[CHEAT]
    key, stranger = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    agreed = [public_key(key)]
    require_start(kept, read_start(write_start(kept.session, CHEAT, key)), agreed)
    for start in (
        None,
        read_start(write_start(kept.session, CHEAT, stranger)),
        read_start(write_start("ab" * 32, CHEAT, key)),
        read_start(write_start(kept.session, "bank", key)),
    ):
        with pytest.raises(SiteError):
            require_start(kept, start, agreed)
    with pytest.raises(SignatureError):
        read_start(write_start(kept.session, CHEAT, key).replace(b'"works"', b'"town"'))


# What is not found, or not prevented: docs/secure-product.md says so, and these show it.


def inventing(values: bool, ids: bool) -> FitParty:
    """Works brings numbers that nobody has, within their bounds, and an id that it guessed."""
    real = table(CHEAT, True)
    frame = pl.DataFrame({f"{CHEAT}_x": [0.9 - 0.1 * i if values else 0.1 * i for i in range(ROWS - 1)]})
    known = list(real.ids or ())[: ROWS - 1]
    guessed = [*known[:-1], "p5"] if ids else known
    made = table_from(CHEAT, frame, COLUMNS[CHEAT], guessed)
    return FitParty(CHEAT, LATTICE, "psi", lambda: made, Unguarded(), planner=PLANS)


@pytest.mark.parametrize(("values", "ids"), [(True, False), (False, True)], ids=["values", "ids"])
def test_what_is_invented_in_the_file_is_not_found(values: bool, ids: bool, tmp_path: Path) -> None:
    tasks: dict[str, PartyTask] = {name: fit_task(name, True) for name in NAMES} | {CHEAT: inventing(values, ids)}
    server = FitServer(LATTICE, "psi", PLANS)
    kept = carry(server, tasks, tmp_path, honest)
    assert server.session is not None and server.session.rows == ROWS - 1
    assert audit(kept, inventing(values, ids)).outcome is AuditOutcome.FOLLOWED

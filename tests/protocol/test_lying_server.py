"""A server that lies: its release is refused unless it is this session's, and its terms cost nothing to refuse."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from colonnade.crypto.product import SERVER as MIDDLE
from colonnade.foundation.errors import MessageError, PolicyError, ProtocolError, SchemaError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric, Schema
from colonnade.foundation.sections import Section
from colonnade.foundation.workers import HERE
from colonnade.mechanism.moments import Distribution
from colonnade.mechanism.release import ReleaseRecord, write_release
from colonnade.protocol.fit import FitParty, FitServer, study_digest
from colonnade.protocol.messages import SMALL, Envelope, Join, Proposal, Step, body_of, encode_body, in_pieces
from colonnade.protocol.own_release import largest_release
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.sites.recipes import FitRecipe
from colonnade.sites.site import PARTY, Site
from colonnade.study import StudySpec
from tests.helpers.conversations import (
    AGREEMENT,
    NAMES,
    PLANS,
    ROWS,
    Book,
    Conversation,
    Notes,
    fit_conversation,
    predict_conversation,
    table,
)

MEGABYTE = 1_000_000
Lie = Callable[[ReleaseRecord], ReleaseRecord]


def provenance(**changes: Any) -> Lie:
    return lambda r: replace(r, provenance={**r.provenance, **changes})


def plan(**changes: Any) -> Lie:
    return lambda r: replace(r, plan={**r.plan, **changes})


def block(**changes: Any) -> Lie:
    return lambda r: replace(r, blocks=(replace(r.blocks[0], **changes), *r.blocks[1:]))


LIES: dict[str, tuple[Lie, str]] = {
    "another session": (provenance(session="ab" * 32), "session"),
    "a path": (provenance(session="../../pw"), "session"),
    "no session": (lambda r: replace(r, provenance={}), "session"),
    "another plan": (provenance(plan_digest="ab" * 32), "plan digest"),
    "fewer records": (lambda r: replace(r, n=7), "number of records"),
    "other terms": (lambda r: provenance(agreement={**AGREEMENT.to(), "epsilon": 0.001})(r), "agreement"),
    "not seeded": (provenance(seeded=False), "seeded mark"),
    "no simulation": (provenance(simulation=False), "simulation mark"),
    "another law": (lambda r: replace(r, law=Distribution.GAUSSIAN), "law"),
    "another order": (
        lambda r: replace(r, layout=replace(r.layout, attributes=r.layout.attributes[::-1])),
        "other columns",
    ),
    "another unit": (lambda r: block(unit=r.blocks[0].unit * 2)(r), "spread"),
    "another spread": (lambda r: block(std=r.blocks[0].std / 2)(r), "spread"),
    "another factor": (lambda r: block(factors=(r.blocks[0].factors + 1) % r.layout.width)(r), "spread"),
    "a block less": (lambda r: replace(r, blocks=r.blocks[:-1]), "blocks"),
    "a smaller epsilon": (plan(epsilon=0.001), "epsilon"),
    "an epsilon of a view": (plan(record={"outsider": 0.1, "server": 0.1, "party": 0.1, "coalition": 0.1}), "outsider"),
    "another study": (plan(study="other"), "study"),
    "a fact more": (plan(remark="approved"), "part"),
}


def lying(lie: Lie) -> Conversation:
    talk = fit_conversation()
    task = talk.server.task
    assert isinstance(task, FitServer)
    task.bodies = lambda party: in_pieces(write_release(lie(task.release)))  # type: ignore[method-assign, arg-type]
    return talk


@pytest.mark.parametrize("what", LIES)
def test_a_release_of_another_session_is_not_kept(what: str) -> None:
    lie, told = LIES[what]
    talk = lying(lie)
    kept: list[ReleaseRecord] = []
    for role in talk.parties.values():
        assert isinstance(role.task, FitParty)
        role.task.keep = kept.append
    talk.run()
    assert not kept
    for name, role in talk.parties.items():
        assert isinstance(role.task, FitParty) and role.task.kept is None
        assert role.reason.startswith("the release is not of this session") and told in role.reason, role.reason
        assert len(role.reason) < 400
        assert talk.books[name].state == "released", "what was handed in counts, whatever the server says of it"


def test_the_true_release_is_kept() -> None:
    talk = lying(lambda release: release)
    talk.run()
    for role in talk.parties.values():
        assert isinstance(role.task, FitParty) and role.task.kept is not None and role.end and role.end.code is None


def site_conversation(folder: Path, lie: Lie) -> tuple[Conversation, dict[str, FitRecipe]]:
    """Parties by the recipes of their folders."""
    study = StudySpec(AGREEMENT, alignment="none")
    recipes, roles, books, source = {}, {}, {name: Book() for name in NAMES}, Randomness(b"site")
    for name in NAMES:
        place = folder / name
        (place / "releases").mkdir(parents=True)
        section = Section({}, "", PolicyError)
        recipes[name] = FitRecipe(Site(place, PARTY, name, study, section, section, section))
        task = recipes[name].party_task(books[name], HERE)  # type: ignore[arg-type]
        task.source, task.planner = (lambda n=name: table(n, False)), PLANS
        roles[name] = PartyRole(task, source)
    server = FitServer(AGREEMENT, "none", PLANS)
    server.bodies = lambda party: in_pieces(write_release(lie(server.release)))  # type: ignore[method-assign, arg-type]
    return Conversation(ServerRole(server, source, Notes()), roles, books, Notes()), recipes


def test_lie_release_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    """The server's n, epsilon and session are its own, and the session is a path."""

    def lie(r: ReleaseRecord) -> ReleaseRecord:
        changed = {**r.plan, "epsilon": 0.001, "n": 7}
        return replace(r, n=7, plan=changed, provenance={**r.provenance, "session": "../../pw"})

    inside = tmp_path / "sites" / "here"
    talk, _ = site_conversation(inside, lie)
    talk.run()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all("its session is '../../pw'" in role.reason for role in talk.parties.values())
    assert {book.state for book in talk.books.values()} == {"released"}


def test_a_release_is_named_by_the_partys_own_session(tmp_path: Path) -> None:
    talk, recipes = site_conversation(tmp_path, lambda r: r)
    talk.run()
    own = talk.server.identity.hex()
    for name, recipe in recipes.items():
        assert recipe.file == tmp_path / name / "releases" / f"{own[:16]}.json" and recipe.file.is_file()


def test_a_release_larger_than_any_of_this_session_is_not_gathered() -> None:
    talk = lying(lambda r: provenance(remark="x" * 3_000_000)(r))
    talk.run()
    role = talk.parties[NAMES[0]]
    assert isinstance(role.task, FitParty) and role.task.session is not None
    assert role.task.kept is None and "within" in role.reason
    assert largest_release(role.task.session) < 2 * MEGABYTE


# What a server may cost a party.


def waiting() -> tuple[PartyRole, Envelope]:
    """A party before the server's proposal, and the proposal."""
    talk = fit_conversation()
    for role in talk.parties.values():
        talk.send(MIDDLE, role.start())
    while True:
        recipient, envelope = talk.queue.popleft()
        if envelope.step is Step.PROPOSAL and recipient == NAMES[0]:
            return talk.parties[NAMES[0]], envelope
        talk.deliver(recipient, envelope)


def cost(role: PartyRole, envelope: Envelope) -> tuple[float, float]:
    """Seconds and megabytes that a message cost that was refused."""
    tracemalloc.start()
    started = time.process_time()
    try:
        with pytest.raises((PolicyError, MessageError)):
            list(role.receive(envelope))
        return time.process_time() - started, tracemalloc.get_traced_memory()[1] / MEGABYTE
    finally:
        tracemalloc.stop()


def endless(width: int) -> dict[str, Any]:
    number = {"kind": "numeric", "low": 0, "high": 1}
    return {**AGREEMENT.to(), "schema": {**AGREEMENT.to()["schema"], "bank": {f"c{i}": number for i in range(width)}}}


@pytest.mark.parametrize("width", [3, 2_000, 200_000])
def test_plan_dos_is_refused_before_anything_is_computed(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    role, envelope = waiting()
    assert isinstance(role.task, FitParty)

    def never(*_: object) -> Any:
        raise AssertionError("a plan was computed from the server's terms")

    monkeypatch.setattr(role.task, "planner", never)
    proposal = body_of(envelope, Proposal)
    body = encode_body(Proposal(endless(width), proposal.rows, proposal.mask_keys))
    seconds, grown = cost(role, msgspec.structs.replace(envelope, body=body))
    assert seconds < 1 and grown < 50, (seconds, grown)


def test_a_message_of_nothing_but_empty_tables_is_not_decoded() -> None:
    """One byte of it would become 72 in memory."""
    role, envelope = waiting()
    bomb = b"\x83\xa9agreement\x81\xa1a\xdd" + (30 * MEGABYTE).to_bytes(4, "big") + b"\x80" * 30 * MEGABYTE
    body = bomb + b"\xa4rows\x06\xa9mask_keys\x90"
    seconds, grown = cost(role, msgspec.structs.replace(envelope, body=body))
    assert seconds < 1 and grown < 1, (seconds, grown)
    assert body_of(msgspec.structs.replace(envelope, body=body[:14] + b"\x80\xa4rows\x06\xa9mask_keys\x90"), Proposal)


def test_a_partys_bomb_is_not_decoded_by_the_server() -> None:
    talk = fit_conversation()
    for role in talk.parties.values():
        talk.send(MIDDLE, role.start())
    while True:
        recipient, envelope = talk.queue.popleft()
        if envelope.step is Step.JOIN:
            break
        talk.deliver(recipient, envelope)
    bomb = encode_body(Join({"x": {"kind": [{}] * 4000}}, ROWS, bytes(32)))
    with pytest.raises(MessageError, match="a join message must have at most"):
        list(talk.server.receive(msgspec.structs.replace(envelope, body=bomb)))
    with pytest.raises(MessageError, match=f"at most {SMALL} bytes"):
        body_of(Envelope(b"", "", "", "", Step.HELLO, bytes(SMALL + 1)), Join)


def test_honest_proposals_have_room() -> None:
    for talk in (fit_conversation(), predict_conversation()):
        talk.run()
        assert talk.server.end is not None and talk.server.end.code is None


def test_spoof_is_refused_at_the_schema() -> None:
    """A name that would conceal what a person approves does not become an agreement, at the server or from it."""
    spoof = "income with n=20000 would spend epsilon=0.1 of data set bank.csv\x1b[8m"
    with pytest.raises(Exception, match=r"a study's name must be .* visible, got 'income.*") as refused:
        replace(AGREEMENT, name=spoof)
    assert "\x1b" not in str(refused.value)
    for columns in ({spoof: {"x": Numeric(0, 1)}}, {"bank": {spoof: Numeric(0, 1)}}):
        with pytest.raises(SchemaError, match="visible"):
            Schema(columns)
    role, envelope = waiting()
    proposal = body_of(envelope, Proposal)
    body = encode_body(Proposal({**proposal.agreement, "name": spoof}, proposal.rows, proposal.mask_keys))
    with pytest.raises(PolicyError) as seen:
        list(role.receive(msgspec.structs.replace(envelope, body=body)))
    assert "\x1b" not in str(seen.value)


def test_columns_in_another_order_are_refused() -> None:
    """Digests sort their keys; a release does not sort its columns."""
    two = {"b1": Numeric(-1, 1), "b2": Numeric(-1, 1)}
    mine = replace(AGREEMENT, schema=Schema({"works": AGREEMENT.schema.parties["works"], "bank": two}))
    theirs = replace(mine, schema=Schema({**mine.schema.parties, "bank": dict(reversed(two.items()))}))
    assert study_digest(mine, "none") == study_digest(theirs, "none")
    role = FitParty("works", mine, "none", lambda: table("works", False), Book())
    with pytest.raises(PolicyError, match="other columns"):
        role.compare(Proposal(theirs.to(), ROWS, []))
    role.compare(Proposal(mine.to(), ROWS, []))
    server = ServerRole(FitServer(theirs, "none"), Randomness(b"order"))
    facts = mine.to()["schema"]["bank"]
    with pytest.raises(ProtocolError, match="declares other columns"):
        list(server._join("bank", Envelope(b"", "", "bank", MIDDLE, Step.JOIN, encode_body(Join(facts, 6, b"")))))

"""A prediction over a wire without an engine: the scores of one process, at the receiver alone, or no score at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from colonnade.analysis.model import FittedModel
from colonnade.consent.entries import EntryKind
from colonnade.consent.guard import ConsentGuard
from colonnade.data.table import Table
from colonnade.foundation.errors import StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.model import PublicModel, Scores, partial_scores, prediction_of, receivers_scores
from colonnade.planning.prediction import Prediction
from colonnade.protocol.fit import FitServer
from colonnade.protocol.messages import Envelope, Piece, Proposal, Step, body_of, encode_body
from colonnade.protocol.party import PartyRole
from colonnade.protocol.predict import OpenedScores, PredictParty, PredictServer
from colonnade.protocol.server import ServerRole
from colonnade.protocol.signatures import Signer
from colonnade.protocol.submissions import masked_from
from colonnade.protocol.tasks import Guard, Unguarded
from colonnade.runs import RunOptions, predict_guarded
from colonnade.study import StudySpec
from colonnade.transport.in_process import InProcess
from colonnade.transport.journal import FileJournal
from colonnade.transport.relay import Relay
from colonnade.transport.wire import Poll, Timeouts, Unreachable, decode_reply, decode_request, encode
from tests.helpers.wires import (
    PARTIES,
    QUICK,
    Talk,
    Wire,
    brings,
    converse,
    deviating,
    guard,
    honest,
    message_in,
    sends,
    unmatched,
    write_study,
)

SEED = b"a seed of tests"
BRISK = Timeouts(join=10.0, silence=1.0, beat=0.1, poll=0.1, farewell=1.0)
SHORT = ("works", "bank")
"""The parties of a model without a weight for the town."""


@pytest.fixture
def study(tmp_path: Path) -> StudySpec:
    return write_study(tmp_path)


@pytest.fixture
def plain(study: StudySpec, tmp_path: Path) -> StudySpec:
    """Rows as they stand, where the matching is not the matter."""
    return unmatched(study, tmp_path)


def model_of(study: StudySpec, town: float = 0.125) -> PublicModel:
    """A model by hand: what is tested is the scoring."""
    chosen = {"hours": 0.5, "savings": -0.25} | ({"owner=yes": town} if town else {})
    model = FittedModel("linear", "pay", tuple(chosen), (tuple(chosen.values()),), (0.1,), "default", 0.1, 3.0, 0.5)
    return PublicModel(model, "pay", study.agreement.schema, "works.pay", "00" * 32)


def table_of(study: StudySpec, prediction: Prediction, name: str) -> Table:
    source = study.sources[name]
    return source.read(name, prediction.columns[name])


def embedded(study: StudySpec, public: PublicModel, to: str = "bank", seed: bytes = SEED) -> Scores:
    prediction = prediction_of(public, study.agreement.schema, to)
    readers = {name: partial(table_of, study, prediction, name) for name in prediction.parties}
    guards = {name: Unguarded() for name in prediction.parties}
    return predict_guarded(public, prediction, readers, guards, study.alignment, RunOptions(Randomness(seed)))


@dataclass
class Run(Talk):
    """What became of a prediction."""

    kept: dict[str, Scores] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)

    def sentence(self, name: str) -> str:
        assert "spen" not in super().sentence(name)
        return super().sentence(name)

    @property
    def told(self) -> str:
        assert "spen" not in super().told
        return super().told

    @property
    def well(self) -> bool:
        """Whether the receiver said that it has the scores."""
        assert self.relay.role.end is not None
        return self.relay.role.end.code is None

    @property
    def rows(self) -> int:
        assert isinstance(self.relay.role.task, PredictServer)
        return self.relay.role.task.rows

    def nothing_was_opened(self) -> None:
        assert not self.kept and not self.well


def run(
    study: StudySpec,
    folder: Path,
    public: PublicModel,
    seed: bytes | None = None,
    guards: Mapping[str, Guard] | None = None,
    wire: Callable[[Relay], Wire] = honest,
    patience: Timeouts = QUICK,
    models: Mapping[str, PublicModel] | None = None,
    receivers: Mapping[str, str] | None = None,
    to: str = "bank",
    keep: Callable[[], None] = lambda: None,
    coming: Iterable[str] | None = None,
    signers: Mapping[str, Signer] | None = None,
) -> Run:
    """One prediction, server and parties in threads; each side makes its own terms, and `wire` may meddle."""
    schema = study.agreement.schema
    served = prediction_of(public, schema, to)
    scores: dict[str, Scores] = {}
    sessions: set[str] = set()

    def role_of(name: str) -> PartyRole:
        own = (models or {}).get(name, public)
        mine = prediction_of(own, schema, (receivers or {}).get(name, to))

        def kept(session: str, opened: OpenedScores) -> None:
            keep()
            sessions.add(session)
            scores[name] = receivers_scores(own, table_of(study, mine, name), opened)

        task = PredictParty(
            name,
            mine,
            study.alignment,
            lambda: table_of(study, mine, name),
            lambda table: partial_scores(table, own.model, own.factors),
            (guards or {}).get(name) or Unguarded(),
            "pay",
            kept,
        )
        return PartyRole(task, Randomness(seed), (signers or {}).get(name))

    names = served.parties if coming is None else coming
    journal = FileJournal(folder / "sessions.jsonl")
    server = ServerRole(PredictServer(served, study.alignment), Randomness(seed), journal)
    with journal.alone():
        talk = converse(server, {name: partial(role_of, name) for name in names}, wire, patience)
    counts = {
        name: role.task.scored
        for name, role in talk.roles.items()
        if name not in talk.errors and isinstance(role.task, PredictParty)
    }
    return Run(talk.relay, talk.roles, talk.errors, talk.closings, talk.failure, scores, counts, sessions)


def same(out: Run, expected: Scores, to: str = "bank") -> None:
    assert not out.errors, out.errors
    assert out.well and out.rows == len(expected.values)
    assert out.told == f"{to} opened the scores of {len(expected.values)} records"
    assert list(out.kept) == [to] and out.sessions == {out.relay.role.identity.hex()}
    assert out.kept[to].ids == expected.ids
    assert out.kept[to].values.tobytes() == expected.values.tobytes()
    assert set(out.counts.values()) == {len(expected.values)}


@pytest.mark.parametrize("to", PARTIES)
def test_scores_are_those_of_one_process(study: StudySpec, tmp_path: Path, to: str) -> None:
    public = model_of(study)
    same(run(study, tmp_path, public, SEED, to=to), embedded(study, public, to), to)


def test_scores_are_those_of_one_process_without_alignment(tmp_path: Path) -> None:
    study = unmatched(write_study(tmp_path), tmp_path)
    public = model_of(study)
    same(run(study, tmp_path, public, SEED), embedded(study, public))


def test_masked_words_are_those_of_one_process(plain: StudySpec, tmp_path: Path) -> None:
    """Scores are exact whatever the seed; with the same seed every masked word is the same, with another none is."""
    public = model_of(plain)
    rows = len(embedded(plain, public).values)

    def note(seen: dict[str, bytes], message: Envelope | None) -> None:
        if message is not None and message.step is Step.SUBMIT:
            seen[message.sender] = masked_from(body_of(message, Piece).data, rows).words.tobytes()

    def across(seed: bytes) -> dict[str, bytes]:
        seen: dict[str, bytes] = {}

        def wire(relay: Relay) -> Wire:
            def carry(name: str, data: bytes) -> bytes:
                note(seen, message_in(data))
                return relay.handle(name, data)

            return carry

        run(plain, tmp_path, public, seed, wire=wire)
        return seen

    def here(seed: bytes) -> dict[str, bytes]:
        seen: dict[str, bytes] = {}
        prediction = prediction_of(public, plain.agreement.schema, "bank")

        def wire(message: Envelope, up: bool) -> Sequence[Envelope]:
            note(seen, message)
            return [message]

        roles = {
            name: PartyRole(
                PredictParty(
                    name,
                    prediction,
                    plain.alignment,
                    partial(table_of, plain, prediction, name),
                    partial(partial_scores, model=public.model, factors=public.factors),
                    Unguarded(),
                ),
                Randomness(seed),
            )
            for name in prediction.parties
        }
        InProcess(ServerRole(PredictServer(prediction, plain.alignment), Randomness(seed)), roles, wire).carry()
        return seen

    alone = here(SEED)
    assert set(alone) == {"works", "town"} and across(SEED) == alone
    other = across(b"another")
    assert all(other[name] != alone[name] for name in alone)


def test_parties_without_a_weight_are_not_waited_for(study: StudySpec, tmp_path: Path) -> None:
    public = model_of(study, town=0.0)
    out = run(study, tmp_path, public, SEED)
    same(out, embedded(study, public))
    assert set(out.counts) == set(SHORT)
    # Should the third come all the same, it has no place.
    full = {"town": model_of(study)}
    out = run(study, tmp_path, public, SEED, models=full, coming=PARTIES)
    assert out.sentence("town") == ("party town is not let in: the prediction has no part for it; no score was opened")
    assert list(out.kept) == ["bank"]


def test_lost_answers_are_asked_for_again_and_done_once(study: StudySpec, tmp_path: Path) -> None:
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

    public = model_of(study)
    patience = Timeouts(10.0, 10.0, 0.05, 0.05, 2.0)
    same(run(study, tmp_path, public, SEED, wire=lossy, patience=patience), embedded(study, public))


@pytest.mark.parametrize("odd", ["model", "receiver"])
def test_other_terms_are_refused_before_anything_is_made(study: StudySpec, tmp_path: Path, odd: str) -> None:
    public = model_of(study)
    models = {"town": model_of(study, town=4.0)} if odd == "model" else None
    receivers = {"town": "town"} if odd == "receiver" else None
    seen: set[Step] = set()

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            message = message_in(data)
            seen.update([] if message is None else [message.step])
            return relay.handle(name, data)

        return carry

    out = run(study, tmp_path, public, wire=wire, models=models, receivers=receivers)
    out.nothing_was_opened()
    assert seen <= {Step.HELLO, Step.READY}
    assert isinstance(out.errors["town"], StudyError)
    assert out.sentence("town") == (
        "party town is not let in: its model, its receiver of scores, its columns or its alignment is not the "
        "server's; no score was opened"
    )
    for told in (out.sentence("works"), out.sentence("bank"), out.told):
        assert told.startswith("the session ended at town (study-differs)") and "no score was opened" in told


class Unforeseeing(ConsentGuard):
    """Says nothing before ids are matched: what is asked once n is known is asked all the same."""

    def foresee_scores(self, prediction: Prediction, aligned: bool) -> None: ...


def agreeing(
    folder: Path,
    scores_to: tuple[str, ...],
    approved: bool | str = False,
    made: type[ConsentGuard] = ConsentGuard,
) -> dict[str, ConsentGuard]:
    guards = {}
    for name in PARTIES:
        kept = guard(folder, name)
        policy = replace(kept.policy, scores_to=scores_to, require_approval=bool(approved))
        guards[name] = made(name, policy, kept.ledger, kept.data, [approved] if isinstance(approved, str) else [])
    return guards


def nothing_booked(guards: Mapping[str, ConsentGuard]) -> None:
    for name, kept in guards.items():
        assert not kept.ledger.entries(), name


def test_what_a_policy_forbids_is_refused_before_ids_are_matched(study: StudySpec, tmp_path: Path) -> None:
    """A prediction matches ids too: it is noted, counted, and not begun where it is refused anyway."""
    public, sent = model_of(study), list[str]()

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            if sends(data, Step.PARCEL, Step.DONE):
                sent.append(name)
            return relay.handle(name, data)

        return carry

    guards = agreeing(tmp_path, ())
    out = run(study, tmp_path, public, guards=guards, wire=wire)
    out.nothing_was_opened()
    assert "refuses: scores_to allows none, the prediction has bank; no score was opened" in out.sentence("works")
    assert not sent and not any(kept.ledger.lines() for kept in guards.values())

    guards = agreeing(tmp_path, ("bank",))
    guards["town"].policy = replace(guards["town"].policy, largest_alignments=1)
    same(run(study, tmp_path, public, guards=guards, wire=wire), embedded(study, public))
    nothing_booked(guards)
    assert all([line.kind for line in kept.ledger.lines()] == [EntryKind.ALIGNED] for kept in guards.values())
    sent.clear()
    out = run(study, tmp_path, public, guards=guards, wire=wire)
    out.nothing_was_opened()
    says = "town refuses: largest_alignments is 1, and the ids of data set town.csv were matched once; no score was"
    assert out.sentence("town").startswith(says) and out.told.startswith("the session ended at town (policy)")
    assert not sent


def test_policies_decide_and_nothing_is_booked(plain: StudySpec, tmp_path: Path) -> None:
    public = model_of(plain)
    guards = agreeing(tmp_path, ("bank",))
    same(run(plain, tmp_path, public, guards=guards), embedded(plain, public))
    nothing_booked(guards)
    # The receiver itself needs nobody's leave to see its own part, the others say whom they trust.
    for scores_to, made in (((), Unforeseeing), (("town",), Unforeseeing), (("town",), ConsentGuard)):
        guards = agreeing(tmp_path, scores_to, made=made)
        out = run(plain, tmp_path, public, guards=guards)
        out.nothing_was_opened()
        refusing = [name for name in PARTIES if "refuses: " in out.sentence(name)]
        assert refusing and set(refusing) <= {"works", "town"}
        for name in refusing:
            allowed = ", ".join(scores_to) or "none"
            assert f"scores_to allows {allowed}, the prediction has bank; no score was opened" in out.sentence(name)
        # Whoever of them is heard first.
        assert any(out.sentence("bank").startswith(f"the session ended at {name} (policy)") for name in refusing)
        nothing_booked(guards)
    assert not (tmp_path / "sessions.jsonl").read_text()


def test_a_person_approves_by_the_digest_of_the_terms(plain: StudySpec, tmp_path: Path) -> None:
    public = model_of(plain)
    out = run(plain, tmp_path, public, guards=agreeing(tmp_path, ("bank",), True))
    out.nothing_was_opened()
    digest = prediction_of(public, plain.agreement.schema, "bank").terms(len(embedded(plain, public).values))
    assert any(f"nobody approved the plan {digest}" in out.sentence(name) for name in PARTIES)
    assert "(consent)" in out.told
    guards = agreeing(tmp_path, ("bank",), digest[:16])
    same(run(plain, tmp_path, public, guards=guards), embedded(plain, public))


def test_plan_altered_in_transit(plain: StudySpec, tmp_path: Path) -> None:
    """A server that names another receiver to one party than to the rest."""

    def meddle(name: str, message: Envelope) -> Sequence[Envelope]:
        if name != "works" or message.step is not Step.PROPOSAL:
            return [message]
        plan = body_of(message, Proposal)
        other = msgspec.structs.replace(plan, agreement={**plan.agreement, "receiver": "town"})
        return [msgspec.structs.replace(message, body=encode_body(other))]

    out = run(plain, tmp_path, model_of(plain), wire=deviating(meddle))
    out.nothing_was_opened()
    assert "works refuses: the server proposes another model, receiver or columns" in out.sentence("works")
    assert out.sentence("bank").startswith("the session ended at works (plan-differs)")


class Gone(BaseException):
    """Stands for a process that was killed: it says nothing more."""


def dying(victim: str, step: Step, before: bool = True) -> Callable[[Relay], Wire]:
    """A wire on which a party falls silent when it would send a message of a step, or once it has."""

    def wire(relay: Relay) -> Wire:
        dead = [False]

        def carry(name: str, data: bytes) -> bytes:
            if name != victim:
                return relay.handle(name, data)
            message = message_in(data)
            # Rounds of the alignment have no plan yet.
            struck = sends(data, step) and message is not None and bool(message.plan or step is Step.JOIN)
            if struck and not before and not dead[0]:
                relay.handle(name, data)
            dead[0] = dead[0] or struck
            if dead[0]:
                raise Gone
            return relay.handle(name, data)

        return carry

    return wire


@pytest.mark.parametrize(
    ("victim", "step", "before"),
    [
        ("town", Step.JOIN, True),
        ("works", Step.ACCEPT, True),
        ("works", Step.SUBMIT, True),
        ("bank", Step.DONE, True),
    ],
)
def test_party_dies(plain: StudySpec, tmp_path: Path, victim: str, step: Step, before: bool) -> None:
    guards = agreeing(tmp_path, ("bank",))
    out = run(
        plain,
        tmp_path,
        model_of(plain),
        guards=guards,
        wire=dying(victim, step, before),
        patience=BRISK,
    )
    assert isinstance(out.errors[victim], Gone)
    out.nothing_was_opened()
    for told in (out.told, *(out.sentence(name) for name in PARTIES if name != victim)):
        assert told.startswith(f"the session ended at {victim} (party-lost)"), told
        assert "it was at step " in told and "no score was opened" in told
    nothing_booked(guards)


def test_receiver_dies_with_the_sum_on_its_way(plain: StudySpec, tmp_path: Path) -> None:
    """The server has handed the sum on; that the receiver has the scores is for the receiver to say."""

    def killed() -> None:
        raise Gone

    def wire(relay: Relay) -> Wire:
        dead = [False]

        def carry(name: str, data: bytes) -> bytes:
            if name == "bank" and dead[0]:
                raise Gone
            answer = relay.handle(name, data)
            dead[0] = dead[0] or (name == "bank" and brings(answer, Step.OPENED))
            return answer

        return carry

    out = run(plain, tmp_path, model_of(plain), wire=wire, patience=BRISK, keep=killed)
    out.nothing_was_opened()
    assert out.told == (
        "the session ended at bank (party-lost): a party is no longer there; it was at step open; bank had been "
        "handed the masked sum, and can say whether it has the scores"
    )


@pytest.mark.parametrize("before", [True, False], ids=["before its word arrives", "after"])
def test_receiver_dies_with_the_scores_on_its_disk(plain: StudySpec, tmp_path: Path, before: bool) -> None:
    out = run(plain, tmp_path, model_of(plain), wire=dying("bank", Step.CONFIRM, before), patience=BRISK)
    assert list(out.kept) == ["bank"] and out.well is not before
    assert set(out.counts) == {"works", "town"}
    assert out.told == (
        "the session ended at bank (party-lost): a party is no longer there; it was at step open; bank had been "
        "handed the masked sum, and can say whether it has the scores"
        if before
        else f"bank opened the scores of {out.rows} records"
    )


def test_receiver_that_cannot_keep_its_scores_says_so(plain: StudySpec, tmp_path: Path) -> None:
    def full() -> None:
        raise StudyError("cannot write scores/1.csv: no space left on device")

    out = run(plain, tmp_path, model_of(plain), keep=full)
    assert "no space left on device" in out.sentence("bank")
    assert out.told.startswith("the session ended at bank (plan-differs)") and "no space" not in out.told


@pytest.mark.parametrize(
    "step", [Step.PARCEL, Step.JOIN, Step.SUBMIT], ids=["before the plan", "at the plan", "with the parts"]
)
def test_server_dies(study: StudySpec, tmp_path: Path, step: Step) -> None:
    guards = agreeing(tmp_path, ("bank",))

    def wire(relay: Relay) -> Wire:
        dead = [False]

        def carry(name: str, data: bytes) -> bytes:
            dead[0] = dead[0] or sends(data, step)
            if dead[0]:
                raise Unreachable
            return relay.handle(name, data)

        return carry

    out = run(study, tmp_path, model_of(study), guards=guards, wire=wire, patience=BRISK)
    out.nothing_was_opened()
    for name in PARTIES:
        assert out.sentence(name).startswith("the server was not heard for 1 s at step ")
    assert out.sentence("bank").endswith("no score was opened")
    nothing_booked(guards)


def test_party_that_never_comes(study: StudySpec, tmp_path: Path) -> None:
    out = run(study, tmp_path, model_of(study), patience=replace(QUICK, join=0.5), coming=("works", "bank"))
    out.nothing_was_opened()
    assert out.sentence("bank").startswith("the session ended at town (timeout)")


def test_a_release_session_does_not_let_a_prediction_in(study: StudySpec, tmp_path: Path) -> None:
    """Terms of the two kinds never have one digest."""
    fits: list[Relay] = []

    def wire(relay: Relay) -> Wire:
        task = FitServer(study.agreement, study.alignment)
        fits.append(Relay(ServerRole(task, Randomness(), FileJournal(tmp_path / "other.jsonl")), QUICK))
        threading.Thread(target=fits[0].run).start()
        return fits[0].handle

    out = run(study, tmp_path, model_of(study), wire=wire, patience=replace(QUICK, join=0.5))
    told = [out.sentence(name) for name in PARTIES]
    assert sum("is not the server's; no score was opened" in text for text in told) == 1
    assert all("no score was opened" in text for text in told)
    out.nothing_was_opened()
    assert fits[0].role.failed


def test_pulls_of_a_stranger_process_get_nothing(plain: StudySpec, tmp_path: Path) -> None:
    """Whoever else speaks in the receiver's name is not given the sum."""
    answers: list[str] = []

    def wire(relay: Relay) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            request = decode_request(data)
            if name == "bank" and isinstance(request, Poll):
                twin = encode(msgspec.structs.replace(request, instance=bytes(16)))
                answers.append(type(decode_reply(relay.handle("bank", twin))).__name__)
            return relay.handle(name, data)

        return carry

    public = model_of(plain)
    same(run(plain, tmp_path, public, SEED, wire=wire), embedded(plain, public))
    assert set(answers) == {"Rejected"}

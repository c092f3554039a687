"""A prediction over a wire without an engine: the scores of one process, at the receiver alone, or no score at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest
from colonnade.transport.score_hub import Handed, ScoreHub
from colonnade.transport.score_member import ScoreMember
from colonnade.transport.scores import Opened
from colonnade.transport.vouching import Voucher

from colonnade.analysis.solve import Model
from colonnade.consent.entries import EntryKind
from colonnade.consent.guard import ConsentGuard
from colonnade.data.table import Table, read_table
from colonnade.foundation.errors import ColonnadeError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.model import PublicModel, Scores, partial_scores, prediction_of, receivers_scores
from colonnade.protocol.messages import Envelope, Piece, Proposal, Step, body_of, encode_body, masked_from
from colonnade.protocol.prediction import Consent, Prediction
from colonnade.runs import score_across
from colonnade.study import Study
from colonnade.transport.journal import Journal
from colonnade.transport.wire import (
    Mail,
    Patience,
    Pull,
    Push,
    Unreachable,
    decode_item,
    decode_reply,
    decode_request,
    encode,
)
from tests.helpers.wires import PARTIES, QUICK, Wire, guard, write_study

SEED = b"a seed of tests"
BRISK = Patience(join=10.0, silence=1.0, beat=0.1, poll=0.1, farewell=1.0)
SHORT = ("works", "bank")
"""The parties of a model without a weight for the town."""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return write_study(tmp_path)


def model_of(study: Study, town: float = 0.125) -> PublicModel:
    """A model by hand: what is tested is the scoring."""
    chosen = {"hours": 0.5, "savings": -0.25} | ({"owner=yes": town} if town else {})
    model = Model("linear", "pay", tuple(chosen), tuple(chosen.values()), 0.1, "default", 0.1, 3.0, 0.5)
    return PublicModel(model, "pay", study.agreement.schema, "works.pay", "00" * 32)


def table_of(study: Study, prediction: Prediction, name: str) -> Table:
    source = study.sources[name]
    assert source.data is not None
    return read_table(name, source.data, prediction.columns[name], source.id)


def embedded(study: Study, public: PublicModel, to: str = "bank", seed: bytes = SEED) -> Scores:
    prediction = prediction_of(public, study.agreement.schema, to)
    tables = {name: table_of(study, prediction, name) for name in prediction.parties}
    return score_across(public, prediction, tables, study.alignment, Randomness(seed))


@dataclass
class Run:
    """What became of a prediction."""

    handed: Handed | None = None
    kept: dict[str, Scores] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    errors: dict[str, BaseException] = field(default_factory=dict)

    def sentence(self, name: str) -> str:
        error = self.errors[name]
        assert isinstance(error, ColonnadeError), repr(error)
        assert "spen" not in str(error)
        return str(error)

    def told(self) -> str:
        assert self.handed is not None and "spen" not in self.handed.sentence
        return self.handed.sentence

    def nothing_was_opened(self) -> None:
        assert not self.kept and self.handed is not None and not self.handed.kept


def run(
    study: Study,
    folder: Path,
    public: PublicModel,
    seed: bytes | None = None,
    consents: Mapping[str, Consent] | None = None,
    wire: Callable[[ScoreHub], Wire] = lambda hub: hub.handle,
    patience: Patience = QUICK,
    models: Mapping[str, PublicModel] | None = None,
    receivers: Mapping[str, str] | None = None,
    to: str = "bank",
    keep: Callable[[], None] = lambda: None,
    coming: Iterable[str] | None = None,
    vouchers: Mapping[str, Voucher] | None = None,
    judges: Mapping[str, ConsentGuard] | None = None,
) -> Run:
    """One prediction, server and parties in threads; each side makes its own terms, and `wire` may meddle."""
    schema, out = study.agreement.schema, Run()
    served = prediction_of(public, schema, to)
    hub = ScoreHub(served, study.alignment, Randomness(seed), Journal(folder / "sessions.jsonl"), patience)
    carry = wire(hub)

    def serve() -> None:
        out.handed = hub.run()

    def take_part(name: str) -> None:
        own = (models or {}).get(name, public)
        mine = prediction_of(own, schema, (receivers or {}).get(name, to))

        def kept(session: str, table: Table, opened: Opened) -> None:
            keep()
            out.sessions.add(session)
            out.kept[name] = receivers_scores(own, table, opened)

        def judge() -> None:
            if judges is not None:
                judges[name].foresee_scores(mine, True)

        def matching(session: str) -> None:
            if judges is not None:
                judges[name].align(session, "pay scores", mine.parties)

        member = ScoreMember(
            name,
            mine,
            study.alignment,
            lambda: table_of(study, mine, name),
            lambda table: partial_scores(table, own.model),
            lambda request: carry(name, request),
            Randomness(seed),
            (consents or {}).get(name, lambda prediction, rows: None),
            kept,
            patience,
            voucher=(vouchers or {}).get(name),
            judge=judge,
            matching=matching,
        )
        try:
            out.counts[name] = member.run()
        except BaseException as error:
            out.errors[name] = error

    names = served.parties if coming is None else coming
    threads = [threading.Thread(target=serve), *(threading.Thread(target=take_part, args=(p,)) for p in names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a side of the prediction hangs"
    return out


def same(out: Run, expected: Scores, to: str = "bank") -> None:
    assert not out.errors, out.errors
    assert out.handed is not None and out.handed.kept and out.handed.rows == len(expected.values)
    assert out.told() == f"{to} opened the scores of {len(expected.values)} records"
    assert list(out.kept) == [to] and out.sessions == {out.handed.session}
    assert out.kept[to].ids == expected.ids
    assert out.kept[to].values.tobytes() == expected.values.tobytes()
    assert set(out.counts.values()) == {len(expected.values)}


@pytest.mark.parametrize("to", PARTIES)
def test_scores_are_those_of_one_process(study: Study, tmp_path: Path, to: str) -> None:
    public = model_of(study)
    same(run(study, tmp_path, public, SEED, to=to), embedded(study, public, to), to)


def test_scores_are_those_of_one_process_without_alignment(tmp_path: Path) -> None:
    study = replace(write_study(tmp_path), alignment="none")
    for name in PARTIES:
        lines = (tmp_path / f"{name}.csv").read_text().splitlines()
        (tmp_path / f"{name}.csv").write_text("\n".join(lines[:50]) + "\n")
    public = model_of(study)
    same(run(study, tmp_path, public, SEED), embedded(study, public))


def test_masked_words_are_those_of_one_process(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are exact whatever the seed; with the same seed every masked word is the same, with another none is."""

    def words(wired: bool, seed: bytes) -> dict[str, bytes]:
        seen: dict[str, bytes] = {}
        encode_first = Envelope.encode

        def note(envelope: Envelope) -> bytes:
            if envelope.step is Step.SUBMIT:
                rows = len(embedded_scores.values)
                seen[envelope.sender] = masked_from(body_of(envelope, Piece).data, rows).words.tobytes()
            return encode_first(envelope)

        with monkeypatch.context() as patch:
            patch.setattr(Envelope, "encode", note)
            if wired:
                run(study, tmp_path, public, seed)
            else:
                embedded(study, public, seed=seed)
        return seen

    public = model_of(study)
    embedded_scores = embedded(study, public)
    alone = words(False, SEED)
    assert set(alone) == {"works", "town"} and words(True, SEED) == alone
    other = words(True, b"another")
    assert all(other[name] != alone[name] for name in alone)


def test_parties_without_a_weight_are_not_waited_for(study: Study, tmp_path: Path) -> None:
    public = model_of(study, town=0.0)
    out = run(study, tmp_path, public, SEED)
    same(out, embedded(study, public))
    assert set(out.counts) == set(SHORT)
    # Should the third come all the same, it has no place.
    full = {"town": model_of(study)}
    out = run(study, tmp_path, public, SEED, models=full, coming=PARTIES)
    assert out.sentence("town") == (
        "party town is not let in: the prediction has no part for it; no part of a score was made"
    )
    assert list(out.kept) == ["bank"]


def test_lost_answers_are_asked_for_again_and_done_once(study: Study, tmp_path: Path) -> None:
    def lossy(hub: ScoreHub) -> Wire:
        count, lock = [0], threading.Lock()

        def carry(name: str, data: bytes) -> bytes:
            with lock:
                count[0] += 1
                here = count[0]
            if here % 5 == 0:
                raise Unreachable
            answer = hub.handle(name, data)
            if here % 3 == 0:
                raise Unreachable
            return answer

        return carry

    public = model_of(study)
    patience = Patience(10.0, 10.0, 0.05, 0.05, 2.0)
    same(run(study, tmp_path, public, SEED, wire=lossy, patience=patience), embedded(study, public))


@pytest.mark.parametrize("odd", ["model", "receiver"])
def test_other_terms_are_refused_before_anything_is_made(study: Study, tmp_path: Path, odd: str) -> None:
    public = model_of(study)
    models = {"town": model_of(study, town=4.0)} if odd == "model" else None
    receivers = {"town": "town"} if odd == "receiver" else None
    seen: list[Step] = []

    def wire(hub: ScoreHub) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            request = decode_request(data)
            if isinstance(request, Push):
                item = decode_item(request.item)
                seen.extend([item.step] if isinstance(item, Envelope) else [])
            return hub.handle(name, data)

        return carry

    out = run(study, tmp_path, public, wire=wire, models=models, receivers=receivers)
    out.nothing_was_opened()
    assert not seen
    assert isinstance(out.errors["town"], StudyError)
    assert out.sentence("town") == (
        "party town is not let in: its model, its receiver of scores, its columns or its alignment is not the "
        "server's; no part of a score was made"
    )
    for told in (out.sentence("works"), out.sentence("bank"), out.told()):
        assert told.startswith("the session ended at town (plan-differs)") and "no score was opened" in told


def agreeing(folder: Path, scores_to: tuple[str, ...], approved: bool | str = False) -> dict[str, ConsentGuard]:
    kept = {name: guard(folder, name) for name in PARTIES}
    for name in PARTIES:
        policy = replace(kept[name].policy, scores_to=scores_to, require_approval=bool(approved))
        given = [approved] if isinstance(approved, str) else []
        kept[name] = replace(kept[name], policy=policy, approved=given)
    return kept


def consents_of(guards: Mapping[str, ConsentGuard]) -> dict[str, Consent]:
    return {name: kept.consent_scores for name, kept in guards.items()}


def nothing_booked(guards: Mapping[str, ConsentGuard]) -> None:
    for name, kept in guards.items():
        assert not kept.ledger.entries(), name


def test_what_a_policy_forbids_is_refused_before_ids_are_matched(study: Study, tmp_path: Path) -> None:
    """A prediction matches ids too: it is noted, counted, and not begun where it is refused anyway."""
    public, sent = model_of(study), list[str]()

    def wire(hub: ScoreHub) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            if isinstance(decode_request(data), Push):
                sent.append(name)
            return hub.handle(name, data)

        return carry

    guards = agreeing(tmp_path, ())
    out = run(study, tmp_path, public, judges=guards, wire=wire)
    out.nothing_was_opened()
    assert "refuses: scores_to allows none, the prediction has bank; no score was opened" in out.sentence("works")
    assert not sent and not any(kept.ledger.lines() for kept in guards.values())

    guards = agreeing(tmp_path, ("bank",))
    guards["town"].policy = replace(guards["town"].policy, largest_alignments=1)
    same(run(study, tmp_path, public, judges=guards, wire=wire), embedded(study, public))
    nothing_booked(guards)
    assert all([line.kind for line in kept.ledger.lines()] == [EntryKind.ALIGNED] for kept in guards.values())
    sent.clear()
    out = run(study, tmp_path, public, judges=guards, wire=wire)
    out.nothing_was_opened()
    says = "town refuses: largest_alignments is 1, and the ids of data set town.csv were matched once; no score was"
    assert out.sentence("town").startswith(says) and out.told().startswith("the session ended at town (policy)")
    assert not sent


def test_policies_decide_and_nothing_is_booked(study: Study, tmp_path: Path) -> None:
    public = model_of(study)
    guards = agreeing(tmp_path, ("bank",))
    same(run(study, tmp_path, public, consents=consents_of(guards)), embedded(study, public))
    nothing_booked(guards)
    # The receiver itself needs nobody's leave to see its own part, the others say whom they trust.
    for scores_to in ((), ("town",)):
        guards = agreeing(tmp_path, scores_to)
        out = run(study, tmp_path, public, consents=consents_of(guards))
        out.nothing_was_opened()
        refusing = [name for name in PARTIES if "refuses: " in out.sentence(name)]
        assert refusing and set(refusing) <= {"works", "town"}
        for name in refusing:
            allowed = ", ".join(scores_to) or "none"
            assert f"scores_to allows {allowed}, the prediction has bank; no score was opened" in out.sentence(name)
        assert out.sentence("bank").startswith(f"the session ended at {refusing[0]} (policy)")
        nothing_booked(guards)
    assert not (tmp_path / "sessions.jsonl").read_text()


def test_a_person_approves_by_the_digest_of_the_terms(study: Study, tmp_path: Path) -> None:
    public = model_of(study)
    out = run(study, tmp_path, public, consents=consents_of(agreeing(tmp_path, ("bank",), True)))
    out.nothing_was_opened()
    digest = prediction_of(public, study.agreement.schema, "bank").terms(len(embedded(study, public).values))
    assert any(f"nobody approved the plan {digest}" in out.sentence(name) for name in PARTIES)
    assert "(consent)" in out.told()
    consents = consents_of(agreeing(tmp_path, ("bank",), digest[:16]))
    same(run(study, tmp_path, public, consents=consents), embedded(study, public))


def test_plan_altered_in_transit(study: Study, tmp_path: Path) -> None:
    """A server that names another receiver to one party than to the rest."""

    def wire(hub: ScoreHub) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            answer = hub.handle(name, data)
            reply = decode_reply(answer)
            if name == "works" and isinstance(reply, Mail):
                item = decode_item(reply.item)
                if isinstance(item, Envelope) and item.step is Step.PLAN:
                    plan = body_of(item, Proposal)
                    other = msgspec.structs.replace(plan, agreement={**plan.agreement, "receiver": "town"})
                    meddled = msgspec.structs.replace(item, body=encode_body(other))
                    return encode(Mail(reply.number, meddled.encode()))
            return answer

        return carry

    out = run(study, tmp_path, model_of(study), wire=wire)
    out.nothing_was_opened()
    assert "works refuses: the server proposes another model, receiver or columns" in out.sentence("works")
    assert out.sentence("bank").startswith("the session ended at works (plan-differs)")


class Gone(BaseException):
    """Stands for a process that was killed: it says nothing more."""


def dying(victim: str, step: Step, before: bool = True) -> Callable[[ScoreHub], Wire]:
    """A wire on which a party falls silent when it would send a message of a step, or once it has."""

    def wire(hub: ScoreHub) -> Wire:
        dead = [False]

        def carry(name: str, data: bytes) -> bytes:
            if name != victim:
                return hub.handle(name, data)
            request = decode_request(data)
            item = decode_item(request.item) if isinstance(request, Push) else None
            struck = isinstance(item, Envelope) and item.step is step
            if struck and not before and not dead[0]:
                hub.handle(name, data)
            dead[0] = dead[0] or struck
            if dead[0]:
                raise Gone
            return hub.handle(name, data)

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
def test_party_dies(study: Study, tmp_path: Path, victim: str, step: Step, before: bool) -> None:
    guards = agreeing(tmp_path, ("bank",))
    out = run(
        study,
        tmp_path,
        model_of(study),
        consents=consents_of(guards),
        wire=dying(victim, step, before),
        patience=BRISK,
    )
    assert isinstance(out.errors[victim], Gone)
    out.nothing_was_opened()
    for told in (out.told(), *(out.sentence(name) for name in PARTIES if name != victim)):
        assert told.startswith(f"the session ended at {victim} (party-lost)"), told
        assert "it was at step " in told and "no score was opened" in told
    nothing_booked(guards)


def test_receiver_dies_with_the_sum_on_its_way(study: Study, tmp_path: Path) -> None:
    """The server has handed the sum on; that the receiver has the scores is for the receiver to say."""

    def killed() -> None:
        raise Gone

    def wire(hub: ScoreHub) -> Wire:
        dead = [False]

        def carry(name: str, data: bytes) -> bytes:
            if name == "bank" and dead[0]:
                raise Gone
            answer = hub.handle(name, data)
            reply = decode_reply(answer)
            if name == "bank" and isinstance(reply, Mail):
                item = decode_item(reply.item)
                dead[0] = isinstance(item, Envelope) and item.step is Step.OPENED
            return answer

        return carry

    out = run(study, tmp_path, model_of(study), wire=wire, patience=BRISK, keep=killed)
    assert not out.kept and out.handed is not None and not out.handed.kept
    assert out.told() == (
        "the session ended at bank (party-lost): a party is no longer there; it was at step open; bank had been "
        "handed the masked sum, and can say whether it has the scores"
    )


def test_receiver_that_cannot_keep_its_scores_says_so(study: Study, tmp_path: Path) -> None:
    def full() -> None:
        raise StudyError("cannot write scores/1.csv: no space left on device")

    out = run(study, tmp_path, model_of(study), keep=full)
    assert "no space left on device" in out.sentence("bank")
    assert out.told().startswith("the session ended at bank (plan-differs)") and "no space" not in out.told()


@pytest.mark.parametrize("step", [None, Step.SUBMIT], ids=["before the plan", "with the parts"])
def test_server_dies(study: Study, tmp_path: Path, step: Step | None) -> None:
    guards = agreeing(tmp_path, ("bank",))

    def wire(hub: ScoreHub) -> Wire:
        dead = [False]

        def carry(name: str, data: bytes) -> bytes:
            request = decode_request(data)
            item = decode_item(request.item) if isinstance(request, Push) else None
            dead[0] = dead[0] or (isinstance(item, Envelope) and (step is None or item.step is step))
            if dead[0]:
                raise Unreachable
            return hub.handle(name, data)

        return carry

    out = run(study, tmp_path, model_of(study), consents=consents_of(guards), wire=wire, patience=BRISK)
    out.nothing_was_opened()
    for name in PARTIES:
        assert out.sentence(name).startswith("the server was not heard for 1 s at step ")
    assert out.sentence("bank").endswith("no score was opened")
    nothing_booked(guards)


def test_party_that_never_comes(study: Study, tmp_path: Path) -> None:
    out = run(study, tmp_path, model_of(study), patience=replace(QUICK, join=0.5), coming=("works", "bank"))
    out.nothing_was_opened()
    assert out.sentence("bank").startswith("the session ended at town (timeout)")


def test_a_release_session_does_not_let_a_prediction_in(study: Study, tmp_path: Path) -> None:
    """Terms of the two kinds never have one digest."""
    from colonnade.transport.hub import Hub

    def wire(hub: ScoreHub) -> Wire:
        other = Hub(study.agreement, study.alignment, Randomness(), Journal(tmp_path / "other.jsonl"), QUICK)
        return lambda name, data: other.handle(name, data)

    out = run(study, tmp_path, model_of(study), wire=wire, patience=replace(QUICK, join=0.5))
    assert all("is not the server's; no part of a score was made" in out.sentence(name) for name in PARTIES)
    out.nothing_was_opened()


def test_pulls_of_a_stranger_process_get_nothing(study: Study, tmp_path: Path) -> None:
    """Whoever else speaks in the receiver's name is not given the sum."""
    answers: list[str] = []

    def wire(hub: ScoreHub) -> Wire:
        def carry(name: str, data: bytes) -> bytes:
            request = decode_request(data)
            if name == "bank" and isinstance(request, Pull):
                twin = encode(msgspec.structs.replace(request, instance=bytes(16)))
                answers.append(type(decode_reply(hub.handle("bank", twin))).__name__)
            return hub.handle(name, data)

        return carry

    public = model_of(study)
    same(run(study, tmp_path, public, SEED, wire=wire), embedded(study, public))
    assert set(answers) == {"Barred"}

"""Several studies on one server, and the coordinator's queue: what was queued or begun goes on after a restart."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from colonnade.flare import queue as module
from colonnade.flare.certificates import Address
from colonnade.flare.coordinator import NotReached
from colonnade.flare.deploy import deploy_add, deploy_new
from colonnade.flare.queue import DONE, FAILED, RUNNING, WAITING, SessionQueue, work_queue
from colonnade.foundation.errors import ProtocolError, StoppedError, StudyError
from colonnade.sites.prediction_request import PredictRecipe
from colonnade.sites.recipes import FitRecipe
from colonnade.sites.site import PARTY, SERVER, Site, find_site, read_sites
from tests.helpers.cli_study import runner
from tests.helpers.wires import PARTIES, write_study

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment with a further study at every site."""
    place = tmp_path_factory.mktemp("studies")
    write_study(place)
    deploy_new(place / "study.toml", place / "sites", Address("localhost", 8002))
    second = place / "second.toml"
    second.write_text((place / "study.toml").read_text().replace('name = "pay"', 'name = "pay again"'))
    deploy_add(second, place / "sites" / "authority", place / "more")
    for folder in (place / "more").iterdir():
        (folder / "studies").rename(place / "sites" / folder.name / "studies")
    return place / "sites"


@pytest.fixture
def coordinator(made: Path) -> Path:
    (made / "coordinator" / "queue.json").unlink(missing_ok=True)
    return made / "coordinator"


def test_a_folder_holds_several_studies(made: Path) -> None:
    for name in ("server", "coordinator", *PARTIES):
        sites = read_sites(made / name)
        assert [site.study.agreement.name for site in sites] == ["pay", "pay again"]
        assert {site.home for site in sites} == {made / name}
    bank = find_site(made / "bank", "pay again", PARTY)
    assert bank.folder == made / "bank" / "studies" / "pay-again" and bank.party == "bank"
    assert (bank.folder / "policy.toml").is_file()
    with pytest.raises(StudyError, match="bank has no study 'else': it has pay, pay again"):
        find_site(made / "bank", "else", PARTY)


def test_a_job_says_which_study_it_is_for_and_no_more(made: Path) -> None:
    assert FitRecipe.open_site(made / "server", "pay again", SERVER).journal.parent.name == "pay-again"
    assert FitRecipe.open_site(made / "server", "", SERVER).folder == made / "server"
    assert PredictRecipe.open_site(made / "bank", "a prediction's name", PARTY).folder == made / "bank"


def test_a_further_study_needs_the_same_organisations(made: Path, tmp_path: Path) -> None:
    text = (made.parent / "study.toml").read_text().replace("party.town", "party.village")
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(StudyError, match="this deployment has no village"):
        deploy_add(tmp_path / "study.toml", made / "authority", tmp_path / "more")
    assert not (tmp_path / "more").exists()


def test_two_studies_of_one_name_are_refused(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "bank", tmp_path / "bank")
    shutil.copytree(tmp_path / "bank" / "studies" / "pay-again", tmp_path / "bank" / "studies" / "twice")
    with pytest.raises(StudyError, match="must have different names, got pay, pay again, pay again"):
        read_sites(tmp_path / "bank")


class Engine:
    """Stands for server and parties: which jobs ran, and what fails."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.resumed: list[str] = []
        self.before: list[Exception] = []
        self.unanswered: list[BaseException] = []
        self.after: list[BaseException] = []

    def run(self, site: Site, wait: float, watch: Any, begun: Callable[[str], None]) -> tuple[bytes, dict[str, Any]]:
        if self.before:
            raise self.before.pop(0)
        begun("")
        if self.unanswered:
            raise self.unanswered.pop(0)
        begun(f"{len(self.ran):08x}-job")
        self.ran.append(site.study.agreement.name)
        if self.after:
            raise self.after.pop(0)
        return b"{}", {}

    def resume(self, site: Site, job: str, wait: float, watch: Any) -> tuple[bytes, dict[str, Any]]:
        self.resumed.append(job)
        if self.before:
            raise self.before.pop(0)
        return b"{}", {}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(module, "run_session", made.run)
    monkeypatch.setattr(module, "resume_session", made.resume)
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)
    return made


def work(folder: Path) -> list[str]:
    said: list[str] = []
    work_queue(SessionQueue(folder), said.append, stop_when_empty=True)
    return said


def states(folder: Path) -> list[str]:
    return [entry.state for entry in SessionQueue(folder).entries()]


def test_sessions_of_two_studies_run_in_turn(coordinator: Path, engine: Engine) -> None:
    queue = SessionQueue(coordinator)
    for study in ("pay again", "", "pay again"):
        queue.add(study)
    work(coordinator)
    assert engine.ran == ["pay again", "pay", "pay again"] and states(coordinator) == [DONE] * 3
    for entry in queue.entries():
        assert (coordinator / entry.release).read_bytes() == b"{}"
    with pytest.raises(StudyError, match="has no study 'else'"):
        queue.add("else")


def test_what_is_not_due_waits_and_can_be_dropped(coordinator: Path, engine: Engine) -> None:
    queue = SessionQueue(coordinator, lambda: NOW)
    queue.add(due=NOW + timedelta(hours=1))
    assert queue.next_due() is None
    first = queue.add()
    assert queue.next_due() == first
    queue.drop(1)
    queue.drop(2)
    assert queue.entries() == []
    with pytest.raises(StudyError, match="no number 7"):
        queue.drop(7)
    with pytest.raises(StudyError, match="must name its zone"):
        queue.add(due=datetime(2026, 1, 1))


def test_a_schedule_goes_on_and_makes_up_for_nothing(coordinator: Path, engine: Engine) -> None:
    queue = SessionQueue(coordinator)
    begun = datetime.now(UTC) - timedelta(hours=50)
    queue.add(due=begun, hours=24)
    entry = queue.next_due()
    assert entry is not None and module._work(queue, entry, lambda told: None)
    last = queue.entries()[-1]
    assert (last.state, last.hours) == (WAITING, 24) and engine.ran == ["pay"]
    assert last.time == (begun + timedelta(hours=72)).replace(microsecond=0)


def test_a_server_that_is_away_delays_and_loses_nothing(coordinator: Path, engine: Engine) -> None:
    SessionQueue(coordinator).add()
    SessionQueue(coordinator).add("pay again")
    engine.before = [NotReached("the server cannot be reached at x:1"), ProtocolError("missing: bank")]
    said = work(coordinator)
    assert sorted(engine.ran) == ["pay", "pay again"] and states(coordinator) == [DONE, DONE]
    assert any("waits, the server cannot be reached" in line for line in said)


def test_while_one_rests_from_a_try_the_next_is_tried(
    coordinator: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study whose party is away does not keep the others waiting; what was begun does."""
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.5)
    SessionQueue(coordinator).add()
    SessionQueue(coordinator).add("pay again")
    engine.before = [ProtocolError("missing: bank")]
    work(coordinator)
    assert engine.ran == ["pay again", "pay"] and states(coordinator) == [DONE, DONE]
    queue = SessionQueue(coordinator)
    begun, waits = queue.add().number, queue.add("pay again").number
    queue.change(begun, state=RUNNING, job="a job")
    assert queue.next_due([begun]) is None
    assert queue.next_due([waits]) == queue.entries()[-2]


def test_a_session_that_fails_is_told_and_not_run_again(coordinator: Path, engine: Engine) -> None:
    SessionQueue(coordinator).add()
    SessionQueue(coordinator).add()
    engine.after = [ProtocolError("the session ended at bank (policy); nothing is spent")]
    work(coordinator)
    assert states(coordinator) == [FAILED, DONE] and len(engine.ran) == 2
    assert SessionQueue(coordinator).entries()[0].told.startswith("the session ended at bank")


class Killed(BaseException):
    pass


def test_what_was_asked_for_and_got_no_answer_is_not_asked_for_again(coordinator: Path, engine: Engine) -> None:
    """The server may have the job: a second one would be a second spend that nobody asked for."""
    lost = "the server was lost (TimeoutError); what is booked counts as spent"
    SessionQueue(coordinator).add()
    engine.unanswered = [ProtocolError(lost)]
    work(coordinator)
    assert states(coordinator) == [FAILED] and engine.ran == []
    assert SessionQueue(coordinator).entries()[0].told == lost
    SessionQueue(coordinator).add()
    engine.unanswered = [Killed()]
    with pytest.raises(Killed):
        work(coordinator)
    assert states(coordinator) == [FAILED, RUNNING]
    work(coordinator)
    assert states(coordinator) == [FAILED, FAILED] and engine.ran == engine.resumed == []
    assert "may have gone on; what is booked counts as spent" in SessionQueue(coordinator).entries()[1].told


@pytest.mark.parametrize("hours", [1e-9, -1.0, float("nan"), 1e300])
def test_a_schedule_that_no_clock_can_follow_is_refused(coordinator: Path, hours: float) -> None:
    with pytest.raises(StudyError, match=r"every must be 0\.01 to 100000 hours, got"):
        SessionQueue(coordinator).add(hours=hours)


def test_a_coordinator_that_died_goes_on_with_what_was_begun(coordinator: Path, engine: Engine) -> None:
    SessionQueue(coordinator).add()
    SessionQueue(coordinator).add()
    engine.after = [Killed()]
    with pytest.raises(Killed):
        work(coordinator)
    assert states(coordinator) == [RUNNING, WAITING]
    engine.before = [NotReached("the server cannot be reached at x:1")]
    work(coordinator)
    assert engine.resumed == ["00000000-job"] * 2, "followed, once the server is back, and not asked for again"
    assert states(coordinator) == [DONE, DONE] and len(engine.ran) == 2


@pytest.mark.parametrize("write", [1, 2, 3])
def test_a_schedule_outlives_the_death_of_its_worker(
    coordinator: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    """Killed behind each of the three writes of a session: the next turn is not forgotten, and comes once."""
    SessionQueue(coordinator).add(due=datetime.now(UTC) - timedelta(hours=1), hours=24)
    left = iter(range(write, -10, -1))
    real = SessionQueue._changing

    @contextmanager
    def changing(queue: SessionQueue) -> Iterator[list[Any]]:
        with real(queue) as entries:
            yield entries
        if next(left) == 1:
            raise Killed

    monkeypatch.setattr(SessionQueue, "_changing", changing)
    with pytest.raises(Killed):
        work(coordinator)
    queue = SessionQueue(coordinator)
    if (entry := queue.next_due()) is not None:
        assert module._work(queue, entry, lambda told: None)
    # With no answer yet nobody knows whether the server has the job, so that it is not asked again.
    assert states(coordinator) == [FAILED if write == 1 else DONE, WAITING] and queue.entries()[-1].hours == 24


def test_whoever_stops_a_session_keeps_its_schedule(coordinator: Path, engine: Engine) -> None:
    SessionQueue(coordinator).add(due=datetime.now(UTC) - timedelta(hours=1), hours=24)
    engine.after = [StoppedError("stopped; nothing is spent")]
    with pytest.raises(StoppedError):
        work(coordinator)
    assert states(coordinator) == [FAILED, WAITING] and SessionQueue(coordinator).entries()[-1].hours == 24


def test_two_workers_are_refused(coordinator: Path, engine: Engine) -> None:
    queue = SessionQueue(coordinator)
    with queue.alone(), pytest.raises(StudyError, match="is being worked by another process already"):
        work(coordinator)


def test_the_commands(coordinator: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    run = runner(monkeypatch, capfd)
    assert (
        run("queue", "add", coordinator, "--study", "pay again", "--every", 24, "--json").json["study"] == "pay again"
    )
    assert "got 'soon'" in run("queue", "add", coordinator, "--at", "soon").err
    assert "pay again" in run("queue", "show", coordinator).out
    assert run("queue", "drop", coordinator, 1).code == 0
    assert run("queue", "show", coordinator, "--json").json["queue"] == []
    (coordinator / "queue.json").write_text(json.dumps({"no": "queue"}))
    assert run("queue", "show", coordinator).code == 1

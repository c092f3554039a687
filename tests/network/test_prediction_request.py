"""What a site's own files ask to be scored: the section [prediction], and every refusal with its sentence."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import typer

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from colonnade.analysis.model import FittedModel
from colonnade.cli.deployment import run
from colonnade.consent.guard import ConsentGuard, PolicyGuard
from colonnade.data.sources import FileSource
from colonnade.flare.certificates import Address
from colonnade.flare.coordinator import Job, write_job
from colonnade.flare.deploy import deploy_new
from colonnade.flare.provision import OF_SCORES
from colonnade.flare.server_job import job_name
from colonnade.foundation.errors import PolicyError, StudyError
from colonnade.model import PublicModel, write_model
from colonnade.protocol.codes import Code, code_of
from colonnade.sites.prediction_request import PredictRecipe
from colonnade.sites.site import SEED, find_site, read_site
from colonnade.study import StudySpec, read_study
from tests.helpers.wires import PARTIES, write_study

WEIGHTS = {"hours": 0.5, "savings": -0.25, "owner=yes": 0.125}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    write_study(folder)
    deploy_new(folder / "study.toml", folder / "sites", Address("localhost", 8002))
    return folder


@pytest.fixture
def sites(deployed: Path, tmp_path: Path) -> Path:
    """Folders that a test may spoil; the bank has named its data."""
    shutil.copytree(deployed / "sites", tmp_path / "sites")
    for party in PARTIES:
        edit(tmp_path / "sites" / party, 'data = "?"', f'data = "{deployed / party}.csv"')
    return tmp_path / "sites"


def edit(site: Path, old: str, new: str) -> None:
    text = (site / "site.toml").read_text()
    assert old in text
    (site / "site.toml").write_text(text.replace(old, new, 1))


def model_of(study: StudySpec, weights: dict[str, float] | None = None) -> bytes:
    chosen = weights or WEIGHTS
    model = FittedModel("linear", "pay", tuple(chosen), (tuple(chosen.values()),), (0.1,), "default", 0.1, 3.0, 0.5)
    return write_model(PublicModel(model, "pay", study.agreement.schema, "works.pay", "00" * 32))


def ask(site: Path, *lines: str, to: str = "bank", weights: dict[str, float] | None = None) -> PredictRecipe:
    """Hand a site the model, write its section, and read both."""
    (site / "model.json").write_bytes(model_of(read_study(site / "study.toml"), weights))
    with (site / "site.toml").open("a") as file:
        file.write("\n".join(["[prediction]", 'model = "model.json"', f'to = "{to}"', *lines, ""]))
    return PredictRecipe(read_site(site))


@pytest.mark.parametrize("name", ["server", "coordinator", *PARTIES])
def test_template_asks_for_nothing_until_the_marks_are_taken_away(sites: Path, name: str) -> None:
    site = sites / name
    with pytest.raises(StudyError, match=rf"^{name}/site.toml asks for no prediction: \[prediction\] has no model$"):
        PredictRecipe(read_site(site))
    text = (site / "site.toml").read_text()
    keys = ("[prediction]", "model =", "to =", "data =", "id =")
    lines = [line[2:] if line[2:].startswith(keys) else line for line in text.splitlines()]
    (site / "site.toml").write_text("\n".join(lines) + "\n")
    shown = read_site(site).asked
    # One receiver everywhere, so that templates agree; where the records lie is a party's matter.
    assert shown.text("to") == "works" and shown.text("model") == "model.json"
    assert ("data" in shown) == ("id" in shown) == (name in PARTIES)
    with pytest.raises(StudyError, match="there is no model file"):
        PredictRecipe(read_site(site))
    (site / "model.json").write_bytes(model_of(read_site(site).study))
    assert PredictRecipe(read_site(site)).prediction.receiver == "works"


def test_every_site_makes_the_same_terms_of_its_own_files(sites: Path) -> None:
    asked = [ask(sites / name) for name in ("server", "coordinator", *PARTIES)]
    assert len({a.terms for a in asked}) == 1 and len({a.job for a in asked}) == 1
    assert {a.prediction.parties for a in asked} == {PARTIES}


def test_other_terms_have_another_digest(sites: Path) -> None:
    one = ask(sites / "server").terms
    others = {
        ask(sites / "works", to="town").terms,
        ask(sites / "bank", weights={**WEIGHTS, "hours": 0.75}).terms,
        ask(sites / "town", weights={"hours": 0.5, "owner=yes": 1.0}).terms,
    }
    asked = ask(sites / "coordinator")
    unaligned = PredictRecipe(replace(asked.site, study=replace(asked.site.study, alignment="none")))
    assert asked.terms == one and len({one, unaligned.terms, *others}) == 5


def test_records_are_the_studys_or_others(sites: Path, deployed: Path, tmp_path: Path) -> None:
    asked = ask(sites / "works")
    assert asked.source.data == FileSource(deployed / "works.csv", "works data") and asked.source.id == "person"
    # The label is not needed to score: new records need not have it.
    (sites / "bank" / "new.csv").write_text("who,savings\np1,10\np2,20\n")
    asked = ask(sites / "bank", 'data = "new.csv"', 'id = "who"')
    assert asked.source.data == FileSource(sites / "bank" / "new.csv", "bank data") and asked.source.id == "who"
    table = asked.table()
    assert table.rows == 2 and table.ids is not None and list(table.ids) == ["p1", "p2"]


def test_other_records_are_booked_by_their_own_content(sites: Path, deployed: Path) -> None:
    """What aligned sessions did to some ids is no matter of others: the ledger must not take them for the study's."""
    (sites / "bank" / "new.csv").write_text("who,savings\np1,10\np2,20\n")
    guard, _ = read_site(sites / "bank").guard()
    assert isinstance(guard, ConsentGuard)
    asked = ask(sites / "bank", 'data = "new.csv"', 'id = "who"')
    booked = asked.prepare(guard)
    assert isinstance(booked, ConsentGuard)
    for found, path in ((guard, deployed / "bank.csv"), (booked, sites / "bank" / "new.csv")):
        assert found.data.digest == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("name", "lines", "to", "weights", "says"),
    [
        ("bank", (), "mint", None, r"scores go to one of works, bank, town, got 'mint'"),
        ("bank", ('dat = "x.csv"',), "bank", None, r"\[prediction\] has no key 'dat'; did you mean 'data'\?"),
        ("server", ('data = "x.csv"',), "bank", None, r"\[prediction\] has no key 'data'; it takes model, to"),
        ("bank", (), "works", {"hours": 1.0, "owner=yes": 1.0}, "the model has no weight for a column of bank"),
        ("bank", (), "bank", {"savings": 1.0}, "the model has columns of bank alone"),
    ],
)
def test_what_cannot_be_asked(
    sites: Path, name: str, lines: tuple[str, ...], to: str, weights: dict[str, float] | None, says: str
) -> None:
    with pytest.raises(StudyError, match=says) as told:
        ask(sites / name, *lines, to=to, weights=weights)
    assert code_of(told.value) is Code.PLAN


def test_model_that_was_altered_or_is_of_other_columns(sites: Path) -> None:
    ask(sites / "bank")
    path = sites / "bank" / "model.json"
    path.write_bytes(path.read_bytes().replace(b"0.125", b"0.126"))
    with pytest.raises(StudyError, match=r"the model of bank/site.toml cannot be scored by: ") as told:
        PredictRecipe(read_site(sites / "bank"))
    assert code_of(told.value) is Code.PLAN
    path.write_bytes(model_of(read_site(sites / "bank").study))
    study = sites / "bank" / "study.toml"
    study.write_text(study.read_text().replace("high = 1000", "high = 2000"))
    with pytest.raises(StudyError, match="the model takes column savings of party bank as "):
        PredictRecipe(read_site(sites / "bank"))


def test_simulation_has_no_ledger_and_the_same_rules(sites: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(sites / "town", 'ledger = "ledger.sqlite"\n', "")
    rules = sites / "town" / "policy.toml"
    rules.write_text(rules.read_text().replace("[policy]", "[policy]\nsimulation = true"))
    monkeypatch.setenv(SEED, "5eed")
    asked = ask(sites / "town")

    def judge() -> None:
        guard, _ = read_site(sites / "town").guard()
        assert isinstance(guard, PolicyGuard)
        guard.foresee_scores(asked.prediction, True)
        guard.consent_scores(asked.prediction, 50)

    with pytest.raises(PolicyError, match="scores_to allows none, the prediction has bank"):
        judge()
    rules.write_text(rules.read_text().replace("scores_to = []", 'scores_to = ["bank"]'))
    judge()


def test_server_refuses_a_coordinator_that_means_another_prediction(sites: Path, tmp_path: Path) -> None:
    server, other = ask(sites / "server"), ask(sites / "coordinator", to="town")
    recipe = PredictRecipe(server.site)
    assert tuple(recipe.server_task(server.job, tmp_path).declared) == PARTIES
    for name in (other.job, server.site.study.agreement.name, ""):
        with pytest.raises(StudyError, match=r"the coordinator's model, receiver of scores, .* is not the server's"):
            recipe.server_task(name, tmp_path)


def test_scores_are_for_their_owners_eyes(sites: Path) -> None:
    asked = ask(sites / "bank")
    guard, _ = asked.site.guard()
    asked.prepare(guard)
    assert asked.site.scores.stat().st_mode & 0o777 == 0o700


def test_scores_have_no_release_file(sites: Path) -> None:
    ask(sites / "coordinator")
    with pytest.raises(typer.BadParameter, match="with --predict the scores stay with their receiver"):
        run(sites / "coordinator", out=sites / "scores.csv", predict=True)


def test_job_has_two_class_names_and_goes_to_those_who_take_part(sites: Path, tmp_path: Path) -> None:
    asked = ask(sites / "coordinator", weights={"hours": 1.0, "savings": 1.0})
    place = tmp_path / "job"
    parties = asked.prediction.parties
    assert parties == ("works", "bank")
    write_job(place, Job(asked.job, parties, OF_SCORES, "", ""))
    meta = json.loads((place / "meta.json").read_text())
    assert meta["deploy_map"] == {"app": ["server", "works", "bank"]} and meta["mandatory_clients"] == ["works", "bank"]
    assert job_name(place / "meta.json") == asked.job and asked.terms in asked.job
    assert job_name(tmp_path / "none.json") == ""
    server = json.loads((place / "app" / "config" / "config_fed_server.json").read_text())
    client = json.loads((place / "app" / "config" / "config_fed_client.json").read_text())
    assert server["workflows"] == [{"id": "session", "path": OF_SCORES[0], "args": {}}]
    assert [e["executor"] for e in client["executors"]] == [{"path": OF_SCORES[1], "args": {}}]
    assert not server["components"] and not client["components"]
    assert {f.suffix for f in place.rglob("*") if f.is_file()} == {".json"}


def test_a_job_is_of_the_study_that_it_names(sites: Path, tmp_path: Path) -> None:
    """Not of the folder's first, where there are several."""
    other = tmp_path / "other.toml"
    other.write_text((sites / "bank" / "study.toml").read_text().replace('name = "pay"', 'name = "other"'))
    for name in ("coordinator", "server"):
        place = sites / name / "studies" / "other"
        place.mkdir(parents=True)
        shutil.copy(other, place / "study.toml")
        shutil.copy(sites / name / "site.toml", place)
        ask(place)
        ask(sites / name)
    job = PredictRecipe(find_site(sites / "coordinator", "other")).job
    assert job.startswith("other ")
    for named, study in ((job, "other"), ("pay" + job.removeprefix("other"), "pay"), ("", "pay")):
        assert PredictRecipe.open_site(sites / "server", named, "server").study.agreement.name == study
    with pytest.raises(StudyError, match="has no study 'third': it has pay, other"):
        PredictRecipe.open_site(sites / "server", "third" + job.removeprefix("other"), "server")

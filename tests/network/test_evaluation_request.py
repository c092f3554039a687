"""An evaluation by what each organisation's own files ask for: the same terms everywhere, the same sums."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from colonnade.audit.premises import AuditedSite
from colonnade.audit.session import audit_session
from colonnade.consent.guard import PolicyGuard
from colonnade.consent.policy import Policy, policy_from
from colonnade.flare.certificates import Address
from colonnade.flare.deploy import deploy_new
from colonnade.foundation.errors import PolicyError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.workers import HERE
from colonnade.protocol.tasks import Unguarded
from colonnade.runs import carry_in_process
from colonnade.sites.evaluation_request import EvaluateRecipe
from colonnade.sites.site import find_site, read_site
from colonnade.transport.evidence import read_key
from tests.helpers.wires import PARTIES, write_study
from tests.network.test_prediction_request import edit, model_of


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluated")
    write_study(folder)
    deploy_new(folder / "study.toml", folder / "sites", Address("localhost", 8002))
    return folder


@pytest.fixture
def sites(deployed: Path, tmp_path: Path) -> Path:
    shutil.copytree(deployed / "sites", tmp_path / "sites")
    for party in PARTIES:
        edit(tmp_path / "sites" / party, 'data = "?"', f'data = "{deployed / party}.csv"')
    return tmp_path / "sites"


def policy(party: str, **terms: object) -> Policy:
    caps = {"session": {"epsilon": 99.0}, "total": {"epsilon": 99.0}}
    return policy_from({"policy": {"party": party, "partners": ["*"], **terms}, **caps})


def ask(site: Path, *lines: str) -> EvaluateRecipe:
    (site / "model.json").write_bytes(model_of(read_site(site).study))
    with (site / "site.toml").open("a") as file:
        file.write("\n".join(["[evaluation]", 'model = "model.json"', "epsilon = 20", *lines, ""]))
    return EvaluateRecipe(read_site(site))


def test_every_site_makes_the_same_terms_of_its_own_files(sites: Path) -> None:
    asked = [ask(sites / name) for name in ("server", "coordinator", *PARTIES)]
    assert len({a.evaluation.study.session(100).terms for a in asked}) == 1
    assert asked[0].evaluation.study.alignment == "psi"


def recipes_of(sites: Path) -> dict[str, EvaluateRecipe]:
    for name in ("server", *PARTIES):
        ask(sites / name)
    return {name: EvaluateRecipe(read_site(sites / name)) for name in ("server", *PARTIES)}


def test_a_session_of_the_sites_own_recipes_opens_the_sums(sites: Path, tmp_path: Path) -> None:
    recipes = recipes_of(sites)
    (tmp_path / "run").mkdir()
    server = recipes["server"].server_task("any", tmp_path / "run")
    for name in PARTIES:
        recipes[name].prepare(PolicyGuard(name, policy(name)))
    tasks = {name: recipes[name].party_task(Unguarded(), HERE) for name in PARTIES}
    carry_in_process(server, tasks, Randomness(seed=b"sites"))
    assert server.release is not None
    found = recipes["server"].evaluation.measure(server.release)
    assert {"rmse", "r_squared"} >= set(found.measures) and found.measures["rmse"].value > 0
    # Every site keeps what was opened, under the session's own id.
    kept = {name: [f.read_bytes() for f in (sites / name / "releases").glob("*.json")] for name in ("server", *PARTIES)}
    assert len({tuple(files) for files in kept.values()}) == 1 and len(kept["server"]) == 1


def test_records_may_be_others_and_policies_see_their_columns(sites: Path, deployed: Path) -> None:
    (sites / "bank" / "new.csv").write_text("who,savings\np1,10\np2,20\n")
    asked = ask(sites / "bank", 'data = "new.csv"', 'id = "who"')
    table = asked.table(HERE)
    assert table.rows == 2 and list(table.columns) == ["score at bank"]
    with pytest.raises(PolicyError, match="columns allows loans, the session has savings"):
        PolicyGuard("bank", policy("bank", columns=["loans"])).judge(asked.evaluation.agreement, False)


def test_what_cannot_be_asked(sites: Path) -> None:
    with pytest.raises(StudyError, match=r"asks for no evaluation: \[evaluation\] has no model"):
        EvaluateRecipe(read_site(sites / "town"))
    with pytest.raises(StudyError, match=r"\[evaluation\] has no key 'too'"):
        ask(sites / "bank", "too = 1")
    with pytest.raises(StudyError, match=r"\[evaluation\] has no key 'data'"):
        ask(sites / "server", 'data = "x.csv"')


def test_an_evaluation_is_audited_by_the_files_that_asked_for_it(sites: Path, tmp_path: Path) -> None:
    """The same folder asks for a release too: the evidence's terms say which it was."""
    recipes = recipes_of(sites)
    (tmp_path / "run").mkdir()
    server = recipes["server"].server_task("any", tmp_path / "run")
    tasks = {name: recipes[name].party_task(Unguarded(), HERE) for name in PARTIES}
    for name in PARTIES:
        tasks[name].data = partial(recipes[name].source.digest, name)
        tasks[name].keep = None
    carry_in_process(server, tasks, Randomness(), evidence={name: sites / name for name in PARTIES})
    (place,) = (sites / "bank" / "evidence").iterdir()
    premises = AuditedSite.open(place, site=None, study=None, data=None, key=None)
    found = audit_session(premises.kept, premises.kept.opening(read_key(premises.key)), premises.task)
    assert found.passed and found.replayed > 10
    # Across machines it would have been signed: without a signature nothing is believed.
    assert not premises.audit([], [], None).passed


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
    job = EvaluateRecipe(find_site(sites / "coordinator", "other")).evaluation.study.agreement.name
    assert job.startswith("other ")
    for named, study in ((job, "other"), ("pay" + job.removeprefix("other"), "pay"), ("", "pay")):
        assert EvaluateRecipe.open_site(sites / "server", named, "server").study.agreement.name == study
    with pytest.raises(StudyError, match="has no study 'third': it has pay, other"):
        EvaluateRecipe.open_site(sites / "server", "third" + job.removeprefix("other"), "server")

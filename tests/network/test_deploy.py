"""What `colonnade deploy new` writes, and why certificates are refused, each in one sentence; no engine starts."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="the extra flare is not installed")

from colonnade.consent.guard import PolicyGuard
from colonnade.consent.policy import read_policy
from colonnade.flare.certificates import check_certificate, probe, server_address
from colonnade.flare.deploy import deploy_new, warnings
from colonnade.flare.folder_texts import policy_file
from colonnade.flare.launch import KEPT_JOBS, check_local, check_port, clear_old_jobs
from colonnade.flare.process import alone
from colonnade.flare.provision import PARTY_LAUNCHER, Address
from colonnade.foundation.errors import ColonnadeError, PolicyError, StudyError
from colonnade.planning.leakage import TOLD_BITS
from colonnade.sites.site import SEED, read_site
from colonnade.study import read_study
from tests.helpers.wires import PARTIES, write_study

LOOPBACK = "127.0.0.1"


def deployed(folder: Path, port: int) -> Path:
    folder.mkdir()
    write_study(folder)
    with (folder / "study.toml").open("a") as file:
        file.write(f'\n[audit]\nauditors = ["{"ab" * 32}"]\n')
    deploy_new(folder / "study.toml", folder / "sites", Address("localhost", port))
    return folder / "sites"


@pytest.fixture(scope="module")
def port() -> int:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory, port: int) -> Path:
    return deployed(tmp_path_factory.mktemp("deploy") / "ours", port)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory, port: int) -> Path:
    """The same study, deployed by another authority."""
    return deployed(tmp_path_factory.mktemp("deploy") / "theirs", port)


@pytest.fixture
def bank(ours: Path, tmp_path: Path) -> Path:
    """A copy of the bank's folder that a test may spoil."""
    shutil.copytree(ours / "bank", tmp_path / "bank")
    return tmp_path / "bank"


def read_json(path: Path) -> dict[str, object]:
    content = json.loads(path.read_text())
    assert isinstance(content, dict)
    return content


def test_every_organisation_gets_its_folder(ours: Path) -> None:
    assert sorted(f.name for f in ours.iterdir()) == sorted(["authority", "coordinator", "server", *PARTIES])
    for name in ("server", "coordinator", *PARTIES):
        files = {f.name for f in (ours / name).iterdir()}
        assert {"README.md", "study.toml", "site.toml", "start.sh", "startup", "local"} <= files
        assert ("policy.toml" in files) == (name in PARTIES)
        assert os.access(ours / name / "start.sh", os.X_OK)
        assert stat.S_IMODE((ours / name).stat().st_mode) == 0o700
        for key in (ours / name / "startup").glob("*.key"):
            assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE((ours / "authority").stat().st_mode) == 0o700


def test_nothing_of_one_organisation_lies_in_another_folder(ours: Path) -> None:
    keys = {f.read_bytes(): f for f in ours.rglob("*.key")}
    assert len(keys) == len(PARTIES) + 2
    state = (ours / "authority").rglob("cert.json")
    (file,) = state
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # The authority keeps its own key, and nobody else's.
    assert file.read_text().count("PRIVATE KEY-----") == 2
    root = json.loads(file.read_text())["root_pri_key"]
    for path in ours.rglob("*"):
        if path.is_file() and "authority" not in path.parts:
            assert root not in path.read_text()


def test_study_is_the_same_without_paths(ours: Path) -> None:
    original = read_study(ours.parent / "study.toml")
    assert original.agreement.auditors == ("ab" * 32,)
    for name in ("server", *PARTIES):
        study = read_study(ours / name / "study.toml")
        assert study.agreement == original.agreement and study.alignment == original.alignment
        assert all(source.data is None for source in study.sources.values())
        assert ".csv" not in (ours / name / "study.toml").read_text()


@pytest.mark.parametrize("name", ["server", *PARTIES])
def test_sites_refuse_shipped_code_and_send_no_logs(ours: Path, name: str) -> None:
    rights = json.loads((ours / name / "local" / "authorization.json").read_text())["permissions"]
    assert list(rights) == ["lead"]
    assert {rights["lead"][right] for right in ("byoc", "shell_commands", "operate", "clone_job")} == {"none"}
    resources = read_json(ours / name / "local" / "resources.json")
    assert resources["class_list_enforcement_mode"] == "enforce"
    server, party = (
        [f"colonnade.flare.job_classes.{kind}{side}Job" for kind in ("Fit", "Predict", "Evaluate")]
        for side in ("Server", "Party")
    )
    assert resources["class_allow_list"] == (server if name == "server" else party)
    assert resources["allow_log_streaming"] is False
    assert "log" not in json.dumps(resources["components"])


def test_policy_template_agrees_to_this_study_once(ours: Path, tmp_path: Path, bank: Path) -> None:
    text = (bank / "site.toml").read_text()
    (bank / "site.toml").write_text(text.replace('data = "?"', f'data = "{ours.parent / "bank.csv"}"'))
    site = read_site(bank)
    session = site.study.session(5000)
    policy = site.policy()
    policy.check(session)
    charge = session.plan.parties["bank"]
    assert policy.cap.epsilon < 2 * min(value for value in charge.values() if value is not None)


def test_folder_without_data_is_told_so(bank: Path) -> None:
    with pytest.raises(StudyError, match=r"bank/site.toml must name the data file of bank"):
        read_site(bank).guard()


@pytest.mark.parametrize(
    ("ledger", "simulation", "says"),
    [
        (True, False, "the policy of bank does not say simulation = true"),
        (True, True, "no ledger can book the noise of a simulation"),
        (False, False, "the policy of bank does not say simulation = true"),
        (False, True, None),
    ],
)
def test_seed_needs_a_policy_that_allows_it(
    ours: Path, bank: Path, monkeypatch: pytest.MonkeyPatch, ledger: bool, simulation: bool, says: str | None
) -> None:
    text = (bank / "site.toml").read_text().replace('data = "?"', f'data = "{ours.parent / "bank.csv"}"')
    (bank / "site.toml").write_text(text if ledger else text.replace('ledger = "ledger.sqlite"\n', ""))
    rules = (bank / "policy.toml").read_text()
    (bank / "policy.toml").write_text(rules.replace("[policy]", f"[policy]\nsimulation = {str(simulation).lower()}"))
    monkeypatch.setenv(SEED, "beef")
    if says is None:
        kept, randomness = read_site(bank).guard()
        assert isinstance(kept, PolicyGuard) and randomness.seeded
        monkeypatch.delenv(SEED)
        with pytest.raises(StudyError, match="must name a ledger, outside simulations"):
            read_site(bank).guard()
    else:
        with pytest.raises(PolicyError, match=says):
            read_site(bank).guard()


def test_no_certificate(bank: Path) -> None:
    (bank / "startup" / "client.crt").unlink()
    with pytest.raises(PolicyError, match=r"bank has no certificate: startup/client.crt is missing"):
        check_certificate(bank, "bank")


def test_wrong_certificate(ours: Path, bank: Path) -> None:
    for file in ("client.crt", "client.key"):
        shutil.copy(ours / "town" / "startup" / file, bank / "startup" / file)
    with pytest.raises(PolicyError, match="the certificate is for town, this folder is bank's"):
        check_certificate(bank, "bank")


def test_foreign_authority(theirs: Path, bank: Path) -> None:
    shutil.copy(theirs / "bank" / "startup" / "client.crt", bank / "startup" / "client.crt")
    with pytest.raises(PolicyError, match="the certificate of bank is not from the authority of this study"):
        check_certificate(bank, "bank")


def test_two_processes_cannot_serve_one_folder(bank: Path) -> None:
    hold = f"from pathlib import Path\nfrom colonnade.flare.process import alone\nwith alone(Path({str(bank)!r})):\n"
    with alone(bank):
        done = subprocess.run([sys.executable, "-c", f"{hold} pass"], capture_output=True, text=True)
    assert done.returncode == 1 and "is being served by another process already" in done.stderr


@pytest.fixture(scope="module")
def listening(ours: Path, port: int) -> Iterator[None]:
    """FLARE's own listener with the server's certificate, as the server starts it, on loopback."""
    from nvflare.fuel.f3.drivers.net_utils import get_ssl_context

    start = ours / "server" / "startup"
    parameters = {
        "secure": True,
        "connection_security": "mtls",
        "ca_cert": str(start / "rootCA.pem"),
        "server_cert": str(start / "server.crt"),
        "server_key": str(start / "server.key"),
    }
    context = get_ssl_context(parameters, ssl_server=True)
    assert isinstance(context, ssl.SSLContext)
    with socket.create_server((LOOPBACK, port)) as server:

        def accept() -> None:
            while True:
                try:
                    plain, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=talk, args=(plain,), daemon=True).start()

        def talk(plain: socket.socket) -> None:
            try:
                with context.wrap_socket(plain, server_side=True) as connection:
                    connection.recv(1)
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        yield


@pytest.mark.usefixtures("listening")
class TestHandshake:
    """The same refusals by the other side, whatever the folder says of itself."""

    def test_right_certificate(self, bank: Path) -> None:
        assert probe(bank, "bank", *server_address(bank)) == ""

    def test_foreign_client(self, theirs: Path, bank: Path) -> None:
        for file in ("client.crt", "client.key"):
            shutil.copy(theirs / "bank" / "startup" / file, bank / "startup" / file)
        with pytest.raises(PolicyError, match="the server refuses the certificate of bank"):
            probe(bank, "bank", *server_address(bank))

    def test_foreign_server(self, theirs: Path) -> None:
        with pytest.raises(PolicyError, match="the server's certificate is not from the authority of this study"):
            probe(theirs / "bank", "bank", *server_address(theirs / "bank"))

    def test_party_that_plays_the_server(self, bank: Path) -> None:
        with pytest.raises(PolicyError, match="the server shows a certificate for localhost, it must be another"):
            probe(bank, "bank", server_address(bank)[0], "another")

    def test_no_certificate_at_all(self, ours: Path, port: int) -> None:
        """A client that shows none is dropped before it can say a word."""
        context = ssl.create_default_context(cafile=str(ours / "bank" / "startup" / "rootCA.pem"))
        context.check_hostname = False
        plain = socket.create_connection((LOOPBACK, port), timeout=5)
        with plain, pytest.raises((ssl.SSLError, ConnectionError)):
            connection = context.wrap_socket(plain, server_hostname="localhost")
            connection.settimeout(5)
            if not connection.recv(1):
                raise ConnectionError("dropped")


def test_nobody_answers(bank: Path) -> None:
    assert probe(bank, "bank", Address(LOOPBACK, 9), "localhost") == "the server cannot be reached at 127.0.0.1:9"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("party.bank", "party.server"), "must be letters, digits"),
        (("party.bank", 'party."the bank"'), "must be letters, digits"),
        (('product = "lattice"', 'product = "plain"'), "stays in one process"),
    ],
)
def test_what_cannot_be_deployed(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    write_study(tmp_path)
    text = (tmp_path / "study.toml").read_text().replace(*change)
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(ColonnadeError, match=says):
        deploy_new(tmp_path / "study.toml", tmp_path / "sites", Address("localhost", 8002))
    assert not (tmp_path / "sites").exists()


def test_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    write_study(tmp_path)
    with pytest.raises(StudyError, match="must be a new or an empty folder"):
        deploy_new(tmp_path / "study.toml", tmp_path, Address("localhost", 8002))


def test_key_of_somebody_else(theirs: Path, bank: Path) -> None:
    shutil.copy(theirs / "bank" / "startup" / "client.key", bank / "startup" / "client.key")
    with pytest.raises(PolicyError, match=r"the key of bank is not that of its certificate: startup/client.key"):
        check_certificate(bank, "bank")


def test_key_that_is_none(bank: Path) -> None:
    (bank / "startup" / "client.key").write_text("nothing of the kind")
    with pytest.raises(PolicyError, match=r"the key of bank cannot be read: startup/client.key"):
        check_certificate(bank, "bank")


@pytest.mark.parametrize(
    ("text", "says"),
    [(None, "is missing"), ("{", "cannot be read: it must be JSON"), ("{}", "must say where the server is")],
)
def test_configuration_that_cannot_be_read(bank: Path, text: str | None, says: str) -> None:
    file = bank / "startup" / "fed_client.json"
    file.unlink()
    if text is not None:
        file.write_text(text)
    with pytest.raises(PolicyError, match=f"startup/fed_client.json {says}"):
        server_address(bank)


def test_rules_for_the_engine_must_be_there(bank: Path) -> None:
    check_local(bank)
    shutil.rmtree(bank / "local")
    with pytest.raises(StudyError, match=r"bank/local/resources.json is missing: deploy anew, or copy it back"):
        check_local(bank)


@pytest.mark.parametrize("part", ["classes", "launcher"])
def test_folder_of_an_earlier_version(ours: Path, bank: Path, part: str) -> None:
    """Its allow-list names classes that are gone: the engine would refuse every job, and say so in a log alone."""
    path = bank / "local" / "resources.json"
    text = path.read_text()
    before = {
        "classes": ("colonnade.flare.job_classes.FitPartyJob", "colonnade.network.party_job.PartyJob"),
        "launcher": (PARTY_LAUNCHER, "colonnade.network.launcher.PartyLauncher"),
    }[part]
    assert before[0] in text
    path.write_text(text.replace(*before))
    with pytest.raises(StudyError) as refused:
        check_local(bank)
    assert str(refused.value) == (
        "bank was deployed by an earlier version of Colonnade, whose local/resources.json this one cannot use: "
        "deploy the study anew"
    )
    check_local(ours / "server")
    # What else an organisation's people allow is their own matter.
    path.write_text(text.replace('FitPartyJob"', 'FitPartyJob", "their.own.Class"'))
    check_local(bank)


def test_port_that_another_process_has() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(
            PolicyError, match=f"port {number} cannot be opened on this machine: address already in use"
        ):
            check_port(Address("localhost", number))
    check_port(Address("localhost", number))


def test_old_jobs_are_cleared_and_nothing_else(tmp_path: Path) -> None:
    kept = ["releases", "jobs", "startup"]
    for name in kept:
        (tmp_path / name).mkdir()
    for number in range(KEPT_JOBS + 5):
        job = tmp_path / f"0c40d202-3c07-4370-b918-{number:012x}"
        job.mkdir()
        os.utime(job, (number, number))
    clear_old_jobs(tmp_path)
    left = sorted(f.name for f in tmp_path.iterdir() if f.name not in kept)
    assert left == [f"0c40d202-3c07-4370-b918-{number:012x}" for number in range(5, KEPT_JOBS + 5)]
    assert all((tmp_path / name).is_dir() for name in kept)


@pytest.mark.parametrize("address", ["a b:8002", "", ":8002", "host:", "host:0", "host:99999", "-x:1", "host:8002:1"])
def test_address_of_a_server(address: str) -> None:
    if address == "host:":
        assert Address.of(address) == Address("host", 8002)
        return
    with pytest.raises(StudyError, match=r"a server's address must be HOST or HOST:PORT, .* got"):
        Address.of(address)


def test_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    write_study(tmp_path)
    for out in (tmp_path / "sites", tmp_path / "empty"):
        if out.name == "empty":
            out.mkdir()
        with pytest.raises(StudyError, match="fit for a certificate"):
            deploy_new(tmp_path / "study.toml", out, Address("a b", 8002))
    assert not (tmp_path / "sites").exists() and not list((tmp_path / "empty").iterdir())


@pytest.mark.parametrize(("collusion", "rows"), [(1, None), (0, 50)])
def test_template_admits_the_study_whatever_its_collusion(tmp_path: Path, collusion: int, rows: int | None) -> None:
    write_study(tmp_path)
    more = "" if rows is None else f"\nrows = {rows}"
    text = (tmp_path / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(text.replace("collusion = 1", f"collusion = {collusion}{more}"))
    study = read_study(tmp_path / "study.toml")
    (tmp_path / "policy.toml").write_text(policy_file(study, "bank"))
    policy = read_policy(tmp_path / "policy.toml")
    policy.check(study.session(rows or 1000), "bank")
    assert policy.smallest_rows == (rows or 1000)
    told = " ".join(warnings(study))
    assert f"fewer than {policy.smallest_rows} common records" in told
    bare = "GIVES NONE AGAINST" in (tmp_path / "policy.toml").read_text()
    assert ("collusion = 0" in told, bare) == (collusion == 0, collusion == 0)


def test_a_template_agrees_to_its_study_whatever_n_is(tmp_path: Path) -> None:
    """The packaged demo has 3,500 records in common: there the employer's part is larger than at 1,000 or 10,000."""
    study = read_study(Path(__file__).parents[2] / "src" / "colonnade" / "demo" / "study.toml")
    for party in study.agreement.schema.names:
        (tmp_path / "policy.toml").write_text(policy_file(study, party))
        policy = read_policy(tmp_path / "policy.toml")
        for n in (1000, 3500, 10_000, 14_146, 1_000_000):
            policy.check(study.session(n), party)
        assert policy.largest_list == "twice" and policy.evidence_days == 90


def test_a_template_states_whom_partners_could_read_and_admits_wide_studies(tmp_path: Path) -> None:
    """The default of largest_bits_told, 1,000, refuses 800 columns; the officer signs for the study's own number."""
    owned = [
        f"[party.{p}.columns]" + "".join(f'\n{p}{i} = {{ kind = "numeric", low = 0, high = 1 }}' for i in range(400))
        for p in "ab"
    ]
    (tmp_path / "study.toml").write_text(
        '[study]\nname = "wide"\ntask = "linear"\nlabel = "a.a0"\nepsilon = 1.0\ndelta = 1.25e-5\nrows = 80000\n'
        'alignment = "none"\nrelease = "full"\n' + "\n".join(owned)
    )
    study = read_study(tmp_path / "study.toml")
    session = study.session(80_000)
    told = {one.partner: one.people for one in session.tellings}
    for party in ("a", "b"):
        text = policy_file(study, party)
        assert f"could read the exact values of up to {told[party]:,} people; it would leave evidence" in text
        (tmp_path / "policy.toml").write_text(text)
        policy = read_policy(tmp_path / "policy.toml")
        policy.check(session, party)
        assert told[party] <= policy.largest_bits_told < 2 * told[party]
        with pytest.raises(PolicyError, match=f"largest_bits_told is 1000, the plan has {told[party]}"):
            replace(policy, largest_bits_told=TOLD_BITS).check(session, party)


def test_paths_are_quoted_for_the_engine() -> None:
    from nvflare.apis.fl_constant import FLContextKey
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.job_launcher_spec import JobProcessArgs

    from colonnade.flare.launcher import PartyLauncher, ServerLauncher

    given = {
        JobProcessArgs.EXE_MODULE: ("-m", "some.module"),
        JobProcessArgs.WORKSPACE: ("-m", "/two words/it's"),
        JobProcessArgs.OPTIONS: ("--set", " uid=bank print_conf=True"),
    }
    for side, launcher in (("party", PartyLauncher()), ("server", ServerLauncher())):
        context = FLContext()
        context.set_prop(key=FLContextKey.JOB_PROCESS_ARGS, value=given, private=True, sticky=False)
        words = shlex.split(launcher.get_command({}, context), True)
        ours = ["-m", "colonnade.flare.job_process", side]
        assert words == [sys.executable, *ours, "-m", "/two words/it's", "--set", "uid=bank", words[-1]]


def test_a_job_runs_in_the_process_that_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading takes seconds: it is done before there is a job. Secrets come by its input, as by an environment."""
    from nvflare.apis.fl_constant import FLContextKey
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.job_launcher_spec import JobProcessArgs, JobProcessEnv

    from colonnade.flare import launcher

    told = tmp_path / "told.json"
    stub = f"""
import json, os, sys
from colonnade.flare import job_process
def run(side):
    json.dump([side, sys.argv[1:], os.environ[{JobProcessEnv.AUTH_TOKEN!r}], os.getpid()], open({str(told)!r}, "w"))
    return 0
job_process.run = run
sys.argv = ["job", "party"]
job_process.MAINS = {{"party": "json"}}
sys.exit(job_process.wait_for_job("party"))
"""
    began: list[list[str]] = []
    original = subprocess.Popen

    def start(words: list[str], **more: Any) -> Any:
        began.append(words)
        return original([sys.executable, "-c", stub], **more)

    monkeypatch.setattr(launcher.subprocess, "Popen", start)
    spare = launcher.SpareProcess()
    monkeypatch.setattr(launcher, "SPARE", spare)
    spare.prepare("party")
    spare.prepare("party")
    assert began == [[sys.executable, "-m", "colonnade.flare.job_process", "--wait", "party"]]
    waiting = spare._waiting
    assert waiting is not None
    context, secret = FLContext(), "it's a secret"
    given = {
        JobProcessArgs.EXE_MODULE: ("-m", "some.module"),
        JobProcessArgs.WORKSPACE: ("-m", "/two words/it's"),
        JobProcessArgs.AUTH_TOKEN: ("-t", secret),
    }
    context.set_prop(key=FLContextKey.JOB_PROCESS_ARGS, value=given, private=True, sticky=False)
    handle = launcher.PartyLauncher().launch_job({}, context)
    handle.wait()
    side, words, token, number = json.loads(told.read_text())
    assert (side, words, token, number) == ("party", ["-m", "/two words/it's"], secret, waiting.pid)
    # The next waits, and goes when its site does.
    end = time.monotonic() + 20
    while spare._waiting is None and time.monotonic() < end:
        time.sleep(0.05)
    following = spare._waiting
    assert following is not None and following.pid != waiting.pid and following.stdin is not None
    following.stdin.close()
    assert following.wait(30) == 0

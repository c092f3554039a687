"""What would refuse a session is said at `party start`; places are tried before anything can be spent."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from cryptography.fernet import Fernet

from colonnade.audit.premises import AuditedSite
from colonnade.consent.entries import Booking, EntryKind
from colonnade.consent.guard import ConsentGuard
from colonnade.consent.ledger import Ledger
from colonnade.data.table import table_from
from colonnade.flare.folder_texts import policy_file, site_file
from colonnade.flare.party_job import watched
from colonnade.flare.process import ParentWatch
from colonnade.flare.status import StatusFile
from colonnade.foundation.errors import ColonnadeError, LedgerError, PolicyError, SiteError, StoppedError, StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric
from colonnade.mechanism.composition import charge_of
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.fit import FIT, FitServer
from colonnade.protocol.messages import Step
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.tasks import Unguarded
from colonnade.sites.recipes import open_evidence
from colonnade.sites.site import PARTY, SERVER, Site, read_site
from colonnade.study import read_study
from colonnade.transport.client import Client
from colonnade.transport.evidence import DAY, EvidenceFolder, KeptEvidence
from colonnade.transport.relay import Relay
from tests.helpers.accounts import Remembered
from tests.helpers.authority import Authority
from tests.helpers.cli_study import runner
from tests.helpers.wires import QUICK, brings, party_task, write_study


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, text
    path.write_text(text.replace(old, new, 1))


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """The bank's folder as deploy new writes it, with its data named."""
    folder = tmp_path / "bank"
    folder.mkdir()
    study = write_study(tmp_path)
    shutil.copy(tmp_path / "study.toml", folder)
    (folder / "site.toml").write_text(site_file(study, PARTY, "bank"))
    (folder / "policy.toml").write_text(policy_file(study, "bank"))
    edit(folder / "site.toml", 'data = "?"', 'data = "../bank.csv"')
    edit(folder / "policy.toml", "smallest_rows = ", "smallest_rows = 2 #")
    return folder


def ready(folder: Path, *approved: str) -> list[str]:
    return read_site(folder, PARTY).get_ready(list(approved))


def book(folder: Path) -> Ledger:
    return Ledger(folder / "ledger.sqlite")


def spend(folder: Path, kind: EntryKind | None = None) -> None:
    """One session of the study, as far as the ledger knows."""
    site = read_site(folder, PARTY)
    guard, _ = site.guard()
    assert isinstance(guard, ConsentGuard)
    plan = site.study.session(55)
    charge = charge_of(plan.plan, "bank")
    book(folder).book(Booking("s", "bank", "pay", plan.digest, guard.data, charge, 1.0), guard.policy.cap)
    if kind is not None:
        book(folder).settle("s", "bank", kind)


def test_a_folder_that_is_fine_has_nothing_to_say(bank: Path) -> None:
    assert ready(bank) == [] and not book(bank).lines()
    assert "largest_alignments = 20" in (bank / "policy.toml").read_text()
    assert list((bank / "releases").iterdir()) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "kind", "says"),
    [
        ("policy.toml", 'labels = ["works.pay"]', 'labels = ["works.hours"]', PolicyError, "labels allows works.hours"),
        ("policy.toml", "smallest_rows = 2", "smallest_rows = 58", PolicyError, "bank itself has n=57"),
        ("policy.toml", "epsilon = ", "epsilon = 0.01 #", PolicyError, "session.epsilon is at most 0.01, the plan has"),
        ("policy.toml", "[total]\nepsilon = ", "[total]\nepsilon = 0.01 #", LedgerError, "may spend at most epsilon=0"),
        ("site.toml", '"ledger.sqlite"', '"/proc/l.sqlite"', LedgerError, "ledger l.sqlite cannot be used"),
        ("site.toml", "[site]", "[site]\nworkers = 0", StudyError, "workers must be at least 1, got workers=0"),
        ("site.toml", "[site]", "[site]\nworkers = 1.5", StudyError, "workers must be a whole number, got workers=1.5"),
        ("site.toml", '"releases"', '"s3://x"', StudyError, "files must lie on this machine, got 's3://x'"),
        ("site.toml", '"releases"', '"/proc/rel"', SiteError, "the releases of bank/site.toml cannot be written: no"),
    ],
)
def test_what_would_be_refused_is_said_at_the_start(
    bank: Path, file: str, old: str, new: str, kind: type[ColonnadeError], says: str
) -> None:
    edit(bank / file, old, new)
    with pytest.raises(kind, match=says.replace(".", r"\.")):
        ready(bank)


@pytest.mark.parametrize(("given", "says"), [("abc", "at least 16 characters"), ("g" * 16, "in hexadecimal, got 'ggg")])
def test_an_approval_that_is_no_digest_is_refused_at_the_start(bank: Path, given: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        ready(bank, given)


def test_a_spent_budget(bank: Path) -> None:
    spend(bank, EntryKind.RELEASED)
    with pytest.raises(LedgerError, match="is spent and with this session's"):
        ready(bank)
    # Who may still score records starts all the same, and hears of it.
    with (bank / "site.toml").open("a") as file:
        file.write('\n[prediction]\nmodel = "model.json"\nto = "works"\n')
    (note,) = ready(bank)
    assert note.startswith("a session would be refused: data set bank data may spend at most")


def test_a_booking_that_may_be_void_is_not_held_against_the_start(bank: Path) -> None:
    spend(bank)
    assert ready(bank) == []


def test_ids_that_were_matched_often_enough(bank: Path) -> None:
    guard, _ = read_site(bank, PARTY).guard()
    assert isinstance(guard, ConsentGuard)
    for k in range(20):
        assert ready(bank) == []
        guard.align(f"{k}", "pay", ("works", "bank", "town"))
    with pytest.raises(PolicyError, match="largest_alignments is 20, and the ids of data set bank data were"):
        ready(bank)


def test_clipping_is_told_to_the_party(bank: Path) -> None:
    rows = (bank.parent / "bank.csv").read_text().splitlines()
    rows[1], rows[2] = f"{rows[1].split(',')[0]},7000", f"{rows[2].split(',')[0]},-3"
    (bank.parent / "bank.csv").write_text("\n".join(rows) + "\n")
    assert ready(bank) == ["2 values of savings were clipped to its bounds"]


@pytest.fixture
def job(bank: Path) -> Callable[[Callable[[bytes], bytes] | None], tuple[dict[str, Any], dict[str, str]]]:
    """The bank's own job in a session with two others, who are played; its last word, and theirs."""
    pytest.importorskip("nvflare", reason="the extra flare is not installed")
    from tests.helpers.played_jobs import take_part

    folder, authority = bank.parent, Authority()
    shutil.copytree(authority.folder(folder / "certificates", "bank") / "startup", bank / "startup")
    study = read_study(folder / "study.toml")
    signers = {name: authority.signer(folder / "certificates", name) for name in ("works", "town")}

    def play(passing: Callable[[bytes], bytes] | None = None) -> tuple[dict[str, Any], dict[str, str]]:
        server = ServerRole(FitServer(study.agreement, study.alignment), Randomness(), accountable=True)
        relay = Relay(server, QUICK)
        said: dict[str, str] = {}

        def other(name: str) -> None:
            # The works' evidence lies on disk, for audits of the bank.
            own = party_task(study, name, Unguarded())
            began = datetime.now(UTC).isoformat(timespec="seconds")
            facts = {"party": name, "terms": own.terms, "began": began}
            folder_of = EvidenceFolder(folder / f"{name} evidence", Fernet.generate_key(), facts)
            account = SessionAccount(folder_of if name == "works" else Remembered())
            role = PartyRole(own, Randomness(), signers[name], account=account)
            try:
                Client(role, lambda data: relay.handle(name, data), QUICK).run()
                said[name] = "the release was opened"
            except ColonnadeError as error:
                said[name] = str(error)

        def call(data: bytes) -> bytes:
            answer = relay.handle("bank", data)
            return answer if passing is None else passing(answer)

        threads = [threading.Thread(target=relay.run)]
        threads += [threading.Thread(target=other, args=(name,)) for name in signers]
        for thread in threads:
            thread.start()
        own = take_part(bank, "bank", call)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        return own, said

    return play


def test_a_job_leaves_evidence_by_which_its_session_is_made_again(bank: Path, job: Any) -> None:
    """By default, across machines; the key is the party's alone, and a policy says how long secrets are kept."""
    own, _ = job()
    assert own["ok"]
    (place,) = (bank / "evidence").iterdir()
    assert (bank / "evidence.key").stat().st_mode & 0o777 == 0o600
    kept = KeptEvidence.read(place)
    study = read_study(bank.parent / "study.toml")
    found = AuditedSite.open(place, site=None, study=None, data=None, key=None).audit([], [], None)
    assert found.passed and len(found.authority) == 64
    assert (found.quotes, found.left_out) == ((), ()) and found.replayed == len(kept.of("sent")) > 10
    site, later = read_site(bank), time.time() + 91 * DAY
    open_evidence(site, party_task(study, "bank", Unguarded()), later)
    assert KeptEvidence.read(place).of("destroyed") and not (place / "secrets").exists()


def test_the_commands_that_audit_a_session(
    bank: Path, job: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """At the audited party, then at a peer; another file than the one that was committed to is named."""
    assert job()[0]["ok"]
    (place,) = (bank / "evidence").iterdir()
    run = runner(monkeypatch, capfd)
    verdict, key = bank.parent / "verdict.json", bank.parent / "auditor.pem"
    honest = run("audit", "session", place, "--sign", key, "--out", verdict)
    assert honest.code == 0 and "messages of bank were made again and are the same" in honest.out
    assert key.stat().st_mode & 0o777 == 0o600
    checked = run("audit", "verify", verdict)
    assert checked.code == 0 and "bank followed the protocol" in checked.out and "no certificates" not in checked.out
    # With a peer's evidence; its proofs are by certificates, and a forged one accuses nobody.
    (held,) = (bank.parent / "works evidence").iterdir()
    both = run("audit", "session", place, "--against", held, "--sign", key, "--out", bank.parent / "both.json")
    assert both.code == 0 and "held by works" in both.out and "Not counted" not in both.out
    record = held / "evidence.jsonl"
    record.write_text(record.read_text().replace('"about": "submission"', '"about": "opened"'))
    forged = run("audit", "session", place, "--against", held, "--sign", key, "--out", bank.parent / "forged.json")
    assert forged.code == 0 and "Not counted: works shows a signature" in forged.out
    # Another authority than the session's is told, and so is an audit by one.
    strange = Authority().folder(bank.parent / "strange", "bank") / "startup" / "rootCA.pem"
    other = run("audit", "session", place, "--authority", strange, "--sign", key, "--out", bank.parent / "x.json")
    assert other.code == 1 and "had another authority" in other.err and "is not shown to" in other.err
    noted = run("audit", "verify", verdict, "--evidence", place)
    assert noted.code == 0
    (place / "authority.pem").write_bytes(strange.read_bytes())
    unlike = run("audit", "verify", verdict, "--evidence", place)
    assert unlike.code == 1 and "by another authority" in unlike.err
    shutil.copy(bank / "startup" / "rootCA.pem", place / "authority.pem")
    verdict.write_text(verdict.read_text().replace('"replayed": ', '"replayed": 1'))
    altered = run("audit", "verify", verdict)
    assert altered.code == 1 and "not what its auditor signed" in altered.err
    other = bank.parent / "other.csv"
    rows = (bank.parent / "bank.csv").read_text().splitlines()
    other.write_text("\n".join([rows[0], *reversed(rows[1:])]) + "\n")
    caught = run("audit", "session", place, "--data", other, "--sign", key, "--out", bank.parent / "second.json")
    assert caught.code == 1 and "bank is not shown to have" in caught.err and "committed to" in caught.err
    told = run("audit", "verify", bank.parent / "second.json")
    assert told.code == 0 and "bank is not shown to have followed" in told.out


def test_a_job_tells_of_clipping(bank: Path, job: Any) -> None:
    rows = (bank.parent / "bank.csv").read_text().splitlines()
    (bank.parent / "bank.csv").write_text("\n".join([rows[0], "q1,7000", *rows[1:]]) + "\n")
    own, said = job()
    clipped = "1 values of savings were clipped to its bounds"
    assert own["sentence"] == f"the release was opened; {clipped}; 55 of 58 records were matched"
    assert own["ok"] and set(said.values()) == {"the release was opened"}
    # The matching stands in the ledger under the id that the terminal shows.
    (noted,) = [line for line in book(bank).lines() if line.kind is EntryKind.ALIGNED]
    assert own["session"] == noted.to()["session"] == book(bank).entries()[0].booking.session
    assert [e.kind for e in book(bank).entries()] == [EntryKind.BOOKED, EntryKind.RELEASED]


def test_a_job_tells_of_a_release_that_could_not_be_kept(bank: Path, job: Any) -> None:
    """Others have the release, and the ledger says that it was opened."""

    def passing(answer: bytes) -> bytes:
        if brings(answer, Step.OPENED):
            shutil.rmtree(bank / "releases")
            (bank / "releases").write_text("a file is in the way")
        return answer

    own, said = job(passing)
    assert not own["ok"] and own["sentence"].startswith("the release was opened and could not be kept here: ")
    assert own["sentence"].endswith(
        "the session counts as spent, and the server and the other parties have the release: colonnade run --fetch "
        "gets it again"
    )
    assert set(said.values()) == {"the release was opened"}
    assert [e.kind for e in book(bank).entries()] == [EntryKind.BOOKED, EntryKind.RELEASED]


def approve(run: Any, folder: Path, digest: str, *more: str) -> Any:
    return run("approve", digest, "--site", folder, *more)


def test_an_approval_by_a_command_admits_one_session(
    bank: Path, job: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The site runs on, and is not told: the file is what counts."""
    run = runner(monkeypatch, capfd)
    edit(bank / "policy.toml", "require_approval = false", "require_approval = true")
    # Room for as many sessions as are tried.
    (bank / "policy.toml").write_text(re.sub(r"(?m)^epsilon = .*", "epsilon = 60", (bank / "policy.toml").read_text()))
    own, said = job()
    assert not own["ok"] and all(text.startswith("the session ended at bank (consent)") for text in said.values())
    digest = re.findall(r"nobody approved the plan ([0-9a-f]{64})", own["sentence"])[0]
    assert f"one session is admitted by: colonnade approve {digest} --site {bank}" in own["sentence"]
    assert approve(run, bank, digest, "--json").json == {"site": "bank", "approved": [digest]}
    assert f"bank: plan {digest} is approved for one session" in run("status", bank).out.replace("\n", " ")
    assert job()[0]["ok"]
    assert "approved for one session" not in run("status", bank).out
    assert not job()[0]["ok"], "it admitted one session"
    # Taken back, it admits none.
    approve(run, bank, digest[:20].upper())
    assert approve(run, bank, digest[:20], "--withdraw").code == 0
    assert not job()[0]["ok"]


def test_what_is_no_approval_is_refused_in_one_sentence(
    bank: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run, digest = runner(monkeypatch, capfd), "ab" * 32
    needless = approve(run, bank, digest)
    assert needless.code == 1 and "the policy of bank asks for no approval" in needless.err
    edit(bank / "policy.toml", "require_approval = false", "require_approval = true")
    site = read_site(bank)
    guard, _ = site.guard()
    assert isinstance(guard, ConsentGuard)
    plan = site.study.session(55)
    booking = Booking("cd" * 32, "bank", "pay", plan.digest, guard.data, charge_of(plan.plan, "bank"), 1.0)
    book(bank).book(booking, guard.policy.cap)
    server = bank.parent / "server"
    server.mkdir()
    shutil.copy(bank / "study.toml", server)
    (server / "site.toml").write_text('[site]\nrole = "server"\n')
    for given, folder, says in (
        ("abc", bank, "an approval must give at least 16 characters of a digest, got 'abc'"),
        ("no digest at all", bank, "an approval must be the digest of a plan, in hexadecimal, got 'no digest at all'"),
        ("../../../../etc/passwd", bank, "in hexadecimal"),
        ("cd" * 32, bank, "is the id of a session, and an approval needs the digest of a plan"),
        (digest, server, "must be the folder of a party, and is that of a server"),
        (digest, bank.parent, "there is no site file"),
    ):
        done = approve(run, folder, given)
        assert done.code == 1 and says in done.err and done.err.count("error:") == 1 and not done.out, done
    spent = book(bank).entries()
    for given in ("../ledger.sqlite", str(bank / "policy.toml"), "ab"):
        done = approve(run, bank, given, "--withdraw")
        assert done.code == 1 and "an approval must" in done.err and done.err.count("error:") == 1, done
    assert spent and book(bank).entries() == spent and (bank / "policy.toml").is_file()
    absent = approve(run, bank, digest, "--withdraw")
    assert absent.code == 1 and f"there is no approval {digest} to withdraw: none waits" in absent.err
    assert not (bank / "approved").exists()


@pytest.fixture
def small(bank: Path) -> Iterator[Path]:
    """The bank's folder on a disk of its own that can be filled."""
    copy = bank.with_name("bank.copy")
    shutil.copytree(bank, copy)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", bank], capture_output=True).returncode:
        pytest.skip("this machine forbids mounting a small disk")
    shutil.copytree(copy, bank, dirs_exist_ok=True)
    yield bank
    subprocess.run(["umount", "-l", bank], check=True)


@pytest.mark.parametrize("step", [Step.WELCOME, Step.GO, Step.PARCEL, Step.PROPOSAL, Step.HANDED, Step.OPENED])
def test_a_job_whose_disk_fills_up_says_so(small: Path, job: Any, step: Step, caplog: pytest.LogCaptureFixture) -> None:
    """One sentence here and by the status, the code for a site's files at the others, and what is spent."""

    def passing(answer: bytes) -> bytes:
        if brings(answer, step):
            with (small / "full").open("wb", buffering=0) as file:
                for size in (1 << 16, 1 << 10, 1):
                    with suppress(OSError):
                        while file.write(b"x" * size):
                            pass
        return answer

    own, said = job(passing)
    assert own["done"] and not own["ok"] and "no space left on device" in own["sentence"]
    assert "Traceback" not in caplog.text
    kinds = [e.kind for e in book(small).entries()]
    if step in (Step.HANDED, Step.OPENED):
        # The next session asks the server, which says that it was opened.
        assert set(said.values()) == {"the release was opened"} and kinds[-1] is EntryKind.BOOKED
        assert "counts as spent" in own["sentence"]
    else:
        assert all(text.startswith("the session ended at bank (site)") for text in said.values()), said
        assert "nothing is spent" in own["sentence"] and EntryKind.RELEASED not in kinds


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("workers = 0", "workers must be at least 1, got workers=0"),
        ('device = "abacus"', "device must be one of cpu, cuda, got device='abacus'"),
    ],
)
def test_a_job_without_workers_refuses_at_once(bank: Path, job: Any, more: str, says: str) -> None:
    """Others are told, and do not wait for a party that will not come."""
    edit(bank / "site.toml", "[site]", f"[site]\n{more}")
    own, said = job()
    assert own["sentence"] == f"{says}; nothing is spent"
    assert all(text.startswith("the session ended at bank (site)") for text in said.values()), said


def test_the_servers_places_are_tried_before_parties_are_asked(bank: Path) -> None:
    site = read_site(bank, PARTY)
    server = Site(bank, SERVER, "", site.study, site.content, site.asked, site.evaluated)
    server.try_releases()
    shutil.rmtree(bank / "releases")
    (bank / "releases").write_text("a file is in the way")
    with pytest.raises(SiteError, match=r"the releases of bank/site\.toml cannot be written") as refused:
        server.try_releases()
    # The coordinator is told, and learns nothing of the server's folders.
    assert str(bank) not in str(refused.value)


def test_no_clipping_no_words() -> None:
    table = table_from("bank", pl.DataFrame({"savings": [1.0, 2.0]}), {"savings": Numeric(0, 5)})
    assert table.notes() == []


def test_a_party_that_was_stopped_books_nothing(bank: Path) -> None:
    """Between a plan and its booking a person may have stopped the site: nothing is spent then."""
    guard, _ = read_site(bank, PARTY).guard()
    watching: Any = watched(guard, ParentWatch(bank), StatusFile(bank / "status.json", "a job", FIT))
    with pytest.raises(StoppedError, match="this party was stopped"):
        watching.book(None)
    assert isinstance(guard, ConsentGuard) and not list(guard.ledger.entries())

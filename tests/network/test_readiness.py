"""What would refuse a session is said at `party start`; places are tried before anything can be spent."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from colonnade.consent.entries import Booking, EntryKind
from colonnade.consent.ledger import Ledger
from colonnade.data.table import read_table, table_from
from colonnade.flare.folder_texts import policy_file, site_file
from colonnade.foundation.errors import ColonnadeError, LedgerError, PolicyError, SiteError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Numeric
from colonnade.mechanism.composition import charge_of
from colonnade.runs import run_unguarded
from colonnade.sites.readiness import clipping, get_ready, try_releases
from colonnade.sites.site import PARTY, SERVER, Site, read_site
from colonnade.study import read_study
from tests.helpers.wires import write_study


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
    return get_ready(read_site(folder, PARTY), list(approved))


def book(folder: Path) -> Ledger:
    return Ledger(folder / "ledger.sqlite")


def spend(folder: Path, kind: EntryKind | None = None) -> None:
    """One session of the study, as far as the ledger knows."""
    site = read_site(folder, PARTY)
    guard, _ = site.guard()
    assert guard is not None
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
    assert guard is not None
    for k in range(20):
        assert ready(bank) == []
        guard.align(f"{k}", "pay", ("works", "bank", "town"))
    with pytest.raises(PolicyError, match="largest_alignments is 20, and the ids of data set bank data were"):
        ready(bank)


def test_clipping_is_told_to_the_party(bank: Path) -> None:
    rows = (bank.parent / "bank.csv").read_text().splitlines()
    rows[1], rows[2] = f"{rows[1].split(',')[0]},7000", f"{rows[2].split(',')[0]},-3"
    (bank.parent / "bank.csv").write_text("\n".join(rows) + "\n")
    assert ready(bank) == ["values were clipped to their bounds: 2 of savings"]


def test_a_job_tells_of_clipping_and_of_a_release_that_could_not_be_kept(
    bank: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The party's job around a session that is played here: its last sentence, for its own people."""
    pytest.importorskip("nvflare", reason="the extra flare is not installed")
    from colonnade.flare import party_job
    from colonnade.flare.status import StatusFile, look

    rows = (bank.parent / "bank.csv").read_text().splitlines()
    (bank.parent / "bank.csv").write_text("\n".join([rows[0], "q1,7000", *rows[1:]]) + "\n")
    study = read_study(bank.parent / "study.toml")
    tables = {
        name: read_table(name, bank.parent / f"{name}.csv", columns, "person")
        for name, columns in study.agreement.schema.parties.items()
    }
    release = run_unguarded(study.agreement, tables, study.alignment, Randomness(b"seed")).release

    class Played:
        def __init__(self, *arguments: Any, **_: Any) -> None:
            self._read = arguments[3]

        def run(self) -> Any:
            self._read()
            if blocked:
                shutil.rmtree(bank / "releases")
                (bank / "releases").write_text("a file is in the way")
            return release

    monkeypatch.setattr(party_job, "Member", Played)
    monkeypatch.setattr(party_job, "Voucher", lambda *_: None)
    blocked = False
    board = StatusFile(bank / "status.json", "job")
    standing: Any = object()
    job = party_job.PartyJob()
    job._take_part(bank, board, lambda data: data, standing)
    said = look(board.path)
    assert said["sentence"] == "the release was opened; values were clipped to their bounds: 1 of savings"
    blocked = True
    with pytest.raises(SiteError, match="the session counts as spent, and the server and the other parties have the"):
        job._take_part(bank, board, lambda data: data, standing)


def test_the_servers_places_are_tried_before_parties_are_asked(bank: Path) -> None:
    site = read_site(bank, PARTY)
    server = Site(bank, SERVER, "", site.study, site.content, site.asked)
    try_releases(server)
    shutil.rmtree(bank / "releases")
    (bank / "releases").write_text("a file is in the way")
    with pytest.raises(SiteError, match=r"the releases of bank/site\.toml cannot be written") as refused:
        try_releases(server)
    # The coordinator is told, and learns nothing of the server's folders.
    assert str(bank) not in str(refused.value)


def test_no_clipping_no_words() -> None:
    table = table_from("bank", pl.DataFrame({"savings": [1.0, 2.0]}), {"savings": Numeric(0, 5)})
    assert clipping(table) == ""

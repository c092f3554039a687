"""`predict --study`: scores across parties equal those of one wide table, and go where all policies let them."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import pytest

from colonnade.analysis.model import FittedModel
from colonnade.consent.entries import EntryKind
from colonnade.consent.ledger import Ledger
from colonnade.model import PublicModel, write_model
from colonnade.study import read_study
from tests.helpers.cli_study import Answer, Run, runner, write_study

PEOPLE = 60
POLICY = """[policy]
party = "{party}"
partners = ["{partner}"]
scores_to = ["works"]
[session]
epsilon = 1.0
[total]
epsilon = 1.0
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


def write(folder: Path, task: str, label: str, weights: dict[str, float]) -> None:
    """A model by hand: what is tested is the scoring."""
    model = FittedModel(task, label, tuple(weights), (tuple(weights.values()),), (0.25,), "default", 0.1, 3.0, 0.5)
    schema = read_study(folder / "study.toml").agreement.schema
    public = PublicModel(model, "pay", schema, "works.rich" if task == "logistic" else label, "00" * 32)
    (folder / "model.json").write_bytes(write_model(public))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_study(tmp_path, PEOPLE)
    write(tmp_path, "logistic", "rich=yes", {"hours": 0.7, "job=smith": -0.4, "savings": 2.5})
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def across(run: Run, folder: Path, *more: object, to: str = "works") -> Answer:
    return run("predict", folder / "model.json", "--study", folder / "study.toml", "--to", to, *more)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("task", ["logistic", "linear"])
@pytest.mark.parametrize("to", ["works", "bank"])
def test_scores_across_parties_are_those_of_the_files_in_one_place(run: Run, folder: Path, task: str, to: str) -> None:
    if task == "linear":
        write(folder, "linear", "hours", {"job=smith": -0.3, "savings": 0.35})
    files = ["--data", folder / "works.csv", "--data", folder / "bank.csv", "--id", "person"]
    plain = {r["person"]: r for r in rows(run("predict", folder / "model.json", *files).out)}
    answer = across(run, folder, to=to)
    assert answer.code == 0, answer.err
    found = rows(answer.out)
    own = [r["person"] for r in rows((folder / f"{to}.csv").read_text())]
    assert [r["person"] for r in found] == [p for p in own if p in plain]
    assert len(found) == len(plain) == PEOPLE - 6
    value = "probability" if task == "logistic" else "predicted"
    scale = 1.0 if task == "logistic" else 40.0  # hours run from 0 to 80 where a score runs from -1 to 1
    for row in found:
        assert float(row[value]) == pytest.approx(float(plain[row["person"]][value]), abs=2 * scale * 2.0**-40)
    other = "bank" if to == "works" else "works"
    told = " ".join(answer.err.split())
    assert f"{to} opened the exact score of each of 54 records: it is not differentially private" in told
    assert f"{to} can subtract its own part and learn the part of {other}" in told


def test_each_file_may_have_its_own_id_column(run: Run, folder: Path) -> None:
    model, works, bank = folder / "model.json", folder / "works.csv", folder / "bank.csv"
    files = ("--data", works, "--data", bank)
    same = rows(run("predict", model, *files, "--id", "person").out)
    edit(bank, "person,", "customer,")
    for ids in (
        ("--id", "works=person", "--id", "bank=customer"),
        ("--id", "bank=customer", "--id", "works=person"),
        ("--id", "person", "--id", "bank=customer"),
    ):
        assert rows(run("predict", model, *files, *ids).out) == same and next(iter(same[0])) == "person"
    assert run("predict", model, *files, "--id", "works=person", "--id", "bank=customer", "--json").json["ids"]
    refused(run("predict", model, *files, "--id", "person"), "party bank: bank.csv has no column 'person'")
    refused(
        run("predict", model, *files, "--id", "works=person"),
        "every party's file needs an id column, got none for bank: give --id bank=COLUMN",
    )
    refused(
        run("predict", model, *files, "--id", "person", "--id", "customer"),
        "--id names one column of all files, or PARTY=COLUMN for parties bank, works, got person and customer",
    )
    refused(
        run("predict", model, *files, "--id", "works=person", "--id", "works=hours", "--id", "bank=customer"),
        "party works has one id column, got 'person' and 'hours'",
    )


def test_an_id_column_with_the_name_of_a_result_is_kept(run: Run, folder: Path) -> None:
    files = ("--data", folder / "works.csv", "--data", folder / "bank.csv", "--id", "person")
    same = [row["person"] for row in rows(run("predict", folder / "model.json", *files).out)]
    for name in ("works", "bank"):
        edit(folder / f"{name}.csv", "person,", "predicted,")
    found = rows(run("predict", folder / "model.json", *files[:-1], "predicted").out)
    assert [row["predicted_"] for row in found] == same and found[0]["predicted"] in ("no", "yes")


def test_new_records_are_named_by_party_and_need_no_label(run: Run, folder: Path) -> None:
    (folder / "new_works.csv").write_text("person,hours,job\nz,40,smith\nq,20,clerk\n")
    (folder / "new_bank.csv").write_text("person,savings\nq,100\nr,5\nz,900\n")
    content = across(
        run,
        folder,
        *("--data", f"works={folder / 'new_works.csv'}", "--data", f"bank={folder / 'new_bank.csv'}", "--json"),
    ).json
    assert (content["receiver"], content["parties"], content["exact"]) == ("works", ["works", "bank"], True)
    assert content["ids"] == ["z", "q"] and content["rows"] == 2
    # 40 of 80 hours is 0 on the coded scale, 900 of 1000 is 0.8; the intercept is 0.25.
    logit = 0.7 * 0.0 - 0.4 + 2.5 * 0.8 + 0.25
    assert content["scores"][0] == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-11)


def test_a_receiver_may_have_no_column_of_the_model(run: Run, folder: Path) -> None:
    write(folder, "logistic", "rich=yes", {"savings": 2.5})
    found = rows(across(run, folder).out)
    plain = rows(run("predict", folder / "model.json", "--data", folder / "bank.csv", "--id", "person").out)
    expected = {r["person"]: float(r["probability"]) for r in plain}
    assert len(found) == 54
    assert all(float(r["probability"]) == pytest.approx(expected[r["person"]], abs=1e-11) for r in found)


def refused(answer: Answer, sentence: str) -> None:
    assert answer.code == 1 and answer.out == ""
    assert sentence in " ".join(answer.err.split())


def test_a_model_of_other_columns_is_refused(run: Run, folder: Path) -> None:
    edit(folder / "study.toml", "high = 1000", "high = 2000")
    refused(
        across(run, folder),
        "the model takes column savings of party bank as {'kind': 'numeric', 'low': 0, 'high': 1000}, "
        "the study declares it as {'kind': 'numeric', 'low': 0, 'high': 2000}",
    )
    edit(folder / "study.toml", "savings =", "debts =")
    refused(across(run, folder), "the study declares no such column")
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(text[: text.index("[party.bank]")])
    refused(across(run, folder), "the model has columns of party bank, which the study does not have")


def test_wrong_receivers_files_and_uses_are_refused(run: Run, folder: Path) -> None:
    refused(across(run, folder, to="shop"), "scores go to one of works, bank, got 'shop'")
    refused(across(run, folder, "--data", folder / "bank.csv"), "--data names PARTY=FILE for one of works, bank")
    write(folder, "logistic", "rich=yes", {"hours": 1.0})
    refused(across(run, folder), "the model has columns of works alone: it can score its records by itself")
    for wrong in (
        ["--study", folder / "study.toml"],
        ["--study", folder / "study.toml", "--to", "works", "--id", "person"],
        ["--to", "works", "--data", folder / "bank.csv"],
        [],
    ):
        assert run("predict", folder / "model.json", *wrong).code == 2
    edit(folder / "study.toml", 'data = "bank.csv"\n', "")
    write(folder, "logistic", "rich=yes", {"savings": 1.0})
    refused(across(run, folder), "[party.bank] needs data, the path of its file")


def test_a_policy_says_to_whom_scores_may_go(run: Run, folder: Path) -> None:
    for party, partner in (("works", "bank"), ("bank", "works")):
        (folder / f"{party}.toml").write_text(POLICY.format(party=party, partner=partner))
        data = f'data = "{party}.csv"\n'
        edit(folder / "study.toml", data, f'{data}policy = "{party}.toml"\nledger = "{party}.ledger"\n')
    assert across(run, folder).code == 0
    refused(across(run, folder, to="bank"), "works refuses: scores_to allows works, the prediction has bank")
    edit(folder / "bank.toml", 'scores_to = ["works"]\n', "")
    refused(across(run, folder), "bank refuses: scores_to allows none, the prediction has works")
    edit(folder / "bank.toml", "[session]", 'scores_to = ["*"]\nrequire_approval = true\n[session]')
    answer = across(run, folder, "--json")
    refused(answer, "bank refuses: require_approval is set and nobody approved the plan ")
    digest = answer.err.split("the plan ")[1][:64]
    # Whoever is asked to approve sees what it is about.
    assert f"{digest}; bank: exact scores of n=" in " ".join(answer.err.split())
    assert across(run, folder, "--approve", digest).code == 0
    edit(folder / "bank.toml", '["works"]', '["shop"]')
    refused(across(run, folder), "bank refuses: partners allows shop, the prediction has works")
    edit(folder / "bank.toml", '["shop"]', '["works"]\ncolumns = ["debts"]')
    refused(across(run, folder), "bank refuses: columns allows debts, the prediction has savings")
    # A prediction is no spend, and no book says that it was one: ids were matched in those that went so far.
    for party in ("works", "bank"):
        book = Ledger(folder / f"{party}.ledger")
        assert not book.entries() and [line.kind for line in book.lines()] == [EntryKind.ALIGNED] * 3
    edit(folder / "bank.toml", 'columns = ["debts"]', "largest_list = 100")
    refused(across(run, folder), "bank refuses: largest_list is 100, works could test ")
    edit(folder / "bank.toml", "largest_list = 100", "largest_alignments = 3")
    refused(across(run, folder), "bank refuses: largest_alignments is 3, and the ids of data set bank.csv were matched")

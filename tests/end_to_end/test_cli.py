"""The commands, from a study file to scores."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from colonnade.foundation.shown import figure
from colonnade.mechanism.release import read_release
from colonnade.model import read_model
from tests.helpers.cli_study import PEOPLE, Run, runner, write_study

COMMON = PEOPLE - 10


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study, its release and its model, made by the command in a process of its own."""
    folder = tmp_path_factory.mktemp("study")
    write_study(folder)
    command = [sys.executable, "-m", "colonnade.cli", "fit", "study.toml", "--out", "release.json"]
    done = subprocess.run(
        [*command, "--model", "model.json", "--json"], cwd=folder, capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (folder / "fit.json").write_text(done.stdout)
    return folder


def test_plan_touches_no_data(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    (tmp_path / "works.csv").unlink()
    (tmp_path / "bank.csv").unlink()
    shown = run("plan", tmp_path / "study.toml", "--rows", 500, "--full")
    assert shown.code == 0
    for text in (
        "500 records",
        "works x bank (label)",
        "secure product",
        "coalition",
        "of what it would without noise",
        "Expected",
    ):
        assert text in shown.out
    assert "assumed" not in shown.out


def test_plan_says_when_rows_are_assumed(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    assert "in common, assumed" in " ".join(run("plan", tmp_path / "study.toml").out.split())
    assert "assumed: set rows in [study]" in " ".join(run("plan", tmp_path / "study.toml", "--full").out.split())
    content = run("plan", tmp_path / "study.toml", "--json").json
    assert content["rows_assumed"] is True
    told = (tmp_path / "study.toml").read_text().replace("delta = 0", "delta = 0\nrows = 300")
    (tmp_path / "study.toml").write_text(told)
    content = run("plan", tmp_path / "study.toml", "--json").json
    assert content["rows_assumed"] is False
    assert content["n"] == 300


def test_plan_json_has_the_agreed_keys(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    content = run("plan", tmp_path / "study.toml", "--rows", 230, "--json").json
    for key in ("study", "task", "n", "epsilon", "delta", "collusion", "product", "parties", "blocks"):
        assert key in content
    assert set(content["parties"]["works"]) == {"columns", "epsilon"}
    assert set(content["parties"]["works"]["epsilon"]) == {"outsider", "server", "party", "coalition"}
    assert {"owners", "terms", "sensitivity", "scale"} <= set(content["blocks"][0])


def test_a_plan_says_what_a_tiny_delta_and_no_collusion_would_buy(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    terms = {a["term"]: a for a in run("plan", tmp_path / "study.toml", "--rows", 230, "--json").json["other_terms"]}
    assert set(terms) == {"delta = 1e-12", "collusion = 0"}
    assert terms["collusion = 0"]["ratio"] < 1 and "no guarantee" in terms["collusion = 0"]["caution"]
    shown = " ".join(run("plan", tmp_path / "study.toml", "--rows", 230, "--full").out.split())
    for term, told in terms.items():
        assert f"With {term} that noise would be {told['ratio']:.2f} times as large" in shown


def test_view_without_guarantee_is_none_and_null(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    study = tmp_path / "study.toml"
    study.write_text(study.read_text().replace("collusion = 1", "collusion = 0"))
    assert run("plan", study, "--rows", 230, "--json").json["parties"]["bank"]["epsilon"]["party"] is None
    shown = run("plan", study, "--rows", 230)
    assert "No guarantee against: another party" in " ".join(shown.out.split())
    assert "no guarantee against a party" in shown.err


def test_a_view_that_one_party_does_not_have_is_not_shown(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    study = tmp_path / "study.toml"
    study.write_text(study.read_text().split("[party.bank]")[0].replace("collusion = 1\n", ""))
    told = run("plan", study, "--rows", 230, "--json").json["parties"]["works"]["epsilon"]
    assert told == {"outsider": told["server"], "server": pytest.approx(40.0), "party": None, "coalition": None}
    shown = run("plan", study, "--rows", 230, "--full").out
    assert "none" not in shown
    assert [line.split() for line in shown.splitlines() if line.startswith("a whole record")] == [
        ["a", "whole", "record", "40", "40"]
    ]


def test_a_plan_tells_how_much_noise_each_of_two_parties_draws(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    study = tmp_path / "study.toml"
    parts = run("plan", study, "--rows", 230, "--json").json["narrowed"]
    assert parts["works"] == "1/1" and parts["bank"] not in ("1/1", "0/1")
    assert "On products of both parties bank" in run("plan", study, "--rows", 230, "--full").out


def test_columns_in_the_clear_print_none_for_all_but_outsiders(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    study = tmp_path / "study.toml"
    study.write_text(study.read_text().replace('"lattice"', '"plain"'))
    shown = run("plan", study, "--rows", 230, "--full").out
    rows = [line.split() for line in shown.splitlines() if line.startswith("a whole record")]
    assert rows == [["a", "whole", "record", "40", "none", "none", "none"]]


def test_plan_warns_when_hopeless_and_strict_fit_refuses(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    study = tmp_path / "study.toml"
    study.write_text(study.read_text().replace("epsilon = 40.0", "epsilon = 0.01"))
    assert "may be no better than the trivial one" in run("plan", study, "--rows", 230).err
    refused = run("fit", study, "--out", tmp_path / "release.json", "--strict")
    assert refused.code == 1
    assert refused.err.count("may be no better than the trivial one") == 2
    assert refused.err.splitlines()[-1].startswith("error: works refuses: --strict refuses this plan")
    assert not (tmp_path / "release.json").exists()


def test_fit_json_and_files(fitted: Path) -> None:
    content = json.loads((fitted / "fit.json").read_text())
    assert content["n"] == COMMON
    assert content["coefficients"]["savings"] > 0
    assert isinstance(content["intercept"], float)
    assert content["seconds"] == pytest.approx(sum(content["steps"].values()))
    assert set(content["bytes"]["sent"]) == set(content["bytes"]["received"]) == {"works", "bank"}
    assert content["release"] == "release.json"
    assert content["seeded"] is False
    release = read_release((fitted / "release.json").read_bytes())
    model = read_model((fitted / "model.json").read_bytes()).model
    assert release.n == COMMON
    assert dict(zip(model.features, model.coefficients, strict=True)) == content["coefficients"]
    assert [p.name for p in fitted.iterdir() if p.name.startswith(".")] == []


def test_fit_for_people(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    out, model = tmp_path / "r.json", tmp_path / "m.json"
    shown = run("fit", tmp_path / "study.toml", "--out", out, "--model", model, "--seed", "00ff", "--full")
    assert shown.code == 0
    for text in ("Blocks of the release", "log-odds of rich = yes", "savings", "Spent: epsilon", "sent", str(out)):
        assert text in shown.out
    assert "the noise came from a seed" in shown.out
    assert shown.out.index("savings") < shown.out.index("intercept")
    assert read_release(out.read_bytes()).provenance["seeded"] is True
    first = out.read_bytes()
    assert run("fit", tmp_path / "study.toml", "--out", out, "--seed", "00ff", "--force").code == 0
    assert out.read_bytes() == first


def test_a_forecast_says_what_it_takes_for_granted(tmp_path: Path, run: Run) -> None:
    """Bounds a hundred times too wide change no public fact: the forecast is the same, and says that it cannot know."""
    write_study(tmp_path)
    study = tmp_path / "study.toml"
    # With the number of rows known, a plan may cut numbers into bins, which fill no bounds.
    study.write_text(study.read_text().replace("[study]\n", '[study]\nnumeric = "declared"\n'))
    for wide in (False, True):
        if wide:
            study.write_text(
                study.read_text().replace("high = 80", "high = 8000").replace("high = 1000", "high = 100000")
            )
        text = " ".join(run("plan", study, "--rows", 100_000, "--full").out.split())
        assert "of what it would without noise (trivial model: 0%)" in text
        assert "100%" not in text
        told = run("plan", study, "--rows", 20_000, "--json").json["forecast"]
        assert {"noise_to_signal", "explained", "rows_needed", "if_a_tenth"} <= told.keys()
        low, high = told["explained_range"]
        assert low < told["explained"] < high < 1
        page = tmp_path / "plan.html"
        assert run("plan", study, "--rows", 100_000, "--html", page).code == 0
        said = " ".join(page.read_text().split())
        assert "of what it would without noise" in said
        assert "a plan cannot know" in said and "<strong>100%" not in said


@pytest.mark.parametrize("named", [True, False])
def test_a_release_is_not_overwritten(named: bool, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by default nor by name; --force does it. Data is not even read before."""
    write_study(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "release.json").write_text("dear")
    data = (tmp_path / "works.csv").rename(tmp_path / "away.csv")
    more = ("--out", "release.json") if named else ()
    refused = run("fit", "study.toml", *more)
    assert (refused.code, (tmp_path / "release.json").read_text()) == (1, "dear")
    assert refused.err == "error: release.json is here already: a release is not overwritten unless --force is given\n"
    data.rename(tmp_path / "works.csv")
    assert run("fit", "study.toml", *more, "--force").code == 0
    assert read_release((tmp_path / "release.json").read_bytes()).n == 230
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bank.csv", "release.json", "study.toml", "works.csv"]


def test_a_release_that_appears_during_a_run_is_not_overwritten(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two people run at once and name one file: both releases were paid for, and both are kept."""
    from colonnade import runs

    write_study(tmp_path)
    out, whole = tmp_path / "release.json", runs.fit

    def meanwhile(*arguments: Any, **settings: Any) -> Any:
        out.write_text("dear")
        return whole(*arguments, **settings)

    monkeypatch.setattr(runs, "fit", meanwhile)
    answer = run("fit", tmp_path / "study.toml", "--out", out, "--json")
    assert answer.code == 0 and out.read_text() == "dear"
    assert answer.json["release"] == str(tmp_path / "release-2.json")
    assert read_release((tmp_path / "release-2.json").read_bytes()).n == 230


def test_no_other_file_is_written_over_a_release(fitted: Path, run: Run) -> None:
    release = fitted / "release.json"
    dear = release.read_bytes()
    for command in (
        ("solve", release, "--out", release),
        ("report", release, "--html", release),
        ("plan", fitted / "study.toml", "--rows", 100, "--html", release),
        ("fit", fitted / "study.toml", "--out", fitted / "new.json", "--model", release),
        ("fit", fitted / "study.toml", "--out", fitted / "new.json", "--model", release, "--force"),
        ("predict", fitted / "model.json", "--data", fitted / "works.csv", "--out", release),
    ):
        refused = run(*command)
        assert refused.code == 1 and "a release is there, and is not overwritten" in refused.err, command
        assert release.read_bytes() == dear
    assert not (fitted / "new.json").exists()
    assert run("solve", release, "--out", fitted / "model.json").code == 0


def test_what_is_no_file_is_not_replaced(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path, 40)
    os.mkfifo(tmp_path / "pipe")
    refused = run("fit", tmp_path / "study.toml", "--out", tmp_path / "pipe", "--force")
    assert refused.code == 1 and "it is not a plain file" in refused.err
    (tmp_path / "link.json").symlink_to(tmp_path / "nowhere.json")
    refused = run("fit", tmp_path / "study.toml", "--out", tmp_path / "link.json")
    assert refused.code == 1 and "is here already" in refused.err


def test_clipped_values_are_told_to_the_error_stream_only(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    study = tmp_path / "study.toml"
    study.write_text(study.read_text().replace("high = 80", "high = 40"))
    shown = run("fit", study, "--out", tmp_path / "r.json", "--json")
    assert "values of hours were clipped" in shown.err
    assert "were clipped" not in shown.out
    assert shown.json["n"] == COMMON


def test_report_repeats_what_fit_said(fitted: Path, run: Run) -> None:
    said = json.loads((fitted / "fit.json").read_text())
    content = run("report", fitted / "release.json", "--json").json
    for key in ("study", "task", "n", "epsilon", "parties", "blocks", "coefficients", "intercept"):
        assert content[key] == said[key]
    shown = run("report", fitted / "release.json")
    for text in ("Whose columns", "Epsilon", "Blocks of the release", "log-odds of rich", "session"):
        assert text in shown.out


def test_solve_another_model_without_data(fitted: Path, run: Run, tmp_path: Path) -> None:
    model = tmp_path / "hours.json"
    content = run(
        "solve", fitted / "release.json", "--task", "linear", "--label", "hours", "--features", "savings,rich",
        "--ridge", 0.01, "--json", "--out", model,
    ).json  # fmt: skip
    assert set(content["coefficients"]) == {"savings", "rich=yes"}
    assert (content["task"], content["label"], content["ridge"]) == ("linear", "hours", 0.01)
    scored = run("predict", model, "--data", fitted / "works.csv", "--data", fitted / "bank.csv", "--id", "person")
    values = [float(row["predicted"]) for row in csv.DictReader(io.StringIO(scored.out))]
    assert len(values) == COMMON
    assert 20 < sum(values) / len(values) < 60


def test_solve_path_shrinks(fitted: Path, run: Run) -> None:
    path = run("solve", fitted / "release.json", "--path", "--json").json["path"]
    sizes = [sum(c * c for c in model["coefficients"].values()) for model in path]
    assert len(path) > 5
    assert sizes[-1] < sizes[0] / 10
    assert "Ridge path" in run("solve", fitted / "release.json", "--path").out
    assert run("solve", fitted / "release.json", "--path", "--ridge", 1).code == 2


def test_solve_refuses_a_numeric_label_for_logistic(fitted: Path, run: Run) -> None:
    refused = run("solve", fitted / "release.json", "--label", "savings")
    assert refused.code == 1
    assert "savings" in refused.err


def test_predict_one_wide_file_and_one_file_for_each_party_agree(fitted: Path, run: Run, tmp_path: Path) -> None:
    works = {row["person"]: row for row in csv.DictReader((fitted / "works.csv").open())}
    bank = {row["person"]: row for row in csv.DictReader((fitted / "bank.csv").open())}
    wide = tmp_path / "wide.csv"
    with wide.open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "hours", "job", "savings"])
        writer.writerows([p, works[p]["hours"], works[p]["job"], bank[p]["savings"]] for p in bank)
    out = tmp_path / "scores.csv"
    one = run("predict", fitted / "model.json", "--data", wide, "--id", "person")
    two = run(
        "predict", fitted / "model.json", "--data", f"bank={fitted / 'bank.csv'}", "--data", fitted / "works.csv",
        "--id", "person", "--out", out,
    )  # fmt: skip
    assert (two.code, two.out) == (0, "")
    first = {row["person"]: row for row in csv.DictReader(io.StringIO(one.out))}
    second = {row["person"]: row for row in csv.DictReader(out.open())}
    assert set(first) == set(second) == set(bank)
    right = 0
    for person, row in first.items():
        assert float(row["probability"]) == pytest.approx(float(second[person]["probability"]), abs=1e-12)
        assert row["predicted"] == ("yes" if float(row["probability"]) >= 0.5 else "no")
        right += row["predicted"] == works[person]["rich"]
    assert right / len(first) > 0.7
    content = run("predict", fitted / "model.json", "--data", wide, "--json").json
    assert content["rows"] == COMMON
    assert content["ids"] is None


def test_schema_draft_is_refused_until_filled_in(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    draft = run("schema", tmp_path / "works.csv").out
    declared = tomllib.loads(draft)["party"]["works"]
    assert (declared["data"], declared["id"]) == ("works.csv", "person")
    assert declared["columns"]["hours"] == {"kind": "numeric", "low": "?", "high": "?"}
    assert declared["columns"]["job"] == {"kind": "categorical", "levels": ["?"]}
    for value in ("clerk", "smith", "baker", "yes"):
        assert value not in draft
    head, tail = (tmp_path / "study.toml").read_text().split("[party.works]")
    (tmp_path / "study.toml").write_text(head + draft + "[party.bank]" + tail.split("[party.bank]")[1])
    refused = run("plan", tmp_path / "study.toml")
    assert refused.code == 1
    assert 'column hours: low and high still have the "?" of a draft' in refused.err


def test_schema_of_public_data_is_complete(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    parts = [run("schema", tmp_path / f"{name}.csv", "--public-data").out for name in ("works", "bank")]
    declared = tomllib.loads(parts[0])["party"]["works"]["columns"]
    assert declared["rich"] == {"kind": "binary", "levels": ["no", "yes"]}
    assert declared["job"]["levels"] == ["baker", "clerk", "smith"]
    assert 20 <= declared["hours"]["low"] < declared["hours"]["high"] <= 60
    head = (tmp_path / "study.toml").read_text().split("[party.works]")[0]
    (tmp_path / "study.toml").write_text(head + "\n".join(parts))
    assert run("plan", tmp_path / "study.toml").code == 0


def test_starts_fast() -> None:
    """CPU seconds, so that a busy machine does not matter."""
    clock = "import time; import {0}; print(time.process_time(), 'numpy' in __import__('sys').modules)"
    for module, most in (("colonnade", 0.3), ("colonnade.cli", 0.5)):
        told = subprocess.run([sys.executable, "-c", clock.format(module)], capture_output=True, text=True, check=True)
        seconds, numpy = told.stdout.split()
        assert float(seconds) < most
        assert numpy == "False"


def test_usage_errors_leave_with_2_and_help_with_0(run: Run) -> None:
    assert run("plan").code == 2
    assert run("fly").code == 2
    assert run("plan", "study.toml", "--epsilon", "3").code == 2
    assert run("--help").code == 0
    assert run("--version").out.startswith("colonnade ")


def test_epsilon_is_never_understated() -> None:
    from colonnade.report.text import epsilon_text

    assert epsilon_text(None) == "none"
    assert [epsilon_text(e) for e in (1.0, 0.99999999, 1.0000001, 0.7661001, 12345.6)] == [
        "1", "1", "1.001", "0.7662", "12350",
    ]  # fmt: skip


def test_plan_foretells_the_bytes(tmp_path: Path, run: Run) -> None:
    write_study(tmp_path)
    study = tmp_path / "study.toml"
    study.write_text(study.read_text().replace('"psi"', '"none"'))
    works = (tmp_path / "works.csv").read_text().splitlines()
    (tmp_path / "works.csv").write_text("\n".join(works[: 1 + COMMON]) + "\n")
    foretold = run("plan", study, "--rows", COMMON, "--json").json["expected"]["sent"]
    sent = run("fit", study, "--rows", COMMON, "--out", tmp_path / "r.json", "--json").json["bytes"]["sent"]
    for party in ("works", "bank"):
        assert foretold[party] == pytest.approx(sent[party], rel=0.02)


def test_the_plans_bytes_are_those_of_parties_with_lists_of_any_length(run: Run, tmp_path: Path) -> None:
    """The demo, whose bank has the fewest ids and stands last: the first party was foretold what the bank sends."""
    study, rows = Path(__file__).parents[1] / "studies" / "income" / "study.toml", "14146"
    done = run("fit", study, "--rows", rows, "--out", tmp_path / "r.json", "--json").json
    told = run("plan", study, "--rows", rows, "--json").json["expected"]
    for party, sent in done["bytes"]["sent"].items():
        more = told["fewest_ids_sends_more"] if party == "bank" else 0
        assert told["sent"][party] + more == pytest.approx(sent, rel=0.05), party


def test_progress_goes_to_a_terminal_and_json_stays_alone(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    write_study(tmp_path)
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "colonnade.cli", "fit", "study.toml", "--out", "r.json", "--json"]
    child = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=follower)
    os.close(follower)
    shown = b""
    while chunk := _read(leader):
        shown += chunk
    os.close(leader)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert b"matching ids in private" in shown
    assert json.loads(out)["n"] == COMMON


def _read(terminal: int) -> bytes:
    """Until the other side is closed, which Linux tells as an error."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


def test_reference_is_up_to_date() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, root / "docs" / "write_cli.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_intervals_are_the_same_everywhere(fitted: Path, run: Run) -> None:
    """`fit`, `solve` and `report` tell the same intervals, for machines and in a terminal of 80 columns."""
    told = json.loads((fitted / "fit.json").read_text())["intervals"]
    assert told == run("report", fitted / "release.json", "--json").json["intervals"]
    assert told == run("solve", fitted / "release.json", "--json").json["intervals"]
    assert told["level"] == 0.95 and "linear discriminant" in told["quantity"]
    assert told["coefficients"], told["reason"]
    for one in told["coefficients"]:
        numbers = [one[key] for key in ("estimate", "std", "low", "high", "times_sampling")]
        assert numbers == [None] * 5 if one["drowned"] else one["low"] < one["estimate"] < one["high"]
    shown = run("solve", fitted / "release.json").out
    assert "95% intervals of the" in shown
    units = run("solve", fitted / "release.json", "--json").json["conf_int"]
    assert [one["reliable"] for one in units] == [not one["drowned"] for one in told["coefficients"]]
    for one in units:
        ends = [None if one[end] is None else figure(one[end], 3, "+") for end in ("low", "high")]
        assert (" to ".join(map(str, ends)) if one["reliable"] else "noise drowns it") in shown


def test_intervals_follow_the_chosen_columns(fitted: Path, run: Run) -> None:
    told = run("solve", fitted / "release.json", "--features", "hours", "--json").json["intervals"]
    assert {one["column"] for one in told["coefficients"]} | set(told["left_out"]) == {"hours"}

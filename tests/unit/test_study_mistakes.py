"""A study is checked as a whole: all mistakes at once, each on its line, and none that only follows from another."""

from __future__ import annotations

from pathlib import Path

import pytest

from colonnade.foundation.errors import MistakesError, PrivacyError, SchemaError, StudyError
from colonnade.study import read_study, study_from
from tests.helpers.cli_study import STUDY, Run, runner

WRONG = '''[study]
name = """a name
[party.nobody]
"""
task = "logistic"
label = "works.income"
epsilon = 0
delta = 1.5
collusion = -1
product = "latice"
release = "ful"

[party.works]
data = ""
id = "?"
[party.works.columns]
age = { kind = "numeric", low = 90, high = 17 }
job = { kind = "categorical", levels = ["?"] }
hours = { kind = "numeric", low = "?", high = "?" }
income.kind = "binary"
income.levels = ["a"]

[party.bank]
policy = "policy.toml"
[party.bank.columns]
age = { kind = "numeric", low = 0, high = 1 }
since = { kind = "date", earliest = 2020-01-01 }

[partly]
'''


def told(text: str, folder: Path) -> list[str]:
    (folder / "study.toml").write_text(text)
    with pytest.raises(MistakesError) as caught:
        read_study(folder / "study.toml")
    return str(caught.value).splitlines()


def test_all_mistakes_are_told_with_their_lines(tmp_path: Path) -> None:
    first, *rest = told(WRONG, tmp_path)
    assert first == f"study.toml has {len(rest)} mistakes"
    wanted = {
        2: "name must be a text of at most 4096 characters, all of them visible",
        7: "epsilon must be a positive number, got epsilon=0",
        8: "delta must lie in [0, 1), got delta=1.5",
        9: "collusion must be a whole number, got collusion=-1",
        10: "product must be one of lattice, bgn, plain, got product='latice'",
        11: "release must be one of auto, full, ",
        14: "[party.works] data must be a path, got ''",
        15: '[party.works] id still has the "?" of a draft: replace it by the column that names a person',
        17: "column age: low must be below high, got low=90, high=17",
        18: 'column job: levels still has the "?" of a draft',
        19: 'column hours: low and high still have the "?" of a draft',
        21: "column income: a binary column needs 2 distinct levels",
        23: "[party.bank] needs an id column",
        24: "[party.bank] needs policy and ledger together",
        27: "column since: a date column needs 'latest'",
        29: "the study file has no key 'partly'; did you mean 'party'?",
    }
    lines = [int(line.split(":")[1]) for line in rest]
    assert lines == sorted(lines)
    for line, says in wanted.items():
        assert any(found.startswith(f"study.toml:{line}: {says}") for found in rest), (line, says, rest)
    assert len(rest) == len(wanted)


def test_mistakes_that_follow_from_others_are_not_told(tmp_path: Path) -> None:
    text = STUDY.replace("epsilon = ", "epsilom = ").replace('task = "logistic"', 'taks = "logistic"')
    assert [line.partition("; ")[2] for line in told(text, tmp_path)[1:]] == [
        "did you mean 'task'?",
        "did you mean 'epsilon'?",
    ]


def test_one_mistake_is_one_sentence_of_its_own_kind(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    for old, new, kind, says in (
        ("epsilon = 40.0", "epsilon = 0", PrivacyError, "epsilon must be a positive number"),
        ("low = 0, high = 80", "low = 80, high = 0", SchemaError, "column hours: low must be below high"),
        ('label = "works.rich"', 'label = "works.hours"', StudyError, "the label of a logistic regression must be"),
        ("collusion = 1", "collusion = 9", PrivacyError, "collusion must lie between 0 and K-1="),
    ):
        assert old in STUDY
        path.write_text(STUDY.replace(old, new, 1))
        line = STUDY[: STUDY.index(old)].count("\n") + 1
        with pytest.raises(kind) as caught:
            read_study(path)
        assert str(caught.value).startswith(f"study.toml:{line}: {says}")
        assert not isinstance(caught.value, MistakesError)
        # A program asks the error which key it is about, and reads no sentence.
        assert caught.value.path[-1] in (old.split()[0], "label"), caught.value.path


def test_a_parsed_study_has_no_lines() -> None:
    with pytest.raises(MistakesError, match=r"(?s)the study has 2 mistakes\na study file needs a .study. section"):
        study_from({}, Path())


def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text("[study]\nname = \n")
    with pytest.raises(StudyError, match=r"study.toml is not valid TOML: Invalid value \(at line 2, column 8\)"):
        read_study(tmp_path / "study.toml")


def test_the_command_line_lists_them(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run: Run = runner(monkeypatch, capfd)
    (tmp_path / "study.toml").write_text(WRONG)
    for command in ("plan", "fit"):
        answer = run(command, tmp_path / "study.toml")
        assert answer.code == 1 and answer.out == "" and "Traceback" not in answer.err
        assert answer.err.startswith("error: study.toml has 16 mistakes\nstudy.toml:2: name must")
        assert len(answer.err.splitlines()) == 17

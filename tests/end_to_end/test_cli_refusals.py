"""Bad input: one sentence on the error stream, exit code 1, nothing written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.cli_study import STUDY, Run, runner, write_study


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capfd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_study(tmp_path, people=40)
    return tmp_path


def refuse(run: Run, folder: Path, *arguments: object, says: str) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    answer = run(*arguments)
    assert answer.code == 1, answer.out
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert "Traceback" not in answer.err
    assert says in answer.err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def refuse_fit(run: Run, folder: Path, says: str) -> None:
    out, model = folder / "release.json", folder / "model.json"
    refuse(run, folder, "fit", folder / "study.toml", "--out", out, "--model", model, "--json", says=says)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


STUDIES = {
    "epsilon 0": ("epsilon = 40.0", "epsilon = 0", "epsilon must be a positive number, got epsilon=0"),
    "epsilon -1": ("epsilon = 40.0", "epsilon = -1", "epsilon must be a positive number, got epsilon=-1"),
    "epsilon nan": ("epsilon = 40.0", "epsilon = nan", "epsilon must be a positive number, got epsilon=nan"),
    "epsilon 5e-324": ("epsilon = 40.0", "epsilon = 5e-324", "epsilon must be at least 1e-12, got epsilon=5e-324"),
    "norm 1e-300": (
        'data = "works.csv"',
        'data = "works.csv"\nnorm = 1e-300',
        "party works: norm must lie between 1e-06 and 1e+06, for its columns are scaled to [-1, 1], got norm=1e-300",
    ),
    "norm 1e300": (
        'data = "works.csv"',
        'data = "works.csv"\nnorm = 1e300',
        "party works: norm must lie between 1e-06 and 1e+06, for its columns are scaled to [-1, 1], got norm=1e+300",
    ),
    "no epsilon": ("epsilon = 40.0", "", "give either epsilon of the study"),
    "delta 1": ("delta = 0", "delta = 1.0", "delta must lie in [0, 1), got delta=1.0"),
    "delta nan": ("delta = 0", "delta = nan", "delta must be a finite number, got delta=nan"),
    "nan bound": ("low = 0, high = 80", "low = nan, high = 80", "column hours: low must be a finite number"),
    "infinite bound": ("high = 80", "high = inf", "column hours: high must be a finite number, got high=inf"),
    "inverted bounds": ("low = 0, high = 80", "low = 80, high = 0", "column hours: low must be below high"),
    "label nowhere": ('label = "works.rich"', 'label = "works.richer"', "column works.richer is declared by no party"),
    "typo in [study]": ("epsilon =", "epsilom =", "[study] has no key 'epsilom'; did you mean 'epsilon'?"),
    "typo in [party]": ('id = "person"', 'idd = "person"', "[party.works] has no key 'idd'; did you mean 'id'?"),
    "typo in a column": ("high = 80", "hihg = 80", "column hours: a numeric column has no key 'hihg'"),
    "party without columns": (
        "savings = { kind = \"numeric\", low = 0, high = 1000 }", "", "party bank declares no column"
    ),
    "one level": ('["no", "yes"]', '["no"]', "column rich: a binary column needs 2 distinct levels"),
    "numeric label": ("works.rich", "works.hours", "the label of a logistic regression must be binary"),
    "unknown product": ('"lattice"', '"lettuce"', "product must be one of lattice, bgn, plain"),
    "unknown task": ('"logistic"', '"logic"', "task must be one of linear, logistic"),
    "collusion of all": ("collusion = 1", "collusion = 2", "collusion must lie between 0 and K-1=1"),
    "draft id": ('id = "person"', 'id = "?"', '[party.works] id still has the "?" of a draft'),
    "draft levels": ('["clerk", "smith", "baker"]', '["?"]', 'column job: levels still has the "?" of a draft'),
    "date bound": ("low = 0, high = 80", "low = 2020-01-31, high = 80", "must be a finite number, got low=2020-01-31"),
    "date epsilon": ("epsilon = 40.0", "epsilon = 2020-01-31", "a positive number, got epsilon=2020-01-31"),
    "date rows": ("epsilon = 40.0", "epsilon = 1\nrows = 2020-01-31", "a whole number, got rows=2020-01-31"),
    "date id": ('id = "person"', "id = 2020-01-31T08:30:00Z", "got id=2020-01-31T08:30:00+00:00"),
    "not TOML": ("[study]", "[study", "study.toml is not valid TOML"),
}  # fmt: skip


@pytest.mark.parametrize("name", STUDIES)
def test_bad_study(name: str, run: Run, folder: Path) -> None:
    old, new, says = STUDIES[name]
    edit(folder / "study.toml", old, new)
    refuse(run, folder, "plan", folder / "study.toml", says=says)
    refuse_fit(run, folder, says)


def _short(folder: Path) -> None:
    lines = (folder / "bank.csv").read_text().splitlines()
    (folder / "bank.csv").write_text("\n".join(lines[:-3]) + "\n")
    edit(folder / "study.toml", '"psi"', '"none"')


def _keep(count: int) -> Callable[[Path], None]:
    def keep(folder: Path) -> None:
        lines = (folder / "bank.csv").read_text().splitlines()
        (folder / "bank.csv").write_text("\n".join(lines[: 1 + count]) + "\n")

    return keep


def _row(name: str, line: str) -> Callable[[Path], None]:
    """One more row."""
    return lambda folder: (folder / name).write_text((folder / name).read_text() + line + "\n") and None


def _as(encoding: str, old: str = "", new: str = "") -> Callable[[Path], None]:
    """The file in another encoding, with other signs."""
    return lambda f: (
        (f / "works.csv").write_bytes((f / "works.csv").read_text().replace(old, new).encode(encoding)) and None
    )


def _commas(folder: Path) -> None:
    """Every number as a spreadsheet of another country writes it."""
    head, *lines = (folder / "bank.csv").read_text().splitlines()
    rows = [f'{line.split(",")[0]},"{line.split(",")[1]},5"' for line in lines]
    (folder / "bank.csv").write_text("\n".join([head, *rows]) + "\n")


def _bytes(content: bytes) -> Callable[[Path], None]:
    return lambda f: (f / "works.csv").write_bytes(content) and None


DATA: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing file": (lambda f: (f / "bank.csv").unlink(), "party bank: there is no data file"),
    "missing column": (lambda f: edit(f / "bank.csv", "savings", "saving"), "bank.csv has no column 'savings'"),
    "missing id column": (lambda f: edit(f / "bank.csv", "person", "name"), "bank.csv has no column 'person'"),
    "different n": (_short, "without alignment all parties must hold the same number of records"),
    "empty party": (_keep(0), "party bank: bank.csv holds no records"),
    "1 record": (_keep(1), "a regression needs at least 2 common records, got n=1"),
    "empty file": (lambda f: (f / "bank.csv").write_text("") and None, "bank.csv cannot be read: it is empty"),
    "Latin-1": (
        _as("latin-1", "clerk", "clérk"),
        "party works: column job: level 'cl\ufffdrk' (not in UTF-8) is not among the declared",
    ),
    "decimal commas": (_commas, 'if that is its form, write decimal = "," into [party.bank.read] (more than 1 in 20'),
    "UTF-16": (_as("utf-16"), "party works: works.csv must be CSV in UTF-8 by its name, and is UTF-16"),
    "spreadsheet": (_bytes(b"PK\x03\x04rest"), "works.csv must be CSV in UTF-8 by its name, and is a zip file or a"),
    "Parquet called CSV": (_bytes(b"PAR1rest"), "works.csv must be CSV in UTF-8 by its name, and is Parquet"),
    "semicolons": (
        _as("utf-8", ",", ";"),
        "works.csv must separate its fields by commas, and its header has a semicolon",
    ),
    "tabs": (_as("utf-8", ",", "\t"), "works.csv must separate its fields by commas, and its header has a tab instead"),
    "two columns of one name": (
        lambda f: edit(f / "works.csv", "hours,job", "hours,hours"),
        "works.csv must have columns of different names, and has two called 'hours'",
    ),
    "too many fields": (
        _row("works.csv", "q1,30,clerk,yes,9"),
        "cannot be read: a row has more fields than the header",
    ),
    "400 levels": (
        lambda f: edit(f / "study.toml", '["clerk", "smith", "baker"]', str([f"l{k}" for k in range(400)])),
        "'l10', 'l11'] and 388 more, in row 1",
    ),
}


UNFIT: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "unknown level": (
        _row("works.csv", "q1,30,tailor,yes"),
        "column job: level 'tailor' is not among the declared levels ['clerk', 'smith', 'baker'], in row 41 (strict",
        "works (for its own eyes): 1 of 41 values of job is not among its levels, the first in row 41: taken as",
    ),
    "NaN": (
        _row("bank.csv", "q1,nan"),
        "party bank: column savings misses 1 value, the first in row 37; say what becomes of them",
        "1 of 37 values of savings is missing, the first in row 37: taken as 500, the middle of its bounds",
    ),
    "empty value": (
        _row("bank.csv", "q1,"),
        "party bank: column savings misses 1 value, the first in row 37",
        "1 of 37 values of savings is missing, the first in row 37: taken as 500, the middle of its bounds",
    ),
    "text for a number": (
        _row("bank.csv", "q1,much"),
        "column savings must hold numbers such as 1234.5, row 37 does not: its form is 'aaaa' (strict refuses any",
        "1 of 37 values of savings is no number, the first in row 37: taken as 500, the middle of its bounds",
    ),
    "decimal comma": (
        _row("bank.csv", 'q1,"3,5"'),
        "savings must hold numbers such as 1234.5, row 37 does not: its form is '9,9'; if that is its form, write",
        "1 of 37 values of savings is no number",
    ),
    "duplicate ids": (
        _row("works.csv", "p7,30,clerk,yes"),
        "the id column person must hold ids that are unique, row 41 repeats one",
        "1 of 41 rows that repeat an id (person), the first in row 41: left out",
    ),
    "missing id": (
        _row("works.csv", ",30,clerk,yes"),
        "the id column person misses 1 value, the first in row 41",
        "1 of 41 rows without an id (person), the first in row 41: left out",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_value_that_does_not_fit_is_counted_and_strictly_refused(name: str, run: Run, folder: Path) -> None:
    spoil, says, warns = UNFIT[name]
    spoil(folder)
    out = folder / "release.json"
    refuse(run, folder, "fit", folder / "study.toml", "--out", out, "--strict", "--json", says=says)
    done = run("fit", folder / "study.toml", "--out", out, "--json")
    assert done.code == 0 and out.exists()
    assert [line for line in done.err.splitlines() if line.startswith("warning: ") and warns in line]


@pytest.mark.parametrize("name", DATA)
def test_bad_data(name: str, run: Run, folder: Path) -> None:
    spoil, says = DATA[name]
    spoil(folder)
    refuse_fit(run, folder, says)


def test_no_common_ids(run: Run, folder: Path) -> None:
    path = folder / "bank.csv"
    path.write_text(path.read_text().replace("\np", "\nx9000"))
    refuse_fit(run, folder, "parties works, bank must have ids in common, got none (compared as text)")


@pytest.mark.parametrize("name", ["spreadsheet", "two columns of one name", "empty file"])
def test_a_draft_of_bad_data(name: str, run: Run, folder: Path) -> None:
    spoil, says = DATA[name]
    spoil(folder)
    file = folder / ("bank.csv" if name == "empty file" else "works.csv")
    refuse(run, folder, "schema", file, says=says.removeprefix("party works: "))


def test_own_is_no_party_where_a_split_has_an_own_part(run: Run, folder: Path) -> None:
    edit(folder / "study.toml", "epsilon = 40.0\n", "")
    edit(folder / "study.toml", "[party.works]", "[party.works]\nepsilon = 20\nsplit = { own = 3 }")
    edit(folder / "study.toml", "[party.bank]", "[party.own]\nepsilon = 20")
    edit(folder / "study.toml", "[party.bank.columns]", "[party.own.columns]")
    refuse(run, folder, "plan", folder / "study.toml", says='"own" is its own block, so no party may have that name')


def test_missing_study_and_missing_data_path(run: Run, folder: Path) -> None:
    refuse(run, folder, "plan", folder / "nothing.toml", says="there is no study file")
    edit(folder / "study.toml", 'data = "bank.csv"\n', "")
    refuse_fit(run, folder, "[party.bank] needs data")


def test_addresses_are_shown_as_written(run: Run, folder: Path) -> None:
    """A path would show one slash where two were written."""
    told, study = "files must lie on this machine, got 's3://b/x'", folder / "study.toml"
    for command in (
        ("plan", "s3://b/x"),
        ("fit", study, "--out", "s3://b/x"),
        ("report", "s3://b/x"),
        ("ledger", "show", "s3://b/x"),
        ("audit", "s3://b/x"),
    ):
        refuse(run, folder, *command, says=told)
    edit(study, 'data = "works.csv"\n', 'data = "s3://b/x"\n')
    refuse_fit(run, folder, "[party.works] needs dataset = \"NAME\" for 's3://b/x', what its ledger knows the rows by")
    edit(study, 'data = "s3://b/x"\n', 'data = "works.csv"\n')
    for key in ("policy", "ledger"):
        edit(study, 'data = "works.csv"\n', f'{key} = "s3://b/x"\n')
        refuse_fit(run, folder, told)
        edit(study, f'{key} = "s3://b/x"\n', 'data = "works.csv"\n')
    edit(study, '"lattice"', '"plain"')
    assert run("fit", study, "--out", folder / "release.json", "--model", folder / "model.json").code == 0
    says = "--query: data may be files of this machine, postgresql://, duckdb:///FILE"
    for command in (("predict", folder / "model.json", "--data"), ("schema",)):
        refuse(run, folder, *command, "http://b/x", says=f"{says} and sqlite:///FILE with a query")
    refuse(run, folder, "predict", folder / "model.json", "--data", "works=http://b/x", says="got 'http://b/x'")


def test_an_empty_name_is_no_folder(run: Run, folder: Path) -> None:
    told = "a file must have a name, got an empty one"
    refuse(run, folder, "plan", "", says=told)
    refuse(run, folder, "fit", folder / "study.toml", "--out", "", says=told)


def test_place_that_cannot_be_written_is_noticed_before_data_is_read(run: Run, folder: Path) -> None:
    (folder / "works.csv").unlink()
    study = folder / "study.toml"
    refuse(run, folder, "fit", study, "--out", folder / "none" / "r.json", says="no such file or directory")
    other = folder.parent / "a-folder"
    other.mkdir(exist_ok=True)
    refuse(run, folder, "fit", study, "--out", other, says="it is a folder")


def test_full_disk_is_one_sentence(run: Run, folder: Path) -> None:
    """Standard output that cannot be written to is a failure, not a traceback."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "colonnade.cli", "schema", folder / "works.csv"],
            stdout=full, stderr=subprocess.PIPE, text=True, env=os.environ,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_altered_release_and_model(run: Run, folder: Path) -> None:
    edit(folder / "study.toml", '"lattice"', '"plain"')
    release, model = folder / "release.json", folder / "model.json"
    assert run("fit", folder / "study.toml", "--out", release, "--model", model).code == 0
    whole, scores = release.read_bytes(), folder / "scores.csv"
    for place in (0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 2, len(whole) - 1):
        spoilt = bytearray(whole)
        spoilt[place] ^= 1
        release.write_bytes(spoilt)
        refuse(run, folder, "report", release, says="the release file")
        refuse(run, folder, "solve", release, "--out", folder / "other.json", says="the release file")
    whole = model.read_bytes()
    for place in range(0, len(whole), 97):
        spoilt = bytearray(whole)
        spoilt[place] ^= 1
        model.write_bytes(spoilt)
        data = ("--data", folder / "works.csv", "--data", folder / "bank.csv", "--id", "person")
        refuse(run, folder, "predict", model, *data, "--out", scores, says="model file")
    refuse(run, folder, "predict", release, *data, says="model file")
    refuse(run, folder, "report", model, says="release file")


def test_bad_scoring_data(run: Run, folder: Path) -> None:
    edit(folder / "study.toml", '"lattice"', '"plain"')
    model, scores = folder / "model.json", folder / "scores.csv"
    assert run("fit", folder / "study.toml", "--out", folder / "release.json", "--model", model).code == 0
    works, bank = folder / "works.csv", folder / "bank.csv"
    refuse(
        run, folder, "predict", model, "--data", works, "--out", scores, says="no data file has its column 'savings'"
    )
    refuse(run, folder, "predict", model, "--data", folder / "x.csv", "--out", scores, says="there is no data file")
    refuse(run, folder, "predict", model, "--data", works, "--data", bank, says="must hold the same records row by row")
    for file, given in ((works, works), (bank, f"bank={bank}"), (model, works)):
        wrong = ("predict", model, "--data", given, "--data", bank, "--id", "person", "--out", file)
        refuse(run, folder, *wrong, says="scores must not be written over what they are computed from")
    bank.write_text(bank.read_text().replace("\np", "\nx"))
    files = ("--data", works, "--data", bank, "--id", "person")
    refuse(run, folder, "predict", model, *files, "--out", scores, says="no id in common")


def test_bad_options_are_wrong_usage(run: Run, folder: Path) -> None:
    same = folder / "r.json"
    assert run("fit", folder / "study.toml", "--out", same, "--model", same).code == 2
    assert run("fit", folder / "study.toml", "--seed", "xyz").code == 2


def test_the_study_itself_is_fine(run: Run, folder: Path) -> None:
    """Every refusal above comes from its one change."""
    assert (folder / "study.toml").read_text() == STUDY
    assert run("fit", folder / "study.toml", "--out", folder / "release.json").code == 0


def test_a_release_that_was_paid_for_is_kept(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget is spent when the release is open: an error after that must not lose it."""
    from colonnade.analysis import request

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(request, "fit", fail)
    answer = run("fit", folder / "study.toml", "--out", folder / "r.json", "--model", folder / "m.json", "--json")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.count("\n") == 1
    assert "this is a bug in colonnade" in answer.err
    assert "RuntimeError: planted" in answer.err
    assert (folder / "r.json").exists()
    assert not (folder / "m.json").exists()


def test_a_name_that_a_terminal_would_obey_is_printed(run: Run, folder: Path) -> None:
    evil = folder / "a\x1b]0;owned\x07\x1b[31m\u009b2J.toml"
    evil.write_text("x")
    for asked in (("plan", evil), ("report", evil), ("schema", evil), ("fit", evil)):
        found = run(*asked)
        assert found.code == 1 and found.err.startswith("error: ")
        assert all(c.isprintable() or c == "\n" for c in found.err), found.err
    assert "\\x1b]0;owned\\x07" in run("plan", evil).err


def test_ctrl_c_leaves_no_traceback(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from colonnade.cli import entry

    def stopped(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(entry, "_only", stopped)
    found = run("plan", folder / "study.toml")
    assert (found.code, found.err) == (1, "error: stopped\n")
    # While modules are loaded there is no command yet.
    loads = (
        'import sys\nclass Stop:\n  def find_spec(self, name, *more):\n    if name == "typer": raise KeyboardInterrupt'
    )
    code = f"{loads}\nsys.meta_path.insert(0, Stop())\nimport colonnade.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "Stopped; nothing was spent.\n")

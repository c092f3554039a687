"""One value that is not as declared: no session ends on it, every way counts it alike, and no partner hears of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import polars as pl
import pytest

import colonnade as cn
from colonnade import runs
from colonnade.consent.ledger import Ledger
from colonnade.data.ids import IdColumns
from colonnade.data.sources import FileSource, Source
from colonnade.data.table import Table, open_table, read_table, table_from
from colonnade.estimators import VerticalLinearRegression
from colonnade.foundation.columns import Column, column_from, column_to
from colonnade.foundation.errors import DataError, PolicyError, SchemaError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.workers import HERE
from colonnade.protocol.fit import FitServer
from colonnade.protocol.messages import End, Envelope, Step
from colonnade.protocol.tasks import Unguarded
from colonnade.sites.recipes import FitRecipe
from colonnade.sites.site import PARTY, read_site
from colonnade.studio.started import Run as StudioRun
from colonnade.study import read_study
from colonnade.transport.in_process import InProcess
from tests.helpers.cli_study import Run, runner

N = 100
STUDY = """[study]
name = "stay"
task = "linear"
label = "insurer.cost"
epsilon = 5.0
[party.insurer]
data = "insurer.csv"
id = "person"
[party.insurer.columns]
cost = { kind = "numeric", low = 0, high = 1000 }
[party.clinic]
data = "clinic.csv"
id = "person"
[party.clinic.columns]
ward = { kind = "categorical", levels = ["a", "b"] }
stay = { kind = "numeric", low = 0, high = 60 }
"""
GUARDED = 'policy = "policy.toml"\nledger = "ledger.sqlite"\n'
POLICY = """[policy]
party = "clinic"
partners = ["insurer"]
require_approval = {approval}
[session]
epsilon = 5.0
record_epsilon = 5.0
[total]
epsilon = 500.0
"""
# Records of the clinic that differ from their like, and a part of the sentence that it reads: row, id, ward, stay.
KINDS: dict[str, tuple[int, tuple[str, str, str], str]] = {
    "fits": (7, ("7", "b", "12"), ""),
    "undeclared level": (
        17,
        ("17", "c", "12"),
        "of ward is not among its levels, the first in row 18: taken as 'a'",
    ),
    "text for a number": (27, ("27", "b", "12?"), "of stay is no number, the first in row 28: taken as 30, the middle"),
    "missing number": (37, ("37", "b", ""), "of stay is missing, the first in row 38: taken as 30, the middle of its"),
    "missing level": (47, ("47", "", "12"), "of ward is missing, the first in row 48: taken as 'a', its reference"),
    "repeated id": (57, ("3", "b", "12"), "rows that repeat an id (person), the first in row 58: left out"),
    "missing id": (67, ("", "b", "12"), "rows without an id (person), the first in row 68: left out"),
}
SAYS = [says for _, _, says in KINDS.values() if says]
COUNTS = {"ward": 2, "stay": 2, "person": 2}
LEFT = N - 2


def write(folder: Path, *kinds: str, more: str = "", approval: str = "false") -> Path:
    rows = [(str(i), "ab"[i % 2], str(10 + i % 30)) for i in range(N)]
    for kind in kinds:
        rows[KINDS[kind][0]] = KINDS[kind][1]
    (folder / "clinic.csv").write_text("person,ward,stay\n" + "".join(f"{','.join(row)}\n" for row in rows))
    (folder / "insurer.csv").write_text("person,cost\n" + "".join(f"{i},{5 * i}\n" for i in range(N)))
    (folder / "policy.toml").write_text(POLICY.format(approval=approval))
    text = STUDY.replace("[party.clinic.columns]", f"{more}[party.clinic.columns]")
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, cn.Model]:
    folder = tmp_path_factory.mktemp("model")
    found = cn.Study.read(write(folder, "fits")).fit(seed=1, progress=False).solve()
    found.save(folder / "model.json")
    return folder / "model.json", found


def told(notes: list[str]) -> bool:
    """Whether these are the sentences of all kinds, each once."""
    return len(notes) == len(SAYS) and all(sum(says in note for note in notes) == 1 for says in SAYS)


def test_every_command_has_the_same_outcome_and_the_same_count(
    tmp_path: Path, model: tuple[Path, cn.Model], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path, clinic, run = write(tmp_path, *KINDS), tmp_path / "clinic.csv", runner(monkeypatch, capfd)
    both = ["--rows", f"clinic={clinic}", "--rows", f"insurer={tmp_path / 'insurer.csv'}"]
    for command in (
        ["fit", path, "--out", tmp_path / "r.json"],
        ["evaluate", path, model[0], "--out", tmp_path / "e.json"],
        ["predict", model[0], "--study", path, "--to", "insurer", "--out", tmp_path / "s.csv"],
        ["predict", model[0], "--data", f"clinic={clinic}", "--id", "person", "--out", tmp_path / "t.csv"],
        ["rehearse", path, *both, "--releases", 4],
    ):
        strict = run(*command, "--strict")
        assert strict.code == 1 and "strict refuses any value that does not fit" in strict.err, strict.err
        done = run(*command)
        assert done.code == 0, (command[0], done.err)
        assert told([x for x in done.err.splitlines() if x.startswith("warning: clinic (for its own eyes): ")]), (
            done.err
        )
        assert "insurer (for its own eyes)" not in done.err
    assert (tmp_path / "t.csv").read_text().count("\n") == (tmp_path / "s.csv").read_text().count("\n") == LEFT + 1


def test_every_call_from_python_has_the_same_outcome_and_the_same_count(
    tmp_path: Path, model: tuple[Path, cn.Model]
) -> None:
    path = write(tmp_path, *KINDS)
    study, frame = cn.Study.read(path), pl.read_csv(tmp_path / "clinic.csv", infer_schema=False)

    def warned(act: Callable[[], Any]) -> Any:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = act()
        assert told([str(note.message) for note in seen if str(note.message).startswith("party clinic: ")])
        return found

    assert warned(lambda: study.fit(seed=1, progress=False)).n == LEFT
    assert study.unfit == {"insurer": {}, "clinic": COUNTS}
    warned(lambda: study.evaluate(model[1], progress=False))
    assert study.unfit == {"insurer": {}, "clinic": COUNTS}
    assert len(warned(lambda: study.predict(model[1], "insurer", progress=False))) == LEFT
    assert len(warned(lambda: model[1].predict({"clinic": frame}, id={"clinic": "person"}))) == LEFT
    warned(lambda: study.rehearse({"clinic": frame, "insurer": tmp_path / "insurer.csv"}, releases=4))
    # An estimator has no ids.
    schema = dict(read_study(path).agreement.schema.parties["clinic"])
    asked = VerticalLinearRegression(epsilon=5.0, schema=schema, label=cn.Numeric(0, 1000), random_state=0)
    X = pd.DataFrame({name: frame[name].to_list() for name in ("ward", "stay")})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert asked.fit(X, [5.0 * i for i in range(N)]).unfit_ == {"data": {"ward": 2, "stay": 2}}
        assert len(asked.predict(X)) == N


def test_studio_and_sites_have_the_same_outcome_and_the_same_count(tmp_path: Path) -> None:
    path = write(tmp_path, *KINDS)
    page = StudioRun(read_study(path), tmp_path / "studio.json", unbooked=True)
    page.work()
    assert not page.error and told([note for note in page.notes if note.startswith("clinic (for its own eyes): ")])
    tasks, recipes = {}, {}
    for party in ("insurer", "clinic"):
        place = tmp_path / party
        (place / "releases").mkdir(parents=True)
        (place / "study.toml").write_text(path.read_text())
        (place / "site.toml").write_text(f'[site]\nrole = "party"\nparty = "{party}"\ndata = "../{party}.csv"\n')
        recipes[party] = FitRecipe(read_site(place, PARTY))
        tasks[party] = recipes[party].party_task(Unguarded(), HERE)
    agreed = read_study(path)
    server = FitServer(agreed.agreement, agreed.alignment)
    runs.carry_in_process(server, tasks, Randomness(b"seed"))
    assert server.release is not None and server.release.n == LEFT
    assert told([note for note in recipes["clinic"].notes if "records were matched" not in note])
    assert all(says in recipes["clinic"].sentence() for says in SAYS)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the insurer is told at the end of each session."""
    found: list[str] = []

    class CuriousServer(InProcess):
        def __init__(self, server: Any, parties: Any, wire: Any = None) -> None:
            super().__init__(server, parties, self.listen)

        def listen(self, envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
            if not up and envelope.recipient == "insurer" and envelope.step is Step.END:
                end = msgspec.msgpack.decode(envelope.body, type=End)
                found.append("a release" if end.code is None else f"{end.code.value} of {end.party}")
            return (envelope,)

    monkeypatch.setattr(runs, "InProcess", CuriousServer)
    yield found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_a_partner_hears_the_same_whatever_one_record_holds(kind: str, tmp_path: Path, heard: list[str]) -> None:
    study = cn.Study.read(write(tmp_path, kind, more=GUARDED))
    study.fit(progress=False)
    assert heard == ["a release"]
    assert len(Ledger(tmp_path / "ledger.sqlite").entries()) == 2


@pytest.mark.filterwarnings("ignore")
def test_a_column_that_agrees_to_refuse_says_so_and_tells_partners(
    tmp_path: Path, heard: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "undeclared level", more=GUARDED)
    path.write_text(path.read_text().replace('"b"] }', '"b"], undeclared = "refuse" }'))
    study = cn.Study.read(path)
    says = 'column clinic.ward says undeclared = "refuse": one record that is not as declared ends the session'
    assert any(says in note for note in study.plan(N).warnings)
    run: Run = runner(monkeypatch, capfd)
    planned = run("plan", path, "--rows", N, "--html", tmp_path / "plan.html")
    assert says in planned.err
    assert "one record that is not as declared ends the session" in (tmp_path / "plan.html").read_text()
    with pytest.raises(DataError, match=r'level .c. is not among .* \(its declaration says undeclared = "refuse"\)'):
        study.fit(progress=False)
    assert heard == ["data of clinic"]
    assert not Ledger(tmp_path / "ledger.sqlite").entries()


def test_the_key_is_agreed_on_and_changes_nothing_where_it_is_absent() -> None:
    for declared in (
        {"kind": "numeric", "low": 0, "high": 1},
        {"kind": "categorical", "levels": ["a", "b"]},
        {"kind": "binary", "levels": ["a", "b"]},
        {"kind": "boolean"},
        {"kind": "date", "earliest": "2020-01-01", "latest": "2021-01-01"},
    ):
        assert column_to(column_from("c", declared)) == declared
        refusing = {**declared, "undeclared": "refuse"}
        assert column_to(column_from("c", refusing)) == refusing
        for wrong in ("drop", "", 1, True, ["refuse"]):
            with pytest.raises(SchemaError, match='column c: undeclared must be "refuse" or left out, got undeclared='):
                column_from("c", {**declared, "undeclared": wrong})
    with pytest.raises(SchemaError, match="other takes undeclared levels"):
        column_from("c", {"kind": "categorical", "levels": ["a"], "other": True, "undeclared": "refuse"})
    with pytest.raises(SchemaError, match='undeclared must be "refuse"'):
        cn.Numeric(0, 1, undeclared="drop")


# Values of a column of each kind, what each is taken as (in [-1, 1], or the level), how many are counted, and how many
# of these the declaration does not place.
TAKEN: dict[str, tuple[Column, list[Any], list[Any], int, int]] = {
    "number": (cn.Numeric(0, 10), ["0", "x", None, " ", "nan", "10"], [-1, 0, 0, 0, 0, 1], 4, 4),
    "filled number": (cn.Numeric(0, 10, fill=10.0), ["0", "x", None], [-1, 1, 1], 2, 1),
    "floats": (cn.Numeric(0, 10), [0.0, float("nan"), None, float("inf")], [-1, 0, 0, 1], 2, 2),
    "integers": (cn.Numeric(0, 10), [0, None, 10], [-1, 0, 1], 1, 1),
    "bins": (cn.Numeric(0, 10, bins=(2, 8)), ["1", "x", None], [0, 1, 1], 2, 2),
    "levels": (cn.Categorical(("a", "b")), ["b", "c", None], [1, 0, 0], 2, 2),
    "reference": (cn.Categorical(("a", "b"), drop="b"), ["a", "c", None], [0, 1, 1], 2, 2),
    "other": (cn.Categorical(("a", "b"), other=True), ["b", "c", None], [1, 2, 2], 2, 1),
    "other and fill": (cn.Categorical(("a", "b"), other=True, fill="b"), ["a", "c", None], [0, 2, 1], 2, 0),
    "fill": (cn.Categorical(("a", "b"), fill="b"), ["a", "c", None], [0, 1, 1], 2, 1),
    "binary": (cn.Binary(("n", "y")), ["y", "maybe", ""], [1, 0, 0], 2, 2),
    "boolean": (cn.Boolean(), ["yes", "maybe", None], [1, 0, 0], 2, 2),
    "date": (cn.Date("2020-01-01", "2020-01-11"), ["2020-01-11", "5.1.2020", None, "2020-02-30"], [1, 0, 0, 0], 3, 3),
    "all bad": (cn.Numeric(-1, 1), ["1,5", "2,5"], [0, 0], 2, 2),
    "one row": (cn.Binary(("n", "y")), [None], [0], 1, 1),
    "bytes": (cn.Categorical(("a", "b")), [b"b", b"\xff"], [1, 0], 1, 1),
    "lists": (cn.Numeric(0, 2), [[1], None], [0, 0], 2, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_what_stands_for_a_value_of_each_kind(name: str, tmp_path: Path) -> None:
    column, values, taken, counted, unplaced = TAKEN[name]
    frame = pl.DataFrame({"c": values})
    frame.write_parquet(tmp_path / "p.parquet")
    columns, tables = {"c": column}, [table_from("p", frame, {"c": column})]
    tables += [read_table("p", tmp_path / "p.parquet", columns), open_table("p", tmp_path / "p.parquet", columns)]
    if frame["c"].dtype == pl.String:
        frame.write_csv(tmp_path / "p.csv")
        tables.append(read_table("p", tmp_path / "p.csv", columns))
    for table in tables:
        assert _read(table) == pytest.approx(taken), table
        assert table.unfit_counts == {"c": counted}
        assert sum(own.unplaced for own in table.unfit.values()) == unplaced
        assert len(table.surprises()) <= len(table.notes())
        if unplaced:
            with pytest.raises(DataError):
                table.require_fit()
        else:
            table.require_fit(strict=True)


def _read(table: Table) -> list[float]:
    column, values = table.columns["c"], table.values["c"]
    assert not hasattr(values, "rows")
    found = column.codes(values) if column.has_levels else column.signed(values)  # type: ignore[arg-type]
    return [float(value) for value in found]


def test_a_missing_id_leaves_the_other_ids_as_they_are(tmp_path: Path) -> None:
    """pandas turns whole numbers beside a missing one into floats: 7 must not become 7.0, which nobody has."""
    frame = pl.DataFrame({"person": [1.0, float("nan"), 7.0, None, 1.0], "x": [0.1, 0.2, 0.3, 0.4, 0.5]})
    frame.write_parquet(tmp_path / "p.parquet")
    table = read_table("p", tmp_path / "p.parquet", {"x": cn.Numeric(0, 1)}, IdColumns(("person",)))
    assert list(table.ids or ()) == ["1", "7"] and table.rows == 2
    assert table.left_out.missing == 2 and table.left_out.repeated == 1
    assert list(table.values["x"]) == [0.1, 0.3]  # type: ignore[arg-type]
    # Rows that are taken in their order all stay: leaving one out would shift the others.
    kept = Source(FileSource(tmp_path / "p.parquet"), "person").read("p", {"x": cn.Numeric(0, 1)}, matched=False)
    assert kept.rows == 5 and not kept.left_out.count


@pytest.mark.filterwarnings("ignore")
def test_the_owner_sees_the_counts_before_it_agrees(tmp_path: Path) -> None:
    path = write(tmp_path, "undeclared level", more=GUARDED, approval="true")
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(PolicyError, match="1 of 100 values of ward is not among its levels"):
        cn.Study.read(path).fit(progress=False, ask=ask)
    assert len(asked) == 1 and "taken as 'a', its reference level" in asked[0]
    assert not Ledger(tmp_path / "ledger.sqlite").entries()
    place = tmp_path / "clinic"
    place.mkdir()
    (place / "study.toml").write_text(path.read_text())
    more = 'data = "../clinic.csv"\npolicy = "../policy.toml"\nledger = "ledger.sqlite"\n'
    (place / "site.toml").write_text(f'[site]\nrole = "party"\nparty = "clinic"\n{more}')
    (note,) = read_site(place, PARTY).get_ready([])
    assert "1 of 100 values of ward is not among its levels, the first in row 18" in note

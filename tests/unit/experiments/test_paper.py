"""The runner of the evidence: cells, seeds, the store, the printed figures, and our fit through the real protocol."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from colonnade.crypto.lattice import backend as planned
from colonnade.foundation.errors import DataError, StudyError
from docs.sections import laid_out, section
from experiments.data import Dataset
from experiments.data.dataset import binary, categorical, numeric
from experiments.paper import __main__ as command
from experiments.paper import catalogue, comparison, errata, floors, grid, overhead, printed, runner, store, tables
from experiments.paper.document import FIELDS, Document, Row, markdown
from experiments.paper.methods import (
    APPROXIMATE,
    FM_REPAIRED_PROTOCOL,
    METHODS,
    OURS,
    OURS_LATTICE,
    PURE,
    Cell,
    run,
)
from experiments.paper.overhead import Measured, Size, exponent, fitted, predicted
from experiments.paper.protocol import Encoded, Replicate

SEED = b"a test"


def small(task="logistic", n=4000):
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-1, 1, (2, n))
    c = rng.integers(0, 3, n)
    signal = 2 * a - b + (c == 1)
    columns = {"a": numeric(-1, 1), "b": numeric(-1, 1), "c": categorical(["x", "y", "z"])}
    frame = {"a": a, "b": b, "c": np.array(["x", "y", "z"])[c]}
    if task == "logistic":
        frame["t"] = np.where(rng.random(n) < 1 / (1 + np.exp(-3 * signal)), "yes", "no")
        return Dataset("small", pl.DataFrame(frame), columns | {"t": binary("no", "yes")}, "t", task)
    frame["t"] = np.clip(signal / 5 + 0.05 * rng.standard_normal(n), -1, 1)
    return Dataset("small", pl.DataFrame(frame), columns | {"t": numeric(-1, 1)}, "t", task)


@pytest.fixture(scope="module")
def classes():
    return Replicate(Encoded(small()), 0)


@pytest.fixture(scope="module")
def numbers():
    return Replicate(Encoded(small("linear")), 0)


# Our fit


@pytest.mark.parametrize("parties", [1, 2, 3])
def test_ours_learns_for_any_number_of_parties(classes, parties):
    score = run(Cell("small", OURS, PURE, 100.0, parties), classes, SEED)["score"]
    reference = run(Cell("small", "non-private"), classes, SEED)["score"]
    assert reference - 0.02 < score <= 1
    assert reference > run(Cell("small", "majority"), classes, SEED)["score"] + 0.1


def test_the_lattice_changes_nothing_that_matters(numbers):
    cell = Cell("small", OURS, APPROXIMATE, 10.0, 2, 1)
    plain = run(cell, numbers, SEED)["score"]
    lattice = run(replace(cell, method=OURS_LATTICE), numbers, SEED)["score"]
    assert lattice == pytest.approx(plain, rel=0.2)
    assert max(plain, lattice) < 0.5 * run(Cell("small", "w = 0"), numbers, SEED)["score"]


def test_the_same_seed_gives_the_same_score_and_another_does_not(classes):
    cell = Cell("small", OURS, PURE, 0.5, 2, 1)
    first = [run(cell, classes, SEED)["score"] for _ in range(2)]
    others = {run(cell, classes, bytes([k]))["score"] for k in range(3)}
    assert first[0] == first[1]
    assert len(others) > 1


def test_the_parties_split_the_columns_and_the_first_has_the_label(classes):
    held = {name: list(table.columns) for name, table in classes.tables(3).items()}
    assert held == {"P1": ["a", "t"], "P2": ["b"], "P3": ["c"]}
    assert classes.encoded.columns(3) == [[0, 4], [1], [2, 3]]


def test_the_paper_calibration_through_the_protocol_is_the_centralised_mechanism(numbers):
    """The same estimator, written twice: with no noise to speak of both must give the same error."""
    central = run(Cell("small", "FM repaired", PURE, 1e7), numbers, SEED)["score"]
    ours = run(Cell("small", FM_REPAIRED_PROTOCOL, PURE, 1e7, 2), numbers, SEED)["score"]
    assert ours == pytest.approx(central, rel=1e-3)


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("diffprivlib", "DPFW-4", "DPFW-8", "majority")])
def test_every_method_gives_a_finite_score_on_numbers(numbers, method):
    if method == "DPSGD":
        pytest.skip("DPSGD is for classes")
    cell = Cell("small", method, PURE, 10.0, 2 if method.startswith(("ours", "FM", "DPFW-2")) else 1)
    assert np.isfinite(run(cell, numbers, SEED)["score"])


def test_an_unknown_method_or_data_set_is_refused():
    with pytest.raises(StudyError, match="method must be one of"):
        run(Cell("small", "magic"), None, SEED)
    with pytest.raises(StudyError, match="data must be one of"):
        catalogue.load("adult-42")


# Grid


def test_the_grid_of_ours_covers_both_privacies_all_parties_and_both_collusions():
    cells = list(grid.ours("adult-41", grid.FULL))
    places = {(c.privacy, c.epsilon, c.parties, c.collusion) for c in cells}
    assert len(places) == len(cells) == 2 * 3 * (4 + 3)
    assert (PURE, 0.1, 8, 1) in places
    assert (APPROXIMATE, 10.0, 1, 0) in places
    assert not any(parties == 1 and collusion == 1 for _, _, parties, collusion in places)


def test_asking_for_collusion_alone_still_has_one_party():
    cells = list(grid.ours("adult-41", grid.Extent((1.0,), (1, 2), (1,))))
    assert {(c.parties, c.collusion) for c in cells} == {(1, 0), (2, 1)}


@pytest.mark.parametrize("key", ["adult-41", "cps-wages", "synthetic-0.5"])
def test_a_table_has_the_rows_that_the_design_names(key):
    methods = {cell.method for cell in grid.rows_of(key, grid.FULL)}
    named = {"non-private", "FM printed", "FM repaired", "diffprivlib", OURS, OURS_LATTICE}
    named |= {"majority", "DPSGD"} if key == "adult-41" else {"w = 0", "DPFW-C", "DPFW-2", "DPFW-4", "DPFW-8", "AdaSSP"}
    assert named <= methods <= set(METHODS)


# Store


def test_fits_are_filed_by_cell_replicate_seed_and_code(tmp_path, monkeypatch):
    cell = Cell("adult-41", OURS, PURE, 1.0, 2, 1)
    names = {store.name_of(cell, 0), store.name_of(cell, 1), store.name_of(cell, 0, seed=1)}
    names.add(store.name_of(replace(cell, parties=4), 0))
    monkeypatch.setattr(store, "code_digest", lambda method: "another")
    names.add(store.name_of(cell, 0))
    assert len(names) == 5
    kept = store.Store(tmp_path / "deep" / "fits.jsonl")
    kept.put(store.name_of(cell, 0), {"score": 0.5})
    assert store.Store(tmp_path / "deep" / "fits.jsonl").get(store.name_of(cell, 0)) == {"score": 0.5}


def test_a_line_cut_short_is_run_again(tmp_path):
    path = tmp_path / "fits.jsonl"
    kept = store.Store(path)
    kept.put("first", {"score": 1.0})
    kept.put("second", {"score": 2.0})
    path.write_text(path.read_text()[:-20])
    again = store.Store(path)
    assert again.get("first") == {"score": 1.0}
    assert again.get("second") is None


def test_fits_of_a_shipped_file_are_taken_over_while_their_code_stands(tmp_path, monkeypatch):
    settings = runner.Settings(runs=2, path=tmp_path / "fits")
    rows = [
        Row("run", "adult-41", method, "none", None, 1, 0, "accuracy", 0.5, 0.1, 2, "", (0.4, 0.6))
        for method in ("majority", OURS)
    ]
    head = {"title": "t", "seed": str(store.SEED), "code": f"ours stale, baselines {store.code_digest('majority')}"}
    Document(head, tuple(rows)).write(tmp_path / "t.csv")
    assert tables.recall(tmp_path / "t.csv", settings) == 2
    assert tables.recall(tmp_path / "t.csv", settings) == tables.recall(tmp_path / "none.csv", settings) == 0
    kept = store.Store(settings.path)
    assert [kept.get(store.name_of(Cell("adult-41", "majority"), i))["score"] for i in (0, 1)] == [0.4, 0.6]
    assert kept.get(store.name_of(Cell("adult-41", OURS), 0)) is None
    assert tables.recall(tmp_path / "t.csv", replace(settings, seed=1, path=tmp_path / "other")) == 0


def test_the_code_digest_sees_statements_and_no_comments(tmp_path, monkeypatch):
    file = tmp_path / "src" / "colonnade" / "data" / "table.py"
    file.parent.mkdir(parents=True)
    monkeypatch.setattr(store, "ROOT", tmp_path)
    monkeypatch.setattr(store, "decided_by", lambda method: ("src/colonnade/data/table.py",))
    digests = []
    for text in ("x = 1\n", '"""Doc."""\n# why\nx = 1\n', "x = 2\n"):
        file.write_text(text)
        store.code_digest.cache_clear()
        digests.append(store.code_digest("ours"))
    store.code_digest.cache_clear()
    assert digests[0] == digests[1] != digests[2]


def test_a_seed_belongs_to_one_fit_but_the_lattice_shares_the_plain_ones():
    cell = Cell("adult-41", OURS, PURE, 1.0, 2, 1)
    assert store.seed_of(cell, 0) != store.seed_of(cell, 1)
    assert store.seed_of(cell, 0) != store.seed_of(replace(cell, epsilon=10.0), 0)
    assert store.seed_of(cell, 0) == store.seed_of(replace(cell, method=OURS_LATTICE), 0)


def test_a_run_resumes_from_the_store(tmp_path, monkeypatch):
    cells = [Cell("adult-41", "majority"), Cell("adult-41", "non-private")]
    settings = runner.Settings(runs=2, path=tmp_path / "fits.jsonl", quiet=True)
    done = []
    monkeypatch.setattr(runner, "_run", lambda jobs, settings: [done.append(_finish(job)) for job in jobs])
    first = runner.finish(cells, settings)
    assert [len(job.cells) for job in done] == [2, 2]
    again = runner.finish([*cells, Cell("adult-41", "FM repaired", PURE, 1.0)], settings)
    assert [len(job.cells) for job in done[2:]] == [1, 1]
    assert [f.scores for f in again[:2]] == [f.scores for f in first]
    assert first[0].std == pytest.approx(np.std(first[0].scores))


def _finish(job):
    kept = store.Store(job.path)
    for name, cell in job.cells:
        kept.put(name, {"score": 0.1 * len(cell.method) + job.number})
    return job


def test_a_data_set_that_is_not_there_has_a_reason(tmp_path, monkeypatch):
    monkeypatch.delenv("COLONNADE_DUTCH", raising=False)
    [done] = runner.finish([Cell("dutch-36", "majority")], runner.Settings(path=tmp_path / "fits.jsonl"))
    assert done.results == ()
    assert "COLONNADE_DUTCH" in done.reason


# Printed cells


def test_the_printed_cells_have_the_paper_s_counts_and_its_impossible_one():
    counts = {table: sum(p.table == table for p in printed.PRINTED) for table in (1, 2, 3)}
    assert counts == {1: 2 * (1 + 3 * 3), 2: 3 * 6, 3: 2 * (1 + 2 * 3)}
    impossible = [p for p in printed.PRINTED if p.table < 3 and printed.impossible(p)]
    assert [(p.data, p.method, p.epsilon) for p in impossible] == [("Brazil", "FM", 0.1)]


def test_no_ten_non_negative_numbers_exceed_the_bound_on_their_spread():
    rng = np.random.default_rng(0)
    ratio = 0.0
    for _ in range(2000):
        x = rng.pareto(0.1, 10) * (rng.random(10) < 0.3)
        if x.sum() > 0:
            x /= x.sum()
            ratio = max(ratio, x.std(ddof=1) / x.mean())
    assert 0.99 * 10**0.5 < ratio <= 10**0.5 + 1e-12


# Files


def document():
    cell = Cell("adult-41", "FM printed", PURE, 1.0)
    done = runner.Finished(cell, ({"score": 0.5, "bounded": 0.0}, {"score": 0.75, "bounded": 1.0}))
    absent = runner.Finished(replace(cell, method="diffprivlib"), (), "it is not installed")
    rows = [Row.of(done, "accuracy"), Row.of(absent, "accuracy")]
    rows += [Row.of_printed(p, "accuracy") for p in printed.PRINTED if p.data == "adult-41"]
    return Document({"title": "A table", "seed": "7"}, tuple(rows))


def test_a_document_is_read_back_from_its_csv():
    written = document()
    read = Document.of_csv(written.csv())
    assert read == written
    assert read.rows[0].mean == pytest.approx(0.625)
    with pytest.raises(DataError, match="must have the columns"):
        Document.of_csv("# title: x\na,b\n1,2\n")


def test_the_markdown_shows_ours_beside_the_printed_cell_and_every_note():
    text = markdown(document(), "a.csv")
    assert "| FM printed | pure | 1 | 0 | 0.6250 ± 0.1250 | 0.7315 ± 0.0379 |" in text
    assert "not run" in text
    assert "it is not installed" in text
    assert "a minimum in 1 of 2 runs" in text


def test_the_command_prints_the_rows_that_issue_4_asks_for(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(runner, "_run", lambda jobs, settings: [_finish(job) for job in jobs])
    arguments = ["utility", "--json", "--data", "adult-41", "--runs", "2", "--parties", "1,2", "--epsilon", "1"]
    command.main([*arguments, "--store", str(tmp_path / "fits.jsonl")])
    rows = json.loads(capsys.readouterr().out)
    assert {tuple(row) for row in rows} == {
        ("data", "method", "privacy", "epsilon", "parties", "collusion", "metric", "mean", "std", "runs")
    }
    assert {(r["method"], r["privacy"], r["parties"], r["collusion"]) for r in rows if r["method"] == OURS} == {
        (OURS, privacy, k, c) for privacy in (PURE, APPROXIMATE) for k, c in ((1, 0), (2, 0), (2, 1))
    }
    assert all(row["runs"] == 2 for row in rows)


def test_the_comparison_measures_in_printed_deviations():
    rows = {(c.printed.method, c.ours.method): c for c in comparison.compared([document()])}
    cell = rows["FM", "FM printed"]
    assert cell.distance == pytest.approx((0.7315 - 0.625) / 0.0379)
    assert cell.verdict == "apart"
    near = replace(cell, ours=replace(cell.ours, mean=0.70))
    assert near.verdict == "within two deviations"
    assert replace(cell, ours=replace(cell.ours, data="dutch-36")).verdict == "other data"
    assert replace(cell, ours=replace(cell.ours, mean=None)).verdict == "not run"


def test_a_printed_spread_of_three_times_the_mean_is_no_target():
    told = Row.of_printed(printed.PRINTED[0], "MSE")
    ours = replace(told, source="run", mean=told.mean)
    assert comparison.Compared(told, ours).verdict == "printed spread is not one of ten runs"


def test_gaps_are_counted_in_standard_errors():
    first = Row.of(
        runner.Finished(Cell("adult-41", OURS, PURE, 1.0), tuple({"score": s} for s in (0.0, 1.0))), "accuracy"
    )
    second = replace(first, mean=1.5)
    assert comparison.gaps([first, first]) == (0.0, 0.0)
    assert comparison.gaps([first, second]) == pytest.approx((1.0, 1.0 / np.sqrt(0.5)))
    lines = comparison.markdown([Document({"title": "T"}, (first, replace(second, parties=2)))]).splitlines()
    assert lines[-1] == "| K | adult-41 | pure | 1 | 2 | 1.0000 | 1.4 |"


def test_a_floor_is_met_or_stands_in_brackets():
    place = ("adult-hours", OURS, PURE, 1.0)
    rows = [Row("run", *place, k, 0, "MSE", mean, 0.0, 10) for k, mean in ((1, 0.04), (2, 0.06))]
    rows.append(Row("run", "adult-hours", "mean", "none", None, 1, 0, "MSE", 0.06, 0.0, 10))
    told = floors.markdown(Document({"title": "", "command": "x"}, tuple(rows))).splitlines()
    assert told[-1] == "| adult-hours | pure | 1 | 0.85 of mean | 0 | 0.6667 | (1.0000) | 0.8333 |  |"
    assert "| adult-hours | pure | 1 | 0.85 of mean | 0 | 0.8333 |  |" in told
    accuracy = [Row("run", "adult-41", OURS, PURE, 1.0, 1, 0, "accuracy", m, 0.0, 10) for m in (0.84, 0.82)]
    for row, cell in zip(accuracy, ("0.8400", "(0.8200)"), strict=True):
        assert (
            floors.markdown(Document({"command": "x"}, (row,))).splitlines()[-1].endswith(f"| 0 | {cell} | {cell} |  |")
        )


def test_the_errata_command_finds_what_the_page_says(monkeypatch):
    monkeypatch.delenv("COLONNADE_DUTCH", raising=False)
    lines = list(errata.report())
    assert any(line.startswith("d:") and "Brazil, FM, epsilon 0.1" in line for line in lines)
    assert any(line.startswith("e:") and "1.283e+06" in line for line in lines)
    assert any(line.startswith("j: adult-41") and "FM 0.1: 0.6412, FM 1: 0.7315" in line for line in lines)
    assert any("COLONNADE_DUTCH" in line for line in lines)


# The shipped files


SHIPPED = [n for n in tables.TABLES if tables.path_of(n).is_file()]


@pytest.mark.parametrize("number", SHIPPED)
def test_a_shipped_table_is_what_the_code_would_write(number):
    read = Document.of_csv(tables.path_of(number).read_text(encoding="utf-8"))
    spec = tables.TABLES[number]
    wanted = tables.cells(spec, grid.FULL)
    ran = [row for row in read.rows if row.source == "run"]
    place = ("data", "method", "privacy", "epsilon", "parties", "collusion")
    assert [tuple(getattr(r, p) for p in place) for r in ran] == [tuple(getattr(c, p) for p in place) for c in wanted]
    assert read.header["title"] == spec.title
    assert read.header["seed"] == str(store.SEED)
    assert set(read.header) - {"updated"} == set(tables.header("", "", (), grid.FULL, runner.Settings()))
    assert {row.runs for row in ran} <= {0, 10}
    assert all(row.note for row in ran if not row.runs)
    for row in ran:
        if row.runs:
            assert row.mean == pytest.approx(np.mean(row.scores), rel=1e-6)
            assert row.std == pytest.approx(np.std(row.scores), rel=1e-4, abs=1e-7)
    told = [(r.data, r.method, r.epsilon, r.mean, r.std) for r in read.rows if r.source == "printed"]
    assert told == [(p.data, p.method, p.epsilon, p.mean, p.std) for p in printed.PRINTED if p.table == number]
    name = tables.path_of(number)
    assert section(name.stem) == laid_out(name.stem, markdown(read, name.name), beside=name.name)[0]


@pytest.mark.skipif(3 not in SHIPPED, reason="docs/results/table3.csv has not been written yet")
@pytest.mark.parametrize(
    "cell",
    [Cell("adult-41", "FM repaired", PURE, 1.0), Cell("adult-41", OURS, PURE, 1.0, 2, 1)],
    ids=lambda c: c.method,
)
def test_a_cell_of_the_shipped_table_runs_again_to_the_same_score(cell):
    read = Document.of_csv(tables.path_of(3).read_text(encoding="utf-8"))
    [row] = [r for r in read.rows if all(getattr(r, k) == v for k, v in cell.to().items())]
    score = run(cell, catalogue.replicate(cell.data, 0), store.seed_of(cell, 0))["score"]
    same_code = store.code_digest(cell.method) in read.header["code"]
    # With other code the noise may fall elsewhere; a cell that left its own spread has to be run again.
    slack = 1e-3 if same_code else max(0.01, 4 * (row.std or 0.0))
    assert score == pytest.approx(row.scores[0], abs=slack)


def test_results_have_the_columns_of_a_row_and_more():
    assert set(command.REPORTED) < set(FIELDS)


# Overhead


def test_a_growth_exponent_is_found_where_fixed_costs_fade():
    sizes = [1, 10, 100, 1000, 10_000]
    assert exponent(sizes, [50 + 2 * s**1.5 for s in sizes]) == pytest.approx(1.5, abs=0.05)


def test_the_cost_model_finds_the_coefficients_it_was_made_from():
    def cost(size):
        sealed = size.d - size.widths[-1]
        return 0.01 + 1e-7 * size.n * sealed + 2e-9 * size.n * size.entries

    sizes = [Size("lattice", n, d, k) for n in (1000, 10_000, 100_000) for d, k in ((16, 2), (64, 2), (64, 4), (64, 8))]
    model = fitted(Measured(s, cost(s), 1.0, 6 * int(s.bytes_terms()[0])) for s in sizes)
    assert model.seconds["by_sealed_word"] == pytest.approx(1e-7, rel=1e-3)
    assert model.seconds["by_term"] == pytest.approx(2e-9, rel=1e-3)
    assert model.seconds["by_received_word"] == pytest.approx(0, abs=1e-10)
    assert model.bytes["by_word"] == pytest.approx(6, rel=1e-6)
    assert model.seconds_error < 1e-3
    far = Size("lattice", 1_000_000, 100, 8)
    assert predicted(model, far)[0] == pytest.approx(cost(far), rel=1e-3)


def test_the_shipped_overhead_study_has_the_terms_of_the_code():
    path = tables.RESULTS / "overhead.json"
    if not path.is_file():
        pytest.skip("docs/results/overhead.json has not been written yet")
    told = json.loads(path.read_text(encoding="utf-8"))
    assert told["command"] == "python -m experiments.paper overhead"
    for product in ("lattice", "bgn"):
        assert tuple(told["products"][product]["seconds"]) == overhead.SECONDS_TERMS[product]
        assert tuple(told["products"][product]["bytes"]) == overhead.BYTES_TERMS[product]
        # Time goes with n; the bytes of the wire format are known to the last one.
        assert told["products"][product]["growth"]["n"]["seconds"] == pytest.approx(1, abs=0.25)
        assert told["products"][product]["bytes_error"] < 0.05


def test_the_plan_predicts_with_the_shipped_cost_model():
    told = json.loads((tables.RESULTS / "overhead.json").read_text(encoding="utf-8"))["products"]["lattice"]["seconds"]
    names = ("SESSION", "SEALED_WORD", "RECEIVED_WORD", "TERM")
    used = tuple(getattr(planned, f"SECONDS_A_{name}") for name in names)
    assert used == pytest.approx(tuple(told.values()), rel=0.01)


def test_entries_are_the_cross_party_pairs():
    assert Size("bgn", 10, 7, 3).widths == [3, 2, 2]
    assert Size("bgn", 10, 7, 3).entries == 3 * 2 + 3 * 2 + 2 * 2

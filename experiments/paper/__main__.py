"""The evidence from one command: `python -m experiments.paper {utility,tables,logloss,rsquared,synthesis,...}`."""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["POLARS_MAX_THREADS"] = "1"

import argparse
import json
import sys
import tempfile
from pathlib import Path

from docs.sections import kept, publish
from experiments.paper import (
    catalogue,
    comparison,
    coverage,
    errata,
    evaluation,
    evaluation_coverage,
    floors,
    grid,
    listing,
    logloss,
    order,
    overhead,
    panel,
    polynomial,
    rehearsal,
    rsquared,
    splits,
    tables,
    wide,
    wide800,
)
from experiments.paper.document import Document, Row
from experiments.paper.grid import Extent
from experiments.paper.methods import METHODS
from experiments.paper.plots import forecast_plot, utility_plot
from experiments.paper.runner import Settings, finish
from experiments.paper.store import DEFAULT, SEED

REPORTED = ("data", "method", "privacy", "epsilon", "parties", "collusion", "metric", "mean", "std", "runs")


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    result: int = options.act(options)
    return result


def _utility(options: argparse.Namespace) -> int:
    extent = Extent(options.epsilon, options.parties, options.collusion)
    if options.quick:
        extent = Extent(options.epsilon, grid.QUICK.parties, options.collusion)
    data = tuple(options.data or (key + catalogue.SMALL * (options.quick and "synth" in key) for key in catalogue.KEYS))
    _recall(options)
    command = f"python -m experiments.paper utility --runs {options.runs} --write"
    command += f" --data {','.join(options.data)}" if options.data else ""
    told = ",".join(map(str, options.parties))
    command += f" --parties {told}" if tuple(options.parties) != grid.PARTIES else ""
    document = tables.utility(data, extent, _settings(options), command)
    if options.write:
        document.write(tables.RESULTS / "utility.csv")
        publish("floors", floors.markdown(document), floors.SHOWN)
        _plots([document], tables.RESULTS)
    _print(document, options.json)
    return 0


def _tables(options: argparse.Namespace) -> int:
    if options.only:
        return _fill(options)
    _recall(options)
    folder = Path(tempfile.mkdtemp(prefix="colonnade-tables-")) if options.quick else tables.RESULTS
    extent = grid.QUICK if options.quick else grid.FULL
    documents = []
    for number in options.table:
        spec = tables.TABLES[number]
        if options.quick:
            data = tuple(key + catalogue.SMALL * key.startswith("synthetic") for key in spec.data)
            spec = tables.TableSpec(number, f"{spec.title} (quick)", data, spec.epsilons)
        command = "python -m experiments.paper tables" + " --quick" * options.quick
        if options.update:
            command += f" --table {number} --update {options.update!r}"
            document = tables.updated(spec, extent, _settings(options), command, options.update)
        else:
            document = tables.table(spec, extent, _settings(options), command)
        document.write(tables.path_of(number, folder))
        documents.append(document)
        sys.stderr.write(f"wrote {tables.path_of(number, folder)}\n")
    if set(options.table) == set(tables.TABLES):
        publish("comparison", comparison.markdown(documents), folder=folder)
    _plots(documents, folder)
    return 0


def _recall(options: argparse.Namespace) -> None:
    """Fits in the shipped files that today's code would give again."""
    for name in () if options.quick else ("table1", "table2", "table3", "utility"):
        if taken := tables.recall(tables.RESULTS / f"{name}.csv", _settings(options)):
            sys.stderr.write(f"{taken} fits taken over from {name}.csv\n")


def _fill(options: argparse.Namespace) -> int:
    """Put one method's fits in the store, for a method that needs an environment of its own."""
    wanted = [tables.cells(tables.TABLES[number], grid.FULL) for number in options.table]
    cells = [cell for table in wanted for cell in table if cell.method == options.only]
    for done in finish(cells, _settings(options)):
        told = done.reason or f"{done.mean:.4f} ± {done.std:.4f}"
        sys.stderr.write(f"{done.cell.data} {done.cell.method} {done.cell.epsilon}: {told}\n")
    return 0


def _plots(documents: list[Document], folder: Path) -> None:
    rows = [row for document in documents for row in document.rows if row.source == "run"]
    for data in dict.fromkeys(row.data for row in rows):
        own = [row for row in rows if row.data == data]
        if any(row.mean is not None for row in own):
            utility_plot(own, folder / f"utility_{data}.png")


def _logloss(options: argparse.Namespace) -> int:
    rows = logloss.run(options.data, options.runs, options.workers)
    header = {
        "title": "Log-loss of one release on test rows",
        "command": "python -m experiments.paper logloss --write",
        "releases": f"{options.runs}, each of another split; K = {logloss.PARTIES}, c = {logloss.COLLUSION}",
        "made-up data": "all but Adult and Dutch; exact sums plus the plan's noise, drawn in one place",
        "code": logloss.code_digest(logloss.OURS),
    }
    text = listing.csv_text(rows, header)
    if options.write:
        listing.write(text, logloss.markdown, tables.RESULTS / "logloss.csv")
    print(logloss.markdown(text), end="")
    return 0


def _panel(options: argparse.Namespace) -> int:
    if options.stored:
        rows = panel.stored(options.data, options.runs)
    else:
        rows = panel.run(options.data, options.runs, options.workers, baselines=not options.ours)
    again = ", ".join(dict.fromkeys(row.data for row in rows))
    header = {
        "title": "The development panel",
        "command": f"python -m experiments.paper panel --runs {options.runs}{' --stored' * options.stored}"
        f"{' --keep' * options.keep} --write",
        "releases": f"as the column runs says, over {panel.SPLITS} random splits",
        "not run": ", ".join(key for key in options.data if key not in {row.data for row in rows}) or "nothing",
        "noise": f"exact sums plus the plan's noise, K = {panel.PARTIES}, c = {panel.COLLUSION}",
        "tuning": "DP-GD pays for the choice among its settings out of its own epsilon; no other method is tuned",
        "code": panel.code_digest(panel.OURS),
    }
    if options.keep:
        rows = panel.kept(rows, (tables.RESULTS / "panel.csv").read_text(encoding="utf-8"))
        header["kept"] = f"run again: {again}; other rows, and baselines that this run lacks, are of the run before it"
        missing = [key for key in options.data if key not in {row.data for row in rows}]
        header["not run"] = ", ".join(missing) or "nothing"
    text = listing.csv_text(rows, header)
    if options.write:
        listing.write(text, panel.markdown, tables.RESULTS / "panel.csv")
        forecast_plot(rows, tables.RESULTS / "panel.png")
    print(panel.markdown(text), end="")
    return 0


def _wide(options: argparse.Namespace) -> int:
    if options.paper:
        header = {
            "title": "The paper's 80,000 x 800 records at epsilon = 1, delta = 1/n",
            "command": "python -m experiments.paper wide --paper --write",
            "noise": "exact sums of the training rows plus the plan's noise; each party shortens records to its norm",
            "code": panel.code_digest(panel.OURS),
        }
        text = listing.csv_text(wide800.run(), header)
        if options.write:
            listing.write(text, wide800.markdown, tables.RESULTS / "wide800.csv")
        print(wide800.markdown(text), end="")
        return 0
    header = {
        "title": "Wide numeric data in one release",
        "command": "python -m experiments.paper wide --write",
        "data": "uniform features, all true weights normal, the label's standard deviation a quarter of its bounds",
        "draws": "of data and noise, mean ± population standard deviation; one party, c = 0",
        "norm": "records are declared to be as long as the generator lets expect; what shortening does is left out",
        "privacy": "neighbours replace one record, n is public; (epsilon, 1/n) has delta = 1/n",
        "code": panel.code_digest(panel.OURS),
    }
    text = listing.csv_text(list(wide.run(options.columns, options.rows, options.runs)), header)
    if options.write:
        listing.write(text, wide.markdown, tables.RESULTS / "wide.csv")
    print(wide.markdown(text), end="")
    return 0


def _rehearsal(options: argparse.Namespace) -> int:
    text = ""

    def keep(lines: list[rehearsal.Line], ranges: list[rehearsal.Ranged]) -> None:
        nonlocal text
        text = rehearsal.markdown(lines, ranges, "python -m experiments.paper rehearsal --write")
        if options.write:
            publish("rehearsal", text)

    rehearsal.run(options.data, options.epsilon, options.runs, keep)
    print(text, end="")
    return 0


def _polynomial(options: argparse.Namespace) -> int:
    for name, made in (
        ("order", lambda: order.markdown(options.kept, options.stored)),
        ("polynomial", polynomial.markdown),
    ):
        text = made()
        if options.write:
            publish(name, text)
        print(text, end="")
    return 0


def _rsquared(options: argparse.Namespace) -> int:
    rows = rsquared.run(options.data, options.runs, options.workers)
    header = {
        "title": "R² as a release states it against R² on its records",
        "command": "python -m experiments.paper rsquared --write",
        "releases": f"{options.runs} of the same records; K = {rsquared.PARTIES}, c = {rsquared.COLLUSION}",
        "code": logloss.code_digest(logloss.OURS),
    }
    text = listing.csv_text(rows, header)
    if options.write:
        listing.write(text, rsquared.markdown, tables.RESULTS / "rsquared.csv")
    print(rsquared.markdown(text), end="")
    return 0


def _evaluation(options: argparse.Namespace) -> int:
    text = evaluation.markdown(evaluation.run(options.data, options.runs), options.runs)
    if options.write:
        publish("evaluation", text)
    print(text, end="")
    return 0


def _evaluation_coverage(options: argparse.Namespace) -> int:
    found = evaluation_coverage.run(options.cases, options.seed, options.rows)
    text = evaluation_coverage.markdown(found)
    if options.write:
        publish("evaluation_coverage", text)
    print(json.dumps(found, indent=1) if options.json else text, end="")
    return int(found["short"])


def _overhead(options: argparse.Namespace) -> int:
    folder = Path(tempfile.mkdtemp(prefix="colonnade-overhead-")) if options.quick else tables.RESULTS
    overhead.study(folder, quick=options.quick)
    sys.stderr.write(f"wrote {folder / 'overhead.json'}\n")
    return 0


def _synthesis(options: argparse.Namespace) -> int:
    # Imported late: no other study needs it.
    from experiments.paper import synthesis_report

    before = kept("synthesis") if options.only else ""
    page = synthesis_report.study(options.quick, options.only, before, options.kept)
    if options.write:
        publish("synthesis", page)
    print(page)
    return 0


def _synthesis_baselines(options: argparse.Namespace) -> int:
    from experiments.paper import synthesis_baselines

    synthesis_baselines.study(options.limit, options.total)
    return 0


def _coverage(options: argparse.Namespace) -> int:
    lines: list[coverage.Line] = []
    command = "python -m experiments.paper coverage --write" + " --panel" * options.panel
    cases, name, most = coverage.CASES, "coverage", coverage.RELEASES
    if options.panel:
        cases = tuple(case for case in coverage.PANEL_CASES if panel.missing(case.data) is None)
        name, most = "coverage_panel", coverage.PANEL_RELEASES
    for found in coverage.study(cases, options.releases or most, options.workers, options.seed):
        lines += found
        if options.write:
            coverage.write(lines, tables.RESULTS, command, options.seed, name)
    print(coverage.markdown(lines, command, options.seed))
    return 0


def _splits(options: argparse.Namespace) -> int:
    found = []
    for one in splits.run(options.runs):
        sys.stderr.write(f"{one}\n")
        found.append(one)
        if options.write:
            publish("splits", splits.markdown(found, options.runs))
    print(splits.markdown(found, options.runs), end="")
    return 0


def _errata(options: argparse.Namespace) -> int:
    for line in errata.report():
        print(line)
    return 0


def _print(document: Document, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_reported(row) for row in document.rows if row.runs], indent=1))
        return
    for row in document.rows:
        told = f"{row.mean:.4f} ± {row.std:.4f}" if row.mean is not None else f"not run: {row.note}"
        place = (
            f"{row.data:16s} {row.method:14s} {row.privacy:15s} {'' if row.epsilon is None else f'{row.epsilon:g}':5s}"
        )
        print(f"{place} K={row.parties} c={row.collusion} {row.metric} {told}")


def _reported(row: Row) -> dict[str, object]:
    return {name: getattr(row, name) for name in REPORTED}


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(2 if options.quick else options.runs, options.workers, options.seed, options.store)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.paper", description=__doc__)
    commands = parser.add_subparsers(required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--runs", type=int, default=10, help="random 80/20 splits")
    shared.add_argument("--workers", type=int, default=2, help="processes")
    shared.add_argument("--seed", type=int, default=SEED)
    shared.add_argument("--store", type=Path, default=DEFAULT, help="where finished fits are kept")
    shared.add_argument("--quick", action="store_true", help="2 splits, K = 1 and 2, small synthetic data")

    utility = commands.add_parser("utility", parents=[shared], help="ours against epsilon, parties and collusion")
    utility.add_argument("--data", type=_words, help=f"some of {', '.join(catalogue.KEYS)}")
    utility.add_argument("--parties", type=_whole, default=grid.PARTIES)
    utility.add_argument("--epsilon", type=_numbers, default=grid.EPSILONS)
    utility.add_argument("--collusion", type=_whole, default=grid.COLLUSIONS)
    utility.add_argument("--json", action="store_true", help="rows as one JSON list on standard output")
    utility.add_argument(
        "--write",
        action="store_true",
        help="write utility.csv, docs/results/accuracy.md and plots as well",
    )
    utility.set_defaults(act=_utility)

    tabled = commands.add_parser("tables", parents=[shared], help="Tables 1-3 beside the printed cells")
    tabled.add_argument("--table", type=_whole, default=tuple(tables.TABLES), help="some of 1,2,3")
    tabled.add_argument("--update", choices=METHODS, help="run this method and what is missing, keep the other rows")
    tabled.add_argument("--only", choices=METHODS, help="fill the store for this method and write no file")
    tabled.set_defaults(act=_tables)

    losses = commands.add_parser("logloss", help="log-loss on test rows against the base rate's, by epsilon")
    losses.add_argument("--data", type=_words, default=logloss.DATA, help=f"some of {', '.join(logloss.DATA)}")
    losses.add_argument("--runs", type=int, default=logloss.RELEASES, help="releases, each of another split")
    losses.add_argument("--workers", type=int, default=2, help="processes")
    losses.add_argument("--write", action="store_true", help="write logloss.csv and docs/results/panel.md")
    losses.set_defaults(act=_logloss)

    panels = commands.add_parser("panel", help="the development panel: AUC, accuracy and log-loss beside no noise")
    panels.add_argument("--data", type=_words, default=panel.DATA, help=f"some of {', '.join(panel.DATA)}")
    panels.add_argument("--runs", type=int, default=panel.RELEASES, help="releases of ours")
    panels.add_argument("--workers", type=int, default=2, help="processes")
    panels.add_argument("--stored", action="store_true", help="run nothing: what an unfinished run has kept")
    panels.add_argument("--ours", action="store_true", help="no baselines")
    panels.add_argument("--keep", action="store_true", help="baselines that were not run again as the page has them")
    panels.add_argument("--write", action="store_true", help="write panel.csv and docs/results/panel.md")
    panels.set_defaults(act=_panel)

    widths = commands.add_parser("wide", help="many numeric columns: what a release of them leaves, and what could be")
    widths.add_argument("--columns", type=_whole, default=wide.WIDTHS)
    widths.add_argument("--rows", type=_whole, default=wide.ROWS)
    widths.add_argument("--runs", type=int, default=wide.DRAWS, help="draws of data and noise")
    widths.add_argument("--paper", action="store_true", help="the paper's 80,000 x 800 records, epsilon 1, delta 1/n")
    widths.add_argument("--write", action="store_true", help="write its csv and docs/results/accuracy.md")
    widths.set_defaults(act=_wide)

    judged = commands.add_parser("evaluation", help="evaluations across parties against the truth")
    judged.add_argument("--data", type=_words, default=tuple(evaluation.DATA), help="some of the sets")
    judged.add_argument("--runs", type=int, default=evaluation.DRAWS, help="evaluations a line")
    judged.add_argument("--write", action="store_true", help="write its section of docs/results/uncertainty.md")
    judged.set_defaults(act=_evaluation)

    held = commands.add_parser("evaluation-coverage", help="how often an evaluation's intervals hold the truth")
    held.add_argument("--cases", type=int, default=evaluation_coverage.CASES, help="evaluations of each cell")
    held.add_argument("--rows", type=_whole, default=evaluation_coverage.ROWS, help="numbers of records")
    held.add_argument("--seed", type=int, default=SEED)
    held.add_argument("--json", action="store_true", help="for machines")
    held.add_argument("--write", action="store_true", help="write its section of docs/results/uncertainty.md")
    held.set_defaults(act=_evaluation_coverage)
    products = commands.add_parser("polynomial", help="models with and without interactions of several owners")
    products.add_argument("--write", action="store_true", help="write docs/results/interactions.md")
    products.add_argument("--kept", type=Path, help="file of finished rows: an interrupted run goes on from there")
    products.add_argument("--stored", action="store_true", help="run nothing of order 4: rows that --kept has")
    products.set_defaults(act=_polynomial)
    shares = commands.add_parser("rsquared", help="R² as stated against R² on the records")
    shares.add_argument("--data", type=_words, default=tuple(rsquared.DATA), help=f"some of {', '.join(rsquared.DATA)}")
    shares.add_argument("--runs", type=int, default=rsquared.RELEASES, help="releases of the same records")
    shares.add_argument("--workers", type=int, default=2, help="processes")
    shares.add_argument("--write", action="store_true", help="write rsquared.csv and docs/results/panel.md")
    shares.set_defaults(act=_rsquared)

    foretold = commands.add_parser("rehearsal", help="rehearsals on public rows against real fits")
    foretold.add_argument("--data", type=_words, default=tuple(rehearsal.SCHEMA), help="some of the data sets")
    foretold.add_argument("--epsilon", type=_numbers, default=rehearsal.EPSILONS)
    foretold.add_argument("--runs", type=int, default=rehearsal.RUNS, help="replicates")
    foretold.add_argument("--write", action="store_true", help="write its section of docs/results/uncertainty.md")
    foretold.set_defaults(act=_rehearsal)

    costs = commands.add_parser("overhead", help="time and bytes of bgn and lattice against n, d and K")
    costs.add_argument("--quick", action="store_true", help="few small sizes, written to a temporary folder")
    costs.set_defaults(act=_overhead)

    drawn = commands.add_parser("synthesis", help="tables, rows and models of every column from one release")
    drawn.add_argument("--quick", action="store_true", help="one setting of Adult-77, few releases")
    drawn.add_argument("--only", type=_words, default=(), help="sections to run anew: rows,compared,known,apart,...")
    drawn.add_argument(
        "--kept", action="store_true", help="show rows that earlier runs have scored, and score no others"
    )
    drawn.add_argument("--write", action="store_true", help="write docs/results/synthesis.md as well")
    drawn.set_defaults(act=_synthesis)

    others = commands.add_parser("synthesis-baselines", help="AIM and MST, in the environment that make built for them")
    others.add_argument("--limit", type=int, default=300, help="CPU seconds of one run")
    others.add_argument("--total", type=int, default=3600, help="CPU seconds after which no further run is started")
    others.set_defaults(act=_synthesis_baselines)

    covered = commands.add_parser("coverage", help="how often intervals hold the truth, coefficient by coefficient")
    covered.add_argument("--releases", type=int, help=f"fresh releases of each case, {coverage.RELEASES} if not given")
    covered.add_argument("--panel", action="store_true", help="on the development panel, into coverage_panel.csv")
    covered.add_argument("--workers", type=int, default=2, help="processes")
    covered.add_argument("--seed", type=int, default=SEED)
    covered.add_argument("--write", action="store_true", help="write its csv and docs/results/uncertainty.md as well")
    covered.set_defaults(act=_coverage)

    divided = commands.add_parser("splits", help="the panel's cells that miss their goal, with other block weights")
    divided.add_argument("--runs", type=int, default=8, help="releases of each")
    divided.add_argument("--write", action="store_true", help="write its section of docs/results/accuracy.md")
    divided.set_defaults(act=_splits)

    checks = commands.add_parser("errata", help="the numbers behind the errata of the paper's tables")
    checks.set_defaults(act=_errata)
    return parser


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


def _whole(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    raise SystemExit(main())

"""Tables 1-3 of the paper on the data at hand, with the printed cells beside them, and the utility study.

Table 1 stands on CPS tax units, a substitute for the paper's US and Brazil extracts, which may not be passed on.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from experiments.paper import catalogue, grid
from experiments.paper.document import RUN, Document, Row
from experiments.paper.grid import Extent
from experiments.paper.methods import OURS, Cell
from experiments.paper.printed import PRINTED
from experiments.paper.protocol import METRIC
from experiments.paper.runner import Settings, finish
from experiments.paper.store import ROOT, Store, code_digest, name_of

RESULTS = ROOT / "docs" / "results"
LIBRARIES = ("colonnade", "numpy", "scipy", "polars", "scikit-learn", "dp-accounting", "cryptography")


@dataclass(frozen=True)
class TableSpec:
    """One table of the paper."""

    number: int
    title: str
    data: tuple[str, ...]
    epsilons: tuple[float, ...]


TABLES = {
    1: TableSpec(
        1,
        "Table 1: mean squared error of linear regression, on a substitute for the US and Brazil extracts",
        ("cps-wages",),
        grid.EPSILONS,
    ),
    2: TableSpec(
        2,
        "Table 2: mean squared error of linear regression on synthetic data of 800 features",
        catalogue.SYNTHETIC,
        (grid.WIDE_EPSILON,),
    ),
    3: TableSpec(
        3, "Table 3: accuracy of logistic regression on Adult and Dutch", ("adult-41", "dutch-36"), grid.EPSILONS
    ),
}
UTILITY_TITLE = "Utility of one release against epsilon, parties and collusion"


def header(title: str, command: str, data: tuple[str, ...], extent: Extent, settings: Settings) -> dict[str, str]:
    """Everything that a stranger needs to make the file again."""
    return {
        "title": title,
        "command": command,
        "seed": str(settings.seed),
        "replicates": f"{settings.runs} random 80/20 splits, mean ± population standard deviation",
        "data": "; ".join(_described(key) for key in data),
        "epsilon": ", ".join(f"{e:g}" for e in extent.epsilons),
        "privacy": "neighbours replace one record, n is public; (epsilon, 1/n) means delta = 1/n of the training rows, "
        "the paper's choice for its baselines, kept for comparison and not to be relied on (docs/paper.md)",
        "parties": ", ".join(str(k) for k in extent.parties),
        "product": 'the protocol with product "plain", but for the rows that say lattice',
        "code": f"ours {code_digest(OURS)}, baselines {code_digest('non-private')}",
        "versions": ", ".join(
            [f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in LIBRARIES)]
        ),
    }


def _described(key: str) -> str:
    if catalogue.missing(key):
        return f"{key} (not run)"
    encoded = catalogue.encoded(key)
    rows, features = encoded.dataset.frame.height, len(encoded.names)
    return f"{key} = {encoded.dataset.name}, {rows} records, {features} features"


def cells(spec: TableSpec, extent: Extent) -> list[Cell]:
    """The cells that a table's file must hold."""
    own = replace(extent, epsilons=tuple(e for e in extent.epsilons if e in spec.epsilons))
    return [cell for key in spec.data for cell in grid.rows_of(key, own)]


def recall(path: Path, settings: Settings) -> int:
    """Take over the fits of a file that was written with the code of today, so that only changed methods run again."""
    if not path.is_file():
        return 0
    document, store, taken = Document.of_csv(path.read_text(encoding="utf-8")), Store(settings.path), 0
    if document.header["seed"] != str(settings.seed):
        return 0
    for row in document.rows:
        # A note counts what single fits told beside their score.
        if row.source != RUN or row.note or code_digest(row.method) not in document.header["code"]:
            continue
        cell = Cell(row.data, row.method, row.privacy, row.epsilon, row.parties, row.collusion)
        for number, score in enumerate(row.scores):
            if store.get(name_of(cell, number, settings.seed)) is None:
                store.put(name_of(cell, number, settings.seed), {"score": score})
                taken += 1
    return taken


def table(spec: TableSpec, extent: Extent, settings: Settings, command: str) -> Document:
    """Run one table, or take it from the store."""
    metric = {key: METRIC[catalogue.task_of(key)] for key in spec.data}
    rows = [Row.of(done, metric[done.cell.data]) for done in finish(cells(spec, extent), settings)]
    rows += [Row.of_printed(p, METRIC[catalogue.task_of(spec.data[0])]) for p in PRINTED if p.table == spec.number]
    own = replace(extent, epsilons=spec.epsilons)
    return Document(header(spec.title, command, spec.data, own, settings), tuple(rows))


def updated(spec: TableSpec, extent: Extent, settings: Settings, command: str, method: str) -> Document:
    """The shipped table with one method's cells, and those that it lacks, run anew; the other rows stay as they are."""
    shipped = Document.of_csv(path_of(spec.number).read_text(encoding="utf-8"))
    kept = {_place(row): row for row in shipped.rows if row.source == RUN and row.method != method}
    wanted = cells(spec, extent)
    todo = [cell for cell in wanted if _place(cell) not in kept]
    fresh = {
        _place(done.cell): Row.of(done, METRIC[catalogue.task_of(done.cell.data)]) for done in finish(todo, settings)
    }
    rows = [fresh.get(_place(cell)) or kept[_place(cell)] for cell in wanted]
    rows += [row for row in shipped.rows if row.source != RUN]
    own = replace(extent, epsilons=spec.epsilons)
    head = header(spec.title, command, spec.data, own, settings)
    told = ", ".join(dict.fromkeys(f"{c.method} K = {c.parties}, c = {c.collusion}" for c in todo))
    # `recall` reads "code": it must be that of rows which may be older than the rest.
    head["updated"], head["code"] = f"{told}, with {head['code']}", shipped.header["code"]
    return Document(head, tuple(rows))


def _place(row: Row | Cell) -> tuple[object, ...]:
    return row.data, row.method, row.privacy, row.epsilon, row.parties, row.collusion


def utility(data: tuple[str, ...], extent: Extent, settings: Settings, command: str) -> Document:
    """Run the utility study, or take it from the store."""
    settings = replace(settings, runs_of=grid.fewer_runs)
    rows = [
        Row.of(done, METRIC[catalogue.task_of(done.cell.data)]) for done in finish(grid.utility(data, extent), settings)
    ]
    head = header(UTILITY_TITLE, command, data, extent, settings)
    head["draws"] = (
        f"pure epsilon at c = 0 {settings.runs} for each K, so {settings.runs * len(extent.parties)} of one law; "
        f"at c = 1 {min(settings.runs, grid.COLLUDING_RUNS)}; "
        f"(epsilon, 1/n) {min(settings.runs, grid.APPROXIMATE_RUNS)}; "
        f"d = 800 {min(settings.runs, grid.WIDE_RUNS)}"
    )
    head["numbers"] = (
        'in ours the plan cuts numbers at bins where it expects that to pay (numeric = "auto", the default of a '
        "logistic study that states its rows); without privacy they are as declared"
    )
    return Document(head, tuple(rows))


def path_of(number: int, folder: Path = RESULTS) -> Path:
    return folder / f"table{number}.csv"

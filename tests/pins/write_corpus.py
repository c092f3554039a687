"""Write the corpus: files of the version that it runs on, 0.1.0 at 9ac5c7e, which every later version must read.

PYTHONPATH=CHECKOUT/src python tests/pins/write_corpus.py
"""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path

from studies import STUDIES, draw_agreements, write_lines, write_study  # type: ignore[import-not-found]
from typer.testing import CliRunner

from colonnade.cli import app
from colonnade.consent.ledger import Ledger
from colonnade.foundation.canonical import canonical_json
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.randomness import Randomness
from colonnade.planning.agreement import Agreement
from colonnade.runs import RunOptions, fit
from colonnade.study import read_study
from colonnade.transport.evidence import KeptEvidence

COUNT, SEED = 500, 47
LEDGERS = ("linear", "gaussian")
POLICY = """[policy]
party = "a"
partners = ["*"]
products = ["plain"]
views = ["outsider"]
[session]
epsilon = 50
delta = 1e-5
[total]
epsilon = 200
delta = 1e-4
"""


def agreements() -> list[str]:
    """The first that this version takes."""
    out: list[str] = []
    for content in draw_agreements(SEED):
        try:
            out.append(canonical_json(Agreement.of(content).to(), escaped=False))
        except ColonnadeError:
            continue
        if len(out) == COUNT:
            return out
    return out


def command(*arguments: object) -> str:
    """A command's standard output, once it has ended well."""
    told = CliRunner().invoke(app, [*map(str, arguments)])
    if told.exit_code:
        raise RuntimeError(f"{arguments}: {told.output} {told.exception!r}")
    return told.stdout


def run(name: str) -> tuple[str, list[str]]:
    """The release of a study, and models of it."""
    models = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file, opened = write_study(folder, name), folder / "r.json"
        command("fit", file, "--out", opened, "--seed", "07", "--force")
        for asked in ((), ("--penalty", "lasso"), ("--method", "zhang")):
            told = CliRunner().invoke(app, ["solve", str(opened), "--out", str(folder / "m.json"), *asked])
            if told.exit_code == 0:
                models.append((folder / "m.json").read_text().rstrip("\n"))
                (folder / "m.json").unlink()
        return opened.read_text().rstrip("\n"), models


def ledger_and_evidence() -> tuple[list[str], list[str]]:
    """A ledger's lines as they are exported, and the record of an accountable session."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "policy.toml").write_text(POLICY)
        for name in LEDGERS:
            file = write_study(folder, name, a={"policy": "policy.toml", "ledger": "a.ledger"})
            command("fit", file, "--out", folder / "r.json", "--force")
        lines = [canonical_json(entry.to(), escaped=False) for entry in Ledger(folder / "a.ledger").lines()]
        folders = {party: folder / party for party in "ab"}
        for own in folders.values():
            own.mkdir()
        fit(read_study(write_study(folder, "linear")), RunOptions(randomness=Randomness(b"pin"), evidence=folders))
        kept = KeptEvidence.read(next((folders["a"] / "evidence").iterdir()))
        return lines, [json.dumps(record, sort_keys=True) for record in kept.records]


def main() -> None:
    warnings.simplefilter("ignore")
    write_lines("agreements", agreements())
    runs = [run(name) for name in STUDIES]
    write_lines("releases", (release for release, _ in runs))
    write_lines("models", (model for _, models in runs for model in models))
    ledger, evidence = ledger_and_evidence()
    write_lines("ledger", ledger)
    write_lines("evidence", evidence)


if __name__ == "__main__":
    main()

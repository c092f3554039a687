"""Makes docs/pictures from real runs: the privacy-utility curve of the demo, the report and the studio.

    python docs/make_pictures.py [curve] [pages]

The curve runs the whole mechanism on the demo's public rows, with the product "plain" and fixed seeds, which is what a
simulation may do. The pages come from a run of the demo with the lattice product, and need chromium.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from colonnade.analysis.solve import solve
from colonnade.data.table import Table, table_from
from colonnade.foundation.randomness import Randomness
from colonnade.report.curve import scaled
from colonnade.runs import run_unguarded
from colonnade.study import Study, read_study

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
RUNS = 5


def tables_of(study: Study) -> tuple[dict[str, Table], int]:
    """The parties' tables on the people whom all of them know, and how many these are."""
    frame: pl.DataFrame | None = None
    for source in study.sources.values():
        assert source.data is not None
        part = pl.read_csv(source.data, infer_schema=False)
        frame = part if frame is None else frame.join(part, on="person")
    assert frame is not None
    return {name: table_from(name, frame, cs) for name, cs in study.agreement.schema.parties.items()}, frame.height


def curve() -> None:
    """Accuracy and AUC of the private model against epsilon, on the records that it was fitted to."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    text = (ROOT / "demo" / "study.toml").read_text().replace('product = "lattice"', 'product = "plain"')
    with tempfile.TemporaryDirectory() as folder:
        for path in (ROOT / "demo").glob("*.csv"):
            shutil.copy(path, folder)
        (Path(folder) / "study.toml").write_text(text)
        study = read_study(Path(folder) / "study.toml")
        tables, rows = tables_of(study)
    encoded = {name: values for table in tables.values() for name, values in table.coordinates().items()}
    owner, label = study.agreement.schema.find(study.agreement.label)
    y = np.asarray(tables[owner].values[label]) == 1
    accuracy, auc = [], []
    features: tuple[str, ...] = ()
    for epsilon in EPSILONS:
        found = []
        for k in range(RUNS):
            terms = scaled(study.agreement, epsilon / (study.agreement.epsilon or 1.0))
            outcome = run_unguarded(terms, tables, "none", Randomness(seed=f"picture {epsilon} {k}".encode()))
            model = solve(outcome.release.moments(), terms.task)
            features = model.features
            score = model.predict(np.column_stack([encoded[name] for name in features]))
            found.append((float(((score >= 0.5) == y).mean()), float(roc_auc_score(y, score))))
        accuracy.append([a for a, _ in found])
        auc.append([b for _, b in found])
        print(f"epsilon {epsilon:g}: accuracy {np.mean(accuracy[-1]):.4f}, AUC {np.mean(auc[-1]):.4f}")
    X = np.column_stack([encoded[name] for name in features])
    ceiling = LogisticRegression(C=1e4, max_iter=2000).fit(X, y).predict_proba(X)[:, 1]
    best = float(((ceiling >= 0.5) == y).mean()), float(roc_auc_score(y, ceiling))
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, values, top, floor, name in (
        (axes[0], accuracy, best[0], float(max(y.mean(), 1 - y.mean())), "accuracy"),
        (axes[1], auc, best[1], 0.5, "AUC"),
    ):
        middle = [float(np.mean(v)) for v in values]
        axis.fill_between(EPSILONS, [min(v) for v in values], [max(v) for v in values], alpha=0.2, color="#2d6cb5")
        axis.plot(EPSILONS, middle, marker="o", color="#2d6cb5", label=f"private, mean and range of {RUNS} runs")
        axis.axhline(top, color="#1b1f24", linestyle="--", label="not private (scikit-learn)")
        axis.axhline(floor, color="#b4500b", linestyle=":", label="trivial model")
        axis.set_xscale("log")
        axis.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        axis.minorticks_off()
        axis.set_xlabel("epsilon of a whole record")
        axis.set_ylabel(name)
    axes[1].legend(loc="center right", frameon=False, fontsize=8)
    figure.suptitle(f"Adult, {rows:,} records, three parties, pure epsilon", fontsize=11)
    figure.savefig(PICTURES / "privacy-utility.png", dpi=110)


def pages() -> None:
    """The report of the demo and the studio with it, as a browser shows them."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("error: there is no chromium on this machine")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in [*(ROOT / "demo").glob("*.csv"), ROOT / "demo" / "study.toml"]:
            shutil.copy(path, folder)
        study = folder / "study.toml"
        study.write_text(study.read_text().replace("[study]\n", "[study]\nrows = 14146\n"))
        command(folder, "fit", "study.toml", "--out", "release.json")
        command(folder, "report", "release.json", "--html", "report.html")
        studio, address = open_studio(folder)
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": 1000, "height": 1250})
                page.set_default_timeout(120_000)
                page.goto((folder / "report.html").as_uri())
                shoot(page, "report-top", page.locator("h1"), 1150)
                shoot(page, "report-epsilon", page.locator("#epsilon"), 830)
                wide = browser.new_page(viewport={"width": 1400, "height": 1000})
                wide.set_default_timeout(120_000)
                wide.goto(address)
                wide.screenshot(path=str(PICTURES / "studio.png"))
                wide.check('input[name="budget"][value="parties"]')
                for i, offer in enumerate(("0.8", "0.6", "0.3")):
                    wide.fill(f'input[name="p{i}.epsilon"]', offer)
                wide.wait_for_selector("#negotiation")
                wide.locator("#negotiation").scroll_into_view_if_needed()
                wide.screenshot(path=str(PICTURES / "studio-negotiation.png"))
                browser.close()
        finally:
            os.kill(studio.pid, signal.SIGTERM)
            studio.wait()


def shoot(page: Any, name: str, start: Any, height: int) -> None:
    top = max(0.0, float(start.bounding_box()["y"]) - 20)
    clip = {"x": 40, "y": top, "width": 920, "height": height}
    page.screenshot(path=str(PICTURES / f"{name}.png"), full_page=True, clip=clip)


def command(folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "colonnade.cli", *arguments], cwd=folder, check=True, capture_output=True)


def open_studio(folder: Path) -> tuple[subprocess.Popen[str], str]:
    arguments = [sys.executable, "-m", "colonnade.cli", "studio", "study.toml", "--no-browser"]
    process = subprocess.Popen(arguments, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found
    return process, found[0]


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    asked = sys.argv[1:] or ["curve", "pages"]
    if "curve" in asked:
        curve()
    if "pages" in asked:
        pages()


if __name__ == "__main__":
    main()

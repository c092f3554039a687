"""Makes docs/pictures from real runs: the privacy-utility curve of the demo, the report and the studio.

    python docs/make_pictures.py [curve] [pages] [notebooks]

The curve runs the whole mechanism on the demo's public rows, with the product "plain" and fixed seeds, which is what a
simulation may do. The pages come from a run of the demo with the lattice product, and need chromium; so do the pictures
of notebooks, which show what these were kept with.
"""

from __future__ import annotations

import io
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
from colonnade.data.sources import FileSource
from colonnade.data.table import Table, table_from
from colonnade.foundation.randomness import Randomness
from colonnade.report.curve import scaled
from colonnade.simulation import run_unguarded
from colonnade.study import StudySpec, read_study

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
RUNS = 5


def tables_of(study: StudySpec) -> tuple[dict[str, Table], int]:
    """The parties' tables on the people whom all of them know, and how many these are."""
    frame: pl.DataFrame | None = None
    for source in study.sources.values():
        assert isinstance(source.data, FileSource)
        part = pl.read_csv(source.data.path, infer_schema=False)
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
            terms = scaled(study.agreement, epsilon / (study.agreement.budget.epsilon or 1.0))
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


ORGANISATIONS = {
    "employer": ("Union of Employers", "data@employers.example"),
    "registry": ("Civil Registry", "privacy@registry.example"),
    "bank": ("Savings Bank", "dpo@bank.example"),
}
REASON = "Find out which circumstances of life go with a high income, so that training grants go where they help."


def write_demo(folder: Path) -> None:
    """The demo with the names, policies and ledgers of organisations, run twice: ledgers have a past."""
    for path in [*(ROOT / "demo").glob("*.csv"), ROOT / "demo" / "study.toml"]:
        shutil.copy(path, folder)
    study = folder / "study.toml"
    text = study.read_text().replace("[study]\n", f'[study]\nrows = 14146\nreason = "{REASON}"\n')
    for party, (name, contact) in ORGANISATIONS.items():
        kept = f'organisation = "{name}"\ncontact = "{contact}"\npolicy = "{party}.policy"\nledger = "{party}.ledger"\n'
        text = text.replace(f"[party.{party}]\n", f"[party.{party}]\n{kept}")
        others = ", ".join(f'"{other}"' for other in ORGANISATIONS if other != party)
        rules = f'[policy]\nparty = "{party}"\npartners = [{others}]\n'
        rules += "[session]\nepsilon = 2.0\ndelta = 1e-5\n[total]\nepsilon = 4.0\ndelta = 1e-5\n"
        (folder / f"{party}.policy").write_text(rules)
    study.write_text(text)
    for name in ("release-1.json", "release-2.json"):
        command(folder, "fit", "study.toml", "--out", name)


def pages() -> None:
    """The report of the demo and the studio with it, as a browser shows them and as a printer would."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None or shutil.which("pdftoppm") is None:
        sys.exit("error: there is no chromium or no pdftoppm (poppler-utils) on this machine")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_demo(folder)
        ledgers = [word for party in ORGANISATIONS for word in ("--ledger", f"{party}.ledger")]
        command(folder, "report", "release-2.json", "--html", "report.html", *ledgers)
        studio, address = open_studio(folder)
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                shoot_report(browser, folder)
                shoot_studio(browser, address)
                browser.close()
        finally:
            os.kill(studio.pid, signal.SIGTERM)
            studio.wait()


def shoot_report(browser: Any, folder: Path) -> None:
    """The first sheet on paper, the model on a screen, and the sheet on a phone, light and dark."""
    page = browser.new_page(viewport={"width": 1000, "height": 1200})
    page.goto((folder / "report.html").as_uri())
    page.pdf(path=str(folder / "report.pdf"), prefer_css_page_size=True)
    to_png = ["pdftoppm", "-r", "90", "-f", "1", "-l", "1", "-singlefile", "-png", "report.pdf", "sheet"]
    subprocess.run(to_png, cwd=folder, check=True)
    shutil.copy(folder / "sheet.png", PICTURES / "report-sheet.png")
    box = page.locator(".verdict").first.bounding_box()
    clip = {"x": 0, "y": 0, "width": 1000, "height": box["y"] + box["height"] + 20}
    page.screenshot(path=str(PICTURES / "report-verdict.png"), clip=clip)
    top = page.locator("#model").bounding_box()["y"] - 10
    clip = {"x": 0, "y": top, "width": 1000, "height": 1500}
    page.screenshot(path=str(PICTURES / "report-model.png"), full_page=True, clip=clip)
    shots = []
    for scheme in ("light", "dark"):
        phone = browser.new_page(viewport={"width": 390, "height": 1500}, color_scheme=scheme)
        phone.goto((folder / "report.html").as_uri())
        shots.append(phone.screenshot())
    side_by_side(shots, PICTURES / "report-phone.png")


def side_by_side(shots: list[bytes], place: Path) -> None:
    from PIL import Image

    images = [Image.open(io.BytesIO(shot)) for shot in shots]
    whole = Image.new("RGB", (sum(i.width for i in images) + 20 * (len(images) - 1), images[0].height), "#808890")
    left = 0
    for image in images:
        whole.paste(image, (left, 0))
        left += image.width + 20
    whole.save(place)


def shoot_studio(browser: Any, address: str) -> None:
    """Every page of the studio, and its first page on a phone."""
    wide = browser.new_page(viewport={"width": 1280, "height": 1000})
    wide.set_default_timeout(120_000)

    def shoot(name: str, path: str, ready: str, height: int = 1000) -> None:
        wide.goto(address + path)
        wide.wait_for_selector(ready)
        wide.set_viewport_size({"width": 1280, "height": height})
        wide.screenshot(path=str(PICTURES / f"{name}.png"))
        wide.set_viewport_size({"width": 1280, "height": 1000})

    shoot("studio", "", "#curve svg", 1300)
    wide.click("text=Keep this plan to compare")
    wide.wait_for_selector(".notice")
    wide.fill('[name="study.epsilon"]', "-2")
    wide.fill('[name="p0.c0.high"]', "5")
    wide.wait_for_selector('[name="p0.c0.low"][aria-invalid]')
    clip = {"x": 0, "y": 0, "width": 1280, "height": 1450}
    wide.screenshot(path=str(PICTURES / "studio-mistakes.png"), full_page=True, clip=clip)
    wide.fill('[name="p0.c0.high"]', "90")
    wide.fill('[name="study.epsilon"]', "1")
    wide.wait_for_selector("#epsilon")
    wide.check('input[name="budget"][value="parties"]')
    wide.wait_for_selector("#negotiation")
    wide.locator("#negotiation").scroll_into_view_if_needed()
    wide.wait_for_selector("#curve svg")
    wide.screenshot(path=str(PICTURES / "studio-negotiation.png"))
    shoot("studio-compare", "compare", "#compared")
    shoot("studio-curve", "curve", "svg", 900)
    wide.goto(address + "run")
    wide.screenshot(path=str(PICTURES / "studio-run.png"), clip={"x": 0, "y": 0, "width": 1280, "height": 520})
    wide.click("button.next")
    wide.wait_for_selector("button.spend")
    wide.screenshot(path=str(PICTURES / "studio-question.png"), clip={"x": 0, "y": 0, "width": 1280, "height": 560})
    shoot("studio-releases", "releases", "table", 420)
    shoot("studio-model", "releases/release-2.json", "#whatif", 1300)
    shoot("studio-tables", "releases/release-2.json/tables?a=marital_status&b=income", "svg")
    shoot("studio-rows", "releases/release-2.json/rows?count=1000", "#drawn")
    shoot("studio-ledgers", "ledgers", "meter")
    shots = []
    for scheme in ("light", "dark"):
        phone = browser.new_page(viewport={"width": 390, "height": 1400}, color_scheme=scheme)
        phone.goto(address + ("" if scheme == "light" else "releases/release-2.json"))
        shots.append(phone.screenshot())
    side_by_side(shots, PICTURES / "studio-phone.png")


def notebooks() -> None:
    """What a plan and a release's tables show of themselves in the notebooks that are kept."""
    import json

    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 820, "height": 700})
        for name, cell in (("first_study", "plan = "), ("many_questions", "release.tables()")):
            kept = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
            found = next(c for c in kept["cells"] if "".join(c["source"]).startswith(cell) and c.get("outputs"))
            html = "".join(found["outputs"][-1]["data"]["text/html"])
            page.set_content(f'<body style="font: 15px system-ui, sans-serif">{html}</body>')
            page.screenshot(path=str(PICTURES / f"notebook-{name.replace('_', '-')}.png"))
        browser.close()


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
    asked = sys.argv[1:] or ["curve", "pages", "notebooks"]
    if "curve" in asked:
        curve()
    if "pages" in asked:
        pages()
    if "notebooks" in asked:
        notebooks()


if __name__ == "__main__":
    main()

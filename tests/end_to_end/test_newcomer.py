"""A newcomer's walk: three organisations' files as they come, from nothing to a model, scores and a page.

What is typed is public knowledge, and what `check` says is to be written; nothing of the files is looked at.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.helpers.cli_study import Run, runner
from tests.helpers.messy import write_messy

run = pytest.fixture(runner)
PUBLIC = {
    '"OM azonosító"': "",
    '"Megjegyzés"': "",
    '"Születés"': 'kind = "date", earliest = 2004-01-01, latest = 2010-12-31',
    '"Jegyátlag"': 'kind = "numeric", low = 1, high = 5',
    "azonosito": "",
    "jovedelem": 'kind = "numeric", low = 0, high = 1000000',
    "telepules": 'kind = "categorical", levels = ["község", "város", "főváros"]',
    '"Kártyaszám"': "",
    '"Időpont"': "",
    '"Viteldíj (Ft)"': 'kind = "numeric", low = 0, high = 100000',
}
"""What everybody knows of the columns that a draft leaves open; nothing of those that no study needs."""
IDS = {"iskola": "OM azonosító", "onkormanyzat": "azonosito", "busz": "Kártyaszám"}
TRIPS = '{ kind = "numeric", low = 1, high = 40, integer = true, unit = "rides", description = "by bus, in spring" }'
FILLS = {"Jegyátlag": "3", "jovedelem": "200000"}


def declared(draft: str) -> str:
    """The draft with its "?" replaced, and no comment."""
    lines, party = [], ""
    for line in draft.splitlines():
        party = line.strip("[]").partition(".")[2].partition(".")[0] if line.startswith("[party.") else party
        name, _, rest = line.partition(" = ")
        if name == "id":
            rest = f'"{IDS[party]}"'
        if name in PUBLIC:
            rest = PUBLIC[name] and f"{{ {PUBLIC[name]} }}"
        if line and not line.startswith("#") and (rest or not _):
            lines.append(f"{name}{_}{rest.partition('  #')[0]}")
    return "\n".join(lines) + "\n"


def mended(study: str, findings: list[dict[str, Any]]) -> str:
    """The study with what each of the findings says is to be written."""
    for found in findings:
        party, write, name = found["party"], found["write"], found["told"].partition(":")[0]
        if write.startswith("read: "):
            keys = re.sub(r", (?=\w+ = )", "\n", write.removeprefix("read: "))
            study = study.replace(f"[party.{party}.columns]", f"[party.{party}.read]\n{keys}\n[party.{party}.columns]")
        elif write.startswith("id_form"):
            study = study.replace("[party.", f"{write}\n[party.", 1)
        elif write.startswith("missing"):
            line = next(line for line in study.splitlines() if line.replace('"', "").startswith(f"{name} = "))
            study = study.replace(line, line.replace(" }", f", {write.replace('...', FILLS.get(name, ''))} }}"))
        elif write == f"[party.{party}.people]":
            how = 'utak = { how = "count" }\n"Viteldíj (Ft)" = { how = "sum" }\n'
            study = study.replace(f"[party.{party}.columns]", f"{write}\n{how}[party.{party}.columns]\nutak = {TRIPS}")
    return study


def test_from_files_as_they_come_to_a_model_with_one_refusal(run: Run, tmp_path: Path) -> None:
    write_messy(tmp_path, 600)
    data = [str(tmp_path / name) for name in ("iskola.csv", "onkormanyzat.feather", "busz.csv.gz")]
    folder = tmp_path / "study"
    assert run("new", folder, *data, "--rows", "430", "--label", "Lemorzsolódott", "--epsilon", "20").code == 0
    path = folder / "study.toml"
    path.write_text(declared(path.read_text(encoding="utf-8")), encoding="utf-8")
    refused = run("check", path, "--json")
    faults = [f for f in refused.json["findings"] if f["fault"]]
    assert refused.code == 1 and {f["party"] for f in faults} == {*IDS, "all"}
    path.write_text(mended(path.read_text(encoding="utf-8"), refused.json["findings"]), encoding="utf-8")
    # It was complete: nothing else refuses a run.
    clean = run("check", path, "--json")
    assert clean.code == 0, clean.json["findings"]
    # Who is in all three files, by another way: the digits of the first list's ids, and whole numbers.
    school = {int(found) for found in re.findall(r"OM-(\d{7})", (tmp_path / "iskola.csv").read_text("cp1250"))}
    town = set(pl.read_ipc(tmp_path / "onkormanyzat.feather")["azonosito"].drop_nulls().cast(pl.Int64))
    bus = set(pl.read_csv(tmp_path / "busz.csv.gz", separator=";", encoding="utf8-lossy")["Kártyaszám"])
    assert clean.json["common"] == len(school & town & bus)
    out, model = folder / "release.json", folder / "model.json"
    fitted = run("fit", path, "--out", out, "--model", model, "--json")
    assert fitted.code == 0 and fitted.json["n"] == len(school & town & bus)
    scored = run("predict", model, "--study", path, "--to", "iskola", "--out", folder / "scores.csv", "--json")
    assert scored.code == 0 and scored.json["rows"] == fitted.json["n"]
    assert run("report", out, "--html", folder / "page.html").code == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "by bus, in spring" in page and "rides" in page

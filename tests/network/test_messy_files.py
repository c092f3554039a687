"""Messy files across machines: each site reads its own in its own forms, and the release is that of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from demo.network import Deployment
from tests.helpers.messy import write_messy

pytest.importorskip("nvflare", reason="the extra flare is not installed")
FILES = {"iskola": "iskola.csv", "onkormanyzat": "onkormanyzat.feather", "busz": "busz.csv.gz"}
READ = {
    "iskola": 'separator = "|"\ndecimal = ","\nencoding = "cp1250"\ndates = "%Y.%m.%d."\nmissing = ["–"]\n'
    'true = ["igen"]\nfalse = ["nem"]\nskip = 2\n',
    "busz": 'separator = ";"\ndecimal = ","\nthousands = " "\n',
}
STUDY = """[study]
name = "school"
task = "logistic"
label = "iskola.Lemorzsolódott"
epsilon = 20.0
id_form = ["strip", "digits", "zeros"]

[party.iskola]
data = "iskola.csv"
id = "OM azonosító"
{iskola}[party.iskola.columns]
"Jegyátlag" = {{ kind = "numeric", low = 1, high = 5, missing = "indicator", fill = 3 }}
"Bejáró" = {{ kind = "boolean" }}
"Lemorzsolódott" = {{ kind = "boolean" }}

[party.onkormanyzat]
data = "onkormanyzat.feather"
id = "azonosito"
[party.onkormanyzat.columns]
jovedelem = {{ kind = "numeric", low = 0, high = 1000000, bins = [150000, 250000], missing = "level" }}
telepules = {{ kind = "categorical", levels = ["község", "város", "főváros"] }}

[party.busz]
data = "busz.csv.gz"
id = "Kártyaszám"
{busz}[party.busz.people]
utak = {{ how = "count" }}
"Viteldíj (Ft)" = {{ how = "sum" }}
[party.busz.columns]
utak = {{ kind = "numeric", low = 1, high = 40, integer = true }}
"Viteldíj (Ft)" = {{ kind = "numeric", low = 0, high = 100000 }}
"""
SEED = "0f11e5"


def test_sites_read_their_own_forms_and_the_release_is_that_of_one_process(tmp_path: Path) -> None:
    write_messy(tmp_path, 400)
    forms = {party: f"[party.{party}.read]\n{lines}" for party, lines in READ.items()}
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(**forms), encoding="utf-8")
    with Deployment(path, tmp_path / "sites", seed=SEED) as sites:
        for party, file in FILES.items():
            sites.fill_in(party, tmp_path / file, smallest_rows="2", epsilon="90.0")
            assert "separator" not in (sites.folder / party / "study.toml").read_text(encoding="utf-8")
            if party in READ:
                with (sites.folder / party / "site.toml").open("a", encoding="utf-8") as site:
                    site.write(f"\n[site.read]\n{READ[party]}")
            sites.command("check", str(sites.folder / party))
        for name in ("server", *FILES):
            sites.start(name)
        done = sites.run(tmp_path / "network.json")
        assert done.returncode == 0, (done.stderr, [sites.said(name) for name in sites.sites])
        sites.command("fit", str(path), "--out", str(tmp_path / "alone.json"), "--seed", SEED)
        assert (tmp_path / "network.json").read_bytes() == (tmp_path / "alone.json").read_bytes()

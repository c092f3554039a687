"""The notebooks run from top to bottom, are made of the programs beside them, and are kept with what they show."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

nbformat = pytest.importorskip("nbformat", reason="the extra notebooks is not installed")
pytest.importorskip("nbclient", reason="the extra notebooks is not installed")

ROOT = Path(__file__).resolve().parents[2]
PEOPLE = 4000
"""As many people of the demo stay in its files, so that a notebook takes seconds."""


def _writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_notebooks", ROOT / "notebooks" / "write.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


writer = _writer()


def test_every_program_has_its_notebook() -> None:
    programs = {path.stem for path in (ROOT / "notebooks").glob("*.py")} - {"write"}
    assert programs == set(writer.NAMES) == {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}


@pytest.mark.parametrize("name", writer.NAMES)
def test_the_kept_notebook_is_the_programs_and_shows_its_objects(name: str) -> None:
    kept = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    made = writer.notebook_of(name)
    assert [(c.cell_type, c.source) for c in kept.cells] == [(c.cell_type, c.source) for c in made.cells]
    shown = [output for cell in kept.cells for output in cell.get("outputs", [])]
    assert not [output for output in shown if output.output_type == "error"]
    assert any('<div class="colonnade">' in output.get("data", {}).get("text/html", "") for output in shown)
    assert any("<svg" in output.get("data", {}).get("text/html", "") for output in shown)
    text = nbformat.writes(kept)
    assert "site-packages" not in text and str(ROOT) not in text


@pytest.mark.parametrize("name", writer.NAMES)
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "notebooks"
    folder.mkdir()
    shutil.copytree(ROOT / "demo", tmp_path / "demo", ignore=shutil.ignore_patterns("*.json", "*.html", "__pycache__"))
    for path in (tmp_path / "demo").glob("*.csv"):
        everyone = pl.read_csv(path, infer_schema=False)
        keep = pl.col("person").str.slice(2, 1).is_in(list("0123"))
        everyone.filter(keep).head(PEOPLE).write_csv(path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("JUPYTER_ALLOW_INSECURE_WRITES", "1")
    for key in ("IPYTHONDIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(key, str(tmp_path / key.lower()))
    kernel = tmp_path / "jupyter_data_dir" / "kernels" / "python3"
    kernel.mkdir(parents=True)
    command = f'["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"]'
    (kernel / "kernel.json").write_text(f'{{"argv": {command}, "display_name": "Python 3", "language": "python"}}')
    made = writer.run(writer.notebook_of(name), folder)
    assert all(cell.execution_count for cell in made.cells if cell.cell_type == "code")

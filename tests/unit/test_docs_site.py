"""The documentation as a site: it builds without a warning, asks nothing of a network, and its search finds words."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FETCHED = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="(?:https?:)?//[^"]+"|url\((?:https?:)?//')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="the extra docs is not installed")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return out


def plain(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>|[*_`]", "", text).lower().split())


def test_search_finds_the_page_of_each_word(site: Path) -> None:
    """The glossary's own, and the page that a word's line names first."""
    entries = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    pages: dict[str, str] = {}
    for entry in entries:
        page = entry["location"].partition("#")[0]
        pages[page] = f"{pages.get(page, '')} {plain(entry['title'])} {plain(entry['text'])}"
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    lines = re.findall(r"^- (\*\*.*?)(?=^- \*\*|^#|\Z)", glossary, re.MULTILINE | re.DOTALL)
    assert len(lines) > 50
    for line in lines:
        for word in re.findall(r"\*\*([^*]+)\*\*", line.partition(":")[0]):
            assert plain(word) in pages["docs/glossary/"], word
        for target in re.findall(r"\]\(([\w-]+)\.md", line)[:1]:
            assert f"docs/{target}/" in pages, f"{target} is not in the site"


def test_nothing_is_fetched_by_a_reader(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 50
    found = {path.name: FETCHED.findall(path.read_text(encoding="utf-8")) for path in pages}
    # Material would load a script of others for this class.
    assert not [path for path in pages if 'class="mermaid"' in path.read_text(encoding="utf-8")]
    assert not {name: urls for name, urls in found.items() if urls}


def test_the_protocol_has_its_drawings(site: Path) -> None:
    page = (site / "docs" / "protocol" / "index.html").read_text(encoding="utf-8")
    assert page.count('<svg viewBox="0 0 460') == 2
    for state in ("entered", "aligning", "released", "gathering"):
        assert f">{state}</text>" in page


def test_every_page_is_in_the_site(site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        place = site / "docs" / ("" if page.name == "README.md" else page.stem) / "index.html"
        assert place.is_file(), page.name

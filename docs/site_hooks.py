"""Gathers the pages of the documentation site: `make docs` calls this by mkdocs.

README, docs, proofs and notebooks keep their places, so that links between them hold. Folders that are linked to get a
page that lists what is in them, drawings of states become pictures, and notebooks become pages.
"""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "build" / "site-source"
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENCES.md", "LICENSE", "CITATION.cff")
FOLDERS = ("docs", "proofs", "notebooks", "demo")
KEPT = {".md", ".png", ".svg", ".csv", ".json", ".toml"}
LISTED = {"proofs": "Proofs", "docs/results": "Results", "notebooks": "Notebooks"}
NAVIGATION: dict[str, tuple[str, ...]] = {
    "Start": ("README.md", "docs/install.md", "docs/tutorial.md", "docs/README.md", "docs/related-work.md"),
    "Analyse": (
        *("docs/study-file.md", "docs/choosing.md", "docs/data.md", "docs/release.md", "docs/uncertainty.md"),
        *("docs/interactions.md", "docs/predict-and-evaluate.md", "docs/studio.md", "notebooks/*.md"),
    ),
    "Sign and run": tuple(
        f"docs/{name}.md"
        for name in (
            *("signer", "policy", "ledger", "deployment", "administrator", "troubleshooting", "sizing"),
            "accountability",
        )
    ),
    "Trust": (
        *("docs/threat-model.md", "docs/secure-product.md", "docs/alignment.md", "docs/audit.md", "docs/paper.md"),
        *("proofs/*.md", "docs/results/*.md"),
    ),
    "Reference": ("docs/api.md", "docs/cli.md", "docs/glossary.md", "docs/protocol.md", "docs/architecture.md"),
    "Project": (
        *("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENCES.md"),
        *("docs/decisions/*.md", "docs/*.md", "demo/*.md"),
    ),
}
"""Tabs, and the pages under each; a page stands under the first that names it."""
_LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)")
_BLOCK = re.compile(r"^```mermaid\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"(^```.*?^```\s*$)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Called by mkdocs before it looks for pages."""
    gather()
    config["docs_dir"] = str(SOURCE)
    config["nav"] = navigation()
    return config


def gather() -> None:
    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    for name in TOP:
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, SOURCE / name)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")) if (ROOT / folder).is_dir() else ():
            place = SOURCE / path.relative_to(ROOT)
            if path.suffix == ".ipynb" and ".ipynb_checkpoints" not in path.parts:
                write(place.with_suffix(".md"), page_of_notebook(json.loads(path.read_text(encoding="utf-8"))))
            elif path.suffix in KEPT:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, place)
    for folder, title in LISTED.items():
        if (SOURCE / folder).is_dir():
            write(SOURCE / folder / "README.md", listing(SOURCE / folder, title))
    for page in SOURCE.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        write(page, link_pages(_BLOCK.sub(lambda block: picture(block[1]), text), page))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def title_of(page: Path) -> str:
    found = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return re.sub(r"[`*]", "", found[1]) if found else page.stem


def listing(folder: Path, title: str) -> str:
    pages = [page for page in sorted(folder.glob("*.md")) if page.name != "README.md"]
    return "\n".join([f"# {title}", "", *(f"- [{title_of(page)}]({page.name})" for page in pages), ""])


def link_pages(text: str, page: Path) -> str:
    """A link to a folder leads to the page of the folder, one to a notebook to its page."""

    def link(match: re.Match[str]) -> str:
        target = match[2]
        if target.endswith(".ipynb"):
            target = f"{target.removesuffix('.ipynb')}.md"
        elif (page.parent / target).is_dir():
            target = f"{target.rstrip('/')}/README.md"
        return match[1] + target

    parts = _FENCED.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)


def navigation() -> list[dict[str, list[dict[str, str]]]]:
    seen: set[str] = set()
    tabs = []
    for tab, patterns in NAVIGATION.items():
        pages = [page for pattern in patterns for page in sorted(SOURCE.glob(pattern))]
        names = list(dict.fromkeys(page.relative_to(SOURCE).as_posix() for page in pages))
        fresh = [name for name in names if name not in seen]
        seen.update(fresh)
        if fresh:
            tabs.append({tab: [{title_of(SOURCE / name): name} for name in fresh]})
    return tabs


def page_of_notebook(content: dict[str, Any]) -> str:
    """Text, code and what the code printed; pictures are left to the notebook itself."""
    parts = []
    for cell in content.get("cells", []):
        source = "".join(cell.get("source", "")).rstrip()
        if cell.get("cell_type") == "markdown":
            parts.append(source)
        elif cell.get("cell_type") == "code" and source:
            parts.append(f"```python\n{source}\n```")
            told = "".join(
                "".join(out.get("text") or out.get("data", {}).get("text/plain", "")) for out in cell.get("outputs", [])
            ).rstrip()
            parts += [f"```text\n{told}\n```"] if told else []
    return "\n\n".join([*parts, ""])


STEP, LEFT, WIDTH, BOX = 58, 130, 150, 30


def picture(diagram: str) -> str:
    """A drawing of states, from top to bottom in the order in which they are reached; arrows that skip bend aside."""
    arrows = re.findall(r"^\s*(\w+) --> (\w+): (.+)$", diagram, re.MULTILINE)
    states = list(dict.fromkeys(name for row in arrows for name in row[:2]))
    # A state stands below all that lead to it.
    for _ in states:
        for start, end, _told in arrows:
            if states.index(end) < states.index(start):
                states.insert(states.index(start), states.pop(states.index(end)))
    y = {name: 10 + STEP * i for i, name in enumerate(states)}
    told: dict[tuple[str, str], list[str]] = {}
    for start, end, word in arrows:
        told.setdefault((start, end), []).append(word)
    parts, bends = [], 0
    for (start, end), words in told.items():
        label, top, low = html.escape(", ".join(words)), y[start] + BOX, y[end]
        if states.index(end) == states.index(start) + 1:
            x = LEFT + WIDTH // 2
            parts.append(f'<path d="M{x} {top} V{low - 2}" marker-end="url(#tip)"/>')
            parts.append(f'<text x="{x + 8}" y="{(top + low) // 2 + 4}">{label}</text>')
        else:
            bends += 1
            x, side = LEFT, LEFT - 30 - 20 * bends
            start_y, end_y = y[start] + BOX // 2, low + BOX // 2
            curve = f"M{x} {start_y} C{side} {start_y} {side} {end_y} {x - 2} {end_y}"
            parts.append(f'<path d="{curve}" marker-end="url(#tip)"/>')
            parts.append(f'<text x="4" y="{(start_y + end_y) // 2}">{label}</text>')
    boxes = [
        f'<rect x="{LEFT}" y="{top}" width="{WIDTH}" height="{BOX}" rx="6"/>'
        f'<text x="{LEFT + WIDTH // 2}" y="{top + 20}" text-anchor="middle">{name}</text>'
        for name, top in y.items()
    ]
    height = 20 + STEP * (len(states) - 1) + BOX
    drawn = "".join([*parts, *boxes])
    return (
        f'<svg viewBox="0 0 460 {height}" width="460" height="{height}" role="img" aria-label="States and what leads '
        'from one to the next" font-size="13" fill="currentColor" xmlns="http://www.w3.org/2000/svg"><defs><marker '
        'id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path '
        'd="M0 0 L8 4 L0 8 z" stroke="none"/></marker></defs><style>svg[role=img] path, svg[role=img] rect '
        "{fill:none;stroke:currentColor} svg[role=img] marker path {fill:currentColor;stroke:none}</style>"
        f"{drawn}</svg>\n"
    )

"""Every code block of README and docs runs: python, shell with the demo's files, and study files."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.main import get_command

from colonnade.analysis import from_moments
from colonnade.analysis import solve as solving
from colonnade.analysis.plausible import plausible_records
from colonnade.cli import app as cli
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.schema import column_from
from colonnade.mechanism.objective import Task
from colonnade.protocol.messages import Step
from colonnade.study import PARTY_KEYS, STUDY_KEYS, study_from
from tests.helpers.releases import make_records, release_of

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "proofs").glob("*.md")])
PEOPLE = 900
"""As many people of the demo stay in its files, so that a block takes a second."""
SHELLS = ("bash", "sh", "console")
LANGUAGES = (*SHELLS, "python", "toml", "json", "text", "mermaid")

_BLOCK = re.compile(r"^```(?P<language>\S*)[^\n]*\n(?P<body>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)(?P<target>[^)#\s]+)")


@dataclass(frozen=True)
class CodeBlock:
    document: Path
    line: int
    language: str
    body: str


def blocks_of(document: Path) -> Iterator[CodeBlock]:
    text = document.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield CodeBlock(document, line, match["language"], match["body"])


def name_of(value: CodeBlock | Path) -> str:
    if isinstance(value, Path):
        return value.relative_to(ROOT).as_posix()
    return f"{name_of(value.document)}:{value.line}"


BLOCKS = [block for document in DOCUMENTS for block in blocks_of(document)]


def of(*languages: str) -> list[Path]:
    """The documents that have a block in one of these languages."""
    return sorted({block.document for block in BLOCKS if block.language in languages})


@pytest.fixture(scope="session")
def small_demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of demo/ with fewer people and a larger epsilon."""
    folder = tmp_path_factory.mktemp("docs") / "demo"
    folder.mkdir()
    frames = {path.name: pl.read_csv(path, infer_schema=False) for path in sorted((ROOT / "demo").glob("*.csv"))}
    everyone = sorted(set().union(*(frame.get_column("person").to_list() for frame in frames.values())))[:PEOPLE]
    for name, frame in frames.items():
        frame.filter(pl.col("person").is_in(everyone)).write_csv(folder / name)
    # So few people would drown in the demo's noise, and rows no better than independent columns are refused.
    text = (ROOT / "demo" / "study.toml").read_text(encoding="utf-8")
    assert text.count("epsilon = 1.0\n") == 1
    (folder / "study.toml").write_text(text.replace("epsilon = 1.0\n", "epsilon = 40.0\n"), encoding="utf-8")
    return folder


@pytest.fixture
def place(small_demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like the repository's root to a document's blocks."""
    shutil.copytree(small_demo, tmp_path / "demo")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(block: CodeBlock) -> str:
    """What a reader would type."""
    if block.language != "console":
        return block.body
    lines = re.findall(r"^\$ ((?:[^\n]*\\\n)*[^\n]*)$", block.body, re.MULTILINE)
    assert lines, f"{name_of(block)}: a console block needs a line that starts with '$ '"
    return "\n".join(lines)


def test_blocks_are_found() -> None:
    found = {block.language for block in blocks_of(ROOT / "README.md")}
    assert {"python", "bash"} <= found


def test_language_is_known() -> None:
    unknown = [name_of(block) for block in BLOCKS if block.language not in LANGUAGES]
    assert not unknown, f"name the block's language, one of {', '.join(LANGUAGES)}: {unknown}"


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("document", of("python"), ids=name_of)
def test_python_runs(document: Path, place: Path) -> None:
    """A document's blocks share one namespace, as a reader's session would."""
    session: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(document):
        if block.language == "python":
            # Leading newlines put the block's own line number into a traceback.
            exec(compile("\n" * block.line + block.body, str(document), "exec"), session)


@pytest.mark.parametrize("document", of(*SHELLS), ids=name_of)
def test_shell_runs(document: Path, place: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in blocks_of(document):
        if block.language in SHELLS:
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", commands(block)],
                env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, f"{name_of(block)}: {done.stderr}"


def _typed() -> Iterator[tuple[str, list[str]]]:
    """Every `colonnade ...` of a page, in a block or in the text, up to what a shell does with it."""
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8").replace("\\\n", " ")
        lines = [
            line.strip().removeprefix("$ ") for block in _BLOCK.finditer(text) for line in block["body"].splitlines()
        ]
        spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", _BLOCK.sub("", text))]
        for line in (*lines, *spans):
            if line.startswith("colonnade "):
                yield f"{name_of(document)}: {line}", re.split(r"\s(?:[#>|(]|  )", line)[0].split()[1:]


def test_every_command_that_a_page_names_exists_with_its_options() -> None:
    app: Any = get_command(cli)
    unknown = []
    for place, words in _typed():
        command = app
        while words and hasattr(command, "commands"):
            command = command.commands.get(words.pop(0))
        shown = [p for p in getattr(command, "params", ()) if not getattr(p, "hidden", False)]
        options = {"--help", *(name for p in shown for name in (*p.opts, *p.secondary_opts))}
        asked = {word.strip("[],.").partition("=")[0] for word in words if word.startswith(("-", "[-"))}
        if command is None or asked - options:
            unknown.append(place)
    assert not unknown


def test_toml_is_accepted(tmp_path: Path) -> None:
    refused = []
    for block in (block for block in BLOCKS if block.language == "toml"):
        try:
            content = tomllib.loads(block.body)
            if "study" in content and "party" in content:
                study_from(content, tmp_path)
            for party in content.get("party", {}).values():
                for name, column in party.get("columns", {}).items():
                    column_from(name, column)
        except (ColonnadeError, tomllib.TOMLDecodeError) as error:
            refused.append(f"{name_of(block)}: {error}")
    assert not refused


def test_study_keys_are_explained() -> None:
    rows = re.findall(r"^\| ([^|]*)\|", (ROOT / "docs" / "study-file.md").read_text(encoding="utf-8"), re.MULTILINE)
    silent = [key for key in sorted({*STUDY_KEYS, *PARTY_KEYS}) if not any(f"`{key}`" in row for row in rows)]
    assert not silent, f"docs/study-file.md must explain {silent}"


def test_links_lead_somewhere() -> None:
    broken = [
        f"{name_of(document)} links to {match['target']}"
        for document in DOCUMENTS
        for match in _LINK.finditer(_BLOCK.sub("", document.read_text(encoding="utf-8")))
        if not (document.parent / match["target"]).exists()
    ]
    assert not broken, "\n".join(broken)


def test_the_index_names_every_page_once() -> None:
    folder = ROOT / "docs"
    listed = (folder / "README.md").read_text(encoding="utf-8").partition("## All pages")[2]
    named = re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", listed, re.MULTILINE)
    pages = {page.name for page in folder.glob("*.md")} - {"README.md"} | {"decisions/README.md"}
    assert sorted(named) == sorted(pages)


def test_the_glossary_says_each_word_once() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    words = [word for line in re.findall(r"^- (\*\*[^:]+):", text, re.MULTILINE) for word in line.split(", ")]
    assert len(words) == len(set(words)) > 60
    for word in ("release", "block", "coordinate", "guard", "booking", "composition", "privacy budget"):
        assert f"**{word}**" in words


_MENTIONED = re.compile(r"(?<![\w/.*{}$-])((?:[\w-]+/|\.\./)*[\w-]+\.(?:md|py))\b(?![\w(])")
_UNSEEN = re.compile(r"\b[Tt]he design(?:'s|\s+(?:asks|says|wants))\b|\bas (?:first )?designed\b")
MADE_UP = {
    f"tests/{name}.py"
    for name in (
        "unit/test_docs",
        "unit/test_house",
        "unit/test_proofs",
        "end_to_end/test_alignment_workers",
        "network/test_flare",
    )
}
"""Tests that write files of such names, or name some that do not exist on purpose."""


def files_of_the_repository() -> list[str]:
    """What a clone has, or would have once everything is committed."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    told = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True)
    if told.returncode:
        pytest.skip("not a clone")
    return [name for name in told.stdout.splitlines() if (ROOT / name).is_file()]


def unknown_documents(text: str, files: list[str]) -> list[str]:
    """Documents and programs that a text names and that are not in the repository."""
    ends = {"/".join(parts[i:]) for name in files for parts in [name.split("/")] for i in range(len(parts))}
    found = [mention for mention in _MENTIONED.findall(text) if re.sub(r"^(\.\./)+", "", mention) not in ends]
    return found + _UNSEEN.findall(text)


def test_every_document_that_is_named_exists() -> None:
    files = files_of_the_repository()
    named = [name for name in files if name.endswith((".md", ".py", ".toml")) and name not in MADE_UP]
    unknown = {name: unknown_documents((ROOT / name).read_text(encoding="utf-8"), files) for name in named}
    assert not {name: found for name, found in unknown.items() if found}


def test_a_document_that_is_not_there_is_noticed() -> None:
    files = ["docs/paper.md", "src/colonnade/mechanism/plan.py"]
    text = f"see {'PRIVACY'}.md, docs/paper.md and mechanism/plan.py; {'the'} design asks for it; {'nowhere'}.py"
    assert unknown_documents(text, files) == ["PRIVACY.md", "nowhere.py", "the design asks"]


def test_no_document_denies_that_a_party_knows_its_own_sums() -> None:
    """Single-party blocks are computed in the clear by their owner (`exact_block`)."""
    for document in DOCUMENTS:
        for sentence in re.split(r"(?<=[.:])\s", document.read_text(encoding="utf-8")):
            if re.search(r"\b[Nn]o(?:body| one)\b[^.]*\bexact sums?\b", sentence):
                assert re.search(r"exact sums? (?:over two|across)", sentence), f"{name_of(document)}: {sentence}"
    assert "own columns a party computes itself" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_page_says_what_the_default_logistic_fit_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is fitted to plausible records, and is not the paper's estimator; the page says both while that is so."""
    text = (ROOT / "docs" / "release.md").read_text(encoding="utf-8")
    assert "**Logistic regression is not the paper's estimator.**" in text
    assert "*plausible records*" in text and f"more than {from_moments.MOST_COLUMNS} columns" in text
    used = []
    monkeypatch.setattr(
        from_moments, "plausible_records", lambda *given: used.append(given) or plausible_records(*given)
    )
    moments = release_of(make_records(500, 4, logistic=True), 1e-4, 1e-4, 1, indicators=True)
    solving.solve(moments, Task.LOGISTIC)
    assert used


def test_the_protocol_page_is_drawn_from_the_table_that_drives_the_code() -> None:
    from docs import write_protocol

    page = write_protocol.PAGE.read_text(encoding="utf-8")
    assert page == write_protocol.drawn(page), "run python docs/write_protocol.py"
    for place, text in write_protocol.tables().items():
        assert place.read_text(encoding="utf-8") == text, "run python docs/write_protocol.py"
        assert f"({place.name})" in page
    for message in Step:
        assert f"| {message.name} |" in page, f"docs/protocol.md must tell of {message.name}"


def test_prose_is_wrapped() -> None:
    """Tables, code and headings may be longer; so may what a command writes at the end of a long run."""
    from docs.wrap import WIDTH, too_long

    written = [d for d in DOCUMENTS if d.parent.name != "results" and d.name != "audit.md"]
    wide = [name_of(d) for d in written if too_long(d.read_text(encoding="utf-8"))]
    assert not wide, f"python docs/wrap.py {' '.join(wide)} wraps lines above {WIDTH}"


def test_wrapping_changes_no_word_and_no_meaning() -> None:
    from docs.wrap import WIDTH, wrap

    text = (
        "- "
        + "word `a code span` and [a link](page.md#part) then > 5 or - 3, 1. or # " * 9
        + "\n\n| "
        + "x" * 200
        + " |\n"
    )
    wrapped = wrap(text)
    assert wrapped.split() == text.split() and wrap(wrapped) == wrapped
    *prose, _, table = wrapped.splitlines()
    assert max(map(len, prose)) <= WIDTH < len(table) and len(prose) > 3
    assert all(line.startswith("  ") and not re.match(r"\s+([-+*#>]|\d+\.)", line) for line in prose[1:])
    assert wrapped.count("`a code span`") == 9


def test_every_row_of_who_does_what_names_a_test_that_exists() -> None:
    text = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    table = text[text.index("**Who does what, and what comes of it.**") : text.index("**What is not.**")]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| who ")]
    assert len(rows) > 20 and [row for row in rows if not re.search(r"`test_\w+` \|$", row)] == []
    named = set(re.findall(r"`(test_\w+)`", text))
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 10 and {name for name in named if f"def {name}(" not in sources} == set()


def test_every_fault_of_the_table_has_its_test_or_drill() -> None:
    """A row without one could say anything."""
    from drills.__main__ import COMMANDS

    with (ROOT / "docs" / "results" / "faults.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    assert len(rows) > 20 and all(len(row) == 3 for row in rows)
    named = [row[2] for row in rows]
    assert len(set(named)) == len(named)
    for name in named:
        if name.startswith("drills "):
            assert name.removeprefix("drills ") in COMMANDS, name
        else:
            path, _, test = name.partition("::")
            assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), name

"""What people read is in the words of the field: pages, messages and templates, and nothing of what they replaced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REPLACED = {
    r"foret(?:old|ells?)": "predicted, forecast",
    r"drown(?:s|ed)?": "not estimable",
    r"onlookers?": "adversary",
    r"who looks": "by adversary",
    r"cheat(?:s|ed|ing|er|ers)?|liars?": "a party that deviates",
    r"cross tables?": "contingency table",
    r"record is worth": "privacy budget",
    r"privacy officer": "data protection officer",
    r"laws of (?:the )?noise|known laws": "distribution",
    r"front door": "interface",
    r"sealed or masked": "encrypted or masked",
    r"[Nn]oise (?:is )?spread": "the budget is allocated to",
}
"""As regular expressions, each with what is written instead. Keys of files, of the wire and of `--json` stay."""
FIELD = (
    *("distribution", "privacy budget", "privacy loss", "contingency table", "marginal", "confidence interval"),
    *("threat model", "composition", "private set intersection", "federated", "synthetic data", "record linkage"),
)


def pages() -> list[Path]:
    """Those that people read; decisions are a record of their day."""
    docs = [page for page in (ROOT / "docs").rglob("*.md") if "decisions" not in page.parts]
    return [ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md", ROOT / "demo" / "README.md", *docs]


def messages() -> Iterator[tuple[str, str]]:
    """Texts in the package but its docstrings, with the templates of pages."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        strings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in strings:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value
    for path in sorted((ROOT / "src").rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        yield str(path.relative_to(ROOT)), re.sub(r"\{[%{].*?[%}]\}|id=\"\w+\"", "", text, flags=re.DOTALL)


def replaced(text: str) -> list[str]:
    return [
        f"{found[0]}: {instead}"
        for word, instead in REPLACED.items()
        for found in re.finditer(rf"\b(?:{word})\b", text)
    ]


def test_a_replaced_word_is_noticed() -> None:
    assert replaced("noise drowns it, as was foretold") == ["foretold: predicted, forecast", "drowns: not estimable"]
    assert replaced("if_a_party_cheats") == []


def test_pages_have_none_of_the_words_that_were_replaced() -> None:
    found = {str(page.relative_to(ROOT)): replaced(page.read_text(encoding="utf-8")) for page in pages()}
    assert not {name: words for name, words in found.items() if words}


def test_messages_have_none_of_the_words_that_were_replaced() -> None:
    found = [(place, replaced(text)) for place, text in messages() if " " in text]
    assert not [one for one in found if one[1]]


def test_the_words_of_the_field_occur() -> None:
    text = " ".join(" ".join(page.read_text(encoding="utf-8").lower().split()) for page in pages())
    assert not [word for word in FIELD if word not in text]

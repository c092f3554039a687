"""Prose of at most 120 characters a line: `python docs/wrap.py FILE...` wraps what is longer, `--check` names it.

Only paragraphs and list items with a longer line are touched, and no word changes. Tables, code, headings and HTML stay
as they are; code spans, formulas and link targets are not broken.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

WIDTH = 120
FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"(\s*(?:[-*+]|\d+[.)])\s+)(?=\S)")
QUOTE = re.compile(r"(\s*>\s?)")
FIXED = re.compile(r"\s*(\||<|#|!!!|\?\?\?|\[[^\]]+\]:|---$|===+$|\$\$)")
ATOM = re.compile(r"(`+)(?:.(?!\1))*.\1|\$[^$\n]+\$|\]\([^)]*\)")
MARKUP = re.compile(r"([-+*]+|\d+[.)]|=+)$|[>|#]")
"""A word that would mean something at the beginning of a line."""


def blocks(lines: list[str]) -> Iterator[tuple[list[str], bool]]:
    """Runs of lines, and whether each is a paragraph or an item that may be wrapped."""
    fenced, run = False, list[str]()
    for line in lines:
        if FENCE.match(line) or fenced:
            if run:
                yield run, True
                run = []
            fenced ^= bool(FENCE.match(line))
            yield [line], False
        elif not line.strip() or FIXED.match(line):
            if run:
                yield run, True
                run = []
            yield [line], False
        else:
            if run and (ITEM.match(line) or bool(QUOTE.match(line)) != bool(QUOTE.match(run[0]))):
                yield run, True
                run = []
            run.append(line)
    if run:
        yield run, True


def words(text: str) -> list[str]:
    """What stands between spaces, with atoms whole."""
    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(found[0])
        return f"\0{len(held) - 1}\0"

    marked = ATOM.sub(hold, text)
    return [re.sub(r"\0(\d+)\0", lambda m: held[int(m[1])], word) for word in marked.split()]


def wrap_block(run: list[str]) -> list[str]:
    if all(len(line) <= WIDTH for line in run) or any(line.endswith(("  ", "\\")) for line in run):
        return run
    quoted, item = QUOTE.match(run[0]), ITEM.match(run[0])
    lead = item[1] if item else quoted[1] if quoted else run[0][: len(run[0]) - len(run[0].lstrip())]
    rest = " " * len(lead) if item else lead
    parts = [QUOTE.sub("", line, count=1) if quoted else line for line in run[1:]]
    out: list[list[str]] = [[]]
    for word in words(" ".join([run[0][len(lead) :], *parts])):
        if out[-1] and len(lead) + len(" ".join([*out[-1], word])) > WIDTH:
            out.append([])
            # No line begins with a word that would mean something there.
            while MARKUP.match(word) and len(out[-2]) > 1:
                out[-1].insert(0, word)
                word = out[-2].pop()
            out[-1].insert(0, word)
        else:
            out[-1].append(word)
    return [(rest if i else lead) + " ".join(line) for i, line in enumerate(out)]


def wrap(text: str) -> str:
    """The same prose, wrapped."""
    lines = [line for run, may in blocks(text.splitlines()) for line in (wrap_block(run) if may else run)]
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")


def too_long(text: str) -> list[str]:
    """Lines that `wrap` would change."""
    return [
        line
        for run, may in blocks(text.splitlines())
        if may and wrap_block(run) != run
        for line in run
        if len(line) > WIDTH
    ]


def main() -> int:
    check = "--check" in sys.argv
    found = 0
    for path in (Path(name) for name in sys.argv[1:] if name != "--check"):
        text = path.read_text(encoding="utf-8")
        if wrap(text) == text:
            continue
        found += 1
        if check:
            print(f"{path}: {len(too_long(text))} lines of prose are longer than {WIDTH}")
        else:
            path.write_text(wrap(text), encoding="utf-8")
    return int(check and found > 0)


if __name__ == "__main__":
    sys.exit(main())

"""Put what `make demo` prints into README.md, cut to its main parts: `make demo | python docs/write_demo.py`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"
PLACE = re.compile(r"(?<=<!-- demo -->\n).*?(?=<!-- /demo -->)", re.DOTALL)
STARTS = (r"\S+: \w+ regression of", "Epsilon, by whose data", "Spent:", "Traffic of", "Judged on")
"""How the paragraphs begin that are shown."""


def shown(output: str) -> str:
    lines = "\n".join(line.rstrip() for line in output.splitlines())
    # The table of epsilons has an empty line before its last row.
    paragraphs = re.split(r"\n\n+(?!all )", lines)
    found = [re.search(rf"^(?:{'|'.join(STARTS)}).*", paragraph, re.DOTALL | re.MULTILINE) for paragraph in paragraphs]
    parts = [match[0] for match in found if match]
    if len(parts) != len(STARTS):
        sys.exit(f"the output of make demo must have {len(STARTS)} parts to show, got {len(parts)}")
    return "\n\n".join(parts)


if __name__ == "__main__":
    block = f"```text\n{shown(sys.stdin.read())}\n```\n"
    README.write_text(PLACE.sub(lambda _: block, README.read_text(encoding="utf-8"), count=1), encoding="utf-8")

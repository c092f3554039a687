"""A small study in a folder, and a way to run the command line on it inside the test's process."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from colonnade.cli import main

STUDY = """[study]
name = "pay"
task = "logistic"
label = "works.rich"
epsilon = 40.0
delta = 0
collusion = 1
product = "lattice"
alignment = "psi"

[party.works]
data = "works.csv"
id = "person"
[party.works.columns]
hours = { kind = "numeric", low = 0, high = 80 }
job = { kind = "categorical", levels = ["clerk", "smith", "baker"] }
rich = { kind = "binary", levels = ["no", "yes"] }

[party.bank]
data = "bank.csv"
id = "person"
[party.bank.columns]
savings = { kind = "numeric", low = 0, high = 1000 }
"""

PEOPLE = 240


def write_study(folder: Path, people: int = PEOPLE) -> None:
    """Two files whose rich people save more and work longer; the bank knows ten of them not, and has another order."""
    draw = random.Random(7)
    works, bank = ["person,hours,job,rich"], []
    for k in range(people):
        savings = draw.uniform(0, 1000)
        hours = draw.uniform(20, 60)
        rich = savings + 5 * hours + draw.gauss(0, 60) > 700
        works.append(f"p{k},{hours:.1f},{draw.choice(['clerk', 'smith', 'baker'])},{'yes' if rich else 'no'}")
        bank.append(f"p{k},{savings:.0f}")
    bank = bank[min(10, people // 10) :]
    draw.shuffle(bank)
    (folder / "works.csv").write_text("\n".join(works) + "\n")
    (folder / "bank.csv").write_text("\n".join(["person,savings", *bank]) + "\n")
    (folder / "study.toml").write_text(STUDY)


@dataclass(frozen=True)
class Answer:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        content = json.loads(self.out)
        assert isinstance(content, dict)
        return content


Run = Callable[..., Answer]


def runner(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs `colonnade` with the given arguments as the installed command would."""

    def run(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["colonnade", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capfd.readouterr()
        code = left.value.code
        return Answer(code if isinstance(code, int) else 0, out, err)

    return run

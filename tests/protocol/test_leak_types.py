"""mypy rejects a leak: an ExactBlock cannot be handed to anything that makes a message."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]
PREAMBLE = """
from __future__ import annotations

import numpy as np

from colonnade.crypto.product import Contribution
from colonnade.mechanism.blocks import ExactBlock, NoisyBlock, perturb
from colonnade.protocol.submissions import Masked, submission

exact = ExactBlock(np.zeros(2, dtype=np.int64))
noisy: NoisyBlock = perturb(exact, np.ones(2, dtype=np.int64))
mask = np.zeros(2, dtype=np.uint64)
places = {0: np.arange(2)}
nothing = Contribution(np.zeros(0, dtype=np.uint64))
"""
CLEAN = """
masked: Masked = Masked.of({0: noisy}, places, nothing, mask, 64)
pieces: list[bytes] = submission(masked)
"""
LEAKS = {
    "an exact block among the noisy ones": (
        "Masked.of({0: exact}, places, nothing, mask, 64)",
        '"ExactBlock"; expected "int": "NoisyBlock"',
    ),
    "an exact block as a submission": ("submission(exact)", 'has incompatible type "ExactBlock"; expected "Masked"'),
    "an exact block where a noisy one is due": ("leak: NoisyBlock = exact", "Incompatible types in assignment"),
    "a noisy block without its masks": ("submission(noisy)", 'has incompatible type "NoisyBlock"; expected "Masked"'),
    "noise added to what is already noisy": ("perturb(noisy, np.ones(2, dtype=np.int64))", 'expected "ExactBlock"'),
}


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One run of mypy over the clean file and all planted leaks: the errors of each file."""
    folder = tmp_path_factory.mktemp("leaks")
    files = {"clean": PREAMBLE + CLEAN}
    files |= {f"leak{i}": PREAMBLE + line + "\n" for i, (line, _) in enumerate(LEAKS.values())}
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    # What `make lint` has read of the package need not be read again; mypy itself sees what has changed since.
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", folder / "cache", ignore=shutil.ignore_patterns("*.tmp", "*.lock"))
    out, problems, _ = api.run(
        [
            "--strict",
            "--config-file",
            str(ROOT / "pyproject.toml"),
            "--cache-dir",
            str(folder / "cache"),
            *(str(folder / f"{name}.py") for name in files),
        ]
    )
    assert not problems, problems
    return {name: "\n".join(li for li in out.splitlines() if f"{name}.py" in li) for name in files}


def test_the_clean_twin_passes(verdict: dict[str, str]) -> None:
    assert verdict["clean"] == ""


@pytest.mark.parametrize("which", range(len(LEAKS)), ids=list(LEAKS))
def test_mypy_rejects_the_leak(verdict: dict[str, str], which: int) -> None:
    _, complaint = list(LEAKS.values())[which]
    assert complaint in verdict[f"leak{which}"], verdict[f"leak{which}"]

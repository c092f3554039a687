"""Make the environment that AIM and MST run in, outside the project's lock."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

NEEDED = Path(__file__).parent / "requirements.txt"
PLACE = Path(__file__).resolve().parents[2] / ".cache" / "synthesizers" / "venv"
READY = PLACE / ".ready"


def main() -> int:
    if READY.exists() and READY.stat().st_mtime >= NEEDED.stat().st_mtime:
        return 0
    python = shutil.which("python3") or sys.executable
    subprocess.run([python, "-m", "venv", "--clear", str(PLACE)], check=True)
    pip = [str(PLACE / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(NEEDED)], check=True)
    READY.touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())

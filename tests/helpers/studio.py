"""A studio in a process of its own, on a small study whose bank keeps a policy and a ledger."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from tests.helpers.cli_study import STUDY, write_study

ROOT = Path(__file__).resolve().parents[2]
POLICY = """[policy]
party = "bank"
partners = ["works"]
[session]
epsilon = 50.0
[total]
epsilon = 60.0
"""
KEPT = STUDY.replace('data = "bank.csv"\n', 'data = "bank.csv"\npolicy = "bank.policy"\nledger = "bank.ledger"\n')


@dataclass(frozen=True)
class Server:
    address: str
    folder: Path
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0

    @property
    def token(self) -> str:
        return urlsplit(self.address).path.strip("/")

    def ask(
        self,
        path: str,
        fields: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        method: str | None = None,
    ) -> tuple[int, str, dict[str, str]]:
        """One request as it is written, with nothing normalised."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = None if fields is None else urlencode(fields)
        connection.request(method or ("GET" if fields is None else "POST"), path, body, headers or {})
        answer = connection.getresponse()
        out = answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()}
        connection.close()
        return out

    def at(self, path: str) -> str:
        return f"/{self.token}{path}"


@contextmanager
def studio_server(folder: Path) -> Iterator[Server]:
    """The studio, stopped by its process id."""
    write_study(folder)
    (folder / "bank.policy").write_text(POLICY)
    (folder / "study.toml").write_text(KEPT)
    command = [sys.executable, "-m", "colonnade.cli", "studio", str(folder / "study.toml"), "--no-browser"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:\d+/[0-9a-f]{32}/", process.stdout.readline())
    assert found, "the studio prints its address first"
    try:
        yield Server(found[0], folder, process)
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(30)

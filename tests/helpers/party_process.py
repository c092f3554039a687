"""One party of the tiny session as a process of its own, for tests that kill it.

python -m tests.helpers.party_process HOST PORT AUTHKEY NAME FOLDER
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from multiprocessing.connection import Client as Connect
from pathlib import Path

from colonnade.foundation.randomness import Randomness
from colonnade.protocol.account import SessionAccount
from colonnade.protocol.fit import FitParty
from colonnade.protocol.party import PartyRole
from colonnade.protocol.tasks import Unguarded
from colonnade.transport.client import Client
from colonnade.transport.evidence import EvidenceFolder, read_key
from tests.helpers.accounts import SharedSigner
from tests.helpers.conversations import AGREEMENT, PLANS, table


def task_of(name: str) -> FitParty:
    agreement = replace(AGREEMENT, product="lattice")
    return FitParty(name, agreement, "none", lambda: table(name, False), Unguarded(), planner=PLANS)


def main(host: str, port: str, key: str, name: str, folder: str) -> None:
    line, lock = Connect((host, int(port)), authkey=bytes.fromhex(key)), threading.Lock()

    def call(data: bytes) -> bytes:
        with lock:
            line.send_bytes(data)
            return line.recv_bytes()

    task, place = task_of(name), Path(folder)
    facts = {"party": name, "terms": task.terms, "simulated": False}
    evidence = EvidenceFolder(place / "evidence", read_key(place / "evidence.key", make=True), facts)
    Client(PartyRole(task, Randomness(), SharedSigner(name), account=SessionAccount(evidence)), call).run()


if __name__ == "__main__":
    main(*sys.argv[1:])

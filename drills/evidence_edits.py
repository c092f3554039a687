"""Random edits of peers' evidence: an honest party is never convicted, and the tool neither crashes nor says nothing.

The party is replayed once, which does not depend on what its peers show; each edit is judged against that replay.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from colonnade.audit.premises import _read_peer
from colonnade.audit.session import AuditOutcome, Checker, Replayed, judge, replay
from colonnade.flare.signing import CertificateChecker
from colonnade.foundation.errors import SignatureError
from colonnade.protocol.fit import FitServer
from colonnade.transport.evidence import RECORD, KeptEvidence
from tests.helpers.conversations import NAMES, PLANS
from tests.pins.studies import read_lines
from tests.protocol.test_audit_proofs import AUTHORITY
from tests.protocol.test_session_audit import CHEAT, KEY, LATTICE, another_submission, carry, fit_task, honest

HOSTILE: tuple[Any, ...] = (None, 0, -1, 1e308, "", [], {}, "zz", "ab" * 5000, True, "\u202e", [[]], "00", ["00"])
PEERS = tuple(name for name in NAMES if name != CHEAT)


class Remembering:
    """A checker that looks at each proof once."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._known: dict[tuple[str, bytes, bytes], object] = {}

    def check(self, peer: str, statement: bytes, proof: bytes) -> object:
        key = peer, statement, proof
        if key not in self._known:
            try:
                self._known[key] = self._checker.check(peer, statement, proof)
            except SignatureError as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, SignatureError):
            raise found
        return found


def edit(lines: list[str], foreign: list[str], draw: random.Random) -> tuple[str, list[str]]:
    """One edit of a record's lines, and what it was."""
    lines, i, j = list(lines), draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.choice(
        ("delete", "repeat", "swap", "truncate", "splice", "empty", "hostile", "lost key", "cut", "byte")
    )
    if kind == "delete":
        del lines[i]
    elif kind == "repeat":
        lines.insert(j, lines[i])
    elif kind == "swap":
        lines[i], lines[j] = lines[j], lines[i]
    elif kind == "truncate":
        lines = lines[:i]
    elif kind == "splice":
        lines.insert(i, draw.choice(foreign))
    elif kind == "empty":
        lines = []
    elif kind == "cut":
        lines[i] = lines[i][: draw.randrange(len(lines[i]) + 1)]
    elif kind == "byte" and lines[i]:
        at = draw.randrange(len(lines[i]))
        lines[i] = lines[i][:at] + draw.choice('0a"{[,:\x00') + lines[i][at + 1 :]
    else:
        try:
            record = json.loads(lines[i])
        except ValueError:
            return kind, lines
        if isinstance(record, dict) and record:
            name = draw.choice(sorted(record))
            record[name] = draw.choice(HOSTILE)
            if kind == "lost key":
                del record[name]
            lines[i] = json.dumps(record)
    return kind, lines


class Trial:
    """One session, replayed once for the audited party."""

    def __init__(self, folder: Path, cheats: bool) -> None:
        signers = {name: AUTHORITY.signer(folder / "certificates", name) for name in NAMES}
        tasks = {name: fit_task(name, False) for name in NAMES}
        plant = another_submission if cheats else honest
        kept = carry(FitServer(LATTICE, "none", PLANS), tasks, folder / "kept", plant, signers=signers)  # type: ignore[arg-type]
        self.checker = Remembering(CertificateChecker(AUTHORITY.root))
        self.own = kept[CHEAT]
        self.made: Replayed = replay(self.own, self.own.opening(KEY), fit_task(CHEAT, False), checker=self.checker)
        self.records = {name: kept[name].place / RECORD for name in PEERS}
        self.lines = {name: path.read_text().splitlines() for name, path in self.records.items()}

    def judged(self, edited: dict[str, list[str]]) -> str:
        peers: list[KeptEvidence] = []
        for name, lines in {**self.lines, **edited}.items():
            self.records[name].write_text("\n".join(lines) + "\n")
            peer, _ = _read_peer(self.records[name].parent)
            peers += [] if peer is None else [peer]
        return judge(self.own, self.made, peers, self.checker).outcome.value


def run(edits: int, seed: int) -> dict[str, Any]:
    """How many edits came to what: of an honest party's peers, and of one of a cheat's two."""
    draw = random.Random(seed)
    out: dict[str, Counter[str]] = {"honest": Counter(), "cheat": Counter()}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        trials = {"honest": Trial(place / "honest", False), "cheat": Trial(place / "cheat", True)}
        foreign = [line for lines in Trial(place / "other", False).lines.values() for line in lines]
        # And of a session of 0.1.0.
        foreign += read_lines("evidence")
        for number in range(edits):
            who = "cheat" if number % 10 == 9 else "honest"
            trial, edited = trials[who], {}
            for name in draw.sample(PEERS, 1 if who == "cheat" else draw.choice((1, 1, 2))):
                lines = trial.lines[name]
                for _ in range(draw.choice((1, 1, 1, 2, 5))):
                    lines = edit(lines, foreign, draw)[1] if lines else lines
                edited[name] = lines
            try:
                out[who][trial.judged(edited)] += 1
            except Exception as error:
                out[who][f"crash: {type(error).__name__}: {str(error)[:80]}"] += 1
    wrong = sum(count for said, count in out["honest"].items() if said != AuditOutcome.FOLLOWED.value)
    missed = sum(count for said, count in out["cheat"].items() if said != AuditOutcome.DEVIATED.value)
    return {"edits": edits, "seed": seed, **{who: dict(count) for who, count in out.items()}, "wrong": wrong + missed}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m drills evidence_edits", description=__doc__)
    parser.add_argument("--edits", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    found = run(options.edits, options.seed)
    sys.stdout.write(
        json.dumps(found) + "\n" if options.json else "\n".join(f"{k}: {v}" for k, v in found.items()) + "\n"
    )
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())

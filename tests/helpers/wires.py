"""A study of three parties over an in-memory wire: the hub in one thread, each member in its own, no engine."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from colonnade.transport.hub import Hub, Result
from colonnade.transport.member import Member
from colonnade.transport.vouching import Voucher

from colonnade.consent.entries import DataSet
from colonnade.consent.guard import ConsentGuard
from colonnade.consent.ledger import Ledger
from colonnade.consent.policy import Policy, policy_from
from colonnade.data.table import read_table
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.release import Release
from colonnade.study import Study, read_study
from colonnade.transport.journal import Journal
from colonnade.transport.wire import Patience

STUDY = """[study]
name = "pay"
task = "linear"
label = "works.pay"
epsilon = 30.0
delta = 0
collusion = 1
product = "lattice"
alignment = "psi"

[party.works]
data = "works.csv"
id = "person"
[party.works.columns]
pay = { kind = "numeric", low = 0, high = 100 }
hours = { kind = "numeric", low = 0, high = 80 }

[party.bank]
data = "bank.csv"
id = "person"
[party.bank.columns]
savings = { kind = "numeric", low = 0, high = 1000 }

[party.town]
data = "town.csv"
id = "person"
[party.town.columns]
owner = { kind = "binary", levels = ["no", "yes"] }
"""
PARTIES = ("works", "bank", "town")
QUICK = Patience(join=10.0, silence=2.0, beat=0.1, poll=0.2, farewell=2.0)


def write_study(folder: Path, people: int = 60) -> Study:
    """Three files that know most of the same people, each in its own order."""
    draw = random.Random(3)
    rows = [
        (f"p{k}", draw.uniform(0, 100), draw.uniform(20, 60), draw.uniform(0, 1000), draw.choice(["no", "yes"]))
        for k in range(people)
    ]
    for name, header, pick, missing in (
        ("works", "person,pay,hours", lambda r: f"{r[0]},{r[1]:.1f},{r[2]:.1f}", 0),
        ("bank", "person,savings", lambda r: f"{r[0]},{r[3]:.0f}", 3),
        ("town", "person,owner", lambda r: f"{r[0]},{r[4]}", 5),
    ):
        lines = [pick(row) for row in rows[missing:]]
        draw.shuffle(lines)
        (folder / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
    (folder / "study.toml").write_text(STUDY)
    return read_study(folder / "study.toml")


def guard(folder: Path, name: str, total: float = 50.0, session: float = 40.0) -> ConsentGuard:
    others = [p for p in PARTIES if p != name]
    policy = policy_from(
        {
            "policy": {"party": name, "partners": others},
            "session": {"epsilon": session},
            "total": {"epsilon": total},
        }
    )
    return ConsentGuard(name, policy, Ledger(folder / f"{name}.ledger"), DataSet.of_file(folder / f"{name}.csv"))


Wire = Callable[[str, bytes], bytes]


@dataclass
class Run:
    """What became of a session."""

    result: Result | None = None
    releases: dict[str, Release] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)

    def sentence(self, name: str) -> str:
        error = self.errors[name]
        assert isinstance(error, ColonnadeError), repr(error)
        return str(error)


def run(
    study: Study,
    folder: Path,
    seed: bytes | None = None,
    guards: Mapping[str, ConsentGuard] | None = None,
    wire: Callable[[Hub], Wire] = lambda hub: hub.handle,
    patience: Patience = QUICK,
    studies: Mapping[str, Study] | None = None,
    hub_study: Study | None = None,
    vouchers: Mapping[str, Voucher] | None = None,
    policies: Mapping[str, Policy] | None = None,
) -> Run:
    """One session, server and parties in threads; `wire` may meddle with what passes."""
    served = hub_study or study
    hub = Hub(served.agreement, served.alignment, Randomness(seed), Journal(folder / "sessions.jsonl"), patience)
    carry = wire(hub)
    out = Run()

    def serve() -> None:
        out.result = hub.run()

    def take_part(name: str) -> None:
        mine = (studies or {}).get(name, study)
        source = study.sources[name]
        assert source.data is not None
        data = source.data
        member = Member(
            name,
            mine.agreement,
            mine.alignment,
            lambda: read_table(name, data, study.agreement.schema.parties[name], source.id),
            lambda request: carry(name, request),
            Randomness(seed),
            (guards or {}).get(name),
            patience,
            voucher=(vouchers or {}).get(name),
            policy=(policies or {}).get(name),
        )
        try:
            out.releases[name] = member.run()
        except BaseException as error:
            out.errors[name] = error

    threads = [threading.Thread(target=serve), *(threading.Thread(target=take_part, args=(p,)) for p in PARTIES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a side of the session hangs"
    return out

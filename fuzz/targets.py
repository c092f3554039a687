"""What is fuzzed: each target takes bytes, hands them to one reader, and lets through whatever it raises."""

from __future__ import annotations

import io
import json
import sqlite3
import tempfile
import tomllib
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import polars as pl
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from colonnade.analysis.solve import solve
from colonnade.audit.transcript import OnePlan
from colonnade.consent.entries import Booking, DataSet
from colonnade.consent.ledger import GENESIS, TABLES, Ledger, _link
from colonnade.consent.policy import policy_from, read_policy
from colonnade.crypto.product import Contribution
from colonnade.data.ids import IdColumns
from colonnade.data.table import Table, read_table
from colonnade.foundation.canonical import canonical_json
from colonnade.foundation.errors import ColonnadeError, MessageError
from colonnade.foundation.matching import NONE, PSI
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.schema import Binary, Categorical, Numeric, Schema, column_from
from colonnade.mechanism.blocks import NoisyBlock
from colonnade.mechanism.composition import Cap, Charge
from colonnade.mechanism.objective import Task
from colonnade.mechanism.release import read_release, write_release, write_sealed
from colonnade.model import publish, read_model, write_model
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import plan_session
from colonnade.protocol.fit import FitParty, FitServer
from colonnade.protocol.messages import BODIES, MAGIC, VERSION, Assembly, Envelope, Piece, Step, body_of
from colonnade.protocol.party import PartyRole
from colonnade.protocol.server import ServerRole
from colonnade.protocol.submissions import Masked, masked_from, submission
from colonnade.protocol.tasks import Unguarded
from colonnade.simulation import run_unguarded
from colonnade.study import read_study, study_from
from colonnade.transport.in_process import InProcess
from colonnade.transport.wire import (
    Ack,
    Delivery,
    Heartbeat,
    Poll,
    Rejected,
    Rejection,
    Send,
    Wait,
    decode_reply,
    decode_request,
    encode,
)
from fuzz import papers, sessions
from fuzz.choices import Choices, altered, mutated

STUDY = """
[study]
name = "s"
task = "linear"
label = "a.y"
epsilon = 1.0
delta = 1e-6
rows = 100
alignment = "psi"
[party.a]
data = "a.csv"
id = "id"
norm = 1.5
[party.a.columns]
y = { kind = "numeric", low = 0, high = 10 }
x = { kind = "numeric", low = -1.5, high = 2, bins = [0, 1], fill = 0.5 }
[party.b]
data = "b.csv"
id = "id"
policy = "p.toml"
ledger = "b.ledger"
[party.b.columns]
c = { kind = "categorical", levels = ["u", "v"], other = true, drop = "u", fill = "v" }
d = { kind = "binary", levels = ["no", "yes"] }
"""
OFFERS = STUDY.replace("epsilon = 1.0\n", "").replace('id = "id"', 'id = "id"\nepsilon = 1.0\nsplit = { own = 0.5 }')
POLICY = """
[policy]
party = "a"
partners = ["b", "*"]
labels = ["a.y"]
tasks = ["linear"]
products = ["lattice"]
views = ["outsider", "coalition"]
smallest_rows = 100
smallest_collusion = 1
require_approval = false
[session]
epsilon = 1.0
delta = 1e-6
record_epsilon = 2.0
[total]
epsilon = 3.0
delta = 1e-5
rule = "sum"
"""
COLUMNS = {
    "x": Numeric(0, 10, fill=1.0),
    "b": Numeric(0, 10, bins=(2.0, 5.0)),
    "c": Categorical(("u", "v"), other=True),
    "d": Binary(("no", "yes"), fill="no"),
}
CSV = b"id,x,b,c,d\n" + b"".join(f"i{i},{i}.5,{i},u,yes\n".encode() for i in range(8)) + b'9,"7",3,"w ""q""",no\n'


@dataclass(frozen=True)
class Target:
    """A reader, what its inputs look like, and how many of a million cases it gets."""

    read: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    share: int
    structured: bool = False
    """Whether bytes are decisions about a tree rather than the input itself: then seeds are random."""

    def inputs(self, random: Random, corpus: Sequence[bytes] = ()) -> bytes:
        if corpus and not random.getrandbits(2):
            return mutated(random.choice(corpus), random)
        if self.structured:
            return random.randbytes(random.randrange(2, 40))
        if not random.getrandbits(4):
            return random.randbytes(random.randrange(64))
        return mutated(random.choice(self.seeds()), random)


@cache
def _folder() -> Path:
    holder = tempfile.TemporaryDirectory(prefix="colonnade-fuzz-")
    _held.append(holder)
    return Path(holder.name)


_held: list[tempfile.TemporaryDirectory[str]] = []


def _file(name: str, data: bytes) -> Path:
    path = _folder() / name
    path.write_bytes(data)
    return path


# --- messages


@cache
def _messages() -> list[bytes]:
    bodies: dict[Step, Any] = {
        Step.HELLO: {"version": VERSION, "terms": "ab", "seeded": False, "pending": ["cd"]},
        Step.WELCOME: {"session": bytes(32), "alignment": bytes(32), "outcomes": {"cd": "void"}},
        Step.READY: {},
        Step.JOIN: {"columns": {"x": {"kind": "numeric", "low": 0, "high": 1}}, "rows": 10, "mask_key": bytes(32)},
        Step.PROPOSAL: {"agreement": _agreement().to(), "rows": 100, "mask_keys": [bytes(32)] * 2},
        Step.ACCEPT: {"digest": "ab"},
        Step.REFUSE: {"code": "policy", "phase": "plan"},
        Step.GO: {"round": "seal"},
        Step.PARCEL: {"round": "seal", "payload": bytes(64)},
        Step.SIGNATURE: {"about": "mask key", "value": bytes(32), "proof": bytes(64)},
        Step.DONE: {"round": "seal"},
        Step.SUBMIT: {"index": 0, "count": 1, "data": bytes(24)},
        Step.OPENED: {"index": 0, "count": 1, "data": b"{}"},
        Step.CONFIRM: {},
        Step.END: {"code": "policy", "party": "a", "phase": "plan", "opened": False},
    }
    for step, body in bodies.items():
        msgspec.convert(body, BODIES[step])
    return [
        Envelope(bytes(32), "d" * 64, "a", "", step, msgspec.msgpack.encode(body)).encode()
        for step, body in bodies.items()
    ]


def _message(data: bytes) -> None:
    envelope = Envelope.decode(data)
    body_of(envelope, BODIES[envelope.step])


def _bodies() -> list[bytes]:
    return [bytes([i]) + Envelope.decode(m).body for i, m in enumerate(_messages())]


def _body(data: bytes) -> None:
    step = list(Step)[data[0] % len(Step)] if data else Step.JOIN
    body_of(Envelope(bytes(32), "", "a", "", step, data[1:]), BODIES[step])


def _forms() -> list[bytes]:
    return [MAGIC, b""]


def _form(data: bytes) -> None:
    """A message of the right encoding with wrong types, lengths and fields."""
    choices = Choices(data)
    message = _messages()[choices.below(len(_messages()))]
    fields = msgspec.msgpack.decode(message[4:])
    fields[-1] = msgspec.msgpack.decode(fields[-1])
    fields = altered(fields, choices)
    if isinstance(fields, list) and fields and not isinstance(fields[-1], bytes):
        fields[-1] = _packed(fields[-1])
    _message(MAGIC + _packed(fields))


def _packed(tree: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(tree)
    except (TypeError, ValueError, OverflowError, UnicodeEncodeError):
        return b"\xc1"


def _submissions() -> list[bytes]:
    masked = Masked.of(
        {0: NoisyBlock(np.arange(3))},
        {0: np.arange(3)},
        Contribution(np.zeros(2, np.uint64)),
        np.zeros(5, np.uint64),
        40,
    )
    pieces = [msgspec.msgpack.decode(p, type=Piece) for p in submission(masked)]
    # The first bytes decide: piece 0 of 1, and five words.
    return [bytes([0, 0, 1, 0, 5, 0]) + bytes(6) + p.data for p in pieces]


def _submission(data: bytes) -> None:
    """Pieces of any number and size, then the submission that they make."""
    choices = Choices(data[:12])
    assembly, blob = Assembly(1 << 12), data[12:]
    whole = assembly.add(Piece(choices.below(3), choices.below(4), blob))
    masked_from(blob if whole is None else whole, choices.below(8))


@cache
def _agreement() -> Agreement:
    return study_from(tomllib.loads(STUDY), Path()).agreement


def _no_seeds() -> list[bytes]:
    return [bytes(8)]


def _plan(data: bytes) -> None:
    """A proposed agreement, as a party reads it."""
    choices = Choices(data)
    agreement = Agreement.of(altered(_agreement().to(), choices))
    if not choices.below(50):
        rows = (2, 100, 2**31, 10**12, 10**30)[choices.below(5)]
        plan_session(replace(agreement, product="plain"), rows, bytes(32)).digest.encode()


# --- a whole session, one of whose messages is altered on its way


@cache
def _planner() -> OnePlan:
    return OnePlan()


def _conversation(data: bytes) -> None:
    """The role that gets the altered message, and all others, end with an error of our own or with a release."""
    choices = Choices(data)
    at, seen = choices.below(48), 0
    agreement = replace(_agreement(), product="plain", delta=0.0)

    def meddle(envelope: Envelope, up: bool) -> tuple[Envelope, ...]:
        nonlocal seen
        seen += 1
        return (envelope,) if seen - 1 != at else _meddled(envelope, choices)

    # A matching takes long.
    alignment = NONE if choices.below(16) else PSI
    source = Randomness(b"fuzz")
    tables = _tables(agreement)
    parties = {
        name: PartyRole(
            FitParty(name, agreement, alignment, partial(tables.__getitem__, name), Unguarded(), planner=_planner()),
            source,
        )
        for name in agreement.schema.names
    }
    InProcess(ServerRole(FitServer(agreement, alignment, _planner()), source), parties, meddle).carry()


def _meddled(envelope: Envelope, choices: Choices) -> tuple[Envelope, ...]:
    fields = msgspec.msgpack.decode(envelope.encode()[4:])
    if choices.below(4):
        fields[-1] = _packed(altered(msgspec.msgpack.decode(fields[-1]), choices))
    else:
        fields = altered(fields, choices)
    try:
        return (Envelope.decode(MAGIC + _packed(fields)),) * (1 + (choices.below(8) == 0))
    except MessageError:
        return ()


# --- what travels between machines: frames, and proofs of who signed


def _frames() -> list[bytes]:
    frames = (Send(bytes(16), 1, bytes(64)), Poll(bytes(16), 3), Heartbeat(bytes(16), "align", 0.5), Ack(), Wait())
    return [encode(f) for f in (*frames, Delivery(2, bytes(64)), Rejected(Rejection.TWICE))]


def _frame(data: bytes) -> None:
    readers: tuple[Callable[[bytes], object], ...] = (decode_request, decode_reply)
    refusals = 0
    for reader in readers:
        try:
            reader(data)
        except MessageError:
            refusals += 1
    if refusals == len(readers):
        raise MessageError("no reader takes it")


@cache
def _voucher() -> Any:
    """A site with a certificate; every byte of it is the same in each run."""
    from colonnade.flare.signing import CertificateSigner

    authority, own = (ed25519.Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in (1, 2))
    start = _folder() / "startup"
    start.mkdir(exist_ok=True)
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a")])
    for file, key, name in (("rootCA.pem", authority, issuer), ("client.crt", own, subject)):
        builder = x509.CertificateBuilder(issuer, name, key.public_key(), 7)
        builder = builder.not_valid_before(datetime(2020, 1, 1)).not_valid_after(datetime(2120, 1, 1))
        (start / file).write_bytes(builder.sign(authority, None).public_bytes(Encoding.PEM))
    key_bytes = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (start / "client.key").write_bytes(key_bytes)
    return CertificateSigner(_folder(), "a")


def _proofs() -> list[bytes]:
    return [_voucher().sign(b"said")]


def _proof(data: bytes) -> None:
    with warnings.catch_warnings():
        # A certificate whose number is not positive is told of, and then refused for its signature.
        warnings.simplefilter("ignore")
        _voucher().check("a", b"said", data)


# --- study, schema, policy


def _study(data: bytes) -> None:
    read_study(_file("study.toml", data))


def _study_tree(data: bytes) -> None:
    choices = Choices(data)
    text = (STUDY, OFFERS)[choices.below(2)]
    study_from(altered(tomllib.loads(text), choices), Path())


def _schema(data: bytes) -> None:
    choices = Choices(data)
    parties = tomllib.loads(STUDY)["party"]
    columns = {**parties["a"]["columns"], **parties["b"]["columns"]}
    name = sorted(columns)[choices.below(4)]
    column = column_from(name, altered(columns[name], choices) if choices.left else {})
    Schema({"a": {name: column}}).to()


def _policy(data: bytes) -> None:
    read_policy(_file("policy.toml", data))


def _policy_tree(data: bytes) -> None:
    policy_from(altered(tomllib.loads(POLICY), Choices(data)))


# --- tables


def _csv(data: bytes) -> None:
    _table("t.csv", data)


def _table(name: str, data: bytes) -> None:
    table = read_table("a", _file(name, data), COLUMNS, IdColumns(("id",)))
    table.coordinates()


@cache
def _parquets() -> list[bytes]:
    frame = pl.read_csv(CSV)
    typed = frame.with_columns(
        pl.col("x").cast(pl.Float32), pl.col("c").cast(pl.Categorical), pl.col("b").cast(pl.Int64)
    )
    out = []
    for each, compression in ((frame, "uncompressed"), (typed, "zstd"), (typed, "snappy")):
        file = io.BytesIO()
        each.write_parquet(file, compression=compression)  # type: ignore[arg-type]
        out.append(file.getvalue())
    return out


def _parquet(data: bytes) -> None:
    _table("t.parquet", data)


# --- releases, models, ledgers


def _tables(agreement: Agreement) -> dict[str, Table]:
    generator = np.random.default_rng(0)
    tables = {}
    for party, columns in agreement.schema.parties.items():
        values: dict[str, Any] = {
            n: generator.uniform(c.low, c.high, 50)
            if isinstance(c, Numeric)
            else generator.integers(0, 2, 50).astype("i4")
            for n, c in columns.items()
        }
        tables[party] = Table(party, columns, values, 50, [f"i{i}" for i in range(50)])
    return tables


@cache
def _release() -> bytes:
    agreement = replace(_agreement(), product="plain", delta=0.0)
    return write_release(run_unguarded(agreement, _tables(agreement), "none", Randomness(b"fuzz")).release)


@cache
def _model() -> bytes:
    release = read_release(_release())
    return write_model(publish(release, solve(release.moments(), Task.LINEAR)))


def _sealed(tree: Any) -> bytes:
    tree = dict(tree) if isinstance(tree, dict) else {"format": tree}
    tree.pop("digest", None)
    try:
        return write_sealed(tree)
    except (TypeError, ValueError, UnicodeEncodeError, RecursionError):
        return b"{}\n"


def _release_tree(data: bytes) -> None:
    """A release with wrong content under a right digest."""
    release = read_release(_sealed(altered(json.loads(_release()), Choices(data))))
    release.moments()


def _model_tree(data: bytes) -> None:
    model = read_model(_sealed(altered(json.loads(_model()), Choices(data))))
    model.needs()


@cache
def _ledger() -> bytes:
    path = _folder() / "seed.ledger"
    book = Ledger(path)
    for i in range(3):
        booking = Booking(f"{i:064x}", "a", "s", "d" * 64, DataSet("t.csv", "e" * 64), Charge(0.5, 0.0, None), 1.0)
        book.book(booking, Cap(3.0))
    return path.read_bytes()


def _ledger_file(data: bytes) -> None:
    book = Ledger(_file("f.ledger", data))
    book.verify()
    book.export()


@cache
def _entries() -> list[dict[str, Any]]:
    with sqlite3.connect(_file("entries.ledger", _ledger())) as connection:
        return [json.loads(text) for (text,) in connection.execute("SELECT content FROM entries")]


def _ledger_tree(data: bytes) -> None:
    """A book whose chain is right and whose content is not."""
    (_folder() / "tree.ledger-journal").unlink(missing_ok=True)
    path = _file("tree.ledger", b"")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    previous, choices = GENESIS, Choices(data)
    with closing(connection):
        for statement in TABLES:
            connection.execute(statement)
        for number, content in enumerate(_entries(), 1):
            try:
                text = canonical_json(altered(content, choices) if choices.left else content)
            except (TypeError, ValueError):
                text = "[" * 100_000
            previous = _link(previous, number, text)
            connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (number, text, previous))
    book = Ledger(path)
    book.export()
    book.accounts()


TARGETS: dict[str, Target] = {
    "message": Target(_message, _messages, 193_600),
    "message body": Target(_body, _bodies, 196_000),
    "message form": Target(_form, _forms, 120_000, structured=True),
    "submission": Target(_submission, _submissions, 90_000),
    "conversation": Target(_conversation, _no_seeds, 2_000, structured=True),
    "frame": Target(_frame, _frames, 20_000),
    "proof": Target(_proof, _proofs, 10_000),
    "agreement": Target(_plan, _no_seeds, 60_000, structured=True),
    "schema": Target(_schema, _no_seeds, 100_000, structured=True),
    "study file": Target(_study, lambda: [STUDY.encode(), OFFERS.encode()], 30_000),
    "study tree": Target(_study_tree, _no_seeds, 30_000, structured=True),
    "policy file": Target(_policy, lambda: [POLICY.encode()], 30_000),
    "policy tree": Target(_policy_tree, _no_seeds, 30_000, structured=True),
    "release file": Target(lambda data: [read_release(data)].clear(), lambda: [_release()], 15_000),
    "release tree": Target(_release_tree, _no_seeds, 8_000, structured=True),
    "model file": Target(lambda data: [read_model(data)].clear(), lambda: [_model()], 5_000),
    "model tree": Target(_model_tree, _no_seeds, 5_000, structured=True),
    "ledger file": Target(_ledger_file, lambda: [_ledger()], 2_000),
    "ledger tree": Target(_ledger_tree, _no_seeds, 1_000, structured=True),
    "csv table": Target(_csv, lambda: [CSV], 3_000),
    "parquet table": Target(_parquet, _parquets, 6_000),
    "evidence": Target(papers.evidence, papers.records, 5_000),
    "evidence tree": Target(papers.evidence_tree, _no_seeds, 5_000, structured=True),
    "evidence's messages": Target(papers.traffic, papers.messages, 5_000),
    "verdict": Target(papers.verdict, papers.verdicts, 5_000),
    "verdict tree": Target(papers.verdict_tree, _no_seeds, 5_000, structured=True),
    "signing request": Target(papers.request, papers.requests, 5_000),
    "revoked list": Target(papers.revoked, papers.lists, 5_000),
    "parcel": Target(sessions.parcel_of("lattice"), _no_seeds, 4_000, structured=True),
    "plain parcel": Target(sessions.parcel_of("plain"), _no_seeds, 4_000, structured=True),
    "chain parcel": Target(sessions.parcel_of("chain"), _no_seeds, 200, structured=True),
    "matching": Target(sessions.matching, _no_seeds, 200, structured=True),
}
"""A million cases in all; what touches files or another language's library is slower and gets fewer."""


def tried(target: Target, data: bytes) -> bool:
    """Whether the reader accepted; anything but a refusal of our own goes through to the caller."""
    try:
        target.read(data)
    except ColonnadeError:
        return False
    return True

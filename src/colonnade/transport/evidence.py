"""What a party keeps of its sessions in its own folder: evidence that others signed, and its secrets, encrypted.

The secrets open everything that the party drew in the session. They lie here under a key that should not lie beside
them, until the retention in the party's policy has passed, and are destroyed then.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

import msgspec
from cryptography.fernet import Fernet, InvalidToken

from colonnade.foundation.errors import ColonnadeError, SiteError
from colonnade.foundation.files import append_durably, open_new, sync_file, telling, write_new
from colonnade.foundation.names import is_visible
from colonnade.protocol.coins import Opening
from colonnade.protocol.evidence import HANDED_IN, WITHDRAWN, Kept, described, is_bulk
from colonnade.protocol.messages import LARGEST, VERSION, Envelope, Resumable, versions

RECORD, SECRETS, TRAFFIC, AUTHORITY = "evidence.jsonl", "secrets", "traffic", "authority.pem"
KEPT, HANDED = "submission", "submission.handed"
FORMAT = "colonnade-evidence/2"
"""Of the record; 0.1.0 named none."""
COMPUTES = ("numpy", "polars", "numba")
DAY = 86_400.0  # seconds
SHAPES = {
    "session": ("session", "party"),
    "named": ("session",),
    "sent": ("step", "from", "to", "digest"),
    "received": ("step", "from", "to", "digest"),
    "signature": ("from", "to", "stage", "context", "about", "value", "proof"),
    "context": ("stage", "context"),
    "commitment": ("from", "seed", "coin", "ids", "data"),
    "binding": ("from", "columns", "noise"),
    "plan": ("digest",),
    "start": ("session", "party", "date", "auditor", "proof"),
}
"""Texts that records of these kinds must have; evidence is read from others too."""
HEXADECIMAL = frozenset(("session", "digest", "context", "value", "proof", "seed", "coin", "ids", "data", "auditor"))


def read_key(path: Path, *, make: bool = False) -> bytes:
    """The key in a file; with `make` a fresh one where there is none yet."""
    with telling("the key of the evidence cannot be read", SiteError):
        if make and not path.exists():
            write_new(path, Fernet.generate_key())
        return path.read_bytes().strip()


class EvidenceFolder:
    """One session's evidence; the session's id names the folder, once it is known."""

    def __init__(
        self, root: Path, key: bytes, facts: Mapping[str, Any], *, keep_traffic: bool = True, authority: bytes = b""
    ) -> None:
        """The authority's certificate is kept too: it is what signatures can be checked by when it was replaced."""
        self._root, self._key, self._facts, self._keep_traffic = root, key, dict(facts), keep_traffic
        self._authority = authority
        self._record: IO[str] | None = None
        self._traffic: IO[bytes] | None = None
        self.place: Path | None = None

    def begin(self, session: bytes, opening: Opening) -> None:
        """Secrets first, then the record: what a crash leaves behind can be opened."""
        place = self._root / session.hex()
        with _kept():
            place.mkdir(mode=0o700, parents=True)
            secret = json.dumps({name: getattr(opening, name).hex() for name in ("seed", "coin", "salt")})
            if self._authority:
                _write_durably(place / AUTHORITY, self._authority)
            _write_durably(place / SECRETS, Fernet(self._key).encrypt(secret.encode()))
            self._record = TextIOWrapper(open_new(place / RECORD), encoding="utf-8")
            self._traffic = open_new(place / TRAFFIC)
            # Names too must outlive the machine: those of the files, and the folder's own.
            _sync(place)
            _sync(self._root)
        self.place = place
        ran = {"format": FORMAT, "protocol": VERSION, "software": versions(), "computes": _computes()}
        self.note("session", {"session": session.hex(), **ran, **self._facts})

    def rename(self, session: bytes) -> None:
        """From here on the session has another id: all parties' coins are in it."""
        assert self.place is not None
        place = self._root / session.hex()
        with _kept():
            self.place.rename(place)
            _sync(self._root)
        self.place = place
        self.note("named", {"session": session.hex()})

    def note(self, what: str, facts: Mapping[str, Any]) -> None:
        self._write({"what": what, **facts}, sync=True)

    def keep_sent(self, envelope: Envelope, digest: bytes) -> None:
        self._write({"what": "sent", **described(envelope, digest)})

    def keep_received(self, envelope: Envelope, digest: bytes) -> None:
        """The message first: what the record says came can be heard again, whenever the process is killed."""
        if self._traffic is not None and (self._keep_traffic or not is_bulk(envelope)):
            with self._or_no_more():
                write_message(self._traffic, envelope)
                self._traffic.flush()
        self._write({"what": "received", **described(envelope, digest)})

    def keep_submission(self, kept: Kept | None) -> None:
        """The file is what is decided about: it can be handed in, or be gone."""
        assert self.place is not None
        with _kept():
            _write_durably(self.place / KEPT, b"" if kept is None else msgspec.msgpack.encode(kept))

    def decide(self, choice: str) -> str:
        """One rename or removal succeeds, whichever process tries it first."""
        assert self.place is not None
        kept, handed = self.place / KEPT, self.place / HANDED
        with _kept():
            try:
                if choice == HANDED_IN:
                    kept.rename(handed)
                else:
                    kept.unlink()
                _sync(self.place)
            except FileNotFoundError:
                return HANDED_IN if handed.exists() else WITHDRAWN
        return choice

    def drop_submission(self) -> None:
        """What was handed in leaves an empty file, so that no other process withdraws it."""
        if self.place is not None:
            with suppress(OSError):
                (self.place / KEPT).unlink(missing_ok=True)
                if (self.place / HANDED).exists():
                    os.truncate(self.place / HANDED, 0)

    def offers(self) -> list[Resumable]:
        """In the order in which the submissions were kept."""
        found = [self._root.glob(f"*/{name}") for name in (KEPT, HANDED)] if self._root.is_dir() else []
        places = sorted((path for paths in found for path in paths), key=lambda path: path.stat().st_mtime)
        kept = (self._kept(path.parent) for path in places if path.stat().st_size)
        return [one.offer for one in kept if one is not None]

    def _kept(self, place: Path) -> Kept | None:
        """What was kept by this party for a session of these terms; None if it cannot be read."""
        with suppress(OSError, ColonnadeError, msgspec.DecodeError, msgspec.ValidationError, ValueError):
            facts = KeptEvidence.read(place).facts
            path = place / KEPT if (place / KEPT).exists() else place / HANDED
            if all(facts.get(name) == self._facts.get(name) for name in ("party", "terms", "kind")):
                return msgspec.msgpack.decode(path.read_bytes(), type=Kept)
        return None

    def resume(self, session: bytes) -> Kept | None:
        place = self._root / session.hex()
        kept = self._kept(place)
        if kept is not None:
            with _kept():
                for name, whole in ((RECORD, _whole_lines), (TRAFFIC, _whole_messages)):
                    os.truncate(place / name, whole(place / name))
                self._record = (place / RECORD).open("a", encoding="utf-8")
                self._traffic = (place / TRAFFIC).open("ab")
            self.place = place
        return kept

    def _write(self, content: Mapping[str, Any], sync: bool = False) -> None:
        if self._record is None:
            return
        with self._or_no_more():
            self._record.write(json.dumps(content, sort_keys=True) + "\n")
            self._record.flush()
            if sync:
                sync_file(self._record)

    @contextmanager
    def _or_no_more(self) -> Iterator[None]:
        """What cannot be kept ends the session once; how it ends is told without evidence."""
        try:
            with _kept():
                yield
        except SiteError:
            self.close()
            raise

    def close(self) -> None:
        for file in (self._record, self._traffic):
            if file is not None:
                # What a full disk did not take stays in the file's buffer.
                with suppress(OSError):
                    file.close()
        self._record = self._traffic = None


_kept = partial(telling, "evidence cannot be kept", SiteError)
"""An error of the disk in one sentence."""


@dataclass(frozen=True)
class KeptEvidence:
    """What lies in a folder."""

    place: Path
    records: tuple[Mapping[str, Any], ...]
    damaged: tuple[int, ...] = ()
    """Numbers of lines that are no records: they are passed over."""

    @classmethod
    def read(cls, place: Path) -> KeptEvidence:
        path = place / RECORD
        try:
            with telling(f"{place} holds no evidence", SiteError):
                lines = path.read_text(encoding="utf-8").split("\n")
        except UnicodeDecodeError:
            raise SiteError(f"{path} cannot be read: it must be text in UTF-8") from None
        records, damaged = [], []
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if _well_formed(record):
                records.append(record)
            elif number < len(lines):
                # A process that was killed may leave half a line at the end.
                damaged.append(number)
        if not records or records[0]["what"] != "session" or 1 in damaged:
            raise SiteError(f"{path} is no evidence of a session")
        return cls(place, tuple(records), tuple(damaged))

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.records[0]

    @property
    def session(self) -> str:
        """The session's id; where it ended before coins were exchanged, the one that the server gave it."""
        named = self.of("named")
        return str(named[-1]["session"] if named else self.facts["session"])

    def of(self, what: str) -> list[Mapping[str, Any]]:
        return [record for record in self.records if record.get("what") == what]

    def append(self, record: Mapping[str, Any]) -> None:
        """Note what became known after the session."""
        os.truncate(self.place / RECORD, _whole_lines(self.place / RECORD))
        append_durably(self.place / RECORD, json.dumps(record, sort_keys=True) + "\n")

    def opening(self, key: bytes) -> Opening:
        """The party's secrets; raises SiteError when they are destroyed, or the key is another."""
        try:
            content = json.loads(Fernet(key).decrypt((self.place / SECRETS).read_bytes()))
            return Opening(*(bytes.fromhex(content[name]) for name in ("seed", "coin", "salt")))
        except OSError:
            raise SiteError(f"{self.place.name[:16]}: the secrets are not there any more") from None
        except (InvalidToken, ValueError, KeyError, TypeError):
            raise SiteError(f"{self.place.name[:16]}: the secrets do not open with this key") from None

    def received(self) -> Iterator[Envelope]:
        """The messages that came and were kept, in order."""
        try:
            yield from read_messages(self.place / TRAFFIC)
        except OSError:
            return


def write_message(file: IO[bytes], envelope: Envelope) -> None:
    """The body apart, so that it is not copied."""
    for data in (msgspec.structs.replace(envelope, body=b"").encode(), envelope.body):
        file.write(len(data).to_bytes(8, "big"))
        file.write(data)


def read_messages(path: Path) -> Iterator[Envelope]:
    """Messages in a file, as far as they are whole."""
    with path.open("rb") as file:
        while (head := _read_part(file)) is not None and (body := _read_part(file)) is not None:
            yield msgspec.structs.replace(Envelope.decode(head), body=body)


def _whole_lines(path: Path) -> int:
    """Bytes of a file without the half of a line that a killed process leaves: more can be written behind them."""
    return path.read_bytes().rfind(b"\n") + 1


def _whole_messages(path: Path) -> int:
    with path.open("rb") as file:
        whole = 0
        while _read_part(file) is not None and _read_part(file) is not None:
            whole = file.tell()
        return whole


def _well_formed(record: object) -> bool:
    """Whether a record has what its readers take for granted."""
    if not isinstance(record, dict) or not isinstance(record.get("what"), str):
        return False
    for name in SHAPES.get(record["what"], ()):
        text = record.get(name)
        if not isinstance(text, str) or not is_visible(text):
            return False
        if name in HEXADECIMAL and not _is_hexadecimal(text):
            return False
    parts = record.get("of") if record["what"] == "context" else [""]
    return isinstance(parts, list) and bool(parts) and all(isinstance(p, str) and _is_hexadecimal(p) for p in parts)


def _is_hexadecimal(text: str) -> bool:
    return len(text) % 2 == 0 and set(text) <= set("0123456789abcdef")


def _computes() -> dict[str, str]:
    """Versions of what computes, where it is installed."""
    found = {"python": platform.python_version()}
    for name in COMPUTES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _read_part(file: IO[bytes]) -> bytes | None:
    """None at the end, and where a process was killed while it wrote."""
    head = file.read(8)
    size = int.from_bytes(head, "big")
    data = file.read(size) if len(head) == 8 and size <= LARGEST else b""
    return data if len(head) == 8 and len(data) == size else None


def destroy_expired(root: Path, days: float, now: float) -> list[str]:
    """Destroy the secrets and the traffic of sessions that began longer ago than the policy keeps them."""
    gone = []
    for place in sorted(root.iterdir()) if root.is_dir() else ():
        secrets = place / SECRETS
        # Secrets are written once, when the session begins: no later note makes them younger.
        if secrets.is_file() and now - secrets.stat().st_mtime > days * DAY:
            for path in (secrets, place / TRAFFIC, place / KEPT, place / HANDED):
                _destroy(path)
            KeptEvidence(place, ()).append({"what": "destroyed", "after_days": days})
            gone.append(place.name)
    return gone


def _destroy(path: Path) -> None:
    if path.is_file():
        with path.open("r+b") as file:
            file.write(bytes(path.stat().st_size))
            sync_file(file)
        path.unlink()


def _write_durably(path: Path, data: bytes) -> None:
    write_new(path, data)
    _sync(path.parent)


def _sync(place: Path) -> None:
    folder = os.open(place, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

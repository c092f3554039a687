"""Signing keys that an SSH agent holds: in its memory, or on a PKCS#11 token that was added to it.

The agent's protocol is draft-ietf-sshm-ssh-agent: a length, a type and fields that have lengths of their own. A key
never leaves the agent; it signs what it is handed.
"""

from __future__ import annotations

import base64
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from colonnade.foundation.errors import PolicyError

SIGNING_CERTIFICATE = "signing.crt"
ENVIRONMENT = "environment"
"""In place of a path: the agent whose socket SSH_AUTH_SOCK names."""
REQUEST_IDENTITIES, IDENTITIES, SIGN, SIGNED = 11, 12, 13, 14  # message numbers of the SSH agent protocol
LARGEST_ANSWER = 1 << 18  # 256 kB, which OpenSSH's agent keeps to as well
ANSWER_SECONDS = 60.0
"""An agent may ask a person to confirm, or to touch a token."""
ED25519, P256 = b"ssh-ed25519", b"ecdsa-sha2-nistp256"


@dataclass(frozen=True)
class Agent:
    """An agent's socket."""

    path: str

    @classmethod
    def of(cls, text: str) -> Agent:
        path = os.environ.get("SSH_AUTH_SOCK", "") if text == ENVIRONMENT else text
        if not path:
            raise PolicyError(
                'signing_agent = "environment" needs SSH_AUTH_SOCK to name an agent\'s socket, and it is not set'
            )
        return cls(path)

    def ask(self, kind: int, content: bytes, expected: int) -> bytes:
        """One request, and what its answer holds."""
        message = bytes([kind]) + content
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
                line.settimeout(ANSWER_SECONDS)
                line.connect(self.path)
                line.sendall(struct.pack(">I", len(message)) + message)
                (length,) = struct.unpack(">I", _receive(line, 4))
                if not 0 < length <= LARGEST_ANSWER:
                    raise PolicyError(
                        f"the agent at {self.path} answers {length} bytes, at most {LARGEST_ANSWER} are read"
                    )
                answer = _receive(line, length)
        except (OSError, EOFError, AttributeError):
            raise PolicyError(f"the agent at {self.path} does not answer") from None
        if answer[0] != expected:
            raise PolicyError(f"the agent at {self.path} refuses: it may be locked, or nobody confirmed")
        return answer[1:]

    def list_keys(self) -> list[AgentKey]:
        """The keys of a kind that we sign by, in the agent's order."""
        fields = _Fields(self.ask(REQUEST_IDENTITIES, b"", IDENTITIES))
        found: list[AgentKey] = []
        for _ in range(fields.number()):
            blob, comment = fields.next(), fields.next().decode(errors="replace")
            kind = _Fields(blob).next()
            if kind in (ED25519, P256):
                found.append((AgentEd25519 if kind == ED25519 else AgentP256)(self, blob, comment))
        return found

    def sign(self, blob: bytes, data: bytes) -> bytes:
        """The signature's own bytes, in the key's format."""
        content = _field(blob) + _field(data) + struct.pack(">I", 0)
        answer = _Fields(_Fields(self.ask(SIGN, content, SIGNED)).next())
        answer.next()
        return answer.next()


class _Fields:
    """Reads an answer, field by field."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def number(self) -> int:
        if len(self._data) < 4:
            raise PolicyError("an agent's answer ends too soon")
        (value,) = struct.unpack(">I", self._data[:4])
        self._data = self._data[4:]
        return int(value)

    def next(self) -> bytes:
        length = self.number()
        if len(self._data) < length:
            raise PolicyError("an agent's answer ends too soon")
        field, self._data = self._data[:length], self._data[length:]
        return field


def _field(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _receive(line: socket.socket, length: int) -> bytes:
    parts: list[bytes] = []
    while length:
        part = line.recv(length)
        if not part:
            raise EOFError
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


class _Held:
    """What keys in an agent have in common: they cannot be had."""

    def __init__(self, agent: Agent, blob: bytes, comment: str) -> None:
        self._agent, self._blob, self.comment = agent, blob, comment

    def _public(self) -> Any:
        kind = _Fields(self._blob).next()
        try:
            return load_ssh_public_key(kind + b" " + base64.b64encode(self._blob))
        except (ValueError, UnsupportedAlgorithm):
            raise PolicyError(f"the key {self.comment!r} of the agent cannot be read") from None

    def _refuse(self) -> NoReturn:
        raise PolicyError("a key in an agent cannot be taken out of it")

    def private_bytes(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def private_bytes_raw(self) -> NoReturn:
        self._refuse()

    def private_numbers(self) -> NoReturn:
        self._refuse()

    def exchange(self, *_: Any, **__: Any) -> NoReturn:
        self._refuse()

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, _: Any) -> Any:
        return self


class AgentEd25519(_Held, ed25519.Ed25519PrivateKey):
    def public_key(self) -> ed25519.Ed25519PublicKey:
        return self._public()  # type: ignore[no-any-return]

    def sign(self, data: Any) -> bytes:
        return self._agent.sign(self._blob, bytes(data))


class AgentP256(_Held, ec.EllipticCurvePrivateKey):
    def public_key(self) -> ec.EllipticCurvePublicKey:
        return self._public()  # type: ignore[no-any-return]

    @property
    def curve(self) -> ec.EllipticCurve:
        return ec.SECP256R1()

    @property
    def key_size(self) -> int:
        return 256

    def sign(self, data: Any, signature_algorithm: ec.EllipticCurveSignatureAlgorithm) -> bytes:
        # The agent hashes by itself; with this curve it is SHA-256.
        if not isinstance(signature_algorithm.algorithm, SHA256):
            raise PolicyError("a P-256 key of an agent signs by SHA-256 only")
        parts = _Fields(self._agent.sign(self._blob, bytes(data)))
        r, s = (int.from_bytes(parts.next(), "big") for _ in range(2))
        return encode_dss_signature(r, s)


AgentKey = AgentEd25519 | AgentP256


def find_key(agent: Agent, comment: str) -> AgentKey:
    """The one key of the agent that has this comment."""
    keys = agent.list_keys()
    found = [key for key in keys if key.comment == comment]
    if len(found) != 1:
        held = ", ".join(repr(key.comment) for key in keys) or "none"
        raise PolicyError(
            f"the agent must hold one Ed25519 or P-256 key {comment!r}, got {len(found)}; it holds {held}"
        )
    return found[0]


def key_of(agent: Agent, public: Any) -> AgentKey:
    """The agent's key that belongs to a certificate."""
    for key in agent.list_keys():
        if key.public_key() == public:
            return key
    raise PolicyError(f"the agent at {agent.path} does not hold the key of {SIGNING_CERTIFICATE}")


def named_agent(folder: Path, text: str) -> Agent:
    """The agent that a site's file names; a path may be one in the folder."""
    return Agent.of(text if text == ENVIRONMENT else str(folder / text))

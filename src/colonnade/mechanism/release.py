"""The release: the noisy second moments of one session, with the plan that made them. Everything else follows from it.

The file is canonical JSON (sorted keys, no spaces, one newline at the end), so that any altered byte is noticed:
either it no longer parses, or it is no longer canonical, or the digest over the rest no longer agrees.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from colonnade.foundation.errors import ReleaseError
from colonnade.foundation.proof import proven
from colonnade.mechanism.blocks import Integers
from colonnade.mechanism.moments import Attribute, Floats, Kind, Law, Layout, Moments, Role, Trace

FORMAT = "colonnade-release/1"


@dataclass(frozen=True)
class ReleasedBlock:
    """One block as it was opened: integers, each worth 1/unit, with noise of the given standard deviation."""

    owners: tuple[str, ...]
    role: Role
    summed: bool
    unit: int
    factors: Integers
    values: Integers
    std: Floats
    """Of each value, in units of the moments (after division by `unit`)."""


@dataclass(frozen=True)
class Release:
    """What everybody may see."""

    n: int
    layout: Layout
    law: Law
    blocks: tuple[ReleasedBlock, ...]
    plan: Mapping[str, Any]
    """The plan as printed: task, epsilon per party and view, scales, agreement."""
    provenance: Mapping[str, Any]
    """Session, plan digest, transcript digest, versions, whether the randomness was seeded."""

    def moments(self) -> Moments:
        """The noisy moments as one matrix with the noise's standard deviations."""
        width = self.layout.width
        value, std = np.zeros((width, width)), np.full((width, width), np.inf)
        value[0, 0], std[0, 0] = self.n, 0.0
        for i, attribute in enumerate(self.layout.attributes):
            if attribute.kind is Kind.SIMPLEX and not (attribute.role is Role.LABEL and self.plan["task"] == "linear"):
                # Two different indicators of one attribute multiply to 0; the halves of a numeric label do not.
                span = self.layout.span(i)
                std[span, span] = np.where(np.eye(attribute.size, dtype=bool), np.inf, 0.0)
        traces = []
        for block in self.blocks:
            if block.summed:
                coordinates = tuple(int(c) for c in block.factors[:, -1])
                traces.append(Trace(coordinates, float(block.values[0]) / block.unit, float(block.std[0])))
                continue
            a, b = block.factors[:, -2], block.factors[:, -1]
            value[a, b] = value[b, a] = block.values / block.unit
            std[a, b] = std[b, a] = block.std
        return Moments(self.n, self.layout, value, std, self.law, tuple(traces))

    def to(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "n": self.n,
            "law": self.law.value,
            "attributes": [
                {
                    "name": a.name,
                    "owner": a.owner,
                    "kind": a.kind.value,
                    "coordinates": list(a.coordinates),
                    "role": a.role.value,
                    "drop": a.drop,
                    "ordered": a.ordered,
                }
                for a in self.layout.attributes
            ],
            "blocks": [
                {
                    "owners": list(b.owners),
                    "role": b.role.value,
                    "summed": b.summed,
                    "unit": b.unit,
                    "factors": b.factors.tolist(),
                    "values": b.values.tolist(),
                    "std": _runs(b.std),
                }
                for b in self.blocks
            ],
            "plan": dict(self.plan),
            "provenance": dict(self.provenance),
        }


def _runs(values: Floats) -> list[list[float]]:
    """Run lengths: a block has few distinct standard deviations."""
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    lengths = np.diff(np.concatenate([starts, [values.size]]))
    return [[int(n), float(values[i])] for i, n in zip(starts, lengths, strict=True)]


def _from_runs(runs: Sequence[Sequence[float]]) -> Floats:
    return np.concatenate([np.full(int(n), v) for n, v in runs]) if runs else np.zeros(0)


def _canonical(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical form."""
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def write_sealed(content: Mapping[str, Any]) -> bytes:
    """The bytes of a canonical file with its digest."""
    return (_canonical({**content, "digest": digest(content)}) + "\n").encode()


@proven("release_canonical")
def read_sealed(data: bytes, form: str, name: str) -> dict[str, Any]:
    """What `write_sealed` wrote, without the digest; `name` says what kind of file an error is about."""
    try:
        content = json.loads(data)
        if not isinstance(content, dict) or content.get("format") != form:
            raise ReleaseError(f"a {name} file must have the format {form}")
        if (_canonical(content) + "\n").encode() != data:
            raise ReleaseError(f"the {name} file was altered: it is no longer in canonical form")
        claimed = content.pop("digest", None)
        if claimed != digest(content):
            raise ReleaseError(f"the {name} file was altered: its digest does not match its content")
        return content
    except (ValueError, TypeError, RecursionError):
        raise ReleaseError(f"the {name} file cannot be read: it is not a complete {name}") from None


def write_release(release: Release) -> bytes:
    """The bytes of a release file."""
    return write_sealed(release.to())


def read_release(data: bytes) -> Release:
    """The release in a file's bytes; refuses a file that was altered."""
    content = read_sealed(data, FORMAT, "release")
    try:
        return _parse(content)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        raise ReleaseError("the release file cannot be read: it is not a complete release") from None


def _parse(content: Mapping[str, Any]) -> Release:
    attributes = tuple(
        Attribute(
            a["name"], a["owner"], Kind(a["kind"]), tuple(a["coordinates"]), Role(a["role"]), a["drop"], a["ordered"]
        )
        for a in content["attributes"]
    )
    blocks = tuple(
        ReleasedBlock(
            tuple(b["owners"]),
            Role(b["role"]),
            b["summed"],
            b["unit"],
            np.array(b["factors"], dtype=np.int64).reshape(-1, 2),
            np.array(b["values"], dtype=np.int64),
            _from_runs(b["std"]),
        )
        for b in content["blocks"]
    )
    return Release(
        content["n"], Layout(attributes), Law(content["law"]), blocks, content["plan"], content["provenance"]
    )


def fraction_text(value: Fraction) -> str:
    """A rational as the plan prints it for machines."""
    return f"{value.numerator}/{value.denominator}"

"""The release: the noisy second moments of one session, with the plan that made them. Everything else follows from it.

The file is canonical JSON (sorted keys, no spaces, one newline at the end), so that any altered byte is noticed:
either it no longer parses, or it is no longer canonical, or the digest over the rest no longer agrees.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from colonnade.foundation.canonical import RELEASE_FORMAT, canonical_digest, canonical_json
from colonnade.foundation.errors import ReleaseError, SchemaError, StudyError
from colonnade.foundation.names import Product, column_of, holders, level_at, require_texts
from colonnade.foundation.proven import proven
from colonnade.foundation.schema import Schema
from colonnade.mechanism.blocks import Integers
from colonnade.mechanism.moments import (
    Attribute,
    Distribution,
    Encoding,
    Floats,
    Layout,
    Moments,
    ReleasedSum,
    Role,
    Trace,
)
from colonnade.mechanism.objective import monomial


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
class ReleaseRecord:
    """What everybody may see."""

    n: int
    layout: Layout
    law: Distribution
    blocks: tuple[ReleasedBlock, ...]
    plan: Mapping[str, Any]
    """The plan as printed: task, epsilon per party and view, scales, agreement."""
    provenance: Mapping[str, Any]
    """Session, plan digest, transcript digest, versions, whether the randomness was seeded."""

    @property
    def agreement(self) -> Mapping[str, Any]:
        """The study's terms, in the form in which all parties agreed to them; empty where a file lacks them."""
        terms: Mapping[str, Any] = self.provenance.get("agreement", {})
        return terms

    @cached_property
    def schema(self) -> Schema:
        """Every party's declared columns."""
        return Schema.of(self.agreement["schema"], self.agreement["norms"])

    def moments(self) -> Moments:
        """The noisy moments as one matrix with the noise's standard deviations."""
        width = self.layout.width
        value, std = np.zeros((width, width)), np.full((width, width), np.inf)
        value[0, 0], std[0, 0] = self.n, 0.0
        for i, attribute in enumerate(self.layout.attributes):
            if attribute.kind is Encoding.SIMPLEX and not (
                attribute.role is Role.LABEL and self.plan["task"] == "linear"
            ):
                # Two different indicators of one attribute multiply to 0; the halves of a numeric label do not.
                span = self.layout.span(i)
                std[span, span] = np.where(np.eye(attribute.size, dtype=bool), np.inf, 0.0)
        traces = []
        for block in self.blocks:
            if block.summed and len(block.owners) > 1:
                # A sum of products and squares of two parties is no moment by itself.
                continue
            if block.summed:
                coordinates = tuple(int(c) for c in block.factors[:, -1])
                traces.append(Trace(coordinates, float(block.values[0]) / block.unit, float(block.std[0])))
                continue
            a, b = block.factors[:, -2], block.factors[:, -1]
            value[a, b] = value[b, a] = block.values / block.unit
            std[a, b] = std[b, a] = block.std
        layout = self.layout.model
        sums = tuple(
            ReleasedSum(self.layout.factors[start], float(value[0, start]), float(std[0, start]))
            for a, start in zip(self.layout.attributes, self.layout.starts, strict=True)
            if a.sum_only
        )
        value, std = value[: layout.width, : layout.width], std[: layout.width, : layout.width]
        if layout.has_interactions:
            self._repeat(value, std)
        radii = (self.plan.get("interval"), self.plan.get("ball"))
        return Moments(self.n, layout, value, std, self.law, tuple(traces), sums, *radii)

    def _repeat(self, value: Floats, std: Floats) -> None:
        """A product that several pairs of coordinates have, such as x y z of (xy, z) and (xz, y), is released once."""
        known: dict[tuple[int, ...], tuple[int, int]] = {}
        pairs = [(i, j) for i in range(len(value)) for j in range(i, len(value))]
        for i, j in pairs:
            if std[i, j] < np.inf:
                known.setdefault(monomial(self.layout, (i, j)), (i, j))
        for i, j in pairs:
            if std[i, j] == np.inf and (found := known.get(monomial(self.layout, (i, j)))) is not None:
                value[i, j] = value[j, i] = value[found]
                std[i, j] = std[j, i] = std[found]

    def to(self) -> dict[str, Any]:
        return {
            "format": RELEASE_FORMAT,
            "n": self.n,
            "law": self.law.value,
            "attributes": [
                {
                    "name": _name(a),
                    "owner": a.owner or "".join(f"{party}." for party in a.holders),
                    "kind": a.kind.value,
                    "coordinates": list(a.coordinates),
                    "role": a.role.value,
                    "drop": 0 if a.sum_only else a.drop,
                    "ordered": a.ordered,
                }
                | ({} if a.owner else {"products": [list(self.layout.factors[start])], "shared": list(a.holders)})
                for a, start in zip(self.layout.attributes, self.layout.starts, strict=True)
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


def _from_runs(runs: Sequence[Sequence[float]], size: int) -> Floats:
    """The values of runs that cover exactly `size` numbers: a longer claim is refused before memory is taken."""
    lengths = [int(n) for n, _ in runs]
    _require(all(n > 0 for n in lengths) and sum(lengths) == size)
    return np.repeat(np.array([float(v) for _, v in runs]), lengths)


def digest(content: Mapping[str, Any]) -> str:
    """SHA-256 over the canonical form."""
    return canonical_digest(content, escaped=False)


def write_sealed(content: Mapping[str, Any]) -> bytes:
    """The bytes of a canonical file with its digest."""
    return _line({**content, "digest": digest(content)})


def _line(content: Mapping[str, Any]) -> bytes:
    return (canonical_json(content, escaped=False) + "\n").encode()


@proven("release_canonical")
def read_sealed(data: bytes, form: str, name: str) -> dict[str, Any]:
    """What `write_sealed` wrote, without the digest; `name` says what kind of file an error is about.

    Domain: any bytes.
    Unit: bytes of a file in canonical form.
    Guarantee: what is accepted is the one writing of its content, and its digest is that of the rest. Proof:
        release_canonical.
    """
    try:
        content = json.loads(data)
        if not isinstance(content, dict) or content.get("format") != form:
            raise ReleaseError(f"a {name} file must have the format {form}")
        if _line(content) != data:
            raise ReleaseError(f"the {name} file was altered: it is no longer in canonical form")
        claimed = content.pop("digest", None)
        if claimed != digest(content):
            raise ReleaseError(f"the {name} file was altered: its digest does not match its content")
        return content
    except (ValueError, TypeError, RecursionError):
        raise ReleaseError(f"the {name} file cannot be read: it is not a complete {name}") from None


def write_release(release: ReleaseRecord) -> bytes:
    """The bytes of a release file."""
    return write_sealed(release.to())


def read_release(data: bytes) -> ReleaseRecord:
    """The release in a file's bytes; refuses a file that was altered."""
    content = read_sealed(data, RELEASE_FORMAT, "release")
    try:
        return _parse(content)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, SchemaError, StudyError):
        raise ReleaseError("the release file cannot be read: it is not a complete release") from None


def _parse(content: Mapping[str, Any]) -> ReleaseRecord:
    """The release, every part of which has the type, size and range that `Release.to` writes."""
    plan, provenance, n = content["plan"], content["provenance"], content["n"]
    require_texts("a text of a release", [content["attributes"], plan, provenance], ReleaseError)
    layout = Layout(_read_attributes(content["attributes"], provenance.get("agreement", {}).get("schema", {})))
    _require(isinstance(plan, dict) and isinstance(plan["task"], str) and isinstance(provenance, dict))
    _require(isinstance(n, int) and not isinstance(n, bool) and 0 < n < 2**63)
    _require(sum(a.role is Role.LABEL for a in layout.attributes) == 1)
    radii = [plan[key] for key in ("interval", "ball") if key in plan]
    _require(all(isinstance(r, (int, float)) and not isinstance(r, bool) and 0 < r < 1e9 for r in radii))
    blocks = tuple(_block(b, layout.width) for b in content["blocks"])
    return ReleaseRecord(n, layout, Distribution(content["law"]), blocks, plan, provenance)


def _name(attribute: Attribute) -> str:
    """What a release calls an attribute: "party.column", with a level's place behind it, or a product by its text."""
    return attribute.coordinates[0] if isinstance(attribute.of, Product) else str(attribute.of)


def _read_attributes(content: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> tuple[Attribute, ...]:
    """The attributes of a release, whose products are of coordinates of the columns before them."""
    columns = [_column(a, schema) for a in content if "products" not in a]
    layout = Layout(tuple(columns))
    return (*columns, *(_product(a, layout) for a in content[len(columns) :]))


def _column(content: Mapping[str, Any], schema: Mapping[str, Any]) -> Attribute:
    names, drop, name, owner = tuple(content["coordinates"]), content["drop"], content["name"], content["owner"]
    _require(len(names) > 0 and all(isinstance(t, str) for t in (name, owner, *names)))
    _require(isinstance(content["ordered"], bool))
    _require(drop is None or (isinstance(drop, int) and 0 <= drop < len(names)))
    kind = Encoding(content["kind"])
    ref = column_of(name, owner)
    declared = ref.column in schema[owner] if schema else names[0] == ref.column
    of = (level_at(ref) if kind is Encoding.SIGNED and not declared else None) or ref
    return Attribute(of, kind, names, Role(content["role"]), drop, content["ordered"])


def _product(content: Mapping[str, Any], layout: Layout) -> Attribute:
    names, (factors,), kind = tuple(content["coordinates"]), content["products"], Encoding(content["kind"])
    _require(names == (content["name"],) and isinstance(names[0], str) and kind is Encoding.SIGNED and bool(factors))
    _require(all(isinstance(c, int) and not isinstance(c, bool) and 0 < c < layout.width for c in factors))
    of, sum_only = Product(tuple(map(layout.coordinate, factors))), content["drop"] == 0
    _require(content["drop"] in (None, 0) and list(holders(of)) == content["shared"])
    return Attribute(of, kind, names, Role(content["role"]), ordered=content["ordered"], sum_only=sum_only)


def _block(content: Mapping[str, Any], width: int) -> ReleasedBlock:
    owners, summed, unit = tuple(content["owners"]), content["summed"], content["unit"]
    factors = np.array(content["factors"], dtype=np.int64).reshape(-1, 2)
    values = np.array(content["values"], dtype=np.int64)
    _require(all(isinstance(o, str) for o in owners) and isinstance(summed, bool))
    _require(isinstance(unit, int) and not isinstance(unit, bool) and 0 < unit < 2**63)
    _require(values.shape == ((1,) if summed else (len(factors),)))
    _require(len(factors) > 0 and int(factors.min()) >= 0 and int(factors.max()) < width)
    std = _from_runs(content["std"], values.size)
    _require(bool(np.isfinite(std).all()) and float(std.min()) >= 0)
    return ReleasedBlock(owners, Role(content["role"]), summed, unit, factors, values, std)


def _require(holds: bool) -> None:
    if not holds:
        raise ReleaseError("the release file cannot be read: a part of it has a wrong type, size or range")


def fraction_text(value: Fraction) -> str:
    """A rational as the plan prints it for machines."""
    return f"{value.numerator}/{value.denominator}"

"""A release and the names that questions about it are asked by: columns, levels, conditions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np

from colonnade.analysis.denoise import Estimate, complete, denoise, holds_indicators
from colonnade.foundation.errors import ReleaseError, StudyError
from colonnade.foundation.names import splits_at
from colonnade.foundation.schema import Column, Numeric, Storage
from colonnade.mechanism.moments import Floats, Layout, Moments
from colonnade.mechanism.release import ReleaseRecord

Cell = tuple[int, int]
"""An attribute and one of its levels."""


@dataclass(frozen=True)
class Known:
    """Whether a sum over records was released, or follows from what was, and with how much noise.

    Whatever uses a count, a square or a product of two columns asks here first. Noise is a standard deviation, infinite
    where nothing is known: what an estimate has there is a guess, and no answer.
    """

    moments: Moments

    @staticmethod
    def of(release: ReleaseRecord) -> Known:
        """What a release tells, computed once for as long as the release is kept."""
        kept = vars(release)
        if "_known" not in kept:
            kept["_known"] = Known(release.moments())
        found: Known = kept["_known"]
        return found

    @property
    def estimate(self) -> Estimate:
        """The sums completed and cleaned."""
        return denoise(self.moments)

    @property
    def raw(self) -> Estimate:
        """The sums completed, and as they were released."""
        return complete(self.moments)

    def sums(self, i: int) -> Floats:
        """Noise on an attribute's sums: how many records have each level, or a number's mean times n."""
        noise: Floats = self.estimate.std[0, self.estimate.layout.span(i)]
        return noise

    def square(self, i: int) -> float:
        """Noise on a number's sum of squares; of levels on the last one's count, which is its own square."""
        at = self.estimate.layout.span(i).stop - 1
        return float(self.estimate.std[at, at])

    def products(self, i: int, j: int) -> Floats:
        """Noise on the products of two attributes' coordinates."""
        noise: Floats = self.estimate.std[self.estimate.layout.span(i), self.estimate.layout.span(j)]
        return noise

    def has_sums(self, i: int) -> bool:
        return bool(np.isfinite(self.sums(i)).all())

    def has_square(self, i: int) -> bool:
        return bool(np.isfinite(self.square(i)))

    def has_products(self, i: int, j: int) -> bool:
        return bool(np.isfinite(self.products(i, j)).all())


@dataclass(frozen=True)
class Released:
    """A release that can be asked for tables; refuses one that holds none."""

    release: ReleaseRecord

    def __post_init__(self) -> None:
        if self.release.plan.get("calibration") == "paper":
            raise ReleaseError(
                "a release calibrated as in the paper has no margins: tables and rows need the exact one"
            )
        if "objective" in self.release.plan:
            raise ReleaseError("a release of a declared objective has the sums of that objective, and no tables")
        if any(block.summed for block in self.release.blocks):
            raise ReleaseError("this is a trace release: it holds sums of squares in place of tables of two columns")

    @cached_property
    def known(self) -> Known:
        """What the release tells of its columns."""
        return Known.of(self.release)

    @property
    def moments(self) -> Moments:
        return self.known.moments

    @property
    def layout(self) -> Layout:
        return self.moments.layout

    @property
    def n(self) -> int:
        return self.release.n

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The declared column of each attribute; an interaction is a number from -1 to 1."""
        return tuple(
            Numeric(-1.0, 1.0) if a.ref is None else self.release.schema.columns[a.ref] for a in self.layout.attributes
        )

    @cached_property
    def tabular(self) -> tuple[int, ...]:
        """Attributes with levels: categories, binary columns, and numbers that were cut into bins."""
        return tuple(i for i in range(len(self.layout.attributes)) if holds_indicators(self.moments, i))

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Numbers that were not cut: the release has their means and products, and no table."""
        return tuple(i for i in range(len(self.layout.attributes)) if i not in self.tabular)

    def shape(self, i: int, j: int) -> float:
        """The shape of the noise on a pair's table, as `draws.noise` takes it."""
        if self.release.law.stable:
            return float("inf")
        attributes, parties = self.layout.attributes, len(self.release.plan["parties"])
        if {*attributes[i].holders, *attributes[j].holders} == {attributes[i].owner}:
            return 1.0
        narrowed = [float(Fraction(part)) for part in self.release.plan.get("narrowed", {}).values()]
        if narrowed:
            # A sum of unlike shares, as peaked as one of so many that are alike.
            return sum(f**2 for f in narrowed) ** 2 / sum(f**4 for f in narrowed)
        return parties / max(1, parties - int(self.release.plan["collusion"]))

    @cached_property
    def counted(self) -> tuple[int, ...]:
        """Attributes with levels of which the release tells how many records have each."""
        return tuple(i for i in self.tabular if self.known.has_sums(i))

    @cached_property
    def tables(self) -> tuple[tuple[int, int], ...]:
        """Every two attributes with levels whose table was released."""
        return tuple((i, j) for i, j in combinations(self.tabular, 2) if self.has_table(i, j))

    def has_table(self, i: int, j: int) -> bool:
        """Whether the whole table of two attributes was released."""
        return self.known.has_products(i, j)

    def require_pairs(self, told: str) -> None:
        """Refuse a release of margins alone; `told` says why."""
        if not any((block.factors > 0).all(axis=1).any() for block in self.release.blocks):
            raise ReleaseError(f"this release holds margins alone: {told}")

    def require_counts(self, i: int) -> None:
        """Refuse what needs the sums of an attribute that the release does not tell."""
        if not self.known.has_sums(i):
            told = "how many records have each level" if i in self.tabular else "the mean"
            raise ReleaseError(f"the release does not hold {told} of {self.short(i)}")

    def require_model(self, label: int, features: Collection[int], given: Collection[int] = ()) -> None:
        """Refuse a model that would need a sum which was not released."""
        self.require_counts(label)
        for i in (*given, *features):
            if not self.known.has_products(label, i):
                raise ReleaseError(
                    f"a label needs its products with every feature, which the release lacks for {self.short(label)} "
                    f"and {self.short(i)}"
                )
            if not self.known.has_square(i):
                raise ReleaseError(f"a feature needs its square, which the release lacks for {self.short(i)}")
            for j in given:
                if i not in given and not self.known.has_products(i, j):
                    raise ReleaseError(
                        f"a condition on {self.short(j)} needs its products with every feature, which the release "
                        f"lacks for {self.short(i)}"
                    )

    def short(self, i: int) -> str:
        """What an attribute is called."""
        return self.layout.columns[i]

    def levels(self, i: int) -> tuple[str, ...]:
        """The names of an attribute's levels, without the column's name where it is not needed."""
        return self.layout.attributes[i].levels

    def find(self, name: str) -> int:
        """The attribute that "column" or "party.column" means."""
        if (found := self.layout.find(name, column=True)) is not None:
            return found[0]
        known = ", ".join(self.short(i) for i in range(len(self.layout.attributes)))
        raise StudyError(f"there is no released column {name!r}; the release has {known}")

    def find_table(self, name: str) -> int:
        """The same, of a column with levels."""
        i = self.find(name)
        if i in self.numbers:
            raise StudyError(
                f"column {self.short(i)} was released as a number, with means and products alone: "
                "it has a table only where the study cuts it at bins"
            )
        return i

    def condition(self, text: str) -> Cell:
        """ "sex=Female", "age<25" or "age=27": the level, or the bin that the number falls into."""
        found = self.layout.find(text)
        if found is not None and found[1] is not None and found[0] in self.tabular:
            return found[0], found[1]
        # A name may have a "=" of its own: the first that stands behind a released column ends it.
        splits = [(name.strip(), level.strip()) for name, level in splits_at(text)]
        if not splits:
            raise StudyError(f'a condition is written as "column=level", got {text!r}')
        name, level = next((two for two in splits if self.layout.find(two[0], column=True)), splits[0])
        i = self.find_table(name)
        column = self.columns[i]
        if column.storage is Storage.NUMBERS:
            try:
                return i, int(column.codes(np.array([column.read_number(level)]))[0])
            except ValueError:
                raise StudyError(f"column {name} takes a number in a condition, got {level!r}") from None
        levels = self.levels(i)
        if level not in levels:
            raise StudyError(f"column {name} has no level {level!r}; it has {', '.join(levels)}")
        return i, levels.index(level)

    def conditions(self, texts: Sequence[str]) -> dict[int, int]:
        """Several conditions, at most one for each column."""
        out: dict[int, int] = {}
        for text in texts:
            i, level = self.condition(text)
            if out.get(i, level) != level:
                raise StudyError(f"two conditions on column {self.short(i)} exclude each other, the second is {text!r}")
            out[i] = level
        return out

    def impossible(self, extra: Sequence[Sequence[str]] = ()) -> tuple[tuple[Cell, Cell], ...]:
        """Pairs of levels that no record has: as the study declares, and as given besides."""
        found = self.release.agreement.get("impossible", [])
        pairs = []
        for pair in [*(found if isinstance(found, list) else []), *extra]:
            if len(pair) != 2:
                raise StudyError(f"an impossible pair names two levels, got {list(pair)!r}")
            first, second = self.condition(pair[0]), self.condition(pair[1])
            if first[0] == second[0]:
                raise StudyError(f"an impossible pair names levels of two columns, got {list(pair)!r}")
            pairs.append((first, second))
        return tuple(pairs)

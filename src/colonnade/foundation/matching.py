"""How ids are matched, by name, and what is agreed on of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from colonnade.foundation.errors import StudyError
from colonnade.foundation.shown import shown

PSI = "psi"
HYBRID = "psi+ml-kem"
"""The same, and what was recorded stays closed to a quantum computer: post_quantum = true in a study."""
NONE = "none"
"""Equal row order is trusted."""
TWICE = "twice"
"""Lists of partners may name twice as many ids as the own one, and SHORT in any case."""
SHORT = 500  # ids: twice a very short list would bar partners of usual length; chosen
FORMS = ("strip", "unaccent", "case", "dates", "digits", "zeros")
"""What may be done to an id before it is matched, in the order in which it is done."""
MOST_PARTS = 8  # columns of an id: name, birth date and the like


@dataclass(frozen=True)
class IdTerms:
    """What every party does to its ids before they are matched, and of how many columns each is made."""

    form: tuple[str, ...] = ()
    parts: int = 1

    def __post_init__(self) -> None:
        for name in self.form:
            if name not in FORMS or self.form.count(name) > 1:
                raise StudyError(f"id_form lists each of {', '.join(FORMS)} at most once, got {shown(name)}")
        if isinstance(self.parts, bool) or not isinstance(self.parts, int) or not 1 <= self.parts <= MOST_PARTS:
            raise StudyError(f"an id is made of 1 to {MOST_PARTS} columns, got {shown(self.parts)}")
        # The list's own order says nothing.
        object.__setattr__(self, "form", tuple(name for name in FORMS if name in self.form))

    def to(self) -> dict[str, Any]:
        """What is not as it always was."""
        return ({"form": list(self.form)} if self.form else {}) | ({"parts": self.parts} if self.parts > 1 else {})

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        return cls(tuple(content.get("form", ())), content.get("parts", 1))


AS_THEY_ARE = IdTerms()


def matches_ids(alignment: str, parties: Collection[str]) -> bool:
    """Return whether a session matches ids before anything else."""
    return alignment != NONE and len(parties) > 1

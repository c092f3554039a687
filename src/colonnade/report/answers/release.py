"""What a release holds: what was computed, for whom, with how much noise, and where it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colonnade.mechanism.defects import defects_of
from colonnade.mechanism.release import digest
from colonnade.report.answers.plan import terms_of
from colonnade.report.results import Answer, Passage
from colonnade.report.spending import spending_json
from colonnade.report.text import flaws, flaws_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colonnade.mechanism.release import ReleaseRecord
    from colonnade.report.spending import Spending


def held(release: ReleaseRecord, model: Answer | None = None, spending: Mapping[str, Spending] | None = None) -> Answer:
    """Its terms, the model that it was made for where that is asked for, and digests."""
    told, defects = release.provenance, defects_of(release)
    own = Answer("", []) if model is None else model
    parts = [*terms_of(release.plan, str(release.agreement["label"])), *own.titled]
    seen = ", ".join(f"{what} {told[key][:16]}…" for what, key in DIGESTS.items())
    parts.append(
        Passage(f"{seen}, colonnade {told['colonnade']}; digest of the release {digest(release.to())}", "soft")
    )

    def facts() -> dict[str, Any]:
        known = {key: value for key, value in told.items() if key != "agreement"}
        content = {**release.plan, **own.facts(), **spending_json(spending or {}), "provenance": known}
        return {
            **content,
            "flaws": flaws(told, release.plan["epsilon"]),
            "defects": [defect.describe() for defect in defects],
        }

    warned = [*own.warnings, *flaws_of(release)]
    return Answer("", parts, facts, warned)


DIGESTS = {"session": "session", "plan": "plan_digest", "transcript": "transcript_digest"}

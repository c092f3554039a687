"""For tests and teaching alone: noise from a seed, columns in the clear, sessions that nobody consents to.

Nothing that is made here keeps a promise, and what is made says so: the release, its page, and every text of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from colonnade.foundation.errors import StudyError
from colonnade.foundation.randomness import Randomness
from colonnade.foundation.shown import plain, shown
from colonnade.foundation.workers import HERE, Workers

if TYPE_CHECKING:
    from colonnade.api.release import Release
    from colonnade.api.study import Study
    from colonnade.data.table import Table
    from colonnade.planning.agreement import Agreement
    from colonnade.runs import Observer, Outcome

__all__ = ["fit", "in_the_clear", "run_unguarded", "seeded"]


def fit(study: Study, seed: int | str | bytes, out: Any = None, **options: Any) -> Release:
    """Run a study with noise from a seed: whoever knows it can remove the noise, and no epsilon holds.

    Parameters
    ----------
    study : Study
        One of whose parties none keeps a ledger: there is nothing to book.
    seed : int, str or bytes
        The same seed gives the same release. A text is what `colonnade fit --seed` takes.
    out, **options
        As in `Study.fit`.
    """
    return study.fit(out, seed=seeded(seed), **options)


def in_the_clear(study: Study) -> Study:
    """The same study with the product "plain": the server and the parties see columns, and no epsilon holds."""
    from colonnade.api.study import Study
    from colonnade.study import study_from

    spec = study.study
    content = {**spec.content, "study": {**spec.content["study"], "product": "plain"}}
    return Study.of(replace(study_from(content, spec.folder), sources=spec.sources))


def seeded(seed: int | str | bytes) -> Randomness:
    """Noise from a seed: bytes, a whole number, or a text of either, which is hexadecimal where it can be."""
    known = plain(seed)
    if isinstance(known, str):
        try:
            known = bytes.fromhex(known)
        except ValueError:
            known = int(known) if known.isdecimal() else None
    if isinstance(known, int) and not isinstance(known, bool):
        known = str(known).encode()
    if not isinstance(known, bytes) or not known:
        raise StudyError(f"a seed is a whole number or hexadecimal digits, got {shown(seed)}")
    return Randomness(seed=known)


def run_unguarded(
    agreement: Agreement,
    tables: Mapping[str, Table],
    alignment: str = "psi",
    randomness: Randomness | None = None,
    observer: Observer | None = None,
    *,
    workers: Workers = HERE,
) -> Outcome:
    """One session on tables in memory that no policy is asked about and no ledger books: who runs it has all the data.

    Who the `workers` are is not to be seen in the release.
    """
    from colonnade.protocol.tasks import Unguarded
    from colonnade.runs import UNSEEN, RunOptions, run_guarded

    guards = {name: Unguarded() for name in agreement.schema.names}
    options = RunOptions(randomness, workers=workers)
    return run_guarded(agreement, tables, guards, alignment, options, observer or UNSEEN)

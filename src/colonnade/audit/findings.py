"""Every view of a study attacked: which neighbours, which transcripts, which epsilon is claimed and which is proved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from colonnade.audit.bounds import lower_bound
from colonnade.audit.likelihood import Known, Ratio, bare_noise
from colonnade.audit.pairs import Pair, PairSearch, exact_vector, tables_with
from colonnade.audit.transcript import Sample, collect
from colonnade.data.table import Table
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.plan import View
from colonnade.planning.agreement import Agreement
from colonnade.planning.session_plan import SessionPlan, plan_session

if TYPE_CHECKING:
    from rich.table import Table as Grid

Floats = NDArray[np.float64]
ASKS = 4
"""How often the curious server asks for each submission."""
SPARE_ROWS = 12  # records beside those of the pair; chosen, others do as well
ROUNDING = 1e-6  # of floats on both sides of the comparison


@dataclass(frozen=True)
class Finding:
    """One view of one scope: what the plan claims, what the hard pair moves, and what the transcripts prove."""

    view: str
    scope: tuple[str, ...]
    known: tuple[str, ...]
    claimed: float | None
    loss: float | None
    """The epsilon of the pair that was tried, by formula; None where nothing is opened."""
    proved: float
    """By transcripts of real sessions."""
    runs: int
    drawn: float | None = None
    """By noise that was drawn without sessions around it."""
    alike: float | None = None
    """P-value of the hypothesis that transcripts and drawn noise have one law (Kolmogorov and Smirnov)."""

    @property
    def broken(self) -> bool:
        """Whether more is proved than was claimed; the formula's own rounding is no proof."""
        if self.claimed is None:
            return False
        by_formula = self.loss is not None and self.loss > self.claimed * (1 + ROUNDING)
        return by_formula or max(self.proved, self.drawn or 0.0) > self.claimed

    @property
    def tightness(self) -> float | None:
        return max(self.proved, self.drawn or 0.0) / self.claimed if self.claimed else None


class Stage:
    """A study with its hard pairs: one data set D with all records, and a neighbour for each pair."""

    def __init__(
        self,
        agreement: Agreement,
        rows: int | None = None,
        scopes: Sequence[tuple[str, ...]] | None = None,
    ) -> None:
        parties = agreement.schema.names
        wanted = tuple(scopes_of(parties, agreement.collusion) if scopes is None else scopes)
        rows = len(wanted) + SPARE_ROWS if rows is None else max(rows, len(wanted) + 1)
        self.agreement = agreement
        self.session: SessionPlan = plan_session(agreement, rows, bytes(32))
        climber = PairSearch(self.session, Randomness(b"hard pairs"))
        self.pairs: tuple[Pair, ...] = tuple(climber.climb(scope) for scope in wanted)
        before = [pair.before for pair in self.pairs]
        self.tables: list[dict[str, Table]] = [tables_with(self.session, before, rows)]
        for i, pair in enumerate(self.pairs):
            self.tables.append(tables_with(self.session, [*before[:i], pair.after, *before[i + 1 :]], rows))

    def sample(self, data: int, runs: int, randomness: Randomness, asks: int = ASKS) -> Sample:
        """Transcripts on D (0) or on the neighbour of a pair (1, 2, ...)."""
        return collect(self.agreement, self.tables[data], runs, randomness, asks)

    def findings(
        self,
        samples: Sequence[Sample],
        numbers: int = 0,
        randomness: Randomness | None = None,
    ) -> list[Finding]:
        """What the samples of D and of every neighbour prove, view by view.

        With `numbers` as many are drawn from the noise alone, for D and again for its neighbours.
        """
        base, delta = exact_vector(self.session, self.tables[0]), self.session.plan.delta
        bare = self._bare(numbers, Randomness() if randomness is None else randomness) if numbers else None
        out = []
        for i, pair in enumerate(self.pairs):
            other = exact_vector(self.session, self.tables[i + 1])
            for view, known, claimed, read in attacks(self.session, pair.scope):
                ratio = Ratio(self.session, base, other, known)
                one, two = read(ratio, samples[0]), read(ratio, samples[i + 1])
                proved = lower_bound(one, two, delta)
                drawn = alike = None
                if bare is not None and read in WHOLE:
                    first = ratio.of_draws(bare[0][known], base)
                    drawn = lower_bound(first, ratio.of_draws(bare[1][known], other), delta)
                    alike = float(ks_2samp(one, first).pvalue)
                loss = None if read is Ratio.of_cut else ratio.loss()
                out.append(Finding(view, pair.scope, known, claimed, loss, proved, len(one), drawn, alike))
        return out

    def _bare(self, numbers: int, randomness: Randomness) -> tuple[dict[Known, Floats], dict[Known, Floats]]:
        parties = len(self.session.parties)
        views = sorted({attack[1] for pair in self.pairs for attack in attacks(self.session, pair.scope)})
        count = max(1, numbers // (self.session.length * parties))
        one, two = (bare_noise(self.session, views, count, randomness.child(name)) for name in ("D", "D'"))
        return one, two


def scopes_of(parties: tuple[str, ...], collusion: int) -> Iterator[tuple[str, ...]]:
    """The whole record, then what two coalitions do not hold, then the parts of the first two parties."""
    seen = set()
    coalitions = [tuple(parties[(k + i) % len(parties)] for i in range(collusion)) for k in (0, len(parties) - 1)]
    outside = [tuple(p for p in parties if p not in coalition) for coalition in coalitions]
    for scope in [parties, *outside, *((p,) for p in parties[:2])]:
        if scope and scope not in seen:
            seen.add(scope)
            yield scope


Read = Callable[[Ratio, Sample], Floats]
WHOLE: tuple[Read, ...] = (Ratio.of_release, Ratio.of_transcript)
"""Statistics that see all that a session opens, and nothing else."""
Attack = tuple[str, tuple[str, ...], float | None, Read]
"""A view's name, whose noise it knows, the claimed epsilon, and how its statistic is read from transcripts."""


def attacks(session: SessionPlan, scope: tuple[str, ...]) -> Iterator[Attack]:
    """Who looks at a record of which only the parts of `scope` changed; members of a view hold none of these parts."""
    plan = session.plan
    claims = session.views(scope[0] if len(scope) == 1 else None)
    yield "outsider", (), claims[View.OUTSIDER], Ratio.of_release
    yield "server", (), claims[View.SERVER], Ratio.of_transcript
    if scope == session.parties:
        yield "server that asks again", (), claims[View.SERVER], Ratio.of_retries
        if len(scope) > 1:
            # Before the last submission nothing is spent: the claim is 0.
            yield "server, run cut short", (), 0.0, Ratio.of_cut
    others = [name for name in session.parties if name not in scope]
    if others:
        yield "party", (others[0],), claims[View.PARTY], Ratio.of_release
    for count in range(1, min(plan.collusion, len(others)) + 1):
        yield f"server and {count}", tuple(others[-count:]), claims[View.COALITION], Ratio.of_transcript


CHUNK = 20
"""Sessions on one data set before the next has its turn."""
NUMBERS = 3_000_000
"""Of noise without sessions, for D and for its neighbours each."""


@dataclass(frozen=True)
class Rehearsal:
    """What an audit of a study found."""

    findings: list[Finding]
    sessions: int
    rows: int


def rehearse(agreement: Agreement, seconds: float, rows: int | None = None) -> Rehearsal:
    """Attack a study's plan on invented data until the time is up; at least one chunk on each data set."""
    source = Randomness()
    stage = Stage(replace(agreement, product="lattice"), rows)
    parts: list[list[Sample]] = [[] for _ in stage.tables]
    end = time.monotonic() + seconds
    turn = 0
    while turn == 0 or time.monotonic() < end:
        for data, samples in enumerate(parts):
            samples.append(stage.sample(data, CHUNK, source.child(f"data {data} turn {turn}")))
        turn += 1
    samples = [Sample.joined(part) for part in parts]
    findings = stage.findings(samples, NUMBERS, source.child("draws"))
    return Rehearsal(findings, sum(map(len, samples)), stage.session.rows)


def finding_json(finding: Finding) -> dict[str, Any]:
    """One row for machines."""
    return {
        "view": finding.view,
        "changed": list(finding.scope),
        "knows": list(finding.known),
        "claimed": finding.claimed,
        "pair": finding.loss,
        "proved": finding.proved,
        "sessions": finding.runs,
        "drawn": finding.drawn,
        "alike": finding.alike,
        "broken": finding.broken,
    }


def findings_table(findings: list[Finding]) -> Grid:
    """All views as a table for people."""
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(box=box.SIMPLE_HEAD, title="Lower bounds on epsilon", title_justify="left", title_style="bold")
    grid.add_column("changed")
    grid.add_column("view")
    for name in ("claimed", "this pair", "sessions prove", "noise proves", "reached"):
        grid.add_column(name, justify="right")
    for f in findings:
        view = f.view + (f" ({', '.join(f.known)})" if f.known else "")
        reached = "" if f.tightness is None else f"{f.tightness:.0%}"
        cells = (number(f.claimed, "none"), number(f.loss), number(f.proved), number(f.drawn), reached)
        grid.add_row(", ".join(f.scope), view, *cells, style="red" if f.broken else None)
    return grid


def number(value: float | None, missing: str = "") -> str:
    return missing if value is None else f"{value:.3f}"

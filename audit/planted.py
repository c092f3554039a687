"""Which detector of the audit flags which planted bug, with its figure on the package as it is and with the bug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit import bugs
from audit.probes import SCALE, noise_gaps, sealed_alike, u_guessed
from audit.search import ratios, traced
from audit.studies import lean, lopsided, powered, uneven
from colonnade.audit.findings import ROUNDING, Finding, Stage
from colonnade.foundation.errors import ColonnadeError
from colonnade.foundation.randomness import Randomness
from colonnade.mechanism.objective import Calibration
from colonnade.planning.agreement import Agreement

EVERYONE = ("p0", "p1")
ASKED = 16
BYTES_ALIKE = 0.1
"""Share of equal bytes from which on two messages are not independent; by chance and headers it is 1 or 2%."""


@dataclass(frozen=True)
class Effort:
    """How much a detector may spend."""

    sessions: int
    numbers: int
    source: Randomness


@dataclass(frozen=True)
class Verdict:
    flagged: bool
    figure: str


Detector = Callable[[Effort], Verdict]


@dataclass(frozen=True)
class Bug:
    name: str
    plant: Callable[[], Any]
    detector: str
    detect: Detector


@dataclass(frozen=True)
class Planted:
    """A bug's row of the table."""

    name: str
    detector: str
    clean: Verdict
    planted: Verdict

    @property
    def caught(self) -> bool:
        return self.planted.flagged and not self.clean.flagged


def view(
    name: str, agreement: Callable[[], Agreement], scope: tuple[str, ...], *, asks: int = 1, share: float = 1.0
) -> Detector:
    """Flags when transcripts, drawn noise or the formula prove more for a view than its plan claims."""

    def detect(effort: Effort) -> Verdict:
        stage = Stage(agreement(), scopes=[scope])
        runs = max(8, int(share * effort.sessions))
        try:
            samples = [stage.sample(i, runs, effort.source.child(f"data {i}"), asks) for i in (0, 1)]
        except ColonnadeError as error:
            return Verdict(True, f"session refused: {error}")
        found = stage.findings(samples, effort.numbers, effort.source.child("draws"))
        finding = next(f for f in found if f.view == name)
        return Verdict(finding.broken, figure(finding))

    return detect


def figure(finding: Finding) -> str:
    """What was proved, by sessions, by drawn noise and by formula, against what is claimed."""
    parts = [f"{finding.runs} sessions {finding.proved:.2f}"]
    if finding.drawn is not None:
        parts.append(f"noise {finding.drawn:.2f}")
    if finding.loss is not None:
        parts.append(f"pair {finding.loss:.2f}")
    claimed = "none" if finding.claimed is None else f"{finding.claimed:.2f}"
    return f"{', '.join(parts)}; claimed {claimed}"


def _retries(effort: Effort) -> Verdict:
    stage = Stage(lean(2, epsilon=1.0), scopes=[EVERYONE])
    runs = max(8, effort.sessions // 5)
    samples = [stage.sample(i, runs, effort.source.child(f"data {i}"), ASKED) for i in (0, 1)]
    finding = next(f for f in stage.findings(samples) if f.view == "server that asks again")
    different = max(len(np.unique(session, axis=0)) for sample in samples for session in sample.again)
    told = f"asked {ASKED} times, different sums {different}; {figure(finding)}"
    return Verdict(finding.broken or different > 1, told)


def _sealed(effort: Effort) -> Verdict:
    stage = Stage(lean(2), scopes=[EVERYONE])
    alike = sealed_alike(stage.agreement, stage.tables[0], effort.source)
    return Verdict(alike > BYTES_ALIKE, f"{alike:.1%} of sealed bytes agree in two sessions")


def _guessed(effort: Effort) -> Verdict:
    stage = Stage(lean(2), scopes=[EVERYONE])
    alike = u_guessed(stage.agreement, stage.tables[0], effort.source)
    return Verdict(alike > BYTES_ALIKE, f"{alike:.1%} of the bytes of u follow from a candidate")


def _gaps(effort: Effort) -> Verdict:
    off, never = noise_gaps(SCALE, 20_000, effort.source)
    return Verdict(off > 0 or never > 0, f"{off:.0%} off the grid, {never:.0%} impossible for the neighbour")


def _moved(effort: Effort) -> Verdict:
    found = ratios(traced(), 100, np.random.default_rng(0))
    name, most = max(found.items(), key=lambda item: item[1])
    return Verdict(most > 1 + ROUNDING, f"a record moves {most:.4f} times as far as claimed, {name}")


def _paper() -> Agreement:
    # The lattice product's plan takes the larger of two formulas, which would hide the bug.
    return uneven(calibration=Calibration.PAPER, product="plain")


BUGS = (
    Bug("half the noise", bugs.half_the_noise, "view outsider", view("outsider", lambda: lean(2), EVERYONE)),
    Bug(
        "a share that its party knows, under collusion 1",
        bugs.known_share,
        "view server and 1",
        view("server and 1", lambda: lean(2, 1), ("p0",)),
    ),
    Bug(
        "cross terms counted once (the paper's party formula)",
        bugs.cross_terms_once,
        "view outsider, party's part",
        view("outsider", _paper, ("p1",)),
    ),
    Bug(
        "one bound used twice (diffprivlib)",
        bugs.one_bound_twice,
        "view outsider",
        view("outsider", lopsided, ("p0",)),
    ),
    Bug(
        "noise drawn again on a retry",
        bugs.fresh_noise_on_retry,
        "view server that asks again",
        _retries,
    ),
    Bug("the same lattice seed twice", bugs.same_seed, "probe sealed messages", _sealed),
    Bug("u without re-randomisation", bugs.bare_u, "probe u", _guessed),
    Bug("float Laplace", bugs.float_laplace, "probe grid and precision", _gaps),
    Bug(
        "exact value opened before noise",
        bugs.opened_before_noise,
        "view server",
        view("server", lambda: lean(2, epsilon=0.5), EVERYONE),
    ),
    Bug("clipping forgotten", bugs.unclipped, "view outsider", view("outsider", lambda: lean(2), EVERYONE, share=0.1)),
    Bug(
        "a derived value outside its bounds", bugs.derived_outside, "view outsider", view("outsider", powered, ("p0",))
    ),
    Bug(
        "bounds taken from data",
        bugs.bounds_from_data,
        "view outsider",
        view("outsider", lambda: lean(2), EVERYONE, share=0.1),
    ),
    Bug(
        "mask missing on a single-party block",
        bugs.unmasked_block,
        "view server, run cut short",
        view("server, run cut short", lambda: lean(2, epsilon=8.0), EVERYONE),
    ),
    Bug("rounding counted once", bugs.rounding_counted_once, "search beside a chosen table", _moved),
)


def try_bug(bug: Bug, effort: Effort) -> Planted:
    """A bug's detector without and with it."""
    clean = bug.detect(effort)
    with bug.plant():
        return Planted(bug.name, bug.detector, clean, bug.detect(effort))

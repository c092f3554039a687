"""What a party agrees to: a TOML file on its own machine, checked against the plan that it computed itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.crypto.backends import BACKENDS
from colonnade.foundation.errors import ConsentError, PolicyError, PrivacyError
from colonnade.foundation.matching import TWICE
from colonnade.foundation.sections import Section, read_toml
from colonnade.mechanism.composition import Cap, Rule, charge_of, record_epsilon
from colonnade.mechanism.objective import Calibration, Task, monomial
from colonnade.mechanism.plan import PrivacyPlan, View
from colonnade.planning.agreement import PROOFS, REQUIRED, WHERE_THEY_FIT
from colonnade.planning.leakage import KEY_BITS, TOLD_BITS
from colonnade.planning.proofs import DEVIATES, promise_of
from colonnade.protocol.evidence import EVIDENCE_DAYS

if TYPE_CHECKING:
    from colonnade.planning.agreement import Agreement
    from colonnade.planning.session_plan import SessionPlan


@dataclass(frozen=True)
class Approvals:
    """Files that are named by digests of plans, or by their first characters; whoever removes one has used it."""

    site: Path
    """The organisation's folder."""

    @property
    def _place(self) -> Path:
        return self.site / "approved"

    def waiting(self) -> list[str]:
        """What is approved and not used; whatever else lies there approves nothing."""
        if not self._place.is_dir():
            return []
        return sorted(path.name for path in self._place.iterdir() if _APPROVAL.fullmatch(path.name) and path.is_file())

    def leave(self, digest: str) -> None:
        file = self._file(digest)
        self._place.mkdir(mode=0o700, exist_ok=True)
        file.touch(mode=0o600)

    def take(self, digest: str) -> bool:
        """Use an approval of this plan up, if there is one."""
        for given in self.waiting():
            if digest.startswith(given):
                with suppress(FileNotFoundError):
                    self._file(given).unlink()
                    return True
        return False

    def withdraw(self, digest: str) -> None:
        try:
            self._file(digest).unlink()
        except FileNotFoundError:
            waiting = ", ".join(self.waiting()) or "none"
            raise PolicyError(f"there is no approval {digest} to withdraw: {waiting} waits for a session") from None

    def _file(self, digest: str) -> Path:
        check_approvals([digest])
        return self._place / digest.lower()

    def command(self, digest: str) -> str:
        return f"colonnade approve {digest} --site {shlex.quote(str(self.site))}"


ANYONE = "*"
SHORTEST_APPROVAL = 16  # hexadecimal: 64 bits, so that no other plan is met by chance
_APPROVAL = re.compile(f"[0-9a-f]{{{SHORTEST_APPROVAL},64}}")
LARGEST_POLICY = 1 << 20  # 1 MB: a policy is a page, and a mistaken path must not fill memory

SESSION_KEYS = ("epsilon", "delta", "record_epsilon")
TOTAL_KEYS = ("epsilon", "delta", "rule")


@dataclass(frozen=True)
class Policy:
    """A party's conditions. A session is agreed to when every one of them holds."""

    party: str
    partners: tuple[str, ...]
    """Who may take part besides this party; "*" is anyone."""
    epsilon: float
    """The largest epsilon^(k) of one session, against the worst view with a guarantee."""
    cap: Cap
    """The most that all sessions together may spend; the ledger enforces it."""
    delta: float = 0.0
    record_epsilon: float | None = None
    """The largest epsilon of the whole record in one session."""
    labels: tuple[str, ...] = (ANYONE,)
    columns: tuple[str, ...] = (ANYONE,)
    """Which of this party's own columns may be used, as feature or label."""
    interactions: tuple[str, ...] = (ANYONE,)
    """Which of them may be factors of an interaction, or of any product of more than two columns."""
    tasks: tuple[str, ...] = tuple(t.value for t in Task)
    products: tuple[str, ...] = ("lattice", "bgn")
    calibrations: tuple[str, ...] = tuple(c.value for c in Calibration)
    views: tuple[View, ...] = tuple(View)
    """Views that must have a guarantee in a study of several parties."""
    smallest_rows: int = 2
    smallest_collusion: int = 1
    smallest_key_bits: int = KEY_BITS
    """Security that has to be left of the keys of this party's columns if partners do not follow the protocol."""
    largest_alignments: int | None = None
    """How often the ids of one data set may be matched with those of partners; the ledger counts."""
    largest_attempts: int | None = None
    """How many sessions on one data set may end without a release after it was read; the ledger counts."""
    largest_bits_told: int = TOLD_BITS
    """Bits of this party's records, one a person, that partners may be told who do not follow the protocol; the ledger
    adds up the sessions of a data set."""
    largest_list: int | str | None = None
    """How many ids a partner may be able to test in one matching: the slots of its tables, above its list's length;
    or TWICE, of the ids that it announces.
    """
    largest_degree: int | None = None
    """How many factors a released product with a column of this party may have."""
    largest_owners: int | None = None
    """How many parties' columns such a product may be of."""
    require_approval: bool = False
    simulation: bool = False
    """Whether a run over the network may draw noise from a known seed: for tests on invented data, never private."""
    scores_to: tuple[str, ...] = ()
    """Who may open scores that this party's columns are in; a score is exact, so that nobody may unless told."""
    evidence_days: int = EVIDENCE_DAYS
    """How long the secrets of a session are kept, with which it can be audited; then they are destroyed."""
    keep_traffic: bool = True
    """Whether what came in is kept as long, so that an audit can make every message again."""
    proofs: str = WHERE_THEY_FIT
    """REQUIRED: the epsilons must hold against parties that deviate."""

    def check(self, session: SessionPlan, me: str | None = None) -> None:
        """Raise PolicyError for the first rule that the session breaks, with the rule's limit and the plan's number."""
        party = self.party if me is None else me
        self.check_terms(session.agreement, party)
        self.check_rows(session.rows)
        self.check_plan(session, party)

    def check_terms(self, agreement: Agreement, me: str) -> None:
        """The rules that a study's public terms alone decide."""
        names = agreement.schema.names
        if me != self.party or me not in names:
            raise PolicyError(f"the policy is for party {self.party!r}, the session has {', '.join(names)}")
        for other in names:
            if other != me:
                _within("partners", other, self.partners)
        _within("labels", agreement.labelled, self.labels)
        for name in agreement.used(me):
            _within("columns", name, self.columns)
        for party, name in agreement.query.multiplied(agreement):
            if party == me:
                _within("interactions", name, self.interactions)
        _within("tasks", agreement.asked.value, self.tasks)
        _within("calibrations", agreement.calibration.value, self.calibrations)
        if len(names) > 1:
            _within("products", agreement.product, self.products)
            if self.proofs == REQUIRED and not agreement.proofs:
                raise PolicyError(f'proofs is "{REQUIRED}", the study asks for none')
            if agreement.collusion < self.smallest_collusion:
                raise PolicyError(
                    f"smallest_collusion is {self.smallest_collusion}, the plan has {agreement.collusion}"
                )

    def check_rows(self, rows: int, what: str = "the session has") -> None:
        if rows < self.smallest_rows:
            raise PolicyError(f"smallest_rows is {self.smallest_rows}, {what} n={rows}")

    def check_plan(self, session: SessionPlan, me: str, slack: float = 0.0) -> None:
        """The rules on what a plan promises and costs; `slack` is a share of the cost that n may still take off."""
        plan = session.plan
        if len(plan.names) > 1:
            for view in self.views:
                if session.views(me)[view] is None:
                    raise PolicyError(f"views asks for a guarantee against {view.value}, the plan has none")
        if self.proofs == REQUIRED and len(plan.names) > 1 and promise_of(session) != DEVIATES:
            why = f": {session.unproved}" if session.unproved else ""
            raise PolicyError(f'proofs is "{REQUIRED}", the plan has none{why}')
        self._check_products(plan, me)
        self.check_keys(session, me)
        charge = charge_of(plan, me)
        _at_most("session.epsilon", charge.epsilon, self.epsilon, slack)
        _at_most("session.delta", charge.delta, self.delta)
        if self.record_epsilon is not None:
            _at_most("session.record_epsilon", record_epsilon(plan), self.record_epsilon, slack)

    def _check_products(self, plan: PrivacyPlan, me: str) -> None:
        """Raise PolicyError where a product that this party has a factor of has too many factors, or owners."""
        mine = [item.block for item in plan.blocks if me in item.block.owners]
        if self.largest_owners is not None:
            most = max((len(block.owners) for block in mine), default=0)
            if most > self.largest_owners:
                raise PolicyError(f"largest_owners is {self.largest_owners}, the plan has products of {most} parties")
        if self.largest_degree is not None:
            degree = max((len(monomial(plan.layout, term)) for block in mine for term in block.factors), default=0)
            if degree > self.largest_degree:
                raise PolicyError(f"largest_degree is {self.largest_degree}, the plan has products of degree {degree}")

    def check_keys(self, session: SessionPlan, me: str) -> None:
        """Raise PolicyError where partners that cheat could read too much of this party's keys."""
        own = [exposure for exposure in session.exposures if exposure.partner == me]
        worst = min(own, key=lambda exposure: exposure.key.bits, default=None)
        if worst is not None and worst.key.bits < self.smallest_key_bits:
            raise PolicyError(
                f"smallest_key_bits is {self.smallest_key_bits}, the plan leaves {worst.key.bits}: {worst.tell()}; "
                f"{session.leave_bits(worst, self.smallest_key_bits)}"
            )
        told = bits_told(session, me)
        if told > self.largest_bits_told:
            raise PolicyError(
                f"largest_bits_told is {self.largest_bits_told}, the plan has {told}: partners that break the protocol "
                f"could read the exact values of up to {told:,} people; fewer columns or levels of theirs, fewer "
                "records and a smaller epsilon tell less"
            )

    def check_scores(self, receiver: str, parties: Collection[str], columns: Collection[str], me: str) -> None:
        """Raise PolicyError unless these parties may score records by these own columns, for that receiver."""
        if me != self.party or me not in parties:
            raise PolicyError(f"the policy is for party {self.party!r}, the prediction has {', '.join(parties)}")
        for other in parties:
            if other != me:
                _within("partners", other, self.partners, "prediction")
        if receiver != me:
            _within("scores_to", receiver, self.scores_to, "prediction")
        for name in columns:
            _within("columns", name, self.columns, "prediction")

    def approve(
        self,
        digest: str,
        summary: str = "",
        approved: Collection[str] = (),
        ask: Callable[[str], bool] | None = None,
        left: Approvals | None = None,
    ) -> None:
        """Where a person must: the digest is among `approved`, or is `left` for one session, or `ask` says yes."""
        if not self.require_approval:
            return
        check_approvals(approved)
        if any(digest.startswith(given.lower()) for given in approved):
            return
        if ask is not None and ask(f"{summary}\nplan {digest}" if summary else f"plan {digest}"):
            return
        if left is not None and left.take(digest):
            return
        what = f"; {summary}" if summary else ""
        how = "" if left is None else f"; one session is admitted by: {left.command(digest)}"
        raise ConsentError(f"require_approval is set and nobody approved the plan {digest}{what}{how}")


def bits_told(session: SessionPlan, me: str) -> int:
    """What a session could tell partners that do not follow the protocol of a party's records."""
    return max((told.people for told in session.tellings if told.partner == me), default=0)


def check_approvals(approved: Collection[str]) -> None:
    """Raise PolicyError for an approval that cannot mean any plan."""
    for given in approved:
        if len(given) < SHORTEST_APPROVAL:
            raise PolicyError(
                f"an approval must give at least {SHORTEST_APPROVAL} characters of a digest, got {given!r}"
            )
        if not _APPROVAL.fullmatch(given.lower()):
            raise PolicyError(f"an approval must be the digest of a plan, in hexadecimal, got {given!r}")


def read_policy(path: Path) -> Policy:
    """Read and check a policy file."""
    return policy_from(read_toml(path, "policy", LARGEST_POLICY, PolicyError).content)


def policy_from(parsed: Mapping[str, Any]) -> Policy:
    """A policy from its parsed form."""
    content = Section(parsed, "the policy file", PolicyError).known(("policy", "session", "total"))
    for key in ("policy", "session", "total"):
        if not isinstance(parsed.get(key), Mapping):
            raise PolicyError(f"a policy file needs a [{key}] section")
    terms = content.table("policy", "[policy]").known(POLICY_KEYS).need("party", "partners")
    session = content.table("session", "[session]", "session.").known(SESSION_KEYS).need("epsilon")
    whole = content.table("total", "[total]", "total.").known(TOTAL_KEYS).need("epsilon")
    chosen = {FIELDS.get(key, key): read(terms, key) for key, read in READERS.items() if key in terms}
    if "record_epsilon" in session:
        chosen["record_epsilon"] = _positive(session, "record_epsilon")
    rule = Rule(whole.choice("rule", [r.value for r in Rule])) if "rule" in whole else None
    try:
        cap = Cap(_positive(whole, "epsilon"), _delta(whole), rule)
    except PrivacyError as error:
        raise PolicyError(f"[total]: {error}") from None
    return Policy(epsilon=_positive(session, "epsilon"), cap=cap, delta=_delta(session), **chosen)


def _listed(*choices: str) -> Callable[[Section, str], tuple[str, ...]]:
    return lambda terms, key: terms.texts(key, choices or None)


def _views(terms: Section, key: str) -> tuple[View, ...]:
    return tuple(View(v) for v in terms.texts(key, [v.value for v in View]))


def _list_length(terms: Section, key: str) -> int | str:
    return terms.choice(key, [TWICE]) if isinstance(terms.content[key], str) else terms.whole(key)


def _days(terms: Section, key: str) -> int:
    text = terms.text(key)
    number, _, unit = text.partition(" ")
    if unit not in ("day", "days") or not number.isascii() or not number.isdigit() or not 0 < int(number) < 100_000:
        raise PolicyError(f'{key} must be a number of days such as "90 days", got {text[:40]!r}')
    return int(number)


READERS: Mapping[str, Callable[[Section, str], Any]] = {
    "party": Section.text,
    "partners": _listed(),
    "labels": _listed(),
    "columns": _listed(),
    "interactions": _listed(),
    "tasks": _listed(*(t.value for t in Task)),
    "products": lambda terms, key: terms.texts(key, BACKENDS),
    "calibrations": _listed(*(c.value for c in Calibration)),
    "views": _views,
    "smallest_rows": Section.whole,
    "smallest_collusion": Section.whole,
    "smallest_key_bits": Section.whole,
    "largest_alignments": Section.whole,
    "largest_attempts": Section.whole,
    "largest_bits_told": Section.whole,
    "largest_list": _list_length,
    "largest_degree": Section.whole,
    "largest_owners": Section.whole,
    "require_approval": Section.flag,
    "simulation": Section.flag,
    "scores_to": _listed(),
    "keep_evidence": _days,
    "keep_traffic": Section.flag,
    "proofs": lambda terms, key: terms.choice(key, PROOFS),
}
"""What [policy] may say, and how each key is read."""
FIELDS = {"keep_evidence": "evidence_days"}
POLICY_KEYS = tuple(READERS)


def _within(rule: str, value: str, allowed: Collection[str], what: str = "session") -> None:
    if ANYONE not in allowed and value not in allowed:
        raise PolicyError(f"{rule} allows {', '.join(allowed) or 'none'}, the {what} has {value}")


def _at_most(rule: str, value: float, limit: float, slack: float = 0.0) -> None:
    if value * (1 - slack) > limit:
        raise PolicyError(f"{rule} is at most {limit:.10g}, the plan has {value:.10g}")


def _positive(section: Section, key: str) -> float:
    value = section.number(key)
    if not value > 0:
        raise PolicyError(f"{section.prefix}{key} must be positive, got {key}={value}")
    return value


def _delta(section: Section) -> float:
    value = section.number("delta", 0.0)
    if not 0 <= value < 1:
        raise PolicyError(f"{section.prefix}delta must lie in [0, 1), got delta={value}")
    return value

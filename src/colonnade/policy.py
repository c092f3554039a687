"""What a party agrees to: a TOML file on its own machine, checked against the plan that it computed itself."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from colonnade.foundation.errors import PolicyError, PrivacyError
from colonnade.foundation.schema import Schema
from colonnade.mechanism.composition import Cap, Rule, charge_of, record_epsilon
from colonnade.mechanism.objective import Calibration, Task
from colonnade.mechanism.plan import PrivacyPlan, View

ANYONE = "*"
PRODUCTS = ("lattice", "bgn", "plain")
SHORTEST_APPROVAL = 16
LARGEST_POLICY = 1 << 20

POLICY_KEYS = (
    "party",
    "partners",
    "labels",
    "columns",
    "tasks",
    "products",
    "calibrations",
    "views",
    "smallest_rows",
    "smallest_collusion",
    "require_approval",
)
SESSION_KEYS = ("epsilon", "delta", "record_epsilon")
TOTAL_KEYS = ("epsilon", "delta", "rule")


class Agreed(Protocol):
    """The public terms of a study, as far as a policy reads them."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def label(self) -> str: ...
    @property
    def product(self) -> str: ...


class Proposed(Protocol):
    """A session that a party computed for itself; protocol.session.Session is one."""

    @property
    def agreement(self) -> Agreed: ...
    @property
    def rows(self) -> int: ...
    @property
    def plan(self) -> PrivacyPlan: ...
    def views(self, party: str | None = None) -> Mapping[View, float | None]: ...


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
    tasks: tuple[str, ...] = tuple(t.value for t in Task)
    products: tuple[str, ...] = ("lattice", "bgn")
    calibrations: tuple[str, ...] = tuple(c.value for c in Calibration)
    views: tuple[View, ...] = tuple(View)
    """Views that must have a guarantee in a study of several parties."""
    smallest_rows: int = 2
    smallest_collusion: int = 1
    require_approval: bool = False

    def check(self, session: Proposed, me: str | None = None) -> None:
        """Raise PolicyError for the first rule that the session breaks, with the rule's limit and the plan's number."""
        party = self.party if me is None else me
        plan, agreement = session.plan, session.agreement
        if party != self.party or party not in plan.names:
            raise PolicyError(f"the policy is for party {self.party!r}, the session has {', '.join(plan.names)}")
        for other in plan.names:
            if other != party:
                _within("partners", other, self.partners)
        owner, column = agreement.schema.find(agreement.label)
        _within("labels", f"{owner}.{column}", self.labels)
        for name in agreement.schema.parties[party]:
            _within("columns", name, self.columns)
        _within("tasks", plan.task.value, self.tasks)
        _within("calibrations", plan.calibration.value, self.calibrations)
        if session.rows < self.smallest_rows:
            raise PolicyError(f"smallest_rows is {self.smallest_rows}, the session has n={session.rows}")
        if len(plan.names) > 1:
            _within("products", agreement.product, self.products)
            if plan.collusion < self.smallest_collusion:
                raise PolicyError(f"smallest_collusion is {self.smallest_collusion}, the plan has {plan.collusion}")
            for view in self.views:
                if session.views(party)[view] is None:
                    raise PolicyError(f"views asks for a guarantee against {view.value}, the plan has none")
        charge = charge_of(plan, party)
        _at_most("session.epsilon", charge.epsilon, self.epsilon)
        _at_most("session.delta", charge.delta, self.delta)
        if self.record_epsilon is not None:
            _at_most("session.record_epsilon", record_epsilon(plan), self.record_epsilon)

    def approve(
        self,
        digest: str,
        summary: str = "",
        approved: Collection[str] = (),
        ask: Callable[[str], bool] | None = None,
    ) -> None:
        """Where a person must approve: pass if the digest is among `approved`, or if `ask` says yes to the summary."""
        if not self.require_approval:
            return
        for given in approved:
            if len(given) < SHORTEST_APPROVAL:
                raise PolicyError(
                    f"an approval must give at least {SHORTEST_APPROVAL} characters of a digest, got {given!r}"
                )
        if any(digest.startswith(given.lower()) for given in approved):
            return
        if ask is not None and ask(f"{summary}\nplan {digest}" if summary else f"plan {digest}"):
            return
        raise PolicyError(f"require_approval is set and nobody approved the plan {digest}")


def read_policy(path: Path) -> Policy:
    """Read and check a policy file."""
    if not path.is_file():
        raise PolicyError(f"there is no policy file {path}")
    if path.stat().st_size > LARGEST_POLICY:
        raise PolicyError(f"a policy file must have at most {LARGEST_POLICY} bytes, got {path.stat().st_size}")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path.name} is not valid TOML: {error}") from None
    return policy_from(content)


def policy_from(content: Mapping[str, Any]) -> Policy:
    """A policy from its parsed form."""
    _known(content, ("policy", "session", "total"), "the policy file")
    terms = _section(content, "policy", POLICY_KEYS)
    session = _section(content, "session", SESSION_KEYS)
    whole = _section(content, "total", TOTAL_KEYS)
    for section, table, key in (
        ("policy", terms, "party"),
        ("policy", terms, "partners"),
        ("session", session, "epsilon"),
        ("total", whole, "epsilon"),
    ):
        if key not in table:
            raise PolicyError(f"[{section}] needs {key!r}")
    if not isinstance(terms["party"], str) or not terms["party"]:
        raise PolicyError(f"party must be a non-empty text, got party={terms['party']!r}")
    chosen: dict[str, Any] = {
        key: _texts(terms, key, choices)
        for key, choices in (
            ("labels", None),
            ("columns", None),
            ("tasks", [t.value for t in Task]),
            ("products", PRODUCTS),
            ("calibrations", [c.value for c in Calibration]),
        )
        if key in terms
    }
    if "views" in terms:
        chosen["views"] = tuple(View(v) for v in _texts(terms, "views", [v.value for v in View]))
    chosen |= {key: _whole(terms, key) for key in ("smallest_rows", "smallest_collusion") if key in terms}
    if "require_approval" in terms:
        if not isinstance(terms["require_approval"], bool):
            raise PolicyError(f"require_approval must be true or false, got {terms['require_approval']!r}")
        chosen["require_approval"] = terms["require_approval"]
    if "record_epsilon" in session:
        chosen["record_epsilon"] = _positive(session, "record_epsilon", "session")
    rules = [r.value for r in Rule]
    if "rule" in whole and whole["rule"] not in rules:
        raise PolicyError(f"total.rule must be one of {', '.join(rules)}, got rule={whole['rule']!r}")
    try:
        cap = Cap(
            _positive(whole, "epsilon", "total"),
            _delta(whole, "total"),
            Rule(whole["rule"]) if "rule" in whole else None,
        )
    except PrivacyError as error:
        raise PolicyError(f"[total]: {error}") from None
    return Policy(
        party=terms["party"],
        partners=_texts(terms, "partners", None),
        epsilon=_positive(session, "epsilon", "session"),
        cap=cap,
        delta=_delta(session, "session"),
        **chosen,
    )


def _within(rule: str, value: str, allowed: Collection[str]) -> None:
    if ANYONE not in allowed and value not in allowed:
        raise PolicyError(f"{rule} allows {', '.join(allowed) or 'none'}, the session has {value}")


def _at_most(rule: str, value: float, limit: float) -> None:
    if value > limit:
        raise PolicyError(f"{rule} is at most {limit:.10g}, the plan has {value:.10g}")


def _known(content: Mapping[str, Any], keys: Iterable[str], where: str) -> None:
    for key in content:
        if key not in keys:
            near = difflib.get_close_matches(key, list(keys), 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; it takes {', '.join(keys)}"
            raise PolicyError(f"{where} has no key {key!r}{hint}")


def _section(content: Mapping[str, Any], name: str, keys: Iterable[str]) -> Mapping[str, Any]:
    table = content.get(name)
    if not isinstance(table, Mapping):
        raise PolicyError(f"a policy file needs a [{name}] section")
    _known(table, keys, f"[{name}]")
    return table


def _texts(terms: Mapping[str, Any], key: str, choices: Iterable[str] | None) -> tuple[str, ...]:
    values = terms[key]
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise PolicyError(f"{key} must be a list of texts, got {key}={values!r}")
    for value in values:
        if choices is not None and value not in choices:
            raise PolicyError(f"{key} may list {', '.join(choices)}, got {value!r}")
    return tuple(values)


def _whole(terms: Mapping[str, Any], key: str) -> int:
    value = terms[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise PolicyError(f"{key} must be a whole number, got {key}={value!r}")
    return value


def _number(terms: Mapping[str, Any], key: str, where: str) -> float:
    value = terms[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PolicyError(f"{where}.{key} must be a number, got {key}={value!r}")
    return float(value)


def _positive(terms: Mapping[str, Any], key: str, where: str) -> float:
    value = _number(terms, key, where)
    if not 0 < value < float("inf"):
        raise PolicyError(f"{where}.{key} must be positive and finite, got {key}={value}")
    return value


def _delta(terms: Mapping[str, Any], where: str) -> float:
    value = _number(terms, "delta", where) if "delta" in terms else 0.0
    if not 0 <= value < 1:
        raise PolicyError(f"{where}.delta must lie in [0, 1), got delta={value}")
    return value

"""What all parties agree on before data is touched: the public part of a study."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Any, NamedTuple

from colonnade.crypto.backends import BACKENDS
from colonnade.foundation.columns import DROP, FILL, INDICATOR, LEVEL
from colonnade.foundation.errors import PrivacyError, StudyError
from colonnade.foundation.matching import AS_THEY_ARE, IdTerms
from colonnade.foundation.names import require_name, splits_at
from colonnade.foundation.schema import Schema
from colonnade.foundation.shown import shown
from colonnade.mechanism.accounting import check_epsilon
from colonnade.mechanism.dissection import Block
from colonnade.mechanism.forecast import BALANCED
from colonnade.mechanism.moments import Distribution, Layout
from colonnade.mechanism.objective import Calibration, Purpose, Task
from colonnade.mechanism.plan import Offer, PrivacyPlan, Terms, plan_bottom_up, plan_top_down
from colonnade.planning.query import ASKED, ORDERS, Evaluated, Query, query_of

LONGEST_REASON = 1000
"""Characters."""
AUDITOR = re.compile("[0-9a-f]{64}")
REQUIRED, WHERE_THEY_FIT = PROOFS = "required", "where they fit"
"""Whether parties prove that what they send is made of numbers within their bounds."""


@dataclass(frozen=True)
class TopDown:
    """An epsilon of the whole record."""

    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def offers(self) -> Mapping[str, Offer]:
        """No party states one."""
        return {}

    @property
    def least(self) -> float:
        """The smallest epsilon that some party's part, or the whole record, is allowed."""
        return self.epsilon

    def plan(self, layout: Layout, blocks: tuple[Block, ...], terms: Terms) -> PrivacyPlan:
        """The scales of the noise that spend it."""
        return plan_top_down(layout, blocks, self.epsilon, terms)

    def times(self, factor: float) -> TopDown:
        """So many times as much."""
        return TopDown(self.epsilon * factor)


@dataclass(frozen=True)
class BottomUp:
    """An epsilon of every party's part."""

    offers: Mapping[str, Offer]

    def __post_init__(self) -> None:
        for party, offer in self.offers.items():
            check_epsilon(offer.total, f"party {party}: epsilon")

    @property
    def epsilon(self) -> None:
        """The study states none."""
        return None

    @property
    def least(self) -> float:
        """The smallest epsilon that some party's part is allowed."""
        return min(offer.total for offer in self.offers.values())

    def plan(self, layout: Layout, blocks: tuple[Block, ...], terms: Terms) -> PrivacyPlan:
        """The scales of the noise that spend them."""
        return plan_bottom_up(layout, blocks, self.offers, terms)

    def times(self, factor: float) -> BottomUp:
        """So many times as much, split alike."""
        return BottomUp({party: _times(offer, factor) for party, offer in self.offers.items()})


Budget = TopDown | BottomUp


def _times(offer: Offer, factor: float) -> Offer:
    own = None if offer.own is None else offer.own * factor
    return Offer(offer.total * factor, own, {other: part * factor for other, part in offer.pairs.items()})


def budget_of(epsilon: float | None, offers: Mapping[str, Offer]) -> Budget:
    """The budget that a study states: its own epsilon, or that of every party."""
    if (epsilon is None) == (not offers):
        raise StudyError(
            "give either epsilon of the study (top-down) or an epsilon of every party (bottom-up), "
            f"got {'neither' if epsilon is None else 'both'}"
        )
    return BottomUp(offers) if epsilon is None else TopDown(epsilon)


@dataclass(frozen=True)
class Organisation:
    """Who stands behind a party, as the page that one signs names it; an empty text was not stated."""

    name: str = ""
    contact: str = ""

    def __post_init__(self) -> None:
        require_name("an organisation's name", self.name, StudyError)
        require_name("an organisation's contact", self.contact, StudyError)


def reason_of(text: object) -> str:
    """The reason of a study, once it is a text that can be read."""
    return require_name("a study's reason", text, StudyError, LONGEST_REASON)


@dataclass(frozen=True)
class Agreement:
    """A study's public terms; every plan is a function of these, of n and of the session id."""

    name: str
    schema: Schema
    label: str
    """As the study names the column: these texts travel as they were written."""
    task: Task
    budget: Budget
    query: Query
    delta: float = 0.0
    collusion: int = 1
    calibration: Calibration = Calibration.EXACT
    product: str = "lattice"
    impossible: tuple[tuple[str, str], ...] = ()
    """Pairs of levels, as "column=level", that no record has; rows drawn from the release have none either."""
    reason: str = ""
    """Why the study is done, for those who agree to it."""
    organisations: Mapping[str, Organisation] = field(default_factory=dict)
    """Who stands behind the parties, where the study says so."""
    auditors: tuple[str, ...] = ()
    """Public keys (Ed25519, hexadecimal) of those who may audit a party of its sessions."""
    ids: IdTerms = AS_THEY_ARE
    proofs: str = ""
    """REQUIRED, WHERE_THEY_FIT, or empty: then parties prove nothing."""
    class_share: tuple[float, ...] = ()
    """Between these two lies the share of one of the label's two classes, where the study says so; for forecasts."""

    def __post_init__(self) -> None:
        BACKENDS[self.product]
        require_name("a study's name", self.name, StudyError)
        for name, value in (("delta", self.delta), ("collusion", self.collusion)):
            if isinstance(value, bool) or not isinstance(value, int if name == "collusion" else (int, float)):
                raise StudyError(f"{name} must be a number, got {name}={value!r}")
        if not -inf < self.delta < inf:
            raise PrivacyError(f"delta must lie in [0, 1), got delta={self.delta}")
        if not isinstance(self.label, str):
            raise StudyError(f"label must be the name of a column, got label={self.label!r}")
        owner, label = self.schema.find(self.label)
        if (how := self.schema.parties[owner][label].missing) in (LEVEL, INDICATOR):
            raise StudyError(f'column {label}: the label takes missing = "{FILL}" or "{DROP}", got missing="{how}"')
        for name, column in self.schema.parties[owner].items():
            if label in column.sources and name != label:
                raise StudyError(f"column {name} is derived from the label {label}, which a prediction does not have")
        if self.proofs not in ("", *PROOFS):
            raise StudyError(f"proofs must be {' or '.join(map(repr, PROOFS))}, got proofs={self.proofs!r}")
        if self.class_share:
            self._check_class_share()
        reason_of(self.reason)
        for key in self.auditors:
            if AUDITOR.fullmatch(key) is None or self.auditors.count(key) > 1:
                raise StudyError(
                    f"an auditor is named once, by an Ed25519 public key of 64 hexadecimal digits, got {key[:70]!r}"
                )
        for party in self.organisations:
            if party not in self.schema.parties:
                raise StudyError(f"an organisation must stand behind a party of the study, got {party!r}")
        for party in self.budget.offers:
            if party not in self.schema.parties:
                raise StudyError(f"an offer must come from a party of the study, got {party!r}")
        for pair in self.impossible:
            self._check_impossible(pair)
        self.query.check(self)

    @classmethod
    def from_terms(
        cls, name: str, schema: Schema, label: str, task: Task, epsilon: float | None = None, **terms: Any
    ) -> Agreement:
        """The agreement that states these terms, by the keys with which it travels."""
        if unknown := [key for key in terms if key not in USUAL]:
            raise StudyError(f"an agreement has no {unknown[0]}; it has {', '.join(USUAL)}")
        stated = {**USUAL, **terms}
        own = {key: stated[key] for key in cls.__dataclass_fields__ if key in stated}
        return cls(name, schema, label, task, budget_of(epsilon, stated["offers"]), query_of(task, stated), **own)

    def terms(self) -> dict[str, Any]:
        """All its terms by these keys."""
        own = {key: value for key, value in vars(self).items() if key not in ("budget", "query")}
        return {**USUAL, **own} | {"epsilon": self.budget.epsilon, "offers": self.budget.offers} | self.query.terms()

    def with_terms(self, **terms: Any) -> Agreement:
        """The same with some terms changed."""
        return Agreement.from_terms(**self.terms() | terms)

    def require_counted_bins(self) -> None:
        """Where a model takes a number in the place of its bins, a bin counts as its mean; agreements of 0.1.0 that
        ask for it in vain are still read, and not planned.
        """
        paper = self.calibration is Calibration.PAPER
        if not paper and self.query.tables:
            return
        without = 'calibration = "paper"' if paper else 'release = "trace"'
        for party, columns in self.schema.parties.items():
            for name, column in columns.items():
                if column.has_levels != column.in_model.has_levels and (party, name) != self.schema.find(self.label):
                    raise StudyError(
                        f'column {name} has bins and model = "number", which needs counts of the bins, and {without} '
                        "has none"
                    )

    def _check_class_share(self) -> None:
        if not self.asked.of_yes_or_no:
            raise StudyError(f"class_share is for a label of two classes, and the task is {self.asked.value}")
        if len(self.class_share) != 2 or not 0 < self.class_share[0] <= self.class_share[1] < 1:
            raise StudyError(
                "class_share must be a share between 0 and 1, or the two shares that it lies between, got "
                f"{list(self.class_share)}"
            )

    @property
    def classes(self) -> tuple[float, float]:
        """Between which shares one of two classes is taken to lie."""
        return (self.class_share[0], self.class_share[1]) if self.class_share else BALANCED

    def _check_impossible(self, pair: tuple[str, str]) -> None:
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise StudyError(f'an impossible pair is written as ["column=level", "column=level"], got {pair!r}')
        for text in pair:
            if self.schema.find_level(text) is None:
                self.schema.find(splits_at(text)[0][0] if "=" in text else text)
                raise StudyError(f"an impossible pair names declared levels of categories, got {text!r}")

    @property
    def law(self) -> Distribution:
        """Of the noise."""
        return Distribution.with_delta(self.delta)

    @property
    def asked(self) -> Task:
        """The kind of model that the records serve."""
        return self.task if self.query.evaluated is None else self.query.evaluated.task

    @property
    def told(self) -> str:
        """What is computed, in a few words."""
        if (declared := self.query.declared) is not None:
            return f"minimum of the sum of {declared.text}, for parameters of norm up to {declared.ball:g}"
        return f"{self.task.value} regression of {self.label}"

    @property
    def labelled(self) -> str:
        """The column that is explained, as "party.column"."""
        evaluated = self.query.evaluated
        return str(self.schema.find(self.label)) if evaluated is None else evaluated.label

    def used(self, party: str) -> tuple[str, ...]:
        """The columns of a party's data that this takes."""
        evaluated = self.query.evaluated
        return tuple(self.schema.parties[party]) if evaluated is None else evaluated.columns[party]

    def to(self) -> dict[str, Any]:
        """The form that travels and is digested; what is not stated is left out, as it was before it could be."""
        terms = self.terms() | {"norms": self.schema.norms}
        written = {key: own.write(terms[key]) for key, own in KEYS.items()}
        return {key: value for key, value in written.items() if value or key in ALWAYS}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Agreement:
        """Read back what `to` wrote."""
        try:
            read = {key: own.read(content[key]) for key, own in KEYS.items() if key in content or key in ALWAYS}
            return cls.from_terms(**read | {"schema": Schema.of(read["schema"], read.pop("norms"))})
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise StudyError(f"an agreement lacks or misstates a field: {str(error)[:200]}") from None


class Key(NamedTuple):
    """A term: how it travels, how it is read, what it is where it is not stated, and how a study file states it.

    One that has no usual value must be stated; one without `stated` stands elsewhere in a file than in [study]. A
    section of a file comes from foundation.sections, which this floor does not load: it reads files.
    """

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    usual: Any = NotImplemented
    stated: Callable[[Any, str], Any] | None = None
    name: str = ""
    """In a study file, where it is another there."""


def _same(value: Any) -> Any:
    return value


def _rows(rows: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(map(str, row)) for row in rows)


def _lists(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [list(row) for row in rows]


def _texts(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(str, texts))


def _value(member: Enum) -> Any:
    return member.value


def _offers(offers: Mapping[str, Offer]) -> dict[str, Any]:
    return {p: {"total": o.total, "own": o.own, "pairs": dict(o.pairs)} for p, o in sorted(offers.items())}


def _kind(of: str) -> Callable[[Any, str], Any]:
    """A value of this kind, as sections read it."""
    return lambda terms, key: getattr(terms, of)(key)


def _chosen(kind: type[Enum]) -> Callable[[Any, str], Any]:
    return lambda terms, key: kind(terms.choice(key, [one.value for one in kind]))


def _delta(terms: Any, key: str) -> float:
    delta: float = terms.number(key)
    if not 0 <= delta < 1:
        raise PrivacyError(f"delta must lie in [0, 1), got delta={delta}")
    return delta


def _objective(terms: Any, key: str) -> str:
    found = terms.content[key]
    if not isinstance(found, str) or not found.strip():
        raise StudyError(f'[study] objective must be a polynomial such as "(y - w * x)^2", got {shown(found)}')
    return found


def _pairs(form: str) -> Callable[[Any, str], tuple[tuple[str, str], ...]]:
    def stated(terms: Any, key: str) -> tuple[tuple[str, str], ...]:
        found = terms.content[key]
        if not isinstance(found, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in found):
            raise StudyError(f"[study] {key} must be a list of pairs {form}, got {shown(found)}")
        return tuple((str(a), str(b)) for a, b in found)

    return stated


def _interactions(terms: Any, key: str) -> tuple[tuple[str, ...], ...]:
    found = terms.content[key]
    if not isinstance(found, list) or not all(
        isinstance(columns, list) and all(isinstance(text, str) for text in columns) for columns in found
    ):
        raise StudyError(
            f'[study] interactions must be a list of lists ["party.column", "party.column"], got {shown(found)}'
        )
    return tuple(tuple(columns) for columns in found)


def _class_share(terms: Any, key: str) -> tuple[float, ...]:
    """One share, or the two that it lies between; the agreement checks that they are shares."""
    found = terms.content[key]
    ends = found if isinstance(found, list) else [found, found]
    if not all(isinstance(end, (int, float)) and not isinstance(end, bool) for end in ends):
        raise StudyError(f"[study] class_share must be a number or a list of two, got {shown(found)}")
    return tuple(map(float, ends))


KEYS: Mapping[str, Key] = {
    "name": Key(_same, str, stated=lambda terms, key: require_name("a study's name", terms.text(key), StudyError)),
    "schema": Key(Schema.to, _same),
    "norms": Key(lambda norms: dict(sorted(norms.items())), _same),
    "label": Key(_same, _same, stated=_kind("text")),
    "task": Key(_value, Task, stated=_chosen(Task)),
    "epsilon": Key(_same, _same, stated=lambda terms, key: check_epsilon(terms.content[key])),
    "offers": Key(
        _offers, lambda offers: {p: Offer(o["total"], o["own"], dict(o["pairs"])) for p, o in offers.items()}, {}
    ),
    "delta": Key(_same, _same, 0.0, _delta),
    "collusion": Key(_same, _same, 1, _kind("whole")),
    "calibration": Key(_value, Calibration, Calibration.EXACT, _chosen(Calibration)),
    "product": Key(_same, _same, "lattice", lambda terms, key: BACKENDS.named(terms.content[key])),
    "release": Key(_same, _same, "auto", lambda terms, key: terms.choice(key, ASKED)),
    "label_square": Key(_same, _same, False, _kind("flag")),
    # What follows is left out where it is as usual, as it was before it could be stated.
    "impossible": Key(_lists, _rows, (), _pairs('["column=level", "column=level"]')),
    "pairs": Key(_lists, _rows, (), _pairs('["column", "column"]')),
    "interactions": Key(_lists, _rows, (), _interactions),
    "order": Key(
        lambda order: 0 if order == ORDERS[0] else order, _same, ORDERS[0], lambda terms, key: terms.whole(key)
    ),
    "interval": Key(_same, _same, None, _kind("number")),
    "ball": Key(_same, _same, None, _kind("number")),
    "objective": Key(_same, str, "", _objective),
    "parameters": Key(list, _texts, (), _kind("texts")),
    "purpose": Key(
        lambda purpose: "" if purpose is Purpose.LABEL else purpose.value, Purpose, Purpose.LABEL, _chosen(Purpose)
    ),
    "evaluates": Key(lambda evaluated: evaluated and evaluated.to(), Evaluated.of, None),
    "ids": Key(IdTerms.to, IdTerms.of, AS_THEY_ARE, lambda terms, key: IdTerms(terms.texts(key)), "id_form"),
    "reason": Key(_same, _same, "", lambda terms, key: reason_of(terms.text(key))),
    "auditors": Key(list, _texts, ()),
    "organisations": Key(
        lambda own: {p: {"name": o.name, "contact": o.contact} for p, o in sorted(own.items())},
        lambda own: {p: Organisation(**o) for p, o in own.items()},
        {},
    ),
    "proofs": Key(_same, _same, "", lambda terms, key: terms.choice(key, PROOFS)),
    "class_share": Key(list, lambda shares: tuple(map(float, shares)), (), _class_share),
}
"""In the order in which they are written."""
ALWAYS = tuple(KEYS)[: tuple(KEYS).index("impossible")]
USUAL = {key: own.usual for key, own in KEYS.items() if own.usual is not NotImplemented}
STATED = {own.name or key: (key, own.stated) for key, own in KEYS.items() if own.stated is not None}
"""What [study] of a file says of an agreement, by the names that it has there."""

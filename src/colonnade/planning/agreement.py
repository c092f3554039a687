"""What all parties agree on before data is touched: the public part of a study."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any

from colonnade.crypto.backends import BACKENDS
from colonnade.foundation.columns import DROP, FILL, INDICATOR, LEVEL
from colonnade.foundation.errors import PrivacyError, StudyError
from colonnade.foundation.matching import AS_THEY_ARE, IdTerms
from colonnade.foundation.names import require_name
from colonnade.foundation.schema import Schema
from colonnade.mechanism.accounting import check_epsilon
from colonnade.mechanism.declared import DeclaredObjective, declared_layout
from colonnade.mechanism.objective import Calibration, Purpose, Task
from colonnade.mechanism.plan import Offer

RELEASES = ("auto", "full", "label", "pairs", "margins", "trace")
"""All products; those with the label and squares; these and some pairs; those with the label and sums of squares."""
ORDERS = (2, 4)
LARGEST_RADIUS = 1e6
"""Of a ball or an interval."""
MOST_FACTORS = 8
"""Of one interaction."""
LONGEST_REASON = 1000
AUDITOR = re.compile("[0-9a-f]{64}")


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
class Evaluated:
    """A model that is evaluated: its scores are the agreement's columns; a policy judges by what they are made of."""

    model: str
    """Digest of the model file, which every party has."""
    label: str
    task: Task
    columns: Mapping[str, tuple[str, ...]]
    """The columns of each party that its scores are computed from, the label among its holder's."""

    def to(self) -> dict[str, Any]:
        columns = {party: list(names) for party, names in self.columns.items()}
        return {"model": self.model, "label": self.label, "task": self.task.value, "columns": columns}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Evaluated:
        columns = {str(party): tuple(str(name) for name in names) for party, names in content["columns"].items()}
        return cls(str(content["model"]), str(content["label"]), Task(content["task"]), columns)


@dataclass(frozen=True)
class Agreement:
    """A study's public terms; every plan is a function of these, of n and of the session id."""

    name: str
    schema: Schema
    label: str
    task: Task
    epsilon: float | None = None
    offers: Mapping[str, Offer] = field(default_factory=dict)
    delta: float = 0.0
    collusion: int = 1
    calibration: Calibration = Calibration.EXACT
    product: str = "lattice"
    release: str = "auto"
    label_square: bool = False
    pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of feature columns whose products are released, where `release` is "pairs"."""
    impossible: tuple[tuple[str, str], ...] = ()
    """Pairs of levels, as "column=level", that no record has; rows drawn from the release have none either."""
    reason: str = ""
    """Why the study is done, for those who agree to it."""
    organisations: Mapping[str, Organisation] = field(default_factory=dict)
    """Who stands behind the parties, where the study says so."""
    auditors: tuple[str, ...] = ()
    """Public keys (Ed25519, hexadecimal) of those who may audit a party of its sessions."""
    evaluates: Evaluated | None = None
    """Where the columns are scores of a model, and the label says how a record turned out."""
    purpose: Purpose = Purpose.LABEL
    """Whether noise is spread for the label's model or for tables of all columns."""
    interactions: tuple[tuple[str, ...], ...] = ()
    """Products of columns, each as "party.column", that a model has a weight for, too."""

    order: int = 2
    """Of the polynomial that stands for the logistic loss: 2, the paper's, or 4."""
    interval: float | None = None
    """Of order 4: the scores, from minus to plus this, on which the polynomial is fitted to the loss."""
    ball: float | None = None
    """Of order 4 the largest root mean square of scores, of a declared objective the largest norm of its parameters."""
    objective: str = ""
    """Of the task polynomial: what is minimised, summed over records."""
    parameters: tuple[str, ...] = ()
    """The names in the objective that are no columns."""
    ids: IdTerms = AS_THEY_ARE

    def __post_init__(self) -> None:
        BACKENDS[self.product]
        if self.release not in RELEASES:
            raise StudyError(f"release must be one of {', '.join(RELEASES)}, got release={self.release!r}")
        require_name("a study's name", self.name, StudyError)
        if not isinstance(self.label_square, bool):
            raise StudyError("an agreement's label_square must be true or false, got another type")
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
        reason_of(self.reason)
        for key in self.auditors:
            if AUDITOR.fullmatch(key) is None or self.auditors.count(key) > 1:
                raise StudyError(
                    f"an auditor is named once, by an Ed25519 public key of 64 hexadecimal digits, got {key[:70]!r}"
                )
        for party in self.organisations:
            if party not in self.schema.parties:
                raise StudyError(f"an organisation must stand behind a party of the study, got {party!r}")
        for pair in self.impossible:
            self._check_impossible(pair)
        self._check_interactions()
        self._check_objective()
        if self.purpose is Purpose.ALL and (self.calibration is Calibration.PAPER or self.release == "trace"):
            told = "the paper's calibration has" if self.calibration is Calibration.PAPER else 'release = "trace" has'
            raise StudyError(f'purpose = "all" spreads noise over tables of all columns, and {told} none')
        if self.purpose is Purpose.ALL and (self.interactions or self.order > 2 or self.declared is not None):
            told = "interactions" if self.interactions else "products of more"
            raise StudyError(f'purpose = "all" spreads noise over tables of two columns, got {told}')
        self._check_pairs()
        self._check_margins()
        if (self.epsilon is None) == (not self.offers):
            raise StudyError(
                "give either epsilon of the study (top-down) or an epsilon of every party (bottom-up), "
                f"got {'neither' if self.epsilon is None else 'both'}"
            )
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        for party, offer in self.offers.items():
            if party not in self.schema.parties:
                raise StudyError(f"an offer must come from a party of the study, got {party!r}")
            check_epsilon(offer.total, f"party {party}: epsilon")

    def _check_pairs(self) -> None:
        if bool(self.pairs) != (self.release == "pairs"):
            told = "lists no pairs" if not self.pairs else f"has release={self.release!r} and lists pairs"
            raise StudyError(f'pairs are listed where release = "pairs", and only there; the study {told}')
        if self.pairs and self.calibration is Calibration.PAPER:
            raise StudyError("a release as in the paper has all pairs, got a list of them")
        label, seen = self.schema.find(self.label), set()
        for pair in self.pairs:
            if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise StudyError(f'a pair is written as ["column", "column"], got {pair!r}')
            found = frozenset(self.schema.find(name) for name in pair)
            if len(found) != 2 or label in found:
                raise StudyError(
                    f"a pair names two different columns other than the label, whose products are released anyway, "
                    f"got {list(pair)!r}"
                )
            if found in seen:
                raise StudyError(f"a pair is listed once, got {list(pair)!r} twice")
            seen.add(found)

    def _check_margins(self) -> None:
        """Margins alone serve no model, and a number has none."""
        if self.release != "margins":
            return
        if self.purpose is not Purpose.ALL or self.task is not Task.LOGISTIC or self.evaluates is not None:
            raise StudyError('release = "margins" counts levels, and needs task = "logistic" and purpose = "all"')
        for columns in self.schema.parties.values():
            for name, column in columns.items():
                if not column.has_levels:
                    raise StudyError(f'release = "margins" counts levels, and column {name} is a number without bins')

    def require_counted_bins(self) -> None:
        """Where a model takes a number in the place of its bins, a bin counts as its mean; agreements of 0.1.0 that
        ask for it in vain are still read, and not planned.
        """
        paper, trace = self.calibration is Calibration.PAPER, self.release == "trace"
        without = 'calibration = "paper"' if paper else 'release = "trace"'
        for party, columns in self.schema.parties.items() if paper or trace else ():
            for name, column in columns.items():
                if column.has_levels != column.in_model.has_levels and (party, name) != self.schema.find(self.label):
                    raise StudyError(
                        f'column {name} has bins and model = "number", which needs counts of the bins, and {without} '
                        "has none"
                    )

    def _check_impossible(self, pair: tuple[str, str]) -> None:
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
            raise StudyError(f'an impossible pair is written as ["column=level", "column=level"], got {pair!r}')
        for text in pair:
            if self.schema.find_level(text) is None:
                self.schema.find(text.partition("=")[0])
                raise StudyError(f"an impossible pair names declared levels of categories, got {text!r}")

    def _check_interactions(self) -> None:
        label = self.schema.find(self.label)
        for columns in self.interactions:
            if not isinstance(columns, tuple) or not all(isinstance(text, str) for text in columns):
                raise StudyError(f'an interaction is written as ["party.column", "party.column"], got {columns!r}')
            if not 2 <= len(columns) <= MOST_FACTORS:
                raise StudyError(f"an interaction has 2 to {MOST_FACTORS} columns, got {len(columns)}")
            if label in map(self.schema.find, columns):
                raise StudyError(f"an interaction is a product of features, got the label {self.label} in one")
        if self.order not in ORDERS or isinstance(self.order, bool):
            raise StudyError(f"order must be one of 2, 4, got order={self.order!r}")
        if self.order > 2 and (
            self.task is not Task.LOGISTIC
            or self.calibration is not Calibration.EXACT
            or self.release not in ("auto", "full")
        ):
            raise StudyError(f"order = {self.order} is for a logistic study with all products and exact calibration")
        if self.calibration is Calibration.PAPER:
            found = [self.schema.find(name) for columns in self.interactions for name in columns]
            levels = [name for party, name in found if self.schema.parties[party][name].has_levels]
            if levels:
                # Its features are single levels: a level times a product with itself is no product of other columns.
                raise StudyError(
                    f'calibration = "paper" takes interactions of numbers alone, got {levels[0]}, which has levels'
                )
        if self.interactions and self.release not in ("auto", "full"):
            raise StudyError(f'interactions need all products, got release="{self.release}"')

    def _check_objective(self) -> None:
        if (self.task is Task.POLYNOMIAL) != bool(self.objective) or bool(self.objective) != bool(self.parameters):
            raise StudyError('an objective and its parameters belong to task = "polynomial", which needs both')
        for name, value in (("interval", self.interval), ("ball", self.ball)):
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and (not number or not 0 < value <= LARGEST_RADIUS):
                raise StudyError(f"{name} must be above 0 and up to {LARGEST_RADIUS:g}, got {name}={value!r}")
        if self.interval is not None and self.order == 2:
            raise StudyError("interval is for order = 4, got order = 2")
        if self.declared is None:
            if self.ball is not None and self.order == 2:
                raise StudyError('ball is for task = "polynomial" and order = 4, got neither')
            return
        if self.interactions or self.release not in ("auto", "full") or self.label_square or self.evaluates is not None:
            told = "interactions" if self.interactions else "label_square" if self.label_square else self.release
            raise StudyError(f"a declared objective says what is released by itself, got {told} besides")

    @cached_property
    def declared(self) -> DeclaredObjective | None:
        """The objective, where the study declares one."""
        if self.task is not Task.POLYNOMIAL:
            return None
        if self.ball is None:
            raise StudyError('task = "polynomial" needs a ball: the largest norm that its parameters may have')
        return DeclaredObjective(self.objective, self.parameters, self.ball)

    @cached_property
    def multiplied(self) -> tuple[tuple[str, str], ...]:
        """Party and column of whatever is a factor of a product of more than two columns, or of an interaction."""
        found = [self.schema.find(name) for columns in self.interactions for name in columns]
        if self.order > 2:
            label = self.schema.find(self.label)
            named = [(party, name) for party, columns in self.schema.parties.items() for name in columns]
            found += [each for each in named if each != label]
        if self.declared is not None:
            layout = declared_layout(self.schema, self.label, self.declared)
            held = [layout.attribute_at(c) for a in layout.attributes for term in a.products for c in term]
            found += [(a.owner, a.column) for a in held]
        return tuple(dict.fromkeys(found))

    @property
    def asked(self) -> Task:
        """The kind of model that the records serve."""
        return self.task if self.evaluates is None else self.evaluates.task

    @property
    def told(self) -> str:
        """What is computed, in a few words."""
        if self.declared is not None:
            return f"minimum of the sum of {self.objective}, for parameters of norm up to {self.ball:g}"
        return f"{self.task.value} regression of {self.label}"

    @property
    def labelled(self) -> str:
        """The column that is explained, as "party.column"."""
        return ".".join(self.schema.find(self.label)) if self.evaluates is None else self.evaluates.label

    def used(self, party: str) -> tuple[str, ...]:
        """The columns of a party's data that this takes."""
        return tuple(self.schema.parties[party]) if self.evaluates is None else self.evaluates.columns[party]

    def to(self) -> dict[str, Any]:
        """The form that travels and is digested; what is not stated is left out, as it was before it could be."""
        known = {
            "impossible": [list(pair) for pair in self.impossible],
            "pairs": [list(pair) for pair in self.pairs],
            "interactions": [list(columns) for columns in self.interactions],
            "order": 0 if self.order == ORDERS[0] else self.order,
            "interval": self.interval,
            "ball": self.ball,
            "objective": self.objective,
            "parameters": list(self.parameters),
            "purpose": "" if self.purpose is Purpose.LABEL else self.purpose.value,
            "evaluates": None if self.evaluates is None else self.evaluates.to(),
            "ids": self.ids.to(),
            "reason": self.reason,
            "auditors": list(self.auditors),
            "organisations": {p: {"name": o.name, "contact": o.contact} for p, o in sorted(self.organisations.items())},
        }
        return self._terms() | {key: value for key, value in known.items() if value}

    def _terms(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "schema": self.schema.to(),
            "norms": dict(sorted(self.schema.norms.items())),
            "label": self.label,
            "task": self.task.value,
            "epsilon": self.epsilon,
            "offers": {
                p: {"total": o.total, "own": o.own, "pairs": dict(o.pairs)} for p, o in sorted(self.offers.items())
            },
            "delta": self.delta,
            "collusion": self.collusion,
            "calibration": self.calibration.value,
            "product": self.product,
            "release": self.release,
            "label_square": self.label_square,
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Agreement:
        """Read back what `to` wrote."""
        try:
            return cls(
                name=str(content["name"]),
                schema=Schema.of(content["schema"], content["norms"]),
                label=content["label"],
                task=Task(content["task"]),
                epsilon=content["epsilon"],
                offers={p: Offer(o["total"], o["own"], dict(o["pairs"])) for p, o in content["offers"].items()},
                delta=content["delta"],
                collusion=content["collusion"],
                calibration=Calibration(content["calibration"]),
                product=content["product"],
                release=content["release"],
                label_square=content["label_square"],
                pairs=tuple((str(a), str(b)) for a, b in content.get("pairs", ())),
                impossible=tuple((str(a), str(b)) for a, b in content.get("impossible", ())),
                ids=IdTerms.of(content.get("ids", {})),
                reason=content.get("reason", ""),
                organisations={p: Organisation(**o) for p, o in content.get("organisations", {}).items()},
                auditors=tuple(map(str, content.get("auditors", ()))),
                evaluates=Evaluated.of(content["evaluates"]) if "evaluates" in content else None,
                purpose=Purpose(content.get("purpose", Purpose.LABEL.value)),
                order=content.get("order", ORDERS[0]),
                interval=content.get("interval"),
                ball=content.get("ball"),
                objective=str(content.get("objective", "")),
                parameters=tuple(map(str, content.get("parameters", ()))),
                interactions=tuple(tuple(map(str, columns)) for columns in content.get("interactions", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise StudyError(f"an agreement lacks or misstates a field: {str(error)[:200]}") from None

"""What a session is asked to release: a query checks itself, gives its layout and its blocks, and says what it holds.

A further query is a class with a `word`, added to `ASKED`: files, plans and ledgers name it by that word, and whatever
is made of a release asks what it holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from colonnade.crypto.backends import BACKENDS
from colonnade.foundation.errors import StudyError
from colonnade.foundation.registry import Registry
from colonnade.mechanism.accounting import gaussian_rho
from colonnade.mechanism.dissection import Block, dissect, squared_sum, squares, traces
from colonnade.mechanism.moments import Layout
from colonnade.mechanism.objective import (
    Calibration,
    Pairs,
    Purpose,
    Task,
    by_size,
    divided,
    exact_objective,
    layout_of,
    margins_objective,
    paper_objective,
)
from colonnade.mechanism.weights import TableTerms, choose_release, choose_tables, has_sizes

if TYPE_CHECKING:
    from colonnade.mechanism.declared import DeclaredObjective
    from colonnade.planning.agreement import Agreement

ORDERS = (2, 4)
"""Of the polynomial that stands for the logistic loss: the paper's, or one of products of up to four features."""
LARGEST_RADIUS = 1e6
"""Of a ball or an interval."""
MOST_FACTORS = 8
"""Of one interaction."""
NO_TABLES = 'purpose = "all" spreads noise over tables of all columns, and {} none'


EVALUATED, KEPT_NAME = " evaluated by ", 120
"""An evaluation is called by so much of its study's name, and by its model."""


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
class Higher:
    """Products of more than two columns."""

    interactions: tuple[tuple[str, ...], ...] = ()
    """Products of columns, each as "party.column", that a model has a weight for, too."""
    order: int = ORDERS[0]
    """Of the polynomial that stands for the logistic loss."""
    interval: float | None = None
    """Of order 4: the scores, from minus to plus this, on which the polynomial is fitted to the loss."""
    ball: float | None = None
    """Of order 4: the largest root mean square of scores."""

    def __post_init__(self) -> None:
        for columns in self.interactions:
            if not isinstance(columns, tuple) or not all(isinstance(text, str) for text in columns):
                raise StudyError(f'an interaction is written as ["party.column", "party.column"], got {columns!r}')
            if not 2 <= len(columns) <= MOST_FACTORS:
                raise StudyError(f"an interaction has 2 to {MOST_FACTORS} columns, got {len(columns)}")
        if self.order not in ORDERS or isinstance(self.order, bool):
            raise StudyError(f"order must be one of 2, 4, got order={self.order!r}")
        for name, value in (("interval", self.interval), ("ball", self.ball)):
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and (not number or not 0 < value <= LARGEST_RADIUS):
                raise StudyError(f"{name} must be above 0 and up to {LARGEST_RADIUS:g}, got {name}={value!r}")
            if value is not None and self.order == ORDERS[0]:
                wanted = 'task = "polynomial" and order = 4' if name == "ball" else "order = 4"
                raise StudyError(f"{name} is for {wanted}, got order = 2")

    def __bool__(self) -> bool:
        return bool(self.interactions) or self.order > ORDERS[0]

    def check(self, agreement: Agreement) -> None:
        """Raise unless a study of these columns can have such products."""
        schema, paper = agreement.schema, agreement.calibration is Calibration.PAPER
        found = [schema.find(name) for columns in self.interactions for name in columns]
        if schema.find(agreement.label) in found:
            raise StudyError(f"an interaction is a product of features, got the label {agreement.label} in one")
        if self.order > ORDERS[0] and (agreement.task is not Task.LOGISTIC or paper):
            raise StudyError(f"order = {self.order} is for a logistic study with all products and exact calibration")
        levels = [ref.column for ref in found if schema.columns[ref].has_levels]
        if paper and levels:
            # Its features are single levels: a level times a product with itself is no product of other columns.
            raise StudyError(
                f'calibration = "paper" takes interactions of numbers alone, got {levels[0]}, which has levels'
            )


@dataclass(frozen=True)
class Query:
    """What a session is asked to release."""

    purpose: Purpose = Purpose.LABEL
    """Whether noise is spread for the label's model or for tables of all columns."""
    label_square: bool = False
    higher: Higher = Higher()
    """Products of more than two columns that are released besides."""
    evaluated: Evaluated | None = None
    """The model, where the columns are scores of one, and the label says how a record turned out."""
    declared: DeclaredObjective | None = None
    word: ClassVar[str]
    """How files, plans and ledgers call it."""
    meaning: ClassVar[str]
    products: ClassVar[bool] = True
    """Whether there are products with the label; margins alone serve no model and no rows."""
    tables: ClassVar[bool] = True
    """Of two columns, where these have levels."""
    sized: ClassVar[bool] = False
    """Whether noise may be spread over its tables by their size."""

    def terms(self) -> dict[str, Any]:
        """The terms of an agreement that say the same."""
        own = {"release": self.word, "label_square": self.label_square, "purpose": self.purpose}
        return own | vars(self.higher) | {"evaluates": self.evaluated}

    def check(self, agreement: Agreement) -> None:
        """Raise unless this can be asked of the agreement's columns."""
        if self.purpose is Purpose.ALL and agreement.calibration is Calibration.PAPER:
            raise StudyError(NO_TABLES.format("the paper's calibration has"))
        self.higher.check(agreement)

    def multiplied(self, agreement: Agreement) -> tuple[tuple[str, str], ...]:
        """Party and column of whatever is a factor of a product of more than two columns, or of an interaction."""
        schema = agreement.schema
        found = [schema.find(name) for columns in self.higher.interactions for name in columns]
        if self.higher.order > ORDERS[0]:
            found += [ref for ref in schema.columns if ref != schema.find(agreement.label)]
        return tuple(dict.fromkeys(found))

    def draft(self, agreement: Agreement) -> Layout:
        """The coordinates of a record, by which an automatic query chooses."""
        interactions, order = self.higher.interactions, self.higher.order
        counted = self.evaluated is not None
        return layout_of(*_columns(agreement), counted=counted, interactions=interactions, order=order)

    def settled(self, agreement: Agreement, layout: Layout, rows: int) -> Query:
        """The query that is planned: this one, or what an automatic choice, a linear evaluation or the paper make."""
        if self.evaluated is not None and agreement.task is Task.LINEAR:
            return Errors(self.purpose)
        # A delta that means nothing is refused by the plan.
        if agreement.calibration is Calibration.PAPER or layout.has_interactions or not 0 <= agreement.delta < 1:
            return Full(self.purpose, self.label_square, self.higher, self.evaluated)
        return self

    def layout(self, agreement: Agreement, draft: Layout) -> Layout:
        """The coordinates of a record as this query groups them."""
        return by_size(draft) if self._by_size(agreement, draft) else draft

    def _by_size(self, agreement: Agreement, layout: Layout) -> bool:
        if self.purpose is Purpose.ALL:
            return True
        exact = agreement.calibration is Calibration.EXACT and not layout.has_interactions
        return exact and self.sized and has_sizes(layout)

    def blocks(self, agreement: Agreement, layout: Layout) -> tuple[Block, ...]:
        """The blocks of what is released."""
        if agreement.calibration is Calibration.PAPER:
            return dissect(paper_objective(layout, agreement.task))
        return self._blocks(agreement, layout)

    def _blocks(self, agreement: Agreement, layout: Layout) -> tuple[Block, ...]:
        """The same for the exact calibration: all products."""
        objective = exact_objective(layout, label_square=self._square(agreement))
        return dissect(objective, by_cells=self._by_size(agreement, layout))

    def seals(self, layout: Layout) -> str | None:
        """The party that seals its columns in all products of two parties, where it matters."""
        return None

    def _square(self, agreement: Agreement) -> bool:
        """Whether the label's square is asked for; that of levels is known, for a record has one of them."""
        return self.label_square and agreement.task is Task.LINEAR


def _columns(agreement: Agreement) -> tuple[Any, str, Task, Calibration]:
    return agreement.schema, agreement.label, agreement.task, agreement.calibration


@dataclass(frozen=True)
class Full(Query):
    """All products of two columns, and of more where they are asked for."""

    word, meaning, sized = "full", "all products", True

    def check(self, agreement: Agreement) -> None:
        super().check(agreement)
        if self.purpose is Purpose.ALL and self.higher:
            told = "interactions" if self.higher.interactions else "products of more"
            raise StudyError(f'purpose = "all" spreads noise over tables of two columns, got {told}')


@dataclass(frozen=True)
class Auto(Full):
    """The release that the plan expects to serve its purpose best."""

    word, meaning = "auto", "the one that is expected to serve best"

    def settled(self, agreement: Agreement, layout: Layout, rows: int) -> Query:
        found = super().settled(agreement, layout, rows)
        if found is not self:
            return found
        word, law, epsilon = Full.word, agreement.law, agreement.budget.least
        if agreement.task is not Task.MULTINOMIAL and self.evaluated is None:
            if self.purpose is Purpose.ALL:
                budget = float(gaussian_rho(epsilon, agreement.delta)) if agreement.delta else epsilon
                terms = TableTerms(law, rows, budget, agreement.collusion)
                word = choose_tables(layout, terms, counted=agreement.task is Task.LOGISTIC)
            else:
                word = choose_release(layout, rows, law, epsilon, agreement.delta)
        return ASKED[word](self.purpose, self.label_square, evaluated=self.evaluated)


@dataclass(frozen=True)
class Label(Query):
    """Products with the label, and of numbers their squares."""

    word, meaning, sized = "label", "products with the label, margins and squares", True

    def _blocks(self, agreement: Agreement, layout: Layout) -> tuple[Block, ...]:
        # Without all pairs it is the label's variance that says how far columns can follow it.
        square = self._square(agreement) or agreement.task is Task.LINEAR
        objective = exact_objective(layout, label_square=square, pairs=self.places(agreement, layout))
        return dissect(objective, by_cells=self._by_size(agreement, layout)) + squares(layout)

    def places(self, agreement: Agreement, layout: Layout) -> Pairs:
        """The places of the pairs of features that are released, too."""
        return frozenset()


@dataclass(frozen=True)
class Listed(Label):
    """These, and the products of the listed pairs of feature columns."""

    pairs: tuple[tuple[str, str], ...] = ()
    word, meaning = "pairs", "products with the label and the listed pairs"

    def terms(self) -> dict[str, Any]:
        return super().terms() | {"pairs": self.pairs}

    def check(self, agreement: Agreement) -> None:
        super().check(agreement)
        if agreement.calibration is Calibration.PAPER:
            raise StudyError("a release as in the paper has all pairs, got a list of them")
        label, seen = agreement.schema.find(agreement.label), set()
        for pair in self.pairs:
            if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise StudyError(f'a pair is written as ["column", "column"], got {pair!r}')
            found = frozenset(agreement.schema.find(name) for name in pair)
            if len(found) != 2 or label in found:
                raise StudyError(
                    f"a pair names two different columns other than the label, whose products are released anyway, "
                    f"got {list(pair)!r}"
                )
            if found in seen:
                raise StudyError(f"a pair is listed once, got {list(pair)!r} twice")
            seen.add(found)

    def layout(self, agreement: Agreement, draft: Layout) -> Layout:
        return super().layout(agreement, divided(draft, self.places(agreement, draft)))

    def places(self, agreement: Agreement, layout: Layout) -> Pairs:
        place = {a.ref: i for i, a in enumerate(layout.attributes)}
        named = (tuple(place[agreement.schema.find(name)] for name in pair) for pair in self.pairs)
        return frozenset((min(i, j), max(i, j)) for i, j in named)


@dataclass(frozen=True)
class Margins(Query):
    """How many records have each level: margins alone serve no model, and a number has none."""

    word, meaning, products = "margins", "how many records have each level, column by column", False

    def check(self, agreement: Agreement) -> None:
        super().check(agreement)
        label = self.purpose is Purpose.LABEL
        if label or agreement.task is not Task.LOGISTIC or self.evaluated is not None:
            raise StudyError('release = "margins" counts levels, and needs task = "logistic" and purpose = "all"')
        for columns in agreement.schema.parties.values():
            for name, column in columns.items():
                if not column.has_levels:
                    raise StudyError(f'release = "margins" counts levels, and column {name} is a number without bins')

    def _blocks(self, agreement: Agreement, layout: Layout) -> tuple[Block, ...]:
        return dissect(margins_objective(layout), by_cells=True)


@dataclass(frozen=True)
class Traced(Query):
    """Products with the label, and one sum of squares for each party."""

    word, meaning, tables = "trace", "products with the label and sums of squares", False

    def check(self, agreement: Agreement) -> None:
        super().check(agreement)
        if self.purpose is Purpose.ALL:
            raise StudyError(NO_TABLES.format('release = "trace" has'))

    def layout(self, agreement: Agreement, draft: Layout) -> Layout:
        # One product with the label instead of two class-split sums: half the noise where sums of x are not needed.
        return layout_of(*_columns(agreement), split=False)

    def _blocks(self, agreement: Agreement, layout: Layout) -> tuple[Block, ...]:
        square = agreement.task is Task.LINEAR
        return dissect(exact_objective(layout, products=False)) + traces(layout, label_square=square)

    def seals(self, layout: Layout) -> str | None:
        return layout.attributes[layout.label].owner


@dataclass(frozen=True)
class Declared(Query):
    """The products of columns that a declared objective sums."""

    stated: str = Full.word
    """The word that the agreement has for it, "auto" or "full"."""
    word, meaning = Full.word, "the objective's products"

    @property
    def polynomial(self) -> DeclaredObjective:
        """The objective."""
        assert self.declared is not None
        return self.declared

    def terms(self) -> dict[str, Any]:
        own = self.polynomial
        asked = {"objective": own.text, "parameters": own.parameters, "ball": own.ball}
        return super().terms() | {"release": self.stated} | asked

    def multiplied(self, agreement: Agreement) -> tuple[tuple[str, str], ...]:
        layout = self.draft(agreement)
        held = [layout.attribute_at(c).ref for term in layout.factors if len(term) > 1 for c in term]
        return tuple(dict.fromkeys(ref for ref in held if ref is not None))

    def draft(self, agreement: Agreement) -> Layout:
        from colonnade.mechanism.declared import declared_layout

        return declared_layout(agreement.schema, agreement.label, self.polynomial)

    def settled(self, agreement: Agreement, layout: Layout, rows: int) -> Query:
        return self

    def blocks(self, agreement: Agreement, layout: Layout) -> tuple[Block, ...]:
        from colonnade.mechanism.declared import declared_terms

        paper = agreement.calibration is Calibration.PAPER
        return dissect(declared_terms(layout, self.polynomial, None if paper else agreement.law))


@dataclass(frozen=True)
class Errors(Query):
    """The squares of a linear model's errors, and of its label."""

    word, meaning = "errors", "the squares of a model's errors"

    def layout(self, agreement: Agreement, draft: Layout) -> Layout:
        return super().layout(agreement, layout_of(*_columns(agreement), split=False))

    def _blocks(self, agreement: Agreement, layout: Layout) -> tuple[Block, ...]:
        """The label's holder has its part of the error as the label, and the label itself as its one feature."""
        if len(layout.owners) > 1 and not BACKENDS[agreement.product].shared:
            raise StudyError(
                f'the errors of a linear model are summed by product = "lattice", got product = "{agreement.product}"'
            )
        holder = layout.attributes[layout.label].owner
        parts = {}
        for i, ref in enumerate(attribute.ref for attribute in layout.attributes):
            if ref is not None and (i == layout.label or ref.party != holder):
                low, high = agreement.schema.columns[ref].require_bounds()
                parts[ref.party] = (layout.starts[i], (high - low) / 2)
        about = [block for block in traces(layout, label_square=False) if block.owners == (holder,)]
        return squared_sum(layout, parts) + tuple(about)


ASKED: Registry[type[Query]] = Registry("release", StudyError)
"""The queries that `release` names in a study."""
for _kind in (Auto, Full, Label, Listed, Margins, Traced):
    ASKED.add(_kind.word, _kind)


def query_of(task: Task, terms: Mapping[str, Any]) -> Query:
    """The query that an agreement's terms state."""
    release, text, pairs = terms["release"], terms["objective"], terms["pairs"]
    kind = ASKED[release]
    if not isinstance(terms["label_square"], bool):
        raise StudyError("an agreement's label_square must be true or false, got another type")
    if bool(pairs) != (release == Listed.word):
        told = "lists no pairs" if not pairs else f"has release={release!r} and lists pairs"
        raise StudyError(f'pairs are listed where release = "pairs", and only there; the study {told}')
    if (task is Task.POLYNOMIAL) != bool(text) or bool(text) != bool(terms["parameters"]):
        raise StudyError('an objective and its parameters belong to task = "polynomial", which needs both')
    ball = terms["ball"]
    higher = Higher(terms["interactions"], terms["order"], terms["interval"], None if text else ball)
    if higher and (text or not issubclass(kind, Full)):
        told = (
            "interactions need" if higher.interactions else f"order = {higher.order} is for a logistic study and needs"
        )
        raise StudyError(f"{told} all products, got {'an objective' if text else f'release={release!r}'}")
    own: dict[str, Any] = {"pairs": pairs} if pairs else {}
    query = kind(terms["purpose"], terms["label_square"], higher, terms["evaluates"], **own)
    if not text:
        return query
    besides = [key for key in ("label_square", "evaluates") if terms[key]]
    if besides or not isinstance(query, Full) or query.purpose is Purpose.ALL:
        told = besides[0] if besides else 'purpose = "all"' if isinstance(query, Full) else release
        raise StudyError(f"a declared objective says what is released by itself, got {told} besides")
    if ball is None:
        raise StudyError('task = "polynomial" needs a ball: the largest norm that its parameters may have')
    from colonnade.mechanism.declared import DeclaredObjective

    return Declared(declared=DeclaredObjective(text, terms["parameters"], ball), stated=release)

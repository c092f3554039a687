"""What a session releases of all products, and its blocks: a function of the public agreement and of n alone."""

from __future__ import annotations

from colonnade.crypto.backends import BACKENDS
from colonnade.foundation.errors import StudyError
from colonnade.mechanism.accounting import gaussian_rho
from colonnade.mechanism.declared import declared_terms
from colonnade.mechanism.dissection import Block, dissect, squared_sum, squares, traces
from colonnade.mechanism.moments import Distribution, Layout
from colonnade.mechanism.objective import (
    Calibration,
    Pairs,
    Purpose,
    Task,
    exact_objective,
    margins_objective,
    paper_objective,
)
from colonnade.mechanism.weights import TableTerms, choose_release, choose_tables, has_sizes
from colonnade.planning.agreement import Agreement


def choose_released(agreement: Agreement, layout: Layout, rows: int) -> str:
    """All products, or where these would drown in noise the products with the label, and a trace, or margins alone."""
    if agreement.evaluates is not None and agreement.task is Task.LINEAR:
        return "errors"
    # A delta that means nothing is refused by the plan.
    if agreement.calibration is Calibration.PAPER or layout.has_interactions or not 0 <= agreement.delta < 1:
        return "full"
    if agreement.release != "auto":
        return agreement.release
    if agreement.task is Task.MULTINOMIAL or agreement.evaluates is not None:
        return "full"
    law = Distribution.GAUSSIAN if agreement.delta > 0 else Distribution.LAPLACE
    epsilon = agreement.epsilon or min(o.total for o in agreement.offers.values())
    if agreement.purpose is Purpose.ALL:
        budget = epsilon if law is Distribution.LAPLACE else float(gaussian_rho(epsilon, agreement.delta))
        terms = TableTerms(law, rows, budget, agreement.collusion)
        return choose_tables(layout, terms, counted=agreement.task is Task.LOGISTIC)
    return choose_release(layout, rows, law, epsilon, agreement.delta)


def spreads_by_size(agreement: Agreement, layout: Layout, released: str) -> bool:
    """Whether noise is spread over tables by their size."""
    if agreement.purpose is Purpose.ALL:
        return True
    exact = agreement.calibration is Calibration.EXACT and not layout.has_interactions
    return exact and released in ("full", "label", "pairs") and has_sizes(layout)


def released_blocks(agreement: Agreement, layout: Layout, released: str) -> tuple[Block, ...]:
    """The blocks of what is released."""
    if agreement.declared is not None:
        paper = agreement.calibration is Calibration.PAPER
        law = Distribution.GAUSSIAN if agreement.delta > 0 else Distribution.LAPLACE
        return dissect(declared_terms(layout, agreement.declared, None if paper else law))
    if agreement.calibration is Calibration.PAPER:
        return dissect(paper_objective(layout, agreement.task))
    by_cells = spreads_by_size(agreement, layout, released)
    if released == "full":
        return dissect(exact_objective(layout, label_square=_label_square(agreement)), by_cells=by_cells)
    if released in ("label", "pairs"):
        # Without all pairs it is the label's variance that says how far columns can follow it.
        square = _label_square(agreement) or agreement.task is Task.LINEAR
        objective = exact_objective(layout, label_square=square, pairs=named_pairs(agreement, layout))
        return dissect(objective, by_cells=by_cells) + squares(layout)
    if released == "margins":
        return dissect(margins_objective(layout), by_cells=True)
    if released == "errors":
        return _error_blocks(agreement, layout)
    return dissect(exact_objective(layout, products=False)) + traces(layout, label_square=agreement.task is Task.LINEAR)


def _label_square(agreement: Agreement) -> bool:
    """Whether the label's square is asked for; that of levels is known, for a record has one of them."""
    return agreement.label_square and agreement.task is Task.LINEAR


def named_pairs(agreement: Agreement, layout: Layout) -> Pairs:
    """The places of the pairs of features that the agreement names."""
    place = {a.name: i for i, a in enumerate(layout.attributes)}
    named = (tuple(place[".".join(agreement.schema.find(name))] for name in pair) for pair in agreement.pairs)
    return frozenset((min(i, j), max(i, j)) for i, j in named)


def _error_blocks(agreement: Agreement, layout: Layout) -> tuple[Block, ...]:
    """The label's holder has its part of the error as the label, and the label itself as its one feature."""
    if len(layout.owners) > 1 and not BACKENDS[agreement.product].shared:
        raise StudyError(
            f'the errors of a linear model are summed by product = "lattice", got product = "{agreement.product}"'
        )
    holder = layout.attributes[layout.label].owner
    about = [block for block in traces(layout, label_square=False) if block.owners == (holder,)]
    return squared_sum(layout, _parts(agreement, layout)) + tuple(about)


def _parts(agreement: Agreement, layout: Layout) -> dict[str, tuple[int, float]]:
    """Where each party's part of the error stands, and how far it reaches."""
    out = {}
    for i, attribute in enumerate(layout.attributes):
        if i == layout.label or attribute.owner != layout.attributes[layout.label].owner:
            low, high = agreement.schema.parties[attribute.owner][attribute.column].require_bounds()
            out[attribute.owner] = (layout.starts[i], (high - low) / 2)
    return out

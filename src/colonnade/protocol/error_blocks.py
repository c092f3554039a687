"""What an evaluation of a linear model opens: squared errors across parties, and the label's own squares."""

from __future__ import annotations

from colonnade.crypto.backends import BACKENDS
from colonnade.foundation.errors import StudyError
from colonnade.mechanism.dissection import Block, squared_sum, traces
from colonnade.mechanism.moments import Layout
from colonnade.protocol.agreement import Agreement


def error_blocks(agreement: Agreement, layout: Layout) -> tuple[Block, ...]:
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
            name = attribute.name.removeprefix(f"{attribute.owner}.")
            low, high = agreement.schema.parties[attribute.owner][name].require_bounds()
            out[attribute.owner] = (layout.starts[i], (high - low) / 2)
    return out

"""How every object of the interface shows itself: as text in a terminal, as tables and pictures in a notebook."""

from __future__ import annotations

import io
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from colonnade.data.table import Table
    from colonnade.report.results import Answer

PathLike = str | os.PathLike[str]
WIDTH = 100  # of a terminal that does not say how wide it is


class Shown:
    """An object that prints as text, and shows itself as HTML where a notebook asks for it."""

    if TYPE_CHECKING:

        @property
        def answer(self) -> Answer: ...

    def __rich__(self) -> RenderableType:
        from colonnade.report.render.terminal import whole

        return whole(self.answer, full=False)

    def __repr__(self) -> str:
        from rich.console import Console

        out = io.StringIO()
        width = max(60, min(160, shutil.get_terminal_size((WIDTH, 24)).columns))
        plain = Console(
            file=out, width=width, force_terminal=False, force_jupyter=False, markup=False, highlight=False, emoji=False
        )
        plain.print(self)
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip()

    def _repr_html_(self) -> str | None:
        """A notebook shows the text where the extra "page" is not installed."""
        if not find_spec("markupsafe"):
            return None
        from colonnade.report.render.markup import fragment

        return fragment(self.answer)


class Framed(Shown):
    """An answer as an object; its first table is a data frame."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    @property
    def answer(self) -> Answer:
        return self._answer

    @property
    def frame(self) -> pl.DataFrame:
        return self.answer.tables[0].frame


def warn_of(table: Table) -> None:
    """Warn of what is not as declared, and of which the declaration does not say what follows."""
    for note in table.surprises():
        warn_user(f"party {table.party}: {note}")


_TOLD: ContextVar[Callable[[str], object] | None] = ContextVar("told", default=None)


@contextmanager
def telling(tell: Callable[[str], object] = str) -> Iterator[None]:
    """Within this context warnings are told so; by default nowhere, for who has the answer shows its notes."""
    token = _TOLD.set(tell)
    try:
        yield
    finally:
        _TOLD.reset(token)


def warn_user(note: str, kind: type[Warning] = UserWarning) -> None:
    """A warning at the user's own line, however deep in the package it is given."""
    if (tell := _TOLD.get()) is not None:
        tell(note)
        return
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith("colonnade."):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(note, kind, stacklevel=depth)

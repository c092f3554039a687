"""Tables for a terminal of any width: texts fold between words, numbers stay whole, too many columns go below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

LONGEST_WORD = 40
"""Cells of a word that is not broken where there is room for it."""
NARROWEST = 8  # characters: narrower cells break every word


class TidyTable(Table):
    """A table that knows its terminal's width only when it is shown, and then lays out its columns."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width
        for k, part in enumerate(self._parts(room)):
            if k:
                yield Text("")
            widths = _widths(part.columns, room)
            for column, width in zip(part.columns, widths, strict=True):
                column.width = width
            yield from Table.__rich_console__(part, console, options)

    def _parts(self, room: int) -> Iterator[Table]:
        """The table, or several that repeat its first column, where its numbers alone are too wide."""
        first, *rest = self.columns
        groups: list[list[Column]] = [[]]
        for column in rest:
            if groups[-1] and _total([_least(c) for c in (first, *groups[-1], column)]) > room:
                groups.append([])
            groups[-1].append(column)
        # Texts fold further before a table is taken apart.
        if len(groups) == 1 or not all(c.no_wrap for c in rest):
            groups = [rest]
        for group in groups:
            part = Table(box=self.box, padding=self.padding, show_edge=self.show_edge)
            part.columns = [replace(c, _index=k, _cells=list(c._cells)) for k, c in enumerate((first, *group))]
            part.rows = self.rows
            yield part


def tidy_table(*columns: str, right: Sequence[int] = (), narrow: int = 0) -> Table:
    """In a narrow terminal texts fold and numbers stay whole."""
    table = TidyTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for i, column in enumerate(columns):
        if i in right:
            table.add_column(column, justify="right", no_wrap=True, min_width=narrow or None)
        else:
            table.add_column(column, overflow="fold")
    return table


def _total(widths: Sequence[int]) -> int:
    """With the blank after each column, and the gap before the next."""
    return sum(widths) + 2 * len(widths) - 1


def _texts(column: Column) -> list[str]:
    cells: list[RenderableType] = [column.header, *column._cells]
    return [cell.plain if isinstance(cell, Text) else str(cell) for cell in cells]


def _natural(column: Column) -> int:
    widest = max((cell_len(line) for text in _texts(column) for line in text.splitlines() or [""]), default=0)
    return max(widest, column.min_width or 0, 1)


def _least(column: Column) -> int:
    """What a column needs so that no word of a text, and no number, is broken; a head folds between words."""
    head, *cells = _texts(column)
    words = [cell_len(word) for text in ([head] if column.no_wrap else [head, *cells]) for word in text.split()]
    if column.no_wrap:
        # A number with its interval is one thing.
        widest = max([min(max(words, default=1), LONGEST_WORD), *(cell_len(text) for text in cells)])
        return max(widest, column.min_width or 0)
    return min(max(words, default=1), LONGEST_WORD, _natural(column))


def _widths(columns: Sequence[Column], room: int) -> list[int]:
    """Each column's width: as it is, or with the widest text narrowed, first between words and then within them."""
    widths = [_natural(c) for c in columns]
    for floors in ([_least(c) for c in columns], [_least(c) if c.no_wrap else NARROWEST for c in columns]):
        while _total(widths) > room:
            spare = [i for i, width in enumerate(widths) if width > floors[i]]
            if not spare:
                break
            widths[max(spare, key=lambda i: widths[i])] -= 1
    return widths

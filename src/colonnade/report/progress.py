"""A bar for each step of a run: on the error stream where that is a terminal, in a notebook, or nowhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

NAMES = {
    "read": "reading the files",
    "align": "matching ids in private",
    "plan": "agreeing on the plan",
    "products": "multiplying sealed columns",
    "submit": "submitting masked blocks",
    "open": "opening the release",
}


class _Clock(ProgressColumn):
    """Time left while a step runs, time taken once it is done."""

    def render(self, task: Task) -> Text:
        if task.finished:
            return Text(f"took {task.finished_time or 0:.1f} s", style="dim")
        return Text("" if task.time_remaining is None else f"{task.time_remaining:.0f} s left", style="cyan")


class NotebookSteps:
    """The same in a notebook: one display that is written anew as the run goes on."""

    EVERY = 0.1
    """Seconds between two pictures of it."""

    def __init__(self) -> None:
        from IPython.display import display

        self._display = display
        self._handle: Any = None
        self._shares: dict[str, float] = {}
        self._began: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self._drawn = 0.0

    def __enter__(self) -> NotebookSteps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._shares:
            self._finish(None)
            self._draw()

    def __call__(self, step: str, share: float) -> None:
        now = time.monotonic()
        if step not in self._shares:
            self._finish(step)
            self._began[step] = now
        elif step in self._ended:
            return
        self._shares[step] = min(1.0, share)
        if now - self._drawn >= self.EVERY:
            self._draw()

    def _finish(self, but: str | None) -> None:
        now = time.monotonic()
        for step in self._shares:
            if step != but and step not in self._ended:
                self._shares[step], self._ended[step] = 1.0, now

    def _draw(self) -> None:
        from IPython.display import HTML

        rows = []
        for step, share in self._shares.items():
            told = f"{100 * share:.0f}%"
            if step in self._ended:
                told = f"took {self._ended[step] - self._began[step]:.1f} s"
            bar = f'<progress value="{share:.3f}" max="1"></progress>'
            rows.append(f"<tr><td>{escape(NAMES.get(step, step))}</td><td>{bar}</td><td>{told}</td></tr>")
        page = HTML(f'<div class="colonnade"><table class="steps">{"".join(rows)}</table></div>')
        self._drawn = time.monotonic()
        if self._handle is None:
            self._handle = self._display(page, display_id=True)
        else:
            self._handle.update(page)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and hasattr(shell, "kernel")


class Steps:
    """Called with a step and the share of it that is done, as transport.embedded does."""

    def __init__(self, console: Console) -> None:
        self._tasks: dict[str, TaskID] = {}
        self._shown: set[str] = set()
        self._progress = Progress(
            TextColumn("{task.description:<28}"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f}%"),
            _Clock(),
            console=console,
            disable=not console.is_terminal,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Steps:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()
        self._progress.stop()

    def __call__(self, step: str, share: float) -> None:
        if step in self._shown:
            return
        if step not in self._tasks:
            self._finish()
            self._tasks[step] = self._progress.add_task(NAMES.get(step, step), total=1.0)
        self._progress.update(self._tasks[step], completed=min(1.0, share))

    def print_between(self, console: Console, *parts: RenderableType) -> None:
        """Print between the bars of steps so far and those to come; the stream may be another one of the terminal."""
        if not parts:
            return
        with self.pause():
            for part in parts:
                console.print(part)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave the terminal to others; steps so far stay as they stand."""
        self._finish()
        self._progress.stop()
        for task in self._tasks.values():
            self._progress.remove_task(task)
        self._shown |= set(self._tasks)
        self._tasks.clear()
        yield
        self._progress.start()

    def _finish(self) -> None:
        for task in self._tasks.values():
            self._progress.update(task, completed=1.0)

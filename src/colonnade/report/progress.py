"""A bar for each step of a run on the error stream; nothing at all where that is no terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

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

"""Progress bars on stderr for tasks of a process pool, if stderr is a terminal and the tasks take over a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from weft.cli.render import PROGRESS_DELAY_S, REDRAW_S

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class ProgressBars:
    """One bar for each label. Tasks with the same label share it."""

    def __init__(self, labels: Sequence[str], totals: Sequence[int]) -> None:
        self._labels, self._totals = labels, totals
        self._done = [0] * len(labels)
        self._due = time.monotonic() + PROGRESS_DELAY_S
        self._progress: Progress | None = None
        self._bars: dict[str, TaskID] = {}
        self._on = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, task: int, done: int) -> None:
        self._done[task] = done

    def finish(self, task: int) -> None:
        self._done[task] = self._totals[task]

    def refresh(self) -> None:
        """Draw the bars, unless they were drawn just now."""
        if self._on and (now := time.monotonic()) >= self._due:
            self._due = now + REDRAW_S
            self._draw()

    def _draw(self) -> None:
        if self._progress is None:
            self._progress = self._start()
        for label, bar in self._bars.items():
            mine = [at for at, each in enumerate(self._labels) if each == label]
            self._progress.update(bar, completed=sum(self._done[at] for at in mine))
        self._progress.refresh()

    def _start(self) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}", markup=False), BarColumn(24), MofNCompleteColumn())
        console = Console(stderr=True)
        progress = Progress(*columns, TimeElapsedColumn(), console=console, auto_refresh=False, transient=True)
        for label in dict.fromkeys(self._labels):
            total = sum(n for each, n in zip(self._labels, self._totals, strict=True) if each == label)
            self._bars[label] = progress.add_task(label, total=total)
        progress.start()
        return progress

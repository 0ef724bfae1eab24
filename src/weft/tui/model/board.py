"""Everything the screen knows: the rows as the last changes left them.

`apply` replaces rows and raises the version of what changed. Lists are made from the rows when they are drawn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from weft.model.status import ENDED
from weft.views.answers.changes import ChangesView, EventView
from weft.views.answers.jobs import JobView
from weft.views.answers.live_rows import LiveRows
from weft.views.answers.nodes import GpuView
from weft.views.from_state.timestamps import seconds_of

MAX_ENDED: Final = 500
"""Ended jobs that stay on the screen."""
MAX_EVENTS: Final = 1000
MAX_USAGE: Final = 240
"""Samples of the use of all GPUs."""
SAMPLE_S: Final = 2.0
PARTS: Final = {
    "counts": ("counts",), "gpus": ("gpus", "readings", "left"), "nodes": ("nodes", "left"), "services": ("services",),
    "weaves": ("weaves",),
}  # fmt: skip
"""The parts of a message that change what is drawn."""


class Board(LiveRows):
    """`simulated`: time passes with messages alone. A simulation may be paused, and has a speed."""

    def __init__(self, *, simulated: bool = False) -> None:
        super().__init__()
        self._simulated = simulated
        self.jobs: dict[str, JobView] = {}
        self.events: deque[EventView] = deque(maxlen=MAX_EVENTS)
        self.received_at = 0.0
        """When that message came, by the clock of the screen."""
        self.ranks: dict[str, int] = {}
        """The places of the first waiting jobs in the queue."""
        self.since: dict[str, float] = {}
        """When the time of each job began to count, by the clock of the scheduler; of an ended job, when it ended."""
        self.usage: deque[tuple[float, float]] = deque(maxlen=MAX_USAGE)
        """Samples: the part of the GPUs with a job, and their mean utilisation."""
        self.versions = {"jobs": 0, "gpus": 0, "nodes": 0, "services": 0, "weaves": 0, "events": 0, "counts": 0}
        self.is_empty = True
        """True until the first message."""
        self._ended: set[str] = set()
        self._sampled_at = float("-inf")

    def apply(self, changes: ChangesView, received_at: float) -> None:
        if changes.reset:
            self._reset()
        self.is_empty = False
        self.received_at = received_at
        self.take(changes)
        for name, parts in PARTS.items():
            if any(getattr(changes, part) is not None for part in parts):
                self._raise(name)
        if changes.order is not None:
            self.ranks = {job: rank for rank, job in enumerate(changes.order)}
            self._raise("jobs")
        self._put_jobs(changes.jobs or (), changes.purged or ())
        self._put_events(changes)
        self._sample()

    def time_of(self, job: JobView, screen_now: float) -> float:
        """Return how long a job has run or waited by now."""
        if job.status in ENDED or job.id not in self.since:
            return job.time_s
        return self.clock(screen_now) - self.since[job.id]

    def clock(self, screen_now: float) -> float:
        """Return the scheduler's time now."""
        return self.now if self._simulated else self.now + max(screen_now - self.received_at, 0.0)

    # ---- parts of a message

    def _reset(self) -> None:
        for rows in (self.jobs, self.since, self.ranks):
            rows.clear()
        self._ended.clear()
        for name in self.versions:
            self._raise(name)

    def _raise(self, name: str) -> None:
        self.versions[name] += 1

    def _put_jobs(self, jobs: Iterable[JobView], purged: Iterable[str]) -> None:
        changed = False
        for job in jobs:
            changed = True
            self.jobs[job.id] = job
            if job.status in ENDED:
                self._ended.add(job.id)
                self.since[job.id] = seconds_of(job.ended)
            else:
                self._ended.discard(job.id)
                self.since[job.id] = self.now - job.time_s
        for name in purged:
            changed |= self._drop(name)
        if len(self._ended) > MAX_ENDED:
            for name in sorted(self._ended, key=self.since.__getitem__)[: len(self._ended) - MAX_ENDED]:
                self._drop(name)
        if changed:
            self._raise("jobs")

    def _drop(self, name: str) -> bool:
        self.since.pop(name, None)
        self._ended.discard(name)
        return self.jobs.pop(name, None) is not None

    def _put_events(self, changes: ChangesView) -> None:
        if not changes.events:
            return
        self.events.extend(changes.events)
        if changes.missed_events:
            self.events.append(
                EventView(at=changes.now, kind="more", text=f"and {changes.missed_events:,} more events")
            )
        self._raise("events")

    def _sample(self) -> None:
        if self.now - self._sampled_at < SAMPLE_S or not self.gpus:
            return
        self._sampled_at = self.now
        self.usage.append((self.busy_part(), self.mean_utilisation() or 0.0))

    # ---- totals

    def busy_part(self) -> float:
        return self.busy() / max(len(self.gpus), 1)

    def mean_utilisation(self) -> float | None:
        """Return the mean utilisation as a part; None: no driver reports any."""
        found = self.utilisation()
        return None if found is None else found / 100

    def memory_part(self) -> float:
        """Return the part of the GPU memory that is used, or reserved where no driver reports."""
        there = sum(gpu.memory_mb for gpu in self.gpus.values())
        return sum(map(memory_of, self.gpus.values())) / max(there, 1)


def memory_of(gpu: GpuView) -> int:
    return gpu.reserved_mb if gpu.used_mb is None else gpu.used_mb

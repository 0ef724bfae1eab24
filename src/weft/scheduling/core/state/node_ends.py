"""Nodes that leave at a known time, such as those of an allocation: no job starts there that may run for longer.

The needs of jobs are part of their shapes only once such a node has joined: without one, nothing changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.model import Job, Seconds
from weft.model.status import ENDED
from weft.scheduling.core.resources.node import NodeResources
from weft.scheduling.core.resources.shapes import with_need
from weft.scheduling.core.state.job import JobState

if TYPE_CHECKING:
    from weft.scheduling.core.state.state import State

MIN_LEFT_S: Final = 10.0
"""A job of unknown length starts only on nodes that stay for at least this long."""


def time_needed_s(job: Job) -> float | None:
    """Return how long a job may run: its time limit, else its declared duration; None: unknown."""
    limit_s = job.task.time_limit_s if job.task is not None else None
    return limit_s if limit_s is not None else job.declared_s


def limit(state: State, host: NodeResources, until: Seconds, now: Seconds) -> None:
    """Record when a node leaves. From the first such node on, shapes include the time that jobs need."""
    state.resources.set_end(host, until, now)
    if not state.timed:
        state.timed = True
        for job in state.jobs.values():
            if job.status not in ENDED:
                apply_need(state, job)
                state.touched[job.id] = job


def apply_need(state: State, job: JobState) -> None:
    """Make the time that a job needs a part of its shape."""
    found_s = time_needed_s(job.job)
    need_s = MIN_LEFT_S if found_s is None or job.job.replica is not None else found_s
    job.shape = with_need(job.shape, need_s)
    state.resources.needs[need_s] = None

"""Jobs in containers, for `weft doctor`: how many want one, and which failed because none started."""

from __future__ import annotations

from typing import Final

from weft.model import Job, Seconds
from weft.node.engine.container.detection import NO_RUNTIME
from weft.node.engine.container.oci import BAD_CONTAINER
from weft.scheduling.core.state.state import State

RECENT_S: Final = 86400.0
"""Older failures are no problem of today."""


def count(state: State) -> int:
    """Return how many services, and jobs that have not ended, have an image."""
    jobs = sum(_has_image(each.job) for each in state.jobs.values() if each.ended_at is None)
    return jobs + sum(_has_image(each.service.template) for each in state.services.by_name.values())


def problems(state: State, now: Seconds) -> list[str] | None:
    """Return the problem of jobs that failed in the last day because no container started; None: there are none."""
    causes = (BAD_CONTAINER, NO_RUNTIME)
    failed = [job.id for job in state.ended.values() if job.why in causes and (job.ended_at or 0.0) > now - RECENT_S]
    if not failed:
        return None
    return [
        f"no container started for {len(failed):,} failed jobs of the last day: weft show {failed[-1]} has the reason"
    ]


def _has_image(job: Job) -> bool:
    return job.task is not None and bool(job.task.image)

"""The weaves of runs, as the state has them and as agents get them. Pure."""

from __future__ import annotations

from typing import Final

from weft.access.wire.messages import ReweaveRun, SchedulerMessage, Weave
from weft.scheduling.core.state.job import JobState, weave_id
from weft.scheduling.core.state.state import State

DEFAULT_ORDER: Final = "fair"
MIN_LIMIT_S: Final = 2.0
MAX_LIMIT_S: Final = 20.0
"""Three such waits fit into a minute: after three a member that hangs is unwoven."""
LIMIT_PER_STAGE: Final = 10.0
"""A member may hold a stage for this many times the longest stage in the profiles of its weave."""


def weave_message(job: JobState, state: State, order: str) -> Weave:
    """Return the weave of a job's present run. That of a run which is not woven any more has a size of 0."""
    if len(job.weave) < 2:
        return Weave()
    return Weave(
        id=weave_id(job),
        place=job.weave.index(job.id),
        size=len(job.weave),
        order=order or DEFAULT_ORDER,
        limit_s=limit_s(job, state),
    )


def limit_s(job: JobState, state: State) -> float:
    """Return how long a member may hold a stage before it is passed over."""
    longest_s = 0.0
    for name in job.weave:
        member = state.jobs.get(name)
        profile = state.profiles.of(member.job) if member is not None else None
        if profile is None:
            return MAX_LIMIT_S
        longest_s = max(longest_s, profile.gpu_s, profile.network_s)
    return min(max(LIMIT_PER_STAGE * longest_s, MIN_LIMIT_S), MAX_LIMIT_S)


def reweave_run(job: JobState, state: State, epoch: int, order: str) -> SchedulerMessage:
    """Return the message that gives a run its present weave."""
    weave = weave_message(job, state, order)
    return SchedulerMessage(reweave=ReweaveRun(epoch=epoch, job=job.id, run=job.run, weave=weave))

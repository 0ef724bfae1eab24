"""Checks of a replanner's asks against the state."""

from __future__ import annotations

from collections.abc import Iterable

from weft.core.ports import Ask
from weft.core.resources.shapes import Shape, joint_shape, pinned_shape
from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.errors import PlanError
from weft.model import JobId, Share


def jobs_of(state: State, ask: Ask) -> tuple[JobState, ...]:
    """Return the jobs of an ask; raise a `PlanError` unless all of them wait or run."""
    jobs = tuple([job for job in map(state.jobs.get, ask.jobs) if job is not None and job.ended_at is None])
    if len(jobs) < len(ask.jobs) or not jobs:
        raise PlanError(f"the policy asks for {ask.jobs or 'no jobs'}, not all of which wait or run")
    return jobs


def refuse_twice(asks: Iterable[Ask]) -> None:
    """Raise a `PlanError` if one plan asks for a job more than once."""
    seen: set[JobId] = set()
    for ask in asks:
        for job in ask.jobs:
            if job in seen:
                raise PlanError(f"the policy asks for {job} twice in one plan")
            seen.add(job)


def ask_shape(state: State, ask: Ask, jobs: tuple[JobState, ...]) -> Shape:
    """Return the shape of an ask. Woven jobs must need the same number of GPUs, and get exactly that many."""
    gpus = ask.gpus
    for job in jobs:
        if job.gpus != gpus:
            raise PlanError(f"{ask} gives jobs other than the {[job.gpus for job in jobs]} GPUs they need")
    if ask.where.pinned:
        return pinned_shape(jobs[0].shape, ask.share, ask.where)
    return weave_shape(state, jobs, ask.share)


def weave_shape(state: State, jobs: tuple[JobState, ...], share: Share) -> Shape:
    """Return the shape of jobs that run together."""
    return joint_shape(jobs, share, lambda job: state.profiles.of(job.job))


def weave_of(jobs: tuple[JobId, ...]) -> tuple[JobId, ...]:
    """Return the weave of these jobs, as decisions name it: empty for a single job, else in the order of places."""
    return jobs if len(jobs) > 1 else ()

"""Checks of a replanner's asks against the state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.errors import AskError
from weft.model import ANYWHERE, JobId, Share, Where
from weft.scheduling.core.ports import Ask
from weft.scheduling.core.resources.shapes import Shape, joint_shape, pinned_shape, with_where
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State


def jobs_of(state: State, ask: Ask) -> tuple[JobState, ...]:
    """Return the jobs of an ask; raise an `AskError` unless all of them wait or run."""
    jobs = tuple([job for job in map(state.jobs.get, ask.jobs) if job is not None and job.ended_at is None])
    if len(jobs) < len(ask.jobs) or not jobs:
        raise AskError(f"asks for {ask.jobs or 'no jobs'}, not all of which wait or run")
    return jobs


def refuse_twice(asks: Iterable[Ask]) -> None:
    """Raise an `AskError` if one plan asks for a job more than once."""
    seen: set[JobId] = set()
    for ask in asks:
        for job in ask.jobs:
            if job in seen:
                raise AskError(f"asks for {job} twice in one plan")
            seen.add(job)


def ask_shape(state: State, ask: Ask, jobs: tuple[JobState, ...], *, keeps_where: bool = False) -> Shape:
    """Return the shape of an ask. Woven jobs must need the same number of GPUs, and get exactly that many.

    `keeps_where`: jobs start only as a plan asks, so an ask may say more of where than its jobs do.
    """
    gpus = ask.gpus
    for job in jobs:
        if job.gpus != gpus:
            raise AskError(
                f"returned {ask}, which gives jobs other than the {[job.gpus for job in jobs]} GPUs they need"
            )
    where = ask.where
    says_more = where is not ANYWHERE and any(where != job.job.where for job in jobs)
    if says_more and not keeps_where:
        raise AskError(
            f"returned {ask}, whose `where` is not that of its jobs: between two plans jobs start in order, where they"
            " fit; put it into the jobs, or set preempts = False, and each plan starts jobs only where it asks"
        )
    if where.pinned:
        return pinned_shape(jobs[0].shape, ask.share, where)
    shape = weave_shape(state, jobs, ask.share)
    return with_where(shape, _joint_where(ask, jobs)) if says_more else shape


def _joint_where(ask: Ask, jobs: tuple[JobState, ...]) -> Where:
    """Return where all of these jobs and the ask may run."""
    values: dict[str, Any] = {}
    labels: dict[str, Any] = {}
    for where in (ask.where, *(job.job.where for job in jobs)):
        wanted = (("gpu_model", where.gpu_model), ("pinned", where.pinned), ("choice", where.choice))
        for known, pairs in ((values, wanted), (labels, where.labels)):
            for key, value in pairs:
                if value and known.setdefault(key, value) != value:
                    raise AskError(f"returned {ask}, but its jobs need {key} {value}, not {known[key]}")
    return Where(**values, labels=tuple(labels.items()))


def weave_shape(state: State, jobs: tuple[JobState, ...], share: Share) -> Shape:
    """Return the shape of jobs that run together."""
    return joint_shape(jobs, share, lambda job: state.profiles.of(job.job))


def weave_of(jobs: tuple[JobId, ...]) -> tuple[JobId, ...]:
    """Return the weave of these jobs, as decisions name it: empty for a single job, else in the order of places."""
    return jobs if len(jobs) > 1 else ()

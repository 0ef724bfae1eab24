"""Facts about jobs: submissions, edits, cancellations, holds, pauses and quotas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.model import (
    BatchLimited,
    Cancelled,
    Edited,
    GroupLimited,
    Held,
    Job,
    Limited,
    Paused,
    Purged,
    Released,
    Resumed,
    Submitted,
)
from weft.model.status import ACTIVE, ENDED
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.node_ends import apply_need
from weft.scheduling.core.state.quotas import GroupSettings
from weft.scheduling.core.state.transitions import change_status

if TYPE_CHECKING:
    from weft.scheduling.core.state.state import State


def submitted(state: State, fact: Submitted) -> bool:
    job = JobState(fact.job, state.next_tail_tie(), fact.at)
    if (known := state.jobs.get(job.id)) is not None:
        if known.status not in ENDED:
            return False
        job.run = known.run  # a job that is submitted again under its id goes on counting: each run has its files
        _purge(state, known)
    if (replaced := state.touched.get(job.id)) is not None:
        job.place = replaced.place  # for the order to remove
    if state.timed:
        apply_need(state, job)
    state.count_id(job.id)
    state.resources.recent.add(job.shape)
    state.jobs[job.id] = state.touched[job.id] = job
    state.news = True
    if fact.job.batch:
        state.eligibility.register(job)
    if _has_conditions(fact.job) or state.eligibility.limited:
        check_eligibility(state, job, fact.at)
    elif fact.job.replica is None:
        state.waiting[job.id] = job
    else:
        state.services.waiting[job.id] = job
    if fact.job.replica is not None:
        state.services.add(job)
    return True


def _has_conditions(job: Job) -> bool:
    """Return whether a job may have to wait for other jobs, for a place in its batch or for its begin time."""
    return bool(job.after or job.batch_limit or job.begin_at is not None or job.after_any or job.after_failed)


def check_eligibility(state: State, job: JobState, at: float) -> None:
    """Let a new or edited job wait for GPUs if it may; otherwise block it, or cancel it if it never may."""
    if job.status == "waiting":
        change_status(job, "ineligible")
    if job.job.begin_at is not None and job.job.begin_at > at:
        job.begin_at = job.job.begin_at
        state.eligibility.delay(job)
    elif state.eligibility.enter(job):
        state.open(job)
    elif state.eligibility.doomed(job) is not None:
        state.end(job, "doomed", at, "dependency")


def edited(state: State, fact: Edited) -> bool:
    job = state.jobs.get(fact.job.id)
    if job is None or job.status in ENDED or job.status in ACTIVE or job.job.batch != fact.job.batch:
        return False
    for follower in state.eligibility.leave(job):
        state.open(follower)
    job.become(fact.job)
    if state.timed:
        apply_need(state, job)
    job.allocation, job.begin_at, job.over_quota, job.over_group_limit = job.shape, None, False, False
    state.line(job).pop(job.id, None)
    state.touched[job.id] = job
    state.news = True
    change_status(job, "Edited")
    if _has_conditions(fact.job) or state.eligibility.limited:
        check_eligibility(state, job, fact.at)
    else:
        state.open(job)
    return True


def cancelled(state: State, fact: Cancelled) -> bool:
    job = state.jobs.get(fact.job)
    if job is None or job.status in ENDED or job.cancelling:
        return False
    if job.status in ACTIVE:
        job.cancelling = True
        if job.status != "stopping":
            state.orphans[job.id] = job
        if job.job.replica is not None:  # its service has one replica less
            state.services.touch()
        return True
    state.end(job, "Cancelled", fact.at)
    state.news = True
    return True


def held(state: State, fact: Held) -> bool:
    job = state.jobs.get(fact.job)
    if job is None or job.status in ENDED or job.held:
        return False
    job.held, job.held_why = True, fact.why
    if job.status == "waiting":
        del state.line(job)[job.id]
        state.open(job)
        state.news = True
    elif job.status == "blocked" and not job.unmet_dependencies and job.begin_at is None:
        change_status(job, "Held")
        state.touched[job.id] = job
        for follower in state.eligibility.free_place(job):
            state.open(follower)
            state.news = True
    return True


def released(state: State, fact: Released) -> bool:
    job = state.jobs.get(fact.job)
    if job is None or not job.held:
        return False
    job.held, job.held_why = False, ""
    if job.status == "held":
        change_status(job, "Released")
        state.touched[job.id] = job
        if state.eligibility.join_batch(job):
            state.open(job)
            state.news = True
        else:
            change_status(job, "ineligible")
    return True


def purged(state: State, fact: Purged) -> bool:
    for name in fact.jobs:
        if (job := state.ended.get(name)) is not None:
            _purge(state, job)
    return True


def _purge(state: State, job: JobState) -> None:
    del state.ended[job.id], state.jobs[job.id]
    state.eligibility.forget(job)


def paused(state: State, fact: Paused) -> bool:
    changed = state.paused.get(fact.why) != fact.detail
    state.paused[fact.why] = fact.detail
    return changed


def resumed(state: State, fact: Resumed) -> bool:
    state.news = True
    return state.paused.pop(fact.why, None) is not None


def limited(state: State, fact: Limited) -> bool:
    _move(state, *state.eligibility.limit(fact.user, fact.gpus))
    return True


def group_limited(state: State, fact: GroupLimited) -> bool:
    groups = state.eligibility.groups
    settings = GroupSettings(fact.jobs, fact.paused, fact.notify)
    if groups.settings_of(fact.group) == settings:
        return False
    _move(state, *groups.set_group(fact.group, settings))
    return True


def batch_limited(state: State, fact: BatchLimited) -> bool:
    tasks = [job for job in state.jobs.values() if job.job.batch == fact.batch]
    for job in tasks:
        job.job = replace(job.job, batch_limit=fact.limit)
    _move(state, *state.eligibility.limit_batch(fact.batch, tasks))
    return bool(tasks)


def _move(state: State, opened: Iterable[JobState], shut: Iterable[JobState]) -> None:
    """Let the opened jobs wait for GPUs, and block the shut ones."""
    for job in shut:
        del state.line(job)[job.id]
        change_status(job, "ineligible")
        state.touched[job.id] = job
    for job in opened:
        state.open(job)
    state.news = True

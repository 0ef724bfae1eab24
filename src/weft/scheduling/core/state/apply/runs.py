"""Facts about runs: they start, progress, stop and exit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.model import (
    WHOLE,
    Continued,
    Evicted,
    Exited,
    JobId,
    Measured,
    Progressed,
    Reported,
    Rewoven,
    Seconds,
    Start,
    Started,
    Stop,
    Suspended,
    Unwoven,
    Use,
    Used,
)
from weft.scheduling.core.resources.shapes import exclusive_shape, shape_of_weave, with_memory
from weft.scheduling.core.state.apply import services
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.node_ends import apply_need
from weft.scheduling.core.state.transitions import TRANSITIONS, Cause, change_status

if TYPE_CHECKING:
    from weft.scheduling.core.state.state import State

_STARTS, _STARTED, _STOPS = TRANSITIONS["Start"], TRANSITIONS["Started"], TRANSITIONS["Stop"]
PLANNED_STOPS: Final = frozenset({"preempted", "moved", "reclaimed"})
"""Reasons of stops whose GPUs a plan has already given to other jobs."""
MAX_RESTART_DELAY_S: Final = 60.0
"""The longest delay between two runs of a replica that ends by itself."""
SAME_EVERYWHERE: Final = frozenset({"timeout", "bad-image", "no-runtime"})
"""Why a run failed, where another run would fail alike: no retry is spent."""
OOM_MEMORY_FACTOR: Final = 1.5
"""The factor by which the memory estimate of a job rises after it ran out of GPU memory."""


def start(state: State, fact: Start) -> bool:
    job = state.jobs.get(fact.job)
    if (
        job is None or job.status not in _STARTS or fact.run <= job.run
    ):  # an adopted run may have a higher number than the next
        return False
    change_status(job, "Start")
    job.run, job.share, job.weave = fact.run, fact.share, fact.weave
    job.slots = job.placed = fact.slots
    job.reserved = ()
    if fact.weave:
        job.woven_at = _formed_at(state, job, fact.weave, fact.at)
    if fact.share is not job.wanted_share:
        job.allocation = shape_of_weave((job.shape,), fact.share, job.job.where)
    else:
        job.allocation = job.shape
    job.started_at = job.rate_since = fact.at
    if job.remaining_s is None:
        similar = state.durations.similar(job.job)
        job.predicted_s = similar.mean_s if similar is not None else None
    if job.first_start is None:
        job.first_start = fact.at
    if job.stop_why != "moved":
        job.tie_breaker = state.next_run_tie()
    job.stop_why = "preempted"
    state.resources.hold(job, fact.slots)
    if job.job.replica is None:
        del state.waiting[job.id]
    else:
        del state.services.waiting[job.id]
    state.active[job.id] = state.touched[job.id] = job
    return True


def _formed_at(state: State, job: JobState, weave: tuple[JobId, ...], at: Seconds) -> Seconds:
    """Return when a weave was formed that a run joins at this time: with its first member."""
    members = (state.active.get(name) for name in weave)
    return next((m.woven_at for m in members if m is not None and m is not job and m.weave == weave), at)


def rewoven(state: State, fact: Rewoven) -> bool:
    job = state.running(fact.job, fact.run)
    if job is None or job.status not in _STOPS:
        return False
    job.woven_at = _formed_at(state, job, fact.weave, fact.at) if fact.weave else -1.0
    job.weave = fact.weave
    state.resources.touch(job.slots)
    state.touched[job.id] = job
    return True


def unwoven(state: State, fact: Unwoven) -> bool:
    """Take a run out of its weave. It calls for no plan: the run and its partners go on on their GPUs."""
    job = state.running(fact.job, fact.run)
    if job is None or job.status not in _STOPS or not job.weave:
        return False
    job.weave, job.woven_at, job.unwoven = (), -1.0, fact.why
    state.resources.touch(job.slots)
    state.touched[job.id] = job
    return True


def started(state: State, fact: Started) -> bool:
    job = state.jobs.get(fact.job)
    if job is None or job.run != fact.run or job.status not in _STARTED:
        return False
    change_status(job, "Started")
    job.attain(fact.at)
    job.rate, job.rate_since = fact.rate, fact.at
    state.touched[job.id] = job
    return True


def progressed(state: State, fact: Progressed) -> bool:
    job = state.running(fact.job, fact.run)
    if job is None:
        return False
    job.report(fact.at, fact.remaining_s)
    state.resources.touch(job.slots)
    if job.status == "running":
        job.rate = fact.rate
    state.touched[job.id] = job
    return True


def reported(state: State, fact: Reported) -> bool:
    """Keep the last report of a job, which may have ended meanwhile. It calls for no plan."""
    job = state.jobs.get(fact.job)
    if job is None or fact.report.run != job.run:
        return False
    job.reported = fact.report
    return True


def suspended(state: State, fact: Suspended) -> bool:
    job = state.running(fact.job, fact.run)
    if job is None or job.status == "stopping" or job.suspended:
        return False
    job.suspended = True
    return True


def continued(state: State, fact: Continued) -> bool:
    job = state.running(fact.job, fact.run)
    if job is None or not job.suspended:
        return False
    job.suspended = False
    return True


def evicted(state: State, fact: Evicted) -> bool:
    job = state.running(fact.job, fact.run)
    if job is None or job.status not in _STOPS:
        return False
    if job.ready_at is not None:  # a replica that serves is replaced first
        job.leaving = True
        state.services.touch()
    else:
        state.orphans[job.id] = job
    state.news = True
    return True


def stop(state: State, fact: Stop) -> bool:
    job = state.jobs.get(fact.job)
    if job is None or job.run != fact.run or job.status not in _STOPS:
        return False
    change_status(job, "Stop")
    job.stop_why, job.releasing = fact.why, True
    if fact.why == "reclaimed":
        job.reclaimed_at = state.teams.reclaimed[job.id] = fact.at
    state.orphans.pop(job.id, None)
    if job.key_changed_at != fact.at and fact.why != "moved":
        job.tie_breaker = state.next_front_tie()
    state.resources.begin_release(job, job.slots)
    state.touched[job.id] = job
    return True


def used(state: State, fact: Used) -> bool:
    """Add what a run used. It may have ended meanwhile, and its job with it."""
    job = state.jobs.get(fact.job)
    if job is None or not 0 < fact.run <= job.run:
        return False
    job.use = fact.use if job.use is None else job.use.plus(fact.use)
    return True


def exited(state: State, fact: Exited) -> bool:
    job = state.running(fact.job, fact.run)
    if job is None:
        return False
    if fact.cpu_s or fact.rss_mb:
        job.use = (job.use or Use()).plus(Use(cpu_s=fact.cpu_s, rss_mb=fact.rss_mb))
    if job.releasing and fact.how == "stopped" and job.stop_why in PLANNED_STOPS:
        state.vacated = True
    else:
        state.news = True
    state.resources.release(job, job.slots)
    job.slots = ()
    job.service_s -= fact.late_s
    job.report(fact.at, fact.remaining_s)
    job.code, job.why, job.detail = fact.code, fact.why, fact.detail
    job.failed_rank, job.failed_node = fact.rank, fact.node
    if job.job.replica is not None and _ended_by_itself(job, fact):
        services.count_failed_start(state, job, _end_text(fact))
    cause = _cause(state, job, fact)
    delay_s = fact.delay_s if job.job.replica is None else _restart_delay_s(job, fact)
    job.delays = job.delays + 1 if delay_s else 0
    if TRANSITIONS[cause][job.status] == "waiting":
        job.begin_at = fact.at + delay_s if delay_s else None
        state.put_back(job, cause, fact.at, fact.why)
    else:
        state.end(job, cause, fact.at, fact.why)
    return True


def _cause(state: State, job: JobState, fact: Exited) -> Cause:
    """Return the cause by which the run ended, a key of `TRANSITIONS`; a job that runs again goes to the tail."""
    if job.job.replica is not None:
        return _replica_cause(job, fact)
    if fact.how == "done":
        return "done"
    how: Cause = "lost" if job.lost and fact.how == "failed" else fact.how
    if job.cancelling:
        return "cancelling"
    if how == "failed" and not job.releasing and _runs_again(state, job):
        job.tie_breaker = state.next_tail_tie()
        return "retried"
    if how == "requeued" and not job.releasing:
        job.requeues += 1
        job.tie_breaker = state.next_tail_tie()
    return how


def _replica_cause(job: JobState, fact: Exited) -> Cause:
    """Return the cause by which the run of a replica ended. A replica runs again, unless it is drained."""
    if job.cancelling or job.draining_since is not None:
        job.cancelling = True
        return "cancelling"
    if fact.how in ("stopped", "lost") or job.releasing or job.lost:
        return "lost" if job.lost else "stopped"
    job.failures += fact.how == "failed"
    return "retried"


def _restart_delay_s(job: JobState, fact: Exited) -> float:
    """Return the delay before a replica that ended by itself runs again: twice as long after each such end."""
    backoff_s = min(2.0**job.delays, MAX_RESTART_DELAY_S) if _ended_by_itself(job, fact) else 0.0
    return fact.delay_s or backoff_s


def _ended_by_itself(job: JobState, fact: Exited) -> bool:
    return fact.how in ("done", "failed", "requeued") and not job.releasing and not job.lost


def _end_text(fact: Exited) -> str:
    """Return how a replica ended that was never ready."""
    code = f"exit code {fact.code}" if fact.code is not None else "it ended"
    return ", ".join(filter(None, (code, fact.why, fact.detail)))


def _runs_again(state: State, job: JobState) -> bool:
    """Return whether a failed job runs again. A job that ran out of memory on shared GPUs gets one run alone."""
    if job.why == "oom":
        shared_gpus = not job.exclusive and job.allocation.family.share.request < 1
        job.exclusive, job.wanted_share = True, WHOLE
        needed = max(int(job.allocation.memory_mb.max * OOM_MEMORY_FACTOR), job.measured_mb)
        job.measured_mb = min(needed, state.resources.largest_memory_mb())
        job.shape = exclusive_shape(job.job, job.measured_mb)
        if state.timed:
            apply_need(state, job)
        if shared_gpus:
            return True
    if job.why in SAME_EVERYWHERE or job.failures >= job.job.retries:
        return False
    job.failures += 1
    return True


def measured(state: State, fact: Measured) -> bool:
    """Allocate to the run the memory that was measured."""
    job = state.running(fact.job, fact.run)
    if job is None:
        return False
    job.measured_mb = max(job.measured_mb, fact.memory_mb)
    job.allocation = with_memory(job.allocation, fact.memory_mb)
    state.resources.touch(job.slots)
    state.news = True
    return True

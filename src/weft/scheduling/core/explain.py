"""Explanations: why a job waits, which jobs are ahead of it, and what would let it run. Codes with Slurm's meaning have
Slurm's names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from weft.errors import UnknownName
from weft.model import JobId, Seconds
from weft.model.groups import group_label
from weft.model.status import ENDED, Reason
from weft.scheduling.core.planning.allocator import Allocator, decide_nothing
from weft.scheduling.core.reasons import SHOWN, Cause, WaitReasons, count_gpus, why_not_woven
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.eligibility import condition_of
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State


@dataclass(frozen=True)
class Ahead:
    """A waiting job ahead of the explained one."""

    job: JobId
    user: str
    gpus: int


@dataclass(frozen=True)
class Unblock:
    """The runs whose ends would free enough GPUs for the job."""

    jobs: tuple[JobId, ...]
    nodes: tuple[str, ...]
    """The nodes on which the job would then fit."""
    in_s: float | None
    """When the last of them is expected to end; None: unknown."""
    preempted: tuple[JobId, ...] = ()
    """The ones that may be preempted for the job before they end by themselves."""


@dataclass(frozen=True)
class Explanation:
    job: JobId
    at: Seconds
    status: str
    reasons: tuple[Cause, ...]
    position: int | None = None
    """Position in the queue, from 1; None: the job does not wait."""
    waiting: int = 0
    ahead: tuple[Ahead, ...] = ()
    """The first jobs ahead of it."""
    unblock: Unblock | None = None

    def lines(self) -> list[str]:
        lines = [f"job {self.job} is {self.status} at {self.at:.0f} s"]
        lines += [f"  {reason.code}: {reason.text}" for reason in self.reasons]
        if self.position is not None:
            lines.append(f"  position {self.position} of {self.waiting} waiting")
        if self.ahead:
            named = ", ".join(f"{a.job} ({f'{a.user}, ' if a.user else ''}{count_gpus(a.gpus)})" for a in self.ahead)
            more = (self.position or 1) - 1 - len(self.ahead)
            lines.append(f"  ahead: {named}" + (f" and {more} more" if more > 0 else ""))
        if self.unblock is not None:
            lines.append(f"  would fit on {', '.join(self.unblock.nodes)} {_when(self.unblock)}")
        return lines


def explain(scheduler: Scheduler, job_id: JobId, *, at: Seconds | None = None) -> Explanation:
    """Explain a job as of the scheduler's last instant, or as of `at` if nothing else happens until then."""
    state = scheduler.state
    now = state.now if at is None else at
    job = state.jobs.get(job_id)
    if job is None:
        raise UnknownName("job", job_id, list(state.jobs)[:2000])
    if job.status == "held":
        return Explanation(job.id, now, job.status, (_why_held(job),))
    if job.status == "blocked":
        return Explanation(job.id, now, job.status, (_why_blocked(state, job, now),))
    if job.status != "waiting":
        return Explanation(job.id, now, job.status, (_where_it_runs(job, state), *_not_woven(scheduler, job, now)))
    ahead = _ahead(scheduler, job)
    reasons = (*WaitReasons(scheduler, now).of(job, ahead), *_not_woven(scheduler, job, now))
    lacks_resources = any(reason.code == Reason.RESOURCES for reason in reasons)
    return Explanation(
        job.id,
        now,
        job.status,
        reasons,
        position=len(ahead) + 1,
        waiting=len(state.waiting if job.job.replica is None else state.services.waiting),
        ahead=tuple(Ahead(other.id, other.job.user, other.gpus) for other in ahead[:SHOWN]),
        unblock=_unblock(scheduler, job, now) if lacks_resources else None,
    )


def _why_held(job: JobState) -> Cause:
    if job.held_why == Reason.STOPPED_EARLY:
        return Cause.of(Reason.STOPPED_EARLY, "other trials of its sweep do better; release it to let it continue")
    return Cause.of(Reason.HELD, "held; release it to let it run")


def _why_blocked(state: State, job: JobState, now: Seconds) -> Cause:
    if job.unmet_dependencies:
        return Cause.of(Reason.DEPENDENCY, f"comes after {', '.join(_dependencies(job))}")
    if job.begin_at is not None and job.before_begin:
        return Cause.of(Reason.BEGIN_TIME, f"starts no earlier than in {max(job.begin_at - now, 0.0):.0f} s")
    if job.begin_at is not None:
        code = "" if job.code is None else f" with code {job.code}"
        in_s = max(job.begin_at - now, 0.0)
        return Cause.of(
            Reason.BEGIN_TIME, f"run {job.run} ended{code}; the next run starts no earlier than in {in_s:.0f} s"
        )
    if job.over_quota:
        limit = state.eligibility.quotas.limit_of(job.job.user)
        return Cause.of(
            Reason.QUOTA, f"the jobs of {job.job.user or 'a user'} that run or are next may hold at most {limit} GPUs"
        )
    if job.over_group_limit:
        return _group_limit(state, job.job.group)
    return Cause.of(Reason.ARRAY_LIMIT, f"at most {job.job.batch_limit} tasks of {job.job.batch} at a time")


def _dependencies(job: JobState) -> Iterator[str]:
    """Yield the first unmet dependencies. Name the condition unless it is the usual one, that the other job is done."""
    words = {"done": "", "ended": "the end of ", "failed": "a failure of "}
    for other in islice(job.unmet_dependencies, SHOWN):
        yield words[condition_of(job, other)] + other


def _group_limit(state: State, group: str) -> Cause:
    settings = state.eligibility.groups.settings_of(group)
    if settings.paused:
        return Cause.of(
            Reason.GROUP_PAUSED, f"the group {group_label(group)} is paused; resume it to let its jobs start"
        )
    return Cause.of(Reason.GROUP_LIMIT, f"at most {settings.jobs} jobs of the group {group_label(group)} at a time")


def _where_it_runs(job: JobState, state: State) -> Cause:
    if job.active:
        woven = f", woven with {', '.join(partners)}" if (partners := state.partners(job)) else ""
        return Cause.of(Reason.NONE, f"run {job.run} on ", job.slots, f" since {job.started_at:.0f} s{woven}")
    ended = "" if job.ended_at is None else f" at {job.ended_at:.0f} s"
    return Cause.of(Reason.NONE, f"it ended{ended} after {job.run} run{'s' if job.run != 1 else ''}")


def _not_woven(scheduler: Scheduler, job: JobState, now: Seconds) -> Iterator[Cause]:
    """Yield why a job does not share GPUs with others, if the policy weaves."""
    if not scheduler.policy.weaves or job.status in ENDED:
        return
    if text := why_not_woven(job, scheduler.state):
        yield Cause.of(Reason.NOT_WOVEN, text)
    elif job.waits and job.gpus and (due := scheduler.next_plan_at()) is not None:
        in_s = max(due - now, 0.0)
        yield Cause.of(Reason.NEXT_ROUND, f"the next plan, in {in_s:.0f} s, may weave it with others")


def _ahead(scheduler: Scheduler, job: JobState) -> list[JobState]:
    """Return the waiting jobs ahead of this one, in order; of a replica, the other replicas that wait."""
    state = scheduler.state
    if job.job.replica is not None:
        order = sorted(state.services.waiting.values(), key=lambda replica: replica.seq)
    else:
        order = [entry[2] for entry in scheduler.order.ranked(state.waiting.values(), state.now)]
    return order[: order.index(job)]


def _unblock(scheduler: Scheduler, job: JobState, now: Seconds) -> Unblock | None:
    """Return the runs whose end would free enough GPUs soonest."""
    state, shape = scheduler.state, job.shape
    if not shape.gpus or shape.family.where.pinned:
        return None
    frees_in = {run.id: _frees_in(scheduler, job, run, now) for run in state.active.values() if not run.releasing}
    soonest = sorted((state.active[run] for run in frees_in), key=lambda run: frees_in[run.id])
    allocator = Allocator(state, scheduler.placement, decide_nothing)
    plan = allocator.find_victims(shape, iter(soonest))
    if plan.parts is None:
        return None
    runs = allocator.needed_victims(shape, plan)
    in_s = max((frees_in[run.id] for run in runs), default=0.0)
    preempted = tuple(run.id for run in runs if frees_in[run.id] < run.ends_in(now))
    nodes = tuple(state.resources.nodes[node].node.id for node, _ in plan.parts)
    return Unblock(tuple(run.id for run in runs), nodes, None if in_s == float("inf") else in_s, preempted)


def _frees_in(scheduler: Scheduler, job: JobState, run: JobState, now: Seconds) -> Seconds:
    """Return the seconds until a run ends or may be preempted for this job, whichever comes first."""
    ends_in = run.ends_in(now)
    if not _may_preempt(scheduler, job, run, now):
        return ends_in
    return min(ends_in, max(scheduler.protection.until(run) - now, 0.0))


def _may_preempt(scheduler: Scheduler, job: JobState, run: JobState, now: Seconds) -> bool:
    """Return whether the policy prefers a waiting job to a run. A replica comes before all training."""
    if job.job.replica is not None:
        return scheduler.policy.preempts and run.job.replica is None
    order = scheduler.order
    if not scheduler.planner.preempts_by_key:
        return False
    return (order.key(run, now), run.tie_breaker) > (order.key(job, now), job.tie_breaker)


def _when(unblock: Unblock) -> str:
    if not unblock.jobs:
        return "now"
    done = "may be preempted" if unblock.preempted else "has ended" if len(unblock.jobs) == 1 else "have ended"
    ends = f"once {', '.join(unblock.jobs[:SHOWN])} {done}"
    return ends if unblock.in_s is None else f"{ends}, in about {unblock.in_s:.0f} s"

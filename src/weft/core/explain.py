"""Explanations: why a job waits, which jobs are ahead of it, and what would let it run. Codes with Slurm's meaning have
Slurm's names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from weft.core.planning.allocator import Allocator
from weft.core.planning.feasibility import Feasible
from weft.core.resources.cluster import ClusterResources
from weft.core.resources.node import NodeResources
from weft.core.resources.shapes import Shape
from weft.core.scheduler import Scheduler
from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.errors import UnknownName
from weft.model import Decision, JobId, Seconds, Slots
from weft.model.groups import group_label
from weft.model.slots import Message, format_message
from weft.model.status import Reason

SHOWN = 10
"""The most jobs ahead that an explanation names."""


@dataclass(frozen=True)
class Cause:
    code: str
    """A `Reason`, or the reason of a pause."""
    message: Message

    @property
    def text(self) -> str:
        """The message, with GPUs numbered as in the core."""
        return format_message(self.message)


@dataclass(frozen=True)
class Ahead:
    job: JobId
    user: str
    gpus: int


@dataclass(frozen=True)
class Unblock:
    """A run whose end would free enough GPUs, and when it is expected to end; None: unknown."""

    jobs: tuple[JobId, ...]
    nodes: tuple[str, ...]
    in_s: float | None
    preempted: tuple[JobId, ...] = ()
    """Runs that may be preempted for the job before they end by themselves."""


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
            named = ", ".join(f"{a.job} ({f'{a.user}, ' if a.user else ''}{_gpus(a.gpus)})" for a in self.ahead)
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
        return Explanation(job.id, now, job.status, (_cause(Reason.HELD, "held; release it to let it run"),))
    if job.status == "blocked":
        return Explanation(job.id, now, job.status, (_gate(state, job, now),))
    if job.status != "waiting":
        return Explanation(job.id, now, job.status, (_whereabouts(job),))
    ahead = _ahead(scheduler, job)
    reasons = tuple(_reasons(scheduler, job, ahead, now))
    short = any(reason.code == Reason.RESOURCES for reason in reasons)
    return Explanation(
        job.id,
        now,
        job.status,
        reasons,
        position=len(ahead) + 1,
        waiting=len(state.waiting),
        ahead=tuple(Ahead(other.id, other.job.user, other.gpus) for other in ahead[:SHOWN]),
        unblock=_unblock(scheduler, job, now) if short else None,
    )


def _gate(state: State, job: JobState, now: Seconds) -> Cause:
    if job.unmet_dependencies:
        return _cause(Reason.DEPENDENCY, f"comes after {', '.join(list(job.unmet_dependencies)[:SHOWN])}")
    if job.begin_at is not None and job.before_begin:
        return _cause(Reason.BEGIN_TIME, f"starts no earlier than in {max(job.begin_at - now, 0.0):.0f} s")
    if job.begin_at is not None:
        code = "" if job.code is None else f" with code {job.code}"
        in_s = max(job.begin_at - now, 0.0)
        return _cause(Reason.BEGIN_TIME, f"run {job.run} ended{code}, to be tried again later: in {in_s:.0f} s")
    if job.over_quota:
        limit = state.eligibility.quotas.limit_of(job.job.user)
        return _cause(
            Reason.QUOTA, f"the jobs of {job.job.user or 'a user'} that run or are next hold {limit} GPUs, no more"
        )
    if job.over_group_limit:
        return _group_limit(state, job.job.group)
    return _cause(Reason.ARRAY_LIMIT, f"at most {job.job.batch_limit} tasks of {job.job.batch} at a time")


def _group_limit(state: State, group: str) -> Cause:
    most, paused = state.eligibility.groups.settings.get(group, (None, False))
    if paused:
        return _cause(Reason.GROUP_PAUSED, f"the group {group_label(group)} is paused; resume it to let its jobs start")
    return _cause(Reason.GROUP_LIMIT, f"at most {most} jobs of the group {group_label(group)} at a time")


def _whereabouts(job: JobState) -> Cause:
    if job.active:
        woven = f", woven with {', '.join(other for other in job.weave if other != job.id)}" if job.weave else ""
        return _cause(Reason.NONE, f"run {job.run} on ", job.slots, f" since {job.started_at:.0f} s{woven}")
    ended = "" if job.ended_at is None else f" at {job.ended_at:.0f} s"
    return _cause(Reason.NONE, f"it ended{ended} after {job.run} run{'s' if job.run != 1 else ''}")


def _ahead(scheduler: Scheduler, job: JobState) -> list[JobState]:
    """Return the waiting jobs that go first, in order."""
    order = [entry[2] for entry in scheduler.order.ranked(scheduler.state.waiting.values(), scheduler.state.now)]
    return order[: order.index(job)]


def _reasons(scheduler: Scheduler, job: JobState, ahead: list[JobState], now: Seconds) -> Iterator[Cause]:
    state, shape = scheduler.state, job.shape
    if scheduler.impossible(job):
        yield _impossible(scheduler, job)
        return
    for why, detail in state.paused.items():
        yield _cause(why, f"no new jobs start: {detail or 'resume to continue'}")
    fits = _fits_now(scheduler, shape)
    if not fits:
        yield _cause(Reason.RESOURCES, *_shortage(state.resources, shape, job))
        yield from _occupied(state, shape)
        yield from _closed(state, shape)
    ahead = [other for other in ahead if not scheduler.impossible(other)]
    if ahead and (not scheduler.planner.lets_pass or not fits):
        passing = "" if scheduler.planner.lets_pass else ", and no job may pass them"
        yield _cause(Reason.PRIORITY, f"{len(ahead)} job{'s' if len(ahead) > 1 else ''} ahead of it{passing}")
    due = scheduler.next_plan_at()
    if fits and not ahead and due is not None:
        yield _cause(Reason.POLICY_HOLD, f"the policy plans next in {max(due - now, 0.0):.0f} s")
    elif fits and not ahead:
        yield _cause(Reason.POLICY_HOLD, "there is room, but the policy has not chosen it")


def _occupied(state: State, shape: Shape) -> Iterator[Cause]:
    """Yield the GPUs that would suit the job but are blocked, by reason."""
    found: dict[str, list[Message]] = {}
    for (node, gpu, why), occupant in state.occupants.items():
        if gpu not in _suited(state.resources.by_id[node], shape):
            continue
        taken = "" if occupant.memory_mb is None else f" ({occupant.memory_mb} MB)"
        detail = f": {occupant.detail}" if occupant.detail else ""
        found.setdefault(why, []).append((((node, (gpu,)),), taken + detail))
    for why, where in found.items():
        more = f" and {len(where) - SHOWN} more" if len(where) > SHOWN else ""
        yield _cause(why, "not to be used: ", *_listed(where[:SHOWN]), more)


def _closed(state: State, shape: Shape) -> Iterator[Cause]:
    """Yield the nodes that would suit the job but are cordoned, by reason."""
    found: dict[str, list[str]] = {}
    for (node, why), closure in state.closed.items():
        host = state.resources.by_id[node]
        if host.alive and (_suited(host, shape) or not shape.gpus):
            found.setdefault(why, []).append(node + (f": {closure.detail}" if closure.detail else ""))
    for why, where in found.items():
        more = f" and {len(where) - SHOWN} more" if len(where) > SHOWN else ""
        yield _cause(why, f"no new jobs start on {', '.join(where[:SHOWN])}{more}")


def _suited(host: NodeResources, shape: Shape) -> list[int]:
    """Return the GPUs of a node that have the model and memory the job asks for."""
    where = shape.family.where
    if not set(where.labels) <= set(host.node.labels):
        return []
    return [index for index, gpu in enumerate(host.node.gpus) if where.gpu_model in ("", gpu.model)]


def _impossible(scheduler: Scheduler, job: JobState) -> Cause:
    """Return why the living nodes could not hold the job even if they were empty."""
    shape, nodes = job.shape, scheduler.state.resources.nodes
    living = [host for host in nodes if host.alive]
    if not nodes:
        return _cause(Reason.INFEASIBLE, "no node has joined yet")
    if len(living) < len(nodes):
        lost = ", ".join(host.node.id for host in nodes if not host.alive)
        return _cause(Reason.NODE_LOST, f"the nodes that are left cannot hold it; lost: {lost}")
    where, memory = shape.family.where, shape.memory_mb.max
    for label in where.labels:
        if not any(label in host.node.labels for host in living):
            return _cause(Reason.INFEASIBLE, f"no node has {'='.join(label)}")
    suited = [host.node.gpus[gpu] for host in living for gpu in _suited(host, shape)]
    kind = f" of model {where.gpu_model}" if where.gpu_model else ""
    kind += "".join(f" with {name}={value}" for name, value in where.labels)
    if len(suited) < shape.gpus:
        return _cause(Reason.INFEASIBLE, f"needs {_gpus(shape.gpus)}{kind}; the cluster has {len(suited)}")
    if sum(g.memory_mb >= memory for g in suited) < shape.gpus:
        largest = max((g.memory_mb for g in suited), default=0)
        return _cause(
            Reason.GPU_MEMORY, f"needs {memory} MB on each of {_gpus(shape.gpus)}; the largest GPU has {largest} MB"
        )
    found = Feasible([host.node for host in living], [scheduler.placement]).why_not(job.job)
    return _cause(Reason.INFEASIBLE, *(found or (f"needs {_gpus(shape.gpus)}{kind}, which cannot be had together",)))


def _fits_now(scheduler: Scheduler, shape: Shape) -> bool:
    return Allocator(scheduler.state, scheduler.placement, _nothing).fits(shape)


def _shortage(resources: ClusterResources, shape: Shape, job: JobState) -> Message:
    if shape.family.where.pinned:
        return ("the GPUs it is pinned to are taken: ", shape.family.where.pinned)
    free = resources.free_for(shape, after_release=False)
    most = next((free.count[node] for node in free.roomiest()), 0)
    kind = f" of model {shape.family.where.gpu_model}" if shape.family.where.gpu_model else ""
    kept = sum(len(gpus) for _, gpus in job.reserved)
    reserved = f"; {kept} are kept for it" if kept else ""
    if shape.gpus > free.largest():
        return (f"needs {_gpus(shape.gpus)}{kind} on several nodes; {free.total()} are free in all{reserved}",)
    return (f"needs {_gpus(shape.gpus)}{kind} on one node; the roomiest can give {most}{reserved}",)


def _unblock(scheduler: Scheduler, job: JobState, now: Seconds) -> Unblock | None:
    """Return the runs whose end would free enough GPUs soonest."""
    state, shape = scheduler.state, job.shape
    if not shape.gpus or shape.family.where.pinned:
        return None
    gone_in = {run.id: _gone_in(scheduler, job, run, now) for run in state.active.values() if not run.releasing}
    soonest = sorted((state.active[run] for run in gone_in), key=lambda run: gone_in[run.id])
    allocator = Allocator(state, scheduler.placement, _nothing)
    plan = allocator.find_victims(shape, iter(soonest))
    if plan.parts is None:
        return None
    runs = allocator.needed_victims(shape, plan)
    in_s = max((gone_in[run.id] for run in runs), default=0.0)
    preempted = tuple(run.id for run in runs if gone_in[run.id] < run.ends_in(now))
    nodes = tuple(state.resources.nodes[node].node.id for node, _ in plan.parts)
    return Unblock(tuple(run.id for run in runs), nodes, None if in_s == float("inf") else in_s, preempted)


def _gone_in(scheduler: Scheduler, job: JobState, run: JobState, now: Seconds) -> Seconds:
    """Return when a run ends or may be preempted for this job, whichever comes first."""
    order, ends_in = scheduler.order, run.ends_in(now)
    if not scheduler.planner.preempts_by_key:
        return ends_in
    if (order.key(run, now), run.tie_breaker) <= (order.key(job, now), job.tie_breaker):
        return ends_in
    return min(ends_in, max(scheduler.protection.until(run) - now, 0.0))


def _when(unblock: Unblock) -> str:
    if not unblock.jobs:
        return "now"
    done = "may be preempted" if unblock.preempted else "has ended" if len(unblock.jobs) == 1 else "have ended"
    ends = f"once {', '.join(unblock.jobs[:SHOWN])} {done}"
    return ends if unblock.in_s is None else f"{ends}, in about {unblock.in_s:.0f} s"


def _cause(code: str, *message: str | Slots) -> Cause:
    return Cause(code, message)


def _listed(messages: list[Message]) -> Message:
    """Join the messages with commas."""
    return tuple(chain.from_iterable((", ", *each) if at else each for at, each in enumerate(messages)))


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"


def _nothing(_decision: Decision) -> None:
    """Reject decisions: an explanation makes none."""

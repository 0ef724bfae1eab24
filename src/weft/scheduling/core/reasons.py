"""The reasons why a job waits, as codes and words. Codes with Slurm's meaning have Slurm's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from weft.model import WHOLE, Seconds, Slots
from weft.model.pool import is_of_pool
from weft.model.slots import Message, format_message
from weft.model.status import Reason
from weft.scheduling.core.planning.allocator import NEVER, Allocator, decide_nothing
from weft.scheduling.core.planning.feasibility import Feasible
from weft.scheduling.core.resources.node import NodeResources
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.share_reasons import explain_room, format_share
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.scheduling.core.teams.reasons import explain_guarantee, explain_refusal

SHOWN: Final = 10
"""The most jobs, GPUs or nodes that a reason names."""


@dataclass(frozen=True)
class Cause:
    code: str
    """A `Reason`, or the reason of a pause."""
    message: Message

    @classmethod
    def of(cls, code: str, *message: str | Slots) -> Cause:
        return cls(code, message)

    @property
    def text(self) -> str:
        """The message, with GPUs numbered as in the core."""
        return format_message(self.message)


@dataclass(frozen=True)
class Reservation:
    """GPUs that are kept for the first job that does not fit."""

    head: JobState
    until: Seconds
    """When the head is expected to start; `NEVER`: unknown."""
    promised: dict[int, int]
    """The number of GPUs on each node, by the index of the node."""


class WaitReasons:
    """The reasons of waiting jobs at one moment. Jobs of one shape share what is found out about the cluster."""

    def __init__(self, scheduler: Scheduler, now: Seconds) -> None:
        self.scheduler, self._state, self._now = scheduler, scheduler.state, now
        self._allocator = Allocator(self._state, scheduler.placement, decide_nothing)
        self._fits: dict[Shape, bool] = {}
        self._impossible_codes: dict[Shape, str] = {}
        self._blocks: dict[Shape, str | None] = {}
        self._head: JobState | None = None
        self._reservation: Reservation | None = None
        self._head_is_known = False
        self._teams = scheduler.layer()

    def of(self, job: JobState, ahead: Sequence[JobState]) -> Iterator[Cause]:
        """Yield the reasons why a waiting job does not start; `ahead` are the jobs that go first."""
        scheduler, state, shape = self.scheduler, self._state, job.shape
        if scheduler.impossible(job):
            yield self._impossible(job)
            return
        for why, detail in state.paused.items():
            yield Cause.of(why, f"no new jobs start: {detail or 'resume to continue'}")
        team = self._refusal(job)
        if team is not None:
            yield team
            return
        fits = self._fits_now(shape)
        if not fits:
            owed = "" if self._teams is None else explain_guarantee(self._teams, job)
            yield Cause.of(Reason.RESOURCES, *self._shortage(job), owed, self._spared(job))
            yield from self._occupied(shape)
            yield from self._closed(shape)
        kept = self._kept_from(job) if fits else None
        if kept is not None:
            yield kept
        ahead = [other for other in ahead if not scheduler.impossible(other)]
        lets_pass = scheduler.planner.lets_pass or job.job.replica is not None
        if ahead and kept is None and (not lets_pass or not fits):
            passing = "" if lets_pass else ", and no job may pass them"
            yield Cause.of(Reason.PRIORITY, f"{len(ahead)} job{'s' if len(ahead) > 1 else ''} ahead of it{passing}")
        if fits and kept is None and not state.paused and (not ahead or scheduler.next_plan_at() is not None):
            yield self._unplanned()

    def code(self, job: JobState, *, first: bool) -> str:
        """Return the code that says most about why a waiting job does not start; `first`: no possible job is ahead."""
        scheduler, state, shape = self.scheduler, self._state, job.shape
        if scheduler.impossible(job):
            if shape not in self._impossible_codes:
                self._impossible_codes[shape] = self._impossible(job).code
            return self._impossible_codes[shape]
        if state.paused:
            return next(iter(state.paused))
        if (team := self._refusal(job)) is not None:
            return team.code
        if not self._fits_now(shape):
            return self._block(shape) or (Reason.RESOURCES if first else Reason.PRIORITY)
        if self._kept_from(job) is not None:
            return Reason.RESERVED
        passes = first or scheduler.planner.lets_pass or scheduler.next_plan_at() is not None
        return self._unplanned().code if passes else Reason.PRIORITY

    def _fits_now(self, shape: Shape) -> bool:
        if shape not in self._fits:
            self._fits[shape] = self._allocator.fits(shape)
        return self._fits[shape]

    def _refusal(self, job: JobState) -> Cause | None:
        """Return why the team of a job does not let it start."""
        found = None if self._teams is None else explain_refusal(self._teams, job)
        return None if found is None else Cause.of(*found)

    def _unplanned(self) -> Cause:
        """Return why a job that fits has not started yet."""
        due = self.scheduler.next_plan_at()
        if due is None:
            return Cause.of(Reason.POLICY_HOLD, "there is room, but the policy has not chosen it")
        return Cause.of(Reason.NEXT_ROUND, f"the scheduler plans next in {max(due - self._now, 0.0):.0f} s")

    # ---- the first job that does not fit

    def _find_head(self) -> JobState | None:
        """Return the first job that does not fit, if it gets a reservation sooner or later; reserve GPUs for it."""
        if self._head_is_known:
            return self._head
        scheduler, self._head_is_known = self.scheduler, True
        if not scheduler.planner.reserves or not scheduler.order.keyed:
            return None
        for job in scheduler.in_order():
            if not self._fits_now(job.shape) and not scheduler.impossible(job):
                self._head = job
                break
        if self._head is None or self._patience_left(self._head) > 0:
            return self._head
        allocator = Allocator(self._state, scheduler.placement, decide_nothing)
        until = allocator.reserve(self._head.shape, scheduler.order.soonest(self._state))
        self._reservation = Reservation(self._head, until, allocator.promised)
        return self._head

    def _patience_left(self, head: JobState) -> float:
        return head.waiting_since + self.scheduler.policy.patience - self._now

    def _kept_from(self, job: JobState) -> Cause | None:
        """Return the reservation that keeps a job which fits from starting."""
        head, kept = self._find_head(), self._reservation
        if head is None or kept is None or head is job:
            return None
        allocator = Allocator(self._state, self.scheduler.placement, decide_nothing)
        allocator.promised = dict(kept.promised)
        if allocator.fits(job.shape):
            return None
        named = f"{head.id} ({head.job.name})" if head.job.name else head.id
        waited = f"{count_gpus(head.gpus)}, waiting for {format_wait(self._now - head.waiting_since)}"
        return Cause.of(
            Reason.RESERVED,
            f"the free GPUs on {self._nodes(kept.promised)} are reserved for job {named}: {waited}; ",
            "jobs that are known to end before it starts may pass it"
            if kept.until < NEVER
            else "when it starts is unknown, because runs ahead of it have no known end",
        )

    def _nodes(self, promised: dict[int, int]) -> str:
        names = [self._state.resources.nodes[node].node.id for node in sorted(promised)]
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        return ", ".join(names[:SHOWN]) + more

    def _passed_by(self, job: JobState) -> str:
        """Return whether other jobs may pass the job, if it is the first that does not fit."""
        if self._find_head() is not job:
            return ""
        if self._reservation is None:
            return f"; jobs that fit may pass it for another {format_wait(self._patience_left(job))}"
        if not self._reservation.promised:
            return ""
        return f"; GPUs that become free on {self._nodes(self._reservation.promised)} are kept for it"

    # ---- GPUs that it cannot have

    def _shortage(self, job: JobState) -> Message:
        shape, resources = job.shape, self._state.resources
        where = shape.family.where
        if where.pinned:
            return ("the GPUs it is pinned to are taken: ", where.pinned)
        free = resources.free_for(shape, after_release=False)
        most = next((free.count[node] for node in free.roomiest()), 0)
        kind = f" of model {where.gpu_model}" if where.gpu_model else ""
        alone = " for itself, because it ran out of GPU memory before" if job.exclusive else ""
        kept = sum(len(gpus) for _, gpus in job.reserved)
        reserved = f"; {kept} are kept for it" if kept else self._passed_by(job)
        if not shape.gpus:
            return (f"needs CPUs or RAM that no node has free{reserved}",)
        if shape.gpus > free.largest():
            most_free = f"{free.total()} are free in all"
            return (f"needs {count_gpus(shape.gpus)}{kind} on several nodes{alone}; {most_free}{reserved}",)
        most_free = f"no node has more than {most} free" if most else "none is free"
        if shape.family.share != WHOLE:
            kind += f" with a share of {format_share(shape.family.share)}"
            lacks = explain_room(resources, shape)
            most_free += f": {lacks}" * bool(lacks)
        return (f"needs {count_gpus(shape.gpus)}{kind} on one node{alone}; {most_free}{reserved}",)

    def _spared(self, job: JobState) -> str:
        """Return which runs would be preempted for the job, had they not been preempted too often."""
        scheduler, now = self.scheduler, self._now
        if not scheduler.planner.preempts_by_key or job.job.replica is not None:
            return ""
        order, mine = scheduler.order, (scheduler.order.key(job, now), job.tie_breaker)
        spared = [
            run.id
            for run in self._state.active.values()
            if not run.releasing
            and scheduler.protection.until(run) == NEVER
            and (order.key(run, now), run.tie_breaker) > mine
        ]
        if not spared:
            return ""
        limit = scheduler.protection.max_preemptions
        return f"; {', '.join(spared[:SHOWN])} may not be preempted again (--max-preemptions {limit})"

    def _occupied(self, shape: Shape) -> Iterator[Cause]:
        """Yield the GPUs that would suit the job but are blocked, by reason."""
        found: dict[str, list[Message]] = {}
        for (node, gpu, why), occupant in self._state.occupants.items():
            host = self._state.resources.by_id[node]
            if not host.alive or gpu not in suited(host, shape):
                continue
            taken = "" if occupant.memory_mb is None else f" ({occupant.memory_mb} MB)"
            detail = f": {occupant.detail}" if occupant.detail else ""
            found.setdefault(why, []).append((((node, (gpu,)),), taken + detail))
        for why, where in found.items():
            more = f" and {len(where) - SHOWN} more" if len(where) > SHOWN else ""
            yield Cause.of(why, "not to be used: ", *_listed(where[:SHOWN]), more)

    def _closed(self, shape: Shape) -> Iterator[Cause]:
        """Yield the nodes that would suit the job but are cordoned, by reason."""
        found: dict[str, list[str]] = {}
        for (node, why), closure in self._state.closed.items():
            host = self._state.resources.by_id[node]
            if host.alive and (suited(host, shape) or not shape.gpus):
                found.setdefault(why, []).append(node + (f": {closure.detail}" if closure.detail else ""))
        for why, where in found.items():
            more = f" and {len(where) - SHOWN} more" if len(where) > SHOWN else ""
            yield Cause.of(why, f"no new jobs start on {', '.join(where[:SHOWN])}{more}")

    def _block(self, shape: Shape) -> str | None:
        """Return the reason of a blocked GPU or cordoned node without which the job would fit; None: none is."""
        if shape not in self._blocks:
            self._blocks[shape] = self._find_block(shape)
        return self._blocks[shape]

    def _find_block(self, shape: Shape) -> str | None:
        state = self._state
        if not state.occupants and not state.closed:
            return None
        codes: dict[NodeResources, dict[int, str]] = {}
        """The blocked GPUs of each node that no run holds, with the reason."""
        # a reason that blocks all of a GPU comes before one that takes some of its memory
        for (node, gpu, why), _ in sorted(state.occupants.items(), key=lambda item: item[1].memory_mb is not None):
            host = state.resources.by_id[node]
            if host.alive and _is_unheld(host, gpu) and gpu in suited(host, shape):
                codes.setdefault(host, {}).setdefault(gpu, why)
        for node, why in state.closed:
            host = state.resources.by_id[node]
            for gpu in suited(host, shape) if host.alive else ():
                if _is_unheld(host, gpu):
                    codes.setdefault(host, {}).setdefault(gpu, why)
            if host.alive and not shape.gpus:
                return why
        free = state.resources.free_for(shape, after_release=False)
        splits = shape.gpus > free.largest()
        total = free.total() + sum(len(gpus) for gpus in codes.values())
        for host, gpus in codes.items():
            if (total if splits else free.count[host.index] + len(gpus)) >= shape.gpus > 0:
                return next(iter(gpus.values()))
        return None

    def _impossible(self, job: JobState) -> Cause:
        return infeasibility(self.scheduler, job)


UNWOVEN: Final = {
    "silent": "it takes no turns; see the how-to on weaving for weft.train.stage and --stages auto",
    "hangs": "it held a stage for too long, several times",
}


def why_not_woven(job: JobState, state: State) -> str:
    """Return why a job does not share its GPUs with others, under a policy that weaves; empty: it is woven, or could
    be if that paid."""
    where = job.job.where
    if job.unwoven:
        return f"not woven any more: {UNWOVEN.get(job.unwoven, job.unwoven)}"
    if job.weave or job.gpus == 0:
        return ""
    if not job.shape.whole or where.pinned or where.choice:
        return "not woven: it shares or names its GPUs"
    if state.profiles.of(job.job) is None:
        how = "weft profile run measures one, --profile gives one, --profile-key names a stored one"
        return f"not woven: it has no profile; {how}"
    return ""


def infeasibility(scheduler: Scheduler, job: JobState) -> Cause:
    """Return why the living nodes could not hold the job even if they were empty."""
    shape, nodes = job.shape, scheduler.state.resources.nodes
    living = [host for host in nodes if host.alive]
    if not nodes:
        return Cause.of(Reason.INFEASIBLE, "no node has joined yet")
    lost = [host.node.id for host in nodes if not host.alive and not is_of_pool(host.node)]  # a pool's come and go
    if lost:
        return Cause.of(Reason.NODE_LOST, f"the nodes that are left cannot hold it; lost: {', '.join(lost)}")
    where, memory = shape.family.where, shape.memory_mb.max
    for label in where.labels:
        if not any(label in host.node.labels for host in living):
            return Cause.of(Reason.INFEASIBLE, f"no node has {'='.join(label)}")
    gpus = [host.node.gpus[gpu] for host in living for gpu in suited(host, shape)]
    kind = f" of model {where.gpu_model}" if where.gpu_model else ""
    kind += "".join(f" with {name}={value}" for name, value in where.labels)
    if len(gpus) < shape.gpus:
        return Cause.of(Reason.INFEASIBLE, f"needs {count_gpus(shape.gpus)}{kind}; the cluster has {len(gpus)}")
    if sum(g.memory_mb >= memory for g in gpus) < shape.gpus:
        largest = max((g.memory_mb for g in gpus), default=0)
        need = f"a GPU with {memory} MB" if shape.gpus == 1 else f"{shape.gpus} GPUs with {memory} MB each"
        return Cause.of(Reason.GPU_MEMORY, f"needs {need}; the largest GPU has {largest} MB")
    need_s = shape.family.need_s
    if any(host.lasts_s < need_s and suited(host, shape) for host in living):
        return Cause.of(Reason.LONGER, f"it may run for {format_wait(need_s)}; nodes that could run it leave sooner")
    found = Feasible([host.node for host in living], [scheduler.placement]).why_not(job.job)
    together = f"needs {count_gpus(shape.gpus)}{kind}, which cannot be had together"
    return Cause.of(Reason.INFEASIBLE, *(found or (together,)))


def suited(host: NodeResources, shape: Shape) -> list[int]:
    """Return the GPUs of a node that have the model and memory the job asks for."""
    where = shape.family.where
    if not set(where.labels) <= set(host.node.labels):
        return []
    return [index for index, gpu in enumerate(host.node.gpus) if where.gpu_model in ("", gpu.model)]


def count_gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"


def format_wait(seconds: float) -> str:
    """Format a wait in seconds up to two minutes, else in minutes or hours."""
    if seconds < 120:
        return f"{max(seconds, 0.0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _is_unheld(host: NodeResources, gpu: int) -> bool:
    return not any(isinstance(holder, JobState) for holder in host.holders[gpu])


def _listed(messages: list[Message]) -> Message:
    """Join the messages with commas."""
    return tuple(chain.from_iterable((", ", *each) if at else each for at, each in enumerate(messages)))

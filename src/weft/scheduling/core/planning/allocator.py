"""One pass over what is wanted: start it, promise it GPUs that are being released, or preempt runs for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import chain

from weft.model import Decision, Seconds, Share, Slots, Start, Stop, StopReason
from weft.scheduling.core.planning.tentative import Parts, node_for_cpus, pinned_slots, slots_of
from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.free import Free, members
from weft.scheduling.core.resources.node import Holder, NodeResources
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State

Decide = Callable[[Decision], None]
NEVER = float("inf")


@dataclass(slots=True)
class PreemptionPlan:
    """Runs that could be preempted for a shape, and where it would run then."""

    parts: Parts | None
    """None: it would not fit even with all of them gone."""
    gone: dict[Holder, None]
    free: Free
    forced: tuple[JobState, ...]
    """Runs that stop in any case, because they are to run elsewhere."""


class Allocator:
    """The allocator of GPUs. A pass serves wanted shapes in turn, and promises GPUs on the way."""

    def __init__(self, state: State, placement: Placement, decide: Decide) -> None:
        self.state, self.resources, self.placement, self.decide = state, state.resources, placement, decide
        self.promised: dict[int, int] = {}
        self.kept: dict[int, int] = {}
        """GPUs of each node that are promised to replicas of services before any pass over jobs."""
        self.splits_gangs = placement.splits_gangs
        self._sees_runs = placement.sees_runs

    def begin(self) -> None:
        """Begin another pass: no GPU is promised yet but to replicas."""
        self.promised = dict(self.kept) if self.kept else {}

    def start(self, jobs: tuple[JobState, ...], shape: Shape, share: Share) -> bool:
        """Start the jobs together if enough GPUs are idle."""
        slots = self._idle_slots(shape)
        if slots is None:
            return False
        if len(jobs) == 1:
            job = jobs[0]
            self.decide(Start(self.state.now, job.id, job.run + 1, slots, share))
            return True
        weave = tuple([job.id for job in jobs])
        for job in jobs:
            self.decide(Start(self.state.now, job.id, job.run + 1, slots, share, weave))
        return True

    def fits(self, shape: Shape) -> bool:
        """Return whether enough GPUs are idle."""
        return self._idle_slots(shape) is not None

    def has_room(self, shape: Shape) -> bool:
        """Return whether enough GPUs are idle for a plain shape, before any are promised."""
        return self.placement.place(shape, self.resources.idle) is not None

    def full(self) -> bool:
        """Return whether every GPU is promised or held by a run that stays."""
        after_release, promised = self.resources.after_release, self.promised
        if not promised:
            return after_release.exhausted()
        return all(after_release.count[node] <= promised.get(node, 0) for node in members(after_release.at_least(1)))

    def promise(self, shape: Shape) -> bool:
        """Promise the shape GPUs that are being released, so that no later job takes them."""
        if not self.resources.releasing or not shape.gpus:
            return False
        parts = self.placement.place(shape, self.after_release(shape))
        return self.promise_parts(parts)

    def reserve(self, shape: Shape, soonest: Iterator[JobState]) -> Seconds:
        """Promise the GPUs of the runs expected to end first; return when they end, or `NEVER`.

        `soonest` is in the order of their ends, so the last run that is needed ends last.
        """
        now = self.state.now
        plan = (
            self.find_victims(shape, soonest)
            if shape.gpus
            else PreemptionPlan(None, {}, self.resources.after_release, ())
        )
        if plan.parts is None:
            return NEVER
        last = next(self._needed(shape, plan), None)
        in_s = last.ends_in(now) if last is not None else 0.0
        if any(self.resources.nodes[node].lasts_s < in_s + shape.family.need_s for node, _ in plan.parts):
            return NEVER  # a node that leaves before the job could end there is no promise
        self.promise_parts(plan.parts)
        return now + in_s

    def start_meanwhile(self, jobs: tuple[JobState, ...], shape: Shape, share: Share) -> bool:
        """Start jobs on promised GPUs: the jobs end before the GPUs are needed."""
        promised, self.promised = self.promised, {}
        started = self.start(jobs, shape, share)
        self.promised = promised
        return started

    def would_fit(self, shape: Shape) -> bool:
        """Return whether enough GPUs would be idle if none were promised."""
        promised, self.promised = self.promised, {}
        fits = self.fits(shape)
        self.promised = promised
        return fits

    def find_victims(
        self, shape: Shape, victims: Iterator[JobState], forced: tuple[JobState, ...] = ()
    ) -> PreemptionPlan:
        """Find the worst of the victims whose GPUs would be enough for the shape."""
        gone: dict[Holder, None] = {}
        free = self.after_release(shape)
        first = None if forced else next(victims, None)
        if first is None and not forced:
            return PreemptionPlan(None, gone, free, forced)
        free = free if self.promised else free.copy()
        free.gone = gone
        splits = self.splits_gangs or shape.gpus > free.largest()
        missing = shape.gpus - free.total() if splits else 0
        for victim in chain(forced, () if first is None else (first,), victims):
            gone[victim] = None
            enough = self._count_victim(free, shape, victim, gone)
            missing -= victim.shape.gpus  # at most: others may hold the same GPUs
            if splits and not enough and (missing <= 0 or not shape.plain):
                missing = shape.gpus - free.total()
                enough = missing <= 0
            if enough and len(gone) >= len(forced):
                parts = self.placement.place(shape, free)
                if parts is not None:
                    return PreemptionPlan(parts, gone, free, forced)
        return PreemptionPlan(None, gone, free, forced)

    def spare(self, shape: Shape, plan: PreemptionPlan) -> PreemptionPlan:
        """Return the plan without the victims that need not stop, wherever the shape is placed then."""
        gone, free, by_id = plan.gone, plan.free, self.resources.by_id
        for victim in [run for run in reversed(gone) if isinstance(run, JobState)] if len(gone) > 1 else ():
            del gone[victim]
            for node, _ in victim.slots:
                self.recount(free, by_id[node], shape, gone)
            if (parts := self.placement.place(shape, free)) is None:
                gone[victim] = None
                for node, _ in victim.slots:
                    self.recount(free, by_id[node], shape, gone)
            else:
                plan.parts = parts
        runs = tuple([run for run in gone if isinstance(run, JobState)])
        return PreemptionPlan(plan.parts, gone, free, runs)

    def preempt(self, shape: Shape, plan: PreemptionPlan) -> bool:
        """Stop the runs of the plan that must go and promise their GPUs; False where the shape would not fit."""
        if plan.parts is None:
            return False
        for victim in self.needed_victims(shape, plan):
            why: StopReason = "moved" if victim in plan.forced else "preempted"
            self.decide(Stop(self.state.now, victim.id, victim.run, why))
        return self.promise_parts(plan.parts)

    def promise_parts(self, parts: Parts | None) -> bool:
        """Promise these GPUs, so that no later job takes them."""
        for node, count in parts or ():
            self.promised[node] = self.promised.get(node, 0) + count
        return parts is not None

    # ---- inside

    def _count_victim(self, free: Free, shape: Shape, victim: JobState, gone: Collection[Holder]) -> bool:
        """Count the GPUs of a victim as free; return whether one of its nodes may have enough now."""
        need, enough = shape.gpus, False
        for node_id, gpus in victim.slots:
            host = self.resources.by_id[node_id]
            if shape.plain:
                freed, holders = 0, host.holders
                for gpu in gpus:
                    freed += len(holders[gpu]) == 1 or all_go(holders[gpu], gone)
                free.change(host.index, freed)
            else:
                self.recount(free, host, shape, gone)
            enough = enough or free.count[host.index] >= need
        return enough

    def recount(self, free: Free, host: NodeResources, shape: Shape, gone: Collection[Holder]) -> None:
        if shape.plain:
            count = 0
            for holders in host.holders:
                for holder in holders:
                    if not holder.releasing and holder not in gone:
                        break
                else:
                    count += 1
        else:
            count = host.count_for(shape, after_release=True, gone=gone)
        count = max(count - self.promised.get(host.index, 0), 0)
        free.change(host.index, count - free.count[host.index])

    def needed_victims(self, shape: Shape, plan: PreemptionPlan) -> list[JobState]:
        """Return the victims that must stop, worst first: the best are spared while the rest is enough."""
        return sorted(self._needed(shape, plan), key=lambda job: job.tie_breaker, reverse=True)

    def _needed(self, shape: Shape, plan: PreemptionPlan) -> Iterator[JobState]:
        """Yield the victims that must stop, the last found first; lazy."""
        nodes, gone, free = dict(plan.parts or ()), plan.gone, plan.free
        victims = [job for job in reversed(gone) if isinstance(job, JobState)]
        if len(gone) == 1:
            yield from victims
            return
        by_id = self.resources.by_id
        for victim in victims:
            if victim in plan.forced:
                yield victim
                continue
            hosts = [host for node, _ in victim.slots if (host := by_id[node]).index in nodes or self._sees_runs]
            del gone[victim]
            if not hosts:
                continue
            for host in hosts:
                self.recount(free, host, shape, gone)
            if not self._still_fits(shape, plan, hosts, nodes):
                gone[victim] = None
                for host in hosts:
                    self.recount(free, host, shape, gone)
                yield victim

    def _still_fits(
        self, shape: Shape, plan: PreemptionPlan, hosts: list[NodeResources], nodes: dict[int, int]
    ) -> bool:
        """Return whether the placement would still put the shape there; ask a placement that sees runs again."""
        if self._sees_runs:
            return self.placement.place(shape, plan.free) == plan.parts
        return all(plan.free.count[host.index] >= nodes[host.index] for host in hosts)

    def after_release(self, shape: Shape) -> Free:
        free = self.resources.free_for(shape, after_release=True)
        if self.promised:
            free = free.copy()
            for node, count in self.promised.items():
                free.change(node, -min(count, free.count[node]))
        return free

    def _idle(self, shape: Shape) -> Free:
        """Return the GPUs that are idle and not promised."""
        free = self.resources.free_for(shape, after_release=False)
        if self.promised:
            free, after_release = free.copy(), self.resources.after_release.count
            for node, count in self.promised.items():
                left = min(free.count[node], max(after_release[node] - count, 0))
                free.change(node, left - free.count[node])
        return free

    def _idle_slots(self, shape: Shape) -> Slots | None:
        if shape.plain and not self.promised:
            parts = self.placement.place(shape, self.resources.idle)
        elif shape.family.where.pinned:
            return pinned_slots(self.resources, shape)
        elif not shape.gpus:
            return node_for_cpus(self.resources, shape)
        else:
            parts = self.placement.place(shape, self._idle(shape))
        return None if parts is None else slots_of(self.resources, shape, parts, self.placement)


def all_go(holders: Collection[Holder], gone: Collection[Holder]) -> bool:
    """Return whether all holders of a GPU are releasing it or would be preempted."""
    return all(holder.releasing or holder in gone for holder in holders)


def decide_nothing(_decision: Decision) -> None:
    """Drop a decision: an explanation makes none."""

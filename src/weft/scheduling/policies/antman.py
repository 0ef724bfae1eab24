"""AntMan (OSDI'20), as in Muri's simulator: guaranteed jobs own their GPUs, opportunistic jobs share them.

No run is ever preempted. A guaranteed job takes GPUs that no other guaranteed job owns. If there are too few, it
reserves those of one node until more are free. An opportunistic job takes the least loaded GPUs of any node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from itertools import islice

from weft.model import WHOLE, Fact, Seconds, Share
from weft.scheduling.core.ports import Ask, JobView, Replanner, View
from weft.scheduling.policy_state.gpu_loads import GpuLoads, slots_from
from weft.scheduling.policy_state.gpu_ownership import ask_for_gpus, pin_to, suits

GUEST = Share(request=0.0, limit=1.0)
OWNERS, OTHERS = "owners", "others"
"""Queues: guaranteed jobs, and jobs that need more than GPUs. Opportunistic jobs have a queue for each shape."""


@dataclass(frozen=True)
class Antman(Replanner):
    """Guaranteed jobs own GPUs, opportunistic ones share them; no preemption."""

    oversubscription = 2.0

    def key(self, job: JobView, now: Seconds) -> float:
        """Order guaranteed jobs before opportunistic ones."""
        return float(job.job.opportunistic)

    def queue(self, job: JobView) -> Hashable:
        if _needs_more_than_gpus(job):
            return OTHERS
        return job.shape if job.job.opportunistic else OWNERS

    def rank(self, view: View) -> Iterator[Ask]:
        loads: GpuLoads = view.memo
        yield from self._owners(view, loads)
        yield from self._guests(view, loads)
        if any(view.active):
            return
        # nothing runs, so jobs may block each other by their reservations: keep only those of the first
        for job in sorted((job for job in view.waiting if job.reserved), key=lambda job: job.seq)[1:]:
            yield Ask((job.id,), job.gpus, where=pin_to(job, ()), reserve=True)
        yield from self._owners(view, loads)

    def _owners(self, view: View, loads: GpuLoads) -> Iterator[Ask]:
        node_gpus, others = view.node_gpus, view.queued(OTHERS)
        node_size = max(node_gpus.values(), default=0)
        for job in sorted([*others, *view.queued(OWNERS)], key=lambda job: job.seq) if others else view.queued(OWNERS):
            if not (others or loads.unowned_count or loads.ready):
                return
            if _needs_more_than_gpus(job):
                yield Ask((job.id,), job.gpus, WHOLE if job.gpus else job.wanted_share, job.job.where)
            elif loads.unowned_count or job.id in loads.ready:
                yield from ask_for_gpus(job, loads, node_gpus, node_size)

    def _guests(self, view: View, loads: GpuLoads) -> Iterator[Ask]:
        """Serve opportunistic jobs in order; if a job finds no GPUs, later jobs of its shape find none either."""
        firsts = [(job.seq, queue) for queue, job in view.firsts() if queue not in (OWNERS, OTHERS)]
        heapify(firsts)
        while firsts and loads.shareable:
            queue = firsts[0][1]
            job = view.first(queue)
            assert job is not None
            if job.gpus <= len(loads.shareable):
                able = (key for _, _, key in loads.shareable if suits(job, loads.gpus[key]))
                chosen = list(islice(able, job.gpus))
                if len(chosen) == job.gpus:
                    yield Ask((job.id,), job.gpus, GUEST, pin_to(job, slots_from(chosen)))
            following = view.first(queue) if job.active else None
            if following is not None:
                heapreplace(firsts, (following.seq, queue))
            else:
                heappop(firsts)

    def memo(self) -> GpuLoads:
        return GpuLoads()

    def observe(self, memo: GpuLoads, fact: Fact) -> GpuLoads:
        memo.apply(fact)
        return memo


def _needs_more_than_gpus(job: JobView) -> bool:
    """Return whether the job needs CPUs, RAM, labels or memory per rank, which AntMan's rule does not consider."""
    family, where = job.shape.family, job.shape.family.where
    return (
        not job.gpus
        or bool(family.cpus or family.ram_mb or where.labels or where.pinned or where.choice)
        or family.memory_mb.differs
    )

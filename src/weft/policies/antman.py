"""AntMan (OSDI'20), as Muri's simulator has it: guaranteed jobs own their GPUs, opportunistic ones live beside them.

Nobody is ever stopped. A guaranteed job takes GPUs that no other guaranteed job has; where they are too few it keeps
those of one node reserved until more come. An opportunistic job takes the least loaded GPUs, anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from weft.core.ports import Ask, JobView, Replanner, View
from weft.model import (
    Exited,
    Fact,
    JobId,
    NodeId,
    NodeJoined,
    NodeLost,
    Reserve,
    Seconds,
    Share,
    Slots,
    Start,
    Submitted,
    Where,
)

GUEST = Share(request=0.0, limit=1.0)
RESERVED, STARTED, GUEST_LOAD, FULL = 0.1 - 0.01, 0.01, 0.9, 0.8
"""What a guaranteed job adds to a GPU's load when it reserves it and when it starts there, what an opportunistic one
adds, and the load from which a GPU takes no opportunistic job: the original's figures, added in the original's order,
because the rounding of their sums decides between GPUs that are equally loaded."""

Gpu = tuple[NodeId, int]


@dataclass
class Loads:
    """Every GPU's load and guaranteed owner, gathered from the facts."""

    load: dict[Gpu, float] = field(default_factory=dict)
    open: dict[NodeId, list[int]] = field(default_factory=dict)
    """GPUs without a guaranteed owner."""
    slots: dict[JobId, set[Gpu]] = field(default_factory=dict)
    """What each job has reserved or runs on."""
    guests: dict[JobId, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Antman(Replanner):
    """Guaranteed jobs own GPUs, opportunistic ones share them; no preemption."""

    oversubscription = 2.0

    def key(self, job: JobView, now: Seconds) -> float:
        """Guaranteed jobs first."""
        return float(job.job.opportunistic)

    def rank(self, view: View) -> Iterator[Ask]:
        loads: Loads = view.memo
        waiting = list(view.waiting)
        node_size = max(view.node_gpus.values(), default=0)
        for job in waiting:
            if not any(loads.open.values()):
                break
            if not job.job.opportunistic:
                yield from _own(job, loads, node_size)
        room = sum(load < FULL for load in loads.load.values())
        for job in waiting:
            if not room:
                break
            if job.job.opportunistic and job.gpus <= room:
                free = sorted((gpu for gpu in loads.load if loads.load[gpu] < FULL), key=loads.load.__getitem__)
                yield Ask((job.id,), job.gpus, GUEST, Where(pinned=_slots(free[: job.gpus])))
                room = sum(load < FULL for load in loads.load.values())

    def memo(self) -> Loads:
        return Loads()

    def observe(self, memo: Loads, fact: Fact) -> Loads:
        match fact:
            case NodeJoined(node=node):
                memo.open[node.id] = list(range(len(node.gpus)))
                memo.load.update({(node.id, gpu): 0.0 for gpu in range(len(node.gpus))})
            case NodeLost(node=lost):
                memo.open.pop(lost, None)
                memo.load = {gpu: load for gpu, load in memo.load.items() if gpu[0] != lost}
            case Submitted(job=job):
                memo.guests[job.id] = job.opportunistic
            case Reserve(job=job_id, slots=slots):
                _reserve(memo, job_id, slots)
            case Start(job=job_id, slots=slots):
                if memo.guests[job_id]:
                    memo.slots[job_id] = set(_gpus(slots))
                else:
                    _reserve(memo, job_id, slots)
                for gpu in _gpus(slots):
                    memo.load[gpu] += GUEST_LOAD if memo.guests[job_id] else STARTED
            case Exited(job=job_id):
                _leave(memo, job_id)
        return memo


def _own(job: JobView, loads: Loads, node_size: int) -> Iterator[Ask]:
    """Starts a guaranteed job if its GPUs can be had, else reserves what can be."""
    held = _by_node(job.reserved)
    whole, rest = (0, job.gpus) if job.gpus <= node_size else divmod(job.gpus, node_size)
    full = [node for node, gpus in held.items() if len(gpus) == node_size] if whole else []
    for node, gpus in loads.open.items():
        if len(full) < whole and len(gpus) == node_size:
            full.append(node)
            held[node] = list(gpus)
    if len(full) == whole and rest:
        _hold_rest(held, loads, rest, [node for node in held if node not in full], full)
    slots = tuple((node, tuple(sorted(gpus))) for node, gpus in held.items() if gpus)
    if sum(len(gpus) for _, gpus in slots) == job.gpus:
        yield Ask((job.id,), job.gpus, where=Where(pinned=slots))
    elif slots != job.reserved:
        yield Ask((job.id,), job.gpus, where=Where(pinned=slots), reserve=True)


def _hold_rest(
    held: dict[NodeId, list[int]], loads: Loads, need: int, waits_on: list[NodeId], full: list[NodeId]
) -> None:
    """On one node: the first with enough, else the one with the most, which it then waits for."""
    candidates = {node: gpus for node, gpus in loads.open.items() if node not in full}
    if waits_on:
        node = waits_on[0]
    else:
        enough = (node for node, gpus in candidates.items() if len(gpus) >= need)
        node = next(enough, None) or max(candidates, key=lambda n: len(candidates[n]))
    mine = held.get(node, [])
    held[node] = mine + loads.open[node][: need - len(mine)]


def _reserve(memo: Loads, job: JobId, slots: Slots) -> None:
    held = memo.slots.setdefault(job, set())
    for gpu in _gpus(slots):
        if gpu not in held:
            held.add(gpu)
            memo.load[gpu] += RESERVED
            memo.open[gpu[0]].remove(gpu[1])


def _leave(memo: Loads, job: JobId) -> None:
    for gpu in sorted(memo.slots.pop(job, ())):
        if gpu not in memo.load:
            continue
        if memo.guests[job]:
            memo.load[gpu] -= GUEST_LOAD
        else:
            memo.load[gpu] -= RESERVED + STARTED
            memo.open[gpu[0]] = sorted([*memo.open[gpu[0]], gpu[1]])


def _by_node(slots: Slots) -> dict[NodeId, list[int]]:
    return {node: list(gpus) for node, gpus in slots}


def _gpus(slots: Slots) -> Iterator[Gpu]:
    return ((node, gpu) for node, gpus in slots for gpu in gpus)


def _slots(gpus: list[Gpu]) -> Slots:
    by_node: dict[NodeId, list[int]] = {}
    for node, gpu in gpus:
        by_node.setdefault(node, []).append(gpu)
    return tuple((node, tuple(sorted(numbers))) for node, numbers in by_node.items())

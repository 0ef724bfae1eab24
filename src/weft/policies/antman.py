"""AntMan (OSDI'20), as Muri's simulator has it: guaranteed jobs own their GPUs, opportunistic ones live beside them.

Nobody is ever stopped. A guaranteed job takes GPUs that no other guaranteed job has; where they are too few it keeps
those of one node reserved until more come. An opportunistic job takes the least loaded GPUs, anywhere.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from weft.core.ports import Ask, JobView, Replanner, View
from weft.core.shapes import memory_needed
from weft.model import (
    WHOLE,
    Cancelled,
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
from weft.model import Gpu as Card

GUEST = Share(request=0.0, limit=1.0)
RESERVED, STARTED, GUEST_LOAD, FULL = 0.1 - 0.01, 0.01, 0.9, 0.8
"""What a guaranteed job adds to a GPU's load when it reserves it and when it starts there, what an opportunistic one
adds, and the load from which a GPU takes no opportunistic job: the original's figures, added in the original's order,
because the rounding of their sums decides between GPUs that are equally loaded."""

Gpu = tuple[NodeId, int]


@dataclass
class Loads:
    """Every GPU's load and guaranteed owner, gathered from the facts."""

    gpus: dict[Gpu, Card] = field(default_factory=dict)
    load: dict[Gpu, float] = field(default_factory=dict)
    open: dict[NodeId, list[int]] = field(default_factory=dict)
    """GPUs without a guaranteed owner."""
    held: dict[JobId, set[Gpu]] = field(default_factory=dict)
    """What each job has reserved or runs on."""
    guests: dict[JobId, bool] = field(default_factory=dict)
    started: set[JobId] = field(default_factory=set)

    def room(self) -> list[Gpu]:
        """GPUs that take an opportunistic job."""
        return [gpu for gpu, load in self.load.items() if load < FULL]


@dataclass(frozen=True)
class Antman(Replanner):
    """Guaranteed jobs own GPUs, opportunistic ones share them; no preemption."""

    oversubscription = 2.0

    def key(self, job: JobView, now: Seconds) -> float:
        """Guaranteed jobs first."""
        return float(job.job.opportunistic)

    def rank(self, view: View) -> Iterator[Ask]:
        loads: Loads = view.memo
        waiting = sorted(view.waiting, key=lambda job: job.seq)
        node_size = max(view.node_gpus.values(), default=0)
        if not any(view.active):  # those who hold parts of each other's GPUs would wait for ever: the first gets all
            for job in waiting[1:]:
                if job.reserved:
                    yield Ask((job.id,), job.gpus, where=_at(job, ()), reserve=True)
        for job in waiting:
            if _needs_more_than_gpus(job):
                yield Ask((job.id,), job.gpus, WHOLE if job.gpus else job.job.share, job.job.where)
            elif not job.job.opportunistic and (job.reserved or any(loads.open.values())):
                yield from _own(job, loads, node_size)
        room = loads.room()
        for job in waiting:
            if job.job.opportunistic and job.gpus <= len(room) and not _needs_more_than_gpus(job):
                free = sorted((gpu for gpu in room if _suits(job, loads.gpus[gpu])), key=loads.load.__getitem__)
                if len(free) >= job.gpus:
                    yield Ask((job.id,), job.gpus, GUEST, _at(job, _slots(free[: job.gpus])))
                    room = loads.room()

    def memo(self) -> Loads:
        return Loads()

    def observe(self, memo: Loads, fact: Fact) -> Loads:
        match fact:
            case NodeJoined(node=node):
                memo.open[node.id] = list(range(len(node.gpus)))
                memo.gpus.update({(node.id, index): card for index, card in enumerate(node.gpus)})
                memo.load.update({(node.id, index): 0.0 for index in range(len(node.gpus))})
            case NodeLost(node=lost):
                memo.open.pop(lost, None)
                memo.load = {gpu: load for gpu, load in memo.load.items() if gpu[0] != lost}
                memo.held = {job: {gpu for gpu in held if gpu[0] != lost} for job, held in memo.held.items()}
            case Submitted(job=job):
                memo.guests[job.id] = job.opportunistic
            case Reserve(job=job_id, slots=slots):
                _reserve(memo, job_id, slots)
            case Start(job=job_id, slots=slots):
                _start(memo, job_id, slots)
            case Cancelled(job=job_id) if job_id not in memo.started:
                _leave(memo, job_id, RESERVED)
            case Exited(job=job_id):
                memo.started.discard(job_id)
                _leave(memo, job_id, GUEST_LOAD if memo.guests[job_id] else RESERVED + STARTED)
        return memo


def _own(job: JobView, loads: Loads, node_size: int) -> Iterator[Ask]:
    """Starts a guaranteed job if its GPUs can be had, else reserves what can be."""
    held = _by_node(job.reserved)
    can_give = {node: [g for g in gpus if _suits(job, loads.gpus[node, g])] for node, gpus in loads.open.items()}
    size = Counter(node for (node, _), card in loads.gpus.items() if node in loads.open and _suits(job, card))
    if len(size) < len(loads.open) or set(size.values()) != {node_size}:
        mine = {node: sorted([*gpus, *held.get(node, ())]) for node, gpus in can_give.items()}
        yield from _own_loosely(job, mine, max(size.values(), default=0))
        return
    whole, rest = (0, job.gpus) if job.gpus <= node_size else divmod(job.gpus, node_size)
    full = [node for node, gpus in held.items() if len(gpus) == node_size] if whole else []
    for node, gpus in can_give.items():
        if len(full) < whole and len(gpus) == node_size:
            full.append(node)
            held[node] = gpus
    if len(full) == whole and rest:
        others = {node: gpus for node, gpus in can_give.items() if node not in full}
        _hold_rest(held, others, rest, [node for node in held if node not in full])
    slots = tuple((node, tuple(sorted(gpus))) for node, gpus in held.items() if gpus)
    if sum(len(gpus) for _, gpus in slots) == job.gpus:
        yield Ask((job.id,), job.gpus, where=_at(job, slots))
    if not job.active and slots != job.reserved:
        yield Ask((job.id,), job.gpus, where=_at(job, slots), reserve=True)


def _own_loosely(job: JobView, can_give: dict[NodeId, list[int]], largest: int) -> Iterator[Ask]:
    """Where nodes differ, whole nodes may never come: one node with enough GPUs, or any GPUs if no node has.

    What it reserved while they did not differ is among them.
    """
    node = next((node for node, gpus in can_give.items() if len(gpus) >= job.gpus), None)
    open_gpus = [(node, gpu) for node, gpus in can_give.items() for gpu in gpus]
    if node is not None:
        yield Ask((job.id,), job.gpus, where=_at(job, ((node, tuple(can_give[node][: job.gpus])),)))
    elif job.gpus > largest and len(open_gpus) >= job.gpus:
        yield Ask((job.id,), job.gpus, where=_at(job, _slots(open_gpus[: job.gpus])))


def _hold_rest(held: dict[NodeId, list[int]], can_give: dict[NodeId, list[int]], need: int, mine: list[NodeId]) -> None:
    """On one node: the one it waits for, else the first with enough, else the one with the most."""
    if not can_give:
        return
    enough = [node for node, gpus in can_give.items() if len(gpus) >= need]
    most = max(can_give, key=lambda node: len(can_give[node]))
    node = (mine or enough or [most])[0]
    has = held.get(node, [])
    held[node] = has + can_give[node][: need - len(has)]


def _needs_more_than_gpus(job: JobView) -> bool:
    """Its CPUs, RAM, labels or ranks are the placement's business; the rule knows only GPUs."""
    family = job.shape.family
    ranks = isinstance(family.memory_mb, tuple)
    return not job.gpus or bool(family.cpus or family.ram_mb or family.where.labels or family.where.pinned) or ranks


def _suits(job: JobView, card: Card) -> bool:
    return job.job.where.gpu_model in ("", card.model) and card.memory_mb >= memory_needed(job.shape)


def _at(job: JobView, slots: Slots) -> Where:
    return replace(job.job.where, pinned=slots)


def _start(memo: Loads, job: JobId, slots: Slots) -> None:
    memo.started.add(job)
    if memo.guests[job]:
        memo.held[job] = set(_gpus(slots))
    else:
        _reserve(memo, job, slots)
    for gpu in _gpus(slots):
        memo.load[gpu] += GUEST_LOAD if memo.guests[job] else STARTED


def _reserve(memo: Loads, job: JobId, slots: Slots) -> None:
    held = memo.held.setdefault(job, set())
    for gpu in sorted(held - set(_gpus(slots))):
        held.discard(gpu)
        memo.load[gpu] -= RESERVED
        insort(memo.open[gpu[0]], gpu[1])
    for gpu in _gpus(slots):
        if gpu not in held:
            held.add(gpu)
            memo.load[gpu] += RESERVED
            if gpu[1] in memo.open[gpu[0]]:
                memo.open[gpu[0]].remove(gpu[1])


def _leave(memo: Loads, job: JobId, load: float) -> None:
    for gpu in sorted(memo.held.pop(job, ())):
        memo.load[gpu] -= load
        if not memo.guests[job] and not any(gpu in held for other, held in memo.held.items() if not memo.guests[other]):
            insort(memo.open[gpu[0]], gpu[1])


def _by_node(slots: Slots) -> dict[NodeId, list[int]]:
    return {node: list(gpus) for node, gpus in slots}


def _gpus(slots: Slots) -> Iterator[Gpu]:
    return ((node, gpu) for node, gpus in slots for gpu in gpus)


def _slots(gpus: list[Gpu]) -> Slots:
    by_node: dict[NodeId, list[int]] = {}
    for node, gpu in gpus:
        by_node.setdefault(node, []).append(gpu)
    return tuple((node, tuple(sorted(numbers))) for node, numbers in by_node.items())

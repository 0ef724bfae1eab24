"""AntMan (OSDI'20), as Muri's simulator has it: guaranteed jobs own their GPUs, opportunistic ones live beside them.

Nobody is ever stopped. A guaranteed job takes GPUs that no other guaranteed job has; where they are too few it keeps
those of one node reserved until more come. An opportunistic job takes the least loaded GPUs, anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.core.ports import Ask, JobView, Replanner, View
from weft.core.shapes import memory_needed
from weft.ledgers.loads import Loads, slots_of
from weft.model import WHOLE, Fact, Gpu, NodeId, Seconds, Share, Slots, Where

GUEST = Share(request=0.0, limit=1.0)


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
                yield Ask((job.id,), job.gpus, WHOLE if job.gpus else job.wanted_share, job.job.where)
            elif not job.job.opportunistic and (job.reserved or any(loads.open.values())):
                yield from _own(job, loads, node_size)
        room = loads.room()
        for job in waiting:
            if job.job.opportunistic and job.gpus <= len(room) and not _needs_more_than_gpus(job):
                free = sorted((gpu for gpu in room if _suits(job, loads.gpus[gpu])), key=loads.load.__getitem__)
                if len(free) >= job.gpus:
                    yield Ask((job.id,), job.gpus, GUEST, _at(job, slots_of(free[: job.gpus])))
                    room = loads.room()

    def memo(self) -> Loads:
        return Loads()

    def observe(self, memo: Loads, fact: Fact) -> Loads:
        memo.note(fact)
        return memo


def _own(job: JobView, loads: Loads, node_size: int) -> Iterator[Ask]:
    """Starts a guaranteed job if its GPUs can be had, else reserves what can be."""
    held = {node: list(gpus) for node, gpus in job.reserved}
    can_give = {node: [g for g in gpus if _suits(job, loads.gpus[node, g])] for node, gpus in loads.open.items()}
    size = Counter(node for (node, _), gpu in loads.gpus.items() if node in loads.open and _suits(job, gpu))
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
    """Where nodes differ, whole nodes may never come: one node with enough GPUs, or any if no node has; its own too."""
    node = next((node for node, gpus in can_give.items() if len(gpus) >= job.gpus), None)
    open_gpus = [(node, gpu) for node, gpus in can_give.items() for gpu in gpus]
    if node is not None:
        yield Ask((job.id,), job.gpus, where=_at(job, ((node, tuple(can_give[node][: job.gpus])),)))
    elif job.gpus > largest and len(open_gpus) >= job.gpus:
        yield Ask((job.id,), job.gpus, where=_at(job, slots_of(open_gpus[: job.gpus])))


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
    family, where = job.shape.family, job.shape.family.where
    ranks = isinstance(family.memory_mb, tuple)
    return not job.gpus or bool(family.cpus or family.ram_mb or where.labels or where.pinned or where.pool) or ranks


def _suits(job: JobView, gpu: Gpu) -> bool:
    return job.job.where.gpu_model in ("", gpu.model) and gpu.memory_mb >= memory_needed(job.shape)


def _at(job: JobView, slots: Slots) -> Where:
    return replace(job.job.where, pinned=slots)

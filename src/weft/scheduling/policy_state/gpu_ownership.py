"""The GPUs that a guaranteed job owns: AntMan's rule, as in Muri's simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from weft.model import Gpu, NodeId, Slots, Where
from weft.scheduling.core.ports import Ask, JobView
from weft.scheduling.policy_state.gpu_loads import GpuLoads, slots_from


def ask_for_gpus(job: JobView, loads: GpuLoads, node_gpus: Mapping[NodeId, int], node_size: int) -> Iterator[Ask]:
    """Ask to start a guaranteed job if enough GPUs are available, else to reserve the available ones."""
    held = {node: list(gpus) for node, gpus in job.reserved}
    available: Mapping[NodeId, list[int]] = loads.unowned
    size = node_gpus
    if not all(suits(job, gpu) for gpu in loads.kinds):
        available = {node: [g for g in gpus if suits(job, loads.gpus[node, g])] for node, gpus in loads.unowned.items()}
        size = Counter(node for (node, _), gpu in loads.gpus.items() if node in loads.unowned and suits(job, gpu))
    if len(size) < len(loads.unowned) or set(size.values()) != {node_size}:
        mine = {node: sorted([*gpus, *held.get(node, ())]) for node, gpus in available.items()}
        yield from _ask_any_node(job, mine, max(size.values(), default=0))
        return
    whole, rest = (0, job.gpus) if job.gpus <= node_size else divmod(job.gpus, node_size)
    full = [node for node, gpus in held.items() if len(gpus) == node_size] if whole else []
    if len(full) < whole:
        more = [node for node, gpus in available.items() if len(gpus) == node_size][: whole - len(full)]
        full += more
        held |= {node: list(available[node]) for node in more}
    if len(full) == whole and rest:
        others = {node: gpus for node, gpus in available.items() if node not in full}
        _reserve_rest(held, others, rest, [node for node in held if node not in full])
    slots = tuple((node, tuple(sorted(gpus))) for node, gpus in held.items() if gpus)
    if sum(len(gpus) for _, gpus in slots) == job.gpus:
        yield Ask((job.id,), job.gpus, where=pin_to(job, slots))
    if not job.active and slots != job.reserved:
        yield Ask((job.id,), job.gpus, where=pin_to(job, slots), reserve=True)


def _ask_any_node(job: JobView, available: dict[NodeId, list[int]], largest: int) -> Iterator[Ask]:
    """Ask for one node with enough GPUs, or for any GPUs if no node is large enough.

    This is for nodes of different sizes, where waiting for whole nodes could take forever.
    """
    node = next((node for node, gpus in available.items() if len(gpus) >= job.gpus), None)
    open_gpus = [(node, gpu) for node, gpus in available.items() for gpu in gpus]
    if node is not None:
        yield Ask((job.id,), job.gpus, where=pin_to(job, ((node, tuple(available[node][: job.gpus])),)))
    elif job.gpus > largest and len(open_gpus) >= job.gpus:
        yield Ask((job.id,), job.gpus, where=pin_to(job, slots_from(open_gpus[: job.gpus])))


def _reserve_rest(
    held: dict[NodeId, list[int]], available: Mapping[NodeId, list[int]], need: int, mine: list[NodeId]
) -> None:
    """Reserve the rest on one node: the one the job waits for, the first with enough GPUs, or the one with most."""
    if not available:
        return
    node = mine[0] if mine else next((node for node, gpus in available.items() if len(gpus) >= need), None)
    if node is None:
        node = max(available, key=lambda node: len(available[node]))
    has = held.get(node, [])
    held[node] = has + available[node][: need - len(has)]


def suits(job: JobView, gpu: Gpu) -> bool:
    return job.job.where.gpu_model in ("", gpu.model) and gpu.memory_mb >= job.shape.memory_mb.max


def pin_to(job: JobView, slots: Slots) -> Where:
    return replace(job.job.where, pinned=slots)

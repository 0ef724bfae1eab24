"""Rules that placements of shared GPUs have in common: best fit of one GPU, and gangs on one node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from weft.model import Share
from weft.scheduling.sharing.demand import Demand, Part
from weft.scheduling.sharing.ledger import SHARE_TOLERANCE, GpuLedger


def best_fit(
    ledger: GpuLedger,
    share: Share,
    memory_mb: int,
    gpus: Iterable[int] | None = None,
    *,
    compute_weight: float,
    memory_weight: float,
) -> int | None:
    """Return the fullest active GPU that has room, or the fullest of `gpus`; the first of equals."""
    request, limit, free_mb, total_mb = ledger.request, ledger.limit, ledger.free_mb, ledger.memory_mb
    max_request = 1 + SHARE_TOLERANCE - share.request
    max_limit = ledger.oversubscription + SHARE_TOLERANCE - share.limit
    best, highest = None, -1.0
    for gpu in ledger.with_room(memory_mb) if gpus is None else gpus:
        if request[gpu] <= max_request and limit[gpu] <= max_limit and free_mb[gpu] >= memory_mb:
            fullness = compute_weight * request[gpu] + memory_weight * (1 - free_mb[gpu] / (total_mb[gpu] or 1))
            ahead = fullness - highest
            if ahead > SHARE_TOLERANCE or (ahead >= -SHARE_TOLERANCE and best is not None and gpu < best):
                best, highest = gpu, fullness
    return best


def first_fit_gang(ledger: GpuLedger, share: Share, memory_mb: Sequence[int]) -> tuple[Part, ...] | None:
    """Return parts on the first node whose active GPUs hold all workers, else on the first whose GPUs do."""
    workers = len(memory_mb)
    for node, gpus in enumerate(ledger.nodes):
        if ledger.busy[node] >= workers:
            parts = fit_gang(ledger, share, memory_mb, [gpu for gpu in gpus if ledger.holders[gpu]])
            if parts is not None:
                return parts
    for node in ledger.unused_nodes():
        gpus = ledger.nodes[node]
        if len(gpus) >= workers:
            parts = fit_gang(ledger, share, memory_mb, sorted(gpus, key=lambda gpu: not ledger.holders[gpu]))
            if parts is not None:
                return parts
    return None


def fit_gang(ledger: GpuLedger, share: Share, memory_mb: Sequence[int], gpus: Sequence[int]) -> tuple[Part, ...] | None:
    """Return one part per worker, each on the first GPU that fits; the largest worker chooses first."""
    chosen: dict[int, Part] = {}
    taken: set[int] = set()
    for worker in sorted(range(len(memory_mb)), key=lambda worker: -memory_mb[worker]):
        need_mb = memory_mb[worker]
        gpu = next((g for g in gpus if g not in taken and ledger.fits(g, *share_of(share), need_mb)), None)
        if gpu is None:
            return None
        taken.add(gpu)
        chosen[worker] = Part(gpu, share.request, share.limit, need_mb)
    return tuple(chosen[worker] for worker in range(len(memory_mb)))


def share_of(share: Share) -> tuple[float, float]:
    return share.request, share.limit


def place_on(gpu: int | None, share: Share, memory_mb: int) -> tuple[Part, ...] | None:
    """Return the part of a single GPU; None without a GPU."""
    return None if gpu is None else (Part(gpu, share.request, share.limit, memory_mb),)


def fill_parts(ledger: GpuLedger, demand: Demand, gpus: Iterable[int]) -> tuple[Part, ...] | None:
    """Split the memory of a replica over these GPUs: each part fills its GPU; None if it does not fit."""
    need_mb, parts = demand.memory_mb[0], []
    for gpu in gpus:
        take_mb = min(need_mb, ledger.free_mb[gpu])
        parts.append(Part(gpu, demand.share.request, demand.share.limit, take_mb))
        need_mb -= take_mb
        if not need_mb:
            return tuple(parts)
    return None


def nodes_in_use(ledger: GpuLedger) -> Iterator[tuple[int, range]]:
    """Yield the nodes with active GPUs, in order."""
    for node, gpus in enumerate(ledger.nodes):
        if ledger.busy[node]:
            yield node, gpus

"""Holes: keep the memory that training leaves free usable for language models, and empty GPUs by moving replicas.

A replica goes where the memory that a language model could still use shrinks least. A language model goes to one GPU,
else into the holes of one node: the fewest parts, then the least memory left over. A gang goes to the node where it
needs the fewest unused GPUs. After each event a few replicas may move, if that empties a GPU; gangs never move.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from weft.scheduling.sharing.demand import Demand, Move, Part
from weft.scheduling.sharing.fit import best_fit, fill_parts, fit_gang, place_on
from weft.scheduling.sharing.ledger import SHARE_TOLERANCE, GpuLedger
from weft.scheduling.sharing.moves import empty_gpus
from weft.scheduling.sharing.port import SharePlacement

TYPICAL_REQUESTS = (0.42, 0.46, 0.5, 0.54, 0.58)
"""Requests of typical language models; their limit is `TYPICAL_BURST` higher."""
TYPICAL_BURST = 0.2
MIN_PART = 1 / 13
"""The least part of a GPU's memory that is worth a part of a model."""
RESERVE = 1 / 20
"""The part of a GPU's memory that every part of a model loses."""
HOLE_WEIGHT = 3.0
COMPUTE_WEIGHT = 0.6


@dataclass(frozen=True)
class Holes(SharePlacement):
    """Least growth of unusable memory, fewest parts, and bounded moves of replicas."""

    moves: int = 4
    """The most replicas that move after one event."""
    tries: int = 24
    """The number of GPUs to try to empty after one event."""
    moves_per_event: float = 0.25
    """The largest average of moves per event, in studies."""
    moves_per_minute: int = 2
    """The most replicas that move within a minute, in simulations and clusters."""

    def __post_init__(self) -> None:
        if min(self.moves, self.tries, self.moves_per_event, self.moves_per_minute) < 0:
            raise ValueError("moves, tries, moves_per_event and moves_per_minute must not be below 0")

    def choose(self, demand: Demand, ledger: GpuLedger) -> tuple[Part, ...] | None:
        if demand.gang:
            return _place_gang(demand, ledger)
        parts = choose_active(demand, ledger)
        if parts is not None:
            return parts
        return place_on(ledger.first_unused(demand.memory_mb[0]), demand.share, demand.memory_mb[0])

    def improve(self, ledger: GpuLedger, max_moves: int) -> list[Move]:
        return empty_gpus(ledger, choose_active, min(self.moves, max_moves), self.tries)


def choose_active(demand: Demand, ledger: GpuLedger, without: int = -1) -> tuple[Part, ...] | None:
    """Return parts of active GPUs for a replica, without the GPU `without`."""
    memory_mb = demand.memory_mb[0]
    if demand.kind != "llm":
        return place_on(_smallest_loss(demand, ledger, without), demand.share, memory_mb)
    gpus = [gpu for gpu in ledger.with_room(memory_mb) if gpu != without]
    gpu = best_fit(
        ledger, demand.share, memory_mb, gpus, compute_weight=COMPUTE_WEIGHT, memory_weight=1 - COMPUTE_WEIGHT
    )
    return _split(demand, ledger, without) if gpu is None else place_on(gpu, demand.share, memory_mb)


def usable_mb(request: float, limit: float, free_mb: int, total_mb: int, oversubscription: float) -> float:
    """Return the memory that a GPU with these sums could give to a typical language model."""
    left_mb = free_mb - RESERVE * total_mb
    room = min(1 - request, oversubscription - TYPICAL_BURST - limit) + SHARE_TOLERANCE
    if left_mb <= 0 or room < TYPICAL_REQUESTS[0]:
        return 0.0
    return left_mb * bisect_left(TYPICAL_REQUESTS, room) / len(TYPICAL_REQUESTS)


def _smallest_loss(demand: Demand, ledger: GpuLedger, without: int) -> int | None:
    """Return the active GPU whose usable memory shrinks least, weighed against best fit; the first of equals."""
    request, limit, need_mb = demand.share.request, demand.share.limit, demand.memory_mb[0]
    requests, limits, totals, most = ledger.request, ledger.limit, ledger.memory_mb, ledger.oversubscription
    best: tuple[float, int] | None = None
    by_free = ledger.by_free
    for at in range(bisect_left(by_free, (need_mb, -1)), len(by_free)):
        free_mb, gpu = by_free[at]
        before, bound = requests[gpu], limits[gpu]
        after, limit_after = before + request, bound + limit
        if after > 1 + SHARE_TOLERANCE or limit_after > most + SHARE_TOLERANCE or gpu == without:
            continue
        total_mb = totals[gpu]
        left_mb = free_mb - need_mb
        loss = usable_mb(before, bound, free_mb, total_mb, most) - usable_mb(
            after, limit_after, left_mb, total_mb, most
        )
        waste = COMPUTE_WEIGHT * (1 - after) + ((1 - COMPUTE_WEIGHT) * left_mb + HOLE_WEIGHT * loss) / (total_mb or 1)
        cost = (round(waste, 9), gpu)
        if best is None or cost < best:
            best = cost
    return None if best is None else best[1]


def _split(demand: Demand, ledger: GpuLedger, without: int) -> tuple[Part, ...] | None:
    """Split a model over the active GPUs of one node: fewest parts, least left over, fullest GPUs, first node."""
    need_mb, requests = demand.memory_mb[0], ledger.request
    best: tuple[tuple[int, int, float, int], tuple[tuple[int, int], ...]] | None = None
    for node, holes in _holes_by_node(demand, ledger, without).items():
        count = _fewest_parts(holes, need_mb)
        if not count or (best is not None and count > best[0][0]):
            continue
        for some in combinations(holes, count):
            left_mb = sum([free_mb for free_mb, _ in some]) - need_mb
            if left_mb >= 0:
                cost = (count, left_mb, round(-sum([requests[gpu] for _, gpu in some]), 9), node)
                if best is None or cost < best[0]:
                    best = cost, some
    return None if best is None else fill_parts(ledger, demand, [gpu for _, gpu in best[1]])


def _holes_by_node(demand: Demand, ledger: GpuLedger, without: int) -> dict[int, list[tuple[int, int]]]:
    """Return the GPUs that could hold a part, with their free memory, the fullest first."""
    max_request = 1 + SHARE_TOLERANCE - demand.share.request
    max_limit = ledger.oversubscription + SHARE_TOLERANCE - demand.share.limit
    requests, limits, node_of, by_free = ledger.request, ledger.limit, ledger.node_of, ledger.by_free
    found: dict[int, list[tuple[int, int]]] = {}
    for at in range(bisect_left(by_free, (int(ledger.smallest_mb * MIN_PART), -1)), len(by_free)):
        hole = by_free[at]
        gpu = hole[1]
        if requests[gpu] <= max_request and limits[gpu] <= max_limit and gpu != without:
            found.setdefault(node_of[gpu], []).append(hole)
    return found


def _fewest_parts(holes: list[tuple[int, int]], need_mb: int) -> int:
    """Return how many of the largest holes it takes to hold this much; 0 if all of them do not."""
    for count, (free_mb, _) in enumerate(reversed(holes), start=1):
        need_mb -= free_mb
        if need_mb <= 0:
            return count
    return 0


def _place_gang(demand: Demand, ledger: GpuLedger) -> tuple[Part, ...] | None:
    """Place a gang on the node where it needs the fewest unused GPUs, then leaves the least memory free."""
    best: tuple[tuple[int, int, int, int], tuple[Part, ...]] | None = None
    for node, gpus in _different_nodes(ledger):
        ordered = sorted(gpus, key=lambda gpu: (not ledger.holders[gpu], ledger.free_mb[gpu], gpu))
        parts = fit_gang(ledger, demand.share, demand.memory_mb, ordered)
        if parts is None:
            continue
        new = sum(not ledger.holders[part.gpu] for part in parts)
        free_mb = sum(ledger.free_mb[part.gpu] for part in parts if ledger.holders[part.gpu])
        cost = (new, free_mb, len(gpus) - ledger.busy[node], node)
        if best is None or cost < best[0]:
            best = cost, parts
    return None if best is None else best[1]


def _different_nodes(ledger: GpuLedger) -> Iterator[tuple[int, range]]:
    """Yield the nodes in use, and the first of each kind of unused nodes: the others are like it."""
    seen = set()
    for node, gpus in enumerate(ledger.nodes):
        if not ledger.busy[node]:
            kind = (len(gpus), ledger.memory_mb[gpus[0]]) if gpus else (0, 0)
            if kind in seen:
                continue
            seen.add(kind)
        yield node, gpus

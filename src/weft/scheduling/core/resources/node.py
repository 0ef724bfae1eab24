"""The GPUs of one node, their holders, and the parts that are still free."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from weft.errors import PlanError
from weft.model import JobId, Node, NodeId, Slots
from weft.scheduling.core.resources.shapes import Shape, plain_shape

MAX_CACHED_SETS = 10_000
"""The size of the cache of `lowest`."""
SERVICE_OVERSUBSCRIPTION = 1.5
"""The largest sum of limits on a GPU that holds a service, unless the policy sets its own."""
SHARE_TOLERANCE = 1e-9
"""The tolerance for sums of shares, which are fractions such as 1/3."""


class Holder(Protocol):
    """A holder of GPUs: a run, or a tentative run of a planner."""

    allocation: Shape
    """The shape it holds, with the share and memory it started with."""
    placed: Slots
    """The GPUs it started on, in rank order."""
    releasing: bool
    weave: tuple[JobId, ...]
    place: Any
    """Its place in the order of runs; None: it has none."""


@dataclass(slots=True, eq=False)
class Occupant:
    """An occupant that is not a run. It keeps a GPU, or a part of its memory, from being used."""

    node: NodeId
    gpu: int
    why: str
    memory_mb: int | None
    """None: the whole GPU."""
    detail: str
    allocation: Shape = field(default_factory=lambda: plain_shape(1))
    placed: Slots = ()
    releasing: bool = False
    weave: tuple[JobId, ...] = ()
    place: None = None


@dataclass(slots=True, eq=False)
class Closure:
    """A reason why no new jobs start on a node, and the occupants that keep its GPUs meanwhile."""

    detail: str
    occupants: list[Occupant] = field(default_factory=list)


class GpuLoad(NamedTuple):
    """The sums of what the holders of a GPU have."""

    request: float
    limit: float
    memory_mb: int
    serves: bool
    """True if one of them is a replica of a service."""


class NodeResources:
    """The GPUs of one node and their holders."""

    __slots__ = (
        "_oversubscription", "alive", "closures", "cpus_releasing", "cpus_used", "foreign_mb", "guests", "holders",
        "idle", "index", "lasts_s", "node", "occupants", "ram_releasing", "ram_used", "service_oversubscription",
    )  # fmt: skip

    def __init__(self, node: Node, index: int, oversubscription: float) -> None:
        self.node, self.index, self.alive, self._oversubscription = node, index, True, oversubscription
        self.service_oversubscription = oversubscription if oversubscription > 1 else SERVICE_OVERSUBSCRIPTION
        """The largest sum of limits on a GPU that holds a service."""
        self.holders: list[list[Holder]] = [[] for _ in node.gpus]
        self.idle = (1 << len(node.gpus)) - 1
        """The GPUs without a holder, as bits."""
        self.guests: list[Holder] = []
        """Runs without GPUs."""
        self.occupants: list[Occupant] = []
        """The occupants of whole GPUs."""
        self.closures = 0
        """The number of reasons why no new jobs start here."""
        self.foreign_mb: dict[int, int] = {}
        """Memory of each GPU that occupants take, in MB."""
        self.cpus_used = self.ram_used = self.cpus_releasing = self.ram_releasing = 0
        self.lasts_s = float("inf")
        """The seconds until the node leaves, as of the last plan."""

    def runs(self) -> list[Holder]:
        """Return the runs on this node, each once."""
        holders_once = {holder: None for holders in self.holders if holders for holder in holders}
        holders_once.update(dict.fromkeys(self.guests))
        return [holder for holder in holders_once if not isinstance(holder, Occupant)]

    def blocked(self) -> int:
        """Return how many GPUs have an occupant."""
        return len({occupant.gpu for occupant in self.occupants}) if self.occupants else 0

    def check(self, gpu: int, holder: Holder) -> None:
        """Raise a `PlanError` unless the holder belongs to a weave on this GPU, or the GPU has its share free."""
        weave = holder.weave
        if weave:
            for other in self.holders[gpu]:
                if other.weave == weave:
                    return
        if self.load(gpu).request + holder.allocation.family.share.request > 1 + SHARE_TOLERANCE:
            raise PlanError(f"GPU {gpu} of {self.node.id} would be allocated twice")

    def has_free(self, gpus: Sequence[int], request: float) -> bool:
        """Return whether these are different GPUs of this node that have a share free."""
        count = len(self.node.gpus) if self.alive and len(set(gpus)) == len(gpus) else 0
        return all(0 <= gpu < count and self.load(gpu).request + request <= 1 + SHARE_TOLERANCE for gpu in gpus)

    def load(self, gpu: int, *, after_release: bool = False, gone: Collection[Holder] = ()) -> GpuLoad:
        """Return what the holders of a GPU have, as if the ones in `gone` had left. A weave has one share."""
        request = limit = 0.0
        serves = False
        memory = self.foreign_mb.get(gpu, 0)
        weaves: set[tuple[JobId, ...]] = set()
        for holder in self.holders[gpu]:
            if holder in gone or (after_release and holder.releasing):
                continue
            memory += memory_held(holder, self.node.id, gpu)
            if holder.weave:
                if holder.weave in weaves:
                    continue
                weaves.add(holder.weave)
            family = holder.allocation.family
            request += family.share.request
            limit += family.share.limit
            serves = serves or family.serves
        return GpuLoad(request, limit, memory, serves)

    def largest_limit(self, *, serves: bool) -> float:
        """Return the largest sum of limits on a GPU; `serves`: on one that holds a service."""
        return self.service_oversubscription if serves else max(self._oversubscription, 1)

    # ---- GPUs for a shape

    def count_for(self, shape: Shape, *, after_release: bool, gone: Collection[Holder] = ()) -> int:
        """Return how many GPUs this shape could use here, as if the holders in `gone` had left."""
        if not self.alive:
            return 0
        family = shape.family
        fitting = self.fitting(shape, after_release=after_release, gone=gone)
        count = len(fitting)
        if family.cpus and self.node.cpus:
            count = min(count, self._left("cpus", after_release, gone) // family.cpus)
        if family.ram_mb and self.node.ram_mb:
            count = min(count, self._left("ram_mb", after_release, gone) // family.ram_mb)
        return max(count, 0)

    def fitting(self, shape: Shape, *, after_release: bool, gone: Collection[Holder] = ()) -> list[int]:
        """Return the GPUs that this shape could use, the fullest first; with a `gpu_choice`, the emptiest first."""
        where = shape.family.where
        if (where.labels and not set(where.labels) <= set(self.node.labels)) or shape.family.need_s > self.lasts_s:
            return []
        only = where.pinned or where.choice
        allowed = dict(only).get(self.node.id, ()) if only else None
        memory = shape.memory_mb
        whole_gang = memory.differs and self._fits_ranks(shape, after_release=after_release, gone=gone)
        least = memory.min if whole_gang else memory.max
        fitting = []
        for index, gpu in enumerate(self.node.gpus):
            if allowed is not None and index not in allowed:
                continue
            if where.gpu_model and gpu.model != where.gpu_model:
                continue
            left = self._left_on(index, shape, after_release=after_release, gone=gone)
            if left is not None and left[1] >= least:
                fitting.append((left[0], left[1], index))
        fitting.sort(key=_emptiest if where.choice else None)
        return [index for _, _, index in fitting]

    def pick(self, count: int, shape: Shape) -> tuple[int, ...] | None:
        """Choose GPUs of this node: the lowest idle ones for whole GPUs, else the fullest that fit."""
        if shape.plain:
            return lowest(self.idle, count)
        fitting = self.fitting(shape, after_release=False)
        if shape.memory_mb.differs:
            return self._assign_ranks(fitting, count, shape)
        return tuple(sorted(fitting[:count])) if len(fitting) >= count else None

    def fits_cpus(self, shape: Shape) -> bool:
        """Return whether this node has the CPUs and RAM that a job without GPUs needs."""
        family, node = shape.family, self.node
        if self.closures or family.need_s > self.lasts_s or not set(family.where.labels) <= set(node.labels):
            return False
        return (not node.cpus or node.cpus - self.cpus_used >= family.cpus) and (
            not node.ram_mb or node.ram_mb - self.ram_used >= family.ram_mb
        )

    # ---- inside

    def _left(self, what: str, after_release: bool, gone: Collection[Holder]) -> int:
        used = self.cpus_used if what == "cpus" else self.ram_used
        releasing = self.cpus_releasing if what == "cpus" else self.ram_releasing
        freed = sum(
            getattr(holder.allocation.family, what) for holders in self.holders for holder in holders if holder in gone
        )
        return int(getattr(self.node, what) - used + (releasing if after_release else 0) + freed)

    def _left_on(
        self, index: int, shape: Shape, *, after_release: bool, gone: Collection[Holder]
    ) -> tuple[float, int] | None:
        """Return the free (request, memory) of a GPU if a share of this shape fits on it; None if not."""
        share, load = shape.family.share, self.load(index, after_release=after_release, gone=gone)
        most = self.largest_limit(serves=load.serves or shape.family.serves)
        if load.request + share.request > 1 + SHARE_TOLERANCE or load.limit + share.limit > most + SHARE_TOLERANCE:
            return None
        return 1 - load.request, self.node.gpus[index].memory_mb - load.memory_mb

    def _fits_ranks(self, shape: Shape, *, after_release: bool, gone: Collection[Holder]) -> bool:
        """Return whether the whole gang fits on this node, each rank on a GPU with enough memory for it."""
        left = (self._left_on(g, shape, after_release=after_release, gone=gone) for g in range(len(self.node.gpus)))
        memories = sorted((m for _, m in filter(None, left)), reverse=True)
        ranks = sorted(shape.memory_mb.each(shape.gpus), reverse=True)
        return len(memories) >= len(ranks) and all(m >= r for m, r in zip(memories, ranks, strict=False))

    def _assign_ranks(self, fitting: list[int], count: int, shape: Shape) -> tuple[int, ...] | None:
        """Choose a GPU for each rank: the rank that needs most takes the smallest GPU that is enough."""
        left = {g: (self._left_on(g, shape, after_release=False, gone=()) or (0, 0))[1] for g in fitting}
        if count < shape.gpus:  # a part of the gang: its ranks are unknown here, so every rank must fit
            able = [g for g in fitting if left[g] >= shape.memory_mb.max]
            return tuple(able[:count]) if len(able) >= count else None
        chosen: dict[int, int] = {}
        for rank in sorted(range(shape.gpus), key=lambda r: -shape.memory_mb.of(r)):
            able = [g for g in left if g not in chosen.values() and left[g] >= shape.memory_mb.of(rank)]
            if not able:
                return None
            chosen[rank] = min(able, key=lambda g: (left[g], g))
        return tuple(chosen[rank] for rank in range(shape.gpus))


@lru_cache(maxsize=MAX_CACHED_SETS)
def lowest(gpus: int, count: int) -> tuple[int, ...] | None:
    """Return the `count` lowest GPUs of a set, given as bits; None if it has fewer."""
    chosen = tuple(gpu for gpu in range(gpus.bit_length()) if gpus >> gpu & 1)[:count]
    return chosen if len(chosen) == count else None


def _emptiest(left: tuple[float, int, int]) -> tuple[float, int]:
    request, _, index = left
    return -round(request, 9), index


def memory_held(holder: Holder, node: NodeId, gpu: int) -> int:
    """Return the memory that a holder has on one of its GPUs."""
    memory = holder.allocation.memory_mb
    if not memory.differs:
        return memory.max
    ranks = [(node_id, g) for node_id, gpus in holder.placed for g in gpus]
    return memory[ranks.index((node, gpu))]

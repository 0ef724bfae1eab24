"""The ledger of shared GPUs: which instance holds which part of which GPU, and what is left.

On every GPU the sum of requests is at most 1, the sum of limits at most the oversubscription, and the sum of memory at
most the memory. A release gives back exactly what was charged.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Final

from weft.errors import PlanError
from weft.scheduling.sharing.demand import Demand, Part

OVERSUBSCRIPTION: Final = 1.5
"""The usual largest sum of limits on one GPU that holds a service."""
SHARE_TOLERANCE: Final = 1e-9
"""The tolerance for sums of shares."""


class GpuLedger:
    """GPUs are numbered through all nodes. A GPU is active while an instance holds a part of it."""

    def __init__(self, nodes: Sequence[Sequence[int]], oversubscription: float = OVERSUBSCRIPTION) -> None:
        self.oversubscription = oversubscription
        self.nodes: list[range] = []
        """The GPUs of each node."""
        self.node_of: list[int] = []
        self.memory_mb: list[int] = []
        for node, memories in enumerate(nodes):
            self.nodes.append(range(len(self.memory_mb), len(self.memory_mb) + len(memories)))
            self.memory_mb += memories
            self.node_of += [node] * len(memories)
        gpus = len(self.memory_mb)
        self.smallest_mb = min(self.memory_mb, default=0)
        """The memory of the smallest GPU."""
        self.request = [0.0] * gpus
        self.limit = [0.0] * gpus
        self.free_mb = list(self.memory_mb)
        self.holders: list[dict[str, Part]] = [{} for _ in range(gpus)]
        self.demands: dict[str, Demand] = {}
        self.parts: dict[str, tuple[Part, ...]] = {}
        self.gangs = [0] * gpus
        """The number of gang workers on each GPU."""
        self.by_free: list[tuple[int, int]] = []
        """The active GPUs, those with the least free memory first."""
        self.busy = [0] * len(self.nodes)
        """The number of active GPUs of each node."""
        self.services: dict[str, dict[str, None]] = {}
        """The instances of each service."""
        self._unused = list(range(gpus))

    @property
    def active(self) -> int:
        """The number of active GPUs."""
        return len(self.by_free)

    def with_room(self, memory_mb: int) -> Iterator[int]:
        """Yield the active GPUs with this much free memory, the fullest first."""
        by_free = self.by_free
        for at in range(bisect_left(by_free, (memory_mb, -1)), len(by_free)):
            yield by_free[at][1]

    def fits(self, gpu: int, request: float, limit: float, memory_mb: int) -> bool:
        return (
            memory_mb <= self.free_mb[gpu]
            and self.request[gpu] + request <= 1 + SHARE_TOLERANCE
            and self.limit[gpu] + limit <= self.oversubscription + SHARE_TOLERANCE
        )

    def first_unused(self, memory_mb: int = 0) -> int | None:
        """Return the first GPU without a holder that has this much memory."""
        return next((gpu for gpu in self._unused if self.memory_mb[gpu] >= memory_mb), None)

    def unused_nodes(self) -> Iterator[int]:
        """Yield the nodes with unused GPUs, in order."""
        last = -1
        for gpu in self._unused:
            if self.node_of[gpu] != last:
                last = self.node_of[gpu]
                yield last

    # ---- holders come and go

    def hold(self, demand: Demand, parts: Sequence[Part]) -> None:
        """Charge the parts; raise a `PlanError` if one does not fit."""
        if demand.name in self.parts:
            raise PlanError(f"{demand.name} holds GPUs already")
        if len({part.gpu for part in parts}) < len(parts) or not parts:
            raise PlanError(f"{demand.name} needs parts of different GPUs")
        for gpu, request, limit, memory_mb in parts:
            if not self.fits(gpu, request, limit, memory_mb):
                raise PlanError(f"GPU {gpu} has no room for {demand.name}")
        for part in parts:
            self._charge(demand, part)
        self.demands[demand.name], self.parts[demand.name] = demand, tuple(parts)
        if demand.service:
            self.services.setdefault(demand.service, {})[demand.name] = None

    def release(self, name: str) -> tuple[Part, ...]:
        """Give back all parts of an instance, and return them."""
        demand, parts = self.demands.pop(name, None), self.parts.pop(name, ())
        if demand is None:
            raise PlanError(f"{name} holds no GPUs")
        if demand.service:
            del self.services[demand.service][name]
            if not self.services[demand.service]:
                del self.services[demand.service]
        for part in parts:
            gpu = part.gpu
            holders = self.holders[gpu]
            del holders[name]
            del self.by_free[bisect_left(self.by_free, (self.free_mb[gpu], gpu))]
            self.free_mb[gpu] += part.memory_mb
            self.gangs[gpu] -= demand.gang
            # sums of what remains: differences of floats would drift
            self.request[gpu] = sum(other.request for other in holders.values())
            self.limit[gpu] = sum(other.limit for other in holders.values())
            if holders:
                insort(self.by_free, (self.free_mb[gpu], gpu))
            else:
                self.busy[self.node_of[gpu]] -= 1
                insort(self._unused, gpu)
        return parts

    def load(self, demand: Demand, part: Part) -> None:
        """Charge a part without a check: its holder has it already, by the rules of another ledger."""
        self._charge(demand, part)
        self.demands[demand.name] = demand
        self.parts[demand.name] = (*self.parts.get(demand.name, ()), part)

    def occupy(self, demand: Demand, part: Part) -> None:
        """Charge a part, without a check, that is never released: the ledger keeps no list of such parts."""
        self._charge(demand, part)

    def _charge(self, demand: Demand, part: Part) -> None:
        gpu = part.gpu
        holders = self.holders[gpu]
        if holders:
            del self.by_free[bisect_left(self.by_free, (self.free_mb[gpu], gpu))]
        else:
            self.busy[self.node_of[gpu]] += 1
            del self._unused[bisect_left(self._unused, gpu)]
        holders[demand.name] = part
        self.request[gpu] += part.request
        self.limit[gpu] += part.limit
        self.free_mb[gpu] -= part.memory_mb
        self.gangs[gpu] += demand.gang
        insort(self.by_free, (self.free_mb[gpu], gpu))

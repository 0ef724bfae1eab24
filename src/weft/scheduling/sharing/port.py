"""The interface of placements that choose by request, limit and memory.

Such a placement has one rule, `choose`, over a `GpuLedger`. The live core and the simulator call `place` and `pick` as
for every placement; they see the same rule through a ledger of the nodes that have room. Studies keep a ledger and call
`choose` and `improve`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf
from typing import ClassVar, Final

from weft.model import WHOLE, Gpu, Share
from weft.scheduling.core.ports import Placement, ReplicaMove
from weft.scheduling.core.resources.free import Free, members
from weft.scheduling.core.resources.node import Holder, NodeResources, memory_held
from weft.scheduling.core.resources.partition import fill_whole
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.sharing.demand import Demand, Move, Part
from weft.scheduling.sharing.fit import share_of
from weft.scheduling.sharing.ledger import OVERSUBSCRIPTION, GpuLedger

ASKED: Final = "?"
PRESENT: Final = "present"
"""Names for the instance to place and for all that is there already; a ledger of the core needs no others."""


class SharePlacement(Placement):
    """A placement of instances on GPUs that they share."""

    sees_runs: ClassVar[bool] = True
    oversubscription: ClassVar[float] = OVERSUBSCRIPTION
    """The largest sum of limits on one GPU."""
    uses_affinity: ClassVar[bool] = False
    """True if `choose` prefers the GPUs of training jobs that a replica of the same service slows already."""

    def choose(self, demand: Demand, ledger: GpuLedger) -> tuple[Part, ...] | None:
        """Return parts of GPUs for the instance; None if it does not fit."""
        raise TypeError(f"{type(self).__name__} has no choose")

    def improve(self, ledger: GpuLedger, max_moves: int) -> list[Move]:
        """Move replicas to empty GPUs, at most this many, and return the moves. The ledger has them already."""
        return []

    def charged(self, share: Share) -> Share:
        """Return the share that an instance is charged for; a static placement charges one figure for both."""
        return share

    # ---- for the core

    def place(self, shape: Shape, free: Free) -> tuple[tuple[int, int], ...] | None:
        if shape.gpus > free.largest():
            return _place_on_whole_nodes(shape.gpus, free)
        able = _different_nodes(shape, free)
        found = self._choose(
            shape, [free.nodes[node] for node in able], [free.gpus(node, shape) for node in able], free
        )
        return None if found is None else ((able[found[0]], shape.gpus),)

    def pick(self, host: NodeResources, count: int, shape: Shape, fitting: Sequence[int]) -> Sequence[int]:
        gpus = sorted(fitting)
        if count == shape.gpus:
            found = self._choose(shape, [host], [gpus], None)
            if found is not None:
                return [gpus[gpu] for gpu in found[1]]
        return list(fitting[:count])

    def _choose(
        self, shape: Shape, hosts: Sequence[NodeResources], gpus: Sequence[Sequence[int]], free: Free | None
    ) -> tuple[int, list[int]] | None:
        """Choose among these GPUs of each host; return the number of the host, and those of the GPUs in the ledger."""
        ledger = self._ledger(hosts, gpus, free)
        demand = _demand_of(shape)
        if self.uses_affinity and shape.family.service:
            preferred = _preferred(shape.family.service, hosts, gpus, free)
            demand = demand._replace(preferred=preferred)
        parts = self.choose(demand, ledger)
        return None if parts is None else (ledger.node_of[parts[0].gpu], [part.gpu for part in parts])

    def propose_moves(
        self, nodes: Sequence[NodeResources], movable: Collection[Holder], avoided: Collection[tuple[int, int]]
    ) -> Sequence[ReplicaMove]:
        sizes = [[gpu.memory_mb for gpu in host.node.gpus] if host.alive else [] for host in nodes]
        oversubscription = min((host.service_oversubscription for host in nodes), default=OVERSUBSCRIPTION)
        ledger, by_name, at = GpuLedger(sizes, oversubscription), dict[str, Holder](), 0
        for host in nodes:
            for gpu, holders in enumerate(host.holders if host.alive else ()):
                staying = [holder for holder in holders if holder not in movable]
                if staying or host.foreign_mb.get(gpu) or (host.index, gpu) in avoided:
                    load = self._load(host, gpu, staying)
                    ledger.occupy(_STAYING, Part(at, *((1.0, *load[1:]) if (host.index, gpu) in avoided else load)))
                for holder in holders:
                    if holder in movable:
                        name, share = str(len(by_name)), self.charged(holder.allocation.family.share)
                        memory_mb = memory_held(holder, host.node.id, gpu)
                        ledger.load(
                            Demand(name, "inference", share, (memory_mb,)), Part(at, *share_of(share), memory_mb)
                        )
                        by_name[name] = holder
                at += 1
        targets = {move.name: move.target[0].gpu for move in self.improve(ledger, len(by_name))}
        found = ((by_name[name], ledger.node_of[gpu], gpu) for name, gpu in targets.items())
        return [ReplicaMove(holder, node, gpu - ledger.nodes[node].start) for holder, node, gpu in found]

    def _ledger(self, hosts: Sequence[NodeResources], gpus: Sequence[Sequence[int]], free: Free | None) -> GpuLedger:
        """Return a ledger of these GPUs of each host, with the runs that stay on them. The core has compared the
        limits: its oversubscription is the policy's."""
        sizes = [[host.node.gpus[gpu].memory_mb for gpu in some] for host, some in zip(hosts, gpus, strict=True)]
        ledger, at = GpuLedger(sizes, oversubscription=inf), 0
        for host, some in zip(hosts, gpus, strict=True):
            for gpu in some:
                holders = [holder for holder in host.holders[gpu] if free is None or free.stays(holder)]
                if holders or host.foreign_mb.get(gpu):
                    ledger.occupy(_HOLDERS, Part(at, *self._load(host, gpu, holders)))
                at += 1
        return ledger

    def _load(self, host: NodeResources, gpu: int, holders: Sequence[Holder]) -> tuple[float, float, int]:
        """Return the sums of request, limit and memory of a GPU's holders. A weave counts once."""
        shares: dict[object, Share] = {}
        memory_mb = host.foreign_mb.get(gpu, 0)
        for holder in holders:
            memory_mb += memory_held(holder, host.node.id, gpu)
            shares[holder.weave or holder] = self.charged(holder.allocation.family.share)
        return sum(s.request for s in shares.values()), sum(s.limit for s in shares.values()), memory_mb


_HOLDERS: Final = Demand(PRESENT, "inference", WHOLE, ())
_STAYING: Final = Demand(PRESENT, "training", WHOLE, ())


def _demand_of(shape: Shape) -> Demand:
    return Demand(
        ASKED, "inference" if shape.gpus == 1 else "training", shape.family.share, shape.memory_mb.each(shape.gpus)
    )


def _different_nodes(shape: Shape, free: Free) -> list[int]:
    """Return the nodes with room that are in use, and the first of each kind of idle ones: the others are like it."""
    able = list(members(free.at_least(shape.gpus)))
    if shape.family.where.pinned or shape.family.where.choice:
        return able  # GPUs of certain nodes: no two are alike
    nodes, count = free.nodes, free.count
    kinds: dict[tuple[int, int], list[tuple[Gpu, ...]]] = {}
    different = []
    for index in able:
        host = nodes[index]
        gpus = host.node.gpus
        if host.idle.bit_count() == len(gpus) and not host.foreign_mb:
            seen = kinds.setdefault((len(gpus), count[index]), [])
            if gpus in seen:
                continue
            seen.append(gpus)
        different.append(index)
    return different


def _preferred(
    service: str, hosts: Sequence[NodeResources], gpus: Sequence[Sequence[int]], free: Free | None
) -> tuple[int, ...]:
    """Return the GPUs, by their numbers in the ledger, of gangs that share another GPU of their node with the service.

    It looks at all GPUs of a host: the replica that is there already may leave no room on its GPU.
    """
    preferred: list[int] = []
    first = 0
    for host, some in zip(hosts, gpus, strict=True):
        colocated = _colocated_gpus(service, host, free)
        preferred += [first + at for at, gpu in enumerate(some) if gpu in colocated]
        first += len(some)
    return tuple(preferred)


def _colocated_gpus(service: str, host: NodeResources, free: Free | None) -> set[int]:
    """Return the GPUs of a host without the service, of gangs that share another GPU there with it."""
    own, gangs = set[int](), dict[Holder, None]()
    for gpu, holders in enumerate(host.holders):
        staying = [holder for holder in holders if free is None or free.stays(holder)]
        if any(holder.allocation.family.service == service for holder in staying):
            own.add(gpu)
            gangs.update((h, None) for h in staying if not h.allocation.family.serves and h.allocation.gpus > 1)
    return {gpu for gang in gangs for node, some in gang.placed if node == host.node.id for gpu in some} - own


def _place_on_whole_nodes(need: int, free: Free) -> tuple[tuple[int, int], ...] | None:
    """Place a gang that no node could hold on idle nodes, and its rest on the tightest other node."""
    parts, need, others = fill_whole(need, free.largest_idle_nodes(), free)
    if not need:
        return parts
    rest = others.tightest(need) if parts else None
    return None if rest is None else (*parts, (rest, need))

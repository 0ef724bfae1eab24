"""The colocation study: instances come and go, a placement packs them, and the number of GPUs in use is counted."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from weft.errors import InputError
from weft.lab.study.instances import InstanceEvent
from weft.scheduling.plugins import registry
from weft.scheduling.sharing.demand import Demand, Part
from weft.scheduling.sharing.ledger import GpuLedger
from weft.scheduling.sharing.moves import MoveAllowance
from weft.scheduling.sharing.port import SharePlacement

MIN_NODES: Final = 1000
"""The usual number of nodes, as in Dilu's study."""
PLACEMENTS: Final = ("exclusive", "infless-l", "infless-r", "dilu", "holes")


@dataclass(frozen=True)
class Hardware:
    """The cluster of the study: equal nodes."""

    nodes: int = 1000
    gpus_per_node: int = 4
    gpu_mb: int = 40 * 1024

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


@dataclass
class Packing:
    """The figures of one placement on all instances."""

    placement: str
    peak_gpus: int = 0
    peak_at_s: float = 0.0
    mean_gpus: float = 0.0
    gpu_hours: float = 0.0
    compute_fragmentation: float = 0.0
    memory_fragmentation: float = 0.0
    """The part of the GPUs in use that no instance requested, at the peak."""
    mean_compute_fragmentation: float = 0.0
    mean_memory_fragmentation: float = 0.0
    """The same over all GPU-seconds."""
    moves: int = 0
    moves_per_event: float = 0.0
    split_models: int = 0
    decision_ms: float = 0.0
    """CPU time per event, moves included."""
    cpu_s: float = 0.0
    times_s: array[float] = field(default_factory=lambda: array("d"), repr=False)
    gpus: array[int] = field(default_factory=lambda: array("l"), repr=False)


def load_share_placement(spec: str) -> SharePlacement:
    placement = registry.load_placement(spec)
    if not isinstance(placement, SharePlacement):
        known = ", ".join(PLACEMENTS)
        raise InputError(f"placement {spec!r} does not place by request and limit", hint=f"such as {known}")
    return placement


def check_sizes(events: Sequence[InstanceEvent], hardware: Hardware, file: str) -> None:
    """Raise InputError if an instance fits on no node."""
    for event in events:
        demand = event.demand
        largest_mb = hardware.gpu_mb * (hardware.gpus_per_node if demand.kind == "llm" else 1)
        if len(demand.memory_mb) > hardware.gpus_per_node or max(demand.memory_mb) > largest_mb:
            size = f"{len(demand.memory_mb)} GPUs with {max(demand.memory_mb) / 1024:g} GB"
            node = f"a node has {hardware.gpus_per_node} GPUs with {hardware.gpu_mb / 1024:g} GB each"
            where = f"{file}:{event.line}" if event.line else file
            raise InputError(f"{demand.name} needs {size}, and {node}", where=where, hint="describe larger nodes")


def pack_instances(spec: str, events: Sequence[InstanceEvent], hardware: Hardware) -> Packing:
    """Replay the events under one placement."""
    placement = load_share_placement(spec)
    nodes = [[hardware.gpu_mb] * hardware.gpus_per_node] * hardware.nodes
    ledger = GpuLedger(nodes, placement.oversubscription)
    allowance = MoveAllowance(getattr(placement, "moves_per_event", 0.0))
    packing, sums = Packing(spec), _Sums(hardware.gpu_mb)
    began = time.process_time()
    for event in events:
        sums.advance(event.at_s, ledger.active)
        if event.starts:
            parts = placement.choose(event.demand, ledger)
            if parts is None:
                raise _no_room(event, spec, hardware)
            ledger.hold(event.demand, parts)
            sums.add(event.demand, parts, 1)
            packing.split_models += len(parts) > len(event.demand.memory_mb)
        else:
            sums.add(event.demand, ledger.release(event.demand.name), -1)
        moves = placement.improve(ledger, allowance.earn())
        for move in moves:
            sums.add(ledger.demands[move.name], move.source, -1)
            sums.add(ledger.demands[move.name], move.target, 1)
        allowance.spend(len(moves))
        packing.moves += len(moves)
        _record(packing, event.at_s, ledger, sums)
    packing.cpu_s = time.process_time() - began
    _finish(packing, events, sums)
    return packing


class _Sums:
    """Requested compute and memory of the living instances, now and over time."""

    def __init__(self, gpu_mb: int) -> None:
        self._gpu_mb, self._last_s = gpu_mb, 0.0
        self.request = self.memory = self.gpu_s = self.request_s = self.memory_s = 0.0

    def add(self, demand: Demand, parts: Sequence[Part], sign: int) -> None:
        """Count an instance; a part of a split model requests as much compute as the whole."""
        self.request += sign * demand.share.request * len(parts)
        self.memory += sign * sum(demand.memory_mb) / self._gpu_mb

    def advance(self, to_s: float, active: int) -> None:
        passed, self._last_s = to_s - self._last_s, to_s
        self.gpu_s += passed * active
        self.request_s += passed * self.request
        self.memory_s += passed * self.memory


def _record(packing: Packing, at_s: float, ledger: GpuLedger, sums: _Sums) -> None:
    active = ledger.active
    packing.times_s.append(at_s)
    packing.gpus.append(active)
    if active > packing.peak_gpus:
        packing.peak_gpus, packing.peak_at_s = active, at_s
        packing.compute_fragmentation = 1 - sums.request / active
        packing.memory_fragmentation = 1 - sums.memory / active


def _finish(packing: Packing, events: Sequence[InstanceEvent], sums: _Sums) -> None:
    span_s = events[-1].at_s - events[0].at_s
    packing.gpu_hours = sums.gpu_s / 3600
    packing.mean_gpus = sums.gpu_s / span_s if span_s else float(packing.peak_gpus)
    packing.mean_compute_fragmentation = 1 - sums.request_s / sums.gpu_s if sums.gpu_s else 0.0
    packing.mean_memory_fragmentation = 1 - sums.memory_s / sums.gpu_s if sums.gpu_s else 0.0
    packing.moves_per_event = packing.moves / len(events)
    packing.decision_ms = 1000 * packing.cpu_s / len(events)


def _no_room(event: InstanceEvent, spec: str, hardware: Hardware) -> InputError:
    where = f" (line {event.line})" if event.line else ""
    what = f"{spec} finds no room for {event.demand.name}{where} on {hardware.gpus:,} GPUs"
    return InputError(what, hint="give more nodes with --nodes")

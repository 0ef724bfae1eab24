"""Moves of replicas that empty GPUs. A move starts the replica elsewhere first, so no request is lost."""

from __future__ import annotations

from typing import Protocol

from weft.scheduling.sharing.demand import Demand, Kind, Move, Part
from weft.scheduling.sharing.ledger import GpuLedger


class Chooser(Protocol):
    def __call__(self, demand: Demand, ledger: GpuLedger, without: int) -> tuple[Part, ...] | None:
        """Return parts of active GPUs for a replica, without one GPU; None if it does not fit."""


class MoveAllowance:
    """Moves that may be made: some are earned at every event, and unused ones are kept up to a limit."""

    def __init__(self, per_event: float, kept: float = 16.0) -> None:
        self._per_event, self._kept, self._earned = per_event, kept, 0.0

    def earn(self) -> int:
        """Count an event; return how many moves may be made now."""
        self._earned = min(self._kept, self._earned + self._per_event)
        return int(self._earned)

    def spend(self, moves: int) -> None:
        self._earned -= moves


class _Refusals:
    """Replicas that found no room. A replica that needs at least as much of everything finds none either."""

    def __init__(self) -> None:
        self._needs: list[tuple[Kind, int, float, float]] = []

    def add(self, demand: Demand) -> None:
        self._needs.append((demand.kind, demand.memory_mb[0], demand.share.request, demand.share.limit))

    def cover(self, demand: Demand) -> bool:
        kind, need_mb, share = demand.kind, demand.memory_mb[0], demand.share
        return any(
            kind == other and need_mb >= least_mb and share.request >= request and share.limit >= limit
            for other, least_mb, request, limit in self._needs
        )


def empty_gpus(ledger: GpuLedger, choose: Chooser, max_moves: int, tries: int) -> list[Move]:
    """Move replicas off the emptiest GPUs, and return the moves; the ledger has them already."""
    moves: list[Move] = []
    while len(moves) < max_moves:
        refusals = _Refusals()
        for gpu in _emptiest(ledger, max_moves - len(moves))[:tries]:
            made = _empty(ledger, choose, gpu, refusals)
            if made:
                moves += made
                break
        else:
            break
    return moves


def _emptiest(ledger: GpuLedger, max_replicas: int) -> list[int]:
    """Return the GPUs that hold at most this many replicas and no gang, the emptiest first."""
    found = []
    for free_mb, gpu in ledger.by_free:
        replicas = len(ledger.holders[gpu])
        if not ledger.gangs[gpu] and replicas <= max_replicas:
            found.append((replicas, ledger.memory_mb[gpu] - free_mb, round(ledger.request[gpu], 9), gpu))
    found.sort()
    return [gpu for *_, gpu in found]


def _empty(ledger: GpuLedger, choose: Chooser, gpu: int, refusals: _Refusals) -> list[Move]:
    """Move all replicas off a GPU, the largest first; move none if one of them finds no room."""
    moves: list[Move] = []
    names = sorted(ledger.holders[gpu], key=lambda name: (-ledger.holders[gpu][name].memory_mb, name))
    for name in names:
        demand, source = ledger.demands[name], ledger.parts[name]
        target = None
        if not refusals.cover(demand):
            ledger.release(name)
            target = choose(demand, ledger, gpu)
            ledger.hold(demand, target or source)
        if target is None:
            if not moves:
                refusals.add(demand)
            for made in reversed(moves):
                demand = ledger.demands[made.name]
                ledger.release(made.name)
                ledger.hold(demand, made.source)
            return []
        moves.append(Move(name, source, target))
    return moves

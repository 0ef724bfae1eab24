"""Exclusive: a whole GPU for every replica and every worker, as clusters without sharing give them."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model import WHOLE, Share
from weft.scheduling.sharing.demand import Demand, Part
from weft.scheduling.sharing.fit import first_fit_gang
from weft.scheduling.sharing.ledger import GpuLedger
from weft.scheduling.sharing.port import SharePlacement


@dataclass(frozen=True)
class Exclusive(SharePlacement):
    """A whole GPU for every instance."""

    def choose(self, demand: Demand, ledger: GpuLedger) -> tuple[Part, ...] | None:
        if demand.gang:
            parts = first_fit_gang(ledger, WHOLE, demand.memory_mb)
        else:
            gpu = ledger.first_unused(demand.memory_mb[0])
            parts = None if gpu is None else (Part(gpu, 1.0, 1.0, 0),)
        return parts and tuple(part._replace(memory_mb=ledger.memory_mb[part.gpu]) for part in parts)

    def charged(self, share: Share) -> Share:
        return WHOLE

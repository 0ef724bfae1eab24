"""Dilu (ASPLOS'25): best fit over compute and memory, requests guaranteed, limits oversubscribed.

A replica goes to the fullest GPU that has room: GPUs of the training jobs that its service slows already come first, so
that all workers of such a job are slowed equally; then other active GPUs; then an unused GPU. A language model that
fits nowhere is split over the active GPUs of one node. A gang goes to the first node that holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from weft.scheduling.sharing.demand import Demand, Part
from weft.scheduling.sharing.fit import best_fit, fill_parts, first_fit_gang, nodes_in_use, place_on
from weft.scheduling.sharing.ledger import GpuLedger
from weft.scheduling.sharing.port import SharePlacement


@dataclass(frozen=True)
class Dilu(SharePlacement):
    """Best fit by compute and memory; replicas share GPUs with training, by request and limit."""

    uses_affinity: ClassVar[bool] = True

    compute_weight: float = 0.6
    """The weight of the sum of requests; the rest of 1 is the weight of memory."""
    splits: bool = True
    """Split language models over the GPUs of one node."""

    def choose(self, demand: Demand, ledger: GpuLedger) -> tuple[Part, ...] | None:
        if demand.gang:
            return first_fit_gang(ledger, demand.share, demand.memory_mb)
        preferred = demand.preferred or _beside_colocated_training(demand, ledger)
        gpu = self._fullest(demand, ledger, preferred) if preferred else None
        if gpu is None:
            gpu = self._fullest(demand, ledger, None)
        if gpu is None and demand.kind == "llm" and self.splits:
            parts = _split(demand, ledger)
            if parts is not None:
                return parts
        if gpu is None:
            gpu = ledger.first_unused(demand.memory_mb[0])
        return place_on(gpu, demand.share, demand.memory_mb[0])

    def _fullest(self, demand: Demand, ledger: GpuLedger, gpus: Sequence[int] | None) -> int | None:
        weight = self.compute_weight
        return best_fit(
            ledger, demand.share, demand.memory_mb[0], gpus, compute_weight=weight, memory_weight=1 - weight
        )


def _beside_colocated_training(demand: Demand, ledger: GpuLedger) -> list[int]:
    """Return the other GPUs of training jobs that share a GPU with a replica of the same service."""
    own = {part.gpu for name in ledger.services.get(demand.service, ()) for part in ledger.parts[name]}
    jobs = {name: None for gpu in sorted(own) for name in ledger.holders[gpu] if ledger.demands[name].gang}
    return sorted({part.gpu for name in jobs for part in ledger.parts[name]} - own)


def _split(demand: Demand, ledger: GpuLedger) -> tuple[Part, ...] | None:
    """Return parts on the first node whose active GPUs hold the model together; each part fills its GPU."""
    request, limit = demand.share.request, demand.share.limit
    for _, gpus in nodes_in_use(ledger):
        able = [gpu for gpu in gpus if ledger.holders[gpu] and ledger.fits(gpu, request, limit, 1)]
        if sum(ledger.free_mb[gpu] for gpu in able) >= demand.memory_mb[0]:
            return fill_parts(ledger, demand, sorted(able, key=lambda gpu: (ledger.free_mb[gpu], gpu)))
    return None

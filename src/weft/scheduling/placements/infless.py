"""INFless (ASPLOS'22) with static shares, as Dilu compares with it: best fit by compute alone.

`infless-l` charges every instance its limit, `infless-r` its request. Neither splits a language model.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.model import Share
from weft.scheduling.sharing.demand import Demand, Part
from weft.scheduling.sharing.fit import best_fit, first_fit_gang, place_on
from weft.scheduling.sharing.ledger import GpuLedger
from weft.scheduling.sharing.port import SharePlacement


class _StaticShares(SharePlacement):
    """Best fit by the static share of each instance."""

    def choose(self, demand: Demand, ledger: GpuLedger) -> tuple[Part, ...] | None:
        share = self.charged(demand.share)
        if demand.gang:
            return first_fit_gang(ledger, share, demand.memory_mb)
        memory_mb = demand.memory_mb[0]
        gpu = best_fit(ledger, share, memory_mb, compute_weight=1.0, memory_weight=0.0)
        return place_on(ledger.first_unused(memory_mb) if gpu is None else gpu, share, memory_mb)


@dataclass(frozen=True)
class InflessL(_StaticShares):
    """Best fit by compute; every instance holds its limit all the time."""

    def charged(self, share: Share) -> Share:
        return Share(share.limit, share.limit)


@dataclass(frozen=True)
class InflessR(_StaticShares):
    """Best fit by compute; every instance holds its request and no more."""

    def charged(self, share: Share) -> Share:
        return Share(share.request, share.request)

"""Loom-L: Loom for jobs of unknown length. It learns from finished jobs how much work jobs need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from weft.model import Seconds
from weft.scheduling.core.ports import JobView, View
from weft.scheduling.policy_state.solo_service import SoloService, expected_left_s, least_lengths_s
from weft.scheduling.weaving.live_jobs import LiveJobs
from weft.scheduling.weaving.loom import Loom

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class LoomL(Loom):
    """Weaves by price; learns from finished jobs how long jobs take."""

    max_rho: float = 40.0
    """As for Loom-S, for a job as short as a tenth of the finished ones; 0: no limit."""
    concentration: ClassVar[float] = 0.1
    keep: ClassVar[float] = 0.2

    def key(self, job: JobView, now: Seconds) -> float:
        return max(job.gpus, 1) * job.attained(now)

    def learn(self) -> SoloService:
        return SoloService()

    def expect_left_s(self, view: View, live: LiveJobs) -> Numbers:
        return expected_left_s(view.memo.learned.finished, *live.gpu_counts, live.worked_s)

    def least_lengths_s(self, view: View, live: LiveJobs, left_s: Numbers) -> Numbers:
        return least_lengths_s(view.memo.learned, *live.gpu_counts, live.worked_s)

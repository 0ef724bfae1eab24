"""Loom-S: Loom for jobs of known length. `scheduling.weaving.loom` is the common part of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.model import Seconds
from weft.scheduling.core.ports import JobView, View
from weft.scheduling.policy_state.event_gaps import EventGaps
from weft.scheduling.weaving.live_jobs import LiveJobs
from weft.scheduling.weaving.loom import Loom

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

UNKNOWN_S: Final = 30 * 86_400.0
"""The work left of a job about which nothing is known."""


@dataclass(frozen=True)
class LoomS(Loom):
    """Weaves by price; knows how long jobs take."""

    def key(self, job: JobView, now: Seconds) -> float:
        return max(job.gpus, 1) * job.remaining(now)

    def learn(self) -> EventGaps:
        return EventGaps()

    def expect_left_s(self, view: View, live: LiveJobs) -> Numbers:
        import numpy as np

        left_s, known_s = live.remaining_s.copy(), live.estimate_s
        unknown = np.isinf(left_s)
        for number in np.flatnonzero(unknown & np.isnan(known_s)).tolist():
            known_s[number] = min(view.expected_left_s(live.jobs[number]), UNKNOWN_S)
        return np.where(unknown, known_s, left_s)

"""How a run stands, as the process engine reports it and as the wire says it."""

from __future__ import annotations

from weft.model import JobId
from weft.wire.messages import RunEnd, RunNews

RunKey = tuple[JobId, int]
"""A run: job and number."""
TORN = "gang"
"""Why a part of a gang is stopped when another has failed."""
ASKED = "asked"
"""Why in a `StopRun` that is not to stop a run, but to hear what became of it."""
LEASE_ENDED = "lease-ended"
"""Why a run ends whose node has not reached the scheduler for too long."""
FENCED = "fenced"
"""Why a run is killed that the scheduler has given up, or never knew."""

KEPT_AT_A_TIME = 1000
"""Names of jobs in one message that says what is kept, or what need not be kept."""


def news(key: RunKey, phase: RunNews.Phase, end: RunEnd | None = None) -> RunNews:
    return RunNews(job=key[0], run=key[1], phase=phase, end=end)

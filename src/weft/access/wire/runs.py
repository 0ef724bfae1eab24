"""Runs on the wire: their keys, and the reasons why they stop."""

from __future__ import annotations

from collections.abc import Iterable

from weft.access.wire.messages import ReplicaStatus, RunEnd, RunNews, StageCounters
from weft.model import JobId

RunKey = tuple[JobId, int]
"""A run: its job and its number."""
TORN = "gang"
"""The reason to stop a part of a gang after another part has failed."""
ASKED = "asked"
"""The reason in a `StopRun` that does not stop a run, but asks for its state."""
LEASE_ENDED = "lease-ended"
"""The reason of a run whose node has not reached the scheduler for too long."""
NODE_STOPPED = "node-stopped"
"""The reason of a run whose node leaves the cluster."""
FENCED = "fenced"
"""The reason to kill a run that the scheduler has given up or never knew."""

MAX_JOBS_PER_MESSAGE = 1000
"""The most jobs in one `Kept` or `Forget` message."""


def news(
    key: RunKey,
    phase: RunNews.Phase,
    end: RunEnd | None = None,
    weave_id: str = "",
    stages: Iterable[StageCounters] = (),
    replica: ReplicaStatus | None = None,
) -> RunNews:
    return RunNews(job=key[0], run=key[1], phase=phase, end=end, weave_id=weave_id, stages=stages, replica=replica)

"""The events that follow from what the probes of a replica have shown (pure)."""

from __future__ import annotations

from weft.access.endpoints.addresses import Address
from weft.access.wire.messages import ReplicaStatus
from weft.model import Event, Ready, Seconds, Unready
from weft.scheduling.core.state.job import JobState

MAX_WHY_CHARS = 500


def replica_events(job: JobState, status: ReplicaStatus, host: str, now: Seconds) -> list[Event]:
    """Return the change of a running replica, if the report shows one. Reports are repeated."""
    if job.job.replica is None or job.status != "running":
        return []
    if status.ready and job.ready_at is None and 0 < status.port < 1 << 16:
        return [Ready(now, job.id, job.run, str(Address(host, status.port)))]
    if not status.ready and status.why and not job.releasing:
        return [Unready(now, job.id, job.run, status.why[:MAX_WHY_CHARS])]
    return []

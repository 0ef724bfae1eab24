"""How a run stands, as the process engine reports it and as the wire says it."""

from __future__ import annotations

from weft.engines.process.events import RunExited
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


def to_end(report: RunExited) -> RunEnd:
    return RunEnd(
        code=report.code,
        signal=report.signal,
        why=report.why,
        detail=report.detail,
        done=report.done,
        started_at=report.started_at,
        ran_s=report.ran_s,
        cpu_s=report.cpu_s,
        max_rss_mb=report.max_rss_mb,
    )


def from_end(said: RunNews, at: float) -> RunExited:
    """`at`: when it was heard of."""
    end = said.end
    return RunExited(
        at,
        said.job,
        said.run,
        code=end.code if end.HasField("code") else None,
        signal=end.signal if end.HasField("signal") else None,
        why=end.why,
        detail=end.detail,
        done=end.done,
        started_at=end.started_at,
        ran_s=end.ran_s,
        cpu_s=end.cpu_s,
        max_rss_mb=end.max_rss_mb,
    )

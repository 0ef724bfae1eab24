"""Jobs that users may submit after now: the recent submissions once more, beginning at a random one of them.

Later jobs delay a waiting one where the policy lets them pass it, as large gangs learn. The recent past repeats in a
circle, so that bursts, users and sizes stay together.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from heapq import nlargest
from typing import Final

from weft.model import Job, JobId, Seconds
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.sim.traces.trace import TraceJob

MAX_PAST: Final = 2000
"""The latest submissions that repeat."""
MIN_PAST: Final = 50
"""With fewer submissions, a forecast has no arrivals: the past says too little."""
PREFIX: Final = "forecast-"


class Arrivals:
    """Draws later submissions as of `now`."""

    def __init__(self, state: State, now: Seconds) -> None:
        able = (job for job in state.jobs.values() if job.job.replica is None and job.submitted_at < now)
        latest = nlargest(MAX_PAST, able, key=lambda job: job.seq)
        self._past: Sequence[JobState] = latest[::-1] if len(latest) >= MIN_PAST else ()
        self._times = [job.submitted_at for job in self._past]
        self._now = now
        self._jobs = [_again(job.job, at) for at, job in enumerate(self._past)]
        self._durations_s = [job.attained_s for job in self._past if job.status == "done"]

    def __bool__(self) -> bool:
        """Return whether jobs arrive at all."""
        return bool(self._past and self._durations_s)

    def draw(self, draws: random.Random) -> list[TraceJob]:
        """Return one sample of later submissions, in their order. Each has the duration of the job that it repeats;
        one of a job that has not ended has the duration of another one."""
        if not self:
            return []
        first_s = self._times[0]
        span_s = max(self._now - first_s, 1.0)
        offset_s = draws.random() * span_s
        start = bisect_left(self._times, first_s + offset_s)
        known = self._durations_s
        found: list[TraceJob] = []
        for at in range(len(self._past)):
            turn, index = divmod(start + at, len(self._past))
            submit_s = self._now + self._times[index] - first_s - offset_s + turn * span_s
            past = self._past[index]
            work_s = past.attained_s if past.status == "done" else known[int(draws.random() * len(known))]
            found.append(TraceJob(max(submit_s, self._now), self._jobs[index], work_s))
        return found


def _again(job: Job, number: int) -> Job:
    """Return the job under another id, without what ties it to others."""
    return replace(
        job, id=JobId(f"{PREFIX}{number}"), after=(), after_any=(), after_failed=(), batch="", batch_limit=0,
        begin_at=None, command=(),
    )  # fmt: skip

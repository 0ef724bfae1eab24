"""A policy that gives up on late jobs: a late job must not make the next one late as well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.policy import Ask, JobView, Replanner, Seconds, View

from weft_deadline.due import Due


@dataclass(frozen=True)
class DueRescue(Due, Replanner):
    """Earliest deadline first; jobs that will miss their deadline anyway go last."""

    def rank(self, view: View) -> Iterable[Ask]:
        jobs = sorted([*view.waiting, *view.active], key=lambda job: self._place(job, view.now))
        return [Ask((job.id,), job.gpus, job.job.share, job.job.where) for job in jobs]

    def _place(self, job: JobView, now: Seconds) -> tuple[bool, float, int]:
        deadline = self.deadline(job)
        return now + job.remaining(now) > deadline, deadline, job.tie_breaker

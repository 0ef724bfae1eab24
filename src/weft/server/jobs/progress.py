"""How far jobs are: what they report themselves, or what their logs show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from weft.core.state.job import JobState
from weft.engines.process.output.progress_bars import last_bar
from weft.model import JobId, Progressed
from weft.server.jobs.progress_report import Report
from weft.wire.views.jobs import ProgressView

if TYPE_CHECKING:
    from weft.server.controller import Controller

JOURNAL_S: Final = 10.0
"""How often progress becomes a fact: policies need no more."""


class Progress:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._reports: dict[tuple[JobId, int], Report] = {}

    def take(self, body: Mapping[str, Any]) -> None:
        """What a run says of itself; raises where that makes no sense."""
        job, run = str(body["job"]), int(body["run"])
        if self._controller.scheduler.state.running(job, run) is None:
            return
        now = self._controller.loop.clock.now()
        known = self._reports.get((job, run))
        if known is None:
            known = self._reports[job, run] = Report(now)
        known.take(body, now)
        rest_s = known.rest_s(now)
        if rest_s is not None and now - known.told_at > JOURNAL_S:
            known.told_at = now
            self._controller.loop.tell(lambda at: [Progressed(at, job, run, rest_s)])

    def of(self, job: JobState) -> ProgressView | None:
        """Return how far a job is, where it reports it or its log shows it."""
        report = self._reports.get((job.id, job.run))
        if report is None:
            return self._of_log(job) if job.active else None
        eta_s = report.rest_s(self._controller.loop.clock.now()) if job.active else None
        return ProgressView(report.step, report.total, eta_s, report.metrics, report.checkpoint, "job")

    def _of_log(self, job: JobState) -> ProgressView | None:
        bar = last_bar(self._controller.run_logs.tail(job.id, job.run))
        if bar is None:
            return None
        return ProgressView(bar.step, bar.total, bar.left_s, source="log")

    def prune(self, jobs: Mapping[JobId, JobState]) -> None:
        """Forgets runs that are not the last of their job, and jobs that are forgotten."""
        for job, run in [key for key in self._reports if key[0] not in jobs or jobs[key[0]].run != key[1]]:
            del self._reports[job, run]

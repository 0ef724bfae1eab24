"""The progress of jobs, as they report it or as their logs show it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from weft.model import Decision, Event, Exited, JobId, Progressed, Reported, Seconds
from weft.model.profiles import is_profiling_run, key_of, problem_of_profile
from weft.node.engine.output.progress_bars import last_bar
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.server.jobs.progress_report import Report
from weft.server.jobs.trials import EarlyStopping, kept_report
from weft.server.loop import Loop
from weft.server.weaves.profiles import differs, measured_profile, profiled
from weft.views.answers.jobs import ProgressView, StageTimesView

log = logging.getLogger(__name__)
JOURNAL_PERIOD_S: Final = 10.0
"""The seconds between two journal entries of a run's progress. Policies need no more."""
METRICS_PERIOD_S: Final = 60.0
"""The seconds between two journal entries of a run's metrics. The last ones are journalled at its end."""
PROFILE_PERIOD_S: Final = 10.0
MIN_PROFILED_STEPS: Final = 30
"""A run that records its stages has a profile after this many steps, the first ten of which do not count."""


class Progress:
    """The last report of each run.

    `state` returns the present state, `tail` the last part of a run's log, `unsent` a report that a run has left.
    """

    def __init__(
        self,
        loop: Loop,
        state: Callable[[], State],
        tail: Callable[[JobId, int], bytes],
        unsent: Callable[[JobId, int], Mapping[str, Any] | None] = lambda *_: None,
    ) -> None:
        self._loop, self._state, self._tail, self._unsent = loop, state, tail, unsent
        self._reports: dict[tuple[JobId, int], Report] = {}
        self.early_stopping = EarlyStopping(state, loop.post)
        loop.on_facts.append(self._on_facts)

    def receive(self, body: Mapping[str, Any]) -> None:
        """Record what a run reports. Raise if it makes no sense."""
        job, run = str(body["job"]), int(body["run"])
        running = self._state().jobs.get(job)
        if running is None or running.run != run:
            return
        now = self._loop.clock.now()
        known = self._reports.get((job, run))
        if known is None:
            known = self._reports[job, run] = Report(now)
        known.update(body, now)
        if not running.active:  # the last report of a run may come after its end
            self._loop.post(lambda at: self._keep(job, run, at))
            return
        remaining_s = known.remaining_s(now)
        if remaining_s is not None and now - known.journalled_at > JOURNAL_PERIOD_S:
            known.journalled_at = now
            # a woven job reports the time at its woven pace; its remaining work counts at its solo pace
            rate = running.rate if running.weave and running.rate else 1.0
            self._loop.post(lambda at: [Progressed(at, job, run, remaining_s * rate, rate)])
        if self.early_stopping.reaches(running, known):
            self._loop.post(lambda at: self._arrive(job, run, at))
        elif known.metrics and now - max(known.metrics_kept_at, known.first_at) > METRICS_PERIOD_S:
            self._loop.post(lambda at: self._keep(job, run, at))
        stages = known.stages
        if stages is not None and stages.steps >= MIN_PROFILED_STEPS and now - known.profiled_at >= PROFILE_PERIOD_S:
            known.profiled_at = now
            self._loop.post(lambda at: self._refresh_profile(job, run, stages, at))

    def _arrive(self, job: JobId, run: int, now: Seconds) -> list[Event]:
        """Let the rule of a trial at a rung decide."""
        running, report = self._state().running(job, run), self._reports.get((job, run))
        if running is None or report is None or not (events := self.early_stopping.arrive(running, report, now)):
            return []
        report.metrics_kept_at = now
        return events

    def _keep(self, job: JobId, run: int, now: Seconds) -> list[Event]:
        """Journal the metrics of a run, which may have ended meanwhile."""
        known, report = self._state().jobs.get(job), self._reports.get((job, run))
        if (
            known is None
            or report is None
            or known.run != run
            or not report.metrics
            or report.at <= report.metrics_kept_at
        ):
            return []
        report.metrics_kept_at = now
        return [Reported(now, job, kept_report(known, report))]

    def _on_facts(self, events: Sequence[Event], decisions: Sequence[Decision]) -> None:
        """Keep the last metrics of runs that have ended."""
        for event in events:
            if type(event) is Exited:
                self._receive_unsent(event.job, event.run)
            if type(event) is Exited and (event.job, event.run) in self._reports:
                self._loop.post(lambda at, job=event.job, run=event.run: self._keep(job, run, at))  # type: ignore[misc]
        self.early_stopping.receive(events, decisions)

    def _receive_unsent(self, job: JobId, run: int) -> None:
        """Record what a run reported while no server was there."""
        found = self._unsent(job, run)
        if found is not None:
            try:
                self.receive(found)
            except (ValueError, TypeError, AttributeError, OverflowError) as error:
                log.warning("the last report of job %s is dropped: %s", job, error)

    def _refresh_profile(self, job: JobId, run: int, stages: StageTimesView, now: Seconds) -> list[Event]:
        """Store the times of a run that is not woven, if they are new. The counters of woven runs do that."""
        state = self._state()
        running = state.running(job, run)
        if running is None or running.weave or is_profiling_run(running.job):
            return []
        measured = measured_profile(running, stages)
        if problem_of_profile(measured) or not differs(measured, state.profiles.of(running.job)):
            return []
        return [profiled(state, running, key_of(running.job), measured, now)]

    def stages_of(self, job: JobState) -> StageTimesView | None:
        """Return the times of stages that the last run of a job reported."""
        report = self._reports.get((job.id, job.run))
        return report.stages if report is not None else None

    def of(self, job: JobState) -> ProgressView | None:
        """Return the progress of a job, if it reports any or its log shows a progress bar."""
        report = self._reports.get((job.id, job.run))
        if report is None or not report.has_progress:
            found = self._of_log(job) if job.active else None
            if report is None:
                return found or _of_journal(job)
            found = found or ProgressView(source="job")
            return ProgressView(found.step, found.total, found.eta_s, source=found.source, stages=report.stages)
        eta_s = report.remaining_s(self._loop.clock.now()) if job.active else None
        return ProgressView(report.step, report.total, eta_s, report.metrics, report.checkpoint, "job", report.stages)

    def series_of(self, job: JobState) -> Mapping[str, Sequence[float | None]] | None:
        """Return the metrics that the last run of a job has reported so far."""
        report = self._reports.get((job.id, job.run))
        return report.series.values or None if report is not None else None

    def reported(self, since: Seconds) -> list[JobId]:
        """Return the jobs whose last run has reported something since then."""
        return [job for (job, _), report in self._reports.items() if report.at >= since]

    def _of_log(self, job: JobState) -> ProgressView | None:
        bar = last_bar(self._tail(job.id, job.run))
        if bar is None:
            return None
        return ProgressView(bar.step, bar.total, bar.left_s, source="log")

    def prune(self, jobs: Mapping[JobId, JobState]) -> None:
        """Forget runs that are not the last of their job, and jobs that were purged."""
        for job, run in [key for key in self._reports if key[0] not in jobs or jobs[key[0]].run != key[1]]:
            del self._reports[job, run]


def _of_journal(job: JobState) -> ProgressView | None:
    """Return what a job reported to an earlier server, or in an earlier run."""
    found = job.reported
    return None if found is None else ProgressView(found.step, found.total, metrics=dict(found.metrics), source="job")

"""Early stopping of the trials of sweeps: decisions of rules become events that hold, preempt and release jobs.

All that a rule needs is in the state: the rule in each job, and the metric at each rung in its last report. So a
restarted server goes on where the last one stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from weft.access.sweeps.early_stop import Rule, Trial, Verdict, judge_halving, parse_rule
from weft.access.sweeps.rungs import Rungs
from weft.model import (
    Cancelled,
    Decision,
    Event,
    Evicted,
    Exited,
    Held,
    JobId,
    JobReport,
    Purged,
    Released,
    Reported,
    Seconds,
    Submitted,
    Task,
)
from weft.model.status import ENDED, Reason
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.server.jobs.progress_report import Report

SweepKey = tuple[str, str]
"""The user and the name of a sweep: sweeps of two users may have one name."""


class EarlyStopping:
    """`post` runs a function in the next batch of the loop, which journals the events that it returns."""

    def __init__(
        self, state: Callable[[], State], post: Callable[[Callable[[Seconds], Sequence[Event]]], None]
    ) -> None:
        self._state, self._post = state, post
        self._members: dict[SweepKey, list[JobId]] | None = None
        self._rungs: dict[SweepKey, Rungs] = {}
        """The sweeps under ASHA."""

    def open(self) -> None:
        """Decide again what was due when the last server ended: the end of a trial may let others continue."""
        for key in self._known():
            self._post(partial(self._decide, key))

    def receive(self, events: Sequence[Event], _decisions: Sequence[Decision]) -> None:
        """Follow what happens: new trials, and trials that end, for which others may have waited."""
        for event in events:
            if type(event) is Submitted:
                self._add(self._known(), event.job.id, event.job.user, event.job.task)
            elif type(event) is Exited or type(event) is Cancelled:
                job = self._state().jobs.get(event.job)
                if job is not None and job.status in ENDED and rule_of(job) is not None:
                    if _has_failed(job) and (rungs := self._rungs.get(_key(job))) is not None:
                        rungs.drop(job.id)
                    self._post(partial(self._decide, _key(job)))
            elif type(event) is Purged:
                self._rungs.clear()  # they are made again of the jobs that are left

    def reaches(self, job: JobState, report: Report) -> bool:
        """Return whether a report takes a trial to a rung that it has not reached yet."""
        rule = rule_of(job)
        return rule is not None and rule.metric in report.metrics and rule.rungs_at(report.step) > len(_rungs(job))

    def arrive(self, job: JobState, report: Report, now: Seconds) -> list[Event]:
        """Return the events of a trial at a rung: its report, and what the rule decides."""
        rule = rule_of(job)
        if rule is None or not self.reaches(job, report):
            return []
        before, value = _rungs(job), report.metrics[rule.metric]
        rungs = (*before, *[value] * (rule.rungs_at(report.step) - len(before)))
        kept = kept_report(job, report, rungs)
        finishes = report.total is not None and report.step >= report.total
        stop, release = self._judge(rule, _key(job), Trial(job.id, rungs, False, finishes), len(before))
        return [Reported(now, job.id, kept), *self._events(stop, release, now)]

    def _decide(self, key: SweepKey, now: Seconds) -> list[Event]:
        """Return what a rule decides after the end of a trial."""
        jobs = self._trials(key)
        rule = next((rule for job in jobs if (rule := rule_of(job)) is not None), None)
        if rule is None:
            return []
        return self._events(*self._judge(rule, key), now)

    def _judge(self, rule: Rule, key: SweepKey, arrived: Trial | None = None, before: int = 0) -> Verdict:
        """Return what a rule decides now that a trial has arrived at a rung, or another one has ended."""
        if rule.kind == "asha":
            return self._judge_asha(rule, key, arrived)
        trials = [arrived if arrived is not None and job.id == arrived.id else _trial(job) for job in self._trials(key)]
        return judge_halving(rule, trials, arrived.id if arrived is not None else "", before)

    def _judge_asha(self, rule: Rule, key: SweepKey, arrived: Trial | None) -> Verdict:
        jobs, rungs = self._state().jobs, self._rungs.get(key)
        if rungs is None:
            rungs = self._rungs[key] = Rungs(rule)
            for job in self._trials(key):
                rungs.put(job.id, () if _has_failed(job) else _rungs(job))
            rungs.check_all()
        if arrived is None:
            return rungs.decide("", lambda id: _is_stopped(jobs[id]), lambda id: _has_ended(jobs[id]))
        rungs.put(arrived.id, arrived.rungs)
        return rungs.decide(
            arrived.id,
            lambda id: id != arrived.id and _is_stopped(jobs[id]),
            lambda id: arrived.ended if id == arrived.id else _has_ended(jobs[id]),
        )

    def _events(self, stop: Iterable[JobId], release: Iterable[JobId], now: Seconds) -> list[Event]:
        jobs, found = self._state().jobs, list[Event]()
        for each in stop:
            found += [Held(now, each, Reason.STOPPED_EARLY), Evicted(now, each, jobs[each].run)]
        return [*found, *(Released(now, each) for each in release)]

    def _trials(self, key: SweepKey) -> list[JobState]:
        """Return the trials of a sweep, in the order of their submission."""
        jobs, ids = self._state().jobs, self._known().get(key, [])
        found = [jobs[each] for each in ids if each in jobs]
        if len(found) < len(ids):
            ids[:] = [job.id for job in found]
        return found

    def _known(self) -> dict[SweepKey, list[JobId]]:
        """Return the trials with a rule, by sweep."""
        if self._members is None:
            self._members = {}
            for job in self._state().jobs.values():
                self._add(self._members, job.id, job.job.user, job.job.task)
        return self._members

    def _add(self, known: dict[SweepKey, list[JobId]], job: JobId, user: str, task: Task | None) -> None:
        if task is not None and task.sweep and task.early_stop:
            ids = known.setdefault((user, task.sweep), [])
            if job not in ids[-1:]:
                ids.append(job)
            if (rungs := self._rungs.get((user, task.sweep))) is not None:
                rungs.put(job, ())  # of equal trials, the one that was submitted first is the better one


def kept_report(job: JobState, report: Report, rungs: tuple[float | None, ...] | None = None) -> JobReport:
    """Return a report as the journal keeps it. Rungs that the job has reached stay."""
    step = None if report.first_step is None else report.step
    return JobReport(
        job.run, step, report.total, tuple(report.metrics.items()), _rungs(job) if rungs is None else rungs
    )


def rule_of(job: JobState) -> Rule | None:
    task = job.job.task
    return parse_rule(task.early_stop) if task is not None and task.sweep and task.early_stop else None


def _key(job: JobState) -> SweepKey:
    return job.job.user, job.job.task.sweep if job.job.task is not None else ""


def _rungs(job: JobState) -> tuple[float | None, ...]:
    return job.reported.rungs if job.reported is not None else ()


def _is_stopped(job: JobState) -> bool:
    return job.held_why == Reason.STOPPED_EARLY


def _has_ended(job: JobState) -> bool:
    return job.status in ENDED or job.cancelling


def _has_failed(job: JobState) -> bool:
    return job.status in ("failed", "cancelled")


def _trial(job: JobState) -> Trial:
    return Trial(job.id, _rungs(job), _is_stopped(job), _has_ended(job), _has_failed(job))

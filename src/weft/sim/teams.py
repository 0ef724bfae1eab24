"""Teams in a simulation: which job belongs to which team, and what each team got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

from weft.history.metrics.figures import JobRecord, Record, figures
from weft.model import Job, Seconds, Task, Team
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.teams import Teams
from weft.scheduling.core.teams.check import unserved_jobs
from weft.sim.traces.trace import TraceJob


def assign_teams(jobs: Sequence[TraceJob], teams: Sequence[Team]) -> Sequence[TraceJob]:
    """Return the jobs with the teams of their users. If no job names a user, they take turns over the innermost teams,
    in the order of the file."""
    known = Teams()
    for team in teams:
        known.put(team)
    if not any(each.job.user for each in jobs):
        turns = cycle([team.name for team in teams if not known.below(team.name)])
        return [replace(each, job=_of_team(each.job, next(turns))) for each in jobs]
    return [replace(each, job=_of_team(each.job, known.team_of(each.job.user))) for each in jobs]


def _of_team(job: Job, team: str) -> Job:
    return replace(job, task=replace(job.task or Task(), team=team)) if team else job


class TeamWatch:
    """Follows a simulation: the GPUs that each team borrowed, and the jobs that did not get guaranteed GPUs."""

    def __init__(self) -> None:
        self._borrowed_s: dict[str, float] = {}
        self._violated: dict[str, set[str]] = {}

    def observe(self, scheduler: Scheduler, until: Seconds) -> None:
        """Account for the time from the last instant, which is over, until this one."""
        layer = scheduler.layer()
        if layer is None:
            return
        for name, gpus in layer.standing.borrowed.items():
            self._borrowed_s[name] = self._borrowed_s.get(name, 0.0) + gpus * (until - scheduler.state.now)
        for job in unserved_jobs(layer):
            self._violated.setdefault(job.job.team, set()).add(job.id)

    def values(self, teams: Sequence[Team], record: Record) -> Mapping[str, Mapping[str, Any]]:
        """Return the figures of each team, and under the name "" those of jobs without one."""
        by_team: dict[str, list[JobRecord]] = {team.name: [] for team in teams}
        for job in record.jobs:
            by_team.setdefault(job.team, []).append(job)
        return {name: self._figures(name, jobs) for name, jobs in by_team.items() if jobs}

    def _figures(self, name: str, jobs: Iterable[JobRecord]) -> Mapping[str, Any]:
        jobs = list(jobs)
        found = figures(Record(jobs))
        return {
            "jobs": found.jobs,
            "finished": found.finished,
            "avg_jct_s": found.avg_jct_s,
            "p99_jct_s": found.p99_jct_s,
            "avg_queue_s": found.avg_queue_s,
            "gpu_hours": sum(job.gpu_seconds for job in jobs) / 3600,
            "borrowed_gpu_hours": self._borrowed_s.get(name, 0.0) / 3600,
            "violations": len(self._violated.get(name, ())),
        }

"""Sweeps and their trials, as the views that answers consist of."""

from __future__ import annotations

from collections import Counter
from typing import Final

from weft.model import Seconds, Task
from weft.model.status import Reason
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.views.answers.jobs import ProgressView
from weft.views.answers.sweeps import SweepView, TrialView
from weft.views.from_state.jobs_and_nodes import code, time_s
from weft.views.from_state.timestamps import iso

STOPPED: Final = "stopped"


def sweep_views(state: State, user: str, name: str = "") -> list[tuple[SweepView, list[JobState]]]:
    """Return the sweeps of a user in the order of their first trials, each with its trials; with a name, that one."""
    found: dict[str, list[JobState]] = {}
    for job in state.jobs.values():
        task = job.job.task
        if task is not None and task.sweep and job.job.user == user and (not name or task.sweep == name):
            found.setdefault(task.sweep, []).append(job)
    return [(_view(sweep, jobs), jobs) for sweep, jobs in found.items()]


def _view(sweep: str, jobs: list[JobState]) -> SweepView:
    first = jobs[0]
    task = first.job.task or Task()
    return SweepView(
        sweep=sweep, user=first.job.user, group=first.job.group, count=len(jobs),
        statuses=dict(Counter(_status(job) for job in jobs)), early_stop=task.early_stop,
        submitted=iso(first.submitted_at),
    )  # fmt: skip


def _status(job: JobState) -> str:
    return STOPPED if job.status == "held" and job.held_why == Reason.STOPPED_EARLY else job.status


def trial_view(job: JobState, now: Seconds, progress: ProgressView | None) -> TrialView:
    status = _status(job)
    return TrialView(
        id=job.id, name=job.job.name, state="ST" if status == STOPPED else code(job), status=status,
        time_s=round(time_s(job, now), 3), params=dict(job.job.params),
        step=progress.step if progress else None, total=progress.total if progress else None,
        metrics=progress.metrics if progress else {}, rungs=job.reported.rungs if job.reported else (),
        exit_code=job.code if job.ended_at is not None else None,
    )  # fmt: skip

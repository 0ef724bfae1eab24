"""Answer queries: the queue, jobs, the history, GPUs, nodes. Each answer is limited in size."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final, TypedDict

from weft.access.auth.identity import Caller
from weft.access.jobspec.description import describe
from weft.access.wire.messages import QueryRequest
from weft.errors import UnknownName
from weft.model import JobId, NodeId
from weft.model.slots import format_slots
from weft.model.status import ENDED, Reason
from weft.node.engine.shim.run_files import LOG, run_dir
from weft.scheduling.core.explain import Explanation, explain
from weft.scheduling.core.reasons import WaitReasons, why_not_woven
from weft.scheduling.core.state.job import JobState
from weft.server.admin.profiles import profile_views
from weft.server.admin.teams import team_views
from weft.server.api.arrays import ArrayTally, count_tasks, main_task
from weft.server.api.filters import JobFilter
from weft.server.api.services import service_views
from weft.server.api.sweeps import sweep_views, trial_view
from weft.server.controller import Controller
from weft.server.forecasts.keeper import ForecastTable
from weft.server.forecasts.views import forecast_view
from weft.server.jobs.checkpoints import last_checkpoint
from weft.server.jobs.groups import group_views
from weft.server.jobs.job_refs import JobRefs
from weft.server.pools.views import explain_pools, pool_views
from weft.server.rpc.answers import rows_of
from weft.views.answers.base import extend_view, replace_fields
from weft.views.answers.explain import ExplainView, ReasonView, ahead_of, reasons_of, unblock_of
from weft.views.answers.groups import GroupsView
from weft.views.answers.jobs import HistoryView, JobDetailView, JobsView, JobView, QueryAnswer, QueueView
from weft.views.answers.nodes import GpusView, NodesView
from weft.views.answers.pools import PoolsView
from weft.views.answers.profiles import ProfilesView
from weft.views.answers.services import ServicesView
from weft.views.answers.sweeps import SweepsView
from weft.views.answers.teams import TeamsView
from weft.views.answers.weaves import WeavesView
from weft.views.from_state.jobs_and_nodes import (
    brief_reason,
    first_in_line,
    gpu_views,
    job_detail,
    job_view,
    node_views,
    whereabouts,
)
from weft.views.from_state.timestamps import iso
from weft.views.from_state.weaves import weave_of_job, weave_views

DEFAULT_LIMIT: Final = 200
MAX_LIMIT: Final = 10_000
MAX_SORTED: Final = 4
"""Filtered jobs are sorted if there are at most this many times as many as are shown; else the queue is walked."""


class _Head(TypedDict):
    now: str | None
    position: int


class Queries:
    """Answers the queries of one user at one moment."""

    def __init__(self, controller: Controller, who: Caller, forecasts: ForecastTable | None = None) -> None:
        self._user, self._is_admin = who.user, who.role == "admin"
        self._controller, self._scheduler = controller, controller.scheduler
        self._state, self._now = controller.scheduler.state, controller.loop.clock.now()
        self._numbers = controller.inventory.numbers
        self._forecasts = forecasts
        self._reasons = WaitReasons(self._scheduler, self._now)
        self._head: _Head = {"now": iso(self._now), "position": len(controller.journal)}

    def answer(self, request: QueryRequest) -> QueryAnswer:
        what = {
            "queue": self._queue, "job": self._jobs, "history": self._history, "gpus": self._gpus, "nodes": self._nodes,
            "groups": self._groups, "teams": self._teams, "weaves": self._weaves, "profiles": self._profiles,
            "pools": self._pools,
            "services": self._services, "sweeps": self._sweeps,
        }  # fmt: skip
        if request.what not in what:
            raise UnknownName("query", request.what, what)
        return what[request.what](request)

    def explain_job(self, ref: str) -> ExplainView:
        """Explain why a job waits; of a job that does not wait, say where it runs or how it ended."""
        refs = JobRefs(self._state, self._user)
        tasks = refs.tasks(ref)
        job = main_task(tasks) if tasks else self._state.jobs[refs.one(ref)]
        found = explain(self._scheduler, job.id, at=self._now)
        in_s = found.unblock.in_s if found.unblock else None
        if job.status == "blocked" and job.begin_at is not None:
            in_s = max(job.begin_at - self._now, 0.0)
        waits = not job.active and job.status not in ENDED
        return ExplainView(
            now=iso(self._now),
            name=job.job.name,
            job=job.id,
            at=iso(self._now),
            status=job.status,
            reasons=self._reasons_of(job, found) if waits else list(self._whereabouts(job)),
            position=found.position,
            waiting=found.waiting,
            ahead=ahead_of(found),
            unblock=unblock_of(found),
            expected_start=None if in_s is None else iso(self._now + in_s),
            array=job.job.batch if tasks else "",
            tasks=count_tasks(tasks) if tasks else None,
        )

    def _reasons_of(self, job: JobState, found: Explanation) -> list[ReasonView]:
        reasons = reasons_of(found, self._numbers.renumbered)
        if job.waits and self._state.pools.by_name:
            reasons += explain_pools(self._controller.pools, job, self._now)
        return reasons

    def _pools(self, request: QueryRequest) -> PoolsView:  # noqa: ARG002
        return PoolsView(**self._head, pools=pool_views(self._controller.pools, self._now, is_admin=self._is_admin))

    def _whereabouts(self, job: JobState) -> Iterator[ReasonView]:
        yield ReasonView(Reason.NONE, whereabouts(job, self._state, self._now, self._numbers.renumbered))
        if text := why_not_woven(job, self._state) if job.active and self._scheduler.policy.weaves else "":
            yield ReasonView(Reason.NOT_WOVEN, text)
        for node, gpu in self._misplaced(job.id) if job.active else ():
            place = format_slots(self._numbers.renumbered(((node, (gpu,)),)))
            text = f"it has a process on {place}, which is not allocated to it: does it change CUDA_VISIBLE_DEVICES?"
            yield ReasonView(Reason.MISPLACED, text)

    def _queue(self, request: QueryRequest) -> QueueView:
        """Return running jobs, then waiting ones in the order of the queue, then held and blocked ones."""
        wanted = JobFilter(request)
        if wanted or (request.arrays and self._state.eligibility.has_batches):
            return self._selected_queue(wanted, request)
        state, limit, skip = self._state, _limit(request), request.skip
        order = list(islice(self._scheduler.in_order(), skip + limit))
        first = first_in_line(self._scheduler)
        known = {job.id for job in order}
        # held or blocked: searched only if there are any
        others: Iterable[JobState] = (
            job for job in state.jobs.values() if job.status in ("blocked", "held") and job.id not in known
        )
        total, tally = len(state.jobs) - len(state.ended), ArrayTally() if request.arrays else None
        rest = others if total > len(state.waiting) else ()
        shown = list(islice(chain(state.active.values(), order, rest), skip, skip + limit))
        return QueueView(
            **self._head, jobs=self._lines(shown, first, tally), running=len(state.active),
            waiting=total - len(state.active), more=max(total - skip - len(shown), 0), paused=bool(state.paused),
            paused_for=dict(state.paused), policy=self._controller.policy,
        )  # fmt: skip

    def _selected_queue(self, wanted: JobFilter, request: QueryRequest) -> QueueView:
        """Return the selected jobs in the same order; ended ones, the last first, if a state of theirs is wanted."""
        state, limit = self._state, _limit(request)
        running = wanted.select(state.active.values()) if wanted.unfinished else []
        waiting = wanted.select(state.waiting.values()) if wanted.unfinished else []
        blocked = wanted.select(self._blocked()) if wanted.unfinished else []
        ended = wanted.select(reversed(state.ended.values())) if wanted.ended else []
        totals = len(running), len(waiting) + len(blocked)
        tally = ArrayTally() if request.arrays else None
        if tally is not None:
            running, waiting, blocked = map(tally.collapse, (running, waiting, blocked))
        skip = request.skip
        shown = [*running, *self._sorted(waiting, skip + limit), *blocked, *ended][skip : skip + limit]
        found = len(running) + len(waiting) + len(blocked) + len(ended)
        first = first_in_line(self._scheduler)
        return QueueView(
            **self._head, jobs=self._lines(shown, first, tally), running=totals[0], waiting=totals[1],
            more=max(found - skip - len(shown), 0), paused=bool(state.paused), paused_for=dict(state.paused),
            policy=self._controller.policy,
        )  # fmt: skip

    def _lines(self, shown: Sequence[JobState], first: JobId | None, tally: ArrayTally | None) -> Sequence[JobView]:
        return rows_of((self._line(job, first, tally) for job in shown), len(shown))

    def _line(self, job: JobState, first: JobId | None, tally: ArrayTally | None) -> JobView:
        """Return a line of the queue: a job, or all unfinished tasks of an array."""
        row = self._row(job, first)
        if self._forecasts is not None and job.status not in ENDED:
            row = extend_view(JobView, row, {"forecast": forecast_view(job, self._state, self._forecasts)})
        if tally is None:
            return row
        if others := job.job.comes_after:
            row = extend_view(JobView, row, {"depends_on": others})
        batch = job.job.batch
        if not batch or job.status in ENDED:
            return row
        waiting = tally.first_waiting(batch)
        reason = "" if waiting is None else brief_reason(self._reasons, waiting, first)
        counts = tally.counts(self._state, batch)
        return extend_view(JobView, row, {"id": batch, "place": "", "reason": reason, "tasks": counts})

    def _blocked(self) -> Iterable[JobState]:
        """Return blocked and held jobs: searched only if there are any."""
        state = self._state
        if len(state.jobs) == len(state.active) + len(state.waiting) + len(state.ended):
            return ()
        return (job for job in state.jobs.values() if job.status in ("blocked", "held"))

    def _sorted(self, waiting: list[JobState], limit: int) -> list[JobState]:
        """Return the first of these waiting jobs in the order of the queue."""
        if len(waiting) <= MAX_SORTED * limit:
            return [entry[2] for entry in self._scheduler.order.ranked(waiting, self._state.now)]
        chosen = {job.id for job in waiting}
        return list(islice((job for job in self._scheduler.in_order() if job.id in chosen), limit))

    def _row(self, job: JobState, first: JobId | None) -> JobView:
        reason = brief_reason(self._reasons, job, first)
        return job_view(job, self._now, reason, self._controller.progress_of(job), self._numbers.renumbered)

    def _jobs(self, request: QueryRequest) -> JobsView:
        state, refs = self._state, JobRefs(self._state, self._user)
        shown: dict[str, JobState | list[JobState]] = {}
        """Jobs by id, and the tasks of arrays by the number of the array."""
        for ref in refs.merged(request.jobs):
            if request.arrays and (tasks := refs.tasks(ref)):
                shown[tasks[0].job.batch] = tasks
            else:
                shown.update((job, state.jobs[job]) for job in refs.jobs(ref))
        if group := request.group:
            shown.update((job.id, job) for job in state.jobs.values() if job.job.group == group)
        first, chosen = first_in_line(self._scheduler), list(islice(shown.values(), MAX_LIMIT))
        rows = (self._array(one, first) if isinstance(one, list) else self._detail(one, first) for one in chosen)
        return JobsView(**self._head, jobs=rows_of(rows, len(chosen)))

    def _array(self, tasks: list[JobState], first: JobId | None) -> JobDetailView:
        """Return the details of one of the tasks of an array, with the counts of all."""
        one = self._detail(main_task(tasks), first)
        return replace_fields(one, id=tasks[0].job.batch, tasks=count_tasks(tasks))

    def _detail(self, job: JobState, first: JobId | None) -> JobDetailView:
        reason = brief_reason(self._reasons, job, first)
        found = job_detail(job, self._now, reason, self._controller.progress_of(job), self._numbers, describe)
        strays = self._misplaced(job.id) if job.active else ()
        reported = found.progress.checkpoint if found.progress is not None else None
        return replace_fields(
            found,
            misplaced=[self._numbers.number(*where) for where in strays],
            checkpoint=reported or (last_checkpoint(self._controller.paths.jobs, job.id) if job.run else None),
            log=_log_file(self._controller.paths.jobs, job),
            weave=weave_of_job(job, self._state, self._controller.weaves),
            unwoven=job.unwoven or None,
            series=self._controller.progress.series_of(job),
            runs=self._controller.runs.of(job.id, self._numbers),
        )

    def _misplaced(self, job: JobId) -> list[tuple[NodeId, int]]:
        """Return the GPUs on which the job has a process, but no allocation."""
        found = self._controller.inventory.readings().items()
        return [where for where, reading in found if job in (reading.misplaced or ())]

    def _history(self, request: QueryRequest) -> HistoryView:
        """Return ended jobs, the last first."""
        ended, wanted, since = reversed(self._state.ended.values()), JobFilter(request), request.since
        recent = [job for job in ended if (job.ended_at or 0.0) >= since]
        recent = wanted.select(recent) if wanted else recent
        shown = recent[request.skip : request.skip + _limit(request)]
        rows = rows_of((self._row(job, None) for job in shown), len(shown))
        return HistoryView(**self._head, jobs=rows, more=max(len(recent) - request.skip - len(shown), 0))

    def _gpus(self, _request: QueryRequest) -> GpusView:
        return GpusView(**self._head, gpus=gpu_views(self._state, self._controller.inventory.readings(), self._numbers))

    def _teams(self, _request: QueryRequest) -> TeamsView:
        return TeamsView(**self._head, teams=team_views(self._state))

    def _groups(self, _request: QueryRequest) -> GroupsView:
        return GroupsView(**self._head, groups=group_views(self._state))

    def _services(self, request: QueryRequest) -> ServicesView:
        return ServicesView(**self._head, services=service_views(self._controller, self._now, request.name))

    def _sweeps(self, request: QueryRequest) -> SweepsView:
        found = sweep_views(self._state, self._user, request.name)
        jobs = [job for _, jobs in found for job in jobs] if request.name else []
        rows = (trial_view(job, self._now, self._controller.progress_of(job)) for job in jobs)
        return SweepsView(**self._head, sweeps=[view for view, _ in found], jobs=rows_of(rows, len(jobs)))

    def _weaves(self, _request: QueryRequest) -> WeavesView:
        controller = self._controller
        found = weave_views(self._state, controller.weaves, controller.weave_order, self._numbers.renumbered)
        rates = [member.rate for weave in found for member in weave.members if member.rate is not None]
        return WeavesView(**self._head, weaves=found, total_rate=round(sum(rates), 3) if rates else None)

    def _profiles(self, _request: QueryRequest) -> ProfilesView:
        return ProfilesView(**self._head, profiles=profile_views(self._state))

    def _nodes(self, _request: QueryRequest) -> NodesView:
        return NodesView(**self._head, nodes=node_views(self._state, self._controller.inventory.nodes()))


def _log_file(jobs: Path, job: JobState) -> str | None:
    """Return the file with the output of the job's last run, if it is on this machine."""
    path = os.path.join(run_dir(str(jobs), job.id, job.run), LOG)
    return path if job.run and os.path.exists(path) else None


def _limit(request: QueryRequest) -> int:
    return min(request.limit or DEFAULT_LIMIT, MAX_LIMIT)

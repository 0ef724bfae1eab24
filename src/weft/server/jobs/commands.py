"""Turn the requests of users into events. No input or output: the loop journals and executes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import Final

from weft.core.scheduler import Scheduler
from weft.core.state.job import JobState
from weft.errors import InputError, UnknownName
from weft.jobspec.fields import settings_of
from weft.model import (
    Cancelled,
    Edited,
    Event,
    Held,
    Job,
    JobId,
    Purged,
    Released,
    Seconds,
    Submitted,
    Task,
)
from weft.model.status import ACTIVE, ENDED
from weft.server.auth.identity import Caller, check_owner
from weft.server.jobs.admission import AdmissionRules
from weft.server.jobs.builder import JobBuilder
from weft.server.jobs.job_refs import resolve, resolve_one
from weft.server.jobs.quotas import Quotas
from weft.wire.convert import pairs
from weft.wire.messages import ChangeReply, ChangeRequest, SubmitReply, SubmitRequest, Variable

Verb = Callable[["JobCommands", JobState, Seconds, ChangeRequest], "Event | str"]
"""Returns the event that changes a job, or why it cannot be changed."""


class JobCommands:
    """Handles submit and change requests."""

    def __init__(self, scheduler: Scheduler, rules: AdmissionRules, quotas: Quotas | None = None) -> None:
        self._quotas = quotas
        self._unjournalled: list[Job] = []
        """Accepted jobs that may not be in the state yet."""
        self._scheduler, self._builder = scheduler, JobBuilder(rules)
        self._keys: dict[tuple[str, str], list[JobId]] = {}
        """The ids that each request with a key was answered with, by user and key. A request may be sent again."""
        self._next_id = scheduler.state.highest_id + 1
        for job in scheduler.state.jobs.values():
            self._register(job.job)

    def _register(self, job: Job) -> None:
        number = job.id.partition("_")[0]
        if number.isdecimal():
            self._next_id = max(self._next_id, int(number) + 1)
        if job.task is not None and job.task.key:
            self._keys.setdefault((job.user, job.task.key), []).append(job.id)

    def prune(self) -> None:
        """Forget the keys of requests whose jobs were all purged."""
        jobs = self._scheduler.state.jobs
        for key in [key for key, ids in self._keys.items() if not any(job in jobs for job in ids)]:
            del self._keys[key]

    # ---- submit

    def submit(self, request: SubmitRequest, now: Seconds, who: Caller) -> tuple[list[Event], SubmitReply]:
        if request.key and (who.user, request.key) in self._keys:
            return [], SubmitReply(ids=self._keys[who.user, request.key])
        state, user = self._scheduler.state, who.user
        made = self._builder.jobs(request, self._next_id, lambda ref: resolve(state, [ref], user), user)
        if self._quotas is not None:
            self._quotas.check(user, [job for jobs in made for job in jobs], self._users(), request.other_jobs)
        if request.dry_run:
            return [], SubmitReply()
        events: list[Event] = []
        for at in _in_dependency_order(made):
            spec, jobs = request.jobs[at], made[at]
            for job in jobs:
                self._register(job)
                if self._quotas is not None:
                    self._unjournalled.append(job)
                events.append(Submitted(now, job))
                if spec.hold:
                    events.append(Held(now, job.id))
        return events, SubmitReply(ids=[job.id for jobs in made for job in jobs])

    def _users(self) -> Iterator[str]:
        """Yield the user of each job that has not ended."""
        jobs = self._scheduler.state.jobs
        self._unjournalled = [job for job in self._unjournalled if job.id not in jobs]
        yield from (job.user for job in self._unjournalled)
        yield from (job.job.user for job in jobs.values() if job.status not in ENDED)

    # ---- change

    def change(self, request: ChangeRequest, now: Seconds, who: Caller) -> tuple[list[Event], ChangeReply]:
        """Change jobs. Named jobs must belong to the caller; statuses and groups select from the caller's own jobs."""
        verb = VERBS.get(request.verb)
        if verb is None:
            raise UnknownName("verb", request.verb, VERBS)
        state = self._scheduler.state
        ids = resolve(state, request.jobs, who.user)
        for named in ids:
            check_owner(who, state.jobs[named].job)
        if request.statuses or request.group:
            found = self._of_group(request.group) if request.group else list(state.jobs.values())
            chosen = [job for job in found if who.owns(job.job.user)]
            ids += [job.id for job in chosen if not request.statuses or job.status in request.statuses]
        if not ids and not request.statuses and not request.group:
            raise InputError(f"{request.verb}: no job is named", hint="name jobs by id, name, @ (the last), @~1 or 3-7")
        events: list[Event] = []
        reply = ChangeReply()
        for job in (state.jobs[each] for each in ids):
            event = verb(self, job, now, request)
            if isinstance(event, str):
                reply.refused.append(Variable(name=job.id, value=event))
                continue
            events.append(event)
            reply.ids.append(event.job.id if isinstance(event, Submitted) else job.id)
        return events, reply

    def _of_group(self, group: str) -> list[JobState]:
        return [job for job in self._scheduler.state.jobs.values() if job.job.task and job.job.task.group == group]

    def _cancel(self, job: JobState, now: Seconds, _request: ChangeRequest) -> Event | str:
        return f"it is {job.status} already" if job.status in ENDED else Cancelled(now, job.id)

    def _hold(self, job: JobState, now: Seconds, _request: ChangeRequest) -> Event | str:
        if job.status in ENDED:
            return f"it is {job.status} already"
        return "it is held already" if job.held else Held(now, job.id)

    def _release(self, job: JobState, now: Seconds, _request: ChangeRequest) -> Event | str:
        return Released(now, job.id) if job.held else "it is not held"

    def _forget(self, job: JobState, now: Seconds, _request: ChangeRequest) -> Event | str:
        return Purged(now, (job.id,)) if job.status in ENDED else f"it is {job.status}: cancel it first"

    def _restart(self, job: JobState, now: Seconds, _request: ChangeRequest) -> Event | str:
        if job.status not in ENDED:
            return f"it is {job.status}: cancel it first"
        task = replace(job.job.task or Task(), key="")
        again = replace(job.job, id=str(self._next_id), after=(), batch="", batch_limit=0, task=task)
        try:
            self._builder.check(again)
        except InputError as error:
            return error.text
        self._next_id += 1
        return Submitted(now, again)

    def _set(self, job: JobState, now: Seconds, request: ChangeRequest) -> Event | str:
        if job.status in ENDED or job.status in ACTIVE:
            return f"it is {job.status}: only a waiting job can be changed"
        edited = self._edited(job.job, request.settings)
        return Edited(now, edited)

    def _edited(self, job: Job, settings: Sequence[Variable]) -> Job:
        spec, fields = settings_of(dict(pairs(settings)))
        state = self._scheduler.state
        edited = self._builder.edit(job, spec, fields, lambda ref: [resolve_one(state, ref, job.user)])
        if job.id in self._with_dependencies(edited.after):
            raise InputError(f"cyclic dependencies: {job.id} would come after itself", key="after")
        return edited

    def _with_dependencies(self, jobs: Sequence[JobId]) -> set[JobId]:
        """Return these jobs and all jobs that they depend on."""
        state, found, left = self._scheduler.state, set[JobId](), list(jobs)
        batches: dict[str, list[JobId]] = {}
        for each in state.jobs.values():
            if each.job.batch:
                batches.setdefault(each.job.batch, []).append(each.id)
        while left:
            job = left.pop()
            if job in found:
                continue
            found.add(job)
            left += state.jobs[job].job.after if job in state.jobs else batches.get(job, ())
        return found


def _in_dependency_order(made: Sequence[Sequence[Job]]) -> Iterable[int]:
    """Return the positions of the specs in an order in which each follows those that it depends on."""
    at_of = {name: at for at, jobs in enumerate(made) for job in jobs for name in (job.id, job.batch) if name}
    after = {at: {at_of[name] for job in jobs for name in job.after if name in at_of} for at, jobs in enumerate(made)}
    if not any(after.values()):
        return range(len(made))
    return TopologicalSorter(after).static_order()


VERBS: Final[dict[str, Verb]] = {
    "cancel": JobCommands._cancel,
    "hold": JobCommands._hold,
    "release": JobCommands._release,
    "set": JobCommands._set,
    "restart": JobCommands._restart,
    "forget": JobCommands._forget,
}

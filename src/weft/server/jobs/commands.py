"""Turn the requests of users into events. No input or output: the loop journals and executes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any, Final

from weft.access.auth.identity import Caller, check_owner
from weft.access.jobspec.fields import settings_of
from weft.access.wire.convert import pairs
from weft.access.wire.messages import ChangeReply, ChangeRequest, SubmitReply, SubmitRequest, Variable
from weft.errors import InputError, Refused, UnknownName
from weft.inputs.dependencies import CONDITIONS, SINGLETON
from weft.inputs.quantities import MAX_ARRAY_TASKS, parse_whole_or_none
from weft.model import (
    BatchLimited,
    Cancelled,
    Continued,
    Edited,
    Event,
    Held,
    Job,
    JobId,
    Purged,
    Released,
    Seconds,
    Submitted,
    Suspended,
    Task,
)
from weft.model.status import ACTIVE, ENDED
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.server.jobs.admission import AdmissionRules
from weft.server.jobs.batch import Batch, OpenBatch
from weft.server.jobs.builder import CheckNotify, JobBuilder, accept_all
from weft.server.jobs.groups import limit_submitted_groups
from weft.server.jobs.job_refs import JobRefs, resolve_to_change
from weft.server.jobs.notes import submit_notes
from weft.server.jobs.quotas import Quotas
from weft.server.process.slices import Steps, at_once

_HOLD_HINT: Final = "; weft hold keeps a waiting job from starting"
LIMIT: Final = "limit"
"""The setting of an array: how many of its tasks run at once."""
NO_DEPENDENCIES: Final[dict[str, Any]] = dict.fromkeys(CONDITIONS.values(), ())
MAX_MEMORIES: Final = 8
Verb = Callable[["JobCommands", JobState, Seconds, ChangeRequest], "Event | str"]
"""Returns the event that changes a job, or why it cannot be changed."""


class JobCommands:
    """Handles submit and change requests."""

    def __init__(
        self, scheduler: Scheduler, rules: AdmissionRules, quotas: Quotas | None = None,
        open_batches: Sequence[OpenBatch] = (), min_id: int = 1, check_notify: CheckNotify = accept_all,
    ) -> None:  # fmt: skip
        self._quotas, self._open_batches, self._check_notify = quotas, open_batches, check_notify
        self._unjournalled: list[Job] = []
        """Accepted jobs that may not be in the state yet."""
        self._dependencies: dict[tuple[JobId, ...], set[JobId]] = {}
        """Found for the present request: these jobs and all that they depend on."""
        self._refs: dict[str, JobRefs] = {}
        """The references of the present request, by the user whose jobs it edits."""
        self._memories: list[tuple[ChangeRequest, dict[str, str]]] = []
        """For the last requests, what was done for each array."""
        self._arrays: frozenset[str] = frozenset()
        """Arrays of which the present slice of a request has several tasks."""
        self._scheduler, self._builder = scheduler, JobBuilder(rules, scheduler.state.teams, self._check_notify)
        self._keys: dict[tuple[str, str], list[JobId]] = {}
        """The ids that each request with a key was answered with, by user and key. A request may be sent again."""
        self._next_id = max(scheduler.state.highest_id + 1, min_id)
        for job in scheduler.state.jobs.values():
            self._register(job.job)
        for each in open_batches:
            self._next_id = max(self._next_id, *(int(template.job.id) + 1 for template in each.batch.templates))

    def follow(self, scheduler: Scheduler, rules: AdmissionRules) -> None:
        """Use another scheduler with the same facts."""
        self._scheduler, self._builder = scheduler, JobBuilder(rules, scheduler.state.teams, self._check_notify)

    def _register(self, job: Job) -> None:
        number = job.id.partition("_")[0]
        if number.isdecimal():
            self._next_id = max(self._next_id, int(number) + 1)
        if job.task is not None and job.task.key:
            self._keys.setdefault((job.user, job.task.key), []).append(job.id)

    def prune(self) -> None:
        """Forget the keys of requests whose jobs were all purged."""
        jobs = self._scheduler.state.jobs
        self._unjournalled.clear()  # all of them are in the state by now
        for key in [key for key, ids in self._keys.items() if not any(job in jobs for job in ids)]:
            del self._keys[key]

    # ---- submit

    def submit(self, request: SubmitRequest, now: Seconds, who: Caller) -> tuple[list[Event], SubmitReply]:
        if ids := self.known_ids(request, who.user):
            return [], SubmitReply(ids=ids)
        batch = at_once(self.prepare(request, who))
        limits = self.limit_groups(request, batch, now, who=who)
        reply = SubmitReply(ids=() if request.dry_run else batch.ids(), notes=at_once(self.notes(request, batch, now)))
        return [] if request.dry_run else [*limits, *self.accept(batch.jobs(), now)], reply

    def limit_groups(self, request: SubmitRequest, batch: Batch, now: Seconds, *, who: Caller) -> list[Event]:
        """Return the events that limit the groups of a request, which come before its jobs."""
        groups = (template.job.group for template in batch.templates)
        return limit_submitted_groups(self._scheduler.state, groups, request.group_jobs, now, who)

    def notes(self, request: SubmitRequest, batch: Batch, now: Seconds) -> Steps[list[str]]:
        """Return what the submitter should know about the jobs."""
        return submit_notes(lambda: self._scheduler, request, batch, now)

    def known_ids(self, request: SubmitRequest, user: str) -> list[JobId]:
        """Return the ids that an earlier request with this key was answered with. Raise if it was for other jobs."""
        ids = self._keys.get((user, request.key), []) if request.key else []
        if ids and not self._is_same(request, ids):
            first = ids[0].partition("_")[0]
            what = f"job {first} was submitted with the key {request.key[:80]!r}, and it is not this job"
            raise InputError(what, hint=f"use another key, or none; weft show {first} shows its command")
        return ids

    def _is_same(self, request: SubmitRequest, ids: Sequence[JobId]) -> bool:
        """Return whether jobs may come from this request, judging by what a user cannot set later. Some of them may
        have been purged."""
        jobs = self._scheduler.state.jobs
        found = {(jobs[job].job.command, jobs[job].job.params) for job in ids if job in jobs}
        asked = {(tuple(spec.command), pairs(spec.params)) for spec in request.jobs}
        return found <= asked and len({job.partition("_")[0] for job in ids}) <= len(request.jobs)

    def prepare(self, request: SubmitRequest, who: Caller) -> Steps[Batch]:
        """Return the jobs of a request. Raise, and change nothing, if any of them is invalid or exceeds a quota."""
        first, refs = self._next_id, JobRefs(self._scheduler.state, who.user)
        self._next_id += len(request.jobs)
        batch = None
        try:
            found = yield from self._builder.build(request, first, partial(self._resolve, refs), who)
            if self._quotas is not None:
                jobs = [each.job for each in found.templates]
                self._quotas.check(who.user, jobs, self._users(), found.count - len(jobs) + request.other_jobs)
            batch = None if request.dry_run else found
            return found
        finally:
            if batch is None and self._next_id == first + len(request.jobs):
                self._next_id = first  # no other request has got numbers meanwhile

    def accept(self, jobs: Iterable[tuple[Job, bool]], now: Seconds) -> list[Event]:
        """Return the events that submit these jobs. Each comes with whether it is held."""
        events: list[Event] = []
        for job, hold in jobs:
            self._register(job)
            if self._quotas is not None and self._quotas.queued_of(job.user):
                self._unjournalled.append(job)
            events.append(Submitted(now, job))
            if hold:
                events.append(Held(now, job.id))
        return events

    def _resolve(self, refs: JobRefs, ref: str) -> list[JobId]:
        """Return the jobs of a reference. Refuse those of an open batch: an array could seem to have ended."""
        found = _namesakes(refs, ref)
        if found is None:
            found = refs.jobs(ref)
        for job in found if self._open_batches else ():
            if any(job in each for each in self._open_batches):
                raise Refused(f"job {job} is part of a batch that is still being submitted\n  try again in a moment")
        return found

    def _users(self) -> Iterator[str]:
        """Yield the user of each job that has not ended."""
        jobs = self._scheduler.state.jobs
        self._unjournalled = [job for job in self._unjournalled if job.id not in jobs]
        yield from (job.user for job in self._unjournalled)
        yield from (job.job.user for job in jobs.values() if job.status not in ENDED)
        for each in self._open_batches:
            yield from repeat(each.batch.user, each.left)

    # ---- change

    def change(self, request: ChangeRequest, now: Seconds, who: Caller) -> tuple[list[Event], ChangeReply]:
        return self.change_some(at_once(self.select(request, who)), request, now)

    def select(self, request: ChangeRequest, who: Caller) -> Steps[list[JobId]]:
        """Return the jobs of a request. Named jobs must belong to the caller; statuses and groups select from the
        caller's own jobs."""
        if request.verb not in VERBS:
            raise UnknownName("verb", request.verb, VERBS)
        statuses, group = frozenset(request.statuses), request.group  # each look at a message makes a copy
        ids = resolve_to_change(self._scheduler.state, request.jobs, who.user)
        for named in ids:
            if (job := self._scheduler.state.jobs.get(named)) is not None:  # it may have been purged meanwhile
                check_owner(who, job.job)
            yield
        if statuses or group:
            jobs = self._scheduler.state.jobs.values()
            chosen = [job for job in jobs if not group or job.job.group == group]
            chosen = [job for job in chosen if who.owns(job.job.user)]
            ids += [job.id for job in chosen if not statuses or job.status in statuses]
        if not ids and not statuses and not group:
            raise InputError(f"{request.verb}: no job is named", hint="name jobs by id, name, @ (the last), @~1 or 3-7")
        return ids

    def change_some(
        self, ids: Sequence[JobId], request: ChangeRequest, now: Seconds
    ) -> tuple[list[Event], ChangeReply]:
        """Change these jobs, except those that are purged by now."""
        state, verb = self._scheduler.state, VERBS[request.verb]
        if request.verb == "set" and any(each.name == LIMIT for each in request.settings):
            return self._limit_arrays([state.jobs[each] for each in ids if each in state.jobs], request, now)
        self._dependencies.clear()
        self._refs.clear()
        self._arrays = repeated(state.jobs[each].job.batch for each in ids if each in state.jobs)
        events: list[Event] = []
        reply = ChangeReply()
        for job in (state.jobs[each] for each in ids if each in state.jobs):
            event = verb(self, job, now, request)
            if isinstance(event, str):
                reply.refused.append(Variable(name=job.id, value=event))
                continue
            events.append(event)
            reply.ids.append(event.job.id if isinstance(event, Submitted) else job.id)
        return events, reply

    def _cancel(self, job: JobState, now: Seconds, _request: ChangeRequest) -> Event | str:
        return f"it is {job.status} already" if job.status in ENDED else Cancelled(now, job.id)

    def _hold(self, job: JobState, now: Seconds, _request: ChangeRequest) -> Event | str:
        if job.status in ENDED:
            return f"it is {job.status} already"
        return "it is held already" if job.held else Held(now, job.id)

    def _release(self, job: JobState, now: Seconds, _request: ChangeRequest) -> Event | str:
        return Released(now, job.id) if job.held else "it is not held"

    def _suspend(self, job: JobState, now: Seconds, _request: ChangeRequest) -> Event | str:
        if job.suspended:
            return "it is suspended already"
        if job.status != "running":
            hint = _HOLD_HINT if job.status not in ACTIVE | ENDED else ""
            return f"it is {job.status}: only a running job can be suspended{hint}"
        return Suspended(now, job.id, job.run)

    def _resume(self, job: JobState, now: Seconds, _request: ChangeRequest) -> Event | str:
        if job.suspended:
            return Continued(now, job.id, job.run)
        return f"it is {'held' if job.held else job.status}, not suspended; weft release lets a held job start"

    def _forget(self, job: JobState, now: Seconds, _request: ChangeRequest) -> Event | str:
        return Purged(now, (job.id,)) if job.status in ENDED else f"it is {job.status}: cancel it first"

    def _limit_arrays(
        self, tasks: Iterable[JobState], request: ChangeRequest, now: Seconds
    ) -> tuple[list[Event], ChangeReply]:
        """Change how many tasks of their arrays run at once, once for each array of the request."""
        if len(request.settings) > 1:
            raise InputError(
                "limit is a setting of an array, not of its tasks", hint="set it alone: weft set 7 limit=4"
            )
        limit, done = parse_limit(request.settings[0].value), self._memory_of(request)
        events: list[Event] = []
        reply = ChangeReply()
        for job in tasks:
            if not job.job.batch:
                reply.refused.append(Variable(name=job.id, value="it is not a task of an array"))
            elif job.job.batch not in done:
                done[job.job.batch] = job.job.batch
                events.append(BatchLimited(now, job.job.batch, limit))
                reply.ids.append(job.job.batch)
        return events, reply

    def _memory_of(self, request: ChangeRequest) -> dict[str, str]:
        """Return what was done so far for a request, which may come in slices: for each array, its new number."""
        for known, memory in self._memories:
            if known is request:
                return memory
        self._memories.append((request, {}))
        del self._memories[:-MAX_MEMORIES]
        return self._memories[-1][1]

    def _restart(self, job: JobState, now: Seconds, request: ChangeRequest) -> Event | str:
        """Submit an ended job again. Several tasks of an array become an array again, with its limit."""
        if job.status not in ENDED:
            return f"it is {job.status}: cancel it first"
        batch, numbers = job.job.batch, self._memory_of(request)
        number = numbers.get(batch, str(self._next_id))
        again = replace(
            job.job, id=number, **NO_DEPENDENCIES, batch="", batch_limit=0, task=replace(job.job.task or Task(), key="")
        )
        if batch and (batch in self._arrays or batch in numbers):
            _, _, index = job.id.partition("_")
            again = replace(again, id=f"{number}_{index}", batch=number, batch_limit=job.job.batch_limit)
        try:
            self._builder.check(again)
        except InputError as error:
            return error.text
        if batch not in numbers:
            self._next_id += 1
        if again.batch:
            numbers[batch] = number
        return Submitted(now, again)

    def _restart_in_place(self, job: JobState, now: Seconds, _request: ChangeRequest) -> Event | str:
        if job.status not in ENDED:
            return f"it is {job.status}: cancel it first"
        try:
            self._builder.check(job.job)
        except InputError as error:
            return error.text
        return Submitted(now, replace(job.job, **NO_DEPENDENCIES, begin_at=None))

    def _edit(self, job: JobState, now: Seconds, request: ChangeRequest) -> Event | str:
        if job.status in ENDED or job.status in ACTIVE:
            return f"it is {job.status}: only a waiting job can be edited"
        edited = self._builder.rebuild(job.job, request.spec, self._resolve_one(job.job.user))
        return Edited(now, self._without_cycle(job.job, edited))

    def _resolve_one(self, user: str) -> Callable[[str], list[JobId]]:
        """Return a function that finds the one job of a reference."""
        refs = self._refs.setdefault(user, JobRefs(self._scheduler.state, user))

        def find(ref: str) -> list[JobId]:
            found = _namesakes(refs, ref)
            return [refs.one(ref)] if found is None else found

        return find

    def _set(self, job: JobState, now: Seconds, request: ChangeRequest) -> Event | str:
        if job.status in ENDED or job.status in ACTIVE:
            return f"it is {job.status}: only a waiting job can be changed"
        return Edited(now, self._edited(job.job, request.settings))

    def _edited(self, job: Job, settings: Sequence[Variable]) -> Job:
        spec, fields = settings_of(dict(pairs(settings)))
        edited = self._builder.edit(job, spec, fields, self._resolve_one(job.user))
        return self._without_cycle(job, edited)

    def _without_cycle(self, job: Job, edited: Job) -> Job:
        """Return the edited job; raise if it would depend on itself."""
        if edited.comes_after != job.comes_after and job.id in self._with_dependencies(edited.comes_after):
            raise InputError(f"cyclic dependencies: {job.id} would come after itself", key="after")
        return edited

    def _with_dependencies(self, jobs: Sequence[JobId]) -> set[JobId]:
        """Return these jobs and all jobs that they depend on. Search once for all jobs of a request."""
        if (known := self._dependencies.get(tuple(jobs))) is not None:
            return known
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
            left += state.jobs[job].job.comes_after if job in state.jobs else batches.get(job, ())
        self._dependencies[tuple(jobs)] = found
        return found


def _namesakes(refs: JobRefs, ref: str) -> list[JobId] | None:
    """Return the unfinished jobs that `singleton:NAME` means, arrays as a whole; None for other references."""
    word, _, name = ref.partition(":")
    return refs.namesakes(name) if word == SINGLETON else None


def repeated(names: Iterable[str]) -> frozenset[str]:
    """Return the names, not empty, that occur more than once."""
    counts = Counter(names)
    return frozenset(name for name, count in counts.items() if name and count > 1)


def parse_limit(text: str) -> int:
    found = 0 if text == "none" else parse_whole_or_none(text, 1, MAX_ARRAY_TASKS)
    if found is None:
        what = f"limit: {text[:80]!r} is not a whole number from 1 to {MAX_ARRAY_TASKS:,}"
        raise InputError(what, hint="limit=4, or limit=none")
    return found


VERBS: Final[dict[str, Verb]] = {
    "cancel": JobCommands._cancel,
    "hold": JobCommands._hold,
    "release": JobCommands._release,
    "set": JobCommands._set,
    "edit": JobCommands._edit,
    "restart": JobCommands._restart,
    "restart-in-place": JobCommands._restart_in_place,
    "suspend": JobCommands._suspend,
    "resume": JobCommands._resume,
    "forget": JobCommands._forget,
}

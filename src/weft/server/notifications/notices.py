"""Which messages facts lead to. Pure: the state and facts in, notices out.

A job outside of an array leads to its messages. The tasks of an array lead to one when the last of them ends, and so
do the jobs of a group with `notify`. After a restart, `catch_up` finds what ended after the stored position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from weft.access.notify.outbox import Position
from weft.access.notify.texts import counts_text, event_of_counts, iso_time, job_text, message
from weft.inputs.notify_choice import NotifyChoice, stored_choice
from weft.model import Decision, Event, GroupLimited, JobId, Slots, Start
from weft.model.groups import group_label
from weft.model.status import ENDED
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.server.jobs.groups import unfinished
from weft.server.jobs.new_ends import NewEnds

FormatPlace = Callable[[Slots], str]


class Notice(NamedTuple):
    choice: NotifyChoice
    message: dict[str, Any]


class Notices:
    """Turns facts into notices. `scheduler` names the scheduler in messages."""

    def __init__(self, scheduler: str, place: FormatPlace) -> None:
        self._scheduler, self._place = scheduler, place
        self._since: dict[str, float] = {}
        self._counts: dict[str, Counter[str]] = {}
        """For each group with messages, the ends of its jobs by status, since its last message."""
        self._witness: dict[str, JobId] = {}
        """For each of these groups, an unfinished job that was found last: while it is one, the group goes on."""
        self._begun: set[str] = set()
        """Arrays of which a task has started."""
        self._ends: NewEnds | None = None

    def position(self, state: State) -> Position:
        return Position(state.now, dict(self._since))

    # ---- after a start of the server

    def catch_up(self, state: State, position: Position) -> list[Notice]:
        """Return the notices of what happened after the position, and go on from there."""
        self._ends = NewEnds(state)
        settings = state.eligibility.groups.settings
        groups = [group for group, each in settings.items() if each.notify]
        self._since = {group: position.groups.get(group, position.at) for group in groups}
        self._counts = {group: Counter() for group in groups}
        ended = [job for job in state.ended.values() if (job.ended_at or 0.0) > position.at]
        for job in state.ended.values():
            since = self._since.get(job.job.group)
            if since is not None and since < (job.ended_at or 0.0) <= position.at:
                self._counts[job.job.group][job.status] += 1
        arrays = (job for job in state.jobs.values() if job.job.batch and job.first_start is not None)
        self._begun = {job.job.batch for job in arrays if (job.first_start or 0.0) <= position.at}
        started = [job for job in state.jobs.values() if (job.first_start or 0.0) > position.at]
        return [*self._starts(started), *self._endings(state, ended)]

    # ---- each batch of facts

    def record(self, state: State, events: Sequence[Event], decisions: Sequence[Decision]) -> list[Notice]:
        """Return the notices of a batch of facts that the state has applied."""
        for event in events:
            if type(event) is GroupLimited:
                self._follow(event)
        starts = (state.jobs.get(fact.job) for fact in decisions if type(fact) is Start)
        found = self._starts(job for job in starts if job is not None and job.first_start == job.started_at)
        if self._ends is None:
            self._ends = NewEnds(state)
        elif ended := self._ends.take(state):
            found += self._endings(state, ended[::-1])
        return found

    def _follow(self, event: GroupLimited) -> None:
        """Start counting the jobs of a group that gets messages, or stop it."""
        if event.notify:
            self._since.setdefault(event.group, event.at)
            self._counts.setdefault(event.group, Counter())
        else:
            for known in (self._since, self._counts, self._witness):
                known.pop(event.group, None)

    # ---- starts

    def _starts(self, jobs: Iterable[JobState]) -> list[Notice]:
        found = []
        for job in jobs:
            choice = _choice(job)
            if choice is None or "started" not in choice.events:
                continue
            if not job.job.batch:
                found.append(self._of_job(job, choice, "started"))
            elif job.job.batch not in self._begun:
                self._begun.add(job.job.batch)
                found.append(self._of_array_start(job, choice))
        return found

    def _of_array_start(self, job: JobState, choice: NotifyChoice) -> Notice:
        array, at = job.job.batch, job.first_start or 0.0
        text = f"array {array}{f' ({job.job.name})' if job.job.name else ''} started"
        about = {"id": array, "name": job.job.name, "user": job.job.user}
        return self._notice(choice, f"array/{array}/started/{at:.6f}", "started", at, text, array=about)

    # ---- ends

    def _endings(self, state: State, jobs: Sequence[JobState]) -> list[Notice]:
        found, arrays, groups = [], dict[str, JobState](), dict[str, JobState]()
        for job in jobs:
            if job.job.replica is not None or job.ended_at is None:
                continue
            if job.job.group in self._counts:
                self._counts[job.job.group][job.status] += 1
                groups[job.job.group] = job
            choice = _choice(job)
            if choice is None:
                continue
            if job.job.batch:
                arrays[job.job.batch] = job
            elif job.status in choice.events:
                found.append(self._of_job(job, choice, job.status))
        found += [each for last in arrays.values() if (each := self._of_array(state, last)) is not None]
        return found + [each for last in groups.values() if (each := self._of_group(state, last)) is not None]

    def _of_job(self, job: JobState, choice: NotifyChoice, event: str) -> Notice:
        at = (job.first_start if event == "started" else job.ended_at) or 0.0
        code = f"exit code {job.code}" if job.code and job.status == "failed" else ""
        why = ", ".join(part for part in (code, job.detail or job.why) if part) if event == "failed" else ""
        text = job_text(
            job.id, job.job.name, event, run_s=job.attained_s, why=why, place=self._place(job.placed)
        )  # fmt: skip
        about = {
            "id": job.id, "name": job.job.name, "user": job.job.user, "group": job.job.group, "status": job.status,
            "gpus": job.gpus, "runs": job.run, "exit_code": job.code, "reason": job.why, "run_s": job.attained_s,
            "place": self._place(job.placed), "submitted": iso_time(job.submitted_at),
            "started": iso_time(job.first_start), "ended": iso_time(job.ended_at),
        }  # fmt: skip
        return self._notice(choice, f"job/{job.id}/{event}/{at:.6f}", event, at, text, job=about)

    def _of_array(self, state: State, last: JobState) -> Notice | None:
        array, eligibility = last.job.batch, state.eligibility
        if not eligibility.has_ended(array):
            return None
        counts = dict(zip(("done", "failed", "cancelled"), eligibility.ended_of(array), strict=True))
        event, choice, at = event_of_counts(counts), _choice(last), last.ended_at or 0.0
        self._begun.discard(array)
        if choice is None or event not in choice.events:
            return None
        about = {"id": array, "name": last.job.name, "user": last.job.user, **counts}
        text = counts_text(f"array {array}", last.job.name, counts)
        return self._notice(choice, f"array/{array}/{event}/{at:.6f}", event, at, text, array=about)

    def _of_group(self, state: State, last: JobState) -> Notice | None:
        group, at = last.job.group, last.ended_at or 0.0
        if self._goes_on(state, group):
            return None
        counts, self._counts[group], self._since[group] = dict(self._counts[group]), Counter(), at
        choice, event = stored_choice(state.eligibility.groups.settings_of(group).notify), event_of_counts(counts)
        if event not in choice.events:
            return None
        label, user = group_label(group), last.job.user
        about: dict[str, Any] = {
            "name": group,
            "label": label,
            "user": user,
            **{k: counts.get(k, 0) for k in sorted(ENDED)},
        }
        text = counts_text(f"group {label}", "", counts)
        return self._notice(choice, f"group/{group}/{event}/{at:.6f}", event, at, text, group=about)

    def _goes_on(self, state: State, group: str) -> bool:
        known = state.jobs.get(self._witness.get(group, ""))
        if known is not None and known.ended_at is None and known.job.group == group:
            return True
        # the last job found is likely to end last: most looks then need no search
        found = next((job for job in reversed([*unfinished(state)]) if job.job.group == group), None)
        self._witness[group] = found.id if found is not None else ""
        return found is not None

    def _notice(
        self, choice: NotifyChoice, key: str, event: str, at: float, text: str, **about: dict[str, Any]
    ) -> Notice:
        return Notice(choice, message(key, event, at, text, self._scheduler, **about))


def _choice(job: JobState) -> NotifyChoice | None:
    task = job.job.task
    return stored_choice(task.notify) if task is not None and task.notify else None

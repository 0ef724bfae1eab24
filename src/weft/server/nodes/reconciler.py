"""What is wanted of each part of each run, against what agents say of it: the table in docs/reference/cluster.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.model import Cordoned, JobId, NodeId, Seconds, Started
from weft.model.status import ACTIVE
from weft.server.nodes.gangs import Gang, Gangs
from weft.server.nodes.outbox import Outbox
from weft.server.nodes.registered_node import RegisteredNode
from weft.server.nodes.run_messages import start_run, stop_run
from weft.server.pause_reasons import DISK_FLOOR, FILE_LIMIT
from weft.wire.convert import run_exited
from weft.wire.messages import Confirm, RunNews, SchedulerMessage
from weft.wire.runs import ASKED, FENCED, TORN

FULL: Final = {
    "disk-full": (DISK_FLOOR, "no space was left to start a job"),
    "no-files": (FILE_LIMIT, "no more files could be opened to start a job"),
}
FULL_S: Final = 60.0
"""So long nothing is started on a node that has run out of something."""
OVERTAKEN: Final = 2
"""Heartbeats in a row that leave out a run that has started: the first may have been overtaken by the news of it."""


class RunReconciler:
    def __init__(
        self, state: State, members: Mapping[NodeId, RegisteredNode], out: Outbox, checkpoint: Callable[[JobId], str]
    ) -> None:
        self.state = state
        self._members, self._out, self._checkpoint = members, out, checkpoint
        self._gangs = Gangs()

    # ---- what agents say

    def reconcile(self, member: RegisteredNode, runs: Iterable[RunNews], now: Seconds, *, hello: bool = False) -> None:
        """All that a node says of its runs; then what it does not speak of."""
        said = set()
        for run in runs:
            said.add((run.job, run.run))
            self.hear(member, run, now)
        for job in self.on(member.id):
            if (job.id, job.run) not in said:
                self._miss(member, job, hello)

    def hear(self, member: RegisteredNode, said: RunNews, now: Seconds) -> None:
        job = self._job(member, said.job, said.run)
        if job is None:
            self._turn_away(member, said)
            return
        gang = self._gangs.of(job)
        gang.unsaid.pop(member.id, None)
        if said.phase == RunNews.ENDED:
            if member.id not in gang.ends:
                gang.ends[member.id] = run_exited(said, now)
                self._note_full(member, said, now)
            self._add_up(job, gang, now)
            return
        if said.phase == RunNews.STARTED:
            gang.started.add(member.id)
            if gang.all_started() and not gang.said_started and job.status == "starting":
                gang.said_started = True
                self._out.events.append(Started(now, job.id, job.run))
        if gang.is_to_go(job):
            self._order(member, job, gang)

    def _note_full(self, member: RegisteredNode, said: RunNews, now: Seconds) -> None:
        """What keeps every run of this node from starting, not only this one, keeps them away for a while."""
        full = FULL.get(said.end.why)
        if full is not None:
            why, words = full
            member.full[why] = now + FULL_S
            self._out.events.append(Cordoned(now, member.id, why, words))

    def _turn_away(self, member: RegisteredNode, said: RunNews) -> None:
        """A run that has ended for the scheduler, or that it never knew."""
        if said.phase == RunNews.ENDED:
            self._confirm(member, said.job, said.run)
        else:
            self._out.send(member, stop_run(said.job, said.run, member, FENCED, 0.0))

    def _miss(self, member: RegisteredNode, job: JobState, hello: bool) -> None:
        gang = self._gangs.of(job)
        if member.id in gang.ends:
            return
        if member.id in gang.started and not gang.is_to_go(job):
            gang.unsaid[member.id] = gang.unsaid.get(member.id, 0) + 1
            if gang.unsaid[member.id] < OVERTAKEN and not hello:
                return
        self._order(member, job, gang)

    def _add_up(self, job: JobState, gang: Gang, now: Seconds) -> None:
        """A part has ended, or was lost: so has the run, or the others are to go."""
        if gang.left():
            if gang.torn:
                self._order_all(job, gang)
            return
        gang.ended = True
        if not gang.lost_whole(job):
            self._out.events.append(gang.verdict(job, now))
        for node in gang.ends:
            member = self._members.get(node)
            if member is not None:
                self._confirm(member, job.id, job.run)

    # ---- what is wanted of them

    def carry_out(self, job_id: JobId) -> None:
        """Its present run was decided to start or to stop."""
        job = self.state.jobs.get(job_id)
        if job is not None and job.status in ACTIVE:
            self._order_all(job, self._gangs.of(job))

    def _order_all(self, job: JobState, gang: Gang) -> None:
        for node in gang.left():
            member = self._members.get(node)
            if member is not None and member.connected:
                self._order(member, job, gang)

    def _order(self, member: RegisteredNode, job: JobState, gang: Gang) -> None:
        """That it goes, that it is found out about, or that it starts."""
        if job.status == "stopping":
            message: SchedulerMessage | None = stop_run(job.id, job.run, member, job.stop_why)
        elif gang.torn or gang.lost:
            message = stop_run(job.id, job.run, member, TORN)
        elif job.status == "running" or member.id in gang.started:
            message = stop_run(job.id, job.run, member, ASKED)
        else:
            checkpoint = self._checkpoint(job.id) if job.run > 1 else ""
            message = start_run(job, member, self._members, checkpoint)
        if message is not None:
            self._out.send(member, message)

    def _confirm(self, member: RegisteredNode, job: JobId, run: int) -> None:
        self._out.send(member, SchedulerMessage(confirm=Confirm(job=job, run=run)))

    def lose(self, node: NodeId, now: Seconds) -> None:
        """All parts on this node are gone."""
        for job in self.on(node):
            gang = self._gangs.of(job)
            gang.lost.add(node)
            gang.ends.pop(node, None)
            self._add_up(job, gang, now)

    def prune(self) -> None:
        self._gangs.prune(self.state.active)

    # ---- what the state says

    def _job(self, member: RegisteredNode, job_id: JobId, run: int) -> JobState | None:
        """The job, if this is its present run and has a part on this node."""
        job = self.state.running(job_id, run)
        return job if job is not None and self._has_part(job, member.id) else None

    def is_on(self, member: RegisteredNode, job: JobId, run: int) -> bool:
        """Whether this node may speak for this run."""
        return self._job(member, job, run) is not None

    def on(self, node: NodeId) -> list[JobState]:
        """Jobs with a part on a node, as far as it is not known to have ended or to be lost."""
        room = self.state.resources.by_id.get(node)
        runs = room.runs() if room is not None and room.alive else ()
        return [job for job in runs if isinstance(job, JobState) and self._has_part(job, node)]

    def _has_part(self, job: JobState, node: NodeId) -> bool:
        gang = self._gangs.of(job)
        return node in gang.nodes and node not in gang.lost and not gang.ended

"""Reconcile the runs that the state wants with those that agents report. See the table in docs/reference/cluster.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from weft.access.wire.messages import Confirm, RunNews, SchedulerMessage
from weft.access.wire.runs import ASKED, FENCED, NODE_STOPPED, TORN
from weft.model import Cordoned, JobId, NodeId, Seconds, Started
from weft.model.status import ACTIVE, Reason
from weft.node.engine.messages import run_exited
from weft.scheduling.core.state.job import JobState, weave_id
from weft.scheduling.core.state.state import State
from weft.server.nodes.gangs import Gang, Gangs
from weft.server.nodes.health import UNHEALTHY, NodeHealth, may_cordon
from weft.server.nodes.outbox import Outbox
from weft.server.nodes.registered_node import RegisteredNode
from weft.server.nodes.run_messages import start_run, stop_run
from weft.server.pause_reasons import DISK_FLOOR, FILE_LIMIT, RECOVERING
from weft.server.services.replicas import replica_events
from weft.server.weaves.messages import DEFAULT_ORDER, reweave_run, weave_message
from weft.server.weaves.monitor import WeaveMonitor

FULL_NODE: Final = {
    "disk-full": (DISK_FLOOR, "no space was left to start a job"),
    "no-files": (FILE_LIMIT, "no more files could be opened to start a job"),
}
CORDON_S: Final = 60.0
"""The seconds for which a node is cordoned after it ran out of disk space or file handles."""
MISSES_BEFORE_QUERY: Final = 2
"""Heartbeats in a row that leave out a started run before its status is queried. The first may have been sent before
the run started."""

MAX_KILLED: Final = 1000
"""The most killed runs that are remembered, for `weft doctor`."""


class RunReconciler:
    """Compares wanted and reported runs, and sends each node the next message for each part."""

    def __init__(
        self,
        state: State,
        members: Mapping[NodeId, RegisteredNode],
        out: Outbox,
        checkpoint: Callable[[JobId], str],
        order: Callable[[], str] = lambda: DEFAULT_ORDER,
        weaves: WeaveMonitor | None = None,
    ) -> None:
        self.state = state
        self._members, self._out, self._checkpoint, self._order = members, out, checkpoint, order
        self._weaves = weaves or WeaveMonitor()
        self._gangs = Gangs()
        self.health = NodeHealth()
        self.killed: list[str] = []
        """The runs that were killed because the journal does not have them."""

    # ---- reports

    def reconcile(self, member: RegisteredNode, runs: Iterable[RunNews], now: Seconds, *, hello: bool = False) -> None:
        """Apply the reports of a node on all its runs. Then handle the runs that it left out."""
        reported = set()
        for run in runs:
            if (run.job, run.run) not in reported:  # one run, sent 20,000 times, would count as many
                reported.add((run.job, run.run))
                self.apply_report(member, run, now)
        for job in self.jobs_on(member.id):
            if (job.id, job.run) not in reported:
                self._handle_missing(member, job, hello)

    def apply_report(self, member: RegisteredNode, news: RunNews, now: Seconds) -> None:
        """Apply what a node reports of one run."""
        job = self._present_job(member, news.job, news.run)
        if job is None:
            self._reject_run(member, news)
            return
        gang = self._gangs.of(job)
        gang.missed.pop(member.id, None)
        if news.phase == RunNews.ENDED:
            if member.id not in gang.ends:
                if not gang.must_stop(job) and member.id not in gang.started:
                    self.cordon_unhealthy(member, self.health.record_failed_start(member.id, job, news.end.why), now)
                gang.ends[member.id] = run_exited(news, now)
                self._cordon_full(member, news, now)
            self._conclude(job, gang, now)
            return
        if news.phase == RunNews.STARTED:
            gang.started.add(member.id)
            self.health.record_start(member.id)
            if gang.all_started() and not gang.start_reported and job.status == "starting":
                gang.start_reported = True
                rate = self._weaves.expected_rate(self.state, job)
                self._out.events.append(Started(now, job.id, job.run, rate))
        if gang.must_stop(job):
            self._send_next(member, job, gang)
        elif news.phase == RunNews.STARTED and member.id == gang.nodes[0]:
            self._compare_weave(member, job, news, now)
            if news.HasField("replica"):
                self._out.events += replica_events(job, news.replica, member.spec.address, now)

    def _compare_weave(self, member: RegisteredNode, job: JobState, news: RunNews, now: Seconds) -> None:
        """Record the counters of a woven run. If it is not in the weave that was decided, send that again."""
        if news.weave_id != weave_id(job):
            self._out.send(member, reweave_run(job, self.state, member.epoch, self._order()))
        else:
            self._out.events += self._weaves.record(self.state, job, news.weave_id, news.stages, now)

    def cordon_unhealthy(self, member: RegisteredNode, words: str, now: Seconds) -> None:
        """Cordon a node if `words` say what is wrong with it, unless it is the last of its kind or leaves anyway."""
        closed = self.state.closed
        is_closed = any((member.id, why) in closed for why in (UNHEALTHY, Reason.NODE_LEAVING))
        if words and not is_closed and may_cordon(member, self._members, closed):
            self._out.events.append(Cordoned(now, member.id, UNHEALTHY, words))

    def _cordon_full(self, member: RegisteredNode, news: RunNews, now: Seconds) -> None:
        """Cordon a node for a while if it has run out of something that every run needs."""
        full = FULL_NODE.get(news.end.why)
        if full is not None:
            why, words = full
            member.full[why] = now + CORDON_S
            self._out.events.append(Cordoned(now, member.id, why, words))

    def _reject_run(self, member: RegisteredNode, news: RunNews) -> None:
        """Stop a run that the state does not want on this node, or confirm its end."""
        known = self.state.jobs.get(news.job)
        is_unknown = known is None or news.run > known.run
        if is_unknown and RECOVERING in self.state.paused:
            return  # it may be adopted
        if news.phase == RunNews.ENDED:
            self._confirm(member, news.job, news.run)
            return
        if is_unknown and len(self.killed) < MAX_KILLED:
            key = f"run {news.run} of job {news.job} on {member.id}"
            if key not in self.killed:
                self.killed.append(key)
        self._out.send(member, stop_run(news.job, news.run, member, FENCED, 0.0))

    def _handle_missing(self, member: RegisteredNode, job: JobState, hello: bool) -> None:
        gang = self._gangs.of(job)
        if member.id in gang.ends:
            return
        if member.id in gang.started and not gang.must_stop(job):
            gang.missed[member.id] = gang.missed.get(member.id, 0) + 1
            if gang.missed[member.id] < MISSES_BEFORE_QUERY and not hello:
                return
        self._send_next(member, job, gang)

    def _conclude(self, job: JobState, gang: Gang, now: Seconds) -> None:
        """A part has ended or was lost: end the run if it was the last, or stop the others if it failed."""
        if gang.unfinished():
            if gang.has_failed:
                self._send_next_to_all(job, gang)
            return
        gang.ended = True
        if not gang.lost_all_nodes(job):
            self._out.events.append(gang.combined_exit(job, now))
        for node in gang.ends:
            member = self._members.get(node)
            if member is not None:
                self._confirm(member, job.id, job.run)

    # ---- messages

    def execute(self, job_id: JobId) -> None:
        """Send the messages for a run that was decided to start or stop."""
        job = self.state.jobs.get(job_id)
        if job is not None and job.status in ACTIVE:
            self._send_next_to_all(job, self._gangs.of(job))

    def reweave(self, job_id: JobId) -> None:
        """Send the lead node of a run that has started its new weave. Others get it when they have started."""
        job = self.state.jobs.get(job_id)
        if job is None or job.status not in ("starting", "running"):
            return
        gang = self._gangs.of(job)
        member = self._members.get(gang.nodes[0])
        if member is not None and member.connected and member.id in gang.started:
            self._out.send(member, reweave_run(job, self.state, member.epoch, self._order()))

    def _send_next_to_all(self, job: JobState, gang: Gang) -> None:
        for node in gang.unfinished():
            member = self._members.get(node)
            if member is not None and member.connected:
                self._send_next(member, job, gang)

    def _send_next(self, member: RegisteredNode, job: JobState, gang: Gang) -> None:
        """Send the node the next message for this run: stop, status query or start."""
        if job.status == "stopping":
            message: SchedulerMessage | None = stop_run(job.id, job.run, member, job.stop_why)
        elif gang.has_failed or gang.lost:
            message = stop_run(job.id, job.run, member, TORN)
        elif job.status == "running" or member.id in gang.started:
            message = stop_run(job.id, job.run, member, ASKED)
        else:
            checkpoint = self._checkpoint(job.id) if job.run > 1 else ""
            weave = weave_message(job, self.state, self._order()) if job.weave else None
            message = start_run(job, member, self._members, checkpoint, weave, self.state.services.health_of(job))
        if message is not None:
            self._out.send(member, message)

    def _confirm(self, member: RegisteredNode, job: JobId, run: int) -> None:
        self._out.send(member, SchedulerMessage(confirm=Confirm(job=job, run=run)))

    def lose(self, node: NodeId, now: Seconds) -> None:
        """Conclude that all parts on this node are lost."""
        for job in self.jobs_on(node):
            gang = self._gangs.of(job)
            gang.lost.add(node)
            gang.ends.pop(node, None)
            self._conclude(job, gang, now)

    def stop_gangs_of(self, leaving: RegisteredNode) -> None:
        """Let the other parts of gangs save their work while this node stops its own parts."""
        for job in self.jobs_on(leaving.id):
            gang = self._gangs.of(job)
            for node in gang.unfinished() if job.status in ("starting", "running") else ():
                member = self._members.get(node)
                if member is not None and member is not leaving and member.connected:
                    self._out.send(member, stop_run(job.id, job.run, member, NODE_STOPPED))

    def prune(self) -> None:
        self._gangs.prune(self.state.active)
        self._weaves.prune(self.state.active)

    # ---- the state

    def _present_job(self, member: RegisteredNode, job_id: JobId, run: int) -> JobState | None:
        """Return the job if this is its present run and has a part on this node."""
        job = self.state.running(job_id, run)
        return job if job is not None and self._has_part(job, member.id) else None

    def has_run(self, member: RegisteredNode, job: JobId, run: int) -> bool:
        """Return whether this run has a part on this node, so that the node may report on it."""
        return self._present_job(member, job, run) is not None

    def jobs_on(self, node: NodeId) -> list[JobState]:
        """Return the jobs with a part on a node that is not known to have ended or to be lost."""
        host = self.state.resources.by_id.get(node)
        runs = host.runs() if host is not None and host.alive else ()
        return [job for job in runs if isinstance(job, JobState) and self._has_part(job, node)]

    def _has_part(self, job: JobState, node: NodeId) -> bool:
        gang = self._gangs.of(job)
        return node in gang.nodes and node not in gang.lost and not gang.ended

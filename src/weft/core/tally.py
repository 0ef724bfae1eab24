"""Takes facts one by one, each in constant time, and keeps what the figures need: jobs, GPUs held, the queue.

Stale news is dropped by the rules of `core.state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weft.core.busy import Busy, Holder
from weft.core.records import ClusterRow, JobRecord, Status
from weft.model import (
    Cancelled,
    Exited,
    Fact,
    Held,
    Job,
    JobId,
    NodeId,
    NodeJoined,
    NodeLost,
    Released,
    Seconds,
    Start,
    Stop,
    StopReason,
    Submitted,
)

SHORTEST_REST_S = 1.0
"""A job about to end would make the blocking index anything."""


class _Track(Holder):
    """A job as the tally follows it."""

    __slots__ = (
        "attained_s", "cancelling", "end", "failures", "first_start", "gpus_area", "holding", "in_queue_s",
        "job", "jobs_area", "lost", "mark", "offset", "per_s", "preemptions", "rest_s", "rho", "run", "solo_s",
        "started", "status", "stopping", "submit",
    )  # fmt: skip

    def __init__(self, job: Job, at: Seconds, jobs_area: float, gpus_area: float) -> None:
        super().__init__()
        self.job, self.submit, self.jobs_area, self.gpus_area = job, at, jobs_area, gpus_area
        self.status: Status = "waiting"
        self.first_start: Seconds | None = None
        self.end: Seconds | None = None
        self.run = self.preemptions = self.failures = 0
        self.holding = self.cancelling = self.lost = False
        self.stopping: StopReason | None = None
        """Why its run was told to stop, if it was."""
        self.solo_s: float | None = None
        self.rho: float | None = None
        self.started = self.mark = at
        self.attained_s = self.in_queue_s = self.per_s = self.offset = 0.0
        self.rest_s = job.declared_s
        if job.iterations is not None and job.profile is not None:
            self.rest_s = job.iterations * job.profile.iteration_s


class Tally:
    def __init__(self, solo_s: Mapping[JobId, float]) -> None:
        self.now: Seconds = 0.0
        self._solo_s = solo_s
        self._jobs: dict[JobId, _Track] = {}
        self._busy = Busy()
        self._nodes: dict[NodeId, int] = {}
        self._active: dict[JobId, _Track] = {}
        self._gpus = self._present = self._pending = self._known = 0
        self._jobs_area = self._gpus_area = 0.0
        self._per_s = self._offset = 0.0
        """Of the pending whose rest is known: the sum of pending time / rest is `now * per_s - offset`."""
        self._rows: list[ClusterRow] = []
        self._changed = False
        self._on: dict[type, Callable[[Any], None]] = {
            NodeJoined: self._node_joined, NodeLost: self._node_lost, Submitted: self._submitted,
            Cancelled: self._cancelled, Held: self._held, Released: self._released, Exited: self._exited,
            Start: self._start, Stop: self._stop,
        }  # fmt: skip

    def take(self, facts: Iterable[Fact]) -> None:
        on = self._on
        for fact in facts:
            handle = on.get(type(fact))
            if handle is not None:
                if fact.at > self.now:
                    self._advance(fact.at)
                handle(fact)

    def close(self) -> list[ClusterRow]:
        """The rows, the last of them at the last instant; what still runs is counted up to it."""
        self._add_row()
        for job in self._active.values():
            self._busy.settle(job, self.now)
        return self._rows

    def records(self) -> list[JobRecord]:
        return [
            JobRecord(
                job.job.id, job.job.user, job.job.gpus, job.status, job.submit, job.first_start, job.end, job.run,
                job.preemptions, self._queue_s(job), job.gpu_seconds, job.solo_s, job.rho,
            )
            for job in self._jobs.values()
        ]  # fmt: skip

    # ---- time

    def _advance(self, at: Seconds) -> None:
        if self._changed:
            self._add_row()
            self._changed = False
        elapsed = at - self.now
        self._jobs_area += self._present * elapsed
        self._gpus_area += self._gpus * elapsed
        self.now = at

    def _add_row(self) -> None:
        now = self.now
        blocking = max(now * self._per_s - self._offset, 0.0) / self._known if self._known else 0.0
        self._rows.append((now, self._busy.gpus, self._gpus, self._pending, len(self._active), blocking))

    # ---- nodes

    def _node_joined(self, fact: NodeJoined) -> None:
        if fact.node.id not in self._nodes:
            self._nodes[fact.node.id] = len(fact.node.gpus)
            self._busy.join(fact.node)
            self._gpus += len(fact.node.gpus)
            self._changed = True

    def _node_lost(self, fact: NodeLost) -> None:
        if fact.node not in self._nodes:
            return
        for job in list(self._active.values()):
            gone = tuple(part for part in job.slots if part[0] == fact.node)
            if gone:
                self._busy.release_some(job, gone, fact.at)
                job.lost = True
                if not job.slots:
                    self._off(job, fact.at)
                    self._put_back(job, fact.at)
        self._gpus -= self._nodes.pop(fact.node)
        self._busy.lose(fact.node)
        self._changed = True

    # ---- jobs

    def _submitted(self, fact: Submitted) -> None:
        if fact.job.id not in self._jobs:
            job = _Track(fact.job, fact.at, self._jobs_area, self._gpus_area)
            self._jobs[fact.job.id] = job
            self._present += 1
            self._queue(job, fact.at)

    def _cancelled(self, fact: Cancelled) -> None:
        job = self._jobs.get(fact.job)
        if job is None or job.end is not None:
            return
        if job.status == "running":
            job.cancelling = True
            return
        if job.status == "waiting":
            self._unqueue(job, fact.at)
        self._end(job, "cancelled", fact.at)

    def _held(self, fact: Held) -> None:
        job = self._jobs.get(fact.job)
        if job is not None and job.end is None:
            job.holding = True
            if job.status == "waiting":
                self._unqueue(job, fact.at)
                job.status = "held"

    def _released(self, fact: Released) -> None:
        job = self._jobs.get(fact.job)
        if job is not None and job.holding:
            job.holding = False
            if job.status == "held":
                self._queue(job, fact.at)

    # ---- runs

    def _start(self, fact: Start) -> None:
        job = self._jobs.get(fact.job)
        if job is None or job.status != "waiting" or fact.run != job.run + 1:
            return
        at = fact.at
        self._unqueue(job, at)
        job.status, job.run, job.started, job.stopping, job.lost = "running", fact.run, at, None, False
        if job.first_start is None:
            job.first_start = at
        self._active[fact.job] = job
        self._busy.hold(job, fact.slots, at, len(fact.weave) > 1)

    def _stop(self, fact: Stop) -> None:
        job = self._active.get(fact.job)
        if job is not None and job.run == fact.run and job.stopping is None:
            job.stopping = fact.why

    def _exited(self, fact: Exited) -> None:
        job = self._active.get(fact.job)
        if job is None or job.run != fact.run:
            return
        self._busy.release(job, fact.at)
        self._off(job, fact.at)
        failed = fact.how == "failed" and job.stopping is None and not job.lost
        if fact.remaining_s is not None:
            job.rest_s = fact.remaining_s
        if fact.how == "done":
            self._end(job, "done", fact.at)
        elif failed and not job.cancelling and job.failures >= job.job.retries:
            self._end(job, "failed", fact.at)
        else:
            job.failures += failed
            job.preemptions += fact.how == "stopped" and job.stopping == "preempted" and not job.cancelling
            self._put_back(job, fact.at)

    def _off(self, job: _Track, at: Seconds) -> None:
        del self._active[job.job.id]
        job.attained_s += at - job.started
        self._changed = True

    def _put_back(self, job: _Track, at: Seconds) -> None:
        if job.cancelling:
            self._end(job, "cancelled", at)
        elif job.holding:
            job.status = "held"
        else:
            self._queue(job, at)

    def _end(self, job: _Track, status: Status, at: Seconds) -> None:
        job.status, job.end = status, at
        job.solo_s = self._solo_s.get(job.job.id, job.attained_s)
        if status == "done":
            job.rho = self._rho(job, at)
        self._present -= 1
        self._changed = True

    def _rho(self, job: _Track, at: Seconds) -> float | None:
        jct_s = at - job.submit
        if not job.solo_s or jct_s <= 0:
            return None
        jobs, gpus = self._jobs_area - job.jobs_area, self._gpus_area - job.gpus_area
        shares = job.job.gpus * jobs / gpus if gpus else 1.0
        return jct_s / (job.solo_s * max(1.0, shares))

    # ---- the queue

    def _queue_s(self, job: _Track) -> float:
        return job.in_queue_s + (self.now - job.mark if job.status == "waiting" else 0.0)

    def _queue(self, job: _Track, at: Seconds) -> None:
        job.status, job.mark = "waiting", at
        self._pending += 1
        self._changed = True
        if job.rest_s is not None:
            job.per_s = per_s = 1.0 / max(job.rest_s, SHORTEST_REST_S)
            job.offset = (at - job.in_queue_s) * per_s
            self._known += 1
            self._per_s += per_s
            self._offset += job.offset

    def _unqueue(self, job: _Track, at: Seconds) -> None:
        job.in_queue_s += at - job.mark
        self._pending -= 1
        self._changed = True
        if job.rest_s is not None:
            self._known -= 1
            self._per_s -= job.per_s
            self._offset -= job.offset
            if not self._known:
                self._per_s = self._offset = 0.0

"""The state: what the facts so far add up to. `State.apply(fact)` is the only way to change it.

A job waits until a `Start` decision gives its next run GPUs. The run is *starting* until `Started`, then *running*.
A `Stop` makes it *stopping*, and its GPUs stay its own until `Exited`: stopping is two-phase. A run that ends by itself
is *done* or *failed*; one that was stopped, or lost with its node, waits again. `TRANSITIONS` has it all; whatever it
does not have, and any news of an old run, is dropped.

Equal keys are told apart by a job's `stamp`: those running come first, in the order in which they started; then those
put back, the latest first, so that who just lost its GPUs is next; then the others, first come first. A job that is
moved keeps its stamp. A job whose key stepped goes to the tail, and if it still runs at the next instant it joins the
end of the running.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from weft.core.floor import Floor
from weft.core.job import ACTIVE, ENDED, JobState, Status
from weft.core.shapes import Shape, shape_of_weave
from weft.model import (
    Alarm,
    Cancelled,
    Exited,
    Fact,
    Held,
    JobId,
    NodeId,
    NodeJoined,
    NodeLost,
    Planned,
    Progressed,
    Released,
    Reserve,
    Seconds,
    Start,
    Started,
    Stepped,
    Stop,
    Submitted,
    Wake,
)

TRANSITIONS: Final[dict[str, dict[Status, Status]]] = {
    "Start": {"waiting": "starting"},
    "Started": {"starting": "running"},
    "Stop": {"starting": "stopping", "running": "stopping"},
    "Held": {"waiting": "held"},
    "Released": {"held": "waiting"},
    "Cancelled": {"waiting": "cancelled", "held": "cancelled"},
    "done": {"starting": "done", "running": "done", "stopping": "done"},
    "failed": {"starting": "failed", "running": "failed", "stopping": "waiting"},
    "stopped": {"starting": "waiting", "running": "waiting", "stopping": "waiting"},
    "lost": {"starting": "waiting", "running": "waiting", "stopping": "waiting"},
}
_STARTS, _STARTED, _STOPS = TRANSITIONS["Start"], TRANSITIONS["Started"], TRANSITIONS["Stop"]
RUNNING_STAMPS: Final = -(2**50)
RECENT: Final = 1000
"""How many submissions make up the recent mix of demands."""
PLANNED_STOPS: Final = frozenset({"preempted", "moved"})
"""After these somebody is already meant to have the GPUs."""


class State:
    def __init__(self, oversubscription: float = 1.0) -> None:
        self.now: Seconds = 0.0
        self.jobs: dict[JobId, JobState] = {}
        self.active: dict[JobId, JobState] = {}
        """Those that hold GPUs, in the order in which they started."""
        self.waiting: dict[JobId, JobState] = {}
        self.ended: dict[JobId, JobState] = {}
        self.floor = Floor(oversubscription)
        self.gpus = 0
        """GPUs of the living nodes."""
        self.touched: dict[JobId, JobState] = {}
        """Jobs whose place in the order may have changed; the scheduler's order drains it."""
        self.orphans: dict[JobId, JobState] = {}
        """Runs to be stopped whatever the policy says: cancelled, or with a part of their gang lost."""
        self.planned_at: Seconds = float("-inf")
        self.pending: tuple[tuple[JobId, ...], ...] = ()
        """What a replanner planned last, as far as it waits for GPUs."""
        self.news = False
        """Something happened that a plan should look at; the scheduler clears it."""
        self.vacated = False
        """A run that was told to stop has left; the scheduler clears it."""
        self._seq = self._front = self._runs = 0
        self._stepped: list[JobState] = []
        self._recent: deque[Shape] = deque()
        self._on: dict[type, Callable[[Any], bool]] = {
            NodeJoined: self._node_joined, NodeLost: self._node_lost, Submitted: self._submitted,
            Cancelled: self._cancelled, Held: self._held, Released: self._released, Started: self._started,
            Progressed: self._progressed, Exited: self._exited, Wake: self._wake, Start: self._start,
            Stop: self._stop, Reserve: self._reserve, Stepped: self._step, Planned: self._planned,
            Alarm: self._alarm,
        }  # fmt: skip

    def apply(self, fact: Fact) -> bool:
        """Folds a fact in; False where it was stale or impossible, and dropped."""
        if fact.at > self.now:
            self.now = fact.at
            if self._stepped:
                self._settle()
        return self._on[type(fact)](fact)

    def _settle(self) -> None:
        """Jobs whose key stepped at an earlier instant and that still run join the end of the running."""
        for job in sorted(self._stepped, key=lambda job: job.stamp):
            if job.status in ACTIVE and not job.leaving:
                job.stamp = self._next_run_stamp()
                self.touched[job.id] = job
        self._stepped.clear()

    def _next_run_stamp(self) -> int:
        self._runs += 1
        return RUNNING_STAMPS + self._runs

    def _next_tail_stamp(self) -> int:
        self._seq += 1
        return self._seq

    # ---- nodes

    def _node_joined(self, fact: NodeJoined) -> bool:
        known = self.floor.by_id.get(fact.node.id)
        if known is not None and known.alive:
            return False
        self.floor.join(fact.node)
        self.gpus += len(fact.node.gpus)
        self.news = True
        return True

    def _node_lost(self, fact: NodeLost) -> bool:
        room = self.floor.by_id.get(fact.node)
        if room is None or not room.alive:
            return False
        for job in [job for job in self.active.values() if any(node == fact.node for node, _ in job.slots)]:
            gone = tuple(part for part in job.slots if part[0] == fact.node)
            rest = tuple(part for part in job.slots if part[0] != fact.node)
            self.floor.release(job, gone, last=not rest)
            job.slots = rest
            if rest:
                job.lost = True
                if job.status != "stopping":
                    self.orphans[job.id] = job
            else:
                self._put_back(job, "lost", fact.at)
        self._unreserve(fact.node)
        self.floor.lose(room)
        self.gpus -= len(room.node.gpus)
        self.news = True
        return True

    def _unreserve(self, node: NodeId) -> None:
        for job in self.waiting.values():
            if job.reserved:
                job.reserved = tuple(part for part in job.reserved if part[0] != node)

    # ---- what users do

    def _submitted(self, fact: Submitted) -> bool:
        if fact.job.id in self.jobs:
            return False
        job = JobState(fact.job, self._next_tail_stamp(), fact.at)
        self._remember(job.shape)
        self.jobs[job.id] = self.waiting[job.id] = self.touched[job.id] = job
        self.news = True
        return True

    def _remember(self, shape: Shape) -> None:
        """Keeps count of what was asked for lately."""
        recent = self.floor.recent
        self._recent.append(shape)
        recent[shape] += 1
        if len(self._recent) > RECENT:
            oldest = self._recent.popleft()
            recent[oldest] -= 1
            if not recent[oldest]:
                del recent[oldest]

    def _cancelled(self, fact: Cancelled) -> bool:
        job = self.jobs.get(fact.job)
        if job is None or job.status in ENDED or job.cancelling:
            return False
        if job.status in ACTIVE:
            job.cancelling = True
            if job.status != "stopping":
                self.orphans[job.id] = job
            return True
        self._end(job, TRANSITIONS["Cancelled"][job.status], fact.at)
        self.news = True
        return True

    def _held(self, fact: Held) -> bool:
        job = self.jobs.get(fact.job)
        if job is None or job.status in ENDED or job.holding:
            return False
        job.holding = True
        if job.status in TRANSITIONS["Held"]:
            job.status = TRANSITIONS["Held"][job.status]
            del self.waiting[job.id]
            self.touched[job.id] = job
            self.news = True
        return True

    def _released(self, fact: Released) -> bool:
        job = self.jobs.get(fact.job)
        if job is None or not job.holding:
            return False
        job.holding = False
        if job.status in TRANSITIONS["Released"]:
            job.status = TRANSITIONS["Released"][job.status]
            self.waiting[job.id] = self.touched[job.id] = job
            self.news = True
        return True

    # ---- runs

    def _start(self, fact: Start) -> bool:
        job = self.jobs.get(fact.job)
        status = _STARTS.get(job.status) if job is not None else None
        if job is None or status is None or fact.run != job.run + 1:
            return False
        job.status, job.run, job.share, job.weave = status, fact.run, fact.share, fact.weave
        job.slots = job.placed = fact.slots
        job.reserved = ()
        if fact.share is not job.job.share:
            job.seat = shape_of_weave((job.shape,), fact.share, job.job.where)
        else:
            job.seat = job.shape
        job.started_at = fact.at
        if job.first_start is None:
            job.first_start = fact.at
        if job.stop_why != "moved":
            job.stamp = self._next_run_stamp()
        job.stop_why = "preempted"
        self.floor.hold(job, fact.slots)
        del self.waiting[job.id]
        self.active[job.id] = self.touched[job.id] = job
        return True

    def _running(self, job_id: JobId, run: int) -> JobState | None:
        """The job, if this is its present run."""
        job = self.jobs.get(job_id)
        return job if job is not None and job.run == run and job.status in ACTIVE else None

    def _started(self, fact: Started) -> bool:
        job = self._running(fact.job, fact.run)
        status = _STARTED.get(job.status) if job is not None else None
        if job is None or status is None:
            return False
        job.status, job.rate, job.mark = status, fact.rate, fact.at
        self.touched[job.id] = job
        return True

    def _progressed(self, fact: Progressed) -> bool:
        job = self._running(fact.job, fact.run)
        if job is None:
            return False
        if fact.remaining_s is not None:
            job.remaining_s = fact.remaining_s
        elif job.remaining_s is not None:
            job.remaining_s = job.remaining(fact.at)
        job.mark = fact.at
        self.floor.touch(job.slots)
        if job.status == "running":
            job.rate = fact.rate
        self.touched[job.id] = job
        return True

    def _stop(self, fact: Stop) -> bool:
        job = self._running(fact.job, fact.run)
        status = _STOPS.get(job.status) if job is not None else None
        if job is None or status is None:
            return False
        job.status, job.stop_why, job.leaving = status, fact.why, True
        self.orphans.pop(job.id, None)
        if job.stepped_at != fact.at and fact.why != "moved":
            self._front -= 1
            job.stamp = self._front
        self.floor.leave(job, job.slots)
        self.touched[job.id] = job
        return True

    def _exited(self, fact: Exited) -> bool:
        job = self._running(fact.job, fact.run)
        if job is None:
            return False
        if job.leaving and fact.how == "stopped" and job.stop_why in PLANNED_STOPS:
            self.vacated = True
        else:
            self.news = True
        self.floor.release(job, job.slots)
        job.slots = ()
        if fact.remaining_s is not None:
            job.remaining_s = fact.remaining_s
        elif job.remaining_s is not None:
            job.remaining_s = job.remaining(fact.at)
        how = "lost" if job.lost and fact.how == "failed" else fact.how
        status = TRANSITIONS[how][job.status]
        if job.cancelling and status != "done":
            status = "cancelled"
        elif status == "failed" and job.failures < job.job.retries:
            job.failures += 1
            status = "waiting"
            job.stamp = self._next_tail_stamp()
        if status == "waiting":
            self._put_back(job, fact.how, fact.at)
        else:
            self._end(job, status, fact.at)
        return True

    def _put_back(self, job: JobState, how: str, at: Seconds) -> None:
        """The run is over and the job waits for its next."""
        if how == "stopped" and job.stop_why == "preempted":
            job.preemptions += 1
        elif how == "stopped" and job.stop_why == "moved":
            job.moves += 1
        if job.stamp < RUNNING_STAMPS // 2 and not job.leaving:
            self._front -= 1
            job.stamp = self._front
        self._off(job, at)
        if job.cancelling:
            self._end(job, "cancelled", at)
            return
        job.waiting_since = at
        job.status = "held" if job.holding else "waiting"
        if not job.holding:
            self.waiting[job.id] = job
        self.touched[job.id] = job

    def _end(self, job: JobState, status: Status, at: Seconds) -> None:
        if job.status in ACTIVE:
            self._off(job, at)
        else:
            self.waiting.pop(job.id, None)
        job.status, job.ended_at = status, at
        self.ended[job.id] = job
        self.touched[job.id] = job

    def _off(self, job: JobState, at: Seconds) -> None:
        """The run holds nothing any more."""
        job.attained_s += at - job.started_at
        job.status, job.rate, job.leaving, job.lost, job.weave = "waiting", 0.0, False, False, ()
        self.active.pop(job.id, None)
        self.orphans.pop(job.id, None)

    # ---- the scheduler's own

    def _wake(self, _fact: Wake) -> bool:
        self.news = True
        return True

    def _alarm(self, _fact: Alarm) -> bool:
        return True

    def _planned(self, fact: Planned) -> bool:
        self.planned_at, self.pending = fact.at, fact.pending
        return True

    def _reserve(self, fact: Reserve) -> bool:
        job = self.waiting.get(fact.job)
        if job is None:
            return False
        job.reserved = fact.slots
        return True

    def _step(self, fact: Stepped) -> bool:
        job = self.jobs.get(fact.job)
        if job is None or job.status in ENDED:
            return False
        job.key, job.stepped_at, job.stamp = fact.key, fact.at, self._next_tail_stamp()
        self.floor.touch(job.slots)
        self._stepped.append(job)
        self.touched[job.id] = job
        return True

"""The state that the facts so far add up to. `State.apply(fact)` is the only way to change it.

`apply` has one function per fact; `transitions` has the table of statuses.

A job's `tie_breaker` orders jobs of equal keys: running jobs come first, in the order in which they started; then jobs
put back, the latest first, so that a job that just lost its GPUs is next; then the others, first come first. A job that
is moved keeps its tie-breaker. A job whose key stepped goes to the tail, and if it still runs at the next instant it
joins the end of the running jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from weft.model import (
    AdminAction,
    Alarm,
    AllocationEnded,
    AllocationGranted,
    AllocationReleased,
    AllocationRequested,
    BatchLimited,
    Blocked,
    Cancelled,
    Continued,
    Cordoned,
    Deployed,
    DrainReplica,
    Edited,
    Evicted,
    Exited,
    Fact,
    GroupLimited,
    Held,
    JobId,
    JobSnapshot,
    KeyChanged,
    Limited,
    Measured,
    Move,
    NodeEndChanged,
    NodeId,
    NodeJoined,
    NodeLost,
    Paused,
    Planned,
    PoolAdded,
    PoolChanged,
    PoolPaused,
    PoolRemoved,
    PoolResumed,
    PoolSnapshot,
    Profiled,
    Progressed,
    Purged,
    Ready,
    Released,
    ReplicaDrained,
    Reported,
    Reserve,
    Resized,
    Resumed,
    Rewoven,
    RolledBack,
    Seconds,
    ServiceSnapshot,
    Start,
    Started,
    StateSnapshot,
    Stop,
    Submitted,
    Suspended,
    TeamRemoved,
    TeamSet,
    Unblocked,
    Uncordoned,
    Undeployed,
    Unready,
    Unwoven,
    Used,
    Wake,
)
from weft.model.status import ACTIVE, ENDED
from weft.scheduling.core.resources.cluster import ClusterResources
from weft.scheduling.core.resources.node import Closure, Occupant
from weft.scheduling.core.state.apply import jobs, nodes, plans, pools, profiles, runs, services, snapshots, teams
from weft.scheduling.core.state.durations import Durations
from weft.scheduling.core.state.eligibility import Eligibility
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.pools import Pools
from weft.scheduling.core.state.profiles import Profiles
from weft.scheduling.core.state.services import Services
from weft.scheduling.core.state.teams import Teams
from weft.scheduling.core.state.transitions import Cause, change_status

RUNNING_TIES: Final = -(2**50)
FOLDS: Final[dict[type, Callable[[State, Any], bool]]] = {
    NodeJoined: nodes.joined, NodeLost: nodes.lost, NodeEndChanged: nodes.end_changed,
    Blocked: nodes.blocked, Unblocked: nodes.unblocked,
    Cordoned: nodes.cordoned, Uncordoned: nodes.uncordoned, Limited: jobs.limited,
    GroupLimited: jobs.group_limited, BatchLimited: jobs.batch_limited,
    Submitted: jobs.submitted, Edited: jobs.edited, Cancelled: jobs.cancelled, Held: jobs.held,
    Released: jobs.released, Purged: jobs.purged, Paused: jobs.paused, Resumed: jobs.resumed,
    Suspended: runs.suspended, Continued: runs.continued,
    Start: runs.start, Started: runs.started, Progressed: runs.progressed, Measured: runs.measured, Stop: runs.stop,
    Reported: runs.reported,
    Used: runs.used,
    Evicted: runs.evicted, Exited: runs.exited, Rewoven: runs.rewoven, Unwoven: runs.unwoven,
    Profiled: profiles.profiled,
    AdminAction: plans.admin_action, Wake: plans.wake, Reserve: plans.reserve,
    KeyChanged: plans.key_changed, Planned: plans.planned, Alarm: plans.alarm,
    Deployed: services.deployed, Undeployed: services.undeployed, Ready: services.ready, Unready: services.unready,
    ReplicaDrained: services.replica_drained, Resized: services.resized, DrainReplica: services.drain_replica,
    Move: services.move, RolledBack: services.rolled_back, ServiceSnapshot: services.restore_service,
    PoolAdded: pools.added, PoolChanged: pools.changed, PoolRemoved: pools.removed, PoolPaused: pools.paused,
    PoolResumed: pools.resumed, AllocationRequested: pools.requested, AllocationGranted: pools.granted,
    AllocationReleased: pools.released, AllocationEnded: pools.ended, PoolSnapshot: pools.restore_pool,
    TeamSet: teams.team_set, TeamRemoved: teams.team_removed,
    JobSnapshot: snapshots.restore_job, StateSnapshot: snapshots.restore_state,
}  # fmt: skip


class State:
    def __init__(self, oversubscription: float = 1.0) -> None:
        self.now: Seconds = 0.0
        self.jobs: dict[JobId, JobState] = {}
        self.active: dict[JobId, JobState] = {}
        """Jobs that hold GPUs, in the order in which they started."""
        self.waiting: dict[JobId, JobState] = {}
        self.ended: dict[JobId, JobState] = {}
        self.services = Services()
        self.pools = Pools()
        self.teams = Teams()
        self.eligibility = Eligibility(self.jobs)
        self.resources = ClusterResources(oversubscription)
        self.timed = False
        """True once a node has joined that leaves at a known time: shapes then include the time that jobs need."""
        self.durations = Durations()
        self.profiles = Profiles()
        self.occupants: dict[tuple[NodeId, int, str], Occupant] = {}
        """The occupants of GPUs, by node, GPU and reason."""
        self.closed: dict[tuple[NodeId, str], Closure] = {}
        """The closures of cordoned nodes, by node and reason; lost nodes keep theirs."""
        self.cleared: dict[NodeId, tuple[str, ...]] = {}
        """The last faults for which each node was cordoned and opened again: they are known, and no news."""
        self.gpus = 0
        """GPUs of the living nodes."""
        self.highest_id = 0
        self.paused: dict[str, str] = {}
        """The reasons why no new jobs start, each with its detail; empty: not paused."""
        self.touched: dict[JobId, JobState] = {}
        """Jobs whose place in the order may have changed; the scheduler's order drains it."""
        self.orphans: dict[JobId, JobState] = {}
        """Runs that must stop whatever the policy decides: cancelled, evicted, or with a part of their gang lost."""
        self.planned_at: Seconds = float("-inf")
        self.pending: tuple[tuple[JobId, ...], ...] = ()
        """The jobs of a replanner's last plan that still wait for GPUs."""
        self.news = False
        """True if an event calls for a plan; the scheduler clears it."""
        self.vacated = False
        """True if a stopping run has exited; the scheduler clears it."""
        self.stepped: list[JobState] = []
        """Jobs whose key stepped at this instant."""
        self._seq = self._front = self._runs = 0

    def apply(self, fact: Fact) -> bool:
        """Fold a fact into the state; return False if it was stale or impossible, and dropped."""
        if fact.at > self.now:
            self.now = fact.at
            if self.stepped:
                self._settle()
            if fact.at >= self.eligibility.opens_at:
                self._begin()
        return FOLDS[type(fact)](self, fact)

    def running(self, job_id: JobId, run: int) -> JobState | None:
        """Return the job if this is its present run."""
        job = self.jobs.get(job_id)
        return job if job is not None and job.run == run and job.status in ACTIVE else None

    def partners(self, job: JobState) -> list[JobId]:
        """Return the jobs that this one takes turns with now: those of its weave that still run in it."""
        if not job.active:
            return []
        others = (self.active.get(name) for name in job.weave if name != job.id)
        return [each.id for each in others if each is not None and each.weave == job.weave]

    # ---- for the folds

    @property
    def ties(self) -> tuple[int, int, int]:
        """The last tie-breakers given out: at the tail, at the front and to runs."""
        return self._seq, self._front, self._runs

    @ties.setter
    def ties(self, ties: tuple[int, int, int]) -> None:
        self._seq, self._front, self._runs = ties

    def next_run_tie(self) -> int:
        self._runs += 1
        return RUNNING_TIES + self._runs

    def next_tail_tie(self) -> int:
        self._seq += 1
        return self._seq

    def next_front_tie(self) -> int:
        self._front -= 1
        return self._front

    def _settle(self) -> None:
        """Move jobs that still run, and whose key stepped at an earlier instant, to the end of the running jobs."""
        for job in sorted(self.stepped, key=lambda job: job.tie_breaker):
            if job.status in ACTIVE and not job.releasing:
                job.tie_breaker = self.next_run_tie()
                self.touched[job.id] = job
        self.stepped.clear()

    def _begin(self) -> None:
        """Let jobs whose begin time has come wait for GPUs."""
        for job in self.eligibility.pop_due(self.now):
            first, job.begin_at = job.before_begin, None
            if first:
                jobs.check_eligibility(self, job, self.now)
            else:
                self._open_again(job)
            self.news = True

    def line(self, job: JobState) -> dict[JobId, JobState]:
        """Return the waiting jobs among which this one belongs: replicas wait apart from other jobs."""
        return self.waiting if job.job.replica is None else self.services.waiting

    def count_id(self, job: JobId) -> None:
        """Record the highest number given to a job, purged jobs included, so that no number is given twice."""
        text = job if job.isdecimal() else job.partition("_")[0]
        if text.isdecimal() and (number := int(text)) > self.highest_id:
            self.highest_id = number

    def open(self, job: JobState) -> None:
        """Let an eligible job wait for GPUs, or hold it."""
        self.touched[job.id] = job
        if not job.held:
            change_status(job, "eligible")
            self.line(job)[job.id] = job
            return
        change_status(job, "Held")
        for follower in self.eligibility.free_place(job):
            self.open(follower)

    def _open_again(self, job: JobState) -> None:
        """Let a job wait for its next run, unless its group was paused or got a lower limit meanwhile."""
        if job.held or self.eligibility.groups.keep(job):
            self.open(job)
        else:
            if job.status == "waiting":
                change_status(job, "ineligible")
            self.touched[job.id] = job

    def put_back(self, job: JobState, how: Cause, at: Seconds, why: str) -> None:
        """End a run whose job runs again: the job waits for its next run."""
        if how in ("stopped", "requeued") and job.releasing and job.stop_why in ("preempted", "reclaimed"):
            job.preemptions += 1
        elif how == "stopped" and job.releasing and job.stop_why == "moved":
            job.moves += 1
        if job.tie_breaker < RUNNING_TIES // 2 and not job.releasing:
            job.tie_breaker = self.next_front_tie()
        if job.cancelling:
            self.end(job, "cancelling", at)
            return
        task = job.job.task
        if task is not None and task.requeue is False and job.rate and how in ("stopped", "lost", "failed"):
            self.end(job, "unrepeatable", at, why)
            return
        self._off(job, at)
        change_status(job, how)
        job.waiting_since = at
        if job.begin_at is None:
            self._open_again(job)
        else:
            change_status(job, "ineligible")
            self.touched[job.id] = job
            self.eligibility.delay(job)

    def end(self, job: JobState, cause: Cause, at: Seconds, why: str = "") -> None:
        """End the job, and its dependents if it is not done."""
        ending = [(job, cause, why)]
        while ending:
            job, cause, why = ending.pop()
            if job.status in ENDED:  # doomed by a job and by its batch
                continue
            if job.status in ACTIVE:
                self._off(job, at)
            else:
                self.line(job).pop(job.id, None)
            change_status(job, cause)
            if why != job.why:  # it is not its last run that ends it
                job.detail = ""
            job.ended_at, job.why = at, why
            self.ended[job.id] = self.touched[job.id] = job
            if job.job.replica is not None:
                self.services.remove(job)
            if job.status == "done":
                self.durations.learn(job.job, job.attained_s)
            if not (job.job.batch or job.unmet_dependencies or self.eligibility.concerns(job)):
                continue
            for follower in self.eligibility.leave(job):
                if self.eligibility.doomed(follower) is None:
                    self.open(follower)
                else:
                    ending.append((follower, "doomed", "dependency"))

    def _off(self, job: JobState, at: Seconds) -> None:
        """Remove a run that has exited from the active jobs."""
        job.attained_s = job.service_s = job.attained(at)
        job.rate, job.releasing, job.lost, job.suspended, job.weave = 0.0, False, False, False, ()
        if job.job.replica is not None:
            job.ready_at, job.address, job.unreachable = None, "", False
            self.services.touch()
        self.active.pop(job.id, None)
        self.orphans.pop(job.id, None)

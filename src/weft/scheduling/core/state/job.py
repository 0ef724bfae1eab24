"""The state of a job. Any code may read it; only `State.apply` writes it."""

from __future__ import annotations

from math import inf
from typing import Any

from weft.model import WHOLE, Job, JobId, JobReport, Seconds, Share, Slots, StopReason, Use
from weft.model.status import ACTIVE, Status
from weft.scheduling.core.resources.shapes import Shape, exclusive_shape, shape_of

Place = tuple[Any, Any, float]
"""A sorted list, an entry of it, and the slope of the key."""


class JobState:
    __slots__ = (
        "address", "allocation", "attained_s", "begin_at", "cancelling", "code", "delays", "detail", "drained",
        "draining_since", "ended_at", "exclusive", "failed_node", "failed_rank", "failures", "first_start", "gpus",
        "held", "held_why", "id", "job", "key", "key_changed_at", "leaving", "lost", "measured_mb", "moves",
        "over_group_limit", "over_quota", "place", "placed", "predicted_s", "preemptions", "rate", "rate_since",
        "ready_at", "reclaimed_at", "releasing", "remaining_s", "reported", "reports_left", "requeues", "reserved",
        "run", "seq", "service_s", "shape", "share", "slots", "started_at", "status", "stop_why", "submitted_at",
        "suspended", "tie_breaker", "unmet_dependencies", "unreachable", "unwoven", "use", "waiting_since",
        "wanted_share", "weave", "why", "worked_s", "woven_at",
    )  # fmt: skip

    def __init__(self, job: Job, seq: int, at: Seconds) -> None:
        self.id, self.seq, self.submitted_at, self.waiting_since = job.id, seq, at, at
        self.exclusive = False
        """True once the job ran out of GPU memory: from then on it shares its GPUs with no other job."""
        self.measured_mb = 0
        """The most memory measured on one of its GPUs."""
        self.over_quota = False
        """True while the quota of its user has no room for the job."""
        self.over_group_limit = False
        """True while its group has no place left for the job, or is paused."""
        self.unmet_dependencies: dict[JobId, None] = {}
        """Jobs and batches that must be done before the job becomes eligible."""
        self.become(job)
        self.allocation: Shape = self.shape
        """The shape that its run holds, with the share and memory it started with."""
        self.share = job.share
        self.status: Status = "waiting"
        self.run = 0
        """The number of the latest run; 0 before the first."""
        self.slots: Slots = ()
        self.placed: Slots = ()
        """The GPUs the run started on, in rank order; `slots` has those it still holds."""
        self.reserved: Slots = ()
        self.weave: tuple[JobId, ...] = ()
        self.woven_at = -1.0
        """When its present weave was formed: one time for all its members, also for the ones that join later."""
        self.unwoven = ""
        """Why the job is not woven any more: it does not keep to its turns. Empty: it may be woven."""
        self.releasing = self.cancelling = self.held = self.lost = self.suspended = False
        self.held_why = ""
        """`StoppedEarly`: a rule of early stopping holds it."""
        self.reported: JobReport | None = None
        """Its last report that is journalled; None: it has reported nothing."""
        self.stop_why: StopReason = "preempted"
        self.first_start: Seconds | None = None
        self.started_at = self.rate_since = self.key_changed_at = -1.0
        """`rate_since`: when the run started, or when `rate` and `remaining_s` were last set."""
        self.ended_at: Seconds | None = None
        self.attained_s = self.service_s = 0.0
        """Seconds it held GPUs: in runs that have ended; in all its runs, up to `rate_since`."""
        self.worked_s = 0.0
        """Solo seconds of work that its next run need not repeat, up to `rate_since`."""
        self.rate = 0.0
        """Solo seconds of work per second, while running."""
        self.predicted_s: float | None = None
        """The seconds that similar jobs took, as of its last start; None: unknown, or it declares its own."""
        self.preemptions = self.failures = self.moves = self.requeues = 0
        self.delays = 0
        """The number of consecutive runs, up to the last, that asked for a delay of the next."""
        self.begin_at: Seconds | None = None
        """The earliest start of its next run; None: at once."""
        self.tie_breaker = seq
        """The order of jobs of equal keys, smaller first; `scheduling.core.state.state` explains it."""
        self.key: float | None = None
        """The key it last stepped to; None: it never stepped."""
        self._init_outcome()
        self._init_replica()
        self.place: Place | None = None
        """Its place in the order of the scheduler, which alone reads and writes it."""

    def _init_outcome(self) -> None:
        self.reclaimed_at: Seconds | None = None
        """When a team last took back the GPUs that the job had borrowed."""
        self.code: int | None = None
        """The exit code of its last run."""
        self.use: Use | None = None
        """The use that its runs made of their resources; None: unknown."""
        self.failed_rank: int | None = None
        self.failed_node = ""
        """The part of a gang that ended the last run, and its node."""
        self.why = ""
        """The reason why the job or its last run ended, if the exit code does not tell."""
        self.detail = ""
        """More about `why`, in words."""

    def _init_replica(self) -> None:
        self.ready_at: Seconds | None = None
        """When the replica became ready to answer requests; None: it is not."""
        self.draining_since: Seconds | None = None
        """When the replica began to get no new requests; None: it is not drained."""
        self.drained = self.leaving = self.unreachable = False
        """`drained`: it has answered its last request. `leaving`: another replica takes its place once it is ready.
        `unreachable`: its node is silent, and another replica takes its place at once."""
        self.address = ""
        """The host and port at which the replica answers."""

    def become(self, job: Job) -> None:
        """Replace the job's definition."""
        self.job, self.gpus = job, job.gpus
        self.wanted_share: Share = job.share if not self.exclusive else WHOLE
        """The part of each GPU that its next run will hold."""
        self.shape: Shape = shape_of(job) if not self.exclusive else exclusive_shape(job, self.measured_mb)
        self.reports_left = False
        """True once it reported how much work is left: what it declares, or its time limit, counts no more."""
        self.remaining_s: float | None = job.declared_s
        if job.iterations is not None and job.profile is not None:
            self.remaining_s = job.iterations * job.profile.iteration_s

    @property
    def before_begin(self) -> bool:
        """True until the begin time of the job itself; a delay between two runs ends later than that."""
        return self.begin_at is not None and self.begin_at == self.job.begin_at

    @property
    def waits(self) -> bool:
        return self.status == "waiting"

    @property
    def active(self) -> bool:
        return self.status in ACTIVE

    def attained(self, now: Seconds) -> float:
        """Return the seconds it held GPUs, over all its runs."""
        return self.service_s + (now - self.rate_since if self.status in ACTIVE else 0.0)

    def attain(self, now: Seconds) -> None:
        """Add the seconds since `rate_since` to those it held GPUs, in Muri's order of operations."""
        if now != self.rate_since:
            self.service_s = self.service_s + now - self.rate_since

    def worked(self, now: Seconds) -> float:
        """Return the solo seconds of work done that its next run need not repeat, over all its runs."""
        return self.worked_s + self.rate * (now - self.rate_since) if self.rate else self.worked_s

    def report(self, at: Seconds, remaining_s: float | None) -> None:
        """Advance the job to a report. The work done since the last one is the work at its rate, corrected by what the
        report says to remain: less after lost work, more where an overdue job has more to do than estimated."""
        self.attain(at)
        worked_s, expected_s = self.worked(at), self.remaining(at)
        if remaining_s is not None:
            if expected_s != inf:
                worked_s = max(worked_s + expected_s - remaining_s, 0.0)
            self.remaining_s, self.reports_left = remaining_s, True
        elif self.remaining_s is not None:
            self.remaining_s = expected_s
        self.worked_s, self.rate_since = worked_s, at

    def ends_in(self, now: Seconds) -> float:
        """Return the expected seconds until its run ends; infinite where unknown, also after the predicted end."""
        if self.remaining_s is None and self.predicted_s is not None:
            left_s = self.predicted_s - self.attained(now)
            return left_s if left_s > 0 else float("inf")
        return self.remaining(now) / (self.rate or 1.0)

    def remaining(self, now: Seconds) -> float:
        """Return the solo seconds of work left; infinite where unknown."""
        if self.remaining_s is None:
            return float("inf")
        if self.rate:
            return max(self.remaining_s - self.rate * (now - self.rate_since), 0.0)
        return self.remaining_s


def weave_id(job: JobState) -> str:
    """Return the id of the weave of a job's present run; empty: it is not woven."""
    return f"{job.weave[0]}-{round(job.woven_at * 1e6)}" if len(job.weave) > 1 else ""

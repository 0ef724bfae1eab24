"""A job and all that is known of it. Anything may read it; only `State.apply` writes."""

from __future__ import annotations

from weft.core.resources.shapes import Shape, exclusive_shape, shape_of
from weft.model import WHOLE, Job, JobId, Seconds, Share, Slots, StopReason
from weft.model.status import ACTIVE, Status


class JobState:
    __slots__ = (
        "allocation", "attained_s", "begin_at", "cancelling", "code", "delays", "ended_at", "exclusive", "failures",
        "first_start", "held", "id", "job", "key", "key_changed_at", "lost", "measured_mb", "moves", "over_quota",
        "placed", "preemptions", "rate", "rate_since", "releasing", "remaining_s", "requeues", "reserved", "run",
        "seq", "shape", "share", "slots", "started_at", "status", "stop_why", "submitted_at", "tie_breaker",
        "unmet_dependencies", "waiting_since", "weave", "why",
    )  # fmt: skip

    def __init__(self, job: Job, seq: int, at: Seconds) -> None:
        self.id, self.seq, self.submitted_at, self.waiting_since = job.id, seq, at, at
        self.exclusive = False
        """It ran out of GPU memory next to other jobs: from now on it shares its GPUs with none."""
        self.measured_mb = 0
        """The most memory it was seen to need on a GPU."""
        self.over_quota = False
        """Its user holds as many GPUs as the quota allows, counting jobs that are next."""
        self.unmet_dependencies: dict[JobId, None] = {}
        """Jobs that must be done before it may wait."""
        self.become(job)
        self.allocation: Shape = self.shape
        """What its run holds: its shape with the share and memory it was started with."""
        self.share = job.share
        self.status: Status = "waiting"
        self.run = 0
        """The number of the latest run; 0 before the first."""
        self.slots: Slots = ()
        self.placed: Slots = ()
        """Where the run was started, in rank order; `slots` is what is left of it."""
        self.reserved: Slots = ()
        self.weave: tuple[JobId, ...] = ()
        self.releasing = self.cancelling = self.held = self.lost = False
        self.stop_why: StopReason = "preempted"
        self.first_start: Seconds | None = None
        self.started_at = self.rate_since = self.key_changed_at = -1.0
        """`rate_since`: when `rate` and `remaining_s` were last set."""
        self.ended_at: Seconds | None = None
        self.attained_s = 0.0
        self.rate = 0.0
        """Solo seconds of work per second, while running."""
        self.preemptions = self.failures = self.moves = self.requeues = 0
        self.delays = 0
        """How many of its last runs, one after the other, asked for the next to wait."""
        self.begin_at: Seconds | None = None
        """Its next run is not to start before this."""
        self.code: int | None = None
        """What its last run exited with."""
        self.why = ""
        """Why it ended, or its last run did, where the code does not say."""
        self.tie_breaker = seq
        """Orders jobs of equal keys, smaller first: `core.state.state` explains how."""
        self.key: float | None = None
        """The last stepped key, where the policy has such."""

    def become(self, job: Job) -> None:
        """The job is this, from now on."""
        self.job = job
        self.shape: Shape = shape_of(job) if not self.exclusive else exclusive_shape(job, self.measured_mb)
        self.remaining_s: float | None = job.declared_s
        if job.iterations is not None and job.profile is not None:
            self.remaining_s = job.iterations * job.profile.iteration_s

    @property
    def wanted_share(self) -> Share:
        """What its next run is to hold of each GPU."""
        return WHOLE if self.exclusive else self.job.share

    @property
    def gpus(self) -> int:
        return self.shape.gpus

    @property
    def waits(self) -> bool:
        return self.status == "waiting"

    @property
    def active(self) -> bool:
        return self.status in ACTIVE

    def attained(self, now: Seconds) -> float:
        """Seconds it has held GPUs for, over all its runs."""
        return self.attained_s + (now - self.started_at if self.status in ACTIVE else 0.0)

    def ends_in(self, now: Seconds) -> float:
        """Seconds until its run ends, as far as anybody knows."""
        return self.remaining(now) / (self.rate or 1.0)

    def remaining(self, now: Seconds) -> float:
        """Solo seconds of work still to do, as far as anybody knows; infinite where nobody does."""
        if self.remaining_s is None:
            return float("inf")
        if self.rate:
            return max(self.remaining_s - self.rate * (now - self.rate_since), 0.0)
        return self.remaining_s

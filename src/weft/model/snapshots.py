"""Snapshots of the state: a journal that begins with a snapshot needs no earlier facts."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.decisions import StopReason
from weft.model.events import JobReport
from weft.model.ids import JobId, Seconds, Slots
from weft.model.job import Job
from weft.model.per_rank import PerRank
from weft.model.pool_facts import PoolSnapshot
from weft.model.service_facts import ServiceSnapshot
from weft.model.share import WHOLE, Share
from weft.model.use import Use


@dataclass(frozen=True, slots=True)
class Usage:
    """The figures of a job up to a snapshot; `history.metrics` continues from them."""

    queued_s: float = 0.0
    """Seconds spent waiting."""
    gpu_s: float = 0.0
    kept_s: float = 0.0
    """Work that its next run need not repeat, in solo seconds."""
    run_s: float = 0.0
    """Work of its present run, up to `rate_since`."""
    spent_s: float = 0.0
    """Work of all its runs."""
    rho: float | None = None
    jobs_s: float = 0.0
    gpus_s: float = 0.0
    """Jobs in the system and GPUs of the cluster, each integrated over its life: the ground of rho."""


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """The state of one job: the job as submitted, and the fields of `JobState`."""

    at: Seconds
    job: Job
    status: str
    seq: int
    submitted_at: Seconds
    waiting_since: Seconds
    tie_breaker: int
    run: int = 0
    share: Share = WHOLE
    slots: Slots = ()
    placed: Slots = ()
    reserved: Slots = ()
    weave: tuple[JobId, ...] = ()
    woven_at: Seconds = -1.0
    """When `weave` was decided; -1: never."""
    allocated_mb: PerRank | None = None
    """Memory that the job's run holds on each GPU; None: the memory that the job requests."""
    releasing: bool = False
    """The job's run is stopping and still holds its GPUs."""
    cancelling: bool = False
    held: bool = False
    lost: bool = False
    exclusive: bool = False
    """The job ran out of GPU memory on shared GPUs, and no longer shares GPUs."""
    stop_why: StopReason = "preempted"
    first_start: Seconds | None = None
    started_at: Seconds = -1.0
    rate_since: Seconds = -1.0
    """The time at which `rate` and `remaining_s` were last set."""
    key_changed_at: Seconds = -1.0
    ended_at: Seconds | None = None
    attained_s: float = 0.0
    """Seconds it held GPUs in runs that have ended."""
    service_s: float = 0.0
    """Seconds it held GPUs in all its runs, up to `rate_since`."""
    worked_s: float = 0.0
    """Solo seconds of work that the next run need not repeat, up to `rate_since`."""
    rate: float = 0.0
    remaining_s: float | None = None
    predicted_s: float | None = None
    """The seconds that similar jobs took, as of the job's last start."""
    preemptions: int = 0
    failures: int = 0
    moves: int = 0
    requeues: int = 0
    delays: int = 0
    begin_at: Seconds | None = None
    measured_mb: int = 0
    suspended: bool = False
    key: float | None = None
    unmet_dependencies: tuple[JobId, ...] = ()
    code: int | None = None
    why: str = ""
    detail: str = ""
    failed_rank: int | None = None
    failed_node: str = ""
    over_quota: bool = False
    usage: Usage | None = None
    """None: the snapshot comes from a Weft that kept no figures."""
    over_group_limit: bool = False
    unwoven: str = ""
    ready_at: Seconds | None = None
    """The time at which a replica became ready; None: it is not."""
    draining_since: Seconds | None = None
    drained: bool = False
    leaving: bool = False
    """A replica that moves: another one takes its place."""
    address: str = ""
    held_why: str = ""
    reported: JobReport | None = None
    """The last report of the job; None: it has reported nothing."""
    reclaimed_at: Seconds | None = None
    """When a team last took back the GPUs that the job had borrowed."""
    reports_left: bool = False
    """The job has reported how much work is left."""
    use: Use | None = None
    """The use that its runs made of their resources; None: unknown."""


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """The state apart from the jobs; the last fact of a snapshot."""

    at: Seconds
    active: tuple[JobId, ...]
    """In the order of their starts."""
    waiting: tuple[JobId, ...]
    ended: tuple[JobId, ...]
    tail_counter: int
    front_counter: int
    run_counter: int
    """The last tie-breakers: given at the tail of the queue, at its front, and to runs."""
    paused: tuple[tuple[str, str], ...] = ()
    """Reasons, each with its detail."""
    planned_at: Seconds | None = None
    pending: tuple[tuple[JobId, ...], ...] = ()
    highest_id: int = 0
    gpus: tuple[tuple[Seconds, int], ...] = ()
    """When the number of GPUs changed before the snapshot, and to what."""


Snapshot = JobSnapshot | StateSnapshot | ServiceSnapshot | PoolSnapshot

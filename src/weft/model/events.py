"""Events: each is a value with the time at which it happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.model.ids import JobId, NodeId, Seconds
from weft.model.job import Job, Profile
from weft.model.node import Node
from weft.model.plain_init import plain_init
from weft.model.pool_facts import PoolEvent
from weft.model.service_facts import ServiceEvent
from weft.model.team import TeamEvent
from weft.model.use import Use

Outcome = Literal["done", "failed", "stopped", "lost", "requeued"]
"""`requeued`: the run exited by itself and asked to run again."""


@dataclass(frozen=True, slots=True)
class NodeJoined:
    at: Seconds
    node: Node


@dataclass(frozen=True, slots=True)
class NodeLost:
    at: Seconds
    node: NodeId


@dataclass(frozen=True, slots=True)
class NodeEndChanged:
    """A node leaves at another time than it said when it joined: its site changed the end of its allocation."""

    at: Seconds
    node: NodeId
    until: Seconds


@plain_init
@dataclass(frozen=True, slots=True)
class Submitted:
    at: Seconds
    job: Job


@dataclass(frozen=True, slots=True)
class Cancelled:
    at: Seconds
    job: JobId


@dataclass(frozen=True, slots=True)
class Held:
    at: Seconds
    job: JobId
    why: str = ""
    """`StoppedEarly`: a rule of early stopping holds it; empty: a user."""


@dataclass(frozen=True, slots=True)
class Released:
    at: Seconds
    job: JobId


@dataclass(frozen=True, slots=True)
class Suspended:
    """A user stopped the processes of a run; they keep their GPUs and memory."""

    at: Seconds
    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class Continued:
    """A user let the processes of a suspended run continue."""

    at: Seconds
    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class Edited:
    """A user changed a job that is not running."""

    at: Seconds
    job: Job


@dataclass(frozen=True, slots=True)
class Purged:
    """Ended jobs are removed from the state."""

    at: Seconds
    jobs: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class Paused:
    """No run starts until `Resumed` for the same reason."""

    at: Seconds
    why: str = "Paused"
    """The reason's code: Paused (by a user), DiskFloor, PolicyFailed."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Resumed:
    at: Seconds
    why: str = "Paused"


@dataclass(frozen=True, slots=True)
class Blocked:
    """A GPU, or part of its memory, is unavailable: its runs stay, but no run starts on it."""

    at: Seconds
    node: NodeId
    gpu: int
    why: str
    """The reason's code: ForeignProcess, DirtyGpu, Drained. A GPU may be blocked for several reasons at once."""
    memory_mb: int | None = None
    """The unavailable memory; None: the whole GPU."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unblocked:
    at: Seconds
    node: NodeId
    gpu: int
    why: str


@dataclass(frozen=True, slots=True)
class Cordoned:
    """No run starts on a node until `Uncordoned` for the same reason. Its runs stay.

    A node that is lost and joins again is still cordoned.
    """

    at: Seconds
    node: NodeId
    why: str
    """The reason's code: Drained (by an admin), ReqNodeNotAvail (its agent is silent). There may be several."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Evicted:
    """A run leaves its GPUs: it saves its work, and its job waits for GPUs, or for its release if it is held. An admin
    asks for it, or a rule of early stopping."""

    at: Seconds
    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class Uncordoned:
    at: Seconds
    node: NodeId
    why: str


@dataclass(frozen=True, slots=True)
class Limited:
    """A user's jobs may hold at most this many GPUs; None: the default quota applies.

    The user '' sets the default quota; there None means no limit.
    """

    at: Seconds
    user: str
    gpus: int | None


@dataclass(frozen=True, slots=True)
class GroupLimited:
    """At most this many jobs of a group run at once; None: no limit. None of them starts while the group is paused."""

    at: Seconds
    group: str
    jobs: int | None = None
    paused: bool = False
    notify: str = ""
    """Events of the group as a whole that lead to a message, as in `Task.notify`."""


@dataclass(frozen=True, slots=True)
class BatchLimited:
    """At most this many jobs of a batch may be active or eligible at once from now on; 0: no limit."""

    at: Seconds
    batch: str
    limit: int


@dataclass(frozen=True, slots=True)
class Measured:
    """The memory that a run uses on each of its GPUs, which may differ from its allocation."""

    at: Seconds
    job: JobId
    run: int
    memory_mb: int


@dataclass(frozen=True, slots=True)
class Used:
    """The use that a run made of its GPUs until it ended, as samples of them show."""

    at: Seconds
    job: JobId
    run: int
    use: Use


@dataclass(frozen=True, slots=True)
class Profiled:
    """The stage times of jobs were measured. The profile is for jobs of this key, on this many GPUs of this model."""

    at: Seconds
    key: str
    """The key that the jobs have in common, as `model.profiles.key_of` derives it."""
    gpus: int
    gpu_model: str
    """Empty: unknown."""
    profile: Profile
    source: str
    """Where it comes from: `run` (a profiling run), `woven` (the counters of a woven run), or a user's words."""
    user: str = ""
    """The user whose jobs it is for; empty: the jobs of all users that have none of their own."""


@dataclass(frozen=True, slots=True)
class Unwoven:
    """A run keeps its GPUs but takes no more turns: by its counters, it does not keep to them."""

    at: Seconds
    job: JobId
    run: int
    why: str
    """`hangs`: it held a stage too long, several times; `silent`: it took none for a minute."""


@plain_init
@dataclass(frozen=True, slots=True)
class Started:
    """A run works now, and completes `rate` seconds of its solo work per second."""

    at: Seconds
    job: JobId
    run: int
    rate: float = 1.0


@plain_init
@dataclass(frozen=True, slots=True)
class Progressed:
    at: Seconds
    job: JobId
    run: int
    remaining_s: float | None
    """Remaining solo seconds of work; None if unknown."""
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class JobReport:
    """The last report of a job."""

    run: int
    """The run that reported it."""
    step: int | None = None
    total: int | None = None
    """The steps of the whole job, if it says."""
    metrics: tuple[tuple[str, float | None], ...] = ()
    """The last value of each metric; None: it was not a finite number."""
    rungs: tuple[float | None, ...] = ()
    """For a trial with a rule of early stopping: its metric at each rung that it has reached, over all its runs."""


@dataclass(frozen=True, slots=True)
class Reported:
    """The last report of a run: journalled now and then, at its end, and when a trial reaches a rung."""

    at: Seconds
    job: JobId
    report: JobReport


@plain_init
@dataclass(frozen=True, slots=True)
class Exited:
    at: Seconds
    job: JobId
    run: int
    how: Outcome
    remaining_s: float | None = None
    """Remaining solo seconds of work from the last checkpoint; None if unknown."""
    code: int | None = None
    why: str = ""
    """A reason that the exit code does not give: timeout, oom, lost, reboot, ..."""
    delay_s: float = 0.0
    """The job's next run starts after this delay."""
    detail: str = ""
    """More about `why`, in words."""
    rank: int | None = None
    """The part of a gang that ended the run: its place in the order of the gang's nodes; `code` is its exit code."""
    node: NodeId = ""
    """The node of that part."""
    cpu_s: float = 0.0
    """CPU time of the run's processes."""
    rss_mb: int = 0
    """The most main memory of one of its processes."""
    late_s: Seconds = 0.0
    """The time from the end of its processes to `at`, if the scheduler was away or its disk full."""


@dataclass(frozen=True, slots=True)
class AdminAction:
    """An admin or user operation, and who requested it. The effects follow as separate facts."""

    at: Seconds
    who: str
    verb: str
    options: tuple[tuple[str, str], ...] = ()


@plain_init
@dataclass(frozen=True, slots=True)
class Wake:
    """The scheduler's alarm went off."""

    at: Seconds


Event = (
    NodeJoined | NodeLost | NodeEndChanged | Blocked | Unblocked | Cordoned | Uncordoned | Limited | GroupLimited
    | BatchLimited | Submitted | Edited | Cancelled | Held | Released | Suspended | Continued | Purged | Paused
    | Resumed | Started | Progressed | Reported | Measured | Used | Profiled | Unwoven | Exited | AdminAction | Wake
    | Evicted | ServiceEvent | PoolEvent | TeamEvent
)  # fmt: skip

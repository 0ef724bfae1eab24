"""What happens and what is decided.

An *event* is something that happened; a *decision* something the scheduler decided; a *fact* is either, as journalled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from weft.model.nouns import WHOLE, Job, JobId, Node, NodeId, Seconds, Share, Slots

Outcome = Literal["done", "failed", "stopped", "lost", "requeued"]
"""Requeued: it ended by itself and asked to be run again."""
StopReason = Literal["preempted", "moved", "cancelled", "node-lost"]


# ---- events


@dataclass(frozen=True, slots=True)
class NodeJoined:
    at: Seconds
    node: Node


@dataclass(frozen=True, slots=True)
class NodeLost:
    at: Seconds
    node: NodeId


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


@dataclass(frozen=True, slots=True)
class Released:
    at: Seconds
    job: JobId


@dataclass(frozen=True, slots=True)
class Edited:
    """A job that does not run yet is to be this instead."""

    at: Seconds
    job: Job


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Jobs that have ended are no longer of interest."""

    at: Seconds
    jobs: tuple[JobId, ...]


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing new is started until `Resumed` for the same reason."""

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
    """A GPU may not be used, or not all of its memory: whoever is on it stays, nobody new comes."""

    at: Seconds
    node: NodeId
    gpu: int
    why: str
    """The reason's code: ForeignProcess, DirtyGpu, Drained. A GPU may be blocked for several reasons at once."""
    memory_mb: int | None = None
    """Only so much memory is taken; None: the whole GPU."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unblocked:
    at: Seconds
    node: NodeId
    gpu: int
    why: str


@dataclass(frozen=True, slots=True)
class Closed:
    """Nothing new is started on a node, on its GPUs or beside them, until `Opened` for the same reason. Runs stay.

    It holds until then whatever becomes of the node: one that is lost and joins again is still closed.
    """

    at: Seconds
    node: NodeId
    why: str
    """The reason's code: Drained (by somebody), ReqNodeNotAvail (nothing was heard of it). There may be several."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    at: Seconds
    node: NodeId
    why: str


@dataclass(frozen=True, slots=True)
class Limited:
    """The jobs of a user may hold so many GPUs; None: as everybody. The user '' is everybody: then None is no limit."""

    at: Seconds
    user: str
    gpus: int | None


@dataclass(frozen=True, slots=True)
class Measured:
    """A run was seen to need this much memory on each of its GPUs, more or less than it was given."""

    at: Seconds
    job: JobId
    run: int
    memory_mb: int


@dataclass(frozen=True, slots=True)
class Started:
    """The run works now, getting through `rate` seconds of its solo work each second."""

    at: Seconds
    job: JobId
    run: int
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Progressed:
    at: Seconds
    job: JobId
    run: int
    remaining_s: float | None
    """Solo seconds of work still to do, where known."""
    rate: float = 1.0


@dataclass(frozen=True, slots=True)
class Exited:
    at: Seconds
    job: JobId
    run: int
    how: Outcome
    remaining_s: float | None = None
    """Solo seconds still to do from the last checkpoint, where known."""
    code: int | None = None
    why: str = ""
    """What the code does not say: timeout, oom, lost, reboot, ..."""
    delay_s: float = 0.0
    """Its next run is to wait this long."""


@dataclass(frozen=True, slots=True)
class Operated:
    """Somebody told the scheduler itself something. What comes of it are facts of their own: this says who asked."""

    at: Seconds
    who: str
    verb: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Wake:
    """An alarm that the scheduler had set went off."""

    at: Seconds


# ---- decisions


@dataclass(frozen=True, slots=True)
class Start:
    at: Seconds
    job: JobId
    run: int
    slots: Slots
    share: Share = WHOLE
    weave: tuple[JobId, ...] = ()
    """All members, this job among them, where it runs woven."""


@dataclass(frozen=True, slots=True)
class Stop:
    at: Seconds
    job: JobId
    run: int
    why: StopReason


@dataclass(frozen=True, slots=True)
class Reserve:
    """These GPUs are promised to a waiting job."""

    at: Seconds
    job: JobId
    slots: Slots


@dataclass(frozen=True, slots=True)
class Stepped:
    """A running job's key stepped (Tiresias: a queue down): it goes behind its new equals."""

    at: Seconds
    job: JobId
    key: float


@dataclass(frozen=True, slots=True)
class Planned:
    """A replanner that plans at intervals has planned; `pending` are its wishes that wait for GPUs to be vacated."""

    at: Seconds
    pending: tuple[tuple[JobId, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Alarm:
    """The scheduler's one alarm clock is set anew; None: it is switched off."""

    at: Seconds
    due: Seconds | None


@dataclass(frozen=True, slots=True)
class Past:
    """All that a state knows of a job beside the job itself."""

    status: str
    seq: int
    submitted_at: Seconds
    waiting_since: Seconds
    stamp: int
    run: int = 0
    share: Share = WHOLE
    slots: Slots = ()
    placed: Slots = ()
    reserved: Slots = ()
    weave: tuple[JobId, ...] = ()
    seat_mb: int | tuple[int, ...] | None = None
    """What its run holds of each GPU's memory; None: what it asked for."""
    leaving: bool = False
    cancelling: bool = False
    holding: bool = False
    lost: bool = False
    alone: bool = False
    stop_why: StopReason = "preempted"
    first_start: Seconds | None = None
    started_at: Seconds = -1.0
    mark: Seconds = -1.0
    stepped_at: Seconds = -1.0
    ended_at: Seconds | None = None
    attained_s: float = 0.0
    rate: float = 0.0
    remaining_s: float | None = None
    preemptions: int = 0
    failures: int = 0
    moves: int = 0
    requeues: int = 0
    delays: int = 0
    begin_at: Seconds | None = None
    measured_mb: int = 0
    key: float | None = None
    behind: tuple[JobId, ...] = ()
    code: int | None = None
    why: str = ""
    short: bool = False
    """Its user holds enough GPUs."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What earlier facts added up to for one job: they may be dropped."""

    at: Seconds
    job: Job
    past: Past


@dataclass(frozen=True, slots=True)
class Restored:
    """What earlier facts added up to beside the jobs; the last of a snapshot."""

    at: Seconds
    active: tuple[JobId, ...]
    """In the order in which they started."""
    waiting: tuple[JobId, ...]
    ended: tuple[JobId, ...]
    tail: int
    front: int
    runs: int
    """The last stamps given out."""
    paused: tuple[tuple[str, str], ...] = ()
    """For which reasons, each with its detail."""
    planned_at: Seconds | None = None
    pending: tuple[tuple[JobId, ...], ...] = ()
    highest_id: int = 0


Event = (
    NodeJoined | NodeLost | Blocked | Unblocked | Closed | Opened | Limited | Submitted | Edited | Cancelled | Held
    | Released | Forgotten | Paused | Resumed | Started | Progressed | Measured | Exited | Operated | Wake
    | Recalled | Restored
)  # fmt: skip
Decision = Start | Stop | Reserve | Stepped | Planned | Alarm
Fact = Event | Decision

EVENTS: Final = (
    NodeJoined, NodeLost, Blocked, Unblocked, Closed, Opened, Limited, Submitted, Edited, Cancelled, Held, Released,
    Forgotten, Paused, Resumed, Started, Progressed, Measured, Exited, Operated, Wake, Recalled, Restored,
)  # fmt: skip
DECISIONS: Final = (Start, Stop, Reserve, Stepped, Planned, Alarm)
FACTS: Final = EVENTS + DECISIONS

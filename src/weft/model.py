"""The nouns: what is submitted, what it runs on, what happens and what is decided.

An *event* is something that happened; a *decision* something the scheduler decided; a *fact* is either, as journalled.
All are immutable values. Times are seconds; the engine stamps `at`, the core never asks a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Seconds = float
JobId = str
NodeId = str
Slots = tuple[tuple[NodeId, tuple[int, ...]], ...]
"""Which GPUs of which nodes, in rank order."""


@dataclass(frozen=True, slots=True)
class Gpu:
    model: str = ""
    memory_mb: int = 32768


@dataclass(frozen=True, slots=True)
class Node:
    id: NodeId
    gpus: tuple[Gpu, ...]
    cpus: int = 0
    """0: not counted."""
    ram_mb: int = 0
    """0: not counted."""
    switch: str = ""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """How one iteration of a model spends its time, alone on its GPUs."""

    model: str
    iteration_s: float
    data_s: float
    gpu_s: float
    network_s: float
    start_s: float = 0.0
    """What a start or restart costs before the first iteration."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a run holds of the compute of each of its GPUs."""

    request: float = 1.0
    limit: float = 1.0


WHOLE: Final = Share()


@dataclass(frozen=True, slots=True)
class Where:
    """Where a job may run: any of these left empty means anywhere."""

    gpu_model: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    pinned: Slots = ()


ANYWHERE: Final = Where()


@dataclass(frozen=True, slots=True)
class Job:
    id: JobId
    gpus: int = 1
    name: str = ""
    user: str = ""
    memory_mb: int | tuple[int, ...] = 0
    """Per GPU: one figure, or one per rank. 0: not counted."""
    cpus: int = 0
    """Per GPU; of the job where it has no GPU."""
    ram_mb: int = 0
    """Per GPU; of the job where it has no GPU."""
    share: Share = WHOLE
    where: Where = ANYWHERE
    priority: int = 0
    opportunistic: bool = False
    """Lives on what guaranteed jobs leave over (AntMan)."""
    retries: int = 0
    declared_s: float | None = None
    """How long the submitter says it takes alone."""
    iterations: int | None = None
    profile: Profile | None = None
    command: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()


Outcome = Literal["done", "failed", "stopped", "lost"]
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


Event = NodeJoined | NodeLost | Submitted | Cancelled | Held | Released | Started | Progressed | Exited | Wake
Decision = Start | Stop | Reserve | Stepped | Planned | Alarm
Fact = Event | Decision

EVENTS: Final = (NodeJoined, NodeLost, Submitted, Cancelled, Held, Released, Started, Progressed, Exited, Wake)
DECISIONS: Final = (Start, Stop, Reserve, Stepped, Planned, Alarm)
FACTS: Final = EVENTS + DECISIONS

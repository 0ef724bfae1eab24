"""What the scheduler decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.model.ids import JobId, Seconds, Slots
from weft.model.share import WHOLE, Share

StopReason = Literal["preempted", "moved", "cancelled", "node-lost"]


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
class KeyChanged:
    """A running job's key changed (Tiresias: a queue down): the job goes behind its new equals."""

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


Decision = Start | Stop | Reserve | KeyChanged | Planned | Alarm

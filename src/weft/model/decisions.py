"""Decisions of the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weft.model.events import Cancelled, Submitted
from weft.model.ids import JobId, Seconds, Slots
from weft.model.plain_init import plain_init
from weft.model.service_facts import ServiceDecision
from weft.model.share import WHOLE, Share

StopReason = Literal["preempted", "moved", "cancelled", "node-lost", "unready", "reclaimed"]
"""`reclaimed`: a team takes back GPUs that it is guaranteed, and that the run's team had borrowed."""


@plain_init
@dataclass(frozen=True, slots=True)
class Start:
    at: Seconds
    job: JobId
    run: int
    slots: Slots
    share: Share = WHOLE
    weave: tuple[JobId, ...] = ()
    """All members of its weave, including this job; empty if it runs alone."""


@plain_init
@dataclass(frozen=True, slots=True)
class Stop:
    at: Seconds
    job: JobId
    run: int
    why: StopReason


@plain_init
@dataclass(frozen=True, slots=True)
class Rewoven:
    """A run keeps its GPUs and its processes, and gets other partners."""

    at: Seconds
    job: JobId
    run: int
    weave: tuple[JobId, ...]
    """All members of its weave from now on, including this job; empty: it runs alone."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """GPUs are reserved for a waiting job."""

    at: Seconds
    job: JobId
    slots: Slots


@plain_init
@dataclass(frozen=True, slots=True)
class KeyChanged:
    """A running job's key changed (Tiresias: demotion to a lower queue). The job goes behind jobs of the same key."""

    at: Seconds
    job: JobId
    key: float


@plain_init
@dataclass(frozen=True, slots=True)
class Planned:
    """A periodic `Replanner` has made a plan. `pending` holds the groups that wait until their GPUs are vacated."""

    at: Seconds
    pending: tuple[tuple[JobId, ...], ...] = ()


@plain_init
@dataclass(frozen=True, slots=True)
class Alarm:
    """The scheduler sets its only alarm; None cancels it."""

    at: Seconds
    due: Seconds | None


Decision = (
    Start | Stop | Rewoven | Reserve | KeyChanged | Planned | Alarm | ServiceDecision | Submitted | Cancelled
)  # fmt: skip
"""The scheduler itself submits and cancels the replicas of services."""

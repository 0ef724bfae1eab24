"""What earlier facts added up to: a journal that begins with a snapshot needs none of them."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.decisions import StopReason
from weft.model.ids import JobId, Seconds, Slots
from weft.model.job import Job
from weft.model.share import WHOLE, Share


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


Snapshot = Recalled | Restored

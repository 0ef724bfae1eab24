"""The actions of the state machine of an agent: what the worker must do."""

from __future__ import annotations

from dataclasses import dataclass

from weft.access.wire.messages import AgentMessage, StartRun, Weave
from weft.model import JobId


@dataclass(frozen=True, slots=True)
class Send:
    message: AgentMessage


@dataclass(frozen=True, slots=True)
class Start:
    """Start this run. If its folder is already claimed, report its state instead."""

    launch: StartRun


@dataclass(frozen=True, slots=True)
class Stop:
    job: JobId
    run: int
    why: str
    grace_s: float | None
    """None: the grace period of the run's launch spec."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Determine and report the state of an unknown run: adopt it if it is claimed, else fence it (never-started)."""

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class Reweave:
    """Let a run that has started take turns in this weave from now on. `Agent.report_weave` follows."""

    job: JobId
    run: int
    weave: Weave


@dataclass(frozen=True, slots=True)
class Lease:
    """Write the lease: runs may continue until this time on the node's clock."""

    until: float


@dataclass(frozen=True, slots=True)
class LeaveIn:
    """Leave after this time: the end of the node's allocation as the scheduler knows it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The scheduler has journalled the exit of this run: mark its folder, so that the exit is not sent again."""

    job: JobId
    run: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The agent is registered. Store `cluster` on disk for the next agent here."""

    cluster: str


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the connection, and connect again after a delay."""

    reason: str


Action = Send | Start | Stop | Reconcile | Reweave | Lease | LeaveIn | Confirmed | Joined | Disconnect

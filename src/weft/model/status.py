"""The statuses of a job, and the codes of reasons. The words are Slurm's where the meaning is the same."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

Status = Literal["blocked", "waiting", "held", "starting", "running", "stopping", "done", "failed", "cancelled"]
PENDING: Final[tuple[Status, ...]] = ("blocked", "waiting", "held")
"""Not ended, and without GPUs."""
ACTIVE: Final[frozenset[Status]] = frozenset({"starting", "running", "stopping"})
"""Holds its GPUs."""
ENDED: Final[frozenset[Status]] = frozenset({"done", "failed", "cancelled"})
UNFINISHED: Final[frozenset[Status]] = ACTIVE.union(PENDING)
LEAST_FINAL: Final[tuple[Status, ...]] = (
    "running", "starting", "stopping", "waiting", "blocked", "held", "failed", "cancelled", "done",
)  # fmt: skip
"""The status of a set of jobs is the first of these that one of its jobs has."""


class Reason(StrEnum):
    """The reason why a job waits, a GPU is blocked, a node is cordoned or the scheduler is paused."""

    NONE = "None"
    # ---- a job
    HELD = "JobHeldUser"
    STOPPED_EARLY = "StoppedEarly"
    """A rule of early stopping holds the trial of a sweep."""
    DEPENDENCY = "Dependency"
    BEGIN_TIME = "BeginTime"
    QUOTA = "Quota"
    RECLAIMED = "Reclaimed"
    """A team took back the GPUs that the job had borrowed."""
    GROUP_LIMIT = "GroupLimit"
    GROUP_PAUSED = "GroupPaused"
    ARRAY_LIMIT = "JobArrayTaskLimit"
    RESOURCES = "Resources"
    PRIORITY = "Priority"
    RESERVED = "Reserved"
    """The free GPUs are reserved for a job ahead of it."""
    NEXT_ROUND = "NextRound"
    """There is room; the scheduler plans again later."""
    POLICY_HOLD = "PolicyHold"
    NODE_LOST = "NodeLost"
    GPU_MEMORY = "GpuMemory"
    MISPLACED = "MisplacedProcess"
    NOT_WOVEN = "NotWoven"
    """The job does not take turns with others, although the policy weaves."""
    POOL = "Pool"
    """A pool may bring a node for the job."""
    LONGER = "LongerThanAllocations"
    """The job may run for longer than the allocations of a pool last."""
    INFEASIBLE = "ReqNodeNotAvail"
    """No node could ever hold the job."""
    # ---- a GPU or a node
    NODE_SILENT = "ReqNodeNotAvail"
    """The agent of the node sends no heartbeats."""
    NODE_UNREACHABLE = "NodeUnreachable"
    """The agent of the node is silent, and its replicas get substitutes."""
    GPU_VANISHED = "ReqNodeNotAvail"
    """The driver no longer lists the GPU."""
    DRAINED = "Drained"
    NODE_UNHEALTHY = "NodeUnhealthy"
    """The node fails the starts of runs, or its GPUs report errors."""
    NODE_LEAVING = "NodeLeaving"
    """The agent of the node ends in order."""
    ALLOCATION_ENDING = "AllocationEnding"
    """The pool of the node gives its allocation back."""
    FOREIGN_PROCESS = "ForeignProcess"
    DIRTY_GPU = "DirtyGpu"
    OTHER_USER = "OtherUser"
    """The scheduler of another user holds the GPU, by the shared ledger."""
    # ---- the scheduler
    PAUSED = "Paused"
    POLICY_FAILED = "PolicyFailed"
    CLOSING = "Closing"

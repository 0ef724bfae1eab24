"""The health of nodes: which of them fail the starts of runs or report errors of their GPUs.

An unhealthy node is cordoned until an admin opens it (`weft undrain`), unless no other node of its kind is open. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from weft.access.wire.messages import GpuReading
from weft.model import JobId, Node, NodeId
from weft.model.status import Reason
from weft.scheduling.core.state.job import JobState
from weft.server.nodes.registered_node import RegisteredNode

UNHEALTHY: Final = Reason.NODE_UNHEALTHY
MAX_FAILED_STARTS: Final = 3
"""A node that fails this many starts in a row is unhealthy."""
MIN_USERS: Final = 2
"""The failed starts must be of jobs of this many users: the jobs of one user may all have the same mistake."""
NODE_FAULTS: Final = frozenset(
    {"never-started", "start-failed", "shim-error", "snapshot", "bad-directory", "not-found", "not-executable"}
)
"""Why a run did not start, where the node may be at fault: its disk, a missing mount, a broken installation."""


@dataclass(frozen=True, slots=True)
class FailedStart:
    job: JobId
    user: str
    why: str


class NodeHealth:
    """The failed starts in a row and the errors of GPUs that each node last reported."""

    def __init__(self) -> None:
        self._failed: dict[NodeId, list[FailedStart]] = {}
        self._errors: dict[tuple[NodeId, int], str] = {}
        self._heard: set[NodeId] = set()

    def record_start(self, node: NodeId) -> None:
        self._failed.pop(node, None)

    def record_failed_start(self, node: NodeId, job: JobState, why: str) -> str:
        """Record a start that failed. Return what is wrong with the node; empty: nothing."""
        if why not in NODE_FAULTS:
            return ""
        failed = self._failed.setdefault(node, [])
        failed.append(FailedStart(job.id, job.job.user, why))
        if len(failed) < MAX_FAILED_STARTS or len({each.user for each in failed}) < MIN_USERS:
            return ""
        del self._failed[node]
        last = failed[-MAX_FAILED_STARTS:]
        jobs = ", ".join(f"job {each.job}: {each.why}" for each in last)
        return f"{len(failed)} starts in a row failed ({jobs})"

    def new_errors(self, node: NodeId, readings: Iterable[GpuReading], cleared: Iterable[str] = ()) -> str:
        """Return the errors that the node's GPUs report and did not report before, in words; empty: none.

        `cleared` lists faults of the node that an admin has seen. They count when the node reports for the first time
        since this server started: an error that goes away and comes back later is new.
        """
        known = "" if node in self._heard else ", ".join(cleared)
        self._heard.add(node)
        found = []
        for reading in readings:
            key = node, reading.gpu
            words = f"GPU {reading.gpu}: {reading.error}"
            if reading.error and self._errors.get(key) != reading.error and f"{words}, " not in f"{known}, ":
                found.append(words)
            if reading.error:
                self._errors[key] = reading.error
            else:
                self._errors.pop(key, None)
        return ", ".join(found)


def kind_of(node: Node) -> frozenset[tuple[str, int]]:
    """Return what distinguishes nodes for jobs: the models and the memory of their GPUs."""
    return frozenset((gpu.model, gpu.memory_mb) for gpu in node.gpus)


def may_cordon(
    member: RegisteredNode, members: Mapping[NodeId, RegisteredNode], closed: Collection[tuple[NodeId, str]]
) -> bool:
    """Return whether another node of the same kind is connected and open: the last one is never cordoned."""
    shut = {node for node, _ in closed}
    return any(
        other is not member and other.connected and other.id not in shut and kind_of(other.node) == kind_of(member.node)
        for other in members.values()
    )

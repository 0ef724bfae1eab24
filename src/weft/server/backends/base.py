"""The seam between the scheduler and the place where runs execute.

A `Backend` carries out decisions; what happens to its runs comes back as events through the loop of its `Host`. The
ports `Inventory`, `RunLogs`, `Admission` and `Endpoint` are optional: `BackendPorts` has a stand-in for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from weft.core.scheduler import Scheduler
from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.endpoints.paths import Paths
from weft.engines.process.output.logs import MISSING, LogPart
from weft.model import Decision, JobId, NodeId
from weft.server.api.gpu_numbers import GpuNumbers
from weft.server.jobs.admission import AdmissionRules, ClusterRules
from weft.server.jobs.quotas import Quotas
from weft.server.loop import Loop
from weft.server.settings import Settings

if TYPE_CHECKING:
    import grpc


class Kill(NamedTuple):
    """End this run at once, without grace. Its `Stop` has been decided and journalled before."""

    job: JobId
    run: int


Order = Decision | Kill


@dataclass(frozen=True)
class Host:
    """What a backend may use of the controller that it works for."""

    loop: Loop
    """Takes events, and knows the time."""
    state: Callable[[], State]
    """The present state: it is replaced when the policy changes, or when the journal could not be written."""
    paths: Paths
    settings: Settings
    """As they were when the server started."""
    progress: Callable[[Mapping[str, Any]], None]
    """Takes what a run says of itself; raises where that makes no sense."""
    cluster: str
    """The name of the journal: a cluster has one for life."""


class Backend(Protocol):
    async def open(self, known: Mapping[JobId, JobState]) -> None:
        """Find the runs of these jobs again, before anything new is decided. Called again after `reset`."""

    def execute(self, order: Order) -> None:
        """Carry out what has been decided and is on disk. What comes of it comes back as events."""

    async def close(self) -> None:
        """Leave the runs alone: the next backend finds them."""


class Inventory(Protocol):
    """The nodes and GPUs that a backend knows."""

    numbers: GpuNumbers

    def nodes(self) -> Mapping[NodeId, Mapping[str, Any]]:
        """What is known of each node in addition to the state."""

    def readings(self) -> Mapping[tuple[NodeId, int], Mapping[str, Any]]:
        """What the driver last measured of each GPU."""

    def about(self) -> dict[str, Any]:
        """For `weft doctor`."""


class RunLogs(Protocol):
    """What runs wrote."""

    async def read(self, job: JobState, run: int, rank: int, offset: int, lines: int) -> LogPart | None:
        """A part of a log, from `offset` on or this many lines from the end; None: its node cannot be reached."""

    def kept(self, job: JobState, run: int, rank: int, lines: int) -> LogPart:
        """The last part of a log whose node cannot be reached, as far as it is at hand."""

    def tail(self, job: JobId, run: int) -> bytes:
        """The last part of a log, as far as it is at hand."""

    def forget(self, jobs: Iterable[JobId]) -> None:
        """Remove what is kept of these jobs."""


class Admission(Protocol):
    """Which jobs and settings a backend accepts."""

    @property
    def quotas(self) -> Quotas | None:
        """What one user may have; None: there is only one user."""

    def check_settings(self, settings: Settings) -> None:
        """Raise if the backend could not work with these."""

    def rules(self, scheduler: Scheduler) -> AdmissionRules:
        """What a job must be to be accepted, under this scheduler."""


class NoInventory:
    """Nothing is known of nodes but what the state says."""

    def __init__(self) -> None:
        self.numbers = GpuNumbers()

    def nodes(self) -> Mapping[NodeId, Mapping[str, Any]]:
        return {}

    def readings(self) -> Mapping[tuple[NodeId, int], Mapping[str, Any]]:
        return {}

    def about(self) -> dict[str, Any]:
        return {}


class NoRunLogs:
    """The backend keeps no logs."""

    async def read(self, _job: JobState, _run: int, _rank: int, _offset: int, _lines: int) -> LogPart | None:
        return MISSING

    def kept(self, _job: JobState, _run: int, _rank: int, _lines: int) -> LogPart:
        return MISSING

    def tail(self, _job: JobId, _run: int) -> bytes:
        return b""

    def forget(self, jobs: Iterable[JobId]) -> None:
        """There is nothing to remove."""


class AnyJob:
    """Every job that makes sense is accepted, under any policy."""

    quotas: Quotas | None = None

    def check_settings(self, settings: Settings) -> None:
        """Any settings will do."""

    def rules(self, scheduler: Scheduler) -> AdmissionRules:
        return ClusterRules(scheduler.state, GpuNumbers())


class Endpoint(Protocol):
    """What a backend serves at the port of its server."""

    def handler(self) -> grpc.GenericRpcHandler: ...

    def disconnect(self) -> None:
        """Send the clients away, before the port is closed."""


def _nothing() -> None:
    """What a backend does that has no use for a hook."""


@dataclass(frozen=True)
class BackendPorts:
    """A backend and the ports that it offers."""

    backend: Backend
    inventory: Inventory = field(default_factory=NoInventory)
    logs: RunLogs = field(default_factory=NoRunLogs)
    admission: Admission = field(default_factory=AnyJob)
    endpoint: Endpoint | None = None
    leave: Callable[[], None] = _nothing
    """Called at once when the server is told to stop; `close` follows when it has answered what it was asked."""
    reset: Callable[[], None] = _nothing
    """Called when the state went back to what the journal says: forget what was concluded from events that it lost.
    `open` follows."""


BuildBackend = Callable[[Host], BackendPorts]

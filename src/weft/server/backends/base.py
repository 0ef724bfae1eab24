"""The seam between the scheduler and the place where runs execute.

A `Backend` executes decisions. What happens to its runs comes back as events through the loop of its `Host`. The ports
`Inventory`, `RunLogs`, `Admission` and `Endpoint` are optional: `BackendPorts` has a default for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from weft.access.endpoints.paths import Paths
from weft.access.server.settings import Settings
from weft.access.wire.messages import SchedulerMessage
from weft.history.journal.postgres.blobs import BlobTable
from weft.model import Continued, Decision, JobId, NodeId, Suspended, Unwoven
from weft.node.engine.output.logs import MISSING, LogPart
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.server.jobs.admission import AdmissionRules, ClusterRules
from weft.server.jobs.quotas import Quotas
from weft.server.loop import Loop
from weft.server.shared_files import FolderOnly, SharedFiles
from weft.server.weaves.messages import DEFAULT_ORDER
from weft.server.weaves.monitor import WeaveMonitor
from weft.views.from_state.gpu_numbers import GpuNumbers
from weft.views.from_state.measured import BackendSummary, GpuUsage, NodeConnection

if TYPE_CHECKING:  # the server of one machine does not load gRPC
    import grpc


class Kill(NamedTuple):
    """End this run at once, without grace. Its `Stop` is already journalled."""

    job: JobId
    run: int


Order = Decision | Kill | Suspended | Continued | Unwoven
"""A decision of the scheduler, or a command of a user that needs no decision."""


@dataclass(frozen=True)
class Host:
    """The parts of the controller that a backend may use."""

    loop: Loop
    """Receives events. Its clock stamps them."""
    state: Callable[[], State]
    """Returns the current state. Do not keep it: a change of policy or a failed write of the journal replaces it."""
    paths: Paths
    settings: Settings
    """As they were when the server started."""
    progress: Callable[[Mapping[str, Any]], None]
    """Receives the progress that a run reports. Raises if the report is invalid."""
    cluster: str
    """The name of the journal. It identifies the cluster and never changes."""
    weaves: WeaveMonitor = field(default_factory=WeaveMonitor)
    """Receives the counters of woven runs."""
    order: Callable[[], str] = lambda: DEFAULT_ORDER
    """Returns how the members of a weave take turns."""
    files: SharedFiles = field(default_factory=FolderOnly)
    """Receives the names of changed files that the next leader needs."""
    blobs: BlobTable | None = None
    """Uploaded files that are not in the folder alone."""
    leader_epoch: int = 0
    """The epoch under which this server leads; 0: it is the only one."""
    ejected: Callable[[], Set[JobId]] = frozenset
    """Returns the replicas to which no router sends requests, because they fail."""


class Backend(Protocol):
    async def open(self, known: Mapping[JobId, JobState]) -> None:
        """Find the runs of these jobs again, before anything new is decided. Called again after `reset`."""

    def execute(self, order: Order) -> None:
        """Execute a decision that is on disk. The result comes back as events."""

    async def close(self) -> None:
        """Let go of the runs without stopping them: the next backend finds them again."""


class Inventory(Protocol):
    """The nodes and GPUs that a backend knows."""

    numbers: GpuNumbers

    def nodes(self) -> Mapping[NodeId, NodeConnection]:
        """Return the connection status of each node."""

    def readings(self) -> Mapping[tuple[NodeId, int], GpuUsage]:
        """Return what the driver last measured of each GPU."""

    def summary(self) -> BackendSummary:
        """Return what `weft doctor` shows."""


class RunLogs(Protocol):
    """The output of runs."""

    async def read(
        self, job: JobState, run: int, rank: int, offset: int, lines: int, *, stderr: bool = False
    ) -> LogPart | None:
        """Return a part of a log, from `offset` on or the last `lines`. None: the node cannot be reached."""

    def kept(self, job: JobState, run: int, rank: int, lines: int) -> LogPart:
        """Return the last part of a log whose node cannot be reached, as far as the server keeps it."""

    def tail(self, job: JobId, run: int) -> bytes:
        """Return the last part of a log that can be read without waiting."""

    def forget(self, jobs: Iterable[JobId]) -> None:
        """Remove the logs of these jobs."""


class Admission(Protocol):
    """The jobs and settings that a backend accepts."""

    @property
    def quotas(self) -> Quotas | None:
        """The quotas of users. None: there is only one user."""

    def check_settings(self, settings: Settings) -> None:
        """Raise if the backend cannot work with these settings."""

    def rules(self, scheduler: Scheduler) -> AdmissionRules:
        """Return the checks that a job must pass under this scheduler."""


class NoInventory:
    """For a backend that knows no more about nodes than the state does."""

    def __init__(self) -> None:
        self.numbers = GpuNumbers()

    def nodes(self) -> Mapping[NodeId, NodeConnection]:
        return {}

    def readings(self) -> Mapping[tuple[NodeId, int], GpuUsage]:
        return {}

    def summary(self) -> BackendSummary:
        return BackendSummary()


class NoRunLogs:
    """For a backend that keeps no logs."""

    async def read(
        self,
        _job: JobState,
        _run: int,
        _rank: int,
        _offset: int,
        _lines: int,
        *,
        stderr: bool = False,  # noqa: ARG002
    ) -> LogPart | None:
        return MISSING

    def kept(self, _job: JobState, _run: int, _rank: int, _lines: int) -> LogPart:
        return MISSING

    def tail(self, _job: JobId, _run: int) -> bytes:
        return b""

    def forget(self, jobs: Iterable[JobId]) -> None:
        """Remove nothing."""


class AnyJob:
    """For a backend that accepts every valid job, under any policy."""

    quotas: Quotas | None = None

    def check_settings(self, settings: Settings) -> None:
        """Accept all settings."""

    def rules(self, scheduler: Scheduler) -> AdmissionRules:
        return ClusterRules(scheduler.state, GpuNumbers())


class Endpoint(Protocol):
    """The gRPC methods that a backend serves on the port of its server."""

    def handler(self) -> grpc.GenericRpcHandler: ...

    def disconnect(self) -> None:
        """Close the connections, before the port is closed."""


def _do_nothing() -> None:
    """The default hook."""


def _send_nothing(_node: NodeId, _message: SchedulerMessage) -> bool:
    """The default of `send_to`: no node is connected."""
    return False


@dataclass(frozen=True)
class BackendPorts:
    """A backend and the ports that it offers."""

    backend: Backend
    inventory: Inventory = field(default_factory=NoInventory)
    logs: RunLogs = field(default_factory=NoRunLogs)
    admission: Admission = field(default_factory=AnyJob)
    endpoint: Endpoint | None = None
    send_to: Callable[[NodeId, SchedulerMessage], bool] = _send_nothing
    """Sends a message to a node; returns False if the node is not connected."""
    leave: Callable[[], None] = _do_nothing
    """Called as soon as the server must stop. `close` comes later, when all calls are answered."""
    reset: Callable[[], None] = _do_nothing
    """Called when the state was rebuilt from the journal: drop what followed from lost events. `open` comes next."""


BuildBackend = Callable[[Host], BackendPorts]

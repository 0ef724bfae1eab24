"""Measurements beyond the state: nodes, GPUs, woven runs, services. Answers, metrics and `weft doctor` show them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from weft.model import JobId, NodeId, Profile, Seconds
from weft.views.answers.doctor import DeviceView, MembersView
from weft.views.answers.nodes import ShareView


@dataclass(frozen=True, slots=True)
class NodeConnection:
    """The connection of a node. All None: the node needs none."""

    state: str | None = None
    """connected, silent or lost."""
    beat_s: float | None = None
    """Seconds since the last heartbeat."""
    load: float | None = None
    """The load average that the last heartbeat reported."""
    address: str | None = None
    port: int | None = None
    version: str | None = None
    lost_in_s: float | None = None
    """Seconds until the scheduler gives the node up; None while it is connected."""


@dataclass(frozen=True, slots=True)
class GpuUsage:
    """The usage of a GPU that the driver last measured."""

    used_mb: int | None = None
    utilisation: float | None = None
    processes: int | None = None
    misplaced: Sequence[str] | None = None
    """Jobs with a process on this GPU that was not allocated to them. None: the backend does not check."""
    shares: Sequence[ShareView] | None = None
    """The runs that share this GPU; None: none does."""
    error: str = ""
    """The error that the driver reports for the GPU; empty: none."""
    energy_j: float | None = None
    """The energy that the GPU has used since its driver was loaded; None: unknown."""


class SharedRun(Protocol):
    """A run that shares a GPU, as its node reports it."""

    @property
    def gpu(self) -> int: ...
    @property
    def job(self) -> JobId: ...
    @property
    def kind(self) -> str: ...
    @property
    def request(self) -> float: ...
    @property
    def limit(self) -> float: ...
    @property
    def busy(self) -> bool: ...
    @property
    def rate(self) -> float: ...
    @property
    def enforced(self) -> Sequence[str]: ...
    @property
    def advisory(self) -> Sequence[str]: ...


def with_shares(
    usages: dict[tuple[NodeId, int], GpuUsage], node: NodeId, runs: Iterable[SharedRun]
) -> dict[tuple[NodeId, int], GpuUsage]:
    """Add the runs that share GPUs of a node."""
    shares: dict[int, list[ShareView]] = {}
    for run in runs:
        share = ShareView(
            run.job, run.kind, run.request, run.limit, run.busy, run.rate, list(run.enforced), list(run.advisory)
        )
        shares.setdefault(run.gpu, []).append(share)
    for gpu, here in shares.items():
        usages[node, gpu] = replace(usages.get((node, gpu), GpuUsage()), shares=here)
    return usages


@dataclass(frozen=True, slots=True)
class BackendSummary:
    """The nodes and GPUs of a backend, for `weft doctor`."""

    node: str = ""
    nodes: MembersView | None = None
    """The members of a cluster; None: one machine."""
    gpus: Sequence[DeviceView] = ()
    gpus_from: str = ""
    driver: str = ""
    cpus: int = 0
    ram_mb: int = 0
    limits: str = ""
    """The way limits on main memory and CPUs are kept; empty: it depends on the node."""
    shared: str = ""
    """The folder of the shared GPU ledger; empty: there is none."""
    shared_problem: str = ""
    lease_s: float | None = None
    beat_s: float | None = None
    problems: Sequence[str] | None = None
    """Problems of nodes and of runs; None: one machine."""


@dataclass(frozen=True, slots=True)
class StageUse:
    """The turns of a run in one stage since it joined its weave."""

    served_s: float = 0.0
    waited_s: float = 0.0
    grants: int = 0
    passed_over: int = 0

    @property
    def mean_s(self) -> float | None:
        """The mean time of the stage; None: it was never entered."""
        return self.served_s / self.grants if self.grants else None

    @property
    def mean_wait_s(self) -> float | None:
        return self.waited_s / self.grants if self.grants else None


@dataclass(slots=True)
class WovenRun:
    """A run in its present weave, as it last reported."""

    run: int
    weave_id: str
    since: Seconds
    """The time of the first report of this weave."""
    stages: Mapping[str, StageUse] = field(default_factory=dict)
    rate: float | None = None
    """Iterations per second against the profile's, over the last seconds; None: not known yet."""
    served_at: Seconds = 0.0
    """The time of the last report with a new token."""
    profiled_at: Seconds = 0.0
    rated_at: Seconds = 0.0
    recorded_rate: float | None = None
    measured: Profile | None = None
    """The stage times that were last recorded."""
    iterations: deque[tuple[Seconds, int]] = field(default_factory=deque)
    passes: deque[tuple[Seconds, int]] = field(default_factory=deque)

    @property
    def grants(self) -> int:
        return sum(stage.grants for stage in self.stages.values())

    @property
    def passed_over(self) -> int:
        return sum(stage.passed_over for stage in self.stages.values())


class MeasuredLoad(NamedTuple):
    """The load of a service in the last second, for `weft services` and metrics."""

    arrivals: float = 0.0
    in_flight: float = 0.0
    queued: int = 0
    capacity: float = 0.0


NO_LOAD: Final = MeasuredLoad()

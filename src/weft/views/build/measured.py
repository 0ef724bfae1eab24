"""Knowledge of a backend about its nodes and GPUs beyond the state. Answers, metrics and `weft doctor` show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from weft.access.wire.messages import GpuShare, NodeStatus
from weft.views.answers.doctor import DeviceView, MembersView
from weft.views.answers.nodes import ShareView
from weft.model import NodeId
from weft.node.engine.gpu.sharing import SharedRun


@dataclass(frozen=True, slots=True)
class NodeConnection:
    """The connection of a node. All None: the node needs none."""

    state: str | None = None
    """connected, silent or lost."""
    beat_s: float | None = None
    """Seconds since the last heartbeat."""
    status: NodeStatus | None = None
    """As the last heartbeat reported it."""
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


def with_shares(
    usages: dict[tuple[NodeId, int], GpuUsage], node: NodeId, runs: Iterable[GpuShare | SharedRun]
) -> dict[tuple[NodeId, int], GpuUsage]:
    """Add the runs that share GPUs of a node."""
    for run in runs:
        before = usages.get((node, run.gpu), GpuUsage())
        share = ShareView(
            run.job, run.kind, run.request, run.limit, run.busy, run.rate, list(run.enforced), list(run.advisory)
        )
        usages[node, run.gpu] = replace(before, shares=[*(before.shares or ()), share])
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

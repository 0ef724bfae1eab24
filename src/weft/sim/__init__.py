"""The simulator: the driver that plays a trace through the scheduling core in simulated time."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # like `typing.TYPE_CHECKING`, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from weft.history.metrics.figures import figures, gather
    from weft.model import Gpu, Job, Node
    from weft.sim.clusters.reader import read_cluster
    from weft.sim.simulation import Setting, simulate
    from weft.sim.traces.trace import TraceJob, read_trace

__all__ = [
    "Gpu", "Job", "Node", "Setting", "TraceJob", "figures", "gather", "read_cluster", "read_trace", "simulate",
]  # fmt: skip

_HOME = {
    **dict.fromkeys(("figures", "gather"), "weft.history.metrics.figures"),
    **dict.fromkeys(("Gpu", "Job", "Node"), "weft.model"),
    "read_cluster": "weft.sim.clusters.reader",
    **dict.fromkeys(("Setting", "simulate"), "weft.sim.simulation"),
    **dict.fromkeys(("TraceJob", "read_trace"), "weft.sim.traces.trace"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: modules of this package cost nothing that they do not need."""
    if name not in _HOME:
        raise AttributeError(f"module 'weft.sim' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)

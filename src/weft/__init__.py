"""Weft schedules deep-learning jobs on GPUs. This module has the public names of the library."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # like `typing.TYPE_CHECKING`, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from weft.access.client.api import JobHandle, submit, submit_many
    from weft.access.client.functions import JobFunction, job
    from weft.access.client.services import ServiceHandle, deploy
    from weft.errors import WeftError
    from weft.history.journal import open_journal
    from weft.history.metrics.figures import figures, gather
    from weft.model import Job, Node
    from weft.scheduling.core.explain import explain
    from weft.scheduling.core.ports import Ask, JobView, Placement, Policy, Replanner, View
    from weft.scheduling.core.scheduler import Scheduler
    from weft.sim.clusters.reader import read_cluster
    from weft.sim.simulation import Setting, simulate
    from weft.sim.traces.trace import read_trace
    from weft.version import __version__

__all__ = [
    "Ask", "Job", "JobFunction", "JobHandle", "JobView", "Node", "Placement", "Policy", "Replanner", "Scheduler",
    "ServiceHandle", "Setting", "View", "WeftError", "__version__", "deploy", "explain", "figures", "gather", "job",
    "open_journal", "read_cluster", "read_trace", "simulate", "submit", "submit_many",
]  # fmt: skip

_HOME = {
    **dict.fromkeys(("Ask", "JobView", "Placement", "Policy", "Replanner", "View"), "weft.scheduling.core.ports"),
    **dict.fromkeys(("Job", "Node"), "weft.model"),
    **dict.fromkeys(("JobHandle", "submit", "submit_many"), "weft.access.client.api"),
    **dict.fromkeys(("JobFunction", "job"), "weft.access.client.functions"),
    **dict.fromkeys(("ServiceHandle", "deploy"), "weft.access.client.services"),
    **dict.fromkeys(("Setting", "simulate"), "weft.sim.simulation"),
    **dict.fromkeys(("figures", "gather"), "weft.history.metrics.figures"),
    "Scheduler": "weft.scheduling.core.scheduler",
    "WeftError": "weft.errors",
    "__version__": "weft.version",
    "explain": "weft.scheduling.core.explain",
    "open_journal": "weft.history.journal",
    "read_cluster": "weft.sim.clusters.reader",
    "read_trace": "weft.sim.traces.trace",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import weft` alone costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
